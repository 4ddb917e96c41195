#version 450
// What the device makes of single operations: cases of three floats, thirteen words each of answers.
#include "fused.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Push
{
    uint cases;
} push;
layout(std430, binding = 0) readonly buffer In { float in_at[]; };
layout(std430, binding = 1) writeonly buffer Out { uint out_at[]; };

void main()
{
    uint n = gl_GlobalInvocationID.x, at = 13u * n;
    if (n >= push.cases) return;
    float a = in_at[3u * n], b = in_at[3u * n + 1u], c = in_at[3u * n + 2u];
    precise float product = a * b, sum = a + b, difference = a - b, quotient = a / b, root = sqrt(a);
    precise float inverse = 1.0 / a, part = a / 127.0, whole = a + 12582912.0;
    precise float converted = float(int(floatBitsToUint(a))), apart = product + c;

    out_at[at] = floatBitsToUint(fused(a, b, c));
    out_at[at + 1u] = floatBitsToUint(product);
    out_at[at + 2u] = floatBitsToUint(sum);
    out_at[at + 3u] = floatBitsToUint(difference);
    out_at[at + 4u] = floatBitsToUint(quotient);
    out_at[at + 5u] = floatBitsToUint(root);
    out_at[at + 6u] = floatBitsToUint(inverse);
    out_at[at + 7u] = floatBitsToUint(part);
    out_at[at + 8u] = floatBitsToUint(whole);
    out_at[at + 9u] = floatBitsToUint(converted);
    out_at[at + 10u] = uint(a < b) | uint(a == b) << 1 | uint(a != a) << 2;
    out_at[at + 11u] = floatBitsToUint(apart);
    out_at[at + 12u] = floatBitsToUint(unpackHalf2x16(floatBitsToUint(a) & 0xffffu).x);
}
