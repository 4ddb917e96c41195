/* The small number formats of SPEC.md 3, each decoded exactly to binary32. */
#include "numbers.h"

#include <string.h>

#define QUIET_NAN UINT32_C(0x7fc00000)

uint32_t reference_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float reference_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t reference_load_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

uint32_t reference_load_u32(const uint8_t *bytes)
{
    return (uint32_t)reference_load_u16(bytes) | (uint32_t)reference_load_u16(bytes + 2) << 16;
}

float reference_load_f32(const uint8_t *bytes)
{
    return reference_float_of(reference_load_u32(bytes));
}

float reference_load_f16(const uint8_t *bytes)
{
    return reference_f16(reference_load_u16(bytes));
}

float reference_load_bf16(const uint8_t *bytes)
{
    return reference_float_of((uint32_t)reference_load_u16(bytes) << 16);
}

float reference_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (uint32_t)(half >> 10 & 31), fraction = (uint32_t)(half & 1023);
    float magnitude;

    if (exponent == 31) return reference_float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0) return reference_float_of(sign | (exponent + 112) << 23 | fraction << 13);
    magnitude = (float)fraction * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
}

uint16_t reference_f16_round(float value)
{
    uint32_t bits = reference_bits_of(value), sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu, kept, rest, halfway, shift;

    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more */
    if (magnitude < 0x33000000u) return (uint16_t)sign; /* below 2^-25, half the smallest */
    if (magnitude >= 0x38800000u) {                     /* 2^-14: normal */
        shift = 13;
        magnitude -= UINT32_C(112) << 23;
    } else { /* fraction with its leading one, down to units of 2^-24 */
        shift = 126 - (magnitude >> 23);
        magnitude = (magnitude & 0x7fffffu) | 0x800000u;
    }
    kept = magnitude >> shift;
    rest = magnitude & ((UINT32_C(1) << shift) - 1);
    halfway = UINT32_C(1) << (shift - 1);
    if (rest > halfway || (rest == halfway && (kept & 1) != 0)) kept++;
    return (uint16_t)(sign | kept);
}

float reference_e4m3(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24;
    uint32_t exponent = (uint32_t)(code >> 3 & 15), fraction = (uint32_t)(code & 7);
    float magnitude;

    if (exponent == 15 && fraction == 7) return reference_float_of(sign | QUIET_NAN);
    if (exponent > 0) return reference_float_of(sign | (exponent + 120) << 23 | fraction << 20);
    magnitude = (float)fraction * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
}

float reference_e8m0_half(uint8_t code)
{
    if (code == 255) return reference_float_of(QUIET_NAN);
    if (code < 2) return reference_float_of(UINT32_C(0x00200000) << code);
    return reference_float_of((uint32_t)(code - 1) << 23);
}
