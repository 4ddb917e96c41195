/* attention_v1: caches whose appends, cuts and runs are work like any other. */
#include "async.h"

/* ------------------------------------------------------------------ made and freed */

/* Wraps a cache of the reference, whose bytes are counted first; frees it when that fails. */
static int32_t wrap(tenon_device *device, tenon_device_cache *inner, const tenon_cache_desc *desc,
                    uint64_t length, tenon_device_cache **out, tenon_error *error)
{
    tenon_device_cache *self = NULL;
    uint64_t bytes = 0;
    int32_t status = tenon_reference_attention_v1.bytes(device->inner, inner, &bytes, error);
    if (status == TENON_OK) status = async_count(device, bytes, TENON_SCOPE_WEIGHT, error);
    if (status == TENON_OK) {
        self = calloc(1, sizeof *self);
        if (self == NULL) {
            async_uncount(device, bytes);
            status = inner_no_memory(sizeof *self, TENON_SCOPE_WEIGHT, error);
        }
    }
    if (self == NULL) {
        tenon_reference_attention_v1.free(device->inner, inner);
        return status;
    }
    *self = (tenon_device_cache){inner, *desc, length, bytes};
    self->desc.table = NULL;
    *out = self;
    return TENON_OK;
}

static int32_t TENON_CALL create(struct tenon_device *device, const tenon_cache_desc *desc,
                                 tenon_device_cache **out, tenon_error *error)
{
    tenon_device_cache *inner = NULL;
    int32_t status = tenon_reference_attention_v1.create(device->inner, desc, &inner, error);
    if (status != TENON_OK) return status;
    return wrap(device, inner, desc, 0, out, error);
}

static int32_t TENON_CALL clone_cache(struct tenon_device *device, struct tenon_device_queue *queue,
                                      const tenon_device_cache *cache, tenon_device_cache **out,
                                      tenon_error *error)
{
    tenon_device_cache *inner = NULL;
    int32_t status;
    pthread_mutex_lock(&device->lock);
    async_drain(device, queue);
    status = async_health(device, queue, error);
    pthread_mutex_unlock(&device->lock);
    if (status == TENON_OK)
        status = tenon_reference_attention_v1.clone(device->inner, NULL, cache->inner, &inner,
                                                    error);
    if (status != TENON_OK) return status;
    return wrap(device, inner, &cache->desc, cache->length, out, error);
}

static void TENON_CALL free_cache(struct tenon_device *device, tenon_device_cache *self)
{
    if (self == NULL) return;
    pthread_mutex_lock(&device->lock);
    async_drain(device, NULL);
    pthread_mutex_unlock(&device->lock);
    tenon_reference_attention_v1.free(device->inner, self->inner);
    async_uncount(device, self->bytes);
    free(self);
}

/* ------------------------------------------------------------------ work on a cache */

static int32_t bad(tenon_error *error, uint32_t reason, uint64_t wanted, uint64_t available,
                   const char *name)
{
    return tenon_fail_amount(error, TENON_ARG, reason, TENON_SCOPE_CALL, wanted, available, name);
}

static int32_t give_or_drop(async_work *work, int32_t status, tenon_error *error)
{
    if (status == TENON_OK) return async_operate(work, error);
    async_drop(work);
    return status;
}

static int32_t do_append(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_attention_v1.append(device->inner, NULL, &work->call.append, error);
}

static int32_t take_append(async_work *work, const tenon_append_call *call, tenon_error *error)
{
    tenon_append_call *mine = &work->call.append;
    tenon_device_cache *cache = call->cache;
    uint64_t width, room;
    int32_t status;
    if (cache == NULL) return bad(error, TENON_REASON_NULL_POINTER, 0, 0, "cache");
    if (call->reserved0[0] != 0 || call->reserved0[1] != 0)
        return bad(error, TENON_REASON_RESERVED, 0, 0, "reserved");
    if (call->tokens == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, 0, 0, "tokens");
    room = cache->desc.capacity - cache->length;
    if (call->tokens > room && work->queue->recording == NULL)
        return bad(error, TENON_REASON_CAPACITY, call->tokens, room, "no room in the cache");
    width = cache->desc.kv_heads * cache->desc.head_size;
    *mine = *call;
    mine->cache = cache->inner;
    work->grows = cache;
    work->tokens = call->tokens;
    status = async_in(work, &call->k, call->tokens, call->k_row_stride, width, "k", &mine->k,
                      error);
    if (status != TENON_OK) return status;
    return async_in(work, &call->v, call->tokens, call->v_row_stride, width, "v", &mine->v, error);
}

static int32_t TENON_CALL append(struct tenon_device *device, struct tenon_device_queue *queue,
                                 const tenon_append_call *call, tenon_error *error)
{
    async_work *work = async_begin(queue, do_append, error);
    int32_t status;
    (void)device;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    status = give_or_drop(work, take_append(work, call, error), error);
    if (status == TENON_OK && queue->recording == NULL)
        ((tenon_device_cache *)call->cache)->length += call->tokens;
    return status;
}

static int32_t do_attention(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_attention_v1.run(device->inner, NULL, &work->call.attention, error);
}

