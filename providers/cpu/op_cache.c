/* The key-value cache of the CPU provider: what it holds and how positions come and go. */
#include "op_attention.h"

#include <stdlib.h>
#include <string.h>

/* Every array starts on a cache line. */
#define LINE 64u
/* A row of a head while it is rotated; longer heads are declined, and the next link serves them. */
#define MOST_HEAD_SIZE 4096u

/* ------------------------------------------------------------------------------------- binary16 */

/* Nearest even, subnormals kept, overflow to infinity. */
static uint16_t to_half(float value)
{
    uint32_t bits, sign, magnitude, kept, rest, halfway, shift = 13;

    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000u;
    magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more */
    if (magnitude < 0x33000000u) return (uint16_t)sign;              /* below half the smallest */
    if (magnitude >= 0x38800000u) {                                  /* normal */
        magnitude -= UINT32_C(112) << 23;
    } else {
        shift = 126 - (magnitude >> 23);
        magnitude = (magnitude & 0x7fffffu) | 0x800000u;
    }
    kept = magnitude >> shift;
    rest = magnitude & ((UINT32_C(1) << shift) - 1);
    halfway = UINT32_C(1) << (shift - 1);
    if (rest > halfway || (rest == halfway && (kept & 1) != 0)) kept++;
    return (uint16_t)(sign | kept);
}

static float from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu, bits;
    float value;

    if (magnitude < 0x400u) { /* zero and subnormal */
        value = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
    } else {
        bits = (magnitude << 13) +
               (magnitude >= 0x7c00u ? UINT32_C(224) << 23 : UINT32_C(112) << 23);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ------------------------------------------------------------------------------- create and free */

/* Arrays of the memory of a cache, in bytes; elements: of each of k, v and, where kept, unrotated. */
typedef struct sizes {
    uint64_t head, turns, elements, total;
    uint64_t stride, turn;
    uint32_t element;
    int keeps_unrotated;
} sizes;

/* 0 when it does not fit 64 bits. head_size is at most MOST_HEAD_SIZE. */
static int measure(const tenon_cache_desc *desc, sizes *out)
{
    out->head = cpu_round_up(sizeof(tenon_device_cache), LINE);
    out->stride = cpu_round_up(desc->head_size, 16);
    out->turn = cpu_round_up(desc->rotary / 2, 16);
    out->element = desc->type == TENON_CACHE_F16 ? 2 : 4;
    out->keeps_unrotated = (desc->flags & TENON_CACHE_EVICTABLE) != 0 && desc->rotary != 0;
    return tenon_mul_u64(desc->capacity, 2 * out->turn * sizeof(float), &out->turns) &&
           tenon_mul_u64(desc->kv_heads, out->stride * out->element, &out->elements) &&
           tenon_mul_u64(out->elements, desc->capacity, &out->elements) &&
           out->elements < UINT64_MAX / 8 && out->turns < UINT64_MAX / 8 &&
           (out->elements = cpu_round_up(out->elements, LINE)) != 0 &&
           tenon_mul_u64(out->elements, out->keeps_unrotated ? 3 : 2, &out->total) &&
           tenon_add_u64(out->total, out->turns + out->head, &out->total) &&
           out->total <= SIZE_MAX / 2;
}

static int32_t bad_value(uint32_t wanted, uint32_t available, const char *name, tenon_error *error)
{
    return tenon_fail_amount(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, wanted,
                             available, name);
}

static int32_t check_rotation(const tenon_cache_desc *desc, tenon_error *error)
{
    uint64_t bytes;

    if (desc->pairing > TENON_ROPE_HALVES)
        return bad_value(desc->pairing, TENON_ROPE_HALVES, "pairing", error);
    if (desc->pairing == TENON_ROPE_NONE) {
        if (desc->rotary == 0) return TENON_OK;
        return tenon_fail(error, TENON_ARG, TENON_REASON_ROTARY, TENON_SCOPE_CALL,
                          "rotary must be 0 where nothing is rotated");
    }
    if (desc->rotary == 0 || desc->rotary % 2 != 0 || desc->rotary > desc->head_size)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_ROTARY, TENON_SCOPE_CALL,
                                 desc->rotary, desc->head_size,
                                 "rotary must be even and at most head_size");
    if (!tenon_mul_u64(desc->capacity, (uint64_t)desc->rotary * sizeof(float), &bytes))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL, "table");
    if (desc->table == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "table");
    if ((uintptr_t)desc->table % 4 != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL, "table");
    if (desc->table_bytes < bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                                 bytes, desc->table_bytes, "table");
    return TENON_OK;
}

