/* rmsnorm_v1 of the reference: SPEC.md 2.4 as it stands there. */
#include <math.h>

#include "device.h"
#include "request.h"
#include "sums.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define LARGEST_WIDTH ((UINT64_C(1) << 24) - 1) /* the count of inputs is exact in binary32 */

static void normalise(const float *x, const float *w, uint64_t n, float eps, float *y)
{
    float v = reference_dot16(x, x, n) / (float)n + eps;
    float r = v == 0.0f ? 0.0f : 1.0f / sqrtf(v); /* IEEE 754 square root: correctly rounded */
    uint64_t i;
    for (i = 0; i < n; i++) y[i] = x[i] * r * w[i];
}

static void TENON_CALL run_group(void *context, uint64_t index, uint32_t worker)
{
    const tenon_rmsnorm_call *call = context;
    uint64_t token = index / call->groups, first = index % call->groups * call->width;
    const float *w = reference_row(&call->w, 0, 0);
    (void)worker;

    normalise(reference_row(&call->x, call->x_row_stride, token) + first, w, call->width, call->eps,
              reference_row_out(&call->y, call->y_row_stride, token) + first);
}

static int32_t check_call(const struct tenon_device *device, const tenon_rmsnorm_call *call,
                          tenon_error *error)
{
    uint64_t row;
    int32_t status = reference_check_head(device, call, sizeof *call, "tenon_rmsnorm_call", error);
    if (status != TENON_OK) return status;
    status = reference_check_zero(call->reserved1, sizeof call->reserved1,
                                  "tenon_rmsnorm_call.reserved1", error);
    if (status != TENON_OK) return status;
    status = reference_check_zero(&call->reserved0, sizeof call->reserved0,
                                  "tenon_rmsnorm_call.reserved0", error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0 || call->groups == 0 || call->width == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "tokens, groups and width must be at least 1");
    if (call->width > LARGEST_WIDTH)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                                 call->width, LARGEST_WIDTH, "width");
    if (!(call->eps >= 0.0f && call->eps <= 0x1.fffffep127f))
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                          "eps must be finite and not negative");
    if (!tenon_mul_u64(call->groups, call->width, &row))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "groups times width");
    status = reference_check_view(&call->x, call->x_row_stride, call->tokens, row, "x", error);
    if (status != TENON_OK) return status;
    status = reference_check_view(&call->w, 4 * call->width, 1, call->width, "w", error);
    if (status != TENON_OK) return status;
    return reference_check_view(&call->y, call->y_row_stride, call->tokens, row, "y", error);
}

static int32_t TENON_CALL run(struct tenon_device *device, struct tenon_device_queue *queue,
                              const tenon_rmsnorm_call *call, tenon_error *error)
{
    const tenon_services *services;
    tenon_rmsnorm_call copy;
    int32_t status = check_call(device, call, error);
    (void)queue;

    if (status != TENON_OK) return status;
    copy = *call;
    services = device->provider->services;
    /* Cannot overflow: every value of y has bytes of its own. */
    services->parallel_for(services->host, call->tokens * call->groups, run_group, &copy);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_rmsnorm_v1, rmsnorm_v1) = {
    TENON_HEAD(tenon_rmsnorm_v1),
    .call_size = sizeof(tenon_rmsnorm_call),
    .error_size = sizeof(tenon_error),
    .run = run,
};
