#include "team.h"

#include "fpenv.h"
#include "system.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* state: the upper half counts openings and closings of loops (odd: one is open), the lower half
 * the workers inside. A worker joins by compare-and-swap on the whole, so it can only join the loop
 * it saw, and that loop's fields stay until it has left. */
#define EPOCH_ONE (UINT64_C(1) << 32)
#define EPOCH_OF(state) ((uint32_t)((state) >> 32))
#define INSIDE_OF(state) ((uint32_t)(state))

#define SPIN_NS 40000u  /* between 20 and 50 microseconds */
#define SPIN_ROUNDS 64u /* looks between two readings of the clock */
#define BATCHES 64u     /* very long loops are taken in batches, about this many a thread */
#define WAKES 2u        /* sleepers woken by a caller, and by each worker that was woken */
#define CACHE_LINE 64

typedef struct worker {
    struct team *team;
    pthread_t thread;
    uint32_t index; /* 1 .. threads - 1; the caller of a loop is 0 */
} worker;

struct team {
    /* written all the time, each on a cache line of its own */
    _Alignas(CACHE_LINE) _Atomic uint64_t state;
    _Alignas(CACHE_LINE) _Atomic uint64_t next; /* the first index nobody has taken */
    /* the loop: written by its caller while nobody is inside */
    _Alignas(CACHE_LINE) tenon_parallel_body body;
    void *context;
    uint64_t count;
    uint64_t batch;
    atomic_bool busy;        /* a loop owns the team */
    atomic_bool mode_broken; /* a body changed a worker's floating point mode */
    atomic_bool stop;
    _Atomic uint32_t sleepers;
    atomic_bool caller_sleeps;
    /* written while nobody runs */
    _Alignas(CACHE_LINE) uint32_t threads;
    uint32_t started; /* workers that exist; [busy] */
    bool start_failed;
    bool spins;
    uint32_t useful; /* workers that can run at once with the caller */
    uint32_t *placement;
    uint32_t placement_count;
    tenon_log_function log;
    void *log_context;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* workers wait for an open loop */
    pthread_cond_t left; /* a caller waits for the last worker inside */
    worker *workers;
};

/* Spins until ready(self, argument) or the time is over; returns the last answer of ready. */
static bool spin(team *self, bool (*ready)(team *self, uint32_t argument), uint32_t argument)
{
    uint64_t end;
    uint32_t i;

    if (!self->spins) return ready(self, argument);
    end = system_now_ns() + SPIN_NS;
    do {
        for (i = 0; i < SPIN_ROUNDS; i++) {
            if (ready(self, argument)) return true;
            system_pause();
        }
    } while (system_now_ns() < end);
    return ready(self, argument);
}

/* Is a loop open that this worker has not seen, or is the team ending? */
static bool work_ready(team *self, uint32_t seen)
{
    uint32_t epoch = EPOCH_OF(atomic_load(&self->state));
    return ((epoch & 1u) != 0 && epoch != seen) || atomic_load(&self->stop);
}

static bool all_left(team *self, uint32_t unused)
{
    (void)unused;
    return INSIDE_OF(atomic_load(&self->state)) == 0;
}

/* Takes indices until none are left. */
static void take_indices(team *self, uint32_t index)
{
    const uint64_t count = self->count, batch = self->batch;
    tenon_parallel_body body = self->body;
    void *context = self->context;

    for (;;) {
        uint64_t first = atomic_fetch_add_explicit(&self->next, batch, memory_order_relaxed), i;
        if (first >= count) return;
        for (i = first; i < count && i - first < batch; i++) body(context, i, index);
    }
}

/* Returns true when it slept. */
static bool wait_for_work(team *self, uint32_t seen)
{
    if (spin(self, work_ready, seen)) return false;
    pthread_mutex_lock(&self->lock);
    atomic_fetch_add(&self->sleepers, 1u);
    while (!work_ready(self, seen)) pthread_cond_wait(&self->wake, &self->lock);
    atomic_fetch_sub(&self->sleepers, 1u);
    pthread_mutex_unlock(&self->lock);
    return true;
}

/* Wakes a few sleepers, each of whom wakes a few: the caller pays for the first ones only. No more
 * than the open loop has indices left for, and no more than can run at once. inside: workers in it
 * now. [in the loop] */
static void wake_some(team *self, uint32_t inside)
{
    uint64_t next = atomic_load_explicit(&self->next, memory_order_relaxed);
    uint64_t left = next < self->count ? self->count - next : 0;
    uint32_t wakes = WAKES;

    if (inside >= self->useful || atomic_load(&self->sleepers) == 0) return;
    if (wakes > self->useful - inside) wakes = self->useful - inside;
    if (wakes > left) wakes = (uint32_t)left;
    if (wakes == 0) return;
    pthread_mutex_lock(&self->lock);
    for (; wakes > 0; wakes--) pthread_cond_signal(&self->wake);
    pthread_mutex_unlock(&self->lock);
}

static void *worker_main(void *argument)
{
    worker *me = argument;
    team *self = me->team;
    uint32_t seen = 0;

    system_name_thread("tenon-worker");
    for (;;) {
        uint64_t state;
        fp_mode found;
        bool slept = wait_for_work(self, seen);
        if (atomic_load(&self->stop)) return NULL;
        state = atomic_load(&self->state);
        if ((EPOCH_OF(state) & 1u) == 0 || EPOCH_OF(state) == seen) continue;
        if (!atomic_compare_exchange_strong(&self->state, &state, state + 1)) continue;
        seen = EPOCH_OF(state);
        if (slept) wake_some(self, INSIDE_OF(state) + 1);
        found = fp_enter();
        take_indices(self, me->index);
        if (fp_leave(found)) atomic_store(&self->mode_broken, true);
        state = atomic_fetch_sub(&self->state, 1);
        if (INSIDE_OF(state) == 1 && atomic_load(&self->caller_sleeps)) {
            pthread_mutex_lock(&self->lock);
            pthread_cond_signal(&self->left);
            pthread_mutex_unlock(&self->lock);
        }
    }
}

