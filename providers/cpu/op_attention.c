/* attention_v1 of the CPU provider: one query head of one token a unit. */
#include "op_attention.h"

#include <stdlib.h>
#include <string.h>

/* One call, as its units see it. */
typedef struct job {
    const tenon_device *device;
    const tenon_attention_call *call;
    tenon_device_cache *cache;
    const cpu_operations *operations;
    float *scratch; /* worker_floats for each worker: q, y, scores */
    uint64_t worker_floats;
} job;

static void TENON_CALL run_unit(void *context, uint64_t index, uint32_t worker)
{
    const job *self = context;
    const tenon_attention_call *call = self->call;
    tenon_device_cache *cache = self->cache;
    const tenon_cache_desc *desc = &cache->desc;
    uint64_t head = index % call->heads, token = index / call->heads, size = desc->head_size;
    uint64_t group = head / (call->heads / desc->kv_heads);
    uint64_t position = cache->length - call->tokens + token;
    float *q = self->scratch + worker * self->worker_floats, *y = q + cache->stride;
    cpu_attention_args args = {.q = q,
                               .k = cpu_cache_at(cache, cache->k, group, 0),
                               .v = cpu_cache_at(cache, cache->v, group, 0),
                               .stride = cache->stride,
                               .end = position + 1,
                               .scale = call->scale,
                               .scores = y + cache->stride,
                               .y = y};

    if (desc->window != 0 && desc->window <= position) args.first = position - desc->window + 1;
    memset(q + size, 0, (size_t)(cache->stride - size) * sizeof *q);
    cpu_cache_rotate(self->device, cache, position,
                     cpu_row(&call->q, call->q_row_stride, token) + head * size, q);
    if (desc->type == TENON_CACHE_F16)
        self->operations->attention_f16(&args);
    else
        self->operations->attention_f32(&args);
    memcpy(cpu_row_out(&call->y, call->y_row_stride, token) + head * size, y,
           (size_t)size * sizeof *y);
}

static int32_t check_call(const tenon_device *device, const tenon_attention_call *call,
                          tenon_error *error)
{
    const tenon_device_cache *cache;
    uint64_t width;
    int32_t status = cpu_check_head(device, call, sizeof *call, "tenon_attention_call", error);

    if (status != TENON_OK) return status;
    status = cpu_check_zero(&call->reserved0, sizeof call->reserved0,
                            "tenon_attention_call.reserved0", error);
    if (status != TENON_OK) return status;
    status = cpu_check_zero(call->reserved1, sizeof call->reserved1,
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
    status = cpu_check_rows(&call->q, call->q_row_stride, call->tokens, width, "q", error);
    if (status != TENON_OK) return status;
    return cpu_check_rows(&call->y, call->y_row_stride, call->tokens, width, "y", error);
}

static int32_t TENON_CALL run(tenon_device *device, tenon_device_queue *queue,
                              const tenon_attention_call *call, tenon_error *error)
{
    const tenon_services *services;
    tenon_device_queue own = {NULL, 0};
    uint64_t bytes, visible, work;
    job self;
    int32_t status = check_call(device, call, error);

    if (status != TENON_OK) return status;
    if (queue == NULL) queue = &own;
    services = device->provider->services;
    self.device = device;
    self.call = call;
    self.cache = call->cache;
    self.operations = cpu_operations_of(device->provider->level);
    visible = self.cache->length;
    if (self.cache->desc.window != 0 && self.cache->desc.window < visible)
        visible = self.cache->desc.window;
    /* The positions beside the visible ones that share their sixteen. Below the bytes of the cache,
     * so this cannot overflow. */
    self.worker_floats = cpu_round_up(2 * self.cache->stride + visible + 32, 16);
    if (!tenon_mul_u64(self.worker_floats * sizeof(float), services->team_size(services->host),
                       &bytes) ||
        bytes > SIZE_MAX / 2)
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "scratch memory does not fit 64 bits");
    status = cpu_queue_reserve(queue, bytes, error);
    if (status != TENON_OK) return status;
    self.scratch = (float *)(void *)queue->memory;
    work = call->tokens * call->heads; /* values of y: fits */
    cpu_split(device, work, work * (visible + 16) * (self.cache->stride / 16), run_unit, &self);
    cpu_queue_clear(&own);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_attention_v1, attention_v1) = {
    TENON_HEAD(tenon_attention_v1),
    .desc_size = sizeof(tenon_cache_desc),
    .append_size = sizeof(tenon_append_call),
    .call_size = sizeof(tenon_attention_call),
    .error_size = sizeof(tenon_error),
    .create = cpu_cache_create,
    .free = cpu_cache_free,
    .append = cpu_cache_append,
    .run = run,
    .length = cpu_cache_length,
    .truncate = cpu_cache_truncate,
    .evict = cpu_cache_evict,
    .clone = cpu_cache_clone,
    .bytes = cpu_cache_bytes,
};
