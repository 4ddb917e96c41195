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

void main()
{
    uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, token = gl_WorkGroupID.z;
    uint position = position_of(length), first = first_visible(position);
    uint from = push.q + token * push.q_stride + head * push.head_size;
    uint kv_head = head / (push.heads / push.kv_heads), quads = push.heads_v * (ELEMENTS / 4u);

    for (uint i = lane; i < quads; i += LANES)
        q[i] = vec4(query(from, position, 4u * i), query(from, position, 4u * i + 1u),
                    query(from, position, 4u * i + 2u), query(from, position, 4u * i + 3u));
    barrier();
    for (uint tile = first / 64u + gl_WorkGroupID.x; tile <= position / 64u;
         tile += gl_NumWorkGroups.x) {
      float greatest = uintBitsToFloat(0xff800000u);
      for (uint part = 0u; part < 64u; part += LANES * POSITIONS) {
        uint at = key_vector(push.tiles, push.heads_v, kv_head, tile * 64u + part + lane, 0u);
        precise float p[POSITIONS * 16u];
#ifdef DOUBLE
        bool doubt[POSITIONS];
        [[unroll]] for (uint n = 0u; n < POSITIONS; n++) doubt[n] = false;
#endif
        [[unroll]] for (uint n = 0u; n < POSITIONS * 16u; n++) p[n] = 0.0;
        for (uint i = 0u; i < quads; i += 4u) { // lane j of dot16 takes the inputs j modulo 16
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                // Past the last input there are zeros, which change nothing.
                vec4 with = i + j < quads ? q[i + j] : vec4(0.0);
                [[unroll]] for (uint n = 0u; n < POSITIONS; n++) {
                    vec4 k = i + j < quads ? key(at + n * LANES, i + j) : vec4(0.0);
                    uint to = 16u * n + 4u * j;
#ifdef DOUBLE
                    p[to] = fused_soon(with.x, k.x, p[to], WIDE, doubt[n]);
                    p[to + 1u] = fused_soon(with.y, k.y, p[to + 1u], WIDE, doubt[n]);
                    p[to + 2u] = fused_soon(with.z, k.z, p[to + 2u], WIDE, doubt[n]);
                    p[to + 3u] = fused_soon(with.w, k.w, p[to + 3u], WIDE, doubt[n]);
#else
                    p[to] = fused(with.x, k.x, p[to]);
                    p[to + 1u] = fused(with.y, k.y, p[to + 1u]);
                    p[to + 2u] = fused(with.z, k.z, p[to + 2u]);
                    p[to + 3u] = fused(with.w, k.w, p[to + 3u]);
#endif
                }
            }
        }
#ifdef DOUBLE
        // Exactly, where there is doubt: chain by chain, so that lanes without it pass by quickly.
        [[unroll]] for (uint n = 0u; n < POSITIONS; n++) {
            precise float t = 0.0;
            uint steps = (quads + 3u) / 4u, chain = 0u, step = 0u;
            for (uint count = doubt[n] ? 16u * steps : 0u; count > 0u; count--) {
                uint quad = 4u * step + chain / 4u;
                if (quad < quads)
                    t = fused(q[quad][chain & 3u], key(at + n * LANES, quad)[chain & 3u], t);
                step++;
                if (step < steps) continue;
                [[unroll]] for (uint j = 0u; j < 16u; j++)
                    p[16u * n + j] = j == chain ? t : p[16u * n + j];
                t = 0.0;
                step = 0u;
                chain++;
            }
        }
#endif
        [[unroll]] for (uint n = 0u; n < POSITIONS; n++) {
            uint t = tile * 64u + part + n * LANES + lane;
            precise float r[8];
            [[unroll]] for (uint j = 0u; j < 8u; j++) r[j] = p[16u * n + j] + p[16u * n + j + 8u];
            [[unroll]] for (uint j = 0u; j < 4u; j++) r[j] = r[j] + r[j + 4u];
            precise float score = ((r[0] + r[2]) + (r[1] + r[3])) * push.scale;
            bool visible = t >= first && t <= position;
            if (visible) work_at[scores_word() + t] = score;
            // A NaN makes the row NaN by itself.
            if (visible && !is_nan(score) && score > greatest) greatest = score;
        }
      }
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
