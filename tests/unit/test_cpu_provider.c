/* The CPU provider apart from its arithmetic: opening, levels, what it offers, what it refuses,
 * memory shortage, and that a run allocates nothing once it has run before.
 *
 *     test_cpu_provider MODULE */
#include "test_cpu_common.h"

#include <errno.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTING 0
#endif
#endif
#if !defined(COUNTING) && defined(__GLIBC__)
#define COUNTING 1
#elif !defined(COUNTING)
#define COUNTING 0
#endif

/* ------------------------------------------------------------------------- counted allocations */

#if COUNTING

/* While armed, allocations are counted and the one of number fail_at fails. */
static bool armed;
static long calls, live, fail_at;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static bool refuse(void)
{
    if (!armed || ++calls != fail_at) return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *memory)
{
    if (armed && memory != NULL) live++;
    return memory;
}

void *malloc(size_t size)
{
    return refuse() ? NULL : counted(__libc_malloc(size));
}
void *calloc(size_t count, size_t size)
{
    return refuse() ? NULL : counted(__libc_calloc(count, size));
}
void *aligned_alloc(size_t alignment, size_t size)
{
    return refuse() ? NULL : counted(__libc_memalign(alignment, size));
}
void free(void *memory)
{
    if (armed && memory != NULL) live--;
    __libc_free(memory);
}

static void arm(long fail)
{
    calls = live = 0;
    fail_at = fail;
    armed = true;
}

#endif

/* ---------------------------------------------------------------------------------------- tests */

static int32_t open_with(const char *level, tenon_error *error)
{
    team one;
    link_t self;
    int32_t status;
    memset(&self, 0, sizeof self);
    module_symbols(&self);
    team_init(&one, 1, level);
    status = self.v1->open(&one.services, &self.provider, error);
    if (status == TENON_OK)
        self.v1->close(self.provider);
    else
        ck_assert_ptr_null(self.provider);
    return status;
}

START_TEST(test_unknown_level)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    char names[8][24];
    uint32_t count = module_levels(names), i;
    ck_assert_int_eq(open_with("sse9", &error), TENON_STATE);
    ck_assert_uint_eq(error.reason, TENON_REASON_UNKNOWN_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.text, "sse9"));
    for (i = 0; i < count; i++) ck_assert_ptr_nonnull(strstr(error.text, names[i]));
    ck_assert_int_eq(open_with("", &error), TENON_STATE);
    ck_assert_uint_eq(error.reason, TENON_REASON_UNKNOWN_CONFIG);
}
END_TEST

/* Every level that the file has opens, or says what the machine lacks. */
START_TEST(test_levels)
{
    char names[8][24];
    uint32_t count = module_levels(names), i;
    ck_assert_str_eq(names[0], "portable");
    for (i = 0; i < count; i++) {
        tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
        tenon_device_info info = {TENON_HEAD(tenon_device_info), .kind = 0};
        char want[64];
        link_t self;
        int32_t status = open_with(names[i], &error);
        if (status != TENON_OK) {
            ck_assert_int_eq(status, TENON_STATE);
            ck_assert_uint_eq(error.reason, TENON_REASON_LEVEL_ABSENT);
            ck_assert_ptr_nonnull(strstr(error.text, "have="));
            ck_assert_ptr_nonnull(strstr(error.text, "need="));
            ck_assert_uint_ne(i, 0); /* portable always runs */
            continue;
        }
        ck_assert(link_open(&self, 1, names[i]));
        ck_assert_int_eq(self.v1->device_info(self.provider, 0, &info, &error), TENON_OK);
        snprintf(want, sizeof want, "level=%s levels=portable", names[i]);
        ck_assert_msg(strncmp(info.detail, want, strlen(want)) == 0, "%s", info.detail);
        ck_assert_uint_eq(info.kind, TENON_DEVICE_CPU);
        ck_assert_uint_eq(info.arith,
                          TENON_CLASS_BIT(TENON_CLASS_F32) | TENON_CLASS_BIT(TENON_CLASS_A8));
        ck_assert_uint_gt(info.memory_total, 0);
        ck_assert_uint_gt(strlen(info.name), 0);
        ck_assert_int_ne(info.name[0], ' ');
        ck_assert_int_eq(self.v1->device_info(self.provider, 1, &info, &error), TENON_ARG);
        link_close(&self);
    }
}
END_TEST

