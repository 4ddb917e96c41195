/* Calls between begin and end: checked as ever, kept instead of made. */
#include "graph.h"
#include "qmatmul_check.h"

#include <stdlib.h>
#include <string.h>

void *graph_list_add(graph_list *list, size_t size)
{
    unsigned char *item;

    if (list->count == list->room) {
        uint64_t room = list->room == 0 ? 32 : list->room * 2, bytes;
        void *grown;
        if (!tenon_mul_u64(room, size, &bytes) || bytes > SIZE_MAX) return NULL;
        grown = realloc(list->items, (size_t)bytes);
        if (grown == NULL) return NULL;
        list->items = grown;
        list->room = room;
    }
    item = graph_list_at(list, size, list->count++);
    memset(item, 0, size);
    return item;
}

static int32_t no_memory(tenon_error *error)
{
    return fail_memory(error, sizeof(graph_call), "no memory to record a call");
}

static int32_t host_view(const char *name, tenon_error *error)
{
    return fail_text(error, TENON_STATE, TENON_REASON_CAPTURING, TENON_SCOPE_CALL, 0, 0,
                     "%s: host memory in a recorded call, whose views are buffers", name);
}

static graph_call *add_call(tenon_graph *graph, uint32_t operation)
{
    graph_call *call = graph_list_add(&graph->calls, sizeof *call);
    if (call != NULL) call->operation = operation;
    return call;
}

/* A call that cannot be kept whole is not kept. */
static int32_t drop_call(tenon_graph *graph, tenon_error *error)
{
    graph->calls.count--;
    return no_memory(error);
}

/* Did calls recorded so far write all that a view reads? */
static bool written_before(const tenon_graph *graph, const byte_rows *rows)
{
    uint64_t at = rows->start, end = at + (rows->count - 1) * rows->stride + rows->width, i = 0;

    while (at < end && i < graph->outputs.count) {
        const byte_rows *made = &GRAPH_AT(&graph->outputs, graph_view, i++)->rows;
        bool dense = made->count == 1 || made->stride == made->width;
        if (!dense || made->start > at || made->start + made->count * made->width <= at) continue;
        at = made->start + made->count * made->width;
        i = 0; /* what follows may stand before it in the list */
    }
    return at >= end;
}

static bool same_rows(const byte_rows *a, const byte_rows *b)
{
    return a->start == b->start && a->width == b->width && a->count == b->count &&
           (a->count == 1 || a->stride == b->stride);
}

/* Keeps a view once. false: no memory. */
static bool add_view(graph_list *list, const tenon_view *view, const byte_rows *rows)
{
    graph_view *item;
    uint64_t i;

    for (i = 0; i < list->count; i++)
        if (same_rows(&GRAPH_AT(list, graph_view, i)->rows, rows)) return true;
    item = graph_list_add(list, sizeof *item);
    if (item == NULL) return false;
    item->view = *view;
    item->rows = *rows;
    return true;
}

static bool reads(tenon_graph *graph, const tenon_view *view, const byte_rows *rows)
{
    return written_before(graph, rows) || add_view(&graph->inputs, view, rows);
}

static bool writes(tenon_graph *graph, const tenon_view *view, const byte_rows *rows)
{
    return add_view(&graph->outputs, view, rows);
}

static bool uses(tenon_graph *graph, tenon_weight *weight)
{
    graph_weight *item;
    uint64_t i;

    for (i = 0; i < graph->weights.count; i++)
        if (GRAPH_AT(&graph->weights, graph_weight, i)->weight == weight) return true;
    item = graph_list_add(&graph->weights, sizeof *item);
    if (item != NULL) item->weight = weight;
    return item != NULL;
}

int32_t graph_record_operation(tenon_queue *queue, uint32_t index, operation_request *request,
                               tenon_error *error)
{
    tenon_graph *graph = queue->capture;
    operation_facts facts;
    graph_call *call;
    bool kept = true;
    uint32_t i, last;
    int32_t status = operation_check(queue->session, index, request, &facts, error);

    if (status != TENON_OK) return status;
    last = facts.view_count - 1;
    for (i = 0; i <= last; i++)
        if (facts.at[i]->buffer == NULL) return host_view(facts.names[i], error);
    for (i = 0; i < last; i++) kept = kept && reads(graph, facts.at[i], &facts.views[i]);
    if (facts.weight != NULL) kept = kept && uses(graph, facts.weight);
    call = kept ? add_call(graph, index) : NULL;
    if (call == NULL) return no_memory(error);
    call->request.simple = *request;
    if (!writes(graph, facts.at[last], &facts.views[last])) return drop_call(graph, error);
    graph->counts[index]++;
    return TENON_OK;
}

