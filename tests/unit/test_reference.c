/* The reference provider as a host sees it: descriptors, answers, refusals, and bits that do not
 * depend on how a request is cut. */
#include "../golden/reference_fixture.h"
#include "runner.h"

static const tenon_provider_v1 *const provider = &tenon_reference_provider_v1;
static const tenon_qmatmul_v1 *const qmatmul = &tenon_reference_qmatmul_v1;

static fixture self;
static void setup(void)
{
    fixture_open(&self);
}
static void teardown(void)
{
    fixture_close(&self);
}

static tenon_error fresh_error(void)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = 77};
    return error;
}

/* ------------------------------------------------------------------------------- descriptors */

START_TEST(descriptors)
{
    tenon_device_info info = {TENON_HEAD(tenon_device_info), .kind = 99};
    tenon_error error = fresh_error();
    tenon_device *device = (tenon_device *)&info;
    uint32_t count = 99;

    ck_assert_str_eq(provider->id, "reference");
    ck_assert_str_eq(provider->version, TENON_VERSION);
    ck_assert_uint_eq(provider->struct_size, sizeof *provider);
    ck_assert_uint_eq(provider->abi_version, 1);
    ck_assert_uint_eq(provider->needs, 0);
    ck_assert(provider->queue_open == NULL && provider->queue_close == NULL);
    ck_assert_uint_eq(qmatmul->struct_size, sizeof *qmatmul);
    ck_assert_uint_eq(qmatmul->weight_desc_size, sizeof(tenon_weight_desc));
    ck_assert_uint_eq(qmatmul->weight_data_size, sizeof(tenon_weight_data));
    ck_assert_uint_eq(qmatmul->call_size, sizeof(tenon_qmatmul_call));
    ck_assert_uint_eq(qmatmul->support_size, sizeof(tenon_qmatmul_support));

    ck_assert_int_eq(provider->device_count(self.provider, &count, NULL), TENON_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(provider->device_info(self.provider, 0, &info, NULL), TENON_OK);
    ck_assert_uint_eq(info.struct_size, sizeof info);
    ck_assert_uint_eq(info.kind, TENON_DEVICE_CPU);
    ck_assert_uint_eq(info.arith,
                      TENON_CLASS_BIT(TENON_CLASS_F32) | TENON_CLASS_BIT(TENON_CLASS_A8));
    ck_assert_uint_eq(info.unusable, 0);
    ck_assert(info.memory_total == TENON_UNKNOWN && info.memory_free == TENON_UNKNOWN);
    ck_assert_str_eq(info.name, "reference (scalar C)");
    ck_assert_str_eq(info.detail, "level=scalar levels=scalar");

    ck_assert_int_eq(provider->device_info(self.provider, 1, &info, &error), TENON_ARG);
    ck_assert_uint_eq(error.reason, TENON_REASON_NO_SUCH_DEVICE);
    ck_assert_int_eq(provider->device_open(self.provider, 1, &device, &error), TENON_ARG);
    ck_assert_ptr_null(device);
    info.struct_size = 8;
    ck_assert_int_eq(provider->device_info(self.provider, 0, &info, NULL), TENON_ABI);
}
END_TEST

START_TEST(null_is_an_answer_not_a_crash)
{
    tenon_provider *opened = self.provider;
    tenon_services services = self.services;
    tenon_error error = fresh_error();
    tenon_prepared *prepared;
    uint32_t count;
    tenon_weight_desc desc = fixture_desc(TENON_FORMAT_Q4_0, 0, 0, 1, 32, TENON_CLASS_F32);

    provider->close(NULL);
    provider->device_close(NULL);
    qmatmul->release(self.device, NULL);
    ck_assert_int_eq(provider->open(NULL, &opened, &error), TENON_ARG);
    ck_assert_uint_eq(error.reason, TENON_REASON_NULL_POINTER);
    ck_assert_int_eq(error.status, TENON_ARG);
    ck_assert_int_eq(provider->open(&services, NULL, NULL), TENON_ARG);
    services.struct_size = 16;
    ck_assert_int_eq(provider->open(&services, &opened, &error), TENON_ABI);
    ck_assert_ptr_null(opened);
    services = self.services;
    services.parallel_for = NULL;
    ck_assert_int_eq(provider->open(&services, &opened, &error), TENON_ARG);
    ck_assert_int_eq(provider->device_count(self.provider, NULL, NULL), TENON_ARG);
    ck_assert_int_eq(provider->device_count(NULL, &count, NULL), TENON_ARG);
    ck_assert_int_eq(qmatmul->supports(self.device, &desc, NULL, NULL), TENON_ARG);
    ck_assert_int_eq(qmatmul->supports(self.device, NULL, NULL, NULL), TENON_ARG);
    ck_assert_int_eq(qmatmul->prepare(self.device, &desc, NULL, &prepared, NULL), TENON_ARG);
    ck_assert_int_eq(qmatmul->run(self.device, NULL, NULL, NULL), TENON_ARG);
}
END_TEST

/* ---------------------------------------------------------------------------------- supports */

static uint32_t declined(const tenon_weight_desc *desc)
{
    tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), .prepared_bytes = 42};
    tenon_error error = fresh_error();
    ck_assert_int_eq(qmatmul->supports(self.device, desc, &support, &error), TENON_DECLINED);
    ck_assert_uint_eq(support.prepared_bytes, 42); /* untouched */
    ck_assert_int_eq(error.status, TENON_DECLINED);
    ck_assert_str_ne(error.text, "");
    return error.reason;
}

