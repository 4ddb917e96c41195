/* The vector primitives of the level portable: 16 rows in four vectors of 16 bytes, in the vector
 * extension that gcc and clang share, which every target has or has lowered. See vec_avx512.h. */
#ifndef TENON_CPU_VEC_PORTABLE_H
#define TENON_CPU_VEC_PORTABLE_H

#include <string.h>

#include "level.h"

#define VEC_HAS_NIBBLE_FLOAT 0

typedef float vf4 __attribute__((vector_size(16)));
typedef int32_t vi4 __attribute__((vector_size(16)));
typedef uint32_t vu4 __attribute__((vector_size(16)));
typedef int16_t vs8 __attribute__((vector_size(16)));
typedef float vf2 __attribute__((vector_size(8)));
typedef double vd2 __attribute__((vector_size(16)));
typedef int64_t vl2 __attribute__((vector_size(16)));
typedef uint64_t vul2 __attribute__((vector_size(16)));

typedef struct vf {
    vf4 v0, v1, v2, v3;
} vf;
typedef struct vi {
    vi4 v0, v1, v2, v3;
} vi;

#define FOUR(type, expression0, expression1, expression2, expression3) \
    ((type){(expression0), (expression1), (expression2), (expression3)})
#define EACH1(type, function, x) \
    FOUR(type, function((x).v0), function((x).v1), function((x).v2), function((x).v3))

