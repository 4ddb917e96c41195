/* The "gpt2" kind: words, cut by patterns, are joined from their bytes by ranked merges.
 *
 * In the file every byte is written as one printable character: those that are printable in
 * Latin-1 as themselves, the others as U+0100 and on, in order. */
#include "tokenizer_internal.h"
#include "../text.h"

#include <stdlib.h>
#include <string.h>

#define LETTERS 324u /* the characters bytes are written as are below this one */

static unsigned letter_of(unsigned byte)
{
    if (byte <= 32) return 256 + byte;
    if (byte >= 127 && byte <= 160) return 256 + 33 + (byte - 127);
    if (byte == 173) return 256 + 67;
    return byte;
}

/* Writes the character of a byte; returns its length, 1 or 2. */
static size_t put_letter(char *at, unsigned byte)
{
    unsigned letter = letter_of(byte);
    if (letter < 0x80) {
        at[0] = (char)letter;
        return 1;
    }
    at[0] = (char)(0xC0 | letter >> 6);
    at[1] = (char)(0x80 | (letter & 0x3F));
    return 2;
}

/* What the tokens stand for: control and user-defined ones are written plainly, the others in the
 * alphabet of bytes. Characters that are no byte of it stay as they are. */
static bool make_pieces(vocabulary *self, gguf_error *error)
{
    int bytes[LETTERS];
    unsigned byte;
    uint32_t id;
    size_t at = 0;
    self->pieces = malloc((size_t)self->text_at[self->count] + 1);
    self->piece_at = malloc(((size_t)self->count + 1) * sizeof *self->piece_at);
    if (self->pieces == NULL || self->piece_at == NULL) return tokenizer_no_memory(error);
    for (byte = 0; byte < LETTERS; byte++) bytes[byte] = -1;
    for (byte = 0; byte < 256; byte++) bytes[letter_of(byte)] = (int)byte;
    for (id = 0; id < self->count; id++) {
        size_t length, i = 0;
        const char *text = vocabulary_text(self, id, &length);
        uint8_t type = self->types[id];
        bool plain = type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED || type == TOKEN_UNKNOWN;
        self->piece_at[id] = (uint32_t)at;
        while (i < length) {
            size_t n = text_utf8(text + i, length - i);
            unsigned letter = LETTERS;
            if (n == 1) letter = (unsigned char)text[i];
            if (n == 2) letter = ((unsigned char)text[i] & 0x1Fu) << 6 | (text[i + 1] & 0x3F);
            if (!plain && letter < LETTERS && bytes[letter] >= 0) {
                self->pieces[at++] = (char)bytes[letter];
                i += n;
            } else {
                self->pieces[at++] = text[i++];
            }
        }
    }
    self->piece_at[id] = (uint32_t)at;
    return true;
}

static const struct pair_slot *find_slot(const pair_table *self, uint64_t key)
{
    uint64_t at = tokenizer_mix(key ^ self->seed) & self->slot_mask;
    while (self->slots[at].key != key && self->slots[at].key != UINT64_MAX)
        at = (at + 1) & self->slot_mask;
    return &self->slots[at];
}

static bool find_pair(const void *context, const merge_symbol *left, const merge_symbol *right,
                      uint32_t *order, uint32_t *id)
{
    const pair_table *self = context;
    const struct pair_slot *slot;
    if (left->id == TOKEN_NONE || right->id == TOKEN_NONE) return false;
    slot = find_slot(self, (uint64_t)left->id << 32 | right->id);
    if (slot->key == UINT64_MAX) return false;
    *order = slot->order;
    *id = slot->id;
    return true;
}

static bool fail_merge(gguf_error *error, uint32_t rank, const char *text, uint64_t length,
                       const char *why)
{
    char shown[TOKENIZER_SHOWN];
    return tokenizer_fail(error, "tokenizer.ggml.merges: merge %lu, '%s', %s", (unsigned long)rank,
                          tokenizer_shown(shown, text, length), why);
}

/* Adds merge number rank, "left right". joined has room for two of the longest tokens. */
static bool add_merge(tokenizer *self, uint32_t rank, const char *text, uint64_t length,
                      char *joined, gguf_error *error)
{
    const char *blank = length > 1 ? memchr(text + 1, ' ', (size_t)length - 1) : NULL;
    size_t left, right;
    uint32_t a, b, id;
    struct pair_slot *slot;
    if (blank == NULL || blank + 1 == text + length)
        return fail_merge(error, rank, text, length, "is no pair");
    left = (size_t)(blank - text);
    right = (size_t)length - left - 1;
    a = vocabulary_find(&self->words, text, left);
    b = vocabulary_find(&self->words, blank + 1, right);
    if (a == TOKEN_NONE || b == TOKEN_NONE)
        return fail_merge(error, rank, text, length, "names a token that does not exist");
    memcpy(joined, text, left);
    memcpy(joined + left, blank + 1, right);
    id = vocabulary_find(&self->words, joined, left + right);
    if (id == TOKEN_NONE)
        return fail_merge(error, rank, text, length, "gives a token that does not exist");
    slot = &self->pairs.slots[find_slot(&self->pairs, (uint64_t)a << 32 | b) - self->pairs.slots];
    if (slot->key != UINT64_MAX) return true; /* a pair again: its first rank holds */
    *slot = (struct pair_slot){(uint64_t)a << 32 | b, rank, id};
    return true;
}

