/* For who wants to see every operation of a step: traces. */
#ifndef TENON_TOOLS_ENGINE_STEP_H
#define TENON_TOOLS_ENGINE_STEP_H

#include <stdint.h>

/* Called before (begin) and after each operation on the thread of the step. layer UINT64_MAX:
 * outside of layers. bytes: of all inputs and outputs that are activations. */
typedef struct step_watch {
    void *context;
    void (*begin)(void *context);
    void (*end)(void *context, const char *operation, uint64_t layer, uint64_t rows, uint64_t bytes,
                int32_t status);
} step_watch;

#endif
