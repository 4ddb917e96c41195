/* What every operation of the reference checks of a request. The host checks requests too; nothing
 * in the reference relies on it. [any thread] */
#ifndef TENON_REFERENCE_REQUEST_H
#define TENON_REFERENCE_REQUEST_H

#include <tenon/provider.h>

/* Is this the head of a struct of version 1? */
static inline int reference_head_is(uint32_t struct_size, uint32_t abi_version, size_t wanted)
{
    return struct_size == wanted && abi_version == TENON_ABI_VERSION;
}

/* device, call and the head of call (name) are what they must be. call points at any struct that
 * starts with its size (R1). TENON_OK, TENON_ARG or TENON_ABI. */
int32_t reference_check_head(const struct tenon_device *device, const void *call, size_t size,
                             const char *name, tenon_error *error);

/* Reserved fields: all of the bytes are zero. TENON_OK or TENON_ARG. */
int32_t reference_check_zero(const void *reserved, size_t bytes, const char *name,
                             tenon_error *error);

/* A host view of tokens (at least 1) rows of width values of 4 bytes. TENON_OK; TENON_DECLINED for
 * a device buffer; else TENON_ARG, with name as the text. */
int32_t reference_check_view(const tenon_view *view, uint64_t stride, uint64_t tokens,
                             uint64_t width, const char *name, tenon_error *error);

/* Row token of a view that was checked. */
static inline const float *reference_row(const tenon_view *view, uint64_t stride, uint64_t token)
{
    const uint8_t *start = view->host;
    if (start == NULL) return NULL; /* rows of width 0 need no memory */
    start += view->offset;
    return (const float *)(const void *)(start + token * stride);
}

static inline float *reference_row_out(const tenon_view *view, uint64_t stride, uint64_t token)
{
    uint8_t *start = (uint8_t *)view->host + view->offset;
    return (float *)(void *)(start + token * stride);
}

#endif
