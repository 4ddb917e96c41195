/* Does the conformance suite see faults? A provider in this process passes everything on to the
 * reference, with one fault at a time; the same suite must pass without one. */
#include <tests/conformance/runner.h>
#include "runner.h"

#include <tenon/provider.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;

/* A sanitizer keeps what is freed: how much memory a process has tells nothing then. */
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_FREED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_FREED true
#endif
#endif
#ifndef KEEPS_FREED
#define KEEPS_FREED false
#endif

typedef enum fault {
    FAULT_NONE,
    FAULT_ONE_BIT,
    FAULT_MINUS_ZERO,
    FAULT_IGNORES_GROUPS,
    FAULT_DECLINES_ALL,
    FAULT_DECLINES_WRITTEN,
    FAULT_WRITES_PAST,
    FAULT_WRITES_GAP,
    FAULT_CHANGES_X,
    FAULT_BATCH,
    FAULT_UNWRITTEN,
    FAULT_CRASH,
    FAULT_HANG,
    FAULT_READS_PAST,
    FAULT_KEEPS_POINTER,
    FAULT_CACHES_BY_ADDRESS,
    FAULT_GUESSES,
    FAULT_IGNORES_RESERVED,
    FAULT_PRINTS,
    FAULT_LEAKS,
    FAULT_ERRNO,
    FAULT_FLUSH_TO_ZERO,
    FAULT_CLAIMS_LESS,
    FAULT_SUPPORTS_LIES,
    FAULT_NO_DEVICE,
    FAULT_LEVEL_ABSENT,
    FAULT_SECOND_OPEN
} fault;

static fault active; /* inherited by the processes of the cases */
static const void *kept_pointer;
static int opened;

#define REFERENCE_PROVIDER (&tenon_reference_provider_v1)
#define REFERENCE (&tenon_reference_qmatmul_v1)

static int32_t TENON_CALL faulty_open(const tenon_services *services, tenon_provider **out,
                                      tenon_error *error)
{
    if (active == FAULT_LEVEL_ABSENT)
        return tenon_fail(error, TENON_STATE, TENON_REASON_LEVEL_ABSENT, TENON_SCOPE_PROVIDER,
                          "this processor has no such level");
    if (active == FAULT_SECOND_OPEN && opened++ > 0)
        return tenon_fail(error, TENON_STATE, TENON_REASON_IN_USE, TENON_SCOPE_PROVIDER, "open");
    return REFERENCE_PROVIDER->open(services, out, error);
}

static void TENON_CALL faulty_close(tenon_provider *provider)
{
    REFERENCE_PROVIDER->close(provider);
}

static int32_t TENON_CALL faulty_count(tenon_provider *provider, uint32_t *count,
                                       tenon_error *error)
{
    int32_t status = REFERENCE_PROVIDER->device_count(provider, count, error);
    if (active == FAULT_NO_DEVICE) {
        *count = 0;
        tenon_fail(error, TENON_OK, TENON_REASON_NO_DEVICE, TENON_SCOPE_PROVIDER, "none here");
    }
    return status;
}

static int32_t TENON_CALL faulty_info(tenon_provider *provider, uint32_t index,
                                      tenon_device_info *out, tenon_error *error)
{
    int32_t status = REFERENCE_PROVIDER->device_info(provider, index, out, error);
    if (active == FAULT_CLAIMS_LESS) out->arith = TENON_CLASS_BIT(TENON_CLASS_F32);
    return status;
}

static int32_t TENON_CALL faulty_device_open(tenon_provider *provider, uint32_t index,
                                             tenon_device **out, tenon_error *error)
{
    return REFERENCE_PROVIDER->device_open(provider, index, out, error);
}

static void TENON_CALL faulty_device_close(tenon_device *device)
{
    REFERENCE_PROVIDER->device_close(device);
}

static int32_t TENON_CALL faulty_supports(tenon_device *device, const tenon_weight_desc *desc,
                                          tenon_qmatmul_support *out, tenon_error *error)
{
    tenon_weight_desc clean = *desc;
    if (active == FAULT_DECLINES_ALL)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_FORMAT,
                          TENON_SCOPE_WEIGHT, "nothing is offered");
    if (active == FAULT_IGNORES_RESERVED) memset(clean.reserved0, 0, sizeof clean.reserved0);
    if (active == FAULT_GUESSES && (clean.layout == 0 || clean.layout > 2))
        if (clean.format == TENON_FORMAT_INT4_ROW) clean.layout = TENON_LAYOUT_PAIR;
    return REFERENCE->supports(device, &clean, out, error);
}

