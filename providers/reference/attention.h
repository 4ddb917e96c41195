/* Attention of the reference: what its source files share. */
#ifndef TENON_REFERENCE_ATTENTION_H
#define TENON_REFERENCE_ATTENTION_H

#include <tenon/op/attention.h>

#include "device.h"

/* Keys and values of every key-value head, by position: element (head, position, input) stands at
 * (head * capacity + position) * head_size + input. Elements are float or, in a cache of type f16,
 * binary16 as uint16_t. */
struct tenon_device_cache {
    tenon_cache_desc desc; /* its table points at the cache's own copy */
    uint64_t length;       /* positions held */
    uint64_t bytes;        /* of the whole allocation */
    uint32_t element;      /* bytes of one element, 4 or 2 */
    void *k;               /* rotated for the position it stands at */
    void *v;
    void *unrotated; /* keys as they came (rounded once): evictable caches that rotate, else NULL */
};

/* First element of a head's keys or values at a position. */
static inline void *reference_cache_at(const tenon_device_cache *cache, void *elements,
                                       uint64_t head, uint64_t position)
{
    uint64_t element = (head * cache->desc.capacity + position) * cache->desc.head_size;
    return (uint8_t *)elements + element * cache->element;
}

/* y = x rotated for a position, head_size values each. [any thread] */
void reference_rotate(const tenon_cache_desc *desc, uint64_t position, const float *x, float *y);

/* The functions of attention_v1 that concern the cache itself. */
int32_t TENON_CALL reference_cache_create(struct tenon_device *device, const tenon_cache_desc *desc,
                                          tenon_device_cache **out, tenon_error *error);
void TENON_CALL reference_cache_free(struct tenon_device *device, tenon_device_cache *cache);
int32_t TENON_CALL reference_cache_append(struct tenon_device *device,
                                          struct tenon_device_queue *queue,
                                          const tenon_append_call *call, tenon_error *error);
int32_t TENON_CALL reference_cache_length(struct tenon_device *device,
                                          const tenon_device_cache *cache, uint64_t *length,
                                          tenon_error *error);
int32_t TENON_CALL reference_cache_truncate(struct tenon_device *device,
                                            struct tenon_device_queue *queue,
                                            tenon_device_cache *cache, uint64_t length,
                                            tenon_error *error);
int32_t TENON_CALL reference_cache_evict(struct tenon_device *device,
                                         struct tenon_device_queue *queue,
                                         tenon_device_cache *cache, uint64_t first, uint64_t count,
                                         tenon_error *error);
int32_t TENON_CALL reference_cache_clone(struct tenon_device *device,
                                         struct tenon_device_queue *queue,
                                         const tenon_device_cache *cache, tenon_device_cache **out,
                                         tenon_error *error);
int32_t TENON_CALL reference_cache_bytes(struct tenon_device *device,
                                         const tenon_device_cache *cache, uint64_t *bytes,
                                         tenon_error *error);

#endif
