/* Cases of rmsnorm, gated, add and argmax: the operations over rows of floats. */
#include "operation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Which operation, and which activation. */
typedef enum rows_operation { ROWS_RMSNORM, ROWS_GATED, ROWS_ADD, ROWS_ARGMAX } rows_operation;

/* One request on its way; the arrays are the same for both sessions. */
typedef struct rows {
    const conformance_case *test;
    rows_operation operation;
    uint32_t activation;
    uint64_t tokens, groups, width, row; /* row: floats of one token */
    uint64_t pad;                        /* bytes between rows of inputs and y */
    float eps;
    guarded first, second;
} rows;

static tenon_view view_of(const guarded *memory)
{
    return (tenon_view){.host = memory->data, .bytes = memory->bytes};
}

static int32_t call(void *context, tenon_session *session, bool tested, void *y, tenon_error *error)
{
    const rows *self = context;
    tenon_queue *queue = tenon_session_queue(session);
    const uint64_t stride = operation_stride(self->row, self->pad);
    const tenon_view out = {.host = y,
                            .bytes = operation_rows_bytes(self->tokens, self->row, self->pad)};
    (void)tested;
    switch (self->operation) {
    case ROWS_RMSNORM: {
        const tenon_rmsnorm_call request = {
            TENON_HEAD(tenon_rmsnorm_call), .x = view_of(&self->first),
            .w = view_of(&self->second),    .y = out,
            .tokens = self->tokens,         .groups = self->groups,
            .width = self->width,           .x_row_stride = stride,
            .y_row_stride = stride,         .eps = self->eps};
        return tenon_rmsnorm(queue, &request, error);
    }
    case ROWS_GATED: {
        const tenon_gated_call request = {
            TENON_HEAD(tenon_gated_call), .gate = view_of(&self->first),
            .up = view_of(&self->second), .y = out,
            .tokens = self->tokens,       .width = self->width,
            .gate_row_stride = stride,    .up_row_stride = stride,
            .y_row_stride = stride,       .activation = self->activation};
        return tenon_gated(queue, &request, error);
    }
    case ROWS_ADD: {
        const tenon_add_call request = {TENON_HEAD(tenon_add_call),  .a = view_of(&self->first),
                                        .b = view_of(&self->second), .y = out,
                                        .tokens = self->tokens,      .width = self->width,
                                        .a_row_stride = stride,      .b_row_stride = stride,
                                        .y_row_stride = stride};
        return tenon_add(queue, &request, error);
    }
    default: {
        const tenon_argmax_call request = {TENON_HEAD(tenon_argmax_call),
                                           .x = view_of(&self->first),
                                           .y = {.host = y, .bytes = 4 * self->tokens},
                                           .tokens = self->tokens,
                                           .width = self->width,
                                           .x_row_stride = stride};
        return tenon_argmax(queue, &request, error);
    }
    }
}

/* Ties, rows of one value, NaN in between: what argmax has to decide. */
static void make_ties(float *x, uint64_t count, random_state *random)
{
    static const uint32_t chosen[] = {0x00000000u, 0x80000000u, 0x3f800000u,
                                      0xff800000u, 0x7fc00000u, 0xbf800000u};
    uint64_t i;
    for (i = 0; i < count; i++)
        memcpy(&x[i], &chosen[random_below(random, sizeof chosen / sizeof chosen[0])], 4);
}

/* How `tenon op` makes the request. */
static void describe(const rows *self, save_call *save)
{
    static const struct {
        const char *name, *first, *second;
    } operations[] = {[ROWS_RMSNORM] = {"rmsnorm", "x", "w"},
                      [ROWS_GATED] = {"gated", "gate", "up"},
                      [ROWS_ADD] = {"add", "a", "b"},
                      [ROWS_ARGMAX] = {"argmax", "x", NULL}};
    static const char *const activations[] = {"", "silu", "gelu-tanh", "gelu-erf", "relu"};
    const uint64_t stride = operation_stride(self->row, self->pad);
    const save_part all = {NULL, self->first.data, self->tokens, 4 * self->row, stride};
    size_t used;
    save->operation = operations[self->operation].name;
    snprintf(save->words, sizeof save->words, " --tokens %" PRIu64 " --width %" PRIu64,
             self->tokens, self->width);
    used = strlen(save->words);
    if (self->operation == ROWS_RMSNORM)
        snprintf(save->words + used, sizeof save->words - used, " --groups %" PRIu64 " --eps %.9g",
                 self->groups, (double)self->eps);
    if (self->operation == ROWS_GATED)
        snprintf(save->words + used, sizeof save->words - used, " --act %s",
                 activations[self->activation]);
    save->parts[0] = save->parts[1] = save->result = all;
    save->parts[0].option = operations[self->operation].first;
    save->parts[1].option = operations[self->operation].second;
    save->parts[1].data = self->second.data;
    save->part_count = save->parts[1].option != NULL ? 2 : 1;
    if (self->operation == ROWS_RMSNORM) /* one row of factors */
        save->parts[1] = (save_part){"w", self->second.data, 1, 4 * self->width, 0};
    if (self->operation == ROWS_ARGMAX)
        save->result = (save_part){NULL, NULL, 1, 4 * self->tokens, 0};
}

