/* A provider that is another one, but declines calls at random: settings refuses.file (the other
 * one's file), refuses.share (of a hundred calls so many, 25) and refuses.seed. Whatever it declines
 * must come out of the rest of the chain with the same bits. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/provider.h>

/* What the other file exports; one is open at a time. */
static struct {
    void *library;
    const tenon_provider_v1 *provider;
    const tenon_qmatmul_v1 *qmatmul;
    const tenon_embed_v1 *embed;
    const tenon_rmsnorm_v1 *rmsnorm;
    const tenon_gated_v1 *gated;
    const tenon_add_v1 *add;
    const tenon_argmax_v1 *argmax;
    const tenon_attention_v1 *attention;
    const tenon_memory_v1 *memory;
    const tenon_graph_v1 *graph;
    uint32_t share;
    atomic_uint state;
} inner;

/* Answers DECLINED for some calls. */
static int refuses(tenon_error *error)
{
    uint32_t mixed = atomic_fetch_add(&inner.state, 0x9E3779B9u);
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6Bu;
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35u;
    mixed ^= mixed >> 16;
    if (mixed % 100 >= inner.share) return 0;
    tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
               "declined at random");
    return 1;
}

static int32_t TENON_CALL provider_open(const tenon_services *services, tenon_provider **out,
                                        tenon_error *error)
{
    const char *file = services->config(services->host, "refuses.file");
    const char *share = services->config(services->host, "refuses.share");
    const char *seed = services->config(services->host, "refuses.seed");
    int32_t status;

    if (file == NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_RUNTIME_ABSENT, TENON_SCOPE_PROVIDER,
                          "refuses.file is not set");
    inner.library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (inner.library == NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_RUNTIME_ABSENT, TENON_SCOPE_PROVIDER,
                          "refuses.file cannot be loaded");
    inner.share = share != NULL ? (uint32_t)strtoul(share, NULL, 10) : 25;
    inner.state = seed != NULL ? (uint32_t)strtoul(seed, NULL, 10) : 1;
    inner.provider = dlsym(inner.library, "provider_v1");
    inner.qmatmul = dlsym(inner.library, "qmatmul_v1");
    inner.embed = dlsym(inner.library, "embed_v1");
    inner.rmsnorm = dlsym(inner.library, "rmsnorm_v1");
    inner.gated = dlsym(inner.library, "gated_v1");
    inner.add = dlsym(inner.library, "add_v1");
    inner.argmax = dlsym(inner.library, "argmax_v1");
    inner.attention = dlsym(inner.library, "attention_v1");
    inner.memory = dlsym(inner.library, "memory_v1");
    inner.graph = dlsym(inner.library, "graph_v1");
    if (inner.provider == NULL || inner.qmatmul == NULL || inner.embed == NULL ||
        inner.rmsnorm == NULL || inner.gated == NULL || inner.add == NULL || inner.argmax == NULL ||
        inner.attention == NULL || inner.memory == NULL || inner.graph == NULL)
        status = tenon_fail(error, TENON_STATE, TENON_REASON_RUNTIME_ABSENT, TENON_SCOPE_PROVIDER,
                            "refuses.file does not offer every operation");
    else
        status = inner.provider->open(services, out, error);
    if (status != TENON_OK) dlclose(inner.library);
    return status;
}

static void TENON_CALL provider_close(tenon_provider *provider)
{
    if (provider == NULL) return;
    inner.provider->close(provider);
    dlclose(inner.library);
}

static int32_t TENON_CALL device_count(tenon_provider *provider, uint32_t *count,
                                       tenon_error *error)
{
    return inner.provider->device_count(provider, count, error);
}

static int32_t TENON_CALL device_info(tenon_provider *provider, uint32_t index,
                                      tenon_device_info *out, tenon_error *error)
{
    return inner.provider->device_info(provider, index, out, error);
}

static int32_t TENON_CALL device_open(tenon_provider *provider, uint32_t index, tenon_device **out,
                                      tenon_error *error)
{
    return inner.provider->device_open(provider, index, out, error);
}

static void TENON_CALL device_close(tenon_device *device)
{
    inner.provider->device_close(device);
}

static int32_t TENON_CALL queue_open(tenon_device *device, tenon_device_queue **out,
                                     tenon_error *error)
{
    return inner.provider->queue_open(device, out, error);
}

