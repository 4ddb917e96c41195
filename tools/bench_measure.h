/* One measured point: a product of one shape, timed over many calls. */
#ifndef TENON_TOOLS_BENCH_MEASURE_H
#define TENON_TOOLS_BENCH_MEASURE_H

#include "calibrate.h"

#include <stdbool.h>
#include <tenon/engine.h>

typedef struct bench_shape {
    uint32_t format, layout;
    uint64_t group_size, rows, cols;
    const void *data; /* bytes of a model's tensor, NULL: made up */
} bench_shape;

typedef struct bench_point {
    bench_shape shape;
    uint64_t tokens, bytes; /* bytes: of the weight, as SPEC.md section 3 counts them */
    uint32_t arith;         /* the class of the weight, which the format may have decided */
    uint32_t samples, calls_per_sample, copies;
    double ns_median, ns_min, ns_max; /* of one call */
    double gbps, gops;
    bool bound_by_memory;
    double limit, ratio; /* in the unit of the bound; what was reached of it */
    uint64_t major_faults;
} bench_point;

/* Several prepared copies of one weight, together larger than the last-level cache, so that no
 * call finds its weight in the cache. */
typedef struct bench_weights {
    bench_shape shape;
    uint8_t *weights, *scales; /* made up, owned */
    tenon_weight **copies;
    uint32_t count;
    uint32_t arith;
    uint64_t bytes;
} bench_weights;

/* Makes the copies on a session; hot: a single one. False with *error, nothing left to free. */
bool bench_weights_make(bench_weights *self, tenon_session *session, const bench_shape *shape,
                        bool hot, tenon_error *error);
void bench_weights_free(bench_weights *self);

/* Times tokens through the copies in turn, after a warm-up, for about seconds, and compares with
 * the limits. False with *error. */
bool bench_measure(const bench_weights *weights, tenon_session *session, uint64_t tokens,
                   double seconds, const calibration *limits, bench_point *out, tenon_error *error);

#endif
