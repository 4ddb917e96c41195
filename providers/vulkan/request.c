/* Checks, bindings and the way of host memory: request.h. */
#include "graph.h"
#include "import.h"

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

int32_t vulkan_job_begin(vulkan_job *job, tenon_device_queue *queue, int waits, tenon_error *error)
{
    *job = (vulkan_job){.queue = queue, .waits = waits ? 1 : 0};
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

/* Rows of the caller's where they lie, for the device of a call that waits. out->memory NULL: they are
 * to be copied. On a card they always are: it would fetch them over the bus as kernels come to
 * them, and what the host copies meanwhile costs nothing while the device has other work. */
static int32_t rows_in_place(vulkan_job *job, const tenon_view *view, uint64_t stride,
                             uint64_t tokens, uint64_t row, vulkan_rows *out, tenon_error *error)
{
    tenon_device *device = job->queue->device;
    vulkan_span span = {NULL, 0, 0};
    int32_t status;

    *out = (vulkan_rows){NULL, 0, 0, 0};
    if (tokens == 1) stride = row;
    if (!job->waits || !device->gpu->unified || stride > 2 * row ||
        !vulkan_import_pays(device, tokens * row))
        return TENON_OK;
    status = vulkan_import(device, (const uint8_t *)view->host + view->offset,
                           (tokens - 1) * stride + row, &span, error);
    if (status != TENON_OK || span.memory == NULL) return status;
    job->imports[job->import_count++] = span.memory;
    *out = (vulkan_rows){span.memory, span.offset, stride, row};
    return TENON_OK;
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
    if (status == TENON_OK) status = rows_in_place(job, view, stride, tokens, row, out, error);
    if (status == TENON_OK && out->memory != NULL) return TENON_OK;
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
    if (status == TENON_OK) status = rows_in_place(job, view, stride, tokens, row, out, error);
    if (status == TENON_OK && out->memory != NULL) return TENON_OK;
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

/* Imports what the device shall fill itself, on a card. */
static int32_t import_returns(vulkan_job *job, tenon_error *error)
{
    tenon_device *device = job->queue->device;
    int32_t status = TENON_OK;
    uint32_t i;

    for (i = 0; i < job->return_count && status == TENON_OK && !device->gpu->unified; i++) {
        uint64_t bytes = job->returns[i].made.bytes;
        if (!vulkan_import_pays(device, bytes) ||
            (job->returns[i].rows > 1 && job->returns[i].stride != job->returns[i].bytes))
            continue;
        status = vulkan_import(device, job->returns[i].to, bytes, &job->returns[i].pages, error);
        if (status == TENON_OK && job->returns[i].pages.memory != NULL)
            job->imports[job->import_count++] = job->returns[i].pages.memory;
    }
    return status;
}

/* All is done but the device's copies into imported memory. */
static int32_t fill_returns(const vulkan_job *job, tenon_error *error)
{
    vulkan_span to[VULKAN_MOST_RETURNS], from[VULKAN_MOST_RETURNS];
    uint32_t count = 0, i;

    for (i = 0; i < job->return_count; i++) {
        if (job->returns[i].pages.memory == NULL) continue;
        to[count] = job->returns[i].pages;
        from[count++] = job->returns[i].made;
    }
    return count == 0 ? TENON_OK : vulkan_import_fill(job->queue, to, from, count, error);
}

static void copy_return(const vulkan_job *job, uint32_t i)
{
    const uint8_t *from = mapped_at(&job->returns[i].copy);
    uint64_t bytes = job->returns[i].bytes, row;

    if (job->returns[i].stride == bytes) {
        memcpy(job->returns[i].to, from, (size_t)(job->returns[i].rows * bytes));
        return;
    }
    for (row = 0; row < job->returns[i].rows; row++)
        memcpy(job->returns[i].to + row * job->returns[i].stride, from + row * bytes,
               (size_t)bytes);
}

/* What the device has made to where the caller wants it. */
static int32_t give_returns(vulkan_job *job, tenon_error *error)
{
    tenon_device *device = job->queue->device;
    uint32_t brought, i;
    int32_t status = import_returns(job, error);

    for (brought = 0; brought < job->return_count && status == TENON_OK; brought++) {
        job->returns[brought].copy = job->returns[brought].made;
        if (job->returns[brought].pages.memory == NULL)
            status = bring(job->queue, job->returns[brought].made, &job->returns[brought].copy,
                           error);
        else
            atomic_fetch_add(&job->returns[brought].made.memory->users, 1);
        if (status != TENON_OK) break;
    }
    if (status == TENON_OK) status = vulkan_call_end(job->queue, (int)job->waits, error);
    for (i = 0; i < brought && status == TENON_OK; i++)
        if (job->returns[i].pages.memory == NULL) copy_return(job, i);
    if (status == TENON_OK) status = fill_returns(job, error);
    for (i = 0; i < brought; i++) vulkan_memory_release(device, job->returns[i].copy.memory);
    return status;
}

int32_t vulkan_job_end(vulkan_job *job, int32_t status, tenon_error *error)
{
    uint32_t i;

    if (status == TENON_OK) status = give_returns(job, error);
    if (status != TENON_OK && job->import_count > 0) vulkan_queue_drain(job->queue);
    for (i = 0; i < job->import_count; i++)
        vulkan_memory_release(job->queue->device, job->imports[i]);
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