static int32_t take_attention(async_work *work, const tenon_attention_call *call,
                              tenon_error *error)
{
    tenon_attention_call *mine = &work->call.attention;
    const tenon_device_cache *cache = call->cache;
    uint64_t width;
    int32_t status;
    if (cache == NULL) return bad(error, TENON_REASON_NULL_POINTER, 0, 0, "cache");
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return bad(error, TENON_REASON_RESERVED, 0, 0, "reserved");
    if (call->tokens == 0 || call->heads == 0)
        return bad(error, TENON_REASON_EMPTY_SHAPE, 0, 0, "tokens, heads");
    /* a recorded call meets the length that its cache will have */
    if (call->tokens > cache->length && work->queue->recording == NULL)
        return bad(error, TENON_REASON_INDEX, call->tokens, cache->length, "tokens");
    if (call->heads % cache->desc.kv_heads != 0)
        return bad(error, TENON_REASON_HEADS, call->heads, cache->desc.kv_heads, "heads");
    if (!tenon_mul_u64(call->heads, cache->desc.head_size, &width))
        return bad(error, TENON_REASON_OVERFLOW, 0, 0, "heads");
    *mine = *call;
    mine->cache = cache->inner;
    status = async_in(work, &call->q, call->tokens, call->q_row_stride, width, "q", &mine->q,
                      error);
    if (status != TENON_OK) return status;
    return async_out(work, &call->y, call->tokens, call->y_row_stride, width, "y", &mine->y, error);
}

static int32_t TENON_CALL run(struct tenon_device *device, struct tenon_device_queue *queue,
                              const tenon_attention_call *call, tenon_error *error)
{
    async_work *work = async_begin(queue, do_attention, error);
    (void)device;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    return give_or_drop(work, take_attention(work, call, error), error);
}

static int32_t do_truncate(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_attention_v1.truncate(device->inner, NULL, work->call.cut.cache,
                                                 work->call.cut.first, error);
}

static int32_t TENON_CALL truncate_cache(struct tenon_device *device,
                                         struct tenon_device_queue *queue,
                                         tenon_device_cache *cache, uint64_t length,
                                         tenon_error *error)
{
    async_work *work;
    int32_t status;
    (void)device;
    if (length > cache->length)
        return bad(error, TENON_REASON_INDEX, length, cache->length, "the cache is shorter");
    work = async_begin(queue, do_truncate, error);
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    work->call.cut.cache = cache->inner;
    work->call.cut.first = length;
    status = async_give(work, error);
    if (status == TENON_OK) cache->length = length;
    return status;
}

static int32_t do_evict(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_attention_v1.evict(device->inner, NULL, work->call.cut.cache,
                                              work->call.cut.first, work->call.cut.count, error);
}

static int32_t TENON_CALL evict(struct tenon_device *device, struct tenon_device_queue *queue,
                                tenon_device_cache *cache, uint64_t first, uint64_t count,
                                tenon_error *error)
{
    async_work *work;
    int32_t status;
    (void)device;
    if ((cache->desc.flags & TENON_CACHE_EVICTABLE) == 0)
        return tenon_fail(error, TENON_STATE, TENON_REASON_NOT_EVICTABLE, TENON_SCOPE_CALL,
                          "the cache was not made evictable");
    if (first > cache->length || count > cache->length - first)
        return bad(error, TENON_REASON_INDEX, first, cache->length, "positions to evict");
    work = async_begin(queue, do_evict, error);
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    work->call.cut.cache = cache->inner;
    work->call.cut.first = first;
    work->call.cut.count = count;
    status = async_give(work, error);
    if (status == TENON_OK) cache->length -= count;
    return status;
}

/* ------------------------------------------------------------------ questions */

static int32_t TENON_CALL length_of(struct tenon_device *device, const tenon_device_cache *cache,
                                    uint64_t *length, tenon_error *error)
{
    int32_t status;
    pthread_mutex_lock(&device->lock);
    status = async_health(device, NULL, error);
    pthread_mutex_unlock(&device->lock);
    if (status == TENON_OK) *length = cache->length;
    return status;
}

static int32_t TENON_CALL bytes_of(struct tenon_device *device, const tenon_device_cache *cache,
                                   uint64_t *bytes, tenon_error *error)
{
    int32_t status;
    pthread_mutex_lock(&device->lock);
    status = async_health(device, NULL, error);
    pthread_mutex_unlock(&device->lock);
    if (status == TENON_OK) *bytes = cache->bytes;
    return status;
}

TENON_PROVIDER_DESCRIPTOR(tenon_attention_v1, attention_v1) = {
    TENON_HEAD(tenon_attention_v1),
    .desc_size = sizeof(tenon_cache_desc),
    .append_size = sizeof(tenon_append_call),
    .call_size = sizeof(tenon_attention_call),
    .error_size = sizeof(tenon_error),
    .create = create,
    .free = free_cache,
    .append = append,
    .run = run,
    .length = length_of,
    .truncate = truncate_cache,
    .evict = evict,
    .clone = clone_cache,
    .bytes = bytes_of,
};
