/* Random but repeatable weights and activations.
 *
 * Codes are random bits, for every bit pattern is a code. Scales are drawn so that neighbours
 * differ up to 100-fold: a provider that reads the wrong group's scale, or one scale per row, is
 * far off instead of nearly right. */
#include "data.h"

#include <math.h>
#include <string.h>

uint64_t random_u64(random_state *self)
{
    uint64_t z = self->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t random_below(random_state *self, uint64_t below)
{
    return random_u64(self) % below;
}

float random_normal(random_state *self)
{
    uint64_t bits = random_u64(self);
    float sum = 0;
    int i;
    /* Four 16-bit uniforms: variance 4/12, so the sum is scaled by sqrt(3). */
    for (i = 0; i < 4; i++) sum += (float)((bits >> (16 * i)) & 0xffff) * 0x1p-16f;
    return (sum - 2.0f) * 1.7320508f;
}

static void random_bytes(random_state *random, uint8_t *bytes, uint64_t count)
{
    uint64_t i, word;
    for (i = 0; i < count; i += 8) {
        word = random_u64(random);
        memcpy(bytes + i, &word, count - i < 8 ? count - i : 8);
    }
}

/* A scale of either sign, 100-fold apart: 2^-7 times 0.1, 1 or 10, and a little noise. */
static float random_scale(random_state *random)
{
    static const float steps[3] = {0.1f, 1.0f, 10.0f};
    uint64_t bits = random_u64(random);
    float value = 0x1p-7f * steps[bits % 3] * (0.75f + (float)((bits >> 8) & 0xff) * 0x1p-9f);
    return (bits >> 40) % 4 == 0 ? -value : value;
}

static void put_u16(uint8_t *at, uint16_t value)
{
    memcpy(at, &value, 2);
}

static void put_f32(uint8_t *at, float value)
{
    memcpy(at, &value, 4);
}

/* The binary16 nearest above zero magnitude: enough for values that are normal in binary16. */
static uint16_t half_of(float value)
{
    uint32_t bits;
    int32_t exponent;
    memcpy(&bits, &value, 4);
    exponent = (int32_t)(bits >> 23 & 0xff) - 127 + 15;
    if (exponent < 1) return (uint16_t)(bits >> 16 & 0x8000);
    if (exponent > 30) exponent = 30;
    return (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff));
}

/* Byte offsets of the binary16 fields in a block of a GGUF format; -1: none. */
static void half_fields(uint32_t format, int fields[2])
{
    fields[0] = fields[1] = -1;
    switch (format) {
    case TENON_FORMAT_Q4_1:
    case TENON_FORMAT_Q5_1:
    case TENON_FORMAT_Q4_K:
    case TENON_FORMAT_Q5_K:
        fields[0] = 0;
        fields[1] = 2;
        break;
    case TENON_FORMAT_Q4_0:
    case TENON_FORMAT_Q5_0:
    case TENON_FORMAT_Q8_0:
    case TENON_FORMAT_IQ4_NL:
    case TENON_FORMAT_IQ4_XS: fields[0] = 0; break;
    case TENON_FORMAT_Q2_K:
        fields[0] = 80;
        fields[1] = 82;
        break;
    case TENON_FORMAT_Q3_K: fields[0] = 108; break;
    case TENON_FORMAT_Q6_K: fields[0] = 208; break;
    case TENON_FORMAT_TQ1_0: fields[0] = 52; break;
    case TENON_FORMAT_TQ2_0: fields[0] = 64; break;
    default: break;
    }
}

