#version 450
// The segments of one head of one row, ascending.
#include "common.glsl"
#define LANES 64u
#include "attention_push.glsl"
layout(std430, binding = 0) readonly buffer Work { float work_at[]; };
layout(std430, binding = 1) readonly buffer State { uint length; };
layout(std430, binding = 2) writeonly buffer Y { float y_at[]; };

void main()
{
    uint position = position_of(length), size = push.head_size + 1u;
    uint begin = first_visible(position) / 256u, end = position / 256u + 1u;
    uint y = push.y + gl_WorkGroupID.z * push.y_stride + gl_WorkGroupID.y * push.head_size;
    precise float den = 0.0;

    for (uint segment = begin; segment < end; segment++)
        den = den + work_at[sums_word() + segment * size + push.head_size];
    precise float inverse = 1.0 / den;
    for (uint d = gl_LocalInvocationID.x; d < push.head_size; d += 64u) {
        precise float o = 0.0;
        for (uint segment = begin; segment < end; segment++)
            o = o + work_at[sums_word() + segment * size + d];
        precise float value = o * inverse;
        y_at[y + d] = value;
    }
}
