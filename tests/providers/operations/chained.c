/* Correct providers of whole operations in host memory, which fail or fill up when told to:
 *   <id>.operation = any | qmatmul | embed | rmsnorm | append | attention | gated | add | argmax
 *   <id>.at = N       of those calls the N-th fails, counted from 1; 0: none
 *   <id>.times = M    and so do the M - 1 after it; default 1
 *   <id>.how = clean | half    what a failed call leaves: y untouched (default), or half written
 *   <id>.weights = N  so many weights fit at once, <id>.bytes = N so many bytes of them,
 *   <id>.caches = N   so many caches
 *
 * -DFIXTURE_ID='"name"' names one; -DFIXTURE_ONLY_QMATMUL leaves out what is optional. */
#include "inner.h"

#include <stdatomic.h>
#include <stdbool.h>

struct tenon_provider {
    const tenon_services *services;
    void *inner; /* the reference, as in all that follows */
    const char *operation;
    uint64_t at, times;
    bool half;
    uint64_t weights, bytes, caches; /* that fit */
    atomic_uint_fast64_t calls;      /* that count for .at */
    atomic_uint_fast64_t weights_held, bytes_held, caches_held;
};

struct tenon_device {
    tenon_provider *provider;
    void *inner;
};

struct tenon_prepared {
    void *inner;
    uint64_t bytes, rows, cols;
};

/* ------------------------------------------------------------------ provider_v1 */

static const char *const operations[] = {"any",       "qmatmul", "embed", "rmsnorm", "append",
                                         "attention", "gated",   "add",   "argmax"};

static int32_t bad_setting(const char *name, tenon_error *error)
{
    return tenon_fail(error, TENON_STATE, TENON_REASON_UNKNOWN_CONFIG, TENON_SCOPE_PROVIDER, name);
}

static int32_t read_settings(tenon_provider *self, tenon_error *error)
{
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"at", &self->at},
                   {"times", &self->times},
                   {"weights", &self->weights},
                   {"bytes", &self->bytes},
                   {"caches", &self->caches}};
    const char *operation = inner_text(self->services, FIXTURE_ID, "operation");
    const char *how = inner_text(self->services, FIXTURE_ID, "how");
    size_t i;
    self->times = 1;
    self->weights = self->bytes = self->caches = UINT64_MAX;
    for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int32_t status = inner_number(self->services, FIXTURE_ID, numbers[i].name, numbers[i].value,
                                      error);
        if (status != TENON_OK) return status;
    }
    self->operation = operations[0];
    if (operation != NULL) {
        for (i = 0; i < sizeof operations / sizeof operations[0]; i++)
            if (strcmp(operations[i], operation) == 0) break;
        if (i == sizeof operations / sizeof operations[0]) return bad_setting("operation", error);
        self->operation = operations[i];
    }
    if (how != NULL && strcmp(how, "clean") != 0 && strcmp(how, "half") != 0)
        return bad_setting("how", error);
    self->half = how != NULL && strcmp(how, "half") == 0;
    return TENON_OK;
}

static void TENON_CALL close_provider(tenon_provider *self)
{
    if (self == NULL) return;
    if (atomic_load(&self->weights_held) + atomic_load(&self->caches_held) != 0)
        self->services->log(self->services->host, TENON_LOG_ERROR,
                            "weights or caches were never given back");
    tenon_reference_provider_v1.close(self->inner);
    free(self);
}

static int32_t TENON_CALL open_provider(const tenon_services *services, tenon_provider **out,
                                        tenon_error *error)
{
    tenon_provider *self = calloc(1, sizeof *self), *inner = NULL;
    int32_t status;
    if (self == NULL) return inner_no_memory(sizeof *self, TENON_SCOPE_PROVIDER, error);
    self->services = services;
    status = read_settings(self, error);
    if (status == TENON_OK) status = tenon_reference_provider_v1.open(services, &inner, error);
    if (status != TENON_OK) {
        free(self);
        return status;
    }
    self->inner = inner;
    *out = self;
    return TENON_OK;
}

