#version 450
// rmsnorm (SPEC.md 2.4): one group of one row a workgroup. Sixteen invocations run the chains of
// dot16, all of them scale.
// ADDS: x is added to b first, and the sum is kept. ROUNDS: y is also made ready for products of class A8.
// Both with one group a row.
#include "fused.glsl"

#ifdef TEXEL
#define LANES 16u // the chains: no vector of the processor is without work
#else
#define LANES 64u
#endif
layout(local_size_x = LANES) in;
layout(constant_id = 1) const uint ADDS = 0u;
layout(constant_id = 2) const uint ROUNDS = 0u;
layout(push_constant) uniform Push
{
    uint x, x_stride, w, y, y_stride, width;
    float count, eps;
    uint b, b_stride, sum, sum_stride, work, work_stride;
} push;
layout(std430, binding = 0) readonly buffer X { float x_at[]; };
layout(std430, binding = 1) readonly buffer W { float w_at[]; };
layout(std430, binding = 2) writeonly buffer Y { float y_at[]; };
layout(std430, binding = 3) readonly buffer B { float b_at[]; };
layout(std430, binding = 4) coherent buffer Sum { float sum_at[]; };
layout(std430, binding = 5) writeonly buffer Work { uvec4 work[]; };

#include "round.glsl"

shared float p[16];
shared float tile[LANES * 33u]; // units of 32 values, apart by 33 so that no two begin in one bank

float input_at(uint i)
{
    if (ADDS != 0u) return sum_at[push.sum + gl_WorkGroupID.y * push.sum_stride + i];
    return x_at[push.x + gl_WorkGroupID.y * push.x_stride + gl_WorkGroupID.x * push.width + i];
}

void main()
{
    uint lane = gl_LocalInvocationID.x, token = gl_WorkGroupID.y;
    uint y = push.y + token * push.y_stride + gl_WorkGroupID.x * push.width;
    precise float sum = 0.0;

    if (ADDS != 0u) {
        for (uint i = lane; i < push.width; i += LANES)
            sum_at[push.sum + token * push.sum_stride + i] =
                plus(x_at[push.x + token * push.x_stride + i], b_at[push.b + token * push.b_stride + i]);
        memoryBarrierBuffer();
        barrier();
    }
    if (lane < 16u) {
        for (uint i = lane; i < push.width; i += 16u) {
            float value = input_at(i);
            sum = fused(value, value, sum);
        }
        p[lane] = sum;
    }
    barrier();
    precise float q[16];
    for (uint j = 0u; j < 16u; j++) q[j] = p[j];
    for (uint j = 0u; j < 8u; j++) q[j] = q[j] + q[j + 8u];
    for (uint j = 0u; j < 4u; j++) q[j] = q[j] + q[j + 4u];
    precise float ss = (q[0] + q[2]) + (q[1] + q[3]);
    precise float v = ss / push.count + push.eps;
    precise float r = 0.0;
    if (magnitude_bits(v) != 0u) r = 1.0 / sqrt(v);
    for (uint begin = 0u; begin < push.width; begin += 32u * LANES) {
        uint count = min(32u * LANES, push.width - begin);
        for (uint n = lane; n < (count + 31u) / 32u * 32u; n += LANES) {
            precise float value = 0.0;
            if (n < count) {
                value = (input_at(begin + n) * r) * w_at[push.w + begin + n];
                y_at[y + begin + n] = value;
            }
            if (ROUNDS != 0u) tile[n + n / 32u] = value;
        }
        if (ROUNDS == 0u) continue;
        barrier();
        if (32u * lane < count) {
            float value[32];
            for (uint i = 0u; i < 32u; i++) value[i] = tile[33u * lane + i];
            write_record(push.work + token * push.work_stride + (begin / 32u + lane) * 7u, value);
        }
        barrier();
    }
}
