/* Graphs: a step of a layer recorded once and launched many times gives the bits of its calls made
 * one by one, whatever happens to the graph, its caches, its weight or its device in between. */
#include "cache_rig.h"

#define ALL \
    (FAKE_EMBED | FAKE_RMSNORM | FAKE_GATED | FAKE_ADD | FAKE_ARGMAX | FAKE_ATTENTION | \
     FAKE_MEMORY | FAKE_GRAPH)
#define STEP_WIDTH KV_ROW

/* One step: x = embed(id), k = norm(x), append(k, x), y = attention(x twice), s = y + y,
 * p = product of s, id = argmax(p): the next step begins with it. */
static struct {
    tenon_buffer *id, *x, *w, *k, *q, *y, *s, *p;
    tenon_weight *table, *product;
    float table_values[RIG_ROWS * STEP_WIDTH], product_values[RIG_ROWS * Q_ROW], norm[STEP_WIDTH];
} it;

static tenon_queue *queue(void)
{
    return tenon_session_queue(self.session);
}

static tenon_buffer *buffer(uint64_t floats)
{
    tenon_buffer *made = NULL;
    rig_ok(tenon_buffer_create(self.session, floats * 4, &made, &rig_error));
    return made;
}

static tenon_weight *weight(const float *values, uint64_t cols)
{
    tenon_weight_desc desc = rig_desc(RIG_ROWS);
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = values};
    tenon_weight *made = NULL;
    desc.cols = cols;
    data.weights_bytes = RIG_ROWS * cols * 4;
    data.lifetime = TENON_LIFETIME_STABLE;
    rig_ok(tenon_weight_create(self.session, &desc, &data, &made, &rig_error));
    return made;
}

static tenon_cache *cache(void)
{
    tenon_cache_desc desc = describe();
    tenon_cache *made = NULL;
    rig_ok(tenon_cache_create(self.session, &desc, &made, &rig_error));
    return made;
}

static void open_step(const char *chain, uint32_t mode)
{
    self.session = rig_session(self.host, chain, mode);
    rig_fill(it.table_values, RIG_ROWS * STEP_WIDTH, 21);
    rig_fill(it.product_values, RIG_ROWS * Q_ROW, 22);
    rig_fill(it.norm, STEP_WIDTH, 23);
    it.table = weight(it.table_values, STEP_WIDTH);
    it.product = weight(it.product_values, Q_ROW);
    it.id = buffer(1);
    it.x = buffer(STEP_WIDTH);
    it.w = buffer(STEP_WIDTH);
    it.k = buffer(STEP_WIDTH);
    it.q = buffer(Q_ROW);
    it.y = buffer(Q_ROW);
    it.s = buffer(Q_ROW + 4); /* more than the step writes */
    it.p = buffer(RIG_ROWS);
    rig_ok(tenon_buffer_write(queue(), it.w, 0, it.norm, sizeof it.norm, &rig_error));
    self.cache = cache();
}

static tenon_view all(tenon_buffer *of, uint64_t floats)
{
    return (tenon_view){.buffer = of, .bytes = floats * 4};
}

