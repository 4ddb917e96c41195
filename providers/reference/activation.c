/* silu, gelu in both forms, relu: SPEC.md 2.4 as it stands there. */
#include "activation.h"

#include <math.h>
#include <tenon/op/gated.h>

#include "exp.h"
#include "fma_exact.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

static float silu(float x)
{
    return x / (1.0f + reference_exp(-x));
}

static float gelu_tanh(float x)
{
    float v = x * reference_fma(x * x, 0x1.2444f2p-4f, 0x1.988454p0f);
    return x / (1.0f + reference_exp(-v));
}

/* x * Phi(x), by x - |x| * Q(|x|) above zero and |x| * Q(|x|) below it: Q = exp(-x^2 / 2) * p. */
static float gelu_erf(float x)
{
    static const float coefficients[] = {-0x1.2bbf24p-4f, 0x1.238de2p-4f,  0x1.4b4984p-7f,
                                         0x1.7ed78ap-6f,  -0x1.1e2c84p-3f, -0x1.4bdb24p-4f,
                                         0x1.3c7d82p-1f,  -0x1.a8dc7ap-1f, 0.5f};
    float a = fabsf(x), t, s, p = 0x1.51eaf4p-6f, h, l, e, q;
    uint32_t i;

    if (x != x) return x;
    if (a > 14.5f) a = 14.5f;
    t = 1.0f / reference_fma(0x1.333334p-2f, a, 1.0f);
    s = 0x1.333334p-2f * a * t;
    for (i = 0; i < sizeof coefficients / sizeof *coefficients; i++)
        p = reference_fma(p, s, coefficients[i]);
    p = p * t;
    h = a * a;
    l = reference_fma(a, a, -h); /* what the rounding of h lost */
    e = reference_exp(-0.5f * h);
    e = reference_fma(-0.5f * l, e, e);
    q = e * p;
    return x < 0.0f ? -a * q : reference_fma(-a, q, x);
}

static float relu(float x)
{
    if (x != x) return x;
    return x > 0.0f ? x : 0.0f;
}

float reference_activate(uint32_t activation, float x)
{
    switch (activation) {
    case TENON_ACT_SILU: return silu(x);
    case TENON_ACT_GELU_TANH: return gelu_tanh(x);
    case TENON_ACT_GELU_ERF: return gelu_erf(x);
    default: return relu(x);
    }
}
