/* One operation from files to a file: what all of `tenon op` do after their command line. */
#include "op_shared.h"
#include "command.h"
#include "opening.h"
#include "output_file.h"
#include "raw_file.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/format.h>

void op_add_input(op_request *self, const char *option, const char *path, uint64_t bytes)
{
    self->inputs[self->input_count++] = (op_input){option, path, bytes, NULL};
}

void op_add_fact(op_request *self, const char *name, uint64_t value)
{
    self->facts[self->fact_count++] = (op_fact){name, value};
}

bool op_floats(uint64_t a, uint64_t b, uint64_t c, uint64_t *bytes)
{
    return tenon_mul_u64(a, b, bytes) && tenon_mul_u64(*bytes, c, bytes) &&
           tenon_mul_u64(*bytes, sizeof(float), bytes);
}

int op_need(const op_request *self, const char *option, uint64_t value)
{
    return value != 0 ? OPTIONS_GO_ON : options_usage_error(self->command, "%s is missing", option);
}

int op_need_text(const op_request *self, const char *option, const char *text)
{
    return text != NULL ? OPTIONS_GO_ON
                        : options_usage_error(self->command, "%s is missing", option);
}

int op_float(const op_request *self, const char *option, const char *text, float *out)
{
    char shown[80], *end = NULL;

    if (text == NULL) return OPTIONS_GO_ON;
    errno = 0;
    *out = strtof(text, &end);
    if (end != text && *end == '\0') return OPTIONS_GO_ON;
    return options_usage_error(self->command, "%s: '%s' is not a number", option,
                               text_escape(shown, sizeof shown, text, strlen(text)));
}

/* The result may not replace what it is made from: a mistake would destroy the input. */
static int check_out(const op_request *self)
{
    struct stat out, in;
    uint32_t i;

    if (stat(self->out, &out) != 0) return OPTIONS_GO_ON;
    for (i = 0; i < self->input_count; i++)
        if (self->inputs[i].path != NULL && stat(self->inputs[i].path, &in) == 0 &&
            in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return options_usage_error(self->command, "--out names the file of %s",
                                       self->inputs[i].option);
    return OPTIONS_GO_ON;
}

/* Whom --level is for: the first provider of the chain that has levels. A level without a chain
 * names the provider cpu, so that a level that is missing is an error and not a fallback. */
static int place_level(op_request *self)
{
    const char *at = self->chain;

    if (self->parsed.level == NULL) return OPTIONS_GO_ON;
    if (at == NULL) {
        self->chain = "cpu";
        return OPTIONS_GO_ON;
    }
    while (*at != '\0') {
        size_t part = strcspn(at, ","), length = strcspn(at, ",:");
        if (length > 0 && length < sizeof self->level_provider &&
            !(length == strlen("reference") && memcmp(at, "reference", length) == 0)) {
            memcpy(self->level_provider, at, length);
            self->level_provider[length] = '\0';
            return OPTIONS_GO_ON;
        }
        at += part;
        if (*at == ',') at++;
    }
    return options_usage_error(self->command, "--level: the reference has no levels");
}

static int judge(op_request *self)
{
    int status = op_need_text(self, "--out", self->out);

    if (status == OPTIONS_GO_ON && self->mode_given && self->mode == 0 && self->chain == NULL &&
        self->parsed.level == NULL)
        status = options_usage_error(self->command, "--mode pin needs --provider");
    if (status == OPTIONS_GO_ON) status = place_level(self);
    if (status == OPTIONS_GO_ON) status = check_out(self);
    return status;
}

/* What the report begins with: the request. */
static json_t *tell_request(const op_request *self)
{
    json_t *document = NULL;
    FILE *out = terminal_out();
    uint32_t i;

    if (self->parsed.json) {
        document = json_document();
        json_put(document, "operation", json_string(self->name));
        if (self->format != NULL) json_put(document, "format", json_text(self->format));
        for (i = 0; i < self->fact_count; i++)
            json_put(document, self->facts[i].name, json_u64(self->facts[i].value));
        if (self->class_name != NULL) json_put(document, "class", json_string(self->class_name));
        json_put(document, "out", json_text(self->out));
        return document;
    }
    fputs(self->name, out);
    if (self->format != NULL) fprintf(out, " %s", self->format);
    for (i = 0; i < self->fact_count; i++)
        fprintf(out, "%s %s %" PRIu64, i > 0 ? "," : ":", self->facts[i].name,
                self->facts[i].value);
    if (self->class_name != NULL) fprintf(out, ": class %s", self->class_name);
    fputc('\n', out);
    return NULL;
}

static json_t *counter_entry(const tenon_counter *counter, const tenon_device_description *device)
{
    json_t *entry = json_object();

    json_put(entry, "provider", json_text(counter->provider));
    json_put(entry, "device", json_integer(counter->device));
    json_put(entry, "detail", json_text(device->detail));
    json_put(entry, "calls", json_u64(counter->calls));
    json_put(entry, "fallbacks", json_u64(counter->fallbacks));
    json_put(entry, "declined", json_u64(counter->declined));
    json_put(entry, "failed", json_u64(counter->failed));
    json_put(entry, "reason", json_integer(counter->last_reason));
    json_put(entry, "text", json_text(counter->last_text));
    return entry;
}

static void print_counter(const tenon_counter *counter, const tenon_device_description *device)
{
    char shown[4 * sizeof counter->last_text + 1];
    const char *reason = tenon_reason_text(counter->last_reason);
    FILE *out = terminal_out();

    if (counter->calls > 0) {
        fprintf(out, "  run by %s:%lu%s%s%s\n", counter->provider, (unsigned long)counter->device,
                device->detail[0] != '\0' ? " (" : "", device->detail,
                device->detail[0] != '\0' ? ")" : "");
        return;
    }
    text_escape(shown, sizeof shown, counter->last_text, strlen(counter->last_text));
    fprintf(out, "  not by %s:%lu: %s%s%s", counter->provider, (unsigned long)counter->device,
            shown, shown[0] != '\0' && reason[0] != '\0' ? ": " : "", reason);
    if (counter->last_reason != 0)
        fprintf(out, " (reason %lu)", (unsigned long)counter->last_reason);
    fputc('\n', out);
}

/* Who computed, and who did not and why, from the session's counters. */
static int report(const op_request *self, tenon_host *host, tenon_session *session)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    json_t *document, *ran = NULL, *others = NULL;
    uint64_t count = 0, i;
    bool earlier = true; /* links before the one that computed */

    if (tenon_session_counter_count(session, &count, &error) != TENON_OK)
        return opening_failed("counters", &error);
    document = tell_request(self);
    if (document != NULL) {
        ran = json_array();
        others = json_array();
        json_put(document, "ran", ran);
        json_put(document, "others", others);
    }
    for (i = 0; i < count; i++) {
        tenon_counter counter = {TENON_HEAD(tenon_counter), .device = 0};
        tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
        bool lacks;
        if (tenon_session_counter(session, i, &counter, &error) != TENON_OK) {
            json_decref(document);
            return opening_failed("counters", &error);
        }
        if (strcmp(counter.operation, self->name) != 0) continue;
        if (tenon_host_device(host, counter.provider, counter.device, &device, &error) != TENON_OK)
            device.detail[0] = '\0';
        /* passed over since it does not offer the operation */
        lacks = earlier && counter.calls + counter.declined + counter.failed == 0 &&
                counter.last_text[0] != '\0';
        if (counter.calls > 0) earlier = false;
        if (counter.calls + counter.declined + counter.failed == 0 && !lacks) continue;
        if (document != NULL)
            json_push(counter.calls > 0 ? ran : others, counter_entry(&counter, &device));
        else
            print_counter(&counter, &device);
    }
    if (document != NULL) return json_emit(document) ? EXIT_GOOD : EXIT_FAILED;
    return EXIT_GOOD;
}

