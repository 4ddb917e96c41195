/* qmatmul_v1: x is made ready once for all outputs of a call, then every part of every weight is
 * multiplied. */
#include "join.h"
#include "weights.h"

#define WORK_BYTES (UINT64_C(32) << 20) /* of x made ready at a time */

/* x made ready for the products of one class. */
typedef struct staged {
    vulkan_span span; /* as the kernels that write it bind it */
    uint32_t work;    /* vector where it starts for those that read it */
    uint32_t vectors; /* of a token */
    uint32_t made;
} staged;

typedef struct product {
    vulkan_job job;
    const tenon_qmatmul_call *call;
    vulkan_rows x, y[TENON_QMATMUL_MAX_OUTPUTS];
    uint64_t units, cols, most; /* most: tokens at a time */
    staged a8, f32;
} product;

static const tenon_prepared *weight_of(const tenon_qmatmul_call *call, uint32_t output)
{
    return call->outputs[output].weight;
}

/* ------------------------------------------------------------------------------------ checks */

static int32_t check_outputs(tenon_device *device, const tenon_qmatmul_call *call,
                             tenon_error *error)
{
    static const tenon_output none;
    uint32_t i;
    int32_t status;

    for (i = 0; i < TENON_QMATMUL_MAX_OUTPUTS; i++) {
        const tenon_output *output = &call->outputs[i];
        if (i >= call->output_count) {
            status = vulkan_check_zero(output, sizeof none, "an output past output_count", error);
            if (status != TENON_OK) return status;
            continue;
        }
        if (output->weight == NULL) return vulkan_null_pointer("outputs[].weight", error);
        if (weight_of(call, i)->plan.cols != weight_of(call, 0)->plan.cols)
            return tenon_fail_amount(error, TENON_ARG, TENON_REASON_COLS_DIFFER, TENON_SCOPE_CALL,
                                     weight_of(call, 0)->plan.cols, weight_of(call, i)->plan.cols,
                                     "weights of one call differ in inputs");
        status = vulkan_check_rows(device, &output->y, output->row_stride, call->tokens,
                                   weight_of(call, i)->plan.rows, "outputs[].y", error);
        if (status != TENON_OK) return status;
    }
    return TENON_OK;
}

static int32_t check_call(tenon_device *device, const tenon_device_queue *queue,
                          const tenon_qmatmul_call *call, tenon_error *error)
{
    int32_t status = vulkan_check_head(device, queue, call, sizeof *call, "tenon_qmatmul_call",
                                       error);
    if (status != TENON_OK) return status;
    status = vulkan_check_zero(&call->reserved0, sizeof call->reserved0,
                               "tenon_qmatmul_call.reserved0", error);
    if (status == TENON_OK)
        status = vulkan_check_zero(call->reserved1, sizeof call->reserved1,
                                   "tenon_qmatmul_call.reserved1", error);
    if (status != TENON_OK) return status;
    if (call->output_count == 0 || call->output_count > TENON_QMATMUL_MAX_OUTPUTS)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OUTPUT_COUNT, TENON_SCOPE_CALL,
                                 TENON_QMATMUL_MAX_OUTPUTS, call->output_count,
                                 "outputs must be 1 to 4");
    if (call->tokens == 0) return vulkan_empty("tokens must be at least 1", error);
    status = check_outputs(device, call, error);
    if (status != TENON_OK) return status;
    return vulkan_check_rows(device, &call->x, call->x_row_stride, call->tokens,
                             weight_of(call, 0)->plan.cols, "x", error);
}

/* --------------------------------------------------------------------------------- recording */

static uint32_t vectors_of(uint32_t arith)
{
    return arith == TENON_CLASS_A8 ? VULKAN_A8_VECTORS : VULKAN_F32_VECTORS;
}

static staged *staged_of(product *self, uint32_t arith)
{
    return arith == TENON_CLASS_A8 ? &self->a8 : &self->f32;
}

