/* A failing request as raw files, with the line that repeats it. */
#ifndef TENON_CONFORMANCE_SAVE_H
#define TENON_CONFORMANCE_SAVE_H

#include "problem.h"

#define SAVE_PARTS 5u

/* Rows of one file: an input of `tenon op`, or the result. */
typedef struct save_part {
    const char *option; /* without dashes; also the ending of the file's name */
    const void *data;
    uint64_t rows, row_bytes, stride;
} save_part;

/* A call of an operation as `tenon op` makes it. Zeroed: it cannot be said that way. */
typedef struct save_call {
    const char *operation;
    char words[400]; /* its numbers: " --tokens 3 --width 7" */
    save_part parts[SAVE_PARTS];
    uint32_t part_count;
    save_part result; /* its shape alone */
} save_call;

/* Writes weights, scales, activations, the expected and the returned product of one output of the
 * request into the case's save folder, and result->repeat. y begins guard_words words into *y. A
 * folder that cannot be written is said in result->repeat instead. */
void save_request(const problem *of, const problem_request *request, uint32_t output,
                  const guarded *y, uint64_t guard_words, uint32_t threads,
                  const conformance_case *test, const conformance_target *target,
                  conformance_result *result);

/* The same for one call of another operation: its inputs, and two results of the shape that call
 * states. Does nothing where call cannot be said. */
void save_operation(const save_call *call, const void *got, const void *expected, uint32_t threads,
                    const conformance_case *test, const conformance_target *target,
                    conformance_result *result);

/* "f32", "a8"; lower-case names of classes. */
const char *save_class_name(uint32_t arith);

#endif
