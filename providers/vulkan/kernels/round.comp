#version 450
// Activations of class A8: one unit of 32 inputs an invocation, one record each (round.glsl).
#include "common.glsl"
#include "stage_push.glsl"
#include "round.glsl"

void main()
{
    uint unit = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    if (unit >= push.units) return;
    uint first = unit * 32u, count = min(32u, push.cols - first);
    uint from = push.x + token * push.x_stride + first;
    float value[32];

    for (uint i = 0u; i < 32u; i++) value[i] = i < count ? x[from + i] : 0.0;
    write_record(push.work + token * push.work_stride + unit * 7u, value);
}