/* How many tokens are done at a time, so that every view and the work buffer can be bound. */
static int32_t choose_tokens(product *self, tenon_error *error)
{
    const tenon_device *device = self->job.queue->device;
    uint64_t token = self->units * VULKAN_F32_VECTORS * 16,
             most = vulkan_most_rows(device, &self->x);
    uint32_t i;

    for (i = 0; i < self->call->output_count; i++)
        most = vulkan_least(most, vulkan_most_rows(device, &self->y[i]));
    if (token > device->gpu->range_limit) most = 0;
    most = vulkan_least(most, token < WORK_BYTES ? WORK_BYTES / token : 1);
    most = vulkan_least(most, device->gpu->limits.maxComputeWorkGroupCount[1]);
    self->most = vulkan_least(most, self->call->tokens);
    if (most != 0) return TENON_OK;
    return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                      "rows of this length cannot be bound");
}

/* Memory for x of one class, and for the most tokens at a time. */
static int32_t make_staged(product *self, uint32_t arith, tenon_error *error)
{
    tenon_device *device = self->job.queue->device;
    staged *to = staged_of(self, arith);
    int32_t status;

    if (to->vectors != 0) return TENON_OK;
    to->vectors = (uint32_t)self->units * vectors_of(arith);
    status = vulkan_scratch(self->job.queue, VULKAN_MAIN, self->most * to->vectors * UINT64_C(16),
                            &to->span, error);
    /* A texel buffer begins where its memory does. */
    if (status == TENON_OK && device->flavour == VULKAN_TEXEL)
        to->work = (uint32_t)(to->span.offset / 16);
    return status;
}

/* By the step that makes x where that can, else by one of its own: *recorded counts those. */
static int32_t record_staged(product *self, uint32_t arith, uint64_t first, uint64_t count,
                             uint32_t *recorded, tenon_error *error)
{
    staged *to = staged_of(self, arith);
    uint32_t joined = 0;
    vulkan_stage_push push = {.x_stride = vulkan_stride(&self->x),
                              .cols = (uint32_t)self->cols,
                              .units = (uint32_t)self->units,
                              .work_stride = to->vectors};
    const vulkan_span spans[2] = {vulkan_bind(&self->x, first, count, &push.x), to->span};
    vulkan_dispatch dispatch = {
        .spans = spans,
        .span_count = 2,
        .beside = *recorded > 0,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {(uint32_t)((self->units + 63) / 64), (uint32_t)count, 1}};
    int32_t status = TENON_OK;

    to->made = 1;
    if (arith == TENON_CLASS_A8)
        status = vulkan_join_round(self->job.queue, &self->x, first, count, to->span, to->vectors,
                                   &joined, error);
    if (status != TENON_OK || joined) return status;
    status = vulkan_pipeline_get(self->job.queue->device,
                                 arith == TENON_CLASS_A8 ? VULKAN_ROUND : VULKAN_STAGE, NULL,
                                 &dispatch.pipeline, error);
    if (status == TENON_OK) status = vulkan_record(self->job.queue, &dispatch, error);
    if (status == TENON_OK) (*recorded)++;
    return status;
}

static uint32_t kernel_of(const vulkan_plan *plan, uint64_t tokens)
{
    int a8 = plan->arith == TENON_CLASS_A8;
    if (plan->grouped) return a8 ? VULKAN_GROUPS_A8 : VULKAN_GROUPS_F32;
    if (tokens < 3) return a8 ? VULKAN_GEMV_A8 : VULKAN_GEMV_F32;
    return a8 ? VULKAN_GEMM_A8 : VULKAN_GEMM_F32;
}

/* Parts of weights that one dispatch multiplies. */
typedef struct bundle {
    const vulkan_plan *plan; /* of the first of them */
    uint32_t count;
    const vulkan_part *parts[VULKAN_MOST_WEIGHTS];
    vulkan_span y_spans[VULKAN_MOST_WEIGHTS];
    uint32_t y[VULKAN_MOST_WEIGHTS], y_strides[VULKAN_MOST_WEIGHTS]; /* y: word of the y_span */
    vulkan_span codes, scales, ys;                                   /* that cover all of them */
    uint64_t tiles;
} bundle;

static uint64_t tiles_of(const vulkan_part *part)
{
    return (part->rows + VULKAN_TILE_ROWS - 1) / VULKAN_TILE_ROWS;
}

