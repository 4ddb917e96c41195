/* tenon_qmatmul: who runs which output, and what happens when somebody does not.
 *
 * Outputs are grouped by the link that holds their weight. A group that is declined is tried output
 * by output; what is still declined, and every group that fails, goes to the next link, which
 * computes the whole y again from the unchanged inputs, down to the reference. */
#include "border.h"
#include "buffer.h"
#include "counters.h"
#include "failure.h"
#include "graph.h"
#include "qmatmul_check.h"
#include "queue.h"
#include "slot.h"

#define OUTPUTS TENON_QMATMUL_MAX_OUTPUTS

/* One call on its way. */
typedef struct work {
    tenon_queue *queue;
    const tenon_qmatmul_call *call;
    weight_slot *at[OUTPUTS]; /* where each output is to be run next */
    uint32_t left;            /* outputs not yet computed: bit i for outputs[i] */
    bool buffers;             /* some view names a buffer */
    bool hopeless;            /* no link can do it; queue->verdict is the answer */
} work;

/* Outputs that go to one link together. */
typedef struct group {
    uint32_t which[OUTPUTS];
    weight_slot *slots[OUTPUTS];
    uint32_t count;
} group;

/* Finds the next place for an output, from link from on. */
static int32_t move_on(work *self, uint32_t output, uint32_t from)
{
    tenon_weight *weight = self->call->outputs[output].weight;
    const tenon_session *session = self->queue->session;
    tenon_error nobody = EMPTY_ERROR;
    int32_t status;

    pthread_mutex_lock(&weight->lock);
    status = slot_find(weight, from, self->call->tokens, &self->at[output], &nobody);
    pthread_mutex_unlock(&weight->lock);
    if (status == TENON_OK) return TENON_OK;
    if (from < session->link_count)
        slot_keep_verdict(&self->queue->verdict, &nobody,
                          session->links[session->link_count - 1].final);
    return TENON_INTERNAL;
}

/* Puts the views of the link into a copy of the call, as far as the group needs it. */
static transfer_result place_views(const work *self, const group *members, tenon_qmatmul_call *out,
                                   tenon_error *error)
{
    session_link *link = members->slots[0]->link;
    const tenon_qmatmul_call *call = self->call;
    byte_rows rows = qmatmul_x_rows(call);
    transfer_result result;
    uint32_t i;

    *out = *call;
    result = transfer_in(self->queue, link, &call->x, &rows, &out->x, error);
    for (i = 0; i < members->count && result == TRANSFER_OK; i++) {
        uint32_t which = members->which[i];
        rows = qmatmul_y_rows(call, which);
        result = transfer_out(self->queue, link, &call->outputs[which].y, &rows,
                              &out->outputs[which].y, error);
    }
    return result;
}

/* The same call over buffers: moved before, taken note of after. */
static int32_t run_with_buffers(work *self, const group *members)
{
    session_link *link = members->slots[0]->link;
    tenon_queue *queue = self->queue;
    tenon_qmatmul_call placed;
    transfer_result result = place_views(self, members, &placed, &queue->failure);
    uint32_t i;
    int32_t status;

    if (result == TRANSFER_FAILED) self->hopeless = true;
    if (result != TRANSFER_OK) return queue->failure.status;
    status = border_run(queue, link, &placed, members->which, members->slots, members->count,
                        &queue->failure);
    for (i = 0; i < members->count; i++) {
        uint32_t which = members->which[i];
        const tenon_view *theirs = &self->call->outputs[which].y;
        byte_rows rows = qmatmul_y_rows(self->call, which);
        if (status == TENON_OK)
            transfer_written(link, theirs, &rows, &placed.outputs[which].y);
        else if (status != TENON_DECLINED)
            transfer_spoiled(link, theirs, &placed.outputs[which].y);
    }
    return status;
}

