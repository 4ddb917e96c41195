/* Phase 1 of a run: x into the forms that the kernels read. */
#include "run.h"

#include <string.h>

uint64_t cpu_x_per_column(const tenon_prepared *weight)
{
    const cpu_plan *plan = &weight->plan;
    if (plan->form.arith == TENON_CLASS_A8)
        return (uint64_t)plan->piece_count * (8 * plan->form.wide + 3);
    return (uint64_t)plan->x_inputs + (plan->minima ? plan->block_count : 0);
}

/* One rounded token. */
typedef struct rounded {
    const int8_t *u;
    const float *d;
    const int32_t *sums; /* of each half of a block */
} rounded;

/* The codes of one piece, 32 of them, into column 0 of a record of width columns. */
static void put_codes(const int8_t *u, uint32_t wide, uint32_t width, int32_t *to)
{
    uint32_t j;
    for (j = 0; j < 8; j++, u += 4) {
        if (wide == 1) {
            memcpy(to + (uint64_t)j * width, u, 4);
        } else { /* even inputs as int16, then odd ones */
            uint32_t even = (uint16_t)u[0] | (uint32_t)(uint16_t)u[2] << 16;
            uint32_t odd = (uint16_t)u[1] | (uint32_t)(uint16_t)u[3] << 16;
            memcpy(to + (uint64_t)(2 * j) * width, &even, 4);
            memcpy(to + (uint64_t)(2 * j + 1) * width, &odd, 4);
        }
    }
}

/* The three rows after the codes (kernels/a8_tile.h says what they mean). */
static void put_terms(const cpu_form *form, float d, int32_t first, int32_t second, uint32_t width,
                      int32_t *to)
{
    int32_t zero = (int32_t)form->zero, k0 = -zero * (first + second), k1 = 0;
    if (form->kind == CPU_SUB32) {
        k1 = first + second;
    } else if (form->kind == CPU_SUB16) {
        k0 = form->minima ? first : -zero * first;
        k1 = form->minima ? second : -zero * second;
    } else if (form->minima) {
        float m = d * (float)(first + second);
        memcpy(&k1, &m, sizeof k1);
    }
    memcpy(to, &d, sizeof d);
    to[width] = k0;
    to[2 * (uint64_t)width] = k1;
}

static void pack_a8(const tenon_prepared *weight, const rounded *x, uint32_t width, int32_t *to)
{
    const cpu_plan *plan = &weight->plan;
    const cpu_form *form = &plan->form;
    uint64_t rows = 8 * form->wide, record = (rows + 3) * width;
    uint32_t p, i;

    for (p = 0; p < plan->piece_count; p++, to += record) {
        if (plan->table_pieces == 0) {
            put_codes(x->u + CPU_PIECE * (uint64_t)p, form->wide, width, to);
            put_terms(form, x->d[p], x->sums[2 * (uint64_t)p], x->sums[2 * (uint64_t)p + 1], width,
                      to + rows * width);
        } else {
            const cpu_piece *piece = &weight->pieces[p];
            int8_t u[CPU_PIECE] = {0};
            int32_t sum = 0;
            memcpy(u, x->u + piece->source, piece->inputs);
            for (i = 0; i < piece->inputs; i++) sum += u[i];
            put_codes(u, form->wide, width, to);
            put_terms(form, x->d[piece->source / CPU_PIECE], sum, 0, width, to + rows * width);
        }
    }
}

/* X of one block: added one by one, in order. */
static float sum_of(const float *x, uint64_t count)
{
    float sum = 0.0f;
    for (; count > 0; count--) sum = sum + *x++;
    return sum;
}

/* x may be NULL for a column of zeros. */
static void pack_f32(const tenon_prepared *weight, const float *x, uint32_t width, float *to)
{
    const cpu_plan *plan = &weight->plan;
    float *sums = to + (uint64_t)plan->x_inputs * width;
    uint32_t i, b, k;

    for (i = 0; i < plan->segment_count; i++) {
        const cpu_segment *segment = &weight->segments[i];
        uint32_t left = segment->inputs;
        const float *from = x == NULL ? NULL : x + segment->source;
        for (b = 0; b < segment->blocks; b++) {
            uint32_t inputs = left < segment->block_inputs ? left : segment->block_inputs;
            uint32_t padded = b + 1u < segment->blocks ? segment->padded : segment->last_padded;
            if (from == NULL) inputs = 0;
            if (width == 1) {
                if (inputs > 0) memcpy(to, from, inputs * sizeof *to);
                for (k = inputs; k < padded; k++) to[k] = 0.0f;
            } else {
                for (k = 0; k < inputs; k++) to[(uint64_t)k * width] = from[k];
                for (; k < padded; k++) to[(uint64_t)k * width] = 0.0f;
            }
            to += (uint64_t)padded * width;
            if (plan->minima)
                sums[(uint64_t)(segment->first_block + b) * width] = sum_of(from, inputs);
            if (from != NULL) from += inputs;
            left -= inputs;
        }
    }
}

void TENON_CALL cpu_pack_x(void *context, uint64_t index, uint32_t worker)
{
    const cpu_job *job = context;
    cpu_scratch at = cpu_scratch_of(job);
    uint8_t *scratch = job->workers + worker * job->worker_bytes;
    int8_t *u = (int8_t *)scratch + at.u;
    float *d = (float *)(void *)(scratch + at.d);
    int32_t *sums = (int32_t *)(void *)(scratch + at.sums);
    const rounded x_rounded = {u, d, sums};
    uint64_t first = index * CPU_TOKEN_LOT, end = first + CPU_TOKEN_LOT, t, blocks;
    int last = end >= job->tokens;
    uint32_t f;

    blocks = cpu_x_blocks(job->cols);
    if (last) end = cpu_round_up(job->tokens, CPU_TOKEN_LOT); /* with the columns that fill up */
    for (t = first; t < end; t++) {
        const float *x = NULL;
        if (t < job->tokens)
            x = (const float *)(const void *)((const uint8_t *)job->call->x.host +
                                              job->call->x.offset +
                                              (job->first_token + t) * job->call->x_row_stride);
        if (job->quantized) {
            if (x != NULL) {
                job->level->quantize(x, job->cols, u, d, sums);
            } else {
                memset(u, 0, (size_t)(blocks * CPU_PIECE));
                memset(d, 0, (size_t)blocks * sizeof *d);
                memset(sums, 0, (size_t)blocks * 2 * sizeof *sums);
            }
        }
        for (f = 0; f < job->form_count; f++) {
            const cpu_packed_x *form = &job->forms[f];
            uint32_t columns = job->tokens == 1 ? 1 : form->weight->plan.form.columns, width;
            uint64_t tile = t / columns * columns;
            int32_t *to = form->memory + tile * form->per_column + t % columns;
            if (tile >= job->tokens) continue;
            width = cpu_tile_width(job, form->weight, job->tokens - tile);
            if (t - tile >= width) continue;
            if (form->weight->plan.form.arith == TENON_CLASS_A8)
                pack_a8(form->weight, &x_rounded, width, to);
            else
                pack_f32(form->weight, x, width, (float *)(void *)to);
        }
    }
}
