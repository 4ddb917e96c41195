/* Attention of the reference and the cache it owns: golden answers, and the rules about positions:
 * chunks, windows, evictions, truncations and clones leave the bits that a fresh cache would have. */
#include <math.h>

#include "../golden/operations.h"
#include "../golden/reference_fixture.h"
#include "numbers.h"
#include "runner.h"

#define ATTENTION tenon_reference_attention_v1

static fixture self;

static void open_fixture(void)
{
    fixture_open(&self);
}

static void close_fixture(void)
{
    fixture_close(&self);
}

static const char *folder(void)
{
    const char *given = getenv("TENON_GOLDEN_DIR");
    return given != NULL ? given : TENON_GOLDEN_DIR;
}

/* ----------------------------------------------------------------------------------- a small rig */

static tenon_device_cache *make(const tenon_cache_desc *desc)
{
    tenon_device_cache *cache = NULL;
    ck_assert_int_eq(ATTENTION.create(self.device, desc, &cache, NULL), TENON_OK);
    ck_assert_ptr_nonnull(cache);
    return cache;
}

static void drop(tenon_device_cache *cache)
{
    ATTENTION.free(self.device, cache);
}

static uint64_t length_of(const tenon_device_cache *cache)
{
    uint64_t length = 999;
    ck_assert_int_eq(ATTENTION.length(self.device, cache, &length, NULL), TENON_OK);
    return length;
}

static int32_t append(tenon_device_cache *cache, const float *k, const float *v, uint64_t tokens,
                      uint64_t width, tenon_error *error)
{
    tenon_append_call call = {TENON_HEAD(tenon_append_call),
                              .cache = cache,
                              .k = fixture_view(k, tokens * width),
                              .v = fixture_view(v, tokens * width),
                              .tokens = tokens,
                              .k_row_stride = 4 * width,
                              .v_row_stride = 4 * width};
    return ATTENTION.append(self.device, NULL, &call, error);
}

static int32_t attend(tenon_device_cache *cache, const float *q, float *y, uint64_t tokens,
                      uint64_t heads, uint64_t head_size, float scale, tenon_error *error)
{
    uint64_t width = heads * head_size;
    tenon_attention_call call = {TENON_HEAD(tenon_attention_call),
                                 .cache = cache,
                                 .q = fixture_view(q, tokens * width),
                                 .y = fixture_view(y, tokens * width),
                                 .tokens = tokens,
                                 .heads = heads,
                                 .q_row_stride = 4 * width,
                                 .y_row_stride = 4 * width,
                                 .scale = scale};
    return ATTENTION.run(self.device, NULL, &call, error);
}

/* The model of most tests: 2 key-value heads of 16, 6 query heads, all inputs rotated. */
enum { KV = 2, SIZE = 16, HEADS = 6, WIDTH = KV * SIZE, Q_WIDTH = HEADS * SIZE, MOST = 600 };
static float keys[MOST * WIDTH], values[MOST * WIDTH], queries[MOST * Q_WIDTH];
static float table[MOST * SIZE]; /* [position][rotary / 2][2] */

static void fill_table(float *out, uint64_t positions, uint64_t rotary)
{
    uint64_t p, i;
    for (p = 0; p < positions; p++)
        for (i = 0; i < rotary / 2; i++) {
            double angle = (double)p * pow(10000.0, -2.0 * (double)i / (double)rotary);
            out[(p * (rotary / 2) + i) * 2] = (float)cos(angle);
            out[(p * (rotary / 2) + i) * 2 + 1] = (float)sin(angle);
        }
}

