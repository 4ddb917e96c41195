#version 450
// The matrix products of int4-group whose groups are no multiple of 32, input by input (A8 defined:
// class A8; else F32). Blocks lie anywhere, so a block has pieces in several records of x, and a
// segment is as many whole blocks as fit 256 inputs, or 256 inputs of a longer one.
#ifndef A8
#include "fused.glsl"
#endif
#include "product.glsl"

// Scale of the block of input i.
float group_scale(uint tile, uint lane, uint i)
{
    uint b = i / push.group;
    return uintBitsToFloat(word_of(SCALES((tile * push.scales + b / 4u) * 64u + lane), b & 3u));
}

// Code of input i in the vector of its unit.
int code_of(uvec4 unit, uint i)
{
    uint word = word_of(unit, i >> 3 & 3u);
    return int(word >> (8u * (i & 3u) + (i & 4u)) & 15u) - int(push.zero);
}

#ifdef A8

// T of the inputs [i, end), all of one block.
float block_sum(uint codes, uint record, uint i, uint end)
{
    precise float t = 0.0;
    while (i < end) {
        uint unit = i / 32u, piece_end = min(end, unit * 32u + 32u), x = record + unit * 7u;
        uvec4 c = CODES(codes + unit * 64u);
        int sum = 0;
        for (; i < piece_end; i++)
            sum += code_of(c, i) * signed_byte(word_of(WORK(x + (i >> 4 & 1u)), i >> 2 & 3u), i);
        t = t + uintBitsToFloat(WORK(x + 2u).x) * float(sum);
    }
    return t;
}

#else

float block_sum(uint codes, uint record, uint i, uint end)
{
    precise float t = 0.0;
    for (; i < end; i++) {
        uint unit = i / 32u;
        uint x = word_of(WORK(record + unit * 9u + (i >> 2 & 7u)), i & 3u);
        t = fused(float(code_of(CODES(codes + unit * 64u), i)), uintBitsToFloat(x), t);
    }
    return t;
}

#endif

void main()
{
    uint tile = choose_weight(), token = gl_WorkGroupID.y;
    uint record = push.work + token * push.work_stride;
    if (gl_LocalInvocationID.y != 0u) return;
    for (uint r = 0u; r < ROWS; r++) {
        uint lane = lane_of(r), row = tile * 64u + lane, first = 0u;
        uint codes = tile * push.units * 64u + lane;
        precise float y = 0.0;
        if (row >= rows) continue;
        while (first < push.cols) {
            uint length = push.group <= 256u ? 256u / push.group * push.group
                                             : min(256u, push.group - first % push.group);
            uint end = first + min(length, push.cols - first), i = first;
            precise float a = 0.0;
            while (i < end) {
                uint block_end = min(end, i + min(push.group, 256u));
                precise float t = block_sum(codes, record, i, block_end);
#ifdef A8
                a = a + group_scale(tile, lane, i) * t;
#else
                a = fused(group_scale(tile, lane, i), t, a);
#endif
                i = block_end;
            }
            y = y + a;
            first = end;
        }
        y_at[y_from + token * y_stride + row] = y;
    }
}
