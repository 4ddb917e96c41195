/* Does stage abi of the conformance suite see faults of memory_v1 and of the optional operations at
 * their descriptors? A provider in this process has buffers in plain memory and passes everything on
 * to the reference, with one fault at a time; the same cases must pass without one. */
#include <tests/conformance/runner.h>
#include "runner.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/provider.h>

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
    /* of memory_v1 */
    WRITES_AT_0,
    WRITES_LESS,
    WRITES_LATER,
    READS_AT_0,
    READS_MORE,
    COPIES_NOTHING,
    COPIES_MORE,
    ALLOCS_LESS,
    ALLOCS_ALIKE,
    FREES_NOT,
    FREES_USED_NOT,
    FREE_NEEDS_ONE,
    NOMEM_OTHERWISE,
    NOMEM_WITHOUT_AMOUNTS,
    NOMEM_LEAVES,
    OVERFLOWS,
    INFO_FREE,
    INFO_RESERVED,
    INFO_BEHIND,
    INFO_FORGETS_WEIGHTS,
    FENCE_WAITS_NOT,
    QUEUES_MIX,
    /* of operations over buffers */
    BUFFER_BITS,
    BUFFER_AT_0,
    BUFFER_BESIDE,
    BUFFER_INPUT,
    BUFFER_DECLINED,
    TOKEN_CLAMPED,
    /* of operations */
    RESERVED_TAKEN,
    RESERVED_WRITTEN,
    BUFFER_TAKEN,
    WRITES_NOTHING,
    CHANGES,
    INPUT_WRITTEN,
    ERROR_NEEDED,
    ERROR_BEHIND,
    CALL_BEHIND,
    IDS_REFUSED,
    IDS_REFUSED_LATE,
    IDS_WRAPPED,
    CACHE_LEAKED,
    CACHE_NULL,
    CACHE_FULL_TAKEN,
    CACHE_STIFF_TAKEN,
    CACHE_TRUNCATES_MORE,
    CACHE_EVICTS_MORE
} fault;

static fault active;         /* inherited by the processes of the cases */
static bool buffers_offered; /* else a view of one is nobody's */

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

/* ---- buffers -------------------------------------------------------------------------------- */

struct tenon_device_buffer {
    uint64_t bytes;
    uint8_t *memory;
};

/* Of a fault that leaves work undone: a copy that waits for the next work of its queue. */
struct tenon_device_queue {
    uint8_t *to;
    const uint8_t *from;
    uint64_t bytes;
};

#define LIMIT (UINT64_C(1) << 32)
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t objects, used;
static atomic_uint shared; /* of a fault that mixes up queues */

static void count(int64_t object, int64_t bytes)
{
    pthread_mutex_lock(&lock);
    objects += (uint64_t)object;
    used += (uint64_t)bytes;
    pthread_mutex_unlock(&lock);
}

static void work_off(tenon_device_queue *queue)
{
    if (queue == NULL || queue->to == NULL) return;
    memcpy(queue->to, queue->from, queue->bytes);
    queue->to = NULL;
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

static int32_t TENON_CALL alloc(tenon_device *device, uint64_t bytes, tenon_device_buffer **out,
                                tenon_error *error)
{
    static tenon_device_buffer *last;
    tenon_device_buffer *self;
    uint64_t padded = bytes + 64;
    (void)device;
    if (active == ALLOCS_ALIKE && last != NULL && last->bytes == bytes) {
        *out = last;
        return TENON_OK;
    }
    if (bytes > LIMIT && !(active == OVERFLOWS && padded < LIMIT)) {
        if (active == NOMEM_LEAVES) count(1, 0);
        if (active == NOMEM_WITHOUT_AMOUNTS)
            return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL, "");
        return tenon_fail_amount(error, active == NOMEM_OTHERWISE ? TENON_INTERNAL : TENON_NOMEM,
                                 TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL, bytes, LIMIT,
                                 "full");
    }
    self = malloc(sizeof *self);
    if (self == NULL) return TENON_NOMEM;
    self->bytes = bytes;
    self->memory = calloc(1, (size_t)padded);
    if (self->memory == NULL) {
        free(self);
        return TENON_NOMEM;
    }
    count(1, (int64_t)bytes);
    last = *out = self;
    if (active == ALLOCS_LESS) self->bytes = bytes / 2;
    return TENON_OK;
}

