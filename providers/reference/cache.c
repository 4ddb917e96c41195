/* The key-value cache of the reference: what it holds and how positions come and go. */
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "fma_exact.h"
#include "numbers.h"
#include "request.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* ------------------------------------------------------------------------------------- rotation */

/* The two inputs of pair i of a head. */
static void inputs_of_pair(const tenon_cache_desc *desc, uint64_t i, uint64_t *first,
                           uint64_t *second)
{
    if (desc->pairing == TENON_ROPE_ADJACENT) {
        *first = 2 * i;
        *second = 2 * i + 1;
    } else {
        *first = i;
        *second = i + desc->rotary / 2;
    }
}

/* Rotates pair i of a head that stands at a position. */
static void rotate_pair(const tenon_cache_desc *desc, uint64_t position, uint64_t i, float *a,
                        float *b)
{
    const float *turn = desc->table + (position * (desc->rotary / 2) + i) * 2;
    float c = turn[0], s = turn[1], y = reference_fma(*a, c, -(*b * s));
    *b = reference_fma(*b, c, *a * s);
    *a = y;
}

void reference_rotate(const tenon_cache_desc *desc, uint64_t position, const float *x, float *y)
{
    uint64_t i, first, second;

    memcpy(y, x, (size_t)desc->head_size * sizeof *y);
    for (i = 0; i < desc->rotary / 2; i++) {
        inputs_of_pair(desc, i, &first, &second);
        rotate_pair(desc, position, i, &y[first], &y[second]);
    }
}

/* ------------------------------------------------------------------------------- create and free */

/* Arrays of the one allocation of a cache, in bytes. */
typedef struct sizes {
    uint64_t table, elements; /* elements: of each of k, v and, where kept, unrotated */
    uint64_t total;
    int keeps_unrotated;
} sizes;

static uint32_t element_bytes(const tenon_cache_desc *desc)
{
    return desc->type == TENON_CACHE_F16 ? 2 : 4;
}

/* 0 when it does not fit 64 bits. */
static int measure(const tenon_cache_desc *desc, sizes *out)
{
    out->keeps_unrotated = (desc->flags & TENON_CACHE_EVICTABLE) != 0 && desc->rotary != 0;
    if (!tenon_mul_u64(desc->capacity, desc->rotary, &out->table) ||
        !tenon_mul_u64(out->table, sizeof(float), &out->table) ||
        !tenon_mul_u64(desc->kv_heads, desc->head_size, &out->elements) ||
        !tenon_mul_u64(out->elements, desc->capacity, &out->elements) ||
        !tenon_mul_u64(out->elements, element_bytes(desc), &out->elements) ||
        !tenon_mul_u64(out->elements, out->keeps_unrotated ? 3 : 2, &out->total) ||
        !tenon_add_u64(out->total, out->table, &out->total) ||
        !tenon_add_u64(out->total, sizeof(tenon_device_cache), &out->total) ||
        out->total > SIZE_MAX / 2)
        return 0;
    return 1;
}

static int32_t check_rotation(const tenon_cache_desc *desc, tenon_error *error)
{
    if (desc->pairing > TENON_ROPE_HALVES)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                                 desc->pairing, TENON_ROPE_HALVES, "pairing");
    if (desc->pairing == TENON_ROPE_NONE) {
        if (desc->rotary == 0) return TENON_OK;
        return tenon_fail(error, TENON_ARG, TENON_REASON_ROTARY, TENON_SCOPE_CALL,
                          "rotary must be 0 where nothing is rotated");
    }
    if (desc->rotary == 0 || desc->rotary % 2 != 0 || desc->rotary > desc->head_size)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_ROTARY, TENON_SCOPE_CALL,
                                 desc->rotary, desc->head_size,
                                 "rotary must be even and at most head_size");
    return TENON_OK;
}

