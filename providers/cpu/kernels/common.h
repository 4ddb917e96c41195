/* What every level includes after its vec_*.h: the parts that its tiles are made from, and the
 * table that hands them out. */
#ifndef TENON_CPU_COMMON_H
#define TENON_CPU_COMMON_H

#include <string.h>

#include "codes.h"
#include "f32_expand.h"
#include "grid.h"
#include "quantize.h"

/* The name of an A8 kernel (a8_tile.h). */
#define A8_KERNEL(storage, dot, kind, groups, columns) \
    a8_##storage##_##dot##_##kind##_##groups##_##columns

/* Defines find_a8, the function behind cpu_level.a8, from one table entry a combination. */
#define CPU_COMBINATION_INDEX(storage, dot, kind) \
    (((uint32_t)(storage)*CPU_DOTS + (uint32_t)(dot)) * CPU_KINDS + (uint32_t)(kind))
#define CPU_COMBINATION_COUNT CPU_COMBINATION_INDEX(CPU_F32, 0, 0)
#define DEFINE_FIND_A8 \
    static const cpu_a8_tiles *find_a8(uint32_t storage, uint32_t dot, uint32_t kind) \
    { \
        return &a8_tiles[CPU_COMBINATION_INDEX(storage, dot, kind)]; \
    }

#define F32_TABLE(prefix, suffix) \
    { \
        prefix##NIBBLE##suffix, prefix##TABLE##suffix, prefix##SIX##suffix, prefix##BYTE##suffix, \
            prefix##F32##suffix, prefix##F16##suffix, prefix##BF16##suffix, prefix##FP8##suffix \
    }

#endif
