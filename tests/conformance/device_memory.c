/* What a buffer holds, what an allocation may cost, and that all of it comes back. */
#include "device_memory.h"

#include "data.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

bool device_memory_offered(const direct *self, conformance_result *result)
{
    if (self->module->memory.alloc != NULL) return true;
    conformance_set(result, CONFORMANCE_UNSUPPORTED, "memory_v1 is not offered");
    return false;
}

bool device_memory_good(int32_t status, const tenon_error *error, const char *what,
                        conformance_result *result)
{
    result->requests++;
    if (status == TENON_OK) return true;
    return conformance_fail(result, "%s: status %d, reason %u: %s", what, status, error->reason,
                            error->text);
}

#define GOOD(call, what) device_memory_good(call, &error, what, result)

static void fill(uint8_t *bytes, uint64_t count, uint64_t seed)
{
    random_state random = {seed};
    uint64_t i;
    for (i = 0; i < count; i++) bytes[i] = (uint8_t)random_u64(&random);
}

/* Compares what a buffer holds with what it should. */
static bool holds(direct *self, direct_device *on, const tenon_device_buffer *buffer,
                  const uint8_t *wanted, uint64_t bytes, const char *after,
                  conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    guarded got = {0};
    uint64_t i;
    bool good = guarded_make(&got, bytes, GUARDED_AT_END) ||
                conformance_fail(result, "out of memory");
    good = good && GOOD(direct_read(self, on, buffer, 0, got.data, bytes, &error), "read");
    for (i = 0; good && i < bytes; i++)
        if (got.data[i] != wanted[i])
            good = conformance_fail(result, "%s: byte %" PRIu64 " of %" PRIu64 " is %02x, not %02x",
                                    after, i, bytes, got.data[i], wanted[i]);
    guarded_free(&got);
    return good;
}

/* A part of one buffer written, read, copied within it and into another; the rest stays. */
static bool one_size(direct *self, direct_device *on, uint64_t bytes, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_buffer *first = NULL, *second = NULL;
    uint8_t *a = malloc(bytes), *b = malloc(bytes);
    uint64_t part = bytes / 3 / 4 * 4, at = bytes / 2 / 4 * 4;
    guarded piece = {0};
    bool good = false;
    if (a == NULL || b == NULL || !guarded_make(&piece, part != 0 ? part : 4, GUARDED_AT_END)) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    fill(a, bytes, bytes);
    fill(b, bytes, ~bytes);
    if (!GOOD(direct_alloc(self, on, bytes, &first, &error), "alloc") ||
        !GOOD(direct_alloc(self, on, bytes, &second, &error), "alloc"))
        goto out;
    if (first == NULL || second == NULL || first == second) {
        conformance_fail(result, "alloc answers OK with no buffer of its own");
        goto out;
    }
    if (!GOOD(direct_write(self, on, first, 0, a, bytes, &error), "write") ||
        !GOOD(direct_write(self, on, second, 0, b, bytes, &error), "write") ||
        !holds(self, on, first, a, bytes, "write", result) ||
        !holds(self, on, second, b, bytes, "write", result))
        goto out;
    if (part == 0) {
        good = true;
        goto out;
    }
    fill(piece.data, part, bytes + 1);
    memcpy(a + at, piece.data, part);
    if (!GOOD(direct_write(self, on, first, at, piece.data, part, &error), "write of a part"))
        goto out;
    memset(piece.data, 0, part); /* the memory is the caller's again */
    if (!holds(self, on, first, a, bytes, "write of a part", result) ||
        !GOOD(direct_read(self, on, first, at, piece.data, part, &error), "read of a part"))
        goto out;
    if (memcmp(piece.data, a + at, part) != 0) {
        conformance_fail(result, "read of %" PRIu64 " bytes from %" PRIu64 " gives others", part,
                         at);
        goto out;
    }
    memcpy(b + bytes - part, a + 0, part);
    memcpy(a + 0, a + at, part);
    if (!GOOD(direct_copy(self, on, second, bytes - part, first, 0, part, &error), "copy") ||
        !GOOD(direct_copy(self, on, first, 0, first, at, part, &error), "copy in one buffer") ||
        !GOOD(direct_fence(self, on, &error), "fence") ||
        !holds(self, on, second, b, bytes, "copy", result) ||
        !holds(self, on, first, a, bytes, "copy in one buffer", result))
        goto out;
    memcpy(b, a, bytes);
    good = GOOD(direct_copy(self, on, second, 0, first, 0, bytes, &error), "copy of all") &&
           holds(self, on, second, b, bytes, "copy of all", result) &&
           holds(self, on, first, a, bytes, "copy of all", result);
out:
    if (first != NULL) self->module->memory.free(on->device, first);
    if (second != NULL) self->module->memory.free(on->device, second);
    guarded_free(&piece);
    free(a);
    free(b);
    return good;
}

