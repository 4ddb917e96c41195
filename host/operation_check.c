/* Is a request of a whole operation right? Everything is checked before anybody is called (R5, R7,
 * R10, R12); what overlaps what is one loop for all of them, in operation.c. */
#include "operation.h"

#include <math.h>

/* rmsnorm divides by the width as a binary32 number, which holds it exactly below this. */
#define WIDTH_EXACT (UINT64_C(1) << 24)

static int32_t reserved(tenon_error *error, const char *type)
{
    return view_bad(error, TENON_REASON_RESERVED, type, "a reserved field is not zero (R7)");
}

static int32_t empty(tenon_error *error, const char *field)
{
    return view_bad(error, TENON_REASON_EMPTY_SHAPE, field, "at least 1");
}

/* *bytes = count * sizeof(float). */
static int32_t row_bytes(uint64_t count, const char *field, uint64_t *bytes, tenon_error *error)
{
    *bytes = 0;
    if (count == 0) return empty(error, field);
    if (!tenon_mul_u64(count, sizeof(float), bytes))
        return view_bad(error, TENON_REASON_OVERFLOW, field, "a row of floats overflows");
    return TENON_OK;
}

/* Takes the next view of the request up: tokens rows of width bytes. */
static int32_t take(const tenon_session *session, operation_facts *facts, tenon_view *view,
                    const char *name, uint64_t rows, uint64_t width, uint64_t stride,
                    tenon_error *error)
{
    uint32_t at = facts->view_count;
    int32_t status = view_check(session, view, rows, width, stride, name, &facts->views[at], error);

    if (status != TENON_OK) return status;
    facts->names[at] = name;
    facts->at[at] = view;
    if (view->buffer != NULL) facts->buffers = true;
    facts->view_count = at + 1;
    return TENON_OK;
}

/* An index past the table's end must never reach a provider. The ids are the engine's memory, which
 * it leaves alone while the call runs. */
static int32_t check_ids(const uint32_t *ids, uint64_t tokens, uint64_t rows, tenon_error *error)
{
    uint64_t i;

    for (i = 0; i < tokens; i++)
        if (ids[i] >= rows)
            return fail_text(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL, ids[i], rows,
                             "ids[%llu] is %u, the weight has %llu rows", (unsigned long long)i,
                             ids[i], (unsigned long long)rows);
    return TENON_OK;
}

int32_t operation_check_embed(const tenon_session *session, operation_request *request,
                              operation_facts *facts, tenon_error *error)
{
    tenon_embed_call *call = &request->embed;
    tenon_weight *weight = call->weight;
    uint64_t ids_bytes;
    int32_t status;

    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return reserved(error, "tenon_embed_call");
    if (weight == NULL) return view_bad(error, TENON_REASON_NULL_POINTER, "weight", "is NULL");
    if (weight->session != session)
        return view_bad(error, TENON_REASON_UNKNOWN_VALUE, "weight", "belongs to another session");
    facts->tokens = call->tokens;
    facts->weight = weight;
    status = row_bytes(call->tokens, "tokens", &ids_bytes, error);
    if (status == TENON_OK)
        status = take(session, facts, &call->ids, "ids", 1, ids_bytes, ids_bytes, error);
    if (status == TENON_OK)
        status = take(session, facts, &call->y, "y", call->tokens, weight->x_row_bytes,
                      call->y_row_stride, error);
    if (status != TENON_OK || call->ids.buffer != NULL) return status; /* SPEC.md 1.8 */
    return check_ids((const uint32_t *)(uintptr_t)facts->views[0].start, call->tokens,
                     weight->desc.rows, error);
}

