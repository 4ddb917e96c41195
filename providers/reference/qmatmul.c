/* The matrix product of the reference: what it takes, how it holds weights, how it splits a call.
 * The host checks requests too; nothing here relies on it. */
#include "qmatmul.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_PER_UNIT 32u

/* -------------------------------------------------------------------- supports, prepare, release */

/* Bytes of codes, of scales and of the whole prepared weight. TENON_OK or TENON_DECLINED. */
static int32_t measure(const tenon_weight_desc *desc, uint64_t *codes, uint64_t *scales,
                       uint64_t *prepared, tenon_error *error)
{
    tenon_format_info info;
    uint32_t reason;

    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_RESERVED, TENON_SCOPE_WEIGHT,
                          "tenon_weight_desc.reserved0 is not zero");
    if (!tenon_format_find(desc->format, &info))
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNKNOWN_FORMAT, TENON_SCOPE_WEIGHT,
                          "unknown format");
    if (tenon_weight_bytes(desc, codes, scales, &reason) != TENON_OK)
        return tenon_fail(error, TENON_DECLINED, reason, TENON_SCOPE_WEIGHT,
                          tenon_reason_text(reason));
    if (!tenon_add_u64(sizeof(tenon_prepared), *codes, prepared) ||
        !tenon_add_u64(*prepared, *scales, prepared) || *prepared > SIZE_MAX)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_OVERFLOW, TENON_SCOPE_WEIGHT,
                          "prepared bytes do not fit 64 bits");
    if (desc->arith != TENON_CLASS_F32 && desc->arith != TENON_CLASS_A8)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_CLASS, TENON_SCOPE_WEIGHT,
                          "the reference computes in classes F32 and A8");
    if (desc->arith == TENON_CLASS_A8 && (info.traits & TENON_TRAIT_FLOATS) != 0)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_CLASS, TENON_SCOPE_WEIGHT,
                          "float codes are computed in class F32 only");
    return TENON_OK;
}

int32_t TENON_CALL reference_qmatmul_supports(struct tenon_device *device,
                                              const tenon_weight_desc *desc,
                                              tenon_qmatmul_support *out, tenon_error *error)
{
    uint64_t codes, scales, prepared;
    int32_t status;

    if (device == NULL || desc == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "supports needs device, desc and out");
    if (!reference_head_is(desc->struct_size, desc->abi_version, sizeof *desc) ||
        !reference_head_is(out->struct_size, out->abi_version, sizeof *out))
        return tenon_fail(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                          "desc or out of supports is not of version 1");
    status = measure(desc, &codes, &scales, &prepared, error);
    if (status != TENON_OK) return status;
    out->prepared_bytes = prepared;
    out->alignment = 1;
    out->reserved0[0] = 0;
    out->reserved0[1] = 0;
    return TENON_OK;
}

/* Is there everything that the shape needs? */
static int32_t check_data(const tenon_weight_data *data, uint64_t codes, uint64_t scales,
                          tenon_error *error)
{
    if (data->weights == NULL || (scales != 0 && data->scales == NULL))
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_WEIGHT,
                          "weights or scales are a null pointer");
    if (data->weights_bytes < codes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_WEIGHT,
                                 codes, data->weights_bytes, "weights are too short");
    if (data->scales_bytes < scales)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_WEIGHT,
                                 scales, data->scales_bytes, "scales are too short");
    if (data->side != NULL || data->side_bytes != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_WEIGHT,
                          "no format of version 1 has a side table");
    if (data->reserved0 != 0 || data->reserved1[0] != 0 || data->reserved1[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_WEIGHT,
                          "reserved fields of tenon_weight_data are not zero");
    return TENON_OK;
}

int32_t TENON_CALL reference_qmatmul_prepare(struct tenon_device *device,
                                             const tenon_weight_desc *desc,
                                             const tenon_weight_data *data, tenon_prepared **out,
                                             tenon_error *error)
{
    uint64_t codes, scales, bytes;
    tenon_prepared *prepared;
    uint8_t *copy;
    int32_t status;

    if (device == NULL || desc == NULL || data == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "prepare needs device, desc, data and out");
    *out = NULL;
    if (!reference_head_is(desc->struct_size, desc->abi_version, sizeof *desc) ||
        !reference_head_is(data->struct_size, data->abi_version, sizeof *data))
        return tenon_fail(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                          "desc or data of prepare is not of version 1");
    status = measure(desc, &codes, &scales, &bytes, error);
    if (status != TENON_OK) return status;
    status = check_data(data, codes, scales, error);
    if (status != TENON_OK) return status;

    prepared = malloc((size_t)bytes);
    if (prepared == NULL)
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT,
                                 bytes, TENON_UNKNOWN, "no memory for the copy of a weight");
    copy = (uint8_t *)(prepared + 1);
    memcpy(copy, data->weights, (size_t)codes);
    if (scales != 0) memcpy(copy + codes, data->scales, (size_t)scales);
    reference_weight_describe(&prepared->weight, desc, copy, scales != 0 ? copy + codes : NULL);
    *out = prepared;
    return TENON_OK;
}

void TENON_CALL reference_qmatmul_release(struct tenon_device *device, tenon_prepared *prepared)
{
    (void)device;
    free(prepared);
}

/* ------------------------------------------------------------------------------------------- run */

