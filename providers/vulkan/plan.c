/* Which layout of kernels.h a weight takes. */
#include <string.h>

#include "weights.h"

/* One line of the table in kernels.h. */
typedef struct form {
    uint8_t storage, scale_kind, block, zero; /* block as a constant; 255: by the group size */
    const int8_t *table;
} form;

#define BY_GROUP 255u

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* clang-format off */
static const form forms[] = {
    [TENON_FORMAT_F32] =           {VULKAN_F32,    VULKAN_NONE,   8, 0, NULL},
    [TENON_FORMAT_F16] =           {VULKAN_F16,    VULKAN_NONE,   8, 0, NULL},
    [TENON_FORMAT_BF16] =          {VULKAN_BF16,   VULKAN_NONE,   8, 0, NULL},
    [TENON_FORMAT_Q4_0] =          {VULKAN_NIBBLE, VULKAN_HALF,   1, 8, NULL},
    [TENON_FORMAT_Q4_1] =          {VULKAN_NIBBLE, VULKAN_HALF,   1, 0, NULL},
    [TENON_FORMAT_Q5_0] =          {VULKAN_BYTE,   VULKAN_HALF,   1, 0, NULL},
    [TENON_FORMAT_Q5_1] =          {VULKAN_BYTE,   VULKAN_HALF,   1, 0, NULL},
    [TENON_FORMAT_Q8_0] =          {VULKAN_BYTE,   VULKAN_HALF,   1, 0, NULL},
    [TENON_FORMAT_Q2_K] =          {VULKAN_NIBBLE, VULKAN_SUB16,  8, 0, NULL},
    [TENON_FORMAT_Q3_K] =          {VULKAN_NIBBLE, VULKAN_SUB16,  8, 4, NULL},
    [TENON_FORMAT_Q4_K] =          {VULKAN_NIBBLE, VULKAN_SUB32,  8, 0, NULL},
    [TENON_FORMAT_Q5_K] =          {VULKAN_BYTE,   VULKAN_SUB32,  8, 0, NULL},
    [TENON_FORMAT_Q6_K] =          {VULKAN_BYTE,   VULKAN_SUB16,  8, 0, NULL},
    [TENON_FORMAT_IQ4_NL] =        {VULKAN_TABLE,  VULKAN_HALF,   1, 0, iq4_values},
    [TENON_FORMAT_IQ4_XS] =        {VULKAN_TABLE,  VULKAN_SUB32,  8, 0, iq4_values},
    [TENON_FORMAT_MXFP4] =         {VULKAN_TABLE,  VULKAN_FLOAT,  1, 0, e2m1_doubled},
    [TENON_FORMAT_NVFP4] =         {VULKAN_TABLE,  VULKAN_HALF16, 1, 0, e2m1_doubled},
    [TENON_FORMAT_TQ1_0] =         {VULKAN_NIBBLE, VULKAN_FLOAT,  8, 1, NULL},
    [TENON_FORMAT_TQ2_0] =         {VULKAN_NIBBLE, VULKAN_FLOAT,  8, 1, NULL},
    [TENON_FORMAT_INT8_ROW] =      {VULKAN_BYTE,   VULKAN_FLOAT,  0, 0, NULL},
    [TENON_FORMAT_INT4_ROW] =      {VULKAN_NIBBLE, VULKAN_FLOAT,  0, 8, NULL},
    [TENON_FORMAT_INT4_GROUP] =    {VULKAN_NIBBLE, VULKAN_FLOAT,  BY_GROUP, 8, NULL},
    [TENON_FORMAT_INT2_ROW] =      {VULKAN_NIBBLE, VULKAN_FLOAT,  0, 2, NULL},
    [TENON_FORMAT_INT3_GROUP64] =  {VULKAN_NIBBLE, VULKAN_FLOAT,  2, 4, NULL},
    [TENON_FORMAT_MXFP4_GROUP32] = {VULKAN_TABLE,  VULKAN_FLOAT,  1, 0, e2m1_doubled},
    [TENON_FORMAT_FP8_E4M3_B128] = {VULKAN_FP8,    VULKAN_FLOAT,  4, 0, NULL},
};
/* clang-format on */

static uint32_t code_vectors(uint32_t storage)
{
    switch (storage) {
    case VULKAN_NIBBLE:
    case VULKAN_TABLE: return 1;
    case VULKAN_BYTE:
    case VULKAN_FP8: return 2;
    case VULKAN_F16:
    case VULKAN_BF16: return 4;
    default: return 8;
    }
}

