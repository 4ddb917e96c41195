/* graph_v1: a sequence of calls as one secondary command buffer.
 *
 * What changes from launch to launch lies in device memory: ids and results in buffers, the length of
 * a cache in its state. A launch is a step of an ordinary batch, in the order of its queue. */
#include "graph.h"

#include <stdlib.h>

#include "cache.h"

typedef struct appended {
    tenon_device_cache *cache;
    uint64_t count;
} appended;

struct tenon_device_graph {
    vulkan_batch batch;
    VkCommandPool pool; /* of its own: a graph may be given back on any thread */
    appended *caches;
    uint32_t cache_count, cache_room;
    atomic_uint users;
};

int32_t vulkan_not_in_graph(tenon_error *error)
{
    return tenon_fail(error, TENON_DECLINED, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                      "not in a graph");
}

void vulkan_graph_hold(tenon_device_graph *graph)
{
    atomic_fetch_add(&graph->users, 1);
}

void TENON_CALL vulkan_graph_release(tenon_device *device, tenon_device_graph *graph)
{
    if (device == NULL || graph == NULL || atomic_fetch_sub(&graph->users, 1) != 1) return;
    vulkan_batch_free(device, &graph->batch);
    if (graph->pool != VK_NULL_HANDLE)
        device->api.DestroyCommandPool(device->handle, graph->pool, NULL);
    free(graph->caches);
    free(graph);
}

int32_t vulkan_graph_appended(tenon_device_graph *graph, tenon_device_cache *cache, uint64_t count,
                              tenon_error *error)
{
    uint32_t i;

    for (i = 0; i < graph->cache_count && graph->caches[i].cache != cache; i++) {}
    if (i == graph->cache_room) {
        uint32_t room = graph->cache_room != 0 ? graph->cache_room * 2 : 32;
        appended *more = realloc(graph->caches, room * sizeof *more);
        if (more == NULL)
            return vulkan_no_memory(room * sizeof *more, TENON_SCOPE_CALL,
                                    "no memory to record a call", error);
        graph->caches = more;
        graph->cache_room = room;
    }
    if (i == graph->cache_count) graph->caches[graph->cache_count++] = (appended){cache, 0};
    graph->caches[i].count += count;
    cache->captured += count;
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------- recording */

static int32_t make(tenon_device *device, tenon_device_graph **out, tenon_error *error)
{
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .level = VK_COMMAND_BUFFER_LEVEL_SECONDARY,
                                           .commandBufferCount = 1};
    const VkCommandBufferInheritanceInfo none = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    /* A launch may be recorded while the one before it runs. */
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
                                            .pInheritanceInfo = &none};
    tenon_device_graph *self = calloc(1, sizeof *self);
    VkResult result;

    *out = NULL;
    if (self == NULL)
        return vulkan_no_memory(sizeof *self, TENON_SCOPE_CALL, "no memory for a graph", error);
    atomic_store(&self->users, 1);
    pool.queueFamilyIndex = device->gpu->family;
    result = device->api.CreateCommandPool(device->handle, &pool, NULL, &self->pool);
    buffers.commandPool = self->pool;
    if (result == VK_SUCCESS)
        result = device->api.AllocateCommandBuffers(device->handle, &buffers,
                                                    &self->batch.commands);
    if (result == VK_SUCCESS) result = device->api.BeginCommandBuffer(self->batch.commands, &begin);
    if (result != VK_SUCCESS) {
        vulkan_graph_release(device, self);
        return vulkan_failed(device, result, "a graph", TENON_SCOPE_CALL, error);
    }
    self->batch.serial = atomic_fetch_add(&device->batches, 1) + 1;
    *out = self;
    return TENON_OK;
}

/* The queue is as it was before begin; the caches are as if nothing had been recorded. */
static tenon_device_graph *leave(tenon_device_queue *queue)
{
    tenon_device_graph *graph = queue->capture;
    uint32_t i;

    for (i = 0; i < graph->cache_count; i++) graph->caches[i].cache->captured = 0;
    queue->recording = queue->aside;
    queue->aside = NULL;
    queue->capture = NULL;
    return graph;
}

int32_t TENON_CALL vulkan_graph_begin(tenon_device *device, tenon_device_queue *queue,
                                      tenon_error *error)
{
    int32_t status;

    if (device == NULL || queue == NULL)
        return vulkan_null_pointer("begin needs device and queue", error);
    if (queue->capture != NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                          "the queue records a graph already");
    status = vulkan_call_begin(queue, error); /* what was lost is said here */
    if (status != TENON_OK) return status;
    status = make(device, &queue->capture, error);
    if (status != TENON_OK) return status;
    queue->aside = queue->recording;
    queue->recording = &queue->capture->batch;
    return TENON_OK;
}

int32_t TENON_CALL vulkan_graph_end(tenon_device *device, tenon_device_queue *queue,
                                    tenon_device_graph **out, tenon_error *error)
{
    tenon_device_graph *graph;
    VkResult result;

    if (device == NULL || queue == NULL || out == NULL)
        return vulkan_null_pointer("end needs device, queue and out", error);
    *out = NULL;
    if (queue->capture == NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                          "the queue records no graph");
    graph = leave(queue);
    result = device->api.EndCommandBuffer(graph->batch.commands);
    if (result != VK_SUCCESS) {
        vulkan_graph_release(device, graph);
        return vulkan_failed(device, result, "a graph", TENON_SCOPE_CALL, error);
    }
    *out = graph;
    return TENON_OK;
}

void TENON_CALL vulkan_graph_abort(tenon_device *device, tenon_device_queue *queue)
{
    if (device == NULL || queue == NULL || queue->capture == NULL) return;
    vulkan_graph_release(device, leave(queue));
}

/* ------------------------------------------------------------------------------------- launching */

int32_t TENON_CALL vulkan_graph_launch(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_graph *graph, tenon_error *error)
{
    int32_t status;
    uint32_t i;

    if (device == NULL || queue == NULL || graph == NULL)
        return vulkan_null_pointer("launch needs device, queue and graph", error);
    if (queue->capture != NULL) return vulkan_not_in_graph(error);
    for (i = 0; i < graph->cache_count; i++) {
        const tenon_device_cache *cache = graph->caches[i].cache;
        if (graph->caches[i].count > cache->desc.capacity - cache->length)
            return tenon_fail_amount(error, TENON_DECLINED, TENON_REASON_CAPACITY, TENON_SCOPE_CALL,
                                     graph->caches[i].count, cache->desc.capacity - cache->length,
                                     "a cache has no room for the positions");
    }
    status = vulkan_call_begin(queue, error);
    if (status == TENON_OK)
        status = vulkan_record_graph(queue, graph, graph->batch.commands, graph->batch.steps,
                                     error);
    if (status == TENON_OK) status = vulkan_call_end(queue, 0, error);
    for (i = 0; i < graph->cache_count && status == TENON_OK; i++)
        graph->caches[i].cache->length += graph->caches[i].count;
    return status;
}