START_TEST(supports_every_format_of_the_table)
{
    tenon_format_info info;
    uint32_t index, format, arith;
    for (index = 0; (format = tenon_format_at(index)) != 0; index++) {
        ck_assert_int_eq(tenon_format_find(format, &info), 1);
        for (arith = 0; arith <= 4; arith++) {
            int int4 = format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP;
            uint32_t layout = int4 ? 1 + index % 2 : 0;
            tenon_weight_desc desc = fixture_desc(format, layout, info.arith_block == 1 ? 48 : 0, 5,
                                                  256, arith);
            tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), .alignment = 99};
            if (arith == TENON_CLASS_F32 ||
                (arith == TENON_CLASS_A8 && (info.traits & TENON_TRAIT_FLOATS) == 0)) {
                uint64_t codes, scales;
                uint32_t reason;
                ck_assert_int_eq(qmatmul->supports(self.device, &desc, &support, NULL), TENON_OK);
                ck_assert_int_eq(tenon_weight_bytes(&desc, &codes, &scales, &reason), TENON_OK);
                ck_assert_uint_gt(support.prepared_bytes, codes + scales);
                ck_assert_uint_lt(support.prepared_bytes, codes + scales + 256);
                ck_assert_uint_eq(support.alignment, 1);
            } else {
                ck_assert_uint_eq(declined(&desc), TENON_REASON_UNSUPPORTED_CLASS);
            }
        }
    }
}
END_TEST

START_TEST(declines_by_name)
{
    tenon_weight_desc good = fixture_desc(TENON_FORMAT_INT4_GROUP, 1, 32, 4, 64, TENON_CLASS_A8);
    tenon_weight_desc desc = good;
    tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), .alignment = 0};

    desc.format = 12345;
    ck_assert_uint_eq(declined(&desc), TENON_REASON_UNKNOWN_FORMAT);
    desc = good;
    desc.layout = 0;
    ck_assert_uint_eq(declined(&desc), TENON_REASON_UNSUPPORTED_LAYOUT);
    desc = good;
    desc.group_size = 0;
    ck_assert_uint_eq(declined(&desc), TENON_REASON_UNSUPPORTED_GROUP);
    desc = good;
    desc.rows = 0;
    ck_assert_uint_eq(declined(&desc), TENON_REASON_EMPTY_SHAPE);
    desc = good;
    desc.rows = UINT64_MAX;
    ck_assert_uint_eq(declined(&desc), TENON_REASON_OVERFLOW);
    desc.rows = UINT64_MAX / 32; /* the codes fit, the copy with its head does not */
    desc.cols = 2;
    desc.group_size = 2;
    desc.rows = UINT64_MAX / 5;
    ck_assert_uint_eq(declined(&desc), TENON_REASON_OVERFLOW);
    desc = good;
    desc.reserved0[1] = 1;
    ck_assert_uint_eq(declined(&desc), TENON_REASON_RESERVED);
    desc = fixture_desc(TENON_FORMAT_Q4_K, 0, 0, 4, 576, TENON_CLASS_F32);
    ck_assert_uint_eq(declined(&desc), TENON_REASON_ROW_LENGTH);

    desc = good;
    desc.struct_size += 8;
    ck_assert_int_eq(qmatmul->supports(self.device, &desc, &support, NULL), TENON_ABI);
    desc = good;
    desc.abi_version = 2;
    ck_assert_int_eq(qmatmul->supports(self.device, &desc, &support, NULL), TENON_ABI);
    ck_assert_int_eq(qmatmul->supports(self.device, &good, &support, NULL), TENON_OK);
}
END_TEST

