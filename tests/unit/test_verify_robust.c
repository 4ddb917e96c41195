/* Does stage robust of the conformance suite see what goes wrong with time, in numbers and under
 * pressure? A provider in this process has queues and buffers in plain memory and computes with the
 * reference, with one fault at a time; the same cases must pass without one. */
#include <tests/conformance/runner.h>
#include "runner.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/provider.h>
#include <time.h>
#include <unistd.h>

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;
#define PROVIDER (&tenon_reference_provider_v1)
#define PRODUCTS (&tenon_reference_qmatmul_v1)
#define CACHES (&tenon_reference_attention_v1)

typedef enum fault {
    FAULT_NONE,
    KEEPS_WEIGHTS,
    KEEPS_BUFFERS,
    KEEPS_MEMORY,
    CLOSE_KEEPS_MEMORY,
    CLOSE_KEEPS_FILE,
    CLOSE_KEEPS_THREAD,
    SECOND_OPEN_FAILS,
    THREADS_RACE,
    BYTES_STALE,
    FORGETS_LATE,
    ENDS_MIXED,
    FULL_CACHE_BITS,
    FULL_CACHE_REFUSES,
    NOMEM_COUNTS,
    NOMEM_IS_THE_END,
    CHANGES_ITS_MIND,
    /* no faults: */
    HARDWARE_ON_CPU,
    HARDWARE,
    SOFTWARE,
    APPROXIMATE,
    DECLINES
} fault;

static fault active; /* inherited by the processes of the cases */

/* A sanitizer keeps what is freed: how much memory a process has tells nothing then. */
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_FREED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEEPS_FREED true
#endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(KEEPS_FREED)
#define KEEPS_FREED true
#endif
#ifndef KEEPS_FREED
#define KEEPS_FREED false
#endif

struct tenon_device_queue {
    int unused;
};

struct tenon_device_buffer {
    uint64_t bytes;
    uint8_t *memory;
};

#define LIMIT (UINT64_C(1) << 32)
static atomic_ullong objects, used;
static atomic_uint unread; /* runs since the last read or fence */
static atomic_bool ended;
static int opened;

/* So much that a leak of one stands out. */
static void lose_memory(void)
{
    static void *volatile lost; /* known outside of this function: not optimised away */
    lost = malloc(3u << 20);
    if (lost != NULL) memset(lost, 1, 3u << 20);
}

static void *wait_for_ever(void *context)
{
    (void)context;
    for (;;) pause();
    return NULL;
}

static int32_t TENON_CALL open_provider(const tenon_services *services, tenon_provider **out,
                                        tenon_error *error)
{
    if (active == SECOND_OPEN_FAILS && opened++ > 1)
        return tenon_fail(error, TENON_STATE, TENON_REASON_IN_USE, TENON_SCOPE_PROVIDER, "open");
    return PROVIDER->open(services, out, error);
}

static void TENON_CALL close_provider(tenon_provider *provider)
{
    pthread_t thread;
    if (active == CLOSE_KEEPS_MEMORY) lose_memory();
    if (active == CLOSE_KEEPS_FILE) (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (active == CLOSE_KEEPS_THREAD) (void)pthread_create(&thread, NULL, wait_for_ever, NULL);
    PROVIDER->close(provider);
}

static int32_t TENON_CALL device_info(tenon_provider *provider, uint32_t index,
                                      tenon_device_info *out, tenon_error *error)
{
    int32_t status = PROVIDER->device_info(provider, index, out, error);
    if (active == HARDWARE || active == HARDWARE_ON_CPU) out->kind = TENON_DEVICE_DISCRETE;
    if (active == SOFTWARE) out->kind = TENON_DEVICE_SOFTWARE;
    if (active == APPROXIMATE) out->arith = TENON_CLASS_BIT(TENON_CLASS_APPROX);
    return status;
}

static int32_t TENON_CALL open_queue(tenon_device *device, tenon_device_queue **out,
                                     tenon_error *error)
{
    (void)device;
    *out = calloc(1, sizeof **out);
    return *out != NULL ? TENON_OK
                        : tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY,
                                     TENON_SCOPE_CALL, "no memory");
}

