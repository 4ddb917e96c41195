#include "qmatmul_check.h"

#include <stdio.h>

static uint64_t end_of(const byte_rows *rows)
{
    return rows->start + (rows->count - 1) * rows->stride + rows->width;
}

/* Does the range [start, start + width) share a byte with one of the rows? */
static bool range_meets(uint64_t start, uint64_t width, const byte_rows *rows)
{
    uint64_t row = 0, at;

    if (start + width <= rows->start || start >= end_of(rows)) return false;
    /* the row that starts last at or before start, and the one after it */
    if (start > rows->start && rows->count > 1) {
        row = (start - rows->start) / rows->stride;
        if (row > rows->count - 1) row = rows->count - 1;
    }
    at = rows->start + row * rows->stride;
    if (start < at + rows->width && at < start + width) return true;
    if (row + 1 >= rows->count) return false;
    at += rows->stride;
    return at < start + width;
}

bool byte_rows_overlap(const byte_rows *a, const byte_rows *b)
{
    uint64_t row;

    if (end_of(a) <= b->start || end_of(b) <= a->start) return false;
    if (a->count == 1) return range_meets(a->start, a->width, b);
    if (b->count == 1) return range_meets(b->start, b->width, a);
    if (a->count > b->count) {
        const byte_rows *other = a;
        a = b;
        b = other;
    }
    /* equal strides: when row i of one meets row j of the other, so do rows i - 1 and j - 1, down
     * to the first row of one of them */
    if (a->stride == b->stride)
        return range_meets(a->start, a->width, b) || range_meets(b->start, b->width, a);
    for (row = 0; row < a->count; row++)
        if (range_meets(a->start + row * a->stride, a->width, b)) return true;
    return false;
}

static int32_t bad(tenon_error *error, uint32_t reason, const char *where, const char *text)
{
    return fail_text(error, TENON_ARG, reason, TENON_SCOPE_CALL, 0, 0, "%s: %s", where, text);
}

/* The bytes of one view as rows. where is its name, for messages. */
static inline int32_t check_view(const tenon_view *view, uint64_t rows, uint64_t width,
                                 uint64_t stride, const char *where, byte_rows *out,
                                 tenon_error *error)
{
    uint64_t reach = width, start, end;

    if (view->buffer != NULL)
        return bad(error, TENON_REASON_NO_BUFFERS, where, "buffers are not offered");
    if (view->host == NULL) return bad(error, TENON_REASON_NULL_POINTER, where, "host is NULL");
    if (stride % sizeof(float) != 0)
        return bad(error, TENON_REASON_ALIGNMENT, where, "the row stride is not a multiple of 4");
    if (stride < width)
        return fail_text(error, TENON_ARG, TENON_REASON_STRIDE, TENON_SCOPE_CALL, width, stride,
                         "%s: a row has %llu bytes, the row stride is %llu", where,
                         (unsigned long long)width, (unsigned long long)stride);
    if (rows > 1) {
        /* small factors, nearly always: no division */
        if (((rows | stride) >> 32) == 0)
            reach = (rows - 1) * stride;
        else if (!tenon_mul_u64(rows - 1, stride, &reach))
            return bad(error, TENON_REASON_OVERFLOW, where, "tokens times row stride overflows");
        if (!tenon_add_u64(reach, width, &reach))
            return bad(error, TENON_REASON_OVERFLOW, where, "tokens times row stride overflows");
    }
    if (reach > view->bytes)
        return fail_text(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL, reach,
                         view->bytes, "%s: the shape needs %llu bytes, the view covers %llu", where,
                         (unsigned long long)reach, (unsigned long long)view->bytes);
    if (!tenon_add_u64((uintptr_t)view->host, view->offset, &start) ||
        !tenon_add_u64(start, view->bytes, &end) || end > UINTPTR_MAX)
        return bad(error, TENON_REASON_OVERFLOW, where, "the view reaches past the last address");
    if (start % sizeof(float) != 0)
        return bad(error, TENON_REASON_ALIGNMENT, where, "not aligned to 4 bytes");
    *out = (byte_rows){start, width, stride, rows};
    return TENON_OK;
}

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
        return bad(error, TENON_REASON_RESERVED, "tenon_qmatmul_call",
                   "a reserved field is not zero (R7)");
    for (i = call->output_count; i < TENON_QMATMUL_MAX_OUTPUTS; i++) {
        if (used_bits(&call->outputs[i]) != 0)
            return bad(error, TENON_REASON_RESERVED, "tenon_qmatmul_call",
                       "an output past output_count is not zero");
    }
    if (call->tokens == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, "tokens", "at least 1");
    return TENON_OK;
}

/* An aligned view of small factors that covers its rows; *start and *end are its first and last
 * touched byte, the last one excluded. Factors below 2^32 cannot overflow. */
static inline bool plain_view(const tenon_view *view, uint64_t rows, uint64_t width,
                              uint64_t stride, uint64_t *start, uint64_t *end)
{
    uint64_t reach = (rows - 1) * stride + width;

    *start = (uintptr_t)view->host + view->offset;
    *end = *start + reach;
    return ((rows | stride | width | view->offset | view->bytes) >> 32) == 0 &&
           view->host != NULL && view->buffer == NULL && stride >= width && reach <= view->bytes &&
           ((*start | stride) & (sizeof(float) - 1)) == 0 && *start >= (uintptr_t)view->host &&
           *start + view->bytes >= *start;
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
    if (!plain_view(&call->x, call->tokens, first->x_row_bytes, call->x_row_stride, &start[0],
                    &end[0]))
        return false;
    for (i = 0; i < count; i++) {
        const tenon_output *output = &call->outputs[i];
        const tenon_weight *weight = output->weight;
        if (weight == NULL || weight->session != session ||
            weight->x_row_bytes != first->x_row_bytes ||
            !plain_view(&output->y, call->tokens, weight->y_row_bytes, output->row_stride,
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
        if (weight == NULL) return bad(error, TENON_REASON_NULL_POINTER, names[i], "no weight");
        if (weight->session != session)
            return bad(error, TENON_REASON_UNKNOWN_VALUE, names[i],
                       "the weight belongs to another session");
        if (weight->x_row_bytes != first->x_row_bytes)
            return fail_text(
                error, TENON_ARG, TENON_REASON_COLS_DIFFER, TENON_SCOPE_CALL, first->desc.cols,
                weight->desc.cols, "%s: the weight has %llu inputs, the first one %llu", names[i],
                (unsigned long long)weight->desc.cols, (unsigned long long)first->desc.cols);
        status = check_view(&call->outputs[i].y, call->tokens, weight->y_row_bytes,
                            call->outputs[i].row_stride, names[i], &y[i], error);
        if (status != TENON_OK) return status;
    }
    status = check_view(&call->x, call->tokens, first->x_row_bytes, call->x_row_stride, "x", &x,
                        error);
    if (status != TENON_OK) return status;
    for (i = 0; i < call->output_count; i++) {
        if (byte_rows_overlap(&x, &y[i]))
            return bad(error, TENON_REASON_OVERLAP, names[i], "overlaps x (R12)");
        for (j = 0; j < i; j++)
            if (byte_rows_overlap(&y[j], &y[i]))
                return bad(error, TENON_REASON_OVERLAP, names[i], "overlaps another y (R12)");
    }
    return TENON_OK;
}
