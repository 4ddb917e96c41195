/* Batches, submitting and waiting: commands.h. Recording is record.c. */
#include "graph.h"
#include "import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_PER_BATCH 48u /* then it is submitted, so that the device works while others record */
#define BYTES_PER_BATCH (UINT64_C(4) << 20) /* of scratch memory, the same */
#define LIMBO_BYTES (UINT64_C(4) << 20)     /* of memory that waits only for commands to be done */
#define CHUNK_BYTES (UINT64_C(1) << 20)
#define KEPT_BYTES (UINT64_C(16) << 20) /* scratch memory that a batch keeps for its next use */

/* ------------------------------------------------------------------------- open and close */

int32_t TENON_CALL vulkan_queue_open(tenon_device *device, tenon_device_queue **out,
                                     tenon_error *error)
{
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    tenon_device_queue *self;
    VkResult result;
    uint32_t i;

    if (device == NULL || out == NULL)
        return vulkan_null_pointer("queue_open needs device and out", error);
    *out = NULL;
    self = calloc(1, sizeof *self);
    if (self == NULL)
        return vulkan_no_memory(sizeof *self, TENON_SCOPE_DEVICE, "no memory for a queue", error);
    self->device = device;
    pool.queueFamilyIndex = device->gpu->family;
    result = device->api.CreateCommandPool(device->handle, &pool, NULL, &self->commands);
    buffers.commandPool = self->commands;
    for (i = 0; i < VULKAN_BATCHES && result == VK_SUCCESS; i++) {
        vulkan_batch *batch = &self->batches[i];
        result = device->api.AllocateCommandBuffers(device->handle, &buffers, &batch->commands);
        if (result == VK_SUCCESS)
            result = device->api.CreateFence(device->handle, &fence, NULL, &batch->fence);
    }
    if (result != VK_SUCCESS) {
        vulkan_queue_close(self);
        return vulkan_failed(device, result, "a queue", TENON_SCOPE_DEVICE, error);
    }
    *out = self;
    return TENON_OK;
}

static void free_arena(tenon_device *device, vulkan_arena *arena)
{
    uint32_t i;
    for (i = 0; i < arena->count; i++) vulkan_memory_release(device, arena->chunks[i]);
    free(arena->chunks);
    *arena = (vulkan_arena){0};
}

static void release_held(tenon_device *device, vulkan_batch *batch)
{
    uint64_t i;
    for (i = 0; i < batch->held_count; i++) {
        atomic_fetch_sub(&batch->held[i]->pinned, batch->pins);
        vulkan_memory_release(device, batch->held[i]);
    }
    batch->held_count = 0;
    if (batch->graph == NULL) return;
    atomic_fetch_sub(&device->launches, 1);
    vulkan_graph_leave(batch->graph);
    batch->graph = NULL;
}

void vulkan_batch_free(tenon_device *device, vulkan_batch *batch)
{
    uint32_t i;

    release_held(device, batch);
    free(batch->held);
    for (i = 0; i < VULKAN_PLACES; i++) free_arena(device, &batch->scratch[i]);
    for (i = 0; i < batch->pool_count; i++)
        device->api.DestroyDescriptorPool(device->handle, batch->pools[i], NULL);
    free(batch->pools);
    if (batch->fence != VK_NULL_HANDLE)
        device->api.DestroyFence(device->handle, batch->fence, NULL);
}

void TENON_CALL vulkan_queue_close(tenon_device_queue *queue)
{
    tenon_device *device;
    uint32_t i;

    if (queue == NULL) return;
    device = queue->device;
    vulkan_graph_abort(device, queue);
    if (queue->flying > 0) {
        vulkan_lock_take(&device->queue_lock);
        (void)device->api.DeviceWaitIdle(device->handle); /* a lost device is idle too */
        vulkan_lock_give(&device->queue_lock);
    }
    for (i = 0; i < VULKAN_BATCHES; i++) vulkan_batch_free(device, &queue->batches[i]);
    /* Frees the command buffers too. */
    if (queue->commands != VK_NULL_HANDLE)
        device->api.DestroyCommandPool(device->handle, queue->commands, NULL);
    free(queue);
}