static bool read_merges(tokenizer *self, const gguf *file, gguf_error *error)
{
    const gguf_key *key;
    uint64_t slots = 16, i, cursor = 0, length;
    const char *text;
    char *joined = NULL;
    uint32_t rank = 0;
    bool good = false;
    if (!gguf_get_array(file, "tokenizer.ggml.merges", GGUF_STRING, UINT64_MAX, &key, error))
        return false;
    if (key->count > TOKENIZER_COUNT_LARGEST)
        return tokenizer_fail(error, "tokenizer.ggml.merges has %llu merges, more than %lu",
                              (unsigned long long)key->count,
                              (unsigned long)TOKENIZER_COUNT_LARGEST);
    while (slots < key->count * 2) slots *= 2;
    self->pairs.slots = malloc((size_t)slots * sizeof *self->pairs.slots);
    joined = malloc((size_t)self->words.longest * 2 + 1);
    if (self->pairs.slots == NULL || joined == NULL) {
        tokenizer_no_memory(error);
        goto out;
    }
    for (i = 0; i < slots; i++) self->pairs.slots[i].key = UINT64_MAX;
    self->pairs.slot_mask = slots - 1;
    self->pairs.seed = tokenizer_mix(self->words.seed);
    while (rank < key->count && gguf_next_string(key, &cursor, &text, &length))
        if (!add_merge(self, rank++, text, length, joined, error)) goto out;
    if (rank < key->count) {
        tokenizer_fail(error, "tokenizer.ggml.merges ends at merge %lu of %llu",
                       (unsigned long)rank, (unsigned long long)key->count);
        goto out;
    }
    good = true;
out:
    free(joined);
    return good;
}

bool gpt2_open(tokenizer *self, const gguf *file, gguf_error *error)
{
    const char *name;
    uint64_t length;
    unsigned byte;
    if (!gguf_get_string(file, "tokenizer.ggml.pre", &name, &length, error)) return false;
    self->split = splitter_open(name, length, &self->whole_words, &self->adds_begin, error);
    if (self->split == NULL) return false;
    for (byte = 0; byte < 256; byte++) {
        char letter[2];
        size_t n = put_letter(letter, byte);
        self->bytes[byte] = vocabulary_find(&self->words, letter, n);
    }
    return read_merges(self, file, error) && make_pieces(&self->words, error);
}

void gpt2_close(tokenizer *self)
{
    splitter_close(self->split);
    free(self->pairs.slots);
}

/* The token a word is as a whole, TOKEN_NONE when it is none. */
static uint32_t whole_word(encoding *work, const char *word, size_t length)
{
    const vocabulary *words = &work->self->words;
    size_t at = 0, i;
    uint32_t id;
    if (length > words->longest) return TOKEN_NONE;
    for (i = 0; i < length; i++) at += put_letter(work->text + at, (unsigned char)word[i]);
    id = vocabulary_find(words, work->text, at);
    return id != TOKEN_NONE && words->types[id] != TOKEN_NORMAL ? TOKEN_NONE : id;
}

static bool encode_word(void *context, const char *word, size_t length)
{
    encoding *work = context;
    const tokenizer *self = work->self;
    merge_work *merge = &work->merge;
    uint32_t i, id;
    if (self->whole_words) {
        id = whole_word(work, word, length);
        if (id != TOKEN_NONE) return encoding_put(work, id);
    }
    if (!merge_reserve(merge, length)) return tokenizer_no_memory(work->error);
    for (i = 0; i < length; i++) merge_set(merge, i, self->bytes[(unsigned char)word[i]], i, 1);
    merge_run(merge, (uint32_t)length, find_pair, &self->pairs);
    for (i = 0; i != MERGE_END; i = merge->symbols[i].next) {
        id = merge->symbols[i].id;
        if (id == TOKEN_NONE)
            work->lost++; /* only a single byte can have none */
        else if (!encoding_put(work, id))
            return false;
    }
    return true;
}

/* The length of the UTF-8 (or, not valid, of the other bytes) that text begins with. */
static size_t span(const char *text, size_t length, bool valid)
{
    size_t i = 0;
    while (i < length) {
        size_t n = (unsigned char)text[i] < 0x80 ? 1 : text_utf8(text + i, length - i);
        if ((n != 0) != valid) break;
        i += valid ? n : 1;
    }
    return i;
}

bool gpt2_encode(encoding *work, const char *text, size_t length)
{
    const tokenizer *self = work->self;
    size_t at = 0;
    if (work->split == NULL) {
        work->split = split_work_make(self->split);
        if (work->split == NULL) return tokenizer_no_memory(work->error);
    }
    if (self->whole_words && !encoding_reserve(work, (size_t)self->words.longest * 2 + 1))
        return false;
    while (at < length) {
        size_t n = span(text + at, length - at, true);
        int failure;
        if (!splitter_run(self->split, work->split, text + at, n, encode_word, work, &failure))
            return failure == 0 ? false
                                : tokenizer_fail(work->error, "PCRE2 failed on the text (error %d)",
                                                 failure);
        at += n;
        n = span(text + at, length - at, false);
        if (n != 0 && !encode_word(work, text + at, n)) return false;
        at += n;
    }
    return true;
}
