// dot16 of q and POSITIONS keys, one chain of FUSED(a, b, c) after the other: included once for each
// way to fuse, as a function SCORES(at, doubt). Heads are padded with zeros to a multiple of sixteen
// inputs, which change nothing.
void SCORES(uint at, inout bool doubt, out float score[POSITIONS])
{
    precise float p[POSITIONS * 16u];
    [[unroll]] for (uint n = 0u; n < POSITIONS * 16u; n++) p[n] = 0.0;
    for (uint i = 0u; i < push.heads_v * (ELEMENTS / 4u); i += 4u) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) { // lane j of dot16 takes the inputs j modulo 16
            vec4 with = q[i + j];
            [[unroll]] for (uint n = 0u; n < POSITIONS; n++) {
                vec4 k = key(at + n * LANES, i + j);
                uint to = 16u * n + 4u * j;
                p[to] = FUSED(with.x, k.x, p[to]);
                p[to + 1u] = FUSED(with.y, k.y, p[to + 1u]);
                p[to + 2u] = FUSED(with.z, k.z, p[to + 2u]);
                p[to + 3u] = FUSED(with.w, k.w, p[to + 3u]);
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
