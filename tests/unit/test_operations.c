/* The whole operations of the reference: embed, rmsnorm, gated, add, argmax against golden answers,
 * corners that are known beforehand, and rows that do not depend on each other. */
#include <math.h>

#include "../golden/golden.h"
#include "../golden/operations.h"
#include "../golden/reference_fixture.h"
#include "exp.h"
#include "runner.h"

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

static void same_row(const char *what, const float *have, const uint32_t *want, uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++)
        ck_assert_msg(same_value(bits_of(have[i]), want[i]), "%s, value %llu: have %08x, want %08x",
                      what, (unsigned long long)i, bits_of(have[i]), want[i]);
}

/* --------------------------------------------------------------------------------------- golden */

static void check_exp(const golden_operation *record)
{
    uint32_t i;
    ck_assert_uint_eq(record->length[0], record->length[1]);
    for (i = 0; i < record->length[0]; i++) {
        float y = reference_exp(float_of(record->values[0][i]));
        ck_assert_msg(same_value(bits_of(y), record->values[1][i]), "exp(%08x): %08x, want %08x",
                      record->values[0][i], bits_of(y), record->values[1][i]);
    }
}

static void check_rmsnorm(const golden_operation *record)
{
    uint64_t n = record->length[0];
    float *y = malloc(4 * n);
    tenon_rmsnorm_call call = {TENON_HEAD(tenon_rmsnorm_call),
                               .x = fixture_view(record->values[0], n),
                               .w = fixture_view(record->values[1], n),
                               .y = fixture_view(y, n),
                               .tokens = 1,
                               .groups = 1,
                               .width = n,
                               .x_row_stride = 4 * n,
                               .y_row_stride = 4 * n,
                               .eps = float_of(record->values[2][0])};

    ck_assert_ptr_nonnull(y);
    memset(y, 0xA5, 4 * n);
    ck_assert_int_eq(tenon_reference_rmsnorm_v1.run(self.device, NULL, &call, NULL), TENON_OK);
    same_row("rmsnorm", y, record->values[3], n);
    free(y);
}

static void check_gated(const golden_operation *record)
{
    uint64_t n = record->length[0];
    float *y = malloc(4 * n);
    tenon_gated_call call = {TENON_HEAD(tenon_gated_call),
                             .gate = fixture_view(record->values[0], n),
                             .up = fixture_view(record->values[1], n),
                             .y = fixture_view(y, n),
                             .tokens = 1,
                             .width = n,
                             .gate_row_stride = 4 * n,
                             .up_row_stride = 4 * n,
                             .y_row_stride = 4 * n,
                             .activation = record->parameters[0]};

    ck_assert_ptr_nonnull(y);
    memset(y, 0xA5, 4 * n);
    ck_assert_int_eq(tenon_reference_gated_v1.run(self.device, NULL, &call, NULL), TENON_OK);
    same_row("gated", y, record->values[2], n);
    free(y);
}

START_TEST(answers_equal_exact_arithmetic)
{
    golden_operations file = golden_operations_open(folder());
    uint32_t i, seen[3] = {0};

    for (i = 0; i < file.count; i++) {
        golden_operation record = golden_operations_next(&file);
        if (strcmp(record.name, "exp") == 0) {
            check_exp(&record);
            seen[0]++;
        } else if (strcmp(record.name, "rmsnorm") == 0) {
            check_rmsnorm(&record);
            seen[1]++;
        } else if (strcmp(record.name, "gated") == 0) {
            check_gated(&record);
            seen[2]++;
        }
        golden_operation_free(&record);
    }
    ck_assert_uint_ge(seen[0], 1);
    ck_assert_uint_ge(seen[1], 10);
    ck_assert_uint_eq(seen[2], 4); /* one an activation */
    golden_operations_close(&file);
}
END_TEST

/* ---------------------------------------------------------------------------------------- embed */

