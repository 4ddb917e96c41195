/* The provider and its device: opened, asked, closed; weights. */
#include "async.h"

/* ------------------------------------------------------------------ provider_v1 */

static void TENON_CALL close_provider(tenon_provider *self)
{
    if (self == NULL) return;
    tenon_reference_provider_v1.close(self->inner);
    free(self);
}

static int32_t read_settings(tenon_provider *self, tenon_error *error)
{
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"lose_at", &self->lose_at},   {"fail_late_at", &self->fail_late_at},
                   {"memory", &self->memory},     {"buffers", &self->buffers},
                   {"delay_us", &self->delay_us}, {"graphs", &self->graphs}};
    size_t i;
    self->memory = TENON_UNKNOWN;
    self->buffers = self->graphs = UINT64_MAX;
    for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int32_t status = inner_number(self->services, ASYNC_ID, numbers[i].name, numbers[i].value,
                                      error);
        if (status != TENON_OK) return status;
    }
    return TENON_OK;
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
    if (status == TENON_OK) inner_describe(ASYNC_ID, self->memory, TENON_UNKNOWN, out);
    return status;
}

static int32_t TENON_CALL open_device(tenon_provider *provider, uint32_t index, tenon_device **out,
                                      tenon_error *error)
{
    tenon_device *self = calloc(1, sizeof *self), *inner = NULL;
    int32_t status;
    if (self == NULL) return inner_no_memory(sizeof *self, TENON_SCOPE_DEVICE, error);
    self->provider = provider;
    status = tenon_reference_provider_v1.device_open(provider->inner, index, &inner, error);
    self->inner = inner;
    if (status == TENON_OK) status = async_start(self, error);
    if (status == TENON_OK) {
        *out = self;
        return TENON_OK;
    }
    tenon_reference_provider_v1.device_close(inner);
    free(self);
    return status;
}

/* Says what the device did, and what was never given back to it. */
static void say_farewell(const tenon_device *self)
{
    const tenon_services *services = self->provider->services;
    char line[160];
    snprintf(line, sizeof line,
             "closed after %llu pieces of work, %llu waits, %llu bytes in, %llu out, %llu launches",
             (unsigned long long)self->executed, (unsigned long long)self->waits,
             (unsigned long long)self->bytes_in, (unsigned long long)self->bytes_out,
             (unsigned long long)self->launches);
    services->log(services->host, TENON_LOG_DEBUG, line);
    if (self->objects == 0 && self->used == 0 && self->graphs == 0) return;
    snprintf(line, sizeof line, "%llu objects of %llu bytes and %llu graphs were never given back",
             (unsigned long long)self->objects, (unsigned long long)self->used,
             (unsigned long long)self->graphs);
    services->log(services->host, TENON_LOG_ERROR, line);
}

static void TENON_CALL close_device(tenon_device *self)
{
    if (self == NULL) return;
    async_stop(self);
    say_farewell(self);
    tenon_reference_provider_v1.device_close(self->inner);
    free(self);
}

static int32_t TENON_CALL open_queue(tenon_device *device, tenon_device_queue **out,
                                     tenon_error *error)
{
    tenon_device_queue *self = calloc(1, sizeof *self);
    if (self == NULL) return inner_no_memory(sizeof *self, TENON_SCOPE_DEVICE, error);
    self->device = device;
    *out = self;
    return TENON_OK;
}

static void TENON_CALL close_queue(tenon_device_queue *self)
{
    if (self == NULL) return;
    pthread_mutex_lock(&self->device->lock);
    async_drain(self->device, self);
    pthread_mutex_unlock(&self->device->lock);
    free(self);
}

TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = {
    TENON_HEAD(tenon_provider_v1),
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = ASYNC_ID,
    .version = TENON_VERSION,
    .open = open_provider,
    .close = close_provider,
    .device_count = count_devices,
    .device_info = describe_device,
    .device_open = open_device,
    .device_close = close_device,
    .queue_open = open_queue,
    .queue_close = close_queue,
};