/* Values in [-1, 1) from a counter. */
static void fill(float *out, uint64_t count, uint64_t seed)
{
    uint64_t i;
    for (i = 0; i < count; i++) {
        uint64_t z = (seed * 1000003 + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        out[i] = (float)((z ^ z >> 31) >> 40) * 0x1p-23f - 1.0f;
    }
}

static tenon_cache_desc model(uint32_t type, uint32_t flags, uint64_t window)
{
    fill(keys, MOST * WIDTH, 1);
    fill(values, MOST * WIDTH, 2);
    fill(queries, MOST * Q_WIDTH, 3);
    fill_table(table, MOST, SIZE);
    return (tenon_cache_desc){TENON_HEAD(tenon_cache_desc),
                              .kv_heads = KV,
                              .head_size = SIZE,
                              .capacity = MOST,
                              .window = window,
                              .type = type,
                              .pairing = TENON_ROPE_HALVES,
                              .flags = flags,
                              .rotary = SIZE,
                              .table = table,
                              .table_bytes = sizeof table};
}

static void add_positions(tenon_device_cache *cache, uint64_t first, uint64_t count)
{
    ck_assert_int_eq(
        append(cache, keys + first * WIDTH, values + first * WIDTH, count, WIDTH, NULL), TENON_OK);
}

/* The answers of the last tokens positions for queries that depend on the position in the row. */
static float *answers(tenon_device_cache *cache, uint64_t tokens)
{
    float *y = malloc(4 * tokens * Q_WIDTH);
    ck_assert_ptr_nonnull(y);
    memset(y, 0xA5, 4 * tokens * Q_WIDTH);
    ck_assert_int_eq(attend(cache, queries, y, tokens, HEADS, SIZE, 0.25f, NULL), TENON_OK);
    return y;
}

static void same_answers(tenon_device_cache *a, tenon_device_cache *b, uint64_t tokens)
{
    float *have = answers(a, tokens), *want = answers(b, tokens);
    uint64_t i;
    ck_assert_uint_eq(length_of(a), length_of(b));
    for (i = 0; i < tokens * Q_WIDTH; i++) ck_assert(isfinite(want[i]));
    ck_assert_mem_eq(have, want, 4 * tokens * Q_WIDTH);
    free(have);
    free(want);
}

static const uint32_t types[2] = {TENON_CACHE_F32, TENON_CACHE_F16};

/* --------------------------------------------------------------------------------------- golden */

static void check_golden(const golden_operation *record)
{
    const uint32_t *p = record->parameters;
    uint64_t positions = p[0], tokens = p[1], kv = p[2], heads = p[3], size = p[4];
    tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                             .kv_heads = kv,
                             .head_size = size,
                             .capacity = positions,
                             .window = p[8],
                             .type = p[5],
                             .pairing = p[6],
                             .rotary = p[7],
                             .table = p[6] != 0 ? (float *)(void *)record->values[1] : NULL,
                             .table_bytes = 4 * (uint64_t)record->length[1]};
    tenon_device_cache *cache = make(&desc);
    uint64_t count = tokens * heads * size, i;
    float *y = malloc(4 * count);

    ck_assert_ptr_nonnull(y);
    ck_assert_uint_eq(record->length[5], count);
    memset(y, 0xA5, 4 * count);
    ck_assert_int_eq(append(cache, (float *)(void *)record->values[3],
                            (float *)(void *)record->values[4], positions, kv * size, NULL),
                     TENON_OK);
    ck_assert_int_eq(attend(cache, (float *)(void *)record->values[2], y, tokens, heads, size,
                            float_of(record->values[0][0]), NULL),
                     TENON_OK);
    for (i = 0; i < count; i++)
        ck_assert_msg(same_value(bits_of(y[i]), record->values[5][i]),
                      "%u positions, type %u, pairing %u, window %u: value %llu is %08x, want %08x",
                      p[0], p[5], p[6], p[8], (unsigned long long)i, bits_of(y[i]),
                      record->values[5][i]);
    drop(cache);
    free(y);
}

START_TEST(answers_equal_exact_arithmetic)
{
    golden_operations file = golden_operations_open(folder());
    uint32_t i, seen = 0;

    for (i = 0; i < file.count; i++) {
        golden_operation record = golden_operations_next(&file);
        if (strcmp(record.name, "attention") == 0) {
            check_golden(&record);
            seen++;
        }
        golden_operation_free(&record);
    }
    ck_assert_uint_ge(seen, 10);
    golden_operations_close(&file);
}
END_TEST

/* ------------------------------------------------------------------------------------ positions */

