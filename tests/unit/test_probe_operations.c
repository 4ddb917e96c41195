/* Does the self-test of tenon-probe see faults of the optional descriptors? The reference stands in
 * for a provider, with one fault at a time. */
#include <loader/probe_target.h>
#include "runner.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

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
    DECLINES,
    NO_MEMORY,
    ONE_BIT,
    BEHIND_Y,
    INPUT,
    FAILS,
    NONSENSE,
    RESERVED,
    RESERVED_WRITTEN,
    BEHIND_CALL,
    BEHIND_ERROR,
    ROUNDS_UP,
    EMBED_CLAMPS,
    EMBED_REFUSES,
    CACHE_NULL,
    CACHE_SHORT,
    CACHE_BYTES,
    MEMORY_INFO,
    MEMORY_BEHIND,
    MEMORY_ALIKE,
    MEMORY_WRITE,
    MEMORY_COPY,
    MEMORY_READ,
    MEMORY_FENCE,
    MEMORY_FREE
} fault;
static fault active;
static uint64_t calls, made, freed;

/* What any run may do wrong: before, and to its result of some bytes. */
static bool ends(const tenon_view *y, void *reserved, void *behind, tenon_error *error,
                 int32_t *status)
{
    calls++;
    if (active == RESERVED) memset(reserved, 0, 16);
    if (active == RESERVED_WRITTEN && ((uint64_t *)reserved)[1] != 0) memset(y->host, 0, 4);
    if (active == BEHIND_CALL) memset(behind, 1, 4);
    if (active == BEHIND_ERROR) memset(error + 1, 1, 4);
    *status = active == DECLINES    ? TENON_DECLINED
              : active == NO_MEMORY ? TENON_NOMEM
              : active == FAILS     ? TENON_INTERNAL
              : active == NONSENSE  ? 77
                                    : TENON_OK;
    return *status != TENON_OK;
}

static void spoil(const tenon_view *y, const tenon_view *input)
{
    uint32_t *words = y->host;
    if (active == ONE_BIT) words[y->bytes / 4 - 1] ^= 1;
    if (active == BEHIND_Y) words[y->bytes / 4] ^= 1;
    if (active == INPUT) ((uint32_t *)input->host)[0] ^= 1;
    if (active == ROUNDS_UP) fesetround(FE_UPWARD);
}

