/* Robustness of work: many queues at once, bytes that change beside it, long chains in flight. */
#include "robust.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE ROBUST_SIDE
#define INPUTS 5u

/* A thread with a queue, buffers and a verdict of its own. */
typedef struct worker {
    robust_kit *kit;
    tenon_weight *weight, *changing; /* changing: NULL, or one whose bytes change meanwhile */
    const float *x;                  /* [INPUTS][SIDE] */
    const float *want;               /* of weight */
    const float *either[2];          /* of changing, before and after */
    uint32_t number;
    atomic_bool *stop; /* NULL: a fixed number of rounds */
    conformance_result result;
    pthread_t thread;
} worker;

/* The product of one input on changing: refused while it is updated, else one version or the other. */
static bool changing_product(worker *self, tenon_queue *queue, const tenon_view *x, uint32_t input,
                             float *got)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const tenon_view y = robust_host(got, SIDE * 4);
    conformance_result tries[2];
    int32_t status = robust_product(queue, self->changing, x, &y, 1, SIDE, SIDE, &error);
    int i;
    if (status == TENON_STATE && error.reason == TENON_REASON_UPDATING) return true;
    if (!robust_good(&self->result, status, &error, "a product of a weight that is updated"))
        return false;
    for (i = 0; i < 2; i++) {
        memset(&tries[i], 0, sizeof tries[i]);
        if (robust_same(self->kit, got, self->either[i] + input * SIDE, SIDE, 1,
                        "neither the bytes before nor those after an update", &tries[i]))
            return true;
    }
    return conformance_fail(&self->result, "%s", tries[1].detail);
}

static void *run_worker(void *context)
{
    enum { ROUNDS = 60 };
    worker *self = context;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_session *session = self->kit->engine.tested;
    conformance_result *result = &self->result;
    tenon_buffer *in = NULL, *out = NULL;
    tenon_queue *queue = NULL;
    float *got = malloc(SIDE * 4);
    uint32_t i;
    if (got == NULL) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    if (!robust_good(result, tenon_queue_create(session, &queue, &error), &error, "a queue") ||
        !robust_good(result, tenon_buffer_create(session, SIDE * 4, &in, &error), &error,
                     "a buffer") ||
        !robust_good(result, tenon_buffer_create(session, SIDE * 4, &out, &error), &error,
                     "a buffer"))
        goto out;
    for (i = 0; self->stop == NULL ? i < ROUNDS : !atomic_load(self->stop); i++) {
        const uint32_t input = (i + self->number) % INPUTS;
        const float *x = self->x + input * SIDE, *want = self->want + input * SIDE;
        const bool buffers = i % 3 != 0;
        const tenon_view from = buffers ? robust_buffer(in, SIDE * 4) : robust_host(x, SIDE * 4);
        const tenon_view to = buffers ? robust_buffer(out, SIDE * 4) : robust_host(got, SIDE * 4);
        memset(got, 0xa5, SIDE * 4);
        if (buffers && !robust_good(result, tenon_buffer_write(queue, in, 0, x, SIDE * 4, &error),
                                    &error, "a write"))
            break;
        if (!robust_good(result,
                         robust_product(queue, self->weight, &from, &to, 1, SIDE, SIDE, &error),
                         &error, "a product"))
            break;
        if (buffers && !robust_good(result, tenon_buffer_read(queue, out, 0, got, SIDE * 4, &error),
                                    &error, "a read"))
            break;
        if (!robust_same(self->kit, got, want, SIDE, 1, "beside other threads", result)) break;
        if (self->changing != NULL && !changing_product(self, queue, &from, input, got)) break;
    }
out:
    tenon_buffer_destroy(in);
    tenon_buffer_destroy(out);
    tenon_queue_destroy(queue);
    free(got);
    return NULL;
}

/* Waits for started workers and takes their verdicts. */
static void join(worker *workers, uint32_t started, conformance_result *result)
{
    uint32_t i;
    for (i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        result->requests += workers[i].result.requests;
        if (workers[i].result.outcome != 0)
            conformance_fail(result, "thread %u: %s", i, workers[i].result.detail);
    }
}

/* One weight with the inputs and what comes of them. */
typedef struct known {
    robust_weight weight;
    guarded x;
    float *want;
} known;

