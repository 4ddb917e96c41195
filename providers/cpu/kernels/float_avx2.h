/* Further vector primitives of the level avx2, for the whole operations: see float_avx512.h. */
#ifndef TENON_CPU_FLOAT_AVX2_H
#define TENON_CPU_FLOAT_AVX2_H

#include "vec_avx2.h"

#include "sums_m256.h"

#define VEC_KEYS 4

INLINE vf vf_div(vf x, vf y)
{
    return VF2(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b));
}
INLINE vf vf_greater(vf x, vf y)
{
    return VF2(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b));
}
INLINE vf vf_less(vf x, vf y)
{
    return VF2(_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b));
}
INLINE vf vf_abs(vf x)
{
    __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    return VF2(_mm256_and_ps(x.a, mask), _mm256_and_ps(x.b, mask));
}
INLINE __m256 vf_if_negative_8(__m256 x, __m256 a, __m256 b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
}
INLINE vf vf_if_negative(vf x, vf a, vf b)
{
    return VF2(vf_if_negative_8(x.a, a.a, b.a), vf_if_negative_8(x.b, a.b, b.b));
}
INLINE __m256 vf_scale_8(__m256 p, __m256 z)
{
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(z), _mm256_set1_epi32(0x4b400000));
    __m256i half = _mm256_srai_epi32(n, 1), rest = _mm256_sub_epi32(n, half);
    __m256i one = _mm256_set1_epi32(127);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, one), 23)));
    return _mm256_mul_ps(p,
                         _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, one), 23)));
}
INLINE vf vf_scale(vf p, vf z)
{
    return VF2(vf_scale_8(p.a, z.a), vf_scale_8(p.b, z.b));
}
INLINE __m256 vf_fold(vf x)
{
    return _mm256_add_ps(x.a, x.b);
}
INLINE void vf_sums4(const vf *p, float *out)
{
    _mm_storeu_ps(out, m256_sums4(vf_fold(p[0]), vf_fold(p[1]), vf_fold(p[2]), vf_fold(p[3])));
}

#endif
