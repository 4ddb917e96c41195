/* add, gated, rmsnorm, argmax and the rotation over the primitives of one level: the order of
 * SPEC.md 2.4, sixteen values at once. */
#ifndef TENON_CPU_OPERATION_ROWS_H
#define TENON_CPU_OPERATION_ROWS_H

#include <math.h>
#include <string.h>
#include <tenon/op/argmax.h>
#include <tenon/op/gated.h>

#include "operations.h"

INLINE vf vf_const(float value)
{
    return vf_splat(&value);
}
/* 16 values, or the last count of a row followed by zeros. */
INLINE vf vf_load_some(const float *p, uint64_t count)
{
    float part[16] = {0};
    if (count >= 16) return vf_load(p);
    memcpy(part, p, (size_t)count * sizeof *p);
    return vf_load(part);
}
INLINE void vf_store_some(float *p, uint64_t count, vf v)
{
    float part[16];
    if (count >= 16) {
        vf_store(p, v);
        return;
    }
    vf_store(part, v);
    memcpy(p, part, (size_t)count * sizeof *p);
}
/* The sum of sixteen partial results. */
INLINE float vf_total(vf p)
{
    vf four[4];
    float out[4];
    four[0] = p;
    four[1] = four[2] = four[3] = vf_zero();
    vf_sums4(four, out);
    return out[0];
}

INLINE vf vf_exp(vf x)
{
    vf z, n, r, p = vf_const(0x1.6a23d2p-10f);
    /* NaN stays: the second operand is kept where a comparison fails. */
    x = vf_less(vf_const(89.0f), vf_greater(vf_const(-104.0f), x));
    z = vf_fma(x, vf_const(0x1.715476p0f), vf_const(0x1.8p23f));
    n = vf_add(z, vf_const(-0x1.8p23f));
    r = vf_fma(n, vf_const(-0x1.62e4p-1f), x);
    r = vf_fma(n, vf_const(-0x1.7f7d1cp-20f), r);
    p = vf_fma(p, r, vf_const(0x1.123a2p-7f));
    p = vf_fma(p, r, vf_const(0x1.5558f2p-5f));
    p = vf_fma(p, r, vf_const(0x1.555492p-3f));
    p = vf_fma(p, r, vf_const(0x1.fffffcp-2f));
    p = vf_fma(p, r, vf_const(1.0f));
    p = vf_fma(p, r, vf_const(1.0f));
    return vf_scale(p, z);
}

INLINE vf vf_negative(vf x)
{
    return vf_mul(x, vf_const(-1.0f));
}
/* x / (1 + exp(-v)) */
INLINE vf vf_gate(vf x, vf v)
{
    return vf_div(x, vf_add(vf_const(1.0f), vf_exp(vf_negative(v))));
}
INLINE vf vf_silu(vf x)
{
    return vf_gate(x, x);
}
INLINE vf vf_gelu_tanh(vf x)
{
    vf inner = vf_fma(vf_mul(x, x), vf_const(0x1.2444f2p-4f), vf_const(0x1.988454p0f));
    return vf_gate(x, vf_mul(x, inner));
}
INLINE vf vf_gelu_erf(vf x)
{
    vf a = vf_less(vf_abs(x), vf_const(14.5f)), minus_a = vf_negative(a);
    vf t = vf_div(vf_const(1.0f), vf_fma(vf_const(0x1.333334p-2f), a, vf_const(1.0f)));
    vf s = vf_mul(vf_mul(vf_const(0x1.333334p-2f), a), t), p = vf_const(0x1.51eaf4p-6f), h, l, e, q;
    p = vf_fma(p, s, vf_const(-0x1.2bbf24p-4f));
    p = vf_fma(p, s, vf_const(0x1.238de2p-4f));
    p = vf_fma(p, s, vf_const(0x1.4b4984p-7f));
    p = vf_fma(p, s, vf_const(0x1.7ed78ap-6f));
    p = vf_fma(p, s, vf_const(-0x1.1e2c84p-3f));
    p = vf_fma(p, s, vf_const(-0x1.4bdb24p-4f));
    p = vf_fma(p, s, vf_const(0x1.3c7d82p-1f));
    p = vf_fma(p, s, vf_const(-0x1.a8dc7ap-1f));
    p = vf_mul(vf_fma(p, s, vf_const(0.5f)), t);
    h = vf_mul(a, a);
    l = vf_fma(a, a, vf_negative(h));
    e = vf_exp(vf_mul(vf_const(-0.5f), h));
    e = vf_fma(vf_mul(vf_const(-0.5f), l), e, e);
    q = vf_mul(e, p);
    return vf_if_negative(x, vf_mul(minus_a, q), vf_fma(minus_a, q, x));
}
/* NaN stays, and adding +0 makes +0 of -0. */
INLINE vf vf_relu(vf x)
{
    return vf_add(vf_greater(vf_zero(), x), vf_zero());
}