static int32_t TENON_CALL faulty_prepare(tenon_device *device, const tenon_weight_desc *desc,
                                         const tenon_weight_data *data, tenon_prepared **out,
                                         tenon_error *error)
{
    static const void *first_address;
    static tenon_weight_desc first_desc;
    static uint8_t first_bytes[1 << 18];
    static float scales[1 << 16];
    tenon_weight_desc clean = *desc;
    tenon_weight_data bytes = *data;
    uint64_t groups, o, g;
    switch (active) {
    case FAULT_DECLINES_ALL:
    case FAULT_SUPPORTS_LIES:
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_FORMAT,
                          TENON_SCOPE_WEIGHT, "nothing is offered");
    case FAULT_IGNORES_RESERVED:
        memset(clean.reserved0, 0, sizeof clean.reserved0);
        memset(bytes.reserved1, 0, sizeof bytes.reserved1);
        bytes.reserved0 = 0;
        break;
    case FAULT_GUESSES:
        if (clean.format == TENON_FORMAT_INT4_ROW && (clean.layout == 0 || clean.layout > 2))
            clean.layout = TENON_LAYOUT_PAIR;
        break;
    case FAULT_IGNORES_GROUPS:
        if (desc->format != TENON_FORMAT_INT4_GROUP) break;
        groups = tenon_ceil_div_u64(desc->cols, desc->group_size);
        memcpy(scales, data->scales, desc->rows * groups * 4);
        for (o = 0; o < desc->rows; o++)
            for (g = 1; g < groups; g++) scales[o * groups + g] = scales[o * groups];
        bytes.scales = scales;
        break;
    case FAULT_KEEPS_POINTER: kept_pointer = data->weights; break;
    case FAULT_CACHES_BY_ADDRESS:
        /* The first weight of a shape stands for every later one at its address. */
        if (first_address == data->weights && data->weights_bytes <= sizeof first_bytes &&
            memcmp(&first_desc, desc, sizeof first_desc) == 0) {
            bytes.weights = first_bytes;
        } else if (data->weights_bytes <= sizeof first_bytes) {
            first_address = data->weights;
            first_desc = *desc;
            memcpy(first_bytes, data->weights, data->weights_bytes);
        }
        break;
    default: break;
    }
    return REFERENCE->prepare(device, &clean, &bytes, out, error);
}

static void spoil(const tenon_qmatmul_call *call, uint64_t token, uint64_t row)
{
    uint8_t *at = (uint8_t *)call->outputs[0].y.host + token * call->outputs[0].row_stride +
                  row * 4;
    at[0] ^= 1;
}

static int32_t TENON_CALL faulty_run(tenon_device *device, tenon_device_queue *queue,
                                     const tenon_qmatmul_call *call, tenon_error *error)
{
    tenon_qmatmul_call clean = *call;
    const tenon_output *output = &call->outputs[call->output_count - 1];
    uint64_t rows = output->y.bytes / 4; /* at one token; only used there */
    uint64_t last = call->tokens - 1;
    float *y = output->y.host;
    int32_t status;
    if (active == FAULT_CRASH) raise(SIGSEGV);
    while (active == FAULT_HANG) pause();
    if (active == FAULT_DECLINES_WRITTEN) {
        y[0] = 1;
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                          "not today");
    }
    if (active == FAULT_KEEPS_POINTER && kept_pointer != NULL)
        (void)*(const volatile uint8_t *)kept_pointer;
    if (active == FAULT_READS_PAST && call->x.host != NULL)
        (void)((const volatile float *)call->x.host)[call->x.bytes / 4];
    if (active == FAULT_IGNORES_RESERVED) {
        clean.reserved0 = 0;
        memset(clean.reserved1, 0, sizeof clean.reserved1);
    }
    status = REFERENCE->run(device, queue, &clean, error);
    if (status != TENON_OK) return status;
    switch (active) {
    case FAULT_ONE_BIT: spoil(call, last, 0); break;
    case FAULT_MINUS_ZERO:
        if (y[0] == 0) y[0] = -0.0f;
        break;
    case FAULT_WRITES_PAST:
        if (call->tokens == 1) y[rows] = 1;
        break;
    case FAULT_WRITES_GAP:
        if (call->tokens > 1) *(float *)(void *)((uint8_t *)y + output->row_stride - 4) = 1;
        break;
    case FAULT_CHANGES_X: *(float *)call->x.host = 0; break;
    case FAULT_BATCH:
        if (call->tokens >= 9) spoil(call, 8, 0);
        break;
    case FAULT_UNWRITTEN:
        if (call->tokens > 1) memcpy(y, &(uint32_t){0xdeadbeef}, 4);
        break;
    case FAULT_PRINTS:
        printf("hello\n");
        fflush(stdout);
        break;
    case FAULT_ERRNO: errno = EINVAL; break;
#if defined(__x86_64__)
    case FAULT_FLUSH_TO_ZERO: _mm_setcsr(_mm_getcsr() | 0x8040); break;
#endif
    default: break;
    }
    return status;
}

