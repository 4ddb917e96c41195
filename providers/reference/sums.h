/* The sums of SPEC.md 2.4 over one row: sixteen partial results, then one tree. [any thread] */
#ifndef TENON_REFERENCE_SUMS_H
#define TENON_REFERENCE_SUMS_H

#include <stdint.h>

float reference_dot16(const float *x, const float *y, uint64_t count);

/* Adds the sixteen partial results of a sum up; p is used up. */
float reference_sum_lanes(float p[16]);

#endif
