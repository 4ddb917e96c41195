#include "slot.h"

#include "border.h"
#include "counters.h"
#include "failure.h"
#include "system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void slot_keep_verdict(tenon_error *verdict, const tenon_error *answer, bool final)
{
    if (!final && (verdict->status < 0 || (verdict->status != 0 && answer->status > 0))) return;
    *verdict = *answer;
}

void *slot_copy_aligned(const void *bytes, uint64_t count, uint64_t alignment, void **room)
{
    uint64_t total;
    uintptr_t at;

    *room = NULL;
    if (!tenon_add_u64(count, alignment, &total) || total > SIZE_MAX) return NULL;
    *room = malloc((size_t)total);
    if (*room == NULL) return NULL;
    at = ((uintptr_t)*room + (uintptr_t)alignment - 1) & ~((uintptr_t)alignment - 1);
    if (count > 0) memcpy((void *)at, bytes, (size_t)count);
    return (void *)at;
}

static bool below(const void *pointer, uint64_t alignment)
{
    return pointer != NULL && alignment > 1 && ((uintptr_t)pointer & (alignment - 1)) != 0;
}

/* Hands the bytes over, copied for the time of the call where they lie below the alignment. */
static int32_t prepare_bytes(tenon_weight *weight, weight_slot *slot, const tenon_weight_desc *desc,
                             uint64_t alignment, tenon_error *error)
{
    tenon_weight_data data = weight->data;
    void *weights_room = NULL, *scales_room = NULL;
    int32_t status;

    if (below(data.weights, alignment))
        data.weights = slot_copy_aligned(data.weights, data.weights_bytes, alignment,
                                         &weights_room);
    if (below(data.scales, alignment))
        data.scales = slot_copy_aligned(data.scales, data.scales_bytes, alignment, &scales_room);
    if (data.weights == NULL || (data.scales == NULL && weight->data.scales != NULL)) {
        status = tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY,
                                   TENON_SCOPE_WEIGHT, data.weights_bytes, 0,
                                   "no memory to align the bytes of a weight");
        goto out;
    }
    status = border_prepare(slot->link->device, desc, &data, &slot->prepared, error);
out:
    free(weights_room);
    free(scales_room);
    return status;
}

/* Asks in one class. */
static int32_t prepare_in_class(tenon_weight *weight, weight_slot *slot, uint32_t arith,
                                tenon_error *error)
{
    host_device *device = slot->link->device;
    tenon_weight_desc desc = weight->desc;
    tenon_qmatmul_support support;
    int32_t status;

    desc.arith = arith;
    if ((device->arith & TENON_CLASS_BIT(arith)) == 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_CLASS, TENON_SCOPE_WEIGHT,
                          "the device does not claim the class");
    status = border_supports(device, &desc, &support, error);
    if (status != TENON_OK) return status;
    status = prepare_bytes(weight, slot, &desc, support.alignment, error);
    if (status != TENON_OK) return status;
    slot->arith = arith;
    slot->bytes = support.prepared_bytes;
    return TENON_OK;
}

void slot_drop_copy_if_done(tenon_weight *weight)
{
    uint32_t i;

    if (weight->data.lifetime != TENON_LIFETIME_COPY) return;
    for (i = 0; i < weight->session->link_count; i++)
        if (weight->slots[i].prepared == NULL && weight->slots[i].refused == 0) return;
    free(weight->copy);
    weight->copy = NULL;
    weight->data.weights = NULL;
    weight->data.scales = NULL;
}