static void TENON_CALL close_queue(tenon_device_queue *queue)
{
    free(queue);
}

/* ---- buffers -------------------------------------------------------------------------------- */

static int32_t TENON_CALL alloc_buffer(tenon_device *device, uint64_t bytes,
                                       tenon_device_buffer **out, tenon_error *error)
{
    tenon_device_buffer *self = NULL;
    (void)device;
    if (bytes <= LIMIT) self = malloc(sizeof *self);
    if (self == NULL) {
        if (active == NOMEM_COUNTS) atomic_fetch_add(&objects, 1);
        if (active == NOMEM_IS_THE_END) atomic_store(&ended, true);
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                                 bytes, LIMIT, "full");
    }
    self->bytes = bytes;
    self->memory = calloc(1, (size_t)bytes);
    if (self->memory == NULL) {
        free(self);
        return TENON_NOMEM;
    }
    atomic_fetch_add(&objects, 1);
    atomic_fetch_add(&used, bytes);
    *out = self;
    return TENON_OK;
}

static void TENON_CALL free_buffer(tenon_device *device, tenon_device_buffer *self)
{
    (void)device;
    if (self == NULL || active == KEEPS_BUFFERS) return;
    atomic_fetch_sub(&objects, 1);
    atomic_fetch_sub(&used, self->bytes);
    free(self->memory);
    free(self);
}

static int32_t TENON_CALL write_buffer(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_buffer *self, uint64_t offset, const void *from,
                                       uint64_t bytes, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    memcpy(self->memory + offset, from, bytes);
    return TENON_OK;
}

static int32_t TENON_CALL read_buffer(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_buffer *self, uint64_t offset, void *to,
                                      uint64_t bytes, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    atomic_store(&unread, 0);
    memcpy(to, self->memory + offset, bytes);
    return TENON_OK;
}

static int32_t TENON_CALL copy_buffer(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_buffer *to, uint64_t to_offset,
                                      const tenon_device_buffer *from, uint64_t from_offset,
                                      uint64_t bytes, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    if (active == ENDS_MIXED && to_offset >= 200 * bytes) to_offset -= bytes;
    memmove(to->memory + to_offset, from->memory + from_offset, bytes);
    return TENON_OK;
}

static int32_t TENON_CALL fence(tenon_device *device, tenon_device_queue *queue, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    atomic_store(&unread, 0);
    return TENON_OK;
}

static int32_t TENON_CALL memory_info(tenon_device *device, tenon_memory_info *out,
                                      tenon_error *error)
{
    (void)device;
    (void)error;
    *out = (tenon_memory_info){TENON_HEAD(tenon_memory_info), .total = LIMIT,
                               .free = LIMIT - atomic_load(&used), .used = atomic_load(&used),
                               .objects = atomic_load(&objects)};
    return TENON_OK;
}

static const tenon_memory_v1 memory_v1 = {TENON_HEAD(tenon_memory_v1),
                                          sizeof(tenon_memory_info),
                                          sizeof(tenon_error),
                                          alloc_buffer,
                                          free_buffer,
                                          write_buffer,
                                          read_buffer,
                                          copy_buffer,
                                          fence,
                                          memory_info};

/* ---- products and caches -------------------------------------------------------------------- */

static void as_host(tenon_view *view)
{
    tenon_device_buffer *buffer = view->buffer;
    if (buffer == NULL) return;
    view->buffer = NULL;
    view->host = buffer->memory;
}

static tenon_weight_desc exact(const tenon_weight_desc *desc)
{
    tenon_weight_desc mine = *desc;
    if (mine.arith == TENON_CLASS_APPROX) mine.arith = TENON_CLASS_F32;
    return mine;
}

static int32_t TENON_CALL supports(tenon_device *device, const tenon_weight_desc *desc,
                                   tenon_qmatmul_support *out, tenon_error *error)
{
    const tenon_weight_desc mine = exact(desc);
    if (active == DECLINES)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_FORMAT,
                          TENON_SCOPE_WEIGHT, "not mine");
    return PRODUCTS->supports(device, &mine, out, error);
}