static int32_t TENON_CALL count_devices(tenon_provider *self, uint32_t *count, tenon_error *error)
{
    return tenon_reference_provider_v1.device_count(self->inner, count, error);
}

static int32_t TENON_CALL describe_device(tenon_provider *self, uint32_t index,
                                          tenon_device_info *out, tenon_error *error)
{
    int32_t status = tenon_reference_provider_v1.device_info(self->inner, index, out, error);
    if (status == TENON_OK) inner_describe(FIXTURE_ID, TENON_UNKNOWN, TENON_UNKNOWN, out);
    return status;
}

static int32_t TENON_CALL open_device(tenon_provider *provider, uint32_t index, tenon_device **out,
                                      tenon_error *error)
{
    tenon_device *self = calloc(1, sizeof *self), *inner = NULL;
    int32_t status;
    if (self == NULL) return inner_no_memory(sizeof *self, TENON_SCOPE_DEVICE, error);
    status = tenon_reference_provider_v1.device_open(provider->inner, index, &inner, error);
    if (status != TENON_OK) {
        free(self);
        return status;
    }
    self->provider = provider;
    self->inner = inner;
    *out = self;
    return TENON_OK;
}

static void TENON_CALL close_device(tenon_device *self)
{
    if (self == NULL) return;
    tenon_reference_provider_v1.device_close(self->inner);
    free(self);
}

/* ------------------------------------------------------------------ what is told to fail */

/* Does this call of an operation fail? */
static bool fails(tenon_device *device, const char *operation)
{
    tenon_provider *self = device->provider;
    uint64_t number;
    if (self->at == 0) return false;
    if (strcmp(self->operation, "any") != 0 && strcmp(self->operation, operation) != 0)
        return false;
    number = atomic_fetch_add(&self->calls, 1) + 1;
    return number >= self->at && number - self->at < self->times;
}

static int32_t fail(const char *operation, tenon_error *error)
{
    char text[64];
    snprintf(text, sizeof text, "%s was told to fail", operation);
    return tenon_fail(error, TENON_INTERNAL, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_CALL, text);
}

/* TENON_OK: this call is to be computed. */
static int32_t judge(tenon_device *device, const char *operation, const inner_rows *y,
                     uint32_t count, tenon_error *error)
{
    uint32_t i;
    if (!fails(device, operation)) return TENON_OK;
    for (i = 0; i < count && device->provider->half; i++) inner_write_half(&y[i]);
    return fail(operation, error);
}

/* Takes amount of what fits, or answers how much is left. */
static bool take(atomic_uint_fast64_t *held, uint64_t limit, uint64_t amount, uint64_t *left)
{
    uint64_t now = atomic_load(held);
    do {
        *left = now < limit ? limit - now : 0;
        if (amount > *left) return false;
    } while (!atomic_compare_exchange_weak(held, &now, now + amount));
    return true;
}

/* ------------------------------------------------------------------ qmatmul_v1 */

static int32_t TENON_CALL supports(struct tenon_device *device, const tenon_weight_desc *desc,
                                   tenon_qmatmul_support *out, tenon_error *error)
{
    return tenon_reference_qmatmul_v1.supports(device->inner, desc, out, error);
}

static int32_t full(uint64_t wanted, uint64_t available, tenon_error *error)
{
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT,
                             wanted, available, "the device is full");
}