static void TENON_CALL release_buffer(tenon_device *device, tenon_device_buffer *self)
{
    (void)device;
    if (self == NULL) {
        if (active == FREE_NEEDS_ONE) abort();
        return;
    }
    if (active == FREES_NOT) return;
    count(-1, active == FREES_USED_NOT ? 0 : -(int64_t)self->bytes);
    free(self->memory);
    free(self);
}

static int32_t TENON_CALL write_buffer(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_buffer *self, uint64_t offset, const void *from,
                                       uint64_t bytes, tenon_error *error)
{
    (void)device;
    (void)error;
    work_off(queue);
    if (active == WRITES_AT_0) offset = 0;
    if (active == WRITES_LESS && bytes > 4) bytes -= 4;
    if (active == QUEUES_MIX) { /* through memory that all queues share */
        for (; bytes > 0; bytes -= 4, offset += 4, from = (const uint8_t *)from + 4) {
            unsigned word;
            memcpy(&word, from, 4);
            atomic_store(&shared, word);
            sched_yield();
            word = atomic_load(&shared);
            memcpy(self->memory + offset, &word, 4);
        }
        return TENON_OK;
    }
    if (active == WRITES_LATER && queue != NULL)
        *queue = (tenon_device_queue){self->memory + offset, from, bytes};
    else
        memcpy(self->memory + offset, from, bytes);
    return TENON_OK;
}

static int32_t TENON_CALL read_buffer(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_buffer *self, uint64_t offset, void *to,
                                      uint64_t bytes, tenon_error *error)
{
    (void)device;
    (void)error;
    work_off(queue);
    if (active == READS_AT_0) offset = 0;
    memcpy(to, self->memory + offset, active == READS_MORE ? bytes + 4 : bytes);
    return TENON_OK;
}

static int32_t TENON_CALL copy_buffer(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_buffer *to, uint64_t to_offset,
                                      const tenon_device_buffer *from, uint64_t from_offset,
                                      uint64_t bytes, tenon_error *error)
{
    (void)device;
    (void)error;
    work_off(queue);
    if (active == COPIES_NOTHING) return TENON_OK;
    if (active == COPIES_MORE) bytes += 4;
    if (active == FENCE_WAITS_NOT)
        *queue = (tenon_device_queue){to->memory + to_offset, from->memory + from_offset, bytes};
    else
        memmove(to->memory + to_offset, from->memory + from_offset, bytes);
    return TENON_OK;
}

static int32_t TENON_CALL fence(tenon_device *device, tenon_device_queue *queue, tenon_error *error)
{
    (void)device;
    (void)error;
    if (active != FENCE_WAITS_NOT) work_off(queue);
    return TENON_OK;
}

static int32_t TENON_CALL info(tenon_device *device, tenon_memory_info *out, tenon_error *error)
{
    (void)device;
    (void)error;
    pthread_mutex_lock(&lock);
    *out = (tenon_memory_info){TENON_HEAD(tenon_memory_info), .total = LIMIT, .free = LIMIT - used,
                               .used = used, .objects = objects};
    pthread_mutex_unlock(&lock);
    if (active == INFO_FREE) out->free = LIMIT + 1;
    if (active == INFO_RESERVED) out->reserved0[1] = 1;
    if (active == INFO_BEHIND) ((uint32_t *)(void *)(out + 1))[0] = 0;
    return TENON_OK;
}

static const tenon_memory_v1 memory_v1 = {TENON_HEAD(tenon_memory_v1),
                                          sizeof(tenon_memory_info),
                                          sizeof(tenon_error),
                                          alloc,
                                          release_buffer,
                                          write_buffer,
                                          read_buffer,
                                          copy_buffer,
                                          fence,
                                          info};

/* ---- operations ----------------------------------------------------------------------------- */

/* A view for the reference. True: it was a buffer. */
static bool as_host(tenon_view *view)
{
    tenon_device_buffer *buffer = view->buffer;
    if (buffer == NULL || (!buffers_offered && active != BUFFER_TAKEN)) return false;
    view->buffer = NULL;
    if (active == BUFFER_TAKEN) { /* read as what it is not */
        view->host = buffer;
        return true;
    }
    view->host = buffer->memory;
    if (active == BUFFER_AT_0) view->offset = 0;
    return true;
}

