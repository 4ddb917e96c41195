/* Does stage approx of the conformance suite see answers that are outside of the gates? A provider in
 * this process claims class APPROX alone and spoils the reference's products, with one fault at a
 * time; small errors must pass. */
#include <tests/conformance/approx.h>
#include <tests/conformance/runner.h>
#include "runner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/provider.h>

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
#define REFERENCE (&tenon_reference_qmatmul_v1)

typedef enum fault {
    FAULT_NONE, /* errors of a hundredth: within the gates */
    FAULT_COARSE,
    FAULT_ONE_TOKEN,
    FAULT_SIGN,
    FAULT_ZERO,
    FAULT_BEST,
    FAULT_INFINITE,
    FAULT_NAN,
    FAULT_BESIDE,
    FAULT_UNWRITTEN,
    FAULT_DECLINES_WRITTEN,
    FAULT_FAILS,
    /* no faults: */
    CLAIMS_EXACT,
    CLAIMS_NOTHING,
    DECLINES
} fault;

static fault active; /* inherited by the processes of the cases */

static int32_t TENON_CALL info(tenon_provider *provider, uint32_t index, tenon_device_info *out,
                               tenon_error *error)
{
    int32_t status = tenon_reference_provider_v1.device_info(provider, index, out, error);
    if (active != CLAIMS_NOTHING) out->arith |= TENON_CLASS_BIT(TENON_CLASS_APPROX);
    if (active != CLAIMS_NOTHING && active != CLAIMS_EXACT)
        out->arith = TENON_CLASS_BIT(TENON_CLASS_APPROX);
    return status;
}

static tenon_weight_desc in_class_f32(const tenon_weight_desc *desc)
{
    tenon_weight_desc mine = *desc;
    if (mine.arith == TENON_CLASS_APPROX) mine.arith = TENON_CLASS_F32;
    return mine;
}

static int32_t TENON_CALL supports(tenon_device *device, const tenon_weight_desc *desc,
                                   tenon_qmatmul_support *out, tenon_error *error)
{
    const tenon_weight_desc mine = in_class_f32(desc);
    if (active == DECLINES)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_FORMAT,
                          TENON_SCOPE_WEIGHT, "not mine");
    return REFERENCE->supports(device, &mine, out, error);
}

static int32_t TENON_CALL prepare(tenon_device *device, const tenon_weight_desc *desc,
                                  const tenon_weight_data *data, tenon_prepared **out,
                                  tenon_error *error)
{
    const tenon_weight_desc mine = in_class_f32(desc);
    return REFERENCE->prepare(device, &mine, data, out, error);
}

/* The two largest of a row change places where that is too far and moves the cosine little. */
static void swap_best(float *row, uint64_t rows)
{
    uint64_t best = 0, second = UINT64_MAX, o;
    double square = 0, gap;
    float kept;
    for (o = 1; o < rows; o++)
        if (row[o] > row[best]) best = o;
    for (o = 0; o < rows; o++)
        if (o != best && (second == UINT64_MAX || row[o] > row[second])) second = o;
    for (o = 0; o < rows; o++) square += (double)row[o] * (double)row[o];
    if (rows < 64) return;
    gap = (double)(row[best] - row[second]) / sqrt(square / (double)rows);
    if (gap < 0.25 || gap > 0.6) return;
    kept = row[best];
    row[best] = row[second];
    row[second] = kept;
}

static int32_t TENON_CALL run(tenon_device *device, tenon_device_queue *queue,
                              const tenon_qmatmul_call *call, tenon_error *error)
{
    const tenon_output *output = &call->outputs[0];
    const uint64_t rows = (output->y.bytes - (call->tokens - 1) * output->row_stride) / 4;
    float *last = (float *)(void *)((uint8_t *)output->y.host +
                                    (call->tokens - 1) * output->row_stride);
    uint64_t s, o;
    int32_t status;
    if (active == FAULT_FAILS) return TENON_INTERNAL;
    if (active == FAULT_DECLINES_WRITTEN) {
        last[0] = 0;
        return TENON_DECLINED;
    }
    status = REFERENCE->run(device, queue, call, error);
    if (status != TENON_OK || active == CLAIMS_EXACT) return status;
    for (s = 0; s < call->tokens; s++) {
        float *row = (float *)(void *)((uint8_t *)output->y.host + s * output->row_stride);
        const bool spoilt = active == FAULT_ONE_TOKEN ? s + 1 == call->tokens && s > 0
                                                      : active == FAULT_COARSE;
        for (o = 0; o < rows; o++) row[o] *= o % 2 == 0 ? 1.01f : 0.99f;
        for (o = 0; spoilt && o < rows; o++) row[o] *= o % 2 == 0 ? 1.2f : 0.8f;
        for (o = 0; active == FAULT_ZERO && o < rows; o++) row[o] = 0;
        for (o = 0; active == FAULT_SIGN && o < rows; o++) row[o] = -row[o];
        if (active == FAULT_BEST) swap_best(row, rows);
    }
    if (active == FAULT_INFINITE) last[rows - 1] = INFINITY;
    if (active == FAULT_NAN) last[0] = NAN;
    if (active == FAULT_BESIDE) last[rows] = 0;
    if (active == FAULT_UNWRITTEN) memcpy(&last[rows - 1], &(uint32_t){0xdeadbeefu}, 4);
    return status;
}

static tenon_provider_v1 provider_v1;
static tenon_qmatmul_v1 qmatmul_v1;
static char last_detail[900];

static void keep(void *context, const conformance_report *report)
{
    (void)context;
    if (report->result->outcome != CONFORMANCE_PASSED)
        snprintf(last_detail, sizeof last_detail, "%s: %s: %s", report->name,
                 conformance_outcome_name(report->result->outcome), report->result->detail);
}

