/* What an instruction-set level is to the whole operations (SPEC.md 2.4): a table of functions.
 *
 * Only kernels/op_<level>.c is compiled with the instructions of its level. Rows may have any
 * length; nothing is read or written outside them unless it is said here. */
#ifndef TENON_CPU_OPERATIONS_H
#define TENON_CPU_OPERATIONS_H

#include "level.h"

/* One query head of one row of attention. Rows of k and v are padded with zeros to stride elements,
 * a multiple of 16, and so is q. */
typedef struct cpu_attention_args {
    const float *q;    /* [stride], rotated */
    const void *k, *v; /* [position][stride] of the key-value head: float, or binary16 */
    uint64_t stride;
    uint64_t first, end; /* visible positions */
    float scale;
    float *scores; /* room for the positions from first rounded down to 16 to end rounded up */
    float *y;      /* [stride] */
} cpu_attention_args;

typedef struct cpu_operations {
    void (*add)(const float *a, const float *b, uint64_t count, float *y);
    /* activation: TENON_ACT_* */
    void (*gated)(uint32_t activation, const float *gate, const float *up, uint64_t count,
                  float *y);
    void (*rmsnorm)(const float *x, const float *w, uint64_t count, float eps, float *y);
    uint32_t (*argmax)(const float *x, uint64_t count);
    /* y = x with pairs of its first 2 * pairs inputs rotated; adjacent: (0, 1), (2, 3), ..., else
     * (i, i + pairs). c and s have room for pairs rounded up to 16. y may be x. */
    void (*rotate)(const float *x, uint64_t count, uint64_t pairs, int adjacent, const float *c,
                   const float *s, float *y);
    void (*attention_f32)(const cpu_attention_args *args);
    void (*attention_f16)(const cpu_attention_args *args);
    /* y = s * q, or fma(s, q, n) where n is not NULL, or q where s is NULL; then times factor unless
     * that is 1. Arrays have room for count rounded up to 16, but for y. */
    void (*weigh)(const float *q, const float *s, const float *n, uint64_t count, float factor,
                  float *y);
} cpu_operations;

/* The functions of a level that cpu_level_usable allows. [any thread] */
const cpu_operations *cpu_operations_of(const cpu_level *level);

extern const cpu_operations cpu_operations_portable;
extern const cpu_operations cpu_operations_avx2;
extern const cpu_operations cpu_operations_avx512;

#endif
