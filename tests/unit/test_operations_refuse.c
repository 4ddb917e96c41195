/* Requests that whole operations must refuse: each is one change to a request that runs, and nothing
 * is written.
 *
 *     test_operations_refuse [MODULE]
 *
 * Of the reference, or of the provider in MODULE. */
#include <dlfcn.h>
#include <math.h>

#include "../golden/reference_fixture.h"
#include "numbers.h"
#include "runner.h"

enum { TOKENS = 2, WIDTH = 8, KV = 1, SIZE = 4 };

/* The provider under test; the reference unless a module is named. */
static const tenon_provider_v1 *provider_v1 = &tenon_reference_provider_v1;
static const tenon_qmatmul_v1 *qmatmul_v1 = &tenon_reference_qmatmul_v1;
static const tenon_embed_v1 *embed_v1 = &tenon_reference_embed_v1;
static const tenon_rmsnorm_v1 *rmsnorm_v1 = &tenon_reference_rmsnorm_v1;
static const tenon_gated_v1 *gated_v1 = &tenon_reference_gated_v1;
static const tenon_add_v1 *add_v1 = &tenon_reference_add_v1;
static const tenon_argmax_v1 *argmax_v1 = &tenon_reference_argmax_v1;
static const tenon_attention_v1 *attention_v1 = &tenon_reference_attention_v1;

static fixture self;
static float a[TOKENS * WIDTH], b[TOKENS * WIDTH], y[TOKENS * WIDTH], turns[16 * SIZE];
static uint32_t ids[TOKENS], indices[TOKENS];
static tenon_prepared *weight;
static tenon_device_cache *cache;

static tenon_embed_call embed;
static tenon_rmsnorm_call rmsnorm;
static tenon_gated_call gated;
static tenon_add_call add;
static tenon_argmax_call argmax;
static tenon_append_call append;
static tenon_attention_call attention;
static tenon_cache_desc desc;

/* Requests that run. */
static void open_fixture(void)
{
    float w[4 * WIDTH] = {0};
    tenon_weight_data bytes = {TENON_HEAD(tenon_weight_data), w, sizeof w, NULL, 0, NULL, 0, 1, 0,
                               TENON_LIFETIME_COPY,           0, {0}};
    tenon_weight_desc matrix = fixture_desc(TENON_FORMAT_F32, 0, 0, 4, WIDTH, TENON_CLASS_F32);
    tenon_view va = fixture_view(a, TOKENS * WIDTH), vb = fixture_view(b, TOKENS * WIDTH);
    tenon_view vy = fixture_view(y, TOKENS * WIDTH);
    uint64_t row = 4 * WIDTH;

    fixture_services(&self);
    ck_assert_int_eq(provider_v1->open(&self.services, &self.provider, NULL), TENON_OK);
    ck_assert_int_eq(provider_v1->device_open(self.provider, 0, &self.device, NULL), TENON_OK);
    ck_assert_int_eq(qmatmul_v1->prepare(self.device, &matrix, &bytes, &weight, NULL), TENON_OK);
    memset(y, 0xA5, sizeof y);
    memset(indices, 0xA5, sizeof indices);
    ids[0] = ids[1] = 3;
    embed = (tenon_embed_call){TENON_HEAD(tenon_embed_call),
                               weight,
                               fixture_view(ids, TOKENS),
                               vy,
                               TOKENS,
                               row,
                               1.0f,
                               0,
                               {0}};
    rmsnorm = (tenon_rmsnorm_call){TENON_HEAD(tenon_rmsnorm_call),
                                   va,
                                   fixture_view(b, WIDTH / 2),
                                   vy,
                                   TOKENS,
                                   2,
                                   WIDTH / 2,
                                   row,
                                   row,
                                   0.0f,
                                   0,
                                   {0}};
    gated = (tenon_gated_call){TENON_HEAD(tenon_gated_call),
                               va,
                               vb,
                               vy,
                               TOKENS,
                               WIDTH,
                               row,
                               row,
                               row,
                               TENON_ACT_SILU,
                               0,
                               {0}};
    add = (tenon_add_call){
        TENON_HEAD(tenon_add_call), va, vb, vy, TOKENS, WIDTH, row, row, row, {0}};
    argmax = (tenon_argmax_call){
        TENON_HEAD(tenon_argmax_call), va, fixture_view(indices, TOKENS), TOKENS, WIDTH, row, {0}};
    desc = (tenon_cache_desc){TENON_HEAD(tenon_cache_desc),
                              KV,
                              SIZE,
                              16,
                              0,
                              TENON_CACHE_F32,
                              TENON_ROPE_HALVES,
                              0,
                              SIZE,
                              turns,
                              sizeof turns,
                              {0}};
    ck_assert_int_eq(attention_v1->create(self.device, &desc, &cache, NULL), TENON_OK);
    append = (tenon_append_call){TENON_HEAD(tenon_append_call),
                                 cache,
                                 fixture_view(a, WIDTH + SIZE),
                                 fixture_view(b, WIDTH + SIZE),
                                 TOKENS,
                                 row,
                                 row,
                                 {0}};
    attention = (tenon_attention_call){
        TENON_HEAD(tenon_attention_call), cache, va, vy, TOKENS, 2, row, row, 1.0f, 0, {0}};
    ck_assert_int_eq(attention_v1->append(self.device, NULL, &append, NULL), TENON_OK);
}

