/* The attention kernels against the reference's attention_v1, bit for bit: rotation, windows, grouped
 * heads, both cache types, rows in batches and alone, evictions. */
#include <runner.h>
#include <math.h>
#include <stdbool.h>

#include "attention.h"
#include "data.h"
#include "exp.h"
#include "kernel_rig.h"
#include "numbers.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

extern const tenon_attention_v1 tenon_reference_attention_v1;

static rig device;
static uint64_t values_checked, values_nan; /* a test of NaN alone would prove nothing */

/* ---------------------------------------------------------------- the reference, on one thread */

static void TENON_CALL serial_for(void *host, uint64_t count, tenon_parallel_body body,
                                  void *context)
{
    uint64_t i;
    (void)host;
    for (i = 0; i < count; i++) body(context, i, 0);
}

static uint32_t TENON_CALL one_worker(void *host)
{
    (void)host;
    return 1;
}

static const tenon_services services = {TENON_HEAD(tenon_services), .parallel_for = serial_for,
                                        .team_size = one_worker};
static struct tenon_provider provider = {&services};
static struct tenon_device reference = {&provider};

/* --------------------------------------------------------------------------------- the two sides */

typedef struct shape {
    uint32_t kv_heads, heads, head_size, capacity, window, type, pairing, rotary;
} shape;

/* One cache of each side. */
typedef struct pair_of_caches {
    shape shape;
    uint32_t flavour, math, tiles, heads_v, length;
    uint32_t constants[VULKAN_MOST_CONSTANTS];
    tenon_device_cache *expected;
    rig_buffer k, plain, v, table, state, spare;
    vulkan_cache_push push;
    random_state random;
} pair_of_caches;

static void open_caches(pair_of_caches *self, const shape *s, uint32_t flavour, uint32_t math)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint32_t elements = s->type == TENON_CACHE_F16 ? 8 : 4, i;
    uint64_t table_floats = (uint64_t)s->capacity * s->rotary, bytes;
    tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc), .kv_heads = s->kv_heads,
                             .head_size = s->head_size,    .capacity = s->capacity,
                             .window = s->window,          .type = s->type,
                             .pairing = s->pairing,        .flags = TENON_CACHE_EVICTABLE,
                             .rotary = s->rotary};

    memset(self, 0, sizeof *self);
    self->shape = *s;
    self->flavour = flavour;
    self->math = math;
    self->random.state = s->head_size * 131u + s->capacity;
    self->tiles = (s->capacity + 63) / 64;
    self->heads_v = (uint32_t)vulkan_head_vectors(s->head_size, elements);
    self->constants[0] = VULKAN_FMA_EMULATED;
    self->constants[1] = elements;
    self->constants[2] = s->pairing;
    self->push = (vulkan_cache_push){s->head_size, self->heads_v, s->rotary, s->kv_heads,
                                     self->tiles};
    self->table = rig_buffer_make(&device, table_floats * 4 + 16);
    for (i = 0; i < table_floats; i += 2) {
        double angle = (double)random_normal(&self->random) * 3.0;
        ((float *)self->table.at)[i] = (float)cos(angle);
        ((float *)self->table.at)[i + 1] = (float)sin(angle);
    }
    if (s->pairing != TENON_ROPE_NONE) {
        desc.table = self->table.at;
        desc.table_bytes = table_floats * 4;
    }
    ck_assert_msg(tenon_reference_attention_v1.create(&reference, &desc, &self->expected, &error) ==
                      TENON_OK,
                  "%s", error.text);
    bytes = (uint64_t)s->kv_heads * self->tiles * 64 * self->heads_v * 16;
    self->k = rig_buffer_make(&device, bytes);
    self->plain = rig_buffer_make(&device, bytes);
    self->v = rig_buffer_make(&device, bytes);
    self->spare = rig_buffer_make(&device, bytes);
    self->state = rig_buffer_make(&device, 16);
    /* What was never written may be anything. */
    memset(self->k.at, 0xff, (size_t)bytes);
    memset(self->v.at, 0xff, (size_t)bytes);
    memset(self->plain.at, 0xff, (size_t)bytes);
}

static void close_caches(pair_of_caches *self)
{
    tenon_reference_attention_v1.free(&reference, self->expected);
    rig_buffer_free(&device, &self->k);
    rig_buffer_free(&device, &self->plain);
    rig_buffer_free(&device, &self->v);
    rig_buffer_free(&device, &self->table);
    rig_buffer_free(&device, &self->state);
    rig_buffer_free(&device, &self->spare);
}

