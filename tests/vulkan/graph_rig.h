/* A step of a layer, its life over a cache that grows, is cut back and loses positions, and hosts that
 * know the Vulkan provider: what the tests of recorded sequences share. */
#ifndef TENON_TESTS_VULKAN_GRAPH_RIG_H
#define TENON_TESTS_VULKAN_GRAPH_RIG_H

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

static inline void prepare_values(void)
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

static inline tenon_buffer *buffer(tenon_session *session, uint64_t floats)
{
    tenon_buffer *made = NULL;
    rig_ok(tenon_buffer_create(session, floats * 4, &made, &rig_error));
    return made;
}

static inline tenon_weight *weight(tenon_session *session, const float *values, uint64_t cols)
{
    tenon_weight_desc desc = rig_desc(ROWS);
    tenon_weight_data data = rig_data(values, ROWS * cols * 4, TENON_LIFETIME_STABLE);
    tenon_weight *made = NULL;
    desc.cols = cols;
    rig_ok(tenon_weight_create(session, &desc, &data, &made, &rig_error));
    return made;
}

static inline void make_cache(scene *self, uint32_t type, uint64_t window)
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
    rig_ok(tenon_cache_create(self->session, &desc, &self->cache, &rig_error));
}

static inline void open_scene(scene *self, tenon_session *session, tenon_queue *queue,
                              uint32_t type, uint64_t window)
{
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
    make_cache(self, type, window);
    rig_ok(tenon_buffer_write(queue, self->w, 0, norms[0], sizeof norms[0], &rig_error));
}

static inline tenon_view all(tenon_buffer *of, uint64_t floats)
{
    return (tenon_view){.buffer = of, .bytes = floats * 4};
}

static inline int32_t make_step(const scene *self)
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

static inline void look(const scene *self, trace *out)
{
    memset(out, 0xa5, sizeof *out);
    rig_ok(tenon_buffer_read(self->queue, self->y, 0, out->y, sizeof out->y, &rig_error));
    rig_ok(tenon_buffer_read(self->queue, self->p, 0, out->p, sizeof out->p, &rig_error));
    rig_ok(tenon_buffer_read(self->queue, self->id, 0, &out->id, sizeof out->id, &rig_error));
}

/* graph: NULL, and the steps are made call by call. Returns how many there were. */
static inline uint32_t live(const scene *self, tenon_graph *graph, uint64_t first, uint64_t count,
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

static inline bool same_number(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static inline void compare(const trace *got, const trace *right, uint64_t first, uint64_t count)
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

static inline tenon_host *make_host(const char *setting)
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
static inline tenon_session *vulkan_session(tenon_host *host)
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
static inline void live_right(tenon_host *host, uint32_t type, uint64_t window, trace *right)
{
    tenon_session *session = rig_session(host, "reference", TENON_MODE_PIN);
    scene self;
    open_scene(&self, session, tenon_session_queue(session), type, window);
    live(&self, NULL, 0, LIFE, right);
    tenon_session_destroy(session);
}

static inline tenon_graph *record(const scene *self)
{
    tenon_graph *graph = NULL;
    rig_ok(tenon_graph_begin(self->queue, &rig_error));
    rig_ok(make_step(self));
    rig_ok(tenon_graph_end(self->queue, &graph, &rig_error));
    return graph;
}

static inline tenon_graph_information info(tenon_graph *graph)
{
    tenon_graph_information out = {TENON_HEAD(tenon_graph_information), .calls = 0};
    rig_ok(tenon_graph_info(graph, &out, &rig_error));
    return out;
}

static inline tenon_counter counter(tenon_session *session, const char *name)
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

static inline void check_captured(tenon_graph *graph)
{
    tenon_graph_information was = info(graph);
    ck_assert_msg(was.captured == 1, "not captured: %s", was.why);
    ck_assert_str_eq(was.provider, "vulkan");
    ck_assert_uint_eq(was.calls, CALLS);
}

static inline uint64_t length(tenon_cache *cache)
{
    uint64_t out = UINT64_MAX;
    rig_ok(tenon_cache_length(cache, &out, &rig_error));
    return out;
}

#endif
