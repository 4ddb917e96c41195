#version 450
// rmsnorm (SPEC.md 2.4): one group of one row a workgroup. Sixteen invocations run the chains of
// dot16, all of them scale.
#include "fused.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Push
{
    uint x, x_stride, w, y, y_stride, width;
    float count, eps;
} push;
layout(std430, binding = 0) readonly buffer X { float x_at[]; };
layout(std430, binding = 1) readonly buffer W { float w_at[]; };
layout(std430, binding = 2) writeonly buffer Y { float y_at[]; };
shared float p[16];

void main()
{
    uint lane = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * push.width;
    uint x = push.x + gl_WorkGroupID.y * push.x_stride + first;
    uint y = push.y + gl_WorkGroupID.y * push.y_stride + first;
    precise float sum = 0.0;

    if (lane < 16u) {
        for (uint i = lane; i < push.width; i += 16u) {
            float value = x_at[x + i];
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
    for (uint i = lane; i < push.width; i += 64u) {
        precise float value = (x_at[x + i] * r) * w_at[push.w + i];
        y_at[y + i] = value;
    }
}
