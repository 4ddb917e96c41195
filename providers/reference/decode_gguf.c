/* The GGUF block formats of SPEC.md 3.1, one function a format, in the words of its mapping table.
 * Offsets in a block follow the fields in file order. */
#include "decode.h"
#include "numbers.h"

const int8_t reference_e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static const int8_t iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

/* The nibble of input i of 32: low of byte i, then high of byte i - 16. */
static uint32_t nibble(const uint8_t *qs, uint32_t i)
{
    return i < 16 ? qs[i] & 15u : (uint32_t)qs[i - 16] >> 4;
}

/* The low two bits of input i of 256 in Q2_K, Q3_K and TQ2_0. */
static uint32_t two_bits(const uint8_t *qs, uint32_t i)
{
    uint32_t h = i / 128, r = i % 128;
    return (uint32_t)qs[32 * h + r % 32] >> 2 * (r / 32) & 3;
}

static void f32(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    out->q[i] = reference_load_f32(block);
    out->s[b] = 1.0f;
    out->m[b] = 0.0f;
}

static void f16(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    out->q[i] = reference_load_f16(block);
    out->s[b] = 1.0f;
    out->m[b] = 0.0f;
}

static void bf16(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    out->q[i] = reference_load_bf16(block);
    out->s[b] = 1.0f;
    out->m[b] = 0.0f;
}

/* d2 qs16 */
static void q4_0(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    for (k = 0; k < 32; k++) out->q[i + k] = (float)((int32_t)nibble(block + 2, k) - 8);
    out->s[b] = reference_load_f16(block);
    out->m[b] = 0.0f;
}

/* d2 m2 qs16 */
static void q4_1(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    for (k = 0; k < 32; k++) out->q[i + k] = (float)nibble(block + 4, k);
    out->s[b] = reference_load_f16(block);
    out->m[b] = -reference_load_f16(block + 2);
}

/* d2 qh4 qs16 */
static void q5_0(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t qh = reference_load_u32(block + 2), k;
    for (k = 0; k < 32; k++) {
        uint32_t code = nibble(block + 6, k) | (qh >> k & 1) << 4;
        out->q[i + k] = (float)((int32_t)code - 16);
    }
    out->s[b] = reference_load_f16(block);
    out->m[b] = 0.0f;
}

/* d2 m2 qh4 qs16 */
static void q5_1(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t qh = reference_load_u32(block + 4), k;
    for (k = 0; k < 32; k++) out->q[i + k] = (float)(nibble(block + 8, k) | (qh >> k & 1) << 4);
    out->s[b] = reference_load_f16(block);
    out->m[b] = -reference_load_f16(block + 2);
}

/* d2 int8x32 */
static void q8_0(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    for (k = 0; k < 32; k++) out->q[i + k] = (float)(int8_t)block[2 + k];
    out->s[b] = reference_load_f16(block);
    out->m[b] = 0.0f;
}

/* Scales and minima of the blocks of a 256-block from its integer sub-scales. */
static void apply_subscales(reference_segment *out)
{
    uint32_t b, blocks = 256 / out->block;
    for (b = 0; b < blocks; b++) {
        out->s[b] = out->d * (float)out->sc[b];
        out->m[b] = out->dmin * (float)out->mn[b];
    }
}

/* sc16 qs64 d2 dmin2 */
static void q2_k(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    for (k = 0; k < 256; k++) out->q[i + k] = (float)two_bits(block + 16, k);
    for (k = 0; k < 16; k++) {
        out->sc[b + k] = block[k] & 15;
        out->mn[b + k] = block[k] >> 4;
    }
    out->d = reference_load_f16(block + 80);
    out->dmin = reference_load_f16(block + 82);
    apply_subscales(out);
}

/* hm32 qs64 sc12 d2 */
static void q3_k(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    const uint8_t *hm = block, *qs = block + 32, *sc = block + 96;
    uint32_t k;
    for (k = 0; k < 256; k++) {
        int32_t low = (int32_t)two_bits(qs, k);
        out->q[i + k] = (float)((hm[k % 32] >> k / 32 & 1) != 0 ? low : low - 4);
    }
    for (k = 0; k < 16; k++) {
        int32_t low = k < 8 ? sc[k] & 15 : sc[k - 8] >> 4;
        int32_t high = sc[8 + k % 4] >> 2 * (k / 4) & 3;
        out->sc[b + k] = (low | high << 4) - 32;
        out->mn[b + k] = 0;
    }
    out->d = reference_load_f16(block + 108);
    out->dmin = 0.0f;
    apply_subscales(out);
}

/* The eight scales and minima of Q4_K and Q5_K, six bits each in twelve bytes. */
static void k_scales(const uint8_t *k, reference_segment *out)
{
    uint32_t j;
    for (j = 0; j < 4; j++) {
        out->sc[j] = k[j] & 63;
        out->mn[j] = k[j + 4] & 63;
    }
    for (j = 4; j < 8; j++) {
        out->sc[j] = (k[j + 4] & 15) | (k[j - 4] >> 6) << 4;
        out->mn[j] = k[j + 4] >> 4 | (k[j] >> 6) << 4;
    }
}

/* The nibble of input i of 256 in Q4_K and Q5_K. */
static uint32_t k_nibble(const uint8_t *qs, uint32_t i)
{
    uint32_t byte = qs[32 * (i / 64) + i % 32];
    return i % 64 < 32 ? byte & 15 : byte >> 4;
}

/* d2 dmin2 k12 qs128 */
static void q4_k(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    (void)b;
    for (k = 0; k < 256; k++) out->q[i + k] = (float)k_nibble(block + 16, k);
    k_scales(block + 4, out);
    out->d = reference_load_f16(block);
    out->dmin = reference_load_f16(block + 2);
    apply_subscales(out);
}

