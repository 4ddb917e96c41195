/* The part of the qmatmul cases that the model cases share. */
#ifndef TENON_CONFORMANCE_QMATMUL_H
#define TENON_CONFORMANCE_QMATMUL_H

#include "problem.h"

/* Runs all requests of these sizes over one thread and then over more, every answer compared.
 * tensor_rows as in problem_make. False when the case is over: a failure, or nothing to run on. */
bool qmatmul_requests(const conformance_case *test, const conformance_target *target,
                      const problem_sizes *sizes, const uint8_t *tensor_rows,
                      conformance_result *result);

/* The outcome from the counts, once all requests were made. */
void qmatmul_conclude(conformance_result *result);

#endif