#define GATED_LOOP(activate) \
    for (i = 0; i < count; i += 16) { \
        uint64_t left = count - i; \
        vf act = activate(vf_load_some(gate + i, left)); \
        vf_store_some(y + i, left, vf_mul(act, vf_load_some(up + i, left))); \
    }

static void gated(uint32_t activation, const float *gate, const float *up, uint64_t count, float *y)
{
    uint64_t i;
    switch (activation) {
    case TENON_ACT_SILU: GATED_LOOP(vf_silu) break;
    case TENON_ACT_GELU_TANH: GATED_LOOP(vf_gelu_tanh) break;
    case TENON_ACT_GELU_ERF: GATED_LOOP(vf_gelu_erf) break;
    default: GATED_LOOP(vf_relu) break;
    }
}

static void add(const float *a, const float *b, uint64_t count, float *y)
{
    uint64_t i;
    for (i = 0; i < count; i += 16) {
        uint64_t left = count - i;
        vf_store_some(y + i, left, vf_add(vf_load_some(a + i, left), vf_load_some(b + i, left)));
    }
}

static void rmsnorm(const float *x, const float *w, uint64_t count, float eps, float *y)
{
    vf p = vf_zero(), factor;
    float v, r;
    uint64_t i;

    /* Squares of padding add +0 to a partial result that is never -0: nothing changes. */
    for (i = 0; i < count; i += 16) {
        vf part = vf_load_some(x + i, count - i);
        p = vf_fma(part, part, p);
    }
    v = vf_total(p) / (float)count + eps;
    r = v == 0.0f ? 0.0f : 1.0f / sqrtf(v);
    factor = vf_const(r);
    for (i = 0; i < count; i += 16) {
        uint64_t left = count - i;
        vf part = vf_mul(vf_load_some(x + i, left), factor);
        vf_store_some(y + i, left, vf_mul(part, vf_load_some(w + i, left)));
    }
}

/* The greatest value of a stretch, NaN left aside; -inf when there is none. */
INLINE float greatest_of(const float *x, uint64_t count)
{
    vf best = vf_const(-INFINITY);
    float lanes[16], most;
    uint64_t i;

    for (i = 0; i + 16 <= count; i += 16) best = vf_greater(vf_load(x + i), best);
    vf_store(lanes, best);
    most = lanes[0];
    for (i = 1; i < 16; i++)
        if (lanes[i] > most) most = lanes[i];
    for (i = count / 16 * 16; i < count; i++)
        if (x[i] > most) most = x[i];
    return most;
}

/* The stretch with the first maximum, then the place in it. */
static uint32_t argmax(const float *x, uint64_t count)
{
    enum { STRETCH = 1024 };
    uint64_t at, i, first = 0;
    float most = -INFINITY;

    for (at = 0; at < count; at += STRETCH) {
        float here = greatest_of(x + at, count - at < STRETCH ? count - at : STRETCH);
        if (here > most) {
            most = here;
            first = at;
        }
    }
    /* With nothing above -inf the first -inf counts, wherever it is. */
    for (i = first; i < count; i++)
        if (x[i] == most) return (uint32_t)i;
    return TENON_ARGMAX_NONE;
}

static void weigh(const float *q, const float *s, const float *n, uint64_t count, float factor,
                  float *y)
{
    uint64_t i;
    for (i = 0; i < count; i += 16) {
        vf w = vf_load(q + i);
        if (n != NULL)
            w = vf_fma(vf_load(s + i), w, vf_load(n + i));
        else if (s != NULL)
            w = vf_mul(vf_load(s + i), w);
        if (factor != 1.0f) w = vf_mul(w, vf_const(factor));
        vf_store_some(y + i, count - i, w);
    }
}

static void rotate(const float *x, uint64_t count, uint64_t pairs, int adjacent, const float *c,
                   const float *s, float *y)
{
    uint64_t i, k;

    for (i = 0; i < pairs; i += 16) {
        uint64_t left = pairs - i < 16 ? pairs - i : 16;
        float a[16] = {0}, b[16] = {0};
        vf va, vb, vc = vf_load(c + i), vs = vf_load(s + i);

        for (k = 0; k < left; k++) {
            a[k] = adjacent ? x[2 * (i + k)] : x[i + k];
            b[k] = adjacent ? x[2 * (i + k) + 1] : x[i + k + pairs];
        }
        va = vf_load(a);
        vb = vf_load(b);
        vf_store(a, vf_fma(va, vc, vf_negative(vf_mul(vb, vs))));
        vf_store(b, vf_fma(vb, vc, vf_mul(va, vs)));
        for (k = 0; k < left; k++) {
            y[adjacent ? 2 * (i + k) : i + k] = a[k];
            y[adjacent ? 2 * (i + k) + 1 : i + k + pairs] = b[k];
        }
    }
    if (y != x && count > 2 * pairs)
        memcpy(y + 2 * pairs, x + 2 * pairs, (size_t)(count - 2 * pairs) * sizeof *y);
}

#endif
