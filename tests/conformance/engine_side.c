/* Opening and closing what a case computes with. */
#include "engine_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    char level[128], chain[64];
    uint64_t i;
    bool good = false;
    int32_t status;
    memset(self, 0, sizeof *self);
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
        desc.provider_paths = &target->file;
        desc.provider_path_count = 1;
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
    if (target->symbols != NULL) {
        status = tenon_host_register(self->host, target->symbols, target->symbol_count, &error);
        if (status != TENON_OK) {
            conformance_fail(result, "register: status %d, reason %u, %s", status, error.reason,
                             error.text);
            goto out;
        }
    }
    if (strcmp(target->id, "reference") == 0)
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
