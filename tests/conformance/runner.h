/* Runs the cases of a suite, each in a process of its own. */
#ifndef TENON_CONFORMANCE_RUNNER_H
#define TENON_CONFORMANCE_RUNNER_H

#include "case.h"

/* One finished case, as it is reported. */
typedef struct conformance_report {
    const conformance_case *test;
    const char *name; /* the case's name, with "@level" when a level was forced */
    const char *level;
    const conformance_result *result;
    uint64_t done, total; /* finished so far, all */
} conformance_report;

typedef void (*conformance_reporter)(void *context, const conformance_report *report);

typedef struct conformance_totals {
    uint64_t run; /* executed: passed + failed + xfail */
    uint64_t passed, failed, skipped, unsupported, xfail;
    uint64_t requests;    /* of the executed cases: requests compared and checks made */
    uint64_t exact_run;   /* executed cases of the stages exact and model */
    uint64_t approx_run;  /* executed cases of stage approx */
    uint64_t exact_cases; /* all cases of these stages */
} conformance_totals;

typedef struct conformance_run_options {
    const conformance_target *target; /* its level is replaced by each of levels */
    const char *const *levels;        /* stages exact and model run once for each; none: as it is */
    uint64_t level_count;
    const char *filter;     /* glob over name@level, NULL: all */
    const char *xfail;      /* glob over name@level: known failures, NULL: none */
    uint32_t time_limit_ms; /* per case, 0: 60000 */
    uint32_t jobs;          /* processes at once, 0: one per processor of the affinity mask */
    conformance_reporter reporter;
    void *context;
} conformance_run_options;

/* Runs every case and fills *totals. TENON_OK when the run came to its end, whatever the cases
 * said; TENON_NOMEM or TENON_IO when it could not. No host may exist in this process. The children
 * have stdout closed to /dev/null, so a provider that prints spoils nothing. */
int32_t conformance_run(const conformance_suite *suite, const conformance_run_options *options,
                        conformance_totals *totals, tenon_error *error);

/* Runs body(context, result) in a process of its own under the same rules; for questions that load
 * a provider. answer (bytes long) is filled by the child through shared memory. Returns false and
 * says why in detail when the child died or ran out of time. */
bool conformance_isolated(void (*body)(void *context, void *answer), void *context, void *answer,
                          uint64_t bytes, uint32_t time_limit_ms, char *detail,
                          uint64_t detail_bytes);

#endif