/* ------------------------------------------------------------------------------- lost work */

/* Remembers that work which had been promised is gone. */
static int32_t lose(tenon_device_queue *queue, int32_t status, const char *what, VkResult result,
                    tenon_error *error)
{
    snprintf(queue->fault_text, sizeof queue->fault_text, "work was lost: %s: %s", what,
             vulkan_result_name(result));
    queue->fault = status == TENON_DEVICE_LOST ? TENON_DEVICE_LOST : TENON_LOST;
    return tenon_fail(error, status, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_DEVICE,
                      queue->fault_text);
}

int32_t vulkan_answer_fault(const tenon_device_queue *queue, tenon_error *error)
{
    if (queue->fault != TENON_OK)
        return tenon_fail(error, queue->fault, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_DEVICE,
                          queue->fault_text);
    if (atomic_load(&queue->device->lost) != 0)
        return tenon_fail(error, TENON_DEVICE_LOST, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_DEVICE,
                          "the device was lost");
    return TENON_OK;
}

/* Answers what was lost, and that nothing but calls of operations can be recorded. */
static int32_t check_idle(const tenon_device_queue *queue, tenon_error *error)
{
    if (queue->graph != NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                          "calls are being recorded on this queue");
    return vulkan_answer_fault(queue, error);
}

/* ---------------------------------------------------------------------------------- batches */

/* Gives back what a batch held. It is not in flight. */
static void clear_batch(tenon_device *device, vulkan_batch *batch)
{
    uint32_t i, k;

    release_held(device, batch);
    for (i = 0; i < batch->pool_count; i++)
        (void)device->api.ResetDescriptorPool(device->handle, batch->pools[i], 0);
    for (i = 0; i < VULKAN_PLACES; i++) {
        vulkan_arena *arena = &batch->scratch[i];
        uint64_t kept = 0;
        for (k = 0; k < arena->count && kept + arena->chunks[k]->bytes <= KEPT_BYTES; k++)
            kept += arena->chunks[k]->bytes;
        while (arena->count > k) vulkan_memory_release(device, arena->chunks[--arena->count]);
        arena->at = 0;
        arena->used = 0;
    }
    batch->open.is_open = 0;
    batch->pool_at = batch->steps = batch->promised = batch->submitted = 0;
    batch->bytes = 0;
}

/* The device is done with the oldest batch in flight. */
static void drop_oldest(tenon_device_queue *queue)
{
    vulkan_batch *batch = &queue->batches[queue->oldest];

    queue->oldest = (queue->oldest + 1) % VULKAN_BATCHES;
    queue->flying--;
    clear_batch(queue->device, batch);
}

/* Waits for the oldest batch in flight, at most timeout. VK_TIMEOUT: it is not done. */
static VkResult retire_oldest(tenon_device_queue *queue, uint64_t timeout)
{
    tenon_device *device = queue->device;
    vulkan_batch *batch = &queue->batches[queue->oldest];
    VkResult result = timeout == 0 ? device->api.GetFenceStatus(device->handle, batch->fence)
                                   : device->api.WaitForFences(device->handle, 1, &batch->fence,
                                                               VK_TRUE, timeout);

    if (result == VK_NOT_READY) return VK_TIMEOUT;
    if (result == VK_TIMEOUT) return result;
    if (result == VK_SUCCESS) result = device->api.ResetFences(device->handle, 1, &batch->fence);
    if (result != VK_SUCCESS) return result;
    drop_oldest(queue);
    return VK_SUCCESS;
}

