/* Policy: which links a session has, in which order (docs/policy.md). */
#ifndef TENON_HOST_POLICY_H
#define TENON_HOST_POLICY_H

#include "host.h"

/* No chain has more links. */
#define POLICY_LINKS_MAX 32u

typedef struct policy_chain {
    host_device *devices[POLICY_LINKS_MAX];
    uint32_t count;
    bool ends_in_reference; /* the host added the reference as the last link */
} policy_chain;

/* What a session asked for, checked against the rules of the modes: mode is never 0 afterwards.
 * TENON_OK or TENON_ARG (BAD_CHAIN, UNKNOWN_VALUE). */
int32_t policy_mode(const char *chain, uint32_t asked, uint32_t *mode, tenon_error *error);

/* Opens the devices of the chain. TENON_OK, TENON_ARG (BAD_CHAIN, NO_SUCH_PROVIDER, NO_SUCH_DEVICE,
 * UNSUPPORTED_CLASS), or what the named provider answered. [host.lock] */
int32_t policy_resolve(tenon_host *host, const char *chain, uint32_t mode, bool allow_approx,
                       policy_chain *out, tenon_error *error);

#endif
