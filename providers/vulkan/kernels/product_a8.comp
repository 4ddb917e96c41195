#version 450
// The matrix product of class A8 (SPEC.md 2.3) over records of round.comp. TOKENS tokens an invocation.
//
// Nibbles are multiplied two at a time: a word with one nibble in each half, a + b * 2^16, times
// u_b + u_a * 2^16 has a * u_a + b * u_b in its high half. Over 16 inputs neither half overflows
// (30,480), so eight such products are added up before the high half is taken.
#include "product.glsl"

int high_half(uint sum)
{
    return int(sum + 0x8000u) >> 16;
}

uint pairs(uint word, uvec4 p)
{
    return (word & 0x000f000fu) * p.x + (word >> 4 & 0x000f000fu) * p.y +
           (word >> 8 & 0x000f000fu) * p.z + (word >> 12 & 0x000f000fu) * p.w;
}

int bytes_dot(uint word, uint u)
{
    return signed_byte(word, 0u) * signed_byte(u, 0u) + signed_byte(word, 1u) * signed_byte(u, 1u) +
           signed_byte(word, 2u) * signed_byte(u, 2u) + signed_byte(word, 3u) * signed_byte(u, 3u);
}

int bytes_dot4(uvec4 c, uvec4 u)
{
    return bytes_dot(c.x, u.x) + bytes_dot(c.y, u.y) + bytes_dot(c.z, u.z) + bytes_dot(c.w, u.w);
}

// Four table values as bytes: nibbles 0, 2, 4, 6 of a word.
uint table_bytes(uint word)
{
    return uint(table_at(word & 15u) & 255) | uint(table_at(word >> 8 & 15u) & 255) << 8 |
           uint(table_at(word >> 16 & 15u) & 255) << 16 | uint(table_at(word >> 24 & 15u) & 255) << 24;
}

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
        precise float m[ROWS * TOKENS];

        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            load_scales(tile, min(segment, segments - 1u), lane_of(r), s0[r], s1[r]);
        [[unroll]] for (uint n = 0u; n < ROWS * TOKENS; n++) a[n] = t[n] = m[n] = 0.0;
        uint k = 0u;
        if (SLICES == 1u || count > 0u) do {
            uint at = ((tile * push.units + first + k) * vectors) * 64u;
            bool ends = block_ends(k, count);
            uvec4 c0[ROWS], c1[ROWS];
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                c0[r] = CODES(at + lane_of(r));
                if (STORAGE == BYTE) c1[r] = CODES(at + 64u + lane_of(r));
                if (STORAGE == TABLE) {
                    uvec4 c = c0[r];
                    c0[r] = uvec4(table_bytes(c.x), table_bytes(c.x >> 4), table_bytes(c.y),
                                  table_bytes(c.y >> 4));
                    c1[r] = uvec4(table_bytes(c.z), table_bytes(c.z >> 4), table_bytes(c.w),
                                  table_bytes(c.w >> 4));
                }
            }
            [[unroll]] for (uint s = 0u; s < TOKENS; s++) {
                uint x = push.work + min(token0 + s, push.tokens - 1u) * push.work_stride +
                         (first + k) * 7u;
                uvec4 known = WORK(x + 2u), p0, p1, p2, p3;
                float d = uintBitsToFloat(known.x);
                int low_sum = int(known.y << 16) >> 16, high_sum = int(known.y) >> 16;
                if (STORAGE == NIBBLE) {
                    p0 = WORK(x + 3u);
                    p1 = WORK(x + 4u);
                    p2 = WORK(x + 5u);
                    p3 = WORK(x + 6u);
                } else {
                    p0 = WORK(x);
                    p1 = WORK(x + 1u);
                }
                [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                    uint n = r * TOKENS + s;
                    int low, high;
                    if (STORAGE == NIBBLE) {
                        low = high_half(pairs(c0[r].x, p0) + pairs(c0[r].y, p1)) -
                              int(push.zero) * low_sum;
                        high = high_half(pairs(c0[r].z, p2) + pairs(c0[r].w, p3)) -
                               int(push.zero) * high_sum;
                    } else {
                        low = bytes_dot4(c0[r], p0);
                        high = bytes_dot4(c1[r], p1);
                    }
                    if (KIND == HALF16) {
                        precise float t0 = d * float(low), t1 = d * float(high);
                        a[n] = a[n] + scale_at(s0[r], s1[r], segment, k, 0u) * t0;
                        a[n] = a[n] + scale_at(s0[r], s1[r], segment, k, 1u) * t1;
                        continue;
                    }
                    if (KIND == SUB32) {
                        t[n] = t[n] + d * float(sub_scale(s1[r], k, 0u) * (low + high));
                        if (MINIMA != 0u)
                            m[n] = m[n] + d * float(sub_minimum(s0[r], s1[r], k, 0u) *
                                                    (low_sum + high_sum));
                    } else if (KIND == SUB16) {
                        t[n] = t[n] + d * float(sub_scale(s1[r], k, 0u) * low +
                                                sub_scale(s1[r], k, 1u) * high);
                        if (MINIMA != 0u)
                            m[n] = m[n] + d * float(sub_minimum(s0[r], s1[r], k, 0u) * low_sum +
                                                    sub_minimum(s0[r], s1[r], k, 1u) * high_sum);
                    } else {
                        t[n] = t[n] + d * float(low + high);
                        if (MINIMA != 0u) m[n] = m[n] + d * float(low_sum + high_sum);
                    }
                    if (!ends) continue;
                    a[n] = a[n] + scale_at(s0[r], s1[r], segment, k, 0u) * t[n];
                    if (MINIMA != 0u) a[n] = a[n] - minimum_at(s0[r], s1[r], k) * m[n];
                    t[n] = m[n] = 0.0;
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
