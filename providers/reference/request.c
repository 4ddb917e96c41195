/* The checks that every operation of the reference makes. */
#include "request.h"

#include <string.h>

int32_t reference_check_head(const struct tenon_device *device, const void *call, size_t size,
                             const char *name, tenon_error *error)
{
    uint32_t head[2];

    if (device == NULL || call == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "device or request is a null pointer");
    memcpy(head, call, sizeof head);
    if (!reference_head_is(head[0], head[1], size))
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL, size,
                                 head[0], name);
    return TENON_OK;
}

int32_t reference_check_zero(const void *reserved, size_t bytes, const char *name,
                             tenon_error *error)
{
    const uint8_t *at = reserved;
    size_t i;

    for (i = 0; i < bytes; i++)
        if (at[i] != 0)
            return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL, name);
    return TENON_OK;
}

int32_t reference_check_view(const tenon_view *view, uint64_t stride, uint64_t tokens,
                             uint64_t width, const char *name, tenon_error *error)
{
    uint64_t row, bytes;

    if (view->buffer != NULL)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_NO_BUFFERS, TENON_SCOPE_CALL,
                          "the reference has no device buffers");
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
