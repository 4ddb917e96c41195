/* Tenon operation memory: buffers that live on a device between calls.
 *
 * An engine's buffer has one host copy and one copy a link, made when first needed; the host keeps
 * book of which of them are valid and moves bytes only when a call needs them elsewhere. A provider
 * with memory_v1 takes buffers in every view of every operation it offers, host pointers too. A
 * provider without it is given host views and never sees a buffer: nothing else changes.
 *
 * A call whose outputs are all buffers may still be in flight when it returns. Reads and fences are
 * where the host waits, and where it learns of work that failed late (SPEC.md 1.8). */
#ifndef TENON_OP_MEMORY_H
#define TENON_OP_MEMORY_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;
struct tenon_session;

/* A buffer of a provider. */
typedef struct tenon_device_buffer tenon_device_buffer;

/* What a device's memory holds, in bytes; each may be TENON_UNKNOWN. free never exceeds total. */
typedef struct tenon_memory_info {
    uint32_t struct_size;
    uint32_t abi_version;
    uint64_t total;   /* that this process could ever use */
    uint64_t free;    /* that it could still allocate now */
    uint64_t used;    /* by buffers, weights and caches of this opened device */
    uint64_t objects; /* buffers, weights and caches alive on this opened device */
    uint64_t reserved0[2];
} tenon_memory_info;
TENON_STATIC_ASSERT(sizeof(tenon_memory_info) == 56, "tenon_memory_info changed size");

/* memory_v1, optional: a provider offers all of it or none. Offsets and byte counts are multiples
 * of 4 and lie inside the buffer (the host sees to it). Work of a queue is done, or seems done, in
 * the order in which it was given; work of two queues is ordered only by a fence on the first. */
typedef struct tenon_memory_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t info_size; /* sizeof(tenon_memory_info) this provider knows (R5) */
    uint32_t error_size;
    /* Makes a buffer of bytes (at least 4, a multiple of 4), 64-byte aligned or better on the
     * device, contents unstated. NOMEM states wanted and available and leaves nothing behind.
     * On TENON_OK *out is not NULL and the caller owns it until free. [any thread] */
    int32_t(TENON_CALL *alloc)(struct tenon_device *device, uint64_t bytes,
                               tenon_device_buffer **out, tenon_error *error);
    /* Frees a buffer; work in flight that uses it is waited for or keeps its memory alive. NULL is
     * allowed. [any thread, no call on it running] */
    void(TENON_CALL *free)(struct tenon_device *device, tenon_device_buffer *buffer);
    /* Host to device. from is the caller's again on return. [serial per queue] */
    int32_t(TENON_CALL *write)(struct tenon_device *device, struct tenon_device_queue *queue,
                               tenon_device_buffer *buffer, uint64_t offset, const void *from,
                               uint64_t bytes, tenon_error *error);
    /* Device to host: waits for the work before it. Answers LOST or DEVICE_LOST when that work
     * failed; then to holds nothing of worth. [serial per queue] */
    int32_t(TENON_CALL *read)(struct tenon_device *device, struct tenon_device_queue *queue,
                              const tenon_device_buffer *buffer, uint64_t offset, void *to,
                              uint64_t bytes, tenon_error *error);
    /* Inside the device; the ranges do not overlap. [serial per queue] */
    int32_t(TENON_CALL *copy)(struct tenon_device *device, struct tenon_device_queue *queue,
                              tenon_device_buffer *to, uint64_t to_offset,
                              const tenon_device_buffer *from, uint64_t from_offset, uint64_t bytes,
                              tenon_error *error);
    /* Waits until all work of the queue is done; answers as read does. [serial per queue] */
    int32_t(TENON_CALL *fence)(struct tenon_device *device, struct tenon_device_queue *queue,
                               tenon_error *error);
    /* [any thread] */
    int32_t(TENON_CALL *info)(struct tenon_device *device, tenon_memory_info *out,
                              tenon_error *error);
} tenon_memory_v1;
TENON_STATIC_ASSERT(sizeof(tenon_memory_v1) == 72, "tenon_memory_v1 changed size");

/* The engine's side: a buffer of a session, for any of its views (tenon_view.buffer). Bytes that no
 * call and no write has made are unstated, and reading them answers TENON_STATE NOT_WRITTEN. While
 * a buffer is written, one queue uses it; tenon_queue_fence hands it to another queue. */
typedef struct tenon_buffer tenon_buffer;

/* bytes: at least 4, a multiple of 4. Allocates nothing yet: TENON_ARG or TENON_NOMEM (the
 * object). [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_buffer_create(struct tenon_session *session, uint64_t bytes,
                                                      tenon_buffer **out, tenon_error *error);
/* Waits for calls that use it, then frees every copy. [any thread] */
TENON_HOST_API void TENON_CALL tenon_buffer_destroy(tenon_buffer *buffer);
/* Host memory to the buffer; complete on return. offset and bytes: multiples of 4.
 * [serial per queue] */
TENON_HOST_API int32_t TENON_CALL tenon_buffer_write(struct tenon_queue *queue,
                                                     tenon_buffer *buffer, uint64_t offset,
                                                     const void *from, uint64_t bytes,
                                                     tenon_error *error);
/* The buffer to host memory; waits for the work before it. TENON_LOST: what was to be read was lost
 * with its device, replay the history that made it. [serial per queue] */
TENON_HOST_API int32_t TENON_CALL tenon_buffer_read(struct tenon_queue *queue, tenon_buffer *buffer,
                                                    uint64_t offset, void *to, uint64_t bytes,
                                                    tenon_error *error);
/* One buffer to another, inside a device where both can be there; they are not the same one.
 * [serial per queue] */
TENON_HOST_API int32_t TENON_CALL tenon_buffer_copy(struct tenon_queue *queue, tenon_buffer *to,
                                                    uint64_t to_offset, tenon_buffer *from,
                                                    uint64_t from_offset, uint64_t bytes,
                                                    tenon_error *error);
/* Waits for all work of the queue, on every link. TENON_LOST when some of it failed late.
 * [serial per queue] */
TENON_HOST_API int32_t TENON_CALL tenon_queue_fence(struct tenon_queue *queue, tenon_error *error);

/* Where a buffer is. */
typedef struct tenon_buffer_information {
    uint32_t struct_size;
    uint32_t abi_version;
    uint64_t bytes;      /* as created */
    uint64_t used;       /* bytes from the start that have been written so far */
    uint64_t host_bytes; /* of the host copy; 0: none was needed */
    uint64_t valid;      /* bit 0: the host copy; bit n + 1: the copy on link n */
    uint64_t reserved0[2];
} tenon_buffer_information;
TENON_STATIC_ASSERT(sizeof(tenon_buffer_information) == 56, "buffer information changed size");
TENON_HOST_API int32_t TENON_CALL tenon_buffer_info(tenon_buffer *buffer,
                                                    tenon_buffer_information *out,
                                                    tenon_error *error);
/* The memory of the device of a link. TENON_DECLINED when its provider has no memory_v1.
 * [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_session_memory(struct tenon_session *session, uint64_t link,
                                                       tenon_memory_info *out, tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
