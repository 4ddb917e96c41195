#include <loader/sha256.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void take_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], v[8];
    unsigned t;
    for (t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + w[t - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof v);
    for (t = 0; t < 64; t++) {
        uint32_t a = v[0], e = v[4];
        uint32_t one = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + round_constant[t] + w[t];
        uint32_t two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (t = 0; t < 8; t++) state[t] += v[t];
}

void sha256_begin(sha256 *self)
{
    /* Of the square roots of the first 8 primes. */
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(self, 0, sizeof *self);
    memcpy(self->state, start, sizeof start);
}

void sha256_add(sha256 *self, const void *bytes, uint64_t count)
{
    const uint8_t *at = bytes;
    unsigned held = (unsigned)(self->bytes % 64);
    if (count == 0) return;
    self->bytes += count;
    if (held != 0) {
        unsigned take = count < 64 - held ? (unsigned)count : 64 - held;
        memcpy(self->block + held, at, take);
        at += take;
        count -= take;
        if (held + take < 64) return;
        take_block(self->state, self->block);
    }
    for (; count >= 64; at += 64, count -= 64) take_block(self->state, at);
    if (count != 0) memcpy(self->block, at, (size_t)count);
}

void sha256_end(sha256 *self, uint8_t digest[32])
{
    uint64_t bits = self->bytes * 8;
    uint8_t tail[72] = {0x80};
    unsigned pad = 64 - (unsigned)((self->bytes + 8) % 64), i;
    for (i = 0; i < 8; i++) tail[pad + i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(self, tail, pad + 8);
    for (i = 0; i < 32; i++) digest[i] = (uint8_t)(self->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_of(const void *bytes, uint64_t count, uint8_t digest[32])
{
    sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, bytes, count);
    sha256_end(&hash, digest);
}

void sha256_text(const uint8_t digest[32], char text[65])
{
    static const char digits[] = "0123456789abcdef";
    unsigned i;
    for (i = 0; i < 32; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[64] = '\0';
}
