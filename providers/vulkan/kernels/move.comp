#version 450
// Copies positions of a cache, keys rotated for where they come to: one vector an invocation.
#include "fused.glsl"
#include "cache.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Push
{
    uint head_size, heads_v, rotary, kv_heads, tiles, target_tiles, shape, from, to, count, rotate;
} push;
layout(std430, binding = 0) readonly buffer Source { uvec4 source_at[]; };
layout(std430, binding = 1) writeonly buffer Target { uvec4 target_at[]; };
layout(std430, binding = 2) readonly buffer Turns { float turns_at[]; };

void main()
{
    uint i = gl_GlobalInvocationID.x, w = gl_WorkGroupID.y, head = gl_WorkGroupID.z;
    if (i >= push.count) return;
    if (push.shape != 0u) {
        target_at[value_vector(push.target_tiles, push.heads_v, head, push.to + i, w)] =
            source_at[value_vector(push.tiles, push.heads_v, head, push.from + i, w)];
        return;
    }
    uint source = key_vector(push.tiles, push.heads_v, head, push.from + i, 0u);
    uint target = key_vector(push.target_tiles, push.heads_v, head, push.to + i, w);
    uvec4 self = source_at[source + 64u * w];
    if (push.rotate == 0u || PAIRING == 0u || ELEMENTS * w >= push.rotary) {
        target_at[target] = self;
        return;
    }
    float value[8];
    for (uint n = 0u; n < 8u; n++) {
        uint d = ELEMENTS * w + n, pair;
        value[n] = 0.0;
        if (n >= ELEMENTS) continue;
        value[n] = element_of(self, n);
        if (d >= push.rotary) continue;
        uint other = partner(d, push.rotary, pair);
        uint turn = ((push.to + i) * (push.rotary / 2u) + pair) * 2u;
        value[n] = turned(value[n], element_of(source_at[source + 64u * (other / ELEMENTS)],
                                               other % ELEMENTS),
                          turns_at[turn], turns_at[turn + 1u], is_first(d, push.rotary));
    }
    target_at[target] = vector_of(value);
}
