/* Problems: data, expectation, requests, comparison. */
#include "problem.h"

#include "save.h"
#include "share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Poison is a float that no product here gives, and not a NaN: any NaN equals any NaN. */
#define POISON 0xdeadbeefu
#define GUARD_WORDS 64u

uint64_t problem_known_tokens(const problem_sizes *sizes, uint64_t end)
{
    uint64_t known = 0;
    uint32_t i;
    for (i = 0; i < sizes->row_count; i++)
        if (sizes->rows[i] >= end) break;
    if (i == sizes->row_count) return 0;
    end = sizes->rows[i];
    for (i = 0; i < sizes->token_count; i++)
        if (end * sizes->tokens[i] <= sizes->limit || i == 0) known = sizes->tokens[i];
    return known;
}

/* Both copies of the activations. */
static bool make_activations(problem *self, random_state *random, data_kind kind)
{
    uint64_t cols = self->desc.cols, row = cols * 4, s;
    uint64_t gap = 4 + 4 * random_below(random, 4);
    self->x_stride[0] = row + gap;
    self->x_stride[1] = row;
    if (!guarded_make(&self->x[0], self->x_stride[0] * (self->tokens - 1) + row, 4) ||
        !guarded_make(&self->x[1], self->x_stride[1] * self->tokens, GUARDED_AT_END))
        return false;
    memset(self->x[0].data, 0x5a, self->x[0].bytes);
    for (s = 0; s < self->tokens; s++) {
        float *at = (float *)(void *)(self->x[0].data + s * self->x_stride[0]);
        data_fill_row(random, kind, s, at, cols);
        memcpy(self->x[1].data + s * self->x_stride[1], at, row);
    }
    return true;
}

bool problem_make(problem *self, const conformance_case *test, const problem_sizes *sizes,
                  const uint8_t *tensor_rows, conformance_result *result)
{
    random_state random = {test->seed};
    uint32_t reason;
    uint64_t bytes;
    memset(self, 0, sizeof *self);
    self->kind = (data_kind)test->kind;
    self->sizes = *sizes;
    self->tokens = sizes->tokens[sizes->token_count - 1];
    self->desc = (tenon_weight_desc){TENON_HEAD(tenon_weight_desc),
                                     .format = test->format,
                                     .layout = test->layout,
                                     .group_size = test->group_size,
                                     .rows = sizes->rows[sizes->row_count - 1],
                                     .cols = test->cols};
    if (tenon_weight_bytes(&self->desc, &self->weights_bytes, &self->scales_bytes, &reason) !=
        TENON_OK)
        return conformance_fail(result, "no such weight: %s", tenon_reason_text(reason));
    if (tensor_rows != NULL) {
        self->weights = tensor_rows;
    } else {
        if (!guarded_make(&self->own_weights, self->weights_bytes, 0) ||
            !guarded_make(&self->own_scales, self->scales_bytes, 0))
            return conformance_fail(result, "out of memory");
        data_fill_weight(&random, (data_kind)test->kind, &self->desc, self->own_weights.data,
                         self->weights_bytes, self->own_scales.data, self->scales_bytes);
        self->weights = self->own_weights.data;
        self->scales = self->own_scales.data;
    }
    if (!make_activations(self, &random, (data_kind)test->kind) ||
        !tenon_mul_u64(self->tokens * self->desc.rows, sizeof(float), &bytes))
        return conformance_fail(result, "out of memory");
    self->expected = calloc(1, bytes);
    if (self->expected == NULL) return conformance_fail(result, "out of memory");
    return true;
}

void problem_free(problem *self)
{
    guarded_free(&self->own_weights);
    guarded_free(&self->own_scales);
    guarded_free(&self->x[0]);
    guarded_free(&self->x[1]);
    free(self->expected);
    memset(self, 0, sizeof *self);
}

