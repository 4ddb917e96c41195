/* Device memory: few large blocks of the driver, cut into ranges.
 *
 * A block is one VkDeviceMemory with one VkBuffer over all of it, so that a range is bound by offset
 * and a driver's limit on allocations is never near. A range counts its users: whoever made it, and
 * every batch of commands in flight that touches it; the last one gives it back. */
#ifndef TENON_VULKAN_MEMORY_H
#define TENON_VULKAN_MEMORY_H

#include <stdatomic.h>

#include <tenon/provider.h>

#include "api.h"
#include "system.h"

#define VULKAN_ALIGNMENT 256u /* of every range; any device's offset alignment divides it */

struct vulkan_block;

/* A range of a block. */
typedef struct vulkan_memory {
    struct vulkan_block *block; /* NULL: imported (import.h), the only one on its VkDeviceMemory */
    uint64_t offset, bytes;     /* in the block; bytes as asked for */
    uint8_t *mapped;            /* its first byte for the host, NULL: not in reach */
    VkBuffer buffer;            /* the block's */
    VkBufferView view;          /* all of it as texels, where vulkan_memory_view was asked, or */
    uint32_t shares_view;       /* all of the block, where vulkan_memory_share_view was */
    atomic_uint users;
    atomic_uint pinned;  /* users that are graphs: they use it when launched */
    atomic_ullong batch; /* the last batch that counted itself among the users */
    uint64_t size;       /* bytes rounded up */
    uint32_t free;
    uint32_t limbo;                       /* its owner is gone, commands still use it */
    struct vulkan_memory *before, *after; /* neighbours in the block, by offset */
} vulkan_memory;

/* A part of a range, as kernels and copies see it. */
typedef struct vulkan_span {
    vulkan_memory *memory;
    uint64_t offset, bytes; /* from the start of memory */
} vulkan_span;

/* Rows of words in device memory. */
typedef struct vulkan_rows {
    vulkan_memory *memory;
    uint64_t offset; /* bytes from the start of memory to the first row */
    uint64_t stride; /* bytes from one row to the next */
    uint64_t bytes;  /* of one row */
} vulkan_rows;

enum { VULKAN_MAIN, VULKAN_STAGING, VULKAN_PLACES };

/* All memory of an opened device. */
typedef struct vulkan_pool {
    vulkan_lock lock;
    struct vulkan_block *blocks[VULKAN_PLACES];
    uint64_t held;       /* bytes of blocks in main memory */
    uint64_t used;       /* bytes of ranges in main memory */
    atomic_ullong limbo; /* bytes of ranges that only commands in flight keep */
    uint32_t made;
} vulkan_pool;

int32_t vulkan_pool_make(tenon_device *device, tenon_error *error);
/* Every range must have been given back. */
void vulkan_pool_free(tenon_device *device);

/* A range with one user. NOMEM (wanted and available) leaves nothing behind; scope is the error's.
 * [any thread] */
int32_t vulkan_memory_make(tenon_device *device, uint32_t place, uint64_t bytes, uint32_t scope,
                           vulkan_memory **out, tenon_error *error);
/* Gives it a view as texels of 16 bytes, so that kernels may bind all of it as a texel buffer. Called
 * before it is used by anybody else. */
int32_t vulkan_memory_view(tenon_device *device, vulkan_memory *memory, uint32_t scope,
                           tenon_error *error);
/* Gives it the view of all of its block, so that one texel buffer reaches every range there. */
int32_t vulkan_memory_share_view(tenon_device *device, vulkan_memory *memory, uint32_t scope,
                                 tenon_error *error);
/* One user less. NULL is allowed. [any thread] */
void vulkan_memory_release(tenon_device *device, vulkan_memory *memory);

/* The same for its owner: what commands still use counts as limbo until they are done.
 * [any thread] */
void vulkan_memory_abandon(tenon_device *device, vulkan_memory *memory);

/* Bytes that could still be allocated in main memory. [any thread] */
uint64_t vulkan_memory_available(tenon_device *device);
/* Bytes of main memory in use. [any thread] */
uint64_t vulkan_memory_used(tenon_device *device);

/* Makes *all cover more, too: memory is then that of the first of both, and bytes may reach past it.
 * 0, and as it was: they lie in different blocks, or it would have more than most bytes. */
int vulkan_span_cover(vulkan_span *all, vulkan_span more, uint64_t most);
/* Bytes from the start of `from`, which covers it, to that of span. */
static inline uint64_t vulkan_span_distance(vulkan_span from, vulkan_span span)
{
    return span.memory->offset + span.offset - (from.memory->offset + from.offset);
}

static inline vulkan_span vulkan_whole(vulkan_memory *memory)
{
    return (vulkan_span){memory, 0, memory->bytes};
}

#endif
