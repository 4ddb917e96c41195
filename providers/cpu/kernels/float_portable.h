/* Further vector primitives of the level portable, for the whole operations: see float_avx512.h. */
#ifndef TENON_CPU_FLOAT_PORTABLE_H
#define TENON_CPU_FLOAT_PORTABLE_H

#include "vec_portable.h"

#define VEC_KEYS 4

#define EACH2(type, function, x, y) \
    FOUR(type, function((x).v0, (y).v0), function((x).v1, (y).v1), function((x).v2, (y).v2), \
         function((x).v3, (y).v3))

INLINE vf4 vf4_div(vf4 x, vf4 y)
{
    return x / y;
}
INLINE vf vf_div(vf x, vf y)
{
    return EACH2(vf, vf4_div, x, y);
}
INLINE vf4 vf4_greater(vf4 x, vf4 y)
{
    return (vf4)vi4_select((vi4)(x > y), (vi4)x, (vi4)y);
}
INLINE vf vf_greater(vf x, vf y)
{
    return EACH2(vf, vf4_greater, x, y);
}
INLINE vf4 vf4_less(vf4 x, vf4 y)
{
    return (vf4)vi4_select((vi4)(x < y), (vi4)x, (vi4)y);
}
INLINE vf vf_less(vf x, vf y)
{
    return EACH2(vf, vf4_less, x, y);
}
INLINE vf4 vf4_abs(vf4 x)
{
    return (vf4)((vi4)x & 0x7fffffff);
}
INLINE vf vf_abs(vf x)
{
    return EACH1(vf, vf4_abs, x);
}
INLINE vf4 vf4_if_negative(vf4 x, vf4 a, vf4 b)
{
    vf4 zero = {0, 0, 0, 0};
    return (vf4)vi4_select((vi4)(x < zero), (vi4)a, (vi4)b);
}
INLINE vf vf_if_negative(vf x, vf a, vf b)
{
    return FOUR(vf, vf4_if_negative(x.v0, a.v0, b.v0), vf4_if_negative(x.v1, a.v1, b.v1),
                vf4_if_negative(x.v2, a.v2, b.v2), vf4_if_negative(x.v3, a.v3, b.v3));
}
INLINE vf4 vf4_scale(vf4 p, vf4 z)
{
    /* unsigned: a NaN leads to any bits here, and p is NaN then */
    vi4 n = (vi4)((vu4)z - 0x4b400000u), half = n >> 1;
    vu4 rest = (vu4)n - (vu4)half;
    return p * (vf4)(((vu4)half + 127u) << 23) * (vf4)((rest + 127u) << 23);
}
INLINE vf vf_scale(vf p, vf z)
{
    return EACH2(vf, vf4_scale, p, z);
}
INLINE float vf_sum(vf x)
{
    vf4 s = (x.v0 + x.v2) + (x.v1 + x.v3);
    return (s[0] + s[2]) + (s[1] + s[3]);
}
INLINE void vf_sums4(const vf *p, float *out)
{
    int k;
    for (k = 0; k < 4; k++) out[k] = vf_sum(p[k]);
}

#endif