static bool known_make(known *self, robust_kit *kit, uint64_t seed)
{
    memset(self, 0, sizeof *self);
    self->want = malloc(INPUTS * SIDE * 4);
    if (self->want == NULL) return conformance_fail(kit->result, "out of memory");
    return robust_weight_make(kit, &self->weight, kit->engine.tested, SIDE, SIDE, seed) &&
           robust_fill_x(kit, &self->x, INPUTS, SIDE, 7) &&
           robust_expect(kit, &self->weight, (const float *)(void *)self->x.data, INPUTS,
                         self->want);
}

static void known_free(known *self)
{
    robust_weight_free(&self->weight);
    guarded_free(&self->x);
    free(self->want);
}

void robust_queues(const conformance_case *test, const conformance_target *target,
                   conformance_result *result)
{
    enum { THREADS = 4 };
    worker *workers = calloc(THREADS, sizeof *workers);
    uint32_t started = 0;
    robust_kit kit;
    known of;
    if (workers == NULL) {
        conformance_fail(result, "out of memory");
        return;
    }
    if (!robust_open(&kit, test, target, 2, result)) goto freed;
    if (!known_make(&of, &kit, 1)) goto out;
    for (; started < THREADS; started++) {
        worker *self = &workers[started];
        self->kit = &kit;
        self->weight = of.weight.weight;
        self->x = (const float *)(void *)of.x.data;
        self->want = of.want;
        self->number = started;
        if (pthread_create(&self->thread, NULL, run_worker, self) != 0) break;
    }
    join(workers, started, result);
    if (started < THREADS)
        conformance_set(result, CONFORMANCE_SKIPPED, "threads could not be started");
out:
    known_free(&of);
    robust_close(&kit);
freed:
    free(workers);
}

/* The product of the first input on a weight that nobody changes any more. */
static bool settled(robust_kit *kit, const known *of, const float *want, float *got)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const tenon_view x = robust_host(of->x.data, SIDE * 4), y = robust_host(got, SIDE * 4);
    return robust_good(kit->result,
                       robust_product(tenon_session_queue(kit->engine.tested), of->weight.weight,
                                      &x, &y, 1, SIDE, SIDE, &error),
                       &error, "a product after an update") &&
           robust_same(kit, got, want, SIDE, 1, "after an update", kit->result);
}

void robust_updates(const conformance_case *test, const conformance_target *target,
                    conformance_result *result)
{
    enum { THREADS = 2, UPDATES = 24 };
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    worker *workers = calloc(THREADS, sizeof *workers);
    float *got = malloc(SIDE * 4);
    atomic_bool stop = false;
    robust_kit kit;
    known still, changing, other;
    uint32_t started = 0;
    int i;
    memset(&still, 0, sizeof still);
    memset(&changing, 0, sizeof changing);
    memset(&other, 0, sizeof other);
    if (workers == NULL || got == NULL) {
        conformance_fail(result, "out of memory");
        goto freed;
    }
    if (!robust_open(&kit, test, target, 2, result)) goto freed;
    if (!known_make(&still, &kit, 1) || !known_make(&changing, &kit, 2) ||
        !known_make(&other, &kit, 3))
        goto out;
    for (; started < THREADS; started++) {
        worker *self = &workers[started];
        *self = (worker){.kit = &kit,
                         .weight = still.weight.weight,
                         .changing = changing.weight.weight,
                         .x = (const float *)(void *)still.x.data,
                         .want = still.want,
                         .either = {changing.want, other.want},
                         .number = started,
                         .stop = &stop};
        if (pthread_create(&self->thread, NULL, run_worker, self) != 0) break;
    }
    /* the bytes of the one and of the other change places: version and its expectation go along */
    for (i = 0; i < UPDATES && result->outcome == 0; i++) {
        const float *want = i % 2 == 0 ? other.want : changing.want;
        guarded *weights[2] = {&changing.weight.weights, &other.weight.weights};
        guarded *scales[2] = {&changing.weight.scales, &other.weight.scales};
        uint64_t at;
        if (!robust_good(result, tenon_weight_begin_update(changing.weight.weight, &error), &error,
                         "begin of an update"))
            break;
        for (at = 0; at < weights[0]->bytes; at++) {
            uint8_t kept = weights[0]->data[at];
            weights[0]->data[at] = weights[1]->data[at];
            weights[1]->data[at] = kept;
        }
        for (at = 0; at < scales[0]->bytes; at++) {
            uint8_t kept = scales[0]->data[at];
            scales[0]->data[at] = scales[1]->data[at];
            scales[1]->data[at] = kept;
        }
        if (!robust_good(result, tenon_weight_end_update(changing.weight.weight, &error), &error,
                         "end of an update") ||
            !settled(&kit, &changing, want, got))
            break;
    }
    atomic_store(&stop, true);
    join(workers, started, result);
    if (started < THREADS)
        conformance_set(result, CONFORMANCE_SKIPPED, "threads could not be started");
out:
    known_free(&still);
    known_free(&changing);
    known_free(&other);
    robust_close(&kit);
freed:
    free(workers);
    free(got);
}

