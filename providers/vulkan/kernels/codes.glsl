// Codes of packed weights as floats, scales and minima of their blocks (class F32 and embed).
// E4M3FN: bias 7, NaN at 0x7f and 0xff.
float fp8(uint code)
{
    uint sign = (code & 0x80u) << 24, rest = code & 0x7fu;
    precise float small = float(rest) * 0.001953125; // 2^-9
    uint bits = rest == 0x7fu ? NAN_BITS : rest < 8u ? floatBitsToUint(small) : (rest << 20) + 0x3c000000u;
    return uintBitsToFloat(bits | sign);
}

// The four codes of inputs 4 * quad .. 4 * quad + 3 of a unit, as floats. `at` is the vector of
// lane 0 of the unit's first vector.
vec4 codes(uint at, uint lane, uint quad)
{
    if (STORAGE == F32) return uintBitsToFloat(CODES(at + quad * 64u + lane));
    if (STORAGE == F16 || STORAGE == BF16) {
        uvec4 v = CODES(at + (quad >> 1) * 64u + lane);
        uvec2 w = (quad & 1u) == 0u ? v.xy : v.zw;
        if (STORAGE == BF16)
            return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
        return vec4(half_to_float(w.x & 0xffffu), half_to_float(w.x >> 16),
                    half_to_float(w.y & 0xffffu), half_to_float(w.y >> 16));
    }
    if (STORAGE == FP8 || STORAGE == BYTE) {
        uint w = word_of(CODES(at + (quad >> 2) * 64u + lane), quad & 3u);
        if (STORAGE == FP8)
            return vec4(fp8(w & 255u), fp8(w >> 8 & 255u), fp8(w >> 16 & 255u), fp8(w >> 24));
        return vec4(signed_byte(w, 0u), signed_byte(w, 1u), signed_byte(w, 2u), signed_byte(w, 3u));
    }
    uint w = word_of(CODES(at + lane), quad >> 1) >> (4u * (quad & 1u));
    if (STORAGE == TABLE)
        return vec4(table_at(w & 15u), table_at(w >> 8 & 15u), table_at(w >> 16 & 15u),
                    table_at(w >> 24 & 15u));
    return vec4(int(w & 15u) - int(push.zero), int(w >> 8 & 15u) - int(push.zero),
                int(w >> 16 & 15u) - int(push.zero), int(w >> 24 & 15u) - int(push.zero));
}

// s_b, with sub-scales d * sc_b, which is exact.
float scale_f32(uvec4 s0, uvec4 s1, uint segment, uint k, uint half_unit)
{
    float s = scale_at(s0, s1, segment, k, half_unit);
    if (kind_is(SUB32) || kind_is(SUB16)) return times(s, float(sub_scale(s1, k, half_unit)));
    return s;
}

float minimum_f32(uvec4 s0, uvec4 s1, uint k, uint half_unit)
{
    float m = minimum_at(s0, s1, k);
    if (kind_is(SUB32) || kind_is(SUB16)) return times(m, float(sub_minimum(s0, s1, k, half_unit)));
    return m;
}

// Blocks of 16, of one unit, or of several (then t runs on).
bool halves()
{
    return kind_is(HALF16) || kind_is(SUB16);
}