/* What is done to a result that is there. y_buffer: it lies in a buffer, input too if input_buffer.
 */
static void spoil(const tenon_view *y, bool y_buffer, const tenon_view *input, bool input_buffer)
{
    static uint32_t calls;
    uint8_t *at = (uint8_t *)y->host + y->offset;
    if (y_buffer && active == BUFFER_BITS) at[0] ^= 1;
    if (y_buffer && active == BUFFER_BESIDE) at[y->bytes] ^= 1;
    if (input_buffer && active == BUFFER_INPUT) ((uint8_t *)input->host + input->offset)[0] ^= 1;
    if (active == INPUT_WRITTEN) ((uint8_t *)input->host + input->offset)[0] ^= 1;
    if (active == CHANGES && calls++ % 2 == 1) at[0] ^= 1;
}

/* The beginning of every run: true ends it with *status. */
static bool ends(tenon_view *const views[], uint32_t view_count, void *reserved, uint32_t bytes,
                 tenon_error *error, int32_t *status)
{
    static const uint8_t zero[16] = {0};
    const tenon_view *y = views[view_count - 1];
    uint32_t i;
    *status = TENON_OK;
    if (active == ERROR_NEEDED) error->reason = 0;
    if (active == ERROR_BEHIND && error != NULL) memset(error + 1, 0, 4);
    if (active == RESERVED_TAKEN) memset(reserved, 0, bytes);
    if (active == RESERVED_WRITTEN && memcmp(reserved, zero, bytes) != 0)
        memset((uint8_t *)y->host + y->offset, 0, 4);
    if (active == WRITES_NOTHING) return true;
    for (i = 0; i < view_count; i++)
        if (active == BUFFER_DECLINED && views[i]->buffer != NULL) {
            *status = TENON_DECLINED;
            return true;
        }
    return false;
}

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof(list)[0]))

/* A run that passes its copy of the call on. The views in, the view out last. */
#define PASS_ON(function, type, reference, reserved, before, ...) \
    static int32_t TENON_CALL function(tenon_device *device, tenon_device_queue *queue, \
                                       const type *given, tenon_error *error) \
    { \
        type call = *given; \
        tenon_view *const views[] = {__VA_ARGS__}; \
        bool in_buffer[COUNT(views)]; \
        int32_t status; \
        uint32_t i; \
        work_off(queue); \
        if (active == CALL_BEHIND) memset((void *)(uintptr_t)(given + 1), 0, 4); \
        if (ends(views, COUNT(views), &call.reserved, sizeof call.reserved, error, &status)) \
            return status; \
        for (i = 0; i < COUNT(views); i++) in_buffer[i] = as_host(views[i]); \
        before; \
        status = reference(device, NULL, &call, error); \
        if (status == TENON_OK) \
            spoil(views[COUNT(views) - 1], in_buffer[COUNT(views) - 1], views[0], in_buffer[0]); \
        return status; \
    }

/* What the ids of a faulty embed are. */
static uint32_t changed_ids[8];
static int32_t faulty_ids(tenon_embed_call *call, bool in_buffer)
{
    const uint32_t *ids = (const uint32_t *)(void *)((uint8_t *)call->ids.host + call->ids.offset);
    uint64_t i;
    for (i = 0; i < call->tokens && i < COUNT(changed_ids); i++) {
        changed_ids[i] = ids[i];
        if (ids[i] < 33) continue;
        if (active == IDS_REFUSED) return TENON_ARG;
        if (active == IDS_REFUSED_LATE) {
            memset((uint8_t *)call->y.host + call->y.offset, 0, 4);
            return TENON_ARG;
        }
        if (active == IDS_WRAPPED) changed_ids[i] = ids[i] % 33;
        if (active == TOKEN_CLAMPED && in_buffer) changed_ids[i] = 32;
    }
    call->ids.host = changed_ids;
    call->ids.offset = 0;
    return TENON_OK;
}
#define BEFORE_EMBED \
    if (active == IDS_REFUSED || active == IDS_REFUSED_LATE || active == IDS_WRAPPED || \
        active == TOKEN_CLAMPED) { \
        status = faulty_ids(&call, in_buffer[0]); \
        if (status != TENON_OK) return status; \
    }

