/* A failing request as raw files, with the line that repeats it. */
#ifndef TENON_CONFORMANCE_SAVE_H
#define TENON_CONFORMANCE_SAVE_H

#include "problem.h"

/* Writes weights, scales, activations, the expected and the returned product of one output of the
 * request into the case's save folder, and result->repeat. y begins guard_words words into *y. A
 * folder that cannot be written is said in result->repeat instead. */
void save_request(const problem *of, const problem_request *request, uint32_t output,
                  const guarded *y, uint64_t guard_words, uint32_t threads,
                  const conformance_case *test, const conformance_target *target,
                  conformance_result *result);

/* "f32", "a8"; lower-case names of classes. */
const char *save_class_name(uint32_t arith);

#endif