/* The reference's product of rows [0, rows) and tokens [first, first + count). */
static bool expect_part(problem *self, engine_side *engine, uint64_t rows, uint64_t first,
                        uint64_t count, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_desc desc = self->desc;
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = self->weights,
                              .scales = self->scales_bytes != 0 ? self->scales : NULL,
                              .lifetime = TENON_LIFETIME_STABLE};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = 0};
    tenon_weight *weight = NULL;
    uint32_t reason;
    int32_t status;
    desc.rows = rows;
    status = tenon_weight_bytes(&desc, &data.weights_bytes, &data.scales_bytes, &reason);
    if (status == TENON_OK)
        status = tenon_weight_create(engine->reference, &desc, &data, &weight, &error);
    if (status != TENON_OK)
        return conformance_fail(result, "the reference takes no such weight: status %d, %s", status,
                                error.text);
    call.x.host = self->x[1].data + first * self->x_stride[1];
    call.x.bytes = count * self->x_stride[1];
    call.tokens = count;
    call.x_row_stride = self->x_stride[1];
    call.output_count = 1;
    call.outputs[0].weight = weight;
    call.outputs[0].row_stride = self->desc.rows * 4;
    call.outputs[0].y.host = self->expected + first * self->desc.rows;
    call.outputs[0].y.bytes = ((count - 1) * self->desc.rows + rows) * 4;
    status = tenon_qmatmul(tenon_session_queue(engine->reference), &call, &error);
    tenon_weight_destroy(weight);
    if (status != TENON_OK)
        return conformance_fail(result, "the reference failed: status %d, %s", status, error.text);
    return true;
}

/* Everything that the expected bits depend on. */
static uint64_t expected_key(const problem *self)
{
    return memory_hash(&self->desc, sizeof self->desc) ^
           memory_hash(&self->sizes, sizeof self->sizes) * 3 ^
           memory_hash(self->weights, self->weights_bytes) * 5 ^
           memory_hash(self->scales, self->scales_bytes) * 7 ^ guarded_hash(&self->x[1]) * 9;
}

bool problem_expect(problem *self, engine_side *engine, const conformance_target *target,
                    conformance_result *result)
{
    uint64_t done = 0, bytes = self->tokens * self->desc.rows * sizeof(float);
    uint64_t key = expected_key(self);
    uint32_t i;
    if (share_find(target->share, key, self->expected, bytes)) return true;
    /* A staircase: the most rows with the fewest tokens first, then the tokens that only fewer
     * rows are asked for. */
    for (i = self->sizes.row_count; i-- > 0;) {
        uint64_t known = problem_known_tokens(&self->sizes, self->sizes.rows[i]);
        if (known <= done) continue;
        if (!expect_part(self, engine, self->sizes.rows[i], done, known - done, result))
            return false;
        done = known;
    }
    share_put(target->share, key, self->expected, bytes);
    return true;
}

bool problem_room_make(problem_room *self, const problem *of, conformance_result *result)
{
    uint64_t rows = of->desc.rows, words = of->tokens * (rows + 16) + 2 * GUARD_WORDS;
    uint32_t i;
    memset(self, 0, sizeof *self);
    for (i = 0; i < TENON_QMATMUL_MAX_OUTPUTS; i++)
        if (!guarded_make(&self->y[i], words * 4, 4 + 4 * i)) {
            problem_room_free(self);
            return conformance_fail(result, "out of memory");
        }
    return true;
}

void problem_room_free(problem_room *self)
{
    uint32_t i;
    for (i = 0; i < TENON_QMATMUL_MAX_OUTPUTS; i++) guarded_free(&self->y[i]);
}

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Words of one output: guard, rows with their gaps, guard. */
static uint64_t output_words(const problem_request *request, uint32_t n)
{
    uint64_t stride = request->output[n].rows + request->output[n].y_pad / 4;
    return GUARD_WORDS + stride * (request->tokens - 1) + request->output[n].rows + GUARD_WORDS;
}

