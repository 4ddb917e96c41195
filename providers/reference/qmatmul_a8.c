/* The matrix product in class A8: SPEC.md 2.3 as it stands there. Nothing is fused. */
#include "numbers.h"
#include "qmatmul.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define INFINITY_BITS UINT32_C(0x7f800000)
#define NAN_BITS UINT32_C(0x7fc00000)

/* rint of a value of at most 127.5 in magnitude: ties to even. */
static int32_t round_half_even(float value)
{
    int32_t whole = (int32_t)value; /* towards zero */
    float rest = value - (float)whole;
    if (rest > 0.5f || (rest == 0.5f && whole % 2 != 0)) return whole + 1;
    if (rest < -0.5f || (rest == -0.5f && whole % 2 != 0)) return whole - 1;
    return whole;
}

/* One activation block: d, and u of its inputs. */
static float quantize_block(const float *x, uint32_t inputs, int8_t *u)
{
    uint32_t amax_bits = 0, i;
    float amax, d, r;

    for (i = 0; i < inputs; i++) {
        uint32_t bits = reference_bits_of(x[i]) & 0x7fffffffu;
        if (bits > amax_bits) amax_bits = bits;
        u[i] = 0;
    }
    if (amax_bits >= INFINITY_BITS) return reference_float_of(NAN_BITS);
    amax = reference_float_of(amax_bits);
    if (amax < 0x1p-40f) return 0.0f;
    d = amax / 127.0f;
    r = 1.0f / d;
    for (i = 0; i < inputs; i++) u[i] = (int8_t)round_half_even(x[i] * r);
    return d;
}

void reference_quantize(const float *x, uint64_t cols, const reference_activations *out)
{
    uint64_t first;
    for (first = 0; first < cols; first += REFERENCE_ACTIVATION_BLOCK) {
        uint64_t left = cols - first;
        uint32_t inputs = left < REFERENCE_ACTIVATION_BLOCK ? (uint32_t)left
                                                            : REFERENCE_ACTIVATION_BLOCK;
        out->d[first / REFERENCE_ACTIVATION_BLOCK] = quantize_block(x + first, inputs,
                                                                    out->u + first);
    }
}

/* The integer codes of class A8: c_i, and n_i for minima, with the scale and minimum that go with
 * them. Formats with integer sub-scales take the segment as one block. */
typedef struct integer_codes {
    int32_t c[REFERENCE_SEGMENT];
    int32_t n[REFERENCE_SEGMENT];
    uint32_t block;
    const float *s, *m; /* of each block */
} integer_codes;

static void codes_of(const reference_segment *segment, uint32_t traits, integer_codes *out)
{
    uint32_t i;
    if ((traits & TENON_TRAIT_SUBSCALES) != 0) {
        for (i = 0; i < segment->inputs; i++) {
            out->c[i] = segment->sc[i / segment->block] * (int32_t)segment->q[i];
            out->n[i] = segment->mn[i / segment->block];
        }
        out->block = segment->inputs;
        out->s = &segment->d;
        out->m = &segment->dmin;
    } else {
        for (i = 0; i < segment->inputs; i++) {
            out->c[i] = (int32_t)segment->q[i];
            out->n[i] = 1;
        }
        out->block = segment->block;
        out->s = segment->s;
        out->m = segment->m;
    }
}

/* T or M of one block: the sum over its pieces, the parts of it that lie in one activation block
 * each. k holds c or n of the block, whose first input is input first of the row. */
static float piece_sum(const int32_t *k, uint64_t first, uint32_t inputs,
                       const reference_activations *x)
{
    float total = 0.0f;
    uint32_t i = 0;

    while (i < inputs) {
        uint64_t p = (first + i) / REFERENCE_ACTIVATION_BLOCK;
        int32_t sum = 0; /* below 2^24 in magnitude, so its conversion is exact */
        for (; i < inputs && (first + i) / REFERENCE_ACTIVATION_BLOCK == p; i++)
            sum += k[i] * x->u[first + i];
        total = total + x->d[p] * (float)sum;
    }
    return total;
}

float reference_dot_a8(const reference_weight *weight, uint64_t row, const reference_activations *x)
{
    reference_segment segment;
    uint64_t first;
    integer_codes codes;
    float y = 0.0f;

    for (first = 0; first < weight->cols; first += segment.inputs) {
        float a = 0.0f;
        uint32_t b, i = 0;

        reference_decode(weight, row, first, &segment);
        codes_of(&segment, weight->info.traits, &codes);
        for (b = 0; i < segment.inputs; b++) {
            uint32_t left = segment.inputs - i;
            uint32_t inputs = left < codes.block ? left : codes.block;

            a = a + codes.s[b] * piece_sum(codes.c + i, first + i, inputs, x);
            if ((weight->info.traits & TENON_TRAIT_MINIMA) != 0)
                a = a - codes.m[b] * piece_sum(codes.n + i, first + i, inputs, x);
            i += inputs;
        }
        y = y + a;
    }
    return y;
}
