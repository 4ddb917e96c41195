/* Cases of embed: rows of a weight of every format, whichever class its products have. */
#include "operation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROWS 130u /* two blocks of rows where scales belong to them */

typedef struct embedding {
    const conformance_case *test;
    tenon_weight *weights[2]; /* [tested] */
    const tenon_weight_desc *desc;
    const tenon_weight_data *data;
    guarded ids;
    uint64_t tokens, cols, pad;
    float scale;
} embedding;

static int32_t call(void *context, tenon_session *session, bool tested, void *y, tenon_error *error)
{
    const embedding *self = context;
    const tenon_embed_call request = {
        TENON_HEAD(tenon_embed_call),
        .weight = self->weights[tested],
        .ids = {.host = self->ids.data, .bytes = self->ids.bytes},
        .y = {.host = y, .bytes = operation_rows_bytes(self->tokens, self->cols, self->pad)},
        .tokens = self->tokens,
        .y_row_stride = operation_stride(self->cols, self->pad),
        .scale = self->scale};
    return tenon_embed(tenon_session_queue(session), &request, error);
}

/* How `tenon op` makes the request. */
static void describe(const embedding *self, save_call *save)
{
    const tenon_weight_desc *desc = self->desc;
    tenon_format_info info;
    if (!tenon_format_find(desc->format, &info)) return;
    save->operation = "embed";
    snprintf(save->words, sizeof save->words,
             " --format %s --rows %u --cols %" PRIu64 " --tokens %" PRIu64 " --scale=%.9g",
             info.text, ROWS, self->cols, self->tokens, (double)self->scale);
    if (desc->layout != TENON_LAYOUT_NONE)
        strcat(save->words,
               desc->layout == TENON_LAYOUT_PLANAR ? " --layout planar" : " --layout pair");
    if (desc->group_size != 0)
        snprintf(save->words + strlen(save->words), sizeof save->words - strlen(save->words),
                 " --group %" PRIu64, desc->group_size);
    save->parts[0] = (save_part){"weights", self->data->weights, 1, self->data->weights_bytes, 0};
    save->parts[1] = (save_part){"ids", self->ids.data, 1, self->ids.bytes, 0};
    save->parts[2] = (save_part){"scales", self->data->scales, 1, self->data->scales_bytes, 0};
    save->part_count = self->data->scales_bytes != 0 ? 3 : 2;
    save->result = (save_part){NULL, NULL, self->tokens, 4 * self->cols,
                               operation_stride(self->cols, self->pad)};
}

static bool lookups(embedding *self, engine_side *engine, random_state *random,
                    conformance_result *result)
{
    static const uint64_t tokens[] = {1, 2, 7, 33};
    static const float scales[] = {1.0f, 25.298221588134766f, -0.5f, 1e-30f};
    size_t t;
    for (t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
        operation_request request = {.call = call, .context = self};
        uint64_t i;
        bool good;
        self->tokens = tokens[t];
        self->pad = 4 * (t % 3);
        self->scale = scales[t];
        if (!guarded_make(&self->ids, 4 * tokens[t], t % 2 == 0 ? 4 : GUARDED_AT_END))
            return conformance_fail(result, "out of memory");
        for (i = 0; i < tokens[t]; i++) {
            uint32_t id = i == 0 ? ROWS - 1 : (uint32_t)random_below(random, ROWS);
            memcpy(self->ids.data + 4 * i, &id, sizeof id);
        }
        request.y_bytes = operation_rows_bytes(self->tokens, self->cols, self->pad);
        request.y_offset = t % 2 == 0 ? GUARDED_AT_END : 4;
        request.inputs[0] = &self->ids;
        request.input_count = 1;
        snprintf(request.what, sizeof request.what, "%" PRIu64 " tokens of %" PRIu64 " inputs",
                 self->tokens, self->cols);
        if (self->test->save_dir != NULL) describe(self, &request.save);
        good = operation_compare(&request, self->test, engine, result);
        guarded_free(&self->ids);
        if (!good) return false;
    }
    return true;
}

/* A weight of this shape on both sessions. false: the case is over; *skipped: the provider does not
 * take such a weight at all. */
