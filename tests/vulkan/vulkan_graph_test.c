/* Recorded sequences of the Vulkan provider, through the host: one step of a layer, recorded once,
 * launched over a cache that grows, is cut back and loses positions, gives the bits that the
 * reference gives call by call. The provider's file is the first argument. */
#include "../unit/test_host_rig.h"

#include <math.h>
#include <pthread.h>

#define KV_HEADS 2u
#define HEADS 4u
#define HEAD 20u
#define CAPACITY 400u
#define KV_ROW (KV_HEADS * HEAD)
#define Q_ROW (HEADS * HEAD)
#define ROWS 33u
#define CALLS 9u

static const char *provider_file;
static float rope[CAPACITY * (HEAD / 2) * 2];
static float table_values[ROWS * KV_ROW], product_values[ROWS * Q_ROW], norms[2][KV_ROW];

/* ---- a step ---------------------------------------------------------------------------------- */

/* What a step works on: x = embed(id), k = norm(x), append(k, x), y = attention(x twice),
 * s = y + y, p = product of s, id = argmax(p), which the next step begins with. */
typedef struct scene {
    tenon_session *session;
    tenon_queue *queue;
    tenon_cache *cache;
    tenon_buffer *id, *x, *w, *k, *q, *y, *s, *p;
    tenon_weight *table, *product;
} scene;

static void prepare_values(void)
{
    uint32_t i, j;
    rig_fill(table_values, ROWS * KV_ROW, 21);
    rig_fill(product_values, ROWS * Q_ROW, 22);
    rig_fill(norms[0], KV_ROW, 23);
    rig_fill(norms[1], KV_ROW, 24);
    for (i = 0; i < CAPACITY; i++)
        for (j = 0; j < HEAD / 2; j++) {
            double angle = i * pow(10000.0, -2.0 * j / HEAD);
            rope[(i * (HEAD / 2) + j) * 2] = (float)cos(angle);
            rope[(i * (HEAD / 2) + j) * 2 + 1] = (float)sin(angle);
        }
}

static tenon_buffer *buffer(tenon_session *session, uint64_t floats)
{
    tenon_buffer *made = NULL;
    rig_ok(tenon_buffer_create(session, floats * 4, &made, &rig_error));
    return made;
}

static tenon_weight *weight(tenon_session *session, const float *values, uint64_t cols)
{
    tenon_weight_desc desc = rig_desc(ROWS);
    tenon_weight_data data = rig_data(values, ROWS * cols * 4, TENON_LIFETIME_STABLE);
    tenon_weight *made = NULL;
    desc.cols = cols;
    rig_ok(tenon_weight_create(session, &desc, &data, &made, &rig_error));
    return made;
}

static void open_scene(scene *self, tenon_session *session, tenon_queue *queue, uint32_t type,
                       uint64_t window)
{
    const tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                                   .kv_heads = KV_HEADS,
                                   .head_size = HEAD,
                                   .capacity = CAPACITY,
                                   .type = type,
                                   .pairing = TENON_ROPE_HALVES,
                                   .flags = TENON_CACHE_EVICTABLE,
                                   .rotary = HEAD,
                                   .window = window,
                                   .table = rope,
                                   .table_bytes = sizeof rope};
    *self = (scene){.session = session, .queue = queue};
    self->table = weight(session, table_values, KV_ROW);
    self->product = weight(session, product_values, Q_ROW);
    self->id = buffer(session, 1);
    self->x = buffer(session, KV_ROW);
    self->w = buffer(session, KV_ROW);
    self->k = buffer(session, KV_ROW);
    self->q = buffer(session, Q_ROW);
    self->y = buffer(session, Q_ROW);
    self->s = buffer(session, Q_ROW);
    self->p = buffer(session, ROWS);
    rig_ok(tenon_cache_create(session, &desc, &self->cache, &rig_error));
    rig_ok(tenon_buffer_write(queue, self->w, 0, norms[0], sizeof norms[0], &rig_error));
}

static tenon_view all(tenon_buffer *of, uint64_t floats)
{
    return (tenon_view){.buffer = of, .bytes = floats * 4};
}