static int32_t check_desc(const tenon_cache_desc *desc, sizes *bytes, tenon_error *error)
{
    int32_t status;

    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL,
                          "tenon_cache_desc.reserved0");
    if (desc->kv_heads == 0 || desc->head_size == 0 || desc->capacity == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "kv_heads, head_size and capacity must be at least 1");
    if (desc->type != TENON_CACHE_F32 && desc->type != TENON_CACHE_F16)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                                 desc->type, TENON_CACHE_F16, "type");
    if ((desc->flags & ~TENON_CACHE_EVICTABLE) != 0)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                                 desc->flags, TENON_CACHE_EVICTABLE, "flags");
    status = check_rotation(desc, error);
    if (status != TENON_OK) return status;
    if (!measure(desc, bytes))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "the cache does not fit 64 bits");
    if (desc->pairing == TENON_ROPE_NONE) return TENON_OK;
    if (desc->table == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "table");
    if ((uintptr_t)desc->table % 4 != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL, "table");
    if (desc->table_bytes < bytes->table)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                                 bytes->table, desc->table_bytes, "table");
    return TENON_OK;
}

/* An empty cache for a description that was checked, NULL when there is no memory. Pages of
 * positions that are never used are never touched. */
static tenon_device_cache *make(const tenon_cache_desc *desc, const sizes *bytes)
{
    tenon_device_cache *self = malloc((size_t)bytes->total);
    uint8_t *at;

    if (self == NULL) return NULL;
    memset(self, 0, sizeof *self);
    self->desc = *desc;
    self->bytes = bytes->total;
    self->element = element_bytes(desc);
    at = (uint8_t *)(self + 1);
    if (bytes->table != 0) memcpy(at, desc->table, (size_t)bytes->table);
    self->desc.table = bytes->table != 0 ? (const float *)(const void *)at : NULL;
    self->desc.table_bytes = bytes->table;
    at += bytes->table;
    self->k = at;
    self->v = at + bytes->elements;
    if (bytes->keeps_unrotated) self->unrotated = at + 2 * bytes->elements;
    return self;
}

static int32_t no_memory(uint64_t bytes, tenon_error *error)
{
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT,
                             bytes, TENON_UNKNOWN, "no memory for a cache");
}

int32_t TENON_CALL reference_cache_create(struct tenon_device *device, const tenon_cache_desc *desc,
                                          tenon_device_cache **out, tenon_error *error)
{
    sizes bytes;
    int32_t status;

    if (out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "out");
    *out = NULL;
    status = reference_check_head(device, desc, sizeof *desc, "tenon_cache_desc", error);
    if (status != TENON_OK) return status;
    status = check_desc(desc, &bytes, error);
    if (status != TENON_OK) return status;
    *out = make(desc, &bytes);
    return *out != NULL ? TENON_OK : no_memory(bytes.total, error);
}

void TENON_CALL reference_cache_free(struct tenon_device *device, tenon_device_cache *cache)
{
    (void)device;
    free(cache);
}

/* --------------------------------------------------------------------------------------- append */

/* Stores count values, rounded to the cache's type. */
static void store(const tenon_device_cache *cache, void *to, const float *from, uint64_t count)
{
    uint16_t *halves = to;
    uint64_t i;

    if (cache->element == sizeof(float)) {
        memcpy(to, from, (size_t)(count * sizeof(float)));
        return;
    }
    for (i = 0; i < count; i++) halves[i] = reference_f16_round(from[i]);
}

static float load(const tenon_device_cache *cache, const void *from, uint64_t i)
{
    if (cache->element == sizeof(float)) return ((const float *)from)[i];
    return reference_f16(((const uint16_t *)from)[i]);
}

static void *element_at(const tenon_device_cache *cache, void *from, uint64_t i)
{
    return (uint8_t *)from + i * cache->element;
}

/* Rotates a stored key, whose rounded values lie at from, into its place at to; both may be one. */
static void rotate_key(const tenon_device_cache *cache, uint64_t position, void *from, void *to)
{
    const tenon_cache_desc *desc = &cache->desc;
    uint64_t i, first, second;

    if (from != to) memcpy(to, from, (size_t)desc->head_size * cache->element);
    for (i = 0; i < desc->rotary / 2; i++) {
        float a, b;
        inputs_of_pair(desc, i, &first, &second);
        a = load(cache, to, first);
        b = load(cache, to, second);
        rotate_pair(desc, position, i, &a, &b);
        store(cache, element_at(cache, to, first), &a, 1);
        store(cache, element_at(cache, to, second), &b, 1);
    }
}

