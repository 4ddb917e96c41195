#version 450
// Stores positions behind those a cache holds: one vector of one head of one position an invocation.
#include "fused.glsl"
#include "cache.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Push
{
    uint head_size, heads_v, rotary, kv_heads, tiles, what, has_plain, k, k_stride, v, v_stride;
} push;
layout(std430, binding = 0) writeonly buffer K { uvec4 k_at[]; };
layout(std430, binding = 1) writeonly buffer Plain { uvec4 plain_at[]; };
layout(std430, binding = 2) writeonly buffer V { uvec4 v_at[]; };
layout(std430, binding = 3) readonly buffer X { float x_at[]; };
layout(std430, binding = 4) readonly buffer Turns { float turns_at[]; };
layout(std430, binding = 5) readonly buffer State { uint length; };

void main()
{
    uint head = gl_GlobalInvocationID.x / push.heads_v, w = gl_GlobalInvocationID.x % push.heads_v;
    uint token = gl_WorkGroupID.y, position = length + token;
    if (head >= push.kv_heads || position >= push.tiles * 64u) return;
    uint key = key_vector(push.tiles, push.heads_v, head, position, w);
    float plain[8], value[8];

    for (uint i = 0u; i < 8u; i++) plain[i] = value[i] = 0.0;
    if ((push.what & 1u) != 0u) {
        uint from = push.k + token * push.k_stride + head * push.head_size;
        for (uint i = 0u; i < ELEMENTS; i++) {
            uint d = ELEMENTS * w + i, pair;
            if (d >= push.head_size) break;
            plain[i] = value[i] = rounded(x_at[from + d]);
            if (PAIRING == 0u || d >= push.rotary) continue;
            float other = rounded(x_at[from + partner(d, push.rotary, pair)]);
            uint turn = (position * (push.rotary / 2u) + pair) * 2u;
            value[i] = turned(plain[i], other, turns_at[turn], turns_at[turn + 1u],
                              is_first(d, push.rotary));
        }
        k_at[key] = vector_of(value);
        if (push.has_plain != 0u) plain_at[key] = vector_of(plain);
    }
    if ((push.what & 2u) != 0u) {
        uint from = push.v + token * push.v_stride + head * push.head_size;
        for (uint i = 0u; i < ELEMENTS; i++) {
            uint d = ELEMENTS * w + i;
            value[i] = d < push.head_size ? x_at[from + d] : 0.0;
        }
        v_at[value_vector(push.tiles, push.heads_v, head, position, w)] = vector_of(value);
    }
}
