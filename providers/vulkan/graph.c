/* graph_v1: graph.h. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SIZES 4096u /* of one graph; vkCmdUpdateBuffer takes 65536 bytes */

static int32_t no_memory(uint64_t bytes, tenon_error *error)
{
    return vulkan_no_memory(bytes, TENON_SCOPE_CALL, "no memory to record a sequence", error);
}

static int32_t declined(uint32_t reason, const char *text, tenon_error *error)
{
    return tenon_fail(error, TENON_DECLINED, reason, TENON_SCOPE_CALL, text);
}

/* Room for one item more at the end of an array. */
static int32_t make_room(void **items, uint32_t count, uint32_t *room, size_t size,
                         tenon_error *error)
{
    uint32_t wanted = *room != 0 ? *room * 2 : 32;
    void *more;

    if (count < *room) return TENON_OK;
    more = wanted > *room ? realloc(*items, wanted * size) : NULL;
    if (more == NULL) return no_memory(wanted * (uint64_t)size, error);
    *items = more;
    *room = wanted;
    return TENON_OK;
}

static void order(const tenon_device *device, VkCommandBuffer commands, VkPipelineStageFlags from,
                  VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags used)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = written, .dstAccessMask = used};
    device->api.CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

/* -------------------------------------------------------------------------------- made and freed */

void vulkan_graph_leave(tenon_device_graph *graph)
{
    tenon_device *device = graph->device;

    if (atomic_fetch_sub(&graph->users, 1) != 1) return;
    vulkan_batch_free(device, &graph->batch);
    /* Frees the command buffer too. */
    if (graph->pool != VK_NULL_HANDLE)
        device->api.DestroyCommandPool(device->handle, graph->pool, NULL);
    vulkan_memory_release(device, graph->arguments);
    vulkan_lock_free(&graph->lock);
    free(graph->caches);
    free(graph->sizes);
    free(graph->sizes_now);
    free(graph);
}

/* A graph whose command buffer has begun. */
static int32_t make_graph(tenon_device *device, tenon_device_graph **out, tenon_error *error)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = device->gpu->family};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    VkCommandBufferAllocateInfo buffer = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                          .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                          .commandBufferCount = 1};
    tenon_device_graph *self = calloc(1, sizeof *self);
    VkResult result;

    if (self == NULL || !vulkan_lock_make(&self->lock)) {
        free(self);
        return no_memory(sizeof *self, error);
    }
    self->device = device;
    atomic_init(&self->users, 1);
    self->batch.pins = 1;
    self->batch.serial = atomic_fetch_add(&device->batches, 1) + 1;
    result = device->api.CreateCommandPool(device->handle, &pool, NULL, &self->pool);
    if (result == VK_SUCCESS) {
        buffer.commandPool = self->pool;
        result = device->api.AllocateCommandBuffers(device->handle, &buffer, &self->batch.commands);
    }
    if (result == VK_SUCCESS) result = device->api.BeginCommandBuffer(self->batch.commands, &begin);
    if (result != VK_SUCCESS) {
        vulkan_graph_leave(self);
        return vulkan_failed(device, result, "a sequence of commands", TENON_SCOPE_CALL, error);
    }
    *out = self;
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------ recording */

int32_t TENON_CALL vulkan_graph_begin(tenon_device *device, tenon_device_queue *queue,
                                      tenon_error *error)
{
    tenon_device_graph *graph = NULL;
    int32_t status;

    if (device == NULL || queue == NULL)
        return vulkan_null_pointer("begin needs device and queue", error);
    if (queue->graph != NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                          "calls are being recorded on this queue");
    if (device->provider->settings.no_graphs)
        return declined(TENON_REASON_CAPTURING, "vulkan.graph=off", error);
    status = vulkan_call_begin(queue, error); /* answers what was lost */
    if (status == TENON_OK) status = make_graph(device, &graph, error);
    if (status != TENON_OK) return status;
    graph->aside = queue->recording;
    queue->recording = &graph->batch;
    queue->graph = graph;
    return TENON_OK;
}

/* Takes the recording off its queue. */
static tenon_device_graph *take(tenon_device_queue *queue)
{
    tenon_device_graph *graph = queue->graph;

    if (graph == NULL) return NULL;
    queue->recording = graph->aside;
    queue->graph = NULL;
    graph->aside = NULL;
    return graph;
}

