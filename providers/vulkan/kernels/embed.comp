#version 450
// Rows of a packed weight, decoded (SPEC.md 2.4): one unit of 32 inputs an invocation.
#include "fused.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Push
{
    uint first_row, rows, all_rows, units, cols, scales, ids, y, y_stride, zero, group;
    float scale;
    uint table0, table1, table2, table3;
} push;
layout(std430, binding = 0) readonly buffer Codes { uvec4 codes_at[]; };
layout(std430, binding = 1) readonly buffer Scales { uvec4 scales_at[]; };
layout(std430, binding = 2) readonly buffer Ids { uint ids_at[]; };
layout(std430, binding = 3) writeonly buffer Y { float y_at[]; };
#define CODES(i) codes_at[i]
#define SCALES(i) scales_at[i]
#include "weights.glsl"
#include "codes.glsl"

void main()
{
    uint unit = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y, id = ids_at[push.ids + token];
    if (unit >= push.units) return;
    uint first = 32u * unit, count = min(32u, push.cols - first);
    uint to = push.y + token * push.y_stride + first;
    if (id >= push.all_rows) {
        for (uint i = 0u; i < count; i++) y_at[to + i] = not_a_number();
        return;
    }
    if (id < push.first_row || id - push.first_row >= push.rows) return;

    uint row = id - push.first_row, tile = row / 64u, lane = row % 64u;
    uint segment = unit / 8u, k = unit % 8u;
    uint at = (tile * push.units + unit) * vectors_of_unit() * 64u;
    uvec4 s0, s1;
    if (push.group == 0u) {
        s0 = load_first(tile * push.scales, segment, lane);
        s1 = load_second(tile * push.scales, segment, lane);
    }
    for (uint i = 0u; i < count; i++) {
        uint half_unit = i >> 4;
        float q = codes(at, lane, i >> 2)[i & 3u];
        precise float y = q;
        if (push.group != 0u) {
            uint b = (first + i) / push.group;
            uint scale = word_of(SCALES((tile * push.scales + b / 4u) * 64u + lane), b & 3u);
            y = uintBitsToFloat(scale) * q;
        } else if (!kind_is(NONE)) {
            float s = scale_f32(s0, s1, segment, k, half_unit);
            if (has_minima())
                y = fused(s, q, -minimum_f32(s0, s1, k, half_unit));
            else
                y = s * q;
        }
        if (push.scale != 1.0) y = y * push.scale;
        y_at[to + i] = y;
    }
}
