/* SHA-256 (FIPS 180-4), for telling files apart: manifest, cache, duplicates. */
#ifndef TENON_LOADER_SHA256_H
#define TENON_LOADER_SHA256_H

#include <stdint.h>

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes;    /* taken so far */
    uint8_t block[64]; /* the last bytes % 64 of them */
} sha256;

void sha256_begin(sha256 *self);
void sha256_add(sha256 *self, const void *bytes, uint64_t count);
void sha256_end(sha256 *self, uint8_t digest[32]);
/* All three at once. */
void sha256_of(const void *bytes, uint64_t count, uint8_t digest[32]);
/* 64 lower-case hexadecimal digits and a NUL. */
void sha256_text(const uint8_t digest[32], char text[65]);

#endif
