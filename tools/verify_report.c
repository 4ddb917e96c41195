#include "verify_report.h"
#include "calibrate.h"
#include "terminal.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

void report_begin(verify_report *self, const verify_target *target, const char *replay,
                  uint64_t seed, bool json)
{
    memset(self, 0, sizeof *self);
    self->target = target;
    self->replay = replay;
    self->seed = seed;
    self->json = json;
    self->began = calibrate_seconds();
    if (json) {
        self->failures = json_array();
        return;
    }
    fprintf(terminal_out(), "%s %s%s%s%s%s\n", target->id, target->version,
            target->device_name[0] != '\0' ? " on " : "", target->device_name,
            target->file[0] != '\0' ? "  " : "", target->file);
    fflush(terminal_out());
}

static report_row *row_of(verify_report *self, const char *name, const char *level)
{
    size_t length = strcspn(name, "/");
    uint32_t i;
    if (level == NULL) level = "";
    for (i = 0; i < self->row_count; i++)
        if (strncmp(self->rows[i].stage, name, length) == 0 &&
            self->rows[i].stage[length] == '\0' && strcmp(self->rows[i].level, level) == 0)
            return &self->rows[i];
    if (self->row_count == REPORT_MAX_ROWS || length >= sizeof self->rows[0].stage) return NULL;
    memcpy(self->rows[self->row_count].stage, name, length);
    snprintf(self->rows[self->row_count].level, LIST_WORD_BYTES, "%s", level);
    return &self->rows[self->row_count++];
}

static void count(report_row *row, int32_t outcome)
{
    if (row == NULL) return;
    switch (outcome) {
    case CONFORMANCE_PASSED: row->passed++; break;
    case CONFORMANCE_SKIPPED: row->skipped++; break;
    case CONFORMANCE_UNSUPPORTED: row->unsupported++; break;
    case CONFORMANCE_XFAIL: row->xfail++; break;
    default: row->failed++; break;
    }
}

static void keep_reason(verify_report *self, int32_t outcome, const char *text)
{
    report_reason *reason;
    uint32_t i;
    for (i = 0; i < self->reason_count; i++) {
        reason = &self->reasons[i];
        if (reason->outcome != outcome || strncmp(reason->text, text, sizeof reason->text - 1) != 0)
            continue;
        reason->count++;
        return;
    }
    if (self->reason_count == REPORT_MAX_REASONS) return;
    reason = &self->reasons[self->reason_count++];
    reason->outcome = outcome;
    reason->count = 1;
    snprintf(reason->text, sizeof reason->text, "%.199s", text);
}

static void say_failure(verify_report *self, const char *name, const char *detail,
                        const char *repeat, const char *plain_name, const char *level)
{
    char shown[1600];
    self->failed++;
    if (self->json) {
        json_t *object = json_object();
        json_put(object, "case", json_text(name));
        json_put(object, "seed", json_u64(self->seed));
        json_put(object, "detail", json_text(detail));
        if (repeat[0] != '\0') json_put(object, "repeat", json_text(repeat));
        json_push(self->failures, object);
        return;
    }
    terminal_progress_end();
    text_escape(shown, sizeof shown, detail, strlen(detail));
    fprintf(terminal_out(), "%sFAILED%s %s\n  %s\n", terminal_red(), terminal_plain(), name, shown);
    if (plain_name != NULL)
        fprintf(terminal_out(), "  replay: tenon verify %s --filter '%s'%s%s --seed %llu\n",
                self->replay, plain_name, level != NULL ? " --level " : "",
                level != NULL ? level : "", (unsigned long long)self->seed);
    if (repeat[0] != '\0') fprintf(terminal_out(), "  repeat: %s\n", repeat);
    fflush(terminal_out());
}

void report_case(void *context, const conformance_report *finished)
{
    verify_report *self = context;
    const conformance_result *result = finished->result;
    count(row_of(self, finished->name,
                 conformance_by_level(finished->test->stage) ? finished->level : NULL),
          result->outcome);
    certificate_count(&self->counted, finished->test->stage, finished->name, result->outcome);
    certificate_measured(&self->counted, result);
    if (result->outcome == CONFORMANCE_FAILED)
        say_failure(self, finished->name, result->detail, result->repeat, finished->test->name,
                    finished->level);
    else if (result->outcome == CONFORMANCE_PASSED && (result->flags & CONFORMANCE_CPU_WORK) != 0)
        snprintf(self->flagged, sizeof self->flagged, "%.199s", result->detail);
    else if (result->outcome != CONFORMANCE_PASSED)
        keep_reason(self, result->outcome, result->detail);
    terminal_progress("%llu of %llu cases, %llu failed: %s", (unsigned long long)finished->done,
                      (unsigned long long)finished->total, (unsigned long long)self->failed,
                      finished->name);
}

void report_static(verify_report *self, const char *name, bool passed, const char *detail,
                   conformance_totals *totals)
{
    count(row_of(self, name, NULL), passed ? CONFORMANCE_PASSED : CONFORMANCE_FAILED);
    certificate_count(&self->counted, (conformance_stage)0, name,
                      passed ? CONFORMANCE_PASSED : CONFORMANCE_FAILED);
    totals->run++;
    totals->requests++;
    if (passed) {
        totals->passed++;
        return;
    }
    totals->failed++;
    say_failure(self, name, detail, "", name, NULL);
}

