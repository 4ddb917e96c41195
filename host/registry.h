/* Opened providers and devices: opened when first needed, once, shared by all sessions, closed by
 * tenon_host_destroy in reverse order. Every function wants host.lock held. */
#ifndef TENON_HOST_REGISTRY_H
#define TENON_HOST_REGISTRY_H

#include "host.h"

/* The id of the provider that is linked into the host. */
#define REFERENCE_ID "reference"

/* Takes up the modules that the loader has published since. TENON_OK or TENON_NOMEM. */
int32_t registry_sync(tenon_host *host, tenon_error *error);
/* Lets providers whose open failed try again. */
void registry_forget_failures(tenon_host *host);
/* Closes and frees everything. */
void registry_close(tenon_host *host);
/* Closes one provider again, unless a device of it is open. [host.lock] */
void registry_put_back(host_provider *provider);

/* The loaded provider of that id. NULL and *error (ARG, NO_SUCH_PROVIDER) quoting what became of a
 * file that bears the name. */
host_provider *registry_find(tenon_host *host, const char *id, tenon_error *error);
/* Opens the provider if it is not. Its own failure is remembered and answered again. */
int32_t registry_open(host_provider *provider, tenon_error *error);
/* A description in the provider's words; contradictions are left in. */
int32_t registry_device_info(host_provider *provider, uint32_t index, tenon_device_info *out,
                             tenon_error *error);
/* The opened device of an index < count; info is what registry_device_info told. */
int32_t registry_device(host_provider *provider, uint32_t index, const tenon_device_info *info,
                        host_device **out, tenon_error *error);

#endif