INLINE vf4 vf4_load(const float *p)
{
    vf4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE vi4 vi4_load(const uint8_t *p)
{
    vi4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE vf vf_load(const float *p)
{
    return FOUR(vf, vf4_load(p), vf4_load(p + 4), vf4_load(p + 8), vf4_load(p + 12));
}
INLINE void vf_store(float *p, vf v)
{
    memcpy(p, &v.v0, 16);
    memcpy(p + 4, &v.v1, 16);
    memcpy(p + 8, &v.v2, 16);
    memcpy(p + 12, &v.v3, 16);
}
INLINE vf vf_splat(const float *p)
{
    vf4 v = {*p, *p, *p, *p};
    return FOUR(vf, v, v, v, v);
}
INLINE vf vf_zero(void)
{
    vf4 v = {0, 0, 0, 0};
    return FOUR(vf, v, v, v, v);
}
INLINE vf vf_add(vf x, vf y)
{
    return FOUR(vf, x.v0 + y.v0, x.v1 + y.v1, x.v2 + y.v2, x.v3 + y.v3);
}
INLINE vf vf_mul(vf x, vf y)
{
    return FOUR(vf, x.v0 * y.v0, x.v1 * y.v1, x.v2 * y.v2, x.v3 * y.v3);
}

#if defined(__FP_FAST_FMAF)

INLINE vf4 vf4_fma(vf4 x, vf4 y, vf4 z)
{
    vf4 v = {__builtin_fmaf(x[0], y[0], z[0]), __builtin_fmaf(x[1], y[1], z[1]),
             __builtin_fmaf(x[2], y[2], z[2]), __builtin_fmaf(x[3], y[3], z[3])};
    return v;
}

#else

/* x * y + z rounded once, without a fused instruction. The product is exact in double; the sum is
 * rounded to odd (the last bit stands for what was cut off), so that rounding it to float is right.
 * The error of the sum is found without branches; it is NaN, and nothing is changed, where the sum
 * is not finite. */
INLINE vd2 vd2_fma_to_odd(vd2 x, vd2 y, vd2 z)
{
    vd2 product = x * y, sum = product + z, part = sum - product;
    vd2 error = (product - (sum - part)) + (z - part);
    vd2 nothing = {0, 0};
    vl2 inexact = (error < nothing) | (error > nothing);
    vul2 bits = (vul2)sum, one = {1, 1};
    vul2 step = (vul2)inexact & ~bits & one;
    vul2 down = ((vul2)error ^ bits) >> 63; /* the error points towards zero */
    return (vd2)(bits + step - ((step & down) << 1));
}
/* Conversions by __builtin_convertvector: gcc 12 drops the rounding of (double)(float)v where it is
 * written element by element. */
INLINE vd2 vd2_from(const float *p)
{
    vf2 half;
    memcpy(&half, p, sizeof half);
    return __builtin_convertvector(half, vd2);
}
INLINE vf4 vf4_fma(vf4 x, vf4 y, vf4 z)
{
    float a[4], b[4], c[4];
    vf2 low, high;
    memcpy(a, &x, sizeof a);
    memcpy(b, &y, sizeof b);
    memcpy(c, &z, sizeof c);
    low = __builtin_convertvector(vd2_fma_to_odd(vd2_from(a), vd2_from(b), vd2_from(c)), vf2);
    high = __builtin_convertvector(
        vd2_fma_to_odd(vd2_from(a + 2), vd2_from(b + 2), vd2_from(c + 2)), vf2);
    memcpy(a, &low, sizeof low);
    memcpy(a + 2, &high, sizeof high);
    return vf4_load(a);
}

#endif

INLINE vf vf_fma(vf x, vf y, vf z)
{
    return FOUR(vf, vf4_fma(x.v0, y.v0, z.v0), vf4_fma(x.v1, y.v1, z.v1), vf4_fma(x.v2, y.v2, z.v2),
                vf4_fma(x.v3, y.v3, z.v3));
}

INLINE vi vi_zero(void)
{
    vi4 v = {0, 0, 0, 0};
    return FOUR(vi, v, v, v, v);
}
INLINE vi vi_load(const uint8_t *p)
{
    return FOUR(vi, vi4_load(p), vi4_load(p + 16), vi4_load(p + 32), vi4_load(p + 48));
}
INLINE vi4 vi4_splat(const int32_t *p)
{
    vi4 v = {*p, *p, *p, *p};
    return v;
}
INLINE vi vi_splat(const int32_t *p)
{
    vi4 v = vi4_splat(p);
    return FOUR(vi, v, v, v, v);
}
INLINE vi vi_add(vi x, vi y)
{
    return FOUR(vi, x.v0 + y.v0, x.v1 + y.v1, x.v2 + y.v2, x.v3 + y.v3);
}
INLINE vi vi_mul(vi x, vi y)
{
    return FOUR(vi, x.v0 * y.v0, x.v1 * y.v1, x.v2 * y.v2, x.v3 * y.v3);
}
INLINE vi4 vi4_i8(const uint8_t *p)
{
    vi4 v = {(int8_t)p[0], (int8_t)p[1], (int8_t)p[2], (int8_t)p[3]};
    return v;
}
INLINE vi vi_i8(const uint8_t *p)
{
    return FOUR(vi, vi4_i8(p), vi4_i8(p + 4), vi4_i8(p + 8), vi4_i8(p + 12));
}
INLINE vi4 vi4_u8(const uint8_t *p)
{
    vi4 v = {p[0], p[1], p[2], p[3]};
    return v;
}
INLINE vi vi_u8(const uint8_t *p)
{
    return FOUR(vi, vi4_u8(p), vi4_u8(p + 4), vi4_u8(p + 8), vi4_u8(p + 12));
}
INLINE vf4 vi4_to_vf4(vi4 v)
{
    return __builtin_convertvector(v, vf4);
}
INLINE vf vi_to_vf(vi v)
{
    return EACH1(vf, vi4_to_vf4, v);
}

INLINE vi4 vi4_u16(const uint8_t *p)
{
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return (vi4){h[0], h[1], h[2], h[3]};
}
/* Chooses x where the mask's lanes are all ones, else y. */
INLINE vi4 vi4_select(vi4 mask, vi4 x, vi4 y)
{
    return (mask & x) | (~mask & y);
}
/* A half float is a float 2^112 too small (its subnormals too), but for Inf and NaN. */
INLINE vf4 vf4_f16(const uint8_t *p)
{
    vi4 half = vi4_u16(p), magnitude = half & 0x7fff, sign = (vi4)((vu4)(half & 0x8000) << 16);
    vf4 scale = {0x1p112f, 0x1p112f, 0x1p112f, 0x1p112f};
    vi4 finite = (vi4)((vf4)(magnitude << 13) * scale);
    vi4 special = (magnitude << 13) | 0x7f800000;
    return (vf4)(vi4_select(magnitude > 0x7bff, special, finite) | sign);
}
INLINE vf vf_f16(const uint8_t *p)
{
    return FOUR(vf, vf4_f16(p), vf4_f16(p + 8), vf4_f16(p + 16), vf4_f16(p + 24));
}
INLINE vf4 vf4_bf16(const uint8_t *p)
{
    return (vf4)((vu4)vi4_u16(p) << 16);
}
INLINE vf vf_bf16(const uint8_t *p)
{
    return FOUR(vf, vf4_bf16(p), vf4_bf16(p + 8), vf4_bf16(p + 16), vf4_bf16(p + 24));
}
/* E4M3FN: a float 2^120 too small; 0x7f is NaN. */
INLINE vf4 vf4_fp8(const uint8_t *p)
{
    vi4 code = vi4_u8(p), magnitude = code & 0x7f, sign = (vi4)((vu4)(code & 0x80) << 24);
    vf4 scale = {0x1p120f, 0x1p120f, 0x1p120f, 0x1p120f};
    vi4 finite = (vi4)((vf4)(magnitude << 20) * scale);
    vi4 nan = {0x7fc00000, 0x7fc00000, 0x7fc00000, 0x7fc00000};
    return (vf4)(vi4_select(magnitude == 0x7f, nan, finite) | sign);
}
INLINE vf vf_fp8(const uint8_t *p)
{
    return FOUR(vf, vf4_fp8(p), vf4_fp8(p + 4), vf4_fp8(p + 8), vf4_fp8(p + 12));
}
INLINE vf4 vf4_byte(vi4 v, int k)
{
    return vi4_to_vf4((vi4)((vu4)v << (24 - 8 * k)) >> 24);
}
INLINE vf vf_byte(vi v, int k)
{
    return FOUR(vf, vf4_byte(v.v0, k), vf4_byte(v.v1, k), vf4_byte(v.v2, k), vf4_byte(v.v3, k));
}

INLINE vi4 vb4_low(vi4 v)
{
    return v & 0x0f0f0f0f;
}
INLINE vi vb_low(vi v)
{
    return EACH1(vi, vb4_low, v);
}
INLINE vi4 vb4_high(vi4 v)
{
    return (v >> 4) & 0x0f0f0f0f;
}
INLINE vi vb_high(vi v)
{
    return EACH1(vi, vb4_high, v);
}
INLINE vi vb_or(vi x, vi y)
{
    return FOUR(vi, x.v0 | y.v0, x.v1 | y.v1, x.v2 | y.v2, x.v3 | y.v3);
}
INLINE vi4 vb4_bits45(vi4 v, int up)
{
    vi4 moved = up >= 0 ? (vi4)((vu4)v << up) : v >> -up;
    return moved & 0x30303030;
}
INLINE vi vb_bits45(vi v, int up)
{
    return FOUR(vi, vb4_bits45(v.v0, up), vb4_bits45(v.v1, up), vb4_bits45(v.v2, up),
                vb4_bits45(v.v3, up));
}
/* Every byte from 0 to 63, minus 32, without a borrow between bytes. */
INLINE vi4 vb4_minus32(vi4 v)
{
    vi4 top = {0x20202020, 0x20202020, 0x20202020, 0x20202020}, flipped = v ^ top;
    vi4 sign = flipped & top; /* bit 5, copied to bits 6 and 7 */
    return flipped | (vi4)((vu4)sign << 1) | (vi4)((vu4)sign << 2);
}
INLINE vi vb_minus32(vi v)
{
    return EACH1(vi, vb4_minus32, v);
}
INLINE vi vb_table(const int8_t *table)
{
    vi v = vi_zero();
    memcpy(&v.v0, table, sizeof v.v0);
    return v;
}
INLINE vi vb_lookup(vi table, vi index)
{
    int8_t values[16];
    uint8_t bytes[64];
    int i;
    memcpy(values, &table.v0, sizeof values);
    memcpy(bytes, &index, sizeof bytes);
    for (i = 0; i < 64; i++) bytes[i] = (uint8_t)values[bytes[i] & 15];
    memcpy(&index, bytes, sizeof bytes);
    return index;
}

/* Products of 16 bits: even and odd inputs of x apart. A product has 15 bits, so that codes of
 * four bits stay int16 over a whole piece, codes of six over two steps, codes of eight over one. */
#define VEC_WIDE(dot) 2
INLINE vi4 dot4_widen(vi4 pairs)
{
    return ((vi4)((vu4)pairs << 16) >> 16) + (pairs >> 16);
}
INLINE vi dot_widen(vi pairs)
{
    return EACH1(vi, dot4_widen, pairs);
}
INLINE vi4 dot4_unsigned(vi4 w, vi4 even, vi4 odd)
{
    vi4 mask = {0x00ff00ff, 0x00ff00ff, 0x00ff00ff, 0x00ff00ff};
    return (vi4)((vs8)(w & mask) * (vs8)even + (vs8)((vi4)((vu4)w >> 8) & mask) * (vs8)odd);
}
INLINE vi4 dot4_signed(vi4 w, vi4 even, vi4 odd)
{
    return (vi4)(((vs8)((vu4)w << 8) >> 8) * (vs8)even + ((vs8)w >> 8) * (vs8)odd);
}
INLINE vi4 dot4_add16(vi4 x, vi4 y)
{
    return (vi4)((vs8)x + (vs8)y);
}
INLINE vi dot_products(int dot, vi w, const int32_t *x, int columns)
{
    vi4 even = vi4_splat(x), odd = vi4_splat(x + columns);
    if (dot == CPU_DOT8)
        return FOUR(vi, dot4_signed(w.v0, even, odd), dot4_signed(w.v1, even, odd),
                    dot4_signed(w.v2, even, odd), dot4_signed(w.v3, even, odd));
    return FOUR(vi, dot4_unsigned(w.v0, even, odd), dot4_unsigned(w.v1, even, odd),
                dot4_unsigned(w.v2, even, odd), dot4_unsigned(w.v3, even, odd));
}
INLINE vi dot_add16(vi x, vi y)
{
    return FOUR(vi, dot4_add16(x.v0, y.v0), dot4_add16(x.v1, y.v1), dot4_add16(x.v2, y.v2),
                dot4_add16(x.v3, y.v3));
}
INLINE vi dot_start(int dot, const int32_t *correction)
{
    return dot == CPU_DOT4 ? vi_zero() : vi_splat(correction);
}
INLINE vi dot_step(int dot, vi s, vi w, const int32_t *x, int columns)
{
    vi products = dot_products(dot, w, x, columns);
    return dot == CPU_DOT4 ? dot_add16(s, products) : vi_add(s, dot_widen(products));
}
INLINE vi dot_pair(vi s, vi wa, vi wb, const int32_t *x, int columns)
{
    vi sum = dot_add16(dot_products(CPU_DOT6, wa, x, columns),
                       dot_products(CPU_DOT6, wb, x + 2 * columns, columns));
    return vi_add(s, dot_widen(sum));
}
INLINE vi dot_end(int dot, vi s, const int32_t *correction)
{
    return dot == CPU_DOT4 ? vi_add(dot_widen(s), vi_splat(correction)) : s;
}

#define VEC_PREFETCH(p) __builtin_prefetch(p)

#endif
