/* How a verification is told: lines and a table for people, one document for programs. */
#ifndef TENON_TOOLS_VERIFY_REPORT_H
#define TENON_TOOLS_VERIFY_REPORT_H

#include "json.h"
#include "verify_certificate.h"
#include "verify_target.h"

#include <tests/conformance/runner.h>

#define REPORT_MAX_ROWS 64u
#define REPORT_MAX_REASONS 24u

/* Counts of one stage at one level. */
typedef struct report_row {
    char stage[16], level[LIST_WORD_BYTES];
    uint64_t passed, failed, skipped, unsupported, xfail;
} report_row;

/* A reason why cases did not run, and how many. */
typedef struct report_reason {
    int32_t outcome;
    char text[200];
    uint64_t count;
} report_reason;

typedef struct verify_report {
    const verify_target *target;
    const char *replay; /* what to give `tenon verify` again, without filter and level */
    uint64_t seed;
    bool json;
    report_row rows[REPORT_MAX_ROWS];
    uint32_t row_count;
    report_reason reasons[REPORT_MAX_REASONS];
    uint32_t reason_count;
    json_t *failures;
    certificate counted;
    json_t *certificate; /* put into the document; NULL: none */
    uint64_t failed;
    char flagged[200]; /* what is no failure, but should be known */
    double began;
} verify_report;

void report_begin(verify_report *self, const verify_target *target, const char *replay,
                  uint64_t seed, bool json);
/* A conformance_reporter; context is the verify_report. */
void report_case(void *context, const conformance_report *finished);
/* A check of stage static, which runs in this process. */
void report_static(verify_report *self, const char *name, bool passed, const char *detail,
                   conformance_totals *totals);
/* A failure of the run as a whole, such as that no case was executed. */
void report_failure(verify_report *self, const char *what, const char *detail);
/* Prints the end of it. False when the output failed. */
bool report_end(verify_report *self, const conformance_totals *totals, bool good);

#endif