/* What is wrong with one output, or true. */
static bool check_output(const problem *self, const problem_request *request, uint32_t n,
                         const uint32_t *y, const char *where, conformance_result *result)
{
    uint64_t rows = request->output[n].rows, stride = rows + request->output[n].y_pad / 4;
    uint64_t words = output_words(request, n), i, s, o;
    for (i = 0; i < words; i++) {
        uint64_t inside = i - GUARD_WORDS;
        bool written = i >= GUARD_WORDS && i < words - GUARD_WORDS && inside % stride < rows;
        if (!written && y[i] != POISON)
            return conformance_fail(result,
                                    "wrote outside of y: output %u, %lld words from its start (%s)",
                                    n, (long long)(i - GUARD_WORDS), where);
    }
    for (s = 0; s < request->tokens; s++) {
        for (o = 0; o < rows; o++) {
            uint64_t row = request->output[n].first_row + o;
            uint32_t got = y[GUARD_WORDS + s * stride + o], want;
            memcpy(&want, &self->expected[(request->first_token + s) * self->desc.rows + row], 4);
            if (got == want || (is_nan(got) && is_nan(want))) continue;
            return conformance_fail(
                result, "output %u, token %llu, row %llu: %s 0x%08x (%g), want 0x%08x (%g) (%s)", n,
                (unsigned long long)s, (unsigned long long)o,
                got == POISON ? "not written," : "got", got, (double)as_float(got), want,
                (double)as_float(want), where);
        }
    }
    return true;
}

bool problem_check(const problem *self, const problem_request *request, const problem_room *room,
                   engine_side *engine, const conformance_case *test,
                   const conformance_target *target, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = 0};
    const guarded *x = &self->x[request->x];
    uint64_t x_stride = self->x_stride[request->x], i;
    char where[200];
    int32_t status;
    uint32_t n;
    bool good = true;
    snprintf(where, sizeof where, "rows %llu, cols %llu, tokens %llu, outputs %u, threads %u",
             (unsigned long long)request->output[0].rows, (unsigned long long)self->desc.cols,
             (unsigned long long)request->tokens, request->outputs, engine->threads);
    call.x.host = x->data + request->first_token * x_stride;
    call.x.bytes = (request->tokens - 1) * x_stride + self->desc.cols * 4;
    call.tokens = request->tokens;
    call.x_row_stride = x_stride;
    call.output_count = request->outputs;
    for (n = 0; n < request->outputs; n++) {
        uint32_t *y = (uint32_t *)(void *)room->y[n].data;
        uint64_t words = output_words(request, n);
        for (i = 0; i < words; i++) y[i] = POISON;
        call.outputs[n].weight = request->output[n].weight;
        call.outputs[n].row_stride = request->output[n].rows * 4 + request->output[n].y_pad;
        call.outputs[n].y.host = y + GUARD_WORDS;
        call.outputs[n].y.bytes = (words - 2 * GUARD_WORDS) * 4;
    }
    status = tenon_qmatmul(tenon_session_queue(engine->tested), &call, &error);
    if (status != TENON_OK) {
        for (n = 0; n < request->outputs; n++) {
            const uint32_t *y = (const uint32_t *)(const void *)room->y[n].data;
            for (i = 0; i < output_words(request, n); i++)
                if (status == TENON_DECLINED && y[i] != POISON)
                    return conformance_fail(result, "declined, but wrote to y (%s)", where);
        }
        if (engine_side_declined(status, &error)) {
            result->declined++;
            return true;
        }
        return conformance_fail(result, "status %d, reason %u: %s (%s)", status, error.reason,
                                error.text, where);
    }
    for (n = 0; good && n < request->outputs; n++)
        good = check_output(self, request, n, (const uint32_t *)(const void *)room->y[n].data,
                            where, result);
    result->requests++;
    if (!good && test->save_dir != NULL)
        save_request(self, request, n - 1, &room->y[n - 1], GUARD_WORDS, engine->threads, test,
                     target, result);
    return good;
}
