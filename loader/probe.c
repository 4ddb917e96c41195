#include <loader/probe.h>
#include <loader/platform.h>
#include <loader/search.h>
#include <loader/sha256.h>
#include <loader/trust.h>
#include <stdlib.h>
#include <string.h>

void probe_outcome_clear(probe_outcome *self)
{
    loader_probe_report_clear(&self->report);
    memset(self, 0, sizeof *self);
}

void loader_probe_report_clear(loader_probe_report *report)
{
    free(report->devices);
    memset(report, 0, sizeof *report);
}

/* The helper is run, so it must be as trustworthy as what is loaded. */
static int32_t check_helper(const char *helper, loader_fault *fault)
{
    char text[PLATFORM_TEXT_BYTES];
    platform_access access;
    trust_fault trust = {0};
    uint32_t reason = platform_path_facts(helper, NULL, &access, text);
    int32_t status = TENON_OK;
    if (reason != TENON_REASON_NONE || access.kind != PLATFORM_REGULAR) {
        fault_note(fault, TENON_REASON_PROBE_HELPER, NULL, helper, NULL,
                   reason != TENON_REASON_NONE ? text : "there is no such program");
        return TENON_OK;
    }
    status = trust_judge(helper, &access, &trust);
    if (status == TENON_OK && trust.reason != TENON_REASON_NONE) {
        cut_format(text, sizeof text, "%s: %s", tenon_reason_text(trust.reason), trust.path);
        fault_note(fault, TENON_REASON_PROBE_HELPER, NULL, helper, NULL, text);
    }
    trust_fault_clear(&trust);
    return status;
}

/* The last line that is not empty of what the provider printed to stderr. */
static const char *last_line(char *said)
{
    size_t length = strlen(said);
    char *start;
    while (length > 0 && (said[length - 1] == '\n' || said[length - 1] == '\r'))
        said[--length] = '\0';
    start = strrchr(said, '\n');
    return start != NULL ? start + 1 : said;
}

/* What the way the helper ended says, unless it said everything itself. */
static void judge_end(platform_run_result *run, uint32_t timeout_ms, probe_outcome *out)
{
    const char *said = last_line(run->said), *phase = out->phase[0] != '\0' ? out->phase : "start";
    char have[64], text[256];
    uint32_t reason;
    if (run->ended != PLATFORM_ENDED_TIMEOUT &&
        (out->ended || out->fault.reason == TENON_REASON_PROBE_HELPER))
        return;
    switch (run->ended) {
    case PLATFORM_ENDED_TIMEOUT:
        reason = TENON_REASON_PROBE_TIMEOUT;
        cut_format(have, sizeof have, "after %u ms", (unsigned)timeout_ms);
        break;
    case PLATFORM_ENDED_SIGNAL:
        reason = TENON_REASON_PROBE_CRASHED;
        cut_format(have, sizeof have, "%s", run->name);
        break;
    case PLATFORM_ENDED_EXIT:
        reason = TENON_REASON_PROBE_EXITED;
        cut_format(have, sizeof have, "exit status %lld", (long long)run->code);
        break;
    default:
        reason = TENON_REASON_PROBE_EXITED;
        cut_format(have, sizeof have, "unknown exit status");
        break;
    }
    cut_format(text, sizeof text, "%s in %s%s%s", have, phase, said[0] != '\0' ? ": " : "", said);
    /* Ending before its own end explains whatever it said before that. */
    memset(&out->fault, 0, sizeof out->fault);
    fault_note(&out->fault, reason, NULL, have, NULL, text);
}

/* The parts of a fault as one text. */
static void describe(const loader_fault *fault, char *detail, size_t room)
{
    if (fault->text[0] != '\0')
        cut_copy(detail, room, fault->text);
    else
        cut_format(detail, room, "%s%s%s%s%s%s", fault->symbol, fault->symbol[0] != '\0' ? " " : "",
                   fault->have[0] != '\0' ? "have " : "", fault->have,
                   fault->need[0] != '\0' ? " need " : "", fault->need);
}

/* "--set KEY=VALUE" for each, and the file. NULL: no memory. The strings are the caller's. */
static const char **make_arguments(const char *file, const char *const *config,
                                   uint64_t config_count, uint64_t *count)
{
    const char **arguments;
    uint64_t i;
    if (config_count > 65536) return NULL;
    arguments = malloc((2 * (size_t)config_count + 2) * sizeof *arguments);
    if (arguments == NULL) return NULL;
    *count = 0;
    for (i = 0; i < config_count; i++) {
        arguments[(*count)++] = "--set";
        arguments[(*count)++] = config[i];
    }
    arguments[(*count)++] = "--";
    arguments[(*count)++] = file;
    return arguments;
}