/* Replaces the scales of one block, which holds random bits, by ordinary ones. */
static void ordinary_block(random_state *random, uint32_t format, uint8_t *block)
{
    int fields[2], i;
    half_fields(format, fields);
    for (i = 0; i < 2; i++)
        if (fields[i] >= 0) put_u16(block + fields[i], half_of(random_scale(random)));
    switch (format) {
    case TENON_FORMAT_MXFP4: block[0] = (uint8_t)(118 + random_below(random, 8)); break;
    case TENON_FORMAT_NVFP4:
        for (i = 0; i < 4; i++) block[i] = (uint8_t)(0x10 + random_below(random, 0x50));
        break;
    case TENON_FORMAT_F32: put_f32(block, random_normal(random) * 0.05f); break;
    case TENON_FORMAT_F16: put_u16(block, half_of(random_normal(random) * 0.05f)); break;
    case TENON_FORMAT_BF16: {
        float value = random_normal(random) * 0.05f;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        put_u16(block, (uint16_t)(bits >> 16));
        break;
    }
    default: break;
    }
}

/* A 32-bit float pattern that is often special. */
static uint32_t special_bits(random_state *random)
{
    static const uint32_t values[] = {
        0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x7f800000,
        0xff800000, 0x7fc00000, 0xffa00001, 0x7f7fffff, 0xff7fffff, 0x3f800000,
        0x2b800000, 0x2b7fffff, 0x000116c2, 0x6e800000,
    };
    uint64_t bits = random_u64(random);
    if (bits % 2 == 0) return values[(bits >> 8) % (sizeof values / sizeof values[0])];
    return (uint32_t)(bits >> 32);
}

/* Half of the special weights keep ordinary scales, or every row would be NaN and prove nothing. */
static void fill_blocks(random_state *random, data_kind kind, uint32_t format, uint32_t block_bytes,
                        uint8_t *weights, uint64_t bytes)
{
    uint64_t at;
    random_bytes(random, weights, bytes);
    for (at = 0; at + block_bytes <= bytes; at += block_bytes) {
        uint64_t chance = kind == DATA_SPECIAL ? random_below(random, 16) : 1;
        int fields[2];
        if (chance != 0) {
            ordinary_block(random, format, weights + at);
            continue;
        }
        /* A special scale where the format has one; float formats keep their random bits. */
        half_fields(format, fields);
        if (fields[0] >= 0) {
            static const uint16_t halves[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff,
                                              0xfbff, 0x7c00, 0xfc00, 0x7e01, 0x3c00, 0x0200};
            put_u16(weights + at + fields[0], halves[random_below(random, 12)]);
            if (fields[1] >= 0) put_u16(weights + at + fields[1], halves[random_below(random, 12)]);
        } else if (format == TENON_FORMAT_MXFP4) {
            static const uint8_t exponents[] = {0, 1, 2, 3, 127, 128, 253, 254, 255};
            weights[at] = exponents[random_below(random, 9)];
        } else if (format == TENON_FORMAT_F32) {
            uint32_t bits = special_bits(random);
            memcpy(weights + at, &bits, 4);
        }
    }
}

void data_fill_weight(random_state *random, data_kind kind, const tenon_weight_desc *desc,
                      uint8_t *weights, uint64_t weights_bytes, uint8_t *scales,
                      uint64_t scales_bytes)
{
    tenon_format_info info;
    uint64_t i;
    if (!tenon_format_find(desc->format, &info)) return;
    if (kind == DATA_HALF_SUMS && (info.traits & TENON_TRAIT_FLOATS) != 0 &&
        info.block_inputs == 1) {
        /* N06: every weight is 8. */
        static const uint8_t eights[3][4] = {{0, 0, 0, 0x41}, {0, 0x48}, {0, 0x41}};
        uint32_t which = desc->format == TENON_FORMAT_F32   ? 0
                         : desc->format == TENON_FORMAT_F16 ? 1
                                                            : 2;
        for (i = 0; i < weights_bytes; i += info.block_bytes)
            memcpy(weights + i, eights[which], info.block_bytes);
        return;
    }
    if (info.block_inputs != 0) {
        fill_blocks(random, kind, desc->format, info.block_bytes, weights, weights_bytes);
        return;
    }
    random_bytes(random, weights, weights_bytes);
    if (desc->format == TENON_FORMAT_FP8_E4M3_B128 && kind != DATA_SPECIAL)
        for (i = 0; i < weights_bytes; i++) /* 0x7f and 0xff are NaN */
            if ((weights[i] & 0x7f) == 0x7f) weights[i] ^= 0x10;
    if (desc->format == TENON_FORMAT_MXFP4_GROUP32) {
        for (i = 0; i < scales_bytes; i++)
            scales[i] = kind == DATA_SPECIAL && random_below(random, 16) == 0
                            ? (uint8_t)random_u64(random)
                            : (uint8_t)(118 + random_below(random, 8));
        return;
    }
    for (i = 0; i + 4 <= scales_bytes; i += 4) {
        put_f32(scales + i, random_scale(random));
        if (kind == DATA_SPECIAL && random_below(random, 16) == 0) {
            uint32_t bits = special_bits(random);
            memcpy(scales + i, &bits, 4);
        }
    }
}

