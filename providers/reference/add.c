/* add_v1 of the reference: one addition an element. */
#include "device.h"
#include "request.h"

#define VALUES_PER_UNIT 4096u

typedef struct job {
    const tenon_add_call *call;
    uint64_t units_per_token;
} job;

static void TENON_CALL run_unit(void *context, uint64_t index, uint32_t worker)
{
    const job *self = context;
    const tenon_add_call *call = self->call;
    uint64_t token = index / self->units_per_token;
    uint64_t i = index % self->units_per_token * VALUES_PER_UNIT;
    uint64_t end = call->width - i < VALUES_PER_UNIT ? call->width : i + VALUES_PER_UNIT;
    const float *a = reference_row(&call->a, call->a_row_stride, token);
    const float *b = reference_row(&call->b, call->b_row_stride, token);
    float *y = reference_row_out(&call->y, call->y_row_stride, token);
    (void)worker;

    for (; i < end; i++) y[i] = a[i] + b[i];
}

static int32_t check_call(const struct tenon_device *device, const tenon_add_call *call,
                          tenon_error *error)
{
    int32_t status = reference_check_head(device, call, sizeof *call, "tenon_add_call", error);
    if (status != TENON_OK) return status;
    status = reference_check_zero(call->reserved0, sizeof call->reserved0,
                                  "tenon_add_call.reserved0", error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0 || call->width == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "tokens and width must be at least 1");
    status = reference_check_view(&call->a, call->a_row_stride, call->tokens, call->width, "a",
                                  error);
    if (status != TENON_OK) return status;
    status = reference_check_view(&call->b, call->b_row_stride, call->tokens, call->width, "b",
                                  error);
    if (status != TENON_OK) return status;
    return reference_check_view(&call->y, call->y_row_stride, call->tokens, call->width, "y",
                                error);
}

static int32_t TENON_CALL run(struct tenon_device *device, struct tenon_device_queue *queue,
                              const tenon_add_call *call, tenon_error *error)
{
    const tenon_services *services;
    job self;
    int32_t status = check_call(device, call, error);
    (void)queue;

    if (status != TENON_OK) return status;
    self.call = call;
    self.units_per_token = tenon_ceil_div_u64(call->width, VALUES_PER_UNIT);
    services = device->provider->services;
    /* Cannot overflow: every value of y has bytes of its own. */
    services->parallel_for(services->host, call->tokens * self.units_per_token, run_unit, &self);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_add_v1, add_v1) = {
    TENON_HEAD(tenon_add_v1),
    .call_size = sizeof(tenon_add_call),
    .error_size = sizeof(tenon_error),
    .run = run,
};
