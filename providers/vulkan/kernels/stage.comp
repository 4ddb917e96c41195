#version 450
// Activations of class F32: one unit of 32 inputs an invocation, padded with zeros, one record of 9
// vectors: 32 floats, then X_b of the unit and of each half of it (SPEC.md 2.2), and 0.
#include "common.glsl"
#include "stage_push.glsl"

void main()
{
    uint unit = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    if (unit >= push.units) return;
    uint first = unit * 32u, count = min(32u, push.cols - first);
    uint from = push.x + token * push.x_stride + first;
    uint at = push.work + token * push.work_stride + unit * 9u;
    precise float whole = 0.0, half_sum = 0.0, first_half = 0.0;

    for (uint v = 0u; v < 8u; v++) {
        float value[4];
        if (v == 4u) {
            first_half = half_sum;
            half_sum = 0.0;
        }
        for (uint i = 0u; i < 4u; i++) {
            value[i] = 4u * v + i < count ? x[from + 4u * v + i] : 0.0;
            whole = whole + value[i];
            half_sum = half_sum + value[i];
        }
        work[at + v] = floatBitsToUint(vec4(value[0], value[1], value[2], value[3]));
    }
    work[at + 8u] = floatBitsToUint(vec4(whole, first_half, half_sum, 0.0));
}
