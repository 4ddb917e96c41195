/* What a run says when it is over. */
#include "command.h"
#include "json.h"
#include "opening.h"
#include "run.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t peak_resident(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return TENON_UNKNOWN;
    return (uint64_t)usage.ru_maxrss * 1024; /* in KiB on Linux */
}

/* Pages of mapped files that are in memory now. */
static uint64_t resident_file(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[128];
    uint64_t kib, bytes = TENON_UNKNOWN;
    if (file == NULL) return bytes;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "RssFile: %" SCNu64, &kib) == 1) bytes = kib * 1024;
    fclose(file);
    return bytes;
}

static double rate(uint64_t count, double seconds)
{
    return count > 0 && seconds > 0.0 ? (double)count / seconds : 0.0;
}

static void say_bytes(const char *what, uint64_t bytes)
{
    if (bytes == TENON_UNKNOWN)
        fprintf(stderr, "%s unknown", what);
    else
        fprintf(stderr, "%s %.1f MB", what, (double)bytes / 1e6);
}

/* Links that did not last. */
static void say_links(const run *self)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t count = 0, i;
    if (tenon_session_link_count(self->it.session, &count, &error) != TENON_OK) return;
    for (i = 0; i < count; i++) {
        tenon_link_info link = {TENON_HEAD(tenon_link_info), .device = 0};
        if (tenon_session_link(self->it.session, i, &link, &error) != TENON_OK ||
            link.state == TENON_LINK_ACTIVE)
            continue;
        fprintf(stderr, "%s:%" PRIu32 " was %s: %s\n", link.provider, link.device,
                link.state == TENON_LINK_SET_ASIDE     ? "set aside after failures"
                : link.state == TENON_LINK_QUARANTINED ? "quarantined"
                                                       : "lost",
                tenon_reason_text(link.reason));
    }
    if (engine_replays(self->engine) > 0)
        fprintf(stderr, "the context was lost with a device and made again %" PRIu64 " times\n",
                engine_replays(self->engine));
    if (engine_shifts(self->engine) > 0)
        fprintf(stderr, "the context was full and dropped its oldest positions %" PRIu64 " times\n",
                engine_shifts(self->engine));
}

static int say_operations(const run *self)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t count = 0, i;
    if (tenon_session_counter_count(self->it.session, &count, &error) != TENON_OK)
        return opening_failed("counters", &error);
    for (i = 0; i < count; i++) {
        tenon_counter one = {TENON_HEAD(tenon_counter), .device = 0};
        if (tenon_session_counter(self->it.session, i, &one, &error) != TENON_OK)
            return opening_failed("counters", &error);
        if (one.calls + one.failed == 0) continue;
        fprintf(stderr, "  %-10s %s:%" PRIu32 " %" PRIu64 " calls", one.operation, one.provider,
                one.device, one.calls);
        if (one.fallbacks > 0) fprintf(stderr, ", %" PRIu64 " as fallback", one.fallbacks);
        if (one.failed > 0) fprintf(stderr, ", %" PRIu64 " failed (%s)", one.failed, one.last_text);
        fputc('\n', stderr);
    }
    return EXIT_GOOD;
}

static int say_summary(const run *self)
{
    fprintf(stderr,
            "load %.0f ms, first token %.0f ms, prefill %" PRIu64
            " tokens at %.1f/s, decode %" PRIu64 " at %.1f/s",
            self->load_seconds * 1e3, self->first_seconds * 1e3, self->prefilled,
            rate(self->prefilled, self->prefill_seconds), self->decoded,
            rate(self->decoded, self->decode_seconds));
    if (strcmp(self->stop, "interrupted") == 0) fputs(", interrupted", stderr);
    fputc('\n', stderr);
    say_bytes("memory: file", gguf_file_size(self->it.file));
    say_bytes(", weights prepared", model_prepared_bytes(self->it.of));
    say_bytes(", cache", engine_cache_bytes(self->engine));
    say_bytes(", peak resident", peak_resident());
    say_bytes(", pages of files resident now", resident_file());
    fputc('\n', stderr);
    say_links(self);
    return say_operations(self);
}

static json_t *ids_json(const token_list *list)
{
    json_t *array = json_array();
    size_t i;
    for (i = 0; i < list->count; i++) json_push(array, json_integer((json_int_t)list->ids[i]));
    return array;
}

static int emit(const run *self)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    json_t *document = json_document(), *timings = json_object(), *memory = json_object();
    json_t *operations = json_array();
    uint64_t count = 0, i;
    json_put(document, "prompt_tokens", ids_json(&self->prompt));
    json_put(document, "tokens", ids_json(&self->made));
    json_put(document, "text",
             json_text_n(self->text != NULL ? self->text : "", self->text_length));
    json_put(document, "stop", json_text(self->stop));
    json_put(timings, "load_ms", json_number(self->load_seconds * 1e3));
    json_put(timings, "first_token_ms", json_number(self->first_seconds * 1e3));
    json_put(timings, "prefill_tps", json_number(rate(self->prefilled, self->prefill_seconds)));
    json_put(timings, "decode_tps", json_number(rate(self->decoded, self->decode_seconds)));
    json_put(document, "timings", timings);
    json_put(memory, "file", json_u64(gguf_file_size(self->it.file)));
    json_put(memory, "packed", json_quantity(model_prepared_bytes(self->it.of)));
    json_put(memory, "kv", json_quantity(engine_cache_bytes(self->engine)));
    json_put(memory, "peak_resident", json_quantity(peak_resident()));
    json_put(document, "memory", memory);
    json_put(document, "operations", operations);
    if (tenon_session_counter_count(self->it.session, &count, &error) != TENON_OK) {
        json_decref(document);
        return opening_failed("counters", &error);
    }
    for (i = 0; i < count; i++) {
        tenon_counter one = {TENON_HEAD(tenon_counter), .device = 0};
        json_t *entry;
        if (tenon_session_counter(self->it.session, i, &one, &error) != TENON_OK) {
            json_decref(document);
            return opening_failed("counters", &error);
        }
        if (one.calls == 0) continue;
        entry = json_object();
        json_put(entry, "name", json_text(one.operation));
        json_put(entry, "provider", json_text(one.provider));
        json_put(entry, "calls", json_u64(one.calls));
        json_put(entry, "fallbacks", json_u64(one.fallbacks));
        json_push(operations, entry);
    }
    return json_emit(document) ? EXIT_GOOD : EXIT_FAILED;
}

int run_report(const run *self)
{
    FILE *out = terminal_out();
    if (self->request->parsed.json) return emit(self);
    if (isatty(fileno(out)) && self->text_length > 0 && self->text[self->text_length - 1] != '\n')
        fputc('\n', out);
    fflush(out);
    return self->request->parsed.quiet ? EXIT_GOOD : say_summary(self);
}
