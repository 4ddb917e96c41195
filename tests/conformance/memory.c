/* Mappings with a faulting page on both sides. */
#include "memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool guarded_make(guarded *self, uint64_t bytes, uint32_t offset)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside;
    uint8_t *map;
    memset(self, 0, sizeof *self);
    if (bytes > SIZE_MAX / 2) return false;
    /* 64 more than asked for leaves room for any offset. */
    inside = ((size_t)bytes + 64 + page - 1) / page * page;
    map = mmap(NULL, inside + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return false;
    self->map = map;
    self->map_bytes = inside + 2 * page;
    self->bytes = bytes;
    if (mprotect(map, page, PROT_NONE) != 0 ||
        mprotect(map + page + inside, page, PROT_NONE) != 0) {
        guarded_free(self);
        return false;
    }
    self->data = offset == GUARDED_AT_END ? map + page + inside - bytes : map + page + offset % 64;
    return true;
}

bool guarded_copy(guarded *self, const void *from, uint64_t bytes, uint32_t offset)
{
    if (!guarded_make(self, bytes, offset)) return false;
    if (bytes != 0) memcpy(self->data, from, bytes);
    return true;
}

void guarded_revoke(guarded *self)
{
    if (self->map != NULL) (void)mprotect(self->map, self->map_bytes, PROT_NONE);
}

void guarded_free(guarded *self)
{
    if (self->map != NULL) munmap(self->map, self->map_bytes);
    memset(self, 0, sizeof *self);
}

uint64_t memory_hash(const void *from, uint64_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u, i = 0, word;
    const uint8_t *at = from;
    for (; i + 8 <= bytes; i += 8) {
        memcpy(&word, at + i, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    for (; i < bytes; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

uint64_t guarded_hash(const guarded *self)
{
    return memory_hash(self->data, self->bytes);
}
