/* Checks and splitting of the whole operations. */
#include "op_request.h"

#include <stdlib.h>
#include <string.h>

#define SPLIT_FROM_NS 15000u

int32_t cpu_check_head(const tenon_device *device, const void *call, size_t size, const char *name,
                       tenon_error *error)
{
    uint32_t head[2];

    if (device == NULL || call == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "device or request is a null pointer");
    memcpy(head, call, sizeof head);
    if (head[0] != size || head[1] != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL, size,
                                 head[0], name);
    return TENON_OK;
}

int32_t cpu_check_zero(const void *reserved, size_t bytes, const char *name, tenon_error *error)
{
    const uint8_t *at = reserved;
    size_t i;

    for (i = 0; i < bytes; i++)
        if (at[i] != 0)
            return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL, name);
    return TENON_OK;
}

int32_t cpu_check_rows(const tenon_view *view, uint64_t stride, uint64_t tokens, uint64_t width,
                       const char *name, tenon_error *error)
{
    uint64_t row, bytes;

    if (view->buffer != NULL)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_NO_BUFFERS, TENON_SCOPE_CALL,
                          "the CPU provider has no device buffers");
    if (view->host == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, name);
    if (((uintptr_t)view->host + view->offset) % 4 != 0 || stride % 4 != 0)
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
    return TENON_OK;
}

int32_t cpu_queue_reserve(tenon_device_queue *queue, uint64_t bytes, tenon_error *error)
{
    if (queue->bytes >= bytes) return TENON_OK;
    cpu_queue_clear(queue);
    queue->memory = aligned_alloc(128, (size_t)cpu_round_up(bytes, 128));
    if (queue->memory == NULL) {
        uint64_t total, available;
        cpu_memory(&total, &available);
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                                 bytes, available, "no memory for a call");
    }
    queue->bytes = bytes;
    return TENON_OK;
}

void cpu_split(const tenon_device *device, uint64_t count, uint64_t ns, tenon_parallel_body body,
               void *context)
{
    const tenon_services *services = device->provider->services;
    uint64_t i;

    if (count > 1 && ns >= SPLIT_FROM_NS && services->team_size(services->host) > 1) {
        services->parallel_for(services->host, count, body, context);
        return;
    }
    for (i = 0; i < count; i++) body(context, i, 0);
}