START_TEST(test_descriptor)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_services services;
    link_t self;
    uint32_t count = 7;
    ck_assert(link_open(&self, 1, NULL));
    ck_assert_str_eq(self.v1->id, "cpu");
    ck_assert_str_eq(self.v1->version, TENON_VERSION);
    ck_assert_uint_eq(self.v1->needs, 0);
    ck_assert_int_eq(self.v1->device_count(self.provider, &count, &error), TENON_OK);
    ck_assert_uint_eq(count, 1);
    services = self.team.services;
    services.struct_size -= 8;
    {
        tenon_provider *provider;
        ck_assert_int_eq(self.v1->open(&services, &provider, &error), TENON_ABI);
        ck_assert_ptr_null(provider);
    }
    link_close(&self);
    self.v1->queue_close(NULL);
    self.v1->device_close(NULL);
    self.v1->close(NULL);
}
END_TEST

static void expect_declined(link_t *on, tenon_weight_desc desc, uint32_t reason)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), .alignment = 0};
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = NULL};
    tenon_prepared *prepared = (tenon_prepared *)&support;
    ck_assert_int_eq(on->qmatmul->supports(on->device, &desc, &support, &error), TENON_DECLINED);
    ck_assert_msg(error.reason == reason, "%u %s", error.reason, error.text);
    ck_assert_int_eq(on->qmatmul->prepare(on->device, &desc, &data, &prepared, &error),
                     TENON_DECLINED);
    ck_assert_uint_eq(error.reason, reason);
    ck_assert_ptr_null(prepared);
}

START_TEST(test_declines)
{
    link_t on;
    tenon_weight_desc desc = describe(TENON_FORMAT_Q4_0, 0, 0, 4, 64, TENON_CLASS_A8), bad;
    ck_assert(link_open(&on, 1, NULL));
    bad = desc, bad.cols = 48;
    expect_declined(&on, bad, TENON_REASON_ROW_LENGTH);
    bad = desc, bad.format = TENON_FORMAT_Q6_K, bad.cols = 576;
    expect_declined(&on, bad, TENON_REASON_ROW_LENGTH);
    bad = desc, bad.format = 9999;
    expect_declined(&on, bad, TENON_REASON_UNKNOWN_FORMAT);
    bad = desc, bad.arith = TENON_CLASS_APPROX;
    expect_declined(&on, bad, TENON_REASON_UNSUPPORTED_CLASS);
    bad = desc, bad.format = TENON_FORMAT_F16;
    expect_declined(&on, bad, TENON_REASON_UNSUPPORTED_CLASS);
    bad = desc, bad.rows = 0;
    expect_declined(&on, bad, TENON_REASON_EMPTY_SHAPE);
    bad = desc, bad.layout = TENON_LAYOUT_PAIR;
    expect_declined(&on, bad, TENON_REASON_UNSUPPORTED_LAYOUT);
    bad = desc, bad.group_size = 32;
    expect_declined(&on, bad, TENON_REASON_UNSUPPORTED_GROUP);
    bad = desc, bad.format = TENON_FORMAT_INT4_GROUP, bad.layout = TENON_LAYOUT_PLANAR;
    expect_declined(&on, bad, TENON_REASON_UNSUPPORTED_GROUP);
    bad = desc, bad.rows = UINT64_MAX / 2;
    expect_declined(&on, bad, TENON_REASON_OVERFLOW);
    bad = desc, bad.cols = UINT64_C(1) << 40;
    expect_declined(&on, bad, TENON_REASON_UNSUPPORTED_SHAPE);
    bad = desc, bad.reserved0[1] = 1;
    expect_declined(&on, bad, TENON_REASON_RESERVED);
    link_close(&on);
}
END_TEST

