/* rmsnorm_v1, gated_v1, add_v1 and argmax_v1: rows that stand alone. */
#include "join.h"
#include "operations.h"

#define LARGEST_WIDTH ((UINT64_C(1) << 24) - 1) /* the count of inputs is exact in binary32 */
#define PAIR_GROUP 256u                         /* values of a workgroup of GATED and ADD */

int32_t vulkan_check_exact(const tenon_device *device, uint32_t needs, tenon_error *error)
{
    const vulkan_arithmetic *can = &device->arithmetic;

    if (!can->rounded || !can->subnormals || ((needs & VULKAN_NEEDS_FUSED) != 0 && !can->fused) ||
        ((needs & VULKAN_NEEDS_DIVISION) != 0 && !can->divides) ||
        ((needs & VULKAN_NEEDS_ROOTS) != 0 && !can->roots))
        return vulkan_inexact(error);
    return TENON_OK;
}

int32_t vulkan_choose_rows(const tenon_device *device, const vulkan_rows *const *views,
                           uint32_t view_count, uint64_t limit, uint64_t *most, tenon_error *error)
{
    uint32_t i;

    *most = limit;
    for (i = 0; i < view_count; i++)
        *most = vulkan_least(*most, vulkan_most_rows(device, views[i]));
    if (*most != 0) return TENON_OK;
    return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                      "rows of this length cannot be bound");
}

static int32_t too_wide(tenon_error *error)
{
    return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                      "more workgroups than the device takes");
}

static uint32_t groups_limit(const tenon_device *device, uint32_t dimension)
{
    return device->gpu->limits.maxComputeWorkGroupCount[dimension];
}

/* ------------------------------------------------------------------------------ gated and add */

/* Both work value by value over two inputs. */
typedef struct pair {
    const tenon_view *a, *b, *y;
    uint64_t a_stride, b_stride, y_stride;
    uint64_t tokens, width;
    uint32_t kernel, activation;
} pair;

static int32_t run_pair(const pair *self, tenon_device_queue *queue, tenon_error *error)
{
    tenon_device *device = queue->device;
    vulkan_rows a = {0}, b = {0}, y = {0};
    const vulkan_rows *const views[3] = {&a, &b, &y};
    uint64_t groups = tenon_ceil_div_u64(self->width, PAIR_GROUP), first, count, most = 0;
    const int gated = self->kernel == VULKAN_GATED;
    vulkan_dispatch dispatch = {.span_count = gated ? 4 : 3,
                                .push_bytes = gated ? sizeof(vulkan_gated_push)
                                                    : sizeof(vulkan_add_push)};
    const uint32_t options[VULKAN_MOST_CONSTANTS - 1] = {self->activation}; /* of GATED */
    vulkan_job job = {0};
    int32_t status;

    if (groups > groups_limit(device, 0)) return too_wide(error);
    status = vulkan_pipeline_get(device, self->kernel, options, &dispatch.pipeline, error);
    if (status == TENON_OK) status = vulkan_job_begin(&job, queue, self->y->buffer == NULL, error);
    if (status == TENON_OK)
        status = vulkan_job_input(&job, self->a, self->a_stride, self->tokens, self->width, &a,
                                  error);
    if (status == TENON_OK)
        status = vulkan_job_input(&job, self->b, self->b_stride, self->tokens, self->width, &b,
                                  error);
    if (status == TENON_OK)
        status = vulkan_job_output(&job, self->y, self->y_stride, self->tokens, self->width, &y,
                                   error);
    if (status == TENON_OK)
        status = vulkan_choose_rows(device, views, 3, groups_limit(device, 1), &most, error);
    for (first = 0; first < self->tokens && status == TENON_OK; first += count) {
        /* The push struct of ADD is the beginning of that of GATED. */
        vulkan_gated_push push = {.gate_stride = vulkan_stride(&a),
                                  .up_stride = vulkan_stride(&b),
                                  .y_stride = vulkan_stride(&y),
                                  .width = (uint32_t)self->width,
                                  .activation = self->activation};
        vulkan_span spans[4];
        count = vulkan_least(most, self->tokens - first);
        spans[0] = vulkan_bind(&a, first, count, &push.gate);
        spans[1] = vulkan_bind(&b, first, count, &push.up);
        spans[2] = spans[3] = vulkan_bind(&y, first, count, &push.y); /* 3 is not used */
        dispatch.spans = spans;
        dispatch.push = &push;
        dispatch.groups[0] = (uint32_t)groups;
        dispatch.groups[1] = (uint32_t)count;
        dispatch.groups[2] = 1;
        dispatch.beside = first > 0;
        status = vulkan_record_open(queue, &dispatch, &y, first, count, error);
    }
    return vulkan_job_end(&job, status, error);
}

