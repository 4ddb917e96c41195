/* The stage probe, seen from the host (SPEC.md 4): a helper program loads the file, opens it,
 * counts devices, tests it, and tells what it saw. Its words are untrusted: a provider runs in it. */
#ifndef TENON_LOADER_PROBE_H
#define TENON_LOADER_PROBE_H

#include <loader/fault.h>
#include <loader/loader.h>

#define PROBE_DEFAULT_TIMEOUT_MS 20000u
/* A provider that tells of more devices is refused. */
#define PROBE_MAX_DEVICES 256u
#define PROBE_MAX_REPORT (1u << 20)
/* The first words of a report; they change when its form does. */
#define PROBE_PROTOCOL "tenon-probe 1 " TENON_VERSION

/* What the helper told. fault holds what report.reason and report.detail say, in parts. */
typedef struct probe_outcome {
    loader_probe_report report;
    loader_fault fault;
    char phase[32];  /* what it was doing last: "load", "open", "test", ... */
    uint64_t tested; /* cases of the self-test that were run */
    bool ended;      /* the report is whole */
} probe_outcome;

/* Runs the helper, as loader_probe does. *out is freed with probe_outcome_clear whatever the
 * answer. TENON_OK or TENON_NOMEM. */
int32_t probe_run(const char *file, const char *const *config, uint64_t config_count,
                  const char *helper, uint32_t timeout_ms, probe_outcome *out);
void probe_outcome_clear(probe_outcome *self);

/* Reads a report (any bytes, NUL-terminated). Notes a fault when it is malformed. TENON_OK,
 * TENON_NOMEM. */
int32_t probe_parse(const char *text, probe_outcome *out);

/* The cache of successes, in a directory that only this user can write. The key covers the file's
 * bytes, the helper, and what platform_fingerprint knows of the machine. Both do nothing where
 * there is no such directory. */
bool probe_is_cached(const uint8_t file_sha256[32], const char *helper);
void probe_remember(const uint8_t file_sha256[32], const char *helper);

#endif
