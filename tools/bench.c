/* tenon bench: how fast a provider is, against the limits of this machine in the same minute. */
#include "bench_dispatch.h"
#include "bench_lists.h"
#include "bench_measure.h"
#include "command.h"
#include "gguf.h"
#include "json.h"
#include "opening.h"
#include "terminal.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

#define SECONDS_PER_POINT 0.3
#define MAX_SHAPES 256u

static const char help
    [] = "Measures matrix products and says which limit bounds them: reading memory, or the\n"
         "processor's arithmetic, both measured in the same run. Medians; warm-up is not timed.\n"
         "Weights are rotated over copies larger than the last-level cache unless --hot.\n"
         "Lists: --format, --tokens, --level, --threads and --arith take several values, a,b,c.\n"
         "\n"
         "  tenon bench                                     a short table\n"
         "  tenon bench --format Q4_0 --tokens 1,128 --threads 1 --all-levels\n"
         "  tenon bench --model model.gguf                  the shapes of a model\n"
         "  tenon bench --dispatch                          the cost of a call, nothing else\n";

/* What was asked for. */
typedef struct request {
    const char *provider, *model, *format, *tokens, *level, *threads, *arith, *layout;
    uint64_t rows, cols, group;
    bool hot, all_levels, dispatch;

    char id[32];
    uint32_t device;
    word_list levels;
    number_list token_counts, thread_counts;
    uint32_t classes[2], class_count;
    bench_shape shapes[MAX_SHAPES];
    uint32_t shape_count;
    bool named; /* the shapes were named by the user: one that is declined is an error */
    gguf *file;
} request;

/* What the run has made so far. */
typedef struct output {
    bool json;
    json_t *calibrations, *results, *notes;
    uint32_t results_made;
} output;

static void note(output *to, const char *format, const char *word, const char *why)
{
    char text[500], shown[300];
    text_escape(shown, sizeof shown, why, strlen(why));
    snprintf(text, sizeof text, format, word, shown);
    if (to->json)
        json_push(to->notes, json_text(text));
    else
        fprintf(terminal_out(), "%s\n", text);
}

static int parse_provider(request *self)
{
    size_t length = strcspn(self->provider, ":,");
    const char *rest = self->provider + length;
    number_list index;
    char shown[100];
    if (length == 0 || length >= sizeof self->id || *rest == ',' ||
        (*rest == ':' && !(list_numbers(&index, rest + 1, 0, UINT32_MAX) && index.count == 1)))
        return options_usage_error(
            "bench", "--provider: '%s' is not one provider, as cpu or vulkan:1",
            text_escape(shown, sizeof shown, self->provider, strlen(self->provider)));
    memcpy(self->id, self->provider, length);
    self->id[length] = '\0';
    self->device = *rest == ':' ? (uint32_t)index.numbers[0] : 0;
    return OPTIONS_GO_ON;
}

static int list_error(const char *option, const char *text)
{
    char shown[100];
    return options_usage_error("bench", "--%s: '%s' cannot be read", option,
                               text_escape(shown, sizeof shown, text, strlen(text)));
}

static int parse_classes(request *self)
{
    word_list words;
    uint32_t i;
    if (!list_words(&words, self->arith) || words.count > 2)
        return list_error("arith", self->arith);
    for (i = 0; i < words.count; i++) {
        if (strcmp(words.words[i], "f32") == 0)
            self->classes[i] = TENON_CLASS_F32;
        else if (strcmp(words.words[i], "a8") == 0)
            self->classes[i] = TENON_CLASS_A8;
        else
            return options_usage_error("bench", "--arith: '%s' is none of f32, a8", words.words[i]);
    }
    self->class_count = words.count;
    return OPTIONS_GO_ON;
}

static int parse_lists(request *self)
{
    int status = parse_provider(self);
    if (status == OPTIONS_GO_ON) status = parse_classes(self);
    if (status != OPTIONS_GO_ON) return status;
    if (self->level != NULL && self->all_levels)
        return options_usage_error("bench", "--level and --all-levels exclude each other");
    if (self->level != NULL && !list_words(&self->levels, self->level))
        return list_error("level", self->level);
    if (!list_numbers(&self->token_counts, self->tokens, 1, 1u << 20))
        return list_error("tokens", self->tokens);
    if (self->threads != NULL && !list_numbers(&self->thread_counts, self->threads, 1, 256))
        return list_error("threads", self->threads);
    return OPTIONS_GO_ON;
}