/* ------------------------------------------------------------------ qmatmul_v1 */

static int32_t TENON_CALL supports(struct tenon_device *device, const tenon_weight_desc *desc,
                                   tenon_qmatmul_support *out, tenon_error *error)
{
    return tenon_reference_qmatmul_v1.supports(device->inner, desc, out, error);
}

static int32_t TENON_CALL prepare(struct tenon_device *device, const tenon_weight_desc *desc,
                                  const tenon_weight_data *data, tenon_prepared **out,
                                  tenon_error *error)
{
    tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), .alignment = 0};
    tenon_prepared *self, *inner = NULL;
    int32_t status = supports(device, desc, &support, error);
    if (status == TENON_OK)
        status = async_count(device, support.prepared_bytes, TENON_SCOPE_WEIGHT, error);
    if (status != TENON_OK) return status;
    self = calloc(1, sizeof *self);
    status = self == NULL
                 ? inner_no_memory(sizeof *self, TENON_SCOPE_WEIGHT, error)
                 : tenon_reference_qmatmul_v1.prepare(device->inner, desc, data, &inner, error);
    if (status != TENON_OK) {
        free(self);
        async_uncount(device, support.prepared_bytes);
        return status;
    }
    *self = (tenon_prepared){inner, support.prepared_bytes, desc->rows, desc->cols};
    *out = self;
    return TENON_OK;
}

static void TENON_CALL release(struct tenon_device *device, tenon_prepared *self)
{
    if (self == NULL) return;
    pthread_mutex_lock(&device->lock);
    async_drain(device, NULL);
    pthread_mutex_unlock(&device->lock);
    tenon_reference_qmatmul_v1.release(device->inner, self->inner);
    async_uncount(device, self->bytes);
    free(self);
}

static int32_t do_qmatmul(tenon_device *device, async_work *work, tenon_error *error)
{
    return tenon_reference_qmatmul_v1.run(device->inner, NULL, &work->call.qmatmul, error);
}

/* Makes the request of the work out of the caller's. */
static int32_t take_qmatmul(async_work *work, const tenon_qmatmul_call *call, tenon_error *error)
{
    tenon_qmatmul_call *mine = &work->call.qmatmul;
    const tenon_prepared *first = call->outputs[0].weight;
    uint32_t i;
    int32_t status;
    if (call->tokens == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL, "tokens");
    if (call->output_count == 0 || call->output_count > TENON_QMATMUL_MAX_OUTPUTS)
        return tenon_fail(error, TENON_ARG, TENON_REASON_OUTPUT_COUNT, TENON_SCOPE_CALL, "outputs");
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL, "reserved");
    *mine = *call;
    for (i = 0; i < call->output_count; i++) {
        const tenon_output *output = &call->outputs[i];
        const tenon_prepared *weight = output->weight;
        if (weight == NULL)
            return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                              "outputs[].weight");
        if (weight->cols != first->cols)
            return tenon_fail(error, TENON_ARG, TENON_REASON_COLS_DIFFER, TENON_SCOPE_CALL,
                              "outputs[].weight");
        mine->outputs[i].weight = weight->inner;
        status = async_out(work, &output->y, call->tokens, output->row_stride, weight->rows, "y",
                           &mine->outputs[i].y, error);
        if (status != TENON_OK) return status;
    }
    return async_in(work, &call->x, call->tokens, call->x_row_stride, first->cols, "x", &mine->x,
                    error);
}

static int32_t TENON_CALL run_qmatmul(struct tenon_device *device, struct tenon_device_queue *queue,
                                      const tenon_qmatmul_call *call, tenon_error *error)
{
    async_work *work = async_begin(queue, do_qmatmul, error);
    int32_t status;
    (void)device;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    status = take_qmatmul(work, call, error);
    if (status == TENON_OK) return async_operate(work, error);
    async_drop(work);
    return status;
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
    .run = run_qmatmul,
    .release = release,
};
