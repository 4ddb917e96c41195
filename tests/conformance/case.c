/* Lists of conformance cases and the words for their outcomes. */
#include "case.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a: the data of a case depends on the run's seed and the case's name alone, so that a filter
 * never changes what a case computes. */
static uint64_t name_hash(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++) hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    return hash;
}

conformance_case *conformance_add(conformance_suite *suite, conformance_stage stage,
                                  conformance_body body, const char *name)
{
    conformance_case *added;
    if (suite->count == suite->capacity) {
        uint64_t capacity = suite->capacity == 0 ? 64 : suite->capacity * 2, bytes;
        if (!tenon_mul_u64(capacity, sizeof *suite->cases, &bytes)) return NULL;
        added = realloc(suite->cases, bytes);
        if (added == NULL) return NULL;
        suite->cases = added;
        suite->capacity = capacity;
    }
    added = &suite->cases[suite->count++];
    memset(added, 0, sizeof *added);
    snprintf(added->name, sizeof added->name, "%s", name);
    added->stage = stage;
    added->body = body;
    added->seed = suite->seed ^ name_hash(added->name);
    added->thorough = suite->thorough;
    added->save_dir = suite->save_dir;
    return added;
}

static bool matches(const char *name, const char *glob, const char *const *levels,
                    uint64_t level_count)
{
    char full[256];
    uint64_t i;
    if (fnmatch(glob, name, 0) == 0) return true;
    for (i = 0; i < level_count; i++) {
        snprintf(full, sizeof full, "%s@%s", name, levels[i]);
        if (fnmatch(glob, full, 0) == 0) return true;
    }
    return false;
}

uint64_t conformance_filter(conformance_suite *suite, const char *glob, const char *const *levels,
                            uint64_t level_count)
{
    uint64_t i, kept = 0;
    for (i = 0; i < suite->count; i++) {
        if (!matches(suite->cases[i].name, glob, levels, level_count)) continue;
        if (kept != i) suite->cases[kept] = suite->cases[i];
        kept++;
    }
    suite->count = kept;
    return kept;
}

void conformance_clear(conformance_suite *suite)
{
    free(suite->cases);
    suite->cases = NULL;
    suite->count = 0;
    suite->capacity = 0;
}

bool conformance_fail(conformance_result *result, const char *format, ...)
{
    va_list arguments;
    if (result->outcome == CONFORMANCE_FAILED) return false;
    result->outcome = CONFORMANCE_FAILED;
    va_start(arguments, format);
    vsnprintf(result->detail, sizeof result->detail, format, arguments);
    va_end(arguments);
    return false;
}

void conformance_set(conformance_result *result, conformance_outcome outcome, const char *format,
                     ...)
{
    va_list arguments;
    if (result->outcome == CONFORMANCE_FAILED) return;
    result->outcome = (int32_t)outcome;
    va_start(arguments, format);
    vsnprintf(result->detail, sizeof result->detail, format, arguments);
    va_end(arguments);
}

bool conformance_by_level(conformance_stage stage)
{
    return stage == CONFORMANCE_EXACT || stage == CONFORMANCE_MODEL;
}

const char *conformance_outcome_name(int32_t outcome)
{
    switch (outcome) {
    case CONFORMANCE_PASSED: return "passed";
    case CONFORMANCE_FAILED: return "failed";
    case CONFORMANCE_SKIPPED: return "skipped";
    case CONFORMANCE_UNSUPPORTED: return "unsupported";
    case CONFORMANCE_XFAIL: return "xfail";
    default: return "unknown";
    }
}
