/* The graphs of a fake provider: a list of calls, made again at each launch. Included by
 * fake_provider.h. A call of an operation asks fake_records first: when it is recorded, nothing of
 * it is done. */
#ifndef TENON_TESTS_FAKE_GRAPH_H
#define TENON_TESTS_FAKE_GRAPH_H

enum {
    FAKE_CALL_QMATMUL,
    FAKE_CALL_embed,
    FAKE_CALL_rmsnorm,
    FAKE_CALL_gated,
    FAKE_CALL_add,
    FAKE_CALL_argmax,
    FAKE_CALL_APPEND,
    FAKE_CALL_ATTENTION
};
#define FAKE_GRAPH_CALLS 64

typedef struct fake_graph_of_calls {
    fake_state *owner;
    int kinds[FAKE_GRAPH_CALLS];
    union {
        tenon_qmatmul_call qmatmul;
        tenon_embed_call embed;
        tenon_rmsnorm_call rmsnorm;
        tenon_gated_call gated;
        tenon_add_call add;
        tenon_argmax_call argmax;
        tenon_append_call append;
        tenon_attention_call attention;
    } calls[FAKE_GRAPH_CALLS];
    int count;
} fake_graph_of_calls;

/* true: the call is recorded (or declined: *status), not to be made. view: one of the call's. */
static inline bool fake_records(tenon_device *handle, int kind, const void *call, size_t size,
                                const tenon_view *view, int32_t *status, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    fake_graph_of_calls *graph = self->recording;
    if (graph == NULL) return false;
    *status = TENON_OK;
    if (self->record_decline == (unsigned)graph->count + 1) {
        *status = fake_answer(self, TENON_DECLINED, error);
        return true;
    }
    if (view->buffer == NULL && !self->record_host) {
        *status = tenon_fail(error, TENON_DECLINED, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                             "host memory");
        return true;
    }
    if (graph->count == FAKE_GRAPH_CALLS) abort();
    graph->kinds[graph->count] = kind;
    memcpy(&graph->calls[graph->count++], call, size);
    return true;
}

#endif
