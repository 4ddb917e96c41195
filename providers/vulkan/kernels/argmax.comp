#version 450
// The first maximum of one stretch of a row a workgroup: index and value.
#include "common.glsl"
#include "argmax.glsl"
layout(std430, binding = 0) readonly buffer X { uint x_at[]; };
layout(std430, binding = 1) writeonly buffer Work { uint work_at[]; };

void main()
{
    uint lane = gl_LocalInvocationID.x, stretch = gl_WorkGroupID.x, token = gl_WorkGroupID.y;
    uint first = stretch * STRETCH, end = min(push.width, first + STRETCH);
    uint from = push.x + token * push.x_stride, index = NOWHERE, value = 0u;
    int key = 0;

    if (stretch >= push.stretches) return;
    for (uint i = first + lane; i < end; i += 128u) {
        uint bits = x_at[from + i];
        if ((bits & 0x7fffffffu) <= INFINITY_BITS) take(key, index, key_of(bits), i);
    }
    reduce(key, index);
    if (lane != 0u) return;
    uint to = push.work + (token * push.stretches + stretch) * 2u;
    work_at[to] = index;
    work_at[to + 1u] = uint(key);
}