static void TENON_CALL queue_close(tenon_device_queue *queue)
{
    inner.provider->queue_close(queue);
}

TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = {
    TENON_HEAD(tenon_provider_v1),
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = FIXTURE_ID,
    .version = "1.0",
    .open = provider_open,
    .close = provider_close,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .queue_open = queue_open,
    .queue_close = queue_close,
};

/* ---- products: weights are taken, calls may be declined ---------------------------------------- */

static int32_t TENON_CALL supports(tenon_device *device, const tenon_weight_desc *desc,
                                   tenon_qmatmul_support *out, tenon_error *error)
{
    return inner.qmatmul->supports(device, desc, out, error);
}

static int32_t TENON_CALL prepare(tenon_device *device, const tenon_weight_desc *desc,
                                  const tenon_weight_data *data, tenon_prepared **out,
                                  tenon_error *error)
{
    return inner.qmatmul->prepare(device, desc, data, out, error);
}

static int32_t TENON_CALL run(tenon_device *device, tenon_device_queue *queue,
                              const tenon_qmatmul_call *call, tenon_error *error)
{
    if (refuses(error)) return TENON_DECLINED;
    return inner.qmatmul->run(device, queue, call, error);
}

static void TENON_CALL release(tenon_device *device, tenon_prepared *prepared)
{
    inner.qmatmul->release(device, prepared);
}

TENON_PROVIDER_DESCRIPTOR(tenon_qmatmul_v1, qmatmul_v1) = {
    TENON_HEAD(tenon_qmatmul_v1),
    .weight_desc_size = sizeof(tenon_weight_desc),
    .weight_data_size = sizeof(tenon_weight_data),
    .call_size = sizeof(tenon_qmatmul_call),
    .support_size = sizeof(tenon_qmatmul_support),
    .error_size = sizeof(tenon_error),
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .release = release,
};

/* ---- operations of one function ------------------------------------------------------------------ */

