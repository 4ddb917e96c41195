#!/usr/bin/env python3
"""Makes operations.bin: answers of the operations of SPEC.md 2.4 (README.md says what they are).

    make_operations.py [FOLDER]   writes it (default: beside this file)
    make_operations.py --check    makes it anew in memory and compares; exit 1 when it differs

Needs the PyPI package numpy. Every answer of operations.py is also compared with binary64 here.
"""

import math
import os
import struct
import sys

import numpy as np

import operations as op

SEED = 20240611
HERE = os.path.dirname(os.path.abspath(__file__))
CORNERS = [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF,
           0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000]  # fmt: skip
F32, F16 = 1, 2
NONE, ADJACENT, HALVES = 0, 1, 2


def record(name, parameters, *arrays):
    """See operations.h, which reads it."""
    out = struct.pack("<32s16I", name.encode(), *(parameters + [0] * 16)[:16])
    out += struct.pack("<I", len(arrays))
    for array in arrays:
        out += struct.pack(f"<I{len(array)}I", len(array), *array)
    return out


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def listed(array):
    return [float(v) for v in np.asarray(array, np.float32).ravel()]


def near(have, want, tolerance, what):
    have, want = np.asarray(have, np.float64), np.asarray(want, np.float64)
    worst = np.max(np.abs(have - want) / (1e-3 + np.abs(want)))
    assert worst < tolerance, (what, worst)


def exp_records(rng):
    x = op.floats(CORNERS) + listed(rng.uniform(-110, 95, 3000)) + listed(normal(rng, 500))
    x += listed(rng.uniform(-104.5, -87, 500))
    y = [op.exp(v) for v in x]
    inside = [(a, b) for a, b in zip(x, y) if -87 < a < 88]
    near([b for _, b in inside], np.exp(np.array([a for a, _ in inside])), 1e-7, "exp")
    return [record("exp", [], op.patterns(x), op.patterns(y))]


def rmsnorm_records(rng):
    records = []
    eps = float(np.float32(1e-5))

    def make(x, w, epsilon):
        y = op.rmsnorm(x, w, epsilon)
        records.append(record("rmsnorm", [], op.patterns(x), op.patterns(w),
                              op.patterns([epsilon]), op.patterns(y)))  # fmt: skip
        return y

    for n in (1, 3, 15, 16, 17, 64, 576, 640):
        x, w = listed(normal(rng, n)), listed(normal(rng, n))
        y = make(x, w, eps)
        a = np.array(x)
        near(y, a / np.sqrt(np.mean(a * a) + eps) * np.array(w), 1e-6, "rmsnorm")
    make([0.0] * 20, [1.0] * 20, 0.0)  # v = 0: r = 0
    make([0.0, -0.0] * 10, [-1.0] * 20, eps)
    make([1e-30] * 33, [2.0] * 33, 0.0)  # squares below all numbers
    make(listed(normal(rng, 40) * np.float32(1e-19)), listed(normal(rng, 40)), 0.0)
    make([3e38, 1.0, -2.0] * 7, [1.0] * 21, eps)  # squares above all numbers
    make([1.0, math.nan, 2.0], [1.0] * 3, eps)
    make([1.0, math.inf, 2.0], [1.0] * 3, eps)
    return records


def gated_records(rng):
    records = []
    gate = op.floats(CORNERS) + [-1e4, -100.0, -88.8, 0.0, 89.0, 1e4, -14.5, 14.5, -14.6, 20.0]
    gate = listed(gate) + listed(rng.uniform(-20, 20, 800)) + listed(normal(rng, 400))
    up = [2.0] * len(gate)
    exact = {
        1: lambda x: x / (1 + math.exp(-x)),
        2: lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        3: lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)),
        4: lambda x: max(x, 0.0),
    }
    for activation, function in exact.items():
        y = op.gated(activation, gate, up)
        inside = [(a, b) for a, b in zip(gate, y) if abs(a) < 12]
        near([b for _, b in inside], [2 * function(a) for a, _ in inside], 3e-6, activation)
        records.append(record("gated", [activation], op.patterns(gate), op.patterns(up),
                              op.patterns(y)))  # fmt: skip
    return records


