/* Expected tables that the processes of one case lend each other: the reference is slow, and every
 * instruction-set level of a case wants the same bits from it. */
#ifndef TENON_CONFORMANCE_SHARE_H
#define TENON_CONFORMANCE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shared memory of a fixed size; what does not fit is not kept. */
typedef struct conformance_share conformance_share;

/* Maps count of them, one after the other; NULL when out of memory, which only costs time. */
conformance_share *share_make(size_t count);
void share_free(conformance_share *first, size_t count);
conformance_share *share_at(conformance_share *first, size_t index);
/* Forgets everything; nobody else may be using it. */
void share_reset(conformance_share *self);

/* Copies what was kept under this key; false when there is none, or when it was damaged. */
bool share_find(conformance_share *self, uint64_t key, void *out, uint64_t bytes);
/* Keeps a copy. Two processes at once: one of them does not keep it. */
void share_put(conformance_share *self, uint64_t key, const void *from, uint64_t bytes);

#endif
