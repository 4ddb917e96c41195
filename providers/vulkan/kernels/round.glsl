// Class A8 (SPEC.md 2.3): 32 inputs become a record of 7 vectors:
//   0, 1  u as bytes, in order
//   2     d; the sums of the first and the second 16 u as two halves of a word; 0; 0
//   3..6  u in pairs, for the four words of a vector of nibbles (product_a8.comp: two products of
//         nibbles in one multiplication)
// Included after the buffer `work`, whose vector `at` is the first of the record.
uint bytes_of(int a, int b, int c, int d)
{
    return uint(a & 255) | uint(b & 255) << 8 | uint(c & 255) << 16 | uint(d) << 24;
}

// What a word with input i in its low and input k in its high half is multiplied with.
uint pair(int i, int k)
{
    return uint(k) + (uint(i) << 16);
}

void write_record(uint at, float value[32])
{
    uint largest = 0u;
    int u[32], low = 0, high = 0;

    for (uint i = 0u; i < 32u; i++) largest = max(largest, magnitude_bits(value[i]));
    precise float d = 0.0;
    precise float r = 0.0;
    if (largest >= INFINITY_BITS)
        d = not_a_number();
    else if (largest >= 0x2b800000u) { // 2^-40
        d = uintBitsToFloat(largest) / 127.0;
        r = 1.0 / d;
    }
    for (uint i = 0u; i < 32u; i++) {
        // Adding 1.5 * 2^23 rounds to an integer, ties to even.
        precise float rounded = (r == 0.0 ? 0.0 : value[i] * r) + 12582912.0;
        u[i] = int(floatBitsToUint(rounded)) - 0x4b400000;
        if (i < 16u)
            low += u[i];
        else
            high += u[i];
    }
    for (uint v = 0u; v < 2u; v++)
        work[at + v] = uvec4(bytes_of(u[16u * v], u[16u * v + 1u], u[16u * v + 2u], u[16u * v + 3u]),
                             bytes_of(u[16u * v + 4u], u[16u * v + 5u], u[16u * v + 6u], u[16u * v + 7u]),
                             bytes_of(u[16u * v + 8u], u[16u * v + 9u], u[16u * v + 10u], u[16u * v + 11u]),
                             bytes_of(u[16u * v + 12u], u[16u * v + 13u], u[16u * v + 14u], u[16u * v + 15u]));
    work[at + 2u] = uvec4(floatBitsToUint(d), (uint(low) & 0xffffu) | uint(high) << 16, 0u, 0u);
    for (uint j = 0u; j < 4u; j++)
        work[at + 3u + j] = uvec4(pair(u[8u * j], u[8u * j + 2u]), pair(u[8u * j + 4u], u[8u * j + 6u]),
                                  pair(u[8u * j + 1u], u[8u * j + 3u]), pair(u[8u * j + 5u], u[8u * j + 7u]));
}