/* Are both packed so that one kernel with one set of constants reads them? */
static int packed_alike(const vulkan_plan *a, const vulkan_plan *b)
{
    return a->arith == b->arith && a->storage == b->storage && a->scale_kind == b->scale_kind &&
           a->minima == b->minima && a->block == b->block && a->grouped == b->grouped &&
           a->zero == b->zero && a->table == b->table && a->scale_vectors == b->scale_vectors &&
           (!a->grouped || a->group_size == b->group_size);
}

/* One part of the weight of one output, over count tokens from first on. 0: it needs a dispatch of its
 * own. */
static int add_part(product *self, bundle *to, uint32_t output, const vulkan_part *part,
                    uint64_t first, uint64_t count)
{
    const vulkan_gpu *gpu = self->job.queue->device->gpu;
    const vulkan_plan *plan = &weight_of(self->call, output)->plan;
    const int texels = self->job.queue->device->flavour == VULKAN_TEXEL;
    const uint64_t most = texels ? TENON_UNKNOWN : gpu->range_limit; /* of codes and scales */
    const uint32_t i = to->count;
    bundle more = *to;
    vulkan_span codes = vulkan_whole(part->codes), scales;

    scales = part->scales != NULL ? vulkan_whole(part->scales) : codes;
    more.parts[i] = part;
    more.y_spans[i] = vulkan_bind(&self->y[output], first, count, &more.y[i]);
    more.y[i] += (uint32_t)part->first_row;
    more.y_strides[i] = vulkan_stride(&self->y[output]);
    more.tiles += tiles_of(part);
    more.count++;
    if (i == 0) {
        more.plan = plan;
        more.codes = codes;
        more.scales = scales;
        more.ys = more.y_spans[0];
    } else if (!packed_alike(to->plan, plan) ||
               more.tiles > gpu->limits.maxComputeWorkGroupCount[0] ||
               !vulkan_span_cover(&more.codes, codes, most) ||
               !vulkan_span_cover(&more.scales, scales, most) ||
               !vulkan_span_cover(&more.ys, more.y_spans[i], gpu->range_limit)) {
        return 0;
    }
    *to = more;
    return 1;
}

/* Vector of the binding that covers memory where it begins. */
static uint32_t vector_of(const product *self, vulkan_span all, vulkan_memory *memory)
{
    if (self->job.queue->device->flavour == VULKAN_TEXEL) /* the binding is all of the block */
        return (uint32_t)(memory->offset / 16);
    return (uint32_t)(vulkan_span_distance(all, vulkan_whole(memory)) / 16);
}

/* Multiplies what is in the bundle with count tokens, and empties it. */
static int32_t record_bundle(product *self, bundle *from, uint64_t count, uint32_t *beside,
                             tenon_error *error)
{
    const vulkan_plan *plan = from->plan;
    const staged *x;
    vulkan_memory *others[3 * VULKAN_MOST_WEIGHTS];
    uint32_t kernel, options[VULKAN_MOST_CONSTANTS - 1] = {0}, i, n = 0;
    vulkan_product_push push = {.units = (uint32_t)self->units, .tokens = (uint32_t)count};
    vulkan_span spans[4];
    vulkan_dispatch dispatch = {.spans = spans,
                                .span_count = 4,
                                .others = others,
                                .beside = *beside,
                                .push = &push,
                                .push_bytes = sizeof push,
                                .groups = {(uint32_t)from->tiles, (uint32_t)count, 1}};
    int32_t status;

    if (from->count == 0) return TENON_OK;
    kernel = kernel_of(plan, count);
    if (kernel == VULKAN_GEMM_A8 || kernel == VULKAN_GEMM_F32)
        dispatch.groups[1] = (uint32_t)((count + VULKAN_GEMM_TOKENS - 1) / VULKAN_GEMM_TOKENS);
    x = staged_of(self, plan->arith);
    push.scales = plan->scale_vectors;
    push.work = x->work;
    push.work_stride = x->vectors;
    push.zero = plan->zero;
    push.cols = (uint32_t)plan->cols;
    push.group = plan->grouped ? (uint32_t)plan->group_size : 0;
    vulkan_plan_table(plan, push.table);
    spans[0] = from->codes;
    spans[1] = from->scales;
    spans[2] = x->span;
    spans[3] = from->ys;
    for (i = 0; i < from->count; i++) {
        const vulkan_part *part = from->parts[i];
        vulkan_memory *scales = part->scales != NULL ? part->scales : part->codes;
        push.codes_from[i] = vector_of(self, from->codes, part->codes);
        push.scales_from[i] = vector_of(self, from->scales, scales);
        push.rows[i] = (uint32_t)part->rows;
        push.y[i] = from->y[i] + (uint32_t)(vulkan_span_distance(from->ys, from->y_spans[i]) / 4);
        push.y_stride[i] = from->y_strides[i];
        others[n++] = part->codes;
        others[n++] = scales;
        others[n++] = from->y_spans[i].memory;
    }
    dispatch.other_count = n;
    if (!plan->grouped) vulkan_plan_options(plan, options);
    *from = (bundle){.count = 0};
    *beside = 1;
    status = vulkan_pipeline_get(self->job.queue->device, kernel, options, &dispatch.pipeline,
                                 error);
    return status == TENON_OK ? vulkan_record(self->job.queue, &dispatch, error) : status;
}

