/* Shared by the files of `tenon run`; not for others. */
#ifndef TENON_TOOLS_RUN_H
#define TENON_TOOLS_RUN_H

#include "engine/chat.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/tokens.h"
#include "loaded.h"
#include "options.h"
#include "output_file.h"

#include <stdbool.h>
#include <stdint.h>

/* What the command line asks for. */
typedef struct run_request {
    options parsed;
    placement on;
    const char *model, *prompt, *file, *ids;
    bool chat, ignore_end, require_accelerator, count_given;
    uint64_t count, context, batch; /* context 0: what is needed */
    uint32_t kv;                    /* index of its word: f16, f32 */
    const char *trace, *logits;
    sampler_options sampling;
} run_request;

#define RUN_COUNT 128u /* tokens when -n does not say */
#define RUN_BATCH 128u /* tokens of a step */
#define RUN_CHAT 4096u /* context of a conversation when --ctx does not say */

/* Parses and judges. OPTIONS_GO_ON, else an exit code, having said why, and nothing to free. */
int run_parse(run_request *self, int argc, char **argv);

/* A .npy file of float32 rows, whose number is known when it is closed. */
typedef struct run_rows {
    output_file file;
    uint64_t rows, width;
} run_rows;
bool run_rows_begin(run_rows *self, const char *path);
bool run_rows_add(run_rows *self, const float *row, uint64_t width);
bool run_rows_commit(run_rows *self);
void run_rows_abandon(run_rows *self);

/* A trace in the format of Chrome and Perfetto: a slice for each operation. */
typedef struct run_trace run_trace;
/* NULL, having said why, when the file cannot be written. */
run_trace *run_trace_begin(const char *path);
/* From now on the session's counters tell who ran what. */
const step_watch *run_trace_watch(run_trace *self, tenon_session *session);
bool run_trace_commit(run_trace *self);
void run_trace_abandon(run_trace *self); /* NULL is allowed; harmless after commit */

/* A run at work. */
typedef struct run {
    const run_request *request;
    loaded it;
    engine *engine;
    sampler *sampler;
    chat *chat;
    run_trace *trace;
    run_rows rows;
    float *logits;
    token_list prompt, made; /* made: generated ones, the end token included */
    token_stream stream;
    char *text; /* what was printed, for the document */
    size_t text_length, text_capacity;
    const char *stop; /* "end", "length", "interrupted" */
    double load_seconds, first_seconds, prefill_seconds, decode_seconds;
    uint64_t prefilled, decoded;
} run;

/* Feeds ids and generates up to count tokens, printing their text. An exit code. */
int run_generate(run *self, const uint32_t *ids, size_t count, uint64_t most);
/* A conversation, line by line from standard input. */
int run_converse(run *self);
/* Builds the prompt for one message, or for a conversation. */
int run_chat_prompt(run *self, const chat_message *messages, size_t count, token_list *out);

/* Ctrl-C asks a run to end; a second one ends the tool. */
void run_catch_interrupt(void);
bool run_interrupted(void);
void run_clear_interrupt(void);

/* The summary on stderr, or the document. An exit code. */
int run_report(const run *self);

#endif
