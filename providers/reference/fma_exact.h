/* A true fused multiply-add in plain C: the C library's own one cannot be relied on. */
#ifndef TENON_REFERENCE_FMA_EXACT_H
#define TENON_REFERENCE_FMA_EXACT_H

/* a * b + c rounded once, to nearest even: subnormals kept, infinities and NaN as IEEE 754 says.
 * Needs the default rounding mode. [any thread] */
float reference_fma(float a, float b, float c);

#endif