static int32_t make_step(tenon_cache *into)
{
    const uint64_t row = STEP_WIDTH * 4, wide = Q_ROW * 4;
    tenon_embed_call embed = {TENON_HEAD(tenon_embed_call), .weight = it.table, .scale = 1.0f};
    tenon_rmsnorm_call norm = {TENON_HEAD(tenon_rmsnorm_call), .tokens = 1, .eps = 1e-5f};
    tenon_append_call append = {TENON_HEAD(tenon_append_call), .cache = into, .tokens = 1};
    tenon_gated_call gated = {TENON_HEAD(tenon_gated_call), .tokens = 1};
    tenon_attention_call attend = {TENON_HEAD(tenon_attention_call), .cache = into, .tokens = 1};
    tenon_add_call add = {TENON_HEAD(tenon_add_call), .tokens = 1, .width = Q_ROW};
    tenon_qmatmul_call multiply = {TENON_HEAD(tenon_qmatmul_call), .tokens = 1};
    tenon_argmax_call best = {TENON_HEAD(tenon_argmax_call), .tokens = 1, .width = RIG_ROWS};
    tenon_view half = {.buffer = it.q, .bytes = row};
    int32_t status;
    embed.ids = all(it.id, 1);
    embed.y = all(it.x, STEP_WIDTH);
    embed.tokens = 1;
    embed.y_row_stride = row;
    norm.x = all(it.x, STEP_WIDTH);
    norm.w = all(it.w, STEP_WIDTH);
    norm.y = all(it.k, STEP_WIDTH);
    norm.groups = 1;
    norm.width = STEP_WIDTH;
    norm.x_row_stride = norm.y_row_stride = row;
    append.k = all(it.k, STEP_WIDTH);
    append.v = all(it.x, STEP_WIDTH);
    append.k_row_stride = append.v_row_stride = row;
    gated.gate = all(it.k, STEP_WIDTH);
    gated.up = all(it.x, STEP_WIDTH);
    gated.width = STEP_WIDTH;
    gated.gate_row_stride = gated.up_row_stride = gated.y_row_stride = row;
    gated.activation = TENON_ACT_SILU;
    attend.q = all(it.q, Q_ROW);
    attend.y = all(it.y, Q_ROW);
    attend.heads = HEADS;
    attend.q_row_stride = attend.y_row_stride = wide;
    attend.scale = 0.25f;
    add.a = add.b = all(it.y, Q_ROW);
    add.y = all(it.s, Q_ROW);
    add.a_row_stride = add.b_row_stride = add.y_row_stride = wide;
    multiply.x = all(it.s, Q_ROW);
    multiply.x_row_stride = wide;
    multiply.output_count = 1;
    multiply.outputs[0].weight = it.product;
    multiply.outputs[0].y = all(it.p, RIG_ROWS);
    multiply.outputs[0].row_stride = RIG_ROWS * 4;
    best.x = all(it.p, RIG_ROWS);
    best.y = all(it.id, 1);
    best.x_row_stride = RIG_ROWS * 4;
    if ((status = tenon_embed(queue(), &embed, &rig_error)) != TENON_OK ||
        (status = tenon_rmsnorm(queue(), &norm, &rig_error)) != TENON_OK ||
        (status = tenon_append(queue(), &append, &rig_error)) != TENON_OK)
        return status;
    gated.y = half; /* q: two halves, written apart */
    if ((status = tenon_gated(queue(), &gated, &rig_error)) != TENON_OK) return status;
    half.offset = row;
    gated.y = half;
    if ((status = tenon_gated(queue(), &gated, &rig_error)) != TENON_OK ||
        (status = tenon_attention(queue(), &attend, &rig_error)) != TENON_OK ||
        (status = tenon_add(queue(), &add, &rig_error)) != TENON_OK ||
        (status = tenon_qmatmul(queue(), &multiply, &rig_error)) != TENON_OK)
        return status;
    return tenon_argmax(queue(), &best, &rig_error);
}
#define CALLS 9u

static void begin_with(uint32_t id)
{
    rig_ok(tenon_buffer_write(queue(), it.id, 0, &id, sizeof id, &rig_error));
}

/* What a step left: its logits and the next id. */
typedef struct trace {
    float p[RIG_ROWS];
    uint32_t id;
} trace;

static int32_t read_step(trace *out)
{
    int32_t status = tenon_buffer_read(queue(), it.p, 0, out->p, sizeof out->p, &rig_error);
    return status != TENON_OK
               ? status
               : tenon_buffer_read(queue(), it.id, 0, &out->id, sizeof out->id, &rig_error);
}

#define LIFE 10u
static trace right_life[LIFE];

/* A life: four steps, the cache cut back to two, three steps, an eviction, three more. */
static void between(uint32_t step, tenon_cache *into)
{
    if (step == 4) rig_ok(tenon_cache_truncate(queue(), into, 2, &rig_error));
    if (step == 7) rig_ok(tenon_cache_evict(queue(), into, 1, 2, &rig_error));
}