PASS_ON(run_qmatmul, tenon_qmatmul_call, tenon_reference_qmatmul_v1.run, reserved1, (void)0,
        &call.x, &call.outputs[0].y)
PASS_ON(run_embed, tenon_embed_call, tenon_reference_embed_v1.run, reserved1, BEFORE_EMBED,
        &call.ids, &call.y)
PASS_ON(run_rmsnorm, tenon_rmsnorm_call, tenon_reference_rmsnorm_v1.run, reserved1, (void)0,
        &call.x, &call.w, &call.y)
PASS_ON(run_gated, tenon_gated_call, tenon_reference_gated_v1.run, reserved1, (void)0, &call.gate,
        &call.up, &call.y)
PASS_ON(run_add, tenon_add_call, tenon_reference_add_v1.run, reserved0, (void)0, &call.a, &call.b,
        &call.y)
PASS_ON(run_argmax, tenon_argmax_call, tenon_reference_argmax_v1.run, reserved0, (void)0, &call.x,
        &call.y)
PASS_ON(run_attention, tenon_attention_call, tenon_reference_attention_v1.run, reserved1, (void)0,
        &call.q, &call.y)

static int32_t TENON_CALL append(tenon_device *device, tenon_device_queue *queue,
                                 const tenon_append_call *given, tenon_error *error)
{
    tenon_append_call call = *given;
    int32_t status;
    work_off(queue);
    as_host(&call.k);
    as_host(&call.v);
    if (active == RESERVED_TAKEN) memset(call.reserved0, 0, sizeof call.reserved0);
    status = tenon_reference_attention_v1.append(device, NULL, &call, error);
    return active == CACHE_FULL_TAKEN ? TENON_OK : status;
}

static int32_t TENON_CALL create(tenon_device *device, const tenon_cache_desc *given,
                                 tenon_device_cache **out, tenon_error *error)
{
    tenon_cache_desc desc = *given;
    int32_t status;
    if (active == RESERVED_TAKEN) memset(desc.reserved0, 0, sizeof desc.reserved0);
    if (active == CACHE_STIFF_TAKEN) desc.flags |= TENON_CACHE_EVICTABLE;
    status = tenon_reference_attention_v1.create(device, &desc, out, error);
    if (status == TENON_OK) count(active == INFO_FORGETS_WEIGHTS ? 0 : 1, 0);
    return status;
}

static void TENON_CALL free_cache(tenon_device *device, tenon_device_cache *cache)
{
    if (cache == NULL) return;
    count(active == INFO_FORGETS_WEIGHTS ? 0 : -1, 0);
    if (active == CACHE_LEAKED) return;
    tenon_reference_attention_v1.free(device, cache);
}

static int32_t TENON_CALL truncate_cache(tenon_device *device, tenon_device_queue *queue,
                                         tenon_device_cache *cache, uint64_t length,
                                         tenon_error *error)
{
    int32_t status = tenon_reference_attention_v1.truncate(device, queue, cache, length, error);
    return active == CACHE_TRUNCATES_MORE ? TENON_OK : status;
}

static int32_t TENON_CALL evict(tenon_device *device, tenon_device_queue *queue,
                                tenon_device_cache *cache, uint64_t first, uint64_t positions,
                                tenon_error *error)
{
    int32_t status = tenon_reference_attention_v1.evict(device, queue, cache, first, positions,
                                                        error);
    return active == CACHE_EVICTS_MORE ? TENON_OK : status;
}

static int32_t TENON_CALL clone_cache(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_cache *cache, tenon_device_cache **out,
                                      tenon_error *error)
{
    int32_t status;
    if (active == CACHE_NULL) return TENON_OK;
    status = tenon_reference_attention_v1.clone(device, queue, cache, out, error);
    if (status == TENON_OK) count(active == INFO_FORGETS_WEIGHTS ? 0 : 1, 0);
    return status;
}

