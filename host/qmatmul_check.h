/* Is a request right? Everything is checked before anybody is called (R5, R7, R10, R12). */
#ifndef TENON_HOST_QMATMUL_CHECK_H
#define TENON_HOST_QMATMUL_CHECK_H

#include "host.h"

/* call is in this library's size. TENON_OK, or TENON_ARG with a reason and words. */
int32_t qmatmul_check(const tenon_session *session, const tenon_qmatmul_call *call,
                      tenon_error *error);

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

#endif
