"""Weight formats of SPEC.md 3 in NumPy: from the bytes of a row to codes, scales and minima.

Written from the mapping table of the specification, apart from the C sources, so that a slip in one
of them shows. Scales are float32 that hold the exact value; make_golden.py compares every GGUF
format with the decoder of the Python package gguf.
"""

from dataclasses import dataclass

import numpy as np

E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])


@dataclass
class Format:
    name: str
    id: int
    inputs: int = 0  # of a stored block, 0: separate scales
    bytes: int = 0
    block: int = 0  # B of SPEC.md 2.2; 0: the row, -1: the group size
    minima: bool = False
    subscales: bool = False
    floats: bool = False
    plain: bool = False  # no scale step
    layouts: tuple = (0,)


FORMATS = [
    Format("F32", 1, 1, 4, 256, floats=True, plain=True),
    Format("F16", 2, 1, 2, 256, floats=True, plain=True),
    Format("BF16", 3, 1, 2, 256, floats=True, plain=True),
    Format("Q4_0", 4, 32, 18, 32),
    Format("Q4_1", 5, 32, 20, 32, minima=True),
    Format("Q5_0", 6, 32, 22, 32),
    Format("Q5_1", 7, 32, 24, 32, minima=True),
    Format("Q8_0", 8, 32, 34, 32),
    Format("Q2_K", 9, 256, 84, 16, minima=True, subscales=True),
    Format("Q3_K", 10, 256, 110, 16, subscales=True),
    Format("Q4_K", 11, 256, 144, 32, minima=True, subscales=True),
    Format("Q5_K", 12, 256, 176, 32, minima=True, subscales=True),
    Format("Q6_K", 13, 256, 210, 16, subscales=True),
    Format("IQ4_NL", 14, 32, 18, 32),
    Format("IQ4_XS", 15, 256, 136, 32, subscales=True),
    Format("MXFP4", 16, 32, 17, 32),
    Format("NVFP4", 17, 64, 36, 16),
    Format("TQ1_0", 18, 256, 54, 256),
    Format("TQ2_0", 19, 256, 66, 256),
    Format("int8-row", 64),
    Format("int4-row", 65, layouts=(1, 2)),
    Format("int4-group", 66, block=-1, layouts=(1, 2)),
    Format("int2-row", 67),
    Format("int3-group64", 68, block=64),
    Format("mxfp4-group32", 69, block=32),
    Format("fp8-e4m3-b128", 70, block=128, floats=True),
]
BY_NAME = {f.name: f for f in FORMATS}


@dataclass
class Row:
    """One row: codes q, and for each arithmetic block a scale and a minimum (float32)."""

    q: np.ndarray
    block: int
    s: np.ndarray = None
    m: np.ndarray = None
    # integer sub-scales: d and dmin of each 256, sc and mn of each arithmetic block
    d: np.ndarray = None
    dmin: np.ndarray = None
    sc: np.ndarray = None
    mn: np.ndarray = None


def half(b):
    return np.ascontiguousarray(b).view("<f2").astype(np.float32).reshape(b.shape[0])


def e4m3(codes):
    """All of fp8 E4M3FN by powers of two."""
    codes = np.asarray(codes, dtype=np.int64)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    e, f = (codes >> 3) & 15, codes & 7
    value = np.where(e == 0, np.ldexp(f / 8.0, -6), np.ldexp(1 + f / 8.0, e - 7))
    value = np.where((codes & 127) == 127, np.nan, value)
    return (sign * value).astype(np.float32)


def e8m0(codes):
    """2^(e - 128), NaN for 255; the doubled table makes up for the missing factor two."""
    codes = np.asarray(codes, dtype=np.int64)
    value = np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 128))
    return value.astype(np.float32)


def nibbles(qs):
    """[n, 16 k] bytes -> [n, 32 k]: in each run of 16 bytes the low nibbles, then the high ones."""
    n = qs.shape[0]
    runs = qs.reshape(n, -1, 16)
    return np.concatenate([runs & 15, runs >> 4], axis=2).reshape(n, -1).astype(np.int64)


def bits32(qh):
    """[n, 4] bytes -> [n, 32] bits, the lowest first."""
    return np.unpackbits(qh, axis=1, bitorder="little").astype(np.int64)


def pairs256(qs):
    """[n, 64] bytes -> [n, 256]: two halves of 32 bytes, each read at shifts 0, 2, 4, 6."""
    halves = qs.reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    return (halves & 3).reshape(-1, 256).astype(np.int64)


def nibbles256(qs):
    """[n, 128] bytes -> [n, 256]: four runs of 32 bytes, low nibbles first in each."""
    runs = qs.reshape(-1, 4, 1, 32) >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1)
    return (runs & 15).reshape(-1, 256).astype(np.int64)


