/* The optional operations at their descriptors: a good request runs, alone and repeated; a request
 * with a meaning that nobody knows does not; what was created is given back. The bits are the
 * matter of stage exact. */
#include "abi_operations.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Fails unless the answer is a failure or DECLINED that left the result alone. */
static bool refused(const sample *self, int32_t status, const char *what,
                    conformance_result *result)
{
    result->requests++;
    if (status == TENON_OK)
        return conformance_fail(result, "%s takes %s", sample_name(self->kind), what);
    if (!sample_untouched(self))
        return conformance_fail(result, "%s answers %d for %s but wrote to y",
                                sample_name(self->kind), status, what);
    return true;
}

bool abi_check_sane(direct *self, direct_device *on, sample_kind kind, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    guarded first = {0};
    sample request;
    sample_view *y;
    bool good = false;
    int32_t status;
    int round;
    if (!sample_make(&request, self, on, kind, result)) return false;
    y = sample_result(&request);
    for (round = 0; round < 3; round++) {
        uint64_t inputs[SAMPLE_VIEWS];
        uint32_t i;
        sample_poison(&request);
        for (i = 0; i + 1 < request.view_count; i++)
            inputs[i] = guarded_hash(&request.views[i].memory);
        /* the last time nobody cares why it fails */
        status = sample_run(&request, self, on, round == 2 ? NULL : &error);
        if (status == TENON_DECLINED && round == 0) {
            if (refused(&request, status, "a request that it declines", result))
                conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
            goto out;
        }
        if (status != TENON_OK) {
            conformance_fail(result, "%s: status %d, reason %u: %s", sample_name(kind), status,
                             error.reason, error.text);
            goto out;
        }
        result->requests++;
        for (i = 0; i + 1 < request.view_count; i++)
            if (guarded_hash(&request.views[i].memory) != inputs[i]) {
                conformance_fail(result, "%s writes to its input %s", sample_name(kind),
                                 request.views[i].name);
                goto out;
            }
        if (round == 0 && !guarded_copy(&first, y->memory.data, y->memory.bytes, 0)) {
            conformance_fail(result, "out of memory");
            goto out;
        }
        if (!sample_same(&request, first.data, y->memory.data, first.bytes)) {
            conformance_fail(result, "%s gives other bits the second time", sample_name(kind));
            goto out;
        }
    }
    good = sample_untouched(&request)
               ? conformance_fail(result, "%s answers OK and writes nothing", sample_name(kind))
               : true;
out:
    guarded_free(&first);
    sample_free(&request, self, on);
    return good;
}

/* R7, field by field of every struct of the request; then the right request is still taken. */
bool abi_check_sample_reserved(direct *self, direct_device *on, sample_kind kind,
                               conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    sample request;
    bool good = false;
    int32_t status;
    uint32_t i, with_error;
    if (!sample_make(&request, self, on, kind, result)) return false;
    for (i = 0; i < request.reserved_count; i++)
        for (with_error = 0; with_error < 2; with_error++) {
            const sample_field *field = &request.reserved[i];
            char what[80];
            memset(field->at, 1, field->bytes);
            status = sample_run(&request, self, on, with_error != 0 ? &error : NULL);
            memset(field->at, 0, field->bytes);
            snprintf(what, sizeof what, "R7: %s that is not zero", field->name);
            if (!refused(&request, status, what, result)) goto out;
        }
    status = sample_run(&request, self, on, &error);
    if (status == TENON_DECLINED) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
        goto out;
    }
    if (status != TENON_OK) {
        conformance_fail(result, "%s: the right request answers %d: %s", sample_name(kind), status,
                         error.text);
        goto out;
    }
    good = true;
out:
    sample_free(&request, self, on);
    return good;
}

/* A provider without memory_v1 has no buffers: a view of one must not be read as host memory. */
bool abi_check_foreign_buffer(direct *self, direct_device *on, sample_kind kind,
                              conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t not_a_buffer[8] = {0};
    sample request;
    bool good = false;
    uint32_t i;
    if (self->module->memory.alloc != NULL) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "memory_v1 is offered: it takes buffers");
        return false;
    }
    if (!sample_make(&request, self, on, kind, result)) return false;
    for (i = 0; i < request.view_count; i++) {
        tenon_view *view = request.views[i].view, before = *view;
        char what[80];
        view->host = NULL;
        view->buffer = not_a_buffer;
        snprintf(what, sizeof what, "a buffer in %s that it did not make", request.views[i].name);
        if (!refused(&request, sample_run(&request, self, on, &error), what, result)) goto out;
        *view = before;
    }
    good = true;
out:
    sample_free(&request, self, on);
    return good;
}

/* One id past the rows between two good ones: its row is NaN, the others are right. A refusal is
 * good where the ids lie in host memory, since a host has seen and refused them before. */
