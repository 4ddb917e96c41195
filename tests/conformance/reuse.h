/* Memory that is used again: other bytes at the same address, and bytes changed in place. */
#ifndef TENON_CONFORMANCE_REUSE_H
#define TENON_CONFORMANCE_REUSE_H

#include "problem.h"

/* A provider that remembers a weight by its address instead of its identity and generation gives
 * the product of the weight that lay there before (SPEC.md 1.4). False when the case is over. */
bool reuse_requests(const conformance_case *test, const conformance_target *target,
                    conformance_result *result);

#endif