static int32_t make_step(const scene *self)
{
    const uint64_t row = KV_ROW * 4, wide = Q_ROW * 4;
    const tenon_embed_call embed = {TENON_HEAD(tenon_embed_call),
                                    .weight = self->table,
                                    .ids = all(self->id, 1),
                                    .y = all(self->x, KV_ROW),
                                    .tokens = 1,
                                    .y_row_stride = row,
                                    .scale = 0.5f};
    const tenon_rmsnorm_call norm = {TENON_HEAD(tenon_rmsnorm_call),
                                     .x = all(self->x, KV_ROW),
                                     .w = all(self->w, KV_ROW),
                                     .y = all(self->k, KV_ROW),
                                     .tokens = 1,
                                     .groups = 1,
                                     .width = KV_ROW,
                                     .x_row_stride = row,
                                     .y_row_stride = row,
                                     .eps = 1e-5f};
    const tenon_append_call append = {TENON_HEAD(tenon_append_call),
                                      .cache = self->cache,
                                      .k = all(self->k, KV_ROW),
                                      .v = all(self->x, KV_ROW),
                                      .tokens = 1,
                                      .k_row_stride = row,
                                      .v_row_stride = row};
    tenon_gated_call gated = {TENON_HEAD(tenon_gated_call),
                              .gate = all(self->k, KV_ROW),
                              .up = all(self->x, KV_ROW),
                              .y = {.buffer = self->q, .bytes = row},
                              .tokens = 1,
                              .width = KV_ROW,
                              .gate_row_stride = row,
                              .up_row_stride = row,
                              .y_row_stride = row,
                              .activation = TENON_ACT_SILU};
    const tenon_attention_call attend = {TENON_HEAD(tenon_attention_call),
                                         .cache = self->cache,
                                         .q = all(self->q, Q_ROW),
                                         .y = all(self->y, Q_ROW),
                                         .tokens = 1,
                                         .heads = HEADS,
                                         .q_row_stride = wide,
                                         .y_row_stride = wide,
                                         .scale = 0.02f};
    const tenon_add_call add = {TENON_HEAD(tenon_add_call),
                                .a = all(self->y, Q_ROW),
                                .b = all(self->y, Q_ROW),
                                .y = all(self->s, Q_ROW),
                                .tokens = 1,
                                .width = Q_ROW,
                                .a_row_stride = wide,
                                .b_row_stride = wide,
                                .y_row_stride = wide};
    tenon_qmatmul_call multiply = {TENON_HEAD(tenon_qmatmul_call), .x = all(self->s, Q_ROW),
                                   .tokens = 1, .x_row_stride = wide, .output_count = 1};
    const tenon_argmax_call best = {TENON_HEAD(tenon_argmax_call),
                                    .x = all(self->p, ROWS),
                                    .y = all(self->id, 1),
                                    .tokens = 1,
                                    .width = ROWS,
                                    .x_row_stride = ROWS * 4};
    tenon_queue *queue = self->queue;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK}; /* of this thread */
    int32_t status;

    multiply.outputs[0].weight = self->product;
    multiply.outputs[0].y = all(self->p, ROWS);
    multiply.outputs[0].row_stride = ROWS * 4;
    if ((status = tenon_embed(queue, &embed, &error)) != TENON_OK ||
        (status = tenon_rmsnorm(queue, &norm, &error)) != TENON_OK ||
        (status = tenon_append(queue, &append, &error)) != TENON_OK ||
        (status = tenon_gated(queue, &gated, &error)) != TENON_OK)
        return status;
    gated.y.offset = row; /* q: two halves, written apart */
    if ((status = tenon_gated(queue, &gated, &error)) != TENON_OK ||
        (status = tenon_attention(queue, &attend, &error)) != TENON_OK ||
        (status = tenon_add(queue, &add, &error)) != TENON_OK ||
        (status = tenon_qmatmul(queue, &multiply, &error)) != TENON_OK)
        return status;
    return tenon_argmax(queue, &best, &error);
}

/* ---- a life ---------------------------------------------------------------------------------- */

enum { STEPS, TRUNCATE, EVICT, WRITE_ID, WRITE_NORM };
/* What happens to a scene, one after the other: a step's end is looked at behind each. */
static const struct {
    uint32_t what, a, b;
} life[] = {{WRITE_ID, 3, 0},   {STEPS, 1, 0},      {STEPS, 62, 0},    {STEPS, 1, 0},
            {STEPS, 1, 0},      {STEPS, 190, 0},    {STEPS, 1, 0},     {STEPS, 1, 0},
            {STEPS, 60, 0},     {TRUNCATE, 100, 0}, {STEPS, 3, 0},     {EVICT, 10, 50},
            {STEPS, 12, 0},     {WRITE_NORM, 1, 0}, {STEPS, 1, 0},     {WRITE_ID, 30, 0},
            {WRITE_NORM, 0, 0}, {STEPS, 195, 0},    {EVICT, 0, 20},    {STEPS, 15, 0},
            {TRUNCATE, 1, 0},   {STEPS, 2, 0},      {TRUNCATE, 0, 0},  {STEPS, 5, 0},
            {EVICT, 0, 4},      {STEPS, 1, 0},      {WRITE_ID, 99, 0}, {STEPS, 1, 0},
            {TRUNCATE, 1, 0},   {WRITE_ID, 4, 0},   {STEPS, 2, 0}};
