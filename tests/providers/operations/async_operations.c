/* The operations that are one call over views. Requests are checked when they are made: work that
 * is in flight has nobody left to tell. */
#include "async.h"

static int32_t bad(tenon_error *error, uint32_t reason, const char *name)
{
    return tenon_fail(error, TENON_ARG, reason, TENON_SCOPE_CALL, name);
}

/* Gives the work, or drops it when its request was not good. */
static int32_t give_or_drop(async_work *work, int32_t status, tenon_error *error)
{
    if (status == TENON_OK) return async_operate(work, error);
    async_drop(work);
    return status;
}

/* ------------------------------------------------------------------ embed */

static int32_t do_embed(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_embed_v1.run(device->inner, NULL, &work->call.embed, error);
}

static int32_t take_embed(async_work *work, const tenon_embed_call *call, tenon_error *error)
{
    tenon_embed_call *mine = &work->call.embed;
    const tenon_prepared *weight = call->weight;
    int32_t status;
    if (weight == NULL) return bad(error, TENON_REASON_NULL_POINTER, "weight");
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "reserved");
    if (call->tokens == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, "tokens");
    *mine = *call;
    mine->weight = weight->inner;
    status = async_in(work, &call->ids, call->tokens, sizeof(uint32_t), 1, "ids", &mine->ids,
                      error);
    if (status != TENON_OK) return status;
    return async_out(work, &call->y, call->tokens, call->y_row_stride, weight->cols, "y", &mine->y,
                     error);
}

static int32_t TENON_CALL run_embed(struct tenon_device *device, struct tenon_device_queue *queue,
                                    const tenon_embed_call *call, tenon_error *error)
{
    async_work *work = async_begin(queue, do_embed, error);
    (void)device;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    return give_or_drop(work, take_embed(work, call, error), error);
}

/* ------------------------------------------------------------------ rmsnorm */

static int32_t do_rmsnorm(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_rmsnorm_v1.run(device->inner, NULL, &work->call.rmsnorm, error);
}

static int32_t take_rmsnorm(async_work *work, const tenon_rmsnorm_call *call, tenon_error *error)
{
    tenon_rmsnorm_call *mine = &work->call.rmsnorm;
    uint64_t row;
    int32_t status;
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "reserved");
    if (call->tokens == 0 || call->groups == 0 || call->width == 0)
        return bad(error, TENON_REASON_EMPTY_SHAPE, "tokens, groups, width");
    if (call->width >= 1u << 24 || !tenon_mul_u64(call->groups, call->width, &row))
        return bad(error, TENON_REASON_OVERFLOW, "width");
    if (!(call->eps >= 0.0f && call->eps <= 3.402823466e38f))
        return bad(error, TENON_REASON_UNKNOWN_VALUE, "eps");
    *mine = *call;
    status = async_in(work, &call->x, call->tokens, call->x_row_stride, row, "x", &mine->x, error);
    if (status != TENON_OK) return status;
    status = async_in(work, &call->w, 1, 4 * call->width, call->width, "w", &mine->w, error);
    if (status != TENON_OK) return status;
    return async_out(work, &call->y, call->tokens, call->y_row_stride, row, "y", &mine->y, error);
}

static int32_t TENON_CALL run_rmsnorm(struct tenon_device *device, struct tenon_device_queue *queue,
                                      const tenon_rmsnorm_call *call, tenon_error *error)
{
    async_work *work = async_begin(queue, do_rmsnorm, error);
    (void)device;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    return give_or_drop(work, take_rmsnorm(work, call, error), error);
}

/* ------------------------------------------------------------------ gated */

static int32_t do_gated(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_gated_v1.run(device->inner, NULL, &work->call.gated, error);
}