/* Sizes past 2^31 are exact (rows 65536, inputs 33024), and every format is offered. */
START_TEST(test_supports)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    link_t on;
    uint32_t i, format, arith;
    ck_assert(link_open(&on, 1, NULL));
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        tenon_format_info info;
        ck_assert(tenon_format_find(format, &info));
        for (arith = TENON_CLASS_F32; arith <= TENON_CLASS_A8; arith++) {
            tenon_weight_desc desc = describe(format, 0, 0, 65536, 33024, arith);
            tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), .alignment = 0};
            uint64_t codes, scales;
            uint32_t reason;
            if (arith == TENON_CLASS_A8 && (info.traits & TENON_TRAIT_FLOATS) != 0) continue;
            if (format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP)
                desc.layout = TENON_LAYOUT_PAIR;
            if (format == TENON_FORMAT_INT4_GROUP) desc.group_size = 48;
            ck_assert_int_eq(tenon_weight_bytes(&desc, &codes, &scales, &reason), TENON_OK);
            ck_assert_msg(on.qmatmul->supports(on.device, &desc, &support, &error) == TENON_OK,
                          "%s: %s", info.text, error.text);
            ck_assert_uint_eq(support.alignment, 1);
            ck_assert_uint_ge(support.prepared_bytes, (uint64_t)65536 * 33024 / 4);
            ck_assert_uint_le(support.prepared_bytes, 4 * (codes + scales));
        }
    }
    link_close(&on);
}
END_TEST

/* A weight larger than the address space that is left: NOMEM with scope and amounts. */
START_TEST(test_huge)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_desc desc = describe(TENON_FORMAT_INT8_ROW, 0, 0, UINT64_C(1) << 36, 4096,
                                      TENON_CLASS_A8);
    uint8_t byte = 0;
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = &byte,
                              .weights_bytes = UINT64_MAX, .scales = &byte,
                              .scales_bytes = UINT64_MAX};
    tenon_prepared *prepared;
    link_t on;
    ck_assert(link_open(&on, 1, NULL));
    ck_assert_int_eq(on.qmatmul->prepare(on.device, &desc, &data, &prepared, &error), TENON_NOMEM);
    ck_assert_uint_eq(error.scope, TENON_SCOPE_WEIGHT);
    ck_assert_uint_eq(error.reason, TENON_REASON_OUT_OF_MEMORY);
    ck_assert_uint_ge(error.wanted, desc.rows * desc.cols);
    ck_assert_uint_gt(error.available, 0);
    ck_assert_ptr_null(prepared);
    link_close(&on);
}
END_TEST

/* Requests that are wrong: ARG or DECLINED, and no byte of y written. */
START_TEST(test_bad_calls)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    stored weight, other;
    tenon_prepared *prepared, *narrow;
    float x[2 * 64] = {1}, y[2 * 20];
    tenon_qmatmul_call good = {TENON_HEAD(tenon_qmatmul_call), .tokens = 2}, bad;
    link_t on;
    int i;

    ck_assert(link_open(&on, 1, NULL));
    stored_make(&weight, describe(TENON_FORMAT_Q4_0, 0, 0, 17, 64, TENON_CLASS_A8), ORDINARY, 3);
    stored_make(&other, describe(TENON_FORMAT_Q4_0, 0, 0, 17, 32, TENON_CLASS_A8), ORDINARY, 3);
    ck_assert_int_eq(on.qmatmul->prepare(on.device, &weight.desc, &weight.data, &prepared, &error),
                     TENON_OK);
    ck_assert_int_eq(on.qmatmul->prepare(on.device, &other.desc, &other.data, &narrow, &error),
                     TENON_OK);
    good.x = (tenon_view){.host = x, .bytes = sizeof x};
    good.x_row_stride = 64 * 4;
    good.output_count = 1;
    good.outputs[0] = (tenon_output){prepared, {.host = y, .bytes = sizeof y}, 20 * 4};
    memset(y, 0xa5, sizeof y);
