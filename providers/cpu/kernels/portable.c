/* Level portable: any processor, no instruction beyond the compiler's baseline. */
#include "vec_portable.h"

#include "common.h"

#define TR 1
#define TC 1
#include "a8_tile.h"
#include "f32_direct.h"
#include "f32_tile.h"
#undef TC
#define TC 2
#include "a8_tile.h"
#include "f32_tile.h"
#undef TC
#undef TR

static const cpu_a8_tiles a8_tiles[CPU_COMBINATION_COUNT] = {
#define COMBINATION(storage, dot, kind) \
    [CPU_COMBINATION_INDEX(CPU_##storage, CPU_##dot, CPU_##kind)] = { \
        .one = A8_KERNEL(storage, dot, kind, 1, 1), \
        .many = {[1] = A8_KERNEL(storage, dot, kind, 1, 1), \
                 [2] = A8_KERNEL(storage, dot, kind, 1, 2)}},
#include "a8_combinations.def"
#undef COMBINATION
};
DEFINE_FIND_A8

const cpu_level cpu_level_portable = {
    .name = "portable",
    .byte_bias = 0,
    .wide = {VEC_WIDE(CPU_DOT4), VEC_WIDE(CPU_DOT6), VEC_WIDE(CPU_DOT8)},
    .one_groups = 1,
    .many_groups = 1,
    .rate_a8 = 8,
    .rate_f32 = 1,
    .quantize = quantize,
    .a8 = find_a8,
    .f32_direct = {[1] = F32_TABLE(f32_direct_, _1_1)},
    .f32_expand = F32_TABLE(f32_expand_, ),
    .f32_many = {[1] = f32_tile_1_1, [2] = f32_tile_1_2},
};
