// fused(a, b, c): a * b + c rounded once, subnormals kept, on any device whose + - * round to nearest.
//
// Constant 0 says whether fma() of the device does it. If not:
// - DOUBLE (module math VULKAN_DOUBLE): the product is exact in binary64, its sum with c is made odd
//   where it is inexact, and rounds to binary32 as the exact one would.
// - else in binary32: the product as an exact pair (twelve-bit halves), sums as exact pairs, the low
//   end rounded to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
//   That needs room at both ends of the exponents; values without it are first moved there, and the
//   result is put together by integers, so that no step makes a subnormal number.
#ifndef TENON_FUSED_GLSL
#define TENON_FUSED_GLSL

#include "common.glsl"

layout(constant_id = 0) const uint FMA = 0u;

#ifdef DOUBLE

float fused(float a, float b, float c)
{
    precise double product = double(a) * double(b);
    precise double addend = double(c);
    precise double sum = product + addend;
    precise double part = sum - product;
    precise double error = (product - (sum - part)) + (addend - part);
    uvec2 bits = unpackDouble2x32(sum);
    // The exact sum lies between sum and a neighbour; both of those are odd where sum is even.
    bool inexact = error != 0.0lf && (bits.x & 1u) == 0u && (bits.y & 0x7ff00000u) != 0x7ff00000u;
    bool away = (error > 0.0lf) == (sum > 0.0lf);
    uvec2 odd = away ? uvec2(bits.x + 1u, bits.y) : uvec2(bits.x - 1u, bits.y - uint(bits.x == 0u));
    return float(packDouble2x32(inexact ? odd : bits));
}

// The same at half the price, mostly: the sum is rounded to binary64 and then again. Sets doubt where
// that may differ, which is rare, and where the chain that it belongs to must be run anew: where the
// first rounding left a value halfway between two floats and may have been inexact (the sum is more
// than `wide` times the product, or 2^27 times a c that is not 0), and where the result is subnormal.
// wide: 2^5, or 2^18 when b is a half.
float fused_soon(float a, float b, float c, float wide, inout bool doubt)
{
    precise double sum = double(a) * double(b) + double(c);
    float y = float(sum);
    precise float near_product = abs(a * b) * wide;
    precise float near_addend = abs(c) * 134217728.0;
    bool halfway = (unpackDouble2x32(sum).x & 0x1fffffffu) == 0x10000000u;
    bool far = abs(y) >= near_product || (abs(y) > near_addend && c != 0.0);
    doubt = doubt || (halfway && far) || magnitude_bits(y) - 1u < 0x800000u;
    return y;
}

#else

// s + e = a + b exactly, s rounded
float two_sum(float a, float b, out float e)
{
    precise float s = a + b;
    precise float t = s - a;
    precise float low = (a - (s - t)) + (b - t);
    e = low;
    return s;
}

// a + b, an inexact sum made odd
float sum_to_odd(float a, float b)
{
    float e, s = two_sum(a, b, e);
    uint bits = floatBitsToUint(s);
    if (magnitude_bits(e) != 0u && (bits & 1u) == 0u)
        bits = (floatBitsToUint(e) ^ bits) >> 31 == 0u ? bits + 1u : bits - 1u;
    return uintBitsToFloat(bits);
}

// high + low = a * b + c as nearly as rounding needs: low is rounded to odd. a * b within 2^-80 and
// 2^120, c below 2^121.
float product_and_sum(float a, float b, float c, out float low)
{
    float ah = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
    float bh = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
    precise float al = a - ah, bl = b - bh;
    precise float p = a * b;
    precise float pe = ((ah * bh - p) + ah * bl) + al * bh;
    precise float q = pe + al * bl; // p + q = a * b
    float tl, vl, th = two_sum(c, q, tl), vh = two_sum(p, th, vl);
    low = sum_to_odd(tl, vl);
    return vh;
}

// x = m * 2^e, m of 1 to 2 with the sign of x; x finite. 0 gives m = 0.
float significand(float x, out int e)
{
    uint bits = floatBitsToUint(x), sign = bits & 0x80000000u;
    e = int(bits >> 23 & 255u) - 127;
    if (e == -127) {
        precise float fraction = float(bits & 0x7fffffu);
        if ((bits & 0x7fffffu) == 0u) return x;
        bits = floatBitsToUint(fraction);
        e = int(bits >> 23) - 127 - 149;
    }
    return uintBitsToFloat((bits & 0x7fffffu) | 0x3f800000u | sign);
}

// The same for values near the ends of the exponents; a * b finite and not zero, c finite.
float fused_far(float a, float b, float c)
{
    int ea, eb, ec, scale;
    float ma = significand(a, ea), mb = significand(b, eb), mc = significand(c, ec), low;
    bool none = magnitude_bits(mc) == 0u;
    int apart = none ? 0 : clamp(ec - ea - eb, -100, 60);
    scale = !none && ec - ea - eb > 60 ? ec - 60 : ea + eb;
    precise float moved = mc * power_of_two(apart);
    float high = product_and_sum(ma, mb, moved, low);
    precise float rounded = high + low;
    uint sign = floatBitsToUint(high) & 0x80000000u, bits = floatBitsToUint(rounded);
    int e = int(magnitude_bits(high) >> 23) - 127 + scale;
    bool below = (floatBitsToUint(high) & 0x7fffffu) == 0u && magnitude_bits(low) != 0u &&
                 (floatBitsToUint(low) & 0x80000000u) != sign;

    if (magnitude_bits(rounded) == 0u) return 0.0;
    if (e > -126 || (e == -126 && !below)) { // normal
        int field = int(bits >> 23 & 255u) + scale;
        if (field > 254) return uintBitsToFloat(sign | INFINITY_BITS);
        return uintBitsToFloat((bits & 0x807fffffu) | uint(field) << 23);
    }
    if (e < -151) return uintBitsToFloat(sign);
    // Subnormal: adding 2^23 units of 2^-149 leaves no room for a fraction of one.
    float magic = uintBitsToFloat(floatBitsToUint(power_of_two(-126 - scale)) | sign), rest;
    float base = two_sum(magic, high, rest), end = sum_to_odd(rest, low);
    precise float shifted = base + end;
    precise float units = abs(shifted - magic) * power_of_two(149 + scale);
    return uintBitsToFloat(uint(units) | sign);
}

float fused_exactly(float a, float b, float c)
{
    uint fa = magnitude_bits(a), fb = magnitude_bits(b), fc = magnitude_bits(c);
    precise float plain = a * b + c;
    if (fa == 0u || fb == 0u || fa >= INFINITY_BITS || fb >= INFINITY_BITS) return plain;
    if (fc >= INFINITY_BITS) return c;
    int e = int(fa >> 23) + int(fb >> 23) - 254;
    if (fa >= 0x800000u && fb >= 0x800000u && e >= -80 && e <= 118 && fc < 0x7b800000u) {
        float low, high = product_and_sum(a, b, c, low);
        precise float y = high + low;
        return y;
    }
    return fused_far(a, b, c);
}

float fused(float a, float b, float c)
{
    if (FMA == 0u) {
        precise float y = fma(a, b, c);
        return y;
    }
    return fused_exactly(a, b, c);
}

#endif
#endif
