/* The thread team: every index once, whoever is free; nested, concurrent and crowded. */
#include "runner.h"

#include <fenv.h>
#include <host/team.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define ITEMS 5000u

typedef struct job {
    team *team;
    atomic_uint seen[ITEMS];
    atomic_uint bad_worker, workers[TEAM_THREADS_MAX], inside[TEAM_THREADS_MAX];
    uint32_t threads;
    uint64_t nested;
} job;

static void TENON_CALL listen(void *context, uint32_t level, const char *text)
{
    (void)level;
    (void)text;
    ++*(atomic_uint *)context;
}

static atomic_uint said;

static team *make_team(uint32_t threads, uint32_t processors)
{
    team_options options = {
        .threads = threads, .processors = processors, .log = listen, .log_context = &said};
    team *self = team_create(&options);
    ck_assert_ptr_nonnull(self);
    ck_assert_uint_eq(team_threads(self), threads);
    return self;
}

/* As many as this machine runs at once, at most threads. */
static uint32_t here(uint32_t threads)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && (uint32_t)online < threads ? (uint32_t)online : threads;
}

static void TENON_CALL mark(void *context, uint64_t index, uint32_t worker)
{
    job *self = context;
    if (worker >= self->threads) {
        self->bad_worker++;
        return;
    }
    if (self->inside[worker]++ != 0) self->bad_worker++; /* two units with one worker at once */
    self->seen[index]++;
    self->workers[worker]++;
    self->inside[worker]--;
}

static void expect_once(const job *self, uint64_t count)
{
    uint64_t i;
    ck_assert_uint_eq(self->bad_worker, 0);
    for (i = 0; i < ITEMS; i++) ck_assert_uint_eq(self->seen[i], i < count ? 1 : 0);
}

START_TEST(every_index_once)
{
    static const uint64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, ITEMS};
    static job self;
    uint32_t threads, i, round;
    for (threads = 1; threads <= 8; threads++) {
        team *workers = make_team(threads, here(threads));
        for (i = 0; i < sizeof counts / sizeof counts[0]; i++)
            for (round = 0; round < 3; round++) {
                memset(&self, 0, sizeof self);
                self.threads = threads;
                ck_assert(!team_run(workers, counts[i], mark, &self));
                expect_once(&self, counts[i]);
            }
        team_destroy(workers);
    }
}
END_TEST

static void TENON_CALL ascending(void *context, uint64_t index, uint32_t worker)
{
    _Atomic uint64_t *last = context;
    (void)worker;
    ck_assert_uint_eq(*last, index);
    ++*last;
}

START_TEST(alone_is_in_order)
{
    _Atomic uint64_t next = 0;
    team *self = make_team(1, 1);
    team_run(self, 1000, ascending, &next);
    ck_assert_uint_eq(next, 1000);
    team_destroy(self);
}
END_TEST

static void rest(void)
{
    const struct timespec time = {0, 200000};
    nanosleep(&time, NULL);
}

static void TENON_CALL slow_mark(void *context, uint64_t index, uint32_t worker)
{
    rest();
    mark(context, index, worker);
}

/* With units that take their time, every worker gets some, asleep or awake before. */
START_TEST(work_is_shared)
{
    static job self;
    team *workers = make_team(4, 4);
    uint32_t round, worker, joined = 0;
    self.threads = 4;
    for (round = 0; round < 20; round++) {
        memset(self.seen, 0, sizeof self.seen);
        if (round % 2 == 1) rest(); /* let them fall asleep */
        team_run(workers, 40, slow_mark, &self);
        expect_once(&self, 40);
    }
    for (worker = 0; worker < 4; worker++) joined += self.workers[worker] > 0;
    ck_assert_uint_eq(joined, 4);
    team_destroy(workers);
}
END_TEST

static void TENON_CALL nest(void *context, uint64_t index, uint32_t worker)
{
    job *self = context;
    static job inner[8];
    (void)worker;
    ck_assert_uint_lt(index, 8);
    inner[index].threads = 1; /* the calling thread alone, as worker 0 */
    team_run(self->team, 100, mark, &inner[index]);
    expect_once(&inner[index], 100);
    self->seen[index]++;
}