static void start_graphs(int fakes)
{
    uint32_t i;
    start(0);
    open_step("reference", TENON_MODE_PIN);
    begin_with(3);
    for (i = 0; i < LIFE; i++) {
        between(i, self.cache);
        rig_ok(make_step(self.cache));
        rig_ok(read_step(&right_life[i]));
    }
    tenon_session_destroy(self.session);
    for (i = 0; i < (uint32_t)fakes; i++) rig_ok(fake_register(self.host, (int)i, &rig_error));
}

static tenon_graph *record(void)
{
    tenon_graph *graph = NULL;
    rig_ok(tenon_graph_begin(queue(), &rig_error));
    rig_ok(make_step(self.cache));
    rig_ok(tenon_graph_end(queue(), &graph, &rig_error));
    ck_assert_ptr_nonnull(graph);
    return graph;
}

static tenon_graph_information info(tenon_graph *graph)
{
    tenon_graph_information out = {TENON_HEAD(tenon_graph_information), .calls = 0};
    rig_ok(tenon_graph_info(graph, &out, &rig_error));
    return out;
}

static void check_step(uint32_t i)
{
    trace got;
    memset(&got, 0xa5, sizeof got);
    rig_ok(read_step(&got));
    ck_assert_msg(memcmp(&got, &right_life[i], sizeof got) == 0, "step %u: other bits", i);
}

static void live(tenon_graph *graph)
{
    uint32_t i;
    begin_with(3);
    for (i = 0; i < LIFE; i++) {
        between(i, self.cache);
        rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
        check_step(i);
    }
}

static void reset(uint32_t offers)
{
    fake_reset(0, "acme");
    fake[0].offers = offers;
    fake[0].answer_reason = TENON_REASON_DEVICE_FAILED;
}

static void finish(void)
{
    tenon_session_destroy(self.session);
    rig_ok(tenon_host_destroy(self.host, &rig_error));
    ck_assert(fake_balanced(0));
}

START_TEST(captured)
{
    tenon_graph *graph;
    tenon_graph_information was;
    uint64_t length = 0, transfers;
    float rest[4];
    reset(ALL);
    fake[0].no_queue = _i == 1;
    start_graphs(1);
    open_step("acme", 0);
    rig_ok(tenon_buffer_write(queue(), it.s, Q_ROW * 4, it.norm, 16, &rig_error));
    graph = record();
    was = info(graph);
    ck_assert_uint_eq(was.captured, 1);
    ck_assert_str_eq(was.provider, "acme");
    ck_assert_str_eq(was.why, "");
    ck_assert_uint_eq(was.calls, CALLS);
    rig_ok(tenon_cache_length(self.cache, &length, &rig_error));
    ck_assert_uint_eq(length, 0);       /* nothing was done yet */
    ck_assert_uint_eq(fake[0].runs, 1); /* recorded */
    live(graph);
    was = info(graph);
    ck_assert_uint_eq(was.launches, LIFE);
    ck_assert_uint_eq(was.replays, 0);
    ck_assert_uint_eq(fake[0].launches, LIFE);
    ck_assert_uint_eq(op_counter(self.session, "graph", 0).calls, LIFE);
    ck_assert_uint_eq(op_counter(self.session, "attention", 0).calls, LIFE);
    ck_assert_uint_eq(op_counter(self.session, "gated", 0).calls, 2 * LIFE);
    ck_assert_uint_eq(op_counter(self.session, "qmatmul", 0).calls, LIFE);
    rig_ok(tenon_cache_length(self.cache, &length, &rig_error));
    ck_assert_uint_eq(length, 6);
    rig_ok(tenon_buffer_read(queue(), it.s, Q_ROW * 4, rest, sizeof rest, &rig_error));
    ck_assert_int_eq(memcmp(rest, it.norm, sizeof rest), 0);
    transfers = op_counter(self.session, "memory", 0).calls;
    rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
    ck_assert_uint_eq(op_counter(self.session, "memory", 0).calls, transfers); /* all is there */
    tenon_graph_destroy(graph);
    tenon_graph_destroy(NULL);
    ck_assert_uint_eq(fake[0].graphs_now, 0);
    graph = record(); /* the session's end frees this one */
    finish();
}
END_TEST

