/* Who ran what, and why others did not. Calls count in their queue's seats, without locks; here the
 * sums are made, and what is rare is counted: answers outside of calls, words, queues gone. */
#ifndef TENON_HOST_COUNTERS_H
#define TENON_HOST_COUNTERS_H

#include "host.h"

/* Counts one weight that a link declined or failed to prepare, and remembers why. what:
 * COUNT_DECLINED or COUNT_FAILED. [any thread] */
void counters_prepare(session_link *link, uint32_t what, const tenon_error *why);
/* Remembers why a link did not run something. [any thread] */
void counters_remember(session_link *link, const tenon_error *why);
/* Adds what a queue counted to its links, before it goes. [session.lock] */
void counters_keep(const tenon_queue *queue);

#endif