#define PASS_ON(name, reserved, input) \
    static int32_t TENON_CALL run_##name(tenon_device *device, tenon_device_queue *queue, \
                                         const tenon_##name##_call *given, tenon_error *error) \
    { \
        tenon_##name##_call call = *given; \
        int32_t status; \
        if (ends(&call.y, call.reserved, (void *)(uintptr_t)(given + 1), error, &status)) \
            return status; \
        change_##name(&call); \
        status = tenon_reference_##name##_v1.run(device, queue, &call, error); \
        if (status == TENON_OK) spoil(&call.y, &call.input); \
        return status; \
    } \
    static const tenon_##name##_v1 name##_v1 = {TENON_HEAD(tenon_##name##_v1), \
                                                sizeof(tenon_##name##_call), sizeof(tenon_error), \
                                                run_##name};
#define change_rmsnorm(call) (void)0
#define change_gated(call) (void)0
#define change_add(call) (void)0
#define change_argmax(call) (void)0
static void clamp_ids(tenon_embed_call *call)
{
    static uint32_t ids[8];
    uint64_t i;
    if (active != EMBED_CLAMPS) return;
    for (i = 0; i < call->tokens; i++) {
        ids[i] = ((const uint32_t *)call->ids.host)[i];
        if (ids[i] > 3) ids[i] = 3;
    }
    call->ids.host = ids;
}
#define change_embed(call) \
    if (active == EMBED_REFUSES) return TENON_ARG; \
    clamp_ids(call)
PASS_ON(embed, reserved1, ids)
PASS_ON(rmsnorm, reserved1, x)
PASS_ON(gated, reserved1, gate)
PASS_ON(add, reserved0, a)
PASS_ON(argmax, reserved0, x)

static int32_t TENON_CALL run_attention(tenon_device *device, tenon_device_queue *queue,
                                        const tenon_attention_call *given, tenon_error *error)
{
    tenon_attention_call call = *given;
    int32_t status;
    if (ends(&call.y, call.reserved1, (void *)(uintptr_t)(given + 1), error, &status))
        return status;
    status = tenon_reference_attention_v1.run(device, queue, &call, error);
    if (status == TENON_OK) spoil(&call.y, &(tenon_view){.host = (float *)call.q.host - 40});
    return status;
}

static int32_t TENON_CALL create(tenon_device *device, const tenon_cache_desc *desc,
                                 tenon_device_cache **out, tenon_error *error)
{
    if (active == CACHE_NULL) return TENON_OK;
    made++;
    return tenon_reference_attention_v1.create(device, desc, out, error);
}

static void TENON_CALL free_cache(tenon_device *device, tenon_device_cache *cache)
{
    freed += cache != NULL;
    tenon_reference_attention_v1.free(device, cache);
}

static int32_t TENON_CALL length(tenon_device *device, const tenon_device_cache *cache,
                                 uint64_t *out, tenon_error *error)
{
    int32_t status = tenon_reference_attention_v1.length(device, cache, out, error);
    if (active == CACHE_SHORT) --*out;
    return status;
}

static int32_t TENON_CALL bytes(tenon_device *device, const tenon_device_cache *cache,
                                uint64_t *out, tenon_error *error)
{
    int32_t status = tenon_reference_attention_v1.bytes(device, cache, out, error);
    if (active == CACHE_BYTES) *out = 0;
    return status;
}

/* Memory of 64-byte blocks with their size in front. */
struct tenon_device_buffer {
    uint64_t bytes;
    uint8_t memory[1024];
};
static uint64_t objects;

static int32_t TENON_CALL alloc(tenon_device *device, uint64_t count, tenon_device_buffer **out,
                                tenon_error *error)
{
    static tenon_device_buffer one;
    (void)device;
    (void)error;
    if (active == NO_MEMORY) return TENON_NOMEM;
    if (active == MEMORY_ALIKE) {
        *out = &one;
        return TENON_OK;
    }
    *out = calloc(1, sizeof **out);
    ck_assert(*out != NULL && count <= sizeof(*out)->memory);
    objects++;
    return TENON_OK;
}

static void TENON_CALL release_buffer(tenon_device *device, tenon_device_buffer *buffer)
{
    (void)device;
    if (buffer == NULL || active == MEMORY_ALIKE) return;
    if (active != MEMORY_FREE) objects--;
    free(buffer);
}

static int32_t TENON_CALL write_buffer(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_buffer *buffer, uint64_t offset,
                                       const void *from, uint64_t count, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    memcpy(buffer->memory + offset, from, active == MEMORY_WRITE ? count - 4 : count);
    return TENON_OK;
}

static int32_t TENON_CALL read_buffer(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_buffer *buffer, uint64_t offset, void *to,
                                      uint64_t count, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    memcpy(to, buffer->memory + (active == MEMORY_READ ? 0 : offset), count);
    return TENON_OK;
}

static int32_t TENON_CALL copy_buffer(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_buffer *to, uint64_t to_offset,
                                      const tenon_device_buffer *from, uint64_t from_offset,
                                      uint64_t count, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    if (active != MEMORY_COPY) memcpy(to->memory + to_offset, from->memory + from_offset, count);
    return TENON_OK;
}

static int32_t TENON_CALL fence(tenon_device *device, tenon_device_queue *queue, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    return active == MEMORY_FENCE ? TENON_LOST : TENON_OK;
}

static int32_t TENON_CALL info(tenon_device *device, tenon_memory_info *out, tenon_error *error)
{
    (void)device;
    (void)error;
    *out = (tenon_memory_info){TENON_HEAD(tenon_memory_info), .objects = objects};
    if (active == MEMORY_BEHIND) memset(out + 1, 1, 4);
    return active == MEMORY_INFO ? TENON_STATE : TENON_OK;
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void TENON_CALL say(void *host, uint32_t level, const char *text)
{
    (void)host;
    (void)level;
    (void)text;
}
static void TENON_CALL loop(void *host, uint64_t count, tenon_parallel_body body, void *context)
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
static const char *TENON_CALL no_value(void *host, const char *key)
{
    (void)host;
    (void)key;
    return NULL;
}

static loader_fault found;
static uint64_t tested;

/* The self-test over a provider that offers these rows of symbols.def, with a fault. */
static void test_with(fault what, uint32_t offered)
{
    const tenon_services services = {
        TENON_HEAD(tenon_services), NULL, say, loop, one_worker, no_value};
    const loader_module reference_module = {.provider = tenon_reference_provider_v1,
                                            .qmatmul = tenon_reference_qmatmul_v1,
                                            .embed = tenon_reference_embed_v1,
                                            .rmsnorm = tenon_reference_rmsnorm_v1,
                                            .attention = tenon_reference_attention_v1,
                                            .gated = tenon_reference_gated_v1,
                                            .add = tenon_reference_add_v1,
                                            .argmax = tenon_reference_argmax_v1};
    loader_module module = {.offered = offered,
                            .provider = tenon_reference_provider_v1,
                            .qmatmul = tenon_reference_qmatmul_v1,
                            .embed = embed_v1,
                            .rmsnorm = rmsnorm_v1,
                            .attention = tenon_reference_attention_v1,
                            .gated = gated_v1,
                            .add = add_v1,
                            .argmax = argmax_v1,
                            .memory = {TENON_HEAD(tenon_memory_v1), sizeof(tenon_memory_info),
                                       sizeof(tenon_error), alloc, release_buffer, write_buffer,
                                       read_buffer, copy_buffer, fence, info}};
    static probe_target target, reference;
    tenon_error error;
    module.attention.create = create;
    module.attention.free = free_cache;
    module.attention.run = run_attention;
    module.attention.length = length;
    module.attention.bytes = bytes;
    memset(&target, 0, sizeof target);
    memset(&reference, 0, sizeof reference);
    memset(&found, 0, sizeof found);
    target.module = &module;
    reference.module = &reference_module;
    active = what;
    tested = calls = made = freed = objects = 0;
    ck_assert_int_eq(probe_open(&target, &services, &error), TENON_OK);
    ck_assert_int_eq(probe_open(&reference, &services, &error), TENON_OK);
    ck_assert_int_eq(probe_device_open(&target, 0, &error), TENON_OK);
    ck_assert_int_eq(probe_device_open(&reference, 0, &error), TENON_OK);
    probe_operations_test(&target, &reference, &tested, &found);
    fesetround(FE_TONEAREST);
    probe_close(&target);
    probe_close(&reference);
    ck_assert_uint_eq(made, freed);
}

#define BIT(name) (1u << SYMBOL_##name##_v1)
static const uint32_t rows[] = {BIT(embed), BIT(rmsnorm), BIT(attention),
                                BIT(gated), BIT(add),     BIT(argmax)};
#define ROWS (sizeof rows / sizeof rows[0])

START_TEST(without_a_fault)
{
    test_with(FAULT_NONE, UINT32_MAX);
    ck_assert_msg(found.reason == 0, "%s: %s, %s", found.symbol, found.have, found.text);
    ck_assert_uint_eq(tested, ROWS + 1);
    test_with(FAULT_NONE, 0);
    ck_assert_uint_eq(found.reason, 0);
    ck_assert_uint_eq(tested + calls, 0);
    test_with(DECLINES, UINT32_MAX & ~BIT(memory));
    ck_assert_uint_eq(found.reason, 0);
    ck_assert_uint_eq(tested, 0);
    ck_assert_uint_gt(calls, 0);
    test_with(NO_MEMORY, UINT32_MAX);
    ck_assert_uint_eq(found.reason, 0);
}
END_TEST

START_TEST(of_every_operation)
{
    static const struct {
        fault what;
        const char *words;
    } faults[] = {{ONE_BIT, "0x"},
                  {BEHIND_Y, "behind y"},
                  {INPUT, "input was changed"},
                  {FAILS, "status -9"},
                  {NONSENSE, "status 77"},
                  {RESERVED, "reserved field"},
                  {RESERVED_WRITTEN, "writes y"},
                  {BEHIND_CALL, "behind a struct"},
                  {BEHIND_ERROR, "behind a struct"}};
    size_t i;
    for (i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (faults[i].what == INPUT && rows[_i] == BIT(embed)) continue; /* ids are not watched */
        test_with(faults[i].what, rows[_i]);
        ck_assert_msg(found.reason == TENON_REASON_PROBE_SELF_TEST, "fault %d: %u, %s",
                      (int)faults[i].what, found.reason, found.have);
        ck_assert_msg(strstr(found.have, faults[i].words) != NULL, "fault %d: %s",
                      (int)faults[i].what, found.have);
    }
    test_with(ROUNDS_UP, rows[_i]);
    ck_assert_uint_eq(found.reason, TENON_REASON_PROBE_FP_ENVIRONMENT);
}
END_TEST

START_TEST(of_one_operation)
{
    static const struct {
        fault what;
        const char *symbol;
    } faults[] = {{EMBED_CLAMPS, "embed_v1.run"},    {EMBED_REFUSES, "embed_v1.run"},
                  {CACHE_NULL, "attention_v1.run"},  {CACHE_SHORT, "attention_v1.run"},
                  {CACHE_BYTES, "attention_v1.run"}, {MEMORY_INFO, "memory_v1.info"},
                  {MEMORY_BEHIND, "memory_v1.info"}, {MEMORY_ALIKE, "memory_v1.alloc"},
                  {MEMORY_WRITE, "memory_v1.read"},  {MEMORY_COPY, "memory_v1.read"},
                  {MEMORY_READ, "memory_v1.read"},   {MEMORY_FENCE, "memory_v1.fence"},
                  {MEMORY_FREE, "memory_v1.free"}};
    size_t i;
    for (i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        test_with(faults[i].what, UINT32_MAX);
        ck_assert_msg(found.reason == TENON_REASON_PROBE_SELF_TEST, "fault %d: %u",
                      (int)faults[i].what, found.reason);
        ck_assert_str_eq(found.symbol, faults[i].symbol);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe operations");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, without_a_fault);
    tcase_add_loop_test(tests, of_every_operation, 0, ROWS);
    tcase_add_test(tests, of_one_operation);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