static const rig_kernel *kernel_of(pair_of_caches *self, uint32_t id)
{
    return rig_kernel_get(&device, id, self->flavour, self->math, self->constants);
}

static tenon_view view_of(const void *memory, uint64_t bytes)
{
    tenon_view view;
    memset(&view, 0, sizeof view);
    view.host = (void *)(uintptr_t)memory;
    view.bytes = bytes;
    return view;
}

static float value_of(random_state *random)
{
    uint64_t bits = random_u64(random);
    float value = random_normal(random) * 2.0f;
    if (bits % 100003 == 0) return 70000.0f; /* infinite as a half */
    if (bits % 50 == 0) return value * 1e-7f;
    if (bits % 51 == 0) return value * 1e-39f;
    return value;
}

/* Appends to both sides; keys and values are rows without gaps, NULL: drawn. */
static void append_values(pair_of_caches *self, uint32_t tokens, const float *keys,
                          const float *values)
{
    const shape *s = &self->shape;
    uint32_t width = s->kv_heads * s->head_size, stride = width + 3, i;
    uint64_t floats = (uint64_t)tokens * stride;
    rig_buffer k = rig_buffer_make(&device, floats * 4 + 16);
    rig_buffer v = rig_buffer_make(&device, floats * 4 + 16);
    const rig_buffer *buffers[7] = {&self->k, &self->plain, &self->v,    &k,
                                    &v,       &self->table, &self->state};
    vulkan_append_push push = {self->push, 1, 1, stride, 2, stride};
    uint32_t groups = (self->heads_v * s->kv_heads + 63) / 64;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_append_call call = {TENON_HEAD(tenon_append_call), .cache = self->expected,
                              .tokens = tokens, .k_row_stride = stride * 4,
                              .v_row_stride = stride * 4};

    for (i = 0; i < floats; i++) {
        uint32_t at = i / stride * width + i % stride;
        bool known = i % stride < width;
        ((float *)k.at)[1 + i] = keys != NULL && known ? keys[at] : value_of(&self->random);
        ((float *)v.at)[2 + i] = values != NULL && known ? values[at] : value_of(&self->random);
    }
    call.k = view_of((float *)k.at + 1, floats * 4);
    call.v = view_of((float *)v.at + 2, floats * 4);
    ck_assert_int_eq(tenon_reference_attention_v1.append(&reference, NULL, &call, &error),
                     TENON_OK);
    (void)rig_run(&device, kernel_of(self, VULKAN_APPEND), buffers, &push, groups, tokens, 1, 1);
    self->length += tokens;
    ck_assert_uint_eq(((uint32_t *)self->state.at)[0], self->length);
    ck_assert_uint_eq(((uint32_t *)self->state.at)[1], 0); /* no append is half done */
    rig_buffer_free(&device, &k);
    rig_buffer_free(&device, &v);
}

static void append(pair_of_caches *self, uint32_t tokens)
{
    append_values(self, tokens, NULL, NULL);
}

/* Runs the last tokens rows on both sides; groups: of the steps that loop; queries as in
 * append_values. */
