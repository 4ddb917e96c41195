/* `tenon op qmatmul`: one matrix product from raw files (SPEC.md section 3) on any provider. */
#include "command.h"
#include "json.h"
#include "names.h"
#include "op.h"
#include "opening.h"
#include "output_file.h"
#include "raw_file.h"
#include "terminal.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/format.h>

typedef struct request {
    options parsed;
    const char *format, *weights, *scales, *x, *out, *chain;
    uint32_t layout, arith, mode; /* indices of their words */
    bool layout_given, arith_given, mode_given;
    uint64_t group, rows, cols, tokens;
    char level_provider[32];
    tenon_weight_desc desc;
    uint64_t weights_bytes, scales_bytes, x_bytes, y_bytes;
} request;

#define LAYOUT_WORDS "pair|planar"
#define ARITH_WORDS "f32|a8"
#define MODE_WORDS "pin|prefer|auto"

static int parse(request *self, int argc, char **argv)
{
    const option_entry entries[] = {
        {"format", OPTION_TEXT, &self->format, 0, 0, NULL, "F",
         "weight format: Q4_0, Q4_K, F16, int8-row, int4-group, ...", NULL},
        {"layout", OPTION_CHOICE, &self->layout, 0, 0, LAYOUT_WORDS, NULL,
         "order of int4 codes; default pair", &self->layout_given},
        {"group", OPTION_U64, &self->group, 1, UINT64_MAX, NULL, "N",
         "inputs that share a scale, for int4-group", NULL},
        {"rows", OPTION_U64, &self->rows, 1, UINT64_MAX, NULL, "O", "outputs of the weight", NULL},
        {"cols", OPTION_U64, &self->cols, 1, UINT64_MAX, NULL, "I", "inputs of the weight", NULL},
        {"tokens", OPTION_U64, &self->tokens, 1, UINT64_MAX, NULL, "S", "rows of x and y", NULL},
        {"weights", OPTION_TEXT, &self->weights, 0, 0, NULL, "FILE", "blocks row by row, or codes",
         NULL},
        {"scales", OPTION_TEXT, &self->scales, 0, 0, NULL, "FILE",
         "scales, for formats that keep them apart", NULL},
        {"x", OPTION_TEXT, &self->x, 0, 0, NULL, "FILE", "float32 [tokens][cols]", NULL},
        {"out", OPTION_TEXT, &self->out, 0, 0, NULL, "FILE", "gets y, float32 [tokens][rows]",
         NULL},
        {"arith", OPTION_CHOICE, &self->arith, 0, 0, ARITH_WORDS, NULL,
         "class of arithmetic; default f32", &self->arith_given},
        {"provider", OPTION_TEXT, &self->chain, 0, 0, NULL, "CHAIN",
         "providers in order, e.g. vulkan:0,cpu", NULL},
        {"mode", OPTION_CHOICE, &self->mode, 0, 0, MODE_WORDS, NULL,
         "pin: only these; prefer: then the reference; auto: the host's order", &self->mode_given},
        {0},
    };
    const option_usage usage = {
        "op qmatmul",
        "--format F --rows O --cols I --tokens S --weights FILE --x FILE --out FILE [options]",
        "Multiplies: y[s][o] = sum over i of W[o][i] * x[s][i]. All files are raw and\n"
        "little-endian, and must have exactly the size that the shape needs. Prints the class of\n"
        "arithmetic and who ran it.\n\n"
        "  tenon op qmatmul --format Q4_0 --rows 64 --cols 576 --tokens 3 --weights w.bin \\\n"
        "      --x x.bin --out y.bin --arith a8 --provider cpu --mode pin\n",
        entries,
        0,
        0};
    return options_parse(&self->parsed, &usage, argc, argv);
}

