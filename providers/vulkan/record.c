/* Dispatches and copies as commands of a batch: commands.h. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define SETS_PER_POOL 64u

void vulkan_order(tenon_device_queue *queue, int to_host)
{
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                                  VK_PIPELINE_STAGE_TRANSFER_BIT;

    if (to_host) memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    queue->device->api.CmdPipelineBarrier(queue->recording->commands, stages,
                                          to_host ? VK_PIPELINE_STAGE_HOST_BIT : stages, 0, 1,
                                          &memory, 0, NULL, 0, NULL);
}

/* Keeps memory alive until the batch being recorded is done. */
static int32_t hold(tenon_device_queue *queue, vulkan_memory *memory, tenon_error *error)
{
    vulkan_batch *batch = queue->recording;

    if (atomic_load(&memory->batch) == batch->serial) return TENON_OK;
    if (batch->held_count == batch->held_room) {
        uint64_t room = batch->held_room != 0 ? batch->held_room * 2 : 64;
        vulkan_memory **more = realloc(batch->held, (size_t)room * sizeof *more);
        if (more == NULL)
            return vulkan_no_memory(room * sizeof *more, TENON_SCOPE_CALL,
                                    "no memory to record a call", error);
        batch->held = more;
        batch->held_room = room;
    }
    atomic_fetch_add(&memory->users, 1);
    atomic_fetch_add(&memory->pinned, batch->pins);
    atomic_store(&memory->batch, batch->serial);
    batch->held[batch->held_count++] = memory;
    return TENON_OK;
}

static int32_t add_pool(tenon_device *device, vulkan_batch *batch, tenon_error *error)
{
    const VkDescriptorPoolSize sizes[2] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, SETS_PER_POOL * VULKAN_MOST_BINDINGS},
        {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, SETS_PER_POOL * VULKAN_MOST_BINDINGS}};
    const VkDescriptorPoolCreateInfo wanted = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = SETS_PER_POOL,
        .poolSizeCount = device->flavour == VULKAN_TEXEL ? 2 : 1,
        .pPoolSizes = sizes};
    VkDescriptorPool *more = realloc(batch->pools, (batch->pool_count + 1u) * sizeof *more);
    VkResult result;

    if (more == NULL)
        return vulkan_no_memory((batch->pool_count + 1u) * sizeof *more, TENON_SCOPE_CALL,
                                "no memory to record a call", error);
    batch->pools = more;
    result = device->api.CreateDescriptorPool(device->handle, &wanted, NULL,
                                              &batch->pools[batch->pool_count]);
    if (result != VK_SUCCESS)
        return vulkan_failed(device, result, "vkCreateDescriptorPool", TENON_SCOPE_CALL, error);
    batch->pool_count++;
    return TENON_OK;
}

static int32_t make_set(tenon_device_queue *queue, const vulkan_pipeline *pipeline,
                        VkDescriptorSet *out, tenon_error *error)
{
    tenon_device *device = queue->device;
    vulkan_batch *batch = queue->recording;
    VkDescriptorSetAllocateInfo wanted = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                          .descriptorSetCount = 1,
                                          .pSetLayouts = &pipeline->layout->set};
    VkResult result;

    for (;; batch->pool_at++) {
        if (batch->pool_at == batch->pool_count) {
            int32_t status = add_pool(device, batch, error);
            if (status != TENON_OK) return status;
        }
        wanted.descriptorPool = batch->pools[batch->pool_at];
        result = device->api.AllocateDescriptorSets(device->handle, &wanted, out);
        if (result == VK_SUCCESS) return TENON_OK;
        if (result != VK_ERROR_OUT_OF_POOL_MEMORY && result != VK_ERROR_FRAGMENTED_POOL)
            return vulkan_failed(device, result, "vkAllocateDescriptorSets", TENON_SCOPE_CALL,
                                 error);
    }
}

static void write_binding(const vulkan_pipeline *pipeline, VkDescriptorSet set, uint32_t binding,
                          const vulkan_span *span, VkDescriptorBufferInfo *buffer,
                          VkWriteDescriptorSet *out)
{
    *out = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = set,
                                  .dstBinding = binding,
                                  .descriptorCount = 1};
    if ((pipeline->texel >> binding & 1) != 0) {
        out->descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
        out->pTexelBufferView = &span->memory->view; /* all of the memory */
        return;
    }
    *buffer = (VkDescriptorBufferInfo){span->memory->buffer, span->memory->offset + span->offset,
                                       span->bytes};
    out->descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    out->pBufferInfo = buffer;
}

