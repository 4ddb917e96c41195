/* The tokenizer on real vocabularies, against the golden data (tests/golden/tokenizer/README.md).
 * The files are named by variables; a test whose file is not there is skipped. */
#include "tokenizer_rig.h"

#include <tools/engine/chat.h>

#define BLANK "\xE2\x96\x81" /* U+2581, a space to the "llama" kind */

typedef struct real_model {
    gguf *file;
    tokenizer *words;
} real_model;

/* Opens the model that a variable names; false: there is none, and the test is skipped. */
static bool open_model(const char *variable, real_model *self)
{
    const char *path = getenv(variable);
    gguf_error error = {{0}};
    char text[80];
    if (path == NULL || path[0] == '\0') {
        snprintf(text, sizeof text, "%s names no model", variable);
        runner_skip(text);
        return false;
    }
    self->file = gguf_open(path, &error);
    ck_assert_msg(self->file != NULL, "%s", error.text);
    self->words = tokenizer_open(self->file, &error);
    ck_assert_msg(self->words != NULL, "%s", error.text);
    return true;
}

static void close_model(real_model *self)
{
    tokenizer_close(self->words);
    gguf_close(self->file);
}

static FILE *open_golden(const char *name)
{
    const char *folder = getenv("TENON_GOLDEN_DIR");
    char path[4096];
    FILE *file;
    if (folder == NULL) folder = TENON_GOLDEN_DIR;
    snprintf(path, sizeof path, "%s/tokenizer/%s", folder, name);
    file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s cannot be opened", path);
    return file;
}

/* Resolves \xNN in place; returns the length. */
static size_t unescape(char *text)
{
    size_t from = 0, to = 0;
    while (text[from] != '\0') {
        unsigned byte;
        if (text[from] == '\\') {
            ck_assert_int_eq(sscanf(text + from, "\\x%2x", &byte), 1);
            text[to++] = (char)byte;
            from += 4;
        } else {
            text[to++] = text[from++];
        }
    }
    return to;
}

/* Do the pieces of these ids give the text again? */
static void check_back(const tokenizer *words, const token_list *tokens, const char *text,
                       size_t length)
{
    size_t at = 0, i, n;
    for (i = 0; i < tokens->count; i++) {
        const char *piece = tokenizer_piece(words, tokens->ids[i], &n);
        ck_assert_ptr_nonnull(piece);
        ck_assert_uint_le(at + n, length);
        ck_assert_int_eq(memcmp(text + at, piece, n), 0);
        at += n;
    }
    ck_assert_uint_eq(at, length);
}

/* prefix: the vocabulary puts a space before texts, so they do not come back as they were. */
static void check_golden(const char *variable, const char *name, bool prefix)
{
    real_model model;
    FILE *file;
    char *line = NULL;
    size_t capacity = 0, count = 0;
    if (!open_model(variable, &model)) return;
    file = open_golden(name);
    while (getline(&line, &capacity, file) >= 0) {
        char *tab = strchr(line, '\t'), *wanted, *end;
        token_list tokens = {0};
        gguf_error error = {{0}};
        uint64_t lost = 0;
        size_t length, i = 0;
        if (count == 0 && tab == NULL) continue; /* the head */
        ck_assert_ptr_nonnull(tab);
        *tab = '\0';
        wanted = tab + 1;
        length = unescape(line);
        ck_assert_msg(tokenizer_encode(model.words, line, length, 0, &tokens, &lost, &error), "%s",
                      error.text);
        for (end = wanted; *wanted != '\n' && *wanted != '\0'; wanted = end) {
            unsigned long id = strtoul(wanted, &end, 10);
            ck_assert_ptr_ne(wanted, end);
            ck_assert_msg(i < tokens.count && tokens.ids[i] == id,
                          "text %zu '%s': id %zu is %lu here, %lu wanted", count, line, i,
                          i < tokens.count ? (unsigned long)tokens.ids[i] : 0, id);
            i++;
        }
        ck_assert_msg(i == tokens.count, "text %zu '%s': %zu ids here, %zu wanted", count, line,
                      tokens.count, i);
        if (!prefix && lost == 0 && memmem(line, length, BLANK, 3) == NULL)
            check_back(model.words, &tokens, line, length);
        token_list_free(&tokens);
        count++;
    }
    ck_assert_uint_gt(count, 500);
    printf("%s: %zu texts agree\n", name, count);
    free(line);
    fclose(file);
    close_model(&model);
}

START_TEST(smollm2_agrees)
{
    check_golden("TENON_MODEL_SMOLLM2", "smollm2.txt", false);
}
END_TEST

START_TEST(gemma3_agrees)
{
    check_golden("TENON_MODEL_GEMMA3", "gemma3.txt", false);
}
END_TEST

START_TEST(gpt2_agrees)
{
    check_golden("TENON_VOCAB_GPT2", "gpt-2.txt", false);
}
END_TEST

START_TEST(llama3_agrees)
{
    check_golden("TENON_VOCAB_LLAMA3", "llama-bpe.txt", false);
}
END_TEST