/* What parse could not see alone: which options are missing, and what does not go together. */
static int judge(request *self)
{
    const struct {
        const char *name;
        bool given;
    } needed[] = {{"format", self->format != NULL},   {"rows", self->rows != 0},
                  {"cols", self->cols != 0},          {"tokens", self->tokens != 0},
                  {"weights", self->weights != NULL}, {"x", self->x != NULL},
                  {"out", self->out != NULL}};
    uint32_t reason;
    size_t i;
    for (i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!needed[i].given)
            return options_usage_error("op qmatmul", "--%s is missing", needed[i].name);
    self->desc = (tenon_weight_desc){TENON_HEAD(tenon_weight_desc), .format = 0};
    self->desc.format = options_format(self->format);
    if (self->desc.format == TENON_FORMAT_NONE) {
        char shown[80];
        return options_usage_error(
            "op qmatmul", "--format: '%s' is unknown (Q4_0, Q4_K, F16, int4-group, ...)",
            text_escape(shown, sizeof shown, self->format, strlen(self->format)));
    }
    if (self->desc.format == TENON_FORMAT_INT4_ROW || self->desc.format == TENON_FORMAT_INT4_GROUP)
        self->desc.layout = self->layout == 0 ? TENON_LAYOUT_PAIR : TENON_LAYOUT_PLANAR;
    else if (self->layout_given)
        return options_usage_error("op qmatmul", "--layout is for int4 formats");
    self->desc.group_size = self->group;
    self->desc.rows = self->rows;
    self->desc.cols = self->cols;
    self->desc.semantic = self->parsed.semantic;
    if (tenon_weight_bytes(&self->desc, &self->weights_bytes, &self->scales_bytes, &reason) !=
        TENON_OK) {
        if (reason == TENON_REASON_UNSUPPORTED_GROUP)
            return options_usage_error("op qmatmul",
                                       self->group == 0 ? "--group is missing for %s"
                                                        : "--group is for int4-group, not %s",
                                       self->format);
        return options_usage_error("op qmatmul",
                                   "%s with %" PRIu64 " rows of %" PRIu64 " inputs: %s",
                                   self->format, self->rows, self->cols, tenon_reason_text(reason));
    }
    if (!tenon_mul_u64(self->tokens, self->cols, &self->x_bytes) ||
        !tenon_mul_u64(self->x_bytes, 4, &self->x_bytes) ||
        !tenon_mul_u64(self->tokens, self->rows, &self->y_bytes) ||
        !tenon_mul_u64(self->y_bytes, 4, &self->y_bytes))
        return options_usage_error("op qmatmul", "--tokens: size overflows");
    if ((self->scales_bytes != 0) != (self->scales != NULL))
        return options_usage_error("op qmatmul",
                                   self->scales == NULL ? "--scales is missing: %s keeps them apart"
                                                        : "--scales: %s holds its own",
                                   self->format);
    if (self->mode_given && self->mode == 0 && self->chain == NULL && self->parsed.level == NULL)
        return options_usage_error("op qmatmul", "--mode pin needs --provider");
    return OPTIONS_GO_ON;
}