#define LIFE (sizeof life / sizeof life[0])

typedef struct trace {
    float y[Q_ROW], p[ROWS];
    uint32_t id;
} trace;

static void look(const scene *self, trace *out)
{
    memset(out, 0xa5, sizeof *out);
    rig_ok(tenon_buffer_read(self->queue, self->y, 0, out->y, sizeof out->y, &rig_error));
    rig_ok(tenon_buffer_read(self->queue, self->p, 0, out->p, sizeof out->p, &rig_error));
    rig_ok(tenon_buffer_read(self->queue, self->id, 0, &out->id, sizeof out->id, &rig_error));
}

/* graph: NULL, and the steps are made call by call. Returns how many there were. */
static uint32_t live(const scene *self, tenon_graph *graph, uint64_t first, uint64_t count,
                     trace *traces)
{
    uint32_t steps = 0, i;
    uint64_t at;
    for (at = first; at < first + count; at++) {
        const uint32_t a = life[at].a;
        switch (life[at].what) {
        case TRUNCATE: rig_ok(tenon_cache_truncate(self->queue, self->cache, a, &rig_error)); break;
        case EVICT:
            rig_ok(tenon_cache_evict(self->queue, self->cache, a, life[at].b, &rig_error));
            break;
        case WRITE_ID:
            rig_ok(tenon_buffer_write(self->queue, self->id, 0, &a, sizeof a, &rig_error));
            break;
        case WRITE_NORM:
            rig_ok(
                tenon_buffer_write(self->queue, self->w, 0, norms[a], sizeof norms[a], &rig_error));
            break;
        default:
            for (i = 0; i < a; i++, steps++)
                rig_ok(graph != NULL ? tenon_graph_launch(self->queue, graph, &rig_error)
                                     : make_step(self));
            if (traces != NULL) look(self, &traces[at]);
        }
    }
    return steps;
}

