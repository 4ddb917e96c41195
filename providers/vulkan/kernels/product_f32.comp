#version 450
// The matrix product of class F32 (SPEC.md 2.2) over records of stage.comp. TOKENS tokens an
// invocation.
#include "fused.glsl"
#include "product.glsl"
#include "codes.glsl"

void main()
{
    uint tile = choose_weight(), token0 = gl_WorkGroupID.y * TOKENS;
    uint vectors = vectors_of_unit(), segments = (push.units + 7u) / 8u;
    uint rounds = (segments + SLICES - 1u) / SLICES;
    precise float y[ROWS * TOKENS];

    if (tile * 64u >= rows) return;
    [[unroll]] for (uint n = 0u; n < ROWS * TOKENS; n++) y[n] = 0.0;
    uint round = 0u;
    do {
        uint segment = round * SLICES + gl_LocalInvocationID.y;
        uint first = segment * 8u, count = segment < segments ? min(8u, push.units - first) : 0u;
        uvec4 s0[ROWS], s1[ROWS];
        precise float a[ROWS * TOKENS];
        precise float t[ROWS * TOKENS];

        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            s0[r] = load_first(tile * push.scales, min(segment, segments - 1u), lane_of(r));
            s1[r] = load_second(tile * push.scales, min(segment, segments - 1u), lane_of(r));
        }
        [[unroll]] for (uint n = 0u; n < ROWS * TOKENS; n++) a[n] = t[n] = 0.0;
        uint k = 0u;
        if (SLICES == 1u || count > 0u) do {
            uint at = ((tile * push.units + first + k) * vectors) * 64u;
            bool ends = kind_is(SUB32) || block_ends(k, count);
            for (uint quad = 0u; quad < 8u; quad++) {
                vec4 q[ROWS];
                bool block_end = quad == 7u ? ends || halves() : quad == 3u && halves();
                [[unroll]] for (uint r = 0u; r < ROWS; r++) q[r] = codes(at, lane_of(r), quad);
                [[unroll]] for (uint s = 0u; s < TOKENS; s++) {
                    uint record = push.work +
                                  min(token0 + s, push.tokens - 1u) * push.work_stride +
                                  (first + k) * 9u;
                    vec4 x = uintBitsToFloat(WORK(record + quad));
                    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                        uint n = r * TOKENS + s;
                        t[n] = fused(q[r].x, x.x, t[n]);
                        t[n] = fused(q[r].y, x.y, t[n]);
                        t[n] = fused(q[r].z, x.z, t[n]);
                        t[n] = fused(q[r].w, x.w, t[n]);
                    }
                    if (!block_end) continue;
                    vec4 sums = uintBitsToFloat(WORK(record + 8u));
                    uint half_unit = quad >> 2;
                    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                        uint n = r * TOKENS + s;
                        if (kind_is(NONE)) { // one block a segment, no scale step
                            a[n] = t[n];
                            continue;
                        }
                        a[n] = fused(scale_f32(s0[r], s1[r], segment, k, half_unit), t[n], a[n]);
                        if (has_minima())
                            a[n] = fused(-minimum_f32(s0[r], s1[r], k, half_unit),
                                         halves() ? (quad == 3u ? sums.y : sums.z) : sums.x, a[n]);
                        t[n] = 0.0;
                    }
                }
            }
        } while (++k < count);
        [[unroll]] for (uint n = 0u; n < ROWS * TOKENS; n++) y[n] = add_slices(y[n], a[n]);
    } while (++round < rounds);
    if (gl_LocalInvocationID.y != 0u) return;
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        uint row = tile * 64u + lane_of(r);
        [[unroll]] for (uint s = 0u; s < TOKENS; s++)
            if (row < rows && token0 + s < push.tokens)
                y_at[y_from + (token0 + s) * y_stride + row] = y[r * TOKENS + s];
    }
}
