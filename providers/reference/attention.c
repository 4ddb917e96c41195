/* attention_v1 of the reference: SPEC.md 2.4 as it stands there. */
#include "attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exp.h"
#include "fma_exact.h"
#include "numbers.h"
#include "request.h"
#include "sums.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define SEGMENT_POSITIONS UINT64_C(256)

/* One call, as its units see it. A unit is one query head of one token. */
typedef struct job {
    const tenon_attention_call *call;
    const tenon_device_cache *cache;
    float *scratch; /* scratch_floats for each worker */
    uint64_t scratch_floats;
} job;

/* A unit's scratch memory. */
typedef struct scratch {
    float *q;      /* [head_size] rotated */
    float *row;    /* [head_size] a key or value as floats */
    float *part;   /* [head_size] o of one segment */
    float *scores; /* one for each visible position */
} scratch;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Visible positions of a row at position: [*first, position]. */
static uint64_t first_visible(const tenon_cache_desc *desc, uint64_t position)
{
    return desc->window != 0 && desc->window <= position ? position - desc->window + 1 : 0;
}

/* One stored key or value as floats. */
static const float *load_row(const tenon_device_cache *cache, void *elements, uint64_t head,
                             uint64_t position, float *row)
{
    const void *at = reference_cache_at(cache, elements, head, position);
    uint64_t i;

    if (cache->element == sizeof(float)) return at;
    for (i = 0; i < cache->desc.head_size; i++) row[i] = reference_f16(((const uint16_t *)at)[i]);
    return row;
}

/* Scores of the visible positions [first, end) and the greatest of them. */
static float score(const job *self, uint64_t head, uint64_t first, uint64_t end, const scratch *at)
{
    const tenon_device_cache *cache = self->cache;
    float greatest = -INFINITY;
    uint64_t t;

    for (t = first; t < end; t++) {
        const float *k = load_row(cache, cache->k, head, t, at->row);
        float value = reference_dot16(at->q, k, cache->desc.head_size) * self->call->scale;
        at->scores[t - first] = value;
        if (value > greatest) greatest = value; /* a NaN makes the row NaN by itself */
    }
    return greatest;
}

/* den and o of the positions [t, end) of one segment, added to *den and y. */
static void add_segment(const job *self, uint64_t head, uint64_t first, uint64_t t, uint64_t end,
                        float greatest, const scratch *at, float *den, float *y)
{
    const tenon_device_cache *cache = self->cache;
    uint64_t size = cache->desc.head_size, d;
    float p[16] = {0};

    memset(at->part, 0, (size_t)size * sizeof *at->part);
    for (; t < end; t++) {
        const float *v = load_row(cache, cache->v, head, t, at->row);
        float e = reference_exp(at->scores[t - first] - greatest);
        p[t % 16] = p[t % 16] + e;
        for (d = 0; d < size; d++) at->part[d] = reference_fma(e, v[d], at->part[d]);
    }
    *den = *den + reference_sum_lanes(p);
    for (d = 0; d < size; d++) y[d] = y[d] + at->part[d];
}

static void TENON_CALL run_unit(void *context, uint64_t index, uint32_t worker)
{
    const job *self = context;
    const tenon_attention_call *call = self->call;
    const tenon_cache_desc *desc = &self->cache->desc;
    uint64_t head = index % call->heads, token = index / call->heads;
    uint64_t kv_head = head / (call->heads / desc->kv_heads), size = desc->head_size, t, next, d;
    uint64_t position = self->cache->length - call->tokens + token, end = position + 1;
    uint64_t first = first_visible(desc, position);
    float *y = reference_row_out(&call->y, call->y_row_stride, token) + head * size;
    float *memory = self->scratch + worker * self->scratch_floats, greatest, den = 0.0f, inverse;
    scratch at = {memory, memory + size, memory + 2 * size, memory + 3 * size};

    reference_rotate(desc, position,
                     reference_row(&call->q, call->q_row_stride, token) + head * size, at.q);
    greatest = score(self, kv_head, first, end, &at);
    for (d = 0; d < size; d++) y[d] = 0.0f;
    if (first == end) return; /* a row that sees nothing gives zeros */
    for (t = first; t < end; t = next) {
        next = least((t / SEGMENT_POSITIONS + 1) * SEGMENT_POSITIONS, end);
        add_segment(self, kv_head, first, t, next, greatest, &at, &den, y);
    }
    inverse = 1.0f / den;
    for (d = 0; d < size; d++) y[d] = y[d] * inverse;
}

