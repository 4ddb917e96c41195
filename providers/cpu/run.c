/* run: checks a call, splits it, and hands the parts to the host's threads. */
#include "run.h"

#include <stdlib.h>

/* Tokens computed in one go: bounds the scratch memory; a multiple of CPU_TOKEN_LOT. */
#define MOST_TOKENS 192u
/* Bytes of packed x that the tokens of one go may take. */
#define MOST_X_BYTES (UINT64_C(64) << 20)
/* Below this much work, in nanoseconds, a call stays on its thread. */
#define SPLIT_FROM_NS 20000u
/* Work in one unit: small enough to balance, large enough to hide taking it. */
#define UNIT_NS 10000u
/* Bytes of weights read per nanosecond, roughly; decides only how work is split. */
#define READ_RATE 16u

void cpu_queue_clear(tenon_device_queue *queue)
{
    free(queue->memory);
    queue->memory = NULL;
    queue->bytes = 0;
}

/* ------------------------------------------------------------------------------------- checks */

static int32_t fault(tenon_error *error, uint32_t reason, const char *text)
{
    return tenon_fail(error, TENON_ARG, reason, TENON_SCOPE_CALL, text);
}

/* A host view of tokens rows of width floats. */
static int32_t check_view(const tenon_view *view, uint64_t stride, uint64_t tokens, uint64_t width,
                          const char *name, tenon_error *error)
{
    uint64_t row, bytes;

    if (view->buffer != NULL)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_NO_BUFFERS, TENON_SCOPE_CALL,
                          "the CPU provider has no device buffers");
    if (view->host == NULL) return fault(error, TENON_REASON_NULL_POINTER, name);
    if (((uintptr_t)view->host + view->offset) % 4 != 0 || stride % 4 != 0)
        return fault(error, TENON_REASON_ALIGNMENT, name);
    if (!tenon_mul_u64(width, 4, &row) || !tenon_mul_u64(tokens - 1, stride, &bytes) ||
        !tenon_add_u64(bytes, row, &bytes))
        return fault(error, TENON_REASON_OVERFLOW, name);
    if (stride < row)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_STRIDE, TENON_SCOPE_CALL, row,
                                 stride, name);
    if (view->bytes < bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL,
                                 bytes, view->bytes, name);
    return TENON_OK;
}

static int32_t check_call(const tenon_qmatmul_call *call, tenon_error *error)
{
    const tenon_prepared *first;
    uint32_t n;
    int32_t status;

    if (call->struct_size != sizeof *call || call->abi_version != TENON_ABI_VERSION)
        return tenon_fail(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                          "tenon_qmatmul_call is not of version 1");
    if (call->reserved0 != 0 || call->reserved1[0] != 0 || call->reserved1[1] != 0)
        return fault(error, TENON_REASON_RESERVED,
                     "reserved fields of tenon_qmatmul_call are not zero");
    if (call->output_count < 1 || call->output_count > TENON_QMATMUL_MAX_OUTPUTS)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_OUTPUT_COUNT, TENON_SCOPE_CALL,
                                 TENON_QMATMUL_MAX_OUTPUTS, call->output_count, "output_count");
    if (call->tokens == 0)
        return fault(error, TENON_REASON_EMPTY_SHAPE, "tokens must be at least 1");
    first = call->outputs[0].weight;
    for (n = 0; n < call->output_count; n++) {
        const tenon_prepared *weight = call->outputs[n].weight;
        if (weight == NULL) return fault(error, TENON_REASON_NULL_POINTER, "outputs[].weight");
        if (weight->plan.cols != first->plan.cols)
            return tenon_fail_amount(error, TENON_ARG, TENON_REASON_COLS_DIFFER, TENON_SCOPE_CALL,
                                     first->plan.cols, weight->plan.cols,
                                     "inputs of outputs[].weight");
        status = check_view(&call->outputs[n].y, call->outputs[n].row_stride, call->tokens,
                            weight->plan.rows, "outputs[].y", error);
        if (status != TENON_OK) return status;
    }
    return check_view(&call->x, call->x_row_stride, call->tokens, first->plan.cols, "x", error);
}

/* -------------------------------------------------------------------------------------- split */