#define EXPECT(change, status, why) \
    do { \
        bad = good; \
        change; \
        ck_assert_int_eq(on.qmatmul->run(on.device, on.queue, &bad, &error), status); \
        ck_assert_msg(error.reason == (why), "%s: %u %s", #change, error.reason, error.text); \
        for (i = 0; i < (int)sizeof y; i++) ck_assert_uint_eq(((uint8_t *)y)[i], 0xa5); \
    } while (0)
    EXPECT(bad.tokens = 0, TENON_ARG, TENON_REASON_EMPTY_SHAPE);
    EXPECT(bad.output_count = 0, TENON_ARG, TENON_REASON_OUTPUT_COUNT);
    EXPECT(bad.output_count = 5, TENON_ARG, TENON_REASON_OUTPUT_COUNT);
    EXPECT(bad.x.buffer = y, TENON_DECLINED, TENON_REASON_NO_BUFFERS);
    EXPECT(bad.x.host = NULL, TENON_ARG, TENON_REASON_NULL_POINTER);
    EXPECT(bad.x.offset = 2, TENON_ARG, TENON_REASON_ALIGNMENT);
    EXPECT(bad.x.bytes -= 4, TENON_ARG, TENON_REASON_SHORT_BUFFER);
    EXPECT(bad.x_row_stride = 63 * 4, TENON_ARG, TENON_REASON_STRIDE);
    EXPECT(bad.x_row_stride = 64 * 4 + 2, TENON_ARG, TENON_REASON_ALIGNMENT);
    EXPECT(bad.tokens = UINT64_MAX, TENON_ARG, TENON_REASON_OVERFLOW);
    EXPECT(bad.outputs[0].y.bytes = 36 * 4, TENON_ARG, TENON_REASON_SHORT_BUFFER);
    EXPECT(bad.outputs[0].row_stride = 16 * 4, TENON_ARG, TENON_REASON_STRIDE);
    EXPECT(bad.outputs[0].y.buffer = y, TENON_DECLINED, TENON_REASON_NO_BUFFERS);
    EXPECT(bad.outputs[0].weight = NULL, TENON_ARG, TENON_REASON_NULL_POINTER);
    EXPECT((bad.output_count = 2, bad.outputs[1] = good.outputs[0], bad.outputs[1].weight = narrow),
           TENON_ARG, TENON_REASON_COLS_DIFFER);
    EXPECT(bad.reserved0 = 1, TENON_ARG, TENON_REASON_RESERVED);
    EXPECT(bad.struct_size -= 8, TENON_ABI, TENON_REASON_STRUCT_SIZE);
#undef EXPECT
    ck_assert_int_eq(on.qmatmul->run(on.device, on.queue, &good, &error), TENON_OK);
    ck_assert_int_eq(on.qmatmul->run(on.device, NULL, &good, &error), TENON_OK); /* no queue */
    on.qmatmul->release(on.device, prepared);
    on.qmatmul->release(on.device, narrow);
    on.qmatmul->release(on.device, NULL);
    stored_free(&weight);
    stored_free(&other);
    link_close(&on);
}
END_TEST

START_TEST(test_bad_data)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    stored weight;
    tenon_weight_data bad;
    tenon_prepared *prepared;
    link_t on;
    ck_assert(link_open(&on, 1, NULL));
    stored_make(&weight, describe(TENON_FORMAT_INT8_ROW, 0, 0, 17, 40, TENON_CLASS_A8), ORDINARY,
                0);
#define EXPECT(change, why) \
    do { \
        bad = weight.data; \
        change; \
        ck_assert_int_eq(on.qmatmul->prepare(on.device, &weight.desc, &bad, &prepared, &error), \
                         TENON_ARG); \
        ck_assert_uint_eq(error.reason, why); \
        ck_assert_ptr_null(prepared); \
    } while (0)
    EXPECT(bad.weights = NULL, TENON_REASON_NULL_POINTER);
    EXPECT(bad.scales = NULL, TENON_REASON_NULL_POINTER);
    EXPECT(bad.weights_bytes -= 1, TENON_REASON_SHORT_BUFFER);
    EXPECT(bad.scales_bytes -= 1, TENON_REASON_SHORT_BUFFER);
    EXPECT(bad.side = &error, TENON_REASON_UNKNOWN_VALUE);
    EXPECT(bad.reserved1[0] = 1, TENON_REASON_RESERVED);
#undef EXPECT
    stored_free(&weight);
    link_close(&on);
}
END_TEST

#if COUNTING

