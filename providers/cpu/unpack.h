/* From the stored bytes of a row (SPEC.md 3) to one byte a code and its scales. */
#ifndef TENON_CPU_UNPACK_H
#define TENON_CPU_UNPACK_H

#include "cpu.h"

/* One row, whole. Arrays that a format does not have stay NULL. */
typedef struct cpu_row {
    uint8_t *code;    /* one per input: a nibble, six bits, or q as a signed byte */
    uint8_t *scale;   /* f16 or f32 (cpu_format.scale), one per block, or per 256 with sub-scales */
    uint8_t *minimum; /* f16 of -m, or of -dmin: what is added */
    uint8_t *sub;     /* signed sub-scale, one per block */
    uint8_t *sub_minimum;
} cpu_row;

/* Unpacks row number row. Formats whose codes are floats have nothing but scales to unpack. */
void cpu_unpack_row(const tenon_weight_desc *desc, const uint8_t *weights, const uint8_t *scales,
                    uint64_t row, cpu_row *out);

/* One stored block of a GGUF format, its codes to out->code. Returns 0 for other formats. */
typedef void cpu_block_unpacker(const uint8_t *block, cpu_row *out);
cpu_block_unpacker *cpu_block_unpacker_of(uint32_t format);

/* Writes 2^(code - 128) as a float, NaN for 255: the scale of MXFP4 (SPEC.md 3.1). */
void cpu_e8m0_halved(uint8_t *to, uint8_t code);

#endif
