/* Caches of attention: where one is made, what is done on it, and what loses it.
 *
 * A cache is made on the first link of the chain that takes it and stays there. What a link does
 * not do on a cache nobody else can do in its place: a call on it that fails or is declined loses
 * the cache, as does everything that loses its link. From then on it answers TENON_LOST, and an
 * engine makes new ones, on what remains of the chain, and replays its history. */
#include "cache.h"

#include "border.h"
#include "buffer.h"
#include "counters.h"
#include "failure.h"
#include "graph.h"
#include "operation.h"
#include "queue.h"
#include "slot.h"

#include <stdlib.h>
#include <string.h>

static int32_t bad(tenon_error *error, uint32_t reason, const char *where, const char *text)
{
    return view_bad(error, reason, where, text);
}

/* ---- the description ---------------------------------------------------------------------- */

/* *bytes = count * sizeof(float). */
static bool floats(uint64_t count, uint64_t *bytes)
{
    return tenon_mul_u64(count, sizeof(float), bytes);
}

static int32_t check_rotation(const tenon_cache_desc *desc, tenon_error *error)
{
    uint64_t values, bytes;

    if (desc->pairing > TENON_ROPE_HALVES)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "pairing %u is not known", desc->pairing);
    if (desc->pairing == TENON_ROPE_NONE) {
        if (desc->rotary != 0 || desc->table != NULL || desc->table_bytes != 0)
            return bad(error, TENON_REASON_UNKNOWN_VALUE, "tenon_cache_desc",
                       "without a pairing nothing is rotated: rotary and table are 0");
        return TENON_OK;
    }
    if (desc->rotary == 0 || desc->rotary % 2 != 0 || desc->rotary > desc->head_size)
        return fail_text(error, TENON_ARG, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                         desc->rotary, desc->head_size,
                         "rotary: %u, an even number of the %llu inputs of a head", desc->rotary,
                         (unsigned long long)desc->head_size);
    if (!tenon_mul_u64(desc->capacity, desc->rotary, &values) || !floats(values, &bytes))
        return bad(error, TENON_REASON_OVERFLOW, "table", "capacity times rotary overflows");
    if (desc->table == NULL) return bad(error, TENON_REASON_NULL_POINTER, "table", "is NULL");
    if ((uintptr_t)desc->table % sizeof(float) != 0)
        return bad(error, TENON_REASON_ALIGNMENT, "table", "not aligned to 4 bytes");
    if (desc->table_bytes < bytes) return view_bad_bytes(error, "table", bytes, desc->table_bytes);
    if (desc->table_bytes > UINTPTR_MAX - (uintptr_t)desc->table)
        return bad(error, TENON_REASON_OVERFLOW, "table", "reaches past the last address");
    return TENON_OK;
}

/* Checks a description and gives the bytes of one position of k or v. */
static int32_t check_desc(const tenon_cache_desc *desc, uint64_t *row_bytes, tenon_error *error)
{
    uint64_t total;

    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "tenon_cache_desc",
                   "a reserved field is not zero (R7)");
    if (desc->kv_heads == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, "kv_heads", "at least 1");
    if (desc->head_size == 0)
        return bad(error, TENON_REASON_EMPTY_SHAPE, "head_size", "at least 1");
    if (desc->capacity == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, "capacity", "at least 1");
    if (desc->type != TENON_CACHE_F32 && desc->type != TENON_CACHE_F16)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "cache type %u is not known", desc->type);
    if ((desc->flags & ~TENON_CACHE_EVICTABLE) != 0)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "tenon_cache_desc.flags 0x%x has unknown bits", desc->flags);
    /* what a provider computes from the shape must not overflow: rows, and all k and v twice */
    if (!tenon_mul_u64(desc->kv_heads, desc->head_size, row_bytes) ||
        !floats(*row_bytes, row_bytes) || !tenon_mul_u64(*row_bytes, desc->capacity, &total) ||
        !tenon_mul_u64(total, 4, &total))
        return bad(error, TENON_REASON_OVERFLOW, "tenon_cache_desc",
                   "heads times head size times capacity overflows");
    return check_rotation(desc, error);
}

