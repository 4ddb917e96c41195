// Caches of attention (kernels.h): where the elements of a position lie, and the rotation of SPEC.md
// 2.4. Included after fused.glsl.
layout(constant_id = 1) const uint ELEMENTS = 4u; // of a vector: 4 floats or 8 halves
layout(constant_id = 2) const uint PAIRING = 0u;

#define ADJACENT 1u
#define HALVES 2u

// Vector w of a head of a position in k and plain, and in v.
uint key_vector(uint tiles, uint heads_v, uint head, uint position, uint w)
{
    return ((head * tiles + position / 64u) * heads_v + w) * 64u + position % 64u;
}

uint value_vector(uint tiles, uint heads_v, uint head, uint position, uint w)
{
    return (head * tiles * 64u + position) * heads_v + w;
}

// Element i of a vector.
float element_of(uvec4 v, uint i)
{
    if (ELEMENTS == 4u) return uintBitsToFloat(word_of(v, i));
    return half_to_float(word_of(v, i >> 1) >> (16u * (i & 1u)) & 0xffffu);
}

// What the cache keeps of a value.
float rounded(float value)
{
    return ELEMENTS == 4u ? value : half_to_float(float_to_half(value));
}

// A vector of already rounded values, of which ELEMENTS count.
uvec4 vector_of(float value[8])
{
    if (ELEMENTS == 4u)
        return floatBitsToUint(vec4(value[0], value[1], value[2], value[3]));
    return uvec4(float_to_half(value[0]) | float_to_half(value[1]) << 16,
                 float_to_half(value[2]) | float_to_half(value[3]) << 16,
                 float_to_half(value[4]) | float_to_half(value[5]) << 16,
                 float_to_half(value[6]) | float_to_half(value[7]) << 16);
}

// The input that input d < rotary is turned with, and the pair of both.
uint partner(uint d, uint rotary, out uint pair)
{
    if (PAIRING == ADJACENT) {
        pair = d / 2u;
        return d ^ 1u;
    }
    uint middle = rotary / 2u;
    pair = d < middle ? d : d - middle;
    return d < middle ? d + middle : d - middle;
}

// Is input d the first of its pair?
bool is_first(uint d, uint rotary)
{
    return PAIRING == ADJACENT ? (d & 1u) == 0u : d < rotary / 2u;
}

// One input of a pair, rotated: itself, the other one, cos and sin.
float turned(float self, float other, float c, float s, bool first)
{
    precise float cross = other * s;
    return fused(self, c, first ? -cross : cross);
}