static int32_t TENON_CALL prepare(struct tenon_device *device, const tenon_weight_desc *desc,
                                  const tenon_weight_data *data, tenon_prepared **out,
                                  tenon_error *error)
{
    tenon_provider *provider = device->provider;
    tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), .alignment = 0};
    tenon_prepared *self, *inner = NULL;
    uint64_t left;
    int32_t status = supports(device, desc, &support, error);
    if (status != TENON_OK) return status;
    if (!take(&provider->bytes_held, provider->bytes, support.prepared_bytes, &left))
        return full(support.prepared_bytes, left, error);
    if (!take(&provider->weights_held, provider->weights, 1, &left)) {
        status = full(support.prepared_bytes, 0, error);
        goto no_place;
    }
    self = calloc(1, sizeof *self);
    status = self == NULL
                 ? inner_no_memory(sizeof *self, TENON_SCOPE_WEIGHT, error)
                 : tenon_reference_qmatmul_v1.prepare(device->inner, desc, data, &inner, error);
    if (status != TENON_OK) {
        free(self);
        atomic_fetch_sub(&provider->weights_held, 1);
        goto no_place;
    }
    self->inner = inner;
    self->bytes = support.prepared_bytes;
    self->rows = desc->rows;
    self->cols = desc->cols;
    *out = self;
    return TENON_OK;
no_place:
    atomic_fetch_sub(&provider->bytes_held, support.prepared_bytes);
    return status;
}

static void TENON_CALL release(struct tenon_device *device, tenon_prepared *self)
{
    if (self == NULL) return;
    atomic_fetch_sub(&device->provider->weights_held, 1);
    atomic_fetch_sub(&device->provider->bytes_held, self->bytes);
    tenon_reference_qmatmul_v1.release(device->inner, self->inner);
    free(self);
}

static int32_t TENON_CALL run_qmatmul(struct tenon_device *device, struct tenon_device_queue *queue,
                                      const tenon_qmatmul_call *call, tenon_error *error)
{
    tenon_qmatmul_call mine = *call;
    inner_rows y[TENON_QMATMUL_MAX_OUTPUTS];
    uint32_t i, count = call->output_count;
    int32_t status;
    if (count > TENON_QMATMUL_MAX_OUTPUTS) count = 0; /* the reference says what is wrong */
    for (i = 0; i < count; i++) {
        const tenon_output *output = &call->outputs[i];
        const tenon_prepared *weight = output->weight;
        if (weight == NULL) continue;
        mine.outputs[i].weight = weight->inner;
        y[i] = inner_rows_of(&output->y, call->tokens, output->row_stride, weight->rows);
    }
    status = judge(device, "qmatmul", y, count, error);
    if (status != TENON_OK) return status;
    return tenon_reference_qmatmul_v1.run(device->inner, queue, &mine, error);
}

TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = {
    TENON_HEAD(tenon_provider_v1),
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = FIXTURE_ID,
    .version = TENON_VERSION,
    .open = open_provider,
    .close = close_provider,
    .device_count = count_devices,
    .device_info = describe_device,
    .device_open = open_device,
    .device_close = close_device,
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
    .run = run_qmatmul,
    .release = release,
};

#if !defined(FIXTURE_ONLY_QMATMUL)

/* ------------------------------------------------------------------ the other operations */

static int32_t TENON_CALL run_embed(struct tenon_device *device, struct tenon_device_queue *queue,
                                    const tenon_embed_call *call, tenon_error *error)
{
    const tenon_prepared *weight = call->weight;
    tenon_embed_call mine = *call;
    inner_rows y;
    int32_t status = TENON_OK;
    if (weight != NULL) {
        mine.weight = weight->inner;
        y = inner_rows_of(&call->y, call->tokens, call->y_row_stride, weight->cols);
        status = judge(device, "embed", &y, 1, error);
    }
    if (status != TENON_OK) return status;
    return tenon_reference_embed_v1.run(device->inner, queue, &mine, error);
}

static int32_t TENON_CALL run_rmsnorm(struct tenon_device *device, struct tenon_device_queue *queue,
                                      const tenon_rmsnorm_call *call, tenon_error *error)
{
    const inner_rows y = inner_rows_of(&call->y, call->tokens, call->y_row_stride,
                                       call->groups * call->width);
    int32_t status = judge(device, "rmsnorm", &y, 1, error);
    if (status != TENON_OK) return status;
    return tenon_reference_rmsnorm_v1.run(device->inner, queue, call, error);
}

