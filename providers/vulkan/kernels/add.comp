#version 450
// y = a + b
#include "common.glsl"
#include "pair_push.glsl"

void main()
{
    uint i = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    if (i >= push.width) return;
    y_at[push.y + token * push.y_stride + i] = plus(a_at[push.a + token * push.a_stride + i],
                                                    b_at[push.b + token * push.b_stride + i]);
}
