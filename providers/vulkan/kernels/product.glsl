// What the matrix products share: bindings, constants, packed weights (kernels.h).
//
// TEXEL:  8 invocations of 8 rows each, so that a fetch of x serves eight rows of each lane; weights
//         and x come through texel buffers.
// else:   64 rows by SLICES invocations: a row's segments are dealt to the slices, and slice 0 adds
//         what they found in ascending order.
#include "common.glsl"

#ifdef TEXEL
#define LANES 8u
#define ROWS 8u
#define SLICES 1u
#else
#define LANES 64u
#define ROWS 1u
#define SLICES 4u
#endif
layout(local_size_x = LANES, local_size_y = SLICES) in;

// Up to four weights of one shape of rows in one dispatch, one tile behind the other: where the codes and
// the scales of each begin (vectors), its rows, and its y.
layout(push_constant) uniform Push
{
    uint units, tokens, scales, work, work_stride, zero, cols, group;
    uint table0, table1, table2, table3;
    uvec4 codes_from, scales_from, rows, y, y_stride;
} push;

#ifdef TEXEL
layout(binding = 0) uniform usamplerBuffer codes_at;
layout(binding = 1) uniform usamplerBuffer scales_at;
layout(binding = 2) uniform usamplerBuffer work_at;
#define CODES(i) texelFetch(codes_at, int(codes_from + (i)))
#define SCALES(i) texelFetch(scales_at, int(scales_from + (i)))
#define WORK(i) texelFetch(work_at, int(i))
#else
layout(std430, binding = 0) readonly buffer Codes { uvec4 codes_at[]; };
layout(std430, binding = 1) readonly buffer Scales { uvec4 scales_at[]; };
layout(std430, binding = 2) readonly buffer Work { uvec4 work_at[]; };
#define CODES(i) codes_at[codes_from + (i)]
#define SCALES(i) scales_at[scales_from + (i)]
#define WORK(i) work_at[i]
#endif
layout(std430, binding = 3) writeonly buffer Y { float y_at[]; };

// Of the weight that this workgroup belongs to.
uint codes_from, scales_from, rows, y_from, y_stride;

#include "weights.glsl"

// Finds it; the tile of the workgroup in it.
uint choose_weight()
{
    uint tile = gl_WorkGroupID.x, n = 0u;
    [[unroll]] for (uint i = 0u; i < 3u; i++) {
        uint tiles = (push.rows[i] + 63u) / 64u;
        if (n == i && tile >= tiles) {
            tile -= tiles;
            n++;
        }
    }
    codes_from = word_of(push.codes_from, n);
    scales_from = word_of(push.scales_from, n);
    rows = word_of(push.rows, n);
    y_from = word_of(push.y, n);
    y_stride = word_of(push.y_stride, n);
    return tile;
}

// Lane of row r of an invocation in its tile.
uint lane_of(uint r)
{
    return gl_LocalInvocationID.x + LANES * r;
}

#ifndef TEXEL
shared float found[SLICES * LANES];
#endif

// y = y + what the slices found, ascending; all invocations of a workgroup come here.
float add_slices(float y, float a)
{
#ifndef TEXEL
    precise float sum = y;
    found[gl_LocalInvocationID.y * LANES + gl_LocalInvocationID.x] = a;
    barrier();
    for (uint n = 0u; n < SLICES; n++) sum = sum + found[n * LANES + gl_LocalInvocationID.x];
    barrier();
    return sum;
#else
    precise float sum = y + a;
    return sum;
#endif
}
