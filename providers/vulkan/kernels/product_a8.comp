#version 450
// The matrix product of class A8 (SPEC.md 2.3) over records of round.comp. TOKENS tokens an invocation.
//
// Nibbles are multiplied two at a time: a word with one nibble in each half, a + b * 2^16, times
// u_b + u_a * 2^16 has a * u_a + b * u_b in its high half. Over 32 inputs the low half does not overflow
// (16 products of 15 * 127), and the high half, of which 16 bits are kept, does not once 8 is taken
// from every nibble (32 products of 8 * 127).
//
// Bytes b0 to b3 of a word are not taken apart: w * u0 + (w >> 8) * (u1 - 256 * u0) is
// b0 * u0 + (w >> 8) * u1, modulo 2^32, and so on for (w >> 8). What stands behind u0 is made once for all
// rows. The bytes are made unsigned first, by adding 128 to each.
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

// What bytes_dot wants for the u of a word.
uvec4 steps(uint u)
{
    int u0 = signed_byte(u, 0u), u1 = signed_byte(u, 1u), u2 = signed_byte(u, 2u);
    return uvec4(u0, u1 - 256 * u0, u2 - 256 * u1, signed_byte(u, 3u) - 256 * u2);
}

// The sum of (c + 128) * u over a word of signed bytes c.
uint bytes_dot(uint word, uvec4 v)
{
    uint w = word ^ 0x80808080u;
    return w * v.x + (w >> 8) * v.y + (w >> 16) * v.z + (w >> 24) * v.w;
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
    uint units = push.units, vectors = vectors_of_unit(), segments = (units + 7u) / 8u;
    uint rounds = (segments + SLICES - 1u) / SLICES;
    precise float y[ROWS * TOKENS];

    if (tile * 64u >= rows) return;
    // A software device reads a pushed word as slowly as any other: once, out of the loops.
    uint scales = tile * push.scales, x_from[TOKENS];
    int zero = int(push.zero);
    [[unroll]] for (uint s = 0u; s < TOKENS; s++)
        x_from[s] = push.work + min(token0 + s, push.tokens - 1u) * push.work_stride;
    [[unroll]] for (uint n = 0u; n < ROWS * TOKENS; n++) y[n] = 0.0;
    uint round = 0u;
    do {
        uint segment = round * SLICES + gl_LocalInvocationID.y;
        uint first = segment * 8u, count = segment < segments ? min(8u, units - first) : 0u;
        uvec4 s0[ROWS], s1[ROWS];
        precise float a[ROWS * TOKENS];
        precise float t[ROWS * TOKENS];
        precise float m[ROWS * TOKENS];

        // One vector of all rows after the other, so that memory is read in ascending order.
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            s0[r] = load_first(scales, min(segment, segments - 1u), lane_of(r));
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            s1[r] = load_second(scales, min(segment, segments - 1u), lane_of(r));
        [[unroll]] for (uint n = 0u; n < ROWS * TOKENS; n++) a[n] = t[n] = m[n] = 0.0;
        uint k = 0u;
        if (SLICES == 1u || count > 0u) do {
            uint at = ((tile * units + first + k) * vectors) * 64u;
            bool ends = block_ends(k, count);
            uvec4 c0[ROWS], c1[ROWS];
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                c0[r] = CODES(at + lane_of(r));
                if (STORAGE == TABLE) {
                    uvec4 c = c0[r];
                    c0[r] = uvec4(table_bytes(c.x), table_bytes(c.x >> 4), table_bytes(c.y),
                                  table_bytes(c.y >> 4));
                    c1[r] = uvec4(table_bytes(c.z), table_bytes(c.z >> 4), table_bytes(c.w),
                                  table_bytes(c.w >> 4));
                }
            }
            if (STORAGE == BYTE)
                [[unroll]] for (uint r = 0u; r < ROWS; r++) c1[r] = CODES(at + 64u + lane_of(r));
            [[unroll]] for (uint s = 0u; s < TOKENS; s++) {
                uint x = x_from[s] + (first + k) * 7u;
                uvec4 known = WORK(x + 2u), p[4], v[8];
                float d = uintBitsToFloat(known.x);
                int low_sum = int(known.y << 16) >> 16, high_sum = int(known.y) >> 16;
                int all_sum = low_sum + high_sum;
                if (STORAGE == NIBBLE) {
                    [[unroll]] for (uint j = 0u; j < 4u; j++) p[j] = WORK(x + 3u + j);
                } else {
                    uvec4 u0 = WORK(x), u1 = WORK(x + 1u);
                    v[0] = steps(u0.x);
                    v[1] = steps(u0.y);
                    v[2] = steps(u0.z);
                    v[3] = steps(u0.w);
                    v[4] = steps(u1.x);
                    v[5] = steps(u1.y);
                    v[6] = steps(u1.z);
                    v[7] = steps(u1.w);
                }
                [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                    uint n = r * TOKENS + s, sum0, sum1;
                    int low, high, all; // low and high only of blocks of 16
                    if (STORAGE == NIBBLE) {
                        sum0 = pairs(c0[r].x, p[0]) + pairs(c0[r].y, p[1]);
                        sum1 = pairs(c0[r].z, p[2]) + pairs(c0[r].w, p[3]);
                        low = high_half(sum0) - zero * low_sum;
                        high = high_half(sum1) - zero * high_sum;
                        all = high_half(sum0 + sum1 - uint(all_sum << 19)) + (8 - zero) * all_sum;
                    } else {
                        sum0 = bytes_dot(c0[r].x, v[0]) + bytes_dot(c0[r].y, v[1]) +
                               bytes_dot(c0[r].z, v[2]) + bytes_dot(c0[r].w, v[3]);
                        sum1 = bytes_dot(c1[r].x, v[4]) + bytes_dot(c1[r].y, v[5]) +
                               bytes_dot(c1[r].z, v[6]) + bytes_dot(c1[r].w, v[7]);
                        low = int(sum0) - 128 * low_sum;
                        high = int(sum1) - 128 * high_sum;
                        all = int(sum0 + sum1) - 128 * all_sum;
                    }
                    if (KIND == HALF16) {
                        precise float t0 = d * float(low), t1 = d * float(high);
                        a[n] = a[n] + scale_at(s0[r], s1[r], segment, k, 0u) * t0;
                        a[n] = a[n] + scale_at(s0[r], s1[r], segment, k, 1u) * t1;
                        continue;
                    }
                    if (KIND == SUB32) {
                        t[n] = t[n] + d * float(sub_scale(s1[r], k, 0u) * all);
                        if (MINIMA != 0u)
                            m[n] = m[n] + d * float(sub_minimum(s0[r], s1[r], k, 0u) * all_sum);
                    } else if (KIND == SUB16) {
                        t[n] = t[n] + d * float(sub_scale(s1[r], k, 0u) * low +
                                                sub_scale(s1[r], k, 1u) * high);
                        if (MINIMA != 0u)
                            m[n] = m[n] + d * float(sub_minimum(s0[r], s1[r], k, 0u) * low_sum +
                                                    sub_minimum(s0[r], s1[r], k, 1u) * high_sum);
                    } else {
                        precise float piece = d * float(all), ones = d * float(all_sum);
                        t[n] = block_is(1u) ? piece : t[n] + piece;
                        if (MINIMA != 0u) m[n] = block_is(1u) ? ones : m[n] + ones;
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
