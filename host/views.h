/* The bytes that a view of a request touches: rows at a constant distance, checked, compared. */
#ifndef TENON_HOST_VIEWS_H
#define TENON_HOST_VIEWS_H

#include "host.h"

/* Rows of bytes at a constant distance. */
typedef struct byte_rows {
    uint64_t start;  /* address of the first row */
    uint64_t width;  /* bytes of a row that are touched, at least 1, at most stride */
    uint64_t stride; /* from one row to the next; not looked at for one row */
    uint64_t count;  /* rows, at least 1 */
} byte_rows;

/* Do two sets of rows share a byte? Exact: rows of one may lie between rows of the other. No set
 * may reach past the last address. */
bool byte_rows_overlap(const byte_rows *a, const byte_rows *b);

/* Answers TENON_ARG with "where: text". */
int32_t view_bad(tenon_error *error, uint32_t reason, const char *where, const char *text);
/* The same with amounts, for the two faults that have them. */
int32_t view_bad_stride(tenon_error *error, const char *where, uint64_t width, uint64_t stride);
int32_t view_bad_bytes(tenon_error *error, const char *where, uint64_t reach, uint64_t bytes);

/* Checks that a view names a buffer of the session, that alone, and lies in it. */
int32_t view_check_buffer(const tenon_session *session, const tenon_view *view, const char *where,
                          tenon_error *error);

/* The address that the offset of a view counts from, for comparing views. */
static inline uint64_t view_base(const tenon_view *view)
{
    const tenon_buffer *buffer = view->buffer;
    return buffer != NULL ? buffer->address : (uintptr_t)view->host;
}

/* Checks one view of rows of 4-byte elements (R10, alignment, stride, bytes) and fills *out. where
 * is its name, for messages. TENON_OK or TENON_ARG. */
static inline int32_t view_check(const tenon_session *session, const tenon_view *view,
                                 uint64_t rows, uint64_t width, uint64_t stride, const char *where,
                                 byte_rows *out, tenon_error *error)
{
    uint64_t reach = width, start, end;
    int32_t status;

    if (view->buffer != NULL) {
        status = view_check_buffer(session, view, where, error);
        if (status != TENON_OK) return status;
    } else if (view->host == NULL) {
        return view_bad(error, TENON_REASON_NULL_POINTER, where, "host is NULL");
    }
    if (stride % sizeof(float) != 0)
        return view_bad(error, TENON_REASON_ALIGNMENT, where,
                        "the row stride is not a multiple of 4");
    if (stride < width) return view_bad_stride(error, where, width, stride);
    if (rows > 1) {
        /* small factors, nearly always: no division */
        if (((rows | stride) >> 32) == 0)
            reach = (rows - 1) * stride;
        else if (!tenon_mul_u64(rows - 1, stride, &reach))
            return view_bad(error, TENON_REASON_OVERFLOW, where,
                            "tokens times row stride overflows");
        if (!tenon_add_u64(reach, width, &reach))
            return view_bad(error, TENON_REASON_OVERFLOW, where,
                            "tokens times row stride overflows");
    }
    if (reach > view->bytes) return view_bad_bytes(error, where, reach, view->bytes);
    if (!tenon_add_u64(view_base(view), view->offset, &start) ||
        !tenon_add_u64(start, view->bytes, &end) || end > UINTPTR_MAX)
        return view_bad(error, TENON_REASON_OVERFLOW, where,
                        "the view reaches past the last address");
    if (start % sizeof(float) != 0)
        return view_bad(error, TENON_REASON_ALIGNMENT, where, "not aligned to 4 bytes");
    *out = (byte_rows){start, width, stride, rows};
    return TENON_OK;
}

#endif
