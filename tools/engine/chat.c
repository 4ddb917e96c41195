/* The known families of chat templates. */
#include "chat.h"
#include "tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

typedef enum family { CHATML, LLAMA3, GEMMA } family;

#define MARKS_MOST 3u

static const struct family_info {
    const char *name;
    const char *marks[MARKS_MOST];     /* all of them are in the template, and are tokens */
    const char *strangers[MARKS_MOST]; /* none of them is: other templates borrow the marks */
} families[] = {
    [CHATML] = {"chatml", {"<|im_start|>", "<|im_end|>"}, {"<|im_sep|>", "strftime_now"}},
    [LLAMA3] = {"llama-3", {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}, {NULL}},
    [GEMMA] = {"gemma", {"<start_of_turn>", "<end_of_turn>"}, {NULL}},
};
#define FAMILIES (sizeof families / sizeof families[0])

/* Marks by which templates that are not offered can be called by their name. */
static const struct {
    const char *mark, *name;
} others[] = {
    {"[INST]", "llama-2 or mistral"},
    {"<|header_start|>", "llama-4"},
    {"<|im_sep|>", "phi-4"},
    {"<|start_of_role|>", "granite"},
    {"<|START_OF_TURN_TOKEN|>", "command-r"},
    {"<|start|>", "harmony"},
    {"[gMASK]", "chatglm"},
    {"<|user|>", "zephyr or phi-3"},
    {"<\xEF\xBD\x9CUser\xEF\xBD\x9C>", "deepseek"},
    {"### Instruction", "alpaca"},
    {"strftime_now", "one that writes today's date"},
};

/* Since 3.1 the system text of llama-3 begins with two dates, the second one is the templates' own
 * when nobody gives another. A prompt that changes from day to day would not be repeatable. */
#define LLAMA3_DATES "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

struct chat {
    family kind;
    char *system; /* chatml: the system text when the conversation has none, NULL: no such turn */
    size_t system_length;
    bool dates;          /* llama-3 */
    bool refuses_system; /* gemma, the first two generations */
};

typedef struct text_view {
    const char *at;
    size_t length;
} text_view;

static const char *find_text(text_view text, const char *word)
{
    size_t n = strlen(word), i;
    for (i = 0; n <= text.length && i <= text.length - n; i++)
        if (memcmp(text.at + i, word, n) == 0) return text.at + i;
    return NULL;
}

static text_view behind(text_view text, const char *at)
{
    return (text_view){at, text.length - (size_t)(at - text.at)};
}

static bool is_family(text_view text, const struct family_info *info)
{
    size_t i;
    for (i = 0; i < MARKS_MOST; i++) {
        if (info->marks[i] != NULL && find_text(text, info->marks[i]) == NULL) return false;
        if (info->strangers[i] != NULL && find_text(text, info->strangers[i]) != NULL) return false;
    }
    return true;
}

/* The characters of a literal of the template language up to stop; what is no plain literal ends
 * in false. *to gets them, the escapes resolved. */
static bool copy_literal(text_view from, const char *stop, char *to, size_t *length)
{
    const char *end = find_text(from, stop), *at;
    *length = 0;
    if (end == NULL) return false;
    for (at = from.at; at < end; at++) {
        char c = *at;
        if (c == '\'' || c == '"' || c == '{' || c == '}') return false;
        if (c == '\\') {
            at++;
            if (at == end) return false;
            if (*at == 'n')
                c = '\n';
            else if (*at == 't')
                c = '\t';
            else if (*at == '\'' || *at == '"' || *at == '\\')
                c = *at;
            else
                return false;
        }
        to[(*length)++] = c;
    }
    return true;
}

/* chatml: the system text the template writes itself, a literal between its marks. */
static bool find_system(chat *self, text_view text, gguf_error *error)
{
    static const char head[] = "<|im_start|>system";
    const char *found;
    self->system = malloc(text.length + 1);
    if (self->system == NULL) return tokenizer_no_memory(error);
    while ((found = find_text(text, head)) != NULL) {
        text_view rest = behind(text, found + sizeof head - 1);
        size_t line = 0;
        if (rest.length >= 1 && rest.at[0] == '\n') line = 1;
        if (rest.length >= 2 && memcmp(rest.at, "\\n", 2) == 0) line = 2;
        text = rest;
        if (line == 0) continue;
        if (copy_literal(behind(rest, rest.at + line), "<|im_end|>", self->system,
                         &self->system_length))
            return true;
    }
    free(self->system);
    self->system = NULL;
    return true;
}

