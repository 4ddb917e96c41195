/* dot16 and the end of sum16, SPEC.md 2.4. */
#include "sums.h"

#include "fma_exact.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

float reference_sum_lanes(float p[16])
{
    uint32_t half, j;
    for (half = 8; half > 0; half /= 2)
        for (j = 0; j < half; j++) p[j] = p[j] + p[j + half];
    return p[0];
}

float reference_dot16(const float *x, const float *y, uint64_t count)
{
    float p[16] = {0};
    uint64_t i;
    for (i = 0; i < count; i++) p[i % 16] = reference_fma(x[i], y[i], p[i % 16]);
    return reference_sum_lanes(p);
}
