/* The whole operations of a step: rows that stand alone, and attention over a cache. */
#ifndef TENON_VULKAN_OPERATIONS_H
#define TENON_VULKAN_OPERATIONS_H

#include "request.h"

/* What an operation needs the probe to have proven beside sums, products and subnormals. */
#define VULKAN_NEEDS_FUSED 1u
#define VULKAN_NEEDS_DIVISION 2u
#define VULKAN_NEEDS_ROOTS 4u
/* TENON_OK or TENON_DECLINED. */
int32_t vulkan_check_exact(const tenon_device *device, uint32_t needs, tenon_error *error);

/* How many rows of all these views can be bound at a time, at most limit. TENON_DECLINED when a
 * single row cannot. */
int32_t vulkan_choose_rows(const tenon_device *device, const vulkan_rows *const *views,
                           uint32_t view_count, uint64_t limit, uint64_t *most, tenon_error *error);

int32_t TENON_CALL vulkan_embed_run(tenon_device *device, tenon_device_queue *queue,
                                    const tenon_embed_call *call, tenon_error *error);
int32_t TENON_CALL vulkan_rmsnorm_run(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_rmsnorm_call *call, tenon_error *error);
int32_t TENON_CALL vulkan_gated_run(tenon_device *device, tenon_device_queue *queue,
                                    const tenon_gated_call *call, tenon_error *error);
int32_t TENON_CALL vulkan_add_run(tenon_device *device, tenon_device_queue *queue,
                                  const tenon_add_call *call, tenon_error *error);
int32_t TENON_CALL vulkan_argmax_run(tenon_device *device, tenon_device_queue *queue,
                                     const tenon_argmax_call *call, tenon_error *error);

int32_t TENON_CALL vulkan_cache_create(tenon_device *device, const tenon_cache_desc *desc,
                                       tenon_device_cache **out, tenon_error *error);
void TENON_CALL vulkan_cache_free(tenon_device *device, tenon_device_cache *cache);
int32_t TENON_CALL vulkan_cache_append(tenon_device *device, tenon_device_queue *queue,
                                       const tenon_append_call *call, tenon_error *error);
int32_t TENON_CALL vulkan_attention_run(tenon_device *device, tenon_device_queue *queue,
                                        const tenon_attention_call *call, tenon_error *error);
int32_t TENON_CALL vulkan_cache_length(tenon_device *device, const tenon_device_cache *cache,
                                       uint64_t *length, tenon_error *error);
int32_t TENON_CALL vulkan_cache_truncate(tenon_device *device, tenon_device_queue *queue,
                                         tenon_device_cache *cache, uint64_t length,
                                         tenon_error *error);
int32_t TENON_CALL vulkan_cache_evict(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_cache *cache, uint64_t first, uint64_t count,
                                      tenon_error *error);
int32_t TENON_CALL vulkan_cache_clone(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_cache *cache, tenon_device_cache **out,
                                      tenon_error *error);
int32_t TENON_CALL vulkan_cache_bytes(tenon_device *device, const tenon_device_cache *cache,
                                      uint64_t *bytes, tenon_error *error);

#endif
