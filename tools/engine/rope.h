/* Rotation tables: the cosine and sine of every position and pair, as tenon_cache_create wants
 * them. Made once in binary64, so that every provider rotates with the same numbers. */
#ifndef TENON_TOOLS_ENGINE_ROPE_H
#define TENON_TOOLS_ENGINE_ROPE_H

#include <stdint.h>

typedef struct rope_rule {
    uint64_t rotary;      /* inputs of a head that are rotated, even, at least 2 */
    double base;          /* angle of pair i: position * base^(-2i / rotary), then: */
    double factor;        /* divided by this one for all (linear scaling; 1: none), */
    const float *factors; /* and by one for each pair [rotary / 2] (NULL: none) */
} rope_rule;

/* A table float32 [positions][rotary / 2][2] that the caller frees. NULL when memory is out or the
 * size does not fit. *bytes: its size. */
float *rope_table(const rope_rule *rule, uint64_t positions, uint64_t *bytes);

#endif