static void TENON_CALL faulty_release(tenon_device *device, tenon_prepared *prepared)
{
    if (active == FAULT_LEAKS) return;
    REFERENCE->release(device, prepared);
}

static const tenon_provider_v1 faulty_provider = {
    TENON_HEAD(tenon_provider_v1),
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = "faulty",
    .version = "1",
    .open = faulty_open,
    .close = faulty_close,
    .device_count = faulty_count,
    .device_info = faulty_info,
    .device_open = faulty_device_open,
    .device_close = faulty_device_close,
};

static const tenon_qmatmul_v1 faulty_qmatmul = {
    TENON_HEAD(tenon_qmatmul_v1),
    .weight_desc_size = sizeof(tenon_weight_desc),
    .weight_data_size = sizeof(tenon_weight_data),
    .call_size = sizeof(tenon_qmatmul_call),
    .support_size = sizeof(tenon_qmatmul_support),
    .error_size = sizeof(tenon_error),
    .supports = faulty_supports,
    .prepare = faulty_prepare,
    .run = faulty_run,
    .release = faulty_release,
};

/* The last failing case of a run. */
static char last_detail[700], last_repeat[3000];

static void keep(void *context, const conformance_report *report)
{
    (void)context;
    if (report->result->outcome == CONFORMANCE_PASSED) return;
    snprintf(last_detail, sizeof last_detail, "%s: %s", report->name, report->result->detail);
    snprintf(last_repeat, sizeof last_repeat, "%s", report->result->repeat);
}

/* Runs the cases that match over the faulty provider. */
static conformance_totals run_with(fault what, const char *filter, uint32_t time_limit_ms,
                                   uint64_t seed, const char *xfail, const char *save)
{
    static const tenon_static_symbol symbols[] = {{"provider_v1", &faulty_provider},
                                                  {"qmatmul_v1", &faulty_qmatmul}};
    const conformance_target target = {.id = "faulty", .symbols = symbols, .symbol_count = 2};
    const conformance_run_options options = {
        .target = &target, .time_limit_ms = time_limit_ms, .reporter = keep, .xfail = xfail};
    conformance_suite suite = {.seed = seed, .save_dir = save};
    conformance_totals totals;
    last_detail[0] = '\0';
    last_repeat[0] = '\0';
    active = what;
    ck_assert(conformance_add_abi(&suite));
    ck_assert(conformance_add_qmatmul(&suite));
    ck_assert_uint_gt(conformance_filter(&suite, filter, NULL, 0), 0);
    ck_assert_int_eq(conformance_run(&suite, &options, &totals, NULL), TENON_OK);
    conformance_clear(&suite);
    return totals;
}

static void must_fail(fault what, const char *filter, const char *words)
{
    conformance_totals totals = run_with(what, filter, 20000, 1, NULL, NULL);
    ck_assert_msg(totals.failed > 0, "fault %d passes %s", (int)what, filter);
    ck_assert_msg(strstr(last_detail, words) != NULL, "fault %d: '%s' lacks '%s'", (int)what,
                  last_detail, words);
}

#define GROUPS "exact/qmatmul/int4-group-g32/f32/cols=96"
#define SMALL "exact/qmatmul/Q4_0/a8/cols=64"
#define TINY "exact/qmatmul/Q4_0/a8/tiny"

START_TEST(without_a_fault_everything_passes)
{
    static const char *const filters[] = {GROUPS,
                                          SMALL,
                                          TINY,
                                          "abi/*",
                                          "exact/qmatmul/fp8-e4m3-b128/f32/cols=160",
                                          "exact/qmatmul/Q4_K/*/special",
                                          "exact/qmatmul/F16/f32/half-sums",
                                          "exact/*/reused-memory"};
    size_t i;
    for (i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        conformance_totals totals = run_with(FAULT_NONE, filters[i], 60000, 1, NULL, NULL);
        ck_assert_msg(totals.failed == 0 && totals.passed > 0, "%s: %s", filters[i], last_detail);
        ck_assert_uint_eq(totals.run, totals.passed);
        ck_assert_uint_gt(totals.requests, 0);
    }
}
END_TEST

