#version 450
// The best of a row's stretches: one row a workgroup.
#include "common.glsl"
#include "argmax.glsl"
layout(std430, binding = 0) readonly buffer Work { uint work_at[]; };
layout(std430, binding = 1) writeonly buffer Y { uint y_at[]; };

void main()
{
    uint lane = gl_LocalInvocationID.x, token = gl_WorkGroupID.x, index = NOWHERE;
    int key = 0;

    for (uint i = lane; i < push.stretches; i += 128u) {
        uint from = push.work + (token * push.stretches + i) * 2u;
        take(key, index, int(work_at[from + 1u]), work_at[from]);
    }
    reduce(key, index);
    if (lane == 0u) y_at[push.y + token] = index;
}
