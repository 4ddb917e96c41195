/* A small provider written from SPEC.md alone, and the broken ones made of it.
 *
 * Correct as it stands: scalar Q8_0 and Q4_0 in classes F32 and A8. A variant changes one thing:
 *   -DDEFECT=DEFECT_...            behaviour (defects.h)
 *   -DFIXTURE_ID='"name"'          the id; every other FIXTURE_* field of a descriptor likewise
 *   -DFIXTURE_OMIT_<symbol>=1      the descriptor is not exported
 *   -DFIXTURE_FUNCTION_<symbol>=1  a function is exported under the descriptor's name
 *   -DFIXTURE_OLD_<symbol>=<name>  it is exported under an older name
 *   -DFIXTURE_FROM_TOKENS=n        defects of run show only in calls of n tokens or more
 *   -DFIXTURE_FROM_CALL=n          ... only from the n-th call on (1 is the first) */
#include <tenon/provider.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "defects.h"

#ifndef DEFECT
#define DEFECT DEFECT_NONE
#endif
#if defined(FIXTURE_EMPTY_ID)
#define FIXTURE_ID ""
#elif defined(FIXTURE_QUOTED_ID)
#define FIXTURE_ID "a\"\nb"
#elif !defined(FIXTURE_ID)
#define FIXTURE_ID "good"
#endif
#ifndef FIXTURE_FROM_TOKENS
#define FIXTURE_FROM_TOKENS 1
#endif
#ifndef FIXTURE_FROM_CALL
#define FIXTURE_FROM_CALL 1
#endif

#include "machine.h" /* uses the macros above */

#define SOMETIMES __attribute__((unused)) /* in variants whose descriptor does not name it */

struct tenon_provider {
    const tenon_services *services;
    const char *label;
};

struct tenon_device {
    uint32_t index;
};

struct tenon_prepared {
    tenon_weight_desc desc;
    uint8_t *codes;
    float *scales;
};

/* Objects made and given back, for the line close says: what a host destroys must balance. */
static struct {
    unsigned prepared, released, devices, devices_closed;
} made;

static uint64_t calls_seen;

/* ------------------------------------------------------------------ arithmetic, SPEC.md 2 */

/* a * b + c, rounded once. The double product is exact; the sum is rounded to odd before it is
 * rounded to float, so that no second rounding can go wrong. */
