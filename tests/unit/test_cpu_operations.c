/* The whole operations of the CPU provider give the reference's bits at every level.
 *
 *     test_cpu_operations MODULE
 *
 * MODULE is the provider, or the same sources built over SIMDe; what runs is what it says it has. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "../golden/reference_fixture.h"
#include "runner.h"

#define MOST_LEVELS 8u
#define WORKERS 3u

static const char *module_path; /* argv[1] */

/* One provider and the operations of it. */
typedef struct link {
    const tenon_provider_v1 *v1;
    const tenon_qmatmul_v1 *qmatmul;
    const tenon_embed_v1 *embed;
    const tenon_rmsnorm_v1 *rmsnorm;
    const tenon_gated_v1 *gated;
    const tenon_add_v1 *add;
    const tenon_argmax_v1 *argmax;
    const tenon_attention_v1 *attention;
    tenon_services services;
    const char *level;
    tenon_provider *provider;
    tenon_device *device;
    tenon_device_queue *queue;
} link_t;

static link_t reference, links[MOST_LEVELS];
static char names[MOST_LEVELS][24];
static uint32_t link_count;

/* ------------------------------------------------------------------------------------- services */

static void TENON_CALL say(void *host, uint32_t level, const char *text)
{
    (void)host;
    (void)level;
    printf("log: %s\n", text);
}

/* Units in descending order, workers in turn: who runs what must not matter. */
static void TENON_CALL backwards(void *host, uint64_t count, tenon_parallel_body body,
                                 void *context)
{
    uint64_t i;
    (void)host;
    for (i = count; i-- > 0;) body(context, i, (uint32_t)(i % WORKERS));
}

static uint32_t TENON_CALL workers(void *host)
{
    (void)host;
    return WORKERS;
}

static const char *TENON_CALL config(void *host, const char *key)
{
    return strcmp(key, "cpu.level") == 0 ? ((const link_t *)host)->level : NULL;
}

/* False when this machine lacks the level. */
static bool open_link(link_t *self)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = 0};
    int32_t status;

    self->services = (tenon_services){
        TENON_HEAD(tenon_services), .host = self,         .log = say,
        .parallel_for = backwards,  .team_size = workers, .config = config};
    status = self->v1->open(&self->services, &self->provider, &error);
    if (status != TENON_OK) {
        ck_assert_msg(error.reason == TENON_REASON_LEVEL_ABSENT, "%s", error.text);
        return false;
    }
    ck_assert_int_eq(self->v1->device_open(self->provider, 0, &self->device, NULL), TENON_OK);
    self->queue = NULL;
    if (self->v1->queue_open != NULL)
        ck_assert_int_eq(self->v1->queue_open(self->device, &self->queue, NULL), TENON_OK);
    return true;
}

static void close_link(link_t *self)
{
    if (self->v1->queue_close != NULL) self->v1->queue_close(self->queue);
    self->v1->device_close(self->device);
    self->v1->close(self->provider);
}