/* One activation of the row's special pattern. */
static float special_value(random_state *random, uint64_t row, uint64_t i)
{
    uint32_t bits;
    float value = random_normal(random);
    switch (row % 9) {
    case 0: return value; /* a row that stays ordinary: its neighbours must not touch it */
    case 1: /* subnormals of both signs */ bits = (uint32_t)random_u64(random) & 0x807fffff; break;
    case 2: /* zeros of both signs */ bits = (uint32_t)random_u64(random) & 0x80000000; break;
    case 3: /* one infinity */ return i == 37 ? INFINITY : value;
    case 4: /* both infinities */ return i == 5 ? INFINITY : i == 40 ? -INFINITY : value;
    case 5: /* one NaN */ return i == 33 ? NAN : value;
    case 6: /* blocks just below, at and above the smallest that counts in class A8 */
        return value * 0x1p-42f * (float)(1u << (i / 32 % 4));
    case 7: /* very large: sums overflow */ return value * 0x1p126f;
    default: bits = special_bits(random); break;
    }
    memcpy(&value, &bits, 4);
    return value;
}

void data_fill_row(random_state *random, data_kind kind, uint64_t row, float *x, uint64_t cols)
{
    uint64_t i;
    for (i = 0; i < cols; i++) {
        switch (kind) {
        case DATA_SPECIAL: x[i] = special_value(random, row, i); break;
        case DATA_LARGE_SUMS: x[i] = (i / 32 + row) % 2 == 0 ? 3000.0f : -60000.0f; break;
        case DATA_HALF_SUMS: x[i] = 8.0f; break;
        case DATA_TINY:
            x[i] = random_normal(random) * (row % 3 == 0   ? 1e-40f
                                            : row % 3 == 1 ? 0x1p-40f
                                                           : 0x1p-126f);
            if (row == 0) x[i] = 1e-40f;
            break;
        case DATA_ORDINARY:
        case DATA_BATCHES:
        default:
            x[i] = random_normal(random);
            /* Now and then an outlier, and blocks 100-fold apart, as in real activations. */
            if (random_below(random, 64) == 0) x[i] *= 30.0f;
            if ((i / 32 + row) % 5 == 0) x[i] *= 0.01f;
            break;
        }
    }
}

uint64_t data_row_step(uint32_t format)
{
    return format == TENON_FORMAT_FP8_E4M3_B128 ? 128 : 1;
}

uint64_t data_weight_offset(const tenon_weight_desc *desc, uint64_t first)
{
    return tenon_row_bytes(desc->format, desc->cols) * first;
}

uint64_t data_scale_offset(const tenon_weight_desc *desc, uint64_t first)
{
    tenon_weight_desc before = *desc;
    uint64_t weights, scales;
    uint32_t reason;
    if (first == 0) return 0;
    before.rows = first;
    if (tenon_weight_bytes(&before, &weights, &scales, &reason) != TENON_OK) return 0;
    return scales;
}
