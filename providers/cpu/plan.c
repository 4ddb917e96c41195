/* The shape of a packed weight: formats, segments, pieces, sizes. */
#include "cpu.h"

#include "kernels/level.h"

#define PAGE 4096u
#define GROUP_PAD 320u

/* Twice the values of e2m1; the factor is in the scale (SPEC.md 3.1, MXFP4 and NVFP4). */
static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

/* clang-format off */
static const cpu_format formats[] = {
    /*                             storage     dot       scale           zero table */
    [TENON_FORMAT_F32] =           {CPU_F32,    CPU_DOT8, CPU_SCALE_NONE, 0,  NULL},
    [TENON_FORMAT_F16] =           {CPU_F16,    CPU_DOT8, CPU_SCALE_NONE, 0,  NULL},
    [TENON_FORMAT_BF16] =          {CPU_BF16,   CPU_DOT8, CPU_SCALE_NONE, 0,  NULL},
    [TENON_FORMAT_Q4_0] =          {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F16,  8,  NULL},
    [TENON_FORMAT_Q4_1] =          {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F16,  0,  NULL},
    [TENON_FORMAT_Q5_0] =          {CPU_BYTE,   CPU_DOT6, CPU_SCALE_F16,  16, NULL},
    [TENON_FORMAT_Q5_1] =          {CPU_BYTE,   CPU_DOT6, CPU_SCALE_F16,  0,  NULL},
    [TENON_FORMAT_Q8_0] =          {CPU_BYTE,   CPU_DOT8, CPU_SCALE_F16,  0,  NULL},
    [TENON_FORMAT_Q2_K] =          {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F16,  0,  NULL},
    [TENON_FORMAT_Q3_K] =          {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F16,  4,  NULL},
    [TENON_FORMAT_Q4_K] =          {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F16,  0,  NULL},
    [TENON_FORMAT_Q5_K] =          {CPU_BYTE,   CPU_DOT6, CPU_SCALE_F16,  0,  NULL},
    [TENON_FORMAT_Q6_K] =          {CPU_SIX,    CPU_DOT6, CPU_SCALE_F16,  32, NULL},
    [TENON_FORMAT_IQ4_NL] =        {CPU_TABLE,  CPU_DOT8, CPU_SCALE_F16,  0,  iq4_values},
    [TENON_FORMAT_IQ4_XS] =        {CPU_TABLE,  CPU_DOT8, CPU_SCALE_F16,  0,  iq4_values},
    [TENON_FORMAT_MXFP4] =         {CPU_TABLE,  CPU_DOT6, CPU_SCALE_F32,  12, e2m1_doubled},
    [TENON_FORMAT_NVFP4] =         {CPU_TABLE,  CPU_DOT6, CPU_SCALE_F16,  12, e2m1_doubled},
    [TENON_FORMAT_TQ1_0] =         {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F16,  1,  NULL},
    [TENON_FORMAT_TQ2_0] =         {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F16,  1,  NULL},
    [TENON_FORMAT_INT8_ROW] =      {CPU_BYTE,   CPU_DOT8, CPU_SCALE_F32,  0,  NULL},
    [TENON_FORMAT_INT4_ROW] =      {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F32,  8,  NULL},
    [TENON_FORMAT_INT4_GROUP] =    {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F32,  8,  NULL},
    [TENON_FORMAT_INT2_ROW] =      {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F32,  2,  NULL},
    [TENON_FORMAT_INT3_GROUP64] =  {CPU_NIBBLE, CPU_DOT4, CPU_SCALE_F32,  4,  NULL},
    [TENON_FORMAT_MXFP4_GROUP32] = {CPU_TABLE,  CPU_DOT6, CPU_SCALE_F32,  12, e2m1_doubled},
    [TENON_FORMAT_FP8_E4M3_B128] = {CPU_FP8,    CPU_DOT8, CPU_SCALE_F32,  0,  NULL},
};
/* clang-format on */

const cpu_format *cpu_format_of(uint32_t format)
{
    tenon_format_info info;
    return tenon_format_find(format, &info) && format < sizeof formats / sizeof *formats
               ? &formats[format]
               : NULL;
}

uint32_t cpu_unit_bytes(uint32_t storage)
{
    switch (storage) {
    case CPU_NIBBLE:
    case CPU_TABLE: return 128;
    case CPU_SIX: return 192;
    case CPU_F32: return 1024;
    case CPU_F16:
    case CPU_BF16: return 512;
    default: return 256; /* CPU_BYTE, CPU_FP8 */
    }
}