static void close_fixture(void)
{
    attention_v1->free(self.device, cache);
    qmatmul_v1->release(self.device, weight);
    provider_v1->device_close(self.device);
    provider_v1->close(self.provider);
}

static void nothing_written(void)
{
    uint32_t i;
    for (i = 0; i < TOKENS * WIDTH; i++) ck_assert_uint_eq(bits_of(y[i]), 0xA5A5A5A5u);
    for (i = 0; i < TOKENS; i++) ck_assert_uint_eq(indices[i], 0xA5A5A5A5u);
}

/* Runs the request with one change and takes it back. */
#define REFUSED(operation, function, request, change, wanted_status, wanted_reason) \
    do { \
        tenon_error error = {TENON_HEAD(tenon_error), .status = 0}; \
        int32_t status; \
        __typeof__(request) as_it_was = request; \
        change; \
        status = operation->function(self.device, NULL, &request, &error); \
        ck_assert_msg(status == wanted_status && error.status == wanted_status && \
                          error.reason == TENON_REASON_##wanted_reason, \
                      "%s: status %d, reason %u (%s)", #change, status, error.reason, error.text); \
        request = as_it_was; \
        nothing_written(); \
    } while (0)

/* The faults that every request can have. */
#define COMMON(operation, function, request, view, reserved) \
    do { \
        REFUSED(operation, function, request, request.struct_size -= 8, TENON_ABI, STRUCT_SIZE); \
        REFUSED(operation, function, request, request.abi_version = 2, TENON_ABI, STRUCT_SIZE); \
        REFUSED(operation, function, request, request.reserved = 1, TENON_ARG, RESERVED); \
        REFUSED(operation, function, request, request.tokens = 0, TENON_ARG, EMPTY_SHAPE); \
        VIEW(operation, function, request, view); \
        ck_assert_int_eq(operation->function(NULL, NULL, &request, NULL), TENON_ARG); \
        ck_assert_int_eq(operation->function(self.device, NULL, NULL, NULL), TENON_ARG); \
    } while (0)

#define VIEW(operation, function, request, view) \
    do { \
        REFUSED(operation, function, request, request.view.host = NULL, TENON_ARG, NULL_POINTER); \
        REFUSED(operation, function, request, request.view.buffer = a, TENON_DECLINED, \
                NO_BUFFERS); \
        REFUSED(operation, function, request, request.view.offset = 2, TENON_ARG, ALIGNMENT); \
        REFUSED(operation, function, request, request.view.bytes -= 1, TENON_ARG, SHORT_BUFFER); \
    } while (0)

#define ROWS(operation, function, request, stride) \
    do { \
        REFUSED(operation, function, request, request.stride -= 4, TENON_ARG, STRIDE); \
        REFUSED(operation, function, request, request.stride += 2, TENON_ARG, ALIGNMENT); \
        REFUSED(operation, function, request, request.stride = UINT64_MAX - 3, TENON_ARG, \
                OVERFLOW); \
        REFUSED(operation, function, request, request.stride += 4, TENON_ARG, SHORT_BUFFER); \
    } while (0)

START_TEST(embed_refuses)
{
    COMMON(embed_v1, run, embed, ids, reserved0);
    VIEW(embed_v1, run, embed, y);
    ROWS(embed_v1, run, embed, y_row_stride);
    REFUSED(embed_v1, run, embed, embed.reserved1[1] = 1, TENON_ARG, RESERVED);
    REFUSED(embed_v1, run, embed, embed.weight = NULL, TENON_ARG, NULL_POINTER);
    ck_assert_int_eq(embed_v1->run(self.device, NULL, &embed, NULL), TENON_OK);
}
END_TEST

/* An id past the weight is no refusal: nobody may have seen it before (SPEC.md 1.8). */
START_TEST(embed_gives_nan)
{
    static const uint32_t past[] = {4, 5, 16, 17, UINT32_MAX};
    uint32_t at, i;
    for (at = 0; at < sizeof past / sizeof past[0]; at++) {
        memset(y, 0xA5, sizeof y);
        ids[0] = past[at];
        ids[1] = 3;
        ck_assert_int_eq(embed_v1->run(self.device, NULL, &embed, NULL), TENON_OK);
        for (i = 0; i < TOKENS * WIDTH; i++)
            ck_assert_msg(i < WIDTH ? isnan(y[i]) : y[i] == 0.0f, "id %u, y[%u] is %a", past[at], i,
                          (double)y[i]);
    }
    ids[0] = 3;
}
END_TEST

START_TEST(rmsnorm_refuses)
{
    COMMON(rmsnorm_v1, run, rmsnorm, x, reserved0);
    VIEW(rmsnorm_v1, run, rmsnorm, w);
    VIEW(rmsnorm_v1, run, rmsnorm, y);
    ROWS(rmsnorm_v1, run, rmsnorm, x_row_stride);
    ROWS(rmsnorm_v1, run, rmsnorm, y_row_stride);
    REFUSED(rmsnorm_v1, run, rmsnorm, rmsnorm.groups = 0, TENON_ARG, EMPTY_SHAPE);
    REFUSED(rmsnorm_v1, run, rmsnorm, rmsnorm.width = 0, TENON_ARG, EMPTY_SHAPE);
    REFUSED(rmsnorm_v1, run, rmsnorm, rmsnorm.width = 1 << 24, TENON_ARG, OVERFLOW);
    REFUSED(rmsnorm_v1, run, rmsnorm, rmsnorm.groups = UINT64_MAX / 2, TENON_ARG, OVERFLOW);
    REFUSED(rmsnorm_v1, run, rmsnorm, rmsnorm.eps = -1e-6f, TENON_ARG, UNKNOWN_VALUE);
    REFUSED(rmsnorm_v1, run, rmsnorm, rmsnorm.eps = NAN, TENON_ARG, UNKNOWN_VALUE);
    REFUSED(rmsnorm_v1, run, rmsnorm, rmsnorm.eps = INFINITY, TENON_ARG, UNKNOWN_VALUE);
    ck_assert_int_eq(rmsnorm_v1->run(self.device, NULL, &rmsnorm, NULL), TENON_OK);
}
END_TEST

START_TEST(gated_refuses)
{
    COMMON(gated_v1, run, gated, gate, reserved0);
    VIEW(gated_v1, run, gated, up);
    VIEW(gated_v1, run, gated, y);
    ROWS(gated_v1, run, gated, gate_row_stride);
    ROWS(gated_v1, run, gated, up_row_stride);
    ROWS(gated_v1, run, gated, y_row_stride);
    REFUSED(gated_v1, run, gated, gated.reserved1[0] = 1, TENON_ARG, RESERVED);
    REFUSED(gated_v1, run, gated, gated.width = 0, TENON_ARG, EMPTY_SHAPE);
    REFUSED(gated_v1, run, gated, gated.width = UINT64_MAX / 2, TENON_ARG, OVERFLOW);
    REFUSED(gated_v1, run, gated, gated.activation = 0, TENON_ARG, UNKNOWN_VALUE);
    REFUSED(gated_v1, run, gated, gated.activation = 5, TENON_ARG, UNKNOWN_VALUE);
    ck_assert_int_eq(gated_v1->run(self.device, NULL, &gated, NULL), TENON_OK);
}
END_TEST

START_TEST(add_refuses)
{
    COMMON(add_v1, run, add, a, reserved0[0]);
    VIEW(add_v1, run, add, b);
    VIEW(add_v1, run, add, y);
    ROWS(add_v1, run, add, a_row_stride);
    ROWS(add_v1, run, add, b_row_stride);
    ROWS(add_v1, run, add, y_row_stride);
    REFUSED(add_v1, run, add, add.width = 0, TENON_ARG, EMPTY_SHAPE);
    ck_assert_int_eq(add_v1->run(self.device, NULL, &add, NULL), TENON_OK);
}
END_TEST

START_TEST(argmax_refuses)
{
    COMMON(argmax_v1, run, argmax, x, reserved0[1]);
    VIEW(argmax_v1, run, argmax, y);
    ROWS(argmax_v1, run, argmax, x_row_stride);
    REFUSED(argmax_v1, run, argmax, argmax.width = UINT32_MAX, TENON_ARG, OVERFLOW);
    ck_assert_int_eq(argmax_v1->run(self.device, NULL, &argmax, NULL), TENON_OK);
}
END_TEST

START_TEST(append_refuses)
{
    uint64_t length = 0;

    COMMON(attention_v1, append, append, k, reserved0[0]);
    VIEW(attention_v1, append, append, v);
    REFUSED(attention_v1, append, append, append.k_row_stride = 12, TENON_ARG, STRIDE);
    REFUSED(attention_v1, append, append, append.v_row_stride = 18, TENON_ARG, ALIGNMENT);
    REFUSED(attention_v1, append, append, append.cache = NULL, TENON_ARG, NULL_POINTER);
    REFUSED(attention_v1, append, append, append.tokens = 15, TENON_ARG, CAPACITY);
    REFUSED(attention_v1, append, append, append.tokens = UINT64_MAX, TENON_ARG, CAPACITY);
    ck_assert_int_eq(attention_v1->length(self.device, cache, &length, NULL), TENON_OK);
    ck_assert_uint_eq(length, TOKENS);
}
END_TEST

/* Rows that would see no key are refused: a row always sees its own position. */
START_TEST(attention_refuses)
{
    COMMON(attention_v1, run, attention, q, reserved0);
    VIEW(attention_v1, run, attention, y);
    ROWS(attention_v1, run, attention, q_row_stride);
    ROWS(attention_v1, run, attention, y_row_stride);
    REFUSED(attention_v1, run, attention, attention.reserved1[0] = 1, TENON_ARG, RESERVED);
    REFUSED(attention_v1, run, attention, attention.cache = NULL, TENON_ARG, NULL_POINTER);
    REFUSED(attention_v1, run, attention, attention.heads = 0, TENON_ARG, EMPTY_SHAPE);
    REFUSED(attention_v1, run, attention, attention.heads = UINT64_MAX / 2, TENON_ARG, OVERFLOW);
    REFUSED(attention_v1, run, attention, attention.tokens = TOKENS + 1, TENON_ARG, INDEX);
    ck_assert_int_eq(attention_v1->truncate(self.device, NULL, cache, 0, NULL), TENON_OK);
    REFUSED(attention_v1, run, attention, attention.tokens = 1, TENON_ARG, INDEX);
}
END_TEST

static void cache_refused(int32_t wanted_status, uint32_t wanted_reason)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = 0};
    tenon_device_cache *out = cache;
    int32_t status = attention_v1->create(self.device, &desc, &out, &error);
    ck_assert_msg(status == wanted_status && error.reason == wanted_reason,
                  "status %d, reason %u (%s)", status, error.reason, error.text);
    ck_assert_ptr_null(out);
}

