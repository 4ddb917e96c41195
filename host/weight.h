/* Weights: class, identity, generation, lifetime; made, changed in place, destroyed. */
#ifndef TENON_HOST_WEIGHT_H
#define TENON_HOST_WEIGHT_H

#include "host.h"

/* The class a session gives a weight of a format (SPEC.md 1.4). */
uint32_t weight_class(uint32_t session_arith, uint32_t format);
/* Checks what an engine states about a weight. Fills *desc (arith 0) and the bytes its arrays need.
 * TENON_OK, TENON_ARG or TENON_ABI. */
int32_t weight_take_desc(const tenon_weight_desc *theirs, tenon_weight_desc *desc,
                         uint64_t *weights_bytes, uint64_t *scales_bytes, tenon_error *error);
/* Waits for calls that use the weight, releases it and frees it. */
void weight_free(tenon_weight *weight);

#endif