static void find_module(link_t *self)
{
    void *module = dlopen(module_path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(module != NULL, "%s", dlerror());
    self->v1 = dlsym(module, "provider_v1");
    self->qmatmul = dlsym(module, "qmatmul_v1");
    self->embed = dlsym(module, "embed_v1");
    self->rmsnorm = dlsym(module, "rmsnorm_v1");
    self->gated = dlsym(module, "gated_v1");
    self->add = dlsym(module, "add_v1");
    self->argmax = dlsym(module, "argmax_v1");
    self->attention = dlsym(module, "attention_v1");
    ck_assert(self->v1 && self->qmatmul && self->embed && self->rmsnorm && self->gated &&
              self->add && self->argmax && self->attention);
}

/* The reference, and a link for every level of the module that runs here. */
static void open_all(void)
{
    tenon_device_info info = {TENON_HEAD(tenon_device_info), .kind = 0};
    link_t first = {.level = NULL};
    char *name, *rest;

    reference = (link_t){
        &tenon_reference_provider_v1, &tenon_reference_qmatmul_v1,   &tenon_reference_embed_v1,
        &tenon_reference_rmsnorm_v1,  &tenon_reference_gated_v1,     &tenon_reference_add_v1,
        &tenon_reference_argmax_v1,   &tenon_reference_attention_v1, .level = NULL};
    ck_assert(open_link(&reference));
    find_module(&first);
    ck_assert(open_link(&first));
    ck_assert_int_eq(first.v1->device_info(first.provider, 0, &info, NULL), TENON_OK);
    close_link(&first);
    name = strstr(info.detail, "levels=");
    ck_assert_ptr_nonnull(name);
    for (name = strtok_r(name + 7, ",", &rest); name != NULL && link_count < MOST_LEVELS;
         name = strtok_r(NULL, ",", &rest)) {
        link_t *self = &links[link_count];
        snprintf(names[link_count], sizeof names[0], "%s", name);
        find_module(self);
        self->level = names[link_count];
        if (open_link(self))
            link_count++;
        else
            printf("level %s: not on this machine\n", name);
    }
    ck_assert_uint_ge(link_count, 1);
}

static void close_all(void)
{
    while (link_count > 0) close_link(&links[--link_count]);
    close_link(&reference);
}

/* --------------------------------------------------------------------------------------- values */

static uint64_t state = 1;

static uint64_t random_u64(void) /* splitmix64 */
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static float ordinary(void)
{
    return (float)(random_u64() >> 40) * 0x1p-22f - 2.0f;
}

/* Any bits, and the corners more often than chance has them. */
static float odd(void)
{
    static const uint32_t corners[] = {0,          0x80000000, 1,          0x80000001, 0x7f800000,
                                       0xff800000, 0x7fc00000, 0x7f7fffff, 0xff7fffff, 0x00800000};
    uint64_t z = random_u64();
    if (z >> 61 == 0) return float_of(corners[(uint32_t)z % 10]);
    return z >> 63 != 0 ? ordinary() * 30.0f : float_of((uint32_t)z);
}

static float *filled(uint64_t count, float (*value)(void))
{
    float *p = malloc(4 * count + 4);
    uint64_t i;
    ck_assert_ptr_nonnull(p);
    for (i = 0; i < count; i++) p[i] = value();
    return p;
}

static void same(const char *level, const char *what, const float *have, const float *want,
                 uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++)
        if (!same_value(bits_of(have[i]), bits_of(want[i])))
            ck_abort_msg("%s, %s, value %llu: %a, reference %a", level, what, (unsigned long long)i,
                         (double)have[i], (double)want[i]);
}

static const uint64_t widths[] = {1, 2, 15, 16, 17, 31, 64, 100, 576, 640, 1000, 4099};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* ----------------------------------------------------------------------------------------- rows */

START_TEST(rows_equal_the_reference)
{
    enum { TOKENS = 3, GAP = 3 };
    uint32_t l, activation, n;
    size_t w;

    for (w = 0; w < COUNT(widths); w++) {
        for (n = 0; n < 2; n++) {
            float (*value)(void) = n == 0 ? ordinary : odd;
            uint64_t width = widths[w], stride = width + GAP, count = TOKENS * stride;
            float *a = filled(count, value), *b = filled(count, value);
            float *have = filled(count, ordinary), *want = filled(count, ordinary);
            tenon_add_call add = {TENON_HEAD(tenon_add_call),
                                  .a = fixture_view(a, count),
                                  .b = fixture_view(b, count),
                                  .tokens = TOKENS,
                                  .width = width,
                                  .a_row_stride = 4 * stride,
                                  .b_row_stride = 4 * stride,
                                  .y_row_stride = 4 * stride};
            tenon_gated_call gated = {TENON_HEAD(tenon_gated_call),
                                      .gate = add.a,
                                      .up = add.b,
                                      .tokens = TOKENS,
                                      .width = width,
                                      .gate_row_stride = 4 * stride,
                                      .up_row_stride = 4 * stride,
                                      .y_row_stride = 4 * stride};
            tenon_rmsnorm_call rmsnorm = {TENON_HEAD(tenon_rmsnorm_call),
                                          .x = add.a,
                                          .w = add.b,
                                          .tokens = TOKENS,
                                          .groups = 1,
                                          .width = width,
                                          .x_row_stride = 4 * stride,
                                          .y_row_stride = 4 * stride,
                                          .eps = 1e-5f};
            for (l = 0; l < link_count; l++) {
                link_t *on = &links[l];
                memcpy(have, want, 4 * count); /* so that gaps must stay as they were */
                add.y = fixture_view(want, count);
                ck_assert_int_eq(reference.add->run(reference.device, NULL, &add, NULL), 0);
                add.y = fixture_view(have, count);
                ck_assert_int_eq(on->add->run(on->device, on->queue, &add, NULL), 0);
                same(names[l], "add", have, want, count);
                for (activation = TENON_ACT_SILU; activation <= TENON_ACT_RELU; activation++) {
                    gated.activation = activation;
                    gated.y = fixture_view(want, count);
                    ck_assert_int_eq(reference.gated->run(reference.device, NULL, &gated, NULL), 0);
                    gated.y = fixture_view(have, count);
                    ck_assert_int_eq(on->gated->run(on->device, on->queue, &gated, NULL), 0);
                    same(names[l], "gated", have, want, count);
                }
                rmsnorm.y = fixture_view(want, count);
                ck_assert_int_eq(reference.rmsnorm->run(reference.device, NULL, &rmsnorm, NULL), 0);
                rmsnorm.y = fixture_view(have, count);
                ck_assert_int_eq(on->rmsnorm->run(on->device, on->queue, &rmsnorm, NULL), 0);
                same(names[l], "rmsnorm", have, want, count);
            }
            free(a);
            free(b);
            free(have);
            free(want);
        }
    }
}
END_TEST

