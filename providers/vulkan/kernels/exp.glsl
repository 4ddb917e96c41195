// exp of SPEC.md 2.4: x = n ln 2 + r, a polynomial in r, two powers of two.
#ifndef TENON_EXP_GLSL
#define TENON_EXP_GLSL

#include "fused.glsl"

float exponential(float x)
{
    if (is_nan(x)) return x;
    precise float clamped = x < -104.0 ? -104.0 : x > 89.0 ? 89.0 : x;
    precise float z = fused(clamped, uintBitsToFloat(0x3fb8aa3bu), 12582912.0); // log2 e
    precise float n = z - 12582912.0;
    precise float r = fused(n, uintBitsToFloat(0xbf317200u), clamped);
    r = fused(n, uintBitsToFloat(0xb5bfbe8eu), r);
    precise float p = uintBitsToFloat(0x3ab511e9u);
    p = fused(p, r, uintBitsToFloat(0x3c091d10u));
    p = fused(p, r, uintBitsToFloat(0x3d2aac79u));
    p = fused(p, r, uintBitsToFloat(0x3e2aaa49u));
    p = fused(p, r, uintBitsToFloat(0x3efffffeu));
    p = fused(p, r, 1.0);
    p = fused(p, r, 1.0);
    int whole = int(floatBitsToUint(z)) - 0x4b400000; // -150 to 128
    int low = whole >> 1;                             // towards minus infinity
    precise float y = (p * power_of_two(low)) * power_of_two(whole - low);
    return y;
}

#endif