static int32_t check_desc(const tenon_cache_desc *desc, sizes *bytes, tenon_error *error)
{
    int32_t status = cpu_check_zero(desc->reserved0, sizeof desc->reserved0,
                                    "tenon_cache_desc.reserved0", error);

    if (status != TENON_OK) return status;
    if (desc->kv_heads == 0 || desc->head_size == 0 || desc->capacity == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "kv_heads, head_size and capacity must be at least 1");
    if (desc->type != TENON_CACHE_F32 && desc->type != TENON_CACHE_F16)
        return bad_value(desc->type, TENON_CACHE_F16, "type", error);
    if ((desc->flags & ~TENON_CACHE_EVICTABLE) != 0)
        return bad_value(desc->flags, TENON_CACHE_EVICTABLE, "flags", error);
    status = check_rotation(desc, error);
    if (status != TENON_OK) return status;
    if (desc->head_size > MOST_HEAD_SIZE)
        return tenon_fail_amount(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE,
                                 TENON_SCOPE_CALL, desc->head_size, MOST_HEAD_SIZE, "head_size");
    if (!measure(desc, bytes))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "the cache does not fit 64 bits");
    return TENON_OK;
}

/* An empty cache without turns, NULL when there is no memory. calloc: rows are padded with zeros,
 * and pages of positions that are never used are never touched. */
static tenon_device_cache *make(const tenon_cache_desc *desc, const sizes *bytes)
{
    uint8_t *memory = calloc(1, (size_t)bytes->total);
    tenon_device_cache *self = (tenon_device_cache *)(void *)memory;

    if (self == NULL) return NULL;
    self->desc = *desc;
    self->desc.table = NULL;
    self->stride = bytes->stride;
    self->turn = bytes->turn;
    self->bytes = bytes->total;
    self->element = bytes->element;
    self->turns = (float *)(void *)(memory + bytes->head);
    self->k = memory + bytes->head + bytes->turns;
    self->v = self->k + bytes->elements;
    if (bytes->keeps_unrotated) self->unrotated = self->v + bytes->elements;
    return self;
}

static int32_t no_memory(uint64_t bytes, tenon_error *error)
{
    uint64_t total, available;
    cpu_memory(&total, &available);
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT,
                             bytes, available, "no memory for a cache");
}

/* cos and sin apart, for vectors of pairs. */
static void take_turns(tenon_device_cache *self, const float *table)
{
    uint64_t pairs = self->desc.rotary / 2, position, i;
    for (position = 0; position < (pairs != 0 ? self->desc.capacity : 0); position++) {
        float *turns = self->turns + position * 2 * self->turn;
        for (i = 0; i < pairs; i++) {
            turns[i] = table[(position * pairs + i) * 2];
            turns[self->turn + i] = table[(position * pairs + i) * 2 + 1];
        }
    }
}

int32_t TENON_CALL cpu_cache_create(tenon_device *device, const tenon_cache_desc *desc,
                                    tenon_device_cache **out, tenon_error *error)
{
    sizes bytes;
    int32_t status;

    if (out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "out");
    *out = NULL;
    status = cpu_check_head(device, desc, sizeof *desc, "tenon_cache_desc", error);
    if (status != TENON_OK) return status;
    status = check_desc(desc, &bytes, error);
    if (status != TENON_OK) return status;
    *out = make(desc, &bytes);
    if (*out == NULL) return no_memory(bytes.total, error);
    take_turns(*out, desc->table);
    return TENON_OK;
}