int32_t graph_record_qmatmul(tenon_queue *queue, const tenon_qmatmul_call *theirs,
                             tenon_error *error)
{
    tenon_graph *graph = queue->capture;
    byte_rows rows;
    graph_call *call;
    bool kept;
    uint32_t i;
    int32_t status = qmatmul_check(queue->session, theirs, error);

    if (status != TENON_OK) return status;
    if (theirs->x.buffer == NULL) return host_view("x", error);
    for (i = 0; i < theirs->output_count; i++)
        if (theirs->outputs[i].y.buffer == NULL) return host_view("outputs[].y", error);
    rows = qmatmul_x_rows(theirs);
    kept = reads(graph, &theirs->x, &rows);
    for (i = 0; i < theirs->output_count; i++)
        kept = kept && uses(graph, theirs->outputs[i].weight);
    call = kept ? add_call(graph, OPERATION_QMATMUL) : NULL;
    if (call == NULL) return no_memory(error);
    call->request.qmatmul = *theirs;
    for (i = 0; i < theirs->output_count; i++) {
        rows = qmatmul_y_rows(theirs, i);
        if (!writes(graph, &theirs->outputs[i].y, &rows)) return drop_call(graph, error);
    }
    graph->counts[OPERATION_QMATMUL] += theirs->output_count;
    return TENON_OK;
}

static graph_cache *cache_of(tenon_graph *graph, tenon_cache *cache)
{
    graph_cache *item;
    uint64_t i;

    for (i = 0; i < graph->caches.count; i++) {
        item = GRAPH_AT(&graph->caches, graph_cache, i);
        if (item->cache == cache) return item;
    }
    item = graph_list_add(&graph->caches, sizeof *item);
    if (item != NULL) item->cache = cache;
    return item;
}

int32_t graph_record_append(tenon_queue *queue, const tenon_append_call *theirs, const byte_rows *k,
                            const byte_rows *v, tenon_error *error)
{
    tenon_graph *graph = queue->capture;
    graph_cache *item;
    graph_call *call;

    if (theirs->k.buffer == NULL) return host_view("k", error);
    if (theirs->v.buffer == NULL) return host_view("v", error);
    item = cache_of(graph, theirs->cache);
    if (item == NULL || !reads(graph, &theirs->k, k) || !reads(graph, &theirs->v, v))
        return no_memory(error);
    call = add_call(graph, GRAPH_APPEND);
    if (call == NULL) return no_memory(error);
    call->request.append = *theirs;
    item->appended += theirs->tokens;
    item->cache->recorded = item->appended;
    return TENON_OK;
}

int32_t graph_record_attention(tenon_queue *queue, const tenon_attention_call *theirs,
                               const byte_rows *q, const byte_rows *y, tenon_error *error)
{
    tenon_graph *graph = queue->capture;
    graph_cache *item;
    graph_call *call;

    if (theirs->q.buffer == NULL) return host_view("q", error);
    if (theirs->y.buffer == NULL) return host_view("y", error);
    item = cache_of(graph, theirs->cache);
    call = item != NULL && reads(graph, &theirs->q, q) ? add_call(graph, OPERATION_ATTENTION)
                                                       : NULL;
    if (call == NULL) return no_memory(error);
    call->request.attention = *theirs;
    if (!writes(graph, &theirs->y, y)) return drop_call(graph, error);
    if (theirs->tokens > item->appended && theirs->tokens - item->appended > item->needed)
        item->needed = theirs->tokens - item->appended;
    graph->counts[OPERATION_ATTENTION]++;
    return TENON_OK;
}

void graph_forget_recorded(tenon_graph *graph)
{
    uint64_t i;

    for (i = 0; i < graph->caches.count; i++) {
        tenon_cache *cache = GRAPH_AT(&graph->caches, graph_cache, i)->cache;
        pthread_mutex_lock(&cache->lock);
        cache->recorded = 0;
        pthread_mutex_unlock(&cache->lock);
    }
}
