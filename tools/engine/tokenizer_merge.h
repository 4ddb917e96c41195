/* Joining neighbours by priority: the loop of both kinds of tokenizer.
 *
 * Begins with symbols in a row. As long as any two neighbours can be joined, the pair of the
 * smallest order is, the leftmost one of equals. With a heap of candidates this takes n log n
 * steps for n symbols, however long the run ("aaaa...") is. */
#ifndef TENON_TOOLS_TOKENIZER_MERGE_H
#define TENON_TOOLS_TOKENIZER_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MERGE_END UINT32_MAX /* no neighbour */

/* Some bytes of the text. Joined ones live on in their left half. */
typedef struct merge_symbol {
    uint32_t id; /* TOKEN_NONE: these bytes are no token */
    uint32_t at, length;
    uint32_t previous, next; /* index or MERGE_END */
} merge_symbol;

typedef struct merge_candidate {
    uint64_t key;    /* order << 32 | index of the left symbol */
    uint32_t right;  /* index of the right symbol */
    uint32_t length; /* of both: another one means that a half has changed since */
    uint32_t id;     /* what they give */
} merge_candidate;

/* Memory that is used again from call to call. Zero-initialised it is empty. */
typedef struct merge_work {
    merge_symbol *symbols;
    merge_candidate *heap;
    size_t capacity, candidates;
} merge_work;

/* Can left and right be joined? Then true, the order and the id they give. */
typedef bool merge_find(const void *context, const merge_symbol *left, const merge_symbol *right,
                        uint32_t *order, uint32_t *id);

/* Makes room for count symbols. False when memory is out. */
bool merge_reserve(merge_work *self, size_t count);
/* Adds the symbol at index; all from 0 up, in order. The last one must be closed: next is
 * MERGE_END. */
void merge_set(merge_work *self, uint32_t index, uint32_t id, uint32_t at, uint32_t length);
/* Joins. Afterwards the symbols are those from index 0 along next. */
void merge_run(merge_work *self, uint32_t count, merge_find *find, const void *context);
void merge_free(merge_work *self);

#endif