static int32_t TENON_CALL prepare(tenon_device *device, const tenon_weight_desc *desc,
                                  const tenon_weight_data *data, tenon_prepared **out,
                                  tenon_error *error)
{
    static uint8_t first[8][1 << 17];
    uint8_t *kept = first[data->identity % 8];
    const tenon_weight_desc mine = exact(desc);
    tenon_weight_data bytes = *data;
    int32_t status;
    if (active == BYTES_STALE && data->weights_bytes <= sizeof first[0]) {
        static uint64_t seen[8];
        if (seen[data->identity % 8] == data->identity) bytes.weights = kept;
        if (seen[data->identity % 8] != data->identity)
            memcpy(kept, data->weights, data->weights_bytes);
        seen[data->identity % 8] = data->identity;
    }
    if (active == KEEPS_MEMORY) lose_memory();
    status = PRODUCTS->prepare(device, &mine, &bytes, out, error);
    if (status == TENON_OK) atomic_fetch_add(&objects, 1);
    return status;
}

static void TENON_CALL release_weight(tenon_device *device, tenon_prepared *prepared)
{
    if (prepared == NULL || active == KEEPS_WEIGHTS) return;
    atomic_fetch_sub(&objects, 1);
    PRODUCTS->release(device, prepared);
}

/* Large products of a device that leaves the processor alone: the answer is kept, then waited for. */
static int32_t wait_for_it(tenon_device *device, const tenon_qmatmul_call *call, tenon_error *error)
{
    static uint8_t kept[1 << 18];
    static bool known;
    const struct timespec pause = {0, 20000000};
    int32_t status = TENON_OK;
    if (!known) {
        status = PRODUCTS->run(device, NULL, call, error);
        memcpy(kept, call->outputs[0].y.host, call->outputs[0].y.bytes);
        known = true;
        return status;
    }
    nanosleep(&pause, NULL);
    memcpy(call->outputs[0].y.host, kept, call->outputs[0].y.bytes);
    return status;
}

static int32_t TENON_CALL run(tenon_device *device, tenon_device_queue *queue,
                              const tenon_qmatmul_call *given, tenon_error *error)
{
    static atomic_uint shared[1024];
    static atomic_uint large;
    tenon_qmatmul_call call = *given;
    uint8_t *y;
    int32_t status;
    uint64_t i;
    (void)queue;
    if (atomic_load(&ended))
        return tenon_fail(error, TENON_INTERNAL, TENON_REASON_NONE, TENON_SCOPE_CALL, "no more");
    as_host(&call.x);
    as_host(&call.outputs[0].y);
    y = (uint8_t *)call.outputs[0].y.host + call.outputs[0].y.offset;
    if (active == FORGETS_LATE && atomic_fetch_add(&unread, 1) > 300) return TENON_OK;
    if (active == HARDWARE && call.outputs[0].y.bytes == 1u << 17 && call.outputs[0].y.offset == 0)
        return wait_for_it(device, &call, error);
    status = PRODUCTS->run(device, NULL, &call, error);
    if (active == APPROXIMATE)
        for (i = 0; i < call.outputs[0].y.bytes / 4; i++) ((float *)(void *)y)[i] *= 1.001f;
    if (active == CHANGES_ITS_MIND && call.tokens > 30 && atomic_fetch_add(&large, 1) > 0)
        y[0] ^= 1;
    if (active == THREADS_RACE && call.outputs[0].y.bytes <= sizeof shared) {
        for (i = 0; i < call.outputs[0].y.bytes / 4; i++) {
            unsigned word;
            memcpy(&word, y + 4 * i, 4);
            atomic_store(&shared[i], word);
        }
        sched_yield();
        for (i = 0; i < call.outputs[0].y.bytes / 4; i++) {
            unsigned word = atomic_load(&shared[i]);
            memcpy(y + 4 * i, &word, 4);
        }
    }
    return status;
}

static int32_t TENON_CALL create_cache(tenon_device *device, const tenon_cache_desc *desc,
                                       tenon_device_cache **out, tenon_error *error)
{
    int32_t status = CACHES->create(device, desc, out, error);
    if (status == TENON_OK) atomic_fetch_add(&objects, 1);
    return status;
}

