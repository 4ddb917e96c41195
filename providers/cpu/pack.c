/* supports, prepare and release: weights in the form of cpu.h, 16 rows interleaved. */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "kernels/level.h"
#include "../common/unpack.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

static int head_is(uint32_t struct_size, uint32_t abi_version, size_t wanted)
{
    return struct_size == wanted && abi_version == TENON_ABI_VERSION;
}

static int32_t decline(tenon_error *error, uint32_t reason, const char *text)
{
    return tenon_fail(error, TENON_DECLINED, reason, TENON_SCOPE_WEIGHT, text);
}

/* Where the parts of a prepared weight lie in its one allocation. */
typedef struct parts {
    uint64_t segments_at, pieces_at, codes_at, bytes;
    uint64_t weights_bytes, scales_bytes; /* of the data that prepare reads */
} parts;

static int32_t measure(const tenon_device *device, const tenon_weight_desc *desc, cpu_plan *plan,
                       parts *out, tenon_error *error)
{
    tenon_format_info info;
    uint32_t reason;

    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return decline(error, TENON_REASON_RESERVED, "tenon_weight_desc.reserved0 is not zero");
    if (tenon_weight_bytes(desc, &out->weights_bytes, &out->scales_bytes, &reason) != TENON_OK)
        return decline(error, reason, tenon_reason_text(reason));
    (void)tenon_format_find(desc->format, &info); /* tenon_weight_bytes knew it */
    if (desc->arith != TENON_CLASS_F32 && desc->arith != TENON_CLASS_A8)
        return decline(error, TENON_REASON_UNSUPPORTED_CLASS, "only classes F32 and A8");
    if (desc->arith == TENON_CLASS_A8 && (info.traits & TENON_TRAIT_FLOATS) != 0)
        return decline(error, TENON_REASON_UNSUPPORTED_CLASS,
                       "float codes are computed in class F32 only");
    if (desc->cols > CPU_MAX_COLS)
        return tenon_fail_amount(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE,
                                 TENON_SCOPE_WEIGHT, CPU_MAX_COLS, desc->cols, "too many inputs");
    if (!cpu_plan_make(device->provider->level, desc, plan, NULL, NULL))
        return decline(error, TENON_REASON_OVERFLOW, "packed bytes do not fit");
    out->segments_at = cpu_round_up(sizeof(tenon_prepared), 64);
    out->pieces_at = out->segments_at +
                     cpu_round_up((uint64_t)plan->segment_count * sizeof(cpu_segment), 64);
    out->codes_at = out->pieces_at +
                    cpu_round_up((uint64_t)plan->table_pieces * sizeof(cpu_piece), 64);
    if (!tenon_add_u64(out->codes_at, plan->groups * plan->group_bytes, &out->bytes) ||
        out->bytes > SIZE_MAX - HUGE_PAGE)
        return decline(error, TENON_REASON_OVERFLOW, "packed bytes do not fit");
    return TENON_OK;
}

int32_t TENON_CALL cpu_supports(tenon_device *device, const tenon_weight_desc *desc,
                                tenon_qmatmul_support *out, tenon_error *error)
{
    cpu_plan plan;
    parts where;
    int32_t status;

    if (device == NULL || desc == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "supports needs device, desc and out");
    if (!head_is(desc->struct_size, desc->abi_version, sizeof *desc) ||
        !head_is(out->struct_size, out->abi_version, sizeof *out))
        return tenon_fail(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                          "desc or out of supports is not of version 1");
    status = measure(device, desc, &plan, &where, error);
    if (status != TENON_OK) return status;
    out->prepared_bytes = where.bytes;
    out->alignment = 1;
    out->reserved0[0] = out->reserved0[1] = 0;
    return TENON_OK;
}

/* ------------------------------------------------------------------------------- one group */

/* Unpacked rows of one group, one set a worker. */
typedef struct group_rows {
    uint8_t *memory;
    unpacked_row row[CPU_ROWS];
} group_rows;

typedef struct pack_job {
    const tenon_weight_desc *desc;
    const tenon_weight_data *data;
    tenon_prepared *out;
    group_rows *workers;
    uint8_t bias; /* added to the codes of CPU_BYTE */
} pack_job;