/* ----------------------------------------------------------------------------------- prepare */

static uint32_t refused_data(const tenon_weight_desc *desc, const tenon_weight_data *data,
                             int32_t status)
{
    tenon_error error = fresh_error();
    tenon_prepared *prepared = (tenon_prepared *)&error;
    ck_assert_int_eq(qmatmul->prepare(self.device, desc, data, &prepared, &error), status);
    ck_assert_ptr_null(prepared);
    return error.reason;
}

START_TEST(prepare_checks_its_bytes)
{
    uint8_t codes[4 * 32] = {0}, scales[4 * 2 * 4] = {0};
    tenon_weight_desc desc = fixture_desc(TENON_FORMAT_INT4_GROUP, 2, 32, 4, 64, TENON_CLASS_F32);
    tenon_weight_data good = {TENON_HEAD(tenon_weight_data), .weights = codes,
                              .weights_bytes = sizeof codes, .scales = scales,
                              .scales_bytes = sizeof scales, .lifetime = TENON_LIFETIME_STABLE};
    tenon_weight_data data = good;
    tenon_prepared *prepared = NULL;

    data.weights = NULL;
    ck_assert_uint_eq(refused_data(&desc, &data, TENON_ARG), TENON_REASON_NULL_POINTER);
    data = good;
    data.scales = NULL;
    ck_assert_uint_eq(refused_data(&desc, &data, TENON_ARG), TENON_REASON_NULL_POINTER);
    data = good;
    data.weights_bytes--;
    ck_assert_uint_eq(refused_data(&desc, &data, TENON_ARG), TENON_REASON_SHORT_BUFFER);
    data = good;
    data.scales_bytes--;
    ck_assert_uint_eq(refused_data(&desc, &data, TENON_ARG), TENON_REASON_SHORT_BUFFER);
    data = good;
    data.side = codes;
    ck_assert_uint_eq(refused_data(&desc, &data, TENON_ARG), TENON_REASON_UNKNOWN_VALUE);
    data = good;
    data.reserved1[0] = 1;
    ck_assert_uint_eq(refused_data(&desc, &data, TENON_ARG), TENON_REASON_RESERVED);
    data = good;
    data.struct_size = 88;
    ck_assert_uint_eq(refused_data(&desc, &data, TENON_ABI), TENON_REASON_STRUCT_SIZE);
    desc.arith = TENON_CLASS_APPROX;
    ck_assert_uint_eq(refused_data(&desc, &good, TENON_DECLINED), TENON_REASON_UNSUPPORTED_CLASS);

    /* More bytes than the shape needs are legal. */
    desc.arith = TENON_CLASS_A8;
    desc.rows = 3;
    ck_assert_int_eq(qmatmul->prepare(self.device, &desc, &good, &prepared, NULL), TENON_OK);
    qmatmul->release(self.device, prepared);
}
END_TEST

/* Sanitizers end the program when more is asked for than they ever give; here they must say NULL as
 * the C library does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* No memory: an answer with its scope and what was wanted. The shape's bytes do not exist, and the
 * provider must find that out from the allocator before it reads any. */
START_TEST(no_memory_has_the_scope_of_the_weight)
{
    uint8_t byte = 0;
    tenon_weight_desc desc = fixture_desc(TENON_FORMAT_INT8_ROW, 0, 0, 1, UINT64_C(1) << 60,
                                          TENON_CLASS_F32);
    float scale = 1.0f;
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = &byte,
                              .weights_bytes = desc.cols, .scales = &scale, .scales_bytes = 4};
    tenon_error error = fresh_error();
    tenon_prepared *prepared = NULL;
    ck_assert_int_eq(qmatmul->prepare(self.device, &desc, &data, &prepared, &error), TENON_NOMEM);
    ck_assert_ptr_null(prepared);
    ck_assert_uint_eq(error.reason, TENON_REASON_OUT_OF_MEMORY);
    ck_assert_uint_eq(error.scope, TENON_SCOPE_WEIGHT);
    ck_assert_uint_gt(error.wanted, desc.cols);
    ck_assert_uint_eq(error.available, TENON_UNKNOWN);
}
END_TEST

