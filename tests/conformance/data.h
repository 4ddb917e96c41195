/* Data of a case, all of it from one seed: weights of every format, activations, special values. */
#ifndef TENON_CONFORMANCE_DATA_H
#define TENON_CONFORMANCE_DATA_H

#include <stdbool.h>
#include <tenon/format.h>

/* A small generator (splitmix64): the same sequence everywhere. */
typedef struct random_state {
    uint64_t state;
} random_state;

uint64_t random_u64(random_state *self);
/* In [0, below), below > 0. */
uint64_t random_below(random_state *self, uint64_t below);
/* About normal, mean 0, deviation 1, within +-6. */
float random_normal(random_state *self);

/* What kind of values. */
typedef enum data_kind {
    DATA_ORDINARY = 0, /* finite values; scales of one row differ up to 100-fold */
    DATA_SPECIAL,      /* any bits at all: subnormal, infinite and NaN scales included */
    DATA_LARGE_SUMS,   /* open case N05: 32 times 3000, 32 times -60000, ... */
    DATA_HALF_SUMS,    /* open case N06: all weights and activations 8 where a float format */
    DATA_TINY,         /* open case N18: activations near 1e-40, around 2^-40 for class A8 */
    DATA_BATCHES       /* open case N19: ordinary data, every S from 1 to 9, 16 and 33 */
} data_kind;

/* Fills the weights and scales of a shape whose sizes tenon_weight_bytes told. */
void data_fill_weight(random_state *random, data_kind kind, const tenon_weight_desc *desc,
                      uint8_t *weights, uint64_t weights_bytes, uint8_t *scales,
                      uint64_t scales_bytes);

/* Fills one row of activations; different rows of one case get different patterns. */
void data_fill_row(random_state *random, data_kind kind, uint64_t row, float *x, uint64_t cols);

/* Where rows [first, first + rows) of a weight begin in its two arrays, and how many bytes of
 * scales they have. first must be a multiple of data_row_step. */
uint64_t data_weight_offset(const tenon_weight_desc *desc, uint64_t first);
uint64_t data_scale_offset(const tenon_weight_desc *desc, uint64_t first);
/* 128 for formats whose scales belong to blocks of rows, else 1. */
uint64_t data_row_step(uint32_t format);

#endif
