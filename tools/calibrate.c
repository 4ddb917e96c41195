/* Runs the loops on a number of threads at once and keeps the best of a few rounds. */
#include "calibrate.h"
#include "calibrate_loops.h"
#include "terminal.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256u
#define ROUNDS 5
#define READ_STEP (64u * 1024u)

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

/* The threads of one round wait for its start, or for the news that not all could be made. */
enum { START_WAIT, START_GO, START_NOT };

/* One measured stretch of work on one thread. */
typedef struct stretch {
    atomic_int *start; /* START_* */
    compute_loop compute;
    uint64_t rounds;
    read_loop read;
    const uint8_t *from;
    uint64_t bytes;
    double work, began, ended; /* operations or bytes; seconds */
    uint64_t kept;
} stretch;

static void *work_stretch(void *context)
{
    stretch *self = context;
    int start;
    while ((start = atomic_load(self->start)) == START_WAIT) sched_yield();
    if (start == START_NOT) return NULL;
    self->began = calibrate_seconds();
    if (self->compute != NULL) {
        self->work = self->compute(self->rounds);
    } else {
        self->kept = self->read(self->from, self->bytes);
        self->work = (double)self->bytes;
    }
    self->ended = calibrate_seconds();
    return NULL;
}

/* Work per second of all threads together, from the first begin to the last end; 0 when there are
 * not that many threads to be had. */
static double together(const stretch *one, uint32_t threads, const uint8_t *buffer)
{
    static stretch all[MAX_THREADS];
    pthread_t handles[MAX_THREADS];
    atomic_int start = START_WAIT;
    double began = 0, ended = 0, work = 0;
    uint32_t i, made;
    for (i = 0; i < threads; i++) {
        all[i] = *one;
        all[i].start = &start;
        all[i].from = buffer != NULL ? buffer + i * one->bytes : NULL;
    }
    for (made = 1; made < threads; made++)
        if (pthread_create(&handles[made], NULL, work_stretch, &all[made]) != 0) break;
    atomic_store(&start, made == threads ? START_GO : START_NOT);
    work_stretch(&all[0]);
    for (i = 1; i < made; i++) pthread_join(handles[i], NULL);
    if (made < threads) return 0;
    for (i = 0; i < threads; i++) {
        if (i == 0 || all[i].began < began) began = all[i].began;
        if (i == 0 || all[i].ended > ended) ended = all[i].ended;
        work += all[i].work;
    }
    return ended > began ? work / (ended - began) : 0;
}

/* Operations per second of a loop over registers. */
static double compute_rate(compute_loop loop, uint32_t threads)
{
    stretch one = {.compute = loop, .rounds = 100000};
    double best = 0;
    int i;
    /* About 20 ms a stretch, found by doubling. */
    for (;;) {
        double began = calibrate_seconds();
        loop(one.rounds);
        if (calibrate_seconds() - began > 0.02 || one.rounds > UINT64_MAX / 4) break;
        one.rounds *= 2;
    }
    for (i = 0; i < ROUNDS; i++) {
        double rate = together(&one, threads, NULL);
        if (rate > best) best = rate;
    }
    return best;
}

/* Bytes per second of the best reading loop, over memory much larger than the caches. */
static bool read_rate(uint32_t threads, double *best, const char **name)
{
    uint64_t wanted = calibrate_cache_bytes() * 4, share, bytes, i;
    const read_loops *loops;
    uint8_t *buffer;
    int round;
    if (wanted < (uint64_t)256 << 20) wanted = (uint64_t)256 << 20;
    if (wanted > (uint64_t)1 << 30) wanted = (uint64_t)1 << 30;
    share = wanted / threads / READ_STEP * READ_STEP;
    bytes = share * threads;
    /* A margin behind it, for the prefetches that run ahead. */
    buffer = mmap(NULL, bytes + READ_STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0);
    if (buffer == MAP_FAILED) {
        terminal_error("calibration: no memory for %llu bytes", (unsigned long long)bytes);
        return false;
    }
    (void)madvise(buffer, bytes, MADV_HUGEPAGE);
    for (i = 0; i < bytes + READ_STEP; i += 64) buffer[i] = (uint8_t)(i >> 6);
    *best = 0;
    for (loops = calibrate_read(); loops->name != NULL; loops++) {
        stretch one = {.read = loops->run, .bytes = share};
        for (round = 0; round < 4; round++) {
            double rate = together(&one, threads, buffer);
            if (rate <= *best) continue;
            *best = rate;
            *name = loops->name;
        }
    }
    munmap(buffer, bytes + READ_STEP);
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
