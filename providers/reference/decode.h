/* From the bytes of a weight to the codes, scales and minima that SPEC.md 2 computes with.
 *
 * The unit is the segment of SPEC.md 2.2: the longest stretch of a row whose products are summed
 * before they join y. One function a format fills it; both classes read it. [any thread] */
#ifndef TENON_REFERENCE_DECODE_H
#define TENON_REFERENCE_DECODE_H

#include <tenon/format.h>

#define REFERENCE_SEGMENT 256u /* inputs of a segment at most */

/* A weight as the reference holds it. */
typedef struct reference_weight {
    tenon_format_info info;
    uint32_t layout; /* TENON_LAYOUT_* */
    uint32_t arith;  /* TENON_CLASS_* */
    uint64_t rows, cols;
    uint64_t block;         /* B of SPEC.md 2.2, in inputs; may exceed cols */
    uint64_t row_bytes;     /* of codes or blocks */
    const uint8_t *weights; /* at any alignment */
    const uint8_t *scales;  /* separate-scale formats only */
} reference_weight;

/* One segment of a row: w_i = s_b * q_i - m_b for the input i of block b. */
typedef struct reference_segment {
    uint32_t inputs;            /* 1 to REFERENCE_SEGMENT */
    uint32_t block;             /* inputs a block; the last block may be short */
    float q[REFERENCE_SEGMENT]; /* codes: integers, except in formats of TENON_TRAIT_FLOATS */
    float s[REFERENCE_SEGMENT]; /* scale of each block */
    float m[REFERENCE_SEGMENT]; /* minimum of each block, 0 in formats without minima */
    /* Formats of TENON_TRAIT_SUBSCALES: s_b = d * sc_b and m_b = dmin * mn_b. */
    float d, dmin;
    int32_t sc[16], mn[16];
} reference_segment;

/* Sets up *weight from a description that tenon_weight_bytes accepts. */
void reference_weight_describe(reference_weight *weight, const tenon_weight_desc *desc,
                               const uint8_t *weights, const uint8_t *scales);

/* Decodes the segment of row that starts at input first. first is 0, or first + inputs of the
 * segment before it. */
void reference_decode(const reference_weight *weight, uint64_t row, uint64_t first,
                      reference_segment *out);

/* Fills q, s, m and the sub-scales from one stored block whose first input is input i of the
 * segment and whose first arithmetic block is block b of it. */
typedef void reference_block_decoder(const uint8_t *block, uint32_t i, uint32_t b,
                                     reference_segment *out);
/* The decoder of a GGUF block format, NULL for the other formats. */
reference_block_decoder *reference_decoder_of(uint32_t format);

/* Fills q and s of a separate-scale format; out->inputs and out->block are set. */
void reference_decode_separate(const reference_weight *weight, uint64_t row, uint64_t first,
                               reference_segment *out);

/* {0, 1, 2, 3, 4, 6, 8, 12} and their negatives: twice the values of e2m1. */
extern const int8_t reference_e2m1_doubled[16];

#endif
