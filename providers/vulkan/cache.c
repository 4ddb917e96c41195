/* Caches of attention: made, freed, asked and cloned. */
#include "cache.h"

#include <stdlib.h>

#define TILE_POSITIONS 64u

vulkan_cache_push vulkan_cache_shape(const tenon_device_cache *cache)
{
    return (vulkan_cache_push){.head_size = (uint32_t)cache->desc.head_size,
                               .heads_v = cache->heads_v,
                               .rotary = cache->desc.rotary,
                               .kv_heads = (uint32_t)cache->desc.kv_heads,
                               .tiles = (uint32_t)cache->tiles};
}

void vulkan_cache_options(const tenon_device_cache *cache,
                          uint32_t options[VULKAN_MOST_CONSTANTS - 1])
{
    uint32_t i;
    for (i = 0; i < VULKAN_MOST_CONSTANTS - 1; i++) options[i] = 0;
    options[0] = cache->desc.type == TENON_CACHE_F16 ? 8 : 4;
    options[1] = cache->desc.pairing;
}

vulkan_span vulkan_cache_table(const tenon_device_cache *cache)
{
    return vulkan_whole(cache->table != NULL ? cache->table : cache->state);
}

/* ------------------------------------------------------------------------------------- checks */

static int32_t check_rotation(const tenon_cache_desc *desc, tenon_error *error)
{
    uint64_t bytes;

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
    if (!tenon_mul_u64(desc->capacity, (uint64_t)desc->rotary * 4, &bytes))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL, "table");
    if (desc->table == NULL) return vulkan_null_pointer("table", error);
    if ((uintptr_t)desc->table % 4 != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL, "table");
    if (desc->table_bytes < bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                                 bytes, desc->table_bytes, "table");
    return TENON_OK;
}

static int32_t check_desc(const tenon_device *device, const tenon_cache_desc *desc,
                          tenon_error *error)
{
    if (device == NULL || desc == NULL) return vulkan_null_pointer("device or desc", error);
    if (desc->struct_size != sizeof *desc || desc->abi_version != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                                 sizeof *desc, desc->struct_size, "tenon_cache_desc");
    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL,
                          "tenon_cache_desc.reserved0");
    if (desc->kv_heads == 0 || desc->head_size == 0 || desc->capacity == 0)
        return vulkan_empty("kv_heads, head_size and capacity must be at least 1", error);
    if (desc->type != TENON_CACHE_F32 && desc->type != TENON_CACHE_F16)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                                 desc->type, TENON_CACHE_F16, "type");
    if ((desc->flags & ~TENON_CACHE_EVICTABLE) != 0)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                                 desc->flags, TENON_CACHE_EVICTABLE, "flags");
    return check_rotation(desc, error);
}

static int32_t check_cache(const tenon_device *device, const tenon_device_cache *cache,
                           const void *out, tenon_error *error)
{
    if (device == NULL || cache == NULL || out == NULL)
        return vulkan_null_pointer("device, cache or out", error);
    return TENON_OK;
}

/* ------------------------------------------------------------------------------ make and free */

/* Tiles and vectors of a cache; bytes of k and of v. 0 where a kernel could not reach them all. */
static int measure(const tenon_device *device, tenon_device_cache *self, uint64_t *bytes)
{
    const tenon_cache_desc *desc = &self->desc;
    const VkPhysicalDeviceLimits *limits = &device->gpu->limits;
    uint64_t most = vulkan_least(device->gpu->range_limit, device->gpu->block_limit);
    uint64_t heads_v = vulkan_head_vectors(desc->head_size, desc->type == TENON_CACHE_F16 ? 8 : 4);

    self->tiles = tenon_ceil_div_u64(desc->capacity, TILE_POSITIONS);
    if (desc->head_size > UINT32_MAX / 8 || heads_v > limits->maxComputeWorkGroupCount[1] ||
        desc->kv_heads > limits->maxComputeWorkGroupCount[2] ||
        !tenon_mul_u64(self->tiles * TILE_POSITIONS * 16, heads_v, bytes) ||
        !tenon_mul_u64(*bytes, desc->kv_heads, bytes))
        return 0;
    self->heads_v = (uint32_t)heads_v;
    return *bytes <= most && desc->capacity * desc->rotary * 4 <= device->gpu->range_limit;
}

static void free_cache(tenon_device *device, tenon_device_cache *self)
{
    if (self == NULL) return;
    vulkan_memory_abandon(device, self->k);
    vulkan_memory_abandon(device, self->v);
    vulkan_memory_abandon(device, self->plain);
    vulkan_memory_abandon(device, self->table);
    vulkan_memory_abandon(device, self->state);
    free(self);
}

static int32_t make_array(tenon_device *device, tenon_device_cache *self, uint64_t bytes,
                          int texels, vulkan_memory **out, tenon_error *error)
{
    int32_t status = vulkan_memory_make(device, VULKAN_MAIN, bytes, TENON_SCOPE_WEIGHT, out, error);

    if (status == TENON_OK && texels && device->flavour == VULKAN_TEXEL)
        status = vulkan_memory_view(device, *out, TENON_SCOPE_WEIGHT, error);
    if (status == TENON_OK) self->bytes += (*out)->size;
    return status;
}