static bool over_weight(const conformance_case *test, engine_side *engine, random_state *random,
                        uint64_t cols, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_desc desc = {
        TENON_HEAD(tenon_weight_desc),  .format = test->format, .layout = test->layout,
        .group_size = test->group_size, .rows = ROWS,           .cols = cols};
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .lifetime = TENON_LIFETIME_STABLE};
    embedding self = {.test = test, .desc = &desc, .data = &data, .cols = cols};
    guarded weights = {0}, scales = {0};
    uint64_t weights_bytes, scales_bytes;
    uint32_t reason;
    int32_t status;
    bool good = false;
    if (tenon_weight_bytes(&desc, &weights_bytes, &scales_bytes, &reason) != TENON_OK)
        return conformance_fail(result, "cols=%" PRIu64 ": %s", cols, tenon_reason_text(reason));
    if (!guarded_make(&weights, weights_bytes, GUARDED_AT_END) ||
        !guarded_make(&scales, scales_bytes, GUARDED_AT_END)) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    data_fill_weight(random, (data_kind)test->kind, &desc, weights.data, weights_bytes, scales.data,
                     scales_bytes);
    data.weights = weights.data;
    data.weights_bytes = weights_bytes;
    data.scales = scales_bytes != 0 ? scales.data : NULL;
    data.scales_bytes = scales_bytes;
    status = tenon_weight_create(engine->tested, &desc, &data, &self.weights[1], &error);
    if (engine_side_declined(status, &error)) {
        result->declined++;
        snprintf(result->detail, sizeof result->detail, "declined: %s", error.text);
        good = true;
        goto out;
    }
    if (status == TENON_OK)
        status = tenon_weight_create(engine->reference, &desc, &data, &self.weights[0], &error);
    if (status != TENON_OK) {
        conformance_fail(result, "weight: status %d, reason %u: %s", status, error.reason,
                         error.text);
        goto out;
    }
    good = lookups(&self, engine, random, result);
out:
    tenon_weight_destroy(self.weights[0]);
    tenon_weight_destroy(self.weights[1]);
    guarded_free(&weights);
    guarded_free(&scales);
    return good;
}

static bool requests(const conformance_case *test, engine_side *engine, random_state *random,
                     conformance_result *result)
{
    static const uint64_t lengths[] = {256, 32, 64, 300, 576, 768};
    tenon_format_info info;
    uint64_t block;
    size_t i;
    if (!tenon_format_find(test->format, &info)) return conformance_fail(result, "no such format");
    block = info.block_inputs != 0 ? info.block_inputs : 1;
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (lengths[i] % block != 0) continue;
        if (!over_weight(test, engine, random, lengths[i], result)) return false;
        if (result->requests == 0) return true; /* nothing is taken */
    }
    return true;
}

static void run(const conformance_case *test, const conformance_target *target,
                conformance_result *result)
{
    operation_run(test, target, requests, result);
}

static bool add(conformance_suite *suite, const tenon_format_info *info, uint32_t layout,
                data_kind kind)
{
    char name[160];
    conformance_case *added;
    snprintf(name, sizeof name, "exact/embed/%s%s/%s", info->text,
             layout == TENON_LAYOUT_PLANAR ? "-planar" : "",
             kind == DATA_SPECIAL ? "special" : "ordinary");
    added = conformance_add(suite, CONFORMANCE_EXACT, run, name);
    if (added == NULL) return false;
    added->format = info->format;
    added->layout = layout;
    added->kind = (uint32_t)kind;
    if (info->format == TENON_FORMAT_INT4_GROUP) added->group_size = 48;
    return true;
}

bool conformance_add_embed(conformance_suite *suite)
{
    tenon_format_info info;
    uint32_t i, format;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        bool int4;
        if (!tenon_format_find(format, &info)) return false;
        int4 = format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP;
        if (!add(suite, &info, int4 ? TENON_LAYOUT_PAIR : TENON_LAYOUT_NONE, DATA_ORDINARY) ||
            !add(suite, &info, int4 ? TENON_LAYOUT_PAIR : TENON_LAYOUT_NONE, DATA_SPECIAL))
            return false;
        if (int4 && !add(suite, &info, TENON_LAYOUT_PLANAR, DATA_ORDINARY)) return false;
    }
    return true;
}