static uint32_t scale_bytes(const cpu_plan *plan)
{
    switch (plan->format->scale) {
    case CPU_SCALE_F16: return 2 * CPU_ROWS;
    case CPU_SCALE_F32: return 4 * CPU_ROWS;
    default: return 0;
    }
}

uint32_t cpu_block_head_bytes(const cpu_plan *plan)
{
    return scale_bytes(plan) + (plan->minima ? 2 * CPU_ROWS : 0);
}

static uint32_t kind_of(const tenon_format_info *info, uint64_t block, uint64_t cols)
{
    if ((info->traits & TENON_TRAIT_SUBSCALES) != 0)
        return info->arith_block == 16 ? CPU_SUB16 : CPU_SUB32;
    if (block == CPU_PIECE || (block >= cols && cols < CPU_PIECE)) return CPU_FOLD;
    /* Blocks that begin on activation blocks: cut at 256 or not, every piece but the last is 32. */
    if (block % CPU_PIECE == 0 || block >= cols) return CPU_HOLD;
    return CPU_PIECES;
}

/* What the walk over a row has counted so far. */
typedef struct walk {
    cpu_plan *plan;
    cpu_segment *segments;
    cpu_piece *pieces;
    int a8;
    uint64_t bytes; /* of the group */
    uint64_t pieces_before, inputs_before;
} walk;

/* The pieces of one block inside a segment, for CPU_PIECES. Returns their units. */
static uint32_t cut_block(walk *self, uint64_t start, uint64_t end, uint64_t *count)
{
    uint32_t units = 0;
    while (start < end) {
        uint64_t stop = cpu_round_up(start + 1, CPU_PIECE);
        if (stop > end) stop = end;
        if (self->pieces != NULL) {
            cpu_piece *piece = &self->pieces[*count];
            *piece = (cpu_piece){.source = (uint32_t)start, .inputs = (uint8_t)(stop - start)};
            piece->units = (uint8_t)tenon_ceil_div_u64(stop - start, CPU_UNIT);
            piece->ends_block = stop == end;
        }
        units += (uint32_t)tenon_ceil_div_u64(stop - start, CPU_UNIT);
        *count += 1;
        start = stop;
    }
    return units;
}

/* One segment: blocks of block inputs from input start on, inputs of them in all. */
static void add_segment(walk *self, uint64_t start, uint32_t inputs, uint32_t block,
                        uint64_t first_block)
{
    cpu_plan *plan = self->plan;
    uint32_t blocks = (uint32_t)tenon_ceil_div_u64(inputs, block), units, b;
    uint32_t last = inputs - (blocks - 1) * block;
    uint32_t padded = (uint32_t)cpu_round_up(block, CPU_UNIT);
    uint32_t last_padded = (uint32_t)cpu_round_up(last, CPU_UNIT);
    uint32_t all_padded = (blocks - 1) * padded + last_padded, head, pieces = 0;
    uint64_t first = self->inputs_before;

    if (plan->subscales)
        head = (1 + plan->minima) * CPU_ROWS * (2 + blocks);
    else
        head = blocks * cpu_block_head_bytes(plan);
    head = (uint32_t)cpu_round_up(head, 64);
    units = all_padded / CPU_UNIT;
    if (self->a8) {
        uint64_t count = self->pieces_before;
        first = count;
        if (plan->kind == CPU_PIECES) {
            units = 0;
            for (b = 0; b < blocks; b++) {
                uint64_t from = start + (uint64_t)b * block;
                units += cut_block(self, from, from + (b + 1 < blocks ? block : last), &count);
            }
        } else {
            count += tenon_ceil_div_u64(inputs, CPU_PIECE);
            units = (uint32_t)(count - first) * 2;
        }
        pieces = (uint32_t)(count - first);
        self->pieces_before = count;
    }
    if (self->segments != NULL)
        self->segments[plan->segment_count] = (cpu_segment){.offset = (uint32_t)(self->bytes / 64),
                                                            .codes = head,
                                                            .first = (uint32_t)first,
                                                            .source = (uint32_t)start,
                                                            .first_block = (uint32_t)first_block,
                                                            .inputs = (uint16_t)inputs,
                                                            .blocks = (uint16_t)blocks,
                                                            .block_inputs = (uint16_t)block,
                                                            .pieces = (uint16_t)pieces,
                                                            .padded = (uint16_t)padded,
                                                            .last_padded = (uint16_t)last_padded};
    plan->segment_count++;
    self->inputs_before += all_padded;
    self->bytes += head + (uint64_t)units * cpu_unit_bytes(plan->format->storage);
    if (all_padded > plan->most_inputs) plan->most_inputs = all_padded;
    if (blocks > plan->most_blocks) plan->most_blocks = blocks;
}