static float fused(float a, float b, float c)
{
    double product = (double)a * (double)b, sum = product + (double)c;
    double part = sum - product, error = (product - (sum - part)) + ((double)c - part);
    uint64_t bits;
    if (error != 0.0 && error == error && sum == sum) {
        memcpy(&bits, &sum, sizeof bits);
        if ((bits & 1u) == 0) bits = (error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float half_to_float(const uint8_t *bytes)
{
    uint32_t half = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
    uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, mantissa = half & 0x3FFu;
    if (exponent == 31u) return float_of_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent != 0) return float_of_bits(sign | (exponent + 112u) << 23 | mantissa << 13);
    return (sign != 0 ? -1.0f : 1.0f) * (float)mantissa * 0x1p-24f;
}

/* Code of input i inside a block of 32 (SPEC.md 3.1). */
static int block_code(uint32_t format, const uint8_t *block, unsigned i)
{
    if (format == TENON_FORMAT_Q8_0) return (int8_t)block[2 + i];
    return (i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4) - 8;
}

/* Activations of one block of 32 as SPEC.md 2.3 rounds them; returns d. */
static float round_block(const float *x, int8_t *rounded)
{
    uint32_t greatest = 0, bits;
    float amax, d, r;
    unsigned i;
    for (i = 0; i < 32; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        if ((bits & 0x7FFFFFFFu) > greatest) greatest = bits & 0x7FFFFFFFu;
        rounded[i] = 0;
    }
    if (greatest >= 0x7F800000u) return float_of_bits(0x7FC00000u);
    amax = float_of_bits(greatest);
    if (amax < 0x1p-40f) return 0.0f;
    d = amax / 127.0f;
    r = 1.0f / d;
    for (i = 0; i < 32; i++) {
        /* adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even */
        volatile float shifted = x[i] * r + 0x1.8p23f;
        rounded[i] = (int8_t)(shifted - 0x1.8p23f);
    }
    return d;
}

/* One y of a format in blocks of 32: segments are 8 blocks. */
static float row_times(const tenon_prepared *w, uint64_t row, const float *x)
{
    uint64_t bytes = w->desc.format == TENON_FORMAT_Q8_0 ? 34 : 18;
    uint64_t blocks = w->desc.cols / 32, b;
    const uint8_t *block = w->codes + row * blocks * bytes;
    float y = 0.0f, a = 0.0f;
    for (b = 0; b < blocks; b++, block += bytes) {
        float s = half_to_float(block), t = 0.0f;
        unsigned i;
        if (w->desc.arith == TENON_CLASS_F32) {
            for (i = 0; i < 32; i++)
                t = fused((float)block_code(w->desc.format, block, i), x[b * 32 + i], t);
            a = fused(s, t, a);
        } else {
            int8_t u[32];
            float d = round_block(x + b * 32, u), product;
            int32_t sum = 0;
            for (i = 0; i < 32; i++) sum += block_code(w->desc.format, block, i) * u[i];
            product = d * (float)sum;
            t = t + product;
            product = s * t;
            a = a + product;
        }
        if (b % 8 == 7 || b + 1 == blocks) {
            y = y + a;
            a = 0.0f;
        }
    }
    return y;
}

/* One y of int4-group, layout pair, class F32, with the mistake that the format invites: the scale
 * of the row's first group stands for all of them. Blocks of more than 256 are not offered. */
static float row_times_first_scale(const tenon_prepared *w, uint64_t row, const float *x)
{
    uint64_t group = w->desc.group_size, groups = tenon_ceil_div_u64(w->desc.cols, group);
    uint64_t segment = group >= 256 ? 1 : 256 / group, g, i;
    const uint8_t *codes = w->codes + row * tenon_ceil_div_u64(w->desc.cols, 2);
    float y = 0.0f, a = 0.0f;
    for (g = 0; g < groups; g++) {
        float t = 0.0f;
        for (i = g * group; i < (g + 1) * group && i < w->desc.cols; i++)
            t = fused((float)((i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4) - 8), x[i], t);
        a = fused(w->scales[row * groups], t, a);
        if (g % segment == segment - 1 || g + 1 == groups) {
            y = y + a;
            a = 0.0f;
        }
    }
    return y;
}

/* ------------------------------------------------------------------ qmatmul_v1 */

static int32_t TENON_CALL fixture_supports(struct tenon_device *device,
                                           const tenon_weight_desc *desc,
                                           tenon_qmatmul_support *out, tenon_error *error)
{
    uint64_t weights, scales;
    uint32_t reason;
    (void)device;
    if (DEFECT == DEFECT_DECLINES_ALL)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_FORMAT,
                          TENON_SCOPE_WEIGHT, "declines everything");
    if (DEFECT == DEFECT_IGNORES_GROUPS && desc->format == TENON_FORMAT_INT4_GROUP) {
        if (desc->layout != TENON_LAYOUT_PAIR)
            return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_LAYOUT,
                              TENON_SCOPE_WEIGHT, "only layout pair");
        if (desc->group_size > 256)
            return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_GROUP,
                              TENON_SCOPE_WEIGHT, "groups up to 256");
        if (desc->arith != TENON_CLASS_F32)
            return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_CLASS,
                              TENON_SCOPE_WEIGHT, "class F32 only");
    } else if (desc->format != TENON_FORMAT_Q8_0 && desc->format != TENON_FORMAT_Q4_0) {
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_FORMAT,
                          TENON_SCOPE_WEIGHT, "only Q8_0 and Q4_0");
    }
    if (desc->arith != TENON_CLASS_F32 && desc->arith != TENON_CLASS_A8)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_CLASS, TENON_SCOPE_WEIGHT,
                          "classes F32 and A8");
    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_RESERVED, TENON_SCOPE_WEIGHT,
                          "reserved field of the description");
    if (tenon_weight_bytes(desc, &weights, &scales, &reason) != TENON_OK)
        return tenon_fail(error, TENON_ARG, reason, TENON_SCOPE_WEIGHT, "weight description");
    out->prepared_bytes = weights + scales;
    out->alignment = 1;
    return TENON_OK;
}

