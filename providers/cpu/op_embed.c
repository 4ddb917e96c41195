/* embed_v1 of the CPU provider: one row out of the 16 that lie interleaved (cpu.h). */
#include "op_request.h"

#include <math.h>
#include <string.h>

/* Codes, scales and -minima of the inputs of one segment. */
typedef struct values {
    float q[CPU_SEGMENT], s[CPU_SEGMENT], n[CPU_SEGMENT];
} values;

static float f32_at(const uint8_t *at)
{
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

static float f32_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float f16_at(const uint8_t *at)
{
    uint32_t half = at[0] | (uint32_t)at[1] << 8, sign = (half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    float value;

    if (magnitude >= 0x400u)
        return f32_of(sign | ((magnitude << 13) + ((magnitude >= 0x7c00u ? 224u : 112u) << 23)));
    value = (float)magnitude * 0x1p-24f; /* zero and subnormal */
    return sign != 0 ? -value : value;
}

static float fp8_of(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24, magnitude = code & 0x7fu;
    float value;

    if (magnitude == 0x7fu) return f32_of(sign | 0x7fc00000u);
    if (magnitude >= 8) return f32_of(sign | ((magnitude << 20) + (120u << 23)));
    value = (float)magnitude * 0x1p-9f;
    return sign != 0 ? -value : value;
}

/* Code of input i of the unit at p, row r of the group. */
static float code_of(const tenon_prepared *weight, const uint8_t *p, uint32_t i, uint32_t r)
{
    const cpu_plan *plan = &weight->plan;
    uint32_t at = 4 * r + i % 4, element = i * CPU_ROWS + r, nibble, bias;

    switch (plan->format->storage) {
    case CPU_F32: return f32_at(p + 4 * element);
    case CPU_F16: return f16_at(p + 2 * element);
    case CPU_BF16:
        return f32_of((uint32_t)p[2 * element] << 16 | (uint32_t)p[2 * element + 1] << 24);
    case CPU_FP8: return fp8_of(p[element]);
    case CPU_BYTE:
        bias = plan->form.arith == TENON_CLASS_A8 ? plan->form.zero : 0;
        return (float)(int8_t)(uint8_t)(p[64 * (i / 4) + at] - bias);
    default: break;
    }
    nibble = p[64 * (i / 8) + at] >> (4 * (i / 4 % 2)) & 15u;
    if (plan->format->storage != CPU_SIX) return (float)weight->table_signed[nibble];
    return (float)((int32_t)(nibble | (p[128 + at] >> (2 * (i / 4)) & 3u) << 4) - 32);
}

/* count codes from the units at p on. Returns what follows units of them. */
static const uint8_t *take_codes(const tenon_prepared *weight, const uint8_t *p, uint32_t units,
                                 uint32_t count, uint32_t r, float *q)
{
    uint32_t bytes = cpu_unit_bytes(weight->plan.format->storage), i;
    for (i = 0; i < count; i++)
        q[i] = code_of(weight, p + (uint64_t)(i / CPU_UNIT) * bytes, i % CPU_UNIT, r);
    return p + (uint64_t)units * bytes;
}

/* The codes of a segment lie as pack.c put them. */
static void segment_codes(const tenon_prepared *weight, const cpu_segment *segment,
                          const uint8_t *p, uint32_t r, float *q)
{
    const cpu_plan *plan = &weight->plan;
    uint32_t i, left = segment->inputs;

    if (plan->table_pieces > 0) {
        for (i = 0; i < segment->pieces; i++) {
            const cpu_piece *piece = &weight->pieces[segment->first + i];
            p = take_codes(weight, p, piece->units, piece->inputs, r,
                           q + (piece->source - segment->source));
        }
    } else if (plan->form.arith == TENON_CLASS_A8) {
        take_codes(weight, p, 0, segment->inputs, r, q);
    } else {
        for (; left > 0; q += i, left -= i) {
            i = left < segment->block_inputs ? left : segment->block_inputs;
            p = take_codes(weight, p, segment->padded / CPU_UNIT, i, r, q);
        }
    }
}

/* Scale and -minimum of block b, row r, of a record; every product is exact (SPEC.md, A5). */
static void block_scale(const cpu_plan *plan, const cpu_segment *segment, const uint8_t *head,
                        uint32_t b, uint32_t r, float *s, float *n)
{
    *n = 0.0f;
    if (plan->subscales) {
        const uint8_t *sub = head + (plan->minima ? 64 : 32);
        *s = f16_at(head + 2 * r) * (float)(int8_t)sub[CPU_ROWS * b + r];
        if (plan->minima)
            *n = f16_at(head + 32 + 2 * r) * (float)sub[CPU_ROWS * (segment->blocks + b) + r];
    } else if (plan->format->scale == CPU_SCALE_F16) {
        head += (plan->minima ? 64u : 32u) * b;
        *s = f16_at(head + 2 * r);
        if (plan->minima) *n = f16_at(head + 32 + 2 * r);
    } else {
        *s = f32_at(head + 64 * b + 4 * r);
    }
}

typedef struct job {
    const tenon_embed_call *call;
    const cpu_operations *operations;
} job;

static uint32_t id_of(const tenon_embed_call *call, uint64_t token)
{
    uint32_t id;
    memcpy(&id, (const uint8_t *)call->ids.host + call->ids.offset + 4 * token, sizeof id);
    return id;
}

static void TENON_CALL run_token(void *context, uint64_t token, uint32_t worker)
{
    const job *self = context;
    const tenon_prepared *weight = self->call->weight;
    const cpu_plan *plan = &weight->plan;
    uint32_t id = id_of(self->call, token), r = id % CPU_ROWS, i, b;
    const uint8_t *group = weight->memory + id / CPU_ROWS * plan->group_bytes;
    float *y = cpu_row_out(&self->call->y, self->call->y_row_stride, token);
    int scaled = plan->format->scale != CPU_SCALE_NONE;
    values at;
    (void)worker;

    if (id >= plan->rows) { /* the 0xFFFFFFFF of an argmax over nothing stays visible */
        uint64_t all;
        for (all = 0; all < plan->cols; all++) y[all] = NAN;
        return;
    }
    memset(&at, 0, sizeof at);
    for (i = 0; i < plan->segment_count; i++) {
        const cpu_segment *segment = &weight->segments[i];
        const uint8_t *head = group + (uint64_t)segment->offset * 64;
        uint32_t in;

        segment_codes(weight, segment, head + segment->codes, r, at.q);
        for (b = 0, in = 0; scaled && in < segment->inputs; b++) {
            uint32_t end = in + segment->block_inputs;
            float s, n;
            if (end > segment->inputs) end = segment->inputs;
            block_scale(plan, segment, head, b, r, &s, &n);
            for (; in < end; in++) {
                at.s[in] = s;
                at.n[in] = n;
            }
        }
        self->operations->weigh(at.q, scaled ? at.s : NULL, plan->minima ? at.n : NULL,
                                segment->inputs, self->call->scale, y + segment->source);
    }
}

static int32_t check_call(const tenon_device *device, const tenon_embed_call *call,
                          tenon_error *error)
{
    const cpu_plan *plan;
    int32_t status = cpu_check_head(device, call, sizeof *call, "tenon_embed_call", error);

    if (status != TENON_OK) return status;
    status = cpu_check_zero(&call->reserved0, sizeof call->reserved0, "tenon_embed_call.reserved0",
                            error);
    if (status != TENON_OK) return status;
    status = cpu_check_zero(call->reserved1, sizeof call->reserved1, "tenon_embed_call.reserved1",
                            error);
    if (status != TENON_OK) return status;
    if (call->weight == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "weight");
    if (call->tokens == 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_EMPTY_SHAPE, TENON_SCOPE_CALL,
                          "tokens must be at least 1");
    plan = &((const tenon_prepared *)call->weight)->plan;
    status = cpu_check_rows(&call->ids, 4, call->tokens, 1, "ids", error);
    if (status != TENON_OK) return status;
    return cpu_check_rows(&call->y, call->y_row_stride, call->tokens, plan->cols, "y", error);
}

static int32_t TENON_CALL run(tenon_device *device, tenon_device_queue *queue,
                              const tenon_embed_call *call, tenon_error *error)
{
    int32_t status = check_call(device, call, error);
    job self;
    (void)queue;

    if (status != TENON_OK) return status;
    self = (job){call, cpu_operations_of(device->provider->level)};
    cpu_split(device, call->tokens,
              call->tokens * ((const tenon_prepared *)call->weight)->plan.cols * 4, run_token,
              &self);
    return TENON_OK;
}

TENON_PROVIDER_DESCRIPTOR(tenon_embed_v1, embed_v1) = {
    TENON_HEAD(tenon_embed_v1),
    .call_size = sizeof(tenon_embed_call),
    .error_size = sizeof(tenon_error),
    .run = run,
};
