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

shared float e[256];
shared float most[LANES];
shared float p[16];

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint position = position_of(length), first = first_visible(position);
    uint kv_head = gl_WorkGroupID.y / (push.heads / push.kv_heads);
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
        for (uint t = begin + lane; t < end; t += LANES) {
            precise float apart = work_at[scores_word() + t] - greatest;
            e[t - segment * 256u] = exponential(apart);
        }
        barrier();
        for (uint j = lane; j < 16u; j += LANES) { // sum16: j is position modulo 16
            precise float sum = 0.0;
            for (uint t = begin + ((j - begin) & 15u); t < end; t += 16u)
                sum = sum + e[t - segment * 256u];
            p[j] = sum;
        }
        for (uint w = lane; w < push.heads_v; w += LANES) {
            precise float o[8];
            [[unroll]] for (uint i = 0u; i < 8u; i++) o[i] = 0.0;
#ifdef DOUBLE
            bool doubt = false;
            for (uint t = begin; t < end; t++) {
                uvec4 v = VALUES(value_vector(push.tiles, push.heads_v, kv_head, t, w));
                float weight = e[t - segment * 256u];
                [[unroll]] for (uint i = 0u; i < 8u; i++)
                    if (i < ELEMENTS) o[i] = fused_soon(weight, element_of(v, i), o[i], WIDE, doubt);
            }
            // Exactly, where there is doubt.
            [[unroll]] for (uint i = 0u; i < 8u; i++) o[i] = doubt ? 0.0 : o[i];
            for (uint t = doubt ? begin : end; t < end; t++) {
#else
            for (uint t = begin; t < end; t++) {
#endif
                uvec4 v = VALUES(value_vector(push.tiles, push.heads_v, kv_head, t, w));
                float weight = e[t - segment * 256u];
                [[unroll]] for (uint i = 0u; i < 8u; i++)
                    if (i < ELEMENTS) o[i] = fused(weight, element_of(v, i), o[i]);
            }
            for (uint i = 0u; i < ELEMENTS; i++)
                if (ELEMENTS * w + i < push.head_size) work_at[to + ELEMENTS * w + i] = o[i];
        }
        barrier();
        if (lane == 0u) {
            precise float q[16];
            for (uint j = 0u; j < 16u; j++) q[j] = p[j];
            for (uint j = 0u; j < 8u; j++) q[j] = q[j] + q[j + 8u];
            for (uint j = 0u; j < 4u; j++) q[j] = q[j] + q[j + 4u];
            precise float den = (q[0] + q[2]) + (q[1] + q[3]);
            work_at[to + push.head_size] = den;
        }
        barrier();
    }
}
