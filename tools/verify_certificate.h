/* The certificate of a verification: one JSON document that says what was proven, of which file, on
 * which device, and what was not. */
#ifndef TENON_TOOLS_VERIFY_CERTIFICATE_H
#define TENON_TOOLS_VERIFY_CERTIFICATE_H

#include "json.h"
#include "verify_target.h"

#include <tests/conformance/runner.h>

#define CERTIFICATE_OPERATIONS 32u
#define CERTIFICATE_STAGES 6u

typedef struct certificate_counts {
    uint64_t passed, failed, skipped, unsupported, xfail;
} certificate_counts;

/* What was counted while the cases ran. Zeroed is empty. */
typedef struct certificate {
    struct {
        char operation[24], arith[8]; /* "qmatmul", "f32", "a8" or "approx" */
        certificate_counts counts;
    } operations[CERTIFICATE_OPERATIONS];
    uint32_t operation_count;
    certificate_counts stages[CERTIFICATE_STAGES]; /* by conformance_stage, 0: static */
    uint64_t cpu_us, wall_us;                      /* of large device calls */
    bool cpu_work;                                 /* it names hardware, and a processor was busy */
} certificate;

/* What was asked for. */
typedef struct certificate_run {
    const char *filter, *xfail, *level, *model; /* NULL: not given */
    bool all_stages, thorough, good;            /* good: what the run came to */
    uint64_t seed;
} certificate_run;

void certificate_count(certificate *self, conformance_stage stage, const char *name,
                       int32_t outcome);
/* Takes note of the measurement that a case brings along. */
void certificate_measured(certificate *self, const conformance_result *result);
/* The document. Asks the device for its name once more, in a process of its own. */
json_t *certificate_make(const certificate *self, const verify_target *target,
                         const certificate_run *run, const conformance_totals *totals);

#endif