/* Every allocation of prepare and of run fails once: NOMEM, nothing kept, and it works after. */
START_TEST(test_out_of_memory)
{
    static const uint32_t classes[] = {TENON_CLASS_F32, TENON_CLASS_A8};
    long fail;
    int32_t status;
    ck_assert_int_lt(_i, 2);
    for (fail = 1;; fail++) {
        tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
        stored weight;
        request self;
        tenon_prepared *prepared = NULL;
        float *y[4];
        link_t on;
        ck_assert_int_lt(fail, 50);
        ck_assert(link_open(&on, 1, NULL));
        stored_make(&weight, describe(TENON_FORMAT_Q4_K, 0, 0, 33, 512, classes[_i]), ORDINARY, 0);
        request_make(&self, &weight, 1, 5, ORDINARY);
        arm(fail);
        status = on.qmatmul->prepare(on.device, &weight.desc, &weight.data, &prepared, &error);
        armed = false;
        if (status != TENON_OK) {
            ck_assert_int_eq(status, TENON_NOMEM);
            ck_assert_uint_eq(error.scope, TENON_SCOPE_WEIGHT);
            ck_assert_uint_gt(error.wanted, 0);
            ck_assert_ptr_null(prepared);
            ck_assert_int_eq(live, 0);
        } else {
            run_part(&on, &prepared, &self, 0, 5, y);
            free_all(&self, y);
            on.qmatmul->release(on.device, prepared);
        }
        request_free(&self);
        stored_free(&weight);
        link_close(&on);
        if (status == TENON_OK) break;
    }
    ck_assert_int_gt(fail, 1);
}
END_TEST

/* The first run takes memory, and fails whole without it; the same run again takes none. */
START_TEST(test_steady_state)
{
    static const uint64_t tokens[] = {1, 5, 64};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    stored weight;
    tenon_prepared *prepared;
    static float x[64 * 512], y[64 * 33];
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = 1};
    link_t on;
    int32_t status;
    size_t i;

    ck_assert(link_open(&on, 1, NULL));
    stored_make(&weight, describe(TENON_FORMAT_Q6_K, 0, 0, 33, 512, TENON_CLASS_A8), ORDINARY, 0);
    ck_assert_int_eq(on.qmatmul->prepare(on.device, &weight.desc, &weight.data, &prepared, &error),
                     TENON_OK);
    call.x = (tenon_view){.host = x, .bytes = sizeof x};
    call.x_row_stride = 512 * 4;
    call.output_count = 1;
    call.outputs[0] = (tenon_output){prepared, {.host = y, .bytes = sizeof y}, 33 * 4};
    arm(1);
    status = on.qmatmul->run(on.device, on.queue, &call, &error);
    armed = false;
    ck_assert_int_eq(status, TENON_NOMEM);
    ck_assert_uint_eq(error.scope, TENON_SCOPE_CALL);
    for (i = 0; i < 3; i++) {
        call.tokens = tokens[i];
        ck_assert_int_eq(on.qmatmul->run(on.device, on.queue, &call, &error), TENON_OK);
    }
    for (i = 0; i < 3; i++) {
        call.tokens = tokens[i];
        arm(0);
        status = on.qmatmul->run(on.device, on.queue, &call, &error);
        armed = false;
        ck_assert_int_eq(status, TENON_OK);
        ck_assert_int_eq(calls, 0);
    }
    on.qmatmul->release(on.device, prepared);
    stored_free(&weight);
    link_close(&on);
}
END_TEST

#endif

int main(int argc, char **argv)
{
    Suite *suite = suite_create("cpu_provider");
    TCase *cases = tcase_create("provider");

    if (argc != 2) {
        fprintf(stderr, "usage: %s MODULE\n", argv[0]);
        return 64;
    }
    module_path = argv[1];
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, test_unknown_level);
    tcase_add_test(cases, test_levels);
    tcase_add_test(cases, test_descriptor);
    tcase_add_test(cases, test_declines);
    tcase_add_test(cases, test_supports);
    tcase_add_test(cases, test_huge);
    tcase_add_test(cases, test_bad_calls);
    tcase_add_test(cases, test_bad_data);
#if COUNTING
    tcase_add_loop_test(cases, test_out_of_memory, 0, 2);
    tcase_add_test(cases, test_steady_state);
#endif
    suite_add_tcase(suite, cases);
    return runner_main(srunner_create(suite));
}
