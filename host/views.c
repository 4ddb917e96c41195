#include "views.h"

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

int32_t view_check_buffer(const tenon_session *session, const tenon_view *view, const char *where,
                          tenon_error *error)
{
    const tenon_buffer *buffer = view->buffer;

    if (view->host != NULL)
        return view_bad(error, TENON_REASON_UNKNOWN_VALUE, where,
                        "names host memory and a buffer, a view is one of them");
    if (buffer->session != session)
        return view_bad(error, TENON_REASON_UNKNOWN_VALUE, where,
                        "the buffer belongs to another session");
    if (view->offset > buffer->bytes || view->bytes > buffer->bytes - view->offset)
        return fail_text(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL, view->bytes,
                         buffer->bytes, "%s: %llu bytes from %llu on, the buffer has %llu", where,
                         (unsigned long long)view->bytes, (unsigned long long)view->offset,
                         (unsigned long long)buffer->bytes);
    return TENON_OK;
}

int32_t view_bad(tenon_error *error, uint32_t reason, const char *where, const char *text)
{
    return fail_text(error, TENON_ARG, reason, TENON_SCOPE_CALL, 0, 0, "%s: %s", where, text);
}

int32_t view_bad_stride(tenon_error *error, const char *where, uint64_t width, uint64_t stride)
{
    return fail_text(error, TENON_ARG, TENON_REASON_STRIDE, TENON_SCOPE_CALL, width, stride,
                     "%s: a row has %llu bytes, the row stride is %llu", where,
                     (unsigned long long)width, (unsigned long long)stride);
}

int32_t view_bad_bytes(tenon_error *error, const char *where, uint64_t reach, uint64_t bytes)
{
    return fail_text(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL, reach, bytes,
                     "%s: the shape needs %llu bytes, the view covers %llu", where,
                     (unsigned long long)reach, (unsigned long long)bytes);
}
