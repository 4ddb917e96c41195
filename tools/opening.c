#include "opening.h"
#include "command.h"
#include "options_internal.h"
#include "terminal.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Prints what the host and its providers say. Any thread may call it: each line is one call. */
static void TENON_CALL say(void *context, uint32_t level, const char *text)
{
    options *parsed = context;
    char shown[2048];
    if (parsed->gathers && strncmp(text, "tenon: refused", 14) == 0) return;
    if (parsed->gathers && strncmp(text, "tenon: skipped", 14) == 0) return;
    if (parsed->gathers && strncmp(text, "tenon: searched", 15) == 0) {
        /* said while the host is made, on this thread; without memory there is a line less */
        const char *copy = options_own(parsed, text, "", "");
        if (copy != NULL) option_list_add(&parsed->searched, copy);
        return;
    }
    if (parsed->quiet && level != TENON_LOG_ERROR) return;
    if (!parsed->verbose && level > TENON_LOG_WARNING) return;
    text_escape(shown, sizeof shown, text, strlen(text));
    terminal_error("%s", strncmp(shown, "tenon: ", 7) == 0 ? shown + 7 : shown);
}

int opening_exit_code(const tenon_error *error)
{
    switch (error->reason) {
    case TENON_REASON_UNKNOWN_FILTER:
    case TENON_REASON_BAD_CHAIN:
    case TENON_REASON_ROW_LENGTH:
    case TENON_REASON_OVERFLOW:
    case TENON_REASON_EMPTY_SHAPE:
    case TENON_REASON_UNSUPPORTED_LAYOUT:
    case TENON_REASON_UNSUPPORTED_GROUP:
    case TENON_REASON_UNKNOWN_FORMAT: return EXIT_USAGE;
    case TENON_REASON_NO_DEVICE:
    case TENON_REASON_RUNTIME_ABSENT:
    case TENON_REASON_DRIVER_TOO_OLD:
    case TENON_REASON_DEVICE_UNUSABLE:
    case TENON_REASON_DEVICE_BUSY:
    case TENON_REASON_DEVICE_FAILED: return EXIT_NO_DEVICE;
    case TENON_REASON_NO_SUCH_PROVIDER:
    case TENON_REASON_NO_SUCH_DEVICE:
    case TENON_REASON_LEVEL_ABSENT:
    case TENON_REASON_UNKNOWN_CONFIG:
    case TENON_REASON_CHAIN_DECLINED:
    case TENON_REASON_UNSUPPORTED_FORMAT:
    case TENON_REASON_UNSUPPORTED_CLASS:
    case TENON_REASON_UNSUPPORTED_SHAPE:
    case TENON_REASON_LOADING_NOT_BUILT: return EXIT_REFUSED;
    default: return error->reason > 0 && error->reason < 1000 ? EXIT_REFUSED : EXIT_FAILED;
    }
}

int opening_failed(const char *doing, const tenon_error *error)
{
    const char *reason = tenon_reason_text(error->reason);
    char shown[4 * sizeof error->text + 1];
    text_escape(shown, sizeof shown, error->text, strlen(error->text));
    if (error->wanted != 0 || error->available != 0)
        terminal_error("%s: %s%s%s (reason %lu, wanted %llu, available %llu)", doing, shown,
                       shown[0] != '\0' && reason[0] != '\0' ? ": " : "", reason,
                       (unsigned long)error->reason, (unsigned long long)error->wanted,
                       (unsigned long long)error->available);
    else
        terminal_error("%s: %s%s%s (reason %lu)", doing, shown,
                       shown[0] != '\0' && reason[0] != '\0' ? ": " : "", reason,
                       (unsigned long)error->reason);
    return opening_exit_code(error);
}

static bool same_path(const char *named, const char *file)
{
    struct stat a, b;
    if (strcmp(named, file) == 0) return true;
    if (stat(named, &a) != 0 || stat(file, &b) != 0 || S_ISDIR(a.st_mode)) return false;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool opening_named(const options *parsed, const char *file)
{
    const char *list = secure_getenv("TENON_PROVIDERS");
    size_t i;
    for (i = 0; i < parsed->provider_dirs.count; i++)
        if (same_path(parsed->provider_dirs.items[i], file)) return true;
    while (list != NULL && *list != '\0') {
        char one[4096];
        size_t n = strcspn(list, ":");
        if (n > 0 && n < sizeof one) {
            memcpy(one, list, n);
            one[n] = '\0';
            if (same_path(one, file)) return true;
        }
        list += n;
        if (*list == ':') list++;
    }
    return false;
}

/* A file or directory that the user named must be good: named and missing is an error. */
static int check_named(const options *parsed, tenon_host *host)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t count = 0, i;
    int status = EXIT_GOOD;
    if (tenon_host_candidate_count(host, &count, &error) != TENON_OK)
        return opening_failed("candidates", &error);
    for (i = 0; i < count; i++) {
        tenon_candidate candidate = {TENON_HEAD(tenon_candidate), .verdict = 0};
        if (tenon_host_candidate(host, i, &candidate, &error) != TENON_OK)
            return opening_failed("candidates", &error);
        if (!opening_refused(parsed, &candidate)) continue;
        status = EXIT_REFUSED;
        /* warnings have shown it already, unless they were not wanted */
        if (parsed->quiet) {
            char shown[2048];
            text_escape(shown, sizeof shown, candidate.line, strlen(candidate.line));
            terminal_error("%s", strncmp(shown, "tenon: ", 7) == 0 ? shown + 7 : shown);
        }
    }
    return status;
}

bool opening_refused(const options *parsed, const tenon_candidate *candidate)
{
    return candidate->verdict != TENON_CANDIDATE_LOADED && candidate->reason != 0 &&
           candidate->reason != TENON_REASON_FILTERED && opening_named(parsed, candidate->file);
}

int opening_host(options *parsed, const char *level_chain, tenon_host **out)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_host_desc desc;
    int status;
    *out = NULL;
    if (!options_host_desc(parsed, level_chain, &desc)) return EXIT_FAILED;
    desc.log = say;
    desc.log_context = parsed;
    if (tenon_host_create(&desc, out, &error) != TENON_OK)
        return opening_failed("cannot begin", &error);
    status = parsed->gathers ? EXIT_GOOD : check_named(parsed, *out);
    if (status != EXIT_GOOD) {
        tenon_host_destroy(*out, NULL);
        *out = NULL;
    }
    return status;
}

int opening_session(tenon_host *host, const options *parsed, const char *chain, uint32_t mode,
                    uint32_t arith, tenon_session **out)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_session_desc desc = {TENON_HEAD(tenon_session_desc), .chain = chain};
    char doing[128], shown[100];
    desc.mode = mode;
    desc.arith = arith;
    desc.flags = parsed->allow_approx ? TENON_SESSION_ALLOW_APPROX : 0;
    *out = NULL;
    if (tenon_session_create(host, &desc, out, &error) == TENON_OK) return EXIT_GOOD;
    if (chain == NULL) return opening_failed("no session", &error);
    snprintf(doing, sizeof doing, "--provider %s",
             text_escape(shown, sizeof shown, chain, strlen(chain)));
    return opening_failed(doing, &error);
}