int32_t TENON_CALL vulkan_add_run(tenon_device *device, tenon_device_queue *queue,
                                  const tenon_add_call *call, tenon_error *error)
{
    int32_t status = vulkan_check_head(device, queue, call, sizeof *call, "tenon_add_call", error);
    pair self;

    if (status != TENON_OK) return status;
    status = vulkan_check_zero(call->reserved0, sizeof call->reserved0, "tenon_add_call.reserved0",
                               error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0 || call->width == 0)
        return vulkan_empty("tokens and width must be at least 1", error);
    status = vulkan_check_rows(device, &call->a, call->a_row_stride, call->tokens, call->width, "a",
                               error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->b, call->b_row_stride, call->tokens, call->width,
                                   "b", error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->y, call->y_row_stride, call->tokens, call->width,
                                   "y", error);
    if (status == TENON_OK) status = vulkan_check_exact(device, 0, error);
    if (status != TENON_OK) return status;
    self = (pair){.a = &call->a,
                  .b = &call->b,
                  .y = &call->y,
                  .a_stride = call->a_row_stride,
                  .b_stride = call->b_row_stride,
                  .y_stride = call->y_row_stride,
                  .tokens = call->tokens,
                  .width = call->width,
                  .kernel = VULKAN_ADD};
    return run_pair(&self, queue, error);
}

static int32_t check_gated(tenon_device *device, const tenon_device_queue *queue,
                           const tenon_gated_call *call, tenon_error *error)
{
    int32_t status = vulkan_check_head(device, queue, call, sizeof *call, "tenon_gated_call",
                                       error);

    if (status != TENON_OK) return status;
    status = vulkan_check_zero(&call->reserved0, sizeof call->reserved0,
                               "tenon_gated_call.reserved0", error);
    if (status == TENON_OK)
        status = vulkan_check_zero(call->reserved1, sizeof call->reserved1,
                                   "tenon_gated_call.reserved1", error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0 || call->width == 0)
        return vulkan_empty("tokens and width must be at least 1", error);
    if (call->activation < TENON_ACT_SILU || call->activation > TENON_ACT_RELU)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                                 call->activation, TENON_ACT_RELU, "activation");
    status = vulkan_check_rows(device, &call->gate, call->gate_row_stride, call->tokens,
                               call->width, "gate", error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->up, call->up_row_stride, call->tokens,
                                   call->width, "up", error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->y, call->y_row_stride, call->tokens, call->width,
                                   "y", error);
    if (status != TENON_OK) return status;
    return vulkan_check_exact(device, VULKAN_NEEDS_FUSED | VULKAN_NEEDS_DIVISION, error);
}

int32_t TENON_CALL vulkan_gated_run(tenon_device *device, tenon_device_queue *queue,
                                    const tenon_gated_call *call, tenon_error *error)
{
    int32_t status = check_gated(device, queue, call, error);
    pair self;

    if (status != TENON_OK) return status;
    self = (pair){.a = &call->gate,
                  .b = &call->up,
                  .y = &call->y,
                  .a_stride = call->gate_row_stride,
                  .b_stride = call->up_row_stride,
                  .y_stride = call->y_row_stride,
                  .tokens = call->tokens,
                  .width = call->width,
                  .kernel = VULKAN_GATED,
                  .activation = call->activation};
    return run_pair(&self, queue, error);
}

/* ------------------------------------------------------------------------------------ rmsnorm */

