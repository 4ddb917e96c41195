/* Declining, preparing, releasing: what a provider owes to a host about weights. */
#include "abi_requests.h"

#include "data.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POISON_BYTE 0xa7

static tenon_weight_desc shape_of(const tenon_format_info *info, uint32_t arith, uint64_t rows,
                                  uint64_t cols)
{
    bool int4 = info->format == TENON_FORMAT_INT4_ROW || info->format == TENON_FORMAT_INT4_GROUP;
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc),
                              .format = info->format,
                              .layout = int4 ? TENON_LAYOUT_PAIR : TENON_LAYOUT_NONE,
                              .group_size = info->format == TENON_FORMAT_INT4_GROUP ? 32 : 0,
                              .rows = rows,
                              .cols = cols,
                              .arith = arith};
    if (info->block_inputs != 0) /* the next whole number of blocks */
        desc.cols = tenon_ceil_div_u64(cols, info->block_inputs) * info->block_inputs;
    return desc;
}

/* Weight bytes for a shape, random but finite. */
static bool make_bytes(const tenon_weight_desc *desc, tenon_weight_data *data, guarded *weights,
                       guarded *scales)
{
    random_state random = {desc->format};
    uint32_t reason;
    *data = (tenon_weight_data){TENON_HEAD(tenon_weight_data), .identity = 1, .generation = 1,
                                .lifetime = TENON_LIFETIME_STABLE};
    if (tenon_weight_bytes(desc, &data->weights_bytes, &data->scales_bytes, &reason) != TENON_OK ||
        !guarded_make(weights, data->weights_bytes, 0) ||
        !guarded_make(scales, data->scales_bytes, 0))
        return false;
    data_fill_weight(&random, DATA_ORDINARY, desc, weights->data, weights->bytes, scales->data,
                     scales->bytes);
    data->weights = weights->data;
    data->scales = data->scales_bytes != 0 ? scales->data : NULL;
    return true;
}

/* The first format and class that supports takes in this shape. */
static bool first_offer(direct *on, direct_device *device, uint64_t rows, uint64_t cols,
                        tenon_weight_desc *desc)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_support support;
    tenon_format_info info;
    uint32_t i, format, arith;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        if (!tenon_format_find(format, &info)) continue;
        for (arith = TENON_CLASS_F32; arith <= TENON_CLASS_APPROX; arith++) {
            *desc = shape_of(&info, arith, rows, cols);
            if (direct_supports(on, device->device, desc, &support, &error) == TENON_OK)
                return true;
        }
    }
    return false;
}

bool abi_request_make(abi_request *self, direct *on, direct_device *device, uint64_t rows,
                      uint64_t cols, uint64_t tokens, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    random_state random = {rows ^ cols << 20};
    uint64_t s;
    int32_t status;
    memset(self, 0, sizeof *self);
    if (!first_offer(on, device, rows, cols, &self->desc)) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "no format is offered");
        return false;
    }
    cols = self->desc.cols;
    if (!make_bytes(&self->desc, &self->data, &self->weights, &self->scales) ||
        !guarded_make(&self->x, tokens * cols * 4, 4) ||
        !guarded_make(&self->y, tokens * rows * 4, 4))
        return conformance_fail(result, "out of memory");
    for (s = 0; s < tokens; s++)
        data_fill_row(&random, DATA_ORDINARY, s, (float *)(void *)self->x.data + s * cols, cols);
    memset(self->y.data, POISON_BYTE, self->y.bytes);
    status = direct_prepare(on, device->device, &self->desc, &self->data, &self->prepared, &error);
    if (status != TENON_OK || self->prepared == NULL)
        return conformance_fail(result, "supports says OK, prepare answers %d: %s", status,
                                error.text);
    self->call = (tenon_qmatmul_call){TENON_HEAD(tenon_qmatmul_call), .tokens = tokens,
                                      .x_row_stride = cols * 4, .output_count = 1};
    self->call.x.host = self->x.data;
    self->call.x.bytes = self->x.bytes;
    self->call.outputs[0].weight = self->prepared;
    self->call.outputs[0].y.host = self->y.data;
    self->call.outputs[0].y.bytes = self->y.bytes;
    self->call.outputs[0].row_stride = rows * 4;
    return true;
}

