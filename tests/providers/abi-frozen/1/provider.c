/* A provider to start from: copy this folder, rename acme, replace the arithmetic.
 *
 * It multiplies Q8_0 weights in class F32, on the CPU, with the bits the contract asks for, and
 * declines everything else. It needs the public headers and a C11 compiler. What a function may do,
 * and who calls it when, stands above its prototype in <tenon/provider.h> and
 * <tenon/op/qmatmul.h>; SPEC.md has the rules (R1 ... R12), the arithmetic (2) and the formats (3).
 */
#include <tenon/provider.h>

#include <stdlib.h>
#include <string.h>

#define BLOCK_INPUTS 32 /* of Q8_0, and the bytes of a block: a half float, then 32 codes */
#define BLOCK_BYTES 34
#define SEGMENT_BLOCKS 8 /* blocks whose sum is added to y at once (SPEC.md 2.2) */
#define ROWS_PER_UNIT 16 /* rows one unit of the parallel loop computes */

/* The objects behind the handles. The host only hands them back, so they hold what you like. A
 * provider has no global state: everything hangs on these. */
struct tenon_provider {
    const tenon_services *services; /* valid until close returns, not a moment longer */
};

struct tenon_device {
    tenon_provider *provider;
};

/* A weight in the form this provider computes with: codes and scales apart, the scales as floats.
 * The engine's bytes are gone when prepare returns, so a provider keeps its own copy. */
struct tenon_prepared {
    uint64_t rows, cols;
    float *scales; /* [rows][cols / 32] */
    int8_t *codes; /* [rows][cols] */
};

/* ------------------------------------------------------------------ arithmetic */

/* a * b + c with one rounding. fmaf() of some C libraries rounds twice, so it is done here: the
 * product is exact in double, and the sum is rounded to odd, which cannot be rounded wrongly to
 * float afterwards. */