/* silu of gates all over the range: the exponential at every level. */
START_TEST(activations_over_the_whole_range)
{
    enum { WIDTH = 1 << 18 };
    float *gate = malloc(4 * WIDTH), *up = malloc(4 * WIDTH);
    float *have = malloc(4 * WIDTH), *want = malloc(4 * WIDTH);
    tenon_gated_call call = {TENON_HEAD(tenon_gated_call),
                             .gate = fixture_view(gate, WIDTH),
                             .up = fixture_view(up, WIDTH),
                             .tokens = 1,
                             .width = WIDTH,
                             .gate_row_stride = 4 * WIDTH,
                             .up_row_stride = 4 * WIDTH,
                             .y_row_stride = 4 * WIDTH};
    uint32_t l, i;

    ck_assert(gate && up && have && want);
    for (i = 0; i < WIDTH; i++) {
        gate[i] = float_of(i << 14 | 0x1234);
        up[i] = 1.0f;
    }
    for (call.activation = TENON_ACT_SILU; call.activation <= TENON_ACT_RELU; call.activation++) {
        call.y = fixture_view(want, WIDTH);
        ck_assert_int_eq(reference.gated->run(reference.device, NULL, &call, NULL), 0);
        for (l = 0; l < link_count; l++) {
            call.y = fixture_view(have, WIDTH);
            ck_assert_int_eq(links[l].gated->run(links[l].device, links[l].queue, &call, NULL), 0);
            same(names[l], "activation", have, want, WIDTH);
        }
    }
    free(gate);
    free(up);
    free(have);
    free(want);
}
END_TEST

START_TEST(groups_of_a_row)
{
    enum { TOKENS = 5, GROUPS = 9, WIDTH = 64, ROW = GROUPS * WIDTH };
    float *x = filled(TOKENS * ROW, ordinary), *w = filled(WIDTH, ordinary);
    float *have = filled(TOKENS * ROW, ordinary), *want = filled(TOKENS * ROW, ordinary);
    tenon_rmsnorm_call call = {TENON_HEAD(tenon_rmsnorm_call),
                               .x = fixture_view(x, TOKENS * ROW),
                               .w = fixture_view(w, WIDTH),
                               .tokens = TOKENS,
                               .groups = GROUPS,
                               .width = WIDTH,
                               .x_row_stride = 4 * ROW,
                               .y_row_stride = 4 * ROW,
                               .eps = 1e-6f};
    uint32_t l, i;

    for (i = 0; i < WIDTH; i++) x[i] = 0.0f; /* v = eps */
    call.y = fixture_view(want, TOKENS * ROW);
    ck_assert_int_eq(reference.rmsnorm->run(reference.device, NULL, &call, NULL), 0);
    for (l = 0; l < link_count; l++) {
        call.y = fixture_view(have, TOKENS * ROW);
        ck_assert_int_eq(links[l].rmsnorm->run(links[l].device, links[l].queue, &call, NULL), 0);
        same(names[l], "groups", have, want, TOKENS * ROW);
    }
    free(x);
    free(w);
    free(have);
    free(want);
}
END_TEST

