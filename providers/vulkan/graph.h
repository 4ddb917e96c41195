/* Recorded sequences: one command buffer, submitted at every launch.
 *
 * While a queue records, its calls go to the batch of the graph instead of one of its own. What
 * changes between launches, kernels read from device memory; the only thing a launch computes is how
 * many workgroups attention is started with, from the lengths its caches have then. */
#ifndef TENON_VULKAN_GRAPH_H
#define TENON_VULKAN_GRAPH_H

#include "cache.h"

/* A cache as the recorded calls use it, from the length that it has at a launch. */
typedef struct vulkan_graph_cache {
    tenon_device_cache *cache;
    uint64_t appended; /* by all calls recorded so far */
    uint64_t needed;   /* positions that must be there before */
} vulkan_graph_cache;

/* A dispatch whose workgroups follow from the length of a cache. */
typedef struct vulkan_graph_size {
    vulkan_reach reach;
    uint64_t before; /* positions appended by the calls before it */
    uint32_t y, z;   /* workgroups of the other dimensions */
} vulkan_graph_size;

struct tenon_device_graph {
    tenon_device *device;
    atomic_uint users; /* its owner, and every batch in flight that launches it */
    vulkan_lock lock;  /* of launches: sizes_now */
    VkCommandPool pool;
    vulkan_batch batch;  /* commands, sets, scratch memory, and the memory it keeps alive */
    vulkan_batch *aside; /* what the queue recorded before, while this is recorded */
    uint32_t whole;      /* steps of the calls that were recorded to their end */
    vulkan_graph_cache *caches;
    uint32_t cache_count, cache_room;
    vulkan_graph_size *sizes;
    uint32_t size_count, size_room;
    vulkan_memory *arguments;             /* of sizes, one behind the other; NULL: there are none */
    VkDispatchIndirectCommand *sizes_now; /* what they hold, once recorded work is done */
};

/* Begins a call on a queue that records. */
int32_t vulkan_graph_call(tenon_device_queue *queue, tenon_error *error);
/* Its call is recorded to its end. */
void vulkan_graph_called(tenon_device_queue *queue);
/* Positions that recorded calls append to a cache. */
uint64_t vulkan_graph_appended(const tenon_device_graph *graph, const tenon_device_cache *cache);
/* A recorded call appends positions, or attends from the last ones. */
int32_t vulkan_graph_append(tenon_device_graph *graph, tenon_device_cache *cache, uint64_t tokens,
                            tenon_error *error);
int32_t vulkan_graph_attend(tenon_device_graph *graph, tenon_device_cache *cache, uint64_t tokens,
                            tenon_error *error);
/* Where the workgroups of a dispatch that reaches over a cache will be. */
int32_t vulkan_graph_place(tenon_device_graph *graph, const vulkan_dispatch *dispatch,
                           vulkan_span *out, tenon_error *error);
/* One user less; the last one frees it. [any thread] */
void vulkan_graph_leave(tenon_device_graph *graph);

int32_t TENON_CALL vulkan_graph_begin(tenon_device *device, tenon_device_queue *queue,
                                      tenon_error *error);
int32_t TENON_CALL vulkan_graph_end(tenon_device *device, tenon_device_queue *queue,
                                    tenon_device_graph **out, tenon_error *error);
void TENON_CALL vulkan_graph_abort(tenon_device *device, tenon_device_queue *queue);
int32_t TENON_CALL vulkan_graph_launch(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_graph *graph, tenon_error *error);
void TENON_CALL vulkan_graph_release(tenon_device *device, tenon_device_graph *graph);

#endif
