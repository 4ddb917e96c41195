/* Requests of the whole operations with their right answers: what their tests start from. */
#ifndef TENON_TESTS_OPERATIONS_RIG_H
#define TENON_TESTS_OPERATIONS_RIG_H

#include "test_host_rig.h"

#define OP_TOKENS 5u
#define OP_WIDTH 48u /* of rmsnorm, gated, add, argmax; embed has RIG_COLS */
#define OP_FLOATS (OP_TOKENS * RIG_COLS)

/* The operations that are one call, in the order of the counters behind qmatmul. */
enum { OP_EMBED, OP_RMSNORM, OP_GATED, OP_ADD, OP_ARGMAX, OPS };
static const char *const op_names[OPS] = {"embed", "rmsnorm", "gated", "add", "argmax"};
static const uint32_t op_bits[OPS] = {FAKE_EMBED, FAKE_RMSNORM, FAKE_GATED, FAKE_ADD, FAKE_ARGMAX};
#define OP_ALL 31u

typedef union op_request {
    tenon_embed_call embed;
    tenon_rmsnorm_call rmsnorm;
    tenon_gated_call gated;
    tenon_add_call add;
    tenon_argmax_call argmax;
} op_request;

/* A host with fakes, a session with a weight, inputs, and room for an answer. */
typedef struct op_rig {
    tenon_host *host;
    tenon_session *session;
    tenon_weight *weight;
    float values[RIG_ROWS * RIG_COLS], a[OP_FLOATS], b[OP_FLOATS], w[OP_WIDTH];
    uint32_t ids[OP_TOKENS];
    float y[OP_FLOATS];
    op_request request;
} op_rig;

static inline tenon_view op_view(const void *bytes, uint64_t count)
{
    return (tenon_view){(void *)(uintptr_t)bytes, NULL, 0, count};
}

/* A good request of an operation over the inputs of the rig; rows follow each other. */
static inline op_request op_make(op_rig *self, int op, uint64_t tokens, tenon_weight *weight,
                                 float *y)
{
    const uint64_t row = OP_WIDTH * 4;
    op_request out;
    memset(&out, 0, sizeof out);
    switch (op) {
    case OP_EMBED:
        out.embed = (tenon_embed_call){TENON_HEAD(tenon_embed_call),
                                       .weight = weight,
                                       .ids = op_view(self->ids, tokens * 4),
                                       .y = op_view(y, tokens * RIG_COLS * 4),
                                       .tokens = tokens,
                                       .y_row_stride = RIG_COLS * 4,
                                       .scale = 1.5f};
        break;
    case OP_RMSNORM:
        out.rmsnorm = (tenon_rmsnorm_call){TENON_HEAD(tenon_rmsnorm_call),
                                           .x = op_view(self->a, tokens * row),
                                           .w = op_view(self->w, row / 3),
                                           .y = op_view(y, tokens * row),
                                           .tokens = tokens,
                                           .groups = 3,
                                           .width = OP_WIDTH / 3,
                                           .x_row_stride = row,
                                           .y_row_stride = row,
                                           .eps = 1e-5f};
        break;
    case OP_GATED:
        out.gated = (tenon_gated_call){TENON_HEAD(tenon_gated_call),
                                       .gate = op_view(self->a, tokens * row),
                                       .up = op_view(self->b, tokens * row),
                                       .y = op_view(y, tokens * row),
                                       .tokens = tokens,
                                       .width = OP_WIDTH,
                                       .gate_row_stride = row,
                                       .up_row_stride = row,
                                       .y_row_stride = row,
                                       .activation = TENON_ACT_SILU};
        break;
    case OP_ADD:
        out.add = (tenon_add_call){TENON_HEAD(tenon_add_call),
                                   .a = op_view(self->a, tokens * row),
                                   .b = op_view(self->b, tokens * row),
                                   .y = op_view(y, tokens * row),
                                   .tokens = tokens,
                                   .width = OP_WIDTH,
                                   .a_row_stride = row,
                                   .b_row_stride = row,
                                   .y_row_stride = row};
        break;
    default:
        out.argmax = (tenon_argmax_call){TENON_HEAD(tenon_argmax_call),
                                         .x = op_view(self->a, tokens * row),
                                         .y = op_view(y, tokens * 4),
                                         .tokens = tokens,
                                         .width = OP_WIDTH,
                                         .x_row_stride = row};
        break;
    }
    return out;
}

static inline int32_t op_call(tenon_queue *queue, int op, const op_request *request,
                              tenon_error *error)
{
    const void *call = request; /* every request starts the union; it may be NULL */
    switch (op) {
    case OP_EMBED: return tenon_embed(queue, call, error);
    case OP_RMSNORM: return tenon_rmsnorm(queue, call, error);
    case OP_GATED: return tenon_gated(queue, call, error);
    case OP_ADD: return tenon_add(queue, call, error);
    default: return tenon_argmax(queue, call, error);
    }
}

