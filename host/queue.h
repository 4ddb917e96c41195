/* Queues, and how others wait until queues have left their calls.
 *
 * A call marks its queue (an odd turn) before it looks at a weight, and unmarks it when it is done.
 * Who takes something away first makes it unreachable for new calls, then drains: waits until every
 * queue that was inside a call has left that call. The price of a call is one atomic exchange. */
#ifndef TENON_HOST_QUEUE_H
#define TENON_HOST_QUEUE_H

#include "host.h"

/* Begins a call. false: another thread is in a call on this queue. [serial per queue] */
static inline bool queue_enter(tenon_queue *queue)
{
    uint64_t turn = atomic_load_explicit(&queue->turn, memory_order_relaxed);
    if ((turn & 1u) != 0) return false;
    atomic_exchange(&queue->turn, turn + 1); /* ordered before the loads of weight.home */
    return true;
}

/* Ends the call. */
static inline void queue_leave(tenon_queue *queue)
{
    uint64_t turn = atomic_load_explicit(&queue->turn, memory_order_relaxed);
    atomic_store_explicit(&queue->turn, turn + 1, memory_order_release);
}

/* Counts outputs of an operation on a link. Only the thread inside the queue's call writes. */
static inline void queue_count(tenon_queue *queue, const session_link *link, uint32_t operation,
                               uint32_t what, uint64_t outputs)
{
    _Atomic uint64_t *count = &queue->seats[link->index].counts[operation][what];
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + outputs,
                          memory_order_relaxed);
}

/* Waits until every call that is running now on a queue of the session is over. No lock of a
 * weight may be held. */
void queue_drain(tenon_session *session);
/* Makes a queue and puts it into the session's list. */
int32_t queue_make(tenon_session *session, tenon_queue **out, tenon_error *error);
/* Drops what is being recorded on a queue, if anything is (graph.c). */
void queue_drop_recording(tenon_queue *queue);
/* Takes a queue out of the list, closes what it opened and frees it. */
void queue_free(tenon_queue *queue);

#endif
