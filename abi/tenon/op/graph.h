/* Tenon operation graph: a sequence of calls recorded once and launched many times.
 *
 * A decode step is the same calls every time: only the token, its position and the contents of
 * buffers differ, and these live on the device. So a device may take the whole step as one piece of
 * work. Inside a recording every view names a buffer, and shapes, strides and offsets are fixed; a
 * cache grows by what is appended to it at each launch, from whatever length it has then.
 *
 * The host keeps the calls, too. Where no link can take all of them, or a launch is declined or
 * fails, it makes them one by one, with the same bits (SPEC.md 1.9). */
#ifndef TENON_OP_GRAPH_H
#define TENON_OP_GRAPH_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;

/* A recorded sequence of a provider. */
typedef struct tenon_device_graph tenon_device_graph;

/* graph_v1, optional: a provider offers all of it or none, and only with memory_v1. */
typedef struct tenon_graph_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t error_size; /* sizeof(tenon_error) this provider knows (R5) */
    uint32_t reserved0;  /* zero (R7) */
    /* From here to end or abort, calls of operations on the queue are recorded instead of run: they
     * answer as they would (DECLINED: not in a graph), write nothing and change no cache. All their
     * views name buffers. DECLINED: not now. [serial per queue] */
    int32_t(TENON_CALL *begin)(struct tenon_device *device, struct tenon_device_queue *queue,
                               tenon_error *error);
    /* Ends the recording. On TENON_OK *out is not NULL and the caller owns it until release; else
     * the recording is dropped. [serial per queue] */
    int32_t(TENON_CALL *end)(struct tenon_device *device, struct tenon_device_queue *queue,
                             tenon_device_graph **out, tenon_error *error);
    /* Drops the recording. [serial per queue] */
    void(TENON_CALL *abort)(struct tenon_device *device, struct tenon_device_queue *queue);
    /* Does what the recorded calls would do now, in their order; may be in flight on return, as
     * they may. The host has seen to it that weights and buffers are what they were when recorded
     * and that each cache has room for what is appended. DECLINED: not as things are now. Answers
     * other than TENON_OK have changed no cache. [serial per queue] */
    int32_t(TENON_CALL *launch)(struct tenon_device *device, struct tenon_device_queue *queue,
                                tenon_device_graph *graph, tenon_error *error);
    /* Work in flight that uses it is waited for or keeps it alive. NULL is allowed. [any thread, no
     * call on it running] */
    void(TENON_CALL *release)(struct tenon_device *device, tenon_device_graph *graph);
} tenon_graph_v1;
TENON_STATIC_ASSERT(sizeof(tenon_graph_v1) == 56, "tenon_graph_v1 changed size");

/* The engine's side. A graph belongs to the queue's session; weights, buffers and caches that its
 * calls name must outlive it. */
typedef struct tenon_graph tenon_graph;

/* From here to end or abort, the queue's calls of operations are checked and recorded instead of
 * run. Views of host memory, and everything else on the queue, answer TENON_STATE CAPTURING.
 * [serial per queue] */
TENON_HOST_API int32_t TENON_CALL tenon_graph_begin(struct tenon_queue *queue, tenon_error *error);
/* Ends the recording. TENON_ARG EMPTY_SHAPE when nothing was recorded. Whatever the answer, the queue
 * is as it was before begin. [serial per queue] */
TENON_HOST_API int32_t TENON_CALL tenon_graph_end(struct tenon_queue *queue, tenon_graph **out,
                                                  tenon_error *error);
/* Drops the recording, if there is one. [serial per queue] */
TENON_HOST_API void TENON_CALL tenon_graph_abort(struct tenon_queue *queue);
/* Makes all its calls. Errors are those of the calls; those before the one that failed have been
 * made then. TENON_ARG CAPACITY, with nothing made, when a cache has no room. [serial per queue] */
TENON_HOST_API int32_t TENON_CALL tenon_graph_launch(struct tenon_queue *queue, tenon_graph *graph,
                                                     tenon_error *error);
/* NULL is allowed. [any thread, no launch of it running] */
TENON_HOST_API void TENON_CALL tenon_graph_destroy(tenon_graph *graph);

typedef struct tenon_graph_information {
    uint32_t struct_size;
    uint32_t abi_version;
    uint64_t calls;    /* recorded */
    uint64_t launches; /* as one piece of work of a device */
    uint64_t replays;  /* call by call */
    uint32_t captured; /* 1: a device holds it now; 0: no link could take it, or it went stale */
    uint32_t device;   /* of that link */
    char provider[32]; /* of that link, "" when none */
    char why[96];      /* why it is not captured, "" when it is */
    uint64_t reserved0[2];
} tenon_graph_information;
TENON_STATIC_ASSERT(sizeof(tenon_graph_information) == 184, "graph information changed size");
TENON_HOST_API int32_t TENON_CALL tenon_graph_info(tenon_graph *graph, tenon_graph_information *out,
                                                   tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