/* --------------------------------------------------------------------------------------- run */

#define ROWS 35u
#define COLS 96u
#define TOKENS 5u
#define POISON 0x7fd5a5a5u

/* A Q4_1 weight of ROWS x COLS whose bytes depend on salt; scales and minima are ordinary. */
static tenon_prepared *some_weight(uint32_t arith, uint32_t salt)
{
    static uint8_t blocks[ROWS * COLS / 32 * 20];
    tenon_weight_desc desc = fixture_desc(TENON_FORMAT_Q4_1, 0, 0, ROWS, COLS, arith);
    uint32_t i, value = salt;
    for (i = 0; i < sizeof blocks; i++) {
        value = value * 1664525u + 1013904223u;
        blocks[i] = (uint8_t)(value >> 24);
        if (i % 20 == 1 || i % 20 == 3) blocks[i] = (uint8_t)(0x20 | (blocks[i] & 0x8f));
    }
    return fixture_prepare(&self, &desc, blocks, NULL, salt % 64);
}

static float x_value(uint64_t token, uint64_t i)
{
    return (float)((token * 7919 + i * 104729) % 2003) / 1001.0f - 1.0f;
}

static float x_packed[TOKENS * COLS];
static void fill_x(void)
{
    uint64_t t, i;
    for (t = 0; t < TOKENS; t++)
        for (i = 0; i < COLS; i++) x_packed[t * COLS + i] = x_value(t, i);
}

static uint32_t refused_call(const tenon_qmatmul_call *call, int32_t status)
{
    tenon_error error = fresh_error();
    ck_assert_int_eq(qmatmul->run(self.device, NULL, call, &error), status);
    ck_assert_int_eq(error.status, status);
    return error.reason;
}

START_TEST(run_refuses_wrong_requests_and_touches_nothing)
{
    static uint32_t y[TOKENS * ROWS];
    tenon_prepared *prepared = some_weight(TENON_CLASS_A8, 3), *other;
    tenon_weight_desc other_desc = fixture_desc(TENON_FORMAT_F32, 0, 0, 1, COLS + 1,
                                                TENON_CLASS_F32);
    tenon_qmatmul_call good, call;
    uint32_t i;

    fill_x();
    for (i = 0; i < TOKENS * ROWS; i++) y[i] = POISON;
    good = fixture_call(prepared, x_packed, (float *)(void *)y, TOKENS, COLS, ROWS);
    other = fixture_prepare(&self, &other_desc, x_packed, NULL, 0);

    call = good;
    call.struct_size -= 8;
    ck_assert_uint_eq(refused_call(&call, TENON_ABI), TENON_REASON_STRUCT_SIZE);
    call = good;
    call.reserved1[1] = 1;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_RESERVED);
    call = good;
    call.output_count = 0;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_OUTPUT_COUNT);
    call.output_count = 5;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_OUTPUT_COUNT);
    call = good;
    call.tokens = 0;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_EMPTY_SHAPE);
    call = good;
    call.tokens = TOKENS + 1;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_SHORT_BUFFER);
    call.tokens = UINT64_MAX;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_OVERFLOW);
    call = good;
    call.x.host = NULL;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_NULL_POINTER);
    call = good;
    call.x.buffer = y;
    ck_assert_uint_eq(refused_call(&call, TENON_DECLINED), TENON_REASON_NO_BUFFERS);
    call = good;
    call.outputs[0].y.buffer = y;
    ck_assert_uint_eq(refused_call(&call, TENON_DECLINED), TENON_REASON_NO_BUFFERS);
    call = good;
    call.x.offset = 2;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_ALIGNMENT);
    call = good;
    call.x_row_stride += 2;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_ALIGNMENT);
    call = good;
    call.x_row_stride -= 4;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_STRIDE);
    call = good;
    call.x.bytes -= 1;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_SHORT_BUFFER);
    call = good;
    call.outputs[0].y.bytes -= 4;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_SHORT_BUFFER);
    call = good;
    call.outputs[0].row_stride -= 4;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_STRIDE);
    call = good;
    call.outputs[0].weight = NULL;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_NULL_POINTER);
    call = good;
    call.output_count = 2;
    call.outputs[1] = call.outputs[0];
    call.outputs[1].weight = other;
    ck_assert_uint_eq(refused_call(&call, TENON_ARG), TENON_REASON_COLS_DIFFER);

    for (i = 0; i < TOKENS * ROWS; i++) ck_assert_uint_eq(y[i], POISON);
    ck_assert_int_eq(qmatmul->run(self.device, NULL, &good, NULL), TENON_OK);
    for (i = 0; i < TOKENS * ROWS; i++) ck_assert_uint_ne(y[i], POISON);
    qmatmul->release(self.device, prepared);
    qmatmul->release(self.device, other);
}
END_TEST

