// How packed weights are read (kernels.h). Included after the push constants, of which it needs
// scales, zero and table0 to table3, and after CODES(i) and SCALES(i), which read a vector.

layout(constant_id = 1) const uint STORAGE = 0u;
layout(constant_id = 2) const uint KIND = 0u;
layout(constant_id = 3) const uint MINIMA = 0u;
layout(constant_id = 4) const uint BLOCK = 0u;

#define NIBBLE 0u
#define TABLE 1u
#define BYTE 2u
#define FP8 3u
#define F16 4u
#define BF16 5u
#define F32 6u

#define HALF 0u
#define HALF16 1u
#define FLOAT 2u
#define SUB32 3u
#define SUB16 4u
#define NONE 5u

// As functions: glslang 11 orders && of two specialization constants wrongly.
bool kind_is(uint kind)
{
    return KIND == kind;
}

bool block_is(uint block)
{
    return BLOCK == block;
}

bool has_minima()
{
    return MINIMA != 0u;
}

// Vectors of codes of one unit of a row.
uint vectors_of_unit()
{
    return STORAGE <= TABLE ? 1u : STORAGE <= FP8 ? 2u : STORAGE <= BF16 ? 4u : 8u;
}

// The first vector of scales that a segment needs. FLOAT: BLOCK is a constant, the rest folds.
uint scale_vector(uint segment)
{
    if (KIND == FLOAT)
        return BLOCK == 0u ? 0u : BLOCK == 1u ? 2u * segment : segment * (8u / max(BLOCK, 1u)) / 4u;
    if (kind_is(HALF) && !has_minima()) return segment;
    return 2u * segment;
}

// A segment has one or two vectors of scales.
bool has_second()
{
    return kind_is(HALF16) || kind_is(SUB32) || kind_is(SUB16) || (kind_is(HALF) && has_minima()) ||
           (kind_is(FLOAT) && block_is(1u));
}

// Those of a segment; from: the first vector of scales of the tile. The second is 0 where there is none.
uvec4 load_first(uint from, uint segment, uint lane)
{
    if (kind_is(NONE)) return uvec4(0u);
    return SCALES((from + scale_vector(segment)) * 64u + lane);
}

uvec4 load_second(uint from, uint segment, uint lane)
{
    if (!has_second()) return uvec4(0u);
    return SCALES((from + scale_vector(segment) + 1u) * 64u + lane);
}

// Half number i of a vector.
float half_at(uvec4 v, uint i)
{
    return half_to_float(word_of(v, i >> 1) >> (16u * (i & 1u)) & 0xffffu);
}

// s_b of the block that unit k (0 to 7) of a segment lies in; for HALF16 of the block of its half.
float scale_at(uvec4 s0, uvec4 s1, uint segment, uint k, uint half_unit)
{
    if (KIND == HALF) return half_at(s0, k);
    if (KIND == HALF16) return half_at(k < 4u ? s0 : s1, 2u * (k & 3u) + half_unit);
    if (KIND == FLOAT) {
        if (BLOCK == 0u) return uintBitsToFloat(s0.x);
        if (BLOCK == 1u) return uintBitsToFloat(word_of(k < 4u ? s0 : s1, k & 3u));
        return uintBitsToFloat(word_of(s0, segment * (8u / max(BLOCK, 1u)) + k / max(BLOCK, 1u) & 3u));
    }
    return half_to_float(s0.x & 0xffffu);
}

float minimum_at(uvec4 s0, uvec4 s1, uint k)
{
    return KIND == HALF ? half_at(s1, k) : half_to_float(s0.x >> 16);
}

// sc and mn of unit k of a segment, of its half half_unit with SUB16.
int sub_scale(uvec4 s1, uint k, uint half_unit)
{
    if (KIND == SUB32) return signed_byte(k < 4u ? s1.x : s1.y, k);
    return signed_byte(word_of(s1, k >> 1), 2u * k + half_unit);
}

int sub_minimum(uvec4 s0, uvec4 s1, uint k, uint half_unit)
{
    if (KIND == SUB32) return signed_byte(k < 4u ? s1.z : s1.w, k);
    return int((k < 4u ? s0.z : s0.w) >> (8u * (k & 3u) + 4u * half_unit) & 15u);
}

// Is unit k the last of its block, in a segment of count units?
bool block_ends(uint k, uint count)
{
    if (BLOCK == 0u) return k + 1u == count;
    if (BLOCK == 1u) return true;
    return k + 1u == count || (k + 1u) % max(BLOCK, 1u) == 0u;
}

// A nibble through the table of 16 signed bytes.
int table_at(uint nibble)
{
    uint word = (nibble & 8u) != 0u ? ((nibble & 4u) != 0u ? push.table3 : push.table2)
                                    : ((nibble & 4u) != 0u ? push.table1 : push.table0);
    return signed_byte(word, nibble);
}
