/* The exponential function of the reference against binary64, in units of the last place.
 *
 * A sample of the inputs always; all 2^32 of them with TENON_LONG=1 in the environment (minutes). */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "exp.h"
#include "runner.h"

/* The bounds that SPEC.md 2.4 states. */
#define NORMAL_BOUND 0.8922
#define SUBNORMAL_BOUND 0.8578

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The worst error seen so far, for results that are normal and for those that are subnormal. */
typedef struct worst {
    double normal, subnormal;
    float normal_at, subnormal_at;
} worst;

/* The C library's binary64 exp is off by less than 2^-52 of its result: 2^-28 units here. */
static void check(float x, worst *seen)
{
    float have = reference_exp(x);
    double want, unit, error;
    int exponent;

    if (isnan(x) && isnan(have)) return;
    /* Not ck_assert: Check notes every assertion that holds, and these are billions. */
    if (!(have >= 0.0f) || signbit(have)) ck_abort_msg("exp(%a) is %a", (double)x, (double)have);
    want = exp((double)x);
    if (want >= 0x1.ffffffp127) { /* at least half a unit above the greatest float */
        if (!isinf(have)) ck_abort_msg("exp(%a) is %a", (double)x, (double)have);
        return;
    }
    (void)frexp(want, &exponent); /* want = f * 2^exponent with f in [0.5, 1) */
    unit = ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
    /* A result that is infinite where the true one is not counts as the next float would. */
    error = fabs((isinf(have) ? 0x1p128 : (double)have) - want) / unit;
    if (want >= 0x1p-126) {
        if (error > seen->normal) {
            seen->normal = error;
            seen->normal_at = x;
        }
    } else if (error > seen->subnormal) {
        seen->subnormal = error;
        seen->subnormal_at = x;
    }
}

static void report(const worst *seen, uint64_t inputs)
{
    printf("exp over %llu inputs: at most %.5f units (at %a), subnormal results %.5f (at %a)\n",
           (unsigned long long)inputs, seen->normal, (double)seen->normal_at, seen->subnormal,
           (double)seen->subnormal_at);
    ck_assert_double_le(seen->normal, NORMAL_BOUND);
    ck_assert_double_le(seen->subnormal, SUBNORMAL_BOUND);
}

/* Every 1021st of all bit patterns; more densely where the results are subnormal. */
START_TEST(a_sample_of_all_inputs)
{
    worst seen = {0};
    uint64_t bits, inputs = 0;

    for (bits = 0; bits <= UINT32_MAX; bits += 1021, inputs++)
        check(float_of((uint32_t)bits), &seen);
    for (bits = bits_of(-87.0f); bits <= bits_of(-105.0f); bits += 31, inputs++)
        check(float_of((uint32_t)bits), &seen);
    report(&seen, inputs);
    /* The sample is good enough to tell: the worst of all inputs is not far. */
    ck_assert_double_ge(seen.normal, 0.80);
    ck_assert_double_ge(seen.subnormal, 0.75);
}
END_TEST

START_TEST(every_input)
{
    const char *wanted = getenv("TENON_LONG");
    worst seen = {0};
    uint64_t bits;

    if (wanted == NULL || strcmp(wanted, "1") != 0) {
        runner_skip("all 2^32 inputs take minutes: set TENON_LONG=1");
        return;
    }
    for (bits = 0; bits <= UINT32_MAX; bits++) check(float_of((uint32_t)bits), &seen);
    report(&seen, bits);
    ck_assert_double_ge(seen.normal, NORMAL_BOUND - 1e-3); /* the stated bounds are the true ones */
    ck_assert_double_ge(seen.subnormal, SUBNORMAL_BOUND - 1e-3);
}
END_TEST

/* Results that the order of operations fixes: a change of any step shows here. */
START_TEST(known_values)
{
    ck_assert(isnan(reference_exp(NAN)));
    ck_assert_uint_eq(bits_of(reference_exp(INFINITY)), 0x7f800000u);
    ck_assert_uint_eq(bits_of(reference_exp(-INFINITY)), 0u);
    ck_assert_uint_eq(bits_of(reference_exp(0.0f)), 0x3f800000u);
    ck_assert_uint_eq(bits_of(reference_exp(-0.0f)), 0x3f800000u);
    ck_assert_uint_eq(bits_of(reference_exp(1e30f)), 0x7f800000u);
    ck_assert_uint_eq(bits_of(reference_exp(-1e30f)), 0u);
    ck_assert_uint_eq(bits_of(reference_exp(0x1p-149f)), 0x3f800000u);
    ck_assert_uint_eq(bits_of(reference_exp(0x1.62e42ep6f)), bits_of(0x1.ffff08p127f));
    ck_assert_uint_eq(bits_of(reference_exp(0x1.62e430p6f)), 0x7f800000u);
    ck_assert_uint_eq(bits_of(reference_exp(-103.97f)), 1u);
    ck_assert_uint_eq(bits_of(reference_exp(-103.98f)), 0u);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exp");
    TCase *tcase = tcase_create("exp");
    tcase_set_timeout(tcase, 3600);
    tcase_add_test(tcase, known_values);
    tcase_add_test(tcase, a_sample_of_all_inputs);
    tcase_add_test(tcase, every_input);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