/* Rows in descending order, one of them twice, with a gap between the rows of y. */
static void check_embed(const golden_record *record, uint32_t arith, float scale)
{
    tenon_weight_desc desc = fixture_desc(record->head.format, record->head.layout,
                                          record->head.group, record->head.rows, record->head.cols,
                                          arith);
    tenon_prepared *prepared = fixture_prepare(&self, &desc, record->codes, record->scales, 1);
    uint64_t tokens = desc.rows + 1, stride = desc.cols + 3, s, i;
    uint32_t *ids = malloc(4 * tokens);
    float *y = malloc(4 * tokens * stride);
    tenon_embed_call call = {TENON_HEAD(tenon_embed_call),
                             .weight = prepared,
                             .ids = fixture_view(ids, tokens),
                             .y = fixture_view(y, tokens * stride),
                             .tokens = tokens,
                             .y_row_stride = 4 * stride,
                             .scale = scale};

    ck_assert(ids != NULL && y != NULL);
    for (s = 0; s < tokens; s++) ids[s] = (uint32_t)(s == 0 ? 0 : desc.rows - s);
    memset(y, 0xA5, 4 * tokens * stride);
    ck_assert_int_eq(tenon_reference_embed_v1.run(self.device, NULL, &call, NULL), TENON_OK);
    for (s = 0; s < tokens; s++) {
        for (i = 0; i < desc.cols; i++) {
            uint32_t w = golden_u32(record->results[0], ids[s] * desc.cols + i);
            uint32_t have = bits_of(y[s * stride + i]);
            /* gguf knows no NaN scales: SPEC.md, F4 */
            int known = (desc.format == TENON_FORMAT_MXFP4 || desc.format == TENON_FORMAT_NVFP4) &&
                        isnan(y[s * stride + i]);
            uint32_t want = scale == 1.0f ? w : bits_of(float_of(w) * scale);
            ck_assert_msg(known || same_value(have, want),
                          "format %u, row %u, input %llu: have %08x, want %08x", desc.format,
                          ids[s], (unsigned long long)i, have, want);
        }
        for (; i < stride; i++) ck_assert_uint_eq(bits_of(y[s * stride + i]), 0xA5A5A5A5u);
    }
    tenon_reference_qmatmul_v1.release(self.device, prepared);
    free(ids);
    free(y);
}

START_TEST(embedding_rows_equal_the_decoder_of_gguf)
{
    golden_file file = golden_open(folder(), "decode.bin");
    golden_record record;
    uint32_t records = 0;

    while (golden_next(&file, &record)) {
        tenon_format_info info;
        ck_assert_int_eq(tenon_format_find(record.head.format, &info), 1);
        check_embed(&record, TENON_CLASS_F32, 1.0f);
        check_embed(&record, TENON_CLASS_F32, 25.298221f);
        /* The class of the weight does not matter: a row is decoded, never rounded. */
        if ((info.traits & TENON_TRAIT_FLOATS) == 0) check_embed(&record, TENON_CLASS_A8, 1.0f);
        records++;
    }
    ck_assert_uint_eq(records, file.count);
    golden_close(&file);
}
END_TEST

/* -------------------------------------------------------------------------------------- rmsnorm */

/* Tokens, groups and the order of the units change nothing; gaps between rows are not touched. */
START_TEST(rmsnorm_rows_stand_alone)
{
    enum { TOKENS = 3, GROUPS = 4, WIDTH = 37, STRIDE = GROUPS * WIDTH + 5 };
    float x[TOKENS * STRIDE], y[TOKENS * STRIDE], w[WIDTH], one[WIDTH];
    uint32_t s, g, i;
    tenon_rmsnorm_call call = {TENON_HEAD(tenon_rmsnorm_call),
                               .x = fixture_view(x, TOKENS * STRIDE),
                               .w = fixture_view(w, WIDTH),
                               .y = fixture_view(y, TOKENS * STRIDE),
                               .tokens = TOKENS,
                               .groups = GROUPS,
                               .width = WIDTH,
                               .x_row_stride = 4 * STRIDE,
                               .y_row_stride = 4 * STRIDE,
                               .eps = 1e-6f};

    for (i = 0; i < TOKENS * STRIDE; i++) x[i] = sinf((float)i) * 3.0f;
    for (i = 0; i < WIDTH; i++) w[i] = cosf((float)i);
    memset(y, 0xA5, sizeof y);
    self.backwards = 1;
    ck_assert_int_eq(tenon_reference_rmsnorm_v1.run(self.device, NULL, &call, NULL), TENON_OK);
    for (s = 0; s < TOKENS; s++) {
        for (g = 0; g < GROUPS; g++) {
            tenon_rmsnorm_call alone = call;
            alone.x = fixture_view(x + s * STRIDE + g * WIDTH, WIDTH);
            alone.y = fixture_view(one, WIDTH);
            alone.tokens = alone.groups = 1;
            alone.x_row_stride = alone.y_row_stride = 4 * WIDTH;
            ck_assert_int_eq(tenon_reference_rmsnorm_v1.run(self.device, NULL, &alone, NULL),
                             TENON_OK);
            ck_assert_mem_eq(one, y + s * STRIDE + g * WIDTH, sizeof one);
        }
        for (i = GROUPS * WIDTH; i < STRIDE; i++)
            ck_assert_uint_eq(bits_of(y[s * STRIDE + i]), 0xA5A5A5A5u);
    }
}
END_TEST