def k_scales(k):
    """[n, 12] bytes -> eight scales and eight minima of six bits."""
    k = k.astype(np.int64)
    a, b, c = k[:, 0:4], k[:, 4:8], k[:, 8:12]
    sc = np.concatenate([a & 63, (c & 15) | ((a >> 6) << 4)], axis=1)
    mn = np.concatenate([b & 63, (c >> 4) | ((b >> 6) << 4)], axis=1)
    return sc, mn


def split(blocks, *sizes):
    parts, at = [], 0
    for size in sizes:
        parts.append(np.ascontiguousarray(blocks[:, at : at + size]))
        at += size
    assert at == blocks.shape[1]
    return parts


def decode_gguf(fmt, data, cols):
    """data: the bytes of one row."""
    raw = np.frombuffer(data, np.uint8)
    blocks = raw.reshape(cols // fmt.inputs, fmt.bytes)
    name = fmt.name
    s = m = d = dmin = sc = mn = None
    if name == "F32":
        q = raw.view("<f4")
    elif name == "F16":
        q = raw.view("<f2").astype(np.float32)
    elif name == "BF16":
        q = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    elif name == "Q4_0":
        d_, qs = split(blocks, 2, 16)
        q, s = nibbles(qs) - 8, half(d_)
    elif name == "Q4_1":
        d_, m_, qs = split(blocks, 2, 2, 16)
        q, s, m = nibbles(qs), half(d_), -half(m_)
    elif name == "Q5_0":
        d_, qh, qs = split(blocks, 2, 4, 16)
        q, s = (nibbles(qs) + 16 * bits32(qh)) - 16, half(d_)
    elif name == "Q5_1":
        d_, m_, qh, qs = split(blocks, 2, 2, 4, 16)
        q, s, m = nibbles(qs) + 16 * bits32(qh), half(d_), -half(m_)
    elif name == "Q8_0":
        d_, qs = split(blocks, 2, 32)
        q, s = qs.view(np.int8).astype(np.int64), half(d_)
    elif name == "Q2_K":
        scales, qs, d_, m_ = split(blocks, 16, 64, 2, 2)
        q, sc, mn = pairs256(qs), scales & 15, scales >> 4
        d, dmin = half(d_), half(m_)
    elif name == "Q3_K":
        hm, qs, k, d_ = split(blocks, 32, 64, 12, 2)
        high = np.unpackbits(hm[:, None, :], axis=1, bitorder="little").reshape(-1, 256)
        q = pairs256(qs) - 4 * (1 - high.astype(np.int64))
        k = k.astype(np.int64)
        low = np.concatenate([k[:, 0:8] & 15, k[:, 0:8] >> 4], axis=1)
        top = np.concatenate([(k[:, 8:12] >> t) & 3 for t in (0, 2, 4, 6)], axis=1)
        sc, d = (low | (top << 4)) - 32, half(d_)
    elif name == "Q4_K":
        d_, m_, k, qs = split(blocks, 2, 2, 12, 128)
        q, (sc, mn), d, dmin = nibbles256(qs), k_scales(k), half(d_), half(m_)
    elif name == "Q5_K":
        d_, m_, k, qh, qs = split(blocks, 2, 2, 12, 32, 128)
        high = np.unpackbits(qh[:, None, :], axis=1, bitorder="little").reshape(-1, 256)
        q = nibbles256(qs) + 16 * high.astype(np.int64)
        (sc, mn), d, dmin = k_scales(k), half(d_), half(m_)
    elif name == "Q6_K":
        ql, qh, k, d_ = split(blocks, 128, 64, 16, 2)
        runs = ql.reshape(-1, 2, 1, 64) >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1)
        q = ((runs & 15).reshape(-1, 256).astype(np.int64) | (pairs256(qh) << 4)) - 32
        sc, d = k.view(np.int8).astype(np.int64), half(d_)
    elif name == "IQ4_NL":
        d_, qs = split(blocks, 2, 16)
        q, s = IQ4[nibbles(qs)], half(d_)
    elif name == "IQ4_XS":
        d_, sh, sl, qs = split(blocks, 2, 2, 4, 128)
        q = IQ4[nibbles(qs)]
        low = np.stack([sl & 15, sl >> 4], axis=2).reshape(-1, 8).astype(np.int64)
        top = sh.view("<u2").astype(np.int64) >> np.arange(0, 16, 2) & 3
        sc, d = (low | (top << 4)) - 32, half(d_)
    elif name == "MXFP4":
        e, qs = split(blocks, 1, 16)
        q, s = E2M1_DOUBLED[nibbles(qs)], e8m0(e[:, 0])
    elif name == "NVFP4":
        d_, qs = split(blocks, 4, 32)
        runs = qs.reshape(-1, 4, 1, 8) >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1)
        q = E2M1_DOUBLED[(runs & 15).reshape(-1, 64)]
        s = (e4m3(d_ & 127) / np.float32(2)).astype(np.float32).reshape(-1)
    elif name == "TQ1_0":
        qs, qh, d_ = split(blocks, 48, 4, 2)
        parts = []
        for bytes_, digits in ((qs[:, :32], 5), (qs[:, 32:], 5), (qh, 4)):
            for power in (1, 3, 9, 27, 81)[:digits]:
                parts.append(((bytes_.astype(np.int64) * power & 255) * 3 >> 8) - 1)
        q, s = np.concatenate(parts, axis=1), half(d_)
    elif name == "TQ2_0":
        qs, d_ = split(blocks, 64, 2)
        q, s = pairs256(qs) - 1, half(d_)
    else:
        raise ValueError(name)
    row = Row(np.asarray(q).reshape(-1), fmt.block)
    if fmt.subscales:
        count = 256 // fmt.block
        row.sc = np.asarray(sc, np.int64).reshape(-1)
        row.mn = np.zeros_like(row.sc) if mn is None else np.asarray(mn, np.int64).reshape(-1)
        row.d, row.dmin = d, np.zeros_like(d) if dmin is None else dmin
        with np.errstate(invalid="ignore"):
            s = np.repeat(row.d, count) * row.sc.astype(np.float32)
            m = np.repeat(row.dmin, count) * row.mn.astype(np.float32)
    row.s = s
    row.m = m if fmt.minima else None
    return row


