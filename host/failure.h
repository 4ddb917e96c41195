/* What a failure does, by how far it reaches (SPEC.md 1.5). */
#ifndef TENON_HOST_FAILURE_H
#define TENON_HOST_FAILURE_H

#include "host.h"

/* A link is set aside for the session after so many calls that failed. */
#define FAILURE_LIMIT 8u

/* A run of count outputs and so many tokens failed (why->status < 0) on a link: remembers it as
 * far as why->scope says, and says it. The reference that ends a chain is never given up.
 * [serial per queue] */
void failure_in_run(session_link *link, weight_slot *const *slots, uint32_t count, uint64_t tokens,
                    const tenon_error *why);
/* A weight could not be prepared: that weight goes elsewhere, the device stays unless why says that
 * it is gone. */
void failure_in_prepare(session_link *link, const tenon_error *why);
/* The reference takes something over that another link should have had: said once a session. */
void failure_say_reference(tenon_session *session, const tenon_error *why);

#endif