/* The result may not replace what it is made from: a mistake would destroy the input. */
static int check_out(const request *self)
{
    const struct {
        const char *name, *path;
    } inputs[] = {{"--weights", self->weights}, {"--scales", self->scales}, {"--x", self->x}};
    struct stat out, in;
    size_t i;
    if (stat(self->out, &out) != 0) return OPTIONS_GO_ON;
    for (i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        if (inputs[i].path != NULL && stat(inputs[i].path, &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            return options_usage_error("op qmatmul", "--out names the file of %s", inputs[i].name);
    return OPTIONS_GO_ON;
}

/* Whom --level is for: the first provider of the chain that has levels. A level without a chain
 * names the provider cpu, so that a level that is missing is an error and not a fallback. */
static int place_level(request *self)
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
    return options_usage_error("op qmatmul", "--level: the reference has no levels");
}

/* Who computed, and who did not and why, from the session's counters. */
static int report(const request *self, tenon_host *host, tenon_session *session,
                  const tenon_weight_information *info)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    json_t *document = NULL, *ran = NULL, *others = NULL;
    FILE *out = terminal_out();
    uint64_t count = 0, i;
    if (tenon_session_counter_count(session, &count, &error) != TENON_OK)
        return opening_failed("counters", &error);
    if (self->parsed.json) {
        document = json_document();
        ran = json_array();
        others = json_array();
        json_put(document, "operation", json_string("qmatmul"));
        json_put(document, "format", json_text(self->format));
        json_put(document, "rows", json_u64(self->rows));
        json_put(document, "cols", json_u64(self->cols));
        json_put(document, "tokens", json_u64(self->tokens));
        json_put(document, "class", json_string(options_class_name(info->arith)));
        json_put(document, "out", json_text(self->out));
        json_put(document, "ran", ran);
        json_put(document, "others", others);
    } else {
        fprintf(out, "qmatmul %s, %" PRIu64 " x %" PRIu64 ", %" PRIu64 " tokens: class %s\n",
                self->format, self->rows, self->cols, self->tokens,
                options_class_name(info->arith));
    }
    for (i = 0; i < count; i++) {
        tenon_counter counter = {TENON_HEAD(tenon_counter), .device = 0};
        tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
        const char *reason;
        if (tenon_session_counter(session, i, &counter, &error) != TENON_OK) {
            json_decref(document);
            return opening_failed("counters", &error);
        }
        reason = tenon_reason_text(counter.last_reason);
        if (tenon_host_device(host, counter.provider, counter.device, &device, &error) != TENON_OK)
            device.detail[0] = '\0';
        if (document != NULL && (counter.calls > 0 || counter.declined + counter.failed > 0)) {
            json_t *entry = json_object();
            json_put(entry, "provider", json_text(counter.provider));
            json_put(entry, "device", json_integer(counter.device));
            json_put(entry, "detail", json_text(device.detail));
            json_put(entry, "calls", json_u64(counter.calls));
            json_put(entry, "fallbacks", json_u64(counter.fallbacks));
            json_put(entry, "declined", json_u64(counter.declined));
            json_put(entry, "failed", json_u64(counter.failed));
            json_put(entry, "reason", json_integer(counter.last_reason));
            json_put(entry, "text", json_text(counter.last_text));
            json_push(counter.calls > 0 ? ran : others, entry);
        } else if (document == NULL && counter.calls > 0) {
            fprintf(out, "  run by %s:%lu%s%s%s\n", counter.provider, (unsigned long)counter.device,
                    device.detail[0] != '\0' ? " (" : "", device.detail,
                    device.detail[0] != '\0' ? ")" : "");
        } else if (document == NULL && counter.declined + counter.failed > 0) {
            char shown[4 * sizeof counter.last_text + 1];
            text_escape(shown, sizeof shown, counter.last_text, strlen(counter.last_text));
            fprintf(out, "  not by %s:%lu: %s%s%s (reason %lu)\n", counter.provider,
                    (unsigned long)counter.device, shown,
                    shown[0] != '\0' && reason[0] != '\0' ? ": " : "", reason,
                    (unsigned long)counter.last_reason);
        }
    }
    if (document != NULL) return json_emit(document) ? EXIT_GOOD : EXIT_FAILED;
    return EXIT_GOOD;
}

static int compute(request *self, tenon_host *host, const void *weights, const void *scales,
                   const void *x, void *y)
{
    static const uint32_t modes[] = {TENON_MODE_PIN, TENON_MODE_PREFER, TENON_MODE_AUTO};
    static const uint32_t classes[] = {TENON_CLASS_F32, TENON_CLASS_A8};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = weights};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = self->tokens};
    tenon_weight_information info = {TENON_HEAD(tenon_weight_information), .arith = 0};
    tenon_session *session = NULL;
    tenon_weight *weight = NULL;
    int status = opening_session(host, &self->parsed, self->chain,
                                 self->mode_given ? modes[self->mode] : 0, classes[self->arith],
                                 &session);
    if (status != EXIT_GOOD) return status;
    data.weights_bytes = self->weights_bytes;
    data.scales = scales;
    data.scales_bytes = self->scales_bytes;
    data.lifetime = TENON_LIFETIME_STABLE;
    if (tenon_weight_create(session, &self->desc, &data, &weight, &error) != TENON_OK) {
        status = opening_failed("the weight", &error);
        goto out;
    }
    call.x = (tenon_view){.host = (void *)(uintptr_t)x, .bytes = self->x_bytes};
    call.x_row_stride = 4 * self->cols;
    call.output_count = 1;
    call.outputs[0].weight = weight;
    call.outputs[0].y = (tenon_view){.host = y, .bytes = self->y_bytes};
    call.outputs[0].row_stride = 4 * self->rows;
    if (tenon_qmatmul(tenon_session_queue(session), &call, &error) != TENON_OK) {
        status = opening_failed("the product", &error);
        /* the device was there: that it failed is a failure, not an absence */
        if (status == EXIT_NO_DEVICE) status = EXIT_FAILED;
        goto out;
    }
    if (tenon_weight_info(weight, &info, &error) != TENON_OK) {
        status = opening_failed("the weight", &error);
        goto out;
    }
    if (!output_file_write(self->out, y, self->y_bytes)) {
        status = EXIT_REFUSED;
        goto out;
    }
    status = report(self, host, session, &info);
out:
    tenon_weight_destroy(weight);
    tenon_session_destroy(session);
    return status;
}

int op_qmatmul(int argc, char **argv)
{
    request self;
    tenon_host *host = NULL;
    void *weights = NULL, *scales = NULL, *x = NULL, *y = NULL;
    int status;
    memset(&self, 0, sizeof self);
    status = parse(&self, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    status = judge(&self);
    if (status == OPTIONS_GO_ON) status = place_level(&self);
    if (status == OPTIONS_GO_ON) status = check_out(&self);
    if (status != OPTIONS_GO_ON) goto out;
    weights = raw_file_read("--weights", self.weights, self.weights_bytes, &status);
    if (weights == NULL) goto out;
    if (self.scales != NULL) {
        scales = raw_file_read("--scales", self.scales, self.scales_bytes, &status);
        if (scales == NULL) goto out;
    }
    x = raw_file_read("--x", self.x, self.x_bytes, &status);
    if (x == NULL) goto out;
    y = malloc((size_t)self.y_bytes);
    if (y == NULL) {
        terminal_error("--out: no memory for %" PRIu64 " bytes", self.y_bytes);
        status = EXIT_FAILED;
        goto out;
    }
    status = opening_host(&self.parsed, self.level_provider, &host);
    if (status != EXIT_GOOD) goto out;
    status = compute(&self, host, weights, scales, x, y);
out:
    tenon_host_destroy(host, NULL);
    free(weights);
    free(scales);
    free(x);
    free(y);
    options_free(&self.parsed);
    return status;
}
