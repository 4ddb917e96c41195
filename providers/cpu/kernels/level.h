/* What an instruction-set level is to the rest of the provider: a table of functions.
 *
 * Only kernels/<level>.c is compiled with the instructions of its level; nothing of it may be
 * called before cpu_level_usable has said yes. */
#ifndef TENON_CPU_LEVEL_H
#define TENON_CPU_LEVEL_H

#include "../cpu.h"

/* Everything a kernel is made of is inlined into it, with its constants. Over SIMDe nothing is: the
 * compiler would take minutes, and speed does not matter there. */
#if defined(TENON_CPU_EMULATED)
#define INLINE static __attribute__((noinline, unused))
#else
#define INLINE static inline __attribute__((always_inline))
#endif

#define CPU_AHEAD 256u        /* bytes that one-token kernels prefetch ahead, in each row group */
#define CPU_MAX_ROW_GROUPS 4u /* groups that a kernel computes at once */
#define CPU_MAX_COLUMNS 6u    /* tokens that a kernel computes at once */
/* Tokens are packed in lots of this many; every tile width divides it. */
#define CPU_TOKEN_LOT 12u

/* Some segments of some row groups for one tile of tokens, class A8. */
typedef struct cpu_a8_args {
    const uint8_t *w[CPU_MAX_ROW_GROUPS]; /* each group's first byte */
    const cpu_segment *segments;
    uint64_t segment_count;
    const cpu_piece *pieces; /* of the weight */
    const int8_t *table;     /* CPU_TABLE */
    const int32_t *x;        /* the tile's packed x: records of piece 0 on */
    float *y;                /* added to: column c at y + c * y_stride, group r at + 16 r */
    uint64_t y_stride;       /* floats */
    uint32_t scale, minima;
} cpu_a8_args;
typedef void cpu_a8_kernel(const cpu_a8_args *args);

/* The kernels of one combination of storage, dot and kind. */
typedef struct cpu_a8_tiles {
    cpu_a8_kernel *one;                       /* one token, cpu_level.one_groups row groups */
    cpu_a8_kernel *many[CPU_MAX_COLUMNS + 1]; /* by tokens; cpu_level.many_groups row groups */
} cpu_a8_tiles;

/* All segments of some row groups for one tile of tokens, class F32, from the packed weight. */
typedef struct cpu_f32_direct_args {
    const uint8_t *w[CPU_MAX_ROW_GROUPS];
    const tenon_prepared *weight;
    const float *x;    /* [input][columns] */
    const float *sums; /* X: [block][columns] */
    float *y;          /* added to, as in cpu_a8_args */
    uint64_t y_stride;
} cpu_f32_direct_args;
typedef void cpu_f32_direct(const cpu_f32_direct_args *args);

/* One segment of row groups for one tile of tokens, class F32, from expanded floats. */
typedef struct cpu_f32_args {
    const float *q[CPU_MAX_ROW_GROUPS]; /* [input][16] */
    const float *s[CPU_MAX_ROW_GROUPS]; /* [block][16], NULL: no scale step */
    const float *n[CPU_MAX_ROW_GROUPS]; /* [block][16] of -m, NULL: no minima */
    const float *x;                     /* [input][columns] */
    const float *sums;                  /* [block][columns] */
    uint64_t blocks, padded, last_padded;
    float *y;
    uint64_t y_stride;
} cpu_f32_args;
typedef void cpu_f32_kernel(const cpu_f32_args *args);

/* Writes the codes of one segment of one group as floats, and its scales and minima. */
typedef void cpu_f32_expand(const tenon_prepared *weight, const cpu_segment *segment,
                            const uint8_t *group, float *q, float *s, float *n);

typedef struct cpu_level {
    const char *name;
    uint8_t byte_bias;      /* added to signed 8-bit codes of class A8 at packing */
    uint8_t wide[CPU_DOTS]; /* cpu_form.wide */
    uint8_t one_groups, many_groups;
    /* Products per nanosecond, roughly: decides only how work is split, never a result. */
    uint8_t rate_a8, rate_f32;
    /* Rounds one row of activations (SPEC.md 2.3). u: cols rounded up to 32, zero filled; d: one,
     * sums: two (of 16 inputs each) per block of 32. */
    void (*quantize)(const float *x, uint64_t cols, int8_t *u, float *d, int32_t *sums);
    const cpu_a8_tiles *(*a8)(uint32_t storage, uint32_t dot, uint32_t kind);
    /* By tokens, NULL where expanding pays: [1] for one_groups row groups, others many_groups. */
    cpu_f32_direct *f32_direct[CPU_MAX_COLUMNS + 1][CPU_STORAGES];
    cpu_f32_expand *f32_expand[CPU_STORAGES];
    cpu_f32_kernel *f32_many[CPU_MAX_COLUMNS + 1];
} cpu_level;

/* The levels of this file, the least first, ended by NULL. */
extern const cpu_level *const cpu_levels[];
/* May this level run on this processor under this operating system? Otherwise *lacks names the
 * first thing that is missing, static storage. [any thread] */
int cpu_level_usable(const cpu_level *level, const char **lacks);
/* The processor's own name, NUL-terminated and trimmed; "CPU" where it does not tell. */
void cpu_brand(char *name, size_t room);

extern const cpu_level cpu_level_portable;
extern const cpu_level cpu_level_avx2;
extern const cpu_level cpu_level_avx512;
extern const cpu_level cpu_level_avx512vnni;

#endif
