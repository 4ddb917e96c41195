/* From a prompt to text: tokens in, tokens out, printed while they come. */
#include "command.h"
#include "run.h"
#include "terminal.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Ctrl-C ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupts;
static struct sigaction before;

static void on_interrupt(int number)
{
    interrupts = interrupts + 1;
    if (interrupts < 2) return;
    sigaction(number, &before, NULL);
    raise(number);
}

void run_catch_interrupt(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_interrupt; /* without SA_RESTART: reading a line ends, too */
    if (sigaction(SIGINT, NULL, &before) != 0 || before.sa_handler == SIG_IGN) return;
    sigaction(SIGINT, &action, NULL);
}

bool run_interrupted(void)
{
    return interrupts > 0;
}

void run_clear_interrupt(void)
{
    interrupts = 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool keep_text(run *self, const char *text, size_t length)
{
    if (length > self->text_capacity - self->text_length) {
        size_t wanted = (self->text_length + length) * 2 + 256;
        char *more = realloc(self->text, wanted);
        if (more == NULL) {
            terminal_error("out of memory");
            return false;
        }
        self->text = more;
        self->text_capacity = wanted;
    }
    if (length > 0) memcpy(self->text + self->text_length, text, length);
    self->text_length += length;
    return true;
}

static bool show(run *self, const char *text, size_t length)
{
    FILE *out = terminal_out();
    if (!keep_text(self, text, length)) return false;
    if (self->request->parsed.json || length == 0) return true;
    terminal_progress_end();
    fwrite(text, 1, length, out);
    return fflush(out) == 0; /* said by terminal_end */
}

static bool show_token(run *self, uint32_t id)
{
    const char *piece, *text;
    size_t length;
    if (tokenizer_is_control(self->it.words, id)) return true;
    piece = tokenizer_piece(self->it.words, id, &length);
    if (piece == NULL) return true;
    if (token_stream_add(&self->stream, piece, length, &text, &length))
        return show(self, text, length);
    terminal_error("out of memory");
    return false;
}

static bool show_rest(run *self)
{
    const char *text;
    size_t length;
    return !token_stream_end(&self->stream, &text, &length) || show(self, text, length);
}

/* ---- generating ------------------------------------------------------------------------------ */

/* The first logits are always looked at: those of a model that is broken are no numbers. */
static bool wants_logits(const run *self)
{
    return self->made.count == 0 || self->request->logits != NULL ||
           !sampler_is_plain(self->sampler);
}

static int choose(run *self, uint32_t *id)
{
    engine_fault fault;
    size_t count;
    const uint32_t *tokens;
    if (wants_logits(self) && !engine_logits(self->engine, self->logits, &fault))
        return loaded_failed(&self->it, &fault);
    if (!run_rows_add(&self->rows, self->logits, self->it.of->vocabulary)) return EXIT_FAILED;
    if (sampler_is_plain(self->sampler))
        return engine_largest(self->engine, id, &fault) ? EXIT_GOOD
                                                        : loaded_failed(&self->it, &fault);
    tokens = engine_tokens(self->engine, &count);
    *id = sampler_choose(self->sampler, self->logits, tokens, count);
    return EXIT_GOOD;
}

/* The prompt, in portions, so that it can be interrupted. */
static int prefill(run *self, const uint32_t *ids, size_t count)
{
    engine_fault fault;
    size_t at = 0, portion = (size_t)self->request->batch;
    while (at < count && !run_interrupted()) {
        size_t n = count - at < portion ? count - at : portion;
        bool last = at + n == count;
        if (count > portion) terminal_progress("prompt: %zu of %zu tokens", at, count);
        if (!engine_feed(self->engine, ids + at, n, last, &fault)) {
            terminal_progress_end();
            return loaded_failed(&self->it, &fault);
        }
        at += n;
        self->prefilled += n;
    }
    terminal_progress_end();
    return EXIT_GOOD;
}

int run_generate(run *self, const uint32_t *ids, size_t count, uint64_t most)
{
    double begin = loaded_clock(), first;
    engine_fault fault;
    uint64_t i;
    int status = prefill(self, ids, count);
    first = loaded_clock();
    self->stop = "length";
    for (i = 0; status == EXIT_GOOD && i < most && !run_interrupted(); i++) {
        uint32_t id = 0;
        if (i > 0) {
            if (!engine_feed(self->engine, &self->made.ids[self->made.count - 1], 1, true,
                             &fault)) {
                status = loaded_failed(&self->it, &fault);
                break;
            }
            self->decoded++;
        }
        status = choose(self, &id);
        if (status != EXIT_GOOD) break;
        if (i == 0) { /* known, so the work behind it is done, on an asynchronous device too */
            first = loaded_clock();
            self->first_seconds = first - begin;
        }
        if (!token_list_add(&self->made, id)) {
            terminal_error("out of memory");
            status = EXIT_FAILED;
            break;
        }
        if (!self->request->ignore_end && tokenizer_is_end(self->it.words, id)) {
            self->stop = "end";
            break;
        }
        if (!show_token(self, id)) status = EXIT_FAILED;
    }
    self->prefill_seconds += first - begin;
    self->decode_seconds += loaded_clock() - first;
    if (run_interrupted()) self->stop = "interrupted";
    if (!show_rest(self) && status == EXIT_GOOD) status = EXIT_FAILED;
    return status;
}

/* ---- conversations --------------------------------------------------------------------------- */

int run_chat_prompt(run *self, const chat_message *messages, size_t count, token_list *out)
{
    gguf_error error = {{0}};
    chat_prompt prompt;
    bool good;
    if (!chat_build(self->chat, messages, count, true, &prompt, &error)) {
        terminal_error("%s", error.text);
        return EXIT_FAILED;
    }
    good = tokenizer_encode_parts(self->it.words, prompt.parts, prompt.count, prompt.flags, out,
                                  NULL, &error);
    if (!good) terminal_error("%s", error.text);
    chat_prompt_free(&prompt);
    return good ? EXIT_GOOD : EXIT_FAILED;
}

/* What was said so far. The texts belong to it. */
typedef struct talk {
    chat_message *messages;
    size_t count, capacity;
} talk;

static bool talk_add(talk *self, const char *role, const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (self->count == self->capacity) {
        size_t wanted = self->capacity == 0 ? 16 : self->capacity * 2;
        chat_message *more = realloc(self->messages, wanted * sizeof *more);
        if (more == NULL) {
            free(copy);
            return false;
        }
        self->messages = more;
        self->capacity = wanted;
    }
    if (copy == NULL) return false;
    if (length > 0) memcpy(copy, text, length);
    copy[length] = '\0';
    self->messages[self->count++] = (chat_message){role, copy, length};
    return true;
}

static void talk_drop(talk *self, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) free((void *)(uintptr_t)self->messages[i].content);
    if (count > 0)
        memmove(self->messages, self->messages + count,
                (self->count - count) * sizeof *self->messages);
    self->count -= count;
}

