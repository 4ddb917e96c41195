/* Attention of one query head over the primitives of one level (SPEC.md 2.4). Scores come VEC_KEYS
 * at once; lanes of a sum are inputs, or positions mod 16; outputs are lanes of their own. */
#ifndef TENON_CPU_OPERATION_ATTENTION_H
#define TENON_CPU_OPERATION_ATTENTION_H

#include "operation_rows.h"

#define ATTENTION_SEGMENT 256u

/* Sixteen elements of a cache as floats. half is a constant. */
INLINE vf cache_load(const void *row, uint64_t i, int half)
{
    return half ? vf_f16((const uint8_t *)row + 2 * i) : vf_load((const float *)row + i);
}
INLINE const void *cache_row(const void *rows, uint64_t position, uint64_t stride, int half)
{
    return (const uint8_t *)rows + position * stride * (half ? 2 : 4);
}

/* Scores of the positions [t, t + keys) of the cache, not scaled. Padding adds +0 to a partial
 * result; where that makes +0 of -0 only the sign of a zero score changes, which exp does not see. */
INLINE void dot_keys(const cpu_attention_args *args, uint64_t t, uint64_t keys, int half,
                     float *out)
{
    const void *rows[VEC_KEYS];
    vf p[VEC_KEYS];
    uint64_t i;
    int k;

    for (k = 0; k < VEC_KEYS; k++) {
        /* beyond the last: the last once more, not used */
        uint64_t at = (uint64_t)k < keys ? t + (uint64_t)k : t + keys - 1;
        rows[k] = cache_row(args->k, at, args->stride, half);
        p[k] = vf_zero();
    }
    for (i = 0; i < args->stride; i += 16) {
        vf q = vf_load(args->q + i);
        for (k = 0; k < VEC_KEYS; k++) p[k] = vf_fma(q, cache_load(rows[k], i, half), p[k]);
    }
    for (k = 0; k < VEC_KEYS; k += 4) vf_sums4(p + k, out + k);
}

/* Fills the scores of the visible positions and returns the greatest. scores[0] belongs to base. */
INLINE float all_scores(const cpu_attention_args *args, uint64_t base, int half)
{
    float greatest = -INFINITY, few[VEC_KEYS];
    uint64_t t, k, keys;

    for (t = args->first; t < args->end; t += keys) {
        keys = args->end - t < VEC_KEYS ? args->end - t : VEC_KEYS;
        dot_keys(args, t, keys, half, few);
        for (k = 0; k < keys; k++) {
            float score = few[k] * args->scale;
            args->scores[t - base + k] = score;
            if (score > greatest) greatest = score;
        }
    }
    return greatest;
}

/* o of count positions from t on, 16 * chunks outputs from d on; added to y. chunks is a constant. */
INLINE void add_values(const cpu_attention_args *args, const float *e, uint64_t t, uint64_t count,
                       uint64_t d, int chunks, int half)
{
    vf o[4];
    uint64_t i;
    int c;

    for (c = 0; c < chunks; c++) o[c] = vf_zero();
    for (i = 0; i < count; i++) {
        const void *row = cache_row(args->v, t + i, args->stride, half);
        vf weight = vf_splat(e + i);
        for (c = 0; c < chunks; c++)
            o[c] = vf_fma(weight, cache_load(row, d + 16 * (uint64_t)c, half), o[c]);
    }
    for (c = 0; c < chunks; c++) {
        float *y = args->y + d + 16 * (uint64_t)c;
        vf_store(y, vf_add(vf_load(y), o[c]));
    }
}

INLINE void attention(const cpu_attention_args *args, int half)
{
    uint64_t base = args->first / 16 * 16, end = (args->end + 15) / 16 * 16, t, i, d;
    float *scores = args->scores, greatest, den = 0.0f;
    vf minus, inverse;

    for (d = 0; d < args->stride; d += 16) vf_store(args->y + d, vf_zero());
    greatest = all_scores(args, base, half);
    for (i = 0; i < args->first - base; i++) scores[i] = greatest;
    for (i = args->end; i < end; i++) scores[i - base] = greatest;
    minus = vf_const(-greatest);
    for (i = 0; i < end - base; i += 16)
        vf_store(scores + i, vf_exp(vf_add(vf_load(scores + i), minus)));
    /* Hidden positions beside the visible ones add +0 to sums that are never -0. */
    for (i = 0; i < args->first - base; i++) scores[i] = 0.0f;
    for (i = args->end; i < end; i++) scores[i - base] = 0.0f;

    for (t = args->first; t < args->end;) {
        uint64_t next = (t / ATTENTION_SEGMENT + 1) * ATTENTION_SEGMENT;
        vf p = vf_zero();
        if (next > args->end) next = args->end;
        for (i = t / 16 * 16; i < next; i += 16) p = vf_add(p, vf_load(scores + (i - base)));
        den = den + vf_total(p);
        for (d = 0; d + 64 <= args->stride; d += 64)
            add_values(args, scores + (t - base), t, next - t, d, 4, half);
        for (; d < args->stride; d += 16)
            add_values(args, scores + (t - base), t, next - t, d, 1, half);
        t = next;
    }
    inverse = vf_const(1.0f / den);
    for (d = 0; d < args->stride; d += 16)
        vf_store(args->y + d, vf_mul(vf_load(args->y + d), inverse));
}

static void attention_f32(const cpu_attention_args *args)
{
    attention(args, 0);
}

static void attention_f16(const cpu_attention_args *args)
{
    attention(args, 1);
}

#define OPERATIONS \
    { \
        .add = add, .gated = gated, .rmsnorm = rmsnorm, .argmax = argmax, .rotate = rotate, \
        .attention_f32 = attention_f32, .attention_f16 = attention_f16, .weigh = weigh \
    }

#endif
