/* Who ran what, and why others did not. Calls count in their queue's seats, without locks; here the
 * sums are made, and what is rare is counted: answers outside of calls, words, queues gone. */
#ifndef TENON_HOST_COUNTERS_H
#define TENON_HOST_COUNTERS_H

#include "host.h"

/* Counts one object (a weight of qmatmul, a cache of attention) that a link declined or failed, and
 * remembers why. what: COUNT_DECLINED or COUNT_FAILED. [any thread] */
void counters_object(session_link *link, uint32_t operation, uint32_t what, const tenon_error *why);
/* Remembers why a link did not run an operation. [any thread] */
void counters_remember(session_link *link, uint32_t operation, const tenon_error *why);
/* Adds what a queue counted to its links, before it goes. [session.lock] */
void counters_keep(const tenon_queue *queue);

#endif