void abi_request_free(abi_request *self, direct *on, direct_device *device)
{
    if (self->prepared != NULL) on->module->qmatmul.release(device->device, self->prepared);
    self->prepared = NULL;
    guarded_free(&self->weights);
    guarded_free(&self->scales);
    guarded_free(&self->x);
    guarded_free(&self->y);
}

bool abi_request_untouched(const abi_request *self)
{
    uint64_t i;
    for (i = 0; i < self->y.bytes; i++)
        if (self->y.data[i] != POISON_BYTE) return false;
    return true;
}

/* A shape that nobody may take: supports and prepare must both refuse, by DECLINED or ARG. */
static bool refuses(direct *self, direct_device *on, const tenon_weight_desc *desc,
                    const char *what, conformance_result *result)
{
    static const uint8_t bytes[64 * 1024];
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data),
                              .weights = bytes,
                              .weights_bytes = sizeof bytes,
                              .scales = bytes,
                              .scales_bytes = sizeof bytes,
                              .identity = 1,
                              .generation = 1,
                              .lifetime = TENON_LIFETIME_STABLE};
    tenon_qmatmul_support support;
    tenon_prepared *prepared;
    int32_t status = direct_supports(self, on->device, desc, &support, &error);
    result->requests++;
    if (status != TENON_DECLINED && status != TENON_ARG)
        return conformance_fail(result, "supports answers %d for %s", status, what);
    status = direct_prepare(self, on->device, desc, &data, &prepared, &error);
    result->requests++;
    if (status == TENON_OK) self->module->qmatmul.release(on->device, prepared);
    if (status != TENON_DECLINED && status != TENON_ARG)
        return conformance_fail(result, "prepare answers %d for %s", status, what);
    return true;
}

bool abi_check_unknown_values(direct *self, direct_device *on, conformance_result *result)
{
    static const struct {
        const char *what;
        uint32_t format, layout, arith;
        uint64_t group_size, rows, cols;
    } shapes[] = {
        {"format 0", 0, 0, 1, 0, 4, 64},
        {"format 20", 20, 0, 1, 0, 4, 64},
        {"format 63", 63, 0, 1, 0, 4, 64},
        {"format 71", 71, 0, 1, 0, 4, 64},
        {"format 2^32-1", UINT32_MAX, 0, 1, 0, 4, 64},
        {"int4-row without a layout", TENON_FORMAT_INT4_ROW, 0, 1, 0, 4, 64},
        {"int4-row in layout 3", TENON_FORMAT_INT4_ROW, 3, 1, 0, 4, 64},
        {"int4-group in layout 77", TENON_FORMAT_INT4_GROUP, 77, 1, 32, 4, 64},
        {"Q4_0 in layout pair", TENON_FORMAT_Q4_0, TENON_LAYOUT_PAIR, 1, 0, 4, 64},
        {"int8-row in layout planar", TENON_FORMAT_INT8_ROW, TENON_LAYOUT_PLANAR, 1, 0, 4, 64},
        {"int4-group with group size 0", TENON_FORMAT_INT4_GROUP, TENON_LAYOUT_PAIR, 1, 0, 4, 64},
        {"int4-row with a group size", TENON_FORMAT_INT4_ROW, TENON_LAYOUT_PAIR, 1, 32, 4, 64},
        {"Q8_0 with a group size", TENON_FORMAT_Q8_0, 0, 1, 32, 4, 64},
        {"class 0", TENON_FORMAT_Q4_0, 0, 0, 0, 4, 64},
        {"class 4", TENON_FORMAT_Q4_0, 0, 4, 0, 4, 64},
        {"class 2^32-1", TENON_FORMAT_Q8_0, 0, UINT32_MAX, 0, 4, 64},
        {"F32 in class A8", TENON_FORMAT_F32, 0, TENON_CLASS_A8, 0, 4, 64},
        {"fp8-e4m3-b128 in class A8", TENON_FORMAT_FP8_E4M3_B128, 0, TENON_CLASS_A8, 0, 4, 64},
        {"Q4_0 with rows of 33", TENON_FORMAT_Q4_0, 0, 1, 0, 4, 33},
        {"Q4_K with rows of 576", TENON_FORMAT_Q4_K, 0, 1, 0, 4, 576},
        {"NVFP4 with rows of 96", TENON_FORMAT_NVFP4, 0, 1, 0, 4, 96},
        {"0 rows", TENON_FORMAT_Q4_0, 0, 1, 0, 0, 64},
        {"0 inputs", TENON_FORMAT_Q4_0, 0, 1, 0, 4, 0},
        {"sizes that overflow", TENON_FORMAT_Q4_0, 0, 1, 0, 1ull << 60, 1ull << 40},
    };
    size_t i;
    for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = shapes[i].format,
                                  .layout = shapes[i].layout,    .group_size = shapes[i].group_size,
                                  .rows = shapes[i].rows,        .cols = shapes[i].cols,
                                  .arith = shapes[i].arith};
        if (!refuses(self, on, &desc, shapes[i].what, result)) return false;
    }
    return true;
}

