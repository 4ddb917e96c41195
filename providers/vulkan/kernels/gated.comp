#version 450
// y = act(gate) * up, activations as SPEC.md 2.4 has them.
#include "exp.glsl"
#include "pair_push.glsl"

#define SILU 1u
#define GELU_TANH 2u
#define GELU_ERF 3u

float silu(float x)
{
    precise float y = x / (1.0 + exponential(-x));
    return y;
}

float gelu_tanh(float x)
{
    precise float square = x * x;
    precise float v = x * fused(square, uintBitsToFloat(0x3d922279u), uintBitsToFloat(0x3fcc422au));
    precise float y = x / (1.0 + exponential(-v));
    return y;
}

float gelu_erf(float x)
{
    const uint coefficients[9] = uint[9](0xbd95df92u, 0x3d91c6f1u, 0x3c25a4c2u, 0x3cbf6bc5u,
                                         0xbe0f1642u, 0xbda5ed92u, 0x3f1e3ec1u, 0xbf546e3du,
                                         0x3f000000u);
    float factor = uintBitsToFloat(0x3e99999au);
    precise float a = uintBitsToFloat(min(magnitude_bits(x), 0x41680000u)); // 14.5
    precise float t = 1.0 / fused(factor, a, 1.0);
    precise float s = (factor * a) * t;
    precise float p = uintBitsToFloat(0x3ca8f57au);
    for (uint i = 0u; i < 9u; i++) p = fused(p, s, uintBitsToFloat(coefficients[i]));
    p = p * t;
    precise float h = a * a;
    precise float l = fused(a, a, -h); // what the rounding of h lost
    precise float e = exponential(-0.5 * h);
    e = fused(-0.5 * l, e, e);
    precise float q = e * p;
    precise float below = -a * q;
    if (is_nan(x)) return x;
    return x < 0.0 ? below : fused(-a, q, x);
}

layout(constant_id = 1) const uint ACTIVATION = 0u; // 0: what is pushed

float activate(float x)
{
    uint activation = ACTIVATION != 0u ? ACTIVATION : push.activation;
    if (activation == SILU) return silu(x);
    if (activation == GELU_TANH) return gelu_tanh(x);
    if (activation == GELU_ERF) return gelu_erf(x);
    if (is_nan(x)) return x;
    return x > 0.0 ? x : 0.0;
}

void main()
{
    uint i = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    if (i >= push.width) return;
    y_at[push.y + token * push.y_stride + i] = times(activate(a_at[push.a + token * push.a_stride + i]),
                                                     b_at[push.b + token * push.b_stride + i]);
}