void TENON_CALL cpu_cache_free(tenon_device *device, tenon_device_cache *cache)
{
    (void)device;
    free(cache);
}

/* --------------------------------------------------------------------------------------- append */

void cpu_cache_rotate(const tenon_device *device, const tenon_device_cache *cache,
                      uint64_t position, const float *x, float *y)
{
    const tenon_cache_desc *desc = &cache->desc;
    const float *turns = cache->turns + position * 2 * cache->turn;

    cpu_operations_of(device->provider->level)
        ->rotate(x, desc->head_size, desc->rotary / 2, desc->pairing == TENON_ROPE_ADJACENT, turns,
                 turns + cache->turn, y);
}

static void store(const tenon_device_cache *cache, uint8_t *to, const float *from, uint64_t count)
{
    uint16_t *halves = (uint16_t *)(void *)to;
    uint64_t i;

    if (cache->element == sizeof(float))
        memcpy(to, from, (size_t)count * sizeof(float));
    else
        for (i = 0; i < count; i++) halves[i] = to_half(from[i]);
}

static void load(const tenon_device_cache *cache, const uint8_t *from, float *to, uint64_t count)
{
    const uint16_t *halves = (const uint16_t *)(const void *)from;
    uint64_t i;

    if (cache->element == sizeof(float))
        memcpy(to, from, (size_t)count * sizeof(float));
    else
        for (i = 0; i < count; i++) to[i] = from_half(halves[i]);
}

/* Rotates a key whose rounded values lie at from into its place at to; both may be one. */
static void rotate_key(const tenon_device *device, const tenon_device_cache *cache,
                       uint64_t position, const uint8_t *from, uint8_t *to)
{
    float row[MOST_HEAD_SIZE];

    load(cache, from, row, cache->desc.head_size);
    cpu_cache_rotate(device, cache, position, row, row);
    store(cache, to, row, cache->desc.head_size);
}

/* Where keys are kept as they came. */
static uint8_t *plain_keys(const tenon_device_cache *cache)
{
    return cache->unrotated != NULL ? cache->unrotated : cache->k;
}

typedef struct append_job {
    const tenon_device *device;
    const tenon_append_call *call;
} append_job;

/* One position of one head. */
static void TENON_CALL append_unit(void *context, uint64_t index, uint32_t worker)
{
    const append_job *self = context;
    const tenon_append_call *call = self->call;
    const tenon_device_cache *cache = call->cache;
    uint64_t head = index % cache->desc.kv_heads, token = index / cache->desc.kv_heads;
    uint64_t size = cache->desc.head_size, position = cache->length + token;
    uint8_t *plain = cpu_cache_at(cache, plain_keys(cache), head, position);
    (void)worker;

    store(cache, plain, cpu_row(&call->k, call->k_row_stride, token) + head * size, size);
    if (cache->desc.rotary != 0)
        rotate_key(self->device, cache, position, plain,
                   cpu_cache_at(cache, cache->k, head, position));
    store(cache, cpu_cache_at(cache, cache->v, head, position),
          cpu_row(&call->v, call->v_row_stride, token) + head * size, size);
}

static int32_t check_append(const tenon_device *device, const tenon_append_call *call,
                            tenon_error *error)
{
    const tenon_device_cache *cache;
    uint64_t width, room;
    int32_t status = cpu_check_head(device, call, sizeof *call, "tenon_append_call", error);

    if (status != TENON_OK) return status;
    status = cpu_check_zero(call->reserved0, sizeof call->reserved0, "tenon_append_call.reserved0",
                            error);
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
    status = cpu_check_rows(&call->k, call->k_row_stride, call->tokens, width, "k", error);
    if (status != TENON_OK) return status;
    return cpu_check_rows(&call->v, call->v_row_stride, call->tokens, width, "v", error);
}

