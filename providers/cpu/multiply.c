/* Phase 2 of a run: row groups of a weight times the packed x. */
#include "run.h"

#include <string.h>

/* Segments that one visit to a tile of y takes: their codes stay in the first cache. */
#define SEGMENTS_AT_ONCE 4u

/* Row groups first .. of one output, as many as a kernel takes at once. */
typedef struct block {
    const cpu_job *job;
    const tenon_prepared *weight;
    const cpu_packed_x *x;
    uint64_t first;  /* group */
    uint32_t groups; /* of the kernel; those past the last repeat it and are not stored */
    float *y;        /* [token][16 * groups] */
    uint8_t *scratch;
} block;

static const uint8_t *group_of(const block *self, uint32_t r)
{
    const cpu_plan *plan = &self->weight->plan;
    uint64_t group = self->first + r;
    if (group >= plan->groups) group = plan->groups - 1;
    return self->weight->memory + group * plan->group_bytes;
}

static void multiply_a8(const block *self)
{
    const cpu_job *job = self->job;
    const cpu_plan *plan = &self->weight->plan;
    const cpu_a8_tiles *tiles = job->level->a8(plan->format->storage, plan->format->dot,
                                               plan->kind);
    uint64_t at_once = job->tokens == 1 ? plan->segment_count : SEGMENTS_AT_ONCE, first, t;
    cpu_a8_args args = {.pieces = self->weight->pieces,
                        .table = self->weight->table_a8,
                        .y_stride = (uint64_t)self->groups * CPU_ROWS,
                        .scale = plan->format->scale,
                        .minima = plan->minima};
    uint32_t r, width;

    for (r = 0; r < self->groups; r++) args.w[r] = group_of(self, r);
    for (first = 0; first < plan->segment_count; first += at_once) {
        args.segments = self->weight->segments + first;
        args.segment_count = plan->segment_count - first < at_once ? plan->segment_count - first
                                                                   : at_once;
        for (t = 0; t < job->tokens; t += width) {
            width = cpu_tile_width(job, self->weight, job->tokens - t);
            args.x = self->x->memory + t * self->x->per_column;
            args.y = self->y + t * args.y_stride;
            if (job->tokens == 1)
                tiles->one(&args);
            else
                tiles->many[width](&args);
        }
    }
}

/* All tokens in one tile, straight from the packed codes. */
static void multiply_f32_direct(const block *self, cpu_f32_direct *kernel, uint32_t width)
{
    const cpu_plan *plan = &self->weight->plan;
    cpu_f32_direct_args args = {.weight = self->weight,
                                .x = (const float *)(const void *)self->x->memory,
                                .y = self->y,
                                .y_stride = (uint64_t)self->groups * CPU_ROWS};
    uint32_t r;

    args.sums = args.x + (uint64_t)plan->x_inputs * width;
    for (r = 0; r < self->groups; r++) args.w[r] = group_of(self, r);
    kernel(&args);
}

/* Segment by segment: its codes become floats once, for all tokens. */
static void multiply_f32_expanded(const block *self)
{
    const cpu_job *job = self->job;
    const cpu_plan *plan = &self->weight->plan;
    cpu_scratch at = cpu_scratch_of(job);
    cpu_f32_args args = {.y_stride = (uint64_t)self->groups * CPU_ROWS};
    uint32_t i, r, width;
    uint64_t t;

    for (i = 0; i < plan->segment_count; i++) {
        const cpu_segment *segment = &self->weight->segments[i];
        args.blocks = segment->blocks;
        args.padded = segment->padded;
        args.last_padded = segment->last_padded;
        for (r = 0; r < self->groups; r++) {
            const uint8_t *group = group_of(self, r);
            float *q = (float *)(void *)(self->scratch + at.q) +
                       (uint64_t)r * plan->most_inputs * CPU_ROWS;
            float *s = (float *)(void *)(self->scratch + at.s) +
                       (uint64_t)r * plan->most_blocks * CPU_ROWS;
            float *n = (float *)(void *)(self->scratch + at.n) +
                       (uint64_t)r * plan->most_blocks * CPU_ROWS;
            if (plan->format->storage == CPU_F32) {
                args.q[r] = (const float *)(const void *)(group + (uint64_t)segment->offset * 64 +
                                                          segment->codes);
                continue;
            }
            job->level->f32_expand[plan->format->storage](self->weight, segment, group, q, s, n);
            args.q[r] = q;
            args.s[r] = plan->format->scale != CPU_SCALE_NONE ? s : NULL;
            args.n[r] = plan->minima ? n : NULL;
        }
        for (t = 0; t < job->tokens; t += width) {
            const float *x = (const float *)(const void *)self->x->memory + t * self->x->per_column;
            width = cpu_tile_width(job, self->weight, job->tokens - t);
            args.x = x + (uint64_t)segment->first * width;
            args.sums = x + ((uint64_t)plan->x_inputs + segment->first_block) * width;
            args.y = self->y + t * args.y_stride;
            job->level->f32_many[width](&args);
        }
    }
}

static void multiply_f32(const block *self)
{
    uint64_t tokens = self->job->tokens;
    uint32_t width = cpu_tile_width(self->job, self->weight, tokens);
    cpu_f32_direct *kernel = self->job->level
                                 ->f32_direct[width][self->weight->plan.format->storage];

    if (tokens <= width && kernel != NULL)
        multiply_f32_direct(self, kernel, width);
    else
        multiply_f32_expanded(self);
}

static void store(const block *self, const tenon_output *output)
{
    const cpu_job *job = self->job;
    uint64_t row = self->first * CPU_ROWS, rows = (uint64_t)self->groups * CPU_ROWS, t;
    uint64_t count = self->weight->plan.rows - row < rows ? self->weight->plan.rows - row : rows;

    for (t = 0; t < job->tokens; t++) {
        uint8_t *y = (uint8_t *)output->y.host + output->y.offset +
                     (job->first_token + t) * output->row_stride;
        memcpy(y + row * sizeof(float), self->y + t * rows, (size_t)(count * sizeof(float)));
    }
}

void TENON_CALL cpu_multiply(void *context, uint64_t index, uint32_t worker)
{
    const cpu_job *job = context;
    uint32_t n = 0;
    uint64_t i, end, units;
    block self = {.job = job, .scratch = job->workers + worker * job->worker_bytes};

    for (;; n++) { /* ends: index is below the units of all outputs */
        units = tenon_ceil_div_u64(job->tile_blocks[n], job->unit_blocks[n]);
        if (index < units) break;
        index -= units;
    }
    self.weight = job->call->outputs[n].weight;
    self.x = &job->forms[job->form_of[n]];
    self.groups = job->tokens == 1 ? job->level->one_groups : job->level->many_groups;
    self.y = (float *)(void *)self.scratch;
    i = index * job->unit_blocks[n];
    end = i + job->unit_blocks[n] < job->tile_blocks[n] ? i + job->unit_blocks[n]
                                                        : job->tile_blocks[n];
    for (; i < end; i++) {
        self.first = i * self.groups;
        memset(self.y, 0,
               (size_t)(self.groups * CPU_ROWS * sizeof(float) *
                        cpu_round_up(job->tokens, CPU_TOKEN_LOT)));
        if (self.weight->plan.form.arith == TENON_CLASS_A8)
            multiply_a8(&self);
        else
            multiply_f32(&self);
        store(&self, &job->call->outputs[n]);
    }
}