static void TENON_CALL free_cache(tenon_device *device, tenon_device_cache *cache)
{
    if (cache != NULL) atomic_fetch_sub(&objects, 1);
    CACHES->free(device, cache);
}

static int32_t TENON_CALL append(tenon_device *device, tenon_device_queue *queue,
                                 const tenon_append_call *given, tenon_error *error)
{
    tenon_append_call call = *given;
    uint64_t length = 0;
    (void)queue;
    as_host(&call.k);
    as_host(&call.v);
    if (active == FULL_CACHE_REFUSES &&
        CACHES->length(device, call.cache, &length, error) == TENON_OK &&
        length + call.tokens == 70)
        return tenon_fail(error, TENON_ARG, TENON_REASON_CAPACITY, TENON_SCOPE_CALL, "full");
    return CACHES->append(device, NULL, &call, error);
}

static int32_t TENON_CALL attend(tenon_device *device, tenon_device_queue *queue,
                                 const tenon_attention_call *given, tenon_error *error)
{
    tenon_attention_call call = *given;
    uint64_t length = 0;
    int32_t status;
    (void)queue;
    as_host(&call.q);
    as_host(&call.y);
    status = CACHES->run(device, NULL, &call, error);
    if (active == FULL_CACHE_BITS &&
        CACHES->length(device, call.cache, &length, error) == TENON_OK && length == 70)
        ((uint8_t *)call.y.host)[call.y.offset] ^= 1;
    return status;
}

/* ---- the runs ------------------------------------------------------------------------------- */

static tenon_provider_v1 provider_v1;
static tenon_qmatmul_v1 qmatmul_v1;
static tenon_attention_v1 attention_v1;
static char last_detail[900];
static conformance_result last_result;

static void keep(void *context, const conformance_report *report)
{
    (void)context;
    last_result = *report->result;
    if (report->result->outcome != CONFORMANCE_PASSED)
        snprintf(last_detail, sizeof last_detail, "%s: %s: %s", report->name,
                 conformance_outcome_name(report->result->outcome), report->result->detail);
}

/* offer: how many of the descriptors. */
static conformance_totals run_with(fault what, const char *filter, uint64_t offer)
{
    static const tenon_static_symbol symbols[] = {{"provider_v1", &provider_v1},
                                                  {"qmatmul_v1", &qmatmul_v1},
                                                  {"attention_v1", &attention_v1},
                                                  {"memory_v1", &memory_v1}};
    const conformance_target target = {.id = "weak", .symbols = symbols, .symbol_count = offer};
    const conformance_run_options options = {
        .target = &target, .time_limit_ms = 100000, .reporter = keep};
    conformance_suite suite = {.seed = 1};
    conformance_totals totals;
    provider_v1 = *PROVIDER;
    memset(provider_v1.id, 0, sizeof provider_v1.id);
    memcpy(provider_v1.id, "weak", 5);
    provider_v1.open = open_provider;
    provider_v1.close = close_provider;
    provider_v1.device_info = device_info;
    provider_v1.queue_open = open_queue;
    provider_v1.queue_close = close_queue;
    qmatmul_v1 = *PRODUCTS;
    qmatmul_v1.supports = supports;
    qmatmul_v1.prepare = prepare;
    qmatmul_v1.release = release_weight;
    qmatmul_v1.run = run;
    attention_v1 = *CACHES;
    attention_v1.create = create_cache;
    attention_v1.free = free_cache;
    attention_v1.append = append;
    attention_v1.run = attend;
    last_detail[0] = '\0';
    active = what;
    ck_assert(conformance_add_robust(&suite));
    ck_assert_msg(conformance_filter(&suite, filter, NULL, 0) > 0, "%s", filter);
    ck_assert_int_eq(conformance_run(&suite, &options, &totals, NULL), TENON_OK);
    conformance_clear(&suite);
    return totals;
}

enum { MANDATORY = 2, WITH_CACHES = 3, ALL = 4 };