/* All outputs for count tokens from first on. */
static int32_t record_tokens(product *self, uint64_t first, uint64_t count, tenon_error *error)
{
    const tenon_qmatmul_call *call = self->call;
    int32_t status = TENON_OK;
    uint32_t i, beside = 0, recorded = 0;
    bundle parts = {.count = 0};
    uint64_t part;

    self->a8.made = self->f32.made = 0;
    for (i = 0; i < call->output_count && status == TENON_OK; i++) {
        uint32_t arith = weight_of(call, i)->plan.arith;
        if (staged_of(self, arith)->made) continue;
        status = record_staged(self, arith, first, count, &recorded, error);
    }
    for (i = 0; i < call->output_count && status == TENON_OK; i++) {
        const tenon_prepared *weight = weight_of(call, i);
        for (part = 0; part < weight->plan.parts && status == TENON_OK; part++) {
            if (parts.count < VULKAN_MOST_WEIGHTS &&
                add_part(self, &parts, i, &weight->parts[part], first, count))
                continue;
            status = record_bundle(self, &parts, count, &beside, error);
            (void)add_part(self, &parts, i, &weight->parts[part], first, count);
        }
    }
    return status == TENON_OK ? record_bundle(self, &parts, count, &beside, error) : status;
}

static int32_t run(product *self, tenon_device_queue *queue, tenon_error *error)
{
    const tenon_qmatmul_call *call = self->call;
    uint64_t first, count;
    int32_t status;
    int waits = 0;
    uint32_t i;

    for (i = 0; i < call->output_count; i++) waits |= call->outputs[i].y.buffer == NULL;
    status = vulkan_job_begin(&self->job, queue, waits, error);
    if (status == TENON_OK)
        status = vulkan_job_input(&self->job, &call->x, call->x_row_stride, call->tokens,
                                  self->cols, &self->x, error);
    for (i = 0; i < call->output_count && status == TENON_OK; i++)
        status = vulkan_job_output(&self->job, &call->outputs[i].y, call->outputs[i].row_stride,
                                   call->tokens, weight_of(call, i)->plan.rows, &self->y[i], error);
    if (status == TENON_OK) status = choose_tokens(self, error);
    for (i = 0; i < call->output_count && status == TENON_OK; i++)
        status = make_staged(self, weight_of(call, i)->plan.arith, error);
    for (first = 0; first < call->tokens && status == TENON_OK; first += count) {
        count = vulkan_least(self->most, call->tokens - first);
        status = record_tokens(self, first, count, error);
    }
    return vulkan_job_end(&self->job, status, error);
}

int32_t TENON_CALL vulkan_qmatmul_run(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_qmatmul_call *call, tenon_error *error)
{
    int32_t status = check_call(device, queue, call, error);
    product self = {.call = call};

    if (status != TENON_OK) return status;
    self.cols = weight_of(call, 0)->plan.cols;
    self.units = weight_of(call, 0)->plan.units;
    return run(&self, queue, error);
}