/* supports and prepare agree, and a class is offered only where the device claims it. */
bool abi_check_supports_prepare(direct *self, direct_device *on, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_support support;
    tenon_format_info info;
    uint32_t i, format, arith, offered = 0;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        if (!tenon_format_find(format, &info)) continue;
        for (arith = TENON_CLASS_F32; arith <= TENON_CLASS_A8; arith++) {
            tenon_weight_desc desc = shape_of(&info, arith, 17, 64);
            tenon_weight_data data;
            tenon_prepared *prepared = NULL;
            guarded weights = {0}, scales = {0};
            int32_t says, does;
            bool made = make_bytes(&desc, &data, &weights, &scales);
            says = direct_supports(self, on->device, &desc, &support, &error);
            does = made ? direct_prepare(self, on->device, &desc, &data, &prepared, &error) : 0;
            if (does == TENON_OK && prepared != NULL)
                self->module->qmatmul.release(on->device, prepared);
            guarded_free(&weights);
            guarded_free(&scales);
            result->requests++;
            if (!made) return conformance_fail(result, "out of memory");
            if (says != does)
                return conformance_fail(result, "%s in class %u: supports answers %d, prepare %d",
                                        info.text, arith, says, does);
            if (says != TENON_OK && says != TENON_DECLINED && says != TENON_ARG)
                return conformance_fail(result, "%s in class %u: supports answers %d", info.text,
                                        arith, says);
            if (says != TENON_OK) continue;
            offered++;
            if (prepared == NULL)
                return conformance_fail(result, "%s: prepare answers OK without a weight",
                                        info.text);
            if ((on->info.arith & TENON_CLASS_BIT(arith)) == 0)
                return conformance_fail(result,
                                        "%s: class %u is offered but not claimed by the "
                                        "device",
                                        info.text, arith);
            if ((support.alignment & (support.alignment - 1)) != 0)
                return conformance_fail(result, "%s: alignment %llu is no power of two", info.text,
                                        (unsigned long long)support.alignment);
            if (support.reserved0[0] != 0 || support.reserved0[1] != 0)
                return conformance_fail(result, "R7: supports sets a reserved field");
        }
    }
    if (offered == 0)
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "no format is offered in class F32 or A8");
    return true;
}