/* Where it cannot be captured the calls are made one by one, and info says why. */
START_TEST(not_captured)
{
    static const char *const why[] = {
        "offers graph_v1", "lacks an operation", "told to",      "told to",
        "told to",         "elsewhere",          "OK with NULL", "no copy there"};
    tenon_graph *graph;
    reset(_i == 0 ? ALL & ~FAKE_GRAPH : _i == 1 ? ALL & ~FAKE_ADD : ALL);
    if (_i == 2) fake[0].begin_status = TENON_DECLINED;
    if (_i == 3) fake[0].record_decline = 5;
    if (_i == 4) fake[0].end_status = TENON_NOMEM;
    if (_i == 5) fake[0].create_status = TENON_NOMEM;
    if (_i == 6) fake[0].end_status = FAKE_NULL;
    if (_i == 7) fake[0].alloc_status = TENON_NOMEM, fake[0].alloc_good = 3;
    start_graphs(1);
    open_step("acme", TENON_MODE_PREFER);
    graph = record();
    ck_assert_uint_eq(info(graph).captured, 0);
    ck_assert_msg(strstr(info(graph).why, why[_i]) != NULL, "%s", info(graph).why);
    if (_i != 0) /* said, where somebody offers graphs */
        ck_assert_msg(strstr(rig_said.all, "made one by one: ") != NULL &&
                          strstr(rig_said.all, why[_i]) != NULL,
                      "%s", rig_said.all);
    if (_i == 6) { /* quarantined: its cache is lost */
        rig_fails(tenon_graph_launch(queue(), graph, &rig_error), TENON_LOST,
                  TENON_REASON_QUARANTINED);
    } else {
        live(graph);
        ck_assert_uint_eq(info(graph).replays, LIFE);
        ck_assert_uint_eq(op_counter(self.session, "graph", 0).calls, 0);
    }
    finish();
}
END_TEST

/* A launch that is declined or fails when made: its calls are made, the same bits. */
START_TEST(launch_not_made)
{
    tenon_graph *graph;
    uint32_t i;
    reset(ALL);
    start_graphs(1);
    open_step("acme", TENON_MODE_PREFER);
    graph = record();
    begin_with(3);
    for (i = 0; i < 4; i++) {
        fake[0].launch_status = i != 1 ? 0 : _i == 0 ? TENON_DECLINED : TENON_TIMEOUT;
        rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
        check_step(i);
    }
    ck_assert_uint_eq(info(graph).launches, _i == 0 ? 3 : 1); /* a failed one is not tried again */
    ck_assert_uint_eq(info(graph).replays, _i == 0 ? 1 : 3);
    ck_assert_uint_eq(info(graph).captured, _i == 0 ? 1 : 0);
    finish();
}
END_TEST

/* The device goes, when launched or late: the cache is lost, a new life on what remains is right. */
START_TEST(lost)
{
    tenon_graph *graph;
    trace got;
    reset(ALL);
    start_graphs(1);
    open_step("acme", TENON_MODE_PREFER);
    graph = record();
    begin_with(3);
    rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
    check_step(0);
    if (_i == 0) {
        fake[0].launch_status = TENON_DEVICE_LOST;
    } else {
        fake[0].late_status = TENON_LOST;
        fake[0].late_from = 1;
        rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
        ck_assert_int_eq(read_step(&got), TENON_LOST);
    }
    ck_assert_int_eq(tenon_graph_launch(queue(), graph, &rig_error), TENON_LOST);
    tenon_graph_destroy(graph);
    tenon_cache_destroy(self.cache);
    self.cache = cache();
    graph = record();
    ck_assert_uint_eq(info(graph).captured, 0);
    live(graph);
    finish();
}
END_TEST

/* A weight that changes makes the graph stale; one that another session made does not. */
START_TEST(weight_changes)
{
    tenon_graph *graph;
    reset(ALL);
    start_graphs(1);
    open_step("acme", TENON_MODE_PREFER);
    graph = record();
    begin_with(3);
    rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
    tenon_weight_destroy(weight(it.table_values, STEP_WIDTH)); /* none of the graph's */
    rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
    check_step(1);
    ck_assert_uint_eq(info(graph).launches, 2);
    rig_ok(tenon_weight_begin_update(it.product, &rig_error));
    rig_fails(tenon_graph_launch(queue(), graph, &rig_error), TENON_STATE, TENON_REASON_UPDATING);
    rig_ok(tenon_weight_end_update(it.product, &rig_error));
    rig_ok(tenon_cache_truncate(queue(), self.cache, 2, &rig_error));
    begin_with(right_life[1].id);
    rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
    check_step(2);
    ck_assert_uint_eq(info(graph).captured, 0);
    ck_assert_ptr_nonnull(strstr(info(graph).why, "weight"));
    finish();
}
END_TEST

