/* The operations that are one call over views: who runs them, and what happens when somebody does
 * not. Every test that takes a number runs once for each of them. */

#include "operations_rig.h"

#include <math.h>
#include <sys/wait.h>

static op_rig self;

/* A fake that offers this operation alone besides qmatmul. */
static void start(int op, const char *chain, uint32_t mode)
{
    fake[0].offers = op_bits[op];
    op_start(&self, 1);
    op_open(&self, chain, mode);
}

START_TEST(offered)
{
    fake_reset(0, "acme");
    start(_i, "acme", 0);
    op_run_right(&self, _i, OP_TOKENS);
    op_run_right(&self, _i, 1);
    op_counted(&self, _i, 0, 2, 0, 0, 0);
    op_counted(&self, _i, 1, 0, 0, 0, 0);
    ck_assert_uint_eq(fake[0].op_runs, 2);
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 0);
    ck_assert_str_eq(op_counter(self.session, op_names[_i], 0).provider, "acme");
    op_end(&self);
}
END_TEST

/* A provider of qmatmul alone serves every operation through the reference. */
START_TEST(only_qmatmul)
{
    fake_reset(0, "acme");
    op_start(&self, 1);
    op_open(&self, "acme", 0);
    op_run_right(&self, _i, OP_TOKENS);
    op_run_right(&self, _i, OP_TOKENS);
    op_counted(&self, _i, 0, 0, 0, 0, 0);
    op_counted(&self, _i, 1, 2, 0, 0, 2);
    ck_assert_str_eq(op_counter(self.session, op_names[_i], 0).last_text, "not offered");
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 0);
    ck_assert_ptr_nonnull(strstr(rig_said.all, op_names[_i])); /* said, once */
    ck_assert_ptr_null(strstr(strstr(rig_said.all, op_names[_i]) + 1, op_names[_i]));
    op_end(&self);
}
END_TEST

/* What the first link lacks the second one runs, not the reference. */
START_TEST(second_link)
{
    fake_reset(0, "acme");
    fake_reset(1, "beta");
    fake[1].offers = OP_ALL;
    op_start(&self, 2);
    op_open(&self, "acme,beta", 0);
    op_run_right(&self, _i, OP_TOKENS);
    op_counted(&self, _i, 1, 1, 0, 0, 1);
    op_counted(&self, _i, 2, 0, 0, 0, 0);
    ck_assert_uint_eq(fake[1].prepares, _i == OP_EMBED ? 1 : 0); /* where embed needs it */
    ck_assert_uint_eq(fake[0].prepares, 1);
    ck_assert_str_eq(rig_info(self.weight).provider, "acme"); /* its home is where it was */
    op_end(&self);
}
END_TEST

START_TEST(fails)
{
    int op = _i % OPS;
    bool half = _i >= OPS;
    fake_reset(0, "acme");
    fake[0].op_status = TENON_INTERNAL;
    fake[0].op_half = half;
    fake[0].op_from = 2;
    start(op, "acme", 0);
    op_run_right(&self, op, OP_TOKENS);
    op_run_right(&self, op, 3); /* fails, and is computed again */
    ck_assert_uint_eq(fake[0].op_runs, 2);
    op_run_right(&self, op, 3); /* not tried at as many tokens */
    op_run_right(&self, op, 4);
    ck_assert_uint_eq(fake[0].op_runs, 2);
    op_run_right(&self, op, 2); /* at fewer it is */
    ck_assert_uint_eq(fake[0].op_runs, 3);
    op_run_right(&self, op, 1);
    op_run_right(&self, op, 1);
    ck_assert_uint_eq(fake[0].op_runs, 4); /* and then never again */
    op_counted(&self, op, 0, 1, 0, 3, 0);
    op_counted(&self, op, 1, 6, 0, 0, 6);
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 2); /* the failure, the reference */
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_ACTIVE);
    ck_assert_str_eq(op_counter(self.session, op_names[op], 0).last_text, "told to");
    op_end(&self);
}
END_TEST

