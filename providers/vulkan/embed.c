/* embed_v1: rows of a packed weight. An id that is no row gives a row of NaN, which the kernel sees
 * to; the host refuses those it can see. */
#include "operations.h"
#include "weights.h"

#define EMBED_GROUP 64u /* units of a workgroup */

static int32_t check_call(tenon_device *device, const tenon_device_queue *queue,
                          const tenon_embed_call *call, tenon_error *error)
{
    const tenon_prepared *weight;
    int32_t status = vulkan_check_head(device, queue, call, sizeof *call, "tenon_embed_call",
                                       error);

    if (status != TENON_OK) return status;
    status = vulkan_check_zero(&call->reserved0, sizeof call->reserved0,
                               "tenon_embed_call.reserved0", error);
    if (status == TENON_OK)
        status = vulkan_check_zero(call->reserved1, sizeof call->reserved1,
                                   "tenon_embed_call.reserved1", error);
    if (status != TENON_OK) return status;
    if (call->weight == NULL) return vulkan_null_pointer("weight", error);
    if (call->tokens == 0) return vulkan_empty("tokens must be at least 1", error);
    weight = call->weight;
    status = vulkan_check_rows(device, &call->ids, 4, call->tokens, 1, "ids", error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->y, call->y_row_stride, call->tokens,
                                   weight->plan.cols, "y", error);
    return status == TENON_OK ? vulkan_check_exact(device, VULKAN_NEEDS_FUSED, error) : status;
}

/* Tokens [first, first + count), a dispatch for each part of the weight. */
static int32_t record(const tenon_embed_call *call, tenon_device_queue *queue,
                      const vulkan_rows *ids, const vulkan_rows *y, uint64_t first, uint64_t count,
                      tenon_error *error)
{
    const tenon_prepared *weight = call->weight;
    const vulkan_plan *plan = &weight->plan;
    uint32_t options[VULKAN_MOST_CONSTANTS - 1];
    vulkan_embed_push push = {
        .all_rows = (uint32_t)plan->rows,
        .units = (uint32_t)plan->units,
        .cols = (uint32_t)plan->cols,
        .scales = plan->scale_vectors,
        .y_stride = vulkan_stride(y),
        .zero = plan->zero,
        .group = plan->group_size == 0 ? 0 : (uint32_t)vulkan_least(plan->group_size, UINT32_MAX),
        .scale = call->scale};
    vulkan_span spans[4];
    vulkan_dispatch dispatch = {
        .spans = spans,
        .span_count = 4,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {(uint32_t)tenon_ceil_div_u64(plan->units, EMBED_GROUP), (uint32_t)count, 1}};
    int32_t status;
    uint64_t i;

    vulkan_plan_table(plan, push.table);
    vulkan_plan_options(plan, options);
    status = vulkan_pipeline_get(queue->device, VULKAN_EMBED, options, &dispatch.pipeline, error);
    spans[2] = vulkan_bind(ids, first, count, &push.ids);
    spans[3] = vulkan_bind(y, first, count, &push.y);
    for (i = 0; i < plan->parts && status == TENON_OK; i++) {
        const vulkan_part *part = &weight->parts[i];
        push.first_row = (uint32_t)part->first_row;
        push.rows = (uint32_t)part->rows;
        spans[0] = vulkan_whole(part->codes);
        spans[1] = vulkan_whole(part->scales != NULL ? part->scales : part->codes);
        dispatch.beside = i > 0; /* where two write the same row, both write NaN */
        status = vulkan_record(queue, &dispatch, error);
    }
    return status;
}

int32_t TENON_CALL vulkan_embed_run(tenon_device *device, tenon_device_queue *queue,
                                    const tenon_embed_call *call, tenon_error *error)
{
    int32_t status = check_call(device, queue, call, error);
    const tenon_prepared *weight;
    vulkan_rows ids = {0}, y = {0};
    const vulkan_rows *const views[2] = {&ids, &y};
    uint64_t first, count, most = 0;
    vulkan_job job = {0};

    if (status != TENON_OK) return status;
    weight = call->weight;
    status = vulkan_job_begin(&job, queue, call->y.buffer == NULL, error);
    if (status == TENON_OK)
        status = vulkan_job_input(&job, &call->ids, 4, call->tokens, 1, &ids, error);
    if (status == TENON_OK)
        status = vulkan_job_output(&job, &call->y, call->y_row_stride, call->tokens,
                                   weight->plan.cols, &y, error);
    if (status == TENON_OK)
        status = vulkan_choose_rows(device, views, 2,
                                    device->gpu->limits.maxComputeWorkGroupCount[1], &most, error);
    for (first = 0; first < call->tokens && status == TENON_OK; first += count) {
        count = vulkan_least(most, call->tokens - first);
        status = record(call, queue, &ids, &y, first, count, error);
    }
    return vulkan_job_end(&job, status, error);
}
