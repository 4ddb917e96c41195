/* The GGUF block formats (SPEC.md 3.1): one small function each. Fields in the order of the file. */
#include "unpack.h"

#include <string.h>

/* Copies a half float, at any alignment. */
static void copy_half(uint8_t *to, const uint8_t *from)
{
    memcpy(to, from, 2);
}
/* The same, negated: minima are kept as what is added. */
static void copy_minus_half(uint8_t *to, const uint8_t *from)
{
    to[0] = from[0];
    to[1] = from[1] ^ 0x80;
}

/* count nibbles: the low ones of count / 2 bytes, then the high ones. */
static void nibbles(uint8_t *code, const uint8_t *qs, uint32_t count)
{
    uint32_t i, half = count / 2;
    for (i = 0; i < half; i++) {
        code[i] = qs[i] & 15;
        code[i + half] = qs[i] >> 4;
    }
}

static void q4_0(const uint8_t *block, unpacked_row *out)
{
    copy_half(out->scale, block);
    nibbles(out->code, block + 2, 32);
}

static void q4_1(const uint8_t *block, unpacked_row *out)
{
    copy_half(out->scale, block);
    copy_half(out->minimum, block + 2); /* w = d * q + m: m_b = -m */
    nibbles(out->code, block + 4, 32);
}

/* A fifth bit per code from 4 bytes, minus zero. */
static void fifth_bits(uint8_t *code, const uint8_t *qh, uint8_t zero)
{
    uint32_t i;
    for (i = 0; i < 32; i++) {
        uint32_t bit = (uint32_t)(qh[i / 8] >> (i % 8)) & 1u;
        code[i] = (uint8_t)((code[i] | bit << 4) - zero);
    }
}

static void q5_0(const uint8_t *block, unpacked_row *out)
{
    copy_half(out->scale, block);
    nibbles(out->code, block + 6, 32);
    fifth_bits(out->code, block + 2, 16);
}

static void q5_1(const uint8_t *block, unpacked_row *out)
{
    copy_half(out->scale, block);
    copy_half(out->minimum, block + 2);
    nibbles(out->code, block + 8, 32);
    fifth_bits(out->code, block + 4, 0);
}

static void q8_0(const uint8_t *block, unpacked_row *out)
{
    copy_half(out->scale, block);
    memcpy(out->code, block + 2, 32);
}

/* Two bits per code: four planes over 32 bytes, twice. */
static void two_bits(uint8_t *code, const uint8_t *qs)
{
    uint32_t i;
    for (i = 0; i < 256; i++) {
        uint32_t h = i / 128, r = i % 128;
        code[i] = (uint8_t)(qs[32 * h + r % 32] >> (2 * (r / 32))) & 3;
    }
}

static void q2_k(const uint8_t *block, unpacked_row *out)
{
    uint32_t b;
    for (b = 0; b < 16; b++) {
        out->sub[b] = block[b] & 15;
        out->sub_minimum[b] = block[b] >> 4;
    }
    two_bits(out->code, block + 16);
    copy_half(out->scale, block + 80);
    copy_minus_half(out->minimum, block + 82);
}

static void q3_k(const uint8_t *block, unpacked_row *out)
{
    const uint8_t *sc = block + 96;
    uint32_t i, b;
    two_bits(out->code, block + 32);
    for (i = 0; i < 256; i++) out->code[i] |= (uint8_t)((block[i % 32] >> (i / 32) & 1) << 2);
    for (b = 0; b < 16; b++) {
        uint32_t low = b < 8 ? sc[b] & 15u : (uint32_t)sc[b - 8] >> 4;
        uint32_t high = (uint32_t)(sc[8 + b % 4] >> (2 * (b / 4))) & 3u;
        out->sub[b] = (uint8_t)((low | high << 4) - 32);
    }
    copy_half(out->scale, block + 108);
}

/* Six-bit sub-scales and minima of Q4_K and Q5_K in 12 bytes. */
static void k12(const uint8_t *k, unpacked_row *out)
{
    uint32_t j;
    for (j = 0; j < 4; j++) {
        out->sub[j] = k[j] & 63;
        out->sub_minimum[j] = k[j + 4] & 63;
    }
    for (j = 4; j < 8; j++) {
        out->sub[j] = (uint8_t)((k[j + 4] & 15) | (k[j - 4] >> 6) << 4);
        out->sub_minimum[j] = (uint8_t)(k[j + 4] >> 4 | (k[j] >> 6) << 4);
    }
}

static void q4_k(const uint8_t *block, unpacked_row *out)
{
    uint32_t j;
    copy_half(out->scale, block);
    copy_minus_half(out->minimum, block + 2);
    k12(block + 4, out);
    for (j = 0; j < 4; j++) nibbles(out->code + 64 * j, block + 16 + 32 * j, 64);
}

