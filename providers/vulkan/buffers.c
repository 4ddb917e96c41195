/* memory_v1: buffers of the host on a device. */
#include "import.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

#define STAGE_BYTES (UINT64_C(4) << 20) /* of a write at a time */

/* -------------------------------------------------------------------------------- the registry */

static tenon_device_buffer **bucket_of(tenon_device *device, const void *buffer)
{
    return &device->buffers[((uintptr_t)buffer >> 5) % VULKAN_BUFFER_BUCKETS];
}

vulkan_memory *vulkan_buffer_memory(tenon_device *device, const void *buffer)
{
    const tenon_device_buffer *at;
    vulkan_memory *memory = NULL;

    vulkan_lock_take(&device->buffer_lock);
    for (at = *bucket_of(device, buffer); at != NULL && memory == NULL; at = at->next)
        if (at == buffer) memory = at->memory;
    vulkan_lock_give(&device->buffer_lock);
    return memory;
}

int32_t TENON_CALL vulkan_buffer_alloc(tenon_device *device, uint64_t bytes,
                                       tenon_device_buffer **out, tenon_error *error)
{
    tenon_device_buffer *self, **bucket;
    int32_t status;

    if (device == NULL || out == NULL)
        return vulkan_null_pointer("alloc needs device and out", error);
    *out = NULL;
    if (bytes == 0 || bytes % 4 != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL,
                          "bytes must be at least 4 and a multiple of 4");
    self = calloc(1, sizeof *self);
    if (self == NULL)
        return vulkan_no_memory(sizeof *self, TENON_SCOPE_CALL, "no memory for a buffer", error);
    status = vulkan_memory_make(device, VULKAN_MAIN, bytes, TENON_SCOPE_CALL, &self->memory, error);
    if (status != TENON_OK) {
        free(self);
        return status;
    }
    bucket = bucket_of(device, self);
    vulkan_lock_take(&device->buffer_lock);
    self->next = *bucket;
    *bucket = self;
    vulkan_lock_give(&device->buffer_lock);
    atomic_fetch_add(&device->objects, 1);
    *out = self;
    return TENON_OK;
}

void TENON_CALL vulkan_buffer_free(tenon_device *device, tenon_device_buffer *buffer)
{
    tenon_device_buffer **at;

    if (device == NULL || buffer == NULL) return;
    vulkan_lock_take(&device->buffer_lock);
    for (at = bucket_of(device, buffer); *at != NULL && *at != buffer; at = &(*at)->next) {}
    if (*at != NULL) *at = buffer->next;
    vulkan_lock_give(&device->buffer_lock);
    vulkan_memory_abandon(device, buffer->memory); /* batches in flight keep it alive */
    free(buffer);
    atomic_fetch_sub(&device->objects, 1);
}

/* --------------------------------------------------------------------------------- transfers */

static int32_t check(tenon_device *device, tenon_device_queue *queue,
                     const tenon_device_buffer *buffer, uint64_t offset, uint64_t bytes,
                     vulkan_span *out, tenon_error *error)
{
    uint64_t end;

    if (device == NULL || queue == NULL || buffer == NULL)
        return vulkan_null_pointer("device, queue or buffer", error);
    out->memory = vulkan_buffer_memory(device, buffer);
    if (out->memory == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                          "not a buffer of this device");
    if (offset % 4 != 0 || bytes % 4 != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL,
                          "offset and bytes must be multiples of 4");
    if (!tenon_add_u64(offset, bytes, &end) || end > out->memory->bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                                 bytes, out->memory->bytes, "past the end of the buffer");
    out->offset = offset;
    out->bytes = bytes;
    return TENON_OK;
}