/* What differs between the generations of a family. */
static bool read_details(chat *self, text_view text, gguf_error *error)
{
    switch (self->kind) {
    case CHATML: return find_system(self, text, error);
    case LLAMA3:
        self->dates = find_text(text, "Cutting Knowledge Date") != NULL;
        if (self->dates && (find_text(text, "Cutting Knowledge Date: December 2023") == NULL ||
                            find_text(text, "26 Jul 2024") == NULL))
            return tokenizer_fail(error, "tokenizer.chat_template is llama-3 with other dates than "
                                         "those known");
        return true;
    case GEMMA:
        self->refuses_system = find_text(text, "System role not supported") != NULL;
        return true;
    }
    return true;
}

static void fail_unknown(text_view text, gguf_error *error)
{
    char shown[TOKENIZER_SHOWN];
    size_t i;
    for (i = 0; i < sizeof others / sizeof others[0]; i++)
        if (find_text(text, others[i].mark) != NULL) break;
    tokenizer_fail(error,
                   "tokenizer.chat_template is not known%s%s (it begins with '%s'); known are "
                   "chatml, llama-3, gemma",
                   i < sizeof others / sizeof others[0] ? ": it looks like " : "",
                   i < sizeof others / sizeof others[0] ? others[i].name : "",
                   tokenizer_shown(shown, text.at, text.length));
}

chat *chat_open(const gguf *file, const tokenizer *words, gguf_error *error)
{
    text_view text = {NULL, 0};
    uint64_t length;
    chat *self = NULL;
    size_t kind, i;
    if (!gguf_get_string(file, "tokenizer.chat_template", &text.at, &length, error)) return NULL;
    text.length = (size_t)length;
    for (kind = 0; kind < FAMILIES; kind++)
        if (is_family(text, &families[kind])) break;
    if (kind == FAMILIES) {
        fail_unknown(text, error);
        return NULL;
    }
    for (i = 0; i < MARKS_MOST && families[kind].marks[i] != NULL; i++) {
        const char *mark = families[kind].marks[i];
        if (tokenizer_find(words, mark, strlen(mark)) != TOKEN_NONE) continue;
        tokenizer_fail(error, "tokenizer.chat_template is %s, but '%s' is no token of the file",
                       families[kind].name, mark);
        return NULL;
    }
    self = calloc(1, sizeof *self);
    if (self == NULL) {
        tokenizer_no_memory(error);
        return NULL;
    }
    self->kind = (family)kind;
    if (!read_details(self, text, error)) {
        chat_close(self);
        return NULL;
    }
    return self;
}

void chat_close(chat *self)
{
    if (self == NULL) return;
    free(self->system);
    free(self);
}

const char *chat_name(const chat *self)
{
    return families[self->kind].name;
}

/* A prompt in the making. Runs twice over the same steps: first to count, then to write. */
typedef struct builder {
    chat_prompt *out;
    bool writing;
} builder;

static void put(builder *self, const char *text, size_t length, bool literal)
{
    chat_prompt *out = self->out;
    if (length == 0) return;
    if (self->writing) {
        memcpy(out->text + out->length, text, length);
        out->parts[out->count] = (token_part){out->text + out->length, length, literal};
    }
    out->count++;
    out->length += length;
}

static void put_words(builder *self, const char *text)
{
    put(self, text, strlen(text), false);
}

static void put_content(builder *self, const chat_message *message)
{
    put(self, message->content, message->length, true);
}

/* Without white space around it. */
static void put_trimmed(builder *self, const chat_message *message)
{
    static const char blanks[] = " \t\n\v\f\r";
    const char *at = message->content;
    size_t n = message->length;
    while (n > 0 && memchr(blanks, at[0], sizeof blanks - 1) != NULL) at++, n--;
    while (n > 0 && memchr(blanks, at[n - 1], sizeof blanks - 1) != NULL) n--;
    put(self, at, n, true);
}