/* Calls of one chain: the start copied, depth products from one buffer into the other, the end copied
 * to its place. Nothing is read. */
static bool one_chain(robust_kit *kit, tenon_queue *queue, const robust_weight *weight,
                      tenon_buffer *const pair[2], tenon_buffer *starts, tenon_buffer *ends,
                      uint64_t number, uint32_t depth)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const uint64_t row = SIDE * 4;
    uint32_t i;
    if (!robust_good(
            kit->result,
            tenon_buffer_copy(queue, pair[0], 0, starts, number % INPUTS * row, row, &error),
            &error, "a copy"))
        return false;
    for (i = 0; i < depth; i++) {
        const tenon_view x = robust_buffer(pair[i % 2], row),
                         y = robust_buffer(pair[1 - i % 2], row);
        if (!robust_good(kit->result,
                         robust_product(queue, weight->weight, &x, &y, 1, SIDE, SIDE, &error),
                         &error, "a product in a chain"))
            return false;
    }
    return robust_good(
        kit->result, tenon_buffer_copy(queue, ends, number * row, pair[depth % 2], 0, row, &error),
        &error, "a copy");
}

void robust_chains(const conformance_case *test, const conformance_target *target,
                   conformance_result *result)
{
    enum { CHAINS = 250, DEPTH = 4 };
    const uint64_t row = SIDE * 4;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    float *want[2] = {malloc(INPUTS * row), malloc(INPUTS * row)}, *got = malloc(CHAINS * row);
    tenon_buffer *pair[2] = {NULL, NULL}, *starts = NULL, *ends = NULL;
    robust_weight weight = {.weight = NULL};
    guarded x = {0};
    tenon_session *session;
    tenon_queue *queue;
    robust_kit kit;
    uint32_t depth, i;
    if (want[0] == NULL || want[1] == NULL || got == NULL) {
        conformance_fail(result, "out of memory");
        goto freed;
    }
    if (!robust_open(&kit, test, target, 2, result)) goto freed;
    session = kit.engine.tested;
    queue = tenon_session_queue(session);
    depth = kit.approx ? 1 : DEPTH; /* errors that are allowed add up */
    if (!robust_weight_make(&kit, &weight, session, SIDE, SIDE, 1) ||
        !robust_fill_x(&kit, &x, INPUTS, SIDE, 2))
        goto out;
    memcpy(want[0], x.data, INPUTS * row);
    for (i = 0; i < depth; i++)
        if (!robust_expect(&kit, &weight, want[i % 2], INPUTS, want[1 - i % 2])) goto out;
    if (!robust_good(result, tenon_buffer_create(session, row, &pair[0], &error), &error,
                     "a buffer") ||
        !robust_good(result, tenon_buffer_create(session, row, &pair[1], &error), &error,
                     "a buffer") ||
        !robust_good(result, tenon_buffer_create(session, INPUTS * row, &starts, &error), &error,
                     "a buffer") ||
        !robust_good(result, tenon_buffer_create(session, CHAINS * row, &ends, &error), &error,
                     "a buffer") ||
        !robust_good(result, tenon_buffer_write(queue, starts, 0, x.data, x.bytes, &error), &error,
                     "a write"))
        goto out;
    for (i = 0; i < CHAINS; i++)
        if (!one_chain(&kit, queue, &weight, pair, starts, ends, i, depth)) goto out;
    if (!robust_good(result, tenon_buffer_read(queue, ends, 0, got, CHAINS * row, &error), &error,
                     "the read after all chains"))
        goto out;
    for (i = 0; i < CHAINS; i++) {
        char what[60];
        snprintf(what, sizeof what, "chain %u of %d", i, CHAINS);
        if (!robust_same(&kit, got + i * SIDE, want[depth % 2] + i % INPUTS * SIDE, SIDE, 1, what,
                         result))
            break;
    }
out:
    tenon_buffer_destroy(pair[0]);
    tenon_buffer_destroy(pair[1]);
    tenon_buffer_destroy(starts);
    tenon_buffer_destroy(ends);
    robust_weight_free(&weight);
    guarded_free(&x);
    robust_close(&kit);
freed:
    free(want[0]);
    free(want[1]);
    free(got);
}