START_TEST(nested)
{
    static job self;
    self.team = make_team(3, 3);
    team_run(self.team, 8, nest, &self);
    expect_once(&self, 8);
    team_destroy(self.team);
}
END_TEST

static void *loop_many(void *context)
{
    team *workers = context;
    uint32_t round;
    job *self = calloc(1, sizeof *self);
    if (self == NULL) return NULL;
    for (round = 0; round < 60; round++) {
        memset(self->seen, 0, sizeof self->seen);
        self->threads = 3;
        team_run(workers, 50, mark, self);
        expect_once(self, 50);
    }
    free(self);
    return context;
}

/* Loops of several threads at once: one has the team, the others go alone. */
START_TEST(concurrent)
{
    pthread_t threads[4];
    team *workers = make_team(3, here(3));
    void *result;
    int i;
    for (i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, loop_many, workers), 0);
    for (i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        ck_assert_ptr_eq(result, workers);
    }
    team_destroy(workers);
}
END_TEST

/* Four times as many threads as processors: all loops end. */
START_TEST(crowded)
{
    static job self;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = processors < 1 ? 4 : (uint32_t)processors * 4, round;
    team *workers;
    if (threads > 64) threads = 64;
    workers = make_team(threads, threads / 4);
    for (round = 0; round < 200; round++) {
        memset(self.seen, 0, sizeof self.seen);
        self.threads = threads;
        team_run(workers, 200, mark, &self);
        expect_once(&self, 200);
    }
    team_destroy(workers);
}
END_TEST

START_TEST(never_run)
{
    team *self = make_team(4, 4);
    team_destroy(self); /* no worker was ever started */
    team_destroy(NULL);
}
END_TEST

/* Pinning: inside the mask, and what cannot be pinned is a note, not a failure. */
START_TEST(pinned)
{
    static job self;
    uint32_t placement[4] = {0, 0, 0, 0};
    team_options options = {.threads = 8,
                            .processors = 8,
                            .log = listen,
                            .log_context = &said,
                            .placement = placement,
                            .placement_count = 4};
    team *workers;
    if (_i == 1) placement[2] = 40000; /* no such processor */
    said = 0;
    workers = team_create(&options);
    ck_assert_ptr_nonnull(workers);
    self.threads = 8;
    team_run(workers, 300, mark, &self);
    expect_once(&self, 300);
    ck_assert_uint_eq(said, _i == 1 ? 1 : 0);
    team_destroy(workers);
}
END_TEST

static void TENON_CALL spoil(void *context, uint64_t index, uint32_t worker)
{
    job *self = context;
    (void)index;
    rest();
    if (worker == 0) return;
    if (self->workers[worker]++ == 0 && fegetround() != FE_TONEAREST) self->bad_worker++;
    fesetround(FE_DOWNWARD);
}

/* A body that changes the mode of a worker is noticed, and the next loop finds the default. */
START_TEST(floating_point_mode)
{
    static job self;
    team *workers = make_team(2, 2);
    uint32_t round;
    for (round = 0; round < 5; round++) {
        self.workers[1] = 0;
        ck_assert(team_run(workers, 40, spoil, &self) == (self.workers[1] > 0));
    }
    ck_assert_uint_eq(self.bad_worker, 0);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
    team_destroy(workers);
}
END_TEST

static Suite *make(void)
{
    Suite *suite = suite_create("team");
    TCase *one = tcase_create("loops");
    tcase_set_timeout(one, 120);
    tcase_add_test(one, every_index_once);
    tcase_add_test(one, alone_is_in_order);
    tcase_add_test(one, work_is_shared);
    tcase_add_test(one, nested);
    tcase_add_test(one, concurrent);
    tcase_add_test(one, crowded);
    tcase_add_test(one, never_run);
    tcase_add_loop_test(one, pinned, 0, 2);
    tcase_add_test(one, floating_point_mode);
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