static int32_t check_call(const tenon_qmatmul_call *call, tenon_error *error)
{
    uint64_t cols = 0;
    uint32_t n;
    int32_t status;

    if (!reference_head_is(call->struct_size, call->abi_version, sizeof *call))
        return tenon_fail(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                          "tenon_qmatmul_call is not of version 1");
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL,
                          "reserved fields of tenon_qmatmul_call are not zero");
    if (call->output_count < 1 || call->output_count > TENON_QMATMUL_MAX_OUTPUTS)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OUTPUT_COUNT, TENON_SCOPE_CALL,
                                 TENON_QMATMUL_MAX_OUTPUTS, call->output_count, "output_count");
    if (call->tokens == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "tokens must be at least 1");
    for (n = 0; n < call->output_count; n++) {
        const tenon_output *output = &call->outputs[n];
        const tenon_prepared *prepared = output->weight;

        if (prepared == NULL)
            return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                              "outputs[].weight");
        if (n > 0 && prepared->weight.cols != cols)
            return tenon_fail_amount(error, TENON_ARG, TENON_REASON_COLS_DIFFER, TENON_SCOPE_CALL,
                                     cols, prepared->weight.cols, "inputs of outputs[].weight");
        cols = prepared->weight.cols;
        status = reference_check_view(&output->y, output->row_stride, call->tokens,
                                      prepared->weight.rows, "outputs[].y", error);
        if (status != TENON_OK) return status;
    }
    return reference_check_view(&call->x, call->x_row_stride, call->tokens, cols, "x", error);
}

/* One call, as its units see it. A unit is ROWS_PER_UNIT rows of one output for one token. */
typedef struct job {
    const tenon_qmatmul_call *call;
    uint64_t cols;
    float *d; /* class A8: activations of all tokens, NULL when no output needs them */
    int8_t *u;
} job;

static uint64_t units_of(const tenon_output *output)
{
    const tenon_prepared *prepared = output->weight;
    return tenon_ceil_div_u64(prepared->weight.rows, ROWS_PER_UNIT);
}

static const float *x_of(const job *self, uint64_t token)
{
    return reference_row(&self->call->x, self->call->x_row_stride, token);
}

static reference_activations activations_of(const job *self, uint64_t token)
{
    reference_activations row;
    row.d = self->d + token * tenon_ceil_div_u64(self->cols, REFERENCE_ACTIVATION_BLOCK);
    row.u = self->u + token * self->cols;
    return row;
}

/* Every row of every y is computed from x and its weight alone, so who runs what cannot matter. */
static void TENON_CALL run_unit(void *context, uint64_t index, uint32_t worker)
{
    const job *self = context;
    uint64_t token = index % self->call->tokens, unit = index / self->call->tokens, row, end;
    const tenon_output *output = self->call->outputs;
    const tenon_prepared *prepared;
    float *y;
    (void)worker;

    while (unit >= units_of(output)) unit -= units_of(output++);
    prepared = output->weight;
    y = reference_row_out(&output->y, output->row_stride, token);
    row = unit * ROWS_PER_UNIT;
    end = prepared->weight.rows - row < ROWS_PER_UNIT ? prepared->weight.rows : row + ROWS_PER_UNIT;
    if (prepared->weight.arith == TENON_CLASS_A8) {
        reference_activations x = activations_of(self, token);
        for (; row < end; row++) y[row] = reference_dot_a8(&prepared->weight, row, &x);
    } else {
        const float *x = x_of(self, token);
        for (; row < end; row++) y[row] = reference_dot_f32(&prepared->weight, row, x);
    }
}

/* Rounds the activations of every token when an output is of class A8. */
static int32_t quantize_all(job *self, tenon_error *error)
{
    uint64_t tokens = self->call->tokens, blocks, d_bytes, u_bytes, bytes, token;
    uint32_t n;
    int wanted = 0;

    for (n = 0; n < self->call->output_count; n++) {
        const tenon_prepared *prepared = self->call->outputs[n].weight;
        if (prepared->weight.arith == TENON_CLASS_A8) wanted = 1;
    }
    if (!wanted) return TENON_OK;
    blocks = tenon_ceil_div_u64(self->cols, REFERENCE_ACTIVATION_BLOCK);
    if (!tenon_mul_u64(blocks, sizeof *self->d, &d_bytes) ||
        !tenon_mul_u64(d_bytes, tokens, &d_bytes) || !tenon_mul_u64(self->cols, tokens, &u_bytes) ||
        !tenon_add_u64(d_bytes, u_bytes, &bytes) || bytes > SIZE_MAX)
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "rounded activations do not fit 64 bits");
    self->d = malloc((size_t)bytes);
    if (self->d == NULL)
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                                 bytes, TENON_UNKNOWN, "no memory for rounded activations");
    self->u = (int8_t *)(void *)self->d + d_bytes;
    for (token = 0; token < tokens; token++) {
        reference_activations row = activations_of(self, token);
        reference_quantize(x_of(self, token), self->cols, &row);
    }
    return TENON_OK;
}

int32_t TENON_CALL reference_qmatmul_run(struct tenon_device *device,
                                         struct tenon_device_queue *queue,
                                         const tenon_qmatmul_call *call, tenon_error *error)
{
    const tenon_services *services;
    uint64_t units = 0;
    uint32_t n;
    int32_t status;
    job self = {0};
    (void)queue; /* always NULL: the reference opens no queues */

    if (device == NULL || call == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "run needs device and call");
    status = check_call(call, error);
    if (status != TENON_OK) return status;

    self.call = call;
    self.cols = ((const tenon_prepared *)call->outputs[0].weight)->weight.cols;
    /* Cannot overflow: at most four times rows / 32 + 1, and rows * 4 bytes fit 64 bits. */
    for (n = 0; n < call->output_count; n++) units += units_of(&call->outputs[n]);
    if (!tenon_mul_u64(units, call->tokens, &units))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "rows times tokens do not fit 64 bits");
    status = quantize_all(&self, error);
    if (status != TENON_OK) return status;
    services = device->provider->services;
    services->parallel_for(services->host, units, run_unit, &self);
    free(self.d);
    return TENON_OK;
}
