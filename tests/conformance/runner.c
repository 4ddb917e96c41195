/* One process per case: a provider that crashes, hangs or scribbles ends its own case only. */
#include "runner.h"

#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_TIME_LIMIT_MS 120000u
#define MAX_JOBS 64u
/* Cases are taken in blocks, a block level by level: so that a case's next level finds the expected
 * tables of its first, and only two blocks of tables are held. */
#define BLOCK_CASES 16u

/* A running child. Its end is seen as the end of file of a pipe that only it holds open. */
typedef struct job {
    pid_t pid; /* 0: free */
    int pipe;
    int64_t deadline_ms;
    bool timed_out;
} job;

/* What a job of conformance_run works on. */
typedef struct slot {
    job running;
    const conformance_case *test;
    uint64_t block; /* the case's */
    conformance_target target;
    char name[256];
    conformance_result *shared; /* mapped, written by the child */
} slot;

/* Where the run is in its cases. */
typedef struct cursor {
    uint64_t block, level, index; /* index: in the block */
} cursor;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *map_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The child's side of start_job: quiet, in a group of its own, gone when the parent is. */
static void become_child(pid_t parent, int kept)
{
    struct rlimit no_core = {0, 0};
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setrlimit(RLIMIT_CORE, &no_core);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) _exit(127);
    if (null > STDERR_FILENO) close(null);
    fcntl(kept, F_SETFD, FD_CLOEXEC); /* a program that the child starts must not hold it open */
}

/* Forks; returns 0 in the child, 1 in the parent, -1 on failure. */
static int start_job(job *self, uint32_t time_limit_ms)
{
    int ends[2];
    pid_t parent = getpid(), pid;
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    if (pid == 0) {
        close(ends[0]);
        become_child(parent, ends[1]);
        return 0;
    }
    setpgid(pid, pid); /* both sides, whoever is first */
    close(ends[1]);
    self->pid = pid;
    self->pipe = ends[0];
    self->timed_out = false;
    self->deadline_ms = now_ms() + (time_limit_ms != 0 ? time_limit_ms : DEFAULT_TIME_LIMIT_MS);
    return 1;
}

/* Ends what is left of the job's group and returns the wait status of the child. */
static int finish_job(job *self, bool kill_child)
{
    int status = 0;
    pid_t answer;
    if (kill_child) kill(-self->pid, SIGKILL);
    do {
        answer = waitpid(self->pid, &status, 0);
    } while (answer < 0 && errno == EINTR);
    kill(-self->pid, SIGKILL); /* helpers that outlived it; ESRCH when there are none */
    close(self->pipe);
    self->pid = 0;
    return answer < 0 ? -1 : status;
}