/* The segments of SPEC.md 2.2 for blocks of block inputs. */
static void walk_row(walk *self, uint64_t block)
{
    uint64_t cols = self->plan->cols, start, b;
    if (block <= CPU_SEGMENT) {
        uint32_t whole = (uint32_t)(CPU_SEGMENT / block * block);
        for (start = 0, b = 0; start < cols; start += whole, b += CPU_SEGMENT / block)
            add_segment(self, start, (uint32_t)(cols - start < whole ? cols - start : whole),
                        (uint32_t)block, b);
        return;
    }
    for (start = 0, b = 0; start < cols; start += block, b++) {
        uint64_t end = cols - start < block ? cols : start + block, cut;
        for (cut = start; cut < end; cut += CPU_SEGMENT) {
            uint32_t inputs = (uint32_t)(end - cut < CPU_SEGMENT ? end - cut : CPU_SEGMENT);
            add_segment(self, cut, inputs, inputs, b);
        }
    }
}

/* The widest tile that the level has for this weight. */
static uint32_t widest_tile(const cpu_level *level, const cpu_plan *plan, int a8)
{
    uint32_t columns = CPU_MAX_COLUMNS;
    if (a8) {
        const cpu_a8_tiles *tiles = level->a8(plan->format->storage, plan->format->dot, plan->kind);
        while (columns > 1 && tiles->many[columns] == NULL) columns--;
    } else {
        while (columns > 1 && level->f32_many[columns] == NULL) columns--;
    }
    return columns;
}

int cpu_plan_make(const cpu_level *level, const tenon_weight_desc *desc, cpu_plan *plan,
                  cpu_segment *segments, cpu_piece *pieces)
{
    tenon_format_info info;
    uint64_t block, bytes;
    walk self = {.plan = plan, .segments = segments, .pieces = pieces};

    *plan = (cpu_plan){
        .format = cpu_format_of(desc->format), .rows = desc->rows, .cols = desc->cols};
    if (plan->format == NULL || desc->cols > CPU_MAX_COLS ||
        !tenon_format_find(desc->format, &info))
        return 0;
    self.a8 = desc->arith == TENON_CLASS_A8;
    plan->minima = (info.traits & TENON_TRAIT_MINIMA) != 0;
    plan->subscales = (info.traits & TENON_TRAIT_SUBSCALES) != 0;
    block = info.arith_block == 0   ? desc->cols
            : info.arith_block == 1 ? desc->group_size
                                    : info.arith_block;
    if (block > desc->cols) block = desc->cols; /* also keeps start + block from wrapping */
    plan->kind = kind_of(&info, block, desc->cols);
    plan->groups = tenon_ceil_div_u64(desc->rows, CPU_ROWS);
    plan->block_count = (uint32_t)tenon_ceil_div_u64(desc->cols, block);
    walk_row(&self, block);
    /* Groups are read side by side: at the same place of a page each they would share cache sets. */
    if (self.bytes % PAGE == 0) self.bytes += GROUP_PAD;
    plan->group_bytes = self.bytes;
    plan->piece_count = (uint32_t)self.pieces_before;
    plan->table_pieces = self.a8 && plan->kind == CPU_PIECES ? plan->piece_count : 0;
    plan->x_inputs = (uint32_t)self.inputs_before;
    plan->form = (cpu_form){.arith = desc->arith, .minima = plan->minima};
    plan->form.columns = widest_tile(level, plan, self.a8);
    if (self.a8) {
        plan->form.kind = plan->kind;
        plan->form.dot = plan->format->dot;
        plan->form.zero = plan->format->zero;
        if (plan->format->dot == CPU_DOT8) plan->form.zero = level->byte_bias;
        plan->form.wide = level->wide[plan->format->dot];
        plan->form.block = plan->kind == CPU_PIECES ? (uint32_t)block : 0;
    } else {
        plan->form.block = (uint32_t)block;
    }
    return tenon_mul_u64(plan->groups, plan->group_bytes, &bytes) && bytes <= SIZE_MAX / 2 &&
           self.bytes / 64 <= UINT32_MAX;
}
