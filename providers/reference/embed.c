/* embed_v1 of the reference: rows of a prepared weight, decoded. */
#include "fma_exact.h"
#include "qmatmul.h"
#include "request.h"

#include <math.h>

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

static const uint32_t *ids_of(const tenon_embed_call *call)
{
    return (const uint32_t *)(const void *)((const uint8_t *)call->ids.host + call->ids.offset);
}

/* Input i of a segment as a weight. */
static float value_of(const reference_segment *segment, const tenon_format_info *info, uint32_t i)
{
    uint32_t b = i / segment->block;
    if (info->block_inputs == 1) return segment->q[i]; /* one value a block: no scale */
    if ((info->traits & TENON_TRAIT_MINIMA) != 0)
        return reference_fma(segment->s[b], segment->q[i], -segment->m[b]);
    return segment->s[b] * segment->q[i];
}

static void TENON_CALL run_token(void *context, uint64_t index, uint32_t worker)
{
    const tenon_embed_call *call = context;
    const reference_weight *weight = &((const tenon_prepared *)call->weight)->weight;
    float *y = reference_row_out(&call->y, call->y_row_stride, index);
    reference_segment segment;
    uint64_t first;
    uint32_t id = ids_of(call)[index], i;
    (void)worker;

    if (id >= weight->rows) { /* the 0xFFFFFFFF of an argmax over nothing stays visible */
        for (first = 0; first < weight->cols; first++) y[first] = NAN;
        return;
    }
    for (first = 0; first < weight->cols; first += segment.inputs) {
        reference_decode(weight, id, first, &segment);
        for (i = 0; i < segment.inputs; i++) {
            float value = value_of(&segment, &weight->info, i);
            y[first + i] = call->scale == 1.0f ? value : value * call->scale;
        }
    }
}

static int32_t check_call(const struct tenon_device *device, const tenon_embed_call *call,
                          tenon_error *error)
{
    const reference_weight *weight;
    int32_t status = reference_check_head(device, call, sizeof *call, "tenon_embed_call", error);

    if (status != TENON_OK) return status;
    status = reference_check_zero(&call->reserved0, sizeof call->reserved0,
                                  "tenon_embed_call.reserved0", error);
    if (status != TENON_OK) return status;
    status = reference_check_zero(call->reserved1, sizeof call->reserved1,
                                  "tenon_embed_call.reserved1", error);
    if (status != TENON_OK) return status;
    if (call->weight == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "weight");
    if (call->tokens == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "tokens must be at least 1");
    weight = &((const tenon_prepared *)call->weight)->weight;
    status = reference_check_view(&call->ids, 4, call->tokens, 1, "ids", error);
    if (status != TENON_OK) return status;
    return reference_check_view(&call->y, call->y_row_stride, call->tokens, weight->cols, "y",
                                error);
}

static int32_t TENON_CALL run(struct tenon_device *device, struct tenon_device_queue *queue,
                              const tenon_embed_call *call, tenon_error *error)
{
    const tenon_services *services;
    tenon_embed_call copy;
    int32_t status = check_call(device, call, error);
    (void)queue;

    if (status != TENON_OK) return status;
    copy = *call;
    services = device->provider->services;
    services->parallel_for(services->host, call->tokens, run_token, &copy);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_embed_v1, embed_v1) = {
    TENON_HEAD(tenon_embed_v1),
    .call_size = sizeof(tenon_embed_call),
    .error_size = sizeof(tenon_error),
    .run = run,
};
