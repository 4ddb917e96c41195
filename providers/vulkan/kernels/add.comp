#version 450
// y = a + b
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Push
{
    uint a, a_stride, b, b_stride, y, y_stride, width;
} push;
layout(std430, binding = 0) readonly buffer A { float a_at[]; };
layout(std430, binding = 1) readonly buffer B { float b_at[]; };
layout(std430, binding = 2) writeonly buffer Y { float y_at[]; };

void main()
{
    uint i = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    if (i >= push.width) return;
    y_at[push.y + token * push.y_stride + i] = plus(a_at[push.a + token * push.a_stride + i],
                                                    b_at[push.b + token * push.b_stride + i]);
}