static void check_values(pair_of_caches *self, uint32_t tokens, uint32_t groups,
                         const float *queries, float scale)
{
    const shape *s = &self->shape;
    uint32_t width = s->heads * s->head_size, stride = width + 1, i, t;
    uint64_t floats = (uint64_t)tokens * stride;
    rig_buffer q = rig_buffer_make(&device, floats * 4 + 16);
    rig_buffer y = rig_buffer_make(&device, floats * 4 + 16);
    rig_buffer work = rig_buffer_make(
        &device, vulkan_attention_words(tokens, s->heads, self->tiles, s->head_size) * 4 + 12);
    const rig_buffer *scores[5] = {&self->k, &q, &self->table, &self->state, &work};
    const rig_buffer *segments[3] = {&self->v, &work, &self->state};
    uint32_t units = (width + 31) / 32, vectors = units * VULKAN_A8_VECTORS + 1;
    rig_buffer records = rig_buffer_make(&device, (uint64_t)tokens * vectors * 16);
    rig_buffer rounded = rig_buffer_make(&device, (uint64_t)tokens * vectors * 16);
    const rig_buffer *combine[4] = {&work, &self->state, &y, &records};
    const rig_buffer *round[2] = {&y, &rounded};
    vulkan_stage_push stage = {2, stride, width, units, 0, vectors};
    vulkan_attention_push push = {.cache = self->push,
                                  .heads = s->heads,
                                  .back = tokens,
                                  .window = s->window,
                                  .q = 1,
                                  .q_stride = stride,
                                  .y = 2,
                                  .y_stride = stride,
                                  .work = 3,
                                  .scale = scale,
                                  .round_stride = vectors};
    static uint32_t turn;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    float *expected = calloc((size_t)floats, 4);
    tenon_attention_call call = {TENON_HEAD(tenon_attention_call),
                                 .cache = self->expected,
                                 .tokens = tokens,
                                 .heads = s->heads,
                                 .q_row_stride = stride * 4,
                                 .y_row_stride = stride * 4,
                                 .scale = push.scale};

    ck_assert_ptr_nonnull(expected);
    memset(work.at, 0xff, (size_t)work.bytes);
    for (i = 0; i < floats; i++)
        ((float *)q.at)[1 + i] = queries != NULL && i % stride < width
                                     ? queries[i / stride * width + i % stride]
                                     : value_of(&self->random);
    call.q = view_of((float *)q.at + 1, floats * 4);
    call.y = view_of(expected, floats * 4);
    ck_assert_msg(tenon_reference_attention_v1.run(&reference, NULL, &call, &error) == TENON_OK,
                  "%s", error.text);
    (void)rig_run(&device, kernel_of(self, VULKAN_SCORES), scores, &push, groups, s->heads, tokens,
                  1);
    (void)rig_run(&device, kernel_of(self, VULKAN_SEGMENTS), segments, &push, groups, s->heads,
                  tokens, 1);
    /* In every other turn it makes its rows ready for class A8, too. */
    self->constants[3] = ++turn % 2;
    (void)rig_run(&device, kernel_of(self, VULKAN_COMBINE), combine, &push,
                  (width + VULKAN_COMBINE_VALUES - 1) / VULKAN_COMBINE_VALUES, tokens, 1, 1);
    if (self->constants[3] != 0)
        (void)rig_run(&device, kernel_of(self, VULKAN_ROUND), round, &stage, units / 64 + 1, tokens,
                      1, 1);
    self->constants[3] = 0;
    ck_assert(memcmp(records.at, rounded.at, (size_t)tokens * vectors * 16) == 0);
    rig_buffer_free(&device, &records);
    rig_buffer_free(&device, &rounded);
    for (t = 0; t < tokens; t++)
        for (i = 0; i < width; i++) {
            uint32_t found = ((uint32_t *)y.at)[2 + t * stride + i];
            uint32_t want = reference_bits_of(expected[t * stride + i]);
            values_checked++;
            values_nan += (want & 0x7fffffffu) > 0x7f800000u;
            ck_assert_msg(
                kernel_same(want, found),
                "head size %u type %u pairing %u window %u length %u tokens %u flavour %u "
                "math %u: row %u value %u is %08x, not %08x",
                s->head_size, s->type, s->pairing, s->window, self->length, tokens, self->flavour,
                self->math, t, i, found, want);
        }
    free(expected);
    rig_buffer_free(&device, &q);
    rig_buffer_free(&device, &y);
    rig_buffer_free(&device, &work);
}

static void check_run(pair_of_caches *self, uint32_t tokens, uint32_t groups)
{
    check_values(self, tokens, groups, NULL, 1.0f / sqrtf((float)self->shape.head_size));
}

static void move_one(pair_of_caches *self, const rig_buffer *from, const rig_buffer *to,
                     vulkan_move_push *push)
{
    const rig_buffer *buffers[3] = {from, to, &self->table};
    (void)rig_run(&device, kernel_of(self, VULKAN_MOVE), buffers, push, (push->count + 63) / 64,
                  self->heads_v, self->shape.kv_heads, 1);
}

static void evict(pair_of_caches *self, uint32_t first, uint32_t count)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint32_t behind = self->length - first - count;
    vulkan_move_push away = {.cache = self->push,
                             .target_tiles = self->tiles,
                             .from = first + count,
                             .to = 0,
                             .count = behind};
    vulkan_move_push back = {
        .cache = self->push, .target_tiles = self->tiles, .from = 0, .to = first, .count = behind};
    vulkan_length_push length = {0u - count, 1};
    const rig_buffer *state[1] = {&self->state};

    ck_assert_int_eq(
        tenon_reference_attention_v1.evict(&reference, NULL, self->expected, first, count, &error),
        TENON_OK);
    if (behind > 0) {
        move_one(self, &self->plain, &self->spare, &away);
        move_one(self, &self->spare, &self->plain, &back);
        back.rotate = 1;
        move_one(self, &self->spare, &self->k, &back);
        back.rotate = 0;
        away.shape = back.shape = VULKAN_MOVE_VALUES;
        move_one(self, &self->v, &self->spare, &away);
        move_one(self, &self->spare, &self->v, &back);
    }
    (void)rig_run(&device, kernel_of(self, VULKAN_LENGTH), state, &length, 1, 1, 1, 1);
    self->length -= count;
}

