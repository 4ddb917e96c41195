/* Cuts a row into segments and hands each to the decoder of its format. */
#include "decode.h"

#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void reference_weight_describe(reference_weight *weight, const tenon_weight_desc *desc,
                               const uint8_t *weights, const uint8_t *scales)
{
    memset(weight, 0, sizeof *weight);
    (void)tenon_format_find(desc->format, &weight->info);
    weight->layout = desc->layout;
    weight->arith = desc->arith;
    weight->rows = desc->rows;
    weight->cols = desc->cols;
    switch (weight->info.arith_block) {
    case 0: weight->block = desc->cols; break;
    case 1: weight->block = desc->group_size; break;
    default: weight->block = weight->info.arith_block; break;
    }
    weight->row_bytes = tenon_row_bytes(desc->format, desc->cols);
    weight->weights = weights;
    weight->scales = scales;
}

/* Inputs of the segment that starts at input first: max(1, 256 div B) whole blocks; of a block
 * longer than 256, the next 256 inputs of that block. */
static uint32_t segment_inputs(const reference_weight *weight, uint64_t first)
{
    uint64_t block = weight->block, length;
    if (block <= REFERENCE_SEGMENT)
        length = REFERENCE_SEGMENT / block * block;
    else
        length = least(REFERENCE_SEGMENT, block - first % block);
    return (uint32_t)least(length, weight->cols - first);
}

void reference_decode(const reference_weight *weight, uint64_t row, uint64_t first,
                      reference_segment *out)
{
    reference_block_decoder *decoder = reference_decoder_of(weight->info.format);
    uint32_t stored = weight->info.block_inputs, i;
    const uint8_t *block;

    out->inputs = segment_inputs(weight, first);
    out->block = (uint32_t)least(weight->block, REFERENCE_SEGMENT);
    if (decoder == NULL) {
        reference_decode_separate(weight, row, first, out);
        return;
    }
    block = weight->weights + row * weight->row_bytes + first / stored * weight->info.block_bytes;
    for (i = 0; i < out->inputs; i += stored) {
        decoder(block, i, i / out->block, out);
        block += weight->info.block_bytes;
    }
}
