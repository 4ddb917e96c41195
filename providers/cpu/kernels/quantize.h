/* Activations of class A8 (SPEC.md 2.3), in plain C that compilers turn into vectors. */

INLINE uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* One block of 32: u, and the sums of its halves. Returns d. */
INLINE float quantize_block(const float *x, int8_t *u, int32_t *sums)
{
    const float shift = 0x1.8p23f; /* adding and subtracting it rounds to an integer */
    int32_t amax_bits = 0, i;
    float amax, d, r;
    int32_t first = 0, second = 0;

    for (i = 0; i < 32; i++) {
        int32_t bits = (int32_t)(float_bits(x[i]) & 0x7fffffffu);
        amax_bits = bits > amax_bits ? bits : amax_bits;
    }
    memcpy(&amax, &amax_bits, sizeof amax);
    if (amax_bits >= 0x7f800000 || amax < 0x1p-40f) {
        memset(u, 0, 32);
        sums[0] = sums[1] = 0;
        return amax_bits >= 0x7f800000 ? __builtin_nanf("") : 0.0f;
    }
    d = amax / 127.0f;
    r = 1.0f / d;
    for (i = 0; i < 32; i++) u[i] = (int8_t)(int32_t)((x[i] * r + shift) - shift);
    for (i = 0; i < 16; i++) first += u[i];
    for (i = 16; i < 32; i++) second += u[i];
    sums[0] = first;
    sums[1] = second;
    return d;
}

static void quantize(const float *x, uint64_t cols, int8_t *u, float *d, int32_t *sums)
{
    for (; cols >= 32; cols -= 32, x += 32, u += 32, d++, sums += 2)
        *d = quantize_block(x, u, sums);
    if (cols > 0) {
        float tail[32] = {0};
        memcpy(tail, x, (size_t)cols * sizeof *x);
        *d = quantize_block(tail, u, sums);
    }
}
