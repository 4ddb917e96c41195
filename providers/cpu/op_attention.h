/* Attention of the CPU provider: what its two source files share. */
#ifndef TENON_CPU_OP_ATTENTION_H
#define TENON_CPU_OP_ATTENTION_H

#include "op_request.h"

/* Keys and values of every key-value head, by position, rows padded with zeros to stride elements:
 * element (head, position, input) stands at (head * capacity + position) * stride + input. Elements
 * are float or, in a cache of type f16, binary16. */
struct tenon_device_cache {
    tenon_cache_desc desc; /* its table is NULL: see turns */
    uint64_t length;       /* positions held */
    uint64_t stride;       /* elements of a row: head_size rounded up to 16 */
    uint64_t turn;         /* floats of one of cos and sin of a position: pairs rounded up to 16 */
    uint64_t bytes;        /* of all memory */
    uint32_t element;      /* bytes of one element, 4 or 2 */
    float *turns;          /* [position][cos, sin][turn] */
    uint8_t *k;            /* rotated for the position it stands at */
    uint8_t *v;
    uint8_t
        *unrotated; /* keys as they came (rounded once): evictable caches that rotate, else NULL */
};

/* Row of a head's keys or values at a position. */
static inline uint8_t *cpu_cache_at(const tenon_device_cache *cache, uint8_t *elements,
                                    uint64_t head, uint64_t position)
{
    return elements + (head * cache->desc.capacity + position) * cache->stride * cache->element;
}

/* y = x rotated for a position of the cache; x and y hold head_size floats and may be one. */
void cpu_cache_rotate(const tenon_device *device, const tenon_device_cache *cache,
                      uint64_t position, const float *x, float *y);

int32_t TENON_CALL cpu_cache_create(tenon_device *device, const tenon_cache_desc *desc,
                                    tenon_device_cache **out, tenon_error *error);
void TENON_CALL cpu_cache_free(tenon_device *device, tenon_device_cache *cache);
int32_t TENON_CALL cpu_cache_append(tenon_device *device, tenon_device_queue *queue,
                                    const tenon_append_call *call, tenon_error *error);
int32_t TENON_CALL cpu_cache_length(tenon_device *device, const tenon_device_cache *cache,
                                    uint64_t *length, tenon_error *error);
int32_t TENON_CALL cpu_cache_truncate(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_cache *cache, uint64_t length,
                                      tenon_error *error);
int32_t TENON_CALL cpu_cache_evict(tenon_device *device, tenon_device_queue *queue,
                                   tenon_device_cache *cache, uint64_t first, uint64_t count,
                                   tenon_error *error);
int32_t TENON_CALL cpu_cache_clone(tenon_device *device, tenon_device_queue *queue,
                                   const tenon_device_cache *cache, tenon_device_cache **out,
                                   tenon_error *error);
int32_t TENON_CALL cpu_cache_bytes(tenon_device *device, const tenon_device_cache *cache,
                                   uint64_t *bytes, tenon_error *error);

#endif