#define CACHE(change, status, reason) \
    do { \
        tenon_cache_desc as_it_was = desc; \
        change; \
        cache_refused(status, TENON_REASON_##reason); \
        desc = as_it_was; \
    } while (0)

START_TEST(caches_that_cannot_be)
{
    tenon_device_cache *out = NULL;

    CACHE(desc.struct_size = 8, TENON_ABI, STRUCT_SIZE);
    CACHE(desc.abi_version = 0, TENON_ABI, STRUCT_SIZE);
    CACHE(desc.reserved0[1] = 1, TENON_ARG, RESERVED);
    CACHE(desc.kv_heads = 0, TENON_ARG, EMPTY_SHAPE);
    CACHE(desc.head_size = 0, TENON_ARG, EMPTY_SHAPE);
    CACHE(desc.capacity = 0, TENON_ARG, EMPTY_SHAPE);
    CACHE(desc.type = 0, TENON_ARG, UNKNOWN_VALUE);
    CACHE(desc.type = 3, TENON_ARG, UNKNOWN_VALUE);
    CACHE(desc.flags = 2, TENON_ARG, UNKNOWN_VALUE);
    CACHE(desc.pairing = 3, TENON_ARG, UNKNOWN_VALUE);
    CACHE(desc.rotary = 0, TENON_ARG, ROTARY);
    CACHE(desc.rotary = 3, TENON_ARG, ROTARY);
    CACHE(desc.rotary = SIZE + 2, TENON_ARG, ROTARY);
    CACHE(desc.pairing = TENON_ROPE_NONE, TENON_ARG, ROTARY);
    CACHE(desc.table = NULL, TENON_ARG, NULL_POINTER);
    CACHE(desc.table = (const float *)(const void *)((const char *)turns + 2), TENON_ARG,
          ALIGNMENT);
    CACHE(desc.table_bytes = 16 * SIZE * 4 - 1, TENON_ARG, SHORT_BUFFER);
    CACHE(desc.capacity = UINT64_MAX / 2, TENON_ARG, OVERFLOW);
    CACHE(desc.kv_heads = UINT64_MAX / 4, TENON_ARG, OVERFLOW);
    /* head 64 with a rotary size above it, and with an odd one */
    CACHE(desc.head_size = 64; desc.rotary = 96, TENON_ARG, ROTARY);
    CACHE(desc.head_size = 64; desc.rotary = 31, TENON_ARG, ROTARY);
    /* more memory than there is, in 64 bits */
    CACHE(desc.pairing = desc.rotary = 0;
          desc.capacity = UINT64_C(1) << 54, TENON_NOMEM, OUT_OF_MEMORY);
    ck_assert_int_eq(attention_v1->create(NULL, &desc, &out, NULL), TENON_ARG);
    ck_assert_int_eq(attention_v1->create(self.device, NULL, &out, NULL), TENON_ARG);
    ck_assert_int_eq(attention_v1->create(self.device, &desc, NULL, NULL), TENON_ARG);
    attention_v1->free(self.device, NULL);
}
END_TEST

START_TEST(null_pointers_of_the_small_calls)
{
    uint64_t number = 0;
    tenon_device_cache *out = NULL;
    const tenon_attention_v1 *attend = attention_v1;

    ck_assert_int_eq(attend->length(self.device, NULL, &number, NULL), TENON_ARG);
    ck_assert_int_eq(attend->length(self.device, cache, NULL, NULL), TENON_ARG);
    ck_assert_int_eq(attend->bytes(self.device, NULL, &number, NULL), TENON_ARG);
    ck_assert_int_eq(attend->bytes(self.device, cache, NULL, NULL), TENON_ARG);
    ck_assert_int_eq(attend->truncate(self.device, NULL, NULL, 0, NULL), TENON_ARG);
    ck_assert_int_eq(attend->evict(self.device, NULL, NULL, 0, 0, NULL), TENON_ARG);
    ck_assert_int_eq(attend->clone(self.device, NULL, NULL, &out, NULL), TENON_ARG);
    ck_assert_int_eq(attend->clone(self.device, NULL, cache, NULL, NULL), TENON_ARG);
}
END_TEST

/* Rounding to binary16 against decoding: each half comes back, and everything between two goes to
 * the nearer one, ties to the even. */
START_TEST(rounding_to_binary16)
{
    uint32_t half, bits;

    for (half = 0; half < 0x10000; half++) {
        float value = reference_f16((uint16_t)half), next, middle;
        if (isnan(value)) {
            ck_assert(isnan(reference_f16(reference_f16_round(value))));
            continue;
        }
        ck_assert_uint_eq(reference_f16_round(value), half);
        if ((half & 0x7fff) >= 0x7bff) continue;
        next = reference_f16((uint16_t)(half + 1));
        middle = value + (next - value) / 2.0f; /* exact */
        bits = bits_of(middle);
        ck_assert_uint_eq(reference_f16_round(middle), half % 2 == 0 ? half : half + 1);
        ck_assert_uint_eq(reference_f16_round(float_of(bits - 1)), half);
        ck_assert_uint_eq(reference_f16_round(float_of(bits + 1)), half + 1);
    }
    ck_assert_uint_eq(reference_f16_round(0x1.ffdffep15f), 0x7bff);
    ck_assert_uint_eq(reference_f16_round(65520.0f), 0x7c00); /* a tie: infinity is the even one */
    ck_assert_uint_eq(reference_f16_round(-3e38f), 0xfc00);
    ck_assert_uint_eq(reference_f16_round(-INFINITY), 0xfc00);
    ck_assert_uint_eq(reference_f16_round(0x1p-149f), 0);
    ck_assert_uint_eq(reference_f16_round(-0x1p-149f), 0x8000);
    ck_assert_uint_eq(reference_f16_round(0x1p-25f), 0);
    ck_assert_uint_eq(reference_f16_round(0x1.000002p-25f), 1);
}
END_TEST

static void take_module(const char *path)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (module == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(EXIT_FAILURE);
    }
    provider_v1 = dlsym(module, "provider_v1");
    qmatmul_v1 = dlsym(module, "qmatmul_v1");
    embed_v1 = dlsym(module, "embed_v1");
    rmsnorm_v1 = dlsym(module, "rmsnorm_v1");
    gated_v1 = dlsym(module, "gated_v1");
    add_v1 = dlsym(module, "add_v1");
    argmax_v1 = dlsym(module, "argmax_v1");
    attention_v1 = dlsym(module, "attention_v1");
}

int main(int argc, char **argv)
{
    Suite *suite = suite_create("operations_refuse");
    TCase *tcase = tcase_create("operations_refuse");
    if (argc > 1) take_module(argv[1]);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open_fixture, close_fixture);
    tcase_add_test(tcase, embed_refuses);
    tcase_add_test(tcase, embed_gives_nan);
    tcase_add_test(tcase, rmsnorm_refuses);
    tcase_add_test(tcase, gated_refuses);
    tcase_add_test(tcase, add_refuses);
    tcase_add_test(tcase, argmax_refuses);
    tcase_add_test(tcase, append_refuses);
    tcase_add_test(tcase, attention_refuses);
    tcase_add_test(tcase, caches_that_cannot_be);
    tcase_add_test(tcase, null_pointers_of_the_small_calls);
    tcase_add_test(tcase, rounding_to_binary16);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