static void q5_k(const uint8_t *block, unpacked_row *out)
{
    uint32_t i, j;
    copy_half(out->scale, block);
    copy_minus_half(out->minimum, block + 2);
    k12(block + 4, out);
    for (j = 0; j < 4; j++) nibbles(out->code + 64 * j, block + 48 + 32 * j, 64);
    for (i = 0; i < 256; i++) out->code[i] |= (uint8_t)((block[16 + i % 32] >> (i / 32) & 1) << 4);
}

static void q6_k(const uint8_t *block, unpacked_row *out)
{
    uint32_t i;
    for (i = 0; i < 256; i++) {
        uint32_t h = i / 128, r = i % 128, byte = block[64 * h + r % 64];
        uint32_t low = r < 64 ? byte & 15u : byte >> 4;
        uint32_t high = (uint32_t)(block[128 + 32 * h + r % 32] >> (2 * (r / 32))) & 3u;
        out->code[i] = (uint8_t)(low | high << 4);
    }
    memcpy(out->sub, block + 192, 16);
    copy_half(out->scale, block + 208);
}

static void iq4_xs(const uint8_t *block, unpacked_row *out)
{
    uint32_t sh = block[2] | (uint32_t)block[3] << 8, b;
    copy_half(out->scale, block);
    for (b = 0; b < 8; b++) {
        uint32_t low = (uint32_t)(block[4 + b / 2] >> (4 * (b % 2))) & 15u;
        out->sub[b] = (uint8_t)((low | (sh >> (2 * b) & 3u) << 4) - 32);
        nibbles(out->code + 32 * b, block + 8 + 16 * b, 32);
    }
}

static void mxfp4(const uint8_t *block, unpacked_row *out)
{
    unpack_e8m0_halved(out->scale, block[0]);
    nibbles(out->code, block + 1, 32);
}

/* E4M3 of seven bits, halved, as a half float: exact, for its exponent and mantissa are those of a
 * half float 2^8 too small, its subnormals too. 0x7f is NaN. */
static uint32_t e4m3_halved(uint32_t code)
{
    uint32_t exponent = code >> 3 & 15u, mantissa = code & 7u;
    if (code == 0x7f) return 0x7e00;
    if (exponent > 0) return (exponent + 7) << 10 | mantissa << 7; /* bias 7 to 15, minus 1 */
    /* mantissa * 2^-9, halved: mantissa * 2^-10 is normal in half floats */
    if (mantissa == 0) return 0;
    exponent = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0;
    return (exponent + 5) << 10 | (mantissa << (10 - exponent) & 0x3ffu);
}

static void nvfp4(const uint8_t *block, unpacked_row *out)
{
    uint32_t b;
    for (b = 0; b < 4; b++) {
        uint32_t half = e4m3_halved(block[b] & 127u);
        out->scale[2 * b] = (uint8_t)half;
        out->scale[2 * b + 1] = (uint8_t)(half >> 8);
        nibbles(out->code + 16 * b, block + 4 + 8 * b, 16);
    }
}

static void tq1_0(const uint8_t *block, unpacked_row *out)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    uint32_t i;
    for (i = 0; i < 256; i++) {
        uint32_t v;
        if (i < 160)
            v = (uint32_t)block[i % 32] * power[i / 32];
        else if (i < 240)
            v = (uint32_t)block[32 + (i - 160) % 16] * power[(i - 160) / 16];
        else
            v = (uint32_t)block[48 + (i - 240) % 4] * power[(i - 240) / 4];
        out->code[i] = (uint8_t)((v & 255u) * 3 >> 8);
    }
    copy_half(out->scale, block + 52);
}

static void tq2_0(const uint8_t *block, unpacked_row *out)
{
    two_bits(out->code, block);
    copy_half(out->scale, block + 64);
}

block_unpacker *block_unpacker_of(uint32_t format)
{
    switch (format) {
    case TENON_FORMAT_Q4_0:
    case TENON_FORMAT_IQ4_NL: return q4_0;
    case TENON_FORMAT_Q4_1: return q4_1;
    case TENON_FORMAT_Q5_0: return q5_0;
    case TENON_FORMAT_Q5_1: return q5_1;
    case TENON_FORMAT_Q8_0: return q8_0;
    case TENON_FORMAT_Q2_K: return q2_k;
    case TENON_FORMAT_Q3_K: return q3_k;
    case TENON_FORMAT_Q4_K: return q4_k;
    case TENON_FORMAT_Q5_K: return q5_k;
    case TENON_FORMAT_Q6_K: return q6_k;
    case TENON_FORMAT_IQ4_XS: return iq4_xs;
    case TENON_FORMAT_MXFP4: return mxfp4;
    case TENON_FORMAT_NVFP4: return nvfp4;
    case TENON_FORMAT_TQ1_0: return tq1_0;
    case TENON_FORMAT_TQ2_0: return tq2_0;
    default: return NULL;
    }
}
