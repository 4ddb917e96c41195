/* Steps that join the one before them: one dispatch and one barrier less.
 *
 * A decode step is some hundred short dispatches, each of which must wait for the one before; what
 * stands between them costs a software device more than the work, and a card a few microseconds
 * each. So rows that were just added are added by the rmsnorm that reads them, and rows that products of
 * class A8 read are made ready by the kernel that makes them. The values are the same to the bit: the
 * same operations in the same order. Where rows do not lie exactly so, steps stay by themselves. */
#ifndef TENON_VULKAN_JOIN_H
#define TENON_VULKAN_JOIN_H

#include "request.h"

/* The open step makes rows [first, first + tokens) of x ready for class A8, too (VULKAN_ROUND): records
 * of `vectors` vectors a row from the start of work on. *joined: it does; 0: it cannot. */
int32_t vulkan_join_round(tenon_device_queue *queue, const vulkan_rows *x, uint64_t first,
                          uint64_t tokens, vulkan_span work, uint32_t vectors, uint32_t *joined,
                          tenon_error *error);

/* An rmsnorm of rows [0, tokens) of x, of one group each, takes the place of the open step where that
 * adds them. dispatch: the rmsnorm by itself, with its push struct and 6 spans. */
int32_t vulkan_join_add(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                        const vulkan_rows *x, const vulkan_rows *y, uint64_t tokens,
                        uint32_t *joined, tenon_error *error);

#endif