uint32_t cpu_tile_width(const cpu_job *job, const tenon_prepared *weight, uint64_t remaining)
{
    const cpu_plan *plan = &weight->plan;
    uint32_t width;

    if (job->tokens == 1) return 1;
    if (remaining >= plan->form.columns) return plan->form.columns;
    width = (uint32_t)remaining;
    if (plan->form.arith == TENON_CLASS_A8) {
        const cpu_a8_tiles *tiles = job->level->a8(plan->format->storage, plan->format->dot,
                                                   plan->kind);
        while (tiles->many[width] == NULL) width++; /* ends: the widest tile exists */
    } else {
        while (job->level->f32_many[width] == NULL) width++;
    }
    return width;
}

static int same_form(const cpu_form *a, const cpu_form *b)
{
    return a->arith == b->arith && a->kind == b->kind && a->dot == b->dot && a->zero == b->zero &&
           a->minima == b->minima && a->block == b->block && a->columns == b->columns &&
           a->wide == b->wide;
}

/* Which forms of x the outputs need. */
static void find_forms(cpu_job *job)
{
    uint32_t n, f;
    for (n = 0; n < job->call->output_count; n++) {
        const tenon_prepared *weight = job->call->outputs[n].weight;
        for (f = 0; f < job->form_count; f++)
            if (same_form(&job->forms[f].weight->plan.form, &weight->plan.form)) break;
        if (f == job->form_count) {
            job->forms[f].weight = weight;
            job->forms[f].per_column = cpu_x_per_column(weight);
            job->form_count++;
        }
        job->form_of[n] = f;
        if (weight->plan.form.arith == TENON_CLASS_A8) job->quantized = 1;
    }
}

cpu_scratch cpu_scratch_of(const cpu_job *job)
{
    uint64_t blocks = cpu_x_blocks(job->cols), groups, inputs = 0, block_count = 0, first, second;
    cpu_scratch at = {0};
    uint32_t f;

    groups = job->tokens == 1 ? job->level->one_groups : job->level->many_groups;
    for (f = 0; f < job->call->output_count; f++) {
        const cpu_plan *plan = &((const tenon_prepared *)job->call->outputs[f].weight)->plan;
        if (plan->form.arith != TENON_CLASS_F32 || job->tokens == 1) continue;
        if (plan->most_inputs > inputs) inputs = plan->most_inputs;
        if (plan->most_blocks > block_count) block_count = plan->most_blocks;
    }
    at.d = cpu_round_up(blocks * CPU_PIECE, 64);
    at.sums = at.d + cpu_round_up(blocks * sizeof(float), 64);
    first = at.sums + blocks * 2 * sizeof(int32_t);
    at.q = groups * CPU_ROWS * sizeof(float) * cpu_round_up(job->tokens, CPU_TOKEN_LOT);
    at.s = at.q + groups * inputs * CPU_ROWS * sizeof(float);
    at.n = at.s + groups * block_count * CPU_ROWS * sizeof(float);
    second = at.n + groups * block_count * CPU_ROWS * sizeof(float);
    at.bytes = cpu_round_up(first > second ? first : second, 128);
    return at;
}

/* Makes the queue's memory large enough and lays it out. */
static int32_t lay_out(cpu_job *job, tenon_device_queue *queue, uint32_t team, tenon_error *error)
{
    uint64_t bytes = 0, columns = cpu_round_up(job->tokens, CPU_TOKEN_LOT), start[4];
    uint32_t f;

    if (job->tokens == 1) columns = 1;
    for (f = 0; f < job->form_count; f++) {
        start[f] = bytes;
        /* Below 2^24 inputs and 2^8 columns: no overflow. */
        bytes += cpu_round_up(job->forms[f].per_column * columns * 4, 128);
    }
    job->worker_bytes = cpu_scratch_of(job).bytes;
    if (!tenon_add_u64(bytes, job->worker_bytes * team, &bytes) || bytes > SIZE_MAX / 2)
        return fault(error, TENON_REASON_OVERFLOW, "scratch memory does not fit");
    if (queue->bytes < bytes) {
        cpu_queue_clear(queue);
        queue->memory = aligned_alloc(128, (size_t)cpu_round_up(bytes, 128));
        if (queue->memory == NULL) {
            uint64_t total, available;
            cpu_memory(&total, &available);
            return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY,
                                     TENON_SCOPE_CALL, bytes, available,
                                     "no memory for packed activations");
        }
        queue->bytes = bytes;
    }
    for (f = 0; f < job->form_count; f++)
        job->forms[f].memory = (int32_t *)(void *)(queue->memory + start[f]);
    job->workers = queue->memory + bytes - job->worker_bytes * team;
    return TENON_OK;
}