SOMETIMES static void TENON_CALL fixture_release(struct tenon_device *device,
                                                 tenon_prepared *prepared)
{
    (void)device;
    if (prepared == NULL) return;
    made.released++;
    arena_give(prepared->codes);
    arena_give(prepared->scales);
    arena_give(prepared);
}

/* DEFECT_STALE_WEIGHT: the bytes last seen at an address, whatever stands there now. */
static struct {
    const void *address;
    uint8_t *codes;
    uint64_t bytes;
} remembered;

static const void *bytes_to_prepare(const tenon_weight_data *data, uint64_t bytes)
{
    if (DEFECT != DEFECT_STALE_WEIGHT) return data->weights;
    if (remembered.address == data->weights && remembered.bytes == bytes) return remembered.codes;
    arena_give(remembered.codes);
    remembered.codes = arena_take(bytes);
    if (remembered.codes == NULL) return data->weights;
    memcpy(remembered.codes, data->weights, (size_t)bytes);
    remembered.address = data->weights;
    remembered.bytes = bytes;
    return remembered.codes;
}

static int32_t TENON_CALL fixture_prepare(struct tenon_device *device,
                                          const tenon_weight_desc *desc,
                                          const tenon_weight_data *data, tenon_prepared **out,
                                          tenon_error *error)
{
    tenon_qmatmul_support support = {TENON_HEAD(tenon_qmatmul_support), 0, 0, {0, 0}};
    uint64_t weights, scales;
    uint32_t reason;
    tenon_prepared *made_here;
    int32_t status = fixture_supports(device, desc, &support, error);
    if (status != TENON_OK) return status;
    if (data->reserved0 != 0 || data->reserved1[0] != 0 || data->reserved1[1] != 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_RESERVED, TENON_SCOPE_WEIGHT,
                          "reserved field of the data");
    if (DEFECT == DEFECT_NO_MEMORY)
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT,
                                 1u << 30, 1u << 20, "device memory");
    if (DEFECT == DEFECT_NULL_PREPARED) return TENON_OK;
    if (tenon_weight_bytes(desc, &weights, &scales, &reason) != TENON_OK)
        return tenon_fail(error, TENON_ARG, reason, TENON_SCOPE_WEIGHT, "weight description");
    if (data->weights_bytes < weights || data->scales_bytes < scales)
        return tenon_fail(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_WEIGHT,
                          "weight bytes");
    made_here = arena_take(sizeof *made_here);
    if (made_here == NULL) goto no_memory;
    made_here->desc = *desc;
    made_here->codes = arena_take(weights);
    made_here->scales = scales > 0 ? arena_take(scales) : NULL;
    if (made_here->codes == NULL || (scales > 0 && made_here->scales == NULL)) goto no_memory;
    memcpy(made_here->codes, bytes_to_prepare(data, weights), (size_t)weights);
    if (scales > 0) memcpy(made_here->scales, data->scales, (size_t)scales);
    made.prepared++;
    *out = made_here;
    return TENON_OK;
no_memory:
    if (made_here != NULL) {
        arena_give(made_here->codes);
        arena_give(made_here->scales);
        arena_give(made_here);
    }
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT,
                             weights + scales, 0, "host memory");
}

/* What a correct provider without buffers cannot run, or TENON_OK. */
static int32_t judge_call(const tenon_qmatmul_call *call, tenon_error *error)
{
    bool buffers = call->x.host == NULL;
    uint32_t n;
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_RESERVED, TENON_SCOPE_CALL,
                          "reserved field of the call");
    for (n = 0; n < call->output_count; n++)
        if (call->outputs[n].y.host == NULL) buffers = true;
    if (buffers)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_NO_BUFFERS, TENON_SCOPE_CALL,
                          "host memory only");
    return TENON_OK;
}

