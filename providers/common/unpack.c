/* Whole rows, and the formats whose scales are an array of their own (SPEC.md 3.2). */
#include "unpack.h"

#include <string.h>

uint32_t unpack_scale_bytes(uint32_t format)
{
    tenon_format_info info;
    if (!tenon_format_find(format, &info) || info.block_inputs == 1) return 0;
    /* Separate scales and those of MXFP4 are of more than half precision. */
    return info.block_inputs == 0 || format == TENON_FORMAT_MXFP4 ? 4 : 2;
}

void unpack_e8m0_halved(uint8_t *to, uint8_t code)
{
    uint32_t bits = 0x7fc00000u;
    if (code < 2)
        bits = 0x00200000u << code; /* 2^-128 and 2^-127 are subnormal */
    else if (code < 255)
        bits = (uint32_t)(code - 1) << 23;
    memcpy(to, &bits, sizeof bits);
}

/* The stored position of input i of a row of cols int4 codes: byte, and 1 for the high nibble. */
static uint8_t int4_code(const uint8_t *row, uint64_t i, uint64_t cols, uint32_t layout)
{
    uint64_t group = i / 64, k = i % 64;
    if (layout == TENON_LAYOUT_PLANAR && (group + 1) * 64 <= cols) {
        uint8_t byte = row[32 * group + k % 32];
        return k < 32 ? byte & 15 : byte >> 4;
    }
    return i % 2 == 0 ? row[i / 2] & 15 : row[i / 2] >> 4;
}

static void unpack_codes(const tenon_weight_desc *desc, const uint8_t *row, uint8_t *code)
{
    uint64_t i, cols = desc->cols;
    switch (desc->format) {
    case TENON_FORMAT_INT8_ROW: memcpy(code, row, (size_t)cols); break;
    case TENON_FORMAT_INT4_ROW:
    case TENON_FORMAT_INT4_GROUP:
        for (i = 0; i < cols; i++) code[i] = int4_code(row, i, cols, desc->layout);
        break;
    case TENON_FORMAT_MXFP4_GROUP32:
        for (i = 0; i < cols; i++) code[i] = int4_code(row, i, cols, TENON_LAYOUT_PAIR);
        break;
    case TENON_FORMAT_INT2_ROW:
        for (i = 0; i < cols; i++) code[i] = (uint8_t)(row[i / 4] >> (2 * (i % 4))) & 3;
        break;
    case TENON_FORMAT_INT3_GROUP64:
        for (i = 0; i < cols; i++) {
            const uint8_t *group = row + i / 64 * 24;
            uint64_t k = i % 64;
            uint32_t low = (uint32_t)(group[k / 4] >> (2 * (k % 4))) & 3u;
            code[i] = (uint8_t)(low | (uint32_t)(group[16 + k / 8] >> (k % 8) & 1) << 2);
        }
        break;
    default: break; /* float codes are packed from where they lie */
    }
}

static void unpack_scales(const tenon_weight_desc *desc, const uint8_t *scales, uint64_t row,
                          uint8_t *out)
{
    uint64_t count = 1, i;
    switch (desc->format) {
    case TENON_FORMAT_MXFP4_GROUP32:
        count = tenon_ceil_div_u64(desc->cols, 32);
        for (i = 0; i < count; i++) unpack_e8m0_halved(out + 4 * i, scales[row * count + i]);
        return;
    case TENON_FORMAT_FP8_E4M3_B128:
        count = tenon_ceil_div_u64(desc->cols, 128);
        row /= 128;
        break;
    case TENON_FORMAT_INT4_GROUP: count = tenon_ceil_div_u64(desc->cols, desc->group_size); break;
    case TENON_FORMAT_INT3_GROUP64: count = tenon_ceil_div_u64(desc->cols, 64); break;
    default: break; /* one a row */
    }
    memcpy(out, scales + row * count * 4, (size_t)(count * 4));
}

void unpack_row(const tenon_weight_desc *desc, const uint8_t *weights, const uint8_t *scales,
                uint64_t row, unpacked_row *out)
{
    const uint8_t *from = weights + row * tenon_row_bytes(desc->format, desc->cols);
    block_unpacker *unpack = block_unpacker_of(desc->format);
    tenon_format_info info;
    unpacked_row here = *out;
    uint64_t i, count;
    uint32_t scale_count;

    if (unpack == NULL) {
        unpack_codes(desc, from, out->code);
        if (scales != NULL) unpack_scales(desc, scales, row, out->scale);
        return;
    }
    (void)tenon_format_find(desc->format, &info); /* the unpacker exists, so does the format */
    count = desc->cols / info.block_inputs;
    scale_count = desc->format == TENON_FORMAT_NVFP4 ? 4 : 1;
    for (i = 0; i < count; i++) {
        unpack(from + i * info.block_bytes, &here);
        here.code += info.block_inputs;
        here.scale += scale_count * unpack_scale_bytes(desc->format);
        if (here.minimum != NULL) here.minimum += 2;
        if (here.sub != NULL) here.sub += info.block_inputs / info.arith_block;
        if (here.sub_minimum != NULL) here.sub_minimum += info.block_inputs / info.arith_block;
    }
}