/* Code of input i of a row, 0 past the end of its stretch. */
static uint8_t code_at(const unpacked_row *row, uint64_t first, uint32_t i, uint32_t inputs)
{
    return i < inputs ? row->code[first + i] : 0;
}

/* One unit of integer codes: inputs of them from input first on, the rest of the 16 zero. */
static void pack_unit(const pack_job *job, const unpacked_row *rows, uint64_t first,
                      uint32_t inputs, uint8_t *to)
{
    uint32_t storage = job->out->plan.format->storage, r, i;
    uint32_t bytes = cpu_unit_bytes(storage);

    memset(to, 0, bytes);
    for (r = 0; r < CPU_ROWS; r++) {
        for (i = 0; i < CPU_UNIT; i++) {
            uint32_t code = code_at(&rows[r], first, i, inputs), at = 4 * r + i % 4;
            if (storage == CPU_BYTE) {
                to[64 * (i / 4) + at] = (uint8_t)(code + job->bias);
                continue;
            }
            to[64 * (i / 8) + at] |= (uint8_t)((code & 15u) << (4 * (i / 4 % 2)));
            if (storage == CPU_SIX) to[128 + at] |= (uint8_t)((code >> 4) << (2 * (i / 4)));
        }
    }
}

/* One unit of float codes, straight from the stored rows. */
static void pack_float_unit(const pack_job *job, uint64_t group, uint64_t first, uint32_t inputs,
                            uint8_t *to)
{
    uint32_t bytes = cpu_unit_bytes(job->out->plan.format->storage), size = bytes / 256, r, i;
    uint64_t row_bytes = job->desc->cols * size;

    memset(to, 0, bytes);
    for (r = 0; r < CPU_ROWS; r++) {
        uint64_t row = group * CPU_ROWS + r;
        const uint8_t *from = (const uint8_t *)job->data->weights + row * row_bytes + first * size;
        if (row >= job->desc->rows) break;
        for (i = 0; i < inputs; i++)
            memcpy(to + (i * CPU_ROWS + r) * size, from + (uint64_t)i * size, size);
    }
}

static void pack_codes(const pack_job *job, uint64_t group, const unpacked_row *rows,
                       uint64_t first, uint32_t inputs, uint32_t units, uint8_t **to)
{
    uint32_t storage = job->out->plan.format->storage, done;
    for (done = 0; done < units * CPU_UNIT; done += CPU_UNIT) {
        uint32_t left = inputs > done ? inputs - done : 0;
        if (left > CPU_UNIT) left = CPU_UNIT;
        if (storage >= CPU_F32)
            pack_float_unit(job, group, first + done, left, *to);
        else
            pack_unit(job, rows, first + done, left, *to);
        *to += cpu_unit_bytes(storage);
    }
}

/* The scales of one segment, at the head of its record. */
static void pack_head(const cpu_plan *plan, const cpu_segment *segment, const unpacked_row *rows,
                      uint8_t *head)
{
    uint32_t size = plan->format->scale == CPU_SCALE_F16   ? 2
                    : plan->format->scale == CPU_SCALE_F32 ? 4
                                                           : 0;
    uint64_t first = segment->first_block;
    uint32_t r, b;

    if (size == 0) return;
    if (!plan->subscales) {
        for (b = 0; b < segment->blocks; b++, head += cpu_block_head_bytes(plan)) {
            for (r = 0; r < CPU_ROWS; r++) {
                memcpy(head + size * r, rows[r].scale + size * (first + b), size);
                if (plan->minima)
                    memcpy(head + size * CPU_ROWS + 2 * r, rows[r].minimum + 2 * (first + b), 2);
            }
        }
        return;
    }
    for (r = 0; r < CPU_ROWS; r++) {
        uint64_t super = segment->source / CPU_SEGMENT;
        uint8_t *sub = head + (plan->minima ? 4 : 2) * CPU_ROWS;
        memcpy(head + 2 * r, rows[r].scale + 2 * super, 2);
        if (plan->minima) memcpy(head + 2 * CPU_ROWS + 2 * r, rows[r].minimum + 2 * super, 2);
        for (b = 0; b < segment->blocks; b++) {
            sub[CPU_ROWS * b + r] = rows[r].sub[first + b];
            if (plan->minima)
                sub[CPU_ROWS * (segment->blocks + b) + r] = rows[r].sub_minimum[first + b];
        }
    }
}

