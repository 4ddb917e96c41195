// exp of SPEC.md 2.4: x = n ln 2 + r, a polynomial in r, two powers of two.
#ifndef TENON_EXP_GLSL
#define TENON_EXP_GLSL

#include "fused.glsl"

// A fused multiply-add of exp. Through binary64 it is rounded twice and so may be off, but exp never is:
// of all floats there is none whose exp differs (kernel_rows_test.c looks).
float exp_step(float a, float b, float c)
{
#ifdef DOUBLE
    precise double sum = double(a) * double(b) + double(c);
    return float(sum);
#else
    return fused(a, b, c);
#endif
}

float exponential(float x)
{
    if (is_nan(x)) return x;
    precise float clamped = x < -104.0 ? -104.0 : x > 89.0 ? 89.0 : x;
    precise float z = exp_step(clamped, uintBitsToFloat(0x3fb8aa3bu), 12582912.0); // log2 e
    precise float n = z - 12582912.0;
    precise float r = n * uintBitsToFloat(0xbf317200u) + clamped; // 8 bits times 15: the product is exact
    r = exp_step(n, uintBitsToFloat(0xb5bfbe8eu), r);
    precise float p = uintBitsToFloat(0x3ab511e9u);
    p = exp_step(p, r, uintBitsToFloat(0x3c091d10u));
    p = exp_step(p, r, uintBitsToFloat(0x3d2aac79u));
    p = exp_step(p, r, uintBitsToFloat(0x3e2aaa49u));
    p = exp_step(p, r, uintBitsToFloat(0x3efffffeu));
    p = exp_step(p, r, 1.0);
    p = exp_step(p, r, 1.0);
    int whole = int(floatBitsToUint(z)) - 0x4b400000; // -150 to 128
    int low = whole >> 1;                             // towards minus infinity
    precise float y = (p * power_of_two(low)) * power_of_two(whole - low);
    return y;
}

#endif