/* The defects that leave y untouched, or TENON_OK to go on. */
static int32_t refuse_to_run(tenon_error *error)
{
    switch (DEFECT) {
    case DEFECT_FAILS:
        return tenon_fail(error, TENON_INTERNAL, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_CALL,
                          "made to fail");
    case DEFECT_LOSES_DEVICE:
        return tenon_fail(error, TENON_DEVICE_LOST, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_DEVICE,
                          "made to lose its device");
    case DEFECT_DECLINES_RUN:
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                          "declines what it prepared");
    case DEFECT_NONSENSE_STATUS: return 42;
    default: return TENON_OK;
    }
}

/* The defects that spoil a finished answer. */
static int32_t spoil(const tenon_qmatmul_call *call, tenon_error *error)
{
    const tenon_output *last = &call->outputs[call->output_count - 1];
    uint64_t rows = ((const tenon_prepared *)last->weight)->desc.rows;
    char *row = (char *)last->y.host + last->y.offset + (call->tokens - 1) * last->row_stride;
    char *end = row + rows * sizeof(float);
    uint32_t bits;
    switch (DEFECT) {
    case DEFECT_WRONG_BIT:
        memcpy(&bits, end - sizeof bits, sizeof bits);
        bits ^= 1u;
        memcpy(end - sizeof bits, &bits, sizeof bits);
        return TENON_OK;
    case DEFECT_WRITES_PAST_Y: memset(end, 0x5A, sizeof(float)); return TENON_OK;
    case DEFECT_WRITES_X: memset((char *)call->x.host + call->x.offset, 0, 4); return TENON_OK;
    case DEFECT_WRITES_THEN_FAILS:
        memset(row, 0x5A, (size_t)rows * sizeof(float));
        return tenon_fail(error, TENON_INTERNAL, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_CALL,
                          "failed after writing");
    case DEFECT_FLUSHES_IN_RUN: machine_flush_to_zero(); return TENON_OK;
    case DEFECT_SLOW: machine_sleep_ms(20); return TENON_OK;
    case DEFECT_PRINTS: puts("printed by a provider in run"); return TENON_OK;
    default: return TENON_OK;
    }
}

SOMETIMES static int32_t TENON_CALL fixture_run(struct tenon_device *device,
                                                struct tenon_device_queue *queue,
                                                const tenon_qmatmul_call *call, tenon_error *error)
{
    uint64_t number = ++calls_seen;
    int bad = number >= FIXTURE_FROM_CALL && call->tokens >= FIXTURE_FROM_TOKENS;
    int32_t status;
    uint32_t n;
    (void)device;
    (void)queue;
    status = judge_call(call, error);
    if (status == TENON_OK && bad) status = refuse_to_run(error);
    if (status != TENON_OK) return status;
    for (n = 0; n < call->output_count; n++) {
        const tenon_output *output = &call->outputs[n];
        const tenon_prepared *w = output->weight;
        uint64_t s, o;
        for (s = 0; s < call->tokens; s++) {
            const char *in = (const char *)call->x.host + call->x.offset + s * call->x_row_stride;
            char *out = (char *)output->y.host + output->y.offset + s * output->row_stride;
            for (o = 0; o < w->desc.rows; o++) {
                float y = w->desc.format == TENON_FORMAT_INT4_GROUP
                              ? row_times_first_scale(w, o, (const void *)in)
                              : row_times(w, o, (const void *)in);
                memcpy(out + o * sizeof y, &y, sizeof y);
            }
        }
    }
    return bad ? spoil(call, error) : TENON_OK;
}

/* ------------------------------------------------------------------ provider_v1 */