static bool one_past_rows(sample *request, direct *self, direct_device *on, uint32_t id,
                          const guarded *right, tenon_device_buffer *buffer,
                          conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const sample_view *ids = &request->views[0], *y = sample_result(request);
    const uint64_t second = request->embed.y_row_stride;
    const char *where = buffer != NULL ? "in a buffer" : "in host memory";
    uint64_t i;
    int32_t status;
    memcpy(ids->memory.data + 4, &id, 4);
    sample_poison(request);
    result->requests++;
    *ids->view = (tenon_view){.host = ids->memory.data, .bytes = ids->memory.bytes};
    if (buffer != NULL) {
        *ids->view = (tenon_view){.buffer = buffer, .bytes = ids->memory.bytes};
        status = direct_write(self, on, buffer, 0, ids->memory.data, ids->memory.bytes, &error);
        if (status != TENON_OK)
            return conformance_fail(result, "write: status %d: %s", status, error.text);
    }
    status = sample_run(request, self, on, &error);
    if (status == TENON_ARG && buffer == NULL)
        return sample_untouched(request) ||
               conformance_fail(result, "id %" PRIu32 " is refused, but y was written", id);
    if (status != TENON_OK)
        return conformance_fail(result,
                                "id %" PRIu32 " of a weight of 33 rows %s: status %d, not NaN", id,
                                where, status);
    for (i = 0; i < request->product.desc.cols; i++) {
        float value;
        memcpy(&value, y->memory.data + second + 4 * i, 4);
        if (!isnan(value))
            return conformance_fail(result, "id %" PRIu32 " of a weight of 33 rows %s: %a, not NaN",
                                    id, where, (double)value);
        memcpy(right->data + second + 4 * i, &value, 4);
    }
    return sample_same(request, right->data, y->memory.data, right->bytes) ||
           conformance_fail(result, "id %" PRIu32 " %s changes the rows of other tokens", id,
                            where);
}

/* SPEC.md 1.8: where nobody has seen the ids, one past the rows gives NaN and reads nothing. */
bool abi_check_ids_past_rows(direct *self, direct_device *on, conformance_result *result)
{
    static const uint32_t past[] = {33, 34, 63, 64, 1000000, 0x7fffffff, 0x80000000u, 0xffffffffu};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_buffer *buffer = NULL;
    guarded right = {0};
    sample request;
    sample_view *y;
    bool good = false;
    size_t at;
    int32_t status;
    if (!sample_make(&request, self, on, SAMPLE_EMBED, result)) return false;
    y = sample_result(&request);
    status = sample_run(&request, self, on, &error);
    if (status == TENON_DECLINED) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
        goto out;
    }
    if (status != TENON_OK || !guarded_copy(&right, y->memory.data, y->memory.bytes, 0)) {
        conformance_fail(result, "embed: status %d: %s", status, error.text);
        goto out;
    }
    if (self->module->memory.alloc != NULL &&
        direct_alloc(self, on, request.views[0].memory.bytes, &buffer, &error) != TENON_OK) {
        conformance_fail(result, "alloc: %s", error.text);
        goto out;
    }
    good = true;
    for (at = 0; good && at < sizeof past / sizeof past[0]; at++)
        good = one_past_rows(&request, self, on, past[at], &right, NULL, result) &&
               (buffer == NULL ||
                one_past_rows(&request, self, on, past[at], &right, buffer, result));
out:
    if (buffer != NULL) self->module->memory.free(on->device, buffer);
    guarded_free(&right);
    sample_free(&request, self, on);
    return good;
}

/* What create and clone take, free gives back, in whatever order. */
bool abi_check_cache_pairs(direct *self, direct_device *on, conformance_result *result)
{
    enum { ROUNDS = 40, SETTLED = 8, AT_ONCE = 4, BYTES = 4 * 64 * 512 };
    const tenon_attention_v1 *functions = &self->module->attention;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_cache *caches[AT_ONCE] = {NULL};
    const tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc), .kv_heads = 4, .head_size = 64,
                                   .capacity = 512, .type = TENON_CACHE_F16};
    tenon_append_call append = {TENON_HEAD(tenon_append_call), .tokens = 512, .k_row_stride = 1024,
                                .v_row_stride = 1024};
    guarded rows = {0};
    uint64_t before = 0, bytes, length;
    bool good = false;
    int32_t status;
    int round, i;
    if (functions->create == NULL) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "attention_v1 is not offered");
        return false;
    }
    if (!guarded_make(&rows, append.tokens * 1024, 0))
        return conformance_fail(result, "out of memory");
    append.k = append.v = (tenon_view){.host = rows.data, .bytes = rows.bytes};
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < AT_ONCE; i++) {
            status = i % 2 == 0
                         ? direct_cache_create(self, on, &desc, &caches[i], &error)
                         : functions->clone(on->device, on->queue, caches[i - 1], &caches[i], NULL);
            if (status == TENON_DECLINED && round + i == 0) {
                conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
                goto out;
            }
            if (status != TENON_OK || caches[i] == NULL) {
                conformance_fail(result, "%s answers %d%s", i % 2 == 0 ? "create" : "clone", status,
                                 caches[i] == NULL ? " and NULL" : "");
                goto out;
            }
            bytes = 0;
            length = 1;
            if (functions->bytes(on->device, caches[i], &bytes, NULL) != TENON_OK || bytes == 0 ||
                functions->length(on->device, caches[i], &length, NULL) != TENON_OK ||
                length != (i % 2 == 0 ? 0 : append.tokens)) {
                conformance_fail(result, "a new cache has length %" PRIu64 " and %" PRIu64 " bytes",
                                 length, bytes);
                goto out;
            }
            append.cache = caches[i]; /* filled, or its memory might never be there */
            if (i % 2 == 0 && direct_append(self, on, &append, &error) != TENON_OK) {
                conformance_fail(result, "append: %s", error.text);
                goto out;
            }
        }
        for (i = 0; i < AT_ONCE; i++) {
            int which = round % 2 == 0 ? i : AT_ONCE - 1 - i;
            functions->free(on->device, caches[which]);
            caches[which] = NULL;
        }
        functions->free(on->device, NULL);
        result->requests += AT_ONCE;
        if (round + 1 == SETTLED) before = abi_resident_bytes();
    }
    /* Half of one cache a round would be a leak by any account. */
    if (before != 0 && abi_resident_bytes() > before + (uint64_t)(ROUNDS - SETTLED) * BYTES / 2) {
        conformance_fail(result, "memory grows by %" PRIu64 " bytes over %d caches made and freed",
                         abi_resident_bytes() - before, (ROUNDS - SETTLED) * AT_ONCE);
        goto out;
    }
    good = true;