static bool same_number(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void compare(const trace *got, const trace *right, uint64_t first, uint64_t count)
{
    uint64_t at, i;
    for (at = first; at < first + count; at++) {
        if (life[at].what != STEPS) continue;
        for (i = 0; i < Q_ROW; i++)
            ck_assert_msg(same_number(got[at].y[i], right[at].y[i]), "part %d: y[%d] %a, not %a",
                          (int)at, (int)i, (double)got[at].y[i], (double)right[at].y[i]);
        for (i = 0; i < ROWS; i++)
            ck_assert_msg(same_number(got[at].p[i], right[at].p[i]), "part %d: p[%d] %a, not %a",
                          (int)at, (int)i, (double)got[at].p[i], (double)right[at].p[i]);
        ck_assert_uint_eq(got[at].id, right[at].id);
    }
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static tenon_host *make_host(const char *setting)
{
    tenon_host_desc desc = rig_host_desc();
    tenon_host *host = NULL;
    prepare_values();
    desc.threads = 1;
    desc.provider_paths = &provider_file;
    desc.provider_path_count = 1;
    desc.config = &setting;
    desc.config_count = setting != NULL ? 1 : 0;
    rig_ok(tenon_host_create(&desc, &host, &rig_error));
    return host;
}

/* A session that only Vulkan serves. NULL: there is no device here, and the test says so. */
static tenon_session *vulkan_session(tenon_host *host)
{
    const tenon_session_desc desc = {TENON_HEAD(tenon_session_desc), .chain = "vulkan",
                                     .mode = TENON_MODE_PIN};
    tenon_session *session = NULL;
    int32_t status = tenon_session_create(host, &desc, &session, &rig_error);
    if (status == TENON_OK) return session;
    ck_assert_msg(rig_error.reason == TENON_REASON_NO_DEVICE ||
                      rig_error.reason == TENON_REASON_NO_SUCH_DEVICE ||
                      rig_error.reason == TENON_REASON_RUNTIME_ABSENT,
                  "%s", rig_error.text);
    runner_skip("no Vulkan device");
    rig_ok(tenon_host_destroy(host, &rig_error));
    return NULL;
}

/* A whole life on the reference. */
static void live_right(tenon_host *host, uint32_t type, uint64_t window, trace *right)
{
    tenon_session *session = rig_session(host, "reference", TENON_MODE_PIN);
    scene self;
    open_scene(&self, session, tenon_session_queue(session), type, window);
    live(&self, NULL, 0, LIFE, right);
    tenon_session_destroy(session);
}

static tenon_graph *record(const scene *self)
{
    tenon_graph *graph = NULL;
    rig_ok(tenon_graph_begin(self->queue, &rig_error));
    rig_ok(make_step(self));
    rig_ok(tenon_graph_end(self->queue, &graph, &rig_error));
    return graph;
}

static tenon_graph_information info(tenon_graph *graph)
{
    tenon_graph_information out = {TENON_HEAD(tenon_graph_information), .calls = 0};
    rig_ok(tenon_graph_info(graph, &out, &rig_error));
    return out;
}

static tenon_counter counter(tenon_session *session, const char *name)
{
    uint64_t count = 0, i;
    rig_ok(tenon_session_counter_count(session, &count, &rig_error));
    for (i = 0; i < count; i++) {
        tenon_counter one = rig_counter(session, i);
        if (strcmp(one.operation, name) == 0) return one;
    }
    ck_abort_msg("no counter of %s", name);
    return (tenon_counter){TENON_HEAD(tenon_counter), .device = 0};
}

static void check_captured(tenon_graph *graph)
{
    tenon_graph_information was = info(graph);
    ck_assert_msg(was.captured == 1, "not captured: %s", was.why);
    ck_assert_str_eq(was.provider, "vulkan");
    ck_assert_uint_eq(was.calls, CALLS);
}

static uint64_t length(tenon_cache *cache)
{
    uint64_t out = UINT64_MAX;
    rig_ok(tenon_cache_length(cache, &out, &rig_error));
    return out;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static const struct {
    uint32_t type;
    uint64_t window;
    const char *setting;
} lives[] = {{TENON_CACHE_F16, 0, NULL},  {TENON_CACHE_F32, 0, NULL},
             {TENON_CACHE_F16, 30, NULL}, {TENON_CACHE_F32, 130, NULL},
             {TENON_CACHE_F16, 1, NULL},  {TENON_CACHE_F16, 0, "vulkan.staging=always"}};

START_TEST(whole_life)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host(lives[_i].setting);
    tenon_session *session = vulkan_session(host);
    tenon_graph *graph;
    uint32_t steps;
    scene self;
    if (session == NULL) return;
    live_right(host, lives[_i].type, lives[_i].window, right);
    open_scene(&self, session, tenon_session_queue(session), lives[_i].type, lives[_i].window);
    graph = record(&self);
    check_captured(graph);
    ck_assert_uint_eq(length(self.cache), 0); /* nothing was done yet */
    steps = live(&self, graph, 0, LIFE, got);
    compare(got, right, 0, LIFE);
    ck_assert_uint_eq(length(self.cache), 3);
    check_captured(graph);
    ck_assert_uint_eq(info(graph).launches, steps);
    ck_assert_uint_eq(info(graph).replays, 0);
    ck_assert_uint_eq(counter(session, "graph").calls, steps);
    ck_assert_uint_eq(counter(session, "attention").calls, steps);
    ck_assert_uint_eq(counter(session, "graph").failed, 0);
    tenon_graph_destroy(graph);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* Launches and calls made one by one take turns, and two graphs share a cache. */
START_TEST(mixed)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_graph *graphs[3] = {NULL};
    uint64_t i;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    graphs[1] = record(&self);
    check_captured(graphs[1]);
    for (i = 0; i < LIFE; i++) {
        if (i == 10) { /* recorded over a cache that holds something, behind work in flight */
            graphs[2] = record(&self);
            check_captured(graphs[2]);
        }
        live(&self, graphs[i % 3], i, 1, got);
    }
    compare(got, right, 0, LIFE);
    tenon_session_destroy(session); /* frees the graphs too */
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* All that a launch uses is freed while it may be in flight; nobody waited for it. */
START_TEST(freed_in_flight)
{
    static trace right[LIFE];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_memory_info before = {TENON_HEAD(tenon_memory_info), .total = 0}, after = before;
    tenon_graph *graph;
    uint32_t i, round;
    trace got;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    for (round = 0; round < 5; round++) {
        open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
        graph = record(&self);
        check_captured(graph);
        live(&self, NULL, 0, 1, NULL); /* the id */
        for (i = 0; i < 63; i++) rig_ok(tenon_graph_launch(self.queue, graph, &rig_error));
        tenon_graph_destroy(graph);
        if (round % 2 == 0) { /* what it made is there all the same */
            look(&self, &got);
            ck_assert_int_eq(memcmp(got.p, right[2].p, sizeof got.p), 0);
            ck_assert_uint_eq(got.id, right[2].id);
        }
        tenon_cache_destroy(self.cache);
        tenon_buffer_destroy(self.id);
        tenon_buffer_destroy(self.x);
        tenon_buffer_destroy(self.w);
        tenon_buffer_destroy(self.k);
        tenon_buffer_destroy(self.q);
        tenon_buffer_destroy(self.y);
        tenon_buffer_destroy(self.s);
        tenon_buffer_destroy(self.p);
        tenon_weight_destroy(self.table);
        tenon_weight_destroy(self.product);
        rig_ok(tenon_queue_fence(self.queue, &rig_error));
        rig_ok(tenon_session_memory(session, 0, &after, &rig_error));
        if (round == 1) before = after;
        if (round > 1) ck_assert_uint_eq(after.used, before.used);
        ck_assert_uint_eq(after.objects, 0);
    }
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    graph = record(&self);
    live(&self, graph, 0, 3, NULL);
    tenon_session_destroy(session); /* with the graph, in flight */
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

typedef struct worker {
    scene self;
    trace got[LIFE];
    int32_t status;
} worker;

static void *work(void *context)
{
    worker *self = context;
    tenon_graph *graph = record(&self->self);
    live(&self->self, graph, 0, LIFE, self->got);
    self->status = (int32_t)info(graph).captured;
    tenon_graph_destroy(graph);
    return NULL;
}

/* Two queues record and launch at once, each over its own cache. */
START_TEST(two_queues)
{
    static trace right[LIFE];
    static worker workers[2];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_queue *second = NULL;
    pthread_t threads[2];
    uint32_t i;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    rig_ok(tenon_queue_create(session, &second, &rig_error));
    open_scene(&workers[0].self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    open_scene(&workers[1].self, session, second, TENON_CACHE_F16, 0);
    for (i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(workers[i].status, 1);
        compare(workers[i].got, right, 0, LIFE);
    }
    tenon_queue_destroy(second);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* A graph recorded on one queue is launched on both, with a fence between. */
START_TEST(handed_over)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_queue *queues[2] = {NULL};
    tenon_graph *graph;
    uint64_t i;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    queues[0] = tenon_session_queue(session);
    rig_ok(tenon_queue_create(session, &queues[1], &rig_error));
    open_scene(&self, session, queues[0], TENON_CACHE_F16, 0);
    graph = record(&self);
    for (i = 0; i < LIFE; i++) {
        live(&self, graph, i, 1, got);
        rig_ok(tenon_queue_fence(self.queue, &rig_error));
        self.queue = queues[(i + 1) % 2];
    }
    compare(got, right, 0, LIFE);
    check_captured(graph);
    tenon_graph_destroy(graph);
    tenon_queue_destroy(queues[1]);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* A cache that is full is none of a launch's: it says so, and works again when it is cut back. */
START_TEST(full_cache)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_graph *graph, *other;
    uint32_t i, id = 3;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F32, 0, right);
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F32, 0);
    graph = record(&self);
    rig_ok(tenon_buffer_write(self.queue, self.id, 0, &id, sizeof id, &rig_error));
    for (i = 0; i < CAPACITY; i++) rig_ok(tenon_graph_launch(self.queue, graph, &rig_error));
    rig_fails(tenon_graph_launch(self.queue, graph, &rig_error), TENON_ARG, TENON_REASON_CAPACITY);
    other = record(&self); /* it can be emptied before a launch */
    check_captured(other);
    rig_ok(tenon_cache_truncate(self.queue, self.cache, 0, &rig_error));
    live(&self, other, 0, 8, got);
    compare(got, right, 0, 8);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* vulkan.graph=off: the calls are made one by one, with the same bits. */
START_TEST(switched_off)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host("vulkan.graph=off");
    tenon_session *session = vulkan_session(host);
    tenon_graph *graph;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    graph = record(&self);
    ck_assert_uint_eq(info(graph).captured, 0);
    ck_assert_ptr_nonnull(strstr(info(graph).why, "vulkan.graph=off"));
    live(&self, graph, 0, 13, got);
    compare(got, right, 0, 13);
    ck_assert_uint_eq(counter(session, "graph").calls, 0);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("vulkan graphs");
    TCase *tests = tcase_create("graphs");
    if (argc != 2) {
        fprintf(stderr, "the file of the provider is needed\n");
        return EXIT_FAILURE;
    }
    provider_file = argv[1];
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, whole_life, 0, sizeof lives / sizeof lives[0]);
    tcase_add_test(tests, mixed);
    tcase_add_test(tests, freed_in_flight);
    tcase_add_test(tests, two_queues);
    tcase_add_test(tests, handed_over);
    tcase_add_test(tests, full_cache);
    tcase_add_test(tests, switched_off);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