/* A cache whose arrays hold nothing yet. */
static int32_t make_cache(tenon_device *device, const tenon_cache_desc *desc,
                          tenon_device_cache **out, tenon_error *error)
{
    int rotates = desc->pairing != TENON_ROPE_NONE;
    tenon_device_cache *self = calloc(1, sizeof *self);
    uint64_t bytes;
    int32_t status;

    *out = NULL;
    if (self == NULL)
        return vulkan_no_memory(sizeof *self, TENON_SCOPE_WEIGHT, "no memory for a cache", error);
    self->desc = *desc;
    self->desc.table = NULL;
    if (!measure(device, self, &bytes)) {
        free(self);
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                          "a cache of this size cannot be bound");
    }
    status = make_array(device, self, bytes, 1, &self->k, error);
    if (status == TENON_OK) status = make_array(device, self, bytes, 1, &self->v, error);
    if (status == TENON_OK && rotates && (desc->flags & TENON_CACHE_EVICTABLE) != 0)
        status = make_array(device, self, bytes, 0, &self->plain, error);
    if (status == TENON_OK && rotates)
        status = make_array(device, self, desc->capacity * desc->rotary * 4, 0, &self->table,
                            error);
    if (status == TENON_OK) status = make_array(device, self, 8, 0, &self->state, error);
    if (status != TENON_OK) {
        free_cache(device, self);
        return status;
    }
    *out = self;
    return TENON_OK;
}

int32_t TENON_CALL vulkan_cache_create(tenon_device *device, const tenon_cache_desc *desc,
                                       tenon_device_cache **out, tenon_error *error)
{
    static const uint32_t empty[2] = {0, 0};
    tenon_device_cache *self = NULL;
    int32_t status;

    if (out == NULL) return vulkan_null_pointer("out", error);
    *out = NULL;
    status = check_desc(device, desc, error);
    if (status == TENON_OK)
        status = vulkan_check_exact(device, VULKAN_NEEDS_FUSED | VULKAN_NEEDS_DIVISION, error);
    if (status == TENON_OK) status = make_cache(device, desc, &self, error);
    if (status == TENON_OK) status = vulkan_upload(device, vulkan_whole(self->state), empty, error);
    if (status == TENON_OK && self->table != NULL)
        status = vulkan_upload(device, vulkan_whole(self->table), desc->table, error);
    if (status != TENON_OK) {
        free_cache(device, self);
        return status;
    }
    atomic_fetch_add(&device->objects, 1);
    *out = self;
    return TENON_OK;
}

void TENON_CALL vulkan_cache_free(tenon_device *device, tenon_device_cache *cache)
{
    if (device == NULL || cache == NULL) return;
    free_cache(device, cache); /* batches in flight keep its memory alive */
    atomic_fetch_sub(&device->objects, 1);
}

/* ------------------------------------------------------------------- length, bytes, clone */

int32_t TENON_CALL vulkan_cache_length(tenon_device *device, const tenon_device_cache *cache,
                                       uint64_t *length, tenon_error *error)
{
    int32_t status = check_cache(device, cache, length, error);
    if (status == TENON_OK) *length = cache->length;
    return status;
}

int32_t TENON_CALL vulkan_cache_bytes(tenon_device *device, const tenon_device_cache *cache,
                                      uint64_t *bytes, tenon_error *error)
{
    int32_t status = check_cache(device, cache, bytes, error);
    if (status == TENON_OK) *bytes = cache->bytes;
    return status;
}

/* The used part of one array, head by head: the tiles of a head follow each other. */
static int32_t copy_array(tenon_device_queue *queue, const tenon_device_cache *cache,
                          vulkan_memory *to, vulkan_memory *from, tenon_error *error)
{
    uint64_t head_bytes = cache->tiles * TILE_POSITIONS * cache->heads_v * 16, head;
    uint64_t used = tenon_ceil_div_u64(cache->length, TILE_POSITIONS) * TILE_POSITIONS *
                    cache->heads_v * 16;
    int32_t status = TENON_OK;

    if (from == NULL || used == 0) return TENON_OK;
    for (head = 0; head < cache->desc.kv_heads && status == TENON_OK; head++)
        status = vulkan_record_copy(queue, (vulkan_span){to, head * head_bytes, used},
                                    (vulkan_span){from, head * head_bytes, used}, error);
    return status;
}

int32_t TENON_CALL vulkan_cache_clone(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_cache *cache, tenon_device_cache **out,
                                      tenon_error *error)
{
    tenon_device_cache *copy = NULL;
    int32_t status = check_cache(device, cache, out, error);

    if (status != TENON_OK) return status;
    *out = NULL;
    if (queue == NULL) return vulkan_null_pointer("queue", error);
    status = make_cache(device, &cache->desc, &copy, error);
    if (status != TENON_OK) return status;
    copy->length = cache->length;
    status = vulkan_call_begin(queue, error);
    if (status == TENON_OK) status = copy_array(queue, cache, copy->k, cache->k, error);
    if (status == TENON_OK) status = copy_array(queue, cache, copy->v, cache->v, error);
    if (status == TENON_OK) status = copy_array(queue, cache, copy->plain, cache->plain, error);
    if (status == TENON_OK && cache->table != NULL)
        status = vulkan_record_copy(queue, vulkan_whole(copy->table), vulkan_whole(cache->table),
                                    error);
    if (status == TENON_OK)
        status = vulkan_record_copy(queue, vulkan_whole(copy->state), vulkan_whole(cache->state),
                                    error);
    if (status == TENON_OK) status = vulkan_call_end(queue, 0, error);
    if (status != TENON_OK) {
        free_cache(device, copy);
        return status;
    }
    atomic_fetch_add(&device->objects, 1);
    *out = copy;
    return TENON_OK;
}
