#include "queue.h"

#include "border.h"
#include "counters.h"
#include "system.h"

#include <sched.h>
#include <stdlib.h>

/* Looks at a running call so often before it sleeps between looks. */
#define DRAIN_LOOKS 100u
#define DRAIN_SLEEP_US 100u

void queue_drain(tenon_session *session)
{
    tenon_queue *queue;

    pthread_mutex_lock(&session->lock);
    for (queue = session->queues; queue != NULL; queue = queue->next) {
        uint64_t turn = atomic_load(&queue->turn);
        uint32_t looks = 0;
        if ((turn & 1u) == 0) continue;
        while (atomic_load(&queue->turn) == turn) {
            if (++looks < DRAIN_LOOKS)
                sched_yield();
            else
                system_sleep_us(DRAIN_SLEEP_US);
        }
    }
    pthread_mutex_unlock(&session->lock);
}

int32_t queue_make(tenon_session *session, tenon_queue **out, tenon_error *error)
{
    size_t bytes = sizeof(tenon_queue) + session->link_count * sizeof(queue_seat);
    tenon_queue *queue = calloc(1, bytes);

    if (queue == NULL) return fail_memory(error, bytes, "no memory for a queue");
    queue->session = session;
    queue->fork_mark = session->fork_mark;
    queue->failure = (tenon_error)EMPTY_ERROR;
    queue->verdict = (tenon_error)EMPTY_ERROR;
    pthread_mutex_lock(&session->lock);
    queue->next = session->queues;
    session->queues = queue;
    pthread_mutex_unlock(&session->lock);
    *out = queue;
    return TENON_OK;
}

void queue_free(tenon_queue *queue)
{
    tenon_session *session = queue->session;
    tenon_queue **at;
    uint32_t i;

    queue_drop_recording(queue);
    pthread_mutex_lock(&session->lock);
    for (at = &session->queues; *at != queue; at = &(*at)->next) continue;
    *at = queue->next;
    counters_keep(queue);
    pthread_mutex_unlock(&session->lock);
    for (i = 0; i < session->link_count; i++)
        if (queue->seats[i].handle != NULL)
            border_queue_close(session->links[i].device, queue->seats[i].handle);
    free(queue);
}

tenon_queue *TENON_CALL tenon_session_queue(tenon_session *session)
{
    return session == NULL ? NULL : session->own_queue;
}

int32_t TENON_CALL tenon_queue_create(tenon_session *session, tenon_queue **out, tenon_error *error)
{
    if (session == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "session or out is NULL");
    *out = NULL;
    if (fork_guard_crossed(session->fork_mark)) return fail_forked(error);
    return queue_make(session, out, error);
}

void TENON_CALL tenon_queue_destroy(tenon_queue *queue)
{
    if (queue == NULL || fork_guard_crossed(queue->fork_mark)) return;
    if (queue == queue->session->own_queue) return; /* the session's: destroyed with it */
    queue_free(queue);
}
