/* The two AVX-512 levels, which differ only in the integer dot product. LEVEL_SYMBOL, LEVEL_NAME,
 * LEVEL_BIAS and, with VNNI, LEVEL_VNNI are set by the file that includes this. */
#include "vec_avx512.h"

#include "common.h"

/* 32 registers: 2 x 6 keeps 12 sums and 12 float accumulators; these kinds need 12 more. */
#define MOST_COLUMNS(kind) ((kind) == CPU_SUB16 || (kind) == CPU_PIECES ? 4 : 6)

#define TR 4
#define TC 1
#include "a8_tile.h"
#include "f32_direct.h"
#undef TR
#undef TC

#define TR 2
#define TC 2
#include "a8_tile.h"
#include "f32_direct.h"
#include "f32_tile.h"
#undef TC
#define TC 4
#include "a8_tile.h"
#include "f32_direct.h"
#include "f32_tile.h"
#undef TC
#define TC 6
#include "a8_tile.h"
#include "f32_tile.h"
#undef TC
#undef TR

static const cpu_a8_tiles a8_tiles[CPU_COMBINATION_COUNT] = {
#define COMBINATION(storage, dot, kind) \
    [CPU_COMBINATION_INDEX(CPU_##storage, CPU_##dot, CPU_##kind)] = { \
        .one = A8_KERNEL(storage, dot, kind, 4, 1), \
        .many = {[2] = A8_KERNEL(storage, dot, kind, 2, 2), \
                 [4] = A8_KERNEL(storage, dot, kind, 2, 4), \
                 [6] = MOST_COLUMNS(CPU_##kind) >= 6 ? A8_KERNEL(storage, dot, kind, 2, 6) \
                                                     : NULL}},
#include "a8_combinations.def"
#undef COMBINATION
};
DEFINE_FIND_A8

const cpu_level LEVEL_SYMBOL = {
    .name = LEVEL_NAME,
    .byte_bias = LEVEL_BIAS,
    .wide = {VEC_WIDE(CPU_DOT4), VEC_WIDE(CPU_DOT6), VEC_WIDE(CPU_DOT8)},
    .one_groups = 4,
    .many_groups = 2,
    .rate_a8 = 120,
    .rate_f32 = 40,
    .quantize = quantize,
    .a8 = find_a8,
    .f32_direct = {[1] = F32_TABLE(f32_direct_, _4_1),
                   [2] = F32_TABLE(f32_direct_, _2_2),
                   [4] = F32_TABLE(f32_direct_, _2_4)},
    .f32_expand = F32_TABLE(f32_expand_, ),
    .f32_many = {[2] = f32_tile_2_2, [4] = f32_tile_2_4, [6] = f32_tile_2_6},
};