def turns_of(positions, rotary, base):
    """(cos, sin) of every position and pair, made in binary64."""
    angle = np.arange(positions)[:, None] * base ** (-2.0 * np.arange(rotary // 2) / rotary)
    return np.stack([np.cos(angle), np.sin(angle)], -1).astype(np.float32)


def float64_attention(q, k, v, scale, first, position, table, rotary, pairing):
    def turned(x, at):
        y = np.array(x, np.float64)
        for i in range(rotary // 2):
            a, b = (i, i + rotary // 2) if pairing == HALVES else (2 * i, 2 * i + 1)
            c, s = (float(t) for t in table[at, i])
            y[a], y[b] = x[a] * c - x[b] * s, x[b] * c + x[a] * s
        return y

    q = turned(q, position)
    scores = np.array([q @ turned(k[t], t) * scale for t in range(first, position + 1)])
    e = np.exp(scores - scores.max())
    return (e[:, None] * v[first : position + 1].astype(np.float64)).sum(0) / e.sum()


def attention_record(rng, positions, tokens, kv_heads, heads, size, kind, pairing, rotary, window,
                     spread=1.0):  # fmt: skip
    scale = float(np.float32(spread / math.sqrt(size)))
    k, v = normal(rng, positions, kv_heads, size), normal(rng, positions, kv_heads, size)
    q = normal(rng, tokens, heads, size)
    table = turns_of(positions, rotary, 10000.0) if pairing else np.zeros((positions, 0, 2))
    y = []
    for token in range(tokens):
        position = positions - tokens + token
        first = position - window + 1 if window and window <= position else 0
        for head in range(heads):
            group = head // (heads // kv_heads)
            turns = [[(float(c), float(s)) for c, s in row] for row in table] if pairing else None
            out = op.attention(
                listed(q[token, head]), [listed(r) for r in k[:, group]],
                [listed(r) for r in v[:, group]], scale, position, window, turns, rotary,
                pairing == HALVES, kind == F16,
            )  # fmt: skip
            want = float64_attention(q[token, head], k[:, group], v[:, group], scale, first,
                                     position, table, rotary, pairing)  # fmt: skip
            near(out, want, 3e-2 if kind == F16 else 1e-3, "attention")
            y += out
    parameters = [positions, tokens, kv_heads, heads, size, kind, pairing, rotary, window]
    return record("attention", parameters, op.patterns([scale]), op.patterns(listed(table)),
                  op.patterns(listed(q)), op.patterns(listed(k)), op.patterns(listed(v)),
                  op.patterns(y))  # fmt: skip


def attention_records(rng):
    return [
        attention_record(rng, *case)
        for case in (
            (1, 1, 1, 1, 1, F32, NONE, 0, 0),
            (5, 5, 2, 4, 8, F32, ADJACENT, 8, 0),
            (5, 5, 2, 4, 8, F16, HALVES, 8, 0),
            (9, 3, 1, 3, 20, F32, HALVES, 6, 4),
            (9, 3, 1, 3, 20, F16, ADJACENT, 20, 1),
            (17, 2, 1, 1, 33, F16, HALVES, 32, 0, 8.0),
            (300, 2, 1, 2, 4, F32, ADJACENT, 4, 0, 4.0),
            (300, 2, 1, 2, 4, F16, HALVES, 4, 100, 4.0),
            (530, 1, 1, 1, 4, F32, HALVES, 2, 290, 20.0),
            (513, 2, 1, 1, 2, F32, NONE, 0, 0, 2.0),
        )
    ]


def main():
    records = []
    for make in (exp_records, rmsnorm_records, gated_records, attention_records):
        records += make(np.random.default_rng(SEED))
    data = b"TENONOPS" + struct.pack("<II", 1, len(records)) + b"".join(records)
    arguments = sys.argv[1:]
    if arguments == ["--check"]:
        with open(os.path.join(HERE, "operations.bin"), "rb") as file:
            same = file.read() == data
        print(f"operations.bin: {'same' if same else 'DIFFERS'}")
        return 0 if same else 1
    path = os.path.join(arguments[0] if arguments else HERE, "operations.bin")
    with open(path, "wb") as file:
        file.write(data)
    print(f"{path}: {len(records)} records, {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
