/* Memory of a case, between pages that fault: reading or writing past either end is seen at once. */
#ifndef TENON_CONFORMANCE_MEMORY_H
#define TENON_CONFORMANCE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct guarded {
    uint8_t *data; /* the bytes asked for */
    uint64_t bytes;
    void *map;
    size_t map_bytes;
} guarded;

/* Where the bytes lie in their pages: flush with the faulting page behind them (whatever alignment
 * that gives), or at an address that is offset modulo 64. */
#define GUARDED_AT_END UINT32_MAX

/* Maps bytes (0 is allowed) and places them. False when out of memory. */
bool guarded_make(guarded *self, uint64_t bytes, uint32_t offset);
/* The same with a copy of what is at from. */
bool guarded_copy(guarded *self, const void *from, uint64_t bytes, uint32_t offset);
/* Makes the bytes unreadable, so that a provider that kept their address dies at once. */
void guarded_revoke(guarded *self);
/* Unmaps; harmless on a zeroed one. */
void guarded_free(guarded *self);
/* A hash of bytes: FNV-1a over 64-bit words and the rest. */
uint64_t memory_hash(const void *from, uint64_t bytes);
/* The same of all that was asked for. */
uint64_t guarded_hash(const guarded *self);

#endif
