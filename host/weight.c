#include "weight.h"

#include "queue.h"
#include "slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Alignment of the host's own copies: what any provider so far could ask for. */
#define COPY_ALIGNMENT 64u

/* Identities are never reused within a process. */
static _Atomic uint64_t last_identity;

uint32_t weight_class(uint32_t session_arith, uint32_t format)
{
    tenon_format_info info;
    if (session_arith == TENON_CLASS_A8 && tenon_format_find(format, &info) &&
        (info.traits & TENON_TRAIT_FLOATS) == 0)
        return TENON_CLASS_A8;
    return TENON_CLASS_F32;
}

static int32_t bad(tenon_error *error, uint32_t reason, const char *text)
{
    return tenon_fail(error, TENON_ARG, reason, TENON_SCOPE_CALL, text);
}

int32_t weight_take_desc(const tenon_weight_desc *theirs, tenon_weight_desc *desc,
                         uint64_t *weights_bytes, uint64_t *scales_bytes, tenon_error *error)
{
    tenon_format_info info;
    uint64_t bytes;
    uint32_t reason = 0;
    int32_t status = struct_take(desc, sizeof *desc, theirs, "tenon_weight_desc", error);

    if (status != TENON_OK) return status;
    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "tenon_weight_desc.reserved0 is not zero");
    if (desc->arith != 0)
        return bad(error, TENON_REASON_UNKNOWN_VALUE,
                   "tenon_weight_desc.arith is not zero: the session and the format decide");
    if (desc->semantic > TENON_SEM_LAST)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "semantic %u is not known", desc->semantic);
    if (tenon_weight_bytes(desc, weights_bytes, scales_bytes, &reason) != TENON_OK)
        return fail_text(error, TENON_ARG, reason, TENON_SCOPE_CALL, 0, 0,
                         "%s: %s (format %u, layout %u, group %llu, %llu rows of %llu)",
                         tenon_format_find(desc->format, &info) ? info.text : "weight",
                         tenon_reason_text(reason), desc->format, desc->layout,
                         (unsigned long long)desc->group_size, (unsigned long long)desc->rows,
                         (unsigned long long)desc->cols);
    if (!tenon_mul_u64(desc->rows, sizeof(float), &bytes) ||
        !tenon_mul_u64(desc->cols, sizeof(float), &bytes))
        return bad(error, TENON_REASON_OVERFLOW, "rows or inputs of floats overflow");
    return TENON_OK;
}

/* Does [pointer, pointer + bytes) wrap? */
static bool wraps(const void *pointer, uint64_t bytes)
{
    return bytes > UINTPTR_MAX - (uintptr_t)pointer;
}

static int32_t take_data(const tenon_weight_data *theirs, uint64_t weights_bytes,
                         uint64_t scales_bytes, tenon_weight_data *data, tenon_error *error)
{
    int32_t status = struct_take(data, sizeof *data, theirs, "tenon_weight_data", error);

    if (status != TENON_OK) return status;
    if (data->reserved0 != 0 || data->reserved1[0] != 0 || data->reserved1[1] != 0)
        return bad(error, TENON_REASON_RESERVED,
                   "a reserved field of tenon_weight_data is not zero");
    if (data->identity != 0 || data->generation != 0)
        return bad(error, TENON_REASON_UNKNOWN_VALUE,
                   "identity and generation are the host's to give");
    if (data->lifetime < TENON_LIFETIME_STABLE || data->lifetime > TENON_LIFETIME_COPY)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "lifetime %u is not known", data->lifetime);
    if (data->side != NULL || data->side_bytes != 0)
        return bad(error, TENON_REASON_UNKNOWN_VALUE, "no format has a side table");
    if (data->weights == NULL || (data->scales == NULL && scales_bytes > 0))
        return bad(error, TENON_REASON_NULL_POINTER, "weights or scales is NULL");
    if (scales_bytes == 0 && (data->scales != NULL || data->scales_bytes != 0))
        return bad(error, TENON_REASON_UNKNOWN_VALUE, "the format has no separate scales");
    if (data->weights_bytes < weights_bytes)
        return fail_text(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                         weights_bytes, data->weights_bytes,
                         "weights: the shape needs %llu bytes, "
                         "%llu are given",
                         (unsigned long long)weights_bytes,
                         (unsigned long long)data->weights_bytes);
    if (data->scales_bytes < scales_bytes)
        return fail_text(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                         scales_bytes, data->scales_bytes,
                         "scales: the shape needs %llu bytes, "
                         "%llu are given",
                         (unsigned long long)scales_bytes, (unsigned long long)data->scales_bytes);
    if (wraps(data->weights, data->weights_bytes) || wraps(data->scales, data->scales_bytes))
        return bad(error, TENON_REASON_OVERFLOW, "weights or scales reach past the last address");
    return TENON_OK;
}