static bool one(rows *self, data_kind kind, uint32_t offset, const engine_side *engine,
                random_state *random, conformance_result *result)
{
    operation_request request = {.call = call, .context = self, .y_offset = offset};
    uint64_t floats = operation_rows_bytes(self->tokens, self->row, self->pad) / 4;
    bool good = operation_floats(&self->first, floats, offset, random, kind, result) &&
                operation_floats(&self->second,
                                 self->operation == ROWS_RMSNORM ? self->width : floats, offset,
                                 random, kind, result);
    if (!good) goto out;
    if (kind == DATA_HALF_SUMS) make_ties((float *)(void *)self->first.data, floats, random);
    request.indices = self->operation == ROWS_ARGMAX;
    request.y_bytes = request.indices ? 4 * self->tokens : 4 * floats;
    request.inputs[0] = &self->first;
    request.inputs[1] = &self->second;
    request.input_count = 2;
    snprintf(request.what, sizeof request.what,
             "%" PRIu64 " tokens, %" PRIu64 " groups, width %" PRIu64 ", pad %" PRIu64,
             self->tokens, self->groups, self->width, self->pad);
    if (self->test->save_dir != NULL) describe(self, &request.save);
    good = operation_compare(&request, self->test, engine, result);
out:
    guarded_free(&self->first);
    guarded_free(&self->second);
    return good;
}

static bool requests(const conformance_case *test, engine_side *engine, random_state *random,
                     conformance_result *result)
{
    static const uint64_t widths[] = {1,  2,  7,   8,   15,  16,  17,   31,   32,
                                      33, 64, 127, 128, 129, 576, 1536, 2048, 4099};
    static const uint64_t tokens[] = {1, 2, 3, 9};
    rows self = {
        .test = test, .operation = (rows_operation)test->format, .activation = test->layout};
    size_t w, t;
    for (w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
            bool norm = self.operation == ROWS_RMSNORM;
            self.tokens = tokens[t];
            self.width = widths[w];
            self.groups = norm && widths[w] <= 128 ? 1 + (w + t) % 3 : 1;
            self.row = self.groups * self.width;
            self.pad = t % 2 == 0 ? 0 : 4 * (1 + w % 5);
            self.eps = t == 0 ? 0.0f : t == 1 ? 1e-6f : 1e-5f;
            if (!one(&self, (data_kind)test->kind, t % 2 == 0 ? GUARDED_AT_END : 4, engine, random,
                     result))
                return false;
            if (result->requests == 0 && w > 2) return true; /* nothing is taken */
        }
    return true;
}

static void run(const conformance_case *test, const conformance_target *target,
                conformance_result *result)
{
    operation_run(test, target, requests, result);
}

static bool add(conformance_suite *suite, const char *name, const char *what,
                rows_operation operation, uint32_t activation, data_kind kind)
{
    char full[160];
    conformance_case *added;
    snprintf(full, sizeof full, "exact/%s/%s", name, what);
    added = conformance_add(suite, CONFORMANCE_EXACT, run, full);
    if (added == NULL) return false;
    added->format = (uint32_t)operation;
    added->layout = activation;
    added->kind = (uint32_t)kind;
    return true;
}

bool conformance_add_rows(conformance_suite *suite)
{
    static const struct {
        const char *what;
        data_kind kind;
    } kinds[] = {{"ordinary", DATA_ORDINARY},
                 {"special", DATA_SPECIAL},
                 {"tiny", DATA_TINY},
                 {"large-sums", DATA_LARGE_SUMS}};
    static const char *const activations[] = {"", "silu", "gelu-tanh", "gelu-erf", "relu"};
    char name[40];
    uint32_t a;
    size_t k;
    for (k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (!add(suite, "rmsnorm", kinds[k].what, ROWS_RMSNORM, 0, kinds[k].kind) ||
            !add(suite, "add", kinds[k].what, ROWS_ADD, 0, kinds[k].kind) ||
            !add(suite, "argmax", kinds[k].what, ROWS_ARGMAX, 0, kinds[k].kind))
            return false;
        for (a = TENON_ACT_SILU; a <= TENON_ACT_RELU; a++) {
            snprintf(name, sizeof name, "gated/%s", activations[a]);
            if (!add(suite, name, kinds[k].what, ROWS_GATED, a, kinds[k].kind)) return false;
        }
    }
    return add(suite, "argmax", "ties", ROWS_ARGMAX, 0, DATA_HALF_SUMS);
}
