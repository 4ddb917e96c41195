#version 450
// The scores of one head of one row, 64 positions a workgroup at a time, and the greatest of each 64.
#include "fused.glsl"
#include "cache.glsl"
#include "attention_push.glsl"
#ifdef TEXEL
layout(binding = 0) uniform usamplerBuffer k_at;
#define KEYS(i) texelFetch(k_at, int(i))
#else
layout(std430, binding = 0) readonly buffer K { uvec4 k_at[]; };
#define KEYS(i) k_at[i]
#endif
layout(std430, binding = 1) readonly buffer Q { float q_at[]; };
layout(std430, binding = 2) readonly buffer Turns { float turns_at[]; };
layout(std430, binding = 3) readonly buffer State { uint length; };
layout(std430, binding = 4) writeonly buffer Work { float work_at[]; };

#define LARGEST_HEAD 1024u

shared vec4 q[LARGEST_HEAD / 4u]; // rotated, padded with zeros
shared float most[64];

float query(uint from, uint position, uint d)
{
    uint pair;
    if (d >= push.head_size) return 0.0;
    float self = q_at[from + d];
    if (PAIRING == 0u || d >= push.rotary) return self;
    float other = q_at[from + partner(d, push.rotary, pair)];
    uint turn = (position * (push.rotary / 2u) + pair) * 2u;
    return turned(self, other, turns_at[turn], turns_at[turn + 1u], is_first(d, push.rotary));
}

void main()
{
    uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, token = gl_WorkGroupID.z;
    uint position = position_of(length), first = first_visible(position);
    uint from = push.q + token * push.q_stride + head * push.head_size;
    uint kv_head = head / (push.heads / push.kv_heads), quads = push.heads_v * (ELEMENTS / 4u);

    for (uint i = lane; i < quads; i += 64u)
        q[i] = vec4(query(from, position, 4u * i), query(from, position, 4u * i + 1u),
                    query(from, position, 4u * i + 2u), query(from, position, 4u * i + 3u));
    barrier();
    for (uint tile = first / 64u + gl_WorkGroupID.x; tile <= position / 64u;
         tile += gl_NumWorkGroups.x) {
        uint t = tile * 64u + lane;
        uint at = key_vector(push.tiles, push.heads_v, kv_head, t, 0u);
        precise float p[16];
        for (uint j = 0u; j < 16u; j++) p[j] = 0.0;
        for (uint i = 0u; i < quads; i += 4u) { // lane j of dot16 takes the inputs j modulo 16
            for (uint j = 0u; j < 4u; j++) {
                if (i + j >= quads) break;
                vec4 k;
                if (ELEMENTS == 4u) {
                    k = uintBitsToFloat(KEYS(at + (i + j) * 64u));
                } else {
                    uvec4 both = KEYS(at + (i + j) / 2u * 64u);
                    uvec2 w = (j & 1u) == 0u ? both.xy : both.zw;
                    k = vec4(half_to_float(w.x & 0xffffu), half_to_float(w.x >> 16),
                             half_to_float(w.y & 0xffffu), half_to_float(w.y >> 16));
                }
                vec4 with = q[i + j];
                p[4u * j] = fused(with.x, k.x, p[4u * j]);
                p[4u * j + 1u] = fused(with.y, k.y, p[4u * j + 1u]);
                p[4u * j + 2u] = fused(with.z, k.z, p[4u * j + 2u]);
                p[4u * j + 3u] = fused(with.w, k.w, p[4u * j + 3u]);
            }
        }
        for (uint j = 0u; j < 8u; j++) p[j] = p[j] + p[j + 8u];
        for (uint j = 0u; j < 4u; j++) p[j] = p[j] + p[j + 4u];
        precise float score = ((p[0] + p[2]) + (p[1] + p[3])) * push.scale;
        bool visible = t >= first && t <= position;
        if (visible) work_at[scores_word() + t] = score;
        // A NaN makes the row NaN by itself.
        float greatest = visible && !is_nan(score) ? score : uintBitsToFloat(0xff800000u);
        most[lane] = greatest;
        for (uint step = 32u; step > 0u; step /= 2u) {
            barrier();
            if (lane < step) {
                greatest = most[lane + step] > greatest ? most[lane + step] : greatest;
                most[lane] = greatest;
            }
        }
        if (lane == 0u) work_at[most_word() + tile] = greatest;
        barrier();
    }
}