/* --------------------------------------------------------------------------------- gated and add */

static float activate(uint32_t activation, float gate)
{
    float up = 2.0f, y = 0.0f;
    tenon_gated_call call = {TENON_HEAD(tenon_gated_call),
                             .gate = fixture_view(&gate, 1),
                             .up = fixture_view(&up, 1),
                             .y = fixture_view(&y, 1),
                             .tokens = 1,
                             .width = 1,
                             .gate_row_stride = 4,
                             .up_row_stride = 4,
                             .y_row_stride = 4,
                             .activation = activation};
    ck_assert_int_eq(tenon_reference_gated_v1.run(self.device, NULL, &call, NULL), TENON_OK);
    return y;
}

/* Finite wherever the true value is, however far the gate. */
START_TEST(activations_at_the_ends)
{
    const float gates[] = {-1e4f, -100.0f, -88.8f, -14.5f, 0.0f, 89.0f, 1e4f, 3e38f};
    uint32_t activation, i;

    for (activation = TENON_ACT_SILU; activation <= TENON_ACT_RELU; activation++) {
        for (i = 0; i < sizeof gates / sizeof *gates; i++) {
            float y = activate(activation, gates[i]);
            if (gates[i] == 3e38f) {
                ck_assert(isinf(y) && y > 0.0f); /* 6e38 is */
                continue;
            }
            ck_assert_msg(isfinite(y), "activation %u of %g is %g", activation, (double)gates[i],
                          (double)y);
            if (gates[i] < 0.0f) ck_assert(y <= 0.0f && y > -1e-3f);
            if (gates[i] > 0.0f) ck_assert(y == 2.0f * gates[i]);
            if (gates[i] == 0.0f) ck_assert(y == 0.0f);
        }
        ck_assert(isnan(activate(activation, NAN)));
        ck_assert(activate(activation, INFINITY) == INFINITY);
    }
    /* SPEC.md 2.4: -inf / inf is NaN; the others come to zero. */
    ck_assert(isnan(activate(TENON_ACT_SILU, -INFINITY)));
    ck_assert(isnan(activate(TENON_ACT_GELU_TANH, -INFINITY)));
    ck_assert(activate(TENON_ACT_GELU_ERF, -INFINITY) == 0.0f);
    ck_assert_uint_eq(bits_of(activate(TENON_ACT_RELU, -INFINITY)), 0u);
    ck_assert_uint_eq(bits_of(activate(TENON_ACT_RELU, -0.0f)), 0u);
}
END_TEST

/* More values than one unit takes, rows with gaps, units in descending order. */
START_TEST(gated_and_add_over_long_rows)
{
    enum { TOKENS = 2, WIDTH = 4096 + 301, STRIDE = WIDTH + 2 };
    static float a[TOKENS * STRIDE], b[TOKENS * STRIDE], y[TOKENS * STRIDE];
    uint32_t s, i;
    tenon_add_call add = {TENON_HEAD(tenon_add_call),
                          .a = fixture_view(a, TOKENS * STRIDE),
                          .b = fixture_view(b, TOKENS * STRIDE),
                          .y = fixture_view(y, TOKENS * STRIDE),
                          .tokens = TOKENS,
                          .width = WIDTH,
                          .a_row_stride = 4 * STRIDE,
                          .b_row_stride = 4 * STRIDE,
                          .y_row_stride = 4 * STRIDE};
    tenon_gated_call gated = {TENON_HEAD(tenon_gated_call),
                              .gate = add.a,
                              .up = add.b,
                              .y = add.y,
                              .tokens = TOKENS,
                              .width = WIDTH,
                              .gate_row_stride = 4 * STRIDE,
                              .up_row_stride = 4 * STRIDE,
                              .y_row_stride = 4 * STRIDE,
                              .activation = TENON_ACT_RELU};

    self.backwards = 1;
    for (i = 0; i < TOKENS * STRIDE; i++) {
        a[i] = sinf((float)i);
        b[i] = cosf((float)i) * 100.0f;
    }
    memset(y, 0xA5, sizeof y);
    ck_assert_int_eq(tenon_reference_add_v1.run(self.device, NULL, &add, NULL), TENON_OK);
    for (s = 0; s < TOKENS; s++) {
        for (i = s * STRIDE; i < s * STRIDE + WIDTH; i++) ck_assert(y[i] == a[i] + b[i]);
        for (; i < (s + 1) * STRIDE; i++) ck_assert_uint_eq(bits_of(y[i]), 0xA5A5A5A5u);
    }
    memset(y, 0xA5, sizeof y);
    ck_assert_int_eq(tenon_reference_gated_v1.run(self.device, NULL, &gated, NULL), TENON_OK);
    for (s = 0; s < TOKENS; s++) {
        for (i = s * STRIDE; i < s * STRIDE + WIDTH; i++)
            ck_assert(y[i] == (a[i] > 0.0f ? a[i] : 0.0f) * b[i]);
        for (; i < (s + 1) * STRIDE; i++) ck_assert_uint_eq(bits_of(y[i]), 0xA5A5A5A5u);
    }
}
END_TEST