/* However the positions came, and however many rows are asked for at once. */
START_TEST(chunks_change_nothing)
{
    static const uint64_t chunks[] = {1, 7, 64, 512};
    uint32_t i, type;
    uint64_t at;

    for (type = 0; type < 2; type++) {
        tenon_cache_desc desc = model(types[type], 0, 0);
        tenon_device_cache *whole = make(&desc);
        float *all, *y = malloc(4 * 540 * Q_WIDTH);

        ck_assert_ptr_nonnull(y);
        add_positions(whole, 0, 540);
        all = answers(whole, 540);
        for (i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            tenon_device_cache *cache = make(&desc);
            self.backwards = i % 2 == 0;
            for (at = 0; at < 540; at += chunks[i]) {
                uint64_t count = 540 - at < chunks[i] ? 540 - at : chunks[i];
                add_positions(cache, at, count);
                /* The rows of this chunk, now that no later position is there. */
                ck_assert_int_eq(
                    attend(cache, queries + at * Q_WIDTH, y, count, HEADS, SIZE, 0.25f, NULL),
                    TENON_OK);
                ck_assert_mem_eq(y, all + at * Q_WIDTH, 4 * count * Q_WIDTH);
            }
            /* and one row alone, over positions that came in chunks */
            ck_assert_int_eq(attend(cache, queries + 539 * Q_WIDTH, y, 1, HEADS, SIZE, 0.25f, NULL),
                             TENON_OK);
            ck_assert_mem_eq(y, all + 539 * Q_WIDTH, 4 * Q_WIDTH);
            drop(cache);
        }
        drop(whole);
        free(all);
        free(y);
    }
}
END_TEST

/* A window hides by position; what it hides cannot be told from NaN there. */
START_TEST(hidden_positions_are_skipped)
{
    uint32_t type;
    uint64_t i;

    for (type = 0; type < 2; type++) {
        tenon_cache_desc desc = model(types[type], 0, 300);
        tenon_device_cache *cache = make(&desc), *poisoned = make(&desc);

        add_positions(cache, 0, 600);
        for (i = 0; i < 300 * WIDTH; i++) keys[i] = values[i] = NAN;
        add_positions(poisoned, 0, 600);
        same_answers(poisoned, cache, 1); /* position 599 sees 300 to 599 */
        drop(cache);
        drop(poisoned);
    }
}
END_TEST

/* A row that sees only itself gives its own value: e = 1, 1 / 1 = 1. */
START_TEST(window_of_one)
{
    tenon_cache_desc desc = model(TENON_CACHE_F32, 0, 1);
    tenon_device_cache *cache = make(&desc);
    uint64_t s, h, i;
    float *y;

    add_positions(cache, 0, 300);
    y = answers(cache, 300);
    for (s = 0; s < 300; s++)
        for (h = 0; h < HEADS; h++)
            for (i = 0; i < SIZE; i++)
                ck_assert(y[s * Q_WIDTH + h * SIZE + i] ==
                          values[s * WIDTH + h / (HEADS / KV) * SIZE + i]);
    drop(cache);
    free(y);
}
END_TEST

/* A NaN that is seen makes those rows NaN and no others. */
START_TEST(nan_stays_in_its_rows)
{
    tenon_cache_desc desc = model(TENON_CACHE_F32, 0, 0);
    tenon_device_cache *cache = make(&desc);
    uint64_t s, i;
    float *y;

    for (i = 0; i < SIZE; i++) keys[50 * WIDTH + i] = NAN; /* head 0 of position 50 */
    add_positions(cache, 0, 100);
    y = answers(cache, 100);
    for (s = 0; s < 100; s++)
        for (i = 0; i < Q_WIDTH; i++)
            ck_assert(!isnan(y[s * Q_WIDTH + i]) == !(s >= 50 && i < Q_WIDTH / KV));
    drop(cache);
    free(y);
}
END_TEST

/* ---------------------------------------------------------------------- evict, truncate and clone */

/* What is left equals a cache that never saw the positions, and goes on equal. */
START_TEST(eviction_leaves_no_trace)
{
    static const uint64_t cases[][2] = {{0, 1},  {0, 300}, {4, 255},  {256, 40},
                                        {10, 0}, {399, 1}, {350, 50}, {0, 399}};
    uint32_t i, type;

    for (type = 0; type < 2; type++) {
        tenon_cache_desc desc = model(types[type], TENON_CACHE_EVICTABLE, type == 0 ? 0 : 280);
        for (i = 0; i < sizeof cases / sizeof *cases; i++) {
            uint64_t first = cases[i][0], count = cases[i][1], left = 400 - count;
            tenon_device_cache *cache = make(&desc), *fresh = make(&desc);

            add_positions(cache, 0, 400);
            ck_assert_int_eq(ATTENTION.evict(self.device, NULL, cache, first, count, NULL),
                             TENON_OK);
            ck_assert_uint_eq(length_of(cache), left);
            if (first > 0) add_positions(fresh, 0, first);
            if (first + count < 400) add_positions(fresh, first + count, 400 - first - count);
            same_answers(cache, fresh, left < 5 ? left : 5);
            add_positions(cache, 400, 30);
            add_positions(fresh, 400, 30);
            same_answers(cache, fresh, left + 30);
            /* and once more */
            ck_assert_int_eq(ATTENTION.evict(self.device, NULL, cache, 0, left, NULL), TENON_OK);
            drop(fresh);
            fresh = make(&desc);
            add_positions(fresh, 400, 30);
            same_answers(cache, fresh, 30);
            drop(cache);
            drop(fresh);
        }
    }
}
END_TEST