/* Waits for the oldest batch; its work was promised to somebody. */
static int32_t wait_oldest(tenon_device_queue *queue, tenon_error *error)
{
    VkResult result = retire_oldest(queue, queue->device->provider->settings.timeout_ns);

    if (result == VK_SUCCESS) return TENON_OK;
    if (result == VK_TIMEOUT) return lose(queue, TENON_TIMEOUT, "waiting", result, error);
    if (result == VK_ERROR_DEVICE_LOST) {
        atomic_store(&queue->device->lost, 1);
        return lose(queue, TENON_DEVICE_LOST, "waiting", result, error);
    }
    return lose(queue, TENON_LOST, "waiting", result, error);
}

/* Takes back what is done, without waiting. What fails here is met again by whoever waits. */
static void retire_done(tenon_device_queue *queue)
{
    while (queue->flying > 0 && retire_oldest(queue, 0) == VK_SUCCESS) {}
}

static int32_t open_batch(tenon_device_queue *queue, tenon_error *error)
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    tenon_device *device = queue->device;
    vulkan_batch *batch;
    VkResult result;

    if (queue->flying == VULKAN_BATCHES) {
        int32_t status = wait_oldest(queue, error);
        if (status != TENON_OK) return status;
    }
    batch = &queue->batches[(queue->oldest + queue->flying) % VULKAN_BATCHES];
    result = device->api.BeginCommandBuffer(batch->commands, &begin);
    if (result != VK_SUCCESS)
        return vulkan_failed(device, result, "vkBeginCommandBuffer", TENON_SCOPE_CALL, error);
    batch->serial = atomic_fetch_add(&device->batches, 1) + 1;
    batch->ordered = 0; /* work of the batch before it may still run */
    queue->recording = batch;
    return TENON_OK;
}

int32_t vulkan_call_begin(tenon_device_queue *queue, tenon_error *error)
{
    int32_t status = check_idle(queue, error);
    if (status != TENON_OK) return status;
    retire_done(queue);
    /* What is made and freed in a loop must not pile up behind the device. */
    while (status == TENON_OK && queue->flying > 0 &&
           atomic_load(&queue->device->memory.limbo) >= LIMBO_BYTES)
        status = wait_oldest(queue, error);
    if (status != TENON_OK) return status;
    return queue->recording != NULL ? TENON_OK : open_batch(queue, error);
}

/* Submits the batch being recorded, and a graph behind it (NULL: none). promised: calls in it that
 * were told OK; when it cannot be submitted and there are such, their work is lost. */
static int32_t submit(tenon_device_queue *queue, tenon_device_graph *graph, tenon_error *error)
{
    tenon_device *device = queue->device;
    vulkan_batch *batch = queue->recording;
    const VkCommandBuffer commands[2] = {batch->commands,
                                         graph != NULL ? graph->batch.commands : VK_NULL_HANDLE};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = graph != NULL ? 2 : 1,
                               .pCommandBuffers = commands};
    uint32_t promised = batch->promised;
    VkResult result;

    vulkan_settle(queue);
    vulkan_order(queue, 1);
    queue->recording = NULL;
    result = device->api.EndCommandBuffer(batch->commands);
    if (result == VK_SUCCESS) {
        vulkan_lock_take(&device->queue_lock);
        result = device->api.QueueSubmit(device->queue, 1, &info, batch->fence);
        vulkan_lock_give(&device->queue_lock);
    }
    if (result == VK_SUCCESS) {
        batch->submitted = 1;
        queue->flying++;
        if (graph == NULL) return TENON_OK;
        atomic_fetch_add(&graph->users, 1);
        atomic_fetch_add(&device->launches, 1);
        batch->graph = graph;
        return TENON_OK;
    }
    clear_batch(device, batch);
    if (result == VK_ERROR_DEVICE_LOST) {
        atomic_store(&device->lost, 1);
        return lose(queue, TENON_DEVICE_LOST, "vkQueueSubmit", result, error);
    }
    if (promised > 0) return lose(queue, TENON_LOST, "vkQueueSubmit", result, error);
    return vulkan_failed(device, result, "vkQueueSubmit", TENON_SCOPE_CALL, error);
}

