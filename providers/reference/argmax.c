/* argmax_v1 of the reference: the first maximum of each row. */
#include "device.h"
#include "request.h"

static uint32_t argmax(const float *x, uint64_t width)
{
    uint32_t best = TENON_ARGMAX_NONE;
    uint64_t i;

    for (i = 0; i < width; i++) {
        if (x[i] != x[i]) continue; /* NaN never wins */
        if (best == TENON_ARGMAX_NONE || x[i] > x[best]) best = (uint32_t)i;
    }
    return best;
}

static void TENON_CALL run_token(void *context, uint64_t index, uint32_t worker)
{
    const tenon_argmax_call *call = context;
    uint32_t *y = (uint32_t *)(void *)((uint8_t *)call->y.host + call->y.offset);
    (void)worker;

    y[index] = argmax(reference_row(&call->x, call->x_row_stride, index), call->width);
}

static int32_t check_call(const struct tenon_device *device, const tenon_argmax_call *call,
                          tenon_error *error)
{
    int32_t status = reference_check_head(device, call, sizeof *call, "tenon_argmax_call", error);
    if (status != TENON_OK) return status;
    status = reference_check_zero(call->reserved0, sizeof call->reserved0,
                                  "tenon_argmax_call.reserved0", error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "tokens must be at least 1");
    if (call->width >= TENON_ARGMAX_NONE)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                                 call->width, TENON_ARGMAX_NONE - 1, "width");
    /* Rows of width 0 have no bytes, so x may be anything then. */
    if (call->width != 0) {
        status = reference_check_view(&call->x, call->x_row_stride, call->tokens, call->width, "x",
                                      error);
        if (status != TENON_OK) return status;
    }
    return reference_check_view(&call->y, 4, call->tokens, 1, "y", error);
}

static int32_t TENON_CALL run(struct tenon_device *device, struct tenon_device_queue *queue,
                              const tenon_argmax_call *call, tenon_error *error)
{
    const tenon_services *services;
    tenon_argmax_call copy;
    int32_t status = check_call(device, call, error);
    (void)queue;

    if (status != TENON_OK) return status;
    copy = *call;
    services = device->provider->services;
    services->parallel_for(services->host, call->tokens, run_token, &copy);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_argmax_v1, argmax_v1) = {
    TENON_HEAD(tenon_argmax_v1),
    .call_size = sizeof(tenon_argmax_call),
    .error_size = sizeof(tenon_error),
    .run = run,
};