/* R7: a request with a reserved field set has a meaning that nobody here knows. */
bool abi_check_reserved(direct *self, direct_device *on, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_support support;
    tenon_prepared *prepared = NULL;
    tenon_qmatmul_call call;
    tenon_weight_desc desc;
    tenon_weight_data data;
    abi_request request;
    bool good = false;
    int32_t status;
    int i;
    if (!abi_request_make(&request, self, on, 17, 64, 2, result)) goto out;
    for (i = 0; i < 2; i++) {
        desc = request.desc;
        desc.reserved0[i] = 1;
        status = direct_supports(self, on->device, &desc, &support, &error);
        if (status == TENON_OK) {
            conformance_fail(result, "R7: supports takes weight_desc.reserved0[%d] = 1", i);
            goto out;
        }
        status = direct_prepare(self, on->device, &desc, &request.data, &prepared, &error);
        if (status == TENON_OK) {
            conformance_fail(result, "R7: prepare takes weight_desc.reserved0[%d] = 1", i);
            goto out;
        }
    }
    for (i = 0; i < 3; i++) {
        data = request.data;
        if (i < 2)
            data.reserved1[i] = 1;
        else
            data.reserved0 = 1;
        status = direct_prepare(self, on->device, &request.desc, &data, &prepared, &error);
        if (status == TENON_OK) {
            conformance_fail(result, "R7: prepare takes a reserved field of weight_data (%d)", i);
            goto out;
        }
    }
    for (i = 0; i < 3; i++) {
        call = request.call;
        if (i < 2)
            call.reserved1[i] = 1;
        else
            call.reserved0 = 1;
        status = direct_run(self, on, &call, &error);
        if (status == TENON_OK) {
            conformance_fail(result, "R7: run takes a reserved field of qmatmul_call (%d)", i);
            goto out;
        }
        if (!abi_request_untouched(&request)) {
            conformance_fail(result, "run answers %d but wrote to y", status);
            goto out;
        }
    }
    result->requests += 8;
    /* And the request as it should be is still taken. */
    status = direct_run(self, on, &request.call, &error);
    if (status != TENON_OK) {
        conformance_fail(result, "the right request answers %d: %s", status, error.text);
        goto out;
    }
    good = true;
out:
    if (prepared != NULL) self->module->qmatmul.release(on->device, prepared);
    abi_request_free(&request, self, on);
    return good;
}

/* A provider without memory_v1 has no buffers: a view of one must not be read as host memory. */
bool abi_check_buffer_view(direct *self, direct_device *on, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_call call;
    abi_request request;
    bool good = false;
    int32_t status;
    int i, not_a_buffer = 0;
    if (self->module->memory.alloc != NULL) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "memory_v1 is offered: it takes buffers");
        return false;
    }
    if (!abi_request_make(&request, self, on, 17, 64, 2, result)) goto out;
    for (i = 0; i < 3; i++) {
        call = request.call;
        if (i == 0 || i == 2) {
            call.x.host = NULL;
            call.x.buffer = &not_a_buffer;
        }
        if (i == 1 || i == 2) {
            call.outputs[0].y.host = NULL;
            call.outputs[0].y.buffer = &not_a_buffer;
        }
        status = direct_run(self, on, &call, &error);
        if (status == TENON_OK) {
            conformance_fail(result, "run takes a buffer that it did not make");
            goto out;
        }
        if (!abi_request_untouched(&request)) {
            conformance_fail(result, "run answers %d but wrote to y", status);
            goto out;
        }
        result->requests++;
    }
    good = true;
out:
    abi_request_free(&request, self, on);
    return good;
}

#if defined(__has_feature)
#define ADDRESS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#else
#define ADDRESS_SANITIZER 0
#endif

