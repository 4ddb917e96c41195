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

layout(push_constant) uniform Push
{
    uint rows, units, tokens, scales;
    uint work, work_stride, y, y_stride;
    uint zero, cols, group, reserved0;
    uint table0, table1, table2, table3;
} push;

#ifdef TEXEL
layout(binding = 0) uniform usamplerBuffer codes_at;
layout(binding = 1) uniform usamplerBuffer scales_at;
layout(binding = 2) uniform usamplerBuffer work_at;
#define CODES(i) texelFetch(codes_at, int(i))
#define SCALES(i) texelFetch(scales_at, int(i))
#define WORK(i) texelFetch(work_at, int(i))
#else
layout(std430, binding = 0) readonly buffer Codes { uvec4 codes_at[]; };
layout(std430, binding = 1) readonly buffer Scales { uvec4 scales_at[]; };
layout(std430, binding = 2) readonly buffer Work { uvec4 work_at[]; };
#define CODES(i) codes_at[i]
#define SCALES(i) scales_at[i]
#define WORK(i) work_at[i]
#endif
layout(std430, binding = 3) writeonly buffer Y { float y_at[]; };

#include "weights.glsl"

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
