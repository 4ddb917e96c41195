/* A graph on a device: recorded there once, launched as one while it fits. */
#include "graph.h"

#include "border.h"
#include "counters.h"
#include "failure.h"
#include "queue.h"

#include <stdio.h>
#include <string.h>

/* Says why a graph is not captured. */
static void tell(tenon_graph *graph, const char *why)
{
    pthread_mutex_lock(&graph->lock);
    snprintf(graph->why, sizeof graph->why, "%.*s", (int)sizeof graph->why - 1, why);
    pthread_mutex_unlock(&graph->lock);
}

void graph_release(tenon_graph *graph, const char *why)
{
    session_link *link = graph->link;
    tenon_device_graph *handle = graph->handle;

    if (handle != NULL) {
        pthread_mutex_lock(&graph->lock);
        graph->handle = NULL;
        pthread_mutex_unlock(&graph->lock);
        border_graph_release(link, handle);
    }
    if (why != NULL) tell(graph, why);
}

/* ---- recording on a link -------------------------------------------------------------------- */

static bool at_home(const session_link *link, tenon_weight *weight, weight_slot **slot)
{
    *slot = atomic_load(&weight->home);
    return *slot != NULL && (*slot)->link == link;
}

/* Can the link take every call? "" or why not. */
static const char *fits(const tenon_graph *graph, const session_link *link)
{
    weight_slot *slot;
    uint64_t i;
    uint32_t operation;

    if (!operation_open(link, OPERATION_GRAPH, 0)) return "the link is out";
    for (operation = 0; operation < OPERATIONS; operation++)
        if (graph->counts[operation] > 0 && !operation_offered(link, operation))
            return "it lacks an operation of the graph";
    for (i = 0; i < graph->weights.count; i++)
        if (!at_home(link, GRAPH_AT(&graph->weights, graph_weight, i)->weight, &slot))
            return "a weight is elsewhere";
    for (i = 0; i < graph->caches.count; i++)
        if (GRAPH_AT(&graph->caches, graph_cache, i)->cache->link != link)
            return "a cache is elsewhere";
    return "";
}

/* Views of a request, as the link is handed them. */
static bool place(tenon_queue *queue, session_link *link, tenon_view *view, tenon_error *error)
{
    tenon_view theirs = *view;
    return transfer_place(queue, link, &theirs, view, error) == TRANSFER_OK;
}

static int32_t record_qmatmul(tenon_queue *queue, session_link *link, tenon_qmatmul_call call,
                              tenon_error *error)
{
    weight_slot *slots[TENON_QMATMUL_MAX_OUTPUTS];
    uint32_t which[TENON_QMATMUL_MAX_OUTPUTS], i;

    if (!place(queue, link, &call.x, error)) return error->status;
    for (i = 0; i < call.output_count; i++) {
        which[i] = i;
        if (!at_home(link, call.outputs[i].weight, &slots[i]))
            return tenon_fail(error, TENON_STATE, TENON_REASON_UPDATING, TENON_SCOPE_WEIGHT,
                              "a weight has moved");
        if (!place(queue, link, &call.outputs[i].y, error)) return error->status;
    }
    return border_run(queue, link, &call, which, slots, call.output_count, error);
}

static int32_t record_operation(tenon_queue *queue, session_link *link, uint32_t index,
                                operation_request request, tenon_error *error)
{
    operation_facts facts;
    weight_slot *slot;
    uint32_t i;
    int32_t status = operation_check(queue->session, index, &request, &facts, error);

    if (status != TENON_OK) return status;
    for (i = 0; i < facts.view_count; i++)
        if (!place(queue, link, facts.at[i], error)) return error->status;
    if (facts.weight != NULL) {
        if (!at_home(link, facts.weight, &slot))
            return tenon_fail(error, TENON_STATE, TENON_REASON_UPDATING, TENON_SCOPE_WEIGHT,
                              "a weight has moved");
        request.head.object = slot->prepared;
    }
    return border_operate(queue, link, index, &request, error);
}

