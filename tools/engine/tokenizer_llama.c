/* The "llama" kind: sentencepiece's byte-pair encoding. The characters of the text are joined, as
 * long as two neighbours give a token, the token of the highest score first; what is no token in
 * the end is spelled in byte tokens. */
#include "tokenizer_internal.h"
#include "../text.h"

#include <stdlib.h>
#include <string.h>

#define BLANK "\xE2\x96\x81" /* U+2581 stands for a space */
#define BLANK_LENGTH 3u

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* The byte of "<0x1F>", -1: it is no such text. */
static int byte_of(const char *text, size_t length)
{
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    if (hex(text[3]) < 0 || hex(text[4]) < 0) return -1;
    return hex(text[3]) << 4 | hex(text[4]);
}

/* Byte tokens, by their type; in a file without types, by their text. */
static bool find_bytes(tokenizer *self, bool typed, gguf_error *error)
{
    vocabulary *words = &self->words;
    uint32_t id;
    for (id = 0; id < words->count; id++) {
        size_t length;
        const char *text = vocabulary_text(words, id, &length);
        int byte = -1;
        if (typed && words->types[id] != TOKEN_BYTE) continue;
        byte = byte_of(text, length);
        if (byte < 0 && !typed) continue;
        if (byte < 0 || self->bytes[byte] != TOKEN_NONE) {
            char shown[TOKENIZER_SHOWN];
            return tokenizer_fail(error, "tokenizer.ggml.tokens: byte token %lu, '%s', %s",
                                  (unsigned long)id, tokenizer_shown(shown, text, length),
                                  byte < 0 ? "names no byte" : "names a byte that has a token");
        }
        self->bytes[byte] = id;
        words->types[id] = TOKEN_BYTE;
    }
    return true;
}

static bool make_pieces(vocabulary *self, gguf_error *error)
{
    uint32_t id;
    size_t at = 0;
    self->pieces = malloc((size_t)self->text_at[self->count] + 1);
    self->piece_at = malloc(((size_t)self->count + 1) * sizeof *self->piece_at);
    if (self->pieces == NULL || self->piece_at == NULL) return tokenizer_no_memory(error);
    for (id = 0; id < self->count; id++) {
        size_t length, i = 0;
        const char *text = vocabulary_text(self, id, &length);
        uint8_t type = self->types[id];
        bool plain = type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED || type == TOKEN_UNKNOWN;
        self->piece_at[id] = (uint32_t)at;
        if (type == TOKEN_BYTE) {
            self->pieces[at++] = (char)byte_of(text, length);
            continue;
        }
        while (i < length) {
            if (!plain && length - i >= BLANK_LENGTH &&
                memcmp(text + i, BLANK, BLANK_LENGTH) == 0) {
                self->pieces[at++] = ' ';
                i += BLANK_LENGTH;
            } else {
                self->pieces[at++] = text[i++];
            }
        }
    }
    self->piece_at[id] = (uint32_t)at;
    return true;
}

bool llama_open(tokenizer *self, const gguf *file, gguf_error *error)
{
    bool typed = gguf_find_key(file, "tokenizer.ggml.token_type") != NULL;
    self->adds_begin = true;
    self->space_prefix = true;
    if (gguf_find_key(file, "tokenizer.ggml.add_space_prefix") != NULL &&
        !gguf_get_bool(file, "tokenizer.ggml.add_space_prefix", &self->space_prefix, error))
        return false;
    return find_bytes(self, typed, error) && make_pieces(&self->words, error);
}

/* The token that these bytes of running text give; control and byte tokens are none of it. */
static uint32_t find_word(const vocabulary *words, const char *text, size_t length)
{
    uint32_t id = vocabulary_find(words, text, length);
    if (id == TOKEN_NONE) return id;
    switch (words->types[id]) {
    case TOKEN_CONTROL:
    case TOKEN_UNKNOWN:
    case TOKEN_BYTE: return TOKEN_NONE;
    default: return id;
    }
}

static bool find_joined(const void *context, const merge_symbol *left, const merge_symbol *right,
                        uint32_t *order, uint32_t *id)
{
    const encoding *work = context;
    const vocabulary *words = &work->self->words;
    *id = find_word(words, work->text + left->at, (size_t)left->length + right->length);
    if (*id == TOKEN_NONE) return false;
    *order = words->orders[*id];
    return true;
}

static bool put_bytes(encoding *work, const char *text, size_t length)
{
    const tokenizer *self = work->self;
    size_t i;
    for (i = 0; i < length; i++) {
        uint32_t id = self->bytes[(unsigned char)text[i]];
        if (id == TOKEN_NONE) {
            work->lost++;
            id = self->unknown;
        }
        if (id != TOKEN_NONE && !encoding_put(work, id)) return false;
    }
    return true;
}

bool llama_encode(encoding *work, const char *text, size_t length, bool after_special)
{
    const tokenizer *self = work->self;
    bool prefix = self->space_prefix && after_special;
    size_t blanks = prefix ? 1 : 0, at = 0, i, n;
    merge_symbol *symbols;
    uint32_t count = 0, index;
    if (length == 0) return true;
    for (i = 0; i < length; i++) blanks += text[i] == ' ';
    if (!encoding_reserve(work, length + blanks * BLANK_LENGTH)) return false;
    for (i = 0; i < length || prefix; i += prefix ? 0 : 1, prefix = false) {
        if (prefix || text[i] == ' ') {
            memcpy(work->text + at, BLANK, BLANK_LENGTH);
            at += BLANK_LENGTH;
        } else {
            work->text[at++] = text[i];
        }
    }
    length = at;
    for (i = 0; i < length; i += n, count++) {
        n = text_utf8(work->text + i, length - i);
        if (n == 0) n = 1;
    }
    if (!merge_reserve(&work->merge, count)) return tokenizer_no_memory(work->error);
    for (i = 0, index = 0; index < count; i += n, index++) {
        n = text_utf8(work->text + i, length - i);
        if (n == 0) n = 1;
        merge_set(&work->merge, index, find_word(&self->words, work->text + i, n), (uint32_t)i,
                  (uint32_t)n);
    }
    merge_run(&work->merge, count, find_joined, work);
    symbols = work->merge.symbols;
    for (index = 0; index != MERGE_END; index = symbols[index].next) {
        const merge_symbol *symbol = &symbols[index];
        if (symbol->id == TOKEN_NONE ? !put_bytes(work, work->text + symbol->at, symbol->length)
                                     : !encoding_put(work, symbol->id))
            return false;
    }
    return true;
}
