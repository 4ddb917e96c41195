/* The tokens of a model file, read with suspicion, and the way from a text to its id. */
#include "tokenizer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t tokenizer_mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ value >> 27) * UINT64_C(0x94D049BB133111EB);
    return value ^ value >> 31;
}

static uint64_t hash(uint64_t seed, const char *text, size_t length)
{
    uint64_t value = tokenizer_mix(seed ^ length), chunk;
    size_t n;
    for (; length > 0; text += n, length -= n) {
        n = length < sizeof chunk ? length : sizeof chunk;
        chunk = 0;
        memcpy(&chunk, text, n);
        value = tokenizer_mix(value ^ chunk);
    }
    return value;
}

const char *vocabulary_text(const vocabulary *self, uint32_t id, size_t *length)
{
    *length = self->text_at[id + 1] - self->text_at[id];
    return self->texts + self->text_at[id];
}

uint32_t vocabulary_find(const vocabulary *self, const char *text, size_t length)
{
    uint64_t value, at;
    if (length == 0 || length > self->longest) return TOKEN_NONE;
    value = hash(self->seed, text, length);
    for (at = value & self->slot_mask;; at = (at + 1) & self->slot_mask) {
        const struct vocabulary_slot *slot = &self->slots[at];
        size_t n;
        const char *other;
        if (slot->id == TOKEN_NONE) return TOKEN_NONE;
        if (slot->tag != (uint32_t)(value >> 32)) continue;
        other = vocabulary_text(self, slot->id, &n);
        if (n == length && memcmp(other, text, length) == 0) return slot->id;
    }
}

/* Puts every token into the table. Two of one text would make ids a matter of chance. */
static bool index_texts(vocabulary *self, gguf_error *error)
{
    uint64_t slots = 16, i;
    uint32_t id;
    struct timespec now = {0, 0};
    while (slots < (uint64_t)self->count * 2) slots *= 2;
    self->slots = malloc((size_t)slots * sizeof *self->slots);
    if (self->slots == NULL) return tokenizer_no_memory(error);
    for (i = 0; i < slots; i++) self->slots[i] = (struct vocabulary_slot){TOKEN_NONE, 0};
    self->slot_mask = slots - 1;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* any value will do */
    self->seed = tokenizer_mix((uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)self->slots);
    for (id = 0; id < self->count; id++) {
        size_t length;
        const char *text = vocabulary_text(self, id, &length);
        uint64_t value, at;
        uint32_t same;
        if (length == 0) continue; /* some files fill holes with empty tokens: never found */
        same = vocabulary_find(self, text, length);
        if (same != TOKEN_NONE) {
            char shown[TOKENIZER_SHOWN];
            return tokenizer_fail(error, "tokenizer.ggml.tokens has '%s' twice, as %lu and %lu",
                                  tokenizer_shown(shown, text, length), (unsigned long)same,
                                  (unsigned long)id);
        }
        value = hash(self->seed, text, length);
        at = value & self->slot_mask;
        while (self->slots[at].id != TOKEN_NONE) at = (at + 1) & self->slot_mask;
        self->slots[at] = (struct vocabulary_slot){id, (uint32_t)(value >> 32)};
    }
    return true;
}

