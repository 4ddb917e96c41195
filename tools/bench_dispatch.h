/* What a call costs that computes almost nothing. */
#ifndef TENON_TOOLS_BENCH_DISPATCH_H
#define TENON_TOOLS_BENCH_DISPATCH_H

#include <stdint.h>
#include <tenon/engine.h>

typedef struct dispatch_cost {
    uint64_t calls;
    double ns_per_call; /* of tenon_qmatmul, median over batches */
    double ns_direct;   /* of the provider's function called through its pointer */
    double ns_min, ns_max;
} dispatch_cost;

/* Measures over a provider inside this program, on one thread. TENON_OK or the host's failure. */
int32_t dispatch_measure(dispatch_cost *out, tenon_error *error);

#endif