int32_t TENON_CALL vulkan_graph_end(tenon_device *device, tenon_device_queue *queue,
                                    tenon_device_graph **out, tenon_error *error)
{
    tenon_device_graph *graph;
    VkResult result;
    int32_t status = TENON_OK;

    if (device == NULL || queue == NULL || out == NULL)
        return vulkan_null_pointer("end needs device, queue and out", error);
    *out = NULL;
    if (queue->graph != NULL) vulkan_settle(queue);
    graph = take(queue);
    if (graph == NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_NOT_OPEN, TENON_SCOPE_CALL,
                          "nothing is being recorded on this queue");
    /* The host may read what it makes once its fence is there. */
    order(device, graph->batch.commands,
          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
          VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
          VK_ACCESS_HOST_READ_BIT);
    result = device->api.EndCommandBuffer(graph->batch.commands);
    if (result != VK_SUCCESS)
        status = vulkan_failed(device, result, "vkEndCommandBuffer", TENON_SCOPE_CALL, error);
    else if (graph->whole != graph->batch.steps)
        status = declined(TENON_REASON_CAPTURING, "a call could only be recorded in part", error);
    if (status == TENON_OK && graph->size_count > 0) {
        graph->sizes_now = calloc(graph->size_count, sizeof *graph->sizes_now);
        if (graph->sizes_now == NULL)
            status = no_memory(graph->size_count * sizeof *graph->sizes_now, error);
    }
    if (status != TENON_OK) {
        vulkan_graph_leave(graph);
        return status;
    }
    *out = graph;
    return TENON_OK;
}

void TENON_CALL vulkan_graph_abort(tenon_device *device, tenon_device_queue *queue)
{
    tenon_device_graph *graph = device == NULL || queue == NULL ? NULL : take(queue);
    if (graph != NULL) vulkan_graph_leave(graph);
}

int32_t vulkan_graph_call(tenon_device_queue *queue, tenon_error *error)
{
    tenon_device_graph *graph = queue->graph;
    int32_t status = vulkan_answer_fault(queue, error);
    uint32_t i;

    if (status != TENON_OK) return status;
    if (graph->whole != graph->batch.steps)
        return declined(TENON_REASON_CAPTURING, "a call before was recorded in part", error);
    /* Calls follow each other behind barriers: they share their scratch memory. But what joins the last
     * step of the call before must not write what that step reads. */
    if (graph->batch.open.is_open) return TENON_OK;
    for (i = 0; i < VULKAN_PLACES; i++) graph->batch.scratch[i].at = 0;
    for (i = 0; i < VULKAN_PLACES; i++) graph->batch.scratch[i].used = 0;
    return TENON_OK;
}

void vulkan_graph_called(tenon_device_queue *queue)
{
    queue->graph->whole = queue->graph->batch.steps;
}

static vulkan_graph_cache *find(const tenon_device_graph *graph, const tenon_device_cache *cache)
{
    uint32_t i;
    for (i = 0; i < graph->cache_count; i++)
        if (graph->caches[i].cache == cache) return &graph->caches[i];
    return NULL;
}

uint64_t vulkan_graph_appended(const tenon_device_graph *graph, const tenon_device_cache *cache)
{
    const vulkan_graph_cache *one = find(graph, cache);
    return one != NULL ? one->appended : 0;
}

static int32_t find_or_add(tenon_device_graph *graph, tenon_device_cache *cache,
                           vulkan_graph_cache **out, tenon_error *error)
{
    void *items = graph->caches;
    int32_t status;

    *out = find(graph, cache);
    if (*out != NULL) return TENON_OK;
    status = make_room(&items, graph->cache_count, &graph->cache_room, sizeof **out, error);
    graph->caches = items;
    if (status != TENON_OK) return status;
    *out = &graph->caches[graph->cache_count++];
    **out = (vulkan_graph_cache){.cache = cache};
    return TENON_OK;
}

int32_t vulkan_graph_append(tenon_device_graph *graph, tenon_device_cache *cache, uint64_t tokens,
                            tenon_error *error)
{
    vulkan_graph_cache *one;
    int32_t status = find_or_add(graph, cache, &one, error);

    if (status == TENON_OK) one->appended += tokens; /* checked against the capacity */
    return status;
}

int32_t vulkan_graph_attend(tenon_device_graph *graph, tenon_device_cache *cache, uint64_t tokens,
                            tenon_error *error)
{
    vulkan_graph_cache *one;
    int32_t status = find_or_add(graph, cache, &one, error);

    if (status == TENON_OK && tokens > one->appended && tokens - one->appended > one->needed)
        one->needed = tokens - one->appended;
    return status;
}