static const shape shapes[] = {
    {3, 9, 64, 700, 0, TENON_CACHE_F32, TENON_ROPE_HALVES, 64},
    {1, 4, 256, 300, 70, TENON_CACHE_F16, TENON_ROPE_HALVES, 256},
    {2, 2, 5, 130, 0, TENON_CACHE_F32, TENON_ROPE_ADJACENT, 4},
    {2, 6, 20, 600, 300, TENON_CACHE_F16, TENON_ROPE_ADJACENT, 10},
    {1, 1, 1, 65, 1, TENON_CACHE_F16, TENON_ROPE_NONE, 0},
    {2, 4, 33, 64, 0, TENON_CACHE_F32, TENON_ROPE_HALVES, 32},
};

static void check_shape(const shape *s, uint32_t flavour, uint32_t math)
{
    pair_of_caches caches;
    uint32_t left = s->capacity;

    open_caches(&caches, s, flavour, math);
    append(&caches, 1);
    check_run(&caches, 1, 1);
    append(&caches, 17);
    check_run(&caches, 17, 1);
    check_run(&caches, 3, 2);
    left -= 18;
    append(&caches, left < 250 ? left - 10 : 250);
    check_run(&caches, 2, 1);
    check_run(&caches, 1, 7);
    evict(&caches, 3, 11);
    check_run(&caches, 2, 3);
    evict(&caches, 0, 1);
    append(&caches, s->capacity - caches.length);
    check_run(&caches, 5, 2);
    evict(&caches, caches.length - 2, 2);
    check_run(&caches, 1, 1);
    close_caches(&caches);
}

START_TEST(texel_double)
{
    size_t i;
    for (i = 0; i < COUNT(shapes); i++) check_shape(&shapes[i], VULKAN_TEXEL, VULKAN_DOUBLE);
    ck_assert_uint_lt(values_nan, values_checked / 4);
}
END_TEST

START_TEST(buffer_double)
{
    size_t i;
    for (i = 0; i < COUNT(shapes); i++) check_shape(&shapes[i], VULKAN_BUFFER, VULKAN_DOUBLE);
}
END_TEST

START_TEST(buffer_single)
{
    check_shape(&shapes[2], VULKAN_BUFFER, VULKAN_SINGLE);
    check_shape(&shapes[3], VULKAN_BUFFER, VULKAN_SINGLE);
    check_shape(&shapes[5], VULKAN_TEXEL, VULKAN_SINGLE);
}
END_TEST

/* Sums that round twice through binary64: just above the middle between two floats. */
static void check_doubt(uint32_t flavour)
{
    const shape s = {1, 1, 32, 70, 0, TENON_CACHE_F32, TENON_ROPE_NONE, 0};
    const shape half = {1, 1, 32, 70, 0, TENON_CACHE_F16, TENON_ROPE_NONE, 0};
    pair_of_caches caches;
    float k[64] = {0}, v[64] = {0}, q[32] = {0}, score, e = 0.0f, last = 0.0f;
    uint32_t i;

    /* In a score: 1 + (1 + 2^-12)(1 - 2^-12 + 2^-24) 2^-24 = 1 + 2^-24 + 2^-60. */
    k[0] = k[32] = q[0] = 1.0f;
    q[16] = 1.0f + 0x1p-12f;
    k[16] = (1.0f - 0x1p-12f + 0x1p-24f) * 0x1p-24f;
    for (i = 0; i < 32; i++) {
        v[i] = 1.0f + (float)i;
        v[32 + i] = -3.0f * (float)i;
    }
    open_caches(&caches, &s, flavour, VULKAN_DOUBLE);
    append_values(&caches, 2, k, v);
    check_values(&caches, 1, 1, q, 1.0f);
    close_caches(&caches);

    /* The same in halves: 1 + (1 + 2^-10)(1 - 2^-10 + 2^-20) 2^-24 = 1 + 2^-24 + 2^-54; and chains that
     * begin with a 0, once of each sign. */
    q[16] = (1.0f - 0x1p-10f + 0x1p-20f) * 0x1p-24f;
    k[16] = 1.0f + 0x1p-10f;
    k[1] = -0.0f;
    k[2] = k[34] = -1.0f;
    q[2] = 0.0f;
    open_caches(&caches, &half, flavour, VULKAN_DOUBLE);
    append_values(&caches, 2, k, v);
    check_values(&caches, 1, 1, q, 1.0f);
    close_caches(&caches);
    k[1] = k[2] = k[34] = 0.0f;

    /* The product itself is in the middle, and what it is added to is tiny: -2^-60 + 3 (2^23 + 1). */
    memset(k, 0, sizeof k);
    memset(q, 0, sizeof q);
    q[0] = 0x1p-30f;
    k[0] = -0x1p-30f;
    q[16] = 3.0f;
    k[16] = 0x1p23f + 1.0f;
    open_caches(&caches, &s, flavour, VULKAN_DOUBLE);
    append_values(&caches, 2, k, v);
    check_values(&caches, 1, 1, q, 0x1p-24f);
    close_caches(&caches);

    /* In an output: 1 + e * v with e * v just above 2^-24. */
    for (i = 1; i < 100000; i++) {
        double rest;
        score = -(float)i * 0x1p-14f;
        e = reference_exp(score);
        last = (float)(0x1p-24 / (double)e);
        rest = ((double)e * (double)last - 0x1p-24) * 0x1p24;
        if (rest > 0.0 && rest < 0x1p-30) break;
    }
    ck_assert_uint_lt(i, 100000);
    memset(k, 0, sizeof k);
    memset(q, 0, sizeof q);
    k[32] = score;
    q[0] = 1.0f;
    for (i = 0; i < 32; i++) {
        v[i] = 1.0f;
        v[32 + i] = last;
    }
    open_caches(&caches, &s, flavour, VULKAN_DOUBLE);
    append_values(&caches, 2, k, v);
    check_values(&caches, 1, 1, q, 1.0f);
    close_caches(&caches);
}