/* Takes a copy of both arrays when a link may still ask for them; the engine's memory is not ours
 * after the call. */
static int32_t keep_copy(tenon_weight *weight, uint64_t weights_bytes, uint64_t scales_bytes,
                         tenon_error *error)
{
    uint64_t scales_at, total;
    unsigned char *bytes;

    slot_drop_copy_if_done(weight);
    if (weight->data.weights == NULL) return TENON_OK;
    if (!tenon_add_u64(weights_bytes, COPY_ALIGNMENT - 1, &scales_at)) goto none;
    scales_at -= scales_at % COPY_ALIGNMENT;
    if (!tenon_add_u64(scales_at, scales_bytes, &total)) goto none;
    if (!tenon_add_u64(total, COPY_ALIGNMENT, &total) || total > SIZE_MAX) goto none;
    total -= total % COPY_ALIGNMENT; /* aligned_alloc wants whole multiples */
    weight->copy = aligned_alloc(COPY_ALIGNMENT, (size_t)total);
    if (weight->copy == NULL) goto none;
    bytes = weight->copy;
    memcpy(bytes, weight->data.weights, (size_t)weights_bytes);
    weight->data.weights = bytes;
    weight->data.weights_bytes = weights_bytes;
    if (scales_bytes > 0) {
        memcpy(bytes + scales_at, weight->data.scales, (size_t)scales_bytes);
        weight->data.scales = bytes + scales_at;
        weight->data.scales_bytes = scales_bytes;
    }
    return TENON_OK;
none:
    return fail_memory(error, weights_bytes, "no memory to keep a copy of a weight");
}

/* Gives a caller what the links answered: refusals of the whole chain are one of their own. */
static int32_t answer(const tenon_error *verdict, tenon_error *error)
{
    if (verdict->status == TENON_DECLINED)
        return fail_text(error, TENON_DECLINED, TENON_REASON_CHAIN_DECLINED, TENON_SCOPE_WEIGHT,
                         verdict->wanted, verdict->available, "every link declined: %s",
                         verdict->text);
    return fail_text(error, verdict->status, verdict->reason, verdict->scope, verdict->wanted,
                     verdict->available, "%s", verdict->text);
}

static void append(tenon_weight *weight)
{
    tenon_session *session = weight->session;

    pthread_mutex_lock(&session->lock);
    weight->next = session->weights;
    weight->back = &session->weights;
    if (weight->next != NULL) weight->next->back = &weight->next;
    session->weights = weight;
    pthread_mutex_unlock(&session->lock);
}

/* Frees a weight that is in no list. */
static void dispose(tenon_weight *weight)
{
    slot_release_all(weight);
    free(weight->copy);
    pthread_mutex_destroy(&weight->lock);
    free(weight);
}

int32_t TENON_CALL tenon_weight_create(tenon_session *session, const tenon_weight_desc *desc,
                                       const tenon_weight_data *data, tenon_weight **out,
                                       tenon_error *error)
{
    tenon_error verdict = EMPTY_ERROR;
    tenon_weight_desc mine;
    tenon_weight_data bytes;
    tenon_weight *weight;
    weight_slot *slot;
    uint64_t weights_bytes, scales_bytes;
    size_t size;
    uint32_t i;
    int32_t status;

    if (session == NULL || out == NULL)
        return bad(error, TENON_REASON_NULL_POINTER, "session or out is NULL");
    *out = NULL;
    if (fork_guard_crossed(session->fork_mark)) return fail_forked(error);
    status = weight_take_desc(desc, &mine, &weights_bytes, &scales_bytes, error);
    if (status == TENON_OK) status = take_data(data, weights_bytes, scales_bytes, &bytes, error);
    if (status != TENON_OK) return status;

    size = sizeof *weight + session->link_count * sizeof *slot;
    weight = calloc(1, size);
    if (weight == NULL) return fail_memory(error, size, "no memory for a weight");
    if (pthread_mutex_init(&weight->lock, NULL) != 0) {
        free(weight);
        return fail_memory(error, sizeof weight->lock, "no memory for a lock");
    }
    weight->session = session;
    weight->fork_mark = session->fork_mark;
    weight->desc = mine;
    weight->desc.arith = weight_class(session->arith, mine.format);
    weight->y_row_bytes = mine.rows * sizeof(float);
    weight->x_row_bytes = mine.cols * sizeof(float);
    weight->data = bytes;
    weight->data.identity = atomic_fetch_add(&last_identity, 1) + 1;
    weight->data.generation = 1;
    for (i = 0; i < session->link_count; i++) {
        weight->slots[i].link = &session->links[i];
        atomic_store_explicit(&weight->slots[i].limit, UINT64_MAX, memory_order_relaxed);
    }
    pthread_mutex_lock(&weight->lock);
    status = slot_find(weight, 0, 0, &slot, &verdict);
    if (status != TENON_OK)
        status = answer(&verdict, error);
    else if (bytes.lifetime == TENON_LIFETIME_COPY)
        status = keep_copy(weight, weights_bytes, scales_bytes, error);
    pthread_mutex_unlock(&weight->lock);
    if (status != TENON_OK) {
        dispose(weight);
        return status;
    }
    append(weight);
    *out = weight;
    return TENON_OK;
}