int32_t operation_check_rmsnorm(const tenon_session *session, operation_request *request,
                                operation_facts *facts, tenon_error *error)
{
    tenon_rmsnorm_call *call = &request->rmsnorm;
    uint64_t group, row;
    int32_t status;

    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return reserved(error, "tenon_rmsnorm_call");
    if (call->tokens == 0) return empty(error, "tokens");
    if (call->groups == 0) return empty(error, "groups");
    if (call->width >= WIDTH_EXACT)
        return fail_text(error, TENON_ARG, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                         call->width, WIDTH_EXACT - 1, "width: %llu, less than 2^24 is exact",
                         (unsigned long long)call->width);
    if (!isfinite(call->eps) || call->eps < 0.0f)
        return view_bad(error, TENON_REASON_UNKNOWN_VALUE, "eps", "finite and not below 0");
    facts->tokens = call->tokens;
    status = row_bytes(call->width, "width", &group, error);
    if (status != TENON_OK) return status;
    if (!tenon_mul_u64(group, call->groups, &row))
        return view_bad(error, TENON_REASON_OVERFLOW, "groups", "a row of floats overflows");
    status = take(session, facts, &call->x, "x", call->tokens, row, call->x_row_stride, error);
    if (status == TENON_OK) status = take(session, facts, &call->w, "w", 1, group, group, error);
    if (status == TENON_OK)
        status = take(session, facts, &call->y, "y", call->tokens, row, call->y_row_stride, error);
    return status;
}

int32_t operation_check_gated(const tenon_session *session, operation_request *request,
                              operation_facts *facts, tenon_error *error)
{
    tenon_gated_call *call = &request->gated;
    uint64_t row;
    int32_t status;

    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return reserved(error, "tenon_gated_call");
    if (call->tokens == 0) return empty(error, "tokens");
    if (call->activation < TENON_ACT_SILU || call->activation > TENON_ACT_RELU)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "activation %u is not known", call->activation);
    facts->tokens = call->tokens;
    status = row_bytes(call->width, "width", &row, error);
    if (status == TENON_OK)
        status = take(session, facts, &call->gate, "gate", call->tokens, row, call->gate_row_stride,
                      error);
    if (status == TENON_OK)
        status = take(session, facts, &call->up, "up", call->tokens, row, call->up_row_stride,
                      error);
    if (status == TENON_OK)
        status = take(session, facts, &call->y, "y", call->tokens, row, call->y_row_stride, error);
    return status;
}

int32_t operation_check_add(const tenon_session *session, operation_request *request,
                            operation_facts *facts, tenon_error *error)
{
    tenon_add_call *call = &request->add;
    uint64_t row;
    int32_t status;

    if (call->reserved0[0] != 0 || call->reserved0[1] != 0)
        return reserved(error, "tenon_add_call");
    if (call->tokens == 0) return empty(error, "tokens");
    facts->tokens = call->tokens;
    status = row_bytes(call->width, "width", &row, error);
    if (status == TENON_OK)
        status = take(session, facts, &call->a, "a", call->tokens, row, call->a_row_stride, error);
    if (status == TENON_OK)
        status = take(session, facts, &call->b, "b", call->tokens, row, call->b_row_stride, error);
    if (status == TENON_OK)
        status = take(session, facts, &call->y, "y", call->tokens, row, call->y_row_stride, error);
    return status;
}

int32_t operation_check_argmax(const tenon_session *session, operation_request *request,
                               operation_facts *facts, tenon_error *error)
{
    tenon_argmax_call *call = &request->argmax;
    uint64_t row, out;
    int32_t status;

    if (call->reserved0[0] != 0 || call->reserved0[1] != 0)
        return reserved(error, "tenon_argmax_call");
    if (call->width >= TENON_ARGMAX_NONE)
        return fail_text(error, TENON_ARG, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                         call->width, TENON_ARGMAX_NONE - 1u, "width: %llu, an index has 32 bits",
                         (unsigned long long)call->width);
    facts->tokens = call->tokens;
    status = row_bytes(call->tokens, "tokens", &out, error);
    if (status == TENON_OK && call->width > 0) { /* an empty row touches nothing of x */
        status = row_bytes(call->width, "width", &row, error);
        if (status == TENON_OK)
            status = take(session, facts, &call->x, "x", call->tokens, row, call->x_row_stride,
                          error);
    } else if (status == TENON_OK && call->x.buffer != NULL) {
        status = view_check_buffer(session, &call->x, "x", error);
        call->x = (tenon_view){.host = NULL};
    }
    if (status == TENON_OK) status = take(session, facts, &call->y, "y", 1, out, out, error);
    return status;
}
