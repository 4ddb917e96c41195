/* rmsnorm_v1, gated_v1, add_v1 and argmax_v1 of the CPU provider: rows that stand alone. */
#include "op_request.h"

#define VALUES_PER_UNIT 2048u
#define LARGEST_WIDTH ((UINT64_C(1) << 24) - 1) /* the count of inputs is exact in binary32 */

static const cpu_operations *operations_of(const tenon_device *device)
{
    return cpu_operations_of(device->provider->level);
}

/* A stretch of a row of an operation that works value by value. */
typedef struct stretch {
    uint64_t token, first, count;
} stretch;

static uint64_t stretches_of(uint64_t width)
{
    return tenon_ceil_div_u64(width, VALUES_PER_UNIT);
}

static stretch stretch_at(uint64_t index, uint64_t width)
{
    uint64_t each = stretches_of(width);
    stretch self = {index / each, index % each * VALUES_PER_UNIT, 0};
    self.count = width - self.first < VALUES_PER_UNIT ? width - self.first : VALUES_PER_UNIT;
    return self;
}

static int32_t empty(const char *text, tenon_error *error)
{
    return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL, text);
}

/* ------------------------------------------------------------------------------------------ add */

typedef struct add_job {
    const tenon_add_call *call;
    const cpu_operations *operations;
} add_job;

static void TENON_CALL add_unit(void *context, uint64_t index, uint32_t worker)
{
    const add_job *self = context;
    const tenon_add_call *call = self->call;
    stretch at = stretch_at(index, call->width);
    (void)worker;

    self->operations->add(cpu_row(&call->a, call->a_row_stride, at.token) + at.first,
                          cpu_row(&call->b, call->b_row_stride, at.token) + at.first, at.count,
                          cpu_row_out(&call->y, call->y_row_stride, at.token) + at.first);
}

static int32_t check_add(const tenon_device *device, const tenon_add_call *call, tenon_error *error)
{
    int32_t status = cpu_check_head(device, call, sizeof *call, "tenon_add_call", error);
    if (status != TENON_OK) return status;
    status = cpu_check_zero(call->reserved0, sizeof call->reserved0, "tenon_add_call.reserved0",
                            error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0 || call->width == 0)
        return empty("tokens and width must be at least 1", error);
    status = cpu_check_rows(&call->a, call->a_row_stride, call->tokens, call->width, "a", error);
    if (status != TENON_OK) return status;
    status = cpu_check_rows(&call->b, call->b_row_stride, call->tokens, call->width, "b", error);
    if (status != TENON_OK) return status;
    return cpu_check_rows(&call->y, call->y_row_stride, call->tokens, call->width, "y", error);
}

static int32_t TENON_CALL add_run(tenon_device *device, tenon_device_queue *queue,
                                  const tenon_add_call *call, tenon_error *error)
{
    int32_t status = check_add(device, call, error);
    add_job self;
    (void)queue;

    if (status != TENON_OK) return status;
    self = (add_job){call, operations_of(device)};
    cpu_split(device, call->tokens * stretches_of(call->width), call->tokens * call->width / 4,
              add_unit, &self);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_add_v1, add_v1) = {
    TENON_HEAD(tenon_add_v1),
    .call_size = sizeof(tenon_add_call),
    .error_size = sizeof(tenon_error),
    .run = add_run,
};

/* ---------------------------------------------------------------------------------------- gated */

typedef struct gated_job {
    const tenon_gated_call *call;
    const cpu_operations *operations;
} gated_job;

static void TENON_CALL gated_unit(void *context, uint64_t index, uint32_t worker)
{
    const gated_job *self = context;
    const tenon_gated_call *call = self->call;
    stretch at = stretch_at(index, call->width);
    (void)worker;

    self->operations->gated(call->activation,
                            cpu_row(&call->gate, call->gate_row_stride, at.token) + at.first,
                            cpu_row(&call->up, call->up_row_stride, at.token) + at.first, at.count,
                            cpu_row_out(&call->y, call->y_row_stride, at.token) + at.first);
}

static int32_t check_gated(const tenon_device *device, const tenon_gated_call *call,
                           tenon_error *error)
{
    int32_t status = cpu_check_head(device, call, sizeof *call, "tenon_gated_call", error);
    if (status != TENON_OK) return status;
    status = cpu_check_zero(&call->reserved0, sizeof call->reserved0, "tenon_gated_call.reserved0",
                            error);
    if (status != TENON_OK) return status;
    status = cpu_check_zero(call->reserved1, sizeof call->reserved1, "tenon_gated_call.reserved1",
                            error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0 || call->width == 0)
        return empty("tokens and width must be at least 1", error);
    if (call->activation < TENON_ACT_SILU || call->activation > TENON_ACT_RELU)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                                 call->activation, TENON_ACT_RELU, "activation");
    status = cpu_check_rows(&call->gate, call->gate_row_stride, call->tokens, call->width, "gate",
                            error);
    if (status != TENON_OK) return status;
    status = cpu_check_rows(&call->up, call->up_row_stride, call->tokens, call->width, "up", error);
    if (status != TENON_OK) return status;
    return cpu_check_rows(&call->y, call->y_row_stride, call->tokens, call->width, "y", error);
}

