/* The vector primitives of the levels avx512 and avx512vnni: 16 rows in one register.
 *
 * vf: a float a row. vi: 64 bytes, as 16 int32 (a row each), as codes (a dword is a row) or, in
 * dot products without VNNI, as int16 pairs. vec_avx2.h and vec_portable.h hold the same names. */
#ifndef TENON_CPU_VEC_AVX512_H
#define TENON_CPU_VEC_AVX512_H

#if defined(TENON_CPU_EMULATED)
#include "simde_shim.h"
#else
#include <immintrin.h>
#endif

#include "level.h"

#define VEC_HAS_NIBBLE_FLOAT 1 /* vf_nibble is cheaper than going through bytes */

typedef __m512 vf;
typedef __m512i vi;

INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
INLINE vf vf_splat(const float *p)
{
    return _mm512_set1_ps(*p);
}
INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

INLINE vi vi_zero(void)
{
    return _mm512_setzero_si512();
}
INLINE vi vi_load(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}
INLINE vi vi_splat(const int32_t *p)
{
    return _mm512_set1_epi32(*p);
}
INLINE vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
INLINE vi vi_mul(vi a, vi b)
{
    return _mm512_mullo_epi32(a, b);
}
INLINE vi vi_i8(const uint8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p));
}
INLINE vi vi_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}
INLINE vf vi_to_vf(vi v)
{
    return _mm512_cvtepi32_ps(v);
}

/* 16 stored numbers as floats, each conversion exact. */
INLINE vf vf_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
INLINE vf vf_bf16(const uint8_t *p)
{
    vi wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
/* E4M3FN: its exponent and mantissa are those of a float 2^120 too small; 0x7f is NaN. */
INLINE vf vf_fp8(const uint8_t *p)
{
    vi code = vi_u8(p), magnitude = _mm512_and_si512(code, _mm512_set1_epi32(0x7f));
    vi sign = _mm512_slli_epi32(_mm512_and_si512(code, _mm512_set1_epi32(0x80)), 24);
    vf value = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(magnitude, 20)),
                             _mm512_set1_ps(0x1p120f));
    __mmask16 nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7f));
    vi bits = _mm512_or_si512(_mm512_castps_si512(value), sign);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000)));
}
/* Byte k of every dword, signed, as a float. Here and below, k, shift and up are constants. */
INLINE vf vf_byte(vi v, int k)
{
    if (k < 3) v = _mm512_slli_epi32(v, (unsigned int)(24 - 8 * k));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(v, 24));
}
/* The table's entry chosen by the four bits of every dword from bit shift on. */
INLINE vf vf_nibble(vi v, int shift, vf table)
{
    if (shift > 0) v = _mm512_srli_epi32(v, (unsigned int)shift);
    return _mm512_permutexvar_ps(v, table);
}

INLINE vi vb_low(vi v)
{
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}
INLINE vi vb_high(vi v)
{
    return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
}
INLINE vi vb_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}
/* Bits 4 and 5 of every byte of v moved up by 4, 2 or 0, or down by 2 (-2). The type of a shift count
 * differs between compilers, so the counts are written out. */
INLINE vi vb_bits45(vi v, int up)
{
    if (up == 4) v = _mm512_slli_epi16(v, 4);
    if (up == 2) v = _mm512_slli_epi16(v, 2);
    if (up == -2) v = _mm512_srli_epi16(v, 2);
    return _mm512_and_si512(v, _mm512_set1_epi8(0x30));
}
INLINE vi vb_minus32(vi v)
{
    return _mm512_sub_epi8(v, _mm512_set1_epi8(32));
}
INLINE vi vb_table(const int8_t *table)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table));
}
INLINE vi vb_lookup(vi table, vi index)
{
    return _mm512_shuffle_epi8(table, index);
}

/* The integer dot product of class A8. s: sums so far; w: codes of four inputs a row; x: the same
 * inputs of one token: a dword of bytes, or where VEC_WIDE(dot) is 2 the even inputs as int16 and
 * columns dwords on the odd ones. */
#if defined(LEVEL_VNNI)

#define VEC_WIDE(dot) 1
INLINE vi dot_start(int dot, const int32_t *correction)
{
    (void)dot;
    return vi_splat(correction);
}
INLINE vi dot_step(int dot, vi s, vi w, const int32_t *x, int columns)
{
    (void)dot;
    (void)columns;
    return _mm512_dpbusd_epi32(s, w, vi_splat(x));
}
INLINE vi dot_pair(vi s, vi wa, vi wb, const int32_t *x, int columns)
{
    s = _mm512_dpbusd_epi32(s, wa, vi_splat(x));
    return _mm512_dpbusd_epi32(s, wb, vi_splat(x + columns));
}
INLINE vi dot_end(int dot, vi s, const int32_t *correction)
{
    (void)dot;
    (void)correction;
    return s;
}

#else

#define VEC_WIDE(dot) ((dot) == CPU_DOT8 ? 2 : 1)
INLINE vi dot_widen(vi pairs)
{
    return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}
/* 4-bit codes stay int16 over a whole piece: 16 * 15 * 127 fits. */
INLINE vi dot_start(int dot, const int32_t *correction)
{
    return dot == CPU_DOT4 ? vi_zero() : vi_splat(correction);
}
INLINE vi dot_step(int dot, vi s, vi w, const int32_t *x, int columns)
{
    if (dot == CPU_DOT4) return _mm512_add_epi16(s, _mm512_maddubs_epi16(w, vi_splat(x)));
    if (dot == CPU_DOT8) {
        vi even = _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8), odd = _mm512_srai_epi16(w, 8);
        s = _mm512_add_epi32(s, _mm512_madd_epi16(even, vi_splat(x)));
        return _mm512_add_epi32(s, _mm512_madd_epi16(odd, vi_splat(x + columns)));
    }
    return _mm512_add_epi32(s, dot_widen(_mm512_maddubs_epi16(w, vi_splat(x))));
}
/* 6-bit codes: two steps fit int16, 4 * 63 * 127. */
INLINE vi dot_pair(vi s, vi wa, vi wb, const int32_t *x, int columns)
{
    vi sum = _mm512_add_epi16(_mm512_maddubs_epi16(wa, vi_splat(x)),
                              _mm512_maddubs_epi16(wb, vi_splat(x + columns)));
    return _mm512_add_epi32(s, dot_widen(sum));
}
INLINE vi dot_end(int dot, vi s, const int32_t *correction)
{
    return dot == CPU_DOT4 ? vi_add(dot_widen(s), vi_splat(correction)) : s;
}

#endif

#define VEC_PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

#endif