int32_t TENON_CALL vulkan_buffer_write(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_buffer *buffer, uint64_t offset,
                                       const void *from, uint64_t bytes, tenon_error *error)
{
    const uint8_t *source = from;
    vulkan_span to = {NULL, 0, 0}, stage;
    uint64_t done, part;
    int32_t status = check(device, queue, buffer, offset, bytes, &to, error);

    if (status != TENON_OK) return status;
    if (bytes == 0) return TENON_OK;
    if (from == NULL) return vulkan_null_pointer("from", error);
    status = vulkan_call_begin(queue, error);
    if (status != TENON_OK) return status;
    if (device->gpu->unified && !vulkan_in_use(queue, to.memory)) {
        memcpy(to.memory->mapped + offset, from, (size_t)bytes);
        return TENON_OK;
    }
    for (done = 0; done < bytes && status == TENON_OK; done += part) {
        part = vulkan_least(bytes - done, STAGE_BYTES);
        status = vulkan_call_begin(queue, error);
        if (status == TENON_OK) status = vulkan_scratch(queue, VULKAN_STAGING, part, &stage, error);
        if (status != TENON_OK) break;
        memcpy(stage.memory->mapped + stage.offset, source + done, (size_t)part);
        status = vulkan_record_copy(queue, (vulkan_span){to.memory, offset + done, part}, stage,
                                    error);
        if (status == TENON_OK) status = vulkan_call_end(queue, 0, error);
    }
    return status;
}

int32_t TENON_CALL vulkan_buffer_read(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_buffer *buffer, uint64_t offset, void *to,
                                      uint64_t bytes, tenon_error *error)
{
    vulkan_span from = {NULL, 0, 0}, part = {NULL, 0, 0};
    uint8_t *target = to;
    uint64_t done;
    int32_t status = check(device, queue, buffer, offset, bytes, &from, error);

    if (status != TENON_OK) return status;
    if (bytes != 0 && to == NULL) return vulkan_null_pointer("to", error);
    if (device->gpu->unified) {
        status = vulkan_queue_finish(queue, error);
        if (status == TENON_OK && bytes != 0)
            memcpy(to, from.memory->mapped + offset, (size_t)bytes);
        return status;
    }
    if (vulkan_import_pays(device, bytes)) status = vulkan_import(device, to, bytes, &part, error);
    if (part.memory != NULL) {
        status = vulkan_import_fill(queue, &part, &from, 1, error);
        vulkan_memory_release(device, part.memory);
        return status;
    }
    for (done = 0; done < bytes && status == TENON_OK; done += part.bytes) {
        part = (vulkan_span){from.memory, offset + done, vulkan_least(bytes - done, STAGE_BYTES)};
        status = vulkan_call_begin(queue, error);
        if (status == TENON_OK) status = vulkan_download(queue, part, target + done, error);
    }
    return status;
}

int32_t TENON_CALL vulkan_buffer_copy(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_buffer *to, uint64_t to_offset,
                                      const tenon_device_buffer *from, uint64_t from_offset,
                                      uint64_t bytes, tenon_error *error)
{
    vulkan_span target = {NULL, 0, 0}, source = {NULL, 0, 0};
    int32_t status = check(device, queue, to, to_offset, bytes, &target, error);

    if (status == TENON_OK) status = check(device, queue, from, from_offset, bytes, &source, error);
    if (status != TENON_OK || bytes == 0) return status;
    status = vulkan_call_begin(queue, error);
    if (status == TENON_OK) status = vulkan_record_copy(queue, target, source, error);
    if (status == TENON_OK) status = vulkan_call_end(queue, 0, error);
    return status;
}

int32_t TENON_CALL vulkan_buffer_fence(tenon_device *device, tenon_device_queue *queue,
                                       tenon_error *error)
{
    if (device == NULL || queue == NULL)
        return vulkan_null_pointer("fence needs device and queue", error);
    return vulkan_queue_finish(queue, error);
}

int32_t TENON_CALL vulkan_memory_info(tenon_device *device, tenon_memory_info *out,
                                      tenon_error *error)
{
    uint64_t left;

    if (device == NULL || out == NULL)
        return vulkan_null_pointer("info needs device and out", error);
    if (out->struct_size != sizeof *out || out->abi_version != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                                 sizeof *out, out->struct_size,
                                 "tenon_memory_info is not of version 1");
    left = vulkan_memory_available(device);
    *out = (tenon_memory_info){
        TENON_HEAD(tenon_memory_info), .total = device->gpu->info.memory_total,
        .used = vulkan_memory_used(device), .objects = atomic_load(&device->objects)};
    out->free = vulkan_least(left, out->total);
    return TENON_OK;
}