/* ---- what loses a cache ------------------------------------------------------------------- */

static int32_t answer_lost(const tenon_cache *cache, tenon_error *error)
{
    return fail_text(error, TENON_LOST, cache->why.reason, cache->why.scope, cache->why.wanted,
                     cache->why.available, "the cache is lost, replay its history: %s",
                     cache->why.text);
}

int32_t cache_alive(tenon_cache *cache, tenon_error *error)
{
    uint32_t reason = link_out(cache->link);

    if (!cache->lost && reason != 0) {
        cache->lost = true;
        tenon_fail(&cache->why, TENON_LOST, reason, TENON_SCOPE_DEVICE, tenon_reason_text(reason));
        link_name_answer(cache->link, &cache->why);
    }
    return cache->lost ? answer_lost(cache, error) : TENON_OK;
}

/* A call on the cache did not come out well: why says how. [cache.lock, serial per queue] */
static int32_t lose(tenon_queue *queue, tenon_cache *cache, tenon_error *why, tenon_error *error)
{
    session_link *link = cache->link;

    counters_remember(link, OPERATION_ATTENTION, why);
    queue_count(queue, link, OPERATION_ATTENTION,
                why->status == TENON_DECLINED ? COUNT_DECLINED : COUNT_FAILED, 1);
    failure_in_cache(link, why);
    link_name_answer(link, why);
    cache->lost = true;
    cache->why = *why;
    return answer_lost(cache, error);
}

/* ---- made and destroyed ------------------------------------------------------------------- */

/* An object without its handle. NULL: no memory, *error says so. */
static tenon_cache *make(tenon_session *session, const tenon_cache_desc *desc, uint64_t row_bytes,
                         tenon_error *error)
{
    tenon_cache *cache = calloc(1, sizeof *cache);

    if (cache == NULL || pthread_mutex_init(&cache->lock, NULL) != 0) {
        free(cache);
        fail_memory(error, sizeof *cache, "no memory for a cache");
        return NULL;
    }
    cache->session = session;
    cache->fork_mark = session->fork_mark;
    cache->desc = *desc;
    cache->desc.table = NULL;
    cache->desc.table_bytes = 0;
    cache->kv_row_bytes = row_bytes;
    cache->why = (tenon_error)EMPTY_ERROR;
    return cache;
}

