#version 450
// The segments of the heads of a row, ascending: 256 values of the row a workgroup. ROUNDS: y is also made
// ready for products of class A8.
#include "common.glsl"
#ifdef TEXEL
#define LANES 8u // one vector of the processor, which rounds eight units
#else
#define LANES 256u
#endif
#include "attention_push.glsl"
layout(constant_id = 3) const uint ROUNDS = 0u;
layout(std430, binding = 0) readonly buffer Sums { float sums_at[]; };
layout(std430, binding = 1) readonly buffer State { uint length; };
layout(std430, binding = 2) writeonly buffer Y { float y_at[]; };
layout(std430, binding = 3) writeonly buffer Work { uvec4 work[]; };

#include "round.glsl"

shared float tile[8u * 33u]; // units of 32 values, apart by 33 so that no two begin in one bank

void main()
{
    uint lane = gl_LocalInvocationID.x, begin = gl_WorkGroupID.x * 256u, token = gl_WorkGroupID.y;
    uint position = length - push.back + token, size = push.head_size + 1u;
    uint first = first_visible(position) / 256u, end = position / 256u + 1u;
    uint width = push.heads * push.head_size, segments = (push.tiles + 3u) / 4u;
    uint row = push.work + gl_NumWorkGroups.y * push.heads * push.tiles * 65u +
               token * push.heads * segments * size;

    for (uint n = lane; n < 256u; n += LANES) {
        uint i = begin + n, head = i / push.head_size, d = i % push.head_size;
        uint sums = row + head * segments * size;
        precise float value = 0.0;
        if (i < width) {
            precise float den = 0.0, o = 0.0;
            for (uint segment = first; segment < end; segment++) {
                den = den + sums_at[sums + segment * size + push.head_size];
                o = o + sums_at[sums + segment * size + d];
            }
            precise float inverse = 1.0 / den;
            value = o * inverse;
            y_at[push.y + token * push.y_stride + i] = value;
        }
        if (ROUNDS != 0u) tile[n + n / 32u] = value;
    }
    if (ROUNDS == 0u) return;
    barrier();
    if (lane < 8u && begin + 32u * lane < width) {
        float value[32];
        for (uint i = 0u; i < 32u; i++) value[i] = tile[33u * lane + i];
        write_record(push.round + token * push.round_stride + (begin / 32u + lane) * 7u, value);
    }
}
