/* The exported descriptors. Every function passes through here, where errno is kept as it was: the
 * driver's own is nobody's business (SPEC.md 1.3, R11). */
#include <errno.h>

#include "graph.h"
#include "weights.h"

/* A function that answers a status, and one that answers nothing. */
#define KEEP(name, parameters, ...) \
    static int32_t TENON_CALL name parameters \
    { \
        int before = errno; \
        int32_t status = vulkan_##name(__VA_ARGS__); \
        errno = before; \
        return status; \
    }
#define KEEP_VOID(name, parameters, ...) \
    static void TENON_CALL name parameters \
    { \
        int before = errno; \
        vulkan_##name(__VA_ARGS__); \
        errno = before; \
    }

/* clang-format off */
KEEP(provider_open, (const tenon_services *services, tenon_provider **out, tenon_error *error),
     services, out, error)
KEEP_VOID(provider_close, (tenon_provider *provider), provider)
KEEP(device_count, (tenon_provider *provider, uint32_t *count, tenon_error *error),
     provider, count, error)
KEEP(device_info, (tenon_provider *provider, uint32_t index, tenon_device_info *out,
                   tenon_error *error), provider, index, out, error)
KEEP(device_open, (tenon_provider *provider, uint32_t index, tenon_device **out,
                   tenon_error *error), provider, index, out, error)
KEEP_VOID(device_close, (tenon_device *device), device)
KEEP(queue_open, (tenon_device *device, tenon_device_queue **out, tenon_error *error),
     device, out, error)
KEEP_VOID(queue_close, (tenon_device_queue *queue), queue)

KEEP(supports, (tenon_device *device, const tenon_weight_desc *desc, tenon_qmatmul_support *out,
                tenon_error *error), device, desc, out, error)
KEEP(prepare, (tenon_device *device, const tenon_weight_desc *desc, const tenon_weight_data *data,
               tenon_prepared **out, tenon_error *error), device, desc, data, out, error)
KEEP(qmatmul_run, (tenon_device *device, tenon_device_queue *queue, const tenon_qmatmul_call *call,
                   tenon_error *error), device, queue, call, error)
KEEP_VOID(release, (tenon_device *device, tenon_prepared *prepared), device, prepared)

KEEP(buffer_alloc, (tenon_device *device, uint64_t bytes, tenon_device_buffer **out,
                    tenon_error *error), device, bytes, out, error)
KEEP_VOID(buffer_free, (tenon_device *device, tenon_device_buffer *buffer), device, buffer)
KEEP(buffer_write, (tenon_device *device, tenon_device_queue *queue, tenon_device_buffer *buffer,
                    uint64_t offset, const void *from, uint64_t bytes, tenon_error *error),
     device, queue, buffer, offset, from, bytes, error)
KEEP(buffer_read, (tenon_device *device, tenon_device_queue *queue,
                   const tenon_device_buffer *buffer, uint64_t offset, void *to, uint64_t bytes,
                   tenon_error *error), device, queue, buffer, offset, to, bytes, error)
KEEP(buffer_copy, (tenon_device *device, tenon_device_queue *queue, tenon_device_buffer *to,
                   uint64_t to_offset, const tenon_device_buffer *from, uint64_t from_offset,
                   uint64_t bytes, tenon_error *error),
     device, queue, to, to_offset, from, from_offset, bytes, error)
KEEP(buffer_fence, (tenon_device *device, tenon_device_queue *queue, tenon_error *error),
     device, queue, error)
KEEP(memory_info, (tenon_device *device, tenon_memory_info *out, tenon_error *error),
     device, out, error)

#define KEEP_RUN(name) \
    KEEP(name##_run, (tenon_device *device, tenon_device_queue *queue, \
                      const tenon_##name##_call *call, tenon_error *error), \
         device, queue, call, error)
KEEP_RUN(embed)
KEEP_RUN(rmsnorm)
KEEP_RUN(gated)
KEEP_RUN(add)
KEEP_RUN(argmax)
KEEP_RUN(attention)

KEEP(cache_create, (tenon_device *device, const tenon_cache_desc *desc, tenon_device_cache **out,
                    tenon_error *error), device, desc, out, error)
KEEP_VOID(cache_free, (tenon_device *device, tenon_device_cache *cache), device, cache)
KEEP(cache_append, (tenon_device *device, tenon_device_queue *queue, const tenon_append_call *call,
                    tenon_error *error), device, queue, call, error)
