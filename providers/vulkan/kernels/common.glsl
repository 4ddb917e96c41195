// What every kernel includes first: numbers as bits, and operations that round once.
//
// Every float expression is `precise`, so that no driver contracts it; embed.py refuses a module with
// an addition or product that is not. Comparisons with NaN go by bits.
#ifndef TENON_COMMON_GLSL
#define TENON_COMMON_GLSL

#extension GL_EXT_control_flow_attributes : require

#define INFINITY_BITS 0x7f800000u
#define NAN_BITS 0x7fc00000u

uint magnitude_bits(float x)
{
    return floatBitsToUint(x) & 0x7fffffffu;
}

bool is_nan(float x)
{
    return magnitude_bits(x) > INFINITY_BITS;
}

float not_a_number()
{
    return uintBitsToFloat(NAN_BITS);
}

// 2^n for n of -126 to 127
float power_of_two(int n)
{
    return uintBitsToFloat(uint(n + 127) << 23);
}

float times(float a, float b)
{
    precise float y = a * b;
    return y;
}

float plus(float a, float b)
{
    precise float y = a + b;
    return y;
}

// Word i of a vector that lies in registers.
uint word_of(uvec4 v, uint i)
{
    return (i & 2u) != 0u ? ((i & 1u) != 0u ? v.w : v.z) : ((i & 1u) != 0u ? v.y : v.x);
}

// Byte i & 3 of a word, signed.
int signed_byte(uint word, uint i)
{
    return int(word << (24u - 8u * (i & 3u))) >> 24;
}

// binary16 to binary32. Subnormal halves are made of integers: no subnormal float on the way. Flavour TEXEL
// is chosen only where the probe has seen that unpackHalf2x16 gives the same: one instruction there.
float half_to_float(uint half_bits)
{
#ifdef TEXEL
    return unpackHalf2x16(half_bits).x;
#else
    uint sign = (half_bits & 0x8000u) << 16;
    uint rest = half_bits & 0x7fffu;
    uint bits = (rest << 13) + (rest >= 0x7c00u ? 0x70000000u : 0x38000000u);
    precise float small = float(rest) * 5.9604644775390625e-8; // 2^-24
    return uintBitsToFloat((rest < 0x400u ? floatBitsToUint(small) : bits) | sign);
#endif
}

// binary32 to binary16: nearest even, subnormals kept, overflow to infinity. By integers, since
// packHalf2x16 may round as it likes.
uint float_to_half(float value)
{
    uint bits = floatBitsToUint(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > INFINITY_BITS) return sign | 0x7e00u;
    if (size >= 0x477ff000u) return sign | 0x7c00u; // 65520 and more
    if (size < 0x33000000u) return sign;            // below 2^-25
    uint shift = 13u, kept;
    if (size >= 0x38800000u) { // 2^-14: normal
        size -= 112u << 23;
    } else {
        shift = 126u - (size >> 23);
        size = (size & 0x7fffffu) | 0x800000u;
    }
    kept = size >> shift;
    // Half a unit less one, plus one where the kept part is odd: carries exactly when it rounds up.
    return sign | ((size + (1u << (shift - 1u)) - 1u + (kept & 1u)) >> shift);
}

#endif
