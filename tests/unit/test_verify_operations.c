/* Does the conformance suite see faults of the whole operations? A provider in this process passes
 * everything on to the reference, with one fault at a time; the same cases must pass without one. */
#include <tests/conformance/runner.h>
#include "runner.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/provider.h>
#include <unistd.h>

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
extern const tenon_embed_v1 tenon_reference_embed_v1;
extern const tenon_rmsnorm_v1 tenon_reference_rmsnorm_v1;
extern const tenon_gated_v1 tenon_reference_gated_v1;
extern const tenon_add_v1 tenon_reference_add_v1;
extern const tenon_argmax_v1 tenon_reference_argmax_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;

typedef enum fault {
    FAULT_NONE,
    FAULT_ONE_BIT,
    FAULT_GAP,
    FAULT_PAST,
    FAULT_INPUT,
    FAULT_BATCH,
    FAULT_DECLINES,
    FAULT_DECLINES_WRITTEN,
    FAULT_LAST_MAXIMUM,
    FAULT_NO_EPS,
    FAULT_WINDOW,
    FAULT_TYPE,
    FAULT_PAIRING,
    FAULT_EVICTS_OTHERS,
    FAULT_EVICTS_NOTHING,
    FAULT_TRUNCATES_LESS,
    FAULT_ONE_CACHE,
    FAULT_BYTES
} fault;

static fault active; /* inherited by the processes of the cases */

/* What is done to the result of any call: y has rows of width bytes. */
static int32_t spoil(const tenon_view *y, uint64_t rows, uint64_t width, uint64_t stride,
                     const tenon_view *input)
{
    unsigned char *at = (unsigned char *)y->host + y->offset;
    uint32_t *last = (uint32_t *)(void *)(at + (rows - 1) * stride + width - 4);
    switch (active) {
    case FAULT_ONE_BIT: *last ^= 1; break;
    case FAULT_BATCH:
        if (rows > 8) *last ^= 1;
        break;
    case FAULT_GAP:
        if (rows > 1 && stride > width) at[width] ^= 1;
        break;
    case FAULT_PAST: last[1] = 0; break;
    case FAULT_INPUT: ((unsigned char *)input->host)[0] ^= 1; break;
    case FAULT_DECLINES_WRITTEN: *last = 0; return TENON_DECLINED;
    default: break;
    }
    return TENON_OK;
}

#define PASS_ON(name, rows_, width_, stride_, input_) \
    static int32_t TENON_CALL faulty_##name(tenon_device *device, tenon_device_queue *queue, \
                                            const tenon_##name##_call *given, tenon_error *error) \
    { \
        tenon_##name##_call call = *given; \
        int32_t status; \
        if (active == FAULT_DECLINES) return TENON_DECLINED; \
        FAULT_BEFORE_##name; \
        status = tenon_reference_##name##_v1.run(device, queue, &call, error); \
        return status != TENON_OK ? status : spoil(&call.y, rows_, width_, stride_, &input_); \
    }
#define FAULT_BEFORE_embed (void)0
#define FAULT_BEFORE_gated (void)0
#define FAULT_BEFORE_add (void)0
#define FAULT_BEFORE_argmax (void)0
#define FAULT_BEFORE_rmsnorm \
    if (active == FAULT_NO_EPS) call.eps = 0
PASS_ON(embed, call.tokens, call.y.bytes - (call.tokens - 1) * call.y_row_stride, call.y_row_stride,
        call.ids)
PASS_ON(rmsnorm, call.tokens, call.groups *call.width * 4, call.y_row_stride, call.x)
PASS_ON(gated, call.tokens, call.width * 4, call.y_row_stride, call.up)
PASS_ON(add, call.tokens, call.width * 4, call.y_row_stride, call.b)

static int32_t TENON_CALL faulty_argmax(tenon_device *device, tenon_device_queue *queue,
                                        const tenon_argmax_call *call, tenon_error *error)
{
    int32_t status;
    uint32_t *y = (uint32_t *)(void *)((char *)call->y.host + call->y.offset);
    uint64_t s, i;
    if (active == FAULT_DECLINES) return TENON_DECLINED;
    status = tenon_reference_argmax_v1.run(device, queue, call, error);
    for (s = 0; active == FAULT_LAST_MAXIMUM && s < call->tokens; s++) {
        const float *x = (const float *)(void *)((char *)call->x.host + call->x.offset +
                                                 s * call->x_row_stride);
        for (i = 0; y[s] != TENON_ARGMAX_NONE && i < call->width; i++)
            if (x[i] == x[y[s]]) y[s] = (uint32_t)i;
    }
    return status != TENON_OK ? status : spoil(&call->y, call->tokens, 4, 4, &call->x);
}

