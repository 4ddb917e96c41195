/* The operations that are one call over views: embed, rmsnorm, gated, add, argmax.
 *
 * One path for all of them: the request is checked whole, then the links of the chain are asked in
 * order, those that offer the operation; who declines or fails is passed over and the next one
 * computes the whole y again from the unchanged inputs, down to the reference. */
#include "operation.h"

#include "border.h"
#include "buffer.h"
#include "counters.h"
#include "failure.h"
#include "graph.h"
#include "queue.h"
#include "slot.h"

#include <string.h>

/* Where the weight of an embed call lies on a link; prepared there when it is not yet. */
static int32_t find_weight(tenon_weight *weight, const session_link *link, tenon_prepared **out,
                           tenon_error *error)
{
    const weight_slot *home = atomic_load(&weight->home);
    weight_slot *slot = &weight->slots[link->index];
    int32_t status;

    if (home == slot) { /* what home points to does not change while calls can see it */
        *out = slot->prepared;
        return TENON_OK;
    }
    pthread_mutex_lock(&weight->lock);
    status = slot_ready(weight, slot, 0, error);
    if (status == TENON_OK) *out = slot->prepared;
    pthread_mutex_unlock(&weight->lock);
    return status;
}

/* Remembers what a link answered instead of computing. */
static void note(tenon_queue *queue, session_link *link, uint32_t index, uint64_t tokens,
                 tenon_error *answer)
{
    counters_remember(link, index, answer);
    if (answer->status == TENON_DECLINED) {
        queue_count(queue, link, index, COUNT_DECLINED, 1);
    } else {
        queue_count(queue, link, index, COUNT_FAILED, 1);
        failure_in_operation(link, index, tokens, answer);
    }
    link_name_answer(link, answer);
}

/* Why a link is passed over without being asked; *error is filled. */
static void passed_over(const session_link *link, uint32_t index, uint64_t tokens,
                        tenon_error *error)
{
    uint32_t reason = link_out(link);

    if (reason != 0)
        tenon_fail(error, TENON_STATE, reason, TENON_SCOPE_DEVICE, tenon_reason_text(reason));
    else
        fail_text(error, TENON_STATE, TENON_REASON_FAILED_BEFORE, TENON_SCOPE_CALL, tokens,
                  atomic_load_explicit(&link->operations[index].limit, memory_order_relaxed),
                  "%s failed before at as many tokens", operation_name(index));
    link_name_answer(link, error);
}

/* What ask answers when the buffers of a call cannot be had on any link; no status of the ABI. */
#define NO_LINK_CAN 2

/* Puts the views of the link into a request. Negative: the link is gone, or NO_LINK_CAN. */
static int32_t place_views(tenon_queue *queue, session_link *link, const operation_facts *facts,
                           const tenon_view *theirs, tenon_error *error)
{
    uint32_t i, last = facts->view_count - 1;
    transfer_result result = TRANSFER_OK;

    for (i = 0; i < last && result == TRANSFER_OK; i++)
        result = transfer_in(queue, link, &theirs[i], &facts->views[i], facts->at[i], error);
    if (result == TRANSFER_OK)
        result = transfer_out(queue, link, &theirs[last], &facts->views[last], facts->at[last],
                              error);
    if (result == TRANSFER_FAILED) return NO_LINK_CAN;
    return result == TRANSFER_OK ? TENON_OK : error->status;
}

/* Asks one link. theirs: the engine's views. */
static int32_t ask(tenon_queue *queue, session_link *link, uint32_t index,
                   operation_request *request, const operation_facts *facts,
                   const tenon_view *theirs, tenon_error *error)
{
    uint32_t last = facts->view_count - 1;
    tenon_prepared *prepared = NULL;
    int32_t status;

    if (!operation_open(link, index, facts->tokens)) {
        passed_over(link, index, facts->tokens, error);
        return error->status;
    }
    if (facts->weight != NULL) {
        status = find_weight(facts->weight, link, &prepared, error);
        if (status != TENON_OK) return status; /* counted with the weight, under qmatmul */
        request->head.object = prepared;
    }
    if (facts->buffers) {
        status = place_views(queue, link, facts, theirs, error);
        if (status != TENON_OK) return status;
    }
    status = border_operate(queue, link, index, request, error);
    if (status != TENON_OK) note(queue, link, index, facts->tokens, error);
    if (!facts->buffers) return status;
    if (status == TENON_OK)
        transfer_written(link, &theirs[last], &facts->views[last], facts->at[last]);
    else if (status != TENON_DECLINED)
        transfer_spoiled(link, &theirs[last], facts->at[last]);
    return status;
}

