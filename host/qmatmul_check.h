#ifndef TENON_HOST_QMATMUL_CHECK_H
#define TENON_HOST_QMATMUL_CHECK_H

#include "host.h"
#include "views.h"

/* call is in this library's size. TENON_OK, or TENON_ARG with a reason and words. */
int32_t qmatmul_check(const tenon_session *session, const tenon_qmatmul_call *call,
                      tenon_error *error);
/* qmatmul.c: checks the call and has it computed. Inside a call of the queue. */
int32_t qmatmul_perform(tenon_queue *queue, const tenon_qmatmul_call *call, tenon_error *error);

/* What the views of a call that has been checked touch. */
static inline byte_rows qmatmul_x_rows(const tenon_qmatmul_call *call)
{
    const tenon_weight *first = call->outputs[0].weight;
    return (byte_rows){view_base(&call->x) + call->x.offset, first->x_row_bytes, call->x_row_stride,
                       call->tokens};
}

static inline byte_rows qmatmul_y_rows(const tenon_qmatmul_call *call, uint32_t which)
{
    const tenon_output *output = &call->outputs[which];
    const tenon_weight *weight = output->weight;
    return (byte_rows){view_base(&output->y) + output->y.offset, weight->y_row_bytes,
                       output->row_stride, call->tokens};
}

#endif