int32_t vulkan_graph_place(tenon_device_graph *graph, const vulkan_dispatch *dispatch,
                           vulkan_span *out, tenon_error *error)
{
    const uint64_t bytes = sizeof(VkDispatchIndirectCommand);
    void *items = graph->sizes;
    int32_t status;

    if (graph->size_count == MOST_SIZES)
        return declined(TENON_REASON_UNSUPPORTED_SHAPE, "too much attention for one sequence",
                        error);
    if (graph->arguments == NULL) {
        status = vulkan_memory_make(graph->device, VULKAN_MAIN, MOST_SIZES * bytes,
                                    TENON_SCOPE_CALL, &graph->arguments, error);
        if (status != TENON_OK) return status;
    }
    status = make_room(&items, graph->size_count, &graph->size_room, sizeof *graph->sizes, error);
    graph->sizes = items;
    if (status != TENON_OK) return status;
    graph->sizes[graph->size_count] = (vulkan_graph_size){
        .reach = *dispatch->reach,
        .before = vulkan_graph_appended(graph, dispatch->reach->cache),
        .y = dispatch->groups[1],
        .z = dispatch->groups[2]};
    *out = (vulkan_span){graph->arguments, graph->size_count * bytes, bytes};
    graph->size_count++;
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------- launching */

static int32_t check_caches(const tenon_device_graph *graph, tenon_error *error)
{
    uint32_t i;

    for (i = 0; i < graph->cache_count; i++) {
        const vulkan_graph_cache *one = &graph->caches[i];
        uint64_t length = one->cache->length;
        if (length < one->needed || one->appended > one->cache->desc.capacity - length)
            return tenon_fail_amount(error, TENON_DECLINED, TENON_REASON_CAPACITY, TENON_SCOPE_CALL,
                                     one->appended, one->cache->desc.capacity - length,
                                     "a cache is too short or has no room");
    }
    return TENON_OK;
}

/* Computes the workgroups of this launch. 0: they are as they were. */
static int measure(tenon_device_graph *graph)
{
    uint32_t i;
    int changed = 0;

    for (i = 0; i < graph->size_count; i++) {
        const vulkan_graph_size *size = &graph->sizes[i];
        VkDispatchIndirectCommand *now = &graph->sizes_now[i];
        uint32_t x = vulkan_reach_groups(&size->reach, size->reach.cache->length + size->before);
        changed |= now->x != x;
        *now = (VkDispatchIndirectCommand){x, size->y, size->z};
    }
    return changed;
}

/* The workgroups to the device, between the launch before and this one. */
static void record_sizes(const tenon_device *device, VkCommandBuffer commands,
                         const tenon_device_graph *graph)
{
    const vulkan_memory *to = graph->arguments;

    order(device, commands,
          VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
              VK_PIPELINE_STAGE_TRANSFER_BIT,
          VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
          VK_ACCESS_TRANSFER_WRITE_BIT);
    device->api.CmdUpdateBuffer(commands, to->buffer, to->offset,
                                graph->size_count * sizeof *graph->sizes_now, graph->sizes_now);
    order(device, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
          VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT, VK_ACCESS_INDIRECT_COMMAND_READ_BIT);
}

int32_t TENON_CALL vulkan_graph_launch(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_graph *graph, tenon_error *error)
{
    int32_t status;
    uint32_t i;

    if (device == NULL || queue == NULL || graph == NULL)
        return vulkan_null_pointer("launch needs device, queue and graph", error);
    if (graph->device != device)
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                          "a sequence of another device");
    status = vulkan_call_begin(queue, error);
    if (status == TENON_OK) status = check_caches(graph, error);
    if (status != TENON_OK) return status;
    vulkan_lock_take(&graph->lock);
    if (measure(graph)) record_sizes(device, queue->recording->commands, graph);
    status = vulkan_queue_launch(queue, graph, error);
    /* Nobody knows what is there now. */
    if (status != TENON_OK && graph->size_count > 0)
        memset(graph->sizes_now, 0, graph->size_count * sizeof *graph->sizes_now);
    vulkan_lock_give(&graph->lock);
    if (status != TENON_OK) return status;
    for (i = 0; i < graph->cache_count; i++)
        graph->caches[i].cache->length += graph->caches[i].appended;
    return TENON_OK;
}

void TENON_CALL vulkan_graph_release(tenon_device *device, tenon_device_graph *graph)
{
    if (device != NULL && graph != NULL) vulkan_graph_leave(graph); /* batches in flight keep it */
}