SOMETIMES static int32_t TENON_CALL fixture_open(const tenon_services *services,
                                                 tenon_provider **out, tenon_error *error)
{
    tenon_provider *provider;
    switch (DEFECT) {
    case DEFECT_DRIVER_TOO_OLD:
        return tenon_fail_amount(error, TENON_STATE, TENON_REASON_DRIVER_TOO_OLD,
                                 TENON_SCOPE_PROVIDER, 550, 535, "driver 535, 550 needed");
    case DEFECT_RUNTIME_ABSENT:
        return tenon_fail(error, TENON_STATE, TENON_REASON_RUNTIME_ABSENT, TENON_SCOPE_PROVIDER,
                          "libfixture-runtime.so.1 is not installed");
    case DEFECT_NULL_PROVIDER: return TENON_OK;
    case DEFECT_FLUSHES_IN_OPEN: machine_flush_to_zero(); break;
    case DEFECT_CRASHES_IN_OPEN: machine_write_nowhere(); break;
    case DEFECT_SIGNAL_IN_OPEN: machine_take_signal(); break;
    case DEFECT_LOCALE_IN_OPEN: machine_set_locale(); break;
    case DEFECT_DIRECTORY_IN_OPEN: machine_change_directory(); break;
    case DEFECT_THREAD_IN_OPEN: machine_leave_thread(); break;
    case DEFECT_DESCRIPTOR_IN_OPEN: machine_leave_descriptor(); break;
    case DEFECT_PRINTS: puts("printed by a provider in open"); break;
    default: break;
    }
    keep_services(services);
    provider = arena_take(sizeof *provider);
    if (provider == NULL)
        return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_PROVIDER,
                          "host memory");
    provider->services = services;
    provider->label = fixture_shared_label();
    *out = provider;
    return TENON_OK;
}

static void TENON_CALL fixture_close(tenon_provider *provider)
{
    char line[128];
    if (provider == NULL) return;
    snprintf(line, sizeof line, "%s: closed, prepared %u released %u, devices %u closed %u",
             provider->label, made.prepared, made.released, made.devices, made.devices_closed);
    provider->services->log(provider->services->host, TENON_LOG_DEBUG, line);
    arena_give(provider);
}

static uint32_t device_total(void)
{
    return DEFECT == DEFECT_NO_DEVICE ? 0 : DEFECT == DEFECT_KINDS ? 2 : 1;
}

static int32_t TENON_CALL fixture_device_count(tenon_provider *provider, uint32_t *count,
                                               tenon_error *error)
{
    (void)provider;
    *count = device_total();
    if (*count == 0)
        tenon_fail(error, TENON_OK, TENON_REASON_NO_DEVICE, TENON_SCOPE_PROVIDER,
                   "firmware did not come up");
    return TENON_OK;
}

static uint32_t device_kind(uint32_t index)
{
    if (DEFECT == DEFECT_SOFTWARE_ONLY) return TENON_DEVICE_SOFTWARE;
    if (DEFECT == DEFECT_KINDS) return index == 0 ? TENON_DEVICE_SOFTWARE : TENON_DEVICE_DISCRETE;
    return TENON_DEVICE_CPU;
}

static int32_t TENON_CALL fixture_device_info(tenon_provider *provider, uint32_t index,
                                              tenon_device_info *out, tenon_error *error)
{
    (void)provider;
    if (index >= device_total())
        return tenon_fail(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL,
                          "no such device");
    out->kind = device_kind(index);
    out->arith = TENON_CLASS_BIT(TENON_CLASS_F32) | TENON_CLASS_BIT(TENON_CLASS_A8);
    out->unusable = 0;
    out->memory_total = TENON_UNKNOWN;
    out->memory_free = TENON_UNKNOWN;
    memset(out->uuid, 0, sizeof out->uuid);
    snprintf(out->name, sizeof out->name, "fixture %s", fixture_shared_label());
    out->driver[0] = '\0';
    strcpy(out->detail, "scalar");
    return TENON_OK;
}

static int32_t TENON_CALL fixture_device_open(tenon_provider *provider, uint32_t index,
                                              tenon_device **out, tenon_error *error)
{
    tenon_device *device;
    (void)provider;
    if (index >= device_total())
        return tenon_fail(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL,
                          "no such device");
    if (DEFECT == DEFECT_NULL_DEVICE) return TENON_OK;
    device = arena_take(sizeof *device);
    if (device == NULL)
        return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_DEVICE,
                          "host memory");
    device->index = index;
    made.devices++;
    *out = device;
    return TENON_OK;
}

static void TENON_CALL fixture_device_close(tenon_device *device)
{
    if (device == NULL) return;
    made.devices_closed++;
    arena_give(device);
}

#include "descriptors.h"