/* Where keys are kept as they came. */
static void *plain_keys(const tenon_device_cache *cache)
{
    return cache->unrotated != NULL ? cache->unrotated : cache->k;
}

/* One position of one head; units are independent of each other. */
static void TENON_CALL append_unit(void *context, uint64_t index, uint32_t worker)
{
    const tenon_append_call *call = context;
    const tenon_device_cache *cache = call->cache;
    uint64_t head = index % cache->desc.kv_heads, token = index / cache->desc.kv_heads;
    uint64_t size = cache->desc.head_size, position = cache->length + token;
    void *plain = reference_cache_at(cache, plain_keys(cache), head, position);
    (void)worker;

    store(cache, plain, reference_row(&call->k, call->k_row_stride, token) + head * size, size);
    rotate_key(cache, position, plain, reference_cache_at(cache, cache->k, head, position));
    store(cache, reference_cache_at(cache, cache->v, head, position),
          reference_row(&call->v, call->v_row_stride, token) + head * size, size);
}

static int32_t check_append(const struct tenon_device *device, const tenon_append_call *call,
                            tenon_error *error)
{
    const tenon_device_cache *cache;
    uint64_t width, room;
    int32_t status = reference_check_head(device, call, sizeof *call, "tenon_append_call", error);

    if (status != TENON_OK) return status;
    status = reference_check_zero(call->reserved0, sizeof call->reserved0,
                                  "tenon_append_call.reserved0", error);
    if (status != TENON_OK) return status;
    if (call->cache == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "cache");
    if (call->tokens == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "tokens must be at least 1");
    cache = call->cache;
    width = cache->desc.kv_heads * cache->desc.head_size;
    room = cache->desc.capacity - cache->length;
    if (call->tokens > room)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_CAPACITY, TENON_SCOPE_CALL,
                                 call->tokens, room, "the cache has no room for the positions");
    status = reference_check_view(&call->k, call->k_row_stride, call->tokens, width, "k", error);
    if (status != TENON_OK) return status;
    return reference_check_view(&call->v, call->v_row_stride, call->tokens, width, "v", error);
}

int32_t TENON_CALL reference_cache_append(struct tenon_device *device,
                                          struct tenon_device_queue *queue,
                                          const tenon_append_call *call, tenon_error *error)
{
    const tenon_services *services;
    tenon_append_call copy;
    tenon_device_cache *cache;
    int32_t status = check_append(device, call, error);
    (void)queue;

    if (status != TENON_OK) return status;
    copy = *call;
    cache = call->cache;
    services = device->provider->services;
    services->parallel_for(services->host, call->tokens * cache->desc.kv_heads, append_unit, &copy);
    cache->length += call->tokens;
    return TENON_OK;
}

/* ------------------------------------------------------------- length, truncate, evict, clone ... */

static int32_t check_cache(const struct tenon_device *device, const tenon_device_cache *cache,
                           const void *out, tenon_error *error)
{
    if (device == NULL || cache == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "device, cache or out is a null pointer");
    return TENON_OK;
}

int32_t TENON_CALL reference_cache_length(struct tenon_device *device,
                                          const tenon_device_cache *cache, uint64_t *length,
                                          tenon_error *error)
{
    int32_t status = check_cache(device, cache, length, error);
    if (status != TENON_OK) return status;
    *length = cache->length;
    return TENON_OK;
}

int32_t TENON_CALL reference_cache_bytes(struct tenon_device *device,
                                         const tenon_device_cache *cache, uint64_t *bytes,
                                         tenon_error *error)
{
    int32_t status = check_cache(device, cache, bytes, error);
    if (status != TENON_OK) return status;
    *bytes = cache->bytes;
    return TENON_OK;
}

