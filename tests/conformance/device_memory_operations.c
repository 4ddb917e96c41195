/* Operations over buffers: the same bits as over host memory, and nothing written beside them. */
#include "device_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MARK 0x5b

/* A view of a request that lies in a buffer, with marks around it. */
typedef struct placed {
    tenon_device_buffer *buffer;
    guarded image; /* what the buffer held before the call */
    uint64_t offset;
} placed;

static void placed_free(placed *self, direct *provider, direct_device *on)
{
    if (self->buffer != NULL) provider->module->memory.free(on->device, self->buffer);
    guarded_free(&self->image);
    memset(self, 0, sizeof *self);
}

/* Moves a view into a buffer of its own, offset bytes from its start. */
static bool place(placed *self, direct *provider, direct_device *on, sample_view *view,
                  uint64_t offset, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const uint64_t bytes = offset + view->memory.bytes + 12;
    self->offset = offset;
    if (!guarded_make(&self->image, bytes, 0)) return conformance_fail(result, "out of memory");
    memset(self->image.data, MARK, bytes);
    memcpy(self->image.data + offset, view->memory.data, view->memory.bytes);
    if (!device_memory_good(direct_alloc(provider, on, bytes, &self->buffer, &error), &error,
                            "alloc", result) ||
        !device_memory_good(
            direct_write(provider, on, self->buffer, 0, self->image.data, bytes, &error), &error,
            "write", result))
        return false;
    *view->view = (tenon_view){
        .buffer = self->buffer, .offset = offset, .bytes = view->memory.bytes};
    return true;
}

/* What the buffer holds now: an input as it was, a result like the one over host memory. */
static bool check(const placed *self, direct *provider, direct_device *on, const sample *request,
                  const sample_view *view, const uint8_t *wanted, const char *what,
                  conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const uint64_t end = self->offset + view->memory.bytes;
    guarded now = {0};
    bool good = guarded_make(&now, self->image.bytes, GUARDED_AT_END) ||
                conformance_fail(result, "out of memory");
    uint64_t i;
    good = good && device_memory_good(
                       direct_read(provider, on, self->buffer, 0, now.data, now.bytes, &error),
                       &error, "read", result);
    for (i = 0; good && i < now.bytes; i++)
        if ((i < self->offset || i >= end) && now.data[i] != MARK)
            good = conformance_fail(result, "%s: byte %" PRId64 " beside view %s was written", what,
                                    (int64_t)(i - self->offset), view->name);
    if (good && !view->written && memcmp(now.data, self->image.data, now.bytes) != 0)
        good = conformance_fail(result, "%s: input %s was written", what, view->name);
    if (good && view->written &&
        !sample_same(request, now.data + self->offset, wanted, view->memory.bytes))
        good = conformance_fail(result, "%s: other bits than over host memory", what);
    guarded_free(&now);
    return good;
}

/* One mix: bit n of mask puts view n into a buffer. */
static bool mixed(sample *request, direct *self, direct_device *on, uint32_t mask,
                  const uint8_t *wanted, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    placed places[SAMPLE_VIEWS] = {{.buffer = NULL}};
    sample_view *y = sample_result(request);
    char what[120] = "";
    bool good = true;
    int32_t status;
    uint32_t i;
    sample_poison(request);
    snprintf(what, sizeof what, "%s with buffers in", sample_name(request->kind));
    for (i = 0; good && i < request->view_count; i++) {
        sample_view *view = &request->views[i];
        *view->view = (tenon_view){.host = view->memory.data, .bytes = view->memory.bytes};
        if ((mask >> i & 1u) == 0) continue;
        snprintf(what + strlen(what), sizeof what - strlen(what), " %s", view->name);
        good = place(&places[i], self, on, view, 4 * ((mask * 7u + i) % 40), result);
    }
    if (!good) goto out;
    status = sample_run(request, self, on, &error);
    good = device_memory_good(status, &error, what, result);
    /* a result in host memory is complete on return, one in a buffer when it is read */
    if (good && (mask >> (request->view_count - 1) & 1u) == 0 &&
        !sample_same(request, y->memory.data, wanted, y->memory.bytes))
        good = conformance_fail(result, "%s: other bits than over host memory", what);
    if (good && mask % 3 == 0)
        good = device_memory_good(direct_fence(self, on, &error), &error, "fence", result);
    for (i = 0; good && i < request->view_count; i++)
        if (places[i].buffer != NULL)
            good = check(&places[i], self, on, request, &request->views[i], wanted, what, result);
out:
    for (i = 0; i < SAMPLE_VIEWS; i++) placed_free(&places[i], self, on);
    return good;
}

