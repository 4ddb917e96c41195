#include "verify_certificate.h"
#include "names.h"

#include <loader/loader.h>
#include <loader/sha256.h>
#include <stdio.h>
#include <string.h>
#include <tests/conformance/direct.h>
#include <time.h>

/* In the order in which they run; index: conformance_stage, static is none of them. */
static const struct {
    uint32_t index;
    const char *name;
} stages[] = {{0, "static"},
              {CONFORMANCE_ABI, "abi"},
              {CONFORMANCE_EXACT, "exact"},
              {CONFORMANCE_APPROX, "approx"},
              {CONFORMANCE_ROBUST, "robust"},
              {CONFORMANCE_MODEL, "model"}};

static void count(certificate_counts *into, int32_t outcome)
{
    switch (outcome) {
    case CONFORMANCE_PASSED: into->passed++; break;
    case CONFORMANCE_SKIPPED: into->skipped++; break;
    case CONFORMANCE_UNSUPPORTED: into->unsupported++; break;
    case CONFORMANCE_XFAIL: into->xfail++; break;
    default: into->failed++; break;
    }
}

/* "exact/qmatmul/Q4_0/a8/cols=64": operation qmatmul, class a8. Only products have a second class;
 * the names of tensors stand before the class. */
static void split_name(conformance_stage stage, const char *name, char operation[24], char arith[8])
{
    const char *second = strchr(name, '/');
    size_t length;
    second = second != NULL ? second + 1 : name;
    length = strcspn(second, "/");
    snprintf(operation, 24, "%.*s", (int)(length < 23 ? length : 23), second);
    if (stage == CONFORMANCE_APPROX)
        snprintf(arith, 8, "approx");
    else
        snprintf(arith, 8, "%s",
                 strcmp(operation, "qmatmul") == 0 &&
                         (strstr(name, "/a8/") != NULL || strstr(name, "/a8@") != NULL ||
                          (strlen(name) > 3 && strcmp(name + strlen(name) - 3, "/a8") == 0))
                     ? "a8"
                     : "f32");
}

void certificate_count(certificate *self, conformance_stage stage, const char *name,
                       int32_t outcome)
{
    char operation[24], arith[8];
    uint32_t i;
    if ((uint32_t)stage < CERTIFICATE_STAGES) count(&self->stages[stage], outcome);
    if (!conformance_by_level(stage) && stage != CONFORMANCE_APPROX) return;
    split_name(stage, name, operation, arith);
    for (i = 0; i < self->operation_count; i++)
        if (strcmp(self->operations[i].operation, operation) == 0 &&
            strcmp(self->operations[i].arith, arith) == 0)
            break;
    if (i == CERTIFICATE_OPERATIONS) return;
    if (i == self->operation_count) {
        memcpy(self->operations[i].operation, operation, sizeof operation);
        memcpy(self->operations[i].arith, arith, sizeof arith);
        self->operation_count++;
    }
    count(&self->operations[i].counts, outcome);
}

void certificate_measured(certificate *self, const conformance_result *result)
{
    if (result->wall_us == 0) return;
    self->cpu_us += result->cpu_us;
    self->wall_us += result->wall_us;
    self->cpu_work = self->cpu_work || (result->flags & CONFORMANCE_CPU_WORK) != 0;
}

static json_t *counts_json(const certificate_counts *of)
{
    json_t *object = json_object();
    json_put(object, "run", json_u64(of->passed + of->failed + of->xfail));
    json_put(object, "passed", json_u64(of->passed));
    json_put(object, "failed", json_u64(of->failed));
    json_put(object, "skipped", json_u64(of->skipped));
    json_put(object, "unsupported", json_u64(of->unsupported));
    json_put(object, "xfail", json_u64(of->xfail));
    return object;
}

/* The worst that happened. */
static const char *outcome_of(const certificate_counts *of)
{
    if (of->failed != 0 || of->xfail != 0) return "failed";
    if (of->passed != 0) return "passed";
    if (of->unsupported != 0) return "unsupported";
    if (of->skipped != 0) return "skipped";
    return "not run";
}