START_TEST(argmax_equals_the_reference)
{
    uint32_t l, round, y = 0, want = 0;
    uint64_t i;

    for (round = 0; round < 400; round++) {
        uint64_t width = round < 40 ? round : random_u64() % 5000;
        float *x = filled(width, round % 3 == 0 ? ordinary : odd);
        tenon_argmax_call call = {TENON_HEAD(tenon_argmax_call), .x = fixture_view(x, width),
                                  .tokens = 1, .width = width, .x_row_stride = 4 * width};
        if (round % 5 == 1) /* few values: many ties */
            for (i = 0; i < width; i++) x[i] = (float)(random_u64() % 3) - 1.0f;
        if (round % 5 == 2) /* nothing but NaN and -inf, and +-0 now and then */
            for (i = 0; i < width; i++)
                x[i] = random_u64() % 64 == 0 ? (random_u64() % 2 != 0 ? -INFINITY : -0.0f) : NAN;
        if (round % 5 == 3)
            for (i = 0; i < width; i++) x[i] = random_u64() % 900 == 0 ? -INFINITY : NAN;
        call.y = fixture_view(&want, 1);
        ck_assert_int_eq(reference.argmax->run(reference.device, NULL, &call, NULL), 0);
        for (l = 0; l < link_count; l++) {
            call.y = fixture_view(&y, 1);
            y = 77;
            ck_assert_int_eq(links[l].argmax->run(links[l].device, links[l].queue, &call, NULL), 0);
            ck_assert_msg(y == want, "%s, round %u: %u, reference %u", names[l], round, y, want);
        }
        free(x);
    }
}
END_TEST

/* ---------------------------------------------------------------------------------------- embed */

/* Rows of a weight of one class on one link. */
static void embed(link_t *on, const tenon_weight_desc *desc, const tenon_weight_data *data,
                  const uint32_t *ids, uint64_t tokens, float factor, float *y)
{
    tenon_prepared *prepared = NULL;
    tenon_embed_call call = {TENON_HEAD(tenon_embed_call),
                             .ids = fixture_view(ids, tokens),
                             .y = fixture_view(y, tokens * desc->cols),
                             .tokens = tokens,
                             .y_row_stride = 4 * desc->cols,
                             .scale = factor};

    ck_assert_int_eq(on->qmatmul->prepare(on->device, desc, data, &prepared, NULL), TENON_OK);
    call.weight = prepared;
    ck_assert_int_eq(on->embed->run(on->device, on->queue, &call, NULL), TENON_OK);
    on->qmatmul->release(on->device, prepared);
}

/* Every format, layout and class over rows of random bytes, whole and ragged. */
START_TEST(embedding_rows_equal_the_reference)
{
    static const uint64_t ragged[] = {1, 7, 33, 257, 300, 515, 768}, groups[] = {32, 5, 48, 300};
    enum { ROWS = 37, TOKENS = 9 };
    uint32_t index, format, arith, l, layout, n, turn = 0;

    for (index = 0; (format = tenon_format_at(index)) != 0; index++) {
        for (turn = 0; turn < COUNT(ragged); turn++) {
            int int4 = format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP;
            tenon_format_info info;
            ck_assert_int_eq(tenon_format_find(format, &info), 1);
            layout = int4 ? TENON_LAYOUT_PAIR + turn % 2 : TENON_LAYOUT_NONE;
            for (arith = TENON_CLASS_F32; arith <= TENON_CLASS_A8; arith++) {
                uint64_t cols = info.block_inputs > 1 ? (1 + turn % 3) * info.block_inputs
                                                      : ragged[turn];
                uint64_t group = format == TENON_FORMAT_INT4_GROUP ? groups[turn % 4] : 0;
                tenon_weight_desc desc = fixture_desc(format, layout, group, ROWS, cols, arith);
                tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .identity = 1};
                uint32_t ids[TOKENS], reason;
                float *want = filled(TOKENS * cols, ordinary), *have = filled(TOKENS * cols, odd);
                float factor = turn % 2 == 0 ? 1.0f : 25.298221f;
                uint8_t *bytes[2];
                uint64_t size[2], i;

                if (arith == TENON_CLASS_A8 && (info.traits & TENON_TRAIT_FLOATS) != 0) {
                    free(want);
                    free(have);
                    continue;
                }
                ck_assert_int_eq(tenon_weight_bytes(&desc, &size[0], &size[1], &reason), TENON_OK);
                for (n = 0; n < 2; n++) {
                    bytes[n] = malloc((size_t)size[n] + 1);
                    ck_assert_ptr_nonnull(bytes[n]);
                    for (i = 0; i < size[n]; i++) bytes[n][i] = (uint8_t)(random_u64() >> 56);
                }
                for (n = 0; n < TOKENS; n++) ids[n] = (uint32_t)(random_u64() % ROWS);
                ids[0] = ROWS - 1;
                ids[3] = turn % 2 == 0 ? ROWS : UINT32_MAX; /* past the weight: a row of NaN */
                data.weights = bytes[0];
                data.weights_bytes = size[0];
                data.scales = size[1] != 0 ? bytes[1] : NULL;
                data.scales_bytes = size[1];
                data.lifetime = TENON_LIFETIME_COPY;
                embed(&reference, &desc, &data, ids, TOKENS, factor, want);
                ck_assert(isnan(want[3 * cols]) && isnan(want[4 * cols - 1]));
                for (l = 0; l < link_count; l++) {
                    embed(&links[l], &desc, &data, ids, TOKENS, factor, have);
                    same(names[l], info.text, have, want, TOKENS * cols);
                }
                free(bytes[0]);
                free(bytes[1]);
                free(want);
                free(have);
            }
        }
    }
}
END_TEST