bool device_memory_round_trips(direct *self, direct_device *on, conformance_result *result)
{
    static const uint64_t sizes[] = {4,   8,    12,   36,   60,   64,    68,    252,
                                     256, 1020, 4092, 4096, 4100, 65532, 65540, 3 * 1048576 + 4};
    size_t i;
    if (!device_memory_offered(self, result)) return false;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (!one_size(self, on, sizes[i], result)) return false;
    self->module->memory.free(on->device, NULL);
    return true;
}

/* What info tells, checked for sense. */
static bool look(direct *self, direct_device *on, tenon_memory_info *info,
                 conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    if (!GOOD(direct_memory_info(self, on, info, &error), "info")) return false;
    if (info->total != TENON_UNKNOWN && info->free != TENON_UNKNOWN && info->free > info->total)
        return conformance_fail(result, "info: %" PRIu64 " of %" PRIu64 " bytes are free",
                                info->free, info->total);
    if (info->reserved0[0] != 0 || info->reserved0[1] != 0)
        return conformance_fail(result, "R7: info sets a reserved field");
    return true;
}

/* Are the two counts as far apart as they should be? Unknown ones always are. */
static bool apart(uint64_t from, uint64_t to, uint64_t least, const char *what,
                  conformance_result *result)
{
    if (from == TENON_UNKNOWN || to == TENON_UNKNOWN || to >= from + least) return true;
    return conformance_fail(result,
                            "info: %s goes from %" PRIu64 " to %" PRIu64 ", not up by %" PRIu64,
                            what, from, to, least);
}

static bool returned(const tenon_memory_info *before, const tenon_memory_info *after,
                     const char *what, conformance_result *result)
{
    if (before->objects != after->objects)
        return conformance_fail(result, "%s: %" PRIu64 " objects, before %" PRIu64, what,
                                after->objects, before->objects);
    if (before->used != after->used)
        return conformance_fail(result, "%s: %" PRIu64 " bytes used, before %" PRIu64, what,
                                after->used, before->used);
    return true;
}

/* Sizes that no device has: NOMEM with amounts, nothing left behind, and the next one is good. */
bool device_memory_too_much(direct *self, direct_device *on, conformance_result *result)
{
    static const uint64_t sizes[] = {UINT64_C(1) << 50, UINT64_C(1) << 60, UINT64_C(1) << 63,
                                     UINT64_MAX - 3, UINT64_MAX - 63};
    tenon_memory_info before, after;
    size_t i;
    if (!device_memory_offered(self, result)) return false;
    if (!look(self, on, &before, result)) return false;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
        tenon_device_buffer *buffer = NULL;
        int32_t status = direct_alloc(self, on, sizes[i], &buffer, i == 3 ? NULL : &error);
        result->requests++;
        if (status == TENON_OK) {
            if (buffer != NULL) self->module->memory.free(on->device, buffer);
            return conformance_fail(result, "alloc of %" PRIu64 " bytes answers OK", sizes[i]);
        }
        if (status != TENON_NOMEM)
            return conformance_fail(result, "alloc of %" PRIu64 " bytes answers %d, not NOMEM",
                                    sizes[i], status);
        if (i != 3 && (error.status != TENON_NOMEM || error.wanted < sizes[i] ||
                       (error.available >= error.wanted && error.available != TENON_UNKNOWN)))
            return conformance_fail(result,
                                    "NOMEM for %" PRIu64 " bytes states %" PRIu64
                                    " wanted and %" PRIu64 " available",
                                    sizes[i], error.wanted, error.available);
        if (!look(self, on, &after, result) || !returned(&before, &after, "after NOMEM", result) ||
            !one_size(self, on, 4100, result))
            return false;
    }
    return look(self, on, &after, result) && returned(&before, &after, "at the end", result);
}

