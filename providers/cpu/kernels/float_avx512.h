/* Further vector primitives of the AVX-512 levels, for the whole operations: see vec_avx512.h.
 * float_avx2.h and float_portable.h hold the same names. */
#ifndef TENON_CPU_FLOAT_AVX512_H
#define TENON_CPU_FLOAT_AVX512_H

#include "vec_avx512.h"

#include "sums_m256.h"

#define VEC_KEYS 8 /* scores at once */

INLINE vf vf_div(vf x, vf y)
{
    return _mm512_div_ps(x, y);
}
/* x > y ? x : y, lane by lane: y where one of them is NaN. */
INLINE vf vf_greater(vf x, vf y)
{
    return _mm512_max_ps(x, y);
}
/* x < y ? x : y */
INLINE vf vf_less(vf x, vf y)
{
    return _mm512_min_ps(x, y);
}
INLINE vf vf_abs(vf x)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}
/* x < 0 ? a : b */
INLINE vf vf_if_negative(vf x, vf a, vf b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), b, a);
}
/* p * 2^floor(n / 2) * 2^(n - floor(n / 2)), where z = 1.5 * 2^23 + n */
INLINE vf vf_scale(vf p, vf z)
{
    vi n = _mm512_sub_epi32(_mm512_castps_si512(z), _mm512_set1_epi32(0x4b400000));
    vi half = _mm512_srai_epi32(n, 1), rest = _mm512_sub_epi32(n, half);
    vi one = _mm512_set1_epi32(127);
    p = _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(half, one), 23)));
    return _mm512_mul_ps(p,
                         _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(rest, one), 23)));
}
INLINE __m256 vf_fold(vf x)
{
    return _mm256_add_ps(_mm512_castps512_ps256(x),
                         _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));
}
/* The sums of four vectors, each in the order of SPEC.md 2.4. */
INLINE void vf_sums4(const vf *p, float *out)
{
    _mm_storeu_ps(out, m256_sums4(vf_fold(p[0]), vf_fold(p[1]), vf_fold(p[2]), vf_fold(p[3])));
}

#endif
