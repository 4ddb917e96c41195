/* The end of a sum of SPEC.md 2.4 over vectors of eight, four sums at once. */
#ifndef TENON_CPU_SUMS_M256_H
#define TENON_CPU_SUMS_M256_H

/* Each argument holds p_j + p_{j+8} of one sum; the result holds the four sums in order. */
INLINE __m128 m256_sums4(__m256 s0, __m256 s1, __m256 s2, __m256 s3)
{
    /* + 4: the lower half of each is one sum, the upper half the next */
    __m256 t01 = _mm256_add_ps(_mm256_permute2f128_ps(s0, s1, 0x20),
                               _mm256_permute2f128_ps(s0, s1, 0x31));
    __m256 t23 = _mm256_add_ps(_mm256_permute2f128_ps(s2, s3, 0x20),
                               _mm256_permute2f128_ps(s2, s3, 0x31));
    /* + 2: 0 0 2 2 | 1 1 3 3 */
    __m256 u = _mm256_add_ps(_mm256_shuffle_ps(t01, t23, 0x44), _mm256_shuffle_ps(t01, t23, 0xee));
    /* + 1: 0 2 0 2 | 1 3 1 3 */
    __m256 v = _mm256_add_ps(_mm256_shuffle_ps(u, u, 0x88), _mm256_shuffle_ps(u, u, 0xdd));
    return _mm_unpacklo_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}

#endif
