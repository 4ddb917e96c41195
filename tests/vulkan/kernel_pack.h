/* Weights in the layouts of kernels.h, packed from what the reference decodes: a second way to the
 * same bytes, independent of the provider's own packing. */
#ifndef TENON_TESTS_KERNEL_PACK_H
#define TENON_TESTS_KERNEL_PACK_H

#include <stdlib.h>
#include <string.h>

#include <tenon/provider.h>

#include "decode.h"
#include "kernels.h"
#include "numbers.h"

typedef struct packed {
    uint32_t storage, kind, minima, block, zero;
    uint32_t table[4];
    uint32_t rows, cols, units, tiles, vectors, scales, group;
    uint32_t *codes, *scale_words; /* vectors of four words */
    uint64_t code_words, scale_count;
    int irregular; /* runs in VULKAN_GROUPS_* */
} packed;

static const int8_t pack_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

static inline void pack_shape(const tenon_weight_desc *desc, packed *out)
{
    static const struct {
        uint32_t format, storage, kind, block, zero;
    } shapes[] = {
        {TENON_FORMAT_Q4_0, VULKAN_NIBBLE, VULKAN_HALF, 1, 8},
        {TENON_FORMAT_Q4_1, VULKAN_NIBBLE, VULKAN_HALF, 1, 0},
        {TENON_FORMAT_Q5_0, VULKAN_BYTE, VULKAN_HALF, 1, 0},
        {TENON_FORMAT_Q5_1, VULKAN_BYTE, VULKAN_HALF, 1, 0},
        {TENON_FORMAT_Q8_0, VULKAN_BYTE, VULKAN_HALF, 1, 0},
        {TENON_FORMAT_Q2_K, VULKAN_NIBBLE, VULKAN_SUB16, 8, 0},
        {TENON_FORMAT_Q3_K, VULKAN_NIBBLE, VULKAN_SUB16, 8, 4},
        {TENON_FORMAT_Q4_K, VULKAN_NIBBLE, VULKAN_SUB32, 8, 0},
        {TENON_FORMAT_Q5_K, VULKAN_BYTE, VULKAN_SUB32, 8, 0},
        {TENON_FORMAT_Q6_K, VULKAN_BYTE, VULKAN_SUB16, 8, 0},
        {TENON_FORMAT_IQ4_NL, VULKAN_TABLE, VULKAN_HALF, 1, 0},
        {TENON_FORMAT_IQ4_XS, VULKAN_TABLE, VULKAN_SUB32, 8, 0},
        {TENON_FORMAT_MXFP4, VULKAN_TABLE, VULKAN_FLOAT, 1, 0},
        {TENON_FORMAT_MXFP4_GROUP32, VULKAN_TABLE, VULKAN_FLOAT, 1, 0},
        {TENON_FORMAT_NVFP4, VULKAN_TABLE, VULKAN_HALF16, 1, 0},
        {TENON_FORMAT_TQ1_0, VULKAN_NIBBLE, VULKAN_FLOAT, 8, 1},
        {TENON_FORMAT_TQ2_0, VULKAN_NIBBLE, VULKAN_FLOAT, 8, 1},
        {TENON_FORMAT_INT8_ROW, VULKAN_BYTE, VULKAN_FLOAT, 0, 0},
        {TENON_FORMAT_INT4_ROW, VULKAN_NIBBLE, VULKAN_FLOAT, 0, 8},
        {TENON_FORMAT_INT2_ROW, VULKAN_NIBBLE, VULKAN_FLOAT, 0, 2},
        {TENON_FORMAT_INT3_GROUP64, VULKAN_NIBBLE, VULKAN_FLOAT, 2, 4},
        {TENON_FORMAT_INT4_GROUP, VULKAN_NIBBLE, VULKAN_FLOAT, 0, 8},
        {TENON_FORMAT_FP8_E4M3_B128, VULKAN_FP8, VULKAN_FLOAT, 4, 0},
        {TENON_FORMAT_F32, VULKAN_F32, VULKAN_NONE, 8, 0},
        {TENON_FORMAT_F16, VULKAN_F16, VULKAN_NONE, 8, 0},
        {TENON_FORMAT_BF16, VULKAN_BF16, VULKAN_NONE, 8, 0},
    };
    static const uint32_t vectors[] = {1, 1, 2, 2, 4, 4, 8};
    tenon_format_info info;
    uint32_t i, segments;

    memset(out, 0, sizeof *out);
    (void)tenon_format_find(desc->format, &info);
    for (i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].format == desc->format) break;
    out->storage = shapes[i].storage;
    out->kind = shapes[i].kind;
    out->block = shapes[i].block;
    out->zero = shapes[i].zero;
    out->minima = (info.traits & TENON_TRAIT_MINIMA) != 0;
    out->rows = (uint32_t)desc->rows;
    out->cols = (uint32_t)desc->cols;
    out->units = (out->cols + 31) / 32;
    out->tiles = (out->rows + 63) / 64;
    out->vectors = vectors[out->storage];
    segments = (out->units + 7) / 8;
    if (desc->format == TENON_FORMAT_INT4_GROUP && desc->group_size < desc->cols) {
        uint32_t g = (uint32_t)desc->group_size;
        out->group = g;
        if (g == 32 || g == 64 || g == 128 || g == 256)
            out->block = g / 32;
        else
            out->irregular = 1;
    }
    switch (out->kind) {
    case VULKAN_HALF: out->scales = segments * (out->minima ? 2u : 1u); break;
    case VULKAN_NONE: out->scales = 0; break;
    case VULKAN_FLOAT:
        if (out->irregular)
            out->scales = ((out->cols + out->group - 1) / out->group + 3) / 4;
        else if (out->block == 0)
            out->scales = 1;
        else
            out->scales = (segments * (8 / out->block) + 3) / 4;
        break;
    default: out->scales = 2 * segments; break;
    }
    for (i = 0; i < 16; i++) {
        int8_t value = info.format == TENON_FORMAT_IQ4_NL || info.format == TENON_FORMAT_IQ4_XS
                           ? pack_iq4[i]
                           : reference_e2m1_doubled[i];
        out->table[i / 4] |= (uint32_t)(uint8_t)value << 8 * (i % 4);
    }
    out->code_words = (uint64_t)out->tiles * out->units * out->vectors * 64 * 4;
    out->scale_count = ((uint64_t)out->tiles * out->scales * 64 + 1) * 4;
}

