/* A problem: one weight, activations, and the reference's product for every request that a case is
 * going to make of them.
 *
 * Every request multiplies some consecutive rows of the weight by some consecutive tokens, and no
 * element of a product depends on the rest, so all requests share one expected table. */
#ifndef TENON_CONFORMANCE_PROBLEM_H
#define TENON_CONFORMANCE_PROBLEM_H

#include "case.h"
#include "data.h"
#include "engine_side.h"
#include "memory.h"

#define PROBLEM_MAX_SIZES 16u

/* Which sizes a problem is asked for. */
typedef struct problem_sizes {
    uint64_t rows[PROBLEM_MAX_SIZES];   /* ascending */
    uint64_t tokens[PROBLEM_MAX_SIZES]; /* ascending */
    uint32_t row_count, token_count;
    uint64_t limit; /* pairs with rows * tokens above it are left out */
} problem_sizes;

typedef struct problem {
    data_kind kind;
    tenon_weight_desc desc; /* all rows */
    const uint8_t *weights, *scales;
    uint64_t weights_bytes, scales_bytes;
    guarded own_weights, own_scales; /* when made from a seed */
    /* The same activations twice: at 4 modulo 64 with gaps between rows, and without gaps, flush
     * with the end of their pages. */
    guarded x[2];
    uint64_t x_stride[2];
    uint64_t tokens;
    problem_sizes sizes;
    float *expected; /* [tokens][rows], known where problem_known_tokens says so */
} problem;

/* Largest token count of the sizes that a request over rows [0, end) may have. */
uint64_t problem_known_tokens(const problem_sizes *sizes, uint64_t end);

/* Makes weights and activations from the case's seed; tensor_rows: with a tensor, its rows from
 * first_row on (as many as the largest size says) instead of made-up ones. False: out of memory,
 * the failure set. */
bool problem_make(problem *self, const conformance_case *test, const problem_sizes *sizes,
                  const uint8_t *tensor_rows, conformance_result *result);
/* Fills the expected table by the reference session, or from what another process of the same case
 * has kept. */
bool problem_expect(problem *self, engine_side *engine, const conformance_target *target,
                    conformance_result *result);
void problem_free(problem *self);

/* One request of the problem. */
typedef struct problem_request {
    uint64_t first_token, tokens;
    uint32_t x; /* which of the two copies */
    uint32_t outputs;
    struct {
        uint64_t first_row, rows;
        tenon_weight *weight;
        uint64_t y_pad; /* bytes between rows of y, multiple of 4 */
    } output[TENON_QMATMUL_MAX_OUTPUTS];
} problem_request;

/* Room for the outputs of requests, made once. */
typedef struct problem_room {
    guarded y[TENON_QMATMUL_MAX_OUTPUTS];
} problem_room;

bool problem_room_make(problem_room *self, const problem *of, conformance_result *result);
void problem_room_free(problem_room *self);

/* Makes the request on the session under test and compares every bit of the answer, the guard words
 * around it and between its rows. Counts it in result. False: a difference, described in result
 * and saved when the case has a save folder. Declined requests are counted and return true. */
bool problem_check(const problem *self, const problem_request *request, const problem_room *room,
                   engine_side *engine, const conformance_case *test,
                   const conformance_target *target, conformance_result *result);

#endif