static json_t *operations_json(const certificate *self)
{
    json_t *list = json_array();
    uint32_t i;
    for (i = 0; i < self->operation_count; i++) {
        json_t *object = json_object();
        const char *outcome = outcome_of(&self->operations[i].counts);
        if (strcmp(outcome, "passed") == 0)
            outcome = strcmp(self->operations[i].arith, "approx") == 0 ? "approx" : "exact";
        else if (strcmp(outcome, "unsupported") == 0)
            outcome = "not offered";
        json_put(object, "operation", json_text(self->operations[i].operation));
        json_put(object, "class", json_text(self->operations[i].arith));
        json_put(object, "proven", json_text(outcome));
        json_put(object, "cases", counts_json(&self->operations[i].counts));
        json_push(list, object);
    }
    return list;
}

static json_t *stages_json(const certificate *self, const verify_target *target)
{
    json_t *list = json_array();
    size_t i;
    for (i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        const certificate_counts *of = &self->stages[stages[i].index];
        const char *outcome = outcome_of(of);
        json_t *object;
        if (stages[i].index == CONFORMANCE_MODEL && strcmp(outcome, "not run") == 0) continue;
        if (stages[i].index == 0 && target->file[0] == '\0') outcome = "not applicable";
        object = json_object();
        json_put(object, "stage", json_text(stages[i].name));
        json_put(object, "outcome", json_text(outcome));
        json_put(object, "cases", counts_json(of));
        json_push(list, object);
    }
    return list;
}

/* Why it is no certificate of the whole: one line each; an empty list certifies. */
static json_t *missing_json(const certificate *self, const verify_target *target,
                            const certificate_run *run)
{
    json_t *list = json_array();
    const bool exact = self->stages[CONFORMANCE_EXACT].passed != 0;
    const bool approx = self->stages[CONFORMANCE_APPROX].passed != 0;
    char line[100];
    size_t i;
    if (run->filter != NULL) json_push(list, json_text("a filter left cases out"));
    if (run->level != NULL) json_push(list, json_text("only some levels were asked for"));
    if (run->xfail != NULL) json_push(list, json_text("failures were declared as known"));
    if (run->model != NULL) json_push(list, json_text("a model stood for stage exact"));
    if (!run->all_stages) json_push(list, json_text("only one stage was asked for"));
    for (i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        const char *outcome = outcome_of(&self->stages[stages[i].index]);
        if (stages[i].index == CONFORMANCE_MODEL || strcmp(outcome, "passed") == 0) continue;
        if (stages[i].index == 0 && target->file[0] == '\0') continue;
        /* not offered is allowed of either class, not of both */
        if (strcmp(outcome, "unsupported") == 0 &&
            ((stages[i].index == CONFORMANCE_APPROX && exact) ||
             (stages[i].index == CONFORMANCE_EXACT && approx)))
            continue;
        snprintf(line, sizeof line, "stage %s: %s", stages[i].name, outcome);
        json_push(list, json_text(line));
    }
    if (!run->good && json_array_size(list) == 0) json_push(list, json_text("the run failed"));
    return list;
}

typedef struct device_question {
    const verify_target *target;
} device_question;

static void look_at_device(void *context, void *answer)
{
    const device_question *asked = context;
    conformance_result result = {.outcome = 0};
    direct_device on;
    direct self;
    if (!direct_load(&self, &asked->target->target, &result)) return;
    if (direct_device_open(&self, &on, &result)) {
        memcpy(answer, &on.info, sizeof on.info);
        direct_device_close(&self, &on);
    }
    direct_unload(&self);
}

/* 16 bytes as they are usually written; null for none. */
static json_t *uuid_json(const uint8_t uuid[16])
{
    static const uint8_t none[16] = {0};
    char text[40];
    size_t at = 0, i;
    if (memcmp(uuid, none, sizeof none) == 0) return json_null();
    for (i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
        snprintf(text + at, sizeof text - at, "%02x", uuid[i]);
        at += 2;
    }
    return json_text(text);
}

