/* A list that only grows: entries are written under a lock that nobody waits for (a process may
 * die with it), and become visible when they are whole. */
#include "share.h"

#include "memory.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define SHARE_BYTES ((size_t)1 << 20)

typedef struct entry {
    uint64_t key, bytes, hash;
    atomic_uint_fast64_t ready;
} entry;

struct conformance_share {
    atomic_flag writing;
    uint64_t used; /* bytes of entries, only read and written under the lock */
    uint64_t data[(SHARE_BYTES - 16) / 8];
};

conformance_share *share_make(size_t count)
{
    void *memory = mmap(NULL, count * sizeof(conformance_share), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void share_free(conformance_share *first, size_t count)
{
    if (first != NULL) munmap(first, count * sizeof *first);
}

conformance_share *share_at(conformance_share *first, size_t index)
{
    return first != NULL ? &first[index] : NULL;
}

void share_reset(conformance_share *self)
{
    if (self != NULL) memset(self, 0, sizeof *self);
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

bool share_find(conformance_share *self, uint64_t key, void *out, uint64_t bytes)
{
    uint64_t at = 0;
    while (self != NULL && at + sizeof(entry) <= sizeof self->data) {
        entry *found = (entry *)(void *)((uint8_t *)self->data + at);
        if (atomic_load(&found->ready) != 1) return false;
        at += sizeof *found;
        if (found->bytes > sizeof self->data - at) return false;
        if (found->key == key && found->bytes == bytes) {
            memcpy(out, (uint8_t *)self->data + at, bytes);
            return memory_hash(out, bytes) == found->hash;
        }
        at += padded(found->bytes);
    }
    return false;
}

void share_put(conformance_share *self, uint64_t key, const void *from, uint64_t bytes)
{
    entry *made;
    if (self == NULL || atomic_flag_test_and_set(&self->writing)) return;
    if (bytes <= sizeof self->data && self->used <= sizeof self->data &&
        sizeof *made + padded(bytes) <= sizeof self->data - self->used) {
        made = (entry *)(void *)((uint8_t *)self->data + self->used);
        made->key = key;
        made->bytes = bytes;
        made->hash = memory_hash(from, bytes);
        memcpy(made + 1, from, bytes);
        self->used += sizeof *made + padded(bytes);
        atomic_store(&made->ready, 1);
    }
    atomic_flag_clear(&self->writing);
}
