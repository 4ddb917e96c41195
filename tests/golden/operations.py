"""The operations of SPEC.md 2.4 in exact integer arithmetic.

Written from the text of the specification, apart from the C sources, on the float steps of
arith.py: each is exact and rounded once. Values are Python floats that hold binary32 values.
"""

import math
import struct

from arith import add, bits, divide, finite, fma, multiply, parts, to_nearest, value

INF, NAN = math.inf, math.nan


def f(text):
    return float.fromhex(text)


def over(a, b):
    """a / b with the corners that arith.divide leaves out."""
    if a != a or b != b:
        return NAN
    negative = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    if (math.isinf(a) and math.isinf(b)) or (a == 0 and b == 0):
        return NAN
    if math.isinf(a) or b == 0:
        return -INF if negative else INF
    if math.isinf(b) or a == 0:
        return -0.0 if negative else 0.0
    return divide(a, b)


def root(x):
    """Square root of a value that is not negative."""
    if x != x or math.isinf(x) or x == 0:
        return x
    n, e = parts(x)
    n, e = n << (80 + e % 2), e - 80 - e % 2
    whole = math.isqrt(n)
    return to_nearest(whole, e // 2, whole * whole != n)


def minus(a, b):
    return add(a, -b)


def dot16(x, y):
    p = [0.0] * 16
    for i, (a, b) in enumerate(zip(x, y)):
        p[i % 16] = fma(a, b, p[i % 16])
    return tree(p)


def tree(p):
    while len(p) > 1:
        half = len(p) // 2
        p = [add(p[j], p[j + half]) for j in range(half)]
    return p[0]


def rmsnorm(x, w, eps):
    v = add(over(dot16(x, x), float(len(x))), eps)
    r = 0.0 if v == 0 else over(1.0, root(v))
    return [multiply(multiply(a, r), b) for a, b in zip(x, w)]


EXP = [f(c) for c in ("0x1.6a23d2p-10", "0x1.123a2p-7", "0x1.5558f2p-5", "0x1.555492p-3",
                      "0x1.fffffcp-2", "1", "1")]  # fmt: skip


def exp(x):
    if x != x:
        return x
    x = min(max(x, -104.0), 89.0)
    n = minus(fma(x, f("0x1.715476p0"), f("0x1.8p23")), f("0x1.8p23"))
    r = fma(n, -f("0x1.62e4p-1"), x)
    r = fma(n, -f("0x1.7f7d1cp-20"), r)
    p = EXP[0]
    for c in EXP[1:]:
        p = fma(p, r, c)
    low = math.floor(n / 2)
    return multiply(multiply(p, 2.0**low), 2.0 ** (int(n) - low))


ERF = [f(c) for c in ("0x1.51eaf4p-6", "-0x1.2bbf24p-4", "0x1.238de2p-4", "0x1.4b4984p-7",
                      "0x1.7ed78ap-6", "-0x1.1e2c84p-3", "-0x1.4bdb24p-4", "0x1.3c7d82p-1",
                      "-0x1.a8dc7ap-1", "0x1p-1")]  # fmt: skip


def silu(x):
    return over(x, add(1.0, exp(-x)))


def gelu_tanh(x):
    v = multiply(x, fma(multiply(x, x), f("0x1.2444f2p-4"), f("0x1.988454p0")))
    return over(x, add(1.0, exp(-v)))


def gelu_erf(x):
    if x != x:
        return x
    a = min(abs(x), 14.5)
    slope = f("0x1.333334p-2")
    t = over(1.0, fma(slope, a, 1.0))
    s = multiply(multiply(slope, a), t)
    p = ERF[0]
    for c in ERF[1:]:
        p = fma(p, s, c)
    p = multiply(p, t)
    h = multiply(a, a)
    low = fma(a, a, -h)
    e = exp(multiply(-0.5, h))
    e = fma(multiply(-0.5, low), e, e)
    q = multiply(e, p)
    return multiply(-a, q) if x < 0 else fma(-a, q, x)


def relu(x):
    return x if x > 0 or x != x else 0.0


ACTIVATIONS = {1: silu, 2: gelu_tanh, 3: gelu_erf, 4: relu}


def gated(activation, gate, up):
    return [multiply(ACTIVATIONS[activation](g), u) for g, u in zip(gate, up)]


def to_half(x):
    """Binary16, nearest even, as a float."""
    if not finite(x):
        return x
    try:
        return struct.unpack("<e", struct.pack("<e", x))[0]
    except OverflowError:
        return math.copysign(INF, x)


def rotate(x, rotary, halves, turns):
    """turns: (cos, sin) of each pair at the position."""
    y = list(x)
    for i, (c, s) in enumerate(turns):
        first, second = (i, i + rotary // 2) if halves else (2 * i, 2 * i + 1)
        a, b = x[first], x[second]
        y[first] = fma(a, c, -multiply(b, s))
        y[second] = fma(b, c, multiply(a, s))
    return y


def attention(q, keys, values, scale, position, window, turns, rotary, halves, half_cache):
    """One head of one row. keys and values: the visible and hidden positions, un-rotated; turns by
    position, or None."""
    stored = to_half if half_cache else (lambda x: x)

    def turned(x, at):
        return rotate(x, rotary, halves, turns[at]) if turns else x

    first = position - window + 1 if window and window <= position else 0
    q = turned(q, position)
    scores = {}
    for t in range(first, position + 1):
        key = [stored(k) for k in turned([stored(k) for k in keys[t]], t)]
        scores[t] = multiply(dot16(q, key), scale)
    greatest = max(scores.values())
    den, y = 0.0, [0.0] * len(q)
    for start in range(first // 256 * 256, position + 1, 256):
        p, part = [0.0] * 16, [0.0] * len(q)
        for t in range(max(start, first), min(start + 256, position + 1)):
            e = exp(minus(scores[t], greatest))
            p[t % 16] = add(p[t % 16], e)
            part = [fma(e, stored(v), o) for v, o in zip(values[t], part)]
        den = add(den, tree(p))
        y = [add(a, b) for a, b in zip(y, part)]
    inverse = over(1.0, den)
    return [multiply(o, inverse) for o in y]


def patterns(xs):
    """Binary32 bits of a list."""
    return [bits(x) for x in xs]


def floats(pattern_list):
    return [value(int(p)) for p in pattern_list]
