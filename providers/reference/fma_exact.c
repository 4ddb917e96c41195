/* a * b + c rounded once, from double arithmetic and a rounding to odd.
 *
 * The double product of two floats is exact: 48 bits of significand, exponents -298 to 256. The sum
 * with c is not, but its error is a double (two-sum), and an inexact sum that is forced to an odd
 * last bit rounds to float as the exact one would: double has more than two bits to spare, also
 * where the float is subnormal (Boldo and Melquiond, "When double rounding is odd", 2005). */
#include "fma_exact.h"

#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define DOUBLE_EXPONENT (UINT64_C(0x7ff) << 52)

float reference_fma(float a, float b, float c)
{
    double product = (double)a * (double)b;
    double addend = (double)c;
    double sum = product + addend;
    double part = sum - product;
    double error = (product - (sum - part)) + (addend - part);
    uint64_t bits;

    memcpy(&bits, &sum, sizeof bits);
    if ((bits & DOUBLE_EXPONENT) == DOUBLE_EXPONENT) return (float)sum; /* infinity or NaN */
    if (error != 0.0 && (bits & 1) == 0) {
        /* The exact sum lies between sum and one of its neighbours, which are both odd. */
        bits = (error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}