static int32_t TENON_CALL prepare(tenon_device *device, const tenon_weight_desc *desc,
                                  const tenon_weight_data *data, tenon_prepared **out,
                                  tenon_error *error)
{
    int32_t status = tenon_reference_qmatmul_v1.prepare(device, desc, data, out, error);
    if (status == TENON_OK) count(active == INFO_FORGETS_WEIGHTS ? 0 : 1, 0);
    return status;
}

static void TENON_CALL release_weight(tenon_device *device, tenon_prepared *prepared)
{
    if (prepared != NULL) count(active == INFO_FORGETS_WEIGHTS ? 0 : -1, 0);
    tenon_reference_qmatmul_v1.release(device, prepared);
}

static tenon_provider_v1 provider_v1;
static tenon_qmatmul_v1 qmatmul_v1;
static tenon_attention_v1 attention_v1;
#define SIMPLE(name) \
    static const tenon_##name##_v1 name##_v1 = {TENON_HEAD(tenon_##name##_v1), \
                                                sizeof(tenon_##name##_call), sizeof(tenon_error), \
                                                run_##name};
SIMPLE(embed)
SIMPLE(rmsnorm)
SIMPLE(gated)
SIMPLE(add)
SIMPLE(argmax)

static void make_descriptors(void)
{
    provider_v1 = tenon_reference_provider_v1;
    memset(provider_v1.id, 0, sizeof provider_v1.id);
    memcpy(provider_v1.id, "faulty", 7);
    provider_v1.queue_open = open_queue;
    provider_v1.queue_close = close_queue;
    qmatmul_v1 = tenon_reference_qmatmul_v1;
    qmatmul_v1.prepare = prepare;
    qmatmul_v1.release = release_weight;
    qmatmul_v1.run = run_qmatmul;
    attention_v1 = tenon_reference_attention_v1;
    attention_v1.create = create;
    attention_v1.free = free_cache;
    attention_v1.append = append;
    attention_v1.run = run_attention;
    attention_v1.truncate = truncate_cache;
    attention_v1.evict = evict;
    attention_v1.clone = clone_cache;
}

/* ---- the runs ------------------------------------------------------------------------------- */

static char last_detail[900];

static void keep(void *context, const conformance_report *report)
{
    (void)context;
    if (report->result->outcome == CONFORMANCE_PASSED) return;
    if (report->result->outcome == CONFORMANCE_UNSUPPORTED && last_detail[0] != '\0') return;
    snprintf(last_detail, sizeof last_detail, "%s: %s: %s", report->name,
             conformance_outcome_name(report->result->outcome), report->result->detail);
}

enum { WITH_MEMORY, WITHOUT_MEMORY, MANDATORY };

/* Runs the cases that match over the faulty provider. */
static conformance_totals run_with(fault what, const char *filter, int offer)
{
    static const tenon_static_symbol symbols[] = {
        {"provider_v1", &provider_v1},   {"qmatmul_v1", &qmatmul_v1}, {"embed_v1", &embed_v1},
        {"rmsnorm_v1", &rmsnorm_v1},     {"gated_v1", &gated_v1},     {"add_v1", &add_v1},
        {"attention_v1", &attention_v1}, {"argmax_v1", &argmax_v1},   {"memory_v1", &memory_v1}};
    const conformance_target target = {.id = "faulty",
                                       .symbols = symbols,
                                       .symbol_count = offer == WITH_MEMORY ? COUNT(symbols)
                                                       : offer == WITHOUT_MEMORY
                                                           ? COUNT(symbols) - 1
                                                           : 2};
    const conformance_run_options options = {
        .target = &target, .time_limit_ms = 100000, .reporter = keep};
    conformance_suite suite = {.seed = 1};
    conformance_totals totals;
    make_descriptors();
    last_detail[0] = '\0';
    active = what;
    buffers_offered = offer == WITH_MEMORY;
    ck_assert(conformance_add_abi(&suite));
    ck_assert_msg(conformance_filter(&suite, filter, NULL, 0) > 0, "%s", filter);
    ck_assert_int_eq(conformance_run(&suite, &options, &totals, NULL), TENON_OK);
    conformance_clear(&suite);
    return totals;
}

static const char *const names[] = {"qmatmul", "embed", "rmsnorm", "attention",
                                    "gated",   "add",   "argmax"};

#define GRAPHS (3 + COUNT(names)) /* abi/graph/...: none is recorded here */

START_TEST(without_a_fault_everything_passes)
{
    conformance_totals totals = run_with(FAULT_NONE, "abi/*", WITH_MEMORY);
    ck_assert_msg(totals.failed == 0 && totals.skipped == 0, "%s", last_detail);
    /* buffers that it did not make: not asked of one that makes some */
    ck_assert_msg(totals.unsupported == COUNT(names) + GRAPHS, "%s", last_detail);
    ck_assert_uint_gt(totals.passed, 30);
    totals = run_with(FAULT_NONE, "abi/*", WITHOUT_MEMORY);
    ck_assert_msg(totals.failed == 0 && totals.skipped == 0, "%s", last_detail);
    ck_assert_uint_eq(totals.unsupported, 5 + COUNT(names) + GRAPHS); /* abi/memory/... */
    totals = run_with(FAULT_NONE, "abi/*", MANDATORY);
    ck_assert_msg(totals.failed == 0 && totals.skipped == 0, "%s", last_detail);
    ck_assert_uint_gt(totals.unsupported, 30);
}
END_TEST

static const struct {
    fault what;
    int offer;
    const char *filter, *words;
} faults[] = {
    {WRITES_AT_0, WITH_MEMORY, "abi/memory/round-trips", "write of a part"},
    {WRITES_LESS, WITH_MEMORY, "abi/memory/round-trips", "write"},
    {WRITES_LATER, WITH_MEMORY, "abi/memory/round-trips", "write"},
    {READS_AT_0, WITH_MEMORY, "abi/memory/round-trips", "read of"},
    {READS_MORE, WITH_MEMORY, "abi/memory/round-trips", "the case's process"},
    {COPIES_NOTHING, WITH_MEMORY, "abi/memory/round-trips", "copy"},
    {COPIES_MORE, WITH_MEMORY, "abi/memory/round-trips", "copy in one buffer"},
    {ALLOCS_ALIKE, WITH_MEMORY, "abi/memory/round-trips", "no buffer of its own"},
    {FREE_NEEDS_ONE, WITH_MEMORY, "abi/memory/round-trips", "the case's process"},
    {FREES_NOT, WITH_MEMORY, "abi/memory/balance", "objects"},
    {FREES_USED_NOT, WITH_MEMORY, "abi/memory/balance", "bytes used"},
    {ALLOCS_LESS, WITH_MEMORY, "abi/memory/balance", "used"},
    {INFO_FORGETS_WEIGHTS, WITH_MEMORY, "abi/memory/balance", "with a weight and a cache"},
    {INFO_FREE, WITH_MEMORY, "abi/memory/balance", "are free"},
    {INFO_RESERVED, WITH_MEMORY, "abi/memory/balance", "R7"},
    {INFO_BEHIND, WITH_MEMORY, "abi/memory/balance", "R5"},
    {NOMEM_OTHERWISE, WITH_MEMORY, "abi/memory/too-much", "not NOMEM"},
    {NOMEM_WITHOUT_AMOUNTS, WITH_MEMORY, "abi/memory/too-much", "states 0 wanted"},
    {NOMEM_LEAVES, WITH_MEMORY, "abi/memory/too-much", "objects"},
    {OVERFLOWS, WITH_MEMORY, "abi/memory/too-much", "answers OK"},
    {FENCE_WAITS_NOT, WITH_MEMORY, "abi/memory/queues", "another queue and a fence"},
    {QUEUES_MIX, WITH_MEMORY, "abi/memory/queues", "two queues at once"},
    {TOKEN_CLAMPED, WITH_MEMORY, "abi/memory/chosen-token", "than of the same ids"},
    {IDS_REFUSED, WITH_MEMORY, "abi/embed/ids-past-rows", "in a buffer: status -2, not NaN"},
    {IDS_REFUSED_LATE, WITHOUT_MEMORY, "abi/embed/ids-past-rows", "is refused, but"},
    {IDS_WRAPPED, WITHOUT_MEMORY, "abi/embed/ids-past-rows", "not NaN"},
    {CACHE_LEAKED, WITHOUT_MEMORY, "abi/attention/release-pairs", "memory grows"},
    {CACHE_NULL, WITHOUT_MEMORY, "abi/attention/release-pairs", "clone answers 0 and NULL"},
    {CACHE_FULL_TAKEN, WITHOUT_MEMORY, "abi/attention/calls", "without room"},
    {CACHE_STIFF_TAKEN, WITHOUT_MEMORY, "abi/attention/calls", "not EVICTABLE"},
    {CACHE_TRUNCATES_MORE, WITHOUT_MEMORY, "abi/attention/calls", "truncate to more"},
    {CACHE_EVICTS_MORE, WITHOUT_MEMORY, "abi/attention/calls", "evict more"},
};

START_TEST(what_memory_may_do_wrong)
{
    conformance_totals totals;
    if (faults[_i].what == CACHE_LEAKED && KEEPS_FREED) return;
    totals = run_with(faults[_i].what, faults[_i].filter, faults[_i].offer);
    ck_assert_msg(totals.failed == 1, "fault %d passes %s", (int)faults[_i].what,
                  faults[_i].filter);
    ck_assert_msg(strstr(last_detail, faults[_i].words) != NULL, "fault %d: %s",
                  (int)faults[_i].what, last_detail);
}
END_TEST

/* One operation at a time, with every fault that any operation may have. */
START_TEST(what_operations_may_do_wrong)
{
    static const struct {
        fault what;
        int offer;
        const char *filter, *words;
    } common[] = {
        {BUFFER_BITS, WITH_MEMORY, "abi/memory/%s", "other bits"},
        {BUFFER_AT_0, WITH_MEMORY, "abi/memory/%s", ""},
        {BUFFER_BESIDE, WITH_MEMORY, "abi/memory/%s", "beside view y"},
        {BUFFER_INPUT, WITH_MEMORY, "abi/memory/%s", "input"},
        {BUFFER_DECLINED, WITH_MEMORY, "abi/memory/%s", "status 1"},
        {RESERVED_TAKEN, WITHOUT_MEMORY, "abi/%s/reserved", "R7"},
        {RESERVED_WRITTEN, WITHOUT_MEMORY, "abi/%s/reserved", "wrote to y"},
        {BUFFER_TAKEN, WITHOUT_MEMORY, "abi/%s/buffer-view", ""},
        {WRITES_NOTHING, WITHOUT_MEMORY, "abi/%s/sane", "writes nothing"},
        {CHANGES, WITHOUT_MEMORY, "abi/%s/sane", "other bits"},
        {INPUT_WRITTEN, WITHOUT_MEMORY, "abi/%s/sane", "writes to its input"},
        {ERROR_NEEDED, WITHOUT_MEMORY, "abi/%s/sane", "the case's process"},
        {ERROR_BEHIND, WITHOUT_MEMORY, "abi/%s/reserved", "R5"},
        {CALL_BEHIND, WITHOUT_MEMORY, "abi/%s/sane", "R5"},
    };
    char filter[80];
    size_t i;
    for (i = 0; i < COUNT(common); i++) {
        conformance_totals totals;
        snprintf(filter, sizeof filter, common[i].filter, names[_i]);
        totals = run_with(common[i].what, filter, common[i].offer);
        ck_assert_msg(totals.failed == 1, "fault %d passes %s", (int)common[i].what, filter);
        ck_assert_msg(strstr(last_detail, common[i].words) != NULL, "fault %d: %s",
                      (int)common[i].what, last_detail);
    }
}
END_TEST

START_TEST(names_are_unique)
{
    conformance_suite suite = {.seed = 1};
    uint64_t i, k;
    ck_assert(conformance_add_abi(&suite));
    for (i = 0; i < suite.count; i++)
        for (k = i + 1; k < suite.count; k++)
            ck_assert_str_ne(suite.cases[i].name, suite.cases[k].name);
    conformance_clear(&suite);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify memory");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, names_are_unique);
    tcase_add_test(tests, without_a_fault_everything_passes);
    tcase_add_loop_test(tests, what_memory_may_do_wrong, 0, COUNT(faults));
    tcase_add_loop_test(tests, what_operations_may_do_wrong, 0, COUNT(names));
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
