/* The vector primitives of the level avx2: 16 rows in two registers. See vec_avx512.h. */
#ifndef TENON_CPU_VEC_AVX2_H
#define TENON_CPU_VEC_AVX2_H

#if defined(TENON_CPU_EMULATED)
#include "simde_shim.h"
#else
#include <immintrin.h>
#endif

#include "level.h"

#define VEC_HAS_NIBBLE_FLOAT 0

typedef struct vf {
    __m256 a, b; /* rows 0 to 7, 8 to 15 */
} vf;
typedef struct vi {
    __m256i a, b;
} vi;

#define VF2(x, y) ((vf){(x), (y)})
#define VI2(x, y) ((vi){(x), (y)})

INLINE vf vf_zero(void)
{
    return VF2(_mm256_setzero_ps(), _mm256_setzero_ps());
}
INLINE vf vf_load(const float *p)
{
    return VF2(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
INLINE void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
INLINE vf vf_splat(const float *p)
{
    __m256 v = _mm256_set1_ps(*p);
    return VF2(v, v);
}
INLINE vf vf_add(vf x, vf y)
{
    return VF2(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b));
}
INLINE vf vf_mul(vf x, vf y)
{
    return VF2(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b));
}
INLINE vf vf_fma(vf x, vf y, vf z)
{
    return VF2(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}

INLINE vi vi_zero(void)
{
    return VI2(_mm256_setzero_si256(), _mm256_setzero_si256());
}
INLINE vi vi_load(const uint8_t *p)
{
    return VI2(_mm256_loadu_si256((const void *)p), _mm256_loadu_si256((const void *)(p + 32)));
}
INLINE vi vi_splat(const int32_t *p)
{
    __m256i v = _mm256_set1_epi32(*p);
    return VI2(v, v);
}
INLINE vi vi_add(vi x, vi y)
{
    return VI2(_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b));
}
INLINE vi vi_mul(vi x, vi y)
{
    return VI2(_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b));
}
INLINE vi vi_i8(const uint8_t *p)
{
    return VI2(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)),
               _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p + 8))));
}
INLINE vi vi_u8(const uint8_t *p)
{
    return VI2(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)),
               _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p + 8))));
}
INLINE vf vi_to_vf(vi v)
{
    return VF2(_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b));
}

INLINE vf vf_f16(const uint8_t *p)
{
    return VF2(_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
               _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 16))));
}
INLINE __m256 vf_bf16_8(const uint8_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
INLINE vf vf_bf16(const uint8_t *p)
{
    return VF2(vf_bf16_8(p), vf_bf16_8(p + 16));
}
INLINE __m256 vf_fp8_8(__m256i code)
{
    __m256i magnitude = _mm256_and_si256(code, _mm256_set1_epi32(0x7f));
    __m256i sign = _mm256_slli_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0x80)), 24);
    __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(magnitude, 20)),
                                 _mm256_set1_ps(0x1p120f));
    __m256i nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f));
    __m256i bits = _mm256_or_si256(_mm256_castps_si256(value), sign);
    return _mm256_castsi256_ps(
        _mm256_or_si256(bits, _mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000))));
}
INLINE vf vf_fp8(const uint8_t *p)
{
    vi code = vi_u8(p);
    return VF2(vf_fp8_8(code.a), vf_fp8_8(code.b));
}
INLINE __m256 vf_byte_8(__m256i v, int k)
{
    if (k < 3) v = _mm256_slli_epi32(v, 24 - 8 * k);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(v, 24));
}
INLINE vf vf_byte(vi v, int k)
{
    return VF2(vf_byte_8(v.a, k), vf_byte_8(v.b, k));
}

INLINE vi vb_low(vi v)
{
    __m256i mask = _mm256_set1_epi8(15);
    return VI2(_mm256_and_si256(v.a, mask), _mm256_and_si256(v.b, mask));
}
INLINE vi vb_high(vi v)
{
    __m256i mask = _mm256_set1_epi8(15);
    return VI2(_mm256_and_si256(_mm256_srli_epi16(v.a, 4), mask),
               _mm256_and_si256(_mm256_srli_epi16(v.b, 4), mask));
}
INLINE vi vb_or(vi x, vi y)
{
    return VI2(_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b));
}
INLINE __m256i vb_bits45_8(__m256i v, int up)
{
    if (up > 0) v = _mm256_slli_epi16(v, up);
    if (up < 0) v = _mm256_srli_epi16(v, -up);
    return _mm256_and_si256(v, _mm256_set1_epi8(0x30));
}
INLINE vi vb_bits45(vi v, int up)
{
    return VI2(vb_bits45_8(v.a, up), vb_bits45_8(v.b, up));
}
INLINE vi vb_minus32(vi v)
{
    __m256i c = _mm256_set1_epi8(32);
    return VI2(_mm256_sub_epi8(v.a, c), _mm256_sub_epi8(v.b, c));
}
INLINE vi vb_table(const int8_t *table)
{
    __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
    return VI2(t, t);
}
INLINE vi vb_lookup(vi table, vi index)
{
    return VI2(_mm256_shuffle_epi8(table.a, index.a), _mm256_shuffle_epi8(table.b, index.b));
}

#define VEC_WIDE(dot) ((dot) == CPU_DOT8 ? 2 : 1)
INLINE __m256i dot_widen_8(__m256i pairs)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
/* 4-bit codes stay int16 over a whole piece: 16 * 15 * 127 fits. */
INLINE vi dot_start(int dot, const int32_t *correction)
{
    return dot == CPU_DOT4 ? vi_zero() : vi_splat(correction);
}
INLINE __m256i dot_step_8(int dot, __m256i s, __m256i w, __m256i x, __m256i x_odd)
{
    if (dot == CPU_DOT4) return _mm256_add_epi16(s, _mm256_maddubs_epi16(w, x));
    if (dot == CPU_DOT8) {
        __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8);
        s = _mm256_add_epi32(s, _mm256_madd_epi16(even, x));
        return _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_srai_epi16(w, 8), x_odd));
    }
    return _mm256_add_epi32(s, dot_widen_8(_mm256_maddubs_epi16(w, x)));
}
INLINE vi dot_step(int dot, vi s, vi w, const int32_t *x, int columns)
{
    __m256i v = _mm256_set1_epi32(*x), odd = v;
    if (dot == CPU_DOT8) odd = _mm256_set1_epi32(x[columns]);
    return VI2(dot_step_8(dot, s.a, w.a, v, odd), dot_step_8(dot, s.b, w.b, v, odd));
}
/* 6-bit codes: two steps fit int16, 4 * 63 * 127. */
INLINE vi dot_pair(vi s, vi wa, vi wb, const int32_t *x, int columns)
{
    __m256i xa = _mm256_set1_epi32(*x), xb = _mm256_set1_epi32(x[columns]);
    __m256i sa = _mm256_add_epi16(_mm256_maddubs_epi16(wa.a, xa), _mm256_maddubs_epi16(wb.a, xb));
    __m256i sb = _mm256_add_epi16(_mm256_maddubs_epi16(wa.b, xa), _mm256_maddubs_epi16(wb.b, xb));
    return VI2(_mm256_add_epi32(s.a, dot_widen_8(sa)), _mm256_add_epi32(s.b, dot_widen_8(sb)));
}
INLINE vi dot_end(int dot, vi s, const int32_t *correction)
{
    if (dot != CPU_DOT4) return s;
    return vi_add(VI2(dot_widen_8(s.a), dot_widen_8(s.b)), vi_splat(correction));
}

#define VEC_PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

#endif