static conformance_totals run_with(fault what, const char *filter)
{
    static const tenon_static_symbol symbols[] = {{"provider_v1", &provider_v1},
                                                  {"qmatmul_v1", &qmatmul_v1}};
    const conformance_target target = {.id = "rough", .symbols = symbols, .symbol_count = 2};
    const conformance_run_options options = {.target = &target, .reporter = keep};
    conformance_suite suite = {.seed = 1};
    conformance_totals totals;
    provider_v1 = tenon_reference_provider_v1;
    memset(provider_v1.id, 0, sizeof provider_v1.id);
    memcpy(provider_v1.id, "rough", 6);
    provider_v1.device_info = info;
    qmatmul_v1 = tenon_reference_qmatmul_v1;
    qmatmul_v1.supports = supports;
    qmatmul_v1.prepare = prepare;
    qmatmul_v1.run = run;
    last_detail[0] = '\0';
    active = what;
    ck_assert(conformance_add_approx(&suite));
    ck_assert_msg(conformance_filter(&suite, filter, NULL, 0) > 0, "%s", filter);
    ck_assert_int_eq(conformance_run(&suite, &options, &totals, NULL), TENON_OK);
    conformance_clear(&suite);
    return totals;
}

START_TEST(small_errors_pass)
{
    static const char *const filters[] = {"approx/qmatmul/Q[48]_0/*", "approx/qmatmul/[FB]*",
                                          "approx/qmatmul/Q[46]_K/*", "approx/qmatmul/[im]*"};
    conformance_totals totals = run_with(FAULT_NONE, filters[_i]);
    ck_assert_msg(totals.passed > 2, "%s", last_detail);
    ck_assert_msg(totals.passed == totals.run && totals.unsupported == 0, "%s", last_detail);
    ck_assert_uint_eq(totals.approx_run, totals.run);
    ck_assert_uint_eq(totals.exact_cases, 0);
    ck_assert_uint_gt(totals.requests, 100);
}
END_TEST

static const struct {
    fault what;
    const char *words;
} faults[] = {
    {FAULT_COARSE, "cosine"},
    {FAULT_ONE_TOKEN, "cosine"},
    {FAULT_SIGN, "cosine -"},
    {FAULT_ZERO, "cosine 0.000"},
    {FAULT_BEST, "argmax"},
    {FAULT_INFINITE, "inf is not finite"},
    {FAULT_NAN, "nan is not finite"},
    {FAULT_BESIDE, "outside of y"},
    {FAULT_UNWRITTEN, "is not written"},
    {FAULT_DECLINES_WRITTEN, "declined, but wrote"},
    {FAULT_FAILS, "status"},
};

START_TEST(what_is_outside_of_the_gates)
{
    conformance_totals totals = run_with(faults[_i].what, "approx/qmatmul/Q8_0/a8");
    ck_assert_msg(totals.failed == 1, "fault %d passes", (int)faults[_i].what);
    ck_assert_msg(strstr(last_detail, faults[_i].words) != NULL, "fault %d: %s",
                  (int)faults[_i].what, last_detail);
}
END_TEST

START_TEST(not_offered)
{
    static const struct {
        fault what;
        const char *words;
    } others[] = {{CLAIMS_EXACT, "in its exact class"},
                  {CLAIMS_NOTHING, "is not claimed"},
                  {DECLINES, "declined: "}};
    conformance_totals totals = run_with(others[_i].what, "approx/qmatmul/Q8_0/f32");
    ck_assert_msg(totals.unsupported == 1 && totals.run == 0, "%s", last_detail);
    ck_assert_msg(strstr(last_detail, others[_i].words) != NULL, "%s", last_detail);
}
END_TEST

/* Values near each other may change places, far ones not; a stride is no value. */
START_TEST(the_gates)
{
    conformance_result result = {.outcome = 0};
    float want[34], got[2][20] = {{0}};
    int i;
    for (i = 0; i < 34; i++) want[i] = (float)(i % 17) - 8;
    for (i = 0; i < 34; i++) got[i / 17][i % 17] = want[i];
    ck_assert(approx_within(got[0], 20, want, 17, 2, "", &result));
    got[1][15] = 8.05f;
    want[33] = 7.5f; /* its best, by half of one: a tenth of the rms is 0.49 */
    ck_assert(approx_within(got[0], 20, want, 17, 2, "", &result));
    want[33] = 9.0f;
    ck_assert(!approx_within(got[0], 20, want, 17, 2, "", &result));
    ck_assert_ptr_nonnull(strstr(result.detail, "token 1: argmax 15"));
    memset(&result, 0, sizeof result);
    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    ck_assert(approx_within(got[0], 20, want, 17, 2, "", &result));
    got[0][3] = 1;
    ck_assert(!approx_within(got[0], 20, want, 17, 2, "", &result));
}
END_TEST

START_TEST(names_are_unique)
{
    conformance_suite suite = {.seed = 1};
    uint64_t i, k;
    ck_assert(conformance_add_approx(&suite));
    for (i = 0; i < suite.count; i++)
        for (k = i + 1; k < suite.count; k++)
            ck_assert_str_ne(suite.cases[i].name, suite.cases[k].name);
    conformance_clear(&suite);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify approx");
    TCase *tests = tcase_create("gates");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, names_are_unique);
    tcase_add_test(tests, the_gates);
    tcase_add_loop_test(tests, small_errors_pass, 0, 4);
    tcase_add_loop_test(tests, what_is_outside_of_the_gates, 0, sizeof faults / sizeof faults[0]);
    tcase_add_loop_test(tests, not_offered, 0, 3);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