START_TEST(rounded_twice)
{
    check_doubt(VULKAN_TEXEL);
    check_doubt(VULKAN_BUFFER);
}
END_TEST

/* What a cache of halves keeps of every kind of float. */
START_TEST(halves)
{
    const shape s = {1, 1, 4000, 64, 0, TENON_CACHE_F16, TENON_ROPE_NONE, 0};
    static const uint32_t edges[] = {0x477fefff, 0x477ff000, 0x477fffff, 0x47800000, 0x33000000,
                                     0x32ffffff, 0x33000001, 0x387fe000, 0x387fffff, 0x38800000,
                                     0x7f800000, 0x7f800001, 0x00000001, 0x33c00000, 0x3f801000,
                                     0x3f803000, 0x3f801001, 0x387fd000};
    static float values[4000];
    random_state random = {5};
    pair_of_caches caches;
    uint32_t i;

    for (i = 0; i < 4000; i++) {
        uint64_t bits = random_u64(&random);
        uint32_t word = (uint32_t)bits;
        if (i % 2 == 0) word = (word & 0x807fffffu) | (uint32_t)(100 + (bits >> 40) % 45) << 23;
        if (i < 2 * COUNT(edges)) word = edges[i / 2] | i << 31;
        values[i] = reference_float_of(word);
    }
    open_caches(&caches, &s, VULKAN_BUFFER, VULKAN_SINGLE);
    append_values(&caches, 1, values, values);
    for (i = 0; i < 4000; i++) {
        uint16_t found = ((uint16_t *)caches.v.at)[i], want = reference_f16_round(values[i]);
        uint16_t key = ((uint16_t *)caches.k.at)[i / 8 * 64 * 8 + i % 8];
        ck_assert_msg(found == want || ((found & 0x7fff) > 0x7c00 && (want & 0x7fff) > 0x7c00),
                      "%a: %04x, not %04x", (double)values[i], found, want);
        ck_assert_uint_eq(found, key);
    }
    close_caches(&caches);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel attention");
    TCase *cases = tcase_create("attention");
    SRunner *runner = srunner_create(suite);
    int status;

    if (!rig_open(&device)) {
        printf("SKIP: no Vulkan device\n0 passed, 0 failed, 5 skipped\n");
        srunner_free(runner);
        return EXIT_SUCCESS;
    }
    tcase_set_timeout(cases, 600);
    tcase_add_test(cases, texel_double);
    tcase_add_test(cases, buffer_double);
    tcase_add_test(cases, buffer_single);
    tcase_add_test(cases, rounded_twice);
    tcase_add_test(cases, halves);
    suite_add_tcase(suite, cases);
    srunner_set_fork_status(runner, CK_NOFORK); /* a device does not survive a fork */
    status = runner_main(runner);
    rig_close(&device);
    return status;
}