/* --------------------------------------------------------------------------------------- argmax */

static uint32_t argmax(const float *x, uint64_t width)
{
    uint32_t y = 12345;
    tenon_argmax_call call = {TENON_HEAD(tenon_argmax_call),
                              .x = fixture_view(x, width),
                              .y = fixture_view(&y, 1),
                              .tokens = 1,
                              .width = width,
                              .x_row_stride = 4 * width};
    ck_assert_int_eq(tenon_reference_argmax_v1.run(self.device, NULL, &call, NULL), TENON_OK);
    return y;
}

START_TEST(argmax_corners)
{
    const float nan_first[] = {NAN, 1.0f, 3.0f}, nan_inside[] = {1.0f, NAN, 3.0f};
    const float nan_last[] = {4.0f, 1.0f, NAN}, only_nan[] = {NAN, NAN};
    const float low[] = {-INFINITY, -INFINITY}, tie[] = {2.0f, 5.0f, 5.0f};
    const float high[] = {INFINITY, 1.0f}, zeros[] = {-0.0f, 0.0f, -0.0f};
    const float nan_then_low[] = {NAN, -INFINITY, NAN}, one[] = {-3.0f};

    ck_assert_uint_eq(argmax(nan_first, 3), 2);
    ck_assert_uint_eq(argmax(nan_inside, 3), 2);
    ck_assert_uint_eq(argmax(nan_last, 3), 0);
    ck_assert_uint_eq(argmax(only_nan, 2), TENON_ARGMAX_NONE);
    ck_assert_uint_eq(argmax(low, 2), 0);
    ck_assert_uint_eq(argmax(tie, 3), 1);
    ck_assert_uint_eq(argmax(high, 2), 0);
    ck_assert_uint_eq(argmax(zeros, 3), 0);
    ck_assert_uint_eq(argmax(nan_then_low, 3), 1);
    ck_assert_uint_eq(argmax(one, 1), 0);
    ck_assert_uint_eq(argmax(one, 0), TENON_ARGMAX_NONE);
    ck_assert_uint_eq(argmax(NULL, 0), TENON_ARGMAX_NONE);
}
END_TEST

START_TEST(argmax_of_each_row)
{
    enum { TOKENS = 5, WIDTH = 1000, STRIDE = WIDTH + 1 };
    static float x[TOKENS * STRIDE];
    uint32_t y[TOKENS], s, i;
    tenon_argmax_call call = {TENON_HEAD(tenon_argmax_call),
                              .x = fixture_view(x, TOKENS * STRIDE),
                              .y = fixture_view(y, TOKENS),
                              .tokens = TOKENS,
                              .width = WIDTH,
                              .x_row_stride = 4 * STRIDE};

    for (i = 0; i < TOKENS * STRIDE; i++) x[i] = -(float)i;
    for (s = 0; s < TOKENS; s++) {
        x[s * STRIDE + 201 * s] = 1.0f;
        x[s * STRIDE + WIDTH] = 2.0f; /* between the rows: not looked at */
    }
    ck_assert_int_eq(tenon_reference_argmax_v1.run(self.device, NULL, &call, NULL), TENON_OK);
    for (s = 0; s < TOKENS; s++) ck_assert_uint_eq(y[s], 201 * s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("operations");
    TCase *tcase = tcase_create("operations");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, open_fixture, close_fixture);
    tcase_add_test(tcase, answers_equal_exact_arithmetic);
    tcase_add_test(tcase, embedding_rows_equal_the_decoder_of_gguf);
    tcase_add_test(tcase, rmsnorm_rows_stand_alone);
    tcase_add_test(tcase, activations_at_the_ends);
    tcase_add_test(tcase, gated_and_add_over_long_rows);
    tcase_add_test(tcase, argmax_corners);
    tcase_add_test(tcase, argmax_of_each_row);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
