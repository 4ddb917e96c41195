/* A provider whose work is in flight: a device with memory of its own and a thread of its own.
 *
 * What a queue is given is done later, in order, by the one worker of the device. Calls whose
 * outputs are all buffers return at once; host inputs are copied before that; a call with a host
 * output waits for it. A buffer is a number and no pointer: reading it as one faults.
 *   async.lose_at = N       the device is lost in the middle of the N-th piece of work
 *   async.fail_late_at = N  that piece of work writes half of its output and fails
 *   async.memory = BYTES    of the device, for everything; async.buffers = BYTES for buffers alone
 *   async.delay_us = T      every piece of work takes that much longer
 *   async.graphs = N        so many recordings are begun, later ones declined; default: all
 *
 * A launched graph is as many pieces of work as it has calls, given at once. */
#ifndef TENON_TESTS_ASYNC_H
#define TENON_TESTS_ASYNC_H

#include "inner.h"

#include <pthread.h>
#include <stdbool.h>

#define ASYNC_ID "async"
#define ASYNC_ROOMS 4096u /* buffers at most; their handles stay below what can be mapped */
#define ASYNC_STAGED 2u   /* blocks of host memory that belong to one piece of work */

typedef struct async_work async_work;

struct tenon_provider {
    const tenon_services *services;
    void *inner; /* the reference, as in all that follows */
    uint64_t lose_at, fail_late_at, memory, buffers, delay_us, graphs;
};

/* Where a buffer lies. Handle n is room n - 1. */
typedef struct async_room {
    uint8_t *memory; /* NULL: nobody's */
    uint64_t bytes;
} async_room;

struct tenon_device {
    tenon_provider *provider;
    void *inner;
    pthread_t worker;
    pthread_mutex_t lock; /* of everything below and of the queues */
    pthread_cond_t given, done;
    bool ends, lost;
    async_work *first, **end; /* in order */
    uint64_t outstanding;     /* given and not done */
    uint64_t executed;        /* pieces of work begun */
    uint64_t used, buffer_bytes, objects;
    uint64_t graphs, recordings;         /* alive; begun */
    uint64_t waits, bytes_in, bytes_out; /* for the line that close says */
    uint64_t launches;
    uint32_t next_room; /* where the search begins: handles are reused late */
    async_room rooms[ASYNC_ROOMS];
};

struct tenon_device_queue {
    tenon_device *device;
    uint64_t outstanding;
    tenon_device_graph *recording; /* NULL: work is done */
    bool failed; /* work that nobody waited for has failed: all that follows is worthless */
};

struct tenon_prepared {
    void *inner;
    uint64_t bytes, rows, cols;
};

struct tenon_device_cache {
    void *inner;
    tenon_cache_desc desc; /* without its table */
    uint64_t length;       /* when all work that was given will be done */
    uint64_t bytes;
};

typedef int32_t async_body(tenon_device *device, async_work *work, tenon_error *error);

/* One piece of work. Its views are host views: into rooms, staged copies or the caller's memory. */
struct async_work {
    async_work *next;
    tenon_device_queue *queue;
    async_body *body;
    union {
        tenon_qmatmul_call qmatmul;
        tenon_embed_call embed;
        tenon_rmsnorm_call rmsnorm;
        tenon_gated_call gated;
        tenon_add_call add;
        tenon_argmax_call argmax;
        tenon_append_call append;
        tenon_attention_call attention;
        struct {
            uint8_t *to;
            const uint8_t *from;
            uint64_t bytes;
        } move;
        struct {
            void *cache; /* the reference's */
            uint64_t first, count;
        } cut; /* truncate: to first */
    } call;
    inner_rows y[TENON_QMATMUL_MAX_OUTPUTS];
    uint32_t outputs;
    void *staged[ASYNC_STAGED];
    uint32_t staged_count;
    tenon_device_cache *grows; /* by tokens, or NULL */
    uint64_t tokens;
    bool copies_host;     /* an input was host memory */
    bool waits, finished; /* waits: the caller does, and frees it */
    int32_t status;
    tenon_error error;
};

/* Calls that were recorded, in order. */
struct tenon_device_graph {
    async_work *first, **end;
};

/* ---- async_work.c ---- */

int32_t async_start(tenon_device *device, tenon_error *error); /* the worker */
void async_stop(tenon_device *device);                         /* after the last call */
/* NULL with *error, also when queue is NULL. */
async_work *async_begin(tenon_device_queue *queue, async_body *body, tenon_error *error);
void async_drop(async_work *work);
/* A block that lives as long as the work; NULL with *error. */
void *async_stage(async_work *work, uint64_t bytes, tenon_error *error);
/* Views of rows * values float32. in: a copy when it is host memory. */
int32_t async_in(async_work *work, const tenon_view *view, uint64_t rows, uint64_t stride,
                 uint64_t values, const char *name, tenon_view *out, tenon_error *error);
int32_t async_out(async_work *work, const tenon_view *view, uint64_t rows, uint64_t stride,
                  uint64_t values, const char *name, tenon_view *out, tenon_error *error);
/* Gives the work to the worker, who owns it now; waits when it writes to host memory. */
int32_t async_give(async_work *work, tenon_error *error);
/* The same for an operation: while its queue records, it is kept instead. */
int32_t async_operate(async_work *work, tenon_error *error);
/* Puts work that nobody waits for behind the rest. [lock] */
void async_push(tenon_device *device, async_work *work);
/* What a queue (or NULL: the device) answers now: TENON_OK, DEVICE_LOST or LOST. [lock] */
int32_t async_health(const tenon_device *device, const tenon_device_queue *queue,
                     tenon_error *error);
/* Waits for the work of a queue, or of the device when queue is NULL. [lock] */
void async_drain(tenon_device *device, const tenon_device_queue *queue);

/* ---- async_graph.c ---- */

/* Keeps the work in the recording of its queue, or declines it; owns it either way. */
int32_t async_record(async_work *work, tenon_error *error);

/* ---- async_memory.c ---- */

/* Counts an object of bytes; DEVICE_LOST, or NOMEM with the scope given. [any thread] */
int32_t async_count(tenon_device *device, uint64_t bytes, uint32_t scope, tenon_error *error);
void async_uncount(tenon_device *device, uint64_t bytes);
/* The memory that bytes from offset on of a buffer lie in; NULL with *error. */
uint8_t *async_room_at(tenon_device *device, const void *buffer, uint64_t offset, uint64_t bytes,
                       tenon_error *error);

#endif
