/* The one thread team of a host.
 *
 * A loop is a counter: the caller and every worker that happens to be awake take the next indices
 * from it. Nobody is waited for who has not joined, so a worker that the system does not run costs
 * nothing; a worker that has joined is waited for at the end of its present indices only. Workers
 * spin for a few tens of microseconds after a loop, then sleep. */
#ifndef TENON_HOST_TEAM_H
#define TENON_HOST_TEAM_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/engine.h>
#include <tenon/provider.h>

/* No team has more threads. */
#define TEAM_THREADS_MAX 1024u

typedef struct team team;

typedef struct team_options {
    uint32_t threads;          /* caller included, 1 to TEAM_THREADS_MAX */
    uint32_t processors;       /* that can run at once; with more threads than these nobody spins */
    const uint32_t *placement; /* processors to pin workers to, the first is left to the caller;
                                  copied. Workers beyond its end are not pinned */
    uint32_t placement_count;  /* 0: pin nobody */
    tenon_log_function log;    /* never NULL; must stay valid as long as the team */
    void *log_context;
} team_options;

/* Makes a team; its workers are started by the first loop longer than one. NULL: no memory. */
team *team_create(const team_options *options);
/* Joins the workers. No loop may be running. NULL is allowed. */
void team_destroy(team *self);
uint32_t team_threads(const team *self);

/* Calls body(context, i, worker) once for every i in [0, count) and returns when all are done, as
 * tenon_services.parallel_for says. Returns true when a body left the floating point mode of a
 * worker changed; it has been put back. [any thread] */
bool team_run(team *self, uint64_t count, tenon_parallel_body body, void *context);

/* The same loop on the calling thread alone. */
void team_run_alone(uint64_t count, tenon_parallel_body body, void *context);

#endif