/* Every object counts, and counts no more once it was given back. */
bool device_memory_balance(direct *self, direct_device *on, conformance_result *result)
{
    enum { BUFFERS = 9 };
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_buffer *buffers[BUFFERS] = {NULL};
    tenon_memory_info start, full, end;
    tenon_device_cache *cache = NULL;
    abi_request product = {.prepared = NULL};
    sample attention;
    uint64_t bytes = 0, made = 0;
    bool good = false;
    int i, round;
    if (!device_memory_offered(self, result)) return false;
    for (round = 0; round < 3; round++) {
        bytes = 0;
        if (!look(self, on, &start, result)) goto out;
        for (i = 0; i < BUFFERS; i++) {
            uint64_t size = 4u << (2 * i);
            if (!GOOD(direct_alloc(self, on, size, &buffers[i], &error), "alloc")) goto out;
            bytes += size;
        }
        if (!look(self, on, &full, result) ||
            !apart(start.objects, full.objects, BUFFERS, "objects", result) ||
            !apart(start.used, full.used, bytes, "used", result))
            goto out;
        for (i = 0; i < BUFFERS; i++) {
            int which = round == 1 ? BUFFERS - 1 - i : i;
            self->module->memory.free(on->device, buffers[which]);
            buffers[which] = NULL;
        }
        if (!look(self, on, &end, result) || !returned(&start, &end, "after free", result))
            goto out;
    }
    if (abi_request_make(&product, self, on, 64, 256, 1, result)) {
        made++;
    } else if (result->outcome == CONFORMANCE_FAILED) {
        goto out;
    } else {
        result->outcome = 0; /* no format is offered */
    }
    if (sample_offered(self, SAMPLE_ATTENTION)) {
        if (!sample_make(&attention, self, on, SAMPLE_ATTENTION, result)) goto out;
        if (direct_cache_create(self, on, &attention.cache, &cache, &error) == TENON_OK) made++;
        sample_free(&attention, self, on);
    }
    if (!look(self, on, &full, result) ||
        !apart(end.objects, full.objects, made, "objects with a weight and a cache", result))
        goto out;
    abi_request_free(&product, self, on);
    if (cache != NULL) self->module->attention.free(on->device, cache);
    cache = NULL;
    good = look(self, on, &end, result) &&
           returned(&start, &end, "after release of a weight and a cache", result);
out:
    for (i = 0; i < BUFFERS; i++)
        if (buffers[i] != NULL) self->module->memory.free(on->device, buffers[i]);
    if (cache != NULL) self->module->attention.free(on->device, cache);
    abi_request_free(&product, self, on);
    return good;
}

/* A thread with a queue of its own. */
typedef struct worker {
    direct *self;
    direct_device on;
    uint64_t seed;
    conformance_result result;
} worker;

static void *write_and_read(void *context)
{
    enum { BYTES = 20004, ROUNDS = 20 };
    worker *work = context;
    uint64_t i;
    for (i = 0; i < ROUNDS && work->result.outcome == 0; i++)
        (void)one_size(work->self, &work->on, BYTES + 4 * (work->seed + i), &work->result);
    return NULL;
}

/* What one queue wrote is another's behind a fence; and two of them run at once. */
bool device_memory_queues(direct *self, direct_device *on, conformance_result *result)
{
    enum { BYTES = 300004, ROUNDS = 24 };
    const tenon_provider_v1 *functions = &self->module->provider;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    direct_device other = *on;
    tenon_device_buffer *from = NULL, *to = NULL;
    uint8_t *bytes = malloc(BYTES);
    worker workers[2];
    pthread_t threads[2];
    int started = 0, i;
    bool good = false;
    other.queue = NULL;
    if (!device_memory_offered(self, result)) goto out;
    if (functions->queue_open == NULL) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "queues are not offered");
        goto out;
    }
    if (bytes == NULL) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    if (functions->queue_open(on->device, &other.queue, NULL) != TENON_OK || other.queue == NULL) {
        conformance_fail(result, "a second queue cannot be opened");
        goto out;
    }
    if (!GOOD(direct_alloc(self, on, BYTES, &from, &error), "alloc") ||
        !GOOD(direct_alloc(self, on, BYTES, &to, &error), "alloc"))
        goto out;
    for (i = 0; i < ROUNDS; i++) {
        direct_device *first = i % 2 == 0 ? on : &other, *second = i % 2 == 0 ? &other : on;
        fill(bytes, BYTES, (uint64_t)i);
        if (!GOOD(direct_write(self, first, from, 0, bytes, BYTES, &error), "write") ||
            !GOOD(direct_copy(self, first, to, 0, from, 0, BYTES, &error), "copy") ||
            !GOOD(direct_fence(self, first, &error), "fence") ||
            !holds(self, second, to, bytes, BYTES, "copy on another queue and a fence", result))
            goto out;
    }
    for (; started < 2; started++) {
        workers[started] = (worker){
            self, started == 0 ? *on : other, (uint64_t)started, {.outcome = 0}};
        if (pthread_create(&threads[started], NULL, write_and_read, &workers[started]) != 0) break;
    }
    good = true;
    for (i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        result->requests += workers[i].result.requests;
        if (workers[i].result.outcome != 0)
            good = conformance_fail(result, "two queues at once: %s", workers[i].result.detail);
    }
    if (started < 2) conformance_set(result, CONFORMANCE_SKIPPED, "threads could not be started");
out:
    if (from != NULL) self->module->memory.free(on->device, from);
    if (to != NULL) self->module->memory.free(on->device, to);
    if (other.queue != NULL) functions->queue_close(other.queue);
    free(bytes);
    return good;
}