static int32_t record(tenon_queue *queue, session_link *link, const graph_call *call,
                      tenon_error *error)
{
    tenon_append_call append;
    tenon_attention_call attention;

    switch (call->operation) {
    case OPERATION_QMATMUL: return record_qmatmul(queue, link, call->request.qmatmul, error);
    case GRAPH_APPEND:
        append = call->request.append;
        if (!place(queue, link, &append.k, error) || !place(queue, link, &append.v, error))
            return error->status;
        append.cache = ((tenon_cache *)append.cache)->handle;
        return border_cache_append(queue, link, &append, error);
    case OPERATION_ATTENTION:
        attention = call->request.attention;
        if (!place(queue, link, &attention.q, error) || !place(queue, link, &attention.y, error))
            return error->status;
        attention.cache = ((tenon_cache *)attention.cache)->handle;
        return border_cache_run(queue, link, &attention, error);
    default: return record_operation(queue, link, call->operation, call->request.simple, error);
    }
}

/* What a link answered instead of recording or launching. */
static void note(tenon_queue *queue, session_link *link, tenon_error *answer)
{
    counters_remember(link, OPERATION_GRAPH, answer);
    if (answer->status == TENON_DECLINED) {
        queue_count(queue, link, OPERATION_GRAPH, COUNT_DECLINED, 1);
    } else {
        queue_count(queue, link, OPERATION_GRAPH, COUNT_FAILED, 1);
        failure_in_operation(link, OPERATION_GRAPH, 0, answer);
    }
    link_name_answer(link, answer);
}

/* Notes the generation of every weight. false: one is being updated. */
static bool note_generations(tenon_graph *graph, const session_link *link)
{
    weight_slot *slot;
    bool good = true;
    uint64_t i;

    graph->epoch = atomic_load(&graph->session->weight_epoch);
    for (i = 0; i < graph->weights.count && good; i++) {
        graph_weight *one = GRAPH_AT(&graph->weights, graph_weight, i);
        pthread_mutex_lock(&one->weight->lock);
        good = at_home(link, one->weight, &slot);
        one->generation = one->weight->data.generation;
        pthread_mutex_unlock(&one->weight->lock);
    }
    return good;
}

static bool capture_on(tenon_queue *queue, tenon_graph *graph, session_link *link)
{
    tenon_error *answer = &queue->failure;
    tenon_device_graph *handle = NULL;
    uint64_t i;
    int32_t status;

    if (!note_generations(graph, link)) {
        tell(graph, "a weight is being updated");
        return false;
    }
    status = border_graph_begin(queue, link, answer);
    if (status != TENON_OK) goto out;
    for (i = 0; i < graph->calls.count && status == TENON_OK; i++)
        status = record(queue, link, GRAPH_AT(&graph->calls, graph_call, i), answer);
    if (status == TENON_OK)
        status = border_graph_end(queue, link, &handle, answer);
    else
        border_graph_abort(queue, link);
out:
    if (status != TENON_OK) {
        note(queue, link, answer);
        tell(graph, answer->text);
        return false;
    }
    pthread_mutex_lock(&graph->lock);
    graph->link = link;
    graph->handle = handle;
    graph->why[0] = '\0';
    pthread_mutex_unlock(&graph->lock);
    return true;
}

void graph_capture(tenon_queue *queue, tenon_graph *graph)
{
    tenon_session *session = queue->session;
    uint32_t i;

    tell(graph, "no link of the chain offers graph_v1");
    for (i = 0; i < session->link_count; i++) {
        session_link *link = &session->links[i];
        const char *why;
        if (!operation_offered(link, OPERATION_GRAPH)) continue;
        why = fits(graph, link);
        if (why[0] != '\0')
            tell(graph, why);
        else if (capture_on(queue, graph, link))
            return;
        /* nothing is done in silence: this costs speed, no bit */
        host_say(session->host, TENON_LOG_INFO,
                 "%s:%u does not take %llu calls as one, they are made one by one: %s",
                 provider_id(link->device->provider), link->device->index,
                 (unsigned long long)graph->calls.count, graph->why);
    }
}

/* ---- launching ------------------------------------------------------------------------------ */