static void TENON_CALL pack_group(void *context, uint64_t group, uint32_t worker)
{
    const pack_job *job = context;
    const cpu_plan *plan = &job->out->plan;
    group_rows *rows = &job->workers[worker];
    uint8_t *start = job->out->memory + group * plan->group_bytes;
    uint32_t r, i, b, n;

    for (r = 0; r < CPU_ROWS; r++) {
        uint64_t row = group * CPU_ROWS + r;
        /* Rows past the last are zero: their codes and scales are packed and never looked at. */
        if (row < plan->rows)
            unpack_row(job->desc, job->data->weights, job->data->scales, row, &rows->row[r]);
    }
    for (i = 0; i < plan->segment_count; i++) {
        const cpu_segment *segment = &job->out->segments[i];
        uint8_t *head = start + (uint64_t)segment->offset * 64, *to = head + segment->codes;
        memset(head, 0, segment->codes);
        pack_head(plan, segment, rows->row, head);
        if (plan->table_pieces > 0) {
            for (n = 0; n < segment->pieces; n++) {
                const cpu_piece *piece = &job->out->pieces[segment->first + n];
                pack_codes(job, group, rows->row, piece->source, piece->inputs, piece->units, &to);
            }
        } else if (job->desc->arith == TENON_CLASS_A8) {
            pack_codes(job, group, rows->row, segment->source, segment->inputs,
                       segment->pieces * 2u, &to);
        } else {
            for (b = 0; b < segment->blocks; b++) {
                uint32_t at = b * segment->block_inputs, left = segment->inputs - at;
                uint32_t last = b + 1u == segment->blocks;
                pack_codes(job, group, rows->row, (uint64_t)segment->source + at,
                           last ? left : segment->block_inputs,
                           (last ? segment->last_padded : segment->padded) / CPU_UNIT, &to);
            }
        }
    }
}

/* --------------------------------------------------------------------------------- prepare */

/* Memory for the unpacked rows of every worker; zeroed, so that missing rows are. */
static int make_workers(const cpu_plan *plan, uint32_t count, group_rows *workers, uint64_t *wanted)
{
    uint64_t scales = plan->subscales ? tenon_ceil_div_u64(plan->cols, CPU_SEGMENT)
                                      : plan->block_count;
    uint64_t codes = plan->format->storage >= CPU_F32 ? 0 : plan->cols, at[5], row_bytes;
    uint32_t w, r;

    at[0] = codes; /* at most 2^24 each: no overflow */
    at[1] = at[0] + scales * 4;
    at[2] = at[1] + (plan->minima ? scales * 2 : 0);
    at[3] = at[2] + (plan->subscales ? (uint64_t)plan->block_count : 0);
    at[4] = at[3] + (plan->subscales && plan->minima ? (uint64_t)plan->block_count : 0);
    row_bytes = at[4];
    *wanted = row_bytes * CPU_ROWS;
    for (w = 0; w < count; w++) {
        uint8_t *memory = calloc(CPU_ROWS, (size_t)row_bytes + 1);
        if (memory == NULL) return 0;
        workers[w].memory = memory;
        for (r = 0; r < CPU_ROWS; r++, memory += row_bytes)
            workers[w].row[r] = (unpacked_row){
                .code = memory,
                .scale = memory + at[0],
                .minimum = plan->minima ? memory + at[1] : NULL,
                .sub = plan->subscales ? memory + at[2] : NULL,
                .sub_minimum = plan->subscales && plan->minima ? memory + at[3] : NULL};
    }
    return 1;
}

static void fill_tables(const tenon_weight_desc *desc, tenon_prepared *out)
{
    const cpu_format *format = out->plan.format;
    int zero = desc->arith == TENON_CLASS_A8 ? (int)out->plan.form.zero : 0, n;
    for (n = 0; n < 16; n++) {
        int q = format->table != NULL ? format->table[n] : n - (int)format->zero;
        out->table_a8[n] = (int8_t)(uint8_t)(q + zero);
        out->table_signed[n] = (int8_t)q;
        out->table_f32[n] = (float)q;
    }
}