int32_t probe_run(const char *file, const char *const *config, uint64_t config_count,
                  const char *helper, uint32_t timeout_ms, probe_outcome *out)
{
    char text[PLATFORM_TEXT_BYTES] = "", *found = NULL;
    const char **arguments = NULL;
    platform_run_result run = {0};
    uint64_t count = 0;
    int32_t status = TENON_NOMEM;
    memset(out, 0, sizeof *out);
    if (timeout_ms == 0) timeout_ms = PROBE_DEFAULT_TIMEOUT_MS;
    if (helper == NULL) {
        if (!search_built_in(NULL, &found)) goto out;
        helper = found;
    }
    if (helper == NULL) {
        fault_note(&out->fault, TENON_REASON_PROBE_HELPER, NULL, NULL, NULL,
                   "where it lies is unknown");
    } else {
        status = check_helper(helper, &out->fault);
        if (status != TENON_OK) goto out;
    }
    if (out->fault.reason == TENON_REASON_NONE) {
        status = TENON_NOMEM;
        arguments = make_arguments(file, config, config_count, &count);
        if (arguments == NULL) goto out;
        if (platform_run(helper, arguments, count, timeout_ms, PROBE_MAX_REPORT, &run, text) !=
            TENON_REASON_NONE) {
            fault_note(&out->fault, TENON_REASON_PROBE_HELPER, NULL, helper, NULL, text);
        } else {
            status = probe_parse(run.report, out);
            if (status != TENON_OK) goto out;
            judge_end(&run, timeout_ms, out);
        }
    }
    out->report.reason = out->fault.reason;
    describe(&out->fault, out->report.detail, sizeof out->report.detail);
    status = TENON_OK;
out:
    free(run.report);
    free(arguments);
    free(found);
    return status;
}

int32_t loader_probe(const char *file, const char *const *config, uint64_t config_count,
                     const char *probe_helper, uint32_t timeout_ms, loader_probe_report *report,
                     tenon_error *error)
{
    probe_outcome outcome = {0};
    char *path = NULL;
    int32_t status;
    memset(report, 0, sizeof *report);
    if (file == NULL || file[0] == '\0')
        return tenon_fail(error, TENON_ARG, TENON_REASON_NO_SUCH_PATH, TENON_SCOPE_CALL,
                          "no file was named");
    path = platform_absolute(file);
    status = path != NULL
                 ? probe_run(path, config, config_count, probe_helper, timeout_ms, &outcome)
                 : TENON_NOMEM;
    free(path);
    if (status != TENON_OK) {
        probe_outcome_clear(&outcome);
        return tenon_fail(error, status, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                          "out of memory");
    }
    *report = outcome.report;
    return TENON_OK;
}

/* ---- the cache ---------------------------------------------------------------------------- */

static void add_bytes(void *context, const void *bytes, uint64_t count)
{
    sha256_add(context, &count, sizeof count); /* so that parts cannot run into each other */
    sha256_add(context, bytes, count);
}

/* The name of the entry, 64 digits, and its whole content. false: the helper is not there. */
static bool cache_key(const uint8_t file_sha256[32], const char *helper, char name[65],
                      char content[160])
{
    char text[PLATFORM_TEXT_BYTES], *found = NULL;
    loader_identity identity;
    platform_access access;
    uint8_t digest[32];
    sha256 hash;
    bool good;
    memset(&identity, 0, sizeof identity);
    if (helper == NULL && search_built_in(NULL, &found)) helper = found;
    good = helper != NULL && platform_path_facts(helper, &identity, &access, text) == 0 &&
           access.kind == PLATFORM_REGULAR;
    free(found);
    if (!good) return false;
    sha256_begin(&hash);
    add_bytes(&hash, PROBE_PROTOCOL, sizeof PROBE_PROTOCOL);
    add_bytes(&hash, file_sha256, 32);
    add_bytes(&hash, &identity.device, sizeof identity.device);
    add_bytes(&hash, &identity.inode, sizeof identity.inode);
    add_bytes(&hash, &identity.size, sizeof identity.size);
    add_bytes(&hash, &identity.mtime_ns, sizeof identity.mtime_ns);
    platform_fingerprint(add_bytes, &hash);
    sha256_end(&hash, digest);
    sha256_text(digest, name);
    cut_format(content, 160, "%s\ngood %s\n", PROBE_PROTOCOL, name);
    return true;
}

bool probe_is_cached(const uint8_t file_sha256[32], const char *helper)
{
    char name[65], wanted[160], content[160], *directory;
    uint64_t count = 0;
    bool good;
    if (!cache_key(file_sha256, helper, name, wanted)) return false;
    directory = platform_cache_directory("probe");
    if (directory == NULL) return false;
    good = platform_cache_read(directory, name, content, sizeof content, &count) &&
           count == strlen(wanted) && memcmp(content, wanted, (size_t)count) == 0;
    free(directory);
    return good;
}

void probe_remember(const uint8_t file_sha256[32], const char *helper)
{
    char name[65], content[160], *directory;
    if (!cache_key(file_sha256, helper, name, content)) return;
    directory = platform_cache_directory("probe");
    if (directory == NULL) return;
    /* Not being able to remember costs the next start a probe, nothing else. */
    (void)platform_cache_write(directory, name, content, strlen(content));
    free(directory);
}