static int add_shape(request *self, uint32_t format, uint64_t rows, uint64_t cols, const void *data)
{
    bool int4 = format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP;
    bench_shape shape = {.format = format, .rows = rows, .cols = cols, .data = data};
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = format, .rows = rows,
                              .cols = cols};
    tenon_format_info info;
    uint64_t weights, scales;
    uint32_t i, reason;
    if (int4)
        shape.layout = self->layout != NULL && strcmp(self->layout, "planar") == 0
                           ? TENON_LAYOUT_PLANAR
                           : TENON_LAYOUT_PAIR;
    if (format == TENON_FORMAT_INT4_GROUP) shape.group_size = self->group;
    for (i = 0; i < self->shape_count; i++)
        if (self->shapes[i].format == format && self->shapes[i].rows == rows &&
            self->shapes[i].cols == cols)
            return OPTIONS_GO_ON;
    desc.layout = shape.layout;
    desc.group_size = shape.group_size;
    if (tenon_weight_bytes(&desc, &weights, &scales, &reason) != TENON_OK)
        return options_usage_error("bench", "%s of %llu by %llu: %s",
                                   tenon_format_find(format, &info) ? info.text : "format",
                                   (unsigned long long)rows, (unsigned long long)cols,
                                   tenon_reason_text(reason));
    if (self->shape_count == MAX_SHAPES)
        return options_usage_error("bench", "more than %u shapes", MAX_SHAPES);
    self->shapes[self->shape_count++] = shape;
    return OPTIONS_GO_ON;
}

