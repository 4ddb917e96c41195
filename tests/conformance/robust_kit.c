/* What the cases of stage robust share. */
#include "robust.h"

#include "approx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool robust_good(conformance_result *result, int32_t status, const tenon_error *error,
                 const char *what)
{
    result->requests++;
    if (status == TENON_OK) return true;
    return conformance_fail(result, "%s: status %d, reason %u: %s", what, status, error->reason,
                            error->text);
}

static bool takes(robust_kit *self, uint32_t format)
{
    robust_weight probe;
    tenon_format_info info;
    bool taken;
    if (!tenon_format_find(format, &info)) return false;
    self->format = format;
    self->layout = TENON_LAYOUT_NONE;
    if (format == TENON_FORMAT_INT4_ROW) self->layout = TENON_LAYOUT_PAIR;
    if (format == TENON_FORMAT_INT4_GROUP) return false; /* int4-row is as good */
    taken = robust_weight_make(self, &probe, self->engine.tested, ROBUST_SIDE, ROBUST_SIDE, 1) &&
            probe.weight != NULL;
    if (taken) {
        tenon_weight_information about = {TENON_HEAD(tenon_weight_information), .arith = 0};
        taken = tenon_weight_info(probe.weight, &about, NULL) == TENON_OK &&
                (about.arith == TENON_CLASS_APPROX) == self->approx;
    }
    robust_weight_free(&probe);
    return taken;
}

/* The usual formats first, then whatever there is. */
static bool choose(robust_kit *self)
{
    static const uint32_t usual[] = {TENON_FORMAT_Q8_0, TENON_FORMAT_Q4_0, TENON_FORMAT_F32,
                                     TENON_FORMAT_F16};
    uint32_t i, format;
    for (i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (takes(self, usual[i])) return true;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++)
        if (takes(self, format)) return true;
    return false;
}

bool robust_open(robust_kit *self, const conformance_case *test, const conformance_target *target,
                 uint32_t threads, conformance_result *result)
{
    static const struct {
        uint32_t arith;
        bool approx;
    } tries[] = {{TENON_CLASS_A8, false}, {TENON_CLASS_F32, false}, {TENON_CLASS_F32, true}};
    size_t i;
    memset(self, 0, sizeof *self);
    self->result = result;
    self->random.state = test->seed;
    for (i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        if (!engine_side_open_as(&self->engine, target, threads, tries[i].arith,
                                 TENON_SESSION_ALLOW_APPROX, result))
            return false;
        self->arith = tries[i].arith;
        self->approx = tries[i].approx;
        if (choose(self)) return true;
        engine_side_close(&self->engine, result);
        if (result->outcome != 0) return false;
    }
    conformance_set(result, CONFORMANCE_UNSUPPORTED, "no format is offered");
    return false;
}

void robust_close(robust_kit *self)
{
    engine_side_close(&self->engine, self->result);
    if (self->result->outcome == 0) self->result->outcome = CONFORMANCE_PASSED;
}

bool robust_session(robust_kit *self, tenon_session **out)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const conformance_target *target = self->engine.target;
    char chain[64];
    const tenon_session_desc desc = {TENON_HEAD(tenon_session_desc), .chain = chain,
                                     .mode = TENON_MODE_PIN, .arith = self->arith,
                                     .flags = TENON_SESSION_ALLOW_APPROX};
    if (strcmp(target->id, "reference") == 0)
        snprintf(chain, sizeof chain, "reference");
    else
        snprintf(chain, sizeof chain, "%s:%u", target->id, target->device);
    return robust_good(self->result, tenon_session_create(self->engine.host, &desc, out, &error),
                       &error, "a further session");
}

bool robust_weight_fill(robust_kit *self, robust_weight *of, uint64_t rows, uint64_t cols,
                        uint64_t seed)
{
    random_state random = {self->random.state + seed};
    uint32_t reason;
    memset(of, 0, sizeof *of);
    of->desc = (tenon_weight_desc){TENON_HEAD(tenon_weight_desc), .format = self->format,
                                   .layout = self->layout, .rows = rows, .cols = cols};
    of->data = (tenon_weight_data){TENON_HEAD(tenon_weight_data),
                                   .lifetime = TENON_LIFETIME_STABLE};
    if (tenon_weight_bytes(&of->desc, &of->data.weights_bytes, &of->data.scales_bytes, &reason) !=
        TENON_OK)
        return conformance_fail(self->result, "no such weight: %s", tenon_reason_text(reason));
    if (!guarded_make(&of->weights, of->data.weights_bytes, 0) ||
        !guarded_make(&of->scales, of->data.scales_bytes, 0))
        return conformance_fail(self->result, "out of memory");
    data_fill_weight(&random, DATA_ORDINARY, &of->desc, of->weights.data, of->data.weights_bytes,
                     of->scales.data, of->data.scales_bytes);
    of->data.weights = of->weights.data;
    of->data.scales = of->data.scales_bytes != 0 ? of->scales.data : NULL;
    return true;
}

