/* Stage robust: what goes wrong only with time, in numbers or under pressure. Everything runs through
 * a session, as an engine's work does, and the bits are compared while it does. */
#include "robust.h"

#include "abi_requests.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <tenon/provider.h>
#include <time.h>

#define TOKENS 3u

/* Entries of a folder of /proc; 0 where there is none. */
static uint64_t count_entries(const char *folder)
{
    DIR *open = opendir(folder);
    uint64_t count = 0;
    if (open == NULL) return 0;
    while (readdir(open) != NULL) count++;
    closedir(open);
    return count;
}

/* Work of one session: a weight, products over host memory and over buffers, and where it is offered a
 * cache. Everything but the weight is destroyed; in odd rounds the session destroys that. */
static bool work(robust_kit *self, tenon_session *session, robust_weight *bytes, const guarded *x,
                 const float *want, float *got, bool leave)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const uint64_t cols = bytes->desc.cols, rows = bytes->desc.rows, size = TOKENS * rows * 4;
    const tenon_view from = robust_host(x->data, x->bytes), to = robust_host(got, size);
    const tenon_cache_desc shape = {TENON_HEAD(tenon_cache_desc), .kv_heads = 2, .head_size = 64,
                                    .capacity = 512, .type = TENON_CACHE_F32};
    tenon_queue *queue = tenon_session_queue(session), *further = NULL;
    tenon_buffer *in = NULL, *out = NULL;
    tenon_weight *weight = NULL;
    tenon_cache *cache = NULL;
    tenon_view buffers[2];
    bool good = false;
    if (!robust_good(self->result,
                     tenon_weight_create(session, &bytes->desc, &bytes->data, &weight, &error),
                     &error, "a weight"))
        return false;
    memset(got, 0xa5, size);
    if (!robust_good(self->result,
                     robust_product(queue, weight, &from, &to, TOKENS, cols, rows, &error), &error,
                     "a product") ||
        !robust_same(self, got, want, rows, TOKENS, "host memory", self->result))
        goto out;
    if (!robust_good(self->result, tenon_queue_create(session, &further, &error), &error,
                     "a queue") ||
        !robust_good(self->result, tenon_buffer_create(session, x->bytes, &in, &error), &error,
                     "a buffer") ||
        !robust_good(self->result, tenon_buffer_create(session, size, &out, &error), &error,
                     "a buffer"))
        goto out;
    buffers[0] = robust_buffer(in, x->bytes);
    buffers[1] = robust_buffer(out, size);
    memset(got, 0xa5, size);
    if (!robust_good(self->result, tenon_buffer_write(further, in, 0, x->data, x->bytes, &error),
                     &error, "a write") ||
        !robust_good(
            self->result,
            robust_product(further, weight, &buffers[0], &buffers[1], TOKENS, cols, rows, &error),
            &error, "a product over buffers") ||
        !robust_good(self->result, tenon_buffer_read(further, out, 0, got, size, &error), &error,
                     "a read") ||
        !robust_same(self, got, want, rows, TOKENS, "buffers", self->result))
        goto out;
    /* once more, and nobody waits for it: what is destroyed next is in use */
    if (!robust_good(
            self->result,
            robust_product(further, weight, &buffers[0], &buffers[1], TOKENS, cols, rows, &error),
            &error, "a product over buffers"))
        goto out;
    if (tenon_cache_create(session, &shape, &cache, &error) == TENON_OK) {
        const uint64_t row = 2 * 64 * 4;
        const tenon_append_call append = {TENON_HEAD(tenon_append_call),
                                          .cache = cache,
                                          .k = robust_host(x->data, row),
                                          .v = robust_host(x->data, row),
                                          .tokens = 1,
                                          .k_row_stride = row,
                                          .v_row_stride = row};
        good = robust_good(self->result, tenon_append(queue, &append, &error), &error, "append");
    } else {
        good = true; /* not offered is no fault here */
    }
