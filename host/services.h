/* The services a provider is handed at open, dead after its close.
 *
 * The handle inside tenon_services is a ticket, not an address: a callback that a provider makes
 * after its close (from a destructor of its library, say) finds a ticket that is over and does
 * nothing, whatever became of the host. */
#ifndef TENON_HOST_SERVICES_H
#define TENON_HOST_SERVICES_H

#include "host.h"

/* Hands provider->services and provider->ticket out, in the size the provider knows.
 * TENON_OK or TENON_NOMEM. */
int32_t services_begin(host_provider *provider, tenon_error *error);
/* Ends the ticket and frees the struct. Nothing begun is allowed. */
void services_end(host_provider *provider);

/* The team of a host, made when first asked for; NULL and *error: no memory. Takes host.lock when
 * not locked. */
team *services_team(tenon_host *host, bool locked, tenon_error *error);

#endif