/* Prepares the weight on a link that has not been asked yet. */
static int32_t prepare(tenon_weight *weight, weight_slot *slot, tenon_error *error)
{
    session_link *link = slot->link;
    bool failed;
    int32_t status = prepare_in_class(weight, slot, weight->desc.arith, error);

    if (status == TENON_DECLINED && weight->session->allow_approx && link_out(link) == 0 &&
        (link->device->arith & TENON_CLASS_BIT(TENON_CLASS_APPROX)) != 0)
        status = prepare_in_class(weight, slot, TENON_CLASS_APPROX, error);
    if (status == TENON_OK) {
        atomic_fetch_add(&link->weights, 1);
        if (slot->bytes != TENON_UNKNOWN) atomic_fetch_add(&link->bytes, slot->bytes);
        if (weight->data.lifetime == TENON_LIFETIME_STABLE_FILE) {
            system_drop_clean_pages(weight->data.weights, weight->data.weights_bytes);
            system_drop_clean_pages(weight->data.scales, weight->data.scales_bytes);
        }
        return TENON_OK;
    }
    failed = status < 0;
    counters_object(link, OPERATION_QMATMUL, failed ? COUNT_FAILED : COUNT_DECLINED, error);
    link_name_answer(link, error);
    if (!link->final) { /* the last one may have better luck the next time */
        slot->refused = error->reason != 0 ? error->reason : TENON_REASON_CHAIN_DECLINED;
        if (failed) failure_in_prepare(link, error);
    }
    return status;
}

/* Why a slot is passed over without asking. */
static int32_t passed_over(const weight_slot *slot, uint64_t tokens, tenon_error *error)
{
    uint32_t reason = link_out(slot->link);
    uint64_t limit = atomic_load_explicit(&slot->limit, memory_order_relaxed);

    if (reason != 0)
        tenon_fail(error, TENON_STATE, reason, TENON_SCOPE_DEVICE, tenon_reason_text(reason));
    else if (slot->refused != 0)
        tenon_fail(error, TENON_DECLINED, slot->refused, TENON_SCOPE_WEIGHT,
                   tenon_reason_text(slot->refused));
    else
        fail_text(error, TENON_STATE, TENON_REASON_FAILED_BEFORE, TENON_SCOPE_WEIGHT, tokens, limit,
                  "failed before at %llu tokens", (unsigned long long)limit);
    link_name_answer(slot->link, error);
    return error->status;
}

/* Does the weight have a home that will go on? */
static bool home_good(const tenon_weight *weight)
{
    const weight_slot *home = atomic_load(&weight->home);
    return home != NULL && slot_open(home, 0);
}

int32_t slot_ready(tenon_weight *weight, weight_slot *slot, uint64_t tokens, tenon_error *error)
{
    int32_t status = TENON_OK;

    if (!slot_open(slot, tokens) || slot->refused != 0) return passed_over(slot, tokens, error);
    if (slot->prepared == NULL) status = prepare(weight, slot, error);
    if (status == TENON_OK) slot_drop_copy_if_done(weight);
    return status;
}

int32_t slot_find(tenon_weight *weight, uint32_t from, uint64_t tokens, weight_slot **out,
                  tenon_error *error)
{
    tenon_error verdict = EMPTY_ERROR;
    uint32_t i;

    *out = NULL;
    if (from >= weight->session->link_count)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_CHAIN_DECLINED, TENON_SCOPE_CALL,
                          "the chain has no further link");
    for (i = from; i < weight->session->link_count; i++) {
        weight_slot *slot = &weight->slots[i];
        tenon_error answer = EMPTY_ERROR;
        if (slot_ready(weight, slot, tokens, &answer) == TENON_OK) {
            /* a home that is no more is given up for good; one that only failed at this many
             * tokens stays */
            if (!weight->updating && !home_good(weight)) {
                atomic_store(&weight->home, slot);
                atomic_fetch_add(&weight->session->weight_epoch, 1);
            }
            *out = slot;
            if (slot->link->final && i > 0)
                failure_say_reference(weight->session, OPERATION_QMATMUL, &verdict);
            return TENON_OK;
        }
        slot_keep_verdict(&verdict, &answer, slot->link->final);
    }
    *error = verdict;
    return verdict.status;
}

void slot_release_all(tenon_weight *weight)
{
    uint32_t i;

    for (i = 0; i < weight->session->link_count; i++) {
        weight_slot *slot = &weight->slots[i];
        slot->refused = 0;
        atomic_store_explicit(&slot->limit, UINT64_MAX, memory_order_relaxed);
        if (slot->prepared == NULL) continue;
        border_release(slot->link->device, slot->prepared);
        slot->prepared = NULL;
        atomic_fetch_sub(&slot->link->weights, 1);
        if (slot->bytes != TENON_UNKNOWN) atomic_fetch_sub(&slot->link->bytes, slot->bytes);
    }
}