int32_t TENON_CALL reference_cache_truncate(struct tenon_device *device,
                                            struct tenon_device_queue *queue,
                                            tenon_device_cache *cache, uint64_t length,
                                            tenon_error *error)
{
    int32_t status = check_cache(device, cache, cache, error);
    (void)queue;

    if (status != TENON_OK) return status;
    if (length > cache->length)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL, length,
                                 cache->length, "the cache is shorter than that");
    cache->length = length;
    return TENON_OK;
}

/* What moves when positions go. */
typedef struct eviction {
    tenon_device_cache *cache;
    uint64_t first, count;
} eviction;

/* Closes the gap in one head. Keys are rotated anew for the place they come to. */
static void TENON_CALL evict_head(void *context, uint64_t head, uint32_t worker)
{
    const eviction *self = context;
    const tenon_device_cache *cache = self->cache;
    void *const arrays[2] = {plain_keys(cache), cache->v};
    uint64_t behind = self->first + self->count, position;
    size_t bytes = (size_t)((cache->length - behind) * cache->desc.head_size * cache->element);
    uint32_t i;
    (void)worker;

    for (i = 0; i < 2; i++)
        memmove(reference_cache_at(cache, arrays[i], head, self->first),
                reference_cache_at(cache, arrays[i], head, behind), bytes);
    if (cache->unrotated == NULL) return; /* nothing is rotated: k was moved as it is */
    for (position = self->first; position < cache->length - self->count; position++)
        rotate_key(cache, position, reference_cache_at(cache, cache->unrotated, head, position),
                   reference_cache_at(cache, cache->k, head, position));
}

int32_t TENON_CALL reference_cache_evict(struct tenon_device *device,
                                         struct tenon_device_queue *queue,
                                         tenon_device_cache *cache, uint64_t first, uint64_t count,
                                         tenon_error *error)
{
    const tenon_services *services;
    eviction self = {cache, first, count};
    int32_t status = check_cache(device, cache, cache, error);
    (void)queue;

    if (status != TENON_OK) return status;
    if ((cache->desc.flags & TENON_CACHE_EVICTABLE) == 0)
        return tenon_fail(error, TENON_STATE, TENON_REASON_NOT_EVICTABLE, TENON_SCOPE_CALL,
                          "the cache was not made evictable");
    if (first > cache->length || count > cache->length - first)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL,
                                 first > cache->length ? first : count,
                                 first > cache->length ? cache->length : cache->length - first,
                                 "the cache does not hold all of these positions");
    if (count == 0) return TENON_OK;
    services = device->provider->services;
    services->parallel_for(services->host, cache->desc.kv_heads, evict_head, &self);
    cache->length -= count;
    return TENON_OK;
}

int32_t TENON_CALL reference_cache_clone(struct tenon_device *device,
                                         struct tenon_device_queue *queue,
                                         const tenon_device_cache *cache, tenon_device_cache **out,
                                         tenon_error *error)
{
    tenon_device_cache *copy;
    sizes bytes;
    uint64_t head, i;
    size_t used;
    int32_t status = check_cache(device, cache, out, error);
    (void)queue;

    if (status != TENON_OK) return status;
    *out = NULL;
    copy = measure(&cache->desc, &bytes) ? make(&cache->desc, &bytes) : NULL;
    if (copy == NULL) return no_memory(cache->bytes, error);
    copy->length = cache->length;
    used = (size_t)(cache->length * cache->desc.head_size * cache->element);
    for (head = 0; head < cache->desc.kv_heads; head++) {
        void *const from[3] = {cache->k, cache->v, cache->unrotated};
        void *const to[3] = {copy->k, copy->v, copy->unrotated};
        for (i = 0; i < 3; i++)
            if (from[i] != NULL)
                memcpy(reference_cache_at(copy, to[i], head, 0),
                       reference_cache_at(cache, from[i], head, 0), used);
    }
    *out = copy;
    return TENON_OK;
}