/* One operation that fails does not end the others. */
START_TEST(others_stay)
{
    fake_reset(0, "acme");
    fake[0].offers = OP_ALL;
    fake[0].op_status = TENON_TIMEOUT;
    fake[0].op_until = 1;
    op_start(&self, 1);
    op_open(&self, "acme", 0);
    op_run_right(&self, OP_ADD, 1);
    op_run_right(&self, OP_ADD, 1);
    op_run_right(&self, OP_GATED, 1);
    op_counted(&self, OP_ADD, 0, 0, 0, 1, 0);
    op_counted(&self, OP_GATED, 0, 1, 0, 0, 0);
    op_end(&self);
}
END_TEST

START_TEST(declines)
{
    fake_reset(0, "acme");
    fake[0].op_status = TENON_DECLINED;
    fake[0].op_until = 1;
    start(_i, "acme", 0);
    op_run_right(&self, _i, OP_TOKENS);
    op_run_right(&self, _i, OP_TOKENS); /* asked again */
    op_counted(&self, _i, 0, 1, 1, 0, 0);
    op_counted(&self, _i, 1, 1, 0, 0, 1);
    op_end(&self);
}
END_TEST

/* What breaks the contract quarantines, whatever it computed. */
START_TEST(breaks)
{
    int op = _i % OPS;
    fake_reset(0, "acme");
    if (_i < OPS)
        fake[0].op_status = 77;
    else
        fake[0].op_mode = true;
    start(op, "acme", 0);
    op_run_right(&self, op, OP_TOKENS);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_QUARANTINED);
    op_run_right(&self, op, OP_TOKENS);
    ck_assert_uint_eq(fake[0].op_runs, 1);
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_ERROR], 1);
    ck_assert_ptr_nonnull(strstr(rig_said.last[TENON_LOG_ERROR], op_names[op]));
    op_end(&self);
}
END_TEST

START_TEST(device_lost)
{
    fake_reset(0, "acme");
    fake[0].op_status = TENON_DEVICE_LOST;
    fake[0].answer_scope = TENON_SCOPE_CALL; /* lost is lost */
    start(_i, "acme", 0);
    op_run_right(&self, _i, OP_TOKENS);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_LOST);
    op_run_right(&self, _i, OP_TOKENS);
    ck_assert_uint_eq(fake[0].op_runs, 1);
    op_end(&self);
}
END_TEST

START_TEST(pinned)
{
    fake_reset(0, "acme");
    op_start(&self, 1);
    op_open(&self, "acme", TENON_MODE_PIN);
    rig_fails(op_run(&self, _i, 2), TENON_DECLINED, TENON_REASON_CHAIN_DECLINED);
    ck_assert_ptr_nonnull(strstr(rig_error.text, op_names[_i]));
    ck_assert(op_untouched(&self));
    op_end(&self);

    fake_reset(0, "acme");
    fake[0].op_status = TENON_TIMEOUT;
    fake[0].answer_reason = TENON_REASON_DEVICE_BUSY;
    start(_i, "acme", TENON_MODE_PIN);
    rig_fails(op_run(&self, _i, 2), TENON_TIMEOUT, TENON_REASON_DEVICE_BUSY);
    ck_assert_ptr_nonnull(strstr(rig_error.text, "acme:0"));
    rig_fails(op_run(&self, _i, 2), TENON_STATE, TENON_REASON_FAILED_BEFORE);
    op_end(&self);

    fake_reset(0, "acme");
    fake[0].op_status = TENON_DECLINED;
    start(_i, "acme", TENON_MODE_PIN);
    rig_fails(op_run(&self, _i, 2), TENON_DECLINED, TENON_REASON_CHAIN_DECLINED);
    op_end(&self);
}
END_TEST

static int inside_op;
static int32_t inside_status;

static void call_inside(void *context)
{
    tenon_error error = {.struct_size = sizeof error, .abi_version = TENON_ABI_VERSION};
    inside_status = op_call(tenon_session_queue(self.session), inside_op,
                            (const op_request *)context, &error);
    ck_assert_uint_eq(error.reason, TENON_REASON_IN_USE);
}