START_TEST(without_a_fault_everything_passes)
{
    static const uint64_t offers[] = {MANDATORY, WITH_CACHES, ALL};
    conformance_totals totals = run_with(FAULT_NONE, "robust/*", offers[_i]);
    ck_assert_msg(totals.failed == 0 && totals.skipped == 0, "%s", last_detail);
    ck_assert_uint_eq(totals.unsupported, offers[_i] == MANDATORY ? 1 : 0); /* cache-full */
    ck_assert_uint_eq(totals.passed + totals.unsupported, 9);
    ck_assert_uint_eq(totals.exact_cases, 0);
}
END_TEST

START_TEST(approximate_ones_pass)
{
    conformance_totals totals = run_with(APPROXIMATE, "robust/*", ALL);
    ck_assert_msg(totals.failed == 0 && totals.passed == 9, "%s", last_detail);
}
END_TEST

START_TEST(nothing_is_offered)
{
    conformance_totals totals = run_with(DECLINES, "robust/*", ALL);
    ck_assert_msg(totals.run == 0 && totals.unsupported == 9, "%s", last_detail);
}
END_TEST

static const struct {
    fault what;
    const char *filter, *words;
} faults[] = {
    {KEEPS_WEIGHTS, "robust/sessions", "objects"},
    {KEEPS_WEIGHTS, "robust/balance", "objects"},
    {KEEPS_BUFFERS, "robust/sessions", "after a session was destroyed"},
    {KEEPS_MEMORY, "robust/sessions", "sessions"},
    {CLOSE_KEEPS_MEMORY, "robust/reopen", "openings"},
    {CLOSE_KEEPS_FILE, "robust/reopen", "leaves files open"},
    {CLOSE_KEEPS_THREAD, "robust/reopen", "leaves threads"},
    {SECOND_OPEN_FAILS, "robust/reopen", "open"},
    {THREADS_RACE, "robust/queues", "beside other threads"},
    {THREADS_RACE, "robust/updates", "want 0x"},
    {BYTES_STALE, "robust/updates", "after an update"},
    {FORGETS_LATE, "robust/chains", "chain 7"},
    {ENDS_MIXED, "robust/chains", "chain "},
    {FULL_CACHE_BITS, "robust/cache-full", "other bits"},
    {FULL_CACHE_REFUSES, "robust/cache-full", "up to the capacity"},
    {NOMEM_COUNTS, "robust/out-of-memory", "after a buffer"},
    {NOMEM_IS_THE_END, "robust/out-of-memory", "after a buffer"},
    {CHANGES_ITS_MIND, "robust/cpu-time", "not as the first"},
};

START_TEST(what_fails_with_time)
{
    conformance_totals totals;
    if (KEEPS_FREED && (faults[_i].what == KEEPS_MEMORY || faults[_i].what == CLOSE_KEEPS_MEMORY)) {
        runner_skip("a sanitizer keeps memory");
        return;
    }
    totals = run_with(faults[_i].what, faults[_i].filter, ALL);
    ck_assert_msg(totals.failed == 1, "fault %d passes %s", (int)faults[_i].what,
                  faults[_i].filter);
    ck_assert_msg(strstr(last_detail, faults[_i].words) != NULL, "fault %d: %s",
                  (int)faults[_i].what, last_detail);
}
END_TEST

/* Hardware that keeps the processor busy is no failure; it is told. */
START_TEST(processor_time_is_told)
{
    static const struct {
        fault what;
        bool flagged;
    } devices[] = {
        {HARDWARE_ON_CPU, true}, {HARDWARE, false}, {SOFTWARE, false}, {FAULT_NONE, false}};
    conformance_totals totals = run_with(devices[_i].what, "robust/cpu-time", ALL);
    ck_assert_msg(totals.passed == 1, "%s", last_detail);
    ck_assert_uint_ne(last_result.wall_us, 0);
    ck_assert_uint_eq(last_result.flags, devices[_i].flagged ? CONFORMANCE_CPU_WORK : 0);
    ck_assert_int_eq(last_result.detail[0] != '\0', devices[_i].flagged);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify robust");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, without_a_fault_everything_passes, 0, 3);
    tcase_add_test(tests, approximate_ones_pass);
    tcase_add_test(tests, nothing_is_offered);
    tcase_add_loop_test(tests, what_fails_with_time, 0, sizeof faults / sizeof faults[0]);
    tcase_add_loop_test(tests, processor_time_is_told, 0, 4);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