static float fused_multiply_add(float a, float b, float c)
{
    double product = (double)a * (double)b;
    double sum = product + (double)c;
    double part = sum - product;
    double error = (product - (sum - part)) + ((double)c - part);
    uint64_t bits;
    if (error != 0.0 && error == error && sum == sum) {
        memcpy(&bits, &sum, sizeof bits);
        if ((bits & 1u) == 0) bits = (error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}

static float half_to_float(const uint8_t *bytes)
{
    uint32_t half = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
    uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, mantissa = half & 1023u;
    uint32_t bits = sign | (exponent + 112u) << 23 | mantissa << 13;
    float value;
    if (exponent == 0) return (sign != 0 ? -0x1p-24f : 0x1p-24f) * (float)mantissa;
    if (exponent == 31) bits = sign | 0x7F800000u | mantissa << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One y, in the order of SPEC.md 2.2. The order is the contract: any other one gives other bits. */
static float dot(const tenon_prepared *weight, uint64_t row, const float *x)
{
    uint64_t blocks = weight->cols / BLOCK_INPUTS, b;
    const int8_t *codes = weight->codes + row * weight->cols;
    const float *scales = weight->scales + row * blocks;
    float y = 0.0f, a = 0.0f;
    for (b = 0; b < blocks; b++) {
        float t = 0.0f;
        for (unsigned i = 0; i < BLOCK_INPUTS; i++)
            t = fused_multiply_add((float)codes[b * BLOCK_INPUTS + i], x[b * BLOCK_INPUTS + i], t);
        a = fused_multiply_add(scales[b], t, a);
        if (b % SEGMENT_BLOCKS == SEGMENT_BLOCKS - 1 || b + 1 == blocks) {
            y = y + a;
            a = 0.0f;
        }
    }
    return y;
}

/* ------------------------------------------------------------------ qmatmul_v1 */

/* Say yes only to what is computed exactly as asked; for anything else DECLINED and the reason.
 * The host then asks the next provider: declining is an answer, not an error. A reserved field that
 * is set is a wish from the future: nobody here knows it, so it is declined too (R7). */
static int32_t TENON_CALL acme_supports(tenon_device *device, const tenon_weight_desc *desc,
                                        tenon_qmatmul_support *out, tenon_error *error)
{
    uint64_t weights_bytes, scales_bytes;
    uint32_t reason;
    (void)device;
    if (desc->format != TENON_FORMAT_Q8_0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_FORMAT,
                          TENON_SCOPE_WEIGHT, "acme knows only Q8_0");
    if (desc->arith != TENON_CLASS_F32)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_CLASS, TENON_SCOPE_WEIGHT,
                          "acme knows only class F32");
    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_RESERVED, TENON_SCOPE_WEIGHT,
                          "a reserved field of the weight description is set");
    if (tenon_weight_bytes(desc, &weights_bytes, &scales_bytes, &reason) != TENON_OK)
        return tenon_fail(error, TENON_ARG, reason, TENON_SCOPE_WEIGHT, "impossible weight");
    /* each block of 34 bytes becomes 32 codes and one float */
    out->prepared_bytes = weights_bytes / BLOCK_BYTES * (BLOCK_INPUTS + sizeof(float));
    out->alignment = 1; /* the bytes are read one by one, so any address will do */
    return TENON_OK;
}

static void TENON_CALL acme_release(tenon_device *device, tenon_prepared *prepared)
{
    (void)device;
    if (prepared == NULL) return;
    free(prepared->scales);
    free(prepared->codes);
    free(prepared);
}

static int32_t TENON_CALL acme_prepare(tenon_device *device, const tenon_weight_desc *desc,
                                       const tenon_weight_data *data, tenon_prepared **out,
                                       tenon_error *error)
{
    tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), 0, 0, {0, 0}};
    uint64_t blocks, b;
    tenon_prepared *prepared;
    int32_t status = acme_supports(device, desc, &support, error);
    if (status != TENON_OK) return status;
    if (data->reserved0 != 0 || data->reserved1[0] != 0 || data->reserved1[1] != 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_RESERVED, TENON_SCOPE_WEIGHT,
                          "a reserved field of the weight data is set");

    blocks = desc->rows * (desc->cols / BLOCK_INPUTS); /* supports checked that this fits */
    if (data->weights == NULL || data->weights_bytes < blocks * BLOCK_BYTES)
        return tenon_fail(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_WEIGHT,
                          "fewer weight bytes than the shape needs");
    prepared = calloc(1, sizeof *prepared);
    if (prepared == NULL) goto no_memory;
    prepared->rows = desc->rows;
    prepared->cols = desc->cols;
    prepared->scales = malloc((size_t)blocks * sizeof(float));
    prepared->codes = malloc((size_t)blocks * BLOCK_INPUTS);
    if (prepared->scales == NULL || prepared->codes == NULL) goto no_memory;
    for (b = 0; b < blocks; b++) {
        const uint8_t *block = (const uint8_t *)data->weights + b * BLOCK_BYTES;
        prepared->scales[b] = half_to_float(block);
        memcpy(prepared->codes + b * BLOCK_INPUTS, block + 2, BLOCK_INPUTS);
    }
    *out = prepared;
    return TENON_OK;

no_memory:
    acme_release(device, prepared);
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT,
                             support.prepared_bytes, 0, "no memory for a prepared weight");
}

/* What one unit of the parallel loop reads: the call, and the output it belongs to. */
typedef struct acme_work {
    const tenon_qmatmul_call *call;
    const tenon_output *output;
} acme_work;

/* Rows [unit * 16, unit * 16 + 16) of every token. No y depends on how rows are shared out. */
static void TENON_CALL run_unit(void *context, uint64_t unit, uint32_t worker)
{
    const acme_work *work = context;
    const tenon_qmatmul_call *call = work->call;
    const tenon_prepared *weight = work->output->weight;
    uint64_t first = unit * ROWS_PER_UNIT, end = first + ROWS_PER_UNIT, token, row;
    (void)worker; /* would select scratch memory, if this needed any */
    if (end > weight->rows) end = weight->rows;
    for (token = 0; token < call->tokens; token++) {
        const float *x = (const void *)((const char *)call->x.host + call->x.offset +
                                        token * call->x_row_stride);
        float *y = (void *)((char *)work->output->y.host + work->output->y.offset +
                            token * work->output->row_stride);
        for (row = first; row < end; row++) y[row] = dot(weight, row, x);
    }
}

/* All of the request or none of it, so whatever speaks against it is looked at first. The host has
 * checked shapes, strides, alignment and overlap already. */
