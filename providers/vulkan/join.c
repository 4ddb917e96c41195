/* Which steps can be one: join.h. */
#include "join.h"

#include <string.h>

/* The open step, where it makes exactly these rows; NULL: none does. */
static const vulkan_open *find_open(const tenon_device_queue *queue, const vulkan_rows *rows,
                                    uint64_t first, uint64_t tokens)
{
    const vulkan_open *open = &queue->recording->open;

    if (!open->is_open || open->tokens != tokens || open->y.memory != rows->memory ||
        open->y.offset != rows->offset + first * rows->stride || open->y.bytes != rows->bytes ||
        (tokens > 1 && open->y.stride != rows->stride))
        return NULL;
    return open;
}

static uint32_t kernel_of(const vulkan_open *open)
{
    return open->ready.pipeline->kernel;
}

/* The open step as it is, to be changed: spans and push are the copies that it points to. */
static vulkan_dispatch copy_open(const vulkan_open *open, vulkan_span *spans, uint32_t *push)
{
    vulkan_dispatch out = {.spans = spans,
                           .span_count = open->ready.pipeline->bindings,
                           .push = push,
                           .push_bytes = open->ready.push_bytes};

    memcpy(spans, open->spans, sizeof open->spans);
    memcpy(push, open->ready.push, sizeof open->ready.push);
    memcpy(out.groups, open->ready.groups, sizeof out.groups);
    return out;
}

int32_t vulkan_join_round(tenon_device_queue *queue, const vulkan_rows *x, uint64_t first,
                          uint64_t tokens, vulkan_span work, uint32_t vectors, uint32_t *joined,
                          tenon_error *error)
{
    const vulkan_open *open = find_open(queue, x, first, tokens);
    uint32_t options[VULKAN_MOST_CONSTANTS - 1], push[32], constant = 1;
    vulkan_span spans[VULKAN_MOST_BINDINGS];
    vulkan_rows y;
    vulkan_dispatch dispatch;
    int32_t status;

    *joined = 0;
    if (open == NULL) return TENON_OK;
    dispatch = copy_open(open, spans, push);
    memcpy(options, open->ready.pipeline->constants + 1, sizeof options);
    switch (kernel_of(open)) {
    case VULKAN_RMSNORM: {
        vulkan_rmsnorm_push *to = (vulkan_rmsnorm_push *)push;
        if (dispatch.groups[0] != 1) return TENON_OK; /* a row in several groups */
        to->work = 0;
        to->work_stride = vectors;
        spans[5] = work;
        break;
    }
    case VULKAN_GATED: {
        vulkan_gated_push *to = (vulkan_gated_push *)push;
        to->work = 0;
        to->work_stride = vectors;
        spans[3] = work;
        break;
    }
    case VULKAN_COMBINE: {
        vulkan_attention_push *to = (vulkan_attention_push *)push;
        to->round = 0;
        to->round_stride = vectors;
        spans[3] = work;
        constant = 2;
        break;
    }
    default: return TENON_OK;
    }
    options[constant] = 1;
    y = open->y;
    status = vulkan_pipeline_get(queue->device, kernel_of(open), options, &dispatch.pipeline,
                                 error);
    if (status == TENON_OK) status = vulkan_record_instead(queue, &dispatch, &y, tokens, error);
    *joined = status == TENON_OK;
    return status;
}

/* Have two bindings a byte in common? */
static int meet(const vulkan_span *a, const vulkan_span *b)
{
    return a->memory == b->memory && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Rows as they are bound: word is where the first one starts. */
typedef struct bound {
    const vulkan_span *span;
    uint32_t word, stride;
} bound;

/* A workgroup reads row s of a before it writes row s of b, and no other row. */
static int can_follow(bound a, bound b, uint64_t tokens)
{
    if (!meet(a.span, b.span)) return 1;
    return a.span->offset + UINT64_C(4) * a.word == b.span->offset + UINT64_C(4) * b.word &&
           (tokens == 1 || a.stride == b.stride);
}

int32_t vulkan_join_add(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                        const vulkan_rows *x, const vulkan_rows *y, uint64_t tokens,
                        uint32_t *joined, tenon_error *error)
{
    const vulkan_open *open = find_open(queue, x, 0, tokens);
    static const uint32_t options[VULKAN_MOST_CONSTANTS - 1] = {1};
    vulkan_span spans[VULKAN_MOST_BINDINGS];
    vulkan_rmsnorm_push push;
    vulkan_add_push add;
    vulkan_dispatch whole = *dispatch;
    bound made;
    int32_t status;

    *joined = 0;
    if (open == NULL || kernel_of(open) != VULKAN_ADD || dispatch->groups[0] != 1) return TENON_OK;
    memcpy(&push, dispatch->push, sizeof push);
    memcpy(&add, open->ready.push, sizeof add);
    memcpy(spans, dispatch->spans, dispatch->span_count * sizeof *spans);
    made = (bound){&spans[2], push.y, push.y_stride};
    if (!can_follow((bound){&open->spans[0], add.a, add.a_stride}, made, tokens) ||
        !can_follow((bound){&open->spans[1], add.b, add.b_stride}, made, tokens) ||
        !can_follow((bound){&open->spans[2], add.y, add.y_stride}, made, tokens) ||
        meet(&open->spans[2], &spans[1])) /* w is read by the workgroups of all rows */
        return TENON_OK;
    spans[0] = open->spans[0];
    push.x = add.a;
    push.x_stride = add.a_stride;
    spans[3] = open->spans[1];
    push.b = add.b;
    push.b_stride = add.b_stride;
    spans[4] = open->spans[2];
    push.sum = add.y;
    push.sum_stride = add.y_stride;
    whole.spans = spans;
    whole.push = &push;
    status = vulkan_pipeline_get(queue->device, VULKAN_RMSNORM, options, &whole.pipeline, error);
    if (status == TENON_OK) status = vulkan_record_instead(queue, &whole, y, tokens, error);
    *joined = status == TENON_OK;
    return status;
}
