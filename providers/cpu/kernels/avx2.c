/* Level avx2: AVX2 with FMA and F16C. */
#include "vec_avx2.h"

#include "common.h"

/* 16 registers, two a group: 1 x 3 keeps 6 sums and 6 float accumulators; what needs more room for
 * codes or a second sum takes two tokens. */
#define MOST_COLUMNS(dot, kind) \
    ((dot) == CPU_DOT4 && (kind) != CPU_SUB16 && (kind) != CPU_PIECES ? 3 : 2)

#define TR 2
#define TC 1
#include "a8_tile.h"
#include "f32_direct.h"
#undef TR
#undef TC

#define TR 1
#define TC 1
#include "a8_tile.h"
#include "f32_tile.h"
#undef TC
#define TC 2
#include "a8_tile.h"
#include "f32_direct.h"
#include "f32_tile.h"
#undef TC
#define TC 3
#include "a8_tile.h"
#include "f32_direct.h"
#include "f32_tile.h"
#undef TC
#define TC 4
#include "f32_direct.h"
#include "f32_tile.h"
#undef TC
#define TC 6
#include "f32_tile.h"
#undef TC
#undef TR

static const cpu_a8_tiles a8_tiles[CPU_COMBINATION_COUNT] = {
#define COMBINATION(storage, dot, kind) \
    [CPU_COMBINATION_INDEX(CPU_##storage, CPU_##dot, CPU_##kind)] = { \
        .one = A8_KERNEL(storage, dot, kind, 2, 1), \
        .many = {[1] = A8_KERNEL(storage, dot, kind, 1, 1), \
                 [2] = A8_KERNEL(storage, dot, kind, 1, 2), \
                 [3] = MOST_COLUMNS(CPU_##dot, CPU_##kind) >= 3 \
                           ? A8_KERNEL(storage, dot, kind, 1, 3) \
                           : NULL}},
#include "a8_combinations.def"
#undef COMBINATION
};
DEFINE_FIND_A8

const cpu_level cpu_level_avx2 = {
    .name = "avx2",
    .byte_bias = 0,
    .wide = {VEC_WIDE(CPU_DOT4), VEC_WIDE(CPU_DOT6), VEC_WIDE(CPU_DOT8)},
    .one_groups = 2,
    .many_groups = 1,
    .rate_a8 = 60,
    .rate_f32 = 30,
    .quantize = quantize,
    .a8 = find_a8,
    .f32_direct = {[1] = F32_TABLE(f32_direct_, _2_1),
                   [2] = F32_TABLE(f32_direct_, _1_2),
                   [3] = F32_TABLE(f32_direct_, _1_3),
                   [4] = F32_TABLE(f32_direct_, _1_4)},
    .f32_expand = F32_TABLE(f32_expand_, ),
    .f32_many = {[1] = f32_tile_1_1,
                 [2] = f32_tile_1_2,
                 [3] = f32_tile_1_3,
                 [4] = f32_tile_1_4,
                 [6] = f32_tile_1_6},
};