static int32_t TENON_CALL gated_run(tenon_device *device, tenon_device_queue *queue,
                                    const tenon_gated_call *call, tenon_error *error)
{
    int32_t status = check_gated(device, call, error);
    gated_job self;
    (void)queue;

    if (status != TENON_OK) return status;
    self = (gated_job){call, operations_of(device)};
    cpu_split(device, call->tokens * stretches_of(call->width), call->tokens * call->width,
              gated_unit, &self);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_gated_v1, gated_v1) = {
    TENON_HEAD(tenon_gated_v1),
    .call_size = sizeof(tenon_gated_call),
    .error_size = sizeof(tenon_error),
    .run = gated_run,
};

/* -------------------------------------------------------------------------------------- rmsnorm */

typedef struct rmsnorm_job {
    const tenon_rmsnorm_call *call;
    const cpu_operations *operations;
} rmsnorm_job;

static void TENON_CALL rmsnorm_unit(void *context, uint64_t index, uint32_t worker)
{
    const rmsnorm_job *self = context;
    const tenon_rmsnorm_call *call = self->call;
    uint64_t token = index / call->groups, first = index % call->groups * call->width;
    (void)worker;

    self->operations->rmsnorm(cpu_row(&call->x, call->x_row_stride, token) + first,
                              cpu_row(&call->w, 0, 0), call->width, call->eps,
                              cpu_row_out(&call->y, call->y_row_stride, token) + first);
}

static int32_t check_rmsnorm(const tenon_device *device, const tenon_rmsnorm_call *call,
                             tenon_error *error)
{
    uint64_t row;
    int32_t status = cpu_check_head(device, call, sizeof *call, "tenon_rmsnorm_call", error);
    if (status != TENON_OK) return status;
    status = cpu_check_zero(&call->reserved0, sizeof call->reserved0,
                            "tenon_rmsnorm_call.reserved0", error);
    if (status != TENON_OK) return status;
    status = cpu_check_zero(call->reserved1, sizeof call->reserved1, "tenon_rmsnorm_call.reserved1",
                            error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0 || call->groups == 0 || call->width == 0)
        return empty("tokens, groups and width must be at least 1", error);
    if (call->width > LARGEST_WIDTH)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                                 call->width, LARGEST_WIDTH, "width");
    if (!(call->eps >= 0.0f && call->eps <= 0x1.fffffep127f))
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                          "eps must be finite and not negative");
    if (!tenon_mul_u64(call->groups, call->width, &row))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "groups times width");
    status = cpu_check_rows(&call->x, call->x_row_stride, call->tokens, row, "x", error);
    if (status != TENON_OK) return status;
    status = cpu_check_rows(&call->w, 4 * call->width, 1, call->width, "w", error);
    if (status != TENON_OK) return status;
    return cpu_check_rows(&call->y, call->y_row_stride, call->tokens, row, "y", error);
}

static int32_t TENON_CALL rmsnorm_run(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_rmsnorm_call *call, tenon_error *error)
{
    int32_t status = check_rmsnorm(device, call, error);
    rmsnorm_job self;
    uint64_t count;
    (void)queue;

    if (status != TENON_OK) return status;
    self = (rmsnorm_job){call, operations_of(device)};
    count = call->tokens * call->groups;
    cpu_split(device, count, count * call->width / 4, rmsnorm_unit, &self);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_rmsnorm_v1, rmsnorm_v1) = {
    TENON_HEAD(tenon_rmsnorm_v1),
    .call_size = sizeof(tenon_rmsnorm_call),
    .error_size = sizeof(tenon_error),
    .run = rmsnorm_run,
};

/* --------------------------------------------------------------------------------------- argmax */

typedef struct argmax_job {
    const tenon_argmax_call *call;
    const cpu_operations *operations;
} argmax_job;

static void TENON_CALL argmax_unit(void *context, uint64_t index, uint32_t worker)
{
    const argmax_job *self = context;
    const tenon_argmax_call *call = self->call;
    uint32_t *y = (uint32_t *)(void *)cpu_row_out(&call->y, 4, index);
    (void)worker;

    *y = call->width == 0
             ? TENON_ARGMAX_NONE
             : self->operations->argmax(cpu_row(&call->x, call->x_row_stride, index), call->width);
}

static int32_t check_argmax(const tenon_device *device, const tenon_argmax_call *call,
                            tenon_error *error)
{
    int32_t status = cpu_check_head(device, call, sizeof *call, "tenon_argmax_call", error);
    if (status != TENON_OK) return status;
    status = cpu_check_zero(call->reserved0, sizeof call->reserved0, "tenon_argmax_call.reserved0",
                            error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0) return empty("tokens must be at least 1", error);
    if (call->width >= TENON_ARGMAX_NONE)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                                 call->width, TENON_ARGMAX_NONE - 1, "width");
    /* Rows of width 0 have no bytes, so x may be anything then. */
    if (call->width != 0) {
        status = cpu_check_rows(&call->x, call->x_row_stride, call->tokens, call->width, "x",
                                error);
        if (status != TENON_OK) return status;
    }
    return cpu_check_rows(&call->y, 4, call->tokens, 1, "y", error);
}

static int32_t TENON_CALL argmax_run(tenon_device *device, tenon_device_queue *queue,
                                     const tenon_argmax_call *call, tenon_error *error)
{
    int32_t status = check_argmax(device, call, error);
    argmax_job self;
    (void)queue;

    if (status != TENON_OK) return status;
    self = (argmax_job){call, operations_of(device)};
    cpu_split(device, call->tokens, call->tokens * call->width / 4, argmax_unit, &self);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_argmax_v1, argmax_v1) = {
    TENON_HEAD(tenon_argmax_v1),
    .call_size = sizeof(tenon_argmax_call),
    .error_size = sizeof(tenon_error),
    .run = argmax_run,
};
