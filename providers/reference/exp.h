/* The exponential function of SPEC.md 2.4. */
#ifndef TENON_REFERENCE_EXP_H
#define TENON_REFERENCE_EXP_H

/* e^x, at most 0.9 units in the last place off; +inf above 88.72, 0 below -103.97. [any thread] */
float reference_exp(float x);

#endif
