/* Tenon ABI helpers: sizes and names of weight formats, from the one table formats.def.
 *
 * Inline and pure, usable on both sides of the border. All sizes are exact in 64 bits or refused:
 * nothing here wraps (R10). [any thread] */
#ifndef TENON_FORMAT_H
#define TENON_FORMAT_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_TRAIT_MINIMA 1u
#define TENON_TRAIT_SUBSCALES 2u
#define TENON_TRAIT_FLOATS 4u
#define TENON_TRAIT_TABLE 8u

/* One row of formats.def. Local to whoever asks, it never crosses a border. */
typedef struct tenon_format_info {
    const char *text;      /* static storage */
    uint32_t format;       /* TENON_FORMAT_* */
    int32_t gguf;          /* GGUF type number, -1: none */
    uint32_t block_inputs; /* 0: separate scales */
    uint32_t block_bytes;
    uint32_t arith_block; /* B of SPEC.md 2.2; 0: row, 1: group_size */
    uint32_t traits;      /* TENON_TRAIT_* */
} tenon_format_info;

/* Fills *out and returns 1, or clears it and returns 0 when the format number is unknown. */
static inline int tenon_format_find(uint32_t format, tenon_format_info *out)
{
    switch (format) {
#define TENON_FORMAT(name, id, text_, gguf_, inputs_, bytes_, block_, traits_) \
    case id: \
        out->text = text_; \
        out->format = id; \
        out->gguf = gguf_; \
        out->block_inputs = inputs_; \
        out->block_bytes = bytes_; \
        out->arith_block = block_; \
        out->traits = traits_; \
        return 1;
#include <tenon/formats.def>
#undef TENON_FORMAT
    default:
        out->text = "";
        out->format = 0;
        out->gguf = -1;
        out->block_inputs = out->block_bytes = out->arith_block = out->traits = 0;
        return 0;
    }
}

/* The format numbers in table order: tenon_format_at(0), (1), ... until it returns 0. */
static inline uint32_t tenon_format_at(uint32_t index)
{
    uint32_t i = 0;
#define TENON_FORMAT(name, id, text_, gguf_, inputs_, bytes_, block_, traits_) \
    if (i++ == index) return id;
#include <tenon/formats.def>
#undef TENON_FORMAT
    return 0;
}

/* *out = a * b; returns 0 and leaves *out alone when the product does not fit 64 bits. */
static inline int tenon_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b != 0 && a > UINT64_MAX / b) return 0;
    *out = a * b;
    return 1;
}

/* *out = a + b; returns 0 and leaves *out alone when the sum does not fit 64 bits. */
static inline int tenon_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    if (a > UINT64_MAX - b) return 0;
    *out = a + b;
    return 1;
}

/* ceil(a / b), b > 0, without overflow. */
static inline uint64_t tenon_ceil_div_u64(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1u : 0u);
}

/* Bytes of one row of codes or blocks (SPEC.md section 3); 0 when the format is unknown or the row
 * is not a whole number of blocks or does not fit 64 bits. */
static inline uint64_t tenon_row_bytes(uint32_t format, uint64_t cols)
{
    tenon_format_info info;
    uint64_t bytes = 0;
    if (!tenon_format_find(format, &info) || cols == 0) return 0;
    if (info.block_inputs != 0) {
        if (cols % info.block_inputs != 0) return 0;
        return tenon_mul_u64(cols / info.block_inputs, info.block_bytes, &bytes) ? bytes : 0;
    }
    switch (format) {
    case TENON_FORMAT_INT8_ROW:
    case TENON_FORMAT_FP8_E4M3_B128: return cols;
    case TENON_FORMAT_INT4_ROW:
    case TENON_FORMAT_INT4_GROUP:
    case TENON_FORMAT_MXFP4_GROUP32: return tenon_ceil_div_u64(cols, 2);
    case TENON_FORMAT_INT2_ROW: return tenon_ceil_div_u64(cols, 4);
    case TENON_FORMAT_INT3_GROUP64:
        return tenon_mul_u64(tenon_ceil_div_u64(cols, 64), 24, &bytes) ? bytes : 0;
    default: return 0;
    }
}

/* Bytes that a weight's two arrays need. TENON_OK, or TENON_ARG with *reason one of EMPTY_SHAPE,
 * UNKNOWN_FORMAT, UNSUPPORTED_LAYOUT, UNSUPPORTED_GROUP, ROW_LENGTH, OVERFLOW. The class is not
 * looked at. */
static inline int32_t tenon_weight_bytes(const tenon_weight_desc *desc, uint64_t *weights_bytes,
                                         uint64_t *scales_bytes, uint32_t *reason)
{
    tenon_format_info info;
    uint64_t row, codes, scales = 0, scale_size = 4;
    int int4;
    *weights_bytes = 0;
    *scales_bytes = 0;
    *reason = TENON_REASON_EMPTY_SHAPE;
    if (desc->rows == 0 || desc->cols == 0) return TENON_ARG;
    *reason = TENON_REASON_UNKNOWN_FORMAT;
    if (!tenon_format_find(desc->format, &info)) return TENON_ARG;
    int4 = desc->format == TENON_FORMAT_INT4_ROW || desc->format == TENON_FORMAT_INT4_GROUP;
    *reason = TENON_REASON_UNSUPPORTED_LAYOUT;
    if (int4 ? desc->layout != TENON_LAYOUT_PAIR && desc->layout != TENON_LAYOUT_PLANAR
             : desc->layout != TENON_LAYOUT_NONE)
        return TENON_ARG;
    *reason = TENON_REASON_UNSUPPORTED_GROUP;
    if ((desc->format == TENON_FORMAT_INT4_GROUP) != (desc->group_size != 0)) return TENON_ARG;
    *reason = TENON_REASON_ROW_LENGTH;
    if (info.block_inputs != 0 && desc->cols % info.block_inputs != 0) return TENON_ARG;
    *reason = TENON_REASON_OVERFLOW;
    row = tenon_row_bytes(desc->format, desc->cols);
    if (row == 0 || !tenon_mul_u64(row, desc->rows, &codes)) return TENON_ARG;
    switch (desc->format) {
    case TENON_FORMAT_INT8_ROW:
    case TENON_FORMAT_INT4_ROW:
    case TENON_FORMAT_INT2_ROW: scales = desc->rows; break;
    case TENON_FORMAT_INT4_GROUP:
        if (!tenon_mul_u64(desc->rows, tenon_ceil_div_u64(desc->cols, desc->group_size), &scales))
            return TENON_ARG;
        break;
    case TENON_FORMAT_INT3_GROUP64:
        if (!tenon_mul_u64(desc->rows, tenon_ceil_div_u64(desc->cols, 64), &scales))
            return TENON_ARG;
        break;
    case TENON_FORMAT_MXFP4_GROUP32:
        scale_size = 1;
        if (!tenon_mul_u64(desc->rows, tenon_ceil_div_u64(desc->cols, 32), &scales))
            return TENON_ARG;
        break;
    case TENON_FORMAT_FP8_E4M3_B128:
        if (!tenon_mul_u64(tenon_ceil_div_u64(desc->rows, 128), tenon_ceil_div_u64(desc->cols, 128),
                           &scales))
            return TENON_ARG;
        break;
    default: break;
    }
    if (!tenon_mul_u64(scales, scale_size, &scales)) return TENON_ARG;
    *weights_bytes = codes;
    *scales_bytes = scales;
    *reason = TENON_REASON_NONE;
    return TENON_OK;
}

#ifdef __cplusplus
}
#endif
#endif