START_TEST(one_bit_is_seen)
{
    must_fail(FAULT_ONE_BIT, SMALL, "got 0x");
    must_fail(FAULT_BATCH, "exact/qmatmul/Q4_0/f32/batches", "token 8");
    must_fail(FAULT_MINUS_ZERO, TINY, "want 0x00000000");
    must_fail(FAULT_UNWRITTEN, SMALL, "not written");
}
END_TEST

START_TEST(ignored_groups_are_seen)
{
    must_fail(FAULT_IGNORES_GROUPS, GROUPS, "got 0x");
}
END_TEST

START_TEST(weights_remembered_by_address_are_seen)
{
    must_fail(FAULT_CACHES_BY_ADDRESS, "exact/qmatmul/Q4_0/a8/reused-memory", "got 0x");
    must_fail(FAULT_CACHES_BY_ADDRESS, "exact/qmatmul/F32/f32/reused-memory", "got 0x");
}
END_TEST

START_TEST(stray_writes_and_reads_are_seen)
{
    must_fail(FAULT_WRITES_PAST, SMALL, "wrote outside of y");
    must_fail(FAULT_WRITES_GAP, SMALL, "wrote outside of y");
    must_fail(FAULT_CHANGES_X, SMALL, "");
    must_fail(FAULT_READS_PAST, SMALL, "the case's process");
    must_fail(FAULT_KEEPS_POINTER, SMALL, "the case's process");
    must_fail(FAULT_DECLINES_WRITTEN, SMALL, "");
}
END_TEST

START_TEST(crashes_and_hangs_end_their_case_only)
{
    conformance_totals totals;
    must_fail(FAULT_CRASH, SMALL, "the case's process");
    totals = run_with(FAULT_HANG, "exact/qmatmul/Q4_0/a8/cols=[36]*", 300, 1, NULL, NULL);
    ck_assert_uint_eq(totals.failed, 2);
    ck_assert_msg(strstr(last_detail, "no answer after 300 ms") != NULL, "%s", last_detail);
}
END_TEST

START_TEST(declining_everything_executes_nothing)
{
    conformance_totals totals = run_with(FAULT_DECLINES_ALL, SMALL, 20000, 1, NULL, NULL);
    ck_assert_uint_eq(totals.run, 0);
    ck_assert_uint_eq(totals.exact_run, 0);
    ck_assert_uint_eq(totals.unsupported, 1);
}
END_TEST

START_TEST(absent_devices_and_levels_are_skipped)
{
    conformance_totals totals = run_with(FAULT_LEVEL_ABSENT, SMALL, 20000, 1, NULL, NULL);
    ck_assert_uint_eq(totals.skipped, 1);
    ck_assert_uint_eq(totals.run, 0);
    totals = run_with(FAULT_LEVEL_ABSENT, "abi/qmatmul/*", 20000, 1, NULL, NULL);
    ck_assert_uint_gt(totals.skipped, 0);
    ck_assert_uint_eq(totals.run, 0);
    totals = run_with(FAULT_NO_DEVICE, "abi/qmatmul/reserved", 20000, 1, NULL, NULL);
    ck_assert_uint_eq(totals.skipped, 1);
}
END_TEST

START_TEST(broken_rules_of_the_border_are_seen)
{
    must_fail(FAULT_GUESSES, "abi/qmatmul/unknown-values", "int4-row");
    must_fail(FAULT_IGNORES_RESERVED, "abi/qmatmul/reserved", "R7");
    must_fail(FAULT_PRINTS, "abi/provider/environment", "prints");
    must_fail(FAULT_ERRNO, "abi/provider/environment", "errno");
    must_fail(FAULT_CLAIMS_LESS, "abi/qmatmul/supports-prepare", "not claimed");
    must_fail(FAULT_SUPPORTS_LIES, "abi/qmatmul/supports-prepare", "supports answers 0");
    must_fail(FAULT_SECOND_OPEN, "abi/provider/open-close", "second open");
#if defined(__x86_64__)
    must_fail(FAULT_FLUSH_TO_ZERO, "abi/provider/environment", "floating point");
#endif
    if (!KEEPS_FREED) must_fail(FAULT_LEAKS, "abi/qmatmul/release-pairs", "memory grows");
}
END_TEST