/* Cuts every output into units. Returns their number; *ns is the work in all of them. */
static uint64_t cut(cpu_job *job, uint32_t team, uint64_t *ns)
{
    uint64_t groups = job->tokens == 1 ? job->level->one_groups : job->level->many_groups;
    uint64_t block_ns[TENON_QMATMUL_MAX_OUTPUTS], unit_ns = UNIT_NS, units = 0;
    uint32_t n;

    *ns = 0;
    for (n = 0; n < job->call->output_count; n++) {
        const cpu_plan *plan = &((const tenon_prepared *)job->call->outputs[n].weight)->plan;
        uint64_t rate = plan->form.arith == TENON_CLASS_A8 ? job->level->rate_a8
                                                           : job->level->rate_f32;
        uint64_t compute = groups * CPU_ROWS * plan->cols * job->tokens / rate;
        uint64_t read = groups * plan->group_bytes / READ_RATE;
        block_ns[n] = (compute > read ? compute : read) + 1;
        job->tile_blocks[n] = tenon_ceil_div_u64(plan->groups, groups);
        *ns += block_ns[n] * job->tile_blocks[n];
    }
    if (unit_ns > *ns / (4 * (uint64_t)team)) unit_ns = *ns / (4 * (uint64_t)team);
    for (n = 0; n < job->call->output_count; n++) {
        job->unit_blocks[n] = unit_ns / block_ns[n] > 1 ? unit_ns / block_ns[n] : 1;
        units += tenon_ceil_div_u64(job->tile_blocks[n], job->unit_blocks[n]);
    }
    return units;
}

int32_t TENON_CALL cpu_run(tenon_device *device, tenon_device_queue *queue,
                           const tenon_qmatmul_call *call, tenon_error *error)
{
    tenon_device_queue own = {NULL, 0};
    const tenon_services *services;
    uint64_t most = MOST_TOKENS, per_token = 0, part;
    uint32_t team, f;
    int32_t status;
    cpu_job job = {.call = call};

    if (device == NULL || call == NULL)
        return fault(error, TENON_REASON_NULL_POINTER, "run needs device and call");
    status = check_call(call, error);
    if (status != TENON_OK) return status;
    if (queue == NULL) queue = &own;
    services = device->provider->services;
    job.level = device->provider->level;
    job.cols = ((const tenon_prepared *)call->outputs[0].weight)->plan.cols;
    find_forms(&job);
    for (f = 0; f < job.form_count; f++) per_token += job.forms[f].per_column * 4;
    while (most > CPU_TOKEN_LOT && most * per_token > MOST_X_BYTES) most -= CPU_TOKEN_LOT;
    team = services->team_size(services->host);

    for (part = 0; part < call->tokens && status == TENON_OK; part += job.tokens) {
        uint64_t units, lots, ns, i;
        job.first_token = part;
        job.tokens = call->tokens - part < most ? call->tokens - part : most;
        status = lay_out(&job, queue, team, error);
        if (status != TENON_OK) break;
        units = cut(&job, team, &ns);
        lots = tenon_ceil_div_u64(job.tokens, CPU_TOKEN_LOT);
        if (ns < SPLIT_FROM_NS || team == 1) {
            for (i = 0; i < lots; i++) cpu_pack_x(&job, i, 0);
            for (i = 0; i < units; i++) cpu_multiply(&job, i, 0);
        } else {
            if (lots == 1)
                cpu_pack_x(&job, 0, 0);
            else
                services->parallel_for(services->host, lots, cpu_pack_x, &job);
            services->parallel_for(services->host, units, cpu_multiply, &job);
        }
    }
    cpu_queue_clear(&own);
    return status;
}