START_TEST(queue_in_use)
{
    op_request again;
    fake_reset(0, "acme");
    start(_i, "acme", 0);
    again = op_make(&self, _i, 1, self.weight, self.y);
    inside_op = _i;
    inside_status = TENON_OK;
    fake[0].during = call_inside;
    fake[0].during_context = &again;
    op_run_right(&self, _i, OP_TOKENS);
    ck_assert_int_eq(inside_status, TENON_STATE);
    op_end(&self);
}
END_TEST

/* A provider of a later version is presented its own, longer struct. */
START_TEST(longer_request)
{
    fake_reset(0, "acme");
    fake[0].op_size = 256;
    fake[0].no_queue = true;
    start(_i, "acme", 0);
    op_run_right(&self, _i, OP_TOKENS);
    ck_assert_uint_eq(fake[0].size_seen, 256);
    op_counted(&self, _i, 0, 1, 0, 0, 0);
    op_end(&self);
}
END_TEST

static const uint32_t op_sizes[OPS] = {sizeof(tenon_embed_call), sizeof(tenon_rmsnorm_call),
                                       sizeof(tenon_gated_call), sizeof(tenon_add_call),
                                       sizeof(tenon_argmax_call)};

/* The engine's struct may be of another version: a zero tail is fine, another one is not. */
START_TEST(engine_struct)
{
    struct {
        op_request request;
        unsigned char tail[256];
    } longer;
    uint32_t size = op_sizes[_i] + 16;
    tenon_queue *queue;
    fake_reset(0, "acme");
    start(_i, "acme", 0);
    queue = tenon_session_queue(self.session);
    memset(&longer, 0, sizeof longer);
    longer.request = op_make(&self, _i, OP_TOKENS, self.weight, self.y);
    memcpy(&longer, &size, sizeof size);
    rig_ok(op_call(queue, _i, &longer.request, &rig_error));
    ck_assert_int_eq(memcmp(self.y, op_right[_i], op_bytes(_i, OP_TOKENS)), 0);
    ((unsigned char *)&longer)[op_sizes[_i] + 3] = 1;
    rig_fails(op_call(queue, _i, &longer.request, &rig_error), TENON_ARG, TENON_REASON_STRUCT_TAIL);
    size = 4;
    memcpy(&longer, &size, sizeof size);
    rig_fails(op_call(queue, _i, &longer.request, &rig_error), TENON_ABI, TENON_REASON_STRUCT_SIZE);
    rig_fails(op_call(queue, _i, NULL, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    rig_fails(op_call(NULL, _i, &longer.request, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    op_end(&self);
}
END_TEST

START_TEST(forked)
{
    int status = -1;
    pid_t child;
    fake_reset(0, "acme");
    start(_i, "acme", 0);
    fflush(NULL);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        bool good = op_run(&self, _i, 1) == TENON_STATE &&
                    rig_error.reason == TENON_REASON_FORKED && op_untouched(&self);
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    op_run_right(&self, _i, OP_TOKENS);
    op_end(&self);
}
END_TEST

/* ---- embed and its weight ----------------------------------------------------------------- */

START_TEST(embed_weight_changes)
{
    fake_reset(0, "acme");
    fake_reset(1, "beta");
    fake[1].offers = FAKE_EMBED;
    op_start(&self, 2);
    op_open(&self, "acme,beta", 0);
    op_run_right(&self, OP_EMBED, OP_TOKENS);
    rig_ok(tenon_weight_begin_update(self.weight, &rig_error));
    rig_fails(op_run(&self, OP_EMBED, 1), TENON_STATE, TENON_REASON_UPDATING);
    memset(self.values, 0, sizeof self.values);
    rig_ok(tenon_weight_end_update(self.weight, &rig_error));
    rig_ok(op_run(&self, OP_EMBED, 1));
    ck_assert(self.y[0] == 0.0f && self.y[RIG_COLS - 1] == 0.0f);
    tenon_weight_destroy(self.weight);
    op_end(&self);
}
END_TEST

/* A link that offers embed but does not take the weight is passed over; what it said is counted
 * where weights are. */
START_TEST(embed_weight_refused)
{
    fake_reset(0, "acme");
    fake_reset(1, "beta");
    fake[1].offers = FAKE_EMBED;
    fake[1].prepare_status = _i == 0 ? TENON_NOMEM : TENON_DECLINED;
    fake[1].answer_scope = TENON_SCOPE_WEIGHT;
    op_start(&self, 2);
    op_open(&self, "acme,beta", 0);
    op_run_right(&self, OP_EMBED, OP_TOKENS);
    op_run_right(&self, OP_EMBED, OP_TOKENS);
    ck_assert_uint_eq(fake[1].prepares, 1);
    ck_assert_uint_eq(fake[1].op_runs, 0);
    op_counted(&self, OP_EMBED, 2, 2, 0, 0, 2);
    op_end(&self);
}
END_TEST

/* ---- what makes a request wrong ----------------------------------------------------------- */

typedef struct wrong {
    int op;
    uint32_t reason;
    void (*spoil)(op_request *request);
} wrong;

#define SPOIL(name, statement) \
    static void name(op_request *r) \
    { \
        statement; \
    }
SPOIL(e_tokens, r->embed.tokens = 0)
SPOIL(e_weight, r->embed.weight = NULL)
SPOIL(e_reserved0, r->embed.reserved0 = 1)
SPOIL(e_reserved1, r->embed.reserved1[1] = 1)
SPOIL(e_index, ((uint32_t *)r->embed.ids.host)[1] = RIG_ROWS)
SPOIL(e_ids, r->embed.ids.host = NULL)
SPOIL(e_ids_short, r->embed.ids.bytes -= 1)
SPOIL(e_ids_odd, r->embed.ids.offset = 1; r->embed.ids.bytes += 8)
SPOIL(e_buffer, r->embed.y.buffer = &self)
SPOIL(e_stride, r->embed.y_row_stride -= 4)
SPOIL(e_short, r->embed.y.bytes -= 4)
SPOIL(e_huge, r->embed.tokens = UINT64_MAX / 2)
SPOIL(e_overlap, r->embed.y.host = (char *)self.ids + 4)
SPOIL(n_tokens, r->rmsnorm.tokens = 0)
SPOIL(n_groups, r->rmsnorm.groups = 0)
SPOIL(n_width, r->rmsnorm.width = 0)
SPOIL(n_wide, r->rmsnorm.width = 1u << 24)
SPOIL(n_overflow, r->rmsnorm.groups = UINT64_MAX / 2)
SPOIL(n_eps, r->rmsnorm.eps = -1.0f)
SPOIL(n_nan, r->rmsnorm.eps = (float)NAN)
SPOIL(n_reserved0, r->rmsnorm.reserved0 = 1)
SPOIL(n_reserved1, r->rmsnorm.reserved1[0] = 1)
SPOIL(n_w, r->rmsnorm.w.bytes -= 4)
SPOIL(n_x_stride, r->rmsnorm.x_row_stride += 2)
SPOIL(n_overlap, r->rmsnorm.x.host = self.y)
SPOIL(n_overlap_w, r->rmsnorm.w.host = self.y)
SPOIL(g_tokens, r->gated.tokens = 0)
SPOIL(g_width, r->gated.width = 0)
SPOIL(g_huge, r->gated.width = UINT64_MAX / 3)
SPOIL(g_activation, r->gated.activation = 0)
SPOIL(g_activation5, r->gated.activation = 5)
SPOIL(g_reserved0, r->gated.reserved0 = 1)
SPOIL(g_reserved1, r->gated.reserved1[1] = 1)
SPOIL(g_stride, r->gated.up_row_stride -= 4)
SPOIL(g_gate, r->gated.gate.bytes -= 1)
SPOIL(g_overlap, r->gated.gate = r->gated.y)
SPOIL(g_overlap_up, r->gated.up.host = (char *)r->gated.y.host + 4)
SPOIL(a_tokens, r->add.tokens = 0)
SPOIL(a_width, r->add.width = 0)
SPOIL(a_reserved, r->add.reserved0[0] = 1)
SPOIL(a_null, r->add.b.host = NULL)
SPOIL(a_odd, r->add.a.offset = 2)
SPOIL(a_far, r->add.a.offset = UINT64_MAX - 64)
SPOIL(a_tall, r->add.tokens = UINT64_MAX / 2)
SPOIL(a_in_place, r->add.y = r->add.a)
SPOIL(a_in_place_b, r->add.y = r->add.b)
SPOIL(m_tokens, r->argmax.tokens = 0)
SPOIL(m_wide, r->argmax.width = 0xFFFFFFFFu)
SPOIL(m_reserved, r->argmax.reserved0[1] = 1)
SPOIL(m_short, r->argmax.y.bytes -= 1)
SPOIL(m_x, r->argmax.x.host = NULL)
SPOIL(m_buffer, r->argmax.width = 0; r->argmax.x.buffer = &self)
SPOIL(m_overlap, r->argmax.y.host = self.a)
#undef SPOIL

static const wrong wrongs[] = {
    {OP_EMBED, TENON_REASON_EMPTY_SHAPE, e_tokens},
    {OP_EMBED, TENON_REASON_NULL_POINTER, e_weight},
    {OP_EMBED, TENON_REASON_RESERVED, e_reserved0},
    {OP_EMBED, TENON_REASON_RESERVED, e_reserved1},
    {OP_EMBED, TENON_REASON_INDEX, e_index},
    {OP_EMBED, TENON_REASON_NULL_POINTER, e_ids},
    {OP_EMBED, TENON_REASON_SHORT_BUFFER, e_ids_short},
    {OP_EMBED, TENON_REASON_ALIGNMENT, e_ids_odd},
    {OP_EMBED, TENON_REASON_UNKNOWN_VALUE, e_buffer},
    {OP_EMBED, TENON_REASON_STRIDE, e_stride},
    {OP_EMBED, TENON_REASON_SHORT_BUFFER, e_short},
    {OP_EMBED, TENON_REASON_OVERFLOW, e_huge},
    {OP_EMBED, TENON_REASON_OVERLAP, e_overlap},
    {OP_RMSNORM, TENON_REASON_EMPTY_SHAPE, n_tokens},
    {OP_RMSNORM, TENON_REASON_EMPTY_SHAPE, n_groups},
    {OP_RMSNORM, TENON_REASON_EMPTY_SHAPE, n_width},
    {OP_RMSNORM, TENON_REASON_UNSUPPORTED_SHAPE, n_wide},
    {OP_RMSNORM, TENON_REASON_OVERFLOW, n_overflow},
    {OP_RMSNORM, TENON_REASON_UNKNOWN_VALUE, n_eps},
    {OP_RMSNORM, TENON_REASON_UNKNOWN_VALUE, n_nan},
    {OP_RMSNORM, TENON_REASON_RESERVED, n_reserved0},
    {OP_RMSNORM, TENON_REASON_RESERVED, n_reserved1},
    {OP_RMSNORM, TENON_REASON_SHORT_BUFFER, n_w},
    {OP_RMSNORM, TENON_REASON_ALIGNMENT, n_x_stride},
    {OP_RMSNORM, TENON_REASON_OVERLAP, n_overlap},
    {OP_RMSNORM, TENON_REASON_OVERLAP, n_overlap_w},
    {OP_GATED, TENON_REASON_EMPTY_SHAPE, g_tokens},
    {OP_GATED, TENON_REASON_EMPTY_SHAPE, g_width},
    {OP_GATED, TENON_REASON_OVERFLOW, g_huge},
    {OP_GATED, TENON_REASON_UNKNOWN_VALUE, g_activation},
    {OP_GATED, TENON_REASON_UNKNOWN_VALUE, g_activation5},
    {OP_GATED, TENON_REASON_RESERVED, g_reserved0},
    {OP_GATED, TENON_REASON_RESERVED, g_reserved1},
    {OP_GATED, TENON_REASON_STRIDE, g_stride},
    {OP_GATED, TENON_REASON_SHORT_BUFFER, g_gate},
    {OP_GATED, TENON_REASON_OVERLAP, g_overlap},
    {OP_GATED, TENON_REASON_OVERLAP, g_overlap_up},
    {OP_ADD, TENON_REASON_EMPTY_SHAPE, a_tokens},
    {OP_ADD, TENON_REASON_EMPTY_SHAPE, a_width},
    {OP_ADD, TENON_REASON_RESERVED, a_reserved},
    {OP_ADD, TENON_REASON_NULL_POINTER, a_null},
    {OP_ADD, TENON_REASON_ALIGNMENT, a_odd},
    {OP_ADD, TENON_REASON_OVERFLOW, a_far},
    {OP_ADD, TENON_REASON_OVERFLOW, a_tall},
    {OP_ADD, TENON_REASON_OVERLAP, a_in_place},
    {OP_ADD, TENON_REASON_OVERLAP, a_in_place_b},
    {OP_ARGMAX, TENON_REASON_EMPTY_SHAPE, m_tokens},
    {OP_ARGMAX, TENON_REASON_UNSUPPORTED_SHAPE, m_wide},
    {OP_ARGMAX, TENON_REASON_RESERVED, m_reserved},
    {OP_ARGMAX, TENON_REASON_SHORT_BUFFER, m_short},
    {OP_ARGMAX, TENON_REASON_NULL_POINTER, m_x},
    {OP_ARGMAX, TENON_REASON_UNKNOWN_VALUE, m_buffer},
    {OP_ARGMAX, TENON_REASON_OVERLAP, m_overlap},
};

/* Nobody is called, no y is touched, nothing is counted. */
START_TEST(wrong_request)
{
    const wrong *at = &wrongs[_i];
    op_request request;
    fake_reset(0, "acme");
    start(at->op, "acme", 0);
    memset(self.y, 0xa5, sizeof self.y);
    request = op_make(&self, at->op, 3, self.weight, self.y);
    at->spoil(&request);
    rig_fails(op_call(tenon_session_queue(self.session), at->op, &request, &rig_error), TENON_ARG,
              at->reason);
    ck_assert(op_untouched(&self));
    ck_assert_uint_eq(fake[0].op_runs, 0);
    op_counted(&self, at->op, 0, 0, 0, 0, 0);
    op_counted(&self, at->op, 1, 0, 0, 0, 0);
    op_end(&self);
}
END_TEST

START_TEST(weight_of_another_session)
{
    tenon_session *other;
    tenon_weight *theirs;
    op_request request;
    fake_reset(0, "acme");
    start(OP_EMBED, "acme", 0);
    other = rig_session(self.host, "acme", 0);
    theirs = rig_weight(other, self.values, RIG_ROWS);
    request = op_make(&self, OP_EMBED, 1, theirs, self.y);
    rig_fails(tenon_embed(tenon_session_queue(self.session), &request.embed, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    tenon_session_destroy(other);
    op_end(&self);
}
END_TEST

/* Rows of y may lie between rows of an input: R12 is about bytes that are touched. */
START_TEST(interleaved)
{
    static float both[2 * OP_TOKENS * OP_WIDTH];
    op_request request;
    uint64_t row;
    fake_reset(0, "acme");
    start(OP_ADD, "acme", 0);
    for (row = 0; row < OP_TOKENS; row++)
        memcpy(both + 2 * row * OP_WIDTH, self.a + row * OP_WIDTH, OP_WIDTH * 4);
    request = op_make(&self, OP_ADD, OP_TOKENS, NULL, self.y);
    request.add.a = op_view(both, sizeof both);
    request.add.y = op_view(both + OP_WIDTH, sizeof both - OP_WIDTH * 4);
    request.add.a_row_stride = request.add.y_row_stride = 2 * OP_WIDTH * 4;
    rig_ok(tenon_add(tenon_session_queue(self.session), &request.add, &rig_error));
    for (row = 0; row < OP_TOKENS; row++)
        ck_assert_int_eq(memcmp(both + (2 * row + 1) * OP_WIDTH, op_right[OP_ADD] + row * OP_WIDTH,
                                OP_WIDTH * 4),
                         0);
    op_end(&self);
}
END_TEST

START_TEST(argmax_of_nothing)
{
    uint32_t y[2] = {0, 0};
    tenon_argmax_call call = {TENON_HEAD(tenon_argmax_call), .y = op_view(y, sizeof y),
                              .tokens = 2};
    fake_reset(0, "acme");
    start(OP_ARGMAX, "acme", 0);
    rig_ok(tenon_argmax(tenon_session_queue(self.session), &call, &rig_error));
    ck_assert(y[0] == TENON_ARGMAX_NONE && y[1] == TENON_ARGMAX_NONE);
    op_end(&self);
}
END_TEST

/* ---- descriptors -------------------------------------------------------------------------- */

/* Registers fake[1] with a descriptor of add_v1 of our own. */
static int32_t register_with(tenon_host *host, const void *add)
{
    tenon_static_symbol symbols[] = {
        {"provider_v1", &fake_descriptor[1]}, {"qmatmul_v1", &fake_qmatmul[1]}, {"add_v1", add}};
    return tenon_host_register(host, symbols, 3, &rig_error);
}

START_TEST(descriptors)
{
    struct {
        tenon_add_v1 known;
        uint64_t more[2];
    } add;
    tenon_host *host = rig_host(1);
    fake_reset(1, "other");
    rig_ok(fake_register(host, 1, &rig_error)); /* fills its descriptors */
    rig_ok(tenon_host_destroy(host, &rig_error));
    fake_reset(0, "acme");
    start(OP_ADD, "acme", 0);
    memset(&add, 0, sizeof add);
    add.known = fake_add_v1[1];
    switch (_i) {
    case 0: /* a size of no struct we know of */
        add.known.call_size = sizeof(tenon_add_call) - 8;
        rig_fails(register_with(self.host, &add), TENON_ABI, TENON_REASON_CHECK_STRUCT_SIZE);
        ck_assert_ptr_nonnull(strstr(rig_error.text, "add_v1.call_size"));
        break;
    case 1:
        add.known.struct_size -= 8;
        rig_fails(register_with(self.host, &add), TENON_ABI, TENON_REASON_CHECK_SHORT_DESCRIPTOR);
        break;
    case 2:
        add.known.abi_version = 2;
        rig_fails(register_with(self.host, &add), TENON_ABI, TENON_REASON_CHECK_ABI);
        break;
    case 3: /* longer than we know: what is behind is ignored (R6) */
        add.known.struct_size = sizeof add;
        add.more[0] = 1;
        rig_ok(register_with(self.host, &add));
        tenon_session_destroy(self.session);
        op_open(&self, "other", 0);
        op_run_right(&self, OP_ADD, 1);
        op_counted(&self, OP_ADD, 0, 1, 0, 0, 0);
        break;
    case 4: /* NULL: not offered (R8) */
        add.known.run = NULL;
        rig_ok(register_with(self.host, &add));
        tenon_session_destroy(self.session);
        op_open(&self, "other", 0);
        op_run_right(&self, OP_ADD, 1);
        op_counted(&self, OP_ADD, 1, 1, 0, 0, 1);
        break;
    default: /* larger than any struct the host presents */
        add.known.call_size = 2048;
        rig_ok(register_with(self.host, &add));
        rig_fails(rig_no_session(self.host, "other", 0), TENON_ABI, TENON_REASON_CHECK_STRUCT_SIZE);
        break;
    }
    op_end(&self);
}
END_TEST

/* ---- threads ------------------------------------------------------------------------------ */

#define CALLERS 4
#define ROUNDS 200
static atomic_uint wrong_bits;

static void *caller(void *context)
{
    tenon_error error = {.struct_size = sizeof error, .abi_version = TENON_ABI_VERSION};
    uint32_t seed = (uint32_t)(uintptr_t)context, round;
    tenon_queue *queue = NULL;
    float y[OP_FLOATS];
    if (tenon_queue_create(self.session, &queue, &error) != TENON_OK) {
        wrong_bits++;
        return NULL;
    }
    for (round = 0; round < ROUNDS; round++) {
        int op = (int)(rig_next(&seed) % OPS);
        uint64_t tokens = rig_next(&seed) % OP_TOKENS + 1;
        op_request request = op_make(&self, op, tokens, self.weight, y);
        if (op_call(queue, op, &request, &error) != TENON_OK ||
            memcmp(y, op_right[op], (size_t)op_bytes(op, tokens)) != 0)
            wrong_bits++;
    }
    tenon_queue_destroy(queue);
    return NULL;
}

/* Calls at once while links fail, decline, are lost. */
START_TEST(at_once)
{
    static const int32_t answers[] = {TENON_OK, TENON_INTERNAL, TENON_DECLINED, TENON_DEVICE_LOST,
                                      77};
    pthread_t threads[CALLERS];
    uint64_t calls = 0, link;
    uintptr_t i;
    int op;
    fake_reset(0, "acme");
    fake_reset(1, "beta");
    fake[0].offers = fake[1].offers = OP_ALL;
    fake[0].op_status = answers[_i];
    fake[0].op_from = 50;
    fake[0].no_queue = _i % 2 != 0;
    op_start(&self, 2);
    op_open(&self, "acme,beta", 0);
    wrong_bits = 0;
    for (i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, caller, (void *)(i + 1)), 0);
    for (i = 0; i < CALLERS; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(wrong_bits, 0);
    for (op = 0; op < OPS; op++)
        for (link = 0; link < 3; link++)
            calls += op_counter(self.session, op_names[op], link).calls;
    ck_assert_uint_eq(calls, CALLERS * ROUNDS); /* of queues that are gone, too */
    op_end(&self);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host operations");
    TCase *each = tcase_create("each operation"), *requests = tcase_create("requests"),
          *others = tcase_create("others");
    tcase_set_timeout(each, 60);
    tcase_set_timeout(others, 240);
    tcase_add_loop_test(each, offered, 0, OPS);
    tcase_add_loop_test(each, only_qmatmul, 0, OPS);
    tcase_add_loop_test(each, second_link, 0, OPS);
    tcase_add_loop_test(each, fails, 0, 2 * OPS);
    tcase_add_loop_test(each, declines, 0, OPS);
    tcase_add_loop_test(each, breaks, 0, 2 * OPS);
    tcase_add_loop_test(each, device_lost, 0, OPS);
    tcase_add_loop_test(each, pinned, 0, OPS);
    tcase_add_loop_test(each, queue_in_use, 0, OPS);
    tcase_add_loop_test(each, longer_request, 0, OPS);
    tcase_add_loop_test(each, engine_struct, 0, OPS);
    tcase_add_loop_test(each, forked, 0, OPS);
    tcase_add_loop_test(requests, wrong_request, 0, sizeof wrongs / sizeof wrongs[0]);
    tcase_add_test(requests, weight_of_another_session);
    tcase_add_test(requests, interleaved);
    tcase_add_test(requests, argmax_of_nothing);
    tcase_add_test(others, others_stay);
    tcase_add_test(others, embed_weight_changes);
    tcase_add_loop_test(others, embed_weight_refused, 0, 2);
    tcase_add_loop_test(others, descriptors, 0, 6);
    tcase_add_loop_test(others, at_once, 0, 5);
    suite_add_tcase(suite, each);
    suite_add_tcase(suite, requests);
    suite_add_tcase(suite, others);
    return runner_main(srunner_create(suite));
}