static int32_t TENON_CALL faulty_create(tenon_device *device, const tenon_cache_desc *given,
                                        tenon_device_cache **out, tenon_error *error)
{
    tenon_cache_desc desc = *given;
    if (active == FAULT_DECLINES) return TENON_DECLINED;
    if (active == FAULT_WINDOW && desc.window != 0) desc.window++;
    if (active == FAULT_TYPE) desc.type = TENON_CACHE_F32;
    if (active == FAULT_PAIRING && desc.pairing != 0) desc.pairing = 3 - desc.pairing;
    return tenon_reference_attention_v1.create(device, &desc, out, error);
}

static int32_t TENON_CALL faulty_attention(tenon_device *device, tenon_device_queue *queue,
                                           const tenon_attention_call *call, tenon_error *error)
{
    int32_t status = tenon_reference_attention_v1.run(device, queue, call, error);
    uint64_t width = call->y.bytes - (call->tokens - 1) * call->y_row_stride;
    return status != TENON_OK ? status
                              : spoil(&call->y, call->tokens, width, call->y_row_stride, &call->q);
}

static int32_t TENON_CALL faulty_evict(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_cache *cache, uint64_t first, uint64_t count,
                                       tenon_error *error)
{
    if (active == FAULT_EVICTS_NOTHING) return TENON_OK;
    if (active == FAULT_EVICTS_OTHERS && first > 0) first--;
    return tenon_reference_attention_v1.evict(device, queue, cache, first, count, error);
}

static int32_t TENON_CALL faulty_truncate(tenon_device *device, tenon_device_queue *queue,
                                          tenon_device_cache *cache, uint64_t length,
                                          tenon_error *error)
{
    if (active == FAULT_TRUNCATES_LESS) return TENON_OK;
    return tenon_reference_attention_v1.truncate(device, queue, cache, length, error);
}

/* A clone that is no copy: freed twice it would crash, so it is empty. */
static int32_t TENON_CALL faulty_clone(tenon_device *device, tenon_device_queue *queue,
                                       const tenon_device_cache *cache, tenon_device_cache **out,
                                       tenon_error *error)
{
    int32_t status = tenon_reference_attention_v1.clone(device, queue, cache, out, error);
    if (status == TENON_OK && active == FAULT_ONE_CACHE)
        status = tenon_reference_attention_v1.truncate(device, queue, *out, 0, error);
    return status;
}

static int32_t TENON_CALL faulty_bytes(tenon_device *device, const tenon_device_cache *cache,
                                       uint64_t *bytes, tenon_error *error)
{
    int32_t status = tenon_reference_attention_v1.bytes(device, cache, bytes, error);
    if (active == FAULT_BYTES) *bytes = 0;
    return status;
}

static tenon_provider_v1 faulty_provider;
static tenon_attention_v1 faulty_attention_v1;

