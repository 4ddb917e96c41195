/* The matrix product in class F32: SPEC.md 2.2 as it stands there. */
#include "fma_exact.h"
#include "qmatmul.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* The sum a of one segment; x points at its first input. */
static float segment_sum(const reference_segment *segment, uint32_t traits, const float *x)
{
    float a = 0.0f;
    uint32_t b, i = 0;

    for (b = 0; i < segment->inputs; b++) {
        uint32_t end = i + segment->block;
        float t = 0.0f, sum = 0.0f;

        if (end > segment->inputs) end = segment->inputs;
        for (; i < end; i++) {
            t = reference_fma(segment->q[i], x[i], t);
            sum = sum + x[i];
        }
        a = reference_fma(segment->s[b], t, a);
        if ((traits & TENON_TRAIT_MINIMA) != 0) a = reference_fma(-segment->m[b], sum, a);
    }
    return a;
}

/* The same for formats whose codes are the values themselves: one block, no scale step. */
static float plain_sum(const reference_segment *segment, const float *x)
{
    float t = 0.0f;
    uint32_t i;
    for (i = 0; i < segment->inputs; i++) t = reference_fma(segment->q[i], x[i], t);
    return t;
}

float reference_dot_f32(const reference_weight *weight, uint64_t row, const float *x)
{
    /* fp8-e4m3-b128 has float codes and scales: only the formats of one value a block are plain. */
    int plain = weight->info.block_inputs == 1;
    reference_segment segment;
    uint64_t first;
    float y = 0.0f;

    for (first = 0; first < weight->cols; first += segment.inputs) {
        float a;
        reference_decode(weight, row, first, &segment);
        a = plain ? plain_sum(&segment, x + first)
                  : segment_sum(&segment, weight->info.traits, x + first);
        y = y + a;
    }
    return y;
}
