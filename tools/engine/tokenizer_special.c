/* Special tokens inside text: found at every place, the longest first. */
#include "tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *text;
    size_t length;
    uint32_t id;
} entry;

static int compare(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    if (order != 0) return order;
    return a->length < b->length ? -1 : a->length > b->length;
}

static bool is_special(const vocabulary *words, uint32_t id)
{
    uint8_t type = words->types[id];
    return (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER_DEFINED) &&
           words->text_at[id] != words->text_at[id + 1];
}

bool special_tokens_open(tokenizer *self, gguf_error *error)
{
    const vocabulary *words = &self->words;
    special_tokens *specials = &self->specials;
    uint32_t id, count = 0, i;
    unsigned byte;
    entry *entries;
    bool good = false;
    for (id = 0; id < words->count; id++) count += is_special(words, id);
    entries = malloc((size_t)count * sizeof *entries + 1);
    specials->ids = malloc((size_t)count * sizeof *specials->ids + 1);
    if (entries == NULL || specials->ids == NULL) {
        tokenizer_no_memory(error);
        goto out;
    }
    for (id = 0; id < words->count; id++) {
        entry *next = &entries[specials->count];
        if (!is_special(words, id)) continue;
        next->text = vocabulary_text(words, id, &next->length);
        next->id = id;
        if (next->length > TOKENIZER_SPECIAL_LONGEST) {
            tokenizer_fail(error,
                           "special token %lu of tokenizer.ggml.tokens has %lu bytes, at "
                           "most %u are allowed",
                           (unsigned long)id, (unsigned long)next->length,
                           TOKENIZER_SPECIAL_LONGEST);
            goto out;
        }
        specials->count++;
    }
    qsort(entries, count, sizeof *entries, compare);
    for (i = 0, byte = 0; byte <= 256; byte++) {
        while (i < count && (unsigned char)entries[i].text[0] < byte) i++;
        specials->first[byte] = i;
    }
    for (i = 0; i < count; i++) specials->ids[i] = entries[i].id;
    good = true;
out:
    free(entries);
    return good;
}

/* The first special token from low to high whose byte at depth is at least value. All of them are
 * longer than depth, and equal before it. */
static uint32_t lower_bound(const tokenizer *self, uint32_t low, uint32_t high, size_t depth,
                            unsigned value)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t length;
        const char *text = vocabulary_text(&self->words, self->specials.ids[middle], &length);
        if ((unsigned char)text[depth] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t special_tokens_match(const tokenizer *self, const char *text, size_t length, size_t plain,
                              size_t *matched)
{
    const special_tokens *specials = &self->specials;
    uint32_t low, high, found = TOKEN_NONE;
    size_t depth = 1;
    if (length == 0) return TOKEN_NONE;
    low = specials->first[(unsigned char)text[0]];
    high = specials->first[(unsigned char)text[0] + 1];
    while (low < high) {
        uint32_t id = specials->ids[low];
        unsigned byte;
        /* sorted: only the first of the range can end here */
        if (self->words.text_at[id + 1] - self->words.text_at[id] == depth) {
            if (depth <= plain || self->words.types[id] == TOKEN_USER_DEFINED) {
                found = id;
                *matched = depth;
            }
            low++;
        }
        if (depth == length) break;
        byte = (unsigned char)text[depth];
        low = lower_bound(self, low, high, depth, byte);
        high = lower_bound(self, low, high, depth, byte + 1);
        depth++;
    }
    return found;
}
