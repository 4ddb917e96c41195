/* Small model files with a vocabulary and nothing else, for the tests of the tokenizer. */
#ifndef TENON_TESTS_TOKENIZER_RIG_H
#define TENON_TESTS_TOKENIZER_RIG_H

#include "gguf_bytes.h"
#include "runner.h"

#include <stdbool.h>
#include <stdio.h>
#include <tools/engine/tokenizer.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6 };
enum { KEY_BOOL = 7, KEY_I32 = 5, KEY_F32 = 6, KEY_TEXT = 8, KEY_ARRAY = 9 };

#define RIG_WORDS 2048u
#define RIG_MERGES 512u
#define RIG_TEXT 64u

/* A vocabulary that is put together. Zero-initialised it is empty. */
typedef struct rig {
    const char *model, *pre, *chat_template; /* NULL: not in the file */
    struct rig_word {
        char text[RIG_TEXT];
        int32_t type;
        float score;
    } words[RIG_WORDS];
    uint32_t count;
    char merges[RIG_MERGES][2 * RIG_TEXT];
    uint32_t merge_count;
    bool no_types, no_scores, no_merges;
    byte_list extra; /* records of further keys */
    uint64_t extra_keys;
} rig;

static inline uint32_t rig_add(rig *self, const char *text, int32_t type, float score)
{
    struct rig_word *word = &self->words[self->count];
    ck_assert_uint_lt(self->count, RIG_WORDS);
    ck_assert_uint_lt(strlen(text), RIG_TEXT);
    strcpy(word->text, text);
    word->type = type;
    word->score = score;
    return self->count++;
}

static inline void rig_merge(rig *self, const char *left, const char *right)
{
    ck_assert_uint_lt(self->merge_count, RIG_MERGES);
    snprintf(self->merges[self->merge_count++], 2 * RIG_TEXT, "%s %s", left, right);
}

static inline void rig_id(rig *self, const char *name, uint32_t id)
{
    gguf_key_u32(&self->extra, name, id);
    self->extra_keys++;
}

static inline void rig_flag(rig *self, const char *name, bool value)
{
    bytes_string(&self->extra, name);
    bytes_u32(&self->extra, KEY_BOOL);
    bytes_number(&self->extra, value, 1);
    self->extra_keys++;
}

/* The 256 tokens of single bytes: of gpt2 in its alphabet, of llama as "<0x00>". */
static inline void rig_add_letters(rig *self)
{
    unsigned byte, other = 256;
    for (byte = 0; byte < 256; byte++) {
        bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        unsigned letter = itself ? byte : other++;
        char text[3] = {0};
        if (letter < 0x80) {
            text[0] = (char)letter;
        } else {
            text[0] = (char)(0xC0 | letter >> 6);
            text[1] = (char)(0x80 | (letter & 0x3F));
        }
        rig_add(self, text, NORMAL, 0);
    }
}

static inline void rig_add_bytes(rig *self)
{
    unsigned byte;
    for (byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        rig_add(self, text, BYTE, 0);
    }
}

static inline void rig_array(byte_list *out, const char *name, uint32_t type, uint64_t count)
{
    bytes_string(out, name);
    bytes_u32(out, KEY_ARRAY);
    bytes_u32(out, type);
    bytes_u64(out, count);
}

/* The file. Freed with bytes_free. */
static inline byte_list rig_file(const rig *self)
{
    byte_list out = {0}, keys = {0};
    uint64_t count = 1 + self->extra_keys;
    uint32_t i;
    rig_array(&keys, "tokenizer.ggml.tokens", KEY_TEXT, self->count);
    for (i = 0; i < self->count; i++) bytes_string(&keys, self->words[i].text);
    if (self->model != NULL) {
        gguf_key_text(&keys, "tokenizer.ggml.model", self->model);
        count++;
    }
    if (self->pre != NULL) {
        gguf_key_text(&keys, "tokenizer.ggml.pre", self->pre);
        count++;
    }
    if (self->chat_template != NULL) {
        gguf_key_text(&keys, "tokenizer.chat_template", self->chat_template);
        count++;
    }
    if (!self->no_types) {
        rig_array(&keys, "tokenizer.ggml.token_type", KEY_I32, self->count);
        for (i = 0; i < self->count; i++) bytes_u32(&keys, (uint32_t)self->words[i].type);
        count++;
    }
    if (!self->no_scores) {
        rig_array(&keys, "tokenizer.ggml.scores", KEY_F32, self->count);
        for (i = 0; i < self->count; i++) bytes_add(&keys, &self->words[i].score, 4);
        count++;
    }
    if (!self->no_merges) {
        rig_array(&keys, "tokenizer.ggml.merges", KEY_TEXT, self->merge_count);
        for (i = 0; i < self->merge_count; i++) bytes_string(&keys, self->merges[i]);
        count++;
    }
    bytes_add(&keys, self->extra.data, self->extra.size);
    gguf_head(&out, 0, count);
    bytes_add(&out, keys.data, keys.size);
    bytes_free(&keys);
    return out;
}

