/* Runs the loops on a number of threads at once, in short rounds, and keeps the best of them. */
#include "calibrate.h"
#include "calibrate_loops.h"
#include "terminal.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256u
#define COMPUTE_ROUNDS 96u
#define READ_ROUNDS 96u
#define MAX_ROUNDS 96u
#define READ_CHUNK ((uint64_t)8 << 20) /* bytes a thread reads in a round */
#define READ_MARGIN (64u * 1024u)      /* behind the buffer, for prefetches that run ahead */

double calibrate_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t calibrate_cache_bytes(void)
{
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (uint64_t)bytes : (uint64_t)32 << 20;
}

/* What every thread does in every round. */
typedef struct work {
    compute_loop compute;
    uint64_t compute_rounds; /* of the loop, in one round */
    read_loop read;
    const uint8_t *buffer;
    uint64_t chunks; /* of the buffer */
    uint32_t rounds, threads;
    atomic_uint arrived; /* threads, over all rounds */
    atomic_bool given_up;
} work;

/* One thread and its times. */
typedef struct worker {
    work *shared;
    uint32_t index;
    double began[MAX_ROUNDS], ended[MAX_ROUNDS], amount[MAX_ROUNDS];
    uint64_t kept;
} worker;

/* All threads begin a round together. Rounds last a millisecond or so, short enough that some of
 * them pass undisturbed on a busy machine: the best round is the limit. */
static void *run_rounds(void *context)
{
    worker *self = context;
    work *shared = self->shared;
    uint32_t round, spins = 0;
    for (round = 0; round < shared->rounds; round++) {
        atomic_fetch_add(&shared->arrived, 1);
        while (atomic_load(&shared->arrived) < (round + 1) * shared->threads) {
            if (atomic_load(&shared->given_up)) return NULL;
            if (++spins % 1000 == 0) sched_yield();
        }
        self->began[round] = calibrate_seconds();
        if (shared->compute != NULL) {
            self->amount[round] = shared->compute(shared->compute_rounds);
        } else {
            uint64_t chunk = (uint64_t)(round * shared->threads + self->index) % shared->chunks;
            self->kept ^= shared->read(shared->buffer + chunk * READ_CHUNK, READ_CHUNK);
            self->amount[round] = (double)READ_CHUNK;
        }
        self->ended[round] = calibrate_seconds();
    }
    return NULL;
}

/* Amount per second of all threads together in the best round, from its first begin to its last
 * end; 0 when there are not that many threads to be had. */
static double best_round(work *shared)
{
    static worker workers[MAX_THREADS];
    pthread_t handles[MAX_THREADS];
    double best = 0;
    uint32_t round, i, made;
    atomic_store(&shared->arrived, 0);
    atomic_store(&shared->given_up, false);
    for (i = 0; i < shared->threads; i++) {
        workers[i].shared = shared;
        workers[i].index = i;
    }
    for (made = 1; made < shared->threads; made++)
        if (pthread_create(&handles[made], NULL, run_rounds, &workers[made]) != 0) break;
    if (made < shared->threads)
        atomic_store(&shared->given_up, true);
    else
        run_rounds(&workers[0]);
    for (i = 1; i < made; i++) pthread_join(handles[i], NULL);
    if (made < shared->threads) return 0;
    for (round = 0; round < shared->rounds; round++) {
        double began = workers[0].began[round], ended = workers[0].ended[round], amount = 0;
        for (i = 0; i < shared->threads; i++) {
            if (workers[i].began[round] < began) began = workers[i].began[round];
            if (workers[i].ended[round] > ended) ended = workers[i].ended[round];
            amount += workers[i].amount[round];
        }
        if (ended > began && amount / (ended - began) > best) best = amount / (ended - began);
    }
    return best;
}

/* Operations per second of a loop over registers. */
static double compute_rate(compute_loop loop, uint32_t threads)
{
    work shared = {
        .compute = loop, .compute_rounds = 10000, .rounds = COMPUTE_ROUNDS, .threads = threads};
    /* About 1.5 ms a round, found by doubling. */
    for (;;) {
        double began = calibrate_seconds();
        loop(shared.compute_rounds);
        if (calibrate_seconds() - began > 1e-3 || shared.compute_rounds > UINT64_MAX / 4) break;
        shared.compute_rounds *= 2;
    }
    return best_round(&shared);
}

/* Bytes per second of the best reading loop, over memory much larger than the caches. */
static bool read_rate(uint32_t threads, double *best, const char **name)
{
    uint64_t bytes = calibrate_cache_bytes() * 4, i;
    const read_loops *loops;
    uint8_t *buffer;
    if (bytes < (uint64_t)256 << 20) bytes = (uint64_t)256 << 20;
    if (bytes > (uint64_t)1 << 30) bytes = (uint64_t)1 << 30;
    if (bytes < READ_CHUNK * threads) bytes = READ_CHUNK * threads;
    bytes = bytes / READ_CHUNK * READ_CHUNK;
    buffer = mmap(NULL, bytes + READ_MARGIN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                  -1, 0);
    if (buffer == MAP_FAILED) {
        terminal_error("calibration: no memory for %llu bytes", (unsigned long long)bytes);
        return false;
    }
    (void)madvise(buffer, bytes, MADV_HUGEPAGE);
    for (i = 0; i < bytes + READ_MARGIN; i += 64) buffer[i] = (uint8_t)(i >> 6);
    *best = 0;
    for (loops = calibrate_read(); loops->name != NULL; loops++) {
        work shared = {.read = loops->run,
                       .buffer = buffer,
                       .chunks = bytes / READ_CHUNK,
                       .rounds = READ_ROUNDS,
                       .threads = threads};
        double rate = best_round(&shared);
        if (rate <= *best) continue;
        *best = rate;
        *name = loops->name;
    }
    munmap(buffer, bytes + READ_MARGIN);
    return true;
}

bool calibrate(const char *level, uint32_t threads, calibration *out)
{
    static struct {
        uint32_t threads;
        double rate;
        const char *name;
    } known;
    const compute_loops *loops = calibrate_compute(level);
    if (threads == 0 || threads > MAX_THREADS) {
        terminal_error("calibration: %u threads are not 1 to %u", threads, MAX_THREADS);
        return false;
    }
    if (known.threads != threads) {
        if (!read_rate(threads, &known.rate, &known.name)) return false;
        known.threads = threads;
    }
    out->read_gbps = known.rate / 1e9;
    out->read_loop = known.name;
    out->int8_gops = compute_rate(loops->int8, threads) / 1e9;
    out->f32_gflops = compute_rate(loops->f32, threads) / 1e9;
    out->int8_instruction = loops->int8_instruction;
    out->f32_instruction = loops->f32_instruction;
    if (out->read_gbps > 0 && out->int8_gops > 0 && out->f32_gflops > 0) return true;
    terminal_error("calibration: %u threads cannot be started", threads);
    return false;
}
