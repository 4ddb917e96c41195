/* The gates of class APPROX (SPEC.md 2): what an answer may differ by that is not exact. */
#ifndef TENON_CONFORMANCE_APPROX_H
#define TENON_CONFORMANCE_APPROX_H

#include "case.h"

/* Are tokens rows of y (each rows floats, got_stride floats from one to the next; want without gaps)
 * within the gates? Finite where want is; the cosine of all of it, and of each row of 16 and more, not
 * under 0.995; the same argmax in each row whose two best differ by more than the error allowed. False:
 * the failure set, with where in its words. */
bool approx_within(const float *got, uint64_t got_stride, const float *want, uint64_t rows,
                   uint64_t tokens, const char *where, conformance_result *result);

#endif