/* Opens a tokenizer over bytes, in an exact allocation so that a sanitizer sees one too many. */
static inline tokenizer *rig_open_bytes(const byte_list *file, gguf_error *error)
{
    uint8_t *exact = malloc(file->size > 0 ? file->size : 1);
    gguf *opened;
    tokenizer *self = NULL;
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, file->data, file->size);
    memset(error, 0, sizeof *error);
    opened = gguf_open_memory(exact, file->size, error);
    if (opened != NULL) self = tokenizer_open(opened, error);
    gguf_close(opened);
    free(exact); /* a tokenizer keeps nothing of the file */
    ck_assert_msg(self != NULL || error->text[0] != '\0', "a refusal without a word");
    return self;
}

/* Opens what the rig describes; the rig is empty afterwards. */
static inline tokenizer *rig_open(rig *self)
{
    gguf_error error;
    byte_list file = rig_file(self);
    tokenizer *opened = rig_open_bytes(&file, &error);
    ck_assert_msg(opened != NULL, "refused: %s", error.text);
    bytes_free(&file);
    bytes_free(&self->extra);
    memset(self, 0, sizeof *self);
    return opened;
}

/* It is refused, and the reason holds both words. The rig is empty afterwards. */
static inline void rig_refused(rig *self, const char *a, const char *b)
{
    gguf_error error;
    byte_list file = rig_file(self);
    tokenizer *opened = rig_open_bytes(&file, &error);
    ck_assert_msg(opened == NULL, "accepted, expected a refusal with '%s'", a);
    ck_assert_msg(strstr(error.text, a) != NULL, "'%s' lacks '%s'", error.text, a);
    ck_assert_msg(strstr(error.text, b) != NULL, "'%s' lacks '%s'", error.text, b);
    ck_assert_ptr_null(strchr(error.text, '\n'));
    bytes_free(&file);
    bytes_free(&self->extra);
    memset(self, 0, sizeof *self);
}

/* The ids of a text as words: "12 3 4". Lives until the next call. */
static inline const char *rig_ids_n(const tokenizer *self, const char *text, size_t length,
                                    uint32_t flags)
{
    static char *shown;
    token_list tokens = {0};
    gguf_error error = {{0}};
    size_t i, at = 0;
    ck_assert_msg(tokenizer_encode(self, text, length, flags, &tokens, NULL, &error), "%s",
                  error.text);
    free(shown);
    shown = malloc(tokens.count * 11 + 1);
    ck_assert_ptr_nonnull(shown);
    shown[0] = '\0';
    for (i = 0; i < tokens.count; i++)
        at += (size_t)snprintf(shown + at, 12, "%s%u", i == 0 ? "" : " ", tokens.ids[i]);
    token_list_free(&tokens);
    return shown;
}

static inline const char *rig_ids(const tokenizer *self, const char *text)
{
    return rig_ids_n(self, text, strlen(text), 0);
}

/* The same as pieces, "Hel|lo". */
static inline const char *rig_pieces(const tokenizer *self, const char *text)
{
    static char shown[4096];
    token_list tokens = {0};
    size_t i, at = 0;
    ck_assert(tokenizer_encode(self, text, strlen(text), 0, &tokens, NULL, NULL));
    for (i = 0; i < tokens.count; i++) {
        size_t n;
        const char *piece = tokenizer_piece(self, tokens.ids[i], &n);
        ck_assert_uint_lt(at + n + 2, sizeof shown);
        if (i > 0) shown[at++] = '|';
        memcpy(shown + at, piece, n);
        at += n;
    }
    shown[at] = '\0';
    token_list_free(&tokens);
    return shown;
}

static inline uint64_t rig_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

#endif
