#include "qmatmul_check.h"

/* 0 for an output that is all zero. */
static inline uint64_t used_bits(const tenon_output *output)
{
    return (uintptr_t)output->weight | (uintptr_t)output->y.host | (uintptr_t)output->y.buffer |
           output->y.offset | output->y.bytes | output->row_stride;
}

static int32_t check_fixed(const tenon_qmatmul_call *call, tenon_error *error)
{
    uint32_t i;

    if (call->output_count < 1 || call->output_count > TENON_QMATMUL_MAX_OUTPUTS)
        return fail_text(error, TENON_ARG, TENON_REASON_OUTPUT_COUNT, TENON_SCOPE_CALL,
                         call->output_count, TENON_QMATMUL_MAX_OUTPUTS,
                         "output_count is %u, outputs are 1 to 4", call->output_count);
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return view_bad(error, TENON_REASON_RESERVED, "tenon_qmatmul_call",
                        "a reserved field is not zero (R7)");
    for (i = call->output_count; i < TENON_QMATMUL_MAX_OUTPUTS; i++) {
        if (used_bits(&call->outputs[i]) != 0)
            return view_bad(error, TENON_REASON_RESERVED, "tenon_qmatmul_call",
                            "an output past output_count is not zero");
    }
    if (call->tokens == 0) return view_bad(error, TENON_REASON_EMPTY_SHAPE, "tokens", "at least 1");
    return TENON_OK;
}

/* An aligned view of small factors that covers its rows; *start and *end are its first and last
 * touched byte, the last one excluded. Factors below 2^32 cannot overflow. */
static inline bool plain_view(const tenon_session *session, const tenon_view *view, uint64_t rows,
                              uint64_t width, uint64_t stride, uint64_t *start, uint64_t *end)
{
    uint64_t reach = (rows - 1) * stride + width, base;
    const tenon_buffer *buffer = view->buffer;

    if (buffer != NULL && view->host != NULL) return false;
    base = view_base(view);
    *start = base + view->offset;
    *end = *start + reach;
    if (((rows | stride | width | view->offset | view->bytes) >> 32) != 0 || stride < width ||
        reach > view->bytes || ((*start | stride) & (sizeof(float) - 1)) != 0)
        return false;
    if (buffer == NULL)
        return view->host != NULL && *start >= base && *start + view->bytes >= *start;
    return buffer->session == session && view->offset + view->bytes <= buffer->bytes;
}

/* Is this one of the requests that nearly all are: right, of modest size, its views apart from each
 * other? Others may be right too; those are looked at again, and what is wrong is named. */
static bool is_plain(const tenon_session *session, const tenon_qmatmul_call *call)
{
    uint64_t start[1 + TENON_QMATMUL_MAX_OUTPUTS], end[1 + TENON_QMATMUL_MAX_OUTPUTS];
    const tenon_weight *first = call->outputs[0].weight;
    uint64_t rest = call->reserved0 | call->reserved1[0] | call->reserved1[1];
    uint32_t i, j, count = call->output_count;

    if (count - 1 >= TENON_QMATMUL_MAX_OUTPUTS || call->tokens == 0 || first == NULL) return false;
    for (i = count; i < TENON_QMATMUL_MAX_OUTPUTS; i++) rest |= used_bits(&call->outputs[i]);
    if (rest != 0) return false;
    if (!plain_view(session, &call->x, call->tokens, first->x_row_bytes, call->x_row_stride,
                    &start[0], &end[0]))
        return false;
    for (i = 0; i < count; i++) {
        const tenon_output *output = &call->outputs[i];
        const tenon_weight *weight = output->weight;
        if (weight == NULL || weight->session != session ||
            weight->x_row_bytes != first->x_row_bytes ||
            !plain_view(session, &output->y, call->tokens, weight->y_row_bytes, output->row_stride,
                        &start[i + 1], &end[i + 1]))
            return false;
        for (j = 0; j <= i; j++)
            if (start[i + 1] < end[j] && start[j] < end[i + 1]) return false;
    }
    return true;
}

int32_t qmatmul_check(const tenon_session *session, const tenon_qmatmul_call *call,
                      tenon_error *error)
{
    static const char *const names[] = {"outputs[0].y", "outputs[1].y", "outputs[2].y",
                                        "outputs[3].y"};
    byte_rows x, y[TENON_QMATMUL_MAX_OUTPUTS];
    const tenon_weight *first = call->outputs[0].weight;
    uint32_t i, j;
    int32_t status;

    if (is_plain(session, call)) return TENON_OK;
    status = check_fixed(call, error);
    if (status != TENON_OK) return status;
    for (i = 0; i < call->output_count; i++) {
        const tenon_weight *weight = call->outputs[i].weight;
        if (weight == NULL)
            return view_bad(error, TENON_REASON_NULL_POINTER, names[i], "no weight");
        if (weight->session != session)
            return view_bad(error, TENON_REASON_UNKNOWN_VALUE, names[i],
                            "the weight belongs to another session");
        if (weight->x_row_bytes != first->x_row_bytes)
            return fail_text(
                error, TENON_ARG, TENON_REASON_COLS_DIFFER, TENON_SCOPE_CALL, first->desc.cols,
                weight->desc.cols, "%s: the weight has %llu inputs, the first one %llu", names[i],
                (unsigned long long)weight->desc.cols, (unsigned long long)first->desc.cols);
        status = view_check(session, &call->outputs[i].y, call->tokens, weight->y_row_bytes,
                            call->outputs[i].row_stride, names[i], &y[i], error);
        if (status != TENON_OK) return status;
    }
    status = view_check(session, &call->x, call->tokens, first->x_row_bytes, call->x_row_stride,
                        "x", &x, error);
    if (status != TENON_OK) return status;
    for (i = 0; i < call->output_count; i++) {
        if (byte_rows_overlap(&x, &y[i]))
            return view_bad(error, TENON_REASON_OVERLAP, names[i], "overlaps x (R12)");
        for (j = 0; j < i; j++)
            if (byte_rows_overlap(&y[j], &y[i]))
                return view_bad(error, TENON_REASON_OVERLAP, names[i], "overlaps another y (R12)");
    }
    return TENON_OK;
}
