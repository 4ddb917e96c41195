/* exp as SPEC.md 2.4 has it: x = n ln 2 + r, then a polynomial in r and two powers of two. */
#include "exp.h"

#include <stdint.h>

#include "fma_exact.h"
#include "numbers.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* 2^n for n of -126 to 127 */
static float power_of_two(int32_t n)
{
    return reference_float_of((uint32_t)(n + 127) << 23);
}

float reference_exp(float x)
{
    static const float coefficients[] = {0x1.123a2p-7f,  0x1.5558f2p-5f, 0x1.555492p-3f,
                                         0x1.fffffcp-2f, 1.0f,           1.0f};
    float z, n, r, p = 0x1.6a23d2p-10f;
    int32_t whole, half;
    uint32_t i;

    if (x != x) return x;
    if (x < -104.0f) x = -104.0f;
    if (x > 89.0f) x = 89.0f;
    /* Adding 1.5 * 2^23 leaves no room for a fraction: z - that is x * log2(e) as an integer. */
    z = reference_fma(x, 0x1.715476p0f, 0x1.8p23f);
    n = z - 0x1.8p23f;
    r = reference_fma(n, -0x1.62e4p-1f, x);
    r = reference_fma(n, -0x1.7f7d1cp-20f, r);
    for (i = 0; i < sizeof coefficients / sizeof *coefficients; i++)
        p = reference_fma(p, r, coefficients[i]);
    whole = (int32_t)n;                                 /* -150 to 128: two factors, both normal */
    half = (whole - (whole < 0 && whole % 2 != 0)) / 2; /* towards minus infinity */
    return p * power_of_two(half) * power_of_two(whole - half);
}