static json_t *device_json(const verify_target *target)
{
    static const struct {
        uint32_t arith;
        const char *name;
    } classes[] = {
        {TENON_CLASS_F32, "f32"}, {TENON_CLASS_A8, "a8"}, {TENON_CLASS_APPROX, "approx"}};
    device_question asked = {.target = target};
    tenon_device_info info = {TENON_HEAD(tenon_device_info), .kind = 0};
    json_t *object, *claims = json_array();
    char why[200];
    size_t i;
    if (!conformance_isolated(look_at_device, &asked, &info, sizeof info, 60000, why, sizeof why) ||
        info.kind == 0) {
        json_decref(claims);
        return json_null(); /* nothing was run on it either */
    }
    info.name[sizeof info.name - 1] = info.driver[sizeof info.driver - 1] = '\0';
    info.detail[sizeof info.detail - 1] = '\0';
    for (i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if ((info.arith & TENON_CLASS_BIT(classes[i].arith)) != 0)
            json_push(claims, json_text(classes[i].name));
    object = json_object();
    json_put(object, "index", json_u64(target->target.device));
    json_put(object, "name", json_text(info.name));
    json_put(object, "kind", json_text(name_of_device_kind(info.kind)));
    json_put(object, "driver", json_text(info.driver));
    json_put(object, "detail", json_text(info.detail));
    json_put(object, "uuid", uuid_json(info.uuid));
    json_put(object, "memory_total", json_quantity(info.memory_total));
    json_put(object, "claims", claims);
    return object;
}

static json_t *provider_json(const verify_target *target)
{
    json_t *object = json_object();
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    loader_image_facts facts;
    loader_verdict verdict;
    char digest[65] = "";
    json_put(object, "id", json_text(target->id));
    json_put(object, "version", json_text(target->version));
    json_put(object, "file", target->file[0] != '\0' ? json_text(target->file) : json_null());
    if (target->file[0] != '\0' &&
        loader_judge(target->file, &verdict, &facts, &error) == TENON_OK) {
        sha256_text(verdict.identity.sha256, digest);
        loader_verdict_clear(&verdict);
        loader_image_facts_clear(&facts);
    }
    json_put(object, "sha256", digest[0] != '\0' ? json_text(digest) : json_null());
    return object;
}

static json_t *levels_json(const verify_target *target)
{
    json_t *list = json_array();
    uint32_t i;
    for (i = 0; i < target->levels.count; i++) json_push(list, json_text(target->levels.words[i]));
    return list;
}

static json_t *measured_json(const certificate *self)
{
    json_t *object = json_object();
    if (self->wall_us == 0) {
        json_decref(object);
        return json_null();
    }
    json_put(object, "processor_ms", json_number((double)self->cpu_us / 1000));
    json_put(object, "elapsed_ms", json_number((double)self->wall_us / 1000));
    json_put(object, "processor_does_the_work", json_boolean(self->cpu_work));
    return object;
}

json_t *certificate_make(const certificate *self, const verify_target *target,
                         const certificate_run *run, const conformance_totals *totals)
{
    json_t *document = json_document(), *missing = missing_json(self, target, run);
    time_t now = time(NULL);
    struct tm parts;
    char date[40] = "";
    if (gmtime_r(&now, &parts) != NULL) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
    json_put(document, "kind", json_text("tenon-certificate"));
    json_put(document, "certified", json_boolean(missing != NULL && json_array_size(missing) == 0));
    json_put(document, "missing", missing);
    json_put(document, "tenon", json_text(TENON_VERSION));
    json_put(document, "abi", json_integer(TENON_ABI_VERSION));
    json_put(document, "date", json_text(date));
    json_put(document, "provider", provider_json(target));
    json_put(document, "device", device_json(target));
    json_put(document, "operations", operations_json(self));
    json_put(document, "stages", stages_json(self, target));
    json_put(document, "requests", json_u64(totals->requests));
    json_put(document, "levels", run->level != NULL ? json_text(run->level) : levels_json(target));
    json_put(document, "large_calls", measured_json(self));
    json_put(document, "seed", json_u64(run->seed));
    json_put(document, "long", json_boolean(run->thorough));
    return document;
}
