/* A weight on one link after the other: prepared where first it is taken, on further links when a
 * fallback asks for it. All functions want weight.lock held. */
#ifndef TENON_HOST_SLOT_H
#define TENON_HOST_SLOT_H

#include "host.h"

/* The first slot from index from on whose link takes a call of so many tokens; prepares the weight
 * there if need be, and makes it the weight's home when its home is no more. What is not TENON_OK
 * says why nobody does: *error is the verdict over the links asked and passed over. */
int32_t slot_find(tenon_weight *weight, uint32_t from, uint64_t tokens, weight_slot **out,
                  tenon_error *error);
/* The weight on exactly this link: prepared there if need be, its home left as it is. Errors as
 * slot_find, of this link alone. */
int32_t slot_ready(tenon_weight *weight, weight_slot *slot, uint64_t tokens, tenon_error *error);
/* Releases the weight on every link and forgets every refusal. No call uses it. */
void slot_release_all(tenon_weight *weight);
/* Frees the host's copy of the bytes when no link can ask for them any more. */
void slot_drop_copy_if_done(tenon_weight *weight);

/* Copies count bytes to an address of the alignment (a power of two). *room is what to free.
 * NULL: no memory. */
void *slot_copy_aligned(const void *bytes, uint64_t count, uint64_t alignment, void **room);

/* Keeps the more telling of two answers in *verdict: the first failure, else the first refusal; but
 * that of the reference at the end of a chain (final) stands above all, since it should have made
 * good what the others did not do. */
void slot_keep_verdict(tenon_error *verdict, const tenon_error *answer, bool final);

#endif