static int32_t TENON_CALL acme_run(tenon_device *device, tenon_device_queue *queue,
                                   const tenon_qmatmul_call *call, tenon_error *error)
{
    const tenon_services *services = device->provider->services;
    uint32_t n;
    (void)queue; /* NULL: there is no queue_open, so the host makes one call at a time */
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_RESERVED, TENON_SCOPE_CALL,
                          "a reserved field of the call is set");
    if (call->x.host == NULL) goto no_buffers;
    for (n = 0; n < call->output_count; n++)
        if (call->outputs[n].y.host == NULL) goto no_buffers;
    for (n = 0; n < call->output_count; n++) {
        acme_work work = {call, &call->outputs[n]};
        const tenon_prepared *weight = work.output->weight;
        /* the threads are the host's: a provider starts none for work on the CPU */
        services->parallel_for(services->host, tenon_ceil_div_u64(weight->rows, ROWS_PER_UNIT),
                               run_unit, &work);
    }
    return TENON_OK;

no_buffers:
    return tenon_fail(error, TENON_DECLINED, TENON_REASON_NO_BUFFERS, TENON_SCOPE_CALL,
                      "acme computes in host memory");
}

/* ------------------------------------------------------------------ provider_v1 */

/* The place to look for a driver or a runtime library, with dlopen: a provider that links against
 * it cannot be loaded where it is missing, and then nobody can say why. When it is not there:
 *     return tenon_fail(error, TENON_STATE, TENON_REASON_RUNTIME_ABSENT, TENON_SCOPE_PROVIDER,
 *                       "libacme.so.2 is not installed"); */
static int32_t TENON_CALL acme_open(const tenon_services *services, tenon_provider **out,
                                    tenon_error *error)
{
    tenon_provider *provider = calloc(1, sizeof *provider);
    if (provider == NULL)
        return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_PROVIDER,
                          "no memory");
    provider->services = services;
    *out = provider;
    return TENON_OK;
}

static void TENON_CALL acme_close(tenon_provider *provider)
{
    free(provider);
}

static int32_t TENON_CALL acme_device_count(tenon_provider *provider, uint32_t *count,
                                            tenon_error *error)
{
    (void)provider;
    (void)error; /* with *count = 0: tenon_fail(error, TENON_OK, TENON_REASON_NO_DEVICE, ...) */
    *count = 1;
    return TENON_OK;
}

/* *out comes zeroed, with its head filled in; write only what the provider knows. */
static int32_t TENON_CALL acme_device_info(tenon_provider *provider, uint32_t index,
                                           tenon_device_info *out, tenon_error *error)
{
    (void)provider;
    if (index != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL,
                          "there is one device");
    out->kind = TENON_DEVICE_CPU;
    out->arith = TENON_CLASS_BIT(TENON_CLASS_F32);
    out->memory_total = TENON_UNKNOWN;
    out->memory_free = TENON_UNKNOWN;
    strcpy(out->name, "fixture frozen_1");
    strcpy(out->detail, "scalar C");
    return TENON_OK;
}

static int32_t TENON_CALL acme_device_open(tenon_provider *provider, uint32_t index,
                                           tenon_device **out, tenon_error *error)
{
    tenon_device *device;
    if (index != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL,
                          "there is one device");
    device = calloc(1, sizeof *device);
    if (device == NULL)
        return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_DEVICE,
                          "no memory");
    device->provider = provider;
    *out = device;
    return TENON_OK;
}

static void TENON_CALL acme_device_close(tenon_device *device)
{
    free(device);
}

/* ------------------------------------------------------------------ what the file exports */

/* These two names are the whole interface. They are data: the host reads them in the file, before
 * any code of it runs. Every size is the size this provider was compiled with; a newer host
 * presents exactly these, so nothing here has to look at versions. */
TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = {
    TENON_HEAD(tenon_provider_v1),
    .needs = 0,
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = "frozen_1",
    .version = "0.1",
    .open = acme_open,
    .close = acme_close,
    .device_count = acme_device_count,
    .device_info = acme_device_info,
    .device_open = acme_device_open,
    .device_close = acme_device_close,
    .queue_open = NULL, /* one call at a time is enough here */
    .queue_close = NULL,
};

TENON_PROVIDER_DESCRIPTOR(tenon_qmatmul_v1, qmatmul_v1) = {
    TENON_HEAD(tenon_qmatmul_v1),
    .weight_desc_size = sizeof(tenon_weight_desc),
    .weight_data_size = sizeof(tenon_weight_data),
    .call_size = sizeof(tenon_qmatmul_call),
    .support_size = sizeof(tenon_qmatmul_support),
    .error_size = sizeof(tenon_error),
    .supports = acme_supports,
    .prepare = acme_prepare,
    .run = acme_run,
    .release = acme_release,
};
