/* The reference's fused multiply-add against exact fixed-point arithmetic. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "fma_exact.h"
#include "runner.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* splitmix64 */
static uint64_t state;
static uint64_t random_u64(void)
{
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* --------------------------------------------------------------------------- the exact checker
 * A two's complement number of 640 bits whose last bit is worth 2^-298: every product of two floats
 * and every float is a multiple of that and below 2^257. */
#define LIMBS 20
#define LAST_BIT (-298)

typedef struct wide {
    uint32_t limb[LIMBS]; /* least significant first */
} wide;

static void wide_negate(wide *self)
{
    uint64_t carry = 1;
    int i;
    for (i = 0; i < LIMBS; i++) {
        carry += (uint32_t)~self->limb[i];
        self->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* magnitude * 2^exponent, magnitude below 2^48 */
static wide wide_of(uint64_t magnitude, int exponent, int negative)
{
    wide self = {{0}};
    int shift = exponent - LAST_BIT, i = shift / 32;
    uint64_t low = (magnitude & 0xffffffu) << shift % 32;
    uint64_t high = (magnitude >> 24) << shift % 32; /* 24 bits further up */
    uint64_t carry = 0;
    int k;

    for (k = i; k < LIMBS && k < i + 4; k++) {
        uint64_t part = carry;
        if (k == i) part += low & 0xffffffffu;
        if (k == i + 1) part += low >> 32;
        if (k == i) part += (high << 24) & 0xffffffffu;
        if (k == i + 1) part += (high << 24 >> 32) & 0xffffffffu;
        if (k == i + 2) part += high >> 40;
        self.limb[k] = (uint32_t)part;
        carry = part >> 32;
    }
    if (negative) wide_negate(&self);
    return self;
}

static wide wide_sum(const wide *a, const wide *b)
{
    wide self;
    uint64_t carry = 0;
    int i;
    for (i = 0; i < LIMBS; i++) {
        carry += (uint64_t)a->limb[i] + b->limb[i];
        self.limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return self;
}

static int wide_bit(const wide *self, int index)
{
    return index >= 0 && (self->limb[index / 32] >> index % 32 & 1) != 0;
}

/* Rounds a number that is not zero to nearest even. */
static float wide_round(wide self)
{
    int negative = (self.limb[LIMBS - 1] >> 31) != 0, top = LIMBS * 32 - 1, last, i, sticky = 0;
    uint32_t kept = 0;

    if (negative) wide_negate(&self);
    while (!wide_bit(&self, top)) top--;
    last = top - 23 > -149 - LAST_BIT ? top - 23 : -149 - LAST_BIT; /* the last bit kept */
    for (i = top; i >= last; i--) kept = kept << 1 | (uint32_t)wide_bit(&self, i);
    for (i = 0; i < last - 1; i++) sticky |= wide_bit(&self, i);
    if (wide_bit(&self, last - 1) && (sticky || (kept & 1) != 0)) kept++;
    /* kept is at most 2^24; ldexpf is exact, or overflows to infinity as rounding does */
    return negative ? -ldexpf((float)kept, last + LAST_BIT) : ldexpf((float)kept, last + LAST_BIT);
}

static void take_apart(float value, uint32_t *magnitude, int *exponent, int *negative)
{
    uint32_t bits = bits_of(value), field = bits >> 23 & 255;
    *magnitude = (bits & 0x7fffffu) | (field != 0 ? 0x800000u : 0);
    *exponent = (field != 0 ? (int)field : 1) - 150;
    *negative = (bits >> 31) != 0;
}

/* a, b and c are finite */
static float exact_fma(float a, float b, float c)
{
    uint32_t ma, mb, mc;
    int ea, eb, ec, na, nb, nc, i, zero = 1;
    wide product, addend, sum;

    take_apart(a, &ma, &ea, &na);
    take_apart(b, &mb, &eb, &nb);
    take_apart(c, &mc, &ec, &nc);
    product = wide_of((uint64_t)ma * mb, ea + eb, na != nb);
    addend = wide_of(mc, ec, nc);
    sum = wide_sum(&product, &addend);
    for (i = 0; i < LIMBS; i++) zero = zero && sum.limb[i] == 0;
    if (!zero) return wide_round(sum);
    /* An exact zero is negative only when it is the sum of two negative zeros. */
    return (ma == 0 || mb == 0) && mc == 0 && na != nb && nc ? -0.0f : 0.0f;
}

static void check(float a, float b, float c)
{
    float have = reference_fma(a, b, c), want = exact_fma(a, b, c);
    ck_assert_msg(bits_of(have) == bits_of(want), "fma(%a, %a, %a): have %a, want %a", (double)a,
                  (double)b, (double)c, (double)have, (double)want);
}

/* --------------------------------------------------------------------------------------- tests */

static float random_finite(void)
{
    for (;;) {
        float value = float_of((uint32_t)random_u64());
        if (isfinite(value)) return value;
    }
}

/* A value whose exponent is within some steps of one. */
static float random_near_one(int steps)
{
    uint32_t bits = (uint32_t)random_u64() & 0x807fffffu;
    uint32_t field = 127u - (uint32_t)steps + (uint32_t)(random_u64() % (2u * (uint32_t)steps + 1));
    return float_of(bits | field << 23);
}

START_TEST(any_finite_bits)
{
    int i;
    state = 1;
    for (i = 0; i < 100000; i++) check(random_finite(), random_finite(), random_finite());
}
END_TEST

START_TEST(exponents_that_meet)
{
    int i;
    state = 2;
    for (i = 0; i < 100000; i++)
        check(random_near_one(20), random_near_one(20), random_near_one(40));
}
END_TEST

/* The product and the addend cancel but for a few last bits. */
START_TEST(cancellation)
{
    int i;
    state = 3;
    for (i = 0; i < 100000; i++) {
        float a = random_near_one(60), b = random_near_one(60), c = -(a * b);
        uint32_t jitter = (uint32_t)(random_u64() % 5) - 2;
        if (random_u64() % 2 != 0) c = float_of(bits_of(c) + jitter);
        if (isfinite(c)) check(a, b, c);
    }
}
END_TEST

/* The product lies half way between two floats, and a tiny addend decides: a sum rounded to double
 * and then to float goes wrong here. */
START_TEST(ties_broken_far_below)
{
    uint64_t differs = 0;
    int i;
    state = 4;
    for (i = 0; i < 100000; i++) {
        /* (2^12 + 1) * (2^12 * odd): a significand of 25 bits and more */
        float a = ldexpf((float)(random_u64() % 4096 * 2 + 4097), (int)(random_u64() % 40) - 20);
        float b = ldexpf((float)(random_u64() % 8192 + 8192), (int)(random_u64() % 40) - 20);
        float c = ldexpf(random_near_one(1), -(int)(random_u64() % 100) - 30);
        check(a, b, c);
        check(a, b, -c);
        if ((float)((double)a * (double)b + (double)c) != reference_fma(a, b, c)) differs++;
    }
    ck_assert_uint_gt(differs, 0); /* the cases are hard enough to tell */
}
END_TEST

/* Results among the subnormals and at the edge of them. */
START_TEST(subnormal_results)
{
    int i;
    state = 5;
    for (i = 0; i < 100000; i++) {
        float a = ldexpf(random_near_one(10), -60), b = ldexpf(random_near_one(10), -75);
        float c = float_of((uint32_t)(random_u64() & 0x80ffffffu));
        check(a, b, c);
        check(a, float_of(bits_of(b) & 0x807fffffu), c);
    }
}
END_TEST

/* Results at the edge of infinity. */
START_TEST(overflow)
{
    int i;
    state = 6;
    for (i = 0; i < 100000; i++) {
        float a = ldexpf(random_near_one(1), 64), b = ldexpf(random_near_one(1), 63);
        float c = ldexpf(random_near_one(3), 125);
        check(a, b, isfinite(c) ? c : 0x1p127f);
    }
    check(0x1.fffffep127f, 1.0f, 0x1p103f);        /* rounds to infinity */
    check(0x1.fffffep127f, 1.0f, 0x1.fffffep102f); /* just does not */
    check(0x1.fffffep127f, 0x1.fffffep127f, -0x1.fffffep127f);
    check(0x1p-149f, 0x1p-149f, 0x1p-149f);
    check(0x1p-149f, 0x1p-149f, -0x1p-149f);
    check(0x1p-149f, 0.5f, 0.0f); /* a tie to zero */
    check(0x1.8p-149f, 0.5f, 0.0f);
}
END_TEST

START_TEST(zeros_keep_their_signs)
{
    const float zeros[2] = {0.0f, -0.0f}, ones[2] = {1.0f, -1.0f};
    int i, j, k;
    for (i = 0; i < 2; i++)
        for (j = 0; j < 2; j++)
            for (k = 0; k < 2; k++) {
                check(zeros[i], ones[j], zeros[k]);
                check(zeros[i], zeros[j], zeros[k]);
                check(ones[i], ones[j], ones[k]);
                check(0x1p-149f * ones[i], 0x1p-149f * ones[j], zeros[k]);
            }
}
END_TEST

START_TEST(infinities_and_nan)
{
    const float inf = INFINITY, nan = NAN, big = 0x1.fffffep127f;
    ck_assert(isnan(reference_fma(inf, 0.0f, 1.0f)));
    ck_assert(isnan(reference_fma(0.0f, -inf, nan)));
    ck_assert(isnan(reference_fma(inf, 1.0f, -inf)));
    ck_assert(isnan(reference_fma(nan, 1.0f, 1.0f)));
    ck_assert(isnan(reference_fma(1.0f, nan, 1.0f)));
    ck_assert(isnan(reference_fma(1.0f, 1.0f, nan)));
    ck_assert(isnan(reference_fma(nan, inf, inf)));
    ck_assert(reference_fma(inf, -2.0f, big) == -inf);
    ck_assert(reference_fma(inf, 2.0f, inf) == inf);
    /* The product overflows a float but is finite: the addend wins. */
    ck_assert(reference_fma(big, big, -inf) == -inf);
    ck_assert(reference_fma(big, -big, inf) == inf);
    ck_assert(reference_fma(big, 2.0f, -big) == big);
}
END_TEST

/* The checker itself, on results known beforehand. */
START_TEST(checker_is_sound)
{
    ck_assert(exact_fma(3.0f, 5.0f, -15.0f) == 0.0f);
    ck_assert(exact_fma(3.0f, 5.0f, 1.0f) == 16.0f);
    ck_assert(exact_fma(-0x1.000002p0f, 0x1.000002p0f, 1.0f) == -0x1.000001p-22f);
    ck_assert(exact_fma(0x1p-149f, 0x1p-149f, 1.0f) == 1.0f);
    ck_assert(exact_fma(0x1p127f, 2.0f, -0x1p127f) == 0x1p127f);
    ck_assert(exact_fma(0x1p127f, 2.0f, 0.0f) == INFINITY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fma");
    TCase *tcase = tcase_create("fma");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, checker_is_sound);
    tcase_add_test(tcase, any_finite_bits);
    tcase_add_test(tcase, exponents_that_meet);
    tcase_add_test(tcase, cancellation);
    tcase_add_test(tcase, ties_broken_far_below);
    tcase_add_test(tcase, subnormal_results);
    tcase_add_test(tcase, overflow);
    tcase_add_test(tcase, zeros_keep_their_signs);
    tcase_add_test(tcase, infinities_and_nan);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
