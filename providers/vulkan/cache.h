/* A key-value cache on the device: the arrays of kernels.h, each memory of its own. */
#ifndef TENON_VULKAN_CACHE_H
#define TENON_VULKAN_CACHE_H

#include "operations.h"

struct tenon_device_cache {
    tenon_cache_desc desc; /* without its table */
    uint64_t length;       /* positions held, once the work recorded so far is done */
    uint64_t bytes;        /* of all arrays */
    uint64_t tiles;
    uint32_t heads_v;
    vulkan_memory *k, *v;
    vulkan_memory *plain; /* un-rotated keys, NULL: not kept */
    vulkan_memory *table; /* NULL: nothing is rotated */
    vulkan_memory *state; /* one word: the length */
};

/* What every kernel of attention is told of a cache. */
vulkan_cache_push vulkan_cache_shape(const tenon_device_cache *cache);
/* Specialization constants 1 and 2 of those kernels. */
void vulkan_cache_options(const tenon_device_cache *cache,
                          uint32_t options[VULKAN_MOST_CONSTANTS - 1]);
/* Workgroups of a dispatch that reaches over a cache of this length. At least 1. */
uint32_t vulkan_reach_groups(const vulkan_reach *reach, uint64_t length);
/* The table, or where nothing is rotated anything that can be bound in its place. */
vulkan_span vulkan_cache_table(const tenon_device_cache *cache);

#endif