/* ------------------------------------------------------------------------------------ attention */

typedef struct shape {
    uint64_t kv_heads, heads, head_size, window;
    uint32_t pairing, rotary;
    float scale;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 0, TENON_ROPE_NONE, 0, 1.0f},
    {3, 9, 64, 0, TENON_ROPE_ADJACENT, 64, 0.125f},
    {1, 4, 256, 200, TENON_ROPE_HALVES, 256, 0.0625f},
    {2, 4, 80, 0, TENON_ROPE_HALVES, 32, 3.0f},
    {2, 2, 17, 3, TENON_ROPE_ADJACENT, 16, 0.3f},
    {1, 3, 100, 290, TENON_ROPE_HALVES, 98, 0.1f},
    {2, 6, 33, 16, TENON_ROPE_ADJACENT, 2, 20.0f},
};

enum { POSITIONS = 540 };

/* A cache on a link and what was done to it. */
typedef struct holder {
    link_t *on;
    tenon_device_cache *cache;
} holder;

static void append(const holder *self, const float *k, const float *v, uint64_t tokens,
                   uint64_t width)
{
    tenon_append_call call = {TENON_HEAD(tenon_append_call),
                              .cache = self->cache,
                              .k = fixture_view(k, tokens * width),
                              .v = fixture_view(v, tokens * width),
                              .tokens = tokens,
                              .k_row_stride = 4 * width,
                              .v_row_stride = 4 * width};
    ck_assert_int_eq(self->on->attention->append(self->on->device, self->on->queue, &call, NULL),
                     TENON_OK);
}

static void attend(const holder *self, const shape *s, const float *q, float *y, uint64_t tokens)
{
    uint64_t row = s->heads * s->head_size;
    tenon_attention_call call = {TENON_HEAD(tenon_attention_call),
                                 .cache = self->cache,
                                 .q = fixture_view(q, tokens * row),
                                 .y = fixture_view(y, tokens * row),
                                 .tokens = tokens,
                                 .heads = s->heads,
                                 .q_row_stride = 4 * row,
                                 .y_row_stride = 4 * row,
                                 .scale = s->scale};
    ck_assert_int_eq(self->on->attention->run(self->on->device, self->on->queue, &call, NULL),
                     TENON_OK);
}

static float *table_of(uint32_t rotary)
{
    float *table = malloc(4 * POSITIONS * (rotary + 1));
    uint64_t p, i;
    ck_assert_ptr_nonnull(table);
    for (p = 0; p < POSITIONS; p++)
        for (i = 0; i < rotary / 2; i++) {
            double angle = (double)p * pow(10000.0, -2.0 * (double)i / rotary);
            table[(p * (rotary / 2) + i) * 2] = (float)cos(angle);
            table[(p * (rotary / 2) + i) * 2 + 1] = (float)sin(angle);
        }
    return table;
}

