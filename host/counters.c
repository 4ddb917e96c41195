#include "counters.h"

#include "operation.h"

#include <stdio.h>
#include <string.h>

static void remember(link_operation *at, const tenon_error *why)
{
    at->last_reason = why->reason;
    snprintf(at->last_text, sizeof at->last_text, "%.*s", (int)sizeof at->last_text - 1, why->text);
}

void counters_object(session_link *link, uint32_t operation, uint32_t what, const tenon_error *why)
{
    pthread_mutex_lock(&link->lock);
    link->operations[operation].counts[what]++;
    remember(&link->operations[operation], why);
    pthread_mutex_unlock(&link->lock);
}

void counters_remember(session_link *link, uint32_t operation, const tenon_error *why)
{
    pthread_mutex_lock(&link->lock);
    remember(&link->operations[operation], why);
    pthread_mutex_unlock(&link->lock);
}

void counters_keep(const tenon_queue *queue)
{
    tenon_session *session = queue->session;
    uint32_t i, operation, what;

    for (i = 0; i < session->link_count; i++) {
        session_link *link = &session->links[i];
        pthread_mutex_lock(&link->lock);
        for (operation = 0; operation < OPERATIONS; operation++)
            for (what = 0; what < COUNTS; what++)
                link->operations[operation].counts[what] += atomic_load_explicit(
                    &queue->seats[i].counts[operation][what], memory_order_relaxed);
        pthread_mutex_unlock(&link->lock);
    }
}

static int32_t check_session(const tenon_session *session, tenon_error *error)
{
    if (session == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "session is NULL");
    return fork_guard_crossed(session->fork_mark) ? fail_forked(error) : TENON_OK;
}

int32_t TENON_CALL tenon_session_counter_count(tenon_session *session, uint64_t *count,
                                               tenon_error *error)
{
    int32_t status = check_session(session, error);

    if (status != TENON_OK) return status;
    if (count == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "count is NULL");
    *count = (uint64_t)OPERATIONS * session->link_count;
    return TENON_OK;
}

int32_t TENON_CALL tenon_session_counter(tenon_session *session, uint64_t index, tenon_counter *out,
                                         tenon_error *error)
{
    tenon_counter mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    uint64_t counts[COUNTS], there;
    const link_operation *at;
    const tenon_queue *queue;
    session_link *link;
    uint32_t operation, what;
    int32_t status = check_session(session, error);

    if (status == TENON_OK) status = struct_check_out(out, "tenon_counter", error);
    if (status != TENON_OK) return status;
    there = (uint64_t)OPERATIONS * session->link_count;
    if (index >= there)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, index,
                         there, "there are %llu counters", (unsigned long long)there);
    operation = (uint32_t)(index / session->link_count);
    link = &session->links[index % session->link_count];
    at = &link->operations[operation];
    pthread_mutex_lock(&session->lock);
    pthread_mutex_lock(&link->lock);
    memcpy(counts, at->counts, sizeof counts);
    mine.last_reason = at->last_reason;
    memcpy(mine.last_text, at->last_text, sizeof mine.last_text);
    pthread_mutex_unlock(&link->lock);
    for (queue = session->queues; queue != NULL; queue = queue->next)
        for (what = 0; what < COUNTS; what++)
            counts[what] += atomic_load_explicit(&queue->seats[link->index].counts[operation][what],
                                                 memory_order_relaxed);
    pthread_mutex_unlock(&session->lock);
    snprintf(mine.operation, sizeof mine.operation, "%s", operation_name(operation));
    if (!operation_offered(link, operation))
        snprintf(mine.last_text, sizeof mine.last_text, "not offered");
    snprintf(mine.provider, sizeof mine.provider, "%s", provider_id(link->device->provider));
    mine.device = link->device->index;
    mine.calls = counts[COUNT_CALLS];
    mine.declined = counts[COUNT_DECLINED];
    mine.failed = counts[COUNT_FAILED];
    mine.fallbacks = counts[COUNT_FALLBACKS];
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}