START_TEST(wrong_use)
{
    tenon_graph *graph = NULL, *other = NULL;
    tenon_buffer *made = it.id;
    float host[STEP_WIDTH] = {0};
    uint32_t id = 0, i;
    tenon_add_call add = {TENON_HEAD(tenon_add_call), .tokens = 1, .width = 4};
    tenon_attention_call rows;
    reset(ALL);
    start_graphs(1);
    open_step("acme", TENON_MODE_PREFER);
    made = it.id;
    rig_fails(tenon_graph_end(queue(), &graph, &rig_error), TENON_STATE, TENON_REASON_NOT_OPEN);
    rig_ok(tenon_graph_begin(queue(), &rig_error));
    rig_fails(tenon_graph_begin(queue(), &rig_error), TENON_STATE, TENON_REASON_CAPTURING);
    rig_fails(tenon_graph_end(queue(), &graph, &rig_error), TENON_ARG, TENON_REASON_EMPTY_SHAPE);
    ck_assert_ptr_null(graph);
    rig_ok(tenon_graph_begin(queue(), &rig_error));
    add.a = add.b = op_view(host, 16);
    add.y = all(it.s, 4);
    add.a_row_stride = add.b_row_stride = add.y_row_stride = 16;
    rig_fails(tenon_add(queue(), &add, &rig_error), TENON_STATE, TENON_REASON_CAPTURING);
    rig_fails(tenon_buffer_write(queue(), made, 0, &id, 4, &rig_error), TENON_STATE,
              TENON_REASON_CAPTURING);
    rig_fails(tenon_buffer_read(queue(), it.w, 0, host, 4, &rig_error), TENON_STATE,
              TENON_REASON_CAPTURING);
    rig_fails(tenon_queue_fence(queue(), &rig_error), TENON_STATE, TENON_REASON_CAPTURING);
    rig_fails(tenon_cache_truncate(queue(), self.cache, 0, &rig_error), TENON_STATE,
              TENON_REASON_CAPTURING);
    tenon_graph_abort(queue());
    tenon_graph_abort(queue());
    tenon_graph_abort(NULL);
    graph = record();
    rig_ok(tenon_graph_begin(queue(), &rig_error)); /* what was recorded before has no part in it */
    rows = attending(self.cache, 0, 1);
    rows.q = all(it.q, Q_ROW);
    rows.y = all(it.y, Q_ROW);
    rig_fails(tenon_attention(queue(), &rows, &rig_error), TENON_ARG, TENON_REASON_INDEX);
    tenon_graph_abort(queue());
    rig_fails(tenon_graph_launch(queue(), graph, &rig_error), TENON_STATE,
              TENON_REASON_NOT_WRITTEN); /* the id */
    begin_with(3);
    for (i = 0; i < CAPACITY; i++) rig_ok(tenon_graph_launch(queue(), graph, &rig_error));
    rig_fails(tenon_graph_launch(queue(), graph, &rig_error), TENON_ARG, TENON_REASON_CAPACITY);
    other = record(); /* a full cache can be emptied before a launch */
    rig_ok(tenon_cache_truncate(queue(), self.cache, 0, &rig_error));
    live(other);
    rig_ok(tenon_graph_begin(queue(), &rig_error)); /* dropped with the session */
    rig_ok(make_step(self.cache));
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graphs");
    TCase *tests = tcase_create("graphs");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, captured, 0, 2);
    tcase_add_loop_test(tests, not_captured, 0, 8);
    tcase_add_loop_test(tests, launch_not_made, 0, 2);
    tcase_add_loop_test(tests, lost, 0, 2);
    tcase_add_test(tests, weight_changes);
    tcase_add_test(tests, wrong_use);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