static int32_t TENON_CALL run_gated(struct tenon_device *device, struct tenon_device_queue *queue,
                                    const tenon_gated_call *call, tenon_error *error)
{
    const inner_rows y = inner_rows_of(&call->y, call->tokens, call->y_row_stride, call->width);
    int32_t status = judge(device, "gated", &y, 1, error);
    if (status != TENON_OK) return status;
    return tenon_reference_gated_v1.run(device->inner, queue, call, error);
}

static int32_t TENON_CALL run_add(struct tenon_device *device, struct tenon_device_queue *queue,
                                  const tenon_add_call *call, tenon_error *error)
{
    const inner_rows y = inner_rows_of(&call->y, call->tokens, call->y_row_stride, call->width);
    int32_t status = judge(device, "add", &y, 1, error);
    if (status != TENON_OK) return status;
    return tenon_reference_add_v1.run(device->inner, queue, call, error);
}

static int32_t TENON_CALL run_argmax(struct tenon_device *device, struct tenon_device_queue *queue,
                                     const tenon_argmax_call *call, tenon_error *error)
{
    const inner_rows y = inner_rows_of(&call->y, call->tokens, sizeof(uint32_t), 1);
    int32_t status = judge(device, "argmax", &y, 1, error);
    if (status != TENON_OK) return status;
    return tenon_reference_argmax_v1.run(device->inner, queue, call, error);
}

/* ------------------------------------------------------------------ attention_v1 */

struct tenon_device_cache {
    void *inner;
    uint64_t kv_heads, head_size;
};

static tenon_device_cache *wrap_cache(void *inner, uint64_t kv_heads, uint64_t head_size)
{
    tenon_device_cache *self = calloc(1, sizeof *self);
    if (self != NULL) *self = (tenon_device_cache){inner, kv_heads, head_size};
    return self;
}

/* A cache made by one of the reference's functions becomes one of this provider's. */
static int32_t give_cache(struct tenon_device *device, int32_t status, tenon_device_cache *inner,
                          uint64_t kv_heads, uint64_t head_size, tenon_device_cache **out,
                          tenon_error *error)
{
    if (status == TENON_OK) {
        *out = wrap_cache(inner, kv_heads, head_size);
        if (*out != NULL) return TENON_OK;
        tenon_reference_attention_v1.free(device->inner, inner);
        status = inner_no_memory(sizeof **out, TENON_SCOPE_WEIGHT, error);
    }
    atomic_fetch_sub(&device->provider->caches_held, 1);
    return status;
}

static int32_t TENON_CALL create_cache(struct tenon_device *device, const tenon_cache_desc *desc,
                                       tenon_device_cache **out, tenon_error *error)
{
    tenon_provider *provider = device->provider;
    tenon_device_cache *inner = NULL;
    uint64_t left;
    int32_t status;
    if (!take(&provider->caches_held, provider->caches, 1, &left))
        return full(desc->kv_heads * desc->head_size * desc->capacity * 4, 0, error);
    status = tenon_reference_attention_v1.create(device->inner, desc, &inner, error);
    return give_cache(device, status, inner, desc->kv_heads, desc->head_size, out, error);
}

static int32_t TENON_CALL clone_cache(struct tenon_device *device, struct tenon_device_queue *queue,
                                      const tenon_device_cache *cache, tenon_device_cache **out,
                                      tenon_error *error)
{
    tenon_provider *provider = device->provider;
    tenon_device_cache *inner = NULL;
    uint64_t left;
    int32_t status;
    if (!take(&provider->caches_held, provider->caches, 1, &left)) return full(1, 0, error);
    status = tenon_reference_attention_v1.clone(device->inner, queue, cache->inner, &inner, error);
    return give_cache(device, status, inner, cache->kv_heads, cache->head_size, out, error);
}

static void TENON_CALL free_cache(struct tenon_device *device, tenon_device_cache *self)
{
    if (self == NULL) return;
    atomic_fetch_sub(&device->provider->caches_held, 1);
    tenon_reference_attention_v1.free(device->inner, self->inner);
    free(self);
}

