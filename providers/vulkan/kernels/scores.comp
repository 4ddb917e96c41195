#version 450
// The scores of one head of one row, 64 positions a workgroup at a time, and the greatest of each 64.
#include "fused.glsl"
#include "cache.glsl"
#ifdef TEXEL
#define LANES 8u // a barrier costs little where the workgroup is one vector of the processor
#define POSITIONS 2u
#else
#define LANES 64u
#define POSITIONS 1u
#endif
#define WIDE (ELEMENTS == 4u ? 32.0 : 262144.0)
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
shared float most[LANES];

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

// Four inputs of a key.
vec4 key(uint at, uint quad)
{
    if (ELEMENTS == 4u) return uintBitsToFloat(KEYS(at + quad * 64u));
    uvec4 both = KEYS(at + quad / 2u * 64u);
    uvec2 w = (quad & 1u) == 0u ? both.xy : both.zw;
    return vec4(half_to_float(w.x & 0xffffu), half_to_float(w.x >> 16), half_to_float(w.y & 0xffffu),
                half_to_float(w.y >> 16));
}

#define FUSED(a, b, c) fused(a, b, c)
#define SCORES exact_scores
#include "scores_chains.glsl"
#undef FUSED
#undef SCORES
#ifdef DOUBLE
#define FUSED(a, b, c) fused_soon(a, b, c, WIDE, doubt)
#define SCORES soon_scores
#include "scores_chains.glsl"
#else
#define soon_scores exact_scores
#endif

void main()
{
    uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, token = gl_WorkGroupID.z;
    uint position = position_of(length), first = first_visible(position);
    uint from = push.q + token * push.q_stride + head * push.head_size;
    uint kv_head = head / (push.heads / push.kv_heads), to = scores_word();

    for (uint i = lane; i < push.heads_v * (ELEMENTS / 4u); i += LANES)
        q[i] = vec4(query(from, position, 4u * i), query(from, position, 4u * i + 1u),
                    query(from, position, 4u * i + 2u), query(from, position, 4u * i + 3u));
    barrier();
    for (uint tile = first / 64u + gl_WorkGroupID.x; tile <= position / 64u;
         tile += gl_NumWorkGroups.x) {
        uint begin = tile * 64u, keys = key_vector(push.tiles, push.heads_v, kv_head, begin, 0u);
        float greatest = uintBitsToFloat(0xff800000u), score[POSITIONS];
        bool doubt = false;

        for (uint n = lane; n < 64u; n += LANES * POSITIONS) {
            soon_scores(keys + n, doubt, score);
            [[unroll]] for (uint i = 0u; i < POSITIONS; i++) {
                uint t = begin + n + i * LANES;
                if (t < first || t > position) continue;
                work_at[to + t] = score[i];
                // A NaN makes the row NaN by itself.
                greatest = score[i] > greatest ? score[i] : greatest;
            }
        }
#ifdef DOUBLE
        greatest = doubt ? uintBitsToFloat(0xff800000u) : greatest;
        for (uint n = doubt ? lane : 64u; n < 64u; n += LANES * POSITIONS) {
            exact_scores(keys + n, doubt, score);
            [[unroll]] for (uint i = 0u; i < POSITIONS; i++) {
                uint t = begin + n + i * LANES;
                if (t < first || t > position) continue;
                work_at[to + t] = score[i];
                greatest = score[i] > greatest ? score[i] : greatest;
            }
        }
#endif
        most[lane] = greatest;
        for (uint step = LANES / 2u; step > 0u; step /= 2u) {
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
