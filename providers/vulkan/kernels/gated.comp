#version 450
// y = act(gate) * up, activations as SPEC.md 2.4 has them, 256 values of a row a workgroup. ROUNDS: y is
// also made ready for products of class A8.
#include "exp.glsl"

#ifdef TEXEL
#define LANES 8u // one vector of the processor, which rounds eight units
#else
#define LANES 256u
#endif
layout(local_size_x = LANES) in;
layout(push_constant) uniform Push
{
    uint gate, gate_stride, up, up_stride, y, y_stride, width, activation, work, work_stride;
} push;
layout(std430, binding = 0) readonly buffer Gate { float gate_at[]; };
layout(std430, binding = 1) readonly buffer Up { float up_at[]; };
layout(std430, binding = 2) writeonly buffer Y { float y_at[]; };
layout(std430, binding = 3) writeonly buffer Work { uvec4 work[]; };

#include "round.glsl"

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
layout(constant_id = 2) const uint ROUNDS = 0u;

float activate(float x)
{
    uint activation = ACTIVATION != 0u ? ACTIVATION : push.activation;
    if (activation == SILU) return silu(x);
    if (activation == GELU_TANH) return gelu_tanh(x);
    if (activation == GELU_ERF) return gelu_erf(x);
    if (is_nan(x)) return x;
    return x > 0.0 ? x : 0.0;
}

shared float tile[8u * 33u]; // units of 32 values, apart by 33 so that no two begin in one bank

void main()
{
    uint lane = gl_LocalInvocationID.x, begin = gl_WorkGroupID.x * 256u, token = gl_WorkGroupID.y;

    for (uint n = lane; n < 256u; n += LANES) {
        uint i = begin + n;
        float value = 0.0;
        if (i < push.width) {
            value = times(activate(gate_at[push.gate + token * push.gate_stride + i]),
                          up_at[push.up + token * push.up_stride + i]);
            y_at[push.y + token * push.y_stride + i] = value;
        }
        if (ROUNDS != 0u) tile[n + n / 32u] = value;
    }
    if (ROUNDS == 0u) return;
    barrier();
    if (lane < 8u && begin + 32u * lane < push.width) {
        float value[32];
        for (uint i = 0u; i < 32u; i++) value[i] = tile[33u * lane + i];
        write_record(push.work + token * push.work_stride + (begin / 32u + lane) * 7u, value);
    }
}
