#include "tokenizer_merge.h"

#include <stdlib.h>
#include <string.h>

bool merge_reserve(merge_work *self, size_t count)
{
    size_t wanted = self->capacity < 64 ? 64 : self->capacity;
    merge_symbol *symbols;
    merge_candidate *heap;
    if (count <= self->capacity) return true;
    while (wanted < count) {
        if (wanted > SIZE_MAX / 2) return false;
        wanted *= 2;
    }
    /* n - 1 candidates at first, and every one of at most n - 1 joins takes one and adds two */
    if (wanted > SIZE_MAX / sizeof *heap / 2) return false;
    symbols = malloc(wanted * sizeof *symbols);
    heap = malloc(wanted * 2 * sizeof *heap);
    if (symbols == NULL || heap == NULL) {
        free(symbols);
        free(heap);
        return false;
    }
    free(self->symbols);
    free(self->heap);
    self->symbols = symbols;
    self->heap = heap;
    self->capacity = wanted;
    return true;
}

void merge_free(merge_work *self)
{
    free(self->symbols);
    free(self->heap);
    memset(self, 0, sizeof *self);
}

void merge_set(merge_work *self, uint32_t index, uint32_t id, uint32_t at, uint32_t length)
{
    merge_symbol *symbol = &self->symbols[index];
    symbol->id = id;
    symbol->at = at;
    symbol->length = length;
    symbol->previous = index == 0 ? MERGE_END : index - 1;
    symbol->next = MERGE_END;
    if (index != 0) self->symbols[index - 1].next = index;
}

static void push(merge_work *self, merge_candidate candidate)
{
    size_t at = self->candidates++;
    while (at > 0) {
        size_t above = (at - 1) / 2;
        if (self->heap[above].key <= candidate.key) break;
        self->heap[at] = self->heap[above];
        at = above;
    }
    self->heap[at] = candidate;
}

static merge_candidate pop(merge_work *self)
{
    merge_candidate top = self->heap[0], last = self->heap[--self->candidates];
    size_t at = 0, count = self->candidates;
    for (;;) {
        size_t below = at * 2 + 1;
        if (below >= count) break;
        if (below + 1 < count && self->heap[below + 1].key < self->heap[below].key) below++;
        if (last.key <= self->heap[below].key) break;
        self->heap[at] = self->heap[below];
        at = below;
    }
    self->heap[at] = last; /* also when it is empty now: the place is there */
    return top;
}

static void consider(merge_work *self, uint32_t left, merge_find *find, const void *context)
{
    const merge_symbol *a = &self->symbols[left], *b;
    uint32_t order, id;
    if (a->next == MERGE_END) return;
    b = &self->symbols[a->next];
    if (find(context, a, b, &order, &id))
        push(self,
             (merge_candidate){(uint64_t)order << 32 | left, a->next, a->length + b->length, id});
}

void merge_run(merge_work *self, uint32_t count, merge_find *find, const void *context)
{
    uint32_t i;
    self->candidates = 0;
    for (i = 0; i + 1 < count; i++) consider(self, i, find, context);
    while (self->candidates > 0) {
        merge_candidate best = pop(self);
        uint32_t left = (uint32_t)(best.key & UINT32_MAX);
        merge_symbol *a = &self->symbols[left], *b = &self->symbols[best.right];
        /* a half that was joined to another one has length 0 or has grown */
        if (a->length == 0 || b->length == 0 || a->length + b->length != best.length) continue;
        a->id = best.id;
        a->length = best.length;
        a->next = b->next;
        b->length = 0;
        if (a->next != MERGE_END) self->symbols[a->next].previous = left;
        consider(self, left, find, context);
        if (a->previous != MERGE_END) consider(self, a->previous, find, context);
    }
}
