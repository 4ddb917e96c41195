/* Checks, bindings and the way of host memory: request.h. */
#include "graph.h"

#include <string.h>

int32_t vulkan_check_head(const tenon_device *device, const tenon_device_queue *queue,
                          const void *call, size_t size, const char *name, tenon_error *error)
{
    uint32_t head[2];

    if (device == NULL || queue == NULL || call == NULL)
        return vulkan_null_pointer("device, queue or request", error);
    memcpy(head, call, sizeof head);
    if (head[0] != size || head[1] != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL, size,
                                 head[0], name);
    return TENON_OK;
}

int32_t vulkan_check_zero(const void *reserved, size_t bytes, const char *name, tenon_error *error)
{
    const uint8_t *at = reserved;
    size_t i;

    for (i = 0; i < bytes; i++)
        if (at[i] != 0)
            return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL, name);
    return TENON_OK;
}

int32_t vulkan_empty(const char *text, tenon_error *error)
{
    return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL, text);
}

int32_t vulkan_inexact(tenon_error *error)
{
    return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_CLASS, TENON_SCOPE_CALL,
                      "the device does not compute this exactly");
}

/* Where the view lies, and whether all of it is there. */
static int32_t check_place(tenon_device *device, const tenon_view *view, uint64_t bytes,
                           const char *name, tenon_error *error)
{
    const vulkan_memory *memory;
    uint64_t end;

    if (view->host != NULL && view->buffer != NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, name);
    if (view->buffer == NULL) {
        if (view->host == NULL) return vulkan_null_pointer(name, error);
        if (((uintptr_t)view->host + view->offset) % 4 != 0)
            return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL, name);
        return TENON_OK;
    }
    memory = vulkan_buffer_memory(device, view->buffer);
    if (memory == NULL)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_NO_BUFFERS, TENON_SCOPE_CALL,
                          "not a buffer of this device");
    if (view->offset % 4 != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL, name);
    if (!tenon_add_u64(view->offset, bytes, &end) || end > memory->bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                                 bytes, memory->bytes, name);
    return TENON_OK;
}

int32_t vulkan_check_rows(tenon_device *device, const tenon_view *view, uint64_t stride,
                          uint64_t tokens, uint64_t width, const char *name, tenon_error *error)
{
    uint64_t row, bytes;

    if (stride % 4 != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL, name);
    if (!tenon_mul_u64(width, 4, &row) || !tenon_mul_u64(tokens - 1, stride, &bytes) ||
        !tenon_add_u64(bytes, row, &bytes))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL, name);
    if (stride < row)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_STRIDE, TENON_SCOPE_CALL, row,
                                 stride, name);
    if (view->bytes < bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                                 bytes, view->bytes, name);
    return check_place(device, view, bytes, name, error);
}

/* ----------------------------------------------------------------------------------- bindings */

vulkan_span vulkan_bind(const vulkan_rows *rows, uint64_t first, uint64_t count, uint32_t *word)
{
    uint64_t start = rows->offset + first * rows->stride;
    uint64_t aligned = start / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;

    *word = (uint32_t)((start - aligned) / 4);
    return (vulkan_span){rows->memory, aligned,
                         start - aligned + (count - 1) * rows->stride + rows->bytes};
}

uint64_t vulkan_most_rows(const tenon_device *device, const vulkan_rows *rows)
{
    uint64_t most = device->gpu->range_limit - VULKAN_ALIGNMENT;

    if (rows->bytes > most || rows->stride / 4 > UINT32_MAX) return 0;
    if (rows->stride == 0) return TENON_UNKNOWN;
    return (most - rows->bytes) / rows->stride + 1;
}

/* --------------------------------------------------------------------------------------- jobs */

int32_t vulkan_job_begin(vulkan_job *job, tenon_device_queue *queue, tenon_error *error)
{
    *job = (vulkan_job){.queue = queue};
    return queue->graph != NULL ? vulkan_graph_call(queue, error) : vulkan_call_begin(queue, error);
}

static int32_t check_not_recorded(const tenon_device_queue *queue, tenon_error *error)
{
    if (queue->graph == NULL) return TENON_OK;
    return tenon_fail(error, TENON_DECLINED, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                      "host memory in a recorded call");
}

static uint8_t *mapped_at(const vulkan_span *span)
{
    return span->memory->mapped + span->offset;
}