out:
    tenon_buffer_destroy(in);
    tenon_buffer_destroy(out);
    tenon_cache_destroy(cache);
    tenon_queue_destroy(further);
    if (!leave) tenon_weight_destroy(weight);
    return good;
}

/* What one kind of round is given; bytes of about a megabyte, so that a leak stands out. */
typedef struct rounds {
    robust_weight bytes;
    guarded x;
    float *want, *got;
} rounds;

static bool rounds_make(rounds *self, robust_kit *kit)
{
    const uint64_t rows = 512, cols = 2048;
    memset(self, 0, sizeof *self);
    self->want = malloc(TOKENS * rows * 4);
    self->got = malloc(TOKENS * rows * 4);
    if (self->want == NULL || self->got == NULL)
        return conformance_fail(kit->result, "out of memory");
    return robust_weight_fill(kit, &self->bytes, rows, cols, 2) &&
           robust_fill_x(kit, &self->x, TOKENS, cols, 3) &&
           robust_expect(kit, &self->bytes, (const float *)(void *)self->x.data, TOKENS,
                         self->want);
}

static void rounds_free(rounds *self)
{
    robust_weight_free(&self->bytes);
    guarded_free(&self->x);
    free(self->want);
    free(self->got);
}

/* Half of what one weight a round would come to, were it kept. */
static bool grown(const rounds *self, uint64_t before, uint64_t count, const char *what,
                  conformance_result *result)
{
    const uint64_t now = abi_resident_bytes();
    result->requests++;
    if (before == 0 || now <= before + count * self->bytes.data.weights_bytes / 2) return false;
    conformance_fail(result, "memory grows by %" PRIu64 " bytes over %" PRIu64 " %s", now - before,
                     count, what);
    return true;
}

/* Sessions that come and go on a device that stays open. */
static void run_sessions(const conformance_case *test, const conformance_target *target,
                         conformance_result *result)
{
    enum { WARM = 6, ROUNDS = 24 };
    tenon_memory_info before;
    uint64_t resident = 0;
    robust_kit kit;
    rounds of;
    bool good, offered;
    int i;
    if (!robust_open(&kit, test, target, 2, result)) return;
    good = rounds_make(&of, &kit) && robust_memory(&kit, &before, &offered);
    for (i = 0; good && i < WARM + ROUNDS; i++) {
        tenon_session *session = NULL;
        if (i == WARM) resident = abi_resident_bytes();
        good = robust_session(&kit, &session) &&
               work(&kit, session, &of.bytes, &of.x, of.want, of.got, i % 2 == 1);
        tenon_session_destroy(session);
        good = good && robust_returned(&kit, &before, "after a session was destroyed");
    }
    if (good) (void)grown(&of, resident, ROUNDS, "sessions", result);
    rounds_free(&of);
    robust_close(&kit);
}

/* The device opened and closed with all that belongs to it. */
static void run_reopen(const conformance_case *test, const conformance_target *target,
                       conformance_result *result)
{
    enum { WARM = 4, ROUNDS = 12 };
    uint64_t resident = 0, threads = 0, files = 0;
    robust_kit kit;
    rounds of;
    bool good = true;
    int i;
    memset(&of, 0, sizeof of);
    for (i = 0; good && i < WARM + ROUNDS; i++) {
        if (i == WARM) {
            resident = abi_resident_bytes();
            threads = count_entries("/proc/self/task");
            files = count_entries("/proc/self/fd");
        }
        if (!robust_open(&kit, test, target, 2, result)) break;
        if (i == 0) good = rounds_make(&of, &kit);
        good = good && work(&kit, kit.engine.tested, &of.bytes, &of.x, of.want, of.got, i % 2 == 1);
        engine_side_close(&kit.engine, result);
        good = good && result->outcome == 0;
    }
    if (good && result->outcome == 0 && !grown(&of, resident, ROUNDS, "openings", result)) {
        if (count_entries("/proc/self/task") > threads)
            conformance_fail(result, "a closed device leaves threads: %" PRIu64 ", before %" PRIu64,
                             count_entries("/proc/self/task"), threads);
        else if (count_entries("/proc/self/fd") > files)
            conformance_fail(result,
                             "a closed device leaves files open: %" PRIu64 ", before %" PRIu64,
                             count_entries("/proc/self/fd"), files);
    }
    rounds_free(&of);
    if (result->outcome == 0) result->outcome = CONFORMANCE_PASSED;
}

