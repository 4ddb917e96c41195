#version 450
// Stores positions behind those a cache holds: one vector of one head of one position an invocation. The
// last workgroup to be done, when all have read the length, advances it.
#include "fused.glsl"
#include "cache.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Push
{
    uint head_size, heads_v, rotary, kv_heads, tiles, has_plain, k, k_stride, v, v_stride;
} push;
layout(std430, binding = 0) writeonly buffer K { uvec4 k_at[]; };
layout(std430, binding = 1) writeonly buffer Plain { uvec4 plain_at[]; };
layout(std430, binding = 2) writeonly buffer V { uvec4 v_at[]; };
layout(std430, binding = 3) readonly buffer InK { float new_k[]; };
layout(std430, binding = 4) readonly buffer InV { float new_v[]; };
layout(std430, binding = 5) readonly buffer Turns { float turns_at[]; };
layout(std430, binding = 6) coherent buffer State { uint length, done; };

void store_key(uint head, uint w, uint token, uint position)
{
    uint key = key_vector(push.tiles, push.heads_v, head, position, w);
    uint from = push.k + token * push.k_stride + head * push.head_size;
    float plain[8], value[8];

    for (uint i = 0u; i < 8u; i++) plain[i] = value[i] = 0.0;
    for (uint i = 0u; i < ELEMENTS; i++) {
        uint d = ELEMENTS * w + i, pair;
        if (d >= push.head_size) break;
        plain[i] = value[i] = rounded(new_k[from + d]);
        if (PAIRING == 0u || d >= push.rotary) continue;
        float other = rounded(new_k[from + partner(d, push.rotary, pair)]);
        uint turn = (position * (push.rotary / 2u) + pair) * 2u;
        value[i] = turned(plain[i], other, turns_at[turn], turns_at[turn + 1u],
                          is_first(d, push.rotary));
    }
    k_at[key] = vector_of(value);
    if (push.has_plain != 0u) plain_at[key] = vector_of(plain);
}

void store_value(uint head, uint w, uint token, uint position)
{
    uint from = push.v + token * push.v_stride + head * push.head_size;
    float value[8];

    for (uint i = 0u; i < 8u; i++) value[i] = 0.0;
    for (uint i = 0u; i < ELEMENTS; i++) {
        uint d = ELEMENTS * w + i;
        value[i] = d < push.head_size ? new_v[from + d] : 0.0;
    }
    v_at[value_vector(push.tiles, push.heads_v, head, position, w)] = vector_of(value);
}

void main()
{
    uint head = gl_GlobalInvocationID.x / push.heads_v, w = gl_GlobalInvocationID.x % push.heads_v;
    uint token = gl_WorkGroupID.y, position = length + token;

    if (head < push.kv_heads && position < push.tiles * 64u) {
        store_key(head, w, token, position);
        store_value(head, w, token, position);
    }
    memoryBarrierBuffer();
    barrier(); // all of this workgroup have read the length
    if (gl_LocalInvocationID.x != 0u) return;
    if (atomicAdd(done, 1u) + 1u < gl_NumWorkGroups.x * gl_NumWorkGroups.y) return;
    memoryBarrierBuffer();
    done = 0u;
    length = length + gl_NumWorkGroups.y;
}