void report_failure(verify_report *self, const char *what, const char *detail)
{
    say_failure(self, what, detail, "", NULL, NULL);
}

static void print_table(const verify_report *self)
{
    uint32_t i;
    for (i = 0; i < self->row_count; i++) {
        const report_row *row = &self->rows[i];
        fprintf(terminal_out(), "  %-7s%-14s %6llu passed", row->stage, row->level,
                (unsigned long long)row->passed);
        if (row->failed != 0)
            fprintf(terminal_out(), ", %s%llu failed%s", terminal_red(),
                    (unsigned long long)row->failed, terminal_plain());
        if (row->skipped != 0)
            fprintf(terminal_out(), ", %llu skipped", (unsigned long long)row->skipped);
        if (row->unsupported != 0)
            fprintf(terminal_out(), ", %llu unsupported", (unsigned long long)row->unsupported);
        if (row->xfail != 0)
            fprintf(terminal_out(), ", %llu failed as declared", (unsigned long long)row->xfail);
        fprintf(terminal_out(), "\n");
    }
    for (i = 0; i < self->reason_count; i++) {
        const report_reason *reason = &self->reasons[i];
        char shown[900];
        text_escape(shown, sizeof shown, reason->text, strlen(reason->text));
        fprintf(terminal_out(), "  %llu %s: %s\n", (unsigned long long)reason->count,
                conformance_outcome_name(reason->outcome), shown);
    }
    if (self->flagged[0] != '\0') {
        char shown[900];
        text_escape(shown, sizeof shown, self->flagged, strlen(self->flagged));
        fprintf(terminal_out(), "  mind: it %s\n", shown);
    }
}

static json_t *counts(uint64_t run, uint64_t passed, uint64_t failed, uint64_t skipped,
                      uint64_t unsupported, uint64_t xfail)
{
    json_t *object = json_object();
    json_put(object, "run", json_u64(run));
    json_put(object, "passed", json_u64(passed));
    json_put(object, "failed", json_u64(failed));
    json_put(object, "skipped", json_u64(skipped));
    json_put(object, "unsupported", json_u64(unsupported));
    json_put(object, "xfail", json_u64(xfail));
    return object;
}

static bool emit(verify_report *self, const conformance_totals *totals, bool good, double seconds)
{
    json_t *document = json_document(), *rows = json_array(), *reasons = json_array();
    uint32_t i;
    json_put(document, "provider", json_text(self->target->id));
    json_put(document, "version", json_text(self->target->version));
    json_put(document, "file", json_text(self->target->file));
    json_put(document, "device", json_text(self->target->device_name));
    json_put(document, "good", json_boolean(good));
    json_put(document, "seed", json_u64(self->seed));
    json_put(document, "cases",
             counts(totals->run, totals->passed, totals->failed, totals->skipped,
                    totals->unsupported, totals->xfail));
    for (i = 0; i < self->row_count; i++) {
        const report_row *row = &self->rows[i];
        json_t *object = counts(row->passed + row->failed + row->xfail, row->passed, row->failed,
                                row->skipped, row->unsupported, row->xfail);
        json_put(object, "stage", json_text(row->stage));
        json_put(object, "level", json_text(row->level));
        json_push(rows, object);
    }
    json_put(document, "stages", rows);
    for (i = 0; i < self->reason_count; i++) {
        json_t *object = json_object();
        json_put(object, "outcome", json_text(conformance_outcome_name(self->reasons[i].outcome)));
        json_put(object, "text", json_text(self->reasons[i].text));
        json_put(object, "cases", json_u64(self->reasons[i].count));
        json_push(reasons, object);
    }
    json_put(document, "reasons", reasons);
    json_put(document, "requests", json_u64(totals->requests));
    json_put(document, "seconds", json_number(seconds));
    json_put(document, "failures", self->failures);
    if (self->certificate != NULL) json_put(document, "certificate", self->certificate);
    return json_emit(document);
}

bool report_end(verify_report *self, const conformance_totals *totals, bool good)
{
    double seconds = calibrate_seconds() - self->began;
    terminal_progress_end();
    if (self->json) return emit(self, totals, good, seconds);
    print_table(self);
    fprintf(terminal_out(),
            "%s%s%s: %llu run, %llu passed, %llu failed, %llu skipped, %llu unsupported, %llu "
            "xfail; %llu requests and checks in %.1f s, seed %llu\n",
            good ? terminal_green() : terminal_red(), good ? "good" : "failed", terminal_plain(),
            (unsigned long long)totals->run, (unsigned long long)totals->passed,
            (unsigned long long)totals->failed, (unsigned long long)totals->skipped,
            (unsigned long long)totals->unsupported, (unsigned long long)totals->xfail,
            (unsigned long long)totals->requests, seconds, (unsigned long long)self->seed);
    return true;
}