uint64_t abi_resident_bytes(void)
{
    FILE *file = ADDRESS_SANITIZER ? NULL : fopen("/proc/self/statm", "r");
    unsigned long long size = 0, resident = 0;
    if (file == NULL) return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What prepare takes, release gives back, in whatever order. */
bool abi_check_release_pairs(direct *self, direct_device *on, conformance_result *result)
{
    enum { ROUNDS = 48, AT_ONCE = 4 };
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_prepared *prepared[AT_ONCE] = {NULL};
    abi_request request;
    bool good = false;
    uint64_t before = 0;
    int32_t status;
    int round, i;
    if (!abi_request_make(&request, self, on, 512, 2048, 1, result)) goto out;
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < AT_ONCE; i++) {
            status = direct_prepare(self, on->device, &request.desc, &request.data, &prepared[i],
                                    &error);
            if (status != TENON_OK || prepared[i] == NULL) {
                conformance_fail(result, "prepare %d answers %d: %s", round * AT_ONCE + i, status,
                                 error.text);
                goto out;
            }
        }
        for (i = 0; i < AT_ONCE; i++) {
            int which = round % 2 == 0 ? i : AT_ONCE - 1 - i;
            self->module->qmatmul.release(on->device, prepared[which]);
            prepared[which] = NULL;
        }
        result->requests += AT_ONCE;
        if (round == 7) before = abi_resident_bytes();
    }
    /* A quarter of what was prepared since would be a leak by any account. */
    if (before != 0 &&
        abi_resident_bytes() > before + (uint64_t)(ROUNDS - 8) * request.data.weights_bytes) {
        conformance_fail(result, "memory grows by %llu bytes over %d prepared and released weights",
                         (unsigned long long)(abi_resident_bytes() - before),
                         (ROUNDS - 8) * AT_ONCE);
        goto out;
    }
    good = true;
out:
    for (i = 0; i < AT_ONCE; i++)
        if (prepared[i] != NULL) self->module->qmatmul.release(on->device, prepared[i]);
    abi_request_free(&request, self, on);
    return good;
}

/* A thread that prepares and releases while others do. */
typedef struct worker {
    direct *self;
    direct_device *on;
    const abi_request *request;
    int32_t status;
} worker;

static void *prepare_and_release(void *context)
{
    worker *work = context;
    int i;
    for (i = 0; i < 25 && work->status == TENON_OK; i++) {
        tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
        tenon_qmatmul_support support;
        tenon_prepared *prepared = NULL;
        work->status = direct_supports(work->self, work->on->device, &work->request->desc, &support,
                                       &error);
        if (work->status != TENON_OK) break;
        work->status = direct_prepare(work->self, work->on->device, &work->request->desc,
                                      &work->request->data, &prepared, &error);
        if (work->status == TENON_OK)
            work->self->module->qmatmul.release(work->on->device, prepared);
    }
    return NULL;
}

/* supports, prepare and release are [any thread]: also while a run goes on. */
bool abi_check_any_thread(direct *self, direct_device *on, conformance_result *result)
{
    enum { THREADS = 4 };
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    worker workers[THREADS];
    pthread_t threads[THREADS];
    abi_request request;
    guarded first = {0};
    bool good = false;
    int started = 0, i;
    int32_t status = TENON_OK;
    if (!abi_request_make(&request, self, on, 65, 256, 3, result)) goto out;
    status = direct_run(self, on, &request.call, &error);
    if (status != TENON_OK) {
        conformance_fail(result, "run: status %d: %s", status, error.text);
        goto out;
    }
    if (!guarded_copy(&first, request.y.data, request.y.bytes, 0)) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    for (; started < THREADS; started++) {
        workers[started] = (worker){self, on, &request, TENON_OK};
        if (pthread_create(&threads[started], NULL, prepare_and_release, &workers[started]) != 0)
            break;
    }
    good = true;
    for (i = 0; good && i < 50; i++) {
        memset(request.y.data, POISON_BYTE, request.y.bytes);
        status = direct_run(self, on, &request.call, &error);
        if (status != TENON_OK || memcmp(first.data, request.y.data, first.bytes) != 0)
            good = conformance_fail(result, "run while others prepare: status %d, or other bits",
                                    status);
    }
    for (i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        if (good && workers[i].status != TENON_OK)
            good = conformance_fail(result, "prepare on thread %d: status %d", i,
                                    workers[i].status);
    }
    if (good && started < THREADS)
        conformance_set(result, CONFORMANCE_SKIPPED, "threads could not be started");
    result->requests += 50 + (uint64_t)started * 25;
out:
    guarded_free(&first);
    abi_request_free(&request, self, on);
    return good;
}