/* The distinct shapes of a model's tensors, of the formats named if any are. */
static int add_model(request *self, const word_list *formats)
{
    gguf_error error;
    uint64_t i;
    uint32_t k;
    int status = OPTIONS_GO_ON;
    self->file = gguf_open(self->model, &error);
    if (self->file == NULL) {
        terminal_error("bench: %s", error.text);
        return EXIT_REFUSED;
    }
    if (!gguf_types_known(self->file, &error)) {
        terminal_error("bench: %s", error.text);
        return EXIT_REFUSED;
    }
    for (i = 0; status == OPTIONS_GO_ON && i < gguf_tensor_count(self->file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(self->file, i);
        bool wanted = formats->count == 0;
        if (!gguf_tensor_usable(tensor, NULL)) continue;
        for (k = 0; k < formats->count; k++)
            if (options_format(formats->words[k]) == tensor->format) wanted = true;
        if (wanted)
            status = add_shape(self, tensor->format, tensor->rows, tensor->cols, tensor->data);
    }
    if (status == OPTIONS_GO_ON && self->shape_count == 0) {
        terminal_error("bench: %s holds no weight to measure", self->model);
        return EXIT_REFUSED;
    }
    return status;
}

static int collect_shapes(request *self)
{
    word_list formats = {.count = 0};
    int status = OPTIONS_GO_ON;
    uint32_t i;
    if (self->format != NULL && !list_words(&formats, self->format))
        return list_error("format", self->format);
    for (i = 0; i < formats.count; i++)
        if (options_format(formats.words[i]) == TENON_FORMAT_NONE)
            return options_usage_error("bench", "--format: '%s' is no format", formats.words[i]);
    if (self->model != NULL) {
        if (self->rows != 0 || self->cols != 0)
            return options_usage_error("bench", "--model brings its own --rows and --cols");
        return add_model(self, &formats);
    }
    self->named = self->format != NULL;
    if (formats.count == 0) list_words(&formats, "F16,Q4_0,Q4_1,Q8_0,Q4_K,Q6_K");
    for (i = 0; status == OPTIONS_GO_ON && i < formats.count; i++)
        status = add_shape(self, options_format(formats.words[i]),
                           self->rows != 0 ? self->rows : 4096, self->cols != 0 ? self->cols : 4096,
                           NULL);
    return status;
}

static void say_calibration(output *to, const char *provider, const char *level, uint32_t threads,
                            const calibration *limits)
{
    json_t *object;
    if (!to->json) {
        fprintf(terminal_out(),
                "%s%s%s, %u thread%s: memory %.1f GB/s (%s), int8 %.0f GOP/s (%s), f32 %.0f "
                "GFLOP/s (%s)\n",
                provider, level[0] != '\0' ? " " : "", level, threads, threads == 1 ? "" : "s",
                limits->read_gbps, limits->read_loop, limits->int8_gops, limits->int8_instruction,
                limits->f32_gflops, limits->f32_instruction);
        fprintf(terminal_out(), "  %-14s %6s %6s %6s %5s %11s %19s %7s %8s %-7s %5s\n", "format",
                "rows", "cols", "tokens", "arith", "median us", "min .. max us", "GB/s", "GOP/s",
                "bound", "ratio");
        return;
    }
    object = json_object();
    json_put(object, "level", json_text(level));
    json_put(object, "threads", json_u64(threads));
    json_put(object, "read_gbps", json_number(limits->read_gbps));
    json_put(object, "int8_gops", json_number(limits->int8_gops));
    json_put(object, "f32_gflops", json_number(limits->f32_gflops));
    json_put(object, "read_loop", json_text(limits->read_loop));
    json_put(object, "int8_instruction", json_text(limits->int8_instruction));
    json_put(object, "f32_instruction", json_text(limits->f32_instruction));
    json_push(to->calibrations, object);
}

static void say_point(output *to, const request *of, const char *level, uint32_t threads,
                      const bench_point *point)
{
    tenon_format_info info = {.text = ""};
    const char *arith = point->arith == TENON_CLASS_A8 ? "a8" : "f32";
    const char *bound = point->bound_by_memory ? "memory" : "compute";
    json_t *object;
    (void)tenon_format_find(point->shape.format, &info);
    to->results_made++;
    if (!to->json) {
        char spread[40];
        snprintf(spread, sizeof spread, "%.1f .. %.1f", point->ns_min / 1e3, point->ns_max / 1e3);
        fprintf(terminal_out(), "  %-14s %6llu %6llu %6llu %5s %11.1f %19s %7.2f %8.1f %-7s %5.2f",
                info.text, (unsigned long long)point->shape.rows,
                (unsigned long long)point->shape.cols, (unsigned long long)point->tokens, arith,
                point->ns_median / 1e3, spread, point->gbps, point->gops, bound, point->ratio);
        if (point->major_faults != 0)
            fprintf(terminal_out(), "  %llu major page faults",
                    (unsigned long long)point->major_faults);
        fprintf(terminal_out(), "\n");
        fflush(terminal_out());
        return;
    }
    object = json_object();
    json_put(object, "provider", json_text(of->id));
    json_put(object, "level", json_text(level));
    json_put(object, "format", json_text(info.text));
    json_put(object, "rows", json_u64(point->shape.rows));
    json_put(object, "cols", json_u64(point->shape.cols));
    json_put(object, "tokens", json_u64(point->tokens));
    json_put(object, "threads", json_u64(threads));
    json_put(object, "arith", json_text(arith));
    json_put(object, "ns_median", json_number(point->ns_median));
    json_put(object, "ns_min", json_number(point->ns_min));
    json_put(object, "ns_max", json_number(point->ns_max));
    json_put(object, "gbps", json_number(point->gbps));
    json_put(object, "gops", json_number(point->gops));
    json_put(object, "bound", json_text(bound));
    json_put(object, "limit", json_number(point->limit));
    json_put(object, "ratio", json_number(point->ratio));
    json_put(object, "samples", json_u64(point->samples));
    json_put(object, "copies", json_u64(point->copies));
    json_put(object, "major_faults", json_u64(point->major_faults));
    json_push(to->results, object);
}

static bool declined(const tenon_error *error)
{
    return error->status == TENON_DECLINED || error->reason == TENON_REASON_CHAIN_DECLINED;
}

/* One weight shape in one class: every token count. */
static int measure_shape(const request *of, const bench_shape *shape, tenon_session *session,
                         const char *level, uint32_t threads, const calibration *limits, output *to)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_format_info info = {.text = ""};
    bench_weights weights;
    bench_point point;
    int status = EXIT_GOOD;
    uint32_t i;
    (void)tenon_format_find(shape->format, &info);
    terminal_progress("measuring %s %s, %llu by %llu", of->id, info.text,
                      (unsigned long long)shape->rows, (unsigned long long)shape->cols);
    if (!bench_weights_make(&weights, session, shape, of->hot, &error)) {
        terminal_progress_end();
        if (declined(&error) && !of->named) {
            note(to, "  %-14s not offered: %s", info.text, error.text);
            return EXIT_GOOD;
        }
        return opening_failed(info.text, &error);
    }
    for (i = 0; status == EXIT_GOOD && i < of->token_counts.count; i++) {
        if (bench_measure(&weights, session, of->token_counts.numbers[i], SECONDS_PER_POINT, limits,
                          &point, &error)) {
            terminal_progress_end();
            say_point(to, of, level, threads, &point);
        } else {
            terminal_progress_end();
            status = opening_failed(info.text, &error);
        }
    }
    bench_weights_free(&weights);
    return status;
}

