/* Graphs: calls recorded once and launched many times (SPEC.md 1.9).
 *
 * graph.c is what an engine calls. graph_record.c checks and keeps the calls between begin and end.
 * graph_capture.c has a link record them, too, and launches what it recorded; where that cannot be,
 * graph.c makes the calls one by one. */
#ifndef TENON_HOST_GRAPH_H
#define TENON_HOST_GRAPH_H

#include "buffer.h"
#include "operation.h"

/* One recorded call, its views those of the engine. */
typedef struct graph_call {
    uint32_t operation; /* OPERATION_*, or GRAPH_APPEND */
    union {
        operation_request simple;
        tenon_qmatmul_call qmatmul;
        tenon_append_call append;
        tenon_attention_call attention;
    } request;
} graph_call;
#define GRAPH_APPEND OPERATIONS

/* What all calls do to one cache. */
typedef struct graph_cache {
    tenon_cache *cache;
    uint64_t appended; /* positions of one launch */
    uint64_t needed;   /* length that the cache must have before it */
} graph_cache;

/* A part of a buffer that calls read without having written it, or that they write. */
typedef struct graph_view {
    tenon_view view;
    byte_rows rows;
} graph_view;

typedef struct graph_weight {
    tenon_weight *weight;
    uint64_t generation; /* when it was captured */
} graph_weight;

/* A list that grows. */
typedef struct graph_list {
    void *items;
    uint64_t count, room;
} graph_list;

struct tenon_graph {
    tenon_session *session;
    unsigned fork_mark;
    tenon_graph *next, **back;   /* in session.graphs; session.lock */
    graph_list calls;            /* graph_call */
    graph_list caches;           /* graph_cache, by address when recorded: the order of locks */
    graph_list weights;          /* graph_weight */
    graph_list inputs;           /* graph_view, from outside */
    graph_list outputs;          /* graph_view */
    uint64_t counts[OPERATIONS]; /* outputs of one launch */
    /* changed by launches, which are one at a time */
    session_link *link;         /* that holds handle */
    tenon_device_graph *handle; /* NULL: not captured */
    uint64_t epoch;             /* session.weight_epoch when weights were last looked at */
    _Atomic uint64_t launches, replays;
    pthread_mutex_t lock; /* why, and link and handle against graph_info */
    char why[96];
};

/* A recording must not be under way on the queue. TENON_OK or TENON_STATE CAPTURING. */
int32_t graph_check_idle(const tenon_queue *queue, tenon_error *error);
/* Frees a graph and what a provider holds for it. */
void graph_free(tenon_graph *graph);

/* graph_record.c: keep a call of the queue's recording that is not checked yet ... */
int32_t graph_record_operation(tenon_queue *queue, uint32_t index, operation_request *request,
                               tenon_error *error);
int32_t graph_record_qmatmul(tenon_queue *queue, const tenon_qmatmul_call *call,
                             tenon_error *error);
/* ... or is. [cache.lock] */
int32_t graph_record_append(tenon_queue *queue, const tenon_append_call *call, const byte_rows *k,
                            const byte_rows *v, tenon_error *error);
int32_t graph_record_attention(tenon_queue *queue, const tenon_attention_call *call,
                               const byte_rows *q, const byte_rows *y, tenon_error *error);
/* Ends the recording's hold on its caches. */
void graph_forget_recorded(tenon_graph *graph);
/* Adds an item of size bytes to a list; NULL: no memory. */
void *graph_list_add(graph_list *list, size_t size);
static inline void *graph_list_at(const graph_list *list, size_t size, uint64_t index)
{
    return (unsigned char *)list->items + index * size;
}
#define GRAPH_AT(list, type, index) ((type *)graph_list_at((list), sizeof(type), (index)))

/* graph_capture.c */
/* Looks for a link that takes all calls and has it record them; else graph->why says why not. */
void graph_capture(tenon_queue *queue, tenon_graph *graph);
/* Gives up what a provider holds for the graph; why may be NULL. */
void graph_release(tenon_graph *graph, const char *why);

typedef enum graph_launch_result {
    GRAPH_LAUNCHED,
    GRAPH_MAKE_CALLS, /* not as one: the calls have to be made */
    GRAPH_FAILED      /* *error is the answer */
} graph_launch_result;
/* Launches what a link recorded. The caches of the graph are locked. */
graph_launch_result graph_launch(tenon_queue *queue, tenon_graph *graph, tenon_error *error);

#endif