static int32_t wait_all(tenon_device_queue *queue, tenon_error *error)
{
    int32_t status = TENON_OK;
    while (queue->flying > 0 && status == TENON_OK) status = wait_oldest(queue, error);
    return status;
}

int32_t vulkan_call_end(tenon_device_queue *queue, int complete, tenon_error *error)
{
    vulkan_batch *batch = queue->recording;
    int32_t status;

    if (queue->graph != NULL) {
        vulkan_graph_called(queue);
        return TENON_OK;
    }
    if (!complete) {
        if (batch->steps < STEPS_PER_BATCH && batch->bytes < BYTES_PER_BATCH &&
            atomic_load(&queue->device->memory.limbo) < LIMBO_BYTES) {
            batch->promised++;
            return TENON_OK;
        }
        status = submit(queue, NULL, error);
        return status;
    }
    status = submit(queue, NULL, error);
    return status == TENON_OK ? wait_all(queue, error) : status;
}

int32_t vulkan_call_spoiled(tenon_device_queue *queue, int32_t status, tenon_error *error)
{
    if (queue->fault != TENON_OK) return status;
    return lose(queue, TENON_LOST, "a change half recorded", VK_ERROR_UNKNOWN, error);
}

int32_t vulkan_queue_finish(tenon_device_queue *queue, tenon_error *error)
{
    int32_t status = check_idle(queue, error);

    if (status != TENON_OK) return status;
    if (queue->recording != NULL && queue->recording->steps > 0)
        status = submit(queue, NULL, error);
    return status == TENON_OK ? wait_all(queue, error) : status;
}

void vulkan_queue_drain(tenon_device_queue *queue)
{
    tenon_device *device = queue->device;
    tenon_error ignored = {TENON_HEAD(tenon_error), .status = TENON_OK};
    int32_t status = TENON_OK;
    VkResult result;

    if (queue->recording != NULL) status = submit(queue, NULL, &ignored);
    if (wait_all(queue, &ignored) == TENON_OK && status == TENON_OK) return;
    vulkan_lock_take(&device->queue_lock);
    result = device->api.DeviceWaitIdle(device->handle); /* a lost device is idle too */
    vulkan_lock_give(&device->queue_lock);
    if (result == VK_ERROR_DEVICE_LOST) atomic_store(&device->lost, 1);
    retire_done(queue);
    /* Its fences never come. What it held must not outlive the call: the driver would give back pages
     * that are somebody else's by then. No batch is begun on it again. */
    if (atomic_load(&device->lost) != 0)
        while (queue->flying > 0) drop_oldest(queue);
}

int32_t vulkan_queue_launch(tenon_device_queue *queue, tenon_device_graph *graph,
                            tenon_error *error)
{
    return submit(queue, graph, error);
}

/* -------------------------------------------------------------------------- memory in use */

/* Graphs that are not in flight touch nothing of what they keep alive. */
static int is_used(tenon_device *device, vulkan_memory *memory)
{
    uint32_t pinned = atomic_load(&memory->pinned);
    if (pinned != 0 && atomic_load(&device->launches) != 0) return 1;
    return atomic_load(&memory->users) != 1 + pinned;
}

int vulkan_in_use(tenon_device_queue *queue, vulkan_memory *memory)
{
    if (!is_used(queue->device, memory)) return 0;
    retire_done(queue);
    return is_used(queue->device, memory);
}

