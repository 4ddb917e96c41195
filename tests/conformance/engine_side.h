/* A case's view of the product: a host with the provider under test, and its sessions. */
#ifndef TENON_CONFORMANCE_ENGINE_SIDE_H
#define TENON_CONFORMANCE_ENGINE_SIDE_H

#include "case.h"

typedef struct engine_side {
    tenon_host *host;
    tenon_session *tested;    /* mode pin on the provider under test */
    tenon_session *reference; /* mode pin on the built-in reference */
    const conformance_target *target;
    uint32_t threads;
    char last_log[240]; /* the last warning or error that the host said */
} engine_side;

/* Opens a host of this many threads that knows the target alone, and the two sessions. On failure
 * returns false with the outcome set: SKIPPED when the device or the level is not there, FAILED
 * otherwise; nothing is left open. */
bool engine_side_open(engine_side *self, const conformance_target *target, uint32_t threads,
                      uint32_t arith, conformance_result *result);
/* Closes all of it; a host that cannot be destroyed fails the case. */
void engine_side_close(engine_side *self, conformance_result *result);

/* Did the provider say "not mine"? */
bool engine_side_declined(int32_t status, const tenon_error *error);

/* Is this reason one of a device or level that is not there (SKIPPED), not of a fault? */
bool engine_side_absent(uint32_t reason);

#endif