bool device_memory_operation(direct *self, direct_device *on, sample_kind kind,
                             conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    guarded wanted = {0};
    sample request;
    sample_view *y;
    uint32_t mask;
    bool good = false;
    int32_t status;
    if (!device_memory_offered(self, result)) return false;
    if (!sample_make(&request, self, on, kind, result)) return false;
    y = sample_result(&request);
    status = sample_run(&request, self, on, &error);
    if (status == TENON_DECLINED) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
        goto out;
    }
    if (!device_memory_good(status, &error, sample_name(kind), result)) goto out;
    if (!guarded_copy(&wanted, y->memory.data, y->memory.bytes, 0)) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    good = true;
    for (mask = 1; good && mask < 1u << request.view_count; mask++)
        good = mixed(&request, self, on, mask, wanted.data, result);
out:
    guarded_free(&wanted);
    sample_free(&request, self, on);
    return good;
}

/* The step of a generation: the token that argmax chose feeds embed and nobody reads it; the one
 * that argmax could not choose becomes NaN, not a token. */
bool device_memory_chosen_token(direct *self, direct_device *on, conformance_result *result)
{
    enum { TOKENS = 3, WIDTH = 33 };
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    static const uint32_t chosen[TOKENS] = {7, 32, UINT32_MAX};
    static const uint32_t nan_bits = 0x7fc00000u;
    tenon_device_buffer *ids = NULL;
    tenon_argmax_call argmax = {TENON_HEAD(tenon_argmax_call), .tokens = TOKENS, .width = WIDTH,
                                .x_row_stride = 4 * WIDTH};
    guarded logits = {0}, wanted = {0};
    sample request;
    sample_view *y;
    uint32_t i, s;
    bool good = false;
    int32_t status;
    if (!device_memory_offered(self, result)) return false;
    if (!sample_offered(self, SAMPLE_ARGMAX)) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "argmax_v1 is not offered");
        return false;
    }
    if (!sample_make(&request, self, on, SAMPLE_EMBED, result)) return false;
    y = sample_result(&request);
    if (!guarded_make(&logits, 4 * TOKENS * WIDTH, GUARDED_AT_END)) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    for (s = 0; s < TOKENS; s++)
        for (i = 0; i < WIDTH; i++) {
            float value = i == chosen[s] ? 1.0f : (float)i / -9.0f;
            if (chosen[s] == UINT32_MAX) memcpy(&value, &nan_bits, 4);
            memcpy(logits.data + 4 * (s * WIDTH + i), &value, 4);
        }
    memcpy(request.views[0].memory.data, chosen, sizeof chosen - 4); /* the last stays a good one */
    status = sample_run(&request, self, on, &error);
    if (status == TENON_DECLINED) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
        goto out;
    }
    if (!device_memory_good(status, &error, "embed", result) ||
        !guarded_copy(&wanted, y->memory.data, y->memory.bytes, 0) ||
        !device_memory_good(direct_alloc(self, on, 8 + sizeof chosen, &ids, &error), &error,
                            "alloc", result))
        goto out;
    sample_poison(&request);
    argmax.x = (tenon_view){.host = logits.data, .bytes = logits.bytes};
    argmax.y = (tenon_view){.buffer = ids, .offset = 8, .bytes = sizeof chosen};
    request.embed.ids = argmax.y;
    if (!device_memory_good(direct_argmax(self, on, &argmax, &error), &error,
                            "argmax into a buffer", result) ||
        !device_memory_good(sample_run(&request, self, on, &error), &error,
                            "embed of ids in a buffer", result))
        goto out;
    for (i = 0; i < request.product.desc.cols; i++) /* but it should be NaN */
        memcpy(wanted.data + 2 * request.embed.y_row_stride + 4 * i, &nan_bits, 4);
    good = sample_same(&request, wanted.data, y->memory.data, wanted.bytes) ||
           conformance_fail(result,
                            "embed of the ids that argmax left in a buffer gives other rows "
                            "than of the same ids in host memory, or no NaN for the one "
                            "that argmax could not choose");
out:
    if (ids != NULL) self->module->memory.free(on->device, ids);
    guarded_free(&logits);
    guarded_free(&wanted);
    sample_free(&request, self, on);
    return good;
}