static int compute(op_request *self, tenon_host *host)
{
    static const uint32_t modes[] = {TENON_MODE_PIN, TENON_MODE_PREFER, TENON_MODE_AUTO};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_session *session = NULL;
    const char *doing = self->name;
    int status = opening_session(host, &self->parsed, self->chain,
                                 self->mode_given ? modes[self->mode] : 0,
                                 self->arith != 0 ? self->arith : TENON_CLASS_F32, &session);

    if (status != EXIT_GOOD) return status;
    if (self->call(self, session, &doing, &error) != TENON_OK) {
        status = opening_failed(doing, &error);
        /* the device was there: that it failed is a failure, not an absence */
        if (status == EXIT_NO_DEVICE) status = EXIT_FAILED;
    } else if (!output_file_write(self->out, self->y, self->y_bytes)) {
        status = EXIT_REFUSED;
    } else {
        status = report(self, host, session);
    }
    tenon_session_destroy(session);
    return status;
}

int op_execute(op_request *self)
{
    tenon_host *host = NULL;
    uint32_t i;
    int status = judge(self);

    if (status != OPTIONS_GO_ON) goto out;
    for (i = 0; i < self->input_count; i++) {
        op_input *input = &self->inputs[i];
        if (input->path == NULL) continue;
        input->memory = raw_file_read(input->option, input->path, input->bytes, &status);
        if (input->memory == NULL) goto out;
    }
    self->y = self->y_bytes < SIZE_MAX ? malloc((size_t)self->y_bytes + 1) : NULL;
    if (self->y == NULL) {
        terminal_error("--out: no memory for %" PRIu64 " bytes", self->y_bytes);
        status = EXIT_FAILED;
        goto out;
    }
    status = opening_host(&self->parsed, self->level_provider, &host);
    if (status == EXIT_GOOD) status = compute(self, host);
out:
    tenon_host_destroy(host, NULL);
    for (i = 0; i < self->input_count; i++) free(self->inputs[i].memory);
    free(self->y);
    options_free(&self->parsed);
    return status;
}