/* Everything on one host: one level, one thread count. */
static int measure_host(request *of, options *parsed, bool absent_is_fine, output *to)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
    tenon_team_info team = {TENON_HEAD(tenon_team_info), .threads = 0};
    tenon_host *host = NULL;
    tenon_session *session = NULL;
    calibration limits;
    word_list levels;
    char level[LIST_WORD_BYTES];
    bool reference = strcmp(of->id, "reference") == 0;
    int status = opening_host(parsed, of->provider, &host);
    uint32_t i, k;
    if (status != EXIT_GOOD) return status;
    level[0] = '\0';
    if (!reference && tenon_host_device(host, of->id, of->device, &device, &error) != TENON_OK) {
        if (absent_is_fine && error.reason == TENON_REASON_LEVEL_ABSENT)
            note(to, "%s: absent on this machine: %s", parsed->level, error.text);
        else
            status = opening_failed(of->provider, &error);
        goto out;
    }
    if (tenon_host_team(host, &team, &error) != TENON_OK) {
        status = opening_failed("threads", &error);
        goto out;
    }
    list_device_levels(device.detail, level, &levels);
    terminal_progress("calibrating for %u threads", team.threads);
    if (!calibrate(level, team.threads, &limits)) {
        terminal_progress_end();
        status = EXIT_FAILED;
        goto out;
    }
    terminal_progress_end();
    say_calibration(to, of->id, level, team.threads, &limits);
    for (k = 0; status == EXIT_GOOD && k < of->class_count; k++) {
        status = opening_session(host, parsed, of->provider, TENON_MODE_PIN, of->classes[k],
                                 &session);
        for (i = 0; status == EXIT_GOOD && i < of->shape_count; i++)
            status = measure_shape(of, &of->shapes[i], session, level, team.threads, &limits, to);
        tenon_session_destroy(session);
        session = NULL;
    }
out:
    (void)tenon_host_destroy(host, NULL);
    return status;
}

/* The levels that the device says it can be forced to. */
static int find_levels(request *of, options *parsed)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
    tenon_host *host = NULL;
    char level[LIST_WORD_BYTES];
    int status = opening_host(parsed, of->provider, &host);
    if (status != EXIT_GOOD) return status;
    if (tenon_host_device(host, of->id, of->device, &device, &error) != TENON_OK)
        status = opening_failed(of->provider, &error);
    else
        list_device_levels(device.detail, level, &of->levels);
    (void)tenon_host_destroy(host, NULL);
    return status;
}

static int measure_all(request *of, options *parsed, output *to)
{
    uint32_t level, threads;
    int status = EXIT_GOOD;
    if (of->all_levels) status = find_levels(of, parsed);
    for (level = 0; status == EXIT_GOOD && level < (of->levels.count != 0 ? of->levels.count : 1);
         level++) {
        parsed->level = of->levels.count != 0 ? of->levels.words[level] : NULL;
        for (threads = 0; status == EXIT_GOOD &&
                          threads < (of->thread_counts.count != 0 ? of->thread_counts.count : 1);
             threads++) {
            parsed->threads = of->thread_counts.count != 0
                                  ? (uint32_t)of->thread_counts.numbers[threads]
                                  : 0;
            status = measure_host(of, parsed, of->all_levels, to);
        }
    }
    return status;
}

static int run_dispatch(const options *parsed)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    dispatch_cost cost;
    json_t *document, *object;
    if (dispatch_measure(&cost, &error) != TENON_OK) return opening_failed("dispatch", &error);
    if (!parsed->json) {
        fprintf(terminal_out(),
                "dispatch, 1 thread: %.1f ns a call (%.1f .. %.1f), of these %.1f in the "
                "provider's own function\n",
                cost.ns_per_call, cost.ns_min, cost.ns_max, cost.ns_direct);
        return EXIT_GOOD;
    }
    document = json_document();
    object = json_object();
    json_put(object, "calls", json_u64(cost.calls));
    json_put(object, "ns_per_call", json_number(cost.ns_per_call));
    json_put(object, "ns_min", json_number(cost.ns_min));
    json_put(object, "ns_max", json_number(cost.ns_max));
    json_put(object, "ns_direct", json_number(cost.ns_direct));
    json_put(document, "dispatch", object);
    return json_emit(document) ? EXIT_GOOD : EXIT_FAILED;
}

/* The document: the first calibration by itself, for the usual run that has only one. */
static bool emit(output *to)
{
    json_t *document = json_document(), *first = json_array_get(to->calibrations, 0);
    json_t *scalars = json_object();
    static const char *const keys[] = {"read_gbps", "int8_gops", "f32_gflops"};
    size_t i;
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_put(scalars, keys[i], json_incref(json_object_get(first, keys[i])));
    json_put(document, "calibration", scalars);
    json_put(document, "calibrations", to->calibrations);
    json_put(document, "results", to->results);
    json_put(document, "notes", to->notes);
    return json_emit(document);
}