static void dispose(tenon_cache *cache)
{
    if (cache->handle != NULL) border_cache_free(cache->link, cache->handle);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static void publish(tenon_cache *cache)
{
    tenon_session *session = cache->session;

    pthread_mutex_lock(&session->lock);
    cache->next = session->caches;
    cache->back = &session->caches;
    if (cache->next != NULL) cache->next->back = &cache->next;
    session->caches = cache;
    pthread_mutex_unlock(&session->lock);
}

void cache_free(tenon_cache *cache)
{
    tenon_session *session = cache->session;

    pthread_mutex_lock(&session->lock);
    *cache->back = cache->next;
    if (cache->next != NULL) cache->next->back = cache->back;
    pthread_mutex_unlock(&session->lock);
    queue_drain(session);
    dispose(cache);
}

void TENON_CALL tenon_cache_destroy(tenon_cache *cache)
{
    if (cache == NULL || fork_guard_crossed(cache->fork_mark)) return;
    cache_free(cache);
}

/* Asks one link for a cache. */
static int32_t ask(session_link *link, const tenon_cache_desc *desc, tenon_cache *cache,
                   tenon_error *error)
{
    int32_t status;

    if (!operation_open(link, OPERATION_ATTENTION, 0)) {
        uint32_t reason = link_out(link);
        if (reason == 0) reason = TENON_REASON_FAILED_BEFORE;
        tenon_fail(error, TENON_STATE, reason, TENON_SCOPE_DEVICE, tenon_reason_text(reason));
        link_name_answer(link, error);
        return TENON_STATE;
    }
    status = border_cache_create(link, desc, &cache->handle, error);
    if (status == TENON_OK) {
        cache->link = link;
        return TENON_OK;
    }
    counters_object(link, OPERATION_ATTENTION,
                    status == TENON_DECLINED ? COUNT_DECLINED : COUNT_FAILED, error);
    if (status != TENON_DECLINED) failure_in_create(link, error);
    link_name_answer(link, error);
    return status;
}

static int32_t create(tenon_session *session, const tenon_cache_desc *desc, tenon_cache *cache,
                      tenon_error *error)
{
    tenon_error verdict = EMPTY_ERROR, answer = EMPTY_ERROR;
    bool asked = false;
    uint32_t i;

    for (i = 0; i < session->link_count; i++) {
        session_link *link = &session->links[i];
        if (!operation_offered(link, OPERATION_ATTENTION)) continue;
        asked = true;
        if (ask(link, desc, cache, &answer) == TENON_OK) {
            if (link->final && i > 0) failure_say_reference(session, OPERATION_ATTENTION, &verdict);
            return TENON_OK;
        }
        slot_keep_verdict(&verdict, &answer, link->final);
    }
    return asked ? failure_nobody(&verdict, error)
                 : fail_text(error, TENON_DECLINED, TENON_REASON_CHAIN_DECLINED, TENON_SCOPE_CALL,
                             0, 0, "attention: no link of the chain offers it");
}

int32_t TENON_CALL tenon_cache_create(struct tenon_session *session, const tenon_cache_desc *desc,
                                      tenon_cache **out, tenon_error *error)
{
    tenon_cache_desc mine;
    tenon_cache *cache;
    uint64_t row_bytes = 0;
    int32_t status;

    if (session == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "session or out is NULL");
    *out = NULL;
    if (fork_guard_crossed(session->fork_mark)) return fail_forked(error);
    status = struct_take(&mine, sizeof mine, desc, "tenon_cache_desc", error);
    if (status == TENON_OK) status = check_desc(&mine, &row_bytes, error);
    if (status != TENON_OK) return status;
    cache = make(session, &mine, row_bytes, error);
    if (cache == NULL) return TENON_NOMEM;
    status = create(session, &mine, cache, error);
    if (status != TENON_OK) {
        dispose(cache);
        return status;
    }
    publish(cache);
    *out = cache;
    return TENON_OK;
}

/* ---- questions ---------------------------------------------------------------------------- */

static int32_t check_question(const tenon_cache *cache, const void *out, tenon_error *error)
{
    if (cache == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "cache or the answer is NULL");
    return fork_guard_crossed(cache->fork_mark) ? fail_forked(error) : TENON_OK;
}

int32_t TENON_CALL tenon_cache_length(tenon_cache *cache, uint64_t *length, tenon_error *error)
{
    tenon_error answer = EMPTY_ERROR;
    uint64_t told = 0;
    int32_t status = check_question(cache, length, error);

    if (status != TENON_OK) return status;
    pthread_mutex_lock(&cache->lock);
    status = cache_alive(cache, error);
    if (status != TENON_OK) goto out;
    status = border_cache_length(cache->link, cache->handle, &told, &answer);
    if (status == TENON_OK && told != cache->length) {
        border_broke(cache->link->device->provider, "length differs from what was appended");
        status = cache_alive(cache, error);
        goto out;
    }
    if (status == TENON_OK)
        *length = told;
    else
        status = fail_text(error, status, answer.reason, answer.scope, answer.wanted,
                           answer.available, "%s", answer.text);
out:
    pthread_mutex_unlock(&cache->lock);
    return status;
}

int32_t TENON_CALL tenon_cache_bytes(tenon_cache *cache, uint64_t *bytes, tenon_error *error)
{
    tenon_error answer = EMPTY_ERROR;
    uint64_t told = 0;
    int32_t status = check_question(cache, bytes, error);

    if (status != TENON_OK) return status;
    pthread_mutex_lock(&cache->lock);
    status = cache_alive(cache, error);
    if (status == TENON_OK) {
        status = border_cache_bytes(cache->link, cache->handle, &told, &answer);
        if (status == TENON_OK)
            *bytes = told;
        else
            status = fail_text(error, status, answer.reason, answer.scope, answer.wanted,
                               answer.available, "%s", answer.text);
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

/* ---- calls on a queue --------------------------------------------------------------------- */

/* Locks a cache for a call on the queue; both are of one session, and it is there. TENON_OK:
 * unlocking must follow. */
static int32_t open_cache(const tenon_queue *queue, tenon_cache *cache, tenon_error *error)
{
    int32_t status;

    if (cache == NULL) return bad(error, TENON_REASON_NULL_POINTER, "cache", "is NULL");
    if (cache->session != queue->session)
        return bad(error, TENON_REASON_UNKNOWN_VALUE, "cache", "belongs to another session");
    pthread_mutex_lock(&cache->lock);
    status = cache_alive(cache, error);
    if (status != TENON_OK) pthread_mutex_unlock(&cache->lock);
    return status;
}

/* Begins a call of the engine on a queue. */
static int32_t enter_queue(tenon_queue *queue, tenon_error *error)
{
    if (queue == NULL) return bad(error, TENON_REASON_NULL_POINTER, "queue", "is NULL");
    if (fork_guard_crossed(queue->fork_mark)) return fail_forked(error);
    if (!queue_enter(queue))
        return tenon_fail(error, TENON_STATE, TENON_REASON_IN_USE, TENON_SCOPE_CALL,
                          "another thread is in a call on this queue");
    return TENON_OK;
}

/* What every change of a cache begins with: nothing is recorded, and the cache is locked and there.
 * TENON_OK: leave must follow. */
static int32_t enter(tenon_queue *queue, tenon_cache *cache, tenon_error *error)
{
    int32_t status = enter_queue(queue, error);

    if (status != TENON_OK) return status;
    status = graph_check_idle(queue, error);
    if (status == TENON_OK) status = open_cache(queue, cache, error);
    if (status != TENON_OK) queue_leave(queue);
    return status;
}

static void leave(tenon_queue *queue, tenon_cache *cache)
{
    pthread_mutex_unlock(&cache->lock);
    queue_leave(queue);
}

int32_t TENON_CALL tenon_cache_truncate(struct tenon_queue *queue, tenon_cache *cache,
                                        uint64_t length, tenon_error *error)
{
    int32_t status = enter(queue, cache, error);

    if (status != TENON_OK) return status;
    if (length > cache->length) {
        status = fail_text(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL, length,
                           cache->length, "truncate to %llu, the cache holds %llu positions",
                           (unsigned long long)length, (unsigned long long)cache->length);
        goto out;
    }
    status = border_cache_truncate(queue, cache->link, cache->handle, length, &queue->failure);
    if (status == TENON_OK)
        cache->length = length;
    else
        status = lose(queue, cache, &queue->failure, error);
out:
    leave(queue, cache);
    return status;
}

int32_t TENON_CALL tenon_cache_evict(struct tenon_queue *queue, tenon_cache *cache, uint64_t first,
                                     uint64_t count, tenon_error *error)
{
    int32_t status = enter(queue, cache, error);

    if (status != TENON_OK) return status;
    if ((cache->desc.flags & TENON_CACHE_EVICTABLE) == 0) {
        status = tenon_fail(error, TENON_STATE, TENON_REASON_NOT_EVICTABLE, TENON_SCOPE_CALL,
                            "the cache was made without TENON_CACHE_EVICTABLE");
        goto out;
    }
    if (first > cache->length || count > cache->length - first) {
        status = fail_text(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL, count,
                           cache->length, "evict %llu from %llu on, the cache holds %llu positions",
                           (unsigned long long)count, (unsigned long long)first,
                           (unsigned long long)cache->length);
        goto out;
    }
    if (count == 0) goto out;
    status = border_cache_evict(queue, cache->link, cache->handle, first, count, &queue->failure);
    if (status == TENON_OK)
        cache->length -= count;
    else
        status = lose(queue, cache, &queue->failure, error);
out:
    leave(queue, cache);
    return status;
}

int32_t TENON_CALL tenon_cache_clone(struct tenon_queue *queue, tenon_cache *cache,
                                     tenon_cache **out, tenon_error *error)
{
    tenon_cache *copy = NULL;
    int32_t status;

    if (out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "out is NULL");
    *out = NULL;
    status = enter(queue, cache, error);
    if (status != TENON_OK) return status;
    copy = make(cache->session, &cache->desc, cache->kv_row_bytes, error);
    if (copy == NULL) {
        status = TENON_NOMEM;
        goto out;
    }
    copy->link = cache->link;
    copy->length = cache->length;
    status = border_cache_clone(queue, cache->link, cache->handle, &copy->handle, &queue->failure);
    if (status == TENON_OK) goto out;
    /* the original is as it was, unless its link is gone, which the next call on it notices */
    counters_object(cache->link, OPERATION_ATTENTION, COUNT_FAILED, &queue->failure);
    failure_in_create(cache->link, &queue->failure);
    link_name_answer(cache->link, &queue->failure);
    status = fail_text(error, status, queue->failure.reason, queue->failure.scope,
                       queue->failure.wanted, queue->failure.available, "%s", queue->failure.text);
out:
    leave(queue, cache);
    if (status == TENON_OK) {
        publish(copy);
        *out = copy;
    } else if (copy != NULL) {
        dispose(copy);
    }
    return status;
}

/* A buffer of the call could not be had on the cache's link: the call has not been made. */
static int32_t not_moved(tenon_cache *cache, transfer_result result, const tenon_error *why,
                         tenon_error *error)
{
    int32_t status;

    if (result == TRANSFER_FAILED) return fail_again(why, error);
    status = cache_alive(cache, error); /* the link is gone, and the cache with it */
    return status != TENON_OK ? status : fail_again(why, error);
}

static int32_t check_append(const tenon_cache *cache, const tenon_append_call *call, bool recorded,
                            byte_rows *k, byte_rows *v, tenon_error *error)
{
    uint64_t held;
    int32_t status;

    if (call->reserved0[0] != 0 || call->reserved0[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "tenon_append_call",
                   "a reserved field is not zero (R7)");
    if (call->tokens == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, "tokens", "at least 1");
    status = view_check(cache->session, &call->k, call->tokens, cache->kv_row_bytes,
                        call->k_row_stride, "k", k, error);
    if (status == TENON_OK)
        status = view_check(cache->session, &call->v, call->tokens, cache->kv_row_bytes,
                            call->v_row_stride, "v", v, error);
    if (status != TENON_OK) return status;
    /* what is recorded is appended at a launch, which looks at the length of then */
    held = recorded ? cache->recorded : cache->length;
    if (call->tokens > cache->desc.capacity - held)
        return fail_text(error, TENON_ARG, TENON_REASON_CAPACITY, TENON_SCOPE_CALL, call->tokens,
                         cache->desc.capacity - held,
                         "%llu positions more, the cache holds %llu of %llu",
                         (unsigned long long)call->tokens, (unsigned long long)held,
                         (unsigned long long)cache->desc.capacity);
    return TENON_OK;
}

int32_t cache_append(tenon_queue *queue, const tenon_append_call *theirs, tenon_error *error)
{
    tenon_append_call placed = *theirs;
    tenon_cache *cache = theirs->cache;
    byte_rows k, v;
    transfer_result result;
    int32_t status = open_cache(queue, cache, error);

    if (status != TENON_OK) return status;
    status = check_append(cache, theirs, queue->capture != NULL, &k, &v, error);
    if (status != TENON_OK) goto out;
    if (queue->capture != NULL) {
        status = graph_record_append(queue, theirs, &k, &v, error);
        goto out;
    }
    placed.cache = cache->handle;
    result = transfer_in(queue, cache->link, &theirs->k, &k, &placed.k, &queue->failure);
    if (result == TRANSFER_OK)
        result = transfer_in(queue, cache->link, &theirs->v, &v, &placed.v, &queue->failure);
    if (result != TRANSFER_OK) {
        status = not_moved(cache, result, &queue->failure, error);
        goto out;
    }
    status = border_cache_append(queue, cache->link, &placed, &queue->failure);
    if (status == TENON_OK)
        cache->length += placed.tokens;
    else
        status = lose(queue, cache, &queue->failure, error);
out:
    pthread_mutex_unlock(&cache->lock);
    return status;
}

int32_t TENON_CALL tenon_append(struct tenon_queue *queue, const tenon_append_call *call,
                                tenon_error *error)
{
    tenon_append_call mine;
    int32_t status = struct_take(&mine, sizeof mine, call, "tenon_append_call", error);

    if (status == TENON_OK) status = enter_queue(queue, error);
    if (status != TENON_OK) return status;
    status = cache_append(queue, &mine, error);
    queue_leave(queue);
    return status;
}

static int32_t check_attention(const tenon_cache *cache, const tenon_attention_call *call,
                               uint64_t length, byte_rows *q, byte_rows *y, tenon_error *error)
{
    uint64_t row;
    int32_t status;

    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "tenon_attention_call",
                   "a reserved field is not zero (R7)");
    if (call->tokens == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, "tokens", "at least 1");
    if (call->tokens > length)
        return fail_text(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL, call->tokens,
                         length, "%llu rows, the cache holds %llu positions",
                         (unsigned long long)call->tokens, (unsigned long long)length);
    if (call->heads == 0 || call->heads % cache->desc.kv_heads != 0)
        return fail_text(error, TENON_ARG, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                         call->heads, cache->desc.kv_heads,
                         "heads: %llu, a multiple of the %llu key-value heads",
                         (unsigned long long)call->heads, (unsigned long long)cache->desc.kv_heads);
    if (!tenon_mul_u64(call->heads, cache->desc.head_size, &row) || !floats(row, &row))
        return bad(error, TENON_REASON_OVERFLOW, "heads", "a row of floats overflows");
    status = view_check(cache->session, &call->q, call->tokens, row, call->q_row_stride, "q", q,
                        error);
    if (status == TENON_OK)
        status = view_check(cache->session, &call->y, call->tokens, row, call->y_row_stride, "y", y,
                            error);
    if (status != TENON_OK) return status;
    if (byte_rows_overlap(q, y)) return bad(error, TENON_REASON_OVERLAP, "y", "overlaps q (R12)");
    return TENON_OK;
}

int32_t cache_attend(tenon_queue *queue, const tenon_attention_call *theirs, tenon_error *error)
{
    tenon_attention_call placed = *theirs;
    tenon_cache *cache = theirs->cache;
    byte_rows q, y;
    transfer_result result;
    int32_t status = open_cache(queue, cache, error);

    if (status != TENON_OK) return status;
    status = check_attention(cache, theirs,
                             cache->length + (queue->capture != NULL ? cache->recorded : 0), &q, &y,
                             error);
    if (status != TENON_OK) goto out;
    if (queue->capture != NULL) {
        status = graph_record_attention(queue, theirs, &q, &y, error);
        goto out;
    }
    placed.cache = cache->handle;
    result = transfer_in(queue, cache->link, &theirs->q, &q, &placed.q, &queue->failure);
    if (result == TRANSFER_OK)
        result = transfer_out(queue, cache->link, &theirs->y, &y, &placed.y, &queue->failure);
    if (result != TRANSFER_OK) {
        status = not_moved(cache, result, &queue->failure, error);
        goto out;
    }
    status = border_cache_run(queue, cache->link, &placed, &queue->failure);
    if (status != TENON_OK) {
        transfer_spoiled(cache->link, &theirs->y, &placed.y);
        status = lose(queue, cache, &queue->failure, error);
        goto out;
    }
    transfer_written(cache->link, &theirs->y, &y, &placed.y);
    queue_count(queue, cache->link, OPERATION_ATTENTION, COUNT_CALLS, 1);
    if (cache->link->index > 0)
        queue_count(queue, cache->link, OPERATION_ATTENTION, COUNT_FALLBACKS, 1);
out:
    pthread_mutex_unlock(&cache->lock);
    return status;
}

int32_t TENON_CALL tenon_attention(struct tenon_queue *queue, const tenon_attention_call *call,
                                   tenon_error *error)
{
    tenon_attention_call mine;
    int32_t status = struct_take(&mine, sizeof mine, call, "tenon_attention_call", error);

    if (status == TENON_OK) status = enter_queue(queue, error);
    if (status != TENON_OK) return status;
    status = cache_attend(queue, &mine, error);
    queue_leave(queue);
    return status;
}
