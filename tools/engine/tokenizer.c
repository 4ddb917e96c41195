/* Opening a tokenizer, and one call of encoding: special tokens are found here, the text between
 * them goes to the kind. */
#include "tokenizer_internal.h"
#include "../text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tokenizer_fail(gguf_error *error, const char *format, ...)
{
    va_list arguments;
    if (error == NULL) return false;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

bool tokenizer_no_memory(gguf_error *error)
{
    return tokenizer_fail(error, "out of memory");
}

const char *tokenizer_shown(char buffer[TOKENIZER_SHOWN], const char *text, uint64_t length)
{
    return text_escape(buffer, TOKENIZER_SHOWN, text, (size_t)length);
}

/* A token id of the file; none when the key is missing or says -1. */
static bool read_id(const tokenizer *self, const gguf *file, const char *name, uint32_t *out,
                    gguf_error *error)
{
    uint64_t id;
    *out = TOKEN_NONE;
    if (gguf_find_key(file, name) == NULL) return true;
    if (!gguf_get_u64(file, name, &id, error)) return false;
    if (id == UINT32_MAX) return true; /* how files write "none" */
    if (id >= self->words.count)
        return tokenizer_fail(error, "%s is %llu, there are %lu tokens", name,
                              (unsigned long long)id, (unsigned long)self->words.count);
    *out = (uint32_t)id;
    return true;
}

static bool read_ids(tokenizer *self, const gguf *file, gguf_error *error)
{
    /* names that end a turn in the families known, and that files do not always list */
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>",
                                       "<|eot_id|>",    "<|eom_id|>",      "<end_of_turn>"};
    uint32_t message, padding, id;
    size_t i;
    if (!read_id(self, file, "tokenizer.ggml.bos_token_id", &self->begin, error) ||
        !read_id(self, file, "tokenizer.ggml.eos_token_id", &self->end, error) ||
        !read_id(self, file, "tokenizer.ggml.eot_token_id", &self->end_of_turn, error) ||
        !read_id(self, file, "tokenizer.ggml.eom_token_id", &message, error) ||
        !read_id(self, file, "tokenizer.ggml.padding_token_id", &padding, error) ||
        !read_id(self, file, "tokenizer.ggml.unknown_token_id", &self->unknown, error))
        return false;
    self->ends = calloc(self->words.count, 1);
    if (self->ends == NULL) return tokenizer_no_memory(error);
    if (self->end != TOKEN_NONE) self->ends[self->end] = 1;
    if (self->end_of_turn != TOKEN_NONE) self->ends[self->end_of_turn] = 1;
    if (message != TOKEN_NONE) self->ends[message] = 1;
    for (i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        id = vocabulary_find(&self->words, ends[i], strlen(ends[i]));
        if (id != TOKEN_NONE && self->words.types[id] == TOKEN_CONTROL) self->ends[id] = 1;
    }
    for (id = 0; id < self->words.count && self->unknown == TOKEN_NONE; id++)
        if (self->words.types[id] == TOKEN_UNKNOWN) self->unknown = id;
    return gguf_find_key(file, "tokenizer.ggml.add_bos_token") == NULL ||
           gguf_get_bool(file, "tokenizer.ggml.add_bos_token", &self->adds_begin, error);
}

static bool open_kind(tokenizer *self, const gguf *file, gguf_error *error)
{
    const char *model;
    uint64_t length;
    char shown[TOKENIZER_SHOWN];
    if (!gguf_get_string(file, "tokenizer.ggml.model", &model, &length, error)) return false;
    if (length == 4 && memcmp(model, "gpt2", 4) == 0)
        self->kind = TOKENIZER_GPT2;
    else if (length == 5 && memcmp(model, "llama", 5) == 0)
        self->kind = TOKENIZER_LLAMA;
    else
        return tokenizer_fail(error,
                              "tokenizer.ggml.model is '%s', which is not known; known are gpt2, "
                              "llama",
                              tokenizer_shown(shown, model, length));
    if (!vocabulary_read(&self->words, file, self->kind == TOKENIZER_LLAMA, error)) return false;
    return self->kind == TOKENIZER_GPT2 ? gpt2_open(self, file, error)
                                        : llama_open(self, file, error);
}

tokenizer *tokenizer_open(const gguf *file, gguf_error *error)
{
    tokenizer *self = calloc(1, sizeof *self);
    if (self == NULL) {
        tokenizer_no_memory(error);
        return NULL;
    }
    memset(self->bytes, 0xFF, sizeof self->bytes); /* TOKEN_NONE everywhere */
    if (!open_kind(self, file, error) || !read_ids(self, file, error) ||
        !special_tokens_open(self, error)) {
        tokenizer_close(self);
        return NULL;
    }
    return self;
}

void tokenizer_close(tokenizer *self)
{
    if (self == NULL) return;
    gpt2_close(self);
    vocabulary_free(&self->words);
    free(self->specials.ids);
    free(self->ends);
    free(self);
}

uint32_t tokenizer_count(const tokenizer *self)
{
    return self->words.count;
}

const char *tokenizer_piece(const tokenizer *self, uint32_t id, size_t *length)
{
    *length = 0;
    if (id >= self->words.count) return NULL;
    *length = self->words.piece_at[id + 1] - self->words.piece_at[id];
    return self->words.pieces + self->words.piece_at[id];
}

