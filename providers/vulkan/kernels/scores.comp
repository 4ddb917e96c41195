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

// Inputs 4 * quad to 4 * quad + 15 of a key, quad a multiple of 4.
void sixteen(uint at, uint quad, out vec4 k[4])
{
    if (ELEMENTS == 4u) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) k[j] = uintBitsToFloat(KEYS(at + (quad + j) * 64u));
        return;
    }
    [[unroll]] for (uint j = 0u; j < 2u; j++) {
        uvec4 w = KEYS(at + (quad / 2u + j) * 64u);
        k[2u * j] = vec4(half_to_float(w.x & 0xffffu), half_to_float(w.x >> 16),
                         half_to_float(w.y & 0xffffu), half_to_float(w.y >> 16));
        k[2u * j + 1u] = vec4(half_to_float(w.z & 0xffffu), half_to_float(w.z >> 16),
                              half_to_float(w.w & 0xffffu), half_to_float(w.w >> 16));
    }
}

#ifdef DOUBLE
#define FUSED(a, b, c) fused_soon(a, b, c, WIDE, doubt)
#else
#define FUSED(a, b, c) fused(a, b, c)
#endif

// dot16 of q and POSITIONS keys, one chain after the other. Heads are padded with zeros to a multiple of
// sixteen inputs, which change nothing.
void scores(uint at, inout bool doubt, out float score[POSITIONS])
{
    precise float p[POSITIONS * 16u];
    vec4 k[4];

    [[unroll]] for (uint n = 0u; n < POSITIONS; n++) {
        sixteen(at + n * LANES, 0u, k);
        [[unroll]] for (uint j = 0u; j < 4u; j++) { // fused with 0: never a -0
            precise vec4 product = q[j] * k[j] + 0.0;
            [[unroll]] for (uint c = 0u; c < 4u; c++) p[16u * n + 4u * j + c] = product[c];
        }
    }
    for (uint i = 4u; i < push.heads_v * (ELEMENTS / 4u); i += 4u) {
        vec4 with[4];
        [[unroll]] for (uint j = 0u; j < 4u; j++) with[j] = q[i + j];
        [[unroll]] for (uint n = 0u; n < POSITIONS; n++) {
            sixteen(at + n * LANES, i, k);
            [[unroll]] for (uint j = 0u; j < 4u; j++) { // lane j of dot16 takes the inputs j modulo 16
                [[unroll]] for (uint c = 0u; c < 4u; c++) {
                    uint to = 16u * n + 4u * j + c;
                    p[to] = FUSED(with[j][c], k[j][c], p[to]);
                }
            }
        }
    }
    [[unroll]] for (uint n = 0u; n < POSITIONS; n++) {
        precise float r[8];
        [[unroll]] for (uint j = 0u; j < 8u; j++) r[j] = p[16u * n + j] + p[16u * n + j + 8u];
        [[unroll]] for (uint j = 0u; j < 4u; j++) r[j] = r[j] + r[j + 4u];
        precise float sum = ((r[0] + r[2]) + (r[1] + r[3])) * push.scale;
        score[n] = sum;
    }
}

#ifdef DOUBLE
// The same for one key and exactly. Short rather than fast, for devices that run through it in any case.
float exact_score(uint at)
{
    precise float p[16];

    for (uint j = 0u; j < 16u; j++) {
        precise float chain = 0.0;
        for (uint d = j; d < push.heads_v * ELEMENTS; d += 16u)
            chain = fused(q[d / 4u][d & 3u],
                          element_of(KEYS(at + d / ELEMENTS * 64u), d & (ELEMENTS - 1u)), chain);
        p[j] = chain;
    }
    for (uint j = 0u; j < 8u; j++) p[j] = p[j] + p[j + 8u];
    for (uint j = 0u; j < 4u; j++) p[j] = p[j] + p[j + 4u];
    precise float sum = ((p[0] + p[2]) + (p[1] + p[3])) * push.scale;
    return sum;
}
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
        uint end = min(position + 1u - begin, 64u);
        uint start = first > begin ? (first - begin) / (LANES * POSITIONS) * (LANES * POSITIONS) : 0u;
        float greatest = uintBitsToFloat(0xff800000u), score[POSITIONS];
        bool doubt = false;

        for (uint n = start + lane; n < end; n += LANES * POSITIONS) {
            scores(keys + n, doubt, score);
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
        for (uint n = doubt ? start + lane : end; n < end; n += LANES) {
            float exact = exact_score(keys + n);
            if (begin + n < first) continue;
            work_at[to + begin + n] = exact;
            greatest = exact > greatest ? exact : greatest;
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
