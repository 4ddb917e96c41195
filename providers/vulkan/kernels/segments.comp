#version 450
// den_g and o_g of one head of one row, one segment of 256 positions a workgroup at a time.
#include "exp.glsl"
#include "cache.glsl"
#ifdef TEXEL
#define LANES 8u // a barrier costs little where the workgroup is one vector of the processor
#else
#define LANES 64u
#endif
#define WIDE (ELEMENTS == 4u ? 32.0 : 262144.0)
#include "attention_push.glsl"
#ifdef TEXEL
layout(binding = 0) uniform usamplerBuffer v_at;
#define VALUES(i) texelFetch(v_at, int(i))
#else
layout(std430, binding = 0) readonly buffer V { uvec4 v_at[]; };
#define VALUES(i) v_at[i]
#endif
layout(std430, binding = 1) buffer Work { float work_at[]; };
layout(std430, binding = 2) readonly buffer State { uint length; };

shared vec4 e[64]; // 0 where the row sees nothing: read four at a time, which costs about as much as one
shared float most[LANES];
shared vec4 p[4];

#ifdef DOUBLE
#define FUSED(a, b, c) fused_soon(a, b, c, WIDE, doubt)
#else
#define FUSED(a, b, c) fused(a, b, c)
#endif

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint position = position_of(length), first = first_visible(position);
    uint kv_head = gl_WorkGroupID.y / (push.heads / push.kv_heads);
    uint values = value_vector(push.tiles, push.heads_v, kv_head, 0u, 0u);
    float greatest = uintBitsToFloat(0xff800000u);

    for (uint tile = first / 64u + lane; tile <= position / 64u; tile += LANES) {
        float other = work_at[most_word() + tile];
        greatest = other > greatest ? other : greatest;
    }
    most[lane] = greatest;
    for (uint step = LANES / 2u; step > 0u; step /= 2u) {
        barrier();
        if (lane < step) {
            greatest = most[lane + step] > greatest ? most[lane + step] : greatest;
            most[lane] = greatest;
        }
    }
    barrier();
    greatest = most[0];
    for (uint segment = first / 256u + gl_WorkGroupID.x; segment <= position / 256u;
         segment += gl_NumWorkGroups.x) {
        uint begin = max(first, segment * 256u), end = min(position + 1u, segment * 256u + 256u);
        uint to = sums_word() + segment * (push.head_size + 1u);
        for (uint t = begin / 16u * 16u + lane; t < (end + 15u) / 16u * 16u; t += LANES) {
            bool seen = t >= begin && t < end;
            precise float apart = work_at[scores_word() + (seen ? t : begin)] - greatest;
            e[t / 4u % 64u][t & 3u] = seen ? exponential(apart) : 0.0;
        }
        barrier();
        for (uint j = lane; j < 4u; j += LANES) { // sum16: 4 * j to 4 * j + 3 are positions modulo 16
            precise vec4 sum = vec4(0.0);
            for (uint t = begin / 16u; t <= (end - 1u) / 16u; t++) sum = sum + e[t * 4u % 64u + j];
            p[j] = sum;
        }
        for (uint w = lane; w < push.heads_v; w += LANES) {
            precise float o[8];
            [[unroll]] for (uint i = 0u; i < 8u; i++) o[i] = 0.0;
            bool doubt = false;
            for (uint quad = begin / 4u; quad <= (end - 1u) / 4u; quad++) {
                vec4 weights = e[quad % 64u];
                [[unroll]] for (uint j = 0u; j < 4u; j++) {
                    uint t = 4u * quad + j;
                    if (t < begin || t >= end) continue; // anything may lie there
                    uvec4 v = VALUES(values + t * push.heads_v + w);
                    [[unroll]] for (uint i = 0u; i < 8u; i++)
                        if (i < ELEMENTS) o[i] = FUSED(weights[j], element_of(v, i), o[i]);
                }
            }
#ifdef DOUBLE
            // Exactly, where there is doubt.
            for (uint i = doubt ? 0u : ELEMENTS; i < ELEMENTS; i++) {
                precise float sum = 0.0;
                for (uint t = begin; t < end; t++)
                    sum = fused(e[t / 4u % 64u][t & 3u],
                                element_of(VALUES(values + t * push.heads_v + w), i), sum);
                o[i] = sum;
            }
#endif
            for (uint i = 0u; i < ELEMENTS; i++)
                if (ELEMENTS * w + i < push.head_size) work_at[to + ELEMENTS * w + i] = o[i];
        }
        barrier();
        if (lane == 0u) {
            precise float q[16];
            for (uint j = 0u; j < 16u; j++) q[j] = p[j / 4u][j & 3u];
            for (uint j = 0u; j < 8u; j++) q[j] = q[j] + q[j + 8u];
            for (uint j = 0u; j < 4u; j++) q[j] = q[j] + q[j + 4u];
            precise float den = (q[0] + q[2]) + (q[1] + q[3]);
            work_at[to + push.head_size] = den;
        }
        barrier();
    }
}