#define SIMPLE(name) \
    static const tenon_##name##_v1 faulty_##name##_v1 = {TENON_HEAD(tenon_##name##_v1), \
                                                         sizeof(tenon_##name##_call), \
                                                         sizeof(tenon_error), faulty_##name};
SIMPLE(embed)
SIMPLE(rmsnorm)
SIMPLE(gated)
SIMPLE(add)
SIMPLE(argmax)

static char last_detail[700], last_repeat[3000];
static const char *save_dir; /* of the next run; NULL: nothing is saved */

static void keep(void *context, const conformance_report *report)
{
    (void)context;
    if (report->result->outcome == CONFORMANCE_PASSED) return;
    snprintf(last_detail, sizeof last_detail, "%s: %s", report->name, report->result->detail);
    snprintf(last_repeat, sizeof last_repeat, "%s", report->result->repeat);
}

/* Runs the cases that match over the faulty provider, with its first descriptors. */
static conformance_totals run_with(fault what, const char *filter, uint64_t descriptors)
{
    static const tenon_static_symbol symbols[] = {
        {"provider_v1", &faulty_provider}, {"qmatmul_v1", &tenon_reference_qmatmul_v1},
        {"embed_v1", &faulty_embed_v1},    {"rmsnorm_v1", &faulty_rmsnorm_v1},
        {"gated_v1", &faulty_gated_v1},    {"add_v1", &faulty_add_v1},
        {"argmax_v1", &faulty_argmax_v1},  {"attention_v1", &faulty_attention_v1}};
    const conformance_target target = {
        .id = "faulty", .symbols = symbols, .symbol_count = descriptors};
    const conformance_run_options options = {
        .target = &target, .time_limit_ms = 100000, .reporter = keep};
    conformance_suite suite = {.seed = 1, .save_dir = save_dir};
    conformance_totals totals;
    faulty_provider = tenon_reference_provider_v1;
    memcpy(faulty_provider.id, "faulty", 7);
    faulty_provider.id[7] = faulty_provider.id[8] = '\0';
    faulty_attention_v1 = tenon_reference_attention_v1;
    faulty_attention_v1.create = faulty_create;
    faulty_attention_v1.run = faulty_attention;
    faulty_attention_v1.evict = faulty_evict;
    faulty_attention_v1.truncate = faulty_truncate;
    faulty_attention_v1.clone = faulty_clone;
    faulty_attention_v1.bytes = faulty_bytes;
    last_detail[0] = last_repeat[0] = '\0';
    active = what;
    ck_assert(conformance_add_embed(&suite));
    ck_assert(conformance_add_rows(&suite));
    ck_assert(conformance_add_attention(&suite));
    ck_assert_uint_gt(conformance_filter(&suite, filter, NULL, 0), 0);
    ck_assert_int_eq(conformance_run(&suite, &options, &totals, NULL), TENON_OK);
    conformance_clear(&suite);
    return totals;
}

#define ALL 8u
#define CACHE "exact/attention/f16/halves/heads=3x3x18/window=5"

/* One short case of each operation. */
static const char *const cases[] = {"exact/embed/F32/ordinary",  "exact/rmsnorm/ordinary",
                                    "exact/gated/silu/ordinary", "exact/add/ordinary",
                                    "exact/argmax/ordinary",     CACHE};
#define CASES (sizeof cases / sizeof cases[0])

START_TEST(without_a_fault_everything_passes)
{
    conformance_totals totals = run_with(FAULT_NONE, cases[_i], ALL);
    ck_assert_msg(totals.passed == 1 && totals.failed == 0, "%s", last_detail);
    ck_assert_uint_gt(totals.requests, 10);
}
END_TEST

START_TEST(what_every_operation_may_do_wrong)
{
    static const struct {
        fault what;
        const char *words;
    } faults[] = {{FAULT_ONE_BIT, "the reference has"},
                  {FAULT_BATCH, "the reference has"},
                  {FAULT_GAP, "between rows"},
                  {FAULT_PAST, ""},
                  {FAULT_INPUT, "was written"}};
    size_t i;
    for (i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        conformance_totals totals;
        if (faults[i].what == FAULT_GAP && strstr(cases[_i], "argmax") != NULL) continue;
        totals = run_with(faults[i].what, cases[_i], ALL);
        ck_assert_msg(totals.failed == 1, "fault %d passes %s", (int)faults[i].what, cases[_i]);
        ck_assert_msg(strstr(last_detail, faults[i].words) != NULL, "fault %d: %s",
                      (int)faults[i].what, last_detail);
    }
}
END_TEST

/* Not offered and declined is no fault; declined and written is one. */
START_TEST(declined)
{
    conformance_totals totals = run_with(FAULT_NONE, cases[_i], 2);
    ck_assert_msg(totals.unsupported == 1 && totals.run == 0, "%s", last_detail);
    totals = run_with(FAULT_DECLINES, cases[_i], ALL);
    ck_assert_msg(totals.unsupported == 1 && totals.run == 0, "%s", last_detail);
    totals = run_with(FAULT_DECLINES_WRITTEN, cases[_i], ALL);
    ck_assert_msg(totals.failed == 1, "%s", last_detail);
}
END_TEST

START_TEST(what_one_operation_may_do_wrong)
{
    static const struct {
        fault what;
        const char *filter;
    } faults[] = {{FAULT_LAST_MAXIMUM, "exact/argmax/ties"},
                  {FAULT_NO_EPS, "exact/rmsnorm/ordinary"},
                  {FAULT_WINDOW, CACHE},
                  {FAULT_TYPE, CACHE},
                  {FAULT_PAIRING, CACHE},
                  {FAULT_EVICTS_OTHERS, CACHE},
                  {FAULT_EVICTS_NOTHING, CACHE},
                  {FAULT_TRUNCATES_LESS, CACHE},
                  {FAULT_ONE_CACHE, CACHE},
                  {FAULT_BYTES, CACHE}};
    size_t i;
    for (i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        conformance_totals totals = run_with(faults[i].what, faults[i].filter, ALL);
        ck_assert_msg(totals.failed == 1, "fault %d passes", (int)faults[i].what);
    }
}
END_TEST

/* The files and the line: `tenon op` by the reference gives what was expected, and not what the
 * faulty provider gave. */
START_TEST(a_failing_request_is_saved)
{
    static const struct {
        fault what;
        const char *filter, *words;
    } saved[] = {
        {FAULT_ONE_BIT, "exact/embed/Q4_K/ordinary", "tenon op embed"},
        {FAULT_ONE_BIT, "exact/embed/int4-group-planar/ordinary", "--layout planar --group 48"},
        {FAULT_BATCH, "exact/embed/fp8-e4m3-b128/special", ".scales'"},
        {FAULT_NO_EPS, "exact/rmsnorm/ordinary", "--eps"},
        {FAULT_BATCH, "exact/rmsnorm/ordinary", "--groups 1"},
        {FAULT_ONE_BIT, "exact/gated/gelu-tanh/tiny", "--act gelu-tanh"},
        {FAULT_BATCH, "exact/gated/silu/special", "tenon op gated"},
        {FAULT_BATCH, "exact/add/large-sums", "tenon op add"},
        {FAULT_LAST_MAXIMUM, "exact/argmax/ties", "tenon op argmax"},
        {FAULT_ONE_BIT, CACHE, "--rope halves --rotary 8"},
        {FAULT_BATCH, "exact/attention/f32/unrotated/heads=9x3x64/window=0", "--kv f32"},
        {FAULT_EVICTS_OTHERS, CACHE, "--positions 470"},
        {FAULT_ONE_CACHE, "exact/attention/f16/adjacent/heads=4x2x64/window=0", "--positions 302"},
    };
    const char *tool = getenv("TENON_TOOL");
    char folder[] = "/tmp/tenon-save-XXXXXX", command[4500], *provider;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    save_dir = folder;
    run_with(saved[_i].what, saved[_i].filter, ALL);
    save_dir = NULL;
    ck_assert_msg(strstr(last_repeat, saved[_i].words) != NULL, "%s: %s", last_detail, last_repeat);
    provider = strstr(last_repeat, "--provider faulty:0");
    ck_assert_msg(provider != NULL, "%s", last_repeat);
    memcpy(provider, "--provider reference", 20); /* takes the space behind too */
    memmove(provider + 21, provider + 20, strlen(provider + 20) + 1);
    provider[20] = ' ';
    if (tool != NULL) {
        snprintf(command, sizeof command, "tenon() { \"%s\" \"$@\"; }; { %s; } >/dev/null", tool,
                 last_repeat);
        ck_assert_msg(system(command) == 0, "%s", command);
        snprintf(command, sizeof command, "cd '%s' && ! cmp -s *.expected *.got", folder);
        ck_assert_msg(system(command) == 0, "%s", command);
    }
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(names_are_unique)
{
    conformance_suite suite = {.seed = 1};
    uint64_t i, k;
    ck_assert(conformance_add_embed(&suite));
    ck_assert(conformance_add_rows(&suite));
    ck_assert(conformance_add_attention(&suite));
    ck_assert_uint_gt(suite.count, 100);
    for (i = 0; i < suite.count; i++)
        for (k = i + 1; k < suite.count; k++)
            ck_assert_str_ne(suite.cases[i].name, suite.cases[k].name);
    conformance_clear(&suite);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify operations");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, names_are_unique);
    tcase_add_loop_test(tests, without_a_fault_everything_passes, 0, CASES);
    tcase_add_loop_test(tests, what_every_operation_may_do_wrong, 0, CASES);
    tcase_add_loop_test(tests, declined, 0, CASES);
    tcase_add_test(tests, what_one_operation_may_do_wrong);
    tcase_add_loop_test(tests, a_failing_request_is_saved, 0, 13);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
