/* The separate-scale formats of SPEC.md 3.2: codes in one array, scales in another. */
#include "decode.h"
#include "numbers.h"

/* The 4-bit code of input i of a row. Planar: per 64 inputs, byte k holds input k low and input
 * k + 32 high; what is left of the row is stored in pairs, as the other layout stores all of it. */
static uint32_t int4_code(const reference_weight *weight, const uint8_t *codes, uint64_t i)
{
    if (weight->layout == TENON_LAYOUT_PLANAR && i / 64 < weight->cols / 64) {
        uint32_t byte = codes[i / 64 * 32 + i % 32];
        return i % 64 < 32 ? byte & 15 : byte >> 4;
    }
    return i % 2 == 0 ? codes[i / 2] & 15u : (uint32_t)codes[i / 2] >> 4;
}

/* The 3-bit code of input i: 16 bytes of low bit pairs, then 8 bytes of high bits, per 64. */
static uint32_t int3_code(const uint8_t *codes, uint64_t i)
{
    const uint8_t *group = codes + i / 64 * 24;
    uint32_t k = (uint32_t)(i % 64);
    uint32_t low = (uint32_t)group[k / 4] >> 2 * (k % 4) & 3;
    uint32_t high = (uint32_t)group[16 + k / 8] >> k % 8 & 1;
    return low | high << 2;
}

/* The code of input i of a row whose codes start at codes. */
static float code_of(const reference_weight *weight, const uint8_t *codes, uint64_t i)
{
    uint32_t pair;
    switch (weight->info.format) {
    case TENON_FORMAT_INT8_ROW: return (float)(int8_t)codes[i];
    case TENON_FORMAT_INT4_ROW:
    case TENON_FORMAT_INT4_GROUP: return (float)((int32_t)int4_code(weight, codes, i) - 8);
    case TENON_FORMAT_INT2_ROW: return (float)((codes[i / 4] >> 2 * (i % 4) & 3) - 2);
    case TENON_FORMAT_INT3_GROUP64: return (float)((int32_t)int3_code(codes, i) - 4);
    case TENON_FORMAT_MXFP4_GROUP32:
        pair = codes[i / 2];
        return (float)reference_e2m1_doubled[i % 2 == 0 ? pair & 15 : pair >> 4];
    default: return reference_e4m3(codes[i]); /* fp8-e4m3-b128 */
    }
}

/* The scale of block b of a row. */
static float scale_of(const reference_weight *weight, uint64_t row, uint64_t b)
{
    uint64_t across = tenon_ceil_div_u64(weight->cols, weight->block); /* blocks of a row */
    switch (weight->info.format) {
    case TENON_FORMAT_MXFP4_GROUP32: return reference_e8m0_half(weight->scales[row * across + b]);
    case TENON_FORMAT_FP8_E4M3_B128: /* 128 rows share a line of scales */
        return reference_load_f32(weight->scales + 4 * (row / 128 * across + b));
    default: return reference_load_f32(weight->scales + 4 * (row * across + b));
    }
}

void reference_decode_separate(const reference_weight *weight, uint64_t row, uint64_t first,
                               reference_segment *out)
{
    const uint8_t *codes = weight->weights + row * weight->row_bytes;
    uint64_t b0 = first / weight->block;
    uint32_t i, b, blocks = (uint32_t)tenon_ceil_div_u64(out->inputs, out->block);

    for (i = 0; i < out->inputs; i++) out->q[i] = code_of(weight, codes, first + i);
    for (b = 0; b < blocks; b++) {
        out->s[b] = scale_of(weight, row, b0 + b);
        out->m[b] = 0.0f;
    }
}