int32_t TENON_CALL cpu_cache_append(tenon_device *device, tenon_device_queue *queue,
                                    const tenon_append_call *call, tenon_error *error)
{
    tenon_device_cache *cache;
    append_job self = {device, call};
    int32_t status = check_append(device, call, error);
    uint64_t count;
    (void)queue;

    if (status != TENON_OK) return status;
    cache = call->cache;
    count = call->tokens * cache->desc.kv_heads;
    cpu_split(device, count, count * cache->desc.head_size * 8, append_unit, &self);
    cache->length += call->tokens;
    return TENON_OK;
}

/* ------------------------------------------------------------- length, truncate, evict, clone ... */

static int32_t check_cache(const tenon_device *device, const tenon_device_cache *cache,
                           const void *out, tenon_error *error)
{
    if (device == NULL || cache == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "device, cache or out is a null pointer");
    return TENON_OK;
}

int32_t TENON_CALL cpu_cache_length(tenon_device *device, const tenon_device_cache *cache,
                                    uint64_t *length, tenon_error *error)
{
    int32_t status = check_cache(device, cache, length, error);
    if (status != TENON_OK) return status;
    *length = cache->length;
    return TENON_OK;
}

int32_t TENON_CALL cpu_cache_bytes(tenon_device *device, const tenon_device_cache *cache,
                                   uint64_t *bytes, tenon_error *error)
{
    int32_t status = check_cache(device, cache, bytes, error);
    if (status != TENON_OK) return status;
    *bytes = cache->bytes;
    return TENON_OK;
}

int32_t TENON_CALL cpu_cache_truncate(tenon_device *device, tenon_device_queue *queue,
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

typedef struct eviction {
    const tenon_device *device;
    tenon_device_cache *cache;
    uint64_t first, count;
} eviction;

/* Closes the gap in one head. Keys are rotated anew for the place they come to. */
static void TENON_CALL evict_head(void *context, uint64_t head, uint32_t worker)
{
    const eviction *self = context;
    const tenon_device_cache *cache = self->cache;
    uint8_t *const arrays[2] = {plain_keys(cache), cache->v};
    uint64_t behind = self->first + self->count, position;
    size_t bytes = (size_t)((cache->length - behind) * cache->stride * cache->element);
    uint32_t i;
    (void)worker;

    for (i = 0; i < 2; i++)
        memmove(cpu_cache_at(cache, arrays[i], head, self->first),
                cpu_cache_at(cache, arrays[i], head, behind), bytes);
    if (cache->unrotated == NULL) return; /* nothing is rotated: k was moved as it is */
    for (position = self->first; position < cache->length - self->count; position++)
        rotate_key(self->device, cache, position,
                   cpu_cache_at(cache, cache->unrotated, head, position),
                   cpu_cache_at(cache, cache->k, head, position));
}

int32_t TENON_CALL cpu_cache_evict(tenon_device *device, tenon_device_queue *queue,
                                   tenon_device_cache *cache, uint64_t first, uint64_t count,
                                   tenon_error *error)
{
    eviction self = {device, cache, first, count};
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
    cpu_split(device, cache->desc.kv_heads,
              cache->desc.kv_heads * cache->desc.head_size * (cache->length - first), evict_head,
              &self);
    cache->length -= count;
    return TENON_OK;
}

int32_t TENON_CALL cpu_cache_clone(tenon_device *device, tenon_device_queue *queue,
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
    memcpy(copy->turns, cache->turns, (size_t)bytes.turns);
    used = (size_t)(cache->length * cache->stride * cache->element);
    for (head = 0; head < cache->desc.kv_heads; head++) {
        uint8_t *const from[3] = {cache->k, cache->v, cache->unrotated};
        uint8_t *const to[3] = {copy->k, copy->v, copy->unrotated};
        for (i = 0; i < 3; i++)
            if (from[i] != NULL)
                memcpy(cpu_cache_at(copy, to[i], head, 0), cpu_cache_at(cache, from[i], head, 0),
                       used);
    }
    *out = copy;
    return TENON_OK;
}