static int32_t check_rmsnorm(tenon_device *device, const tenon_device_queue *queue,
                             const tenon_rmsnorm_call *call, tenon_error *error)
{
    uint64_t row;
    int32_t status = vulkan_check_head(device, queue, call, sizeof *call, "tenon_rmsnorm_call",
                                       error);
    if (status != TENON_OK) return status;
    status = vulkan_check_zero(&call->reserved0, sizeof call->reserved0,
                               "tenon_rmsnorm_call.reserved0", error);
    if (status == TENON_OK)
        status = vulkan_check_zero(call->reserved1, sizeof call->reserved1,
                                   "tenon_rmsnorm_call.reserved1", error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0 || call->groups == 0 || call->width == 0)
        return vulkan_empty("tokens, groups and width must be at least 1", error);
    if (call->width > LARGEST_WIDTH)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                                 call->width, LARGEST_WIDTH, "width");
    if (!(call->eps >= 0.0f && call->eps <= 0x1.fffffep127f))
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                          "eps must be finite and not negative");
    if (!tenon_mul_u64(call->groups, call->width, &row))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "groups times width");
    status = vulkan_check_rows(device, &call->x, call->x_row_stride, call->tokens, row, "x", error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->w, 4 * call->width, 1, call->width, "w", error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->y, call->y_row_stride, call->tokens, row, "y",
                                   error);
    if (status != TENON_OK) return status;
    if (call->groups > groups_limit(device, 0)) return too_wide(error);
    return vulkan_check_exact(
        device, VULKAN_NEEDS_FUSED | VULKAN_NEEDS_DIVISION | VULKAN_NEEDS_ROOTS, error);
}

int32_t TENON_CALL vulkan_rmsnorm_run(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_rmsnorm_call *call, tenon_error *error)
{
    int32_t status = check_rmsnorm(device, queue, call, error);
    vulkan_rows x = {0}, w = {0}, y = {0};
    const vulkan_rows *const views[3] = {&x, &w, &y};
    vulkan_dispatch dispatch = {.span_count = 6, .push_bytes = sizeof(vulkan_rmsnorm_push)};
    uint64_t first, count, most = 0, row;
    vulkan_job job = {0};

    if (status != TENON_OK) return status;
    row = call->groups * call->width;
    status = vulkan_pipeline_get(device, VULKAN_RMSNORM, NULL, &dispatch.pipeline, error);
    if (status == TENON_OK) status = vulkan_job_begin(&job, queue, call->y.buffer == NULL, error);
    if (status == TENON_OK)
        status = vulkan_job_input(&job, &call->x, call->x_row_stride, call->tokens, row, &x, error);
    if (status == TENON_OK)
        status = vulkan_job_input(&job, &call->w, 4 * call->width, 1, call->width, &w, error);
    if (status == TENON_OK)
        status = vulkan_job_output(&job, &call->y, call->y_row_stride, call->tokens, row, &y,
                                   error);
    if (status == TENON_OK)
        status = vulkan_choose_rows(device, views, 3, groups_limit(device, 1), &most, error);
    for (first = 0; first < call->tokens && status == TENON_OK; first += count) {
        vulkan_rmsnorm_push push = {.x_stride = vulkan_stride(&x),
                                    .y_stride = vulkan_stride(&y),
                                    .width = (uint32_t)call->width,
                                    .count = (float)call->width,
                                    .eps = call->eps};
        vulkan_span spans[6];
        uint32_t joined = 0;
        count = vulkan_least(most, call->tokens - first);
        spans[0] = vulkan_bind(&x, first, count, &push.x);
        spans[1] = vulkan_bind(&w, 0, 1, &push.w);
        spans[2] = vulkan_bind(&y, first, count, &push.y);
        spans[3] = spans[4] = spans[5] = spans[2]; /* not used */
        dispatch.spans = spans;
        dispatch.push = &push;
        dispatch.groups[0] = (uint32_t)call->groups;
        dispatch.groups[1] = (uint32_t)count;
        dispatch.groups[2] = 1;
        dispatch.beside = first > 0;
        if (count == call->tokens)
            status = vulkan_join_add(queue, &dispatch, &x, &y, count, &joined, error);
        if (status == TENON_OK && !joined)
            status = vulkan_record_open(queue, &dispatch, &y, first, count, error);
    }
    return vulkan_job_end(&job, status, error);
}

/* ------------------------------------------------------------------------------------- argmax */

