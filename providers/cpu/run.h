/* One call as the parts of a run see it. */
#ifndef TENON_CPU_RUN_H
#define TENON_CPU_RUN_H

#include "cpu.h"
#include "kernels/level.h"

/* x packed in one form, for all tokens of the call or of a part of it. Tiles follow one another;
 * tile t starts at column t * form.columns. All its rows are per_column dwords of each token. */
typedef struct cpu_packed_x {
    const tenon_prepared *weight; /* one of those that share the form */
    uint64_t per_column;          /* dwords */
    int32_t *memory;
} cpu_packed_x;

typedef struct cpu_job {
    const cpu_level *level;
    const tenon_qmatmul_call *call;
    uint64_t first_token, tokens; /* the part of the call in hand */
    uint32_t form_count, form_of[TENON_QMATMUL_MAX_OUTPUTS];
    cpu_packed_x forms[TENON_QMATMUL_MAX_OUTPUTS];
    int quantized; /* some form is of class A8 */
    uint64_t cols;
    uint64_t tile_blocks[TENON_QMATMUL_MAX_OUTPUTS]; /* of row groups, of each output */
    uint64_t unit_blocks[TENON_QMATMUL_MAX_OUTPUTS]; /* of those in one unit */
    uint8_t *workers;                                /* scratch memory of each worker */
    uint64_t worker_bytes;
} cpu_job;

/* Where a worker's scratch memory holds what; offsets in bytes. The two phases overlap. */
typedef struct cpu_scratch {
    uint64_t u, d, sums; /* phase 1: one token rounded */
    uint64_t y, q, s, n; /* phase 2: a tile of y; one segment of each group as floats */
    uint64_t bytes;
} cpu_scratch;
cpu_scratch cpu_scratch_of(const cpu_job *job);

/* Dwords of the packed x per token in the form of weight. */
uint64_t cpu_x_per_column(const tenon_prepared *weight);
/* Tokens of a tile that starts with remaining tokens left of job->tokens. */
uint32_t cpu_tile_width(const cpu_job *job, const tenon_prepared *weight, uint64_t remaining);

/* Phase 1, unit index: tokens [12 * index, 12 * index + 12) of the part, into every form. */
void TENON_CALL cpu_pack_x(void *context, uint64_t index, uint32_t worker);
/* Phase 2, unit index: some row groups of one output, for all tokens of the part. */
void TENON_CALL cpu_multiply(void *context, uint64_t index, uint32_t worker);

static inline uint64_t cpu_x_blocks(uint64_t cols)
{
    return tenon_ceil_div_u64(cols, CPU_PIECE);
}

#endif