static bool is_role(const chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

static void build_chatml(const chat *self, builder *to, const chat_message *messages, size_t count,
                         bool answer)
{
    size_t i;
    if (self->system != NULL && (count == 0 || !is_role(&messages[0], "system"))) {
        put_words(to, "<|im_start|>system\n");
        put(to, self->system, self->system_length, false);
        put_words(to, "<|im_end|>\n");
    }
    for (i = 0; i < count; i++) {
        put_words(to, "<|im_start|>");
        put_words(to, messages[i].role);
        put_words(to, "\n");
        put_content(to, &messages[i]);
        put_words(to, "<|im_end|>\n");
    }
    if (answer) put_words(to, "<|im_start|>assistant\n");
}

static void put_llama3_head(builder *to, const char *role)
{
    put_words(to, "<|start_header_id|>");
    put_words(to, role);
    put_words(to, "<|end_header_id|>\n\n");
}

static void build_llama3(const chat *self, builder *to, const chat_message *messages, size_t count,
                         bool answer)
{
    size_t i = 0;
    if (self->dates) {
        put_llama3_head(to, "system");
        put_words(to, LLAMA3_DATES);
        if (count > 0 && is_role(&messages[0], "system")) put_trimmed(to, &messages[i++]);
        put_words(to, "<|eot_id|>");
    }
    for (; i < count; i++) {
        put_llama3_head(to, messages[i].role);
        put_trimmed(to, &messages[i]);
        put_words(to, "<|eot_id|>");
    }
    if (answer) put_llama3_head(to, "assistant");
}

static void build_gemma(builder *to, const chat_message *messages, size_t count, bool answer)
{
    size_t i = count > 0 && is_role(&messages[0], "system") ? 1 : 0, first = i;
    for (; i < count; i++) {
        put_words(to, "<start_of_turn>");
        put_words(to, is_role(&messages[i], "assistant") ? "model\n" : "user\n");
        if (first == 1 && i == first) {
            put_content(to, &messages[0]);
            put_words(to, "\n\n");
        }
        put_trimmed(to, &messages[i]);
        put_words(to, "<end_of_turn>\n");
    }
    if (answer) put_words(to, "<start_of_turn>model\n");
}

static void build(const chat *self, builder *to, const chat_message *messages, size_t count,
                  bool answer)
{
    switch (self->kind) {
    case CHATML: build_chatml(self, to, messages, count, answer); break;
    case LLAMA3: build_llama3(self, to, messages, count, answer); break;
    case GEMMA: build_gemma(to, messages, count, answer); break;
    }
}

/* Gemma's templates stop at turns that do not alternate, the others take what comes. */
static bool check_roles(const chat *self, const chat_message *messages, size_t count,
                        gguf_error *error)
{
    char shown[TOKENIZER_SHOWN];
    size_t i, first = count > 0 && is_role(&messages[0], "system") ? 1 : 0;
    if (first == 1 && self->refuses_system)
        return tokenizer_fail(error, "this model's chat template has no system role");
    for (i = first; i < count; i++) {
        bool user = is_role(&messages[i], "user"), assistant = is_role(&messages[i], "assistant");
        if (is_role(&messages[i], "system"))
            return tokenizer_fail(error, "message %lu: only the first one can be of the system",
                                  (unsigned long)i + 1);
        if (!user && !assistant)
            return tokenizer_fail(
                error,
                "message %lu: role '%s' is not known; known are system, user, "
                "assistant",
                (unsigned long)i + 1,
                tokenizer_shown(shown, messages[i].role, strlen(messages[i].role)));
        if (self->kind == GEMMA && user != ((i - first) % 2 == 0))
            return tokenizer_fail(error, "message %lu: user and assistant must take turns",
                                  (unsigned long)i + 1);
    }
    if (self->kind == GEMMA && first == 1 && count == 1)
        return tokenizer_fail(error, "a system message needs a message of the user behind it");
    return true;
}

bool chat_build(const chat *self, const chat_message *messages, size_t count, bool answer,
                chat_prompt *out, gguf_error *error)
{
    builder to = {out, false};
    uint64_t total = 0;
    size_t i;
    memset(out, 0, sizeof *out);
    if (!check_roles(self, messages, count, error)) return false;
    for (i = 0; i < count; i++) {
        if (messages[i].length > TOKENIZER_TEXT_LONGEST - total)
            return tokenizer_fail(error, "the conversation is longer than 1 GiB");
        total += messages[i].length;
    }
    build(self, &to, messages, count, answer);
    if (out->count > SIZE_MAX / sizeof *out->parts - 1) return tokenizer_no_memory(error);
    out->text = malloc(out->length + 1);
    out->parts = malloc(out->count * sizeof *out->parts + 1);
    if (out->text == NULL || out->parts == NULL) {
        chat_prompt_free(out);
        return tokenizer_no_memory(error);
    }
    out->count = out->length = 0;
    to.writing = true;
    build(self, &to, messages, count, answer);
    out->flags = self->kind == CHATML ? 0 : TOKENIZER_BEGIN;
    return true;
}

void chat_prompt_free(chat_prompt *self)
{
    free(self->parts);
    free(self->text);
    memset(self, 0, sizeof *self);
}