/* Feeds the conversation, of which the context may hold a part already, and answers. */
static int answer(run *self, talk *said)
{
    engine_fault fault;
    token_list ids = {0};
    size_t have, same = 0;
    const uint32_t *held;
    int status;
    for (;;) {
        status = run_chat_prompt(self, said->messages, said->count, &ids);
        if (status != EXIT_GOOD || ids.count <= self->request->context || said->count <= 2) break;
        terminal_error("the conversation outgrows the context: its oldest question and answer are "
                       "forgotten");
        talk_drop(said, 2);
        ids.count = 0;
    }
    if (status == EXIT_GOOD && ids.count > self->request->context) {
        terminal_error("%zu tokens are more than the context of %" PRIu64, ids.count,
                       self->request->context);
        status = EXIT_USAGE;
    }
    if (status == EXIT_GOOD) {
        held = engine_tokens(self->engine, &have);
        /* the last token is always fed: its logits are wanted */
        while (same < have && same + 1 < ids.count && held[same] == ids.ids[same]) same++;
        status = engine_truncate(self->engine, same, &fault) ? EXIT_GOOD
                                                             : loaded_failed(&self->it, &fault);
    }
    self->text_length = 0;
    if (status == EXIT_GOOD)
        status = run_generate(self, ids.ids + same, ids.count - same, self->request->count);
    if (status == EXIT_GOOD && !talk_add(said, "assistant", self->text, self->text_length)) {
        terminal_error("out of memory");
        status = EXIT_FAILED;
    }
    token_list_free(&ids);
    return status;
}

int run_converse(run *self)
{
    bool asks = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    talk said = {0};
    char *line = NULL;
    size_t capacity = 0;
    int status = EXIT_GOOD;
    if (asks) fputs("Type a message; an empty line or Ctrl-D ends.\n", stderr);
    while (status == EXIT_GOOD) {
        ssize_t length;
        if (asks) fputs("> ", stderr);
        length = getline(&line, &capacity, stdin);
        if (length > 0 && line[length - 1] == '\n') length--;
        if (length <= 0 || run_interrupted()) break;
        if (!talk_add(&said, "user", line, (size_t)length)) {
            terminal_error("out of memory");
            status = EXIT_FAILED;
            break;
        }
        status = answer(self, &said);
        fputc('\n', terminal_out());
        fflush(terminal_out());
        if (run_interrupted() && asks) run_clear_interrupt(); /* the answer is cut, not the talk */
    }
    talk_drop(&said, said.count);
    free(said.messages);
    free(line);
    return status;
}