/* A chunk of at least bytes behind the last one. */
static int32_t grow_arena(tenon_device *device, vulkan_arena *arena, uint32_t place, uint64_t bytes,
                          tenon_error *error)
{
    uint64_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    vulkan_memory *chunk;
    int32_t status;

    if (arena->count == arena->room) {
        uint32_t room = arena->room != 0 ? arena->room * 2 : 8;
        vulkan_memory **more = realloc(arena->chunks, room * sizeof *more);
        if (more == NULL)
            return vulkan_no_memory(room * sizeof *more, TENON_SCOPE_CALL,
                                    "no memory to record a call", error);
        arena->chunks = more;
        arena->room = room;
    }
    status = vulkan_memory_make(device, place, size, TENON_SCOPE_CALL, &chunk, error);
    if (status == TENON_OK && device->flavour == VULKAN_TEXEL)
        status = vulkan_memory_view(device, chunk, TENON_SCOPE_CALL, error);
    if (status != TENON_OK) {
        vulkan_memory_release(device, chunk);
        return status;
    }
    arena->chunks[arena->count++] = chunk;
    return TENON_OK;
}

int32_t vulkan_scratch(tenon_device_queue *queue, uint32_t place, uint64_t bytes, vulkan_span *out,
                       tenon_error *error)
{
    tenon_device *device = queue->device;
    vulkan_arena *arena;
    uint64_t size;
    int32_t status;

    /* What the host may touch in place needs no second kind of memory. */
    if (place == VULKAN_STAGING && device->gpu->unified) place = VULKAN_MAIN;
    arena = &queue->recording->scratch[place];
    if (bytes > UINT64_MAX / 2)
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "scratch memory");
    size = vulkan_round_up(bytes != 0 ? bytes : 1, VULKAN_ALIGNMENT);
    while (arena->at < arena->count && arena->chunks[arena->at]->bytes - arena->used < size) {
        arena->at++;
        arena->used = 0;
    }
    if (arena->at == arena->count) {
        status = grow_arena(device, arena, place, size, error);
        if (status != TENON_OK) return status;
        arena->used = 0;
    }
    *out = (vulkan_span){arena->chunks[arena->at], arena->used, bytes};
    arena->used += size;
    queue->recording->bytes += size;
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------ uploads */

/* The device itself reads the caller's memory. */
static int32_t upload_import(tenon_device_queue *queue, vulkan_span to, vulkan_span from,
                             tenon_error *error)
{
    int32_t status = vulkan_call_begin(queue, error);

    if (status != TENON_OK) return status;
    status = vulkan_record_copy(queue, to, from, error);
    if (status == TENON_OK) status = vulkan_call_end(queue, 1, error);
    if (status != TENON_OK) vulkan_queue_drain(queue);
    return status;
}

int32_t vulkan_upload(tenon_device *device, vulkan_span to, const void *from, tenon_error *error)
{
    tenon_device_queue *queue = device->uploads;
    const uint8_t *bytes = from;
    int32_t status = TENON_OK;
    uint64_t done, part;
    vulkan_span stage = {NULL, 0, 0};

    if (device->gpu->unified) {
        memcpy(to.memory->mapped + to.offset, from, (size_t)to.bytes);
        return TENON_OK;
    }
    vulkan_lock_take(&device->upload_lock);
    if (vulkan_import_pays(device, to.bytes))
        status = vulkan_import(device, from, to.bytes, &stage, error);
    if (stage.memory != NULL) {
        status = upload_import(queue, to, stage, error);
        vulkan_memory_release(device, stage.memory);
        vulkan_lock_give(&device->upload_lock);
        return status;
    }
    for (done = 0; done < to.bytes && status == TENON_OK; done += part) {
        part = vulkan_least(to.bytes - done, 4 * CHUNK_BYTES);
        status = vulkan_call_begin(queue, error);
        if (status == TENON_OK) status = vulkan_scratch(queue, VULKAN_STAGING, part, &stage, error);
        if (status != TENON_OK) break;
        memcpy(stage.memory->mapped + stage.offset, bytes + done, (size_t)part);
        status = vulkan_record_copy(queue, (vulkan_span){to.memory, to.offset + done, part}, stage,
                                    error);
        if (status == TENON_OK) status = vulkan_call_end(queue, 1, error);
    }
    vulkan_lock_give(&device->upload_lock);
    return status;
}