START_TEST(eviction_without_rotation)
{
    tenon_cache_desc desc = model(TENON_CACHE_F16, TENON_CACHE_EVICTABLE, 0);
    tenon_device_cache *cache, *fresh;

    desc.pairing = TENON_ROPE_NONE;
    desc.rotary = 0;
    desc.table = NULL;
    desc.table_bytes = 0;
    cache = make(&desc);
    fresh = make(&desc);
    add_positions(cache, 0, 300);
    ck_assert_int_eq(ATTENTION.evict(self.device, NULL, cache, 3, 290, NULL), TENON_OK);
    add_positions(fresh, 0, 3);
    add_positions(fresh, 293, 7);
    same_answers(cache, fresh, 10);
    drop(cache);
    drop(fresh);
}
END_TEST

START_TEST(evictions_that_cannot_be)
{
    tenon_cache_desc desc = model(TENON_CACHE_F32, TENON_CACHE_EVICTABLE, 0);
    tenon_device_cache *cache = make(&desc), *fixed;
    tenon_error error = {TENON_HEAD(tenon_error), .status = 0};

    add_positions(cache, 0, 10);
    ck_assert_int_eq(ATTENTION.evict(self.device, NULL, cache, 11, 0, &error), TENON_ARG);
    ck_assert_uint_eq(error.reason, TENON_REASON_INDEX);
    ck_assert_int_eq(ATTENTION.evict(self.device, NULL, cache, 4, 7, &error), TENON_ARG);
    ck_assert_int_eq(ATTENTION.evict(self.device, NULL, cache, 4, UINT64_MAX, &error), TENON_ARG);
    ck_assert_int_eq(ATTENTION.evict(self.device, NULL, cache, UINT64_MAX, 2, &error), TENON_ARG);
    ck_assert_int_eq(ATTENTION.evict(self.device, NULL, cache, 10, 0, &error), TENON_OK);
    ck_assert_uint_eq(length_of(cache), 10);
    desc.flags = 0;
    fixed = make(&desc);
    add_positions(fixed, 0, 10);
    ck_assert_int_eq(ATTENTION.evict(self.device, NULL, fixed, 0, 1, &error), TENON_STATE);
    ck_assert_uint_eq(error.reason, TENON_REASON_NOT_EVICTABLE);
    same_answers(fixed, cache, 10);
    drop(cache);
    drop(fixed);
}
END_TEST

START_TEST(truncation_forgets)
{
    uint32_t type;
    for (type = 0; type < 2; type++) {
        tenon_cache_desc desc = model(types[type], 0, 0);
        tenon_device_cache *cache = make(&desc), *fresh = make(&desc);
        tenon_error error = {TENON_HEAD(tenon_error), .status = 0};

        add_positions(cache, 0, 500);
        ck_assert_int_eq(ATTENTION.truncate(self.device, NULL, cache, 501, &error), TENON_ARG);
        ck_assert_uint_eq(error.reason, TENON_REASON_INDEX);
        ck_assert_int_eq(ATTENTION.truncate(self.device, NULL, cache, 500, NULL), TENON_OK);
        ck_assert_int_eq(ATTENTION.truncate(self.device, NULL, cache, 120, NULL), TENON_OK);
        add_positions(cache, 300, 50);
        add_positions(fresh, 0, 120);
        add_positions(fresh, 300, 50);
        same_answers(cache, fresh, 170);
        ck_assert_int_eq(ATTENTION.truncate(self.device, NULL, cache, 0, NULL), TENON_OK);
        ck_assert_uint_eq(length_of(cache), 0);
        drop(cache);
        drop(fresh);
    }
}
END_TEST