def row_bytes(fmt, cols):
    if fmt.inputs:
        assert cols % fmt.inputs == 0
        return cols // fmt.inputs * fmt.bytes
    return {
        "int8-row": cols,
        "int4-row": -(-cols // 2),
        "int4-group": -(-cols // 2),
        "int2-row": -(-cols // 4),
        "int3-group64": -(-cols // 64) * 24,
        "mxfp4-group32": -(-cols // 2),
        "fp8-e4m3-b128": cols,
    }[fmt.name]


def block_of(fmt, cols, group):
    return {0: cols, -1: group}.get(fmt.block, fmt.block)


def scale_count(fmt, rows, cols, group):
    """Scales of a whole weight, 0 for GGUF formats."""
    if fmt.inputs:
        return 0
    if fmt.name == "fp8-e4m3-b128":
        return -(-rows // 128) * -(-cols // 128)
    return rows * -(-cols // block_of(fmt, cols, group))


def decode_separate(fmt, layout, group, cols, row, codes, scales):
    """codes: the bytes of one row; scales: the bytes of all scales; row: its number."""
    raw = np.frombuffer(codes, np.uint8)
    i = np.arange(cols)
    if fmt.name == "int8-row":
        q = raw.view(np.int8).astype(np.int64)
    elif fmt.name in ("int4-row", "int4-group"):
        flat = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1).astype(np.int64)[:cols]
        if layout == 2:
            whole = cols // 64 * 64
            planes = raw[: whole // 2].reshape(-1, 32)
            flat[:whole] = np.concatenate([planes & 15, planes >> 4], axis=1).reshape(-1)
        q = flat - 8
    elif fmt.name == "int2-row":
        q = (raw[i // 4].astype(np.int64) >> (2 * (i % 4)) & 3) - 2
    elif fmt.name == "int3-group64":
        groups = raw.reshape(-1, 24)
        low = (groups[:, :16, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(-1, 64)
        top = np.unpackbits(groups[:, 16:], axis=1, bitorder="little")
        q = ((low | top << 2).reshape(-1).astype(np.int64) - 4)[:cols]
    elif fmt.name == "mxfp4-group32":
        flat = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:cols]
        q = E2M1_DOUBLED[flat]
    elif fmt.name == "fp8-e4m3-b128":
        q = e4m3(raw)
    else:
        raise ValueError(fmt.name)
    block = block_of(fmt, cols, group)
    across = -(-cols // block)
    line = row // 128 if fmt.name == "fp8-e4m3-b128" else row
    if fmt.name == "mxfp4-group32":
        s = e8m0(np.frombuffer(scales, np.uint8)[line * across : (line + 1) * across])
    else:
        s = np.frombuffer(scales, "<f4")[line * across : (line + 1) * across]
    return Row(q, block, s)


def decode_row(fmt, layout, group, cols, row, codes, scales):
    """Row number `row` of a weight given by all of its bytes."""
    size = row_bytes(fmt, cols)
    data = codes[row * size : (row + 1) * size]
    if fmt.inputs:
        return decode_gguf(fmt, data, cols)
    return decode_separate(fmt, layout, group, cols, row, data, scales)


def weights_of(row):
    """w = s q - m in float32: one rounding, for s q is exact wherever there are minima."""
    with np.errstate(invalid="ignore", over="ignore"):
        q = row.q.astype(np.float32)
        if row.s is None:
            return q
        w = np.repeat(row.s, row.block)[: q.size] * q
        if row.m is not None:
            w = w - np.repeat(row.m, row.block)[: q.size]
        return w.astype(np.float32)