int32_t operation_check(const tenon_session *session, uint32_t index, operation_request *request,
                        operation_facts *facts, tenon_error *error)
{
    const byte_rows *y;
    uint32_t i;
    int32_t status;

    facts->tokens = 0;
    facts->weight = NULL;
    facts->view_count = 0;
    facts->buffers = false;
    status = operation_at(index)->check(session, request, facts, error);
    if (status != TENON_OK) return status;
    y = &facts->views[facts->view_count - 1];
    for (i = 0; i + 1 < facts->view_count; i++)
        if (byte_rows_overlap(&facts->views[i], y))
            return fail_text(error, TENON_ARG, TENON_REASON_OVERLAP, TENON_SCOPE_CALL, 0, 0,
                             "y: overlaps %s (R12)", facts->names[i]);
    return TENON_OK;
}

int32_t operation_perform(tenon_queue *queue, uint32_t index, operation_request *request,
                          tenon_error *error)
{
    tenon_session *session = queue->session;
    tenon_view theirs[OPERATION_VIEWS];
    operation_facts facts;
    uint32_t i;
    bool asked = false;
    int32_t status = operation_check(session, index, request, &facts, error);

    if (status != TENON_OK) return status;
    for (i = 0; i < facts.view_count; i++) theirs[i] = *facts.at[i];
    if (facts.weight != NULL && atomic_load(&facts.weight->home) == NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_UPDATING, TENON_SCOPE_WEIGHT,
                          "the weight of the call is being updated");
    if (queue->verdict.status != TENON_OK) queue->verdict = (tenon_error)EMPTY_ERROR;
    for (i = 0; i < session->link_count; i++) {
        session_link *link = &session->links[i];
        if (!operation_offered(link, index)) continue;
        asked = true;
        status = ask(queue, link, index, request, &facts, theirs, &queue->failure);
        if (status == NO_LINK_CAN) return fail_again(&queue->failure, error);
        if (status == TENON_OK) {
            queue_count(queue, link, index, COUNT_CALLS, 1);
            if (i == 0) return TENON_OK;
            queue_count(queue, link, index, COUNT_FALLBACKS, 1);
            if (link->final) failure_say_reference(session, index, &queue->verdict);
            return TENON_OK;
        }
        slot_keep_verdict(&queue->verdict, &queue->failure, link->final);
    }
    return asked ? failure_nobody(&queue->verdict, error)
                 : fail_text(error, TENON_DECLINED, TENON_REASON_CHAIN_DECLINED, TENON_SCOPE_CALL,
                             0, 0, "%s: no link of the chain offers it", operation_name(index));
}

/* What every function of the engine's border does. theirs is in the engine's size. */
static int32_t operate(tenon_queue *queue, uint32_t index, const void *theirs, tenon_error *error)
{
    const operation_row *row = operation_at(index);
    operation_request request;
    int32_t status;

    if (queue == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "queue is NULL");
    if (fork_guard_crossed(queue->fork_mark)) return fail_forked(error);
    status = struct_take(&request, row->request_size, theirs, row->type, error);
    if (status != TENON_OK) return status;
    if (!queue_enter(queue))
        return tenon_fail(error, TENON_STATE, TENON_REASON_IN_USE, TENON_SCOPE_CALL,
                          "another thread is in a call on this queue");
    status = queue->capture == NULL ? operation_perform(queue, index, &request, error)
                                    : graph_record_operation(queue, index, &request, error);
    queue_leave(queue);
    return status;
}

int32_t TENON_CALL tenon_embed(struct tenon_queue *queue, const tenon_embed_call *call,
                               tenon_error *error)
{
    return operate(queue, OPERATION_EMBED, call, error);
}

int32_t TENON_CALL tenon_rmsnorm(struct tenon_queue *queue, const tenon_rmsnorm_call *call,
                                 tenon_error *error)
{
    return operate(queue, OPERATION_RMSNORM, call, error);
}

int32_t TENON_CALL tenon_gated(struct tenon_queue *queue, const tenon_gated_call *call,
                               tenon_error *error)
{
    return operate(queue, OPERATION_GATED, call, error);
}

int32_t TENON_CALL tenon_add(struct tenon_queue *queue, const tenon_add_call *call,
                             tenon_error *error)
{
    return operate(queue, OPERATION_ADD, call, error);
}

int32_t TENON_CALL tenon_argmax(struct tenon_queue *queue, const tenon_argmax_call *call,
                                tenon_error *error)
{
    return operate(queue, OPERATION_ARGMAX, call, error);
}