/* Word j of vector v of a row. */
static inline uint32_t *pack_word(uint32_t *words, uint64_t vectors, uint64_t row, uint64_t v,
                                  uint64_t j)
{
    return &words[((row / 64 * vectors + v) * 64 + row % 64) * 4 + j];
}

static inline void pack_code(packed *out, uint64_t row, uint64_t i, float q)
{
    uint64_t vectors = (uint64_t)out->units * out->vectors, unit = i / 32;
    uint32_t k = (uint32_t)(i % 32), code;
    if (out->storage == VULKAN_BYTE) {
        *pack_word(out->codes, vectors, row, unit * 2 + k / 16,
                   k % 16 / 4) |= (uint32_t)(uint8_t)(int8_t)q << 8 * (k % 4);
        return;
    }
    code = (uint32_t)((int32_t)q + (int32_t)out->zero);
    if (out->storage == VULKAN_TABLE)
        for (code = 0; code < 16; code++)
            if ((float)(int8_t)(out->table[code / 4] >> 8 * (code % 4)) == q) break;
    *pack_word(out->codes, vectors, row, unit, k / 8) |= code << (8 * (k % 4) + (k & 4));
}

static inline void pack_half(packed *out, uint64_t row, uint64_t v, uint32_t half, float value)
{
    *pack_word(out->scale_words, out->scales, row, v,
               half / 2) |= (uint32_t)reference_f16_round(value) << 16 * (half % 2);
}

static inline void pack_scale(packed *out, uint64_t row, uint64_t first,
                              const reference_segment *in)
{
    uint32_t b, blocks = (in->inputs + in->block - 1) / in->block,
                segment = (uint32_t)(first / 256);
    for (b = 0; b < blocks; b++) {
        uint64_t input = first + (uint64_t)b * in->block, at;
        switch (out->kind) {
        case VULKAN_HALF:
            at = (uint64_t)segment * (out->minima ? 2u : 1u);
            pack_half(out, row, at, b, in->s[b]);
            if (out->minima) pack_half(out, row, at + 1, b, in->m[b]);
            break;
        case VULKAN_HALF16: pack_half(out, row, 2 * segment + b / 8, b % 8, in->s[b]); break;
        case VULKAN_FLOAT:
            at = out->irregular    ? input / out->group
                 : out->block == 0 ? 0
                                   : input / (32 * out->block);
            *pack_word(out->scale_words, out->scales, row, at / 4,
                       at % 4) = reference_bits_of(in->s[b]);
            break;
        case VULKAN_SUB32:
            *pack_word(out->scale_words, out->scales, row, 2 * segment + 1,
                       b / 4) |= (uint32_t)(uint8_t)in->sc[b] << 8 * (b % 4);
            *pack_word(out->scale_words, out->scales, row, 2 * segment + 1,
                       2 + b / 4) |= (uint32_t)(uint8_t)in->mn[b] << 8 * (b % 4);
            break;
        case VULKAN_SUB16:
            *pack_word(out->scale_words, out->scales, row, 2 * segment + 1,
                       b / 4) |= (uint32_t)(uint8_t)in->sc[b] << 8 * (b % 4);
            *pack_word(out->scale_words, out->scales, row, 2 * segment,
                       2 + b / 8) |= (uint32_t)in->mn[b] << 4 * (b % 8);
            break;
        default: break;
        }
    }
    if (out->kind == VULKAN_SUB32 || out->kind == VULKAN_SUB16) {
        pack_half(out, row, 2 * segment, 0, in->d);
        pack_half(out, row, 2 * segment, 1, in->dmin);
    }
}

/* The caller frees codes and scale_words. */
static inline packed pack_weight(const tenon_weight_desc *desc, const reference_weight *weight)
{
    reference_segment segment;
    uint64_t row, first, i, row_vectors;
    uint32_t size;
    packed out;

    pack_shape(desc, &out);
    out.codes = calloc((size_t)out.code_words, 4);
    out.scale_words = calloc((size_t)out.scale_count, 4);
    if (out.codes == NULL || out.scale_words == NULL) abort();
    size = 16 * out.vectors / 32; /* bytes of a float code */
    row_vectors = (uint64_t)out.units * out.vectors;
    for (row = 0; row < out.rows; row++) {
        if (out.storage >= VULKAN_FP8)
            for (i = 0; i < out.cols * (uint64_t)size; i++)
                *pack_word(out.codes, row_vectors, row, i / 16,
                           i % 16 / 4) |= (uint32_t)weight->weights[row * weight->row_bytes + i]
                                          << 8 * (i % 4);
        for (first = 0; first < out.cols; first += segment.inputs) {
            reference_decode(weight, row, first, &segment);
            if (out.storage < VULKAN_FP8)
                for (i = 0; i < segment.inputs; i++) pack_code(&out, row, first + i, segment.q[i]);
            pack_scale(&out, row, first, &segment);
        }
    }
    return out;
}

#endif