/* Does all of a dispatch that can fail. */
static int32_t make_ready(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                          vulkan_ready *out, tenon_error *error)
{
    const vulkan_pipeline *pipeline = dispatch->pipeline;
    VkDescriptorBufferInfo buffers[VULKAN_MOST_BINDINGS];
    VkWriteDescriptorSet writes[VULKAN_MOST_BINDINGS];
    int32_t status;
    uint32_t i;

    *out = (vulkan_ready){
        .pipeline = pipeline, .beside = dispatch->beside, .push_bytes = dispatch->push_bytes};
    if (dispatch->span_count != pipeline->bindings || dispatch->push_bytes != pipeline->push_bytes)
        return tenon_fail(error, TENON_INTERNAL, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_CALL,
                          "a kernel is called with what it does not bind");
    memcpy(out->push, dispatch->push, dispatch->push_bytes);
    memcpy(out->groups, dispatch->groups, sizeof out->groups);
    for (i = 0; i < dispatch->span_count; i++) {
        status = hold(queue, dispatch->spans[i].memory, error);
        if (status != TENON_OK) return status;
    }
    for (i = 0; i < dispatch->other_count; i++) {
        status = hold(queue, dispatch->others[i], error);
        if (status != TENON_OK) return status;
    }
    status = make_set(queue, pipeline, &out->set, error);
    if (status == TENON_OK && queue->graph != NULL && dispatch->reach != NULL)
        status = vulkan_graph_place(queue->graph, dispatch, &out->sizes, error);
    if (status != TENON_OK) return status;
    for (i = 0; i < dispatch->span_count; i++)
        write_binding(pipeline, out->set, i, &dispatch->spans[i], &buffers[i], &writes[i]);
    queue->device->api.UpdateDescriptorSets(queue->device->handle, dispatch->span_count, writes, 0,
                                            NULL);
    return TENON_OK;
}

static void command(tenon_device_queue *queue, const vulkan_ready *ready)
{
    const vulkan_device_api *api = &queue->device->api;
    const vulkan_layout *layout = ready->pipeline->layout;
    vulkan_batch *batch = queue->recording;

    if (!ready->beside && !batch->ordered) vulkan_order(queue, 0);
    api->CmdBindPipeline(batch->commands, VK_PIPELINE_BIND_POINT_COMPUTE, ready->pipeline->handle);
    api->CmdBindDescriptorSets(batch->commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout->pipeline, 0,
                               1, &ready->set, 0, NULL);
    if (ready->push_bytes > 0)
        api->CmdPushConstants(batch->commands, layout->pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              ready->push_bytes, ready->push);
    if (ready->sizes.memory != NULL)
        api->CmdDispatchIndirect(batch->commands, ready->sizes.memory->buffer,
                                 ready->sizes.memory->offset + ready->sizes.offset);
    else
        api->CmdDispatch(batch->commands, ready->groups[0], ready->groups[1], ready->groups[2]);
    batch->ordered = 0;
}

void vulkan_settle(tenon_device_queue *queue)
{
    vulkan_open *open = &queue->recording->open;

    if (!open->is_open) return;
    open->is_open = 0;
    command(queue, &open->ready);
}

int32_t vulkan_record(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                      tenon_error *error)
{
    vulkan_ready ready;
    int32_t status = make_ready(queue, dispatch, &ready, error);

    if (status != TENON_OK) return status;
    vulkan_settle(queue);
    command(queue, &ready);
    queue->recording->steps++;
    return TENON_OK;
}

static void keep_open(vulkan_open *open, const vulkan_dispatch *dispatch, const vulkan_ready *ready,
                      const vulkan_rows *y, uint64_t tokens)
{
    open->is_open = 1;
    open->ready = *ready;
    memcpy(open->spans, dispatch->spans, dispatch->span_count * sizeof *open->spans);
    open->y = *y;
    open->tokens = tokens;
}

int32_t vulkan_record_open(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                           const vulkan_rows *y, uint64_t first, uint64_t tokens,
                           tenon_error *error)
{
    vulkan_rows made = *y;
    vulkan_ready ready;
    int32_t status = make_ready(queue, dispatch, &ready, error);

    if (status != TENON_OK) return status;
    vulkan_settle(queue);
    made.offset += first * made.stride;
    keep_open(&queue->recording->open, dispatch, &ready, &made, tokens);
    queue->recording->steps++;
    return TENON_OK;
}

int32_t vulkan_record_instead(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                              const vulkan_rows *y, uint64_t tokens, tenon_error *error)
{
    vulkan_open *open = &queue->recording->open;
    vulkan_ready ready;
    int32_t status = make_ready(queue, dispatch, &ready, error);

    if (status != TENON_OK) return status;
    ready.sizes = open->ready.sizes;
    keep_open(open, dispatch, &ready, y, tokens);
    return TENON_OK;
}

int32_t vulkan_record_copy(tenon_device_queue *queue, vulkan_span to, vulkan_span from,
                           tenon_error *error)
{
    const VkBufferCopy region = {.srcOffset = from.memory->offset + from.offset,
                                 .dstOffset = to.memory->offset + to.offset,
                                 .size = from.bytes};
    vulkan_batch *batch = queue->recording;
    int32_t status = hold(queue, to.memory, error);

    if (status == TENON_OK) status = hold(queue, from.memory, error);
    if (status != TENON_OK) return status;
    vulkan_settle(queue);
    if (!batch->ordered) vulkan_order(queue, 0);
    queue->device->api.CmdCopyBuffer(batch->commands, from.memory->buffer, to.memory->buffer, 1,
                                     &region);
    batch->ordered = 0;
    batch->steps++;
    return TENON_OK;
}