#define FORWARD(name) \
    static int32_t TENON_CALL name##_run(tenon_device *device, tenon_device_queue *queue, \
                                         const tenon_##name##_call *call, tenon_error *error) \
    { \
        if (refuses(error)) return TENON_DECLINED; \
        return inner.name->run(device, queue, call, error); \
    } \
    TENON_PROVIDER_DESCRIPTOR(tenon_##name##_v1, name##_v1) = { \
        TENON_HEAD(tenon_##name##_v1), .call_size = sizeof(tenon_##name##_call), \
        .error_size = sizeof(tenon_error), .run = name##_run}
FORWARD(embed);
FORWARD(rmsnorm);
FORWARD(gated);
FORWARD(add);
FORWARD(argmax);

/* ---- caches: making one may be declined; a call on one that is declined would lose it ------------- */

static int32_t TENON_CALL cache_create(tenon_device *device, const tenon_cache_desc *desc,
                                       tenon_device_cache **out, tenon_error *error)
{
    if (refuses(error)) return TENON_DECLINED;
    return inner.attention->create(device, desc, out, error);
}

static void TENON_CALL cache_free(tenon_device *device, tenon_device_cache *cache)
{
    inner.attention->free(device, cache);
}

static int32_t TENON_CALL cache_append(tenon_device *device, tenon_device_queue *queue,
                                       const tenon_append_call *call, tenon_error *error)
{
    return inner.attention->append(device, queue, call, error);
}

static int32_t TENON_CALL cache_run(tenon_device *device, tenon_device_queue *queue,
                                    const tenon_attention_call *call, tenon_error *error)
{
    return inner.attention->run(device, queue, call, error);
}

static int32_t TENON_CALL cache_length(tenon_device *device, const tenon_device_cache *cache,
                                       uint64_t *length, tenon_error *error)
{
    return inner.attention->length(device, cache, length, error);
}

static int32_t TENON_CALL cache_truncate(tenon_device *device, tenon_device_queue *queue,
                                         tenon_device_cache *cache, uint64_t length,
                                         tenon_error *error)
{
    return inner.attention->truncate(device, queue, cache, length, error);
}

static int32_t TENON_CALL cache_evict(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_cache *cache, uint64_t first, uint64_t count,
                                      tenon_error *error)
{
    return inner.attention->evict(device, queue, cache, first, count, error);
}

static int32_t TENON_CALL cache_clone(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_cache *cache, tenon_device_cache **out,
                                      tenon_error *error)
{
    return inner.attention->clone(device, queue, cache, out, error);
}

static int32_t TENON_CALL cache_bytes(tenon_device *device, const tenon_device_cache *cache,
                                      uint64_t *bytes, tenon_error *error)
{
    return inner.attention->bytes(device, cache, bytes, error);
}

TENON_PROVIDER_DESCRIPTOR(tenon_attention_v1, attention_v1) = {
    TENON_HEAD(tenon_attention_v1),
    .desc_size = sizeof(tenon_cache_desc),
    .append_size = sizeof(tenon_append_call),
    .call_size = sizeof(tenon_attention_call),
    .error_size = sizeof(tenon_error),
    .create = cache_create,
    .free = cache_free,
    .append = cache_append,
    .run = cache_run,
    .length = cache_length,
    .truncate = cache_truncate,
    .evict = cache_evict,
    .clone = cache_clone,
    .bytes = cache_bytes,
};

/* ---- memory: room for a buffer may be declined by having none ------------------------------------ */

static int32_t TENON_CALL memory_alloc(tenon_device *device, uint64_t bytes,
                                       tenon_device_buffer **out, tenon_error *error)
{
    if (refuses(error))
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                                 bytes, 0, "no room at random");
    return inner.memory->alloc(device, bytes, out, error);
}

static void TENON_CALL memory_free(tenon_device *device, tenon_device_buffer *buffer)
{
    inner.memory->free(device, buffer);
}

static int32_t TENON_CALL memory_write(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_buffer *buffer, uint64_t offset,
                                       const void *from, uint64_t bytes, tenon_error *error)
{
    return inner.memory->write(device, queue, buffer, offset, from, bytes, error);
}

static int32_t TENON_CALL memory_read(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_buffer *buffer, uint64_t offset, void *to,
                                      uint64_t bytes, tenon_error *error)
{
    return inner.memory->read(device, queue, buffer, offset, to, bytes, error);
}

static int32_t TENON_CALL memory_copy(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_buffer *to, uint64_t to_offset,
                                      const tenon_device_buffer *from, uint64_t from_offset,
                                      uint64_t bytes, tenon_error *error)
{
    return inner.memory->copy(device, queue, to, to_offset, from, from_offset, bytes, error);
}

static int32_t TENON_CALL memory_fence(tenon_device *device, tenon_device_queue *queue,
                                       tenon_error *error)
{
    return inner.memory->fence(device, queue, error);
}

static int32_t TENON_CALL memory_info(tenon_device *device, tenon_memory_info *out,
                                      tenon_error *error)
{
    return inner.memory->info(device, out, error);
}

TENON_PROVIDER_DESCRIPTOR(tenon_memory_v1, memory_v1) = {
    TENON_HEAD(tenon_memory_v1),
    .info_size = sizeof(tenon_memory_info),
    .error_size = sizeof(tenon_error),
    .alloc = memory_alloc,
    .free = memory_free,
    .write = memory_write,
    .read = memory_read,
    .copy = memory_copy,
    .fence = memory_fence,
    .info = memory_info,
};

/* ---- graphs -------------------------------------------------------------------------------------- */

static int32_t TENON_CALL graph_begin(tenon_device *device, tenon_device_queue *queue,
                                      tenon_error *error)
{
    return inner.graph->begin(device, queue, error);
}

static int32_t TENON_CALL graph_end(tenon_device *device, tenon_device_queue *queue,
                                    tenon_device_graph **out, tenon_error *error)
{
    return inner.graph->end(device, queue, out, error);
}

static void TENON_CALL graph_abort(tenon_device *device, tenon_device_queue *queue)
{
    inner.graph->abort(device, queue);
}

static int32_t TENON_CALL graph_launch(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_graph *graph, tenon_error *error)
{
    if (refuses(error)) return TENON_DECLINED;
    return inner.graph->launch(device, queue, graph, error);
}

static void TENON_CALL graph_release(tenon_device *device, tenon_device_graph *graph)
{
    inner.graph->release(device, graph);
}

TENON_PROVIDER_DESCRIPTOR(tenon_graph_v1, graph_v1) = {
    TENON_HEAD(tenon_graph_v1), .error_size = sizeof(tenon_error),
    .begin = graph_begin,       .end = graph_end,
    .abort = graph_abort,       .launch = graph_launch,
    .release = graph_release,
};
