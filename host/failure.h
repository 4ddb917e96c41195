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
/* A run of another operation (OPERATION_*) and so many tokens failed on a link: it is tried there
 * only at fewer tokens from now on. [serial per queue] */
void failure_in_operation(session_link *link, uint32_t operation, uint64_t tokens,
                          const tenon_error *why);
/* A cache could not be made on a link: it goes elsewhere, the link stays unless why says that it is
 * gone. */
void failure_in_create(session_link *link, const tenon_error *why);
/* A cache of the link could not be used, so that it is lost: no new one is made there. */
void failure_in_cache(session_link *link, const tenon_error *why);
/* A buffer could not be made or filled on a link: calls there get host views. */
void failure_in_transfer(session_link *link, const tenon_error *why);
/* What a link was to give back could not be read, or its work failed late: the link leaves the
 * chain, since nobody knows what else of it is gone. */
void failure_in_read(session_link *link, const tenon_error *why);
/* The reference takes something over that another link should have had: said once a session for
 * each operation. why: the verdict over the links before it; status 0: none of them offers it. */
void failure_say_reference(tenon_session *session, uint32_t operation, const tenon_error *why);
/* What a call answers when the chain is at its end; verdict is that over its links. */
int32_t failure_nobody(const tenon_error *verdict, tenon_error *error);

#endif