/* Weights made and destroyed in many orders: the link's books and the device's come out even. */
static void run_balance(const conformance_case *test, const conformance_target *target,
                        conformance_result *result)
{
    enum { ROUNDS = 12, AT_ONCE = 12 };
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_link_info link = {TENON_HEAD(tenon_link_info), .weights = 0};
    robust_weight weights[AT_ONCE];
    tenon_memory_info before;
    robust_kit kit;
    bool good, offered;
    int round, i;
    memset(weights, 0, sizeof weights);
    if (!robust_open(&kit, test, target, 2, result)) return;
    good = robust_memory(&kit, &before, &offered);
    for (round = 0; good && round < ROUNDS; round++) {
        for (i = 0; good && i < AT_ONCE; i++) {
            good = robust_weight_make(&kit, &weights[i], kit.engine.tested,
                                      1 + (uint64_t)(i * 37 % 64), ROBUST_SIDE,
                                      (uint64_t)(round * AT_ONCE + i));
            if (good && weights[i].weight == NULL) { /* this many rows are not its matter */
                robust_weight_free(&weights[i]);
                result->declined++;
            }
        }
        for (i = 0; i < AT_ONCE; i++)
            robust_weight_free(&weights[round % 2 == 0 ? (i * 5) % AT_ONCE : AT_ONCE - 1 - i]);
        good = good &&
               robust_good(result, tenon_session_link(kit.engine.tested, 0, &link, &error), &error,
                           "link info") &&
               robust_returned(&kit, &before, "after weights were destroyed");
        if (good && (link.weights != 0 || link.bytes != 0))
            good = conformance_fail(result,
                                    "the link holds %" PRIu64 " weights of %" PRIu64
                                    " bytes and should hold none",
                                    link.weights, link.bytes);
    }
    robust_close(&kit);
}

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Time that threads of this process could have run and had no processor for: on a busy machine work is
 * not mistaken for waiting. 0 where the system does not tell. */
static double seconds_without_processor(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    double waited = 0;
    if (tasks == NULL) return 0;
    while ((entry = readdir(tasks)) != NULL) {
        unsigned long long ran = 0, wanted = 0;
        char path[300];
        FILE *file;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        file = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (file == NULL) continue;
        if (fscanf(file, "%llu %llu", &ran, &wanted) == 2) waited += (double)wanted * 1e-9;
        fclose(file);
    }
    closedir(tasks);
    return waited;
}

/* A device of its own, by what it says of itself. */
static bool is_hardware(robust_kit *self)
{
    const conformance_target *target = self->engine.target;
    tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
    if (strcmp(target->id, "reference") == 0) return false;
    if (tenon_host_device(self->engine.host, target->id, target->device, &device, NULL) != TENON_OK)
        return false;
    return device.kind == TENON_DEVICE_DISCRETE || device.kind == TENON_DEVICE_INTEGRATED ||
           device.kind == TENON_DEVICE_NPU;
}

/* Large products over buffers for a while, and how much processor time they took. A device that names
 * itself hardware and keeps a processor busy for half of the time is flagged: that is no failure, but
 * whoever reads the certificate shall know. */