/* The same story on two links: chunks, an eviction, a truncation, a clone; answers after each. */
static void tell(holder pair[2], const shape *s, const char *level, float (*value)(void))
{
    uint64_t width = s->kv_heads * s->head_size, row = s->heads * s->head_size, at = 0, n;
    float *k = filled(POSITIONS * width, value), *v = filled(POSITIONS * width, value);
    float *q = filled(64 * row, value), *have = filled(64 * row, ordinary);
    float *want = filled(64 * row, ordinary);
    static const uint64_t chunks[] = {1, 2, 13, 64, 200, 20, 1, 1, 150};
    uint32_t i, step;
    tenon_device_cache *clone;

    for (step = 0; step < COUNT(chunks) + 3; step++) {
        uint64_t length[2] = {0, 0};
        for (i = 0; i < 2; i++) {
            const tenon_attention_v1 *attention = pair[i].on->attention;
            tenon_device *device = pair[i].on->device;
            tenon_device_queue *queue = pair[i].on->queue;
            if (step < COUNT(chunks)) {
                append(&pair[i], k + at * width, v + at * width, chunks[step], width);
            } else if (step == COUNT(chunks)) {
                ck_assert_int_eq(attention->evict(device, queue, pair[i].cache, 4, 37, NULL), 0);
            } else if (step == COUNT(chunks) + 1) {
                ck_assert_int_eq(attention->truncate(device, queue, pair[i].cache, 300, NULL), 0);
            } else {
                ck_assert_int_eq(attention->clone(device, queue, pair[i].cache, &clone, NULL), 0);
                attention->free(device, pair[i].cache);
                pair[i].cache = clone;
            }
            ck_assert_int_eq(attention->length(device, pair[i].cache, &length[i], NULL), 0);
            n = length[i] < 5 ? length[i] : 5;
            attend(&pair[i], s, q, i == 0 ? want : have, n);
        }
        if (step < COUNT(chunks)) at += chunks[step];
        ck_assert_uint_eq(length[0], length[1]);
        same(level, "attention", have, want, n * row);
    }
    free(k);
    free(v);
    free(q);
    free(have);
    free(want);
}

/* Loop: shape _i / 2, cache of f32 or f16 by _i % 2. */
START_TEST(attention_equals_the_reference)
{
    const shape *s = &shapes[_i / 2];
    float *table = table_of(s->rotary);
    tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                             .kv_heads = s->kv_heads,
                             .head_size = s->head_size,
                             .capacity = POSITIONS,
                             .window = s->window,
                             .type = _i % 2 == 0 ? TENON_CACHE_F32 : TENON_CACHE_F16,
                             .pairing = s->pairing,
                             .flags = TENON_CACHE_EVICTABLE,
                             .rotary = s->rotary,
                             .table = s->rotary != 0 ? table : NULL,
                             .table_bytes = 4 * POSITIONS * (uint64_t)s->rotary};
    uint32_t l, n, i;

    state = (uint64_t)_i + 7;
    for (l = 0; l < link_count; l++) {
        for (n = 0; n < 2; n++) {
            holder pair[2] = {{&reference, NULL}, {&links[l], NULL}};
            for (i = 0; i < 2; i++)
                ck_assert_int_eq(
                    pair[i].on->attention->create(pair[i].on->device, &desc, &pair[i].cache, NULL),
                    TENON_OK);
            tell(pair, s, names[l], n == 0 ? ordinary : odd);
            for (i = 0; i < 2; i++) pair[i].on->attention->free(pair[i].on->device, pair[i].cache);
        }
    }
    free(table);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("cpu_operations");
    TCase *cases = tcase_create("operations");

    if (argc != 2) {
        fprintf(stderr, "usage: %s MODULE\n", argv[0]);
        return 64;
    }
    module_path = argv[1];
    tcase_set_timeout(cases, 600);
    tcase_add_checked_fixture(cases, open_all, close_all);
    tcase_add_test(cases, rows_equal_the_reference);
    tcase_add_test(cases, activations_over_the_whole_range);
    tcase_add_test(cases, groups_of_a_row);
    tcase_add_test(cases, argmax_equals_the_reference);
    tcase_add_test(cases, embedding_rows_equal_the_reference);
    tcase_add_loop_test(cases, attention_equals_the_reference, 0, 2 * (int)COUNT(shapes));
    suite_add_tcase(suite, cases);
    return runner_main(srunner_create(suite));
}
