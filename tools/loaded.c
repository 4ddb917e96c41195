#include "loaded.h"
#include "command.h"
#include "model_file.h"
#include "opening.h"
#include "terminal.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

/* Kinds of devices that compute with something other than the processor. */
static bool is_accelerator(uint32_t kind)
{
    return kind == 2 || kind == 3 || kind == 4 || kind == 6;
}

double loaded_clock(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int placement_judge(placement *self, const options *parsed, const char *command)
{
    if (self->mode_given && self->mode == 0 && self->chain == NULL && parsed->level == NULL)
        return options_usage_error(command, "--mode pin needs --provider");
    /* a level that is missing is an error and not a fallback */
    if (parsed->level != NULL && self->chain == NULL) self->chain = "cpu";
    return OPTIONS_GO_ON;
}

static int say_path(const loaded *self, const char *text)
{
    char path[300], shown[700];
    terminal_error("%s: %s", text_escape(path, sizeof path, self->path, strlen(self->path)),
                   text_escape(shown, sizeof shown, text, strlen(text)));
    return EXIT_REFUSED;
}

int loaded_failed(const loaded *self, const engine_fault *fault)
{
    gguf_error error;
    switch (fault->kind) {
    case FAULT_NOT_FINITE:
        say_path(self, fault->text);
        if (model_file_find_bad(self->file, &error)) say_path(self, error.text);
        return EXIT_FAILED;
    case FAULT_CALL: say_path(self, fault->text); return opening_exit_code(&fault->cause);
    case FAULT_MEMORY: say_path(self, fault->text); return EXIT_FAILED;
    case FAULT_USE: say_path(self, fault->text); return EXIT_USAGE;
    default: return say_path(self, fault->text);
    }
}

static void progress(void *context, uint64_t done, uint64_t all)
{
    (void)context;
    terminal_progress("preparing weights: %" PRIu64 " of %" PRIu64, done, all);
}

/* Is there a link that is an accelerator, and (prepared) does it hold weights? */
static bool has_accelerator(const loaded *self, bool prepared)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t count = 0, i;
    if (tenon_session_link_count(self->session, &count, &error) != TENON_OK) return false;
    for (i = 0; i < count; i++) {
        tenon_link_info link = {TENON_HEAD(tenon_link_info), .device = 0};
        tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
        if (tenon_session_link(self->session, i, &link, &error) == TENON_OK &&
            link.state == TENON_LINK_ACTIVE && (!prepared || link.weights > 0) &&
            tenon_host_device(self->host, link.provider, link.device, &device, &error) ==
                TENON_OK &&
            is_accelerator(device.kind))
            return true;
    }
    return false;
}

static int fail_accelerator(void)
{
    terminal_error("--require-accelerator: only processors would compute");
    return EXIT_REFUSED;
}

static int open_file(loaded *self)
{
    gguf_error error = {{0}};
    self->file = gguf_open(self->path, &error);
    if (self->file == NULL || !gguf_types_known(self->file, &error))
        return say_path(self, error.text);
    return EXIT_GOOD;
}

static int open_words(loaded *self)
{
    gguf_error error = {{0}};
    char text[120];
    self->words = tokenizer_open(self->file, &error);
    if (self->words == NULL) return say_path(self, error.text);
    if (tokenizer_count(self->words) <= self->of->vocabulary) return EXIT_GOOD;
    snprintf(text, sizeof text, "the file lists %lu tokens, tensor 'token_embd.weight' has %llu",
             (unsigned long)tokenizer_count(self->words), (unsigned long long)self->of->vocabulary);
    return say_path(self, text);
}

int loaded_open(loaded *self, const char *path, options *parsed, const placement *on,
                bool require_accelerator)
{
    static const uint32_t modes[] = {TENON_MODE_PIN, TENON_MODE_PREFER, TENON_MODE_AUTO};
    static const uint32_t classes[] = {TENON_CLASS_F32, TENON_CLASS_A8};
    double begin = loaded_clock();
    engine_fault fault = {.kind = FAULT_NONE};
    model_source source;
    int status;
    memset(self, 0, sizeof *self);
    self->path = path;
    status = open_file(self);
    if (status != EXIT_GOOD) goto fail;
    status = opening_host(parsed, on->chain, &self->host);
    if (status != EXIT_GOOD) goto fail;
    status = opening_session(self->host, parsed, on->chain, on->mode_given ? modes[on->mode] : 0,
                             classes[on->arith], &self->session);
    if (status != EXIT_GOOD) goto fail;
    if (require_accelerator && !has_accelerator(self, false)) {
        status = fail_accelerator();
        goto fail;
    }
    model_file_source(self->file, &source);
    self->of = model_open(self->session, &source, progress, NULL, &fault);
    terminal_progress_end();
    if (self->of == NULL) {
        status = loaded_failed(self, &fault);
        goto fail;
    }
    if (require_accelerator && !has_accelerator(self, true)) {
        status = fail_accelerator();
        goto fail;
    }
    status = open_words(self);
    if (status != EXIT_GOOD) goto fail;
    self->seconds = loaded_clock() - begin;
    return EXIT_GOOD;
fail:
    loaded_close(self);
    return status;
}

void loaded_close(loaded *self)
{
    model_close(self->of);
    tenon_session_destroy(self->session);
    tenon_host_destroy(self->host, NULL);
    tokenizer_close(self->words);
    gguf_close(self->file);
    memset(self, 0, sizeof *self);
}
