/* Requests: their checks, and their views as kernels bind them.
 *
 * The host checks requests too; nothing here relies on it, but that outputs overlap neither inputs nor
 * each other (R12): who breaks that gets other values. Inputs in host memory are copied when the call is
 * made, outputs in host memory are copied back before it returns; where it pays, the device reads and
 * writes them where they lie (import.h). */
#ifndef TENON_VULKAN_REQUEST_H
#define TENON_VULKAN_REQUEST_H

#include "commands.h"

/* device, queue and call are there, and call starts with the head of a struct of size bytes. */
int32_t vulkan_check_head(const tenon_device *device, const tenon_device_queue *queue,
                          const void *call, size_t size, const char *name, tenon_error *error);
/* All bytes are zero. */
int32_t vulkan_check_zero(const void *reserved, size_t bytes, const char *name, tenon_error *error);
/* A view of tokens (at least 1) rows of width values of 4 bytes. */
int32_t vulkan_check_rows(tenon_device *device, const tenon_view *view, uint64_t stride,
                          uint64_t tokens, uint64_t width, const char *name, tenon_error *error);
int32_t vulkan_empty(const char *text, tenon_error *error);
/* The device does not compute this operation exactly. */
int32_t vulkan_inexact(tenon_error *error);

/* Rows [first, first + count) bound from an aligned offset; *word is where the first one starts. */
vulkan_span vulkan_bind(const vulkan_rows *rows, uint64_t first, uint64_t count, uint32_t *word);
/* How many rows one binding can cover at most; 0: not even one. */
uint64_t vulkan_most_rows(const tenon_device *device, const vulkan_rows *rows);
static inline uint32_t vulkan_stride(const vulkan_rows *rows)
{
    return (uint32_t)(rows->stride / 4);
}

#define VULKAN_MOST_RETURNS 4u
#define VULKAN_MOST_IMPORTS 8u /* three inputs and four outputs at most */

/* A call being recorded. */
typedef struct vulkan_job {
    tenon_device_queue *queue;
    uint32_t waits; /* an output is in host memory: the call ends when the device is done */
    struct {
        vulkan_span made, copy; /* in main memory; where the host reads it */
        vulkan_span pages;      /* the caller's own, memory NULL: made is copied by the host */
        uint8_t *to;
        uint64_t stride, rows, bytes;
    } returns[VULKAN_MOST_RETURNS];
    uint32_t return_count;
    vulkan_memory *imports[VULKAN_MOST_IMPORTS]; /* memory of the caller that the device uses */
    uint32_t import_count;
} vulkan_job;

/* waits: one of the outputs is in host memory. */
int32_t vulkan_job_begin(vulkan_job *job, tenon_device_queue *queue, int waits, tenon_error *error);
/* Views that vulkan_check_rows accepted. */
int32_t vulkan_job_input(vulkan_job *job, const tenon_view *view, uint64_t stride, uint64_t tokens,
                         uint64_t width, vulkan_rows *out, tenon_error *error);
int32_t vulkan_job_output(vulkan_job *job, const tenon_view *view, uint64_t stride, uint64_t tokens,
                          uint64_t width, vulkan_rows *out, tenon_error *error);
/* Everything is recorded (status OK), or the call has failed, and job may be all zero if it had not
 * begun: waits when an output is in host memory. Afterwards the device touches none of the caller's.
 * The answer is the call's. */
int32_t vulkan_job_end(vulkan_job *job, int32_t status, tenon_error *error);

/* Records the way of made to the host, waits for all work of the queue and copies. A batch is being
 * recorded. */
int32_t vulkan_download(tenon_device_queue *queue, vulkan_span made, void *to, tenon_error *error);

/* memory_v1. */
struct tenon_device_buffer {
    tenon_device_buffer *next; /* in its bucket */
    vulkan_memory *memory;
};
/* The memory of a buffer of this device, NULL when it is none. [any thread] */
vulkan_memory *vulkan_buffer_memory(tenon_device *device, const void *buffer);

int32_t TENON_CALL vulkan_buffer_alloc(tenon_device *device, uint64_t bytes,
                                       tenon_device_buffer **out, tenon_error *error);
void TENON_CALL vulkan_buffer_free(tenon_device *device, tenon_device_buffer *buffer);
int32_t TENON_CALL vulkan_buffer_write(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_buffer *buffer, uint64_t offset,
                                       const void *from, uint64_t bytes, tenon_error *error);
int32_t TENON_CALL vulkan_buffer_read(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_buffer *buffer, uint64_t offset, void *to,
                                      uint64_t bytes, tenon_error *error);
int32_t TENON_CALL vulkan_buffer_copy(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_buffer *to, uint64_t to_offset,
                                      const tenon_device_buffer *from, uint64_t from_offset,
                                      uint64_t bytes, tenon_error *error);
int32_t TENON_CALL vulkan_buffer_fence(tenon_device *device, tenon_device_queue *queue,
                                       tenon_error *error);
int32_t TENON_CALL vulkan_memory_info(tenon_device *device, tenon_memory_info *out,
                                      tenon_error *error);

#endif