static int32_t take_gated(async_work *work, const tenon_gated_call *call, tenon_error *error)
{
    tenon_gated_call *mine = &work->call.gated;
    int32_t status;
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "reserved");
    if (call->tokens == 0 || call->width == 0)
        return bad(error, TENON_REASON_EMPTY_SHAPE, "tokens, width");
    if (call->activation < TENON_ACT_SILU || call->activation > TENON_ACT_RELU)
        return bad(error, TENON_REASON_UNKNOWN_VALUE, "activation");
    *mine = *call;
    status = async_in(work, &call->gate, call->tokens, call->gate_row_stride, call->width, "gate",
                      &mine->gate, error);
    if (status != TENON_OK) return status;
    status = async_in(work, &call->up, call->tokens, call->up_row_stride, call->width, "up",
                      &mine->up, error);
    if (status != TENON_OK) return status;
    return async_out(work, &call->y, call->tokens, call->y_row_stride, call->width, "y", &mine->y,
                     error);
}

static int32_t TENON_CALL run_gated(struct tenon_device *device, struct tenon_device_queue *queue,
                                    const tenon_gated_call *call, tenon_error *error)
{
    async_work *work = async_begin(queue, do_gated, error);
    (void)device;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    return give_or_drop(work, take_gated(work, call, error), error);
}

/* ------------------------------------------------------------------ add */

static int32_t do_add(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_add_v1.run(device->inner, NULL, &work->call.add, error);
}

static int32_t take_add(async_work *work, const tenon_add_call *call, tenon_error *error)
{
    tenon_add_call *mine = &work->call.add;
    int32_t status;
    if (call->reserved0[0] != 0 || call->reserved0[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "reserved");
    if (call->tokens == 0 || call->width == 0)
        return bad(error, TENON_REASON_EMPTY_SHAPE, "tokens, width");
    *mine = *call;
    status = async_in(work, &call->a, call->tokens, call->a_row_stride, call->width, "a", &mine->a,
                      error);
    if (status != TENON_OK) return status;
    status = async_in(work, &call->b, call->tokens, call->b_row_stride, call->width, "b", &mine->b,
                      error);
    if (status != TENON_OK) return status;
    return async_out(work, &call->y, call->tokens, call->y_row_stride, call->width, "y", &mine->y,
                     error);
}

static int32_t TENON_CALL run_add(struct tenon_device *device, struct tenon_device_queue *queue,
                                  const tenon_add_call *call, tenon_error *error)
{
    async_work *work = async_begin(queue, do_add, error);
    (void)device;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    return give_or_drop(work, take_add(work, call, error), error);
}

/* ------------------------------------------------------------------ argmax */

static int32_t do_argmax(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_argmax_v1.run(device->inner, NULL, &work->call.argmax, error);
}

static int32_t take_argmax(async_work *work, const tenon_argmax_call *call, tenon_error *error)
{
    tenon_argmax_call *mine = &work->call.argmax;
    int32_t status = TENON_OK;
    if (call->reserved0[0] != 0 || call->reserved0[1] != 0)
        return bad(error, TENON_REASON_RESERVED, "reserved");
    if (call->tokens == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, "tokens");
    if (call->width >= TENON_ARGMAX_NONE) return bad(error, TENON_REASON_OVERFLOW, "width");
    *mine = *call;
    if (call->width > 0)
        status = async_in(work, &call->x, call->tokens, call->x_row_stride, call->width, "x",
                          &mine->x, error);
    else
        mine->x = (tenon_view){0}; /* rows of width 0 have no bytes */
    if (status != TENON_OK) return status;
    return async_out(work, &call->y, call->tokens, sizeof(uint32_t), 1, "y", &mine->y, error);
}

static int32_t TENON_CALL run_argmax(struct tenon_device *device, struct tenon_device_queue *queue,
                                     const tenon_argmax_call *call, tenon_error *error)
{
    async_work *work = async_begin(queue, do_argmax, error);
    (void)device;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    return give_or_drop(work, take_argmax(work, call, error), error);
}

#define ONE_CALL(name) \
    TENON_PROVIDER_DESCRIPTOR(tenon_##name##_v1, name##_v1) = { \
        TENON_HEAD(tenon_##name##_v1), .call_size = sizeof(tenon_##name##_call), \
        .error_size = sizeof(tenon_error), .run = run_##name}
ONE_CALL(embed);
ONE_CALL(rmsnorm);
ONE_CALL(gated);
ONE_CALL(add);
ONE_CALL(argmax);