/* Are all weights what they were when the graph was captured? */
static bool weights_same(tenon_graph *graph)
{
    uint64_t epoch = atomic_load(&graph->session->weight_epoch), i;
    weight_slot *slot;
    bool same = true;

    if (epoch == graph->epoch) return true;
    for (i = 0; i < graph->weights.count && same; i++) {
        const graph_weight *one = GRAPH_AT(&graph->weights, graph_weight, i);
        pthread_mutex_lock(&one->weight->lock);
        same = at_home(graph->link, one->weight, &slot) &&
               one->generation == one->weight->data.generation;
        pthread_mutex_unlock(&one->weight->lock);
    }
    if (same) graph->epoch = epoch;
    return same;
}

/* Brings what the calls read from outside, and what a write leaves of a buffer, to the link. */
static graph_launch_result bring(tenon_queue *queue, tenon_graph *graph, tenon_error *error)
{
    transfer_result result = TRANSFER_OK;
    tenon_view out;
    uint64_t i;

    for (i = 0; i < graph->inputs.count && result == TRANSFER_OK; i++) {
        const graph_view *one = GRAPH_AT(&graph->inputs, graph_view, i);
        result = transfer_in(queue, graph->link, &one->view, &one->rows, &out, error);
        if (result == TRANSFER_OK && out.buffer == NULL) return GRAPH_MAKE_CALLS;
    }
    for (i = 0; i < graph->outputs.count && result == TRANSFER_OK; i++) {
        const graph_view *one = GRAPH_AT(&graph->outputs, graph_view, i);
        result = transfer_out(queue, graph->link, &one->view, &one->rows, &out, error);
        if (result == TRANSFER_OK && out.buffer == NULL) return GRAPH_MAKE_CALLS;
    }
    if (result == TRANSFER_OK) return GRAPH_LAUNCHED;
    /* what is not written yet may be written by the calls; made one by one they will tell */
    if (result == TRANSFER_FAILED && error->reason != TENON_REASON_NOT_WRITTEN) return GRAPH_FAILED;
    return GRAPH_MAKE_CALLS;
}

/* The launch is made: counts, lengths, and which copies are valid now. */
static void take_note(tenon_queue *queue, tenon_graph *graph)
{
    session_link *link = graph->link;
    uint64_t i;
    uint32_t operation;

    for (i = 0; i < graph->outputs.count; i++) {
        const graph_view *one = GRAPH_AT(&graph->outputs, graph_view, i);
        const tenon_view on_link = {.buffer = one->view.buffer};
        transfer_written(link, &one->view, &one->rows, &on_link);
    }
    for (i = 0; i < graph->caches.count; i++) {
        const graph_cache *one = GRAPH_AT(&graph->caches, graph_cache, i);
        one->cache->length += one->appended;
    }
    for (operation = 0; operation < OPERATIONS; operation++) {
        if (graph->counts[operation] == 0) continue;
        queue_count(queue, link, operation, COUNT_CALLS, graph->counts[operation]);
        if (link->index > 0)
            queue_count(queue, link, operation, COUNT_FALLBACKS, graph->counts[operation]);
    }
    queue_count(queue, link, OPERATION_GRAPH, COUNT_CALLS, 1);
    atomic_fetch_add(&graph->launches, 1);
}

graph_launch_result graph_launch(tenon_queue *queue, tenon_graph *graph, tenon_error *error)
{
    session_link *link = graph->link;
    graph_launch_result result;
    uint64_t i;

    if (graph->handle == NULL) return GRAPH_MAKE_CALLS;
    if (!operation_open(link, OPERATION_GRAPH, 0)) {
        graph_release(graph, "its link is out");
        return GRAPH_MAKE_CALLS;
    }
    if (!weights_same(graph)) {
        graph_release(graph, "a weight has moved or changed");
        return GRAPH_MAKE_CALLS;
    }
    result = bring(queue, graph, error);
    if (result != GRAPH_LAUNCHED) return result;
    if (border_graph_launch(queue, link, graph->handle, &queue->failure) == TENON_OK) {
        take_note(queue, graph);
        return GRAPH_LAUNCHED;
    }
    for (i = 0; i < graph->outputs.count && queue->failure.status != TENON_DECLINED; i++) {
        const tenon_view *view = &GRAPH_AT(&graph->outputs, graph_view, i)->view;
        transfer_spoiled(link, view, view); /* the link's copy: the view names a buffer */
    }
    note(queue, link, &queue->failure);
    return GRAPH_MAKE_CALLS;
}