/* Four outputs of both classes in one call, x and y with gaps and offsets, units taken backwards:
 * each y has the bits of its own call of one token, and nothing between the rows is touched. */
START_TEST(bits_do_not_depend_on_how_a_request_is_cut)
{
    enum { X_STRIDE = COLS + 3, Y_STRIDE = 4 * ROWS + 7 };
    static float x[1 + TOKENS * X_STRIDE], single[ROWS];
    static uint32_t y[2 + TOKENS * Y_STRIDE];
    tenon_prepared *weights[4];
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = TOKENS};
    uint32_t n, o;
    uint64_t t, i, written = 0;

    fill_x();
    for (i = 0; i < sizeof x / sizeof x[0]; i++) x[i] = float_of(POISON);
    for (t = 0; t < TOKENS; t++) memcpy(x + 1 + t * X_STRIDE, x_packed + t * COLS, 4 * COLS);
    for (i = 0; i < sizeof y / sizeof y[0]; i++) y[i] = POISON;
    call.x.host = x;
    call.x.offset = 4;
    call.x.bytes = sizeof x - 4;
    call.x_row_stride = 4 * X_STRIDE;
    call.output_count = 4;
    for (n = 0; n < 4; n++) {
        weights[n] = some_weight(n % 2 == 0 ? TENON_CLASS_A8 : TENON_CLASS_F32, 10 + n);
        call.outputs[n].weight = weights[n];
        call.outputs[n].y.host = y;
        call.outputs[n].y.offset = 4 * (2 + n * (ROWS + 1));
        call.outputs[n].y.bytes = sizeof y - call.outputs[n].y.offset;
        call.outputs[n].row_stride = 4 * Y_STRIDE;
    }
    self.backwards = 1;
    ck_assert_int_eq(qmatmul->run(self.device, NULL, &call, NULL), TENON_OK);
    self.backwards = 0;

    for (n = 0; n < 4; n++) {
        for (t = 0; t < TOKENS; t++) {
            tenon_qmatmul_call one = fixture_call(weights[n], x_packed + t * COLS, single, 1, COLS,
                                                  ROWS);
            ck_assert_int_eq(qmatmul->run(self.device, NULL, &one, NULL), TENON_OK);
            for (o = 0; o < ROWS; o++) {
                uint32_t *have = &y[2 + n * (ROWS + 1) + t * Y_STRIDE + o];
                ck_assert_uint_eq(*have, bits_of(single[o]));
                *have = POISON;
                written++;
            }
        }
    }
    ck_assert_uint_eq(written, 4 * TOKENS * ROWS);
    for (i = 0; i < sizeof y / sizeof y[0]; i++) ck_assert_uint_eq(y[i], POISON);
    for (n = 0; n < 4; n++) qmatmul->release(self.device, weights[n]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reference");
    TCase *tcase = tcase_create("contract");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, descriptors);
    tcase_add_test(tcase, null_is_an_answer_not_a_crash);
    tcase_add_test(tcase, supports_every_format_of_the_table);
    tcase_add_test(tcase, declines_by_name);
    tcase_add_test(tcase, prepare_checks_its_bytes);
    tcase_add_test(tcase, no_memory_has_the_scope_of_the_weight);
    tcase_add_test(tcase, run_refuses_wrong_requests_and_touches_nothing);
    tcase_add_test(tcase, bits_do_not_depend_on_how_a_request_is_cut);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
