/* Graphs of an engine: recorded, launched, made call by call where no device takes them as one. */
#include "graph.h"

#include "cache.h"
#include "qmatmul_check.h"
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t null_pointer(const char *what, tenon_error *error)
{
    return view_bad(error, TENON_REASON_NULL_POINTER, what, "is NULL");
}

int32_t graph_check_idle(const tenon_queue *queue, tenon_error *error)
{
    if (queue->capture == NULL) return TENON_OK;
    return tenon_fail(error, TENON_STATE, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                      "calls are being recorded on this queue: end or abort that first");
}

static int32_t enter(tenon_queue *queue, tenon_error *error)
{
    if (queue == NULL) return null_pointer("queue", error);
    if (fork_guard_crossed(queue->fork_mark)) return fail_forked(error);
    if (!queue_enter(queue))
        return tenon_fail(error, TENON_STATE, TENON_REASON_IN_USE, TENON_SCOPE_CALL,
                          "another thread is in a call on this queue");
    return TENON_OK;
}

/* Frees a graph that is in no list. */
static void dispose(tenon_graph *graph)
{
    graph_release(graph, NULL);
    free(graph->calls.items);
    free(graph->caches.items);
    free(graph->weights.items);
    free(graph->inputs.items);
    free(graph->outputs.items);
    pthread_mutex_destroy(&graph->lock);
    free(graph);
}

void graph_free(tenon_graph *graph)
{
    tenon_session *session = graph->session;

    pthread_mutex_lock(&session->lock);
    *graph->back = graph->next;
    if (graph->next != NULL) graph->next->back = graph->back;
    pthread_mutex_unlock(&session->lock);
    queue_drain(session);
    dispose(graph);
}

void TENON_CALL tenon_graph_destroy(tenon_graph *graph)
{
    if (graph == NULL || fork_guard_crossed(graph->fork_mark)) return;
    graph_free(graph);
}

/* ---- recording ------------------------------------------------------------------------------ */

int32_t TENON_CALL tenon_graph_begin(struct tenon_queue *queue, tenon_error *error)
{
    tenon_graph *graph;
    int32_t status = enter(queue, error);

    if (status != TENON_OK) return status;
    status = graph_check_idle(queue, error);
    if (status != TENON_OK) goto out;
    graph = calloc(1, sizeof *graph);
    if (graph == NULL || pthread_mutex_init(&graph->lock, NULL) != 0) {
        free(graph);
        status = fail_memory(error, sizeof *graph, "no memory for a graph");
        goto out;
    }
    graph->session = queue->session;
    graph->fork_mark = queue->session->fork_mark;
    queue->capture = graph;
out:
    queue_leave(queue);
    return status;
}

static int compare_caches(const void *a, const void *b)
{
    uintptr_t first = (uintptr_t)((const graph_cache *)a)->cache;
    uintptr_t second = (uintptr_t)((const graph_cache *)b)->cache;
    return (first > second) - (first < second);
}

/* Takes the recording off its queue. */
static tenon_graph *take_recording(tenon_queue *queue)
{
    tenon_graph *graph = queue->capture;

    queue->capture = NULL;
    if (graph != NULL) graph_forget_recorded(graph);
    return graph;
}

void queue_drop_recording(tenon_queue *queue)
{
    tenon_graph *graph = take_recording(queue);
    if (graph != NULL) dispose(graph);
}

int32_t TENON_CALL tenon_graph_end(struct tenon_queue *queue, tenon_graph **out, tenon_error *error)
{
    tenon_graph *graph;
    tenon_session *session;
    int32_t status;

    if (out == NULL) return null_pointer("out", error);
    *out = NULL;
    status = enter(queue, error);
    if (status != TENON_OK) return status;
    session = queue->session;
    graph = take_recording(queue);
    if (graph == NULL) {
        status = tenon_fail(error, TENON_STATE, TENON_REASON_NOT_OPEN, TENON_SCOPE_CALL,
                            "nothing is being recorded on this queue");
        goto out;
    }
    if (graph->calls.count == 0) {
        dispose(graph);
        status = view_bad(error, TENON_REASON_EMPTY_SHAPE, "graph", "no call was recorded");
        goto out;
    }
    if (graph->caches.count > 1)
        qsort(graph->caches.items, (size_t)graph->caches.count, sizeof(graph_cache),
              compare_caches);
    graph_capture(queue, graph);
    pthread_mutex_lock(&session->lock);
    graph->next = session->graphs;
    graph->back = &session->graphs;
    if (graph->next != NULL) graph->next->back = &graph->next;
    session->graphs = graph;
    pthread_mutex_unlock(&session->lock);
    *out = graph;
out:
    queue_leave(queue);
    return status;
}