bool robust_weight_make(robust_kit *self, robust_weight *of, tenon_session *session, uint64_t rows,
                        uint64_t cols, uint64_t seed)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    int32_t status;
    if (!robust_weight_fill(self, of, rows, cols, seed)) return false;
    status = tenon_weight_create(session, &of->desc, &of->data, &of->weight, &error);
    if (status == TENON_OK) return true;
    of->weight = NULL;
    if (engine_side_declined(status, &error)) return true; /* the caller looks at weight */
    return robust_good(self->result, status, &error, "a weight");
}

void robust_weight_free(robust_weight *self)
{
    tenon_weight_destroy(self->weight);
    guarded_free(&self->weights);
    guarded_free(&self->scales);
    memset(self, 0, sizeof *self);
}

bool robust_fill_x(robust_kit *self, guarded *x, uint64_t tokens, uint64_t cols, uint64_t seed)
{
    random_state random = {self->random.state ^ (seed + 1) * 0x9e3779b97f4a7c15u};
    uint64_t s;
    if (!guarded_make(x, tokens * cols * sizeof(float), GUARDED_AT_END))
        return conformance_fail(self->result, "out of memory");
    for (s = 0; s < tokens; s++)
        data_fill_row(&random, DATA_ORDINARY, s, (float *)(void *)x->data + s * cols, cols);
    return true;
}

tenon_view robust_host(const void *memory, uint64_t bytes)
{
    return (tenon_view){.host = (void *)(uintptr_t)memory, .bytes = bytes};
}

tenon_view robust_buffer(tenon_buffer *buffer, uint64_t bytes)
{
    return (tenon_view){.buffer = buffer, .bytes = bytes};
}

int32_t robust_product(tenon_queue *queue, tenon_weight *weight, const tenon_view *x,
                       const tenon_view *y, uint64_t tokens, uint64_t cols, uint64_t rows,
                       tenon_error *error)
{
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = tokens};
    call.x = *x;
    call.x_row_stride = cols * sizeof(float);
    call.output_count = 1;
    call.outputs[0].weight = weight;
    call.outputs[0].y = *y;
    call.outputs[0].row_stride = rows * sizeof(float);
    return tenon_qmatmul(queue, &call, error);
}

bool robust_expect(robust_kit *self, const robust_weight *of, const float *x, uint64_t tokens,
                   float *y)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const tenon_view from = robust_host(x, tokens * of->desc.cols * sizeof(float));
    const tenon_view to = robust_host(y, tokens * of->desc.rows * sizeof(float));
    tenon_weight *weight = NULL;
    int32_t status = tenon_weight_create(self->engine.reference, &of->desc, &of->data, &weight,
                                         &error);
    if (status == TENON_OK)
        status = robust_product(tenon_session_queue(self->engine.reference), weight, &from, &to,
                                tokens, of->desc.cols, of->desc.rows, &error);
    tenon_weight_destroy(weight);
    return robust_good(self->result, status, &error, "the reference");
}

bool robust_same(const robust_kit *self, const float *got, const float *want, uint64_t rows,
                 uint64_t tokens, const char *what, conformance_result *result)
{
    uint64_t i;
    result->requests++;
    if (self->approx) return approx_within(got, rows, want, rows, tokens, what, result);
    for (i = 0; i < rows * tokens; i++) {
        uint32_t have, need;
        memcpy(&have, &got[i], 4);
        memcpy(&need, &want[i], 4);
        if (have == need || (got[i] != got[i] && want[i] != want[i])) continue;
        return conformance_fail(result,
                                "%s: token %" PRIu64 ", row %" PRIu64 ": got 0x%08" PRIx32
                                " (%g), want 0x%08" PRIx32 " (%g)",
                                what, i / rows, i % rows, have, (double)got[i], need,
                                (double)want[i]);
    }
    return true;
}

bool robust_memory(robust_kit *self, tenon_memory_info *out, bool *offered)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    int32_t status;
    *out = (tenon_memory_info){TENON_HEAD(tenon_memory_info), .used = TENON_UNKNOWN,
                               .objects = TENON_UNKNOWN};
    status = tenon_session_memory(self->engine.tested, 0, out, &error);
    *offered = status == TENON_OK;
    if (status == TENON_DECLINED) return true;
    return robust_good(self->result, status, &error, "memory info");
}

bool robust_returned(robust_kit *self, const tenon_memory_info *before, const char *when)
{
    tenon_memory_info now;
    bool offered;
    if (!robust_memory(self, &now, &offered)) return false;
    if (!offered) return true;
    if (now.objects != before->objects)
        return conformance_fail(self->result, "%s: %" PRIu64 " objects, before %" PRIu64, when,
                                now.objects, before->objects);
    if (now.used != before->used)
        return conformance_fail(self->result, "%s: %" PRIu64 " bytes used, before %" PRIu64, when,
                                now.used, before->used);
    return true;
}
