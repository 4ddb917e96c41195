/* From the stored bytes of a row (SPEC.md 3) to one byte a code and its scales. */
#ifndef TENON_COMMON_UNPACK_H
#define TENON_COMMON_UNPACK_H

#include <tenon/format.h>

/* One row, whole. Arrays that a format does not have stay NULL. */
typedef struct unpacked_row {
    uint8_t *code;  /* one per input: a nibble, six bits, or q as a signed byte */
    uint8_t *scale; /* f16 or f32 (unpack_scale_bytes), one per block, or per 256 with sub-scales */
    uint8_t *minimum; /* f16 of -m, or of -dmin: what is added */
    uint8_t *sub;     /* signed sub-scale, one per block */
    uint8_t *sub_minimum;
} unpacked_row;

/* Bytes of one scale: 0 where a format has none, 2: f16, 4: f32. */
uint32_t unpack_scale_bytes(uint32_t format);

/* Unpacks row number row. Formats whose codes are floats have nothing but scales to unpack. */
void unpack_row(const tenon_weight_desc *desc, const uint8_t *weights, const uint8_t *scales,
                uint64_t row, unpacked_row *out);

/* One stored block of a GGUF format, its codes to out->code. Returns 0 for other formats. */
typedef void block_unpacker(const uint8_t *block, unpacked_row *out);
block_unpacker *block_unpacker_of(uint32_t format);

/* Writes 2^(code - 128) as a float, NaN for 255: the scale of MXFP4 (SPEC.md 3.1). */
void unpack_e8m0_halved(uint8_t *to, uint8_t code);

#endif
