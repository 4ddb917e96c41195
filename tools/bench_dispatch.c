/* A provider that only writes one float, and how long the host takes to reach it. */
#include "bench_dispatch.h"
#include "calibrate.h"

#include <stdlib.h>
#include <tenon/provider.h>

#define BATCHES 25
#define CALLS 20000

static int trivial_object;

static int32_t TENON_CALL trivial_open(const tenon_services *services, tenon_provider **out,
                                       tenon_error *error)
{
    (void)services;
    (void)error;
    *out = (tenon_provider *)(void *)&trivial_object;
    return TENON_OK;
}

static void TENON_CALL trivial_close(tenon_provider *provider)
{
    (void)provider;
}

static int32_t TENON_CALL trivial_device_count(tenon_provider *provider, uint32_t *count,
                                               tenon_error *error)
{
    (void)provider;
    (void)error;
    *count = 1;
    return TENON_OK;
}

static int32_t TENON_CALL trivial_device_info(tenon_provider *provider, uint32_t index,
                                              tenon_device_info *out, tenon_error *error)
{
    const tenon_device_info info = {TENON_HEAD(tenon_device_info),
                                    .kind = TENON_DEVICE_CPU,
                                    .arith = TENON_CLASS_BIT(TENON_CLASS_F32),
                                    .memory_total = TENON_UNKNOWN,
                                    .memory_free = TENON_UNKNOWN,
                                    .name = "trivial"};
    (void)provider;
    if (index != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL,
                          "there is device 0 only");
    *out = info;
    return TENON_OK;
}

static int32_t TENON_CALL trivial_device_open(tenon_provider *provider, uint32_t index,
                                              tenon_device **out, tenon_error *error)
{
    (void)provider;
    if (index != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL,
                          "there is device 0 only");
    *out = (tenon_device *)(void *)&trivial_object;
    return TENON_OK;
}

static void TENON_CALL trivial_device_close(tenon_device *device)
{
    (void)device;
}

static int32_t TENON_CALL trivial_queue_open(tenon_device *device, tenon_device_queue **out,
                                             tenon_error *error)
{
    (void)device;
    (void)error;
    *out = (tenon_device_queue *)(void *)&trivial_object;
    return TENON_OK;
}

static void TENON_CALL trivial_queue_close(tenon_device_queue *queue)
{
    (void)queue;
}

static int32_t TENON_CALL trivial_supports(tenon_device *device, const tenon_weight_desc *desc,
                                           tenon_qmatmul_support *out, tenon_error *error)
{
    (void)device;
    (void)desc;
    (void)error;
    out->prepared_bytes = 0;
    out->alignment = 1;
    return TENON_OK;
}

static int32_t TENON_CALL trivial_prepare(tenon_device *device, const tenon_weight_desc *desc,
                                          const tenon_weight_data *data, tenon_prepared **out,
                                          tenon_error *error)
{
    (void)device;
    (void)desc;
    (void)data;
    (void)error;
    *out = (tenon_prepared *)(void *)&trivial_object;
    return TENON_OK;
}

static int32_t TENON_CALL trivial_run(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_qmatmul_call *call, tenon_error *error)
{
    (void)device;
    (void)queue;
    (void)error;
    *(float *)call->outputs[0].y.host = *(const float *)call->x.host;
    return TENON_OK;
}

static void TENON_CALL trivial_release(tenon_device *device, tenon_prepared *prepared)
{
    (void)device;
    (void)prepared;
}

static const tenon_provider_v1 trivial_provider = {
    TENON_HEAD(tenon_provider_v1),
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = "trivial",
    .version = "1",
    .open = trivial_open,
    .close = trivial_close,
    .device_count = trivial_device_count,
    .device_info = trivial_device_info,
    .device_open = trivial_device_open,
    .device_close = trivial_device_close,
    .queue_open = trivial_queue_open,
    .queue_close = trivial_queue_close,
};

static const tenon_qmatmul_v1 trivial_qmatmul = {
    TENON_HEAD(tenon_qmatmul_v1),
    .weight_desc_size = sizeof(tenon_weight_desc),
    .weight_data_size = sizeof(tenon_weight_data),
    .call_size = sizeof(tenon_qmatmul_call),
    .support_size = sizeof(tenon_qmatmul_support),
    .error_size = sizeof(tenon_error),
    .supports = trivial_supports,
    .prepare = trivial_prepare,
    .run = trivial_run,
    .release = trivial_release,
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int32_t dispatch_measure(dispatch_cost *out, tenon_error *error)
{
    static const tenon_static_symbol symbols[] = {{"provider_v1", &trivial_provider},
                                                  {"qmatmul_v1", &trivial_qmatmul}};
    const tenon_host_desc host_desc = {TENON_HEAD(tenon_host_desc), .flags = TENON_HOST_NO_SEARCH,
                                       .threads = 1};
    const tenon_session_desc session_desc = {TENON_HEAD(tenon_session_desc), .chain = "trivial",
                                             .mode = TENON_MODE_PIN, .arith = TENON_CLASS_F32};
    const tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = TENON_FORMAT_F32,
                                    .rows = 1, .cols = 1};
    static float w = 1, x = 2, y;
    const tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = &w,
                                    .weights_bytes = sizeof w, .lifetime = TENON_LIFETIME_STABLE};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = 1, .x_row_stride = 4,
                               .output_count = 1};
    /* Read through a volatile, or the compiler sees which function it is. */
    int32_t(TENON_CALL *volatile run)(tenon_device *, tenon_device_queue *,
                                      const tenon_qmatmul_call *, tenon_error *) = trivial_run;
    tenon_host *host = NULL;
    tenon_session *session = NULL;
    tenon_weight *weight = NULL;
    tenon_queue *queue;
    double through[BATCHES], direct[BATCHES];
    int32_t status;
    int batch, i;
    status = tenon_host_create(&host_desc, &host, error);
    if (status != TENON_OK) return status;
    status = tenon_host_register(host, symbols, 2, error);
    if (status == TENON_OK) status = tenon_session_create(host, &session_desc, &session, error);
    if (status == TENON_OK) status = tenon_weight_create(session, &desc, &data, &weight, error);
    if (status != TENON_OK) goto out;
    queue = tenon_session_queue(session);
    call.x.host = &x;
    call.x.bytes = sizeof x;
    call.outputs[0].weight = weight;
    call.outputs[0].y.host = &y;
    call.outputs[0].y.bytes = sizeof y;
    call.outputs[0].row_stride = 4;
    for (batch = 0; batch < BATCHES; batch++) {
        double began = calibrate_seconds();
        for (i = 0; i < CALLS; i++) {
            status = tenon_qmatmul(queue, &call, error);
            if (status != TENON_OK) goto out;
        }
        through[batch] = (calibrate_seconds() - began) * 1e9 / CALLS;
        began = calibrate_seconds();
        for (i = 0; i < CALLS; i++) (void)run(NULL, NULL, &call, NULL);
        direct[batch] = (calibrate_seconds() - began) * 1e9 / CALLS;
    }
    qsort(through, BATCHES, sizeof through[0], ascending);
    qsort(direct, BATCHES, sizeof direct[0], ascending);
    out->calls = (uint64_t)BATCHES * CALLS;
    out->ns_per_call = through[BATCHES / 2];
    out->ns_min = through[0];
    out->ns_max = through[BATCHES - 1];
    out->ns_direct = direct[BATCHES / 2];
out:
    tenon_weight_destroy(weight);
    tenon_session_destroy(session);
    (void)tenon_host_destroy(host, NULL);
    return status;
}
