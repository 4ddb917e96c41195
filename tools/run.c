/* `tenon run MODEL`: generates text. Here is the order of things; the parts are in run_*.c. */
#include "run.h"
#include "command.h"
#include "read_text.h"
#include "terminal.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "1,2,3" */
static int parse_ids(run *self)
{
    const char *at = self->request->ids;
    char shown[80];
    for (;;) {
        uint64_t id = 0;
        const char *begin = at;
        for (; *at >= '0' && *at <= '9' && id < TOKEN_NONE; at++)
            id = id * 10 + (uint64_t)(*at - '0');
        if (at == begin || id >= TOKEN_NONE || (*at != ',' && *at != '\0'))
            return options_usage_error(
                "run", "--tokens: '%s' is not a list of ids such as 1,2,3",
                text_escape(shown, sizeof shown, self->request->ids, strlen(self->request->ids)));
        if (id >= self->it.of->vocabulary)
            return options_usage_error(
                "run", "--tokens: the model has no token %" PRIu64 ", it has %" PRIu64, id,
                self->it.of->vocabulary);
        if (!token_list_add(&self->prompt, (uint32_t)id)) {
            terminal_error("out of memory");
            return EXIT_FAILED;
        }
        if (*at == '\0') return EXIT_GOOD;
        at++;
    }
}

static int encode(run *self, const char *text, size_t length)
{
    gguf_error error = {{0}};
    const chat_message message = {"user", text, length};
    uint64_t lost = 0;
    uint32_t flags = 0;
    if (length == 0) return options_usage_error("run", "the prompt is empty");
    if (self->chat != NULL) return run_chat_prompt(self, &message, 1, &self->prompt);
    if (tokenizer_adds_begin(self->it.words) && tokenizer_begin(self->it.words) != TOKEN_NONE)
        flags = TOKENIZER_BEGIN;
    if (!tokenizer_encode(self->it.words, text, length, flags, &self->prompt, &lost, &error)) {
        terminal_error("%s", error.text);
        return EXIT_FAILED;
    }
    if (lost != 0 && !self->request->parsed.quiet)
        terminal_error("%" PRIu64 " bytes of the prompt have no token in this vocabulary", lost);
    if (self->prompt.count > 0) return EXIT_GOOD;
    return options_usage_error("run", "the prompt holds no token of this vocabulary");
}

/* Prompt tokens, and the context they need. */
static int prepare_prompt(run *self)
{
    const run_request *request = self->request;
    gguf_error error = {{0}};
    char *text = NULL;
    size_t length = 0;
    int status = EXIT_GOOD;
    if (request->chat) {
        self->chat = chat_open(self->it.file, self->it.words, &error);
        if (self->chat == NULL) {
            terminal_error("--chat: %s", error.text);
            return EXIT_REFUSED;
        }
    }
    if (request->ids != NULL) return parse_ids(self);
    if (request->prompt != NULL) return encode(self, request->prompt, strlen(request->prompt));
    if (request->file == NULL) return EXIT_GOOD;
    status = read_text(request->file, &text, &length);
    if (status == EXIT_GOOD) status = encode(self, text, length);
    free(text);
    return status;
}

static int open_engine(run *self, run_request *request)
{
    const model *of = self->it.of;
    bool talks = request->chat && self->prompt.count == 0;
    uint64_t needed = self->prompt.count + request->count;
    engine_options wanted = {.batch = request->batch};
    engine_fault fault;
    if (talks) needed = RUN_CHAT;
    if (request->context == 0)
        request->context = needed < of->trained_context ? needed : of->trained_context;
    if (request->context > of->trained_context && !request->parsed.quiet)
        terminal_error("--ctx %" PRIu64 " is more than the %" PRIu64
                       " positions that the model was trained with",
                       request->context, of->trained_context);
    if (self->prompt.count > request->context)
        return options_usage_error("run",
                                   "the prompt has %zu tokens, more than the context of %" PRIu64,
                                   self->prompt.count, request->context);
    wanted.context = request->context;
    wanted.cache_type = request->kv == 0 ? TENON_CACHE_F16 : TENON_CACHE_F32;
    wanted.shift = talks || needed > request->context;
    wanted.keep = self->prompt.count > 0 && self->prompt.ids[0] == tokenizer_begin(self->it.words);
    if (self->trace != NULL) wanted.watch = run_trace_watch(self->trace, self->it.session);
    self->engine = engine_open(of, &wanted, &fault);
    if (self->engine == NULL) return loaded_failed(&self->it, &fault);
    self->logits = malloc((size_t)of->vocabulary * sizeof *self->logits);
    self->sampler = sampler_open(&request->sampling, of->vocabulary);
    if (self->logits != NULL && self->sampler != NULL) return EXIT_GOOD;
    terminal_error("out of memory");
    return EXIT_FAILED;
}

static int perform(run *self, run_request *request)
{
    double begin = loaded_clock();
    int status, report;
    /* what cannot be written is known before the model is read */
    if (request->trace != NULL && (self->trace = run_trace_begin(request->trace)) == NULL)
        return EXIT_REFUSED;
    if (request->logits != NULL && !run_rows_begin(&self->rows, request->logits))
        return EXIT_REFUSED;
    status = loaded_open(&self->it, request->model, &request->parsed, &request->on,
                         request->require_accelerator);
    if (status != EXIT_GOOD) return status;
    status = prepare_prompt(self);
    if (status == EXIT_GOOD) status = open_engine(self, request);
    if (status != EXIT_GOOD) return status;
    self->load_seconds = loaded_clock() - begin;
    self->rows.width = self->it.of->vocabulary;
    run_catch_interrupt();
    if (self->prompt.count == 0)
        status = run_converse(self);
    else
        status = run_generate(self, self->prompt.ids, self->prompt.count, request->count);
    if (status != EXIT_GOOD) return status;
    if (!run_rows_commit(&self->rows)) status = EXIT_FAILED;
    if (self->trace != NULL && !run_trace_commit(self->trace)) status = EXIT_FAILED;
    report = run_report(self);
    return status == EXIT_GOOD ? report : status;
}

int command_run(int argc, char **argv)
{
    run_request request;
    run self = {.request = &request, .stop = ""};
    int status = run_parse(&request, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    status = perform(&self, &request);
    run_rows_abandon(&self.rows);
    engine_close(self.engine);
    run_trace_abandon(self.trace);
    sampler_close(self.sampler);
    chat_close(self.chat);
    loaded_close(&self.it);
    token_list_free(&self.prompt);
    token_list_free(&self.made);
    token_stream_free(&self.stream);
    free(self.logits);
    free(self.text);
    options_free(&request.parsed);
    return status;
}