/* A failed append leaves the cache as it was (the contract), also half-way: the memory behind its
 * length has been written. */
static int32_t TENON_CALL append(struct tenon_device *device, struct tenon_device_queue *queue,
                                 const tenon_append_call *call, tenon_error *error)
{
    const tenon_device_cache *cache = call->cache;
    const tenon_attention_v1 *inner = &tenon_reference_attention_v1;
    tenon_append_call mine = *call;
    uint64_t length = 0;
    if (cache != NULL) mine.cache = cache->inner;
    if (cache == NULL || !fails(device, "append"))
        return inner->append(device->inner, queue, &mine, error);
    mine.tokens = (mine.tokens + 1) / 2;
    if (device->provider->half &&
        inner->length(device->inner, cache->inner, &length, error) == TENON_OK &&
        inner->append(device->inner, queue, &mine, error) == TENON_OK)
        inner->truncate(device->inner, queue, cache->inner, length, error);
    return fail("append", error);
}

static int32_t TENON_CALL run_attention(struct tenon_device *device,
                                        struct tenon_device_queue *queue,
                                        const tenon_attention_call *call, tenon_error *error)
{
    const tenon_device_cache *cache = call->cache;
    tenon_attention_call mine = *call;
    inner_rows y;
    int32_t status = TENON_OK;
    if (cache != NULL) {
        mine.cache = cache->inner;
        y = inner_rows_of(&call->y, call->tokens, call->y_row_stride,
                          call->heads * cache->head_size);
        status = judge(device, "attention", &y, 1, error);
    }
    if (status != TENON_OK) return status;
    return tenon_reference_attention_v1.run(device->inner, queue, &mine, error);
}

static int32_t TENON_CALL cache_length(struct tenon_device *device, const tenon_device_cache *cache,
                                       uint64_t *length, tenon_error *error)
{
    return tenon_reference_attention_v1.length(device->inner, cache->inner, length, error);
}

static int32_t TENON_CALL truncate_cache(struct tenon_device *device,
                                         struct tenon_device_queue *queue,
                                         tenon_device_cache *cache, uint64_t length,
                                         tenon_error *error)
{
    return tenon_reference_attention_v1.truncate(device->inner, queue, cache->inner, length, error);
}

static int32_t TENON_CALL evict(struct tenon_device *device, struct tenon_device_queue *queue,
                                tenon_device_cache *cache, uint64_t first, uint64_t count,
                                tenon_error *error)
{
    return tenon_reference_attention_v1.evict(device->inner, queue, cache->inner, first, count,
                                              error);
}

static int32_t TENON_CALL cache_bytes(struct tenon_device *device, const tenon_device_cache *cache,
                                      uint64_t *bytes, tenon_error *error)
{
    return tenon_reference_attention_v1.bytes(device->inner, cache->inner, bytes, error);
}

#define ONE_CALL(name) \
    TENON_PROVIDER_DESCRIPTOR(tenon_##name##_v1, name##_v1) = { \
        TENON_HEAD(tenon_##name##_v1), .call_size = sizeof(tenon_##name##_call), \
        .error_size = sizeof(tenon_error), .run = run_##name}
ONE_CALL(embed);
ONE_CALL(rmsnorm);
ONE_CALL(gated);
ONE_CALL(add);
ONE_CALL(argmax);

TENON_PROVIDER_DESCRIPTOR(tenon_attention_v1, attention_v1) = {
    TENON_HEAD(tenon_attention_v1),
    .desc_size = sizeof(tenon_cache_desc),
    .append_size = sizeof(tenon_append_call),
    .call_size = sizeof(tenon_attention_call),
    .error_size = sizeof(tenon_error),
    .create = create_cache,
    .free = free_cache,
    .append = append,
    .run = run_attention,
    .length = cache_length,
    .truncate = truncate_cache,
    .evict = evict,
    .clone = clone_cache,
    .bytes = cache_bytes,
};

#endif
