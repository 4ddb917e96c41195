/* Is a request right? Everything is checked before anybody is called (R5, R7, R10, R12). */
#ifndef TENON_HOST_QMATMUL_CHECK_H
#define TENON_HOST_QMATMUL_CHECK_H

#include "host.h"
#include "views.h"

/* call is in this library's size. TENON_OK, or TENON_ARG with a reason and words. */
int32_t qmatmul_check(const tenon_session *session, const tenon_qmatmul_call *call,
                      tenon_error *error);

#endif
