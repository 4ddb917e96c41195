/* Cases of stage robust, and what they share: a host with the provider under test, a format that it
 * takes, square weights of it, and the reference's answers. */
#ifndef TENON_CONFORMANCE_ROBUST_H
#define TENON_CONFORMANCE_ROBUST_H

#include "data.h"
#include "engine_side.h"
#include "memory.h"

#define ROBUST_SIDE \
    256u /* rows and cols of most weights: what one product gives, the next can take */

typedef struct robust_kit {
    engine_side engine;
    conformance_result *result;
    random_state random;
    uint32_t format, layout, arith; /* what the provider takes; arith is the sessions' */
    bool approx;                    /* in class APPROX only: its gates instead of bits */
} robust_kit;

/* Opens it. False: UNSUPPORTED when the provider takes no format, else as engine_side_open. */
bool robust_open(robust_kit *self, const conformance_case *test, const conformance_target *target,
                 uint32_t threads, conformance_result *result);
void robust_close(robust_kit *self);
/* Fails with what was said unless status is TENON_OK. Counts a check. */
bool robust_good(conformance_result *result, int32_t status, const tenon_error *error,
                 const char *what);
/* A further session under test, as the one of the kit. */
bool robust_session(robust_kit *self, tenon_session **out);

/* A weight of the kit's format with the memory it is made from. */
typedef struct robust_weight {
    tenon_weight_desc desc;
    tenon_weight_data data;
    guarded weights, scales;
    tenon_weight *weight;
} robust_weight;

/* Bytes only, by the seed; nothing is created. */
bool robust_weight_fill(robust_kit *self, robust_weight *of, uint64_t rows, uint64_t cols,
                        uint64_t seed);
/* With a weight of the session. */
bool robust_weight_make(robust_kit *self, robust_weight *of, tenon_session *session, uint64_t rows,
                        uint64_t cols, uint64_t seed);
void robust_weight_free(robust_weight *self);

/* tokens rows of ordinary activations by the seed. */
bool robust_fill_x(robust_kit *self, guarded *x, uint64_t tokens, uint64_t cols, uint64_t seed);
/* The reference's product of the weight's bytes; y gets tokens * rows floats. */
bool robust_expect(robust_kit *self, const robust_weight *of, const float *x, uint64_t tokens,
                   float *y);
/* A product over views without gaps between rows. */
int32_t robust_product(tenon_queue *queue, tenon_weight *weight, const tenon_view *x,
                       const tenon_view *y, uint64_t tokens, uint64_t cols, uint64_t rows,
                       tenon_error *error);
tenon_view robust_host(const void *memory, uint64_t bytes);
tenon_view robust_buffer(tenon_buffer *buffer, uint64_t bytes);
/* The same bits, or within the gates where the kit is approximate. */
bool robust_same(const robust_kit *self, const float *got, const float *want, uint64_t rows,
                 uint64_t tokens, const char *what, conformance_result *result);

/* What the link says of its device's memory. False: a failure is set; *offered tells whether there is
 * memory_v1 at all. */
bool robust_memory(robust_kit *self, tenon_memory_info *out, bool *offered);
/* Are objects and used what they were? */
bool robust_returned(robust_kit *self, const tenon_memory_info *before, const char *when);

/* The bodies. */
void robust_queues(const conformance_case *test, const conformance_target *target,
                   conformance_result *result);
void robust_updates(const conformance_case *test, const conformance_target *target,
                    conformance_result *result);
void robust_chains(const conformance_case *test, const conformance_target *target,
                   conformance_result *result);
void robust_cache_full(const conformance_case *test, const conformance_target *target,
                       conformance_result *result);
void robust_out_of_memory(const conformance_case *test, const conformance_target *target,
                          conformance_result *result);

#endif