static void run_cpu_time(const conformance_case *test, const conformance_target *target,
                         conformance_result *result)
{
    enum { TIMES = 400, MANY = 32 };
    const uint64_t rows = 1024, cols = 2048, size = MANY * rows * 4;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    robust_weight weight = {.weight = NULL};
    tenon_buffer *in = NULL, *out = NULL;
    float *first = malloc(size), *last = malloc(size);
    guarded x = {0};
    robust_kit kit;
    tenon_queue *queue;
    tenon_view views[2];
    double cpu, wall, waited = 0;
    int i;
    if (first == NULL || last == NULL) {
        conformance_fail(result, "out of memory");
        free(first);
        free(last);
        return;
    }
    if (!robust_open(&kit, test, target, 0, result)) goto freed;
    queue = tenon_session_queue(kit.engine.tested);
    if (!robust_weight_make(&kit, &weight, kit.engine.tested, rows, cols, 1)) goto out;
    if (weight.weight == NULL) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "a large weight is declined");
        goto out;
    }
    if (!robust_fill_x(&kit, &x, MANY, cols, 2) ||
        !robust_good(result, tenon_buffer_create(kit.engine.tested, x.bytes, &in, &error), &error,
                     "a buffer") ||
        !robust_good(result, tenon_buffer_create(kit.engine.tested, size, &out, &error), &error,
                     "a buffer") ||
        !robust_good(result, tenon_buffer_write(queue, in, 0, x.data, x.bytes, &error), &error,
                     "a write"))
        goto out;
    views[0] = robust_buffer(in, x.bytes);
    views[1] = robust_buffer(out, size);
    cpu = wall = 0;
    for (i = 0; i < TIMES && wall < 0.4; i++) {
        const double cpu_then = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
        const double wall_then = seconds_of(CLOCK_MONOTONIC);
        if (!robust_good(result,
                         robust_product(queue, weight.weight, &views[0], &views[1], MANY, cols,
                                        rows, &error),
                         &error, "a large product") ||
            !robust_good(result, tenon_queue_fence(queue, &error), &error, "a fence"))
            goto out;
        if (i == 0) { /* kernels may be made at the first call: not counted */
            if (!robust_good(result, tenon_buffer_read(queue, out, 0, first, size, &error), &error,
                             "a read"))
                goto out;
            waited = seconds_without_processor();
            continue;
        }
        cpu += seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_then;
        wall += seconds_of(CLOCK_MONOTONIC) - wall_then;
    }
    result->cpu_us = (uint64_t)(cpu * 1e6);
    result->wall_us = (uint64_t)(wall * 1e6);
    waited = seconds_without_processor() - waited;
    if (is_hardware(&kit) && cpu > 0.05 * wall && cpu > 0.5 * (wall - waited)) {
        result->flags |= CONFORMANCE_CPU_WORK;
        snprintf(result->detail, sizeof result->detail,
                 "names hardware, but used %.0f ms of processor time in %.0f ms", cpu * 1e3,
                 wall * 1e3);
    }
    if (robust_good(result, tenon_buffer_read(queue, out, 0, last, size, &error), &error, "a read"))
        (void)robust_same(&kit, last, first, rows, MANY, "the last large product, not as the first",
                          result);
out:
    tenon_buffer_destroy(in);
    tenon_buffer_destroy(out);
    robust_weight_free(&weight);
    guarded_free(&x);
    robust_close(&kit);
freed:
    free(first);
    free(last);
}

bool conformance_add_robust(conformance_suite *suite)
{
    static const struct {
        const char *name;
        conformance_body body;
    } cases[] = {
        {"robust/sessions", run_sessions},        {"robust/reopen", run_reopen},
        {"robust/balance", run_balance},          {"robust/queues", robust_queues},
        {"robust/updates", robust_updates},       {"robust/chains", robust_chains},
        {"robust/cache-full", robust_cache_full}, {"robust/out-of-memory", robust_out_of_memory},
        {"robust/cpu-time", run_cpu_time},
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (conformance_add(suite, CONFORMANCE_ROBUST, cases[i].body, cases[i].name) == NULL)
            return false;
    return true;
}
