"""The matrix product of SPEC.md 2.2 and 2.3 in exact integer arithmetic.

Written from the text of the specification, apart from the C sources. Every float step is one
function below: the exact result as an integer times a power of two, rounded once. Slow on purpose.
Values are Python floats that hold binary32 values.
"""

import math
import struct


def bits(value):
    """Binary32 bits of a value that is one already; NaN becomes the quiet one."""
    if value != value:
        return 0x7FC00000
    return struct.unpack("<I", struct.pack("<f", value))[0]


def value(pattern):
    return struct.unpack("<f", struct.pack("<I", pattern))[0]


def parts(x):
    """Finite x as (n, e) with x = n * 2^e, n an integer."""
    fraction, e = math.frexp(x)
    return int(fraction * (1 << 24)), e - 24


def to_nearest(n, e, sticky=False):
    """n * 2^e (and a little more in magnitude when sticky) to binary32, nearest even. n != 0."""
    negative, n = n < 0, abs(n)
    n, e = (n << 1) | (1 if sticky else 0), e - 1
    lowest = max(-149, e + n.bit_length() - 24)  # exponent of the last bit kept
    shift = lowest - e
    if shift <= 0:
        kept = n << -shift
    else:
        kept, rest, halfway = n >> shift, n & ((1 << shift) - 1), 1 << (shift - 1)
        if rest > halfway or (rest == halfway and kept & 1):
            kept += 1
    if lowest + kept.bit_length() > 128:
        result = math.inf
    else:
        result = math.ldexp(kept, lowest)
    return -result if negative else result


def finite(*values):
    return all(math.isfinite(v) for v in values)


def fma(a, b, c):
    if not finite(a, b, c):
        return a * b + c  # which infinity or NaN it is does not depend on the precision
    (na, ea), (nb, eb), (nc, ec) = parts(a), parts(b), parts(c)
    n, e = na * nb, ea + eb
    low = min(e, ec)
    total = (n << (e - low)) + (nc << (ec - low))
    if total == 0:
        return a * b + c  # the sign of an exact zero
    return to_nearest(total, low)


def add(a, b):
    return fma(a, 1.0, b)


def multiply(a, b):
    if not finite(a, b):
        return a * b
    (na, ea), (nb, eb) = parts(a), parts(b)
    if na * nb == 0:
        return a * b
    return to_nearest(na * nb, ea + eb)


def divide(a, b):
    """Finite a, b, neither zero."""
    (na, ea), (nb, eb) = parts(a), parts(b)
    negative = (na < 0) != (nb < 0)
    quotient, rest = divmod(abs(na) << 64, abs(nb))
    return to_nearest(-quotient if negative else quotient, ea - eb - 64, rest != 0)


def rint(x):
    n, e = parts(x)
    if e >= 0:
        return n << e
    whole, rest, halfway = n >> -e, n & ((1 << -e) - 1), 1 << (-e - 1)
    if rest > halfway or (rest == halfway and whole & 1):
        whole += 1
    return whole


def segments(cols, block):
    """The segments of a row, each a list of (start, end, block number)."""
    result = []
    starts = list(range(0, cols, block))
    if block > 256:
        for number, start in enumerate(starts):
            end = min(start + block, cols)
            for at in range(start, end, 256):
                result.append([(at, min(at + 256, end), number)])
        return result
    step = max(1, 256 // block)
    for first in range(0, len(starts), step):
        result.append(
            [
                (starts[n], min(starts[n] + block, cols), n)
                for n in range(first, min(first + step, len(starts)))
            ]
        )
    return result


def product_f32(fmt, row, x):
    """SPEC.md 2.2: row is a formats.Row, x a list."""
    q = [float(v) for v in row.q]
    y = 0.0
    for segment in segments(len(x), row.block):
        a = 0.0
        for start, end, number in segment:
            t = 0.0
            for i in range(start, end):
                t = fma(q[i], x[i], t)
            if fmt.plain:
                a = t
                continue
            a = fma(float(row.s[number]), t, a)
            if fmt.minima:
                total = 0.0
                for i in range(start, end):
                    total = add(total, x[i])
                a = fma(-float(row.m[number]), total, a)
        y = add(y, a)
    return y


def activations(x):
    """SPEC.md 2.3: d of each 32 inputs, u of each input."""
    d, u = [], []
    for start in range(0, len(x), 32):
        part = x[start : start + 32]
        amax = max(bits(v) & 0x7FFFFFFF if v == v else 0x7FC00000 for v in part)
        if amax >= 0x7F800000:
            d.append(math.nan)
            u += [0] * len(part)
        elif value(amax) < 2.0**-40:
            d.append(0.0)
            u += [0] * len(part)
        else:
            scale = divide(value(amax), 127.0)
            inverse = divide(1.0, scale)
            d.append(scale)
            u += [rint(multiply(v, inverse)) for v in part]
    assert all(-127 <= v <= 127 for v in u)
    return d, u


def pieces(start, end):
    """The parts of [start, end) that lie inside one activation block each."""
    while start < end:
        stop = min(end, start // 32 * 32 + 32)
        yield start, stop
        start = stop


def product_a8(fmt, row, x_d, x_u):
    cols = len(x_u)
    q = [int(v) for v in row.q]
    if fmt.subscales:
        block, s, m = 256, row.d, row.dmin
        c = [int(row.sc[i // row.block]) * q[i] for i in range(cols)]
        n = [int(row.mn[i // row.block]) for i in range(cols)]
    else:
        block, s, m, c, n = row.block, row.s, row.m, q, [1] * cols

    def folded(k, start, end):
        total = 0.0
        for first, last in pieces(start, end):
            whole = sum(k[i] * x_u[i] for i in range(first, last))
            assert abs(whole) < 1 << 24
            total = add(total, multiply(x_d[first // 32], float(whole)))
        return total

    y = 0.0
    for segment in segments(cols, block):
        a = 0.0
        for start, end, number in segment:
            a = add(a, multiply(float(s[number]), folded(c, start, end)))
            if fmt.minima:
                a = add(a, -multiply(float(m[number]), folded(n, start, end)))
        y = add(y, a)
    return y