/* Inputs that share a scale, and the constant block; int4-group has both from its group size. */
static void choose_block(const tenon_weight_desc *desc, const form *from, vulkan_plan *out)
{
    uint64_t group = desc->group_size;

    out->block = from->block;
    out->scale_inputs = from->block == 0 ? desc->cols : 32u * (uint64_t)from->block;
    if (from->block != BY_GROUP) return;
    out->block = 0;
    out->scale_inputs = vulkan_least(group, desc->cols);
    if (group >= desc->cols) return;
    if (group == 32 || group == 64 || group == 128 || group == 256)
        out->block = (uint32_t)(group / 32);
    else
        out->grouped = 1;
}

/* Vectors of scales a row. */
static uint64_t scale_vectors(const vulkan_plan *plan)
{
    switch (plan->scale_kind) {
    case VULKAN_HALF: return tenon_ceil_div_u64(plan->units, 8) * (plan->minima ? 2 : 1);
    case VULKAN_HALF16: return tenon_ceil_div_u64(plan->units, 4);
    case VULKAN_FLOAT:
        return tenon_ceil_div_u64(tenon_ceil_div_u64(plan->cols, plan->scale_inputs), 4);
    case VULKAN_SUB32:
    case VULKAN_SUB16: return tenon_ceil_div_u64(plan->cols, 256) * 2;
    default: return 0;
    }
}

/* Cuts the tiles into parts that can be bound and dispatched. 0: a single tile is too large. */
static int cut(const tenon_device *device, vulkan_plan *plan)
{
    const vulkan_gpu *gpu = device->gpu;
    uint64_t most = vulkan_least(gpu->range_limit, gpu->block_limit);

    if (plan->tile_codes > most || plan->tile_scales > most) return 0;
    plan->part_tiles = most / plan->tile_codes;
    if (plan->tile_scales != 0)
        plan->part_tiles = vulkan_least(plan->part_tiles, most / plan->tile_scales);
    plan->part_tiles = vulkan_least(plan->part_tiles, gpu->limits.maxComputeWorkGroupCount[0]);
    plan->part_tiles = vulkan_least(plan->part_tiles, plan->tiles);
    plan->parts = tenon_ceil_div_u64(plan->tiles, plan->part_tiles);
    return 1;
}

int vulkan_plan_make(const tenon_device *device, const tenon_weight_desc *desc, vulkan_plan *out,
                     uint32_t *reason)
{
    tenon_format_info info;
    uint64_t row, scales;
    const form *from;

    *out = (vulkan_plan){.arith = desc->arith, .rows = desc->rows, .cols = desc->cols};
    *reason = TENON_REASON_UNSUPPORTED_FORMAT;
    if (!tenon_format_find(desc->format, &info) || desc->format >= sizeof forms / sizeof forms[0])
        return 0;
    from = &forms[desc->format];
    out->storage = from->storage;
    out->scale_kind = from->scale_kind;
    out->zero = from->zero;
    out->table = from->table;
    if (out->storage == VULKAN_TABLE && device->flavour == VULKAN_TEXEL) {
        out->storage = VULKAN_BYTE; /* a software device looks up slowly (kernels.h) */
        out->packed_table = from->table;
        out->table = NULL;
    }
    out->minima = (info.traits & TENON_TRAIT_MINIMA) != 0;
    out->group_size = desc->group_size;
    *reason = TENON_REASON_UNSUPPORTED_SHAPE;
    if (desc->cols > UINT32_MAX / 64 || desc->rows > UINT32_MAX) return 0; /* words of a push */
    choose_block(desc, from, out);
    out->units = tenon_ceil_div_u64(desc->cols, VULKAN_UNIT_INPUTS);
    out->code_vectors = code_vectors(out->storage);
    scales = scale_vectors(out);
    out->scale_vectors = (uint32_t)scales; /* at most 2 for every unit */
    out->tiles = tenon_ceil_div_u64(desc->rows, VULKAN_TILE_ROWS);
    out->tile_codes = out->units * out->code_vectors * 16 * VULKAN_TILE_ROWS;
    out->tile_scales = scales * 16 * VULKAN_TILE_ROWS;
    if (!cut(device, out)) return 0;
    *reason = TENON_REASON_OVERFLOW;
    return tenon_add_u64(out->tile_codes, out->tile_scales, &row) &&
           tenon_mul_u64(row, out->tiles, &out->bytes);
}

void vulkan_plan_table(const vulkan_plan *plan, uint32_t table[4])
{
    uint32_t i;
    memset(table, 0, 4 * sizeof *table);
    for (i = 0; i < 16 && plan->table != NULL; i++)
        table[i / 4] |= (uint32_t)(uint8_t)plan->table[i] << (8 * (i % 4));
}

void vulkan_plan_options(const vulkan_plan *plan, uint32_t options[VULKAN_MOST_CONSTANTS - 1])
{
    options[0] = plan->storage;
    options[1] = plan->scale_kind;
    options[2] = plan->minima;
    options[3] = plan->block;
}