int command_bench(int argc, char **argv)
{
    request *self = calloc(1, sizeof *self);
    output to = {0};
    options parsed;
    int status;
    if (self == NULL) {
        terminal_error("out of memory");
        return EXIT_FAILED;
    }
    self->provider = "cpu";
    self->tokens = "1,128";
    self->arith = "a8";
    self->group = 32;
    {
        uint32_t layout = 0;
        const option_entry entries[] = {
            {.name = "provider",
             .kind = OPTION_TEXT,
             .target = &self->provider,
             .argument = "P",
             .help = "provider and device, as cpu or vulkan:1 (cpu)"},
            {.name = "model",
             .kind = OPTION_TEXT,
             .target = &self->model,
             .argument = "FILE.gguf",
             .help = "measure the distinct shapes of a model's tensors"},
            {.name = "format",
             .kind = OPTION_TEXT,
             .target = &self->format,
             .argument = "F",
             .help = "weight formats (a few of them)"},
            {.name = "rows",
             .kind = OPTION_U64,
             .target = &self->rows,
             .minimum = 1,
             .maximum = UINT32_MAX,
             .argument = "O",
             .help = "outputs of the weight (4096)"},
            {.name = "cols",
             .kind = OPTION_U64,
             .target = &self->cols,
             .minimum = 1,
             .maximum = UINT32_MAX,
             .argument = "I",
             .help = "inputs of the weight (4096)"},
            {.name = "tokens",
             .kind = OPTION_TEXT,
             .target = &self->tokens,
             .argument = "S",
             .help = "token counts (1,128)"},
            {.name = "layout",
             .kind = OPTION_CHOICE,
             .target = &layout,
             .choices = "pair|planar",
             .argument = "pair|planar",
             .help = "layout of int4 codes (pair)"},
            {.name = "group",
             .kind = OPTION_U64,
             .target = &self->group,
             .minimum = 1,
             .maximum = UINT32_MAX,
             .argument = "N",
             .help = "group size of int4-group (32)"},
            {.name = "arith",
             .kind = OPTION_TEXT,
             .target = &self->arith,
             .argument = "f32|a8",
             .help = "arithmetic of the session (a8)"},
            {.name = "level",
             .kind = OPTION_TEXT,
             .target = &self->level,
             .argument = "L",
             .help = "instruction-set levels to force (the provider's choice)"},
            {.name = "all-levels",
             .kind = OPTION_FLAG,
             .target = &self->all_levels,
             .help = "every level of the provider, one after the other"},
            {.name = "threads",
             .kind = OPTION_TEXT,
             .target = &self->threads,
             .argument = "N",
             .help = "thread counts (what the process may use)"},
            {.name = "hot",
             .kind = OPTION_FLAG,
             .target = &self->hot,
             .help = "one copy of the weight, so that the cache may hold it"},
            {.name = "dispatch",
             .kind = OPTION_FLAG,
             .target = &self->dispatch,
             .help = "only the cost of a call through the host"},
            {0},
        };
        const option_usage usage = {.command = "bench",
                                    .synopsis = "[options]",
                                    .help = help,
                                    .entries = entries,
                                    .argument_maximum = 0};
        status = options_parse(&parsed, &usage, argc, argv);
        self->layout = layout == 1 ? "planar" : "pair";
    }
    if (status != OPTIONS_GO_ON) {
        free(self);
        return status;
    }
    if (self->dispatch) {
        status = run_dispatch(&parsed);
        goto out;
    }
    status = parse_lists(self);
    if (status == OPTIONS_GO_ON) status = collect_shapes(self);
    if (status != OPTIONS_GO_ON) goto out;
    to.json = parsed.json;
    if (to.json) {
        to.calibrations = json_array();
        to.results = json_array();
        to.notes = json_array();
    }
    status = measure_all(self, &parsed, &to);
    if (status == EXIT_GOOD && to.results_made == 0) {
        terminal_error("bench: nothing was measured: %s offers none of it", self->provider);
        status = EXIT_REFUSED;
    }
    if (to.json && status == EXIT_GOOD) {
        if (!emit(&to)) status = EXIT_FAILED;
    } else if (to.json) {
        json_decref(to.calibrations);
        json_decref(to.results);
        json_decref(to.notes);
    }
out:
    gguf_close(self->file);
    free(self);
    options_free(&parsed);
    return status;
}