static bool read_texts(vocabulary *self, const gguf *file, gguf_error *error)
{
    const gguf_key *key;
    uint64_t cursor = 0, length, total = 0;
    const char *text;
    uint32_t id = 0;
    if (!gguf_get_array(file, "tokenizer.ggml.tokens", GGUF_STRING, UINT64_MAX, &key, error))
        return false;
    if (key->count == 0) return tokenizer_fail(error, "tokenizer.ggml.tokens is empty");
    if (key->count > TOKENIZER_COUNT_LARGEST)
        return tokenizer_fail(error, "tokenizer.ggml.tokens has %llu tokens, more than %lu",
                              (unsigned long long)key->count,
                              (unsigned long)TOKENIZER_COUNT_LARGEST);
    if (key->bytes > UINT32_MAX)
        return tokenizer_fail(error, "tokenizer.ggml.tokens has %llu bytes, more than 4 GiB",
                              (unsigned long long)key->bytes);
    self->count = (uint32_t)key->count;
    self->texts = malloc((size_t)key->bytes + 1); /* lengths included: more than the texts need */
    self->text_at = malloc(((size_t)self->count + 1) * sizeof *self->text_at);
    if (self->texts == NULL || self->text_at == NULL) return tokenizer_no_memory(error);
    /* the file's bytes may change while it is mapped: what is copied is what is judged */
    while (id < self->count && gguf_next_string(key, &cursor, &text, &length)) {
        if (length > key->bytes - total) break;
        self->text_at[id++] = (uint32_t)total;
        memcpy(self->texts + total, text, (size_t)length);
        total += length;
        if (length > self->longest) self->longest = (uint32_t)length;
    }
    if (id < self->count)
        return tokenizer_fail(error, "tokenizer.ggml.tokens ends at token %lu of %lu",
                              (unsigned long)id, (unsigned long)self->count);
    self->text_at[id] = (uint32_t)total;
    return true;
}

static bool read_types(vocabulary *self, const gguf *file, gguf_error *error)
{
    static const char name[] = "tokenizer.ggml.token_type";
    const gguf_key *key = gguf_find_key(file, name);
    uint32_t id;
    self->types = malloc(self->count);
    if (self->types == NULL) return tokenizer_no_memory(error);
    memset(self->types, TOKEN_NORMAL, self->count);
    if (key == NULL) return true;
    if (!gguf_get_array(file, name, GGUF_I32, self->count, &key, NULL) &&
        !gguf_get_array(file, name, GGUF_U32, self->count, &key, NULL))
        return gguf_get_array(file, name, GGUF_I32, self->count, &key, error);
    for (id = 0; id < self->count; id++) {
        int64_t type = -1;
        if (!gguf_element_i64(key, id, &type) || type < TOKEN_UNDEFINED || type > TOKEN_BYTE)
            return tokenizer_fail(error, "%s says %lld of token %lu, which is no type of tokens",
                                  name, (long long)type, (unsigned long)id);
        self->types[id] = (uint8_t)type;
    }
    return true;
}

/* From a score, larger first, to an order, smaller first, with the same ties. */
static uint32_t order_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & UINT32_C(0x80000000) ? bits : ~bits & UINT32_C(0x7FFFFFFF);
}

static bool read_scores(vocabulary *self, const gguf *file, bool wanted, gguf_error *error)
{
    static const char name[] = "tokenizer.ggml.scores";
    const gguf_key *key = gguf_find_key(file, name);
    uint32_t id;
    if (key == NULL && !wanted) return true;
    if (!gguf_get_array(file, name, GGUF_F32, self->count, &key, error)) return false;
    if (!wanted) return true;
    self->orders = malloc((size_t)self->count * sizeof *self->orders);
    if (self->orders == NULL) return tokenizer_no_memory(error);
    for (id = 0; id < self->count; id++) {
        double score = NAN;
        if (!gguf_element_f64(key, id, &score) || isnan(score))
            return tokenizer_fail(error, "%s is not a number at token %lu", name,
                                  (unsigned long)id);
        self->orders[id] = order_of((float)score);
    }
    return true;
}

bool vocabulary_read(vocabulary *self, const gguf *file, bool scored, gguf_error *error)
{
    return read_texts(self, file, error) && read_types(self, file, error) &&
           read_scores(self, file, scored, error) && index_texts(self, error);
}

void vocabulary_free(vocabulary *self)
{
    free(self->texts);
    free(self->text_at);
    free(self->pieces);
    free(self->piece_at);
    free(self->types);
    free(self->orders);
    free(self->slots);
    memset(self, 0, sizeof *self);
}