START_TEST(clones_go_their_own_way)
{
    uint32_t type;
    for (type = 0; type < 2; type++) {
        tenon_cache_desc desc = model(types[type], TENON_CACHE_EVICTABLE, 0);
        tenon_device_cache *cache = make(&desc), *fresh = make(&desc), *clone = NULL;
        uint64_t bytes = 0, clone_bytes = 1;

        add_positions(cache, 0, 300);
        ck_assert_int_eq(ATTENTION.clone(self.device, NULL, cache, &clone, NULL), TENON_OK);
        ck_assert_ptr_nonnull(clone);
        same_answers(clone, cache, 300);
        add_positions(cache, 400, 20); /* one goes on, the other loses some */
        ck_assert_int_eq(ATTENTION.evict(self.device, NULL, clone, 2, 100, NULL), TENON_OK);
        add_positions(fresh, 0, 300);
        add_positions(fresh, 400, 20);
        same_answers(cache, fresh, 20);
        ck_assert_int_eq(ATTENTION.bytes(self.device, cache, &bytes, NULL), TENON_OK);
        ck_assert_int_eq(ATTENTION.bytes(self.device, clone, &clone_bytes, NULL), TENON_OK);
        ck_assert_uint_eq(bytes, clone_bytes);
        /* Keys twice and values once, and the table. */
        ck_assert_uint_ge(bytes, 3 * (type == 0 ? 4u : 2u) * MOST * WIDTH + sizeof table);
        drop(cache); /* the clone does not need it */
        drop(fresh);
        fresh = make(&desc);
        add_positions(fresh, 0, 2);
        add_positions(fresh, 102, 198);
        same_answers(clone, fresh, 200);
        drop(clone);
        drop(fresh);
    }
}
END_TEST

START_TEST(a_full_cache_stays_as_it_was)
{
    tenon_cache_desc desc = model(TENON_CACHE_F32, 0, 0);
    tenon_device_cache *cache, *fresh;
    tenon_error error = {TENON_HEAD(tenon_error), .status = 0};

    desc.capacity = 20;
    cache = make(&desc);
    fresh = make(&desc);
    add_positions(cache, 0, 18);
    add_positions(fresh, 0, 18);
    ck_assert_int_eq(append(cache, keys, values, 3, WIDTH, &error), TENON_ARG);
    ck_assert_uint_eq(error.reason, TENON_REASON_CAPACITY);
    ck_assert_uint_eq(error.wanted, 3);
    ck_assert_uint_eq(error.available, 2);
    same_answers(cache, fresh, 18);
    add_positions(cache, 18, 2);
    ck_assert_uint_eq(length_of(cache), 20);
    drop(cache);
    drop(fresh);
}
END_TEST

/* ------------------------------------------------------------------------------------- rotation */

/* Key and query of one position meet at angle 0; head 64, rotary 32 leaves the rest alone. What k
 * becomes is read back through q: with one position visible, y is v, so scores are read from two. */
static float rotated_dot(uint32_t pairing, uint64_t rotary, uint64_t position, const float *k0,
                         const float *q)
{
    /* y of a row over two positions: v = 0 at the first, 1 at the second (its own, score s1):
     * y = e1 / (e0 + e1). With k1 = 0: s1 = 0, so y = 1 / (1 + exp(s0)) and s0 = ln(1 / y - 1). */
    enum { HEAD = 64 };
    float *turns = malloc(4 * 1001 * rotary), *many = calloc(1001 * HEAD, 4), y[HEAD];
    float v[HEAD], zero[HEAD] = {0};
    tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                             .kv_heads = 1,
                             .head_size = HEAD,
                             .capacity = 1001,
                             .window = 2,
                             .type = TENON_CACHE_F32,
                             .pairing = pairing,
                             .rotary = (uint32_t)rotary,
                             .table = turns,
                             .table_bytes = 4 * 1001 * rotary};
    tenon_device_cache *cache;
    uint32_t i;

    ck_assert(turns != NULL && many != NULL);
    fill_table(turns, 1001, rotary);
    cache = make(&desc);
    if (position > 1)
        ck_assert_int_eq(append(cache, many, many, position - 1, HEAD, NULL), TENON_OK);
    for (i = 0; i < HEAD; i++) v[i] = 1.0f;
    ck_assert_int_eq(append(cache, k0, zero, 1, HEAD, NULL), TENON_OK);
    ck_assert_int_eq(append(cache, zero, v, 1, HEAD, NULL), TENON_OK);
    ck_assert_int_eq(attend(cache, q, y, 1, 1, HEAD, 1.0f, NULL), TENON_OK);
    drop(cache);
    free(turns);
    free(many);
    return logf(1.0f / y[0] - 1.0f);
}