static inline uint64_t op_bytes(int op, uint64_t tokens)
{
    return tokens * 4 * (op == OP_EMBED ? RIG_COLS : op == OP_ARGMAX ? 1u : OP_WIDTH);
}

/* The right answers of OP_TOKENS rows, by the reference alone. */
static float op_right[OPS][OP_FLOATS];

static inline void op_start(op_rig *self, int fakes)
{
    tenon_host *host;
    tenon_session *session;
    tenon_weight *weight;
    int i;
    memset(self, 0, sizeof *self);
    memset(rig_said.lines, 0, sizeof rig_said.lines);
    memset(rig_said.all, 0, sizeof rig_said.all);
    rig_fill(self->values, RIG_ROWS * RIG_COLS, 1);
    rig_fill(self->a, OP_FLOATS, 2);
    rig_fill(self->b, OP_FLOATS, 3);
    rig_fill(self->w, OP_WIDTH, 4);
    for (i = 0; i < (int)OP_TOKENS; i++) self->ids[i] = (uint32_t)(7 * i) % RIG_ROWS;
    host = rig_host(1);
    session = rig_session(host, "reference", TENON_MODE_PIN);
    weight = rig_weight(session, self->values, RIG_ROWS);
    for (i = 0; i < OPS; i++) {
        op_request request = op_make(self, i, OP_TOKENS, weight, op_right[i]);
        rig_ok(op_call(tenon_session_queue(session), i, &request, &rig_error));
    }
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
    self->host = rig_host(1);
    for (i = 0; i < fakes; i++) rig_ok(fake_register(self->host, i, &rig_error));
}

static inline void op_open(op_rig *self, const char *chain, uint32_t mode)
{
    self->session = rig_session(self->host, chain, mode);
    self->weight = rig_weight(self->session, self->values, RIG_ROWS);
}

/* Runs an operation for so many tokens over a poisoned y. */
static inline int32_t op_run(op_rig *self, int op, uint64_t tokens)
{
    memset(self->y, 0xa5, sizeof self->y);
    self->request = op_make(self, op, tokens, self->weight, self->y);
    return op_call(tenon_session_queue(self->session), op, &self->request, &rig_error);
}

/* Runs it and compares the bits, those beyond the answer included. */
static inline void op_run_right(op_rig *self, int op, uint64_t tokens)
{
    const unsigned char *bytes = (const unsigned char *)self->y;
    size_t i, used = (size_t)op_bytes(op, tokens);
    rig_ok(op_run(self, op, tokens));
    ck_assert_msg(memcmp(self->y, op_right[op], used) == 0, "%s: other bits", op_names[op]);
    for (i = used; i < sizeof self->y; i++) ck_assert_uint_eq(bytes[i], 0xa5);
}

static inline bool op_untouched(const op_rig *self)
{
    const unsigned char *bytes = (const unsigned char *)self->y;
    size_t i;
    for (i = 0; i < sizeof self->y; i++)
        if (bytes[i] != 0xa5) return false;
    return true;
}

/* The counter of an operation by its name. */
static inline tenon_counter op_counter(tenon_session *session, const char *name, uint64_t link)
{
    uint64_t count = 0, links = 0, i;
    rig_ok(tenon_session_counter_count(session, &count, &rig_error));
    rig_ok(tenon_session_link_count(session, &links, &rig_error));
    for (i = link; i < count; i += links) {
        tenon_counter counter = rig_counter(session, i);
        if (strcmp(counter.operation, name) == 0) return counter;
    }
    ck_abort_msg("no counter of %s", name);
    return (tenon_counter){TENON_HEAD(tenon_counter), .device = 0};
}

static inline void op_counted(const op_rig *self, int op, uint64_t link, uint64_t calls,
                              uint64_t declined, uint64_t failed, uint64_t fallbacks)
{
    tenon_counter counter = op_counter(self->session, op_names[op], link);
    ck_assert_msg(counter.calls == calls && counter.declined == declined &&
                      counter.failed == failed && counter.fallbacks == fallbacks,
                  "%s on link %llu: calls %llu declined %llu failed %llu fallbacks %llu",
                  op_names[op], (unsigned long long)link, (unsigned long long)counter.calls,
                  (unsigned long long)counter.declined, (unsigned long long)counter.failed,
                  (unsigned long long)counter.fallbacks);
}

static inline void op_end(op_rig *self)
{
    int i;
    tenon_session_destroy(self->session);
    rig_ok(tenon_host_destroy(self->host, &rig_error));
    for (i = 0; i < FAKES; i++) ck_assert_msg(fake_balanced(i), "fake %d is out of balance", i);
}

#endif