/* d2 dmin2 k12 qh32 qs128 */
static void q5_k(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    const uint8_t *qh = block + 16, *qs = block + 48;
    uint32_t k;
    (void)b;
    for (k = 0; k < 256; k++) {
        uint32_t high = (uint32_t)qh[k % 32] >> k / 32 & 1;
        out->q[i + k] = (float)(k_nibble(qs, k) | high << 4);
    }
    k_scales(block + 4, out);
    out->d = reference_load_f16(block);
    out->dmin = reference_load_f16(block + 2);
    apply_subscales(out);
}

/* ql128 qh64 sc16 d2 */
static void q6_k(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    const uint8_t *ql = block, *qh = block + 128, *sc = block + 192;
    uint32_t k;
    for (k = 0; k < 256; k++) {
        uint32_t h = k / 128, r = k % 128;
        uint32_t byte = ql[64 * h + r % 64];
        uint32_t low = r < 64 ? byte & 15 : byte >> 4;
        uint32_t high = (uint32_t)qh[32 * h + r % 32] >> 2 * (r / 32) & 3;
        out->q[i + k] = (float)((int32_t)(low | high << 4) - 32);
    }
    for (k = 0; k < 16; k++) {
        out->sc[b + k] = (int8_t)sc[k];
        out->mn[b + k] = 0;
    }
    out->d = reference_load_f16(block + 208);
    out->dmin = 0.0f;
    apply_subscales(out);
}

/* d2 qs16 */
static void iq4_nl(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    for (k = 0; k < 32; k++) out->q[i + k] = (float)iq4_table[nibble(block + 2, k)];
    out->s[b] = reference_load_f16(block);
    out->m[b] = 0.0f;
}

/* d2 sh2 sl4 qs128 */
static void iq4_xs(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t sh = reference_load_u16(block + 2), k;
    const uint8_t *sl = block + 4, *qs = block + 8;
    for (k = 0; k < 256; k++) out->q[i + k] = (float)iq4_table[nibble(qs + 16 * (k / 32), k % 32)];
    for (k = 0; k < 8; k++) {
        uint32_t low = (uint32_t)sl[k / 2] >> 4 * (k % 2) & 15, high = sh >> 2 * k & 3;
        out->sc[b + k] = (int32_t)(low | high << 4) - 32;
        out->mn[b + k] = 0;
    }
    out->d = reference_load_f16(block);
    out->dmin = 0.0f;
    apply_subscales(out);
}

/* e1 qs16 */
static void mxfp4(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    for (k = 0; k < 32; k++) out->q[i + k] = (float)reference_e2m1_doubled[nibble(block + 1, k)];
    out->s[b] = reference_e8m0_half(block[0]);
    out->m[b] = 0.0f;
}

/* d4 qs32: four blocks of 16, each with its own scale */
static void nvfp4(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    for (k = 0; k < 64; k++) {
        uint32_t byte = block[4 + 8 * (k / 16) + k % 8];
        out->q[i + k] = (float)reference_e2m1_doubled[k % 16 < 8 ? byte & 15 : byte >> 4];
    }
    for (k = 0; k < 4; k++) {
        out->s[b + k] = reference_e4m3((uint8_t)(block[k] & 127)) * 0.5f;
        out->m[b + k] = 0.0f;
    }
}

/* qs48 qh4 d2: base 3, most significant digit first */
static void tq1_0(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    static const uint32_t power[5] = {1, 3, 9, 27, 81};
    const uint8_t *qs = block, *qh = block + 48;
    uint32_t k;
    for (k = 0; k < 256; k++) {
        uint32_t v;
        if (k < 160)
            v = qs[k % 32] * power[k / 32];
        else if (k < 240)
            v = qs[32 + (k - 160) % 16] * power[(k - 160) / 16];
        else
            v = qh[(k - 240) % 4] * power[(k - 240) / 4];
        out->q[i + k] = (float)((int32_t)((v & 255) * 3 >> 8) - 1);
    }
    out->s[b] = reference_load_f16(block + 52);
    out->m[b] = 0.0f;
}

/* qs64 d2 */
static void tq2_0(const uint8_t *block, uint32_t i, uint32_t b, reference_segment *out)
{
    uint32_t k;
    for (k = 0; k < 256; k++) out->q[i + k] = (float)((int32_t)two_bits(block, k) - 1);
    out->s[b] = reference_load_f16(block + 64);
    out->m[b] = 0.0f;
}

reference_block_decoder *reference_decoder_of(uint32_t format)
{
    switch (format) {
    case TENON_FORMAT_F32: return f32;
    case TENON_FORMAT_F16: return f16;
    case TENON_FORMAT_BF16: return bf16;
    case TENON_FORMAT_Q4_0: return q4_0;
    case TENON_FORMAT_Q4_1: return q4_1;
    case TENON_FORMAT_Q5_0: return q5_0;
    case TENON_FORMAT_Q5_1: return q5_1;
    case TENON_FORMAT_Q8_0: return q8_0;
    case TENON_FORMAT_Q2_K: return q2_k;
    case TENON_FORMAT_Q3_K: return q3_k;
    case TENON_FORMAT_Q4_K: return q4_k;
    case TENON_FORMAT_Q5_K: return q5_k;
    case TENON_FORMAT_Q6_K: return q6_k;
    case TENON_FORMAT_IQ4_NL: return iq4_nl;
    case TENON_FORMAT_IQ4_XS: return iq4_xs;
    case TENON_FORMAT_MXFP4: return mxfp4;
    case TENON_FORMAT_NVFP4: return nvfp4;
    case TENON_FORMAT_TQ1_0: return tq1_0;
    case TENON_FORMAT_TQ2_0: return tq2_0;
    default: return NULL;
    }
}
