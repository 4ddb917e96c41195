/* The small number formats of SPEC.md 3, each decoded exactly to binary32. Stored values are
 * little-endian and may lie at any address. [any thread] */
#ifndef TENON_REFERENCE_NUMBERS_H
#define TENON_REFERENCE_NUMBERS_H

#include <stdint.h>

uint32_t reference_bits_of(float value);
float reference_float_of(uint32_t bits);

uint16_t reference_load_u16(const uint8_t *bytes);
uint32_t reference_load_u32(const uint8_t *bytes);
float reference_load_f32(const uint8_t *bytes);
float reference_load_f16(const uint8_t *bytes);
float reference_load_bf16(const uint8_t *bytes);

/* IEEE 754 binary16: subnormals, infinities and NaN included. */
float reference_f16(uint16_t half);
/* To binary16: nearest even, subnormals kept, overflow to infinity, NaN stays NaN. */
uint16_t reference_f16_round(float value);
/* fp8 E4M3FN: bias 7, no infinities, NaN at 0x7F and 0xFF. */
float reference_e4m3(uint8_t code);
/* MXFP4's scale of the doubled table: 2^(code - 128), subnormal for codes 0 and 1, NaN for 255. */
float reference_e8m0_half(uint8_t code);

#endif