void weight_free(tenon_weight *weight)
{
    tenon_session *session = weight->session;

    atomic_store(&weight->home, NULL);
    atomic_fetch_add(&session->weight_epoch, 1);
    pthread_mutex_lock(&session->lock);
    *weight->back = weight->next;
    if (weight->next != NULL) weight->next->back = weight->back;
    pthread_mutex_unlock(&session->lock);
    queue_drain(session);
    dispose(weight);
}

void TENON_CALL tenon_weight_destroy(tenon_weight *weight)
{
    if (weight == NULL || fork_guard_crossed(weight->fork_mark)) return;
    pthread_mutex_lock(&weight->lock);
    weight->updating = true; /* a call that is looking for a link must not give it a home again */
    pthread_mutex_unlock(&weight->lock);
    weight_free(weight);
}

static int32_t check_weight(const tenon_weight *weight, tenon_error *error)
{
    if (weight == NULL) return bad(error, TENON_REASON_NULL_POINTER, "weight is NULL");
    return fork_guard_crossed(weight->fork_mark) ? fail_forked(error) : TENON_OK;
}

int32_t TENON_CALL tenon_weight_begin_update(tenon_weight *weight, tenon_error *error)
{
    int32_t status = check_weight(weight, error);
    bool begun;

    if (status != TENON_OK) return status;
    if (weight->data.lifetime == TENON_LIFETIME_COPY)
        return bad(error, TENON_REASON_UNKNOWN_VALUE,
                   "a weight of lifetime COPY has no bytes to change in place");
    pthread_mutex_lock(&weight->lock);
    begun = weight->updating;
    weight->updating = true;
    if (!begun) {
        atomic_store(&weight->home, NULL);
        atomic_fetch_add(&weight->session->weight_epoch, 1);
    }
    pthread_mutex_unlock(&weight->lock);
    if (begun)
        return tenon_fail(error, TENON_STATE, TENON_REASON_UPDATING, TENON_SCOPE_WEIGHT,
                          "the weight is being updated already");
    queue_drain(weight->session);
    return TENON_OK;
}

int32_t TENON_CALL tenon_weight_end_update(tenon_weight *weight, tenon_error *error)
{
    tenon_error verdict = EMPTY_ERROR;
    weight_slot *slot;
    int32_t status = check_weight(weight, error);

    if (status != TENON_OK) return status;
    pthread_mutex_lock(&weight->lock);
    if (!weight->updating) {
        status = tenon_fail(error, TENON_STATE, TENON_REASON_NOT_OPEN, TENON_SCOPE_WEIGHT,
                            "no update has begun");
        goto out;
    }
    slot_release_all(weight);
    weight->data.generation++;
    weight->updating = false;
    status = slot_find(weight, 0, 0, &slot, &verdict);
    if (status != TENON_OK) { /* still begun: the engine may try again */
        weight->updating = true;
        status = answer(&verdict, error);
    }
out:
    pthread_mutex_unlock(&weight->lock);
    return status;
}

int32_t TENON_CALL tenon_weight_info(tenon_weight *weight, tenon_weight_information *out,
                                     tenon_error *error)
{
    tenon_weight_information mine = {.struct_size = sizeof mine,
                                     .abi_version = TENON_ABI_VERSION,
                                     .prepared_bytes = TENON_UNKNOWN};
    const weight_slot *home;
    int32_t status = check_weight(weight, error);

    if (status == TENON_OK) status = struct_check_out(out, "tenon_weight_information", error);
    if (status != TENON_OK) return status;
    pthread_mutex_lock(&weight->lock);
    mine.arith = weight->desc.arith;
    mine.identity = weight->data.identity;
    mine.generation = weight->data.generation;
    home = atomic_load(&weight->home);
    if (home != NULL) {
        mine.arith = home->arith;
        mine.device = home->link->device->index;
        mine.prepared_bytes = home->bytes;
        snprintf(mine.provider, sizeof mine.provider, "%s",
                 provider_id(home->link->device->provider));
    }
    pthread_mutex_unlock(&weight->lock);
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}