uint32_t tokenizer_find(const tokenizer *self, const char *name, size_t length)
{
    return vocabulary_find(&self->words, name, length);
}

uint32_t tokenizer_begin(const tokenizer *self)
{
    return self->begin;
}

uint32_t tokenizer_end(const tokenizer *self)
{
    return self->end;
}

uint32_t tokenizer_end_of_turn(const tokenizer *self)
{
    return self->end_of_turn;
}

uint32_t tokenizer_unknown(const tokenizer *self)
{
    return self->unknown;
}

bool tokenizer_is_end(const tokenizer *self, uint32_t id)
{
    return id < self->words.count && self->ends[id] != 0;
}

bool tokenizer_is_control(const tokenizer *self, uint32_t id)
{
    return id < self->words.count &&
           (self->words.types[id] == TOKEN_CONTROL || self->words.types[id] == TOKEN_UNKNOWN);
}

bool tokenizer_adds_begin(const tokenizer *self)
{
    return self->adds_begin;
}

bool encoding_reserve(encoding *work, size_t size)
{
    char *text;
    if (size <= work->text_capacity) return true;
    text = malloc(size); /* its content need not survive */
    if (text == NULL) return tokenizer_no_memory(work->error);
    free(work->text);
    work->text = text;
    work->text_capacity = size;
    return true;
}

bool encoding_put(encoding *work, uint32_t id)
{
    return token_list_add(work->out, id) || tokenizer_no_memory(work->error);
}

/* Where in the parts the walk is. */
typedef struct part_cursor {
    const token_part *parts;
    size_t count, index;
    size_t start; /* offset of parts[index] in the whole text */
} part_cursor;

/* The bytes from an offset to the next literal part; offsets never go back. */
static size_t plain_bytes(part_cursor *self, size_t offset)
{
    size_t end, i;
    while (offset - self->start >= self->parts[self->index].length) {
        self->start += self->parts[self->index].length;
        self->index++;
    }
    end = self->start;
    for (i = self->index; i < self->count; i++) {
        if (self->parts[i].literal && self->parts[i].length != 0) break;
        end += self->parts[i].length;
    }
    return end > offset ? end - offset : 0;
}

static bool encode_text(encoding *work, const char *text, size_t length, bool after_special)
{
    if (length == 0) return true;
    return work->self->kind == TOKENIZER_GPT2 ? gpt2_encode(work, text, length)
                                              : llama_encode(work, text, length, after_special);
}

static bool encode_whole(encoding *work, const char *text, size_t length, part_cursor *cursor)
{
    const special_tokens *specials = &work->self->specials;
    size_t begin = 0, at = 0;
    bool after_special = true;
    while (at < length) {
        unsigned byte = (unsigned char)text[at];
        size_t matched = 0;
        uint32_t id;
        if (specials->first[byte] == specials->first[byte + 1]) {
            at++;
            continue;
        }
        id = special_tokens_match(work->self, text + at, length - at, plain_bytes(cursor, at),
                                  &matched);
        if (id == TOKEN_NONE) {
            at++;
            continue;
        }
        if (!encode_text(work, text + begin, at - begin, after_special) || !encoding_put(work, id))
            return false;
        at += matched;
        begin = at;
        after_special = true;
    }
    return encode_text(work, text + begin, length - begin, after_special);
}

bool tokenizer_encode_parts(const tokenizer *self, const token_part *parts, size_t count,
                            uint32_t flags, token_list *out, uint64_t *lost, gguf_error *error)
{
    encoding work = {.self = self, .out = out, .error = error};
    part_cursor cursor = {.parts = parts, .count = count};
    const size_t before = out->count;
    const char *text = "";
    char *joined = NULL;
    uint64_t length = 0;
    size_t i;
    bool good = false;
    if (lost != NULL) *lost = 0;
    for (i = 0; i < count; i++) {
        if (parts[i].length > TOKENIZER_TEXT_LONGEST - length) {
            tokenizer_fail(error, "the text is longer than 1 GiB");
            goto out;
        }
        length += parts[i].length;
    }
    if (count == 1) {
        text = parts[0].text;
    } else if (length > 0) {
        size_t at = 0;
        joined = malloc((size_t)length);
        if (joined == NULL) {
            tokenizer_no_memory(error);
            goto out;
        }
        for (i = 0; i < count; i++) {
            if (parts[i].length != 0) memcpy(joined + at, parts[i].text, parts[i].length);
            at += parts[i].length;
        }
        text = joined;
    }
    if ((flags & TOKENIZER_BEGIN) != 0 && self->begin != TOKEN_NONE &&
        !encoding_put(&work, self->begin))
        goto out;
    good = encode_whole(&work, text, (size_t)length, &cursor);
    if (good && lost != NULL) *lost = work.lost;
out:
    if (!good) out->count = before;
    split_work_free(work.split);
    merge_free(&work.merge);
    free(work.text);
    free(joined);
    return good;
}

bool tokenizer_encode(const tokenizer *self, const char *text, size_t length, uint32_t flags,
                      token_list *out, uint64_t *lost, gguf_error *error)
{
    const token_part part = {.text = text, .length = length, .literal = false};
    return tokenizer_encode_parts(self, &part, 1, flags, out, lost, error);
}
