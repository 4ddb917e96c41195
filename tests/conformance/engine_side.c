/* Opening and closing what a case computes with. */
#include "engine_side.h"

#include <dlfcn.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/provider.h>

bool engine_side_declined(int32_t status, const tenon_error *error)
{
    return status == TENON_DECLINED || error->reason == TENON_REASON_CHAIN_DECLINED;
}

bool engine_side_absent(uint32_t reason)
{
    switch (reason) {
    case TENON_REASON_RUNTIME_ABSENT:
    case TENON_REASON_NO_DEVICE:
    case TENON_REASON_NO_SUCH_DEVICE:
    case TENON_REASON_DRIVER_TOO_OLD:
    case TENON_REASON_DEVICE_UNUSABLE:
    case TENON_REASON_DEVICE_BUSY:
    case TENON_REASON_LEVEL_ABSENT: return true;
    default: return false;
    }
}

static void TENON_CALL keep_last(void *context, uint32_t level, const char *text)
{
    engine_side *self = context;
    if (level <= TENON_LOG_WARNING) snprintf(self->last_log, sizeof self->last_log, "%s", text);
}

/* The refusal line of the target's file, or the last thing that the host said. */
static void explain_missing(engine_side *self, char *text, size_t bytes)
{
    tenon_candidate candidate = {TENON_HEAD(tenon_candidate), .verdict = 0};
    uint64_t count = 0, i;
    snprintf(text, bytes, "%s", self->last_log);
    if (tenon_host_candidate_count(self->host, &count, NULL) != TENON_OK) return;
    for (i = 0; i < count; i++) {
        if (tenon_host_candidate(self->host, i, &candidate, NULL) != TENON_OK) continue;
        if (candidate.verdict == TENON_CANDIDATE_REFUSED) {
            snprintf(text, bytes, "%s", candidate.line);
            return;
        }
    }
}

/* Every name that a provider may export. */
static const char *const symbol_names[] = {
#define TENON_SYMBOL(name, kind, type, header) #name,
#define TENON_SYMBOL_VIEW(name, direction, field)
#include <symbols.def>
#undef TENON_SYMBOL
#undef TENON_SYMBOL_VIEW
};
#define SYMBOL_COUNT (sizeof symbol_names / sizeof symbol_names[0])

/* The descriptors of the target's file. The file was judged, probed and loaded by a host before the
 * first case, and stage abi goes through the loader each time; here it is mapped directly and
 * registered, or hashing it for every case would cost more than the cases. The mapping stays until
 * the process of the case ends. Returns the number of descriptors, 0 having said why. */
static uint64_t map_symbols(const char *file, tenon_static_symbol out[SYMBOL_COUNT],
                            conformance_result *result)
{
    fenv_t environment;
    uint64_t count = 0;
    void *library;
    size_t i;
    fegetenv(&environment); /* a constructor may leave it changed */
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    fesetenv(&environment);
    if (library == NULL) {
        conformance_fail(result, "%s", dlerror());
        return 0;
    }
    for (i = 0; i < SYMBOL_COUNT; i++) {
        const void *descriptor = dlsym(library, symbol_names[i]);
        if (descriptor == NULL) continue;
        out[count].name = symbol_names[i];
        out[count].descriptor = descriptor;
        count++;
    }
    if (count == 0) conformance_fail(result, "%s exports none of the provider's names", file);
    return count;
}

static bool open_session(engine_side *self, const char *chain, uint32_t arith, tenon_session **out,
                         conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_session_desc desc = {TENON_HEAD(tenon_session_desc), .chain = chain,
                               .mode = TENON_MODE_PIN, .arith = arith};
    char why[300];
    int32_t status = tenon_session_create(self->host, &desc, out, &error);
    if (status == TENON_OK) return true;
    if (engine_side_absent(error.reason)) {
        conformance_set(result, CONFORMANCE_SKIPPED, "%s", error.text);
        return false;
    }
    explain_missing(self, why, sizeof why);
    return conformance_fail(result, "session on %s: status %d, reason %u, %s; %s", chain, status,
                            error.reason, error.text, why);
}

bool engine_side_open(engine_side *self, const conformance_target *target, uint32_t threads,
                      uint32_t arith, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_host_desc desc = {TENON_HEAD(tenon_host_desc), .flags = TENON_HOST_NO_SEARCH};
    const char **config = calloc(target->config_count + 1, sizeof *config);
    const tenon_static_symbol *symbols = target->symbols;
    tenon_static_symbol mapped[SYMBOL_COUNT];
    bool reference = strcmp(target->id, "reference") == 0;
    char level[128], chain[64];
    uint64_t symbol_count = target->symbol_count, i;
    bool good = false;
    int32_t status;
    memset(self, 0, sizeof *self);
    self->target = target;
    self->threads = threads;
    if (config == NULL) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    for (i = 0; i < target->config_count; i++) config[i] = target->config[i];
    desc.config = config;
    desc.config_count = target->config_count;
    if (target->level != NULL) {
        snprintf(level, sizeof level, "%s.level=%s", target->id, target->level);
        config[desc.config_count++] = level;
    }
    if (target->file != NULL) {
        symbol_count = map_symbols(target->file, mapped, result);
        if (symbol_count == 0) goto out;
        symbols = mapped;
    }
    desc.threads = threads;
    desc.log = keep_last;
    desc.log_context = self;
    status = tenon_host_create(&desc, &self->host, &error);
    if (status != TENON_OK) {
        self->host = NULL;
        conformance_fail(result, "host: status %d, reason %u, %s", status, error.reason,
                         error.text);
        goto out;
    }
    if (symbols != NULL && !reference) {
        status = tenon_host_register(self->host, symbols, symbol_count, &error);
        if (status != TENON_OK) {
            conformance_fail(result, "register: status %d, reason %u, %s", status, error.reason,
                             error.text);
            goto out;
        }
    }
    if (reference)
        snprintf(chain, sizeof chain, "reference");
    else
        snprintf(chain, sizeof chain, "%s:%u", target->id, target->device);
    good = open_session(self, chain, arith, &self->tested, result) &&
           open_session(self, "reference", arith, &self->reference, result);
out:
    free(config);
    if (!good) engine_side_close(self, result);
    return good;
}

void engine_side_close(engine_side *self, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    int32_t status;
    tenon_session_destroy(self->tested);
    tenon_session_destroy(self->reference);
    if (self->host != NULL) {
        status = tenon_host_destroy(self->host, &error);
        if (status != TENON_OK)
            conformance_fail(result, "host cannot be destroyed: status %d, %s", status, error.text);
    }
    self->host = NULL;
    self->tested = self->reference = NULL;
}