int32_t vulkan_job_input(vulkan_job *job, const tenon_view *view, uint64_t stride, uint64_t tokens,
                         uint64_t width, vulkan_rows *out, tenon_error *error)
{
    tenon_device *device = job->queue->device;
    const uint8_t *from;
    vulkan_span stage, main;
    uint64_t row = width * 4, i; /* the view has been checked: nothing overflows */
    int32_t status;

    if (view->buffer != NULL) {
        *out = (vulkan_rows){vulkan_buffer_memory(device, view->buffer), view->offset, stride, row};
        return TENON_OK;
    }
    status = check_not_recorded(job->queue, error);
    if (status == TENON_OK)
        status = vulkan_scratch(job->queue, VULKAN_STAGING, tokens * row, &stage, error);
    if (status != TENON_OK) return status;
    from = (const uint8_t *)view->host + view->offset;
    if (stride == row || tokens == 1)
        memcpy(mapped_at(&stage), from, (size_t)(tokens * row));
    else
        for (i = 0; i < tokens; i++)
            memcpy(mapped_at(&stage) + i * row, from + i * stride, (size_t)row);
    main = stage;
    if (!device->gpu->unified) {
        status = vulkan_scratch(job->queue, VULKAN_MAIN, tokens * row, &main, error);
        if (status == TENON_OK) status = vulkan_record_copy(job->queue, main, stage, error);
        if (status != TENON_OK) return status;
    }
    *out = (vulkan_rows){main.memory, main.offset, row, row};
    return TENON_OK;
}

int32_t vulkan_job_output(vulkan_job *job, const tenon_view *view, uint64_t stride, uint64_t tokens,
                          uint64_t width, vulkan_rows *out, tenon_error *error)
{
    tenon_device *device = job->queue->device;
    uint64_t row = width * 4;
    vulkan_span made;
    int32_t status;

    if (view->buffer != NULL) {
        *out = (vulkan_rows){vulkan_buffer_memory(device, view->buffer), view->offset, stride, row};
        return TENON_OK;
    }
    status = check_not_recorded(job->queue, error);
    if (status == TENON_OK)
        status = vulkan_scratch(job->queue, VULKAN_MAIN, tokens * row, &made, error);
    if (status != TENON_OK) return status;
    job->returns[job->return_count].made = made;
    job->returns[job->return_count].to = (uint8_t *)view->host + view->offset;
    job->returns[job->return_count].stride = stride;
    job->returns[job->return_count].rows = tokens;
    job->returns[job->return_count].bytes = row;
    job->return_count++;
    *out = (vulkan_rows){made.memory, made.offset, row, row};
    return TENON_OK;
}

/* Where the host can read what was made, once the queue is done. Keeps it alive until read. */
static int32_t bring(tenon_device_queue *queue, vulkan_span made, vulkan_span *copy,
                     tenon_error *error)
{
    int32_t status;

    *copy = made;
    if (!queue->device->gpu->unified) {
        status = vulkan_scratch(queue, VULKAN_STAGING, made.bytes, copy, error);
        if (status == TENON_OK) status = vulkan_record_copy(queue, *copy, made, error);
        if (status != TENON_OK) return status;
    }
    atomic_fetch_add(&copy->memory->users, 1);
    return TENON_OK;
}

int32_t vulkan_job_end(vulkan_job *job, tenon_error *error)
{
    tenon_device *device = job->queue->device;
    int32_t status = TENON_OK;
    uint32_t brought = 0, i;
    uint64_t row;

    for (i = 0; i < job->return_count && status == TENON_OK; i++) {
        status = bring(job->queue, job->returns[i].made, &job->returns[i].copy, error);
        if (status == TENON_OK) brought++;
    }
    if (status == TENON_OK) status = vulkan_call_end(job->queue, job->return_count > 0, error);
    for (i = 0; i < brought; i++) {
        const uint8_t *from = mapped_at(&job->returns[i].copy);
        uint64_t bytes = job->returns[i].bytes;
        if (status == TENON_OK && job->returns[i].stride == bytes)
            memcpy(job->returns[i].to, from, (size_t)(job->returns[i].rows * bytes));
        else if (status == TENON_OK)
            for (row = 0; row < job->returns[i].rows; row++)
                memcpy(job->returns[i].to + row * job->returns[i].stride, from + row * bytes,
                       (size_t)bytes);
        vulkan_memory_release(device, job->returns[i].copy.memory);
    }
    return status;
}

int32_t vulkan_download(tenon_device_queue *queue, vulkan_span made, void *to, tenon_error *error)
{
    vulkan_span copy;
    int32_t status = bring(queue, made, &copy, error);

    if (status != TENON_OK) return status;
    status = vulkan_call_end(queue, 1, error);
    if (status == TENON_OK) memcpy(to, mapped_at(&copy), (size_t)made.bytes);
    vulkan_memory_release(queue->device, copy.memory);
    return status;
}
