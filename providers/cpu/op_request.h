/* What the whole operations of the CPU provider share: checks of a request, and how its work is
 * split. The host checks requests too; nothing here relies on it. [any thread] */
#ifndef TENON_CPU_OP_REQUEST_H
#define TENON_CPU_OP_REQUEST_H

#include "kernels/operations.h"

/* device and call are there, and call starts with the head of a struct of size bytes (name). */
int32_t cpu_check_head(const tenon_device *device, const void *call, size_t size, const char *name,
                       tenon_error *error);
/* All bytes are zero. */
int32_t cpu_check_zero(const void *reserved, size_t bytes, const char *name, tenon_error *error);
/* A host view of tokens (at least 1) rows of width values of 4 bytes. */
int32_t cpu_check_rows(const tenon_view *view, uint64_t stride, uint64_t tokens, uint64_t width,
                       const char *name, tenon_error *error);

/* Row token of a view that was checked. */
static inline const float *cpu_row(const tenon_view *view, uint64_t stride, uint64_t token)
{
    const uint8_t *start = view->host;
    if (start == NULL) return NULL; /* rows of width 0 need no memory */
    start += view->offset;
    return (const float *)(const void *)(start + token * stride);
}

static inline float *cpu_row_out(const tenon_view *view, uint64_t stride, uint64_t token)
{
    uint8_t *start = (uint8_t *)view->host + view->offset;
    return (float *)(void *)(start + token * stride);
}

/* Makes the memory of a queue at least bytes long, at 128-byte alignment; what it held is lost. */
int32_t cpu_queue_reserve(tenon_device_queue *queue, uint64_t bytes, tenon_error *error);

/* Runs body over [0, count): on the team when the work, about ns in all, is worth waking it. */
void cpu_split(const tenon_device *device, uint64_t count, uint64_t ns, tenon_parallel_body body,
               void *context);

#endif