out:
    for (i = 0; i < AT_ONCE; i++)
        if (caches[i] != NULL) functions->free(on->device, caches[i]);
    guarded_free(&rows);
    return good;
}

/* Lengths, limits, and refusals that leave a cache as it was. */
bool abi_check_cache_calls(direct *self, direct_device *on, conformance_result *result)
{
    const tenon_attention_v1 *functions = &self->module->attention;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_cache *cache = NULL, *stiff = NULL;
    tenon_cache_desc desc;
    tenon_append_call append;
    tenon_attention_call attention;
    sample request;
    uint64_t length = 0;
    bool good = false;
    int32_t status;
    if (!sample_make(&request, self, on, SAMPLE_ATTENTION, result)) return false;
    append = request.append;
    attention = request.attention;
    status = direct_cache_create(self, on, &request.cache, &cache, &error);
    if (status == TENON_DECLINED) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
        goto out;
    }
    append.cache = attention.cache = cache;
#define EXPECT(condition, what) \
    do { \
        result->requests++; \
        if (!(condition)) { \
            conformance_fail(result, "%s: status %d, length %" PRIu64, what, status, length); \
            goto out; \
        } \
    } while (0)
#define LENGTH() \
    (functions->length(on->device, cache, &length, NULL) == TENON_OK ? length : TENON_UNKNOWN)
    EXPECT(status == TENON_OK && cache != NULL, "create");
    status = direct_attention(self, on, &attention, &error);
    EXPECT(status != TENON_OK && sample_untouched(&request), "run over an empty cache");
    status = direct_append(self, on, &append, &error);
    EXPECT(status == TENON_OK && LENGTH() == append.tokens, "append");
    status = direct_append(self, on, &append, &error);
    EXPECT(status == TENON_ARG && LENGTH() == append.tokens, "append to a cache without room");
    attention.tokens = append.tokens + 1;
    status = direct_attention(self, on, &attention, &error);
    EXPECT(status != TENON_OK && sample_untouched(&request), "more rows than positions");
    status = functions->truncate(on->device, on->queue, cache, append.tokens + 1, NULL);
    EXPECT(status != TENON_OK && LENGTH() == append.tokens, "truncate to more than there is");
    status = functions->evict(on->device, on->queue, cache, 2, append.tokens, NULL);
    EXPECT(status != TENON_OK && LENGTH() == append.tokens, "evict more than there is");
    status = functions->evict(on->device, on->queue, cache, UINT64_MAX, 2, NULL);
    EXPECT(status != TENON_OK && LENGTH() == append.tokens, "evict positions that overflow");
    status = functions->evict(on->device, on->queue, cache, 1, 2, NULL);
    EXPECT(status == TENON_OK && LENGTH() == append.tokens - 2, "evict");
    status = functions->truncate(on->device, on->queue, cache, 3, NULL);
    EXPECT(status == TENON_OK && LENGTH() == 3, "truncate");
    desc = request.cache;
    desc.flags = 0;
    status = direct_cache_create(self, on, &desc, &stiff, &error);
    EXPECT(status == TENON_OK && stiff != NULL, "create without EVICTABLE");
    append.cache = stiff;
    status = direct_append(self, on, &append, &error);
    EXPECT(status == TENON_OK, "append");
    status = functions->evict(on->device, on->queue, stiff, 0, 1, NULL);
    EXPECT(status == TENON_STATE, "evict from a cache that is not EVICTABLE");
    good = true;
out:
    functions->free(on->device, stiff);
    functions->free(on->device, cache);
    sample_free(&request, self, on);
    return good;
}
