/* What ran where and when, for Perfetto and chrome://tracing: one complete event ("X") for each
 * operation. Who ran it is read from the session's counters, which is slow and done only here. */
#include "json.h"
#include "run.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct run_trace {
    output_file file;
    step_watch watch;
    tenon_session *session;
    tenon_counter *before; /* counters at the end of the last operation */
    uint64_t before_count;
    json_t *append; /* an event that is not written yet: appending is not counted, so it waits for
                       the attention of the same layer, which runs where the cache is */
    char attention[160]; /* who ran the last one */
    double origin, begin;
    bool any, failed;
};

run_trace *run_trace_begin(const char *path)
{
    run_trace *self = calloc(1, sizeof *self);
    if (self == NULL) {
        terminal_error("--trace: out of memory");
        return NULL;
    }
    if (!output_file_begin(&self->file, path)) {
        free(self);
        return NULL;
    }
    if (fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", self->file.stream) == EOF)
        self->failed = true;
    self->origin = loaded_clock();
    return self;
}

static void on_begin(void *context)
{
    run_trace *self = context;
    self->begin = loaded_clock();
}

/* The counter of the same operation and link at the last look, NULL when it is new. */
static const tenon_counter *earlier(const run_trace *self, const tenon_counter *now)
{
    uint64_t i;
    for (i = 0; i < self->before_count; i++)
        if (strcmp(self->before[i].operation, now->operation) == 0 &&
            strcmp(self->before[i].provider, now->provider) == 0 &&
            self->before[i].device == now->device)
            return &self->before[i];
    return NULL;
}

/* Adds who ran it since the last look, and why it was not the first of the chain. */
static void put_providers(run_trace *self, json_t *args, const char *operation)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_counter *now;
    char who[160] = "", why[128] = "";
    uint64_t count = 0, i;
    bool fell_back = false;
    if (tenon_session_counter_count(self->session, &count, &error) != TENON_OK || count == 0)
        return;
    now = calloc((size_t)count, sizeof *now);
    if (now == NULL) return;
    for (i = 0; i < count; i++) {
        const tenon_counter *old;
        size_t used = strlen(who);
        now[i] = (tenon_counter){TENON_HEAD(tenon_counter), .device = 0};
        if (tenon_session_counter(self->session, i, &now[i], &error) != TENON_OK) continue;
        old = earlier(self, &now[i]);
        if (strcmp(now[i].operation, operation) != 0) continue;
        if (now[i].calls > (old != NULL ? old->calls : 0))
            snprintf(who + used, sizeof who - used, "%s%s:%" PRIu32, used > 0 ? "," : "",
                     now[i].provider, now[i].device);
        if (now[i].fallbacks > (old != NULL ? old->fallbacks : 0)) fell_back = true;
        if (now[i].last_reason != 0 || now[i].last_text[0] != '\0')
            snprintf(why, sizeof why, "%s: %s", now[i].provider,
                     now[i].last_text[0] != '\0' ? now[i].last_text
                                                 : tenon_reason_text(now[i].last_reason));
    }
    json_put(args, "provider", json_text(who));
    if (strcmp(operation, "attention") == 0) memcpy(self->attention, who, sizeof who);
    if (fell_back) json_put(args, "fallback", json_text(why));
    free(self->before);
    self->before = now;
    self->before_count = count;
}

static void write_event(run_trace *self, json_t *event)
{
    char *text = event != NULL ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(event);
    if (text == NULL || fprintf(self->file.stream, "%s\n%s", self->any ? "," : "", text) < 0)
        self->failed = true;
    self->any = true;
    free(text);
}

static void write_append(run_trace *self)
{
    json_t *event = self->append;
    if (event == NULL) return;
    self->append = NULL;
    json_put(json_object_get(event, "args"), "provider", json_text(self->attention));
    write_event(self, event);
}

static void on_end(void *context, const char *operation, uint64_t layer, uint64_t rows,
                   uint64_t bytes, int32_t status)
{
    run_trace *self = context;
    double end = loaded_clock();
    json_t *event = json_object(), *args = json_object();
    json_put(event, "name", json_text(operation));
    json_put(event, "ph", json_text("X"));
    json_put(event, "ts", json_real((self->begin - self->origin) * 1e6));
    json_put(event, "dur", json_real((end - self->begin) * 1e6));
    json_put(event, "pid", json_integer(1));
    json_put(event, "tid", json_integer(1));
    if (layer != UINT64_MAX) json_put(args, "layer", json_u64(layer));
    json_put(args, "rows", json_u64(rows));
    json_put(args, "bytes", json_u64(bytes));
    if (status != TENON_OK) json_put(args, "status", json_integer(status));
    json_put(event, "args", args);
    if (strcmp(operation, "append") == 0) {
        write_append(self);
        self->append = event;
        return;
    }
    put_providers(self, args, operation);
    write_append(self);
    write_event(self, event);
}

const step_watch *run_trace_watch(run_trace *self, tenon_session *session)
{
    self->session = session;
    self->watch = (step_watch){self, on_begin, on_end};
    return &self->watch;
}

bool run_trace_commit(run_trace *self)
{
    if (self->file.stream == NULL) return true;
    write_append(self);
    if (fputs("\n]}\n", self->file.stream) == EOF) self->failed = true;
    if (!self->failed) return output_file_commit(&self->file);
    terminal_error("--trace: the file could not be written whole");
    output_file_abandon(&self->file);
    return false;
}

void run_trace_abandon(run_trace *self)
{
    if (self == NULL) return;
    output_file_abandon(&self->file);
    json_decref(self->append);
    free(self->before);
    free(self);
}
