#!/usr/bin/env python3
"""Makes the golden vectors of this folder (README.md says what they are).

    make_golden.py [FOLDER]     writes decode.bin and products.bin (default: beside this file)
    make_golden.py --check      makes them anew in memory and compares; exit 1 when they differ

Needs the PyPI packages gguf and numpy.
"""

import argparse
import math
import os
import struct
import sys

import gguf
import numpy as np

import arith
import formats

SEED = 20240607
HERE = os.path.dirname(os.path.abspath(__file__))

# Where the binary16 scales and minima of a block lie.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
}  # fmt: skip
SPECIAL_HALVES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01]
FINITE_SPECIALS = SPECIAL_HALVES[:7]

F32, A8 = 1, 2


def random_halves(rng, count, kind):
    """Ordinary: 100-fold apart, both signs. Special: some of the corners among any finite bits."""
    if kind == "special":
        h = rng.integers(0, 0x10000, count).astype(np.uint16)
        h = np.where(h & 0x7C00 == 0x7C00, h & 0x83FF, h)
        picks = rng.integers(0, len(FINITE_SPECIALS), count)
        return np.where(rng.random(count) < 0.25, np.array(FINITE_SPECIALS, np.uint16)[picks], h)
    size = 10.0 ** rng.uniform(-4, -2, count) * rng.choice([-1, 1], count, p=[0.25, 0.75])
    return size.astype(np.float16).view(np.uint16)