START_TEST(declared_failures_are_counted_apart)
{
    conformance_totals totals = run_with(FAULT_ONE_BIT, SMALL, 20000, 1, "*Q4_0*", NULL);
    ck_assert_uint_eq(totals.xfail, 1);
    ck_assert_uint_eq(totals.failed, 0);
    ck_assert_uint_eq(totals.run, 1);
    totals = run_with(FAULT_NONE, SMALL, 20000, 1, "*Q4_0*", NULL);
    ck_assert_uint_eq(totals.failed, 1);
    ck_assert_msg(strstr(last_detail, "but it passes") != NULL, "%s", last_detail);
}
END_TEST

START_TEST(a_seed_repeats_a_failure)
{
    char first[sizeof last_detail];
    run_with(FAULT_ONE_BIT, SMALL, 20000, 42, NULL, NULL);
    memcpy(first, last_detail, sizeof first);
    run_with(FAULT_ONE_BIT, "exact/qmatmul/Q4_0/a8/*", 20000, 42, NULL, NULL);
    run_with(FAULT_ONE_BIT, SMALL, 20000, 42, NULL, NULL);
    ck_assert_str_eq(first, last_detail);
    run_with(FAULT_ONE_BIT, SMALL, 20000, 43, NULL, NULL);
    ck_assert_str_ne(first, last_detail);
}
END_TEST

START_TEST(a_failing_request_is_saved)
{
    static const char *const kinds[] = {"weights", "scales", "x", "expected", "got"};
    char folder[] = "/tmp/tenon-save-XXXXXX", path[400];
    size_t i;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    run_with(FAULT_ONE_BIT, GROUPS, 20000, 1, NULL, folder);
    ck_assert_msg(strstr(last_repeat, "tenon op qmatmul --provider faulty") != NULL, "%s",
                  last_repeat);
    ck_assert_msg(strstr(last_repeat, "--format int4-group") != NULL, "%s", last_repeat);
    ck_assert_msg(strstr(last_repeat, "--group 32") != NULL, "%s", last_repeat);
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        FILE *file;
        snprintf(path, sizeof path, "%s/exact-qmatmul-int4-group-g32-f32-cols=96.%s", folder,
                 kinds[i]);
        file = fopen(path, "rb");
        ck_assert_msg(file != NULL, "%s is missing", path);
        ck_assert_int_ne(fgetc(file), EOF);
        fclose(file);
        unlink(path);
    }
    rmdir(folder);
}
END_TEST

START_TEST(names_are_unique_and_filters_match)
{
    conformance_suite suite = {.seed = 1};
    static const char *const levels[] = {"avx2", "portable"};
    uint64_t i, k, all;
    ck_assert(conformance_add_abi(&suite));
    ck_assert(conformance_add_qmatmul(&suite));
    all = suite.count;
    ck_assert_uint_gt(all, 400);
    for (i = 0; i < all; i++)
        for (k = i + 1; k < all; k++) ck_assert_str_ne(suite.cases[i].name, suite.cases[k].name);
    ck_assert_uint_eq(conformance_filter(&suite, "*", NULL, 0), all);
    ck_assert_uint_gt(conformance_filter(&suite, "exact/*/Q4_0/*@avx2", levels, 2), 0);
    ck_assert_uint_eq(conformance_filter(&suite, "nothing", levels, 2), 0);
    conformance_clear(&suite);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify_faults");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, names_are_unique_and_filters_match);
    tcase_add_test(tests, without_a_fault_everything_passes);
    tcase_add_test(tests, one_bit_is_seen);
    tcase_add_test(tests, ignored_groups_are_seen);
    tcase_add_test(tests, weights_remembered_by_address_are_seen);
    tcase_add_test(tests, stray_writes_and_reads_are_seen);
    tcase_add_test(tests, crashes_and_hangs_end_their_case_only);
    tcase_add_test(tests, declining_everything_executes_nothing);
    tcase_add_test(tests, absent_devices_and_levels_are_skipped);
    tcase_add_test(tests, broken_rules_of_the_border_are_seen);
    tcase_add_test(tests, declared_failures_are_counted_apart);
    tcase_add_test(tests, a_seed_repeats_a_failure);
    tcase_add_test(tests, a_failing_request_is_saved);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