KEEP(cache_length, (tenon_device *device, const tenon_device_cache *cache, uint64_t *length,
                    tenon_error *error), device, cache, length, error)
KEEP(cache_truncate, (tenon_device *device, tenon_device_queue *queue, tenon_device_cache *cache,
                      uint64_t length, tenon_error *error), device, queue, cache, length, error)
KEEP(cache_evict, (tenon_device *device, tenon_device_queue *queue, tenon_device_cache *cache,
                   uint64_t first, uint64_t count, tenon_error *error),
     device, queue, cache, first, count, error)
KEEP(cache_clone, (tenon_device *device, tenon_device_queue *queue,
                   const tenon_device_cache *cache, tenon_device_cache **out, tenon_error *error),
     device, queue, cache, out, error)
KEEP(cache_bytes, (tenon_device *device, const tenon_device_cache *cache, uint64_t *bytes,
                   tenon_error *error), device, cache, bytes, error)

KEEP(graph_begin, (tenon_device *device, tenon_device_queue *queue, tenon_error *error),
     device, queue, error)
KEEP(graph_end, (tenon_device *device, tenon_device_queue *queue, tenon_device_graph **out,
                 tenon_error *error), device, queue, out, error)
KEEP_VOID(graph_abort, (tenon_device *device, tenon_device_queue *queue), device, queue)
KEEP(graph_launch, (tenon_device *device, tenon_device_queue *queue, tenon_device_graph *graph,
                    tenon_error *error), device, queue, graph, error)
KEEP_VOID(graph_release, (tenon_device *device, tenon_device_graph *graph), device, graph)
/* clang-format on */

TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = {
    TENON_HEAD(tenon_provider_v1),
    .needs = 0,
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = "vulkan",
    .version = TENON_VERSION,
    .open = provider_open,
    .close = provider_close,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .queue_open = queue_open,
    .queue_close = queue_close,
};

TENON_PROVIDER_DESCRIPTOR(tenon_qmatmul_v1, qmatmul_v1) = {
    TENON_HEAD(tenon_qmatmul_v1),
    .weight_desc_size = sizeof(tenon_weight_desc),
    .weight_data_size = sizeof(tenon_weight_data),
    .call_size = sizeof(tenon_qmatmul_call),
    .support_size = sizeof(tenon_qmatmul_support),
    .error_size = sizeof(tenon_error),
    .supports = supports,
    .prepare = prepare,
    .run = qmatmul_run,
    .release = release,
};

TENON_PROVIDER_DESCRIPTOR(tenon_memory_v1, memory_v1) = {
    TENON_HEAD(tenon_memory_v1),
    .info_size = sizeof(tenon_memory_info),
    .error_size = sizeof(tenon_error),
    .alloc = buffer_alloc,
    .free = buffer_free,
    .write = buffer_write,
    .read = buffer_read,
    .copy = buffer_copy,
    .fence = buffer_fence,
    .info = memory_info,
};

#define ROWS_DESCRIPTOR(operation) \
    TENON_PROVIDER_DESCRIPTOR(tenon_##operation##_v1, operation##_v1) = { \
        TENON_HEAD(tenon_##operation##_v1), \
        .call_size = sizeof(tenon_##operation##_call), \
        .error_size = sizeof(tenon_error), \
        .run = operation##_run, \
    }
ROWS_DESCRIPTOR(embed);
ROWS_DESCRIPTOR(rmsnorm);
ROWS_DESCRIPTOR(gated);
ROWS_DESCRIPTOR(add);
ROWS_DESCRIPTOR(argmax);

TENON_PROVIDER_DESCRIPTOR(tenon_attention_v1, attention_v1) = {
    TENON_HEAD(tenon_attention_v1),
    .desc_size = sizeof(tenon_cache_desc),
    .append_size = sizeof(tenon_append_call),
    .call_size = sizeof(tenon_attention_call),
    .error_size = sizeof(tenon_error),
    .create = cache_create,
    .free = cache_free,
    .append = cache_append,
    .run = attention_run,
    .length = cache_length,
    .truncate = cache_truncate,
    .evict = cache_evict,
    .clone = cache_clone,
    .bytes = cache_bytes,
};

TENON_PROVIDER_DESCRIPTOR(tenon_graph_v1, graph_v1) = {
    TENON_HEAD(tenon_graph_v1), .error_size = sizeof(tenon_error),
    .begin = graph_begin,       .end = graph_end,
    .abort = graph_abort,       .launch = graph_launch,
    .release = graph_release,
};