void TENON_CALL tenon_graph_abort(struct tenon_queue *queue)
{
    if (enter(queue, NULL) != TENON_OK) return;
    queue_drop_recording(queue);
    queue_leave(queue);
}

/* ---- launching ------------------------------------------------------------------------------ */

static int32_t check_cache(const graph_cache *one, tenon_error *error)
{
    tenon_cache *cache = one->cache;
    int32_t status = cache_alive(cache, error);

    if (status != TENON_OK) return status;
    if (cache->length < one->needed)
        return fail_text(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL, one->needed,
                         cache->length, "the graph reads %llu positions, a cache holds %llu",
                         (unsigned long long)one->needed, (unsigned long long)cache->length);
    if (one->appended > cache->desc.capacity - cache->length)
        return fail_text(error, TENON_ARG, TENON_REASON_CAPACITY, TENON_SCOPE_CALL, one->appended,
                         cache->desc.capacity - cache->length,
                         "%llu positions more, a cache holds %llu of %llu",
                         (unsigned long long)one->appended, (unsigned long long)cache->length,
                         (unsigned long long)cache->desc.capacity);
    return TENON_OK;
}

/* Checks all caches, and launches while they are locked. */
static graph_launch_result launch_locked(tenon_queue *queue, tenon_graph *graph, tenon_error *error)
{
    graph_launch_result result = GRAPH_MAKE_CALLS;
    uint64_t i, locked = 0;

    for (; locked < graph->caches.count; locked++)
        pthread_mutex_lock(&GRAPH_AT(&graph->caches, graph_cache, locked)->cache->lock);
    for (i = 0; i < graph->caches.count && result != GRAPH_FAILED; i++)
        if (check_cache(GRAPH_AT(&graph->caches, graph_cache, i), error) != TENON_OK)
            result = GRAPH_FAILED;
    if (result != GRAPH_FAILED) result = graph_launch(queue, graph, error);
    while (locked > 0)
        pthread_mutex_unlock(&GRAPH_AT(&graph->caches, graph_cache, --locked)->cache->lock);
    return result;
}

static int32_t make_call(tenon_queue *queue, const graph_call *call, tenon_error *error)
{
    graph_call copy; /* a call may change its request on the way */

    switch (call->operation) {
    case OPERATION_QMATMUL: return qmatmul_perform(queue, &call->request.qmatmul, error);
    case OPERATION_ATTENTION: return cache_attend(queue, &call->request.attention, error);
    case GRAPH_APPEND: return cache_append(queue, &call->request.append, error);
    default:
        copy = *call;
        return operation_perform(queue, call->operation, &copy.request.simple, error);
    }
}

int32_t TENON_CALL tenon_graph_launch(struct tenon_queue *queue, tenon_graph *graph,
                                      tenon_error *error)
{
    tenon_error answer = EMPTY_ERROR;
    uint64_t i;
    int32_t status;

    if (graph == NULL) return null_pointer("graph", error);
    status = enter(queue, error);
    if (status != TENON_OK) return status;
    status = graph_check_idle(queue, error);
    if (status != TENON_OK) goto out;
    if (graph->session != queue->session) {
        status = view_bad(error, TENON_REASON_UNKNOWN_VALUE, "graph", "belongs to another session");
        goto out;
    }
    switch (launch_locked(queue, graph, &answer)) {
    case GRAPH_LAUNCHED: goto out;
    case GRAPH_FAILED: status = fail_again(&answer, error); goto out;
    case GRAPH_MAKE_CALLS: break;
    }
    atomic_fetch_add(&graph->replays, 1);
    for (i = 0; i < graph->calls.count && status == TENON_OK; i++)
        status = make_call(queue, GRAPH_AT(&graph->calls, graph_call, i), error);
out:
    queue_leave(queue);
    return status;
}

int32_t TENON_CALL tenon_graph_info(tenon_graph *graph, tenon_graph_information *out,
                                    tenon_error *error)
{
    tenon_graph_information mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    int32_t status;

    if (graph == NULL) return null_pointer("graph", error);
    if (fork_guard_crossed(graph->fork_mark)) return fail_forked(error);
    status = struct_check_out(out, "tenon_graph_information", error);
    if (status != TENON_OK) return status;
    pthread_mutex_lock(&graph->lock);
    mine.captured = graph->handle != NULL ? 1 : 0;
    if (graph->handle != NULL) {
        mine.device = graph->link->device->index;
        snprintf(mine.provider, sizeof mine.provider, "%s",
                 provider_id(graph->link->device->provider));
    }
    memcpy(mine.why, graph->why, sizeof mine.why);
    pthread_mutex_unlock(&graph->lock);
    mine.calls = graph->calls.count;
    mine.launches = atomic_load(&graph->launches);
    mine.replays = atomic_load(&graph->replays);
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}