/* One allocation for everything; large ones on huge pages, which decode speed needs. */
static void *allocate(uint64_t bytes)
{
    uint64_t alignment = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 64;
    void *memory = aligned_alloc((size_t)alignment, (size_t)cpu_round_up(bytes, alignment));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (memory != NULL && alignment == HUGE_PAGE)
        (void)madvise(memory, (size_t)cpu_round_up(bytes, alignment), MADV_HUGEPAGE); /* a wish */
#endif
    return memory;
}

static int32_t out_of_memory(uint64_t wanted, tenon_error *error)
{
    uint64_t total, available;
    cpu_memory(&total, &available);
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT,
                             wanted, available, "no memory for a packed weight");
}

static int32_t check_data(const tenon_weight_data *data, const parts *where, tenon_error *error)
{
    if (data->weights == NULL || (where->scales_bytes != 0 && data->scales == NULL))
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_WEIGHT,
                          "weights or scales are a null pointer");
    if (data->weights_bytes < where->weights_bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_WEIGHT,
                                 where->weights_bytes, data->weights_bytes,
                                 "weights are too short");
    if (data->scales_bytes < where->scales_bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_WEIGHT,
                                 where->scales_bytes, data->scales_bytes, "scales are too short");
    if (data->side != NULL || data->side_bytes != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_WEIGHT,
                          "no format of version 1 has a side table");
    if (data->reserved0 != 0 || data->reserved1[0] != 0 || data->reserved1[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_WEIGHT,
                          "reserved fields of tenon_weight_data are not zero");
    return TENON_OK;
}

int32_t TENON_CALL cpu_prepare(tenon_device *device, const tenon_weight_desc *desc,
                               const tenon_weight_data *data, tenon_prepared **out,
                               tenon_error *error)
{
    const tenon_services *services;
    const cpu_level *level;
    tenon_prepared *prepared = NULL;
    cpu_segment *segments;
    cpu_piece *pieces;
    pack_job job = {.desc = desc, .data = data};
    uint32_t team, w;
    uint64_t wanted;
    cpu_plan plan;
    parts where;
    int32_t status;

    if (device == NULL || desc == NULL || data == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "prepare needs device, desc, data and out");
    *out = NULL;
    if (!head_is(desc->struct_size, desc->abi_version, sizeof *desc) ||
        !head_is(data->struct_size, data->abi_version, sizeof *data))
        return tenon_fail(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                          "desc or data of prepare is not of version 1");
    status = measure(device, desc, &plan, &where, error);
    if (status != TENON_OK) return status;
    status = check_data(data, &where, error);
    if (status != TENON_OK) return status;

    services = device->provider->services;
    level = device->provider->level;
    team = services->team_size(services->host);
    job.workers = calloc(team, sizeof *job.workers);
    prepared = job.workers == NULL ? NULL : allocate(where.bytes);
    if (prepared == NULL) {
        status = out_of_memory(where.bytes, error);
        goto out;
    }
    segments = (cpu_segment *)(void *)((uint8_t *)prepared + where.segments_at);
    pieces = (cpu_piece *)(void *)((uint8_t *)prepared + where.pieces_at);
    *prepared = (tenon_prepared){
        .segments = segments, .pieces = pieces, .memory = (uint8_t *)prepared + where.codes_at};
    (void)cpu_plan_make(level, desc, &prepared->plan, segments, pieces); /* measure made it once */
    fill_tables(desc, prepared);
    job.out = prepared;
    if (plan.format->storage == CPU_BYTE && desc->arith == TENON_CLASS_A8)
        job.bias = (uint8_t)plan.form.zero;
    if (!make_workers(&plan, team, job.workers, &wanted)) {
        status = out_of_memory(wanted, error);
        goto out;
    }
    services->parallel_for(services->host, plan.groups, pack_group, &job);
    *out = prepared;
    prepared = NULL;
out:
    if (job.workers != NULL)
        for (w = 0; w < team; w++) free(job.workers[w].memory);
    free(job.workers);
    free(prepared);
    return status;
}

void TENON_CALL cpu_release(tenon_device *device, tenon_prepared *prepared)
{
    (void)device;
    free(prepared);
}