/* Starts the workers. What cannot be started is said once and done without. [busy] */
static void start_workers(team *self)
{
    sigset_t before;
    bool blocked = system_signals_block(&before);
    char text[128];

    while (self->started + 1 < self->threads) {
        worker *next = &self->workers[self->started];
        next->team = self;
        next->index = self->started + 1;
        if (pthread_create(&next->thread, NULL, worker_main, next) != 0) {
            self->start_failed = true;
            snprintf(text, sizeof text, "tenon: only %u of %u threads could be started",
                     self->started + 1, self->threads);
            self->log(self->log_context, TENON_LOG_WARNING, text);
            break;
        }
        self->started++;
        /* worker n is thread n of the team; the caller keeps the first place */
        if (next->index < self->placement_count &&
            !system_pin(next->thread, self->placement[next->index])) {
            snprintf(text, sizeof text, "tenon: thread %u could not be pinned to processor %u",
                     next->index, self->placement[next->index]);
            self->log(self->log_context, TENON_LOG_INFO, text);
        }
    }
    if (blocked) system_signals_restore(&before);
}

static void wait_until_left(team *self)
{
    if (spin(self, all_left, 0)) return;
    pthread_mutex_lock(&self->lock);
    atomic_store(&self->caller_sleeps, true);
    while (!all_left(self, 0)) pthread_cond_wait(&self->left, &self->lock);
    atomic_store(&self->caller_sleeps, false);
    pthread_mutex_unlock(&self->lock);
}

void team_run_alone(uint64_t count, tenon_parallel_body body, void *context)
{
    uint64_t i;
    for (i = 0; i < count; i++) body(context, i, 0);
}

bool team_run(team *self, uint64_t count, tenon_parallel_body body, void *context)
{
    uint64_t state;
    bool broken;

    if (count < 2 || self->threads < 2 ||
        atomic_exchange_explicit(&self->busy, true, memory_order_acquire)) {
        team_run_alone(count, body, context);
        return false;
    }
    if (self->started + 1 < self->threads && !self->start_failed) start_workers(self);
    self->body = body;
    self->context = context;
    self->count = count;
    self->batch = count / ((uint64_t)self->threads * BATCHES);
    if (self->batch == 0) self->batch = 1;
    atomic_store_explicit(&self->next, 0, memory_order_relaxed);
    atomic_fetch_add(&self->state, EPOCH_ONE); /* open */
    wake_some(self, 0);
    take_indices(self, 0);
    state = atomic_fetch_add(&self->state, EPOCH_ONE); /* close: nobody joins any more */
    if (INSIDE_OF(state) != 0) wait_until_left(self);
    broken = atomic_load_explicit(&self->mode_broken, memory_order_relaxed);
    if (broken) atomic_store_explicit(&self->mode_broken, false, memory_order_relaxed);
    atomic_store_explicit(&self->busy, false, memory_order_release);
    return broken;
}

uint32_t team_threads(const team *self)
{
    return self->threads;
}

team *team_create(const team_options *options)
{
    team *self = aligned_alloc(CACHE_LINE, sizeof *self);
    uint32_t i;

    if (self == NULL) return NULL;
    *self = (team){0};
    self->threads = options->threads;
    self->spins = options->threads <= options->processors;
    self->useful = (options->threads < options->processors ? options->threads
                                                           : options->processors) -
                   1;
    if (self->useful == 0) self->useful = 1; /* one processor: the system may still find another */
    self->log = options->log;
    self->log_context = options->log_context;
    if (self->threads < 2) goto made; /* never any workers */
    self->workers = calloc(self->threads - 1, sizeof *self->workers);
    if (self->workers == NULL) goto failed;
    if (options->placement_count > 0) {
        self->placement = calloc(options->placement_count, sizeof *self->placement);
        if (self->placement == NULL) goto failed;
        for (i = 0; i < options->placement_count; i++) self->placement[i] = options->placement[i];
        self->placement_count = options->placement_count;
    }
made:
    if (pthread_mutex_init(&self->lock, NULL) != 0) goto failed;
    if (pthread_cond_init(&self->wake, NULL) != 0) goto no_wake;
    if (pthread_cond_init(&self->left, NULL) == 0) return self;
    pthread_cond_destroy(&self->wake);
no_wake:
    pthread_mutex_destroy(&self->lock);
failed:
    free(self->placement);
    free(self->workers);
    free(self);
    return NULL;
}

void team_destroy(team *self)
{
    uint32_t i;

    if (self == NULL) return;
    pthread_mutex_lock(&self->lock);
    atomic_store(&self->stop, true);
    pthread_cond_broadcast(&self->wake);
    pthread_mutex_unlock(&self->lock);
    for (i = 0; i < self->started; i++) pthread_join(self->workers[i].thread, NULL);
    pthread_cond_destroy(&self->left);
    pthread_cond_destroy(&self->wake);
    pthread_mutex_destroy(&self->lock);
    free(self->placement);
    free(self->workers);
    free(self);
}