def random_weight(rng, fmt, rows, cols, group, kind):
    """Bytes of codes and of scales. Special weights hold one infinite and one NaN scale, each in a
    row of its own where there are three rows."""
    if fmt.plain:
        values = rng.standard_normal((rows, cols)).astype(np.float32)
        if kind == "special":
            values *= (2.0 ** rng.integers(-140, 40, values.shape)).astype(np.float32)
            if rows > 2:
                values[1, cols // 2], values[2, cols // 3] = np.inf, np.nan
        if fmt.name == "F32":
            return values.astype("<f4").tobytes(), b""
        if fmt.name == "F16":
            with np.errstate(over="ignore"):
                return values.astype("<f2").tobytes(), b""
        return (values.view(np.uint32) >> 16).astype("<u2").tobytes(), b""
    size = formats.row_bytes(fmt, cols)
    codes = rng.integers(0, 256, rows * size).astype(np.uint8)
    if fmt.inputs:
        blocks = codes.reshape(rows, -1, fmt.bytes)
        for at in HALVES.get(fmt.name, []):
            halves = random_halves(rng, blocks.shape[0] * blocks.shape[1], kind)
            halves = halves.reshape(blocks.shape[:2])
            if kind == "special" and rows > 2:
                halves[1, -1], halves[2, 0] = 0x7C00, 0x7E01
            blocks[:, :, at] = halves & 255
            blocks[:, :, at + 1] = halves >> 8
        if fmt.name == "MXFP4" and kind == "ordinary":
            blocks[:, :, 0] = rng.integers(110, 125, blocks.shape[:2])
        if fmt.name == "NVFP4":
            blocks[:, :, :4] &= 0x3F if kind == "ordinary" else 0xFF
        return codes.tobytes(), b""
    if fmt.floats and kind == "ordinary":  # fp8: no NaN codes
        codes = np.where(codes & 127 == 127, codes & 0x80, codes).astype(np.uint8)
    count = formats.scale_count(fmt, rows, cols, group)
    if fmt.name == "mxfp4-group32":
        low, high = (110, 125) if kind == "ordinary" else (0, 256)
        return codes.tobytes(), rng.integers(low, high, count).astype(np.uint8).tobytes()
    scales = random_halves(rng, count, "ordinary").view(np.float16).astype("<f4")
    if kind == "special":
        scales *= (2.0 ** rng.integers(-130, 100, count)).astype(np.float32)
        if count > 2:
            scales[-1], scales[count // 2] = np.nan, -np.inf
    return codes.tobytes(), scales.astype("<f4").tobytes()


def ordinary_x(rng, tokens, cols):
    return rng.standard_normal((tokens, cols)).astype(np.float32)


def near_halves(rng, cols):
    """Activations that x * r rounds one way and x / d the other (class A8 multiplies)."""
    x = ordinary_x(rng, 1, cols)[0]
    for start in range(0, cols, 32):
        amax = np.float32(rng.uniform(1, 2))
        x[start : start + 32] = np.clip(x[start : start + 32], -amax, amax)
        x[start] = amax
        d = arith.divide(float(amax), 127.0)
        r = arith.divide(1.0, d)
        found = []
        for k in rng.permutation(127):
            half_way = arith.bits(float(np.float32((k + 0.5) * d)))
            for step in range(-3, 4):
                value = arith.value(half_way + step)
                if arith.rint(arith.multiply(value, r)) != arith.rint(arith.divide(value, d)):
                    found.append(value)
        found = found[: max(0, min(32, cols - start) - 1)]
        x[start + 1 : start + 1 + len(found)] = found
    return x


def special_x(rng, cols):
    """Five rows: corners of finite values, an infinity, a NaN, ties of class A8's rounding, and
    values next to ties."""
    x = ordinary_x(rng, 5, cols)
    x[0] *= (2.0 ** rng.integers(-150, 20, cols)).astype(np.float32)
    corners = np.array([0x00000000, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000], np.uint32)
    where = rng.random(cols) < 0.3
    x[0, where] = corners[rng.integers(0, corners.size, int(where.sum()))].view(np.float32)
    x[1, rng.integers(0, cols)] = np.inf
    x[2, rng.integers(0, cols)] = np.nan
    x[3] = rng.integers(-253, 254, cols) / np.float32(2)
    x[3, ::32] = 127.0
    x[4] = near_halves(rng, cols)
    return x


def tiny_x(rng, cols):
    """Around the smallest activation block of class A8, 2^-40, and in the subnormal range."""
    x = np.clip(ordinary_x(rng, 4, cols), -3, 3) / np.float32(4)
    x *= np.float32(2.0**-40)
    x[0, ::32] = np.float32(2.0**-40)
    x[1, ::32] = np.nextafter(np.float32(2.0**-40), np.float32(0))
    x[2, ::32] = -np.float32(2.0**-40)
    x[3] = 1e-40
    return x


def large_sums_x(cols):
    """32 times 3000, then 32 times -60000, and so on."""
    return np.where(np.arange(cols) // 32 % 2 == 0, 3000.0, -60000.0).astype(np.float32)[None, :]


def record(name, fmt, layout, group, rows, cols, codes, scales, x, results):
    """One record: see golden.h, which reads it."""
    tokens = 0 if x is None else x.shape[0]
    head = struct.pack(
        "<32sIIIIQQQQQQ",
        name.encode(), fmt.id, layout, len(results), 0,
        group, rows, cols, tokens, len(codes), len(scales),
    )  # fmt: skip
    body = codes + scales + (b"" if x is None else x.astype("<f4").tobytes())
    padding = -len(body) % 4
    return head + body + b"\0" * padding + b"".join(r.astype("<u4").tobytes() for r in results)


def write(path, records, check):
    data = b"TENONGLD" + struct.pack("<II", 1, len(records)) + b"".join(records)
    if check:
        with open(path, "rb") as file:
            same = file.read() == data
        print(f"{os.path.basename(path)}: {'same' if same else 'DIFFERS'}")
        return same
    with open(path, "wb") as file:
        file.write(data)
    print(f"{path}: {len(records)} records, {len(data)} bytes")
    return True


# ---------------------------------------------------------------------------------------- decoding


def all_codes(fmt, codes):
    """Every scale byte once, where a format has a small scale."""
    blocks = np.frombuffer(codes, np.uint8).reshape(-1, fmt.bytes).copy()
    if fmt.name == "MXFP4":
        blocks[:256, 0] = np.arange(256)
    if fmt.name == "NVFP4":
        blocks[:64, :4] = np.arange(256).reshape(64, 4)
    return blocks.tobytes()


def oracle(fmt, layout, group, rows, cols, codes, scales):
    """The weights as the package gguf decodes them, or our own decode where it knows no format."""
    if not fmt.inputs:
        own = [
            formats.weights_of(formats.decode_row(fmt, layout, group, cols, r, codes, scales))
            for r in range(rows)
        ]
        return np.stack(own)
    raw = np.frombuffer(codes, np.uint8).reshape(rows, -1)
    kind = gguf.GGMLQuantizationType[fmt.name]
    with np.errstate(invalid="ignore", over="ignore"):
        if fmt.name in ("F32", "F16"):
            return raw.view("<f4" if fmt.name == "F32" else "<f2").astype(np.float32)
        return gguf.quants.dequantize(raw, kind).astype(np.float32).reshape(rows, cols)


def known_difference(fmt, row):
    """Where gguf decodes 2^127 or 0 and the contract says NaN (SPEC.md 2.4)."""
    if fmt.name in ("MXFP4", "NVFP4"):
        return np.repeat(np.isnan(row.s), row.block)
    return np.zeros(row.q.size, bool)


def same_bits(a, b):
    nan = np.isnan(a) & np.isnan(b)
    return (a.view(np.uint32) == b.view(np.uint32)) | nan


def decode_records(rng):
    records = []
    for fmt in formats.FORMATS:
        for layout in fmt.layouts:
            groups = (1, 32, 48, 100, 300) if fmt.block == -1 else (0,)
            for group in groups:
                rows = 130 if fmt.name == "fp8-e4m3-b128" else 3
                cols = {"MXFP4": 2752, "NVFP4": 1408, "fp8-e4m3-b128": 131}.get(fmt.name, 768)
                if not fmt.inputs and rows == 3:
                    cols = 365
                codes, scales = random_weight(rng, fmt, rows, cols, group, "special")
                if fmt.inputs > 1:
                    codes = all_codes(fmt, codes)
                want = oracle(fmt, layout, group, rows, cols, codes, scales)
                for r in range(rows):
                    row = formats.decode_row(fmt, layout, group, cols, r, codes, scales)
                    own, known = formats.weights_of(row), known_difference(fmt, row)
                    assert np.isnan(own[known]).all()
                    wrong = ~(same_bits(own, want[r]) | known)
                    assert not wrong.any(), (fmt.name, r, np.flatnonzero(wrong)[:8])
                name = f"decode-{fmt.name}"
                records.append(
                    record(name, fmt, layout, group, rows, cols, codes, scales, None,
                           [want.view(np.uint32)])
                )  # fmt: skip
    return records


# ---------------------------------------------------------------------------------------- products


def product_record(name, fmt, layout, group, rows, cols, codes, scales, x):
    """y of class F32 and, where the format has it, of class A8, as bits."""
    results = [np.zeros((x.shape[0], rows), np.uint32) for _ in range(1 if fmt.floats else 2)]
    decoded = [
        formats.decode_row(fmt, layout, group, cols, r, codes, scales) for r in range(rows)
    ]
    for token in range(x.shape[0]):
        values = [float(v) for v in x[token]]
        d, u = arith.activations(values)
        for r, row in enumerate(decoded):
            y = [arith.product_f32(fmt, row, values)]
            if not fmt.floats:
                y.append(arith.product_a8(fmt, row, d, u))
            for result, bits in zip(results, y):
                assert bits != 0 or math.copysign(1, bits) == 1, "y is never -0"
                result[token, r] = arith.bits(bits)
    return record(name, fmt, layout, group, rows, cols, codes, scales, x, results)


def columns_of(fmt):
    """(ordinary, short) row lengths."""
    if fmt.inputs == 256:
        return 512, [256]
    if fmt.inputs == 64:
        return 320, [64]
    if fmt.inputs == 32:
        return 352, [32, 96]
    return 301, [1, 7, 33]


def product_records(rng):
    records = []

    def make(name, fmt, layout, group, rows, cols, kind, x):
        codes, scales = random_weight(rng, fmt, rows, cols, group, kind)
        records.append(
            product_record(name, fmt, layout, group, rows, cols, codes, scales, x)
        )

    for fmt in formats.FORMATS:
        cols, short = columns_of(fmt)
        for layout in fmt.layouts:
            group = 32 if fmt.block == -1 else 0
            x = ordinary_x(rng, 2, cols)
            make("ordinary", fmt, layout, group, 3, cols, "ordinary", x)
            make("special", fmt, layout, group, 3, cols, "special", special_x(rng, cols))
            make("tiny", fmt, layout, group, 2, short[-1], "ordinary", tiny_x(rng, short[-1]))
            for few in short:
                x = ordinary_x(rng, 1, few)
                make("short", fmt, layout, group, 2, few, "ordinary", x)
            if fmt.block == 0:  # cut at 256
                for many in (256, 257, 700):
                    x = ordinary_x(rng, 2, many)
                    make("row", fmt, layout, group, 2, many, "ordinary", x)
            if fmt.block == -1:
                for size, many in ((1, 70), (5, 300), (48, 700), (64, 200), (128, 700),
                                   (255, 600), (256, 600), (257, 600), (300, 700), (512, 1100),
                                   (1 << 40, 600)):  # fmt: skip
                    x = ordinary_x(rng, 1, many)
                    make("group", fmt, layout, size, 2, many, "ordinary", x)
        if fmt.minima or fmt.name == "Q8_0":
            x = large_sums_x(max(64, fmt.inputs))
            make("large-sums", fmt, 0, 0, 2, x.shape[1], "ordinary", x)
    fp8 = formats.BY_NAME["fp8-e4m3-b128"]
    make("two-scale-rows", fp8, 0, 0, 130, 140, "ordinary", ordinary_x(rng, 1, 140))
    # A sum that a binary16 accumulator cannot hold: 4096 * 8 * 8 = 262144.
    eights = np.full((1, 4096), 8.0, np.float32)
    records.append(
        product_record("half-sums", formats.BY_NAME["F16"], 0, 0, 1, 4096,
                       eights.astype("<f2").tobytes(), b"", eights)
    )  # fmt: skip
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=HERE)
    parser.add_argument("--check", action="store_true", help="compare with the stored files")
    arguments = parser.parse_args()
    good = True
    for file, make in (("decode.bin", decode_records), ("products.bin", product_records)):
        records = make(np.random.default_rng(SEED))
        good = write(os.path.join(arguments.folder, file), records, arguments.check) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
