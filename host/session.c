/* Sessions: a chain of links, and the end of everything made in them. */
#include "border.h"
#include "buffer.h"
#include "cache.h"
#include "graph.h"
#include "host.h"
#include "policy.h"
#include "queue.h"
#include "registry.h"
#include "weight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t check_desc(const tenon_session_desc *desc, tenon_error *error)
{
    if (desc->reserved0 != 0 || desc->reserved1[0] != 0 || desc->reserved1[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL,
                          "a reserved field of tenon_session_desc is not zero");
    if ((desc->flags & ~TENON_SESSION_ALLOW_APPROX) != 0)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "tenon_session_desc.flags 0x%x has unknown bits", desc->flags);
    if (desc->arith > TENON_CLASS_A8)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "arith %u: a session is of class F32 or A8", desc->arith);
    return TENON_OK;
}

/* Frees a session without queues, weights, caches, buffers and graphs. */
static void free_session(tenon_session *session, uint32_t locks)
{
    uint32_t i;

    for (i = 0; i < locks; i++) pthread_mutex_destroy(&session->links[i].lock);
    pthread_mutex_destroy(&session->lock);
    free(session);
}

static int32_t make_session(tenon_host *host, const tenon_session_desc *desc, uint32_t mode,
                            const policy_chain *chain, tenon_session **out, tenon_error *error)
{
    size_t bytes = sizeof(tenon_session) + chain->count * sizeof(session_link);
    tenon_session *session = calloc(1, bytes);
    int32_t status = TENON_OK;
    uint32_t locks = 0, operation;

    if (session == NULL) return fail_memory(error, bytes, "no memory for a session");
    session->host = host;
    session->fork_mark = host->fork_mark;
    session->mode = mode;
    session->arith = desc->arith != 0 ? desc->arith : TENON_CLASS_F32;
    session->allow_approx = (desc->flags & TENON_SESSION_ALLOW_APPROX) != 0;
    if (pthread_mutex_init(&session->lock, NULL) != 0) {
        free(session);
        return fail_memory(error, sizeof session->lock, "no memory for a lock");
    }
    session->link_count = chain->count;
    for (; locks < chain->count; locks++) {
        session_link *link = &session->links[locks];
        link->device = chain->devices[locks];
        link->index = locks;
        for (operation = 0; operation < OPERATIONS; operation++)
            atomic_store_explicit(&link->operations[operation].limit, UINT64_MAX,
                                  memory_order_relaxed);
        if (pthread_mutex_init(&link->lock, NULL) != 0) {
            status = fail_memory(error, sizeof link->lock, "no memory for a lock");
            goto out;
        }
    }
    session->links[chain->count - 1]
        .final = strcmp(provider_id(session->links[chain->count - 1].device->provider),
                        REFERENCE_ID) == 0;
    status = queue_make(session, &session->own_queue, error);
out:
    if (status != TENON_OK) {
        free_session(session, locks);
        return status;
    }
    *out = session;
    return TENON_OK;
}

static void say_chain(const tenon_session *session)
{
    static const char *const modes[] = {"", "auto", "prefer", "pin"};
    char text[512];
    size_t used = 0;
    uint32_t i;

    for (i = 0; i < session->link_count && used < sizeof text; i++) {
        const host_device *device = session->links[i].device;
        int length = snprintf(text + used, sizeof text - used, "%s%s:%u", i > 0 ? "," : "",
                              provider_id(device->provider), device->index);
        if (length < 0) break;
        used += (size_t)length;
    }
    host_say(session->host, TENON_LOG_DEBUG, "session mode=%s chain=%s", modes[session->mode],
             text);
}

int32_t TENON_CALL tenon_session_create(tenon_host *host, const tenon_session_desc *desc,
                                        tenon_session **out, tenon_error *error)
{
    tenon_session_desc mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    policy_chain chain;
    uint32_t mode = 0;
    int32_t status = TENON_OK;

    if (host == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "host or out is NULL");
    *out = NULL;
    if (fork_guard_crossed(host->fork_mark)) return fail_forked(error);
    if (desc != NULL) status = struct_take(&mine, sizeof mine, desc, "tenon_session_desc", error);
    if (status == TENON_OK) status = check_desc(&mine, error);
    if (status == TENON_OK) status = policy_mode(mine.chain, mine.mode, &mode, error);
    if (status != TENON_OK) return status;
    pthread_mutex_lock(&host->lock);
    status = policy_resolve(host, mine.chain, mode, (mine.flags & TENON_SESSION_ALLOW_APPROX) != 0,
                            &chain, error);
    if (status == TENON_OK) status = make_session(host, &mine, mode, &chain, out, error);
    if (status == TENON_OK) host->session_count++;
    pthread_mutex_unlock(&host->lock);
    if (status == TENON_OK) say_chain(*out);
    return status;
}

void TENON_CALL tenon_session_destroy(tenon_session *session)
{
    tenon_host *host;
    tenon_queue *queue;

    if (session == NULL || fork_guard_crossed(session->fork_mark)) return;
    host = session->host;
    for (queue = session->queues; queue != NULL; queue = queue->next) queue_drop_recording(queue);
    while (session->graphs != NULL) graph_free(session->graphs);
    while (session->caches != NULL) cache_free(session->caches);
    while (session->buffers != NULL) buffer_free(session->buffers);
    while (session->weights != NULL) weight_free(session->weights);
    while (session->queues != NULL) queue_free(session->queues);
    free_session(session, session->link_count);
    pthread_mutex_lock(&host->lock);
    host->session_count--;
    pthread_mutex_unlock(&host->lock);
}

int32_t TENON_CALL tenon_session_link_count(tenon_session *session, uint64_t *count,
                                            tenon_error *error)
{
    if (session == NULL || count == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "session or count is NULL");
    if (fork_guard_crossed(session->fork_mark)) return fail_forked(error);
    *count = session->link_count;
    return TENON_OK;
}

static uint32_t link_state(const session_link *link, uint32_t reason)
{
    if (reason == 0) return TENON_LINK_ACTIVE;
    if (atomic_load(&link->device->provider->fault) != 0) return TENON_LINK_QUARANTINED;
    if (atomic_load(&link->device->lost) != 0 || atomic_load(&link->device->provider->lost) != 0)
        return TENON_LINK_LOST;
    return TENON_LINK_SET_ASIDE;
}

int32_t TENON_CALL tenon_session_link(tenon_session *session, uint64_t index, tenon_link_info *out,
                                      tenon_error *error)
{
    tenon_link_info mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    const session_link *link;
    int32_t status;

    if (session == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "session is NULL");
    if (fork_guard_crossed(session->fork_mark)) return fail_forked(error);
    status = struct_check_out(out, "tenon_link_info", error);
    if (status != TENON_OK) return status;
    if (index >= session->link_count)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, index,
                         session->link_count, "the chain has %u links", session->link_count);
    link = &session->links[index];
    mine.device = link->device->index;
    mine.reason = link_out(link);
    mine.state = link_state(link, mine.reason);
    mine.weights = atomic_load(&link->weights);
    mine.bytes = atomic_load(&link->bytes);
    snprintf(mine.provider, sizeof mine.provider, "%s", provider_id(link->device->provider));
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}