/* The angle between neighbours is that of one position, whatever the positions: frequencies come
 * from the rotary size, and inputs behind it do not turn. */
START_TEST(partial_rotation)
{
    static const uint64_t positions[] = {1, 2, 1000};
    uint32_t pairing, p, i;

    for (pairing = TENON_ROPE_ADJACENT; pairing <= TENON_ROPE_HALVES; pairing++) {
        for (p = 0; p < 3; p++) {
            for (i = 0; i < 64; i += 3) {
                float k[64] = {0}, q[64] = {0}, have;
                uint32_t pair = pairing == TENON_ROPE_ADJACENT ? i / 2 : i % 16;
                double want = i < 32 ? cos(pow(10000.0, -2.0 * pair / 32.0)) : 1.0;
                k[i] = q[i] = 1.0f;
                have = rotated_dot(pairing, 32, positions[p], k, q);
                ck_assert_msg(fabs((double)have - want) < 1e-4,
                              "pairing %u, position %llu, input %u: have %g, want %g", pairing,
                              (unsigned long long)positions[p], i, (double)have, want);
            }
        }
    }
}
END_TEST

/* A pair's second input: (2i, 2i + 1) or (i, i + rotary / 2); the sign of the turn. */
START_TEST(pairing_and_direction)
{
    float k[64] = {0}, q[64] = {0};

    k[0] = 1.0f;
    q[1] = 1.0f; /* adjacent: k at angle p, q a quarter turn behind at p + 1 */
    ck_assert_double_eq_tol(rotated_dot(TENON_ROPE_ADJACENT, 32, 7, k, q), -sin(1.0), 1e-4);
    ck_assert_double_eq_tol(rotated_dot(TENON_ROPE_HALVES, 32, 7, k, q), 0.0, 1e-4);
    q[1] = 0.0f;
    q[16] = 1.0f;
    ck_assert_double_eq_tol(rotated_dot(TENON_ROPE_HALVES, 32, 7, k, q), -sin(1.0), 1e-4);
    ck_assert_double_eq_tol(rotated_dot(TENON_ROPE_ADJACENT, 32, 7, k, q), 0.0, 1e-4);
}
END_TEST

/* Position 0 turns by nothing: with c = 1 and s = 0 the bits stay. */
START_TEST(position_zero_is_not_rotated)
{
    tenon_cache_desc rotating = model(TENON_CACHE_F32, 0, 0), plain = rotating;
    tenon_device_cache *a, *b;

    plain.pairing = TENON_ROPE_NONE;
    plain.rotary = 0;
    plain.table = NULL;
    plain.table_bytes = 0;
    a = make(&rotating);
    b = make(&plain);
    add_positions(a, 0, 1);
    add_positions(b, 0, 1);
    same_answers(a, b, 1);
    drop(a);
    drop(b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention");
    TCase *tcase = tcase_create("attention");
    tcase_set_timeout(tcase, 200);
    tcase_add_checked_fixture(tcase, open_fixture, close_fixture);
    tcase_add_test(tcase, answers_equal_exact_arithmetic);
    tcase_add_test(tcase, chunks_change_nothing);
    tcase_add_test(tcase, hidden_positions_are_skipped);
    tcase_add_test(tcase, window_of_one);
    tcase_add_test(tcase, nan_stays_in_its_rows);
    tcase_add_test(tcase, eviction_leaves_no_trace);
    tcase_add_test(tcase, eviction_without_rotation);
    tcase_add_test(tcase, evictions_that_cannot_be);
    tcase_add_test(tcase, truncation_forgets);
    tcase_add_test(tcase, clones_go_their_own_way);
    tcase_add_test(tcase, a_full_cache_stays_as_it_was);
    tcase_add_test(tcase, partial_rotation);
    tcase_add_test(tcase, pairing_and_direction);
    tcase_add_test(tcase, position_zero_is_not_rotated);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