/* How a child ended, in words; "" when it ended well. */
static void describe_end(const job *self, int status, uint32_t time_limit_ms, char *text,
                         size_t bytes)
{
    text[0] = '\0';
    if (self->timed_out)
        snprintf(text, bytes, "no answer after %u ms, ended", time_limit_ms);
    else if (status < 0)
        snprintf(text, bytes, "the case's process could not be waited for");
    else if (WIFSIGNALED(status))
        snprintf(text, bytes, "the case's process died: SIG%s", sigabbrev_np(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        snprintf(text, bytes, "the case's process exited with %d", WEXITSTATUS(status));
}

bool conformance_isolated(void (*body)(void *context, void *answer), void *context, void *answer,
                          uint64_t bytes, uint32_t time_limit_ms, char *detail,
                          uint64_t detail_bytes)
{
    job self = {0};
    struct pollfd watch;
    void *shared = map_shared(bytes != 0 ? bytes : 1);
    int started = -1, ready, status;
    bool good = false;
    if (time_limit_ms == 0) time_limit_ms = DEFAULT_TIME_LIMIT_MS;
    if (shared == NULL) {
        snprintf(detail, detail_bytes, "out of memory");
        return false;
    }
    memcpy(shared, answer, bytes);
    started = start_job(&self, time_limit_ms);
    if (started == 0) {
        body(context, shared);
        _exit(0);
    }
    if (started < 0) {
        snprintf(detail, detail_bytes, "a process could not be started: %s", strerror(errno));
        goto out;
    }
    watch = (struct pollfd){.fd = self.pipe, .events = POLLIN};
    do {
        int64_t left = self.deadline_ms - now_ms();
        ready = poll(&watch, 1, left > 0 ? (int)left : 0);
    } while (ready < 0 && errno == EINTR);
    self.timed_out = ready == 0;
    status = finish_job(&self, self.timed_out);
    describe_end(&self, status, time_limit_ms, detail, detail_bytes);
    good = detail[0] == '\0';
    if (good) memcpy(answer, shared, bytes);
out:
    munmap(shared, bytes != 0 ? bytes : 1);
    return good;
}

static uint64_t levels_of(const conformance_run_options *options, const conformance_case *test)
{
    return conformance_by_level(test->stage) && options->level_count > 0 ? options->level_count : 1;
}

/* Names the case and picks its level; false when the case has no such level or the filter leaves
 * it out. */
static bool plan(const conformance_run_options *options, const conformance_case *test,
                 uint64_t level, conformance_target *target, char *name, size_t name_bytes)
{
    if (level >= levels_of(options, test)) return false;
    *target = *options->target;
    snprintf(name, name_bytes, "%s", test->name);
    if (conformance_by_level(test->stage) && options->level_count > 0) {
        target->level = options->levels[level];
        snprintf(name, name_bytes, "%s@%s", test->name, target->level);
    }
    return options->filter == NULL || fnmatch(options->filter, name, 0) == 0 ||
           fnmatch(options->filter, test->name, 0) == 0;
}

/* The next case and level to run, put into *self; false at the end. */
static bool next(cursor *at, const conformance_suite *suite, const conformance_run_options *options,
                 slot *self)
{
    uint64_t levels = options->level_count > 0 ? options->level_count : 1;
    while (at->block * BLOCK_CASES < suite->count) {
        uint64_t test = at->block * BLOCK_CASES + at->index, level = at->level;
        self->block = at->block;
        if (++at->index == BLOCK_CASES || test + 1 >= suite->count) {
            at->index = 0;
            if (++at->level == levels) {
                at->level = 0;
                at->block++;
            }
        }
        if (test >= suite->count) continue;
        self->test = &suite->cases[test];
        if (plan(options, self->test, level, &self->target, self->name, sizeof self->name))
            return true;
    }
    self->test = NULL;
    return false;
}

/* A child's last act: run the case and leave. */
static void run_child(slot *self)
{
    self->test->body(self->test, &self->target, self->shared);
    if (self->shared->outcome == 0) self->shared->outcome = CONFORMANCE_PASSED;
    _exit(0);
}

/* Applies the declared failures, counts the case and reports it. */
static void account(slot *self, int status, const conformance_run_options *options,
                    conformance_totals *totals, uint64_t done, uint64_t total)
{
    conformance_result *result = self->shared;
    conformance_report report = {.test = self->test,
                                 .name = self->name,
                                 .level = self->target.level,
                                 .result = result,
                                 .done = done,
                                 .total = total};
    char end[160];
    describe_end(&self->running, status,
                 options->time_limit_ms != 0 ? options->time_limit_ms : DEFAULT_TIME_LIMIT_MS, end,
                 sizeof end);
    result->detail[sizeof result->detail - 1] = '\0'; /* the child may have been scribbled over */
    result->repeat[sizeof result->repeat - 1] = '\0';
    if (end[0] != '\0') {
        char before[sizeof result->detail];
        memcpy(before, result->detail, sizeof before);
        result->outcome = CONFORMANCE_FAILED;
        snprintf(result->detail, sizeof result->detail, "%s%s%.400s", end,
                 before[0] != '\0' ? " after: " : "", before);
    }
    if (options->xfail != NULL && (fnmatch(options->xfail, self->name, 0) == 0 ||
                                   fnmatch(options->xfail, self->test->name, 0) == 0)) {
        if (result->outcome == CONFORMANCE_FAILED) {
            result->outcome = CONFORMANCE_XFAIL;
        } else if (result->outcome == CONFORMANCE_PASSED) {
            result->outcome = 0;
            conformance_fail(result, "declared as a known failure, but it passes");
        }
    }
    switch (result->outcome) {
    case CONFORMANCE_PASSED: totals->passed++; break;
    case CONFORMANCE_SKIPPED: totals->skipped++; break;
    case CONFORMANCE_UNSUPPORTED: totals->unsupported++; break;
    case CONFORMANCE_XFAIL: totals->xfail++; break;
    default:
        result->outcome = CONFORMANCE_FAILED;
        totals->failed++;
        break;
    }
    if (result->outcome != CONFORMANCE_SKIPPED && result->outcome != CONFORMANCE_UNSUPPORTED) {
        totals->run++;
        totals->requests += result->requests;
        if (conformance_by_level(self->test->stage)) totals->exact_run++;
        if (self->test->stage == CONFORMANCE_APPROX) totals->approx_run++;
    }
    if (conformance_by_level(self->test->stage)) totals->exact_cases++;
    if (options->reporter != NULL) options->reporter(options->context, &report);
}

static uint32_t default_jobs(void)
{
    cpu_set_t set;
    int count;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 2;
    count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count;
}

/* The oldest block that still has a case running, or the given one. */
static uint64_t oldest_block(const slot *slots, uint32_t jobs, uint64_t block)
{
    uint32_t i;
    for (i = 0; i < jobs; i++)
        if (slots[i].running.pid != 0 && slots[i].block < block) block = slots[i].block;
    return block;
}

/* Waits until a job ends or runs out of time. ended[i] tells which did. False: poll failed. */
static bool wait_for_jobs(slot *slots, uint32_t jobs, bool *ended)
{
    struct pollfd watches[MAX_JOBS];
    int64_t wait_ms = 1000000, now = now_ms();
    int ready;
    uint32_t i;
    for (i = 0; i < jobs; i++) {
        const job *running = &slots[i].running;
        watches[i] = (struct pollfd){.fd = running->pid != 0 ? running->pipe : -1,
                                     .events = POLLIN};
        if (running->pid != 0 && running->deadline_ms - now < wait_ms)
            wait_ms = running->deadline_ms - now;
    }
    ready = poll(watches, jobs, wait_ms > 0 ? (int)wait_ms : 0);
    if (ready < 0 && errno != EINTR) return false;
    now = now_ms();
    for (i = 0; i < jobs; i++) {
        job *running = &slots[i].running;
        bool finished = ready > 0 && watches[i].revents != 0;
        running->timed_out = !finished && running->pid != 0 && now >= running->deadline_ms;
        ended[i] = running->pid != 0 && (finished || running->timed_out);
    }
    return true;
}

int32_t conformance_run(const conformance_suite *suite, const conformance_run_options *options,
                        conformance_totals *totals, tenon_error *error)
{
    uint32_t jobs = options->jobs != 0 ? options->jobs : default_jobs(), busy = 0, i;
    uint64_t done = 0, total = 0, begun = 0; /* begun: blocks whose tables were made ready */
    slot *slots = NULL, waiting = {.test = NULL};
    conformance_result *results = NULL;
    conformance_share *shares = NULL;
    cursor at = {0, 0, 0}, count = {0, 0, 0};
    bool ended[MAX_JOBS];
    int32_t status = TENON_OK;
    if (jobs > MAX_JOBS) jobs = MAX_JOBS;
    memset(totals, 0, sizeof *totals);
    while (next(&count, suite, options, &waiting)) total++;
    slots = calloc(jobs, sizeof *slots);
    results = map_shared(jobs * sizeof *results);
    shares = share_make((size_t)BLOCK_CASES * 2);
    if (slots == NULL || results == NULL) {
        status = tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                            "no memory for the runner");
        goto out;
    }
    (void)next(&at, suite, options, &waiting);
    while (waiting.test != NULL || busy > 0) {
        for (i = 0; i < jobs && waiting.test != NULL; i++) {
            slot *self = &slots[i];
            int started;
            if (self->running.pid != 0) continue;
            /* The tables of the block before the last are used again: its cases must be over. */
            if (oldest_block(slots, jobs, waiting.block) + 2 <= waiting.block) break;
            for (; begun <= waiting.block; begun++) {
                uint32_t k;
                for (k = 0; k < BLOCK_CASES; k++)
                    share_reset(share_at(shares, begun % 2 * BLOCK_CASES + k));
            }
            *self = waiting;
            self->target.share = share_at(shares,
                                          self->block % 2 * BLOCK_CASES +
                                              (size_t)(self->test - suite->cases) % BLOCK_CASES);
            self->shared = &results[i];
            memset(self->shared, 0, sizeof *self->shared);
            started = start_job(&self->running, options->time_limit_ms);
            if (started == 0) run_child(self);
            if (started < 0) {
                status = tenon_fail(error, TENON_IO, TENON_REASON_NONE, TENON_SCOPE_CALL,
                                    "a process for a case could not be started");
                goto out;
            }
            busy++;
            (void)next(&at, suite, options, &waiting);
        }
        if (busy == 0) break;
        if (!wait_for_jobs(slots, jobs, ended)) {
            status = tenon_fail(error, TENON_IO, TENON_REASON_NONE, TENON_SCOPE_CALL,
                                "the cases could not be waited for");
            goto out;
        }
        for (i = 0; i < jobs; i++) {
            if (!ended[i]) continue;
            busy--;
            account(&slots[i], finish_job(&slots[i].running, slots[i].running.timed_out), options,
                    totals, ++done, total);
        }
    }
out:
    for (i = 0; slots != NULL && i < jobs; i++)
        if (slots[i].running.pid != 0) finish_job(&slots[i].running, true);
    if (results != NULL) munmap(results, jobs * sizeof *results);
    share_free(shares, (size_t)BLOCK_CASES * 2);
    free(slots);
    return status;
}