START_TEST(qwen2_agrees)
{
    check_golden("TENON_VOCAB_QWEN2", "qwen2.txt", false);
}
END_TEST

START_TEST(llama2_agrees)
{
    check_golden("TENON_VOCAB_LLAMA2", "llama-spm.txt", true);
}
END_TEST

/* --- prompts -------------------------------------------------------------------------------- */

#define MESSAGES_MOST 8u

static void check_chat(const char *variable, const char *name)
{
    real_model model;
    FILE *file;
    chat *talk;
    gguf_error error = {{0}};
    char *line = NULL;
    size_t capacity = 0, lines = 0;
    if (!open_model(variable, &model)) return;
    talk = chat_open(model.file, model.words, &error);
    ck_assert_msg(talk != NULL, "%s", error.text);
    file = open_golden(name);
    while (getline(&line, &capacity, file) >= 0) {
        chat_message messages[MESSAGES_MOST];
        chat_prompt prompt;
        token_list parts = {0}, whole = {0};
        char *fields[2 * MESSAGES_MOST + 2], *rest = line, *field;
        size_t count = 0, i, length;
        while ((field = strsep(&rest, "\t\n")) != NULL && rest != NULL) {
            ck_assert_uint_lt(count, 2 * MESSAGES_MOST + 2);
            fields[count++] = field;
        }
        ck_assert_uint_ge(count, 4);
        for (i = 0; 2 * i + 2 < count; i++) {
            messages[i].role = fields[2 * i + 1];
            messages[i].content = fields[2 * i + 2];
            messages[i].length = unescape(fields[2 * i + 2]);
        }
        i = (count - 2) / 2;
        ck_assert_msg(chat_build(talk, messages, i, fields[0][0] == '1', &prompt, &error), "%s",
                      error.text);
        length = unescape(fields[count - 1]);
        ck_assert_msg(prompt.length == length &&
                          memcmp(prompt.text, fields[count - 1], length) == 0,
                      "line %zu: have '%.*s', want '%s'", lines + 1, (int)prompt.length,
                      prompt.text, fields[count - 1]);
        /* no message has control tokens in it, so the parts are as good as the whole */
        ck_assert(tokenizer_encode_parts(model.words, prompt.parts, prompt.count, prompt.flags,
                                         &parts, NULL, &error));
        ck_assert(tokenizer_encode(model.words, prompt.text, prompt.length, prompt.flags, &whole,
                                   NULL, &error));
        ck_assert_uint_eq(parts.count, whole.count);
        for (i = 0; i < parts.count; i++) ck_assert_uint_eq(parts.ids[i], whole.ids[i]);
        token_list_free(&parts);
        token_list_free(&whole);
        chat_prompt_free(&prompt);
        lines++;
    }
    ck_assert_uint_gt(lines, 10);
    free(line);
    fclose(file);
    chat_close(talk);
    close_model(&model);
}

START_TEST(smollm2_prompts_agree)
{
    check_chat("TENON_MODEL_SMOLLM2", "chat-smollm2.txt");
}
END_TEST

START_TEST(qwen2_prompts_agree)
{
    check_chat("TENON_VOCAB_QWEN2", "chat-qwen2.txt");
}
END_TEST

START_TEST(single_tokens_of_the_models_are_known)
{
    real_model model;
    gguf_error error = {{0}};
    if (!open_model("TENON_MODEL_GEMMA3", &model)) return;
    ck_assert_uint_eq(tokenizer_count(model.words), 262144);
    ck_assert_uint_eq(tokenizer_begin(model.words), 2);
    ck_assert_uint_eq(tokenizer_end(model.words), 1);
    ck_assert(tokenizer_is_end(model.words, 1));
    ck_assert(tokenizer_is_end(model.words, 106)); /* <end_of_turn> */
    ck_assert(tokenizer_is_control(model.words, 106));
    ck_assert(!tokenizer_is_control(model.words, 107)); /* a line */
    ck_assert(tokenizer_adds_begin(model.words));
    /* this file has no template */
    ck_assert_ptr_null(chat_open(model.file, model.words, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "tokenizer.chat_template"));
    close_model(&model);
    if (!open_model("TENON_MODEL_SMOLLM2", &model)) return;
    ck_assert_uint_eq(tokenizer_count(model.words), 49152);
    ck_assert(!tokenizer_adds_begin(model.words));
    ck_assert(tokenizer_is_end(model.words, 0)); /* <|endoftext|> */
    ck_assert(tokenizer_is_end(model.words, 2)); /* <|im_end|> */
    ck_assert(!tokenizer_is_end(model.words, 1));
    close_model(&model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer models");
    TCase *tcase = tcase_create("tokenizer models");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, smollm2_agrees);
    tcase_add_test(tcase, gemma3_agrees);
    tcase_add_test(tcase, gpt2_agrees);
    tcase_add_test(tcase, llama3_agrees);
    tcase_add_test(tcase, qwen2_agrees);
    tcase_add_test(tcase, llama2_agrees);
    tcase_add_test(tcase, smollm2_prompts_agree);
    tcase_add_test(tcase, qwen2_prompts_agree);
    tcase_add_test(tcase, single_tokens_of_the_models_are_known);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