/* Runs a group; TENON_OK, or its failure, counted and remembered, in queue->failure. */
static int32_t run(work *self, const group *members)
{
    tenon_queue *queue = self->queue;
    session_link *link = members->slots[0]->link;
    uint32_t i;
    int32_t status;

    if (self->buffers)
        status = run_with_buffers(self, members);
    else
        status = border_run(queue, link, self->call, members->which, members->slots, members->count,
                            &queue->failure);
    if (self->hopeless) {
        queue->verdict = queue->failure;
        return status;
    }
    if (status == TENON_OK) {
        queue_count(queue, link, OPERATION_QMATMUL, COUNT_CALLS, members->count);
        if (link->index > 0)
            queue_count(queue, link, OPERATION_QMATMUL, COUNT_FALLBACKS, members->count);
        for (i = 0; i < members->count; i++) self->left &= ~(1u << members->which[i]);
        return TENON_OK;
    }
    if (status == TENON_DECLINED && members->count > 1) return status; /* not yet the last word */
    counters_remember(link, OPERATION_QMATMUL, &queue->failure);
    if (status == TENON_DECLINED) {
        queue_count(queue, link, OPERATION_QMATMUL, COUNT_DECLINED, members->count);
    } else {
        queue_count(queue, link, OPERATION_QMATMUL, COUNT_FAILED, members->count);
        failure_in_run(link, members->slots, members->count, self->call->tokens, &queue->failure);
    }
    link_name_answer(link, &queue->failure);
    slot_keep_verdict(&queue->verdict, &queue->failure, link->final);
    return status;
}

/* Runs a group, or its outputs one by one, or sends them on. Not TENON_OK: nobody is left. */
static int32_t settle(work *self, const group *members)
{
    uint32_t i, next = members->slots[0]->link->index + 1;
    int32_t status = run(self, members);

    if (status == TENON_OK) return TENON_OK;
    if (self->hopeless) return TENON_INTERNAL;
    for (i = 0; i < members->count; i++) {
        group one = {{members->which[i]}, {members->slots[i]}, 1};
        if (status == TENON_DECLINED && members->count > 1) {
            /* the first failure of a single one may have closed the link for the rest */
            if (slot_open(members->slots[i], self->call->tokens) && run(self, &one) == TENON_OK)
                continue;
            if (self->hopeless) return TENON_INTERNAL;
        }
        if (move_on(self, members->which[i], next) != TENON_OK) return TENON_INTERNAL;
    }
    return TENON_OK;
}

int32_t qmatmul_perform(tenon_queue *queue, const tenon_qmatmul_call *call, tenon_error *error)
{
    work self = {.queue = queue, .call = call, .left = 0, .buffers = call->x.buffer != NULL};
    uint32_t i;
    int32_t status = qmatmul_check(queue->session, call, error);

    if (status != TENON_OK) return status;
    if (queue->verdict.status != TENON_OK) queue->verdict = (tenon_error)EMPTY_ERROR;
    for (i = 0; i < call->output_count; i++) {
        tenon_weight *weight = call->outputs[i].weight;
        if (call->outputs[i].y.buffer != NULL) self.buffers = true;
        self.at[i] = atomic_load(&weight->home);
        if (self.at[i] == NULL)
            return tenon_fail(error, TENON_STATE, TENON_REASON_UPDATING, TENON_SCOPE_WEIGHT,
                              "a weight of the call is being updated");
    }
    self.left = (1u << call->output_count) - 1u;
    for (i = 0; i < call->output_count; i++)
        if (!slot_open(self.at[i], call->tokens) && move_on(&self, i, 0) != TENON_OK)
            return failure_nobody(&queue->verdict, error);
    while (self.left != 0) {
        group members = {.count = 0};
        for (i = 0; i < call->output_count; i++) {
            if ((self.left >> i & 1u) == 0) continue;
            if (members.count > 0 && members.slots[0]->link != self.at[i]->link) continue;
            members.which[members.count] = i;
            members.slots[members.count++] = self.at[i];
        }
        if (settle(&self, &members) != TENON_OK) return failure_nobody(&queue->verdict, error);
    }
    return TENON_OK;
}

int32_t TENON_CALL tenon_qmatmul(struct tenon_queue *queue, const tenon_qmatmul_call *call,
                                 tenon_error *error)
{
    tenon_qmatmul_call copy;
    int32_t status;

    if (queue == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "queue is NULL");
    if (fork_guard_crossed(queue->fork_mark)) return fail_forked(error);
    if (call == NULL || call->struct_size != sizeof *call ||
        call->abi_version != TENON_ABI_VERSION) {
        status = struct_take(&copy, sizeof copy, call, "tenon_qmatmul_call", error);
        if (status != TENON_OK) return status;
        call = &copy;
    }
    if (!queue_enter(queue))
        return tenon_fail(error, TENON_STATE, TENON_REASON_IN_USE, TENON_SCOPE_CALL,
                          "another thread is in a call on this queue");
    status = queue->capture == NULL ? qmatmul_perform(queue, call, error)
                                    : graph_record_qmatmul(queue, call, error);
    queue_leave(queue);
    return status;
}