static int32_t check_argmax(tenon_device *device, const tenon_device_queue *queue,
                            const tenon_argmax_call *call, tenon_error *error)
{
    int32_t status = vulkan_check_head(device, queue, call, sizeof *call, "tenon_argmax_call",
                                       error);
    if (status != TENON_OK) return status;
    status = vulkan_check_zero(call->reserved0, sizeof call->reserved0,
                               "tenon_argmax_call.reserved0", error);
    if (status != TENON_OK) return status;
    if (call->tokens == 0) return vulkan_empty("tokens must be at least 1", error);
    if (call->width >= TENON_ARGMAX_NONE)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                                 call->width, TENON_ARGMAX_NONE - 1, "width");
    /* Rows of width 0 have no bytes, so x may be anything then. */
    if (call->width != 0)
        status = vulkan_check_rows(device, &call->x, call->x_row_stride, call->tokens, call->width,
                                   "x", error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->y, 4, call->tokens, 1, "y", error);
    return status == TENON_OK ? vulkan_check_exact(device, 0, error) : status;
}

/* Rows [first, first + count): the stretches of each, then the best of those. */
static int32_t record_argmax(const tenon_argmax_call *call, tenon_device_queue *queue,
                             const vulkan_rows *x, const vulkan_rows *y, uint64_t first,
                             uint64_t count, uint64_t stretches, tenon_error *error)
{
    vulkan_argmax_push push = {.width = (uint32_t)call->width, .stretches = (uint32_t)stretches};
    vulkan_dispatch dispatch = {.span_count = 2, .push_bytes = sizeof push, .push = &push};
    vulkan_span work, spans[2];
    int32_t status = vulkan_scratch(queue, VULKAN_MAIN, count * stretches * 8, &work, error);

    if (status == TENON_OK)
        status = vulkan_pipeline_get(queue->device, VULKAN_ARGMAX, NULL, &dispatch.pipeline, error);
    if (status != TENON_OK) return status;
    spans[0] = work;
    spans[1] = work;
    if (call->width != 0) {
        spans[0] = vulkan_bind(x, first, count, &push.x);
        push.x_stride = vulkan_stride(x);
    }
    dispatch.spans = spans;
    dispatch.groups[0] = (uint32_t)stretches;
    dispatch.groups[1] = (uint32_t)count;
    dispatch.groups[2] = 1;
    status = vulkan_record(queue, &dispatch, error);
    if (status == TENON_OK)
        status = vulkan_pipeline_get(queue->device, VULKAN_ARGMAX_LAST, NULL, &dispatch.pipeline,
                                     error);
    if (status != TENON_OK) return status;
    spans[0] = work;
    spans[1] = vulkan_bind(y, first, count, &push.y);
    dispatch.groups[0] = (uint32_t)count;
    dispatch.groups[1] = 1;
    return vulkan_record(queue, &dispatch, error);
}

int32_t TENON_CALL vulkan_argmax_run(tenon_device *device, tenon_device_queue *queue,
                                     const tenon_argmax_call *call, tenon_error *error)
{
    int32_t status = check_argmax(device, queue, call, error);
    uint64_t first, count, most = 0, stretches, limit;
    vulkan_rows x = {0}, y = {0};
    const vulkan_rows *const views[2] = {&x, &y};
    vulkan_job job = {0};

    if (status != TENON_OK) return status;
    stretches = call->width == 0 ? 1 : tenon_ceil_div_u64(call->width, VULKAN_ARGMAX_STRETCH);
    if (stretches > groups_limit(device, 0)) return too_wide(error);
    limit = vulkan_least(groups_limit(device, 0), groups_limit(device, 1));
    status = vulkan_job_begin(&job, queue, call->y.buffer == NULL, error);
    if (status == TENON_OK && call->width != 0)
        status = vulkan_job_input(&job, &call->x, call->x_row_stride, call->tokens, call->width, &x,
                                  error);
    if (status == TENON_OK)
        status = vulkan_job_output(&job, &call->y, 4, call->tokens, 1, &y, error);
    if (status == TENON_OK) status = vulkan_choose_rows(device, views, 2, limit, &most, error);
    for (first = 0; first < call->tokens && status == TENON_OK; first += count) {
        count = vulkan_least(most, call->tokens - first);
        status = record_argmax(call, queue, &x, &y, first, count, stretches, error);
    }
    return vulkan_job_end(&job, status, error);
}