static int32_t check_call(const struct tenon_device *device, const tenon_attention_call *call,
                          tenon_error *error)
{
    const tenon_device_cache *cache;
    uint64_t width;
    int32_t status = reference_check_head(device, call, sizeof *call, "tenon_attention_call",
                                          error);
    if (status != TENON_OK) return status;
    status = reference_check_zero(&call->reserved0, sizeof call->reserved0,
                                  "tenon_attention_call.reserved0", error);
    if (status != TENON_OK) return status;
    status = reference_check_zero(call->reserved1, sizeof call->reserved1,
                                  "tenon_attention_call.reserved1", error);
    if (status != TENON_OK) return status;
    if (call->cache == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "cache");
    cache = call->cache;
    if (call->tokens == 0 || call->heads == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "tokens and heads must be at least 1");
    if (call->tokens > cache->length)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL,
                                 call->tokens, cache->length,
                                 "the cache holds fewer positions than tokens");
    if (call->heads % cache->desc.kv_heads != 0)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_HEADS, TENON_SCOPE_CALL,
                                 call->heads, cache->desc.kv_heads, "heads");
    if (!tenon_mul_u64(call->heads, cache->desc.head_size, &width))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "heads times head_size");
    status = reference_check_view(&call->q, call->q_row_stride, call->tokens, width, "q", error);
    if (status != TENON_OK) return status;
    return reference_check_view(&call->y, call->y_row_stride, call->tokens, width, "y", error);
}

static int32_t TENON_CALL run(struct tenon_device *device, struct tenon_device_queue *queue,
                              const tenon_attention_call *call, tenon_error *error)
{
    const tenon_services *services;
    uint64_t bytes, visible;
    job self;
    int32_t status = check_call(device, call, error);
    (void)queue;

    if (status != TENON_OK) return status;
    services = device->provider->services;
    self.call = call;
    self.cache = call->cache;
    visible = self.cache->desc.window != 0 ? least(self.cache->desc.window, self.cache->length)
                                           : self.cache->length;
    /* Both are below the elements of the cache, so this cannot overflow. */
    self.scratch_floats = 3 * self.cache->desc.head_size + visible;
    if (!tenon_mul_u64(self.scratch_floats, services->team_size(services->host), &bytes) ||
        !tenon_mul_u64(bytes, sizeof(float), &bytes) || bytes > SIZE_MAX / 2)
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "scratch memory does not fit 64 bits");
    self.scratch = malloc((size_t)bytes);
    if (self.scratch == NULL)
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                                 bytes, TENON_UNKNOWN, "no memory for the scores of a call");
    services->parallel_for(services->host, call->tokens * call->heads, run_unit, &self);
    free(self.scratch);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_attention_v1, attention_v1) = {
    TENON_HEAD(tenon_attention_v1),
    .desc_size = sizeof(tenon_cache_desc),
    .append_size = sizeof(tenon_append_call),
    .call_size = sizeof(tenon_attention_call),
    .error_size = sizeof(tenon_error),
    .create = reference_cache_create,
    .free = reference_cache_free,
    .append = reference_cache_append,
    .run = run,
    .length = reference_cache_length,
    .truncate = reference_cache_truncate,
    .evict = reference_cache_evict,
    .clone = reference_cache_clone,
    .bytes = reference_cache_bytes,
};
