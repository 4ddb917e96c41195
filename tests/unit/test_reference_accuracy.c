/* How far the reference is from the true product: class F32 against float64, class A8 against class
 * F32, and the inputs that have broken other implementations. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include "../golden/reference_fixture.h"
#include "decode.h"
#include "runner.h"

static fixture self;
static void setup(void)
{
    fixture_open(&self);
}
static void teardown(void)
{
    fixture_close(&self);
}

/* splitmix64, and a sum of twelve uniform values: normal enough, mean 0 and deviation 1 */
static uint64_t state;
static uint64_t random_u64(void)
{
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static float random_normal(void)
{
    double sum = -6.0;
    int i;
    for (i = 0; i < 12; i++) sum += (double)(random_u64() >> 11) * 0x1p-53;
    return (float)sum;
}

/* ------------------------------------------------------------------------------ weights and truth */

typedef struct problem {
    tenon_weight_desc desc;
    uint8_t *codes;
    float *scales; /* or bytes */
    float *x, *y, *y_a8;
    double *truth, *magnitude; /* sum of w x, and of |w x| */
} problem;

/* Binary16 scales of a block, up to two: offsets, -1 where there is none. */
static void half_offsets(uint32_t format, int offsets[2])
{
    offsets[0] = 0;
    offsets[1] = -1;
    switch (format) {
    case TENON_FORMAT_Q4_1:
    case TENON_FORMAT_Q5_1:
    case TENON_FORMAT_Q4_K:
    case TENON_FORMAT_Q5_K: offsets[1] = 2; break;
    case TENON_FORMAT_Q2_K: offsets[0] = 80, offsets[1] = 82; break;
    case TENON_FORMAT_Q3_K: offsets[0] = 108; break;
    case TENON_FORMAT_Q6_K: offsets[0] = 208; break;
    case TENON_FORMAT_TQ1_0: offsets[0] = 52; break;
    case TENON_FORMAT_TQ2_0: offsets[0] = 64; break;
    case TENON_FORMAT_MXFP4:
    case TENON_FORMAT_NVFP4: offsets[0] = -1; break;
    default: break;
    }
}

/* 100-fold apart, one in eight negative: about 2^-9 to 2^-2 */
static uint16_t some_half(void)
{
    uint16_t bits = (uint16_t)(0x1800 + random_u64() % 0x1c00);
    return random_u64() % 8 == 0 ? (uint16_t)(bits | 0x8000) : bits;
}

static void fill_block(uint32_t format, uint8_t *block, uint32_t bytes)
{
    int offsets[2], k;
    uint32_t i;
    for (i = 0; i < bytes; i++) block[i] = (uint8_t)random_u64();
    half_offsets(format, offsets);
    for (k = 0; k < 2; k++) {
        uint16_t half = some_half();
        if (offsets[k] < 0) continue;
        block[offsets[k]] = (uint8_t)half;
        block[offsets[k] + 1] = (uint8_t)(half >> 8);
    }
    if (format == TENON_FORMAT_MXFP4) block[0] = (uint8_t)(118 + random_u64() % 8);
    for (i = 0; format == TENON_FORMAT_NVFP4 && i < 4; i++) block[i] &= 0x3f;
}

static void fill_weight(problem *p, uint64_t codes, uint64_t scales)
{
    tenon_format_info info;
    uint64_t i;

    ck_assert_int_eq(tenon_format_find(p->desc.format, &info), 1);
    for (i = 0; i < codes; i++) p->codes[i] = (uint8_t)random_u64();
    if (info.block_inputs == 1) { /* F32, F16, BF16 */
        for (i = 0; i < codes / info.block_bytes; i++) {
            uint32_t bits = bits_of(random_normal());
            uint16_t half = (uint16_t)(some_half() + 0x1400);
            uint8_t *at = p->codes + i * info.block_bytes;
            if (p->desc.format == TENON_FORMAT_F32) memcpy(at, &bits, 4);
            if (p->desc.format == TENON_FORMAT_BF16)
                at[0] = (uint8_t)(bits >> 16), at[1] = (uint8_t)(bits >> 24);
            if (p->desc.format == TENON_FORMAT_F16)
                at[0] = (uint8_t)half, at[1] = (uint8_t)(half >> 8);
        }
    } else if (info.block_inputs != 0) {
        for (i = 0; i < codes; i += info.block_bytes)
            fill_block(p->desc.format, p->codes + i, info.block_bytes);
    } else if (p->desc.format == TENON_FORMAT_MXFP4_GROUP32) {
        for (i = 0; i < scales; i++) ((uint8_t *)p->scales)[i] = (uint8_t)(118 + random_u64() % 8);
    } else {
        for (i = 0; i < scales / 4; i++)
            p->scales[i] = ldexpf(1.0f + (float)(random_u64() % 1024) / 1024.0f,
                                  -(int)(random_u64() % 7) - 3);
        if (p->desc.format == TENON_FORMAT_FP8_E4M3_B128)
            for (i = 0; i < codes; i++)
                if ((p->codes[i] & 127) == 127) p->codes[i] ^= 1;
    }
}

static void make_problem(problem *p, uint32_t format, uint32_t layout, uint64_t group,
                         uint64_t rows, uint64_t cols)
{
    uint64_t codes, scales, i;
    uint32_t reason;

    p->desc = fixture_desc(format, layout, group, rows, cols, TENON_CLASS_F32);
    ck_assert_int_eq(tenon_weight_bytes(&p->desc, &codes, &scales, &reason), TENON_OK);
    p->codes = malloc((size_t)codes);
    p->scales = malloc((size_t)scales + 4);
    p->x = malloc((size_t)cols * 4);
    p->y = malloc((size_t)rows * 4);
    p->y_a8 = malloc((size_t)rows * 4);
    p->truth = malloc((size_t)rows * 8);
    p->magnitude = malloc((size_t)rows * 8);
    ck_assert(p->codes && p->scales && p->x && p->y && p->y_a8 && p->truth && p->magnitude);
    fill_weight(p, codes, scales);
    for (i = 0; i < cols; i++) p->x[i] = random_normal();
}

static void free_problem(problem *p)
{
    free(p->codes);
    free(p->scales);
    free(p->x);
    free(p->y);
    free(p->y_a8);
    free(p->truth);
    free(p->magnitude);
}

/* The product in double, from the decoded weights that the golden vectors vouch for. */
static void solve(problem *p)
{
    reference_weight weight;
    uint64_t row, first;

    reference_weight_describe(&weight, &p->desc, p->codes, (const uint8_t *)p->scales);
    for (row = 0; row < p->desc.rows; row++) {
        reference_segment segment;
        p->truth[row] = p->magnitude[row] = 0.0;
        for (first = 0; first < p->desc.cols; first += segment.inputs) {
            uint32_t i;
            reference_decode(&weight, row, first, &segment);
            for (i = 0; i < segment.inputs; i++) {
                uint32_t b = i / segment.block;
                double s = weight.info.block_inputs == 1 ? 1.0 : (double)segment.s[b];
                double w = s * (double)segment.q[i] - (double)segment.m[b], x = p->x[first + i];
                p->truth[row] += w * x;
                p->magnitude[row] += fabs(w * x);
            }
        }
    }
}

static void run_f32(problem *p)
{
    p->desc.arith = TENON_CLASS_F32;
    fixture_product(&self, &p->desc, p->codes, p->scales, p->x, 1, p->y);
}

static void run_a8(problem *p)
{
    p->desc.arith = TENON_CLASS_A8;
    fixture_product(&self, &p->desc, p->codes, p->scales, p->x, 1, p->y_a8);
    p->desc.arith = TENON_CLASS_F32;
}

/* SPEC.md 2.5: within 3e-7 of the sum of |w x|. */
static void check_f32(const problem *p, double bound)
{
    uint64_t row;
    for (row = 0; row < p->desc.rows; row++) {
        double error = fabs((double)p->y[row] - p->truth[row]);
        ck_assert_msg(error <= bound * p->magnitude[row],
                      "format %u, cols %llu, row %llu: error %g of %g", p->desc.format,
                      (unsigned long long)p->desc.cols, (unsigned long long)row, error,
                      p->magnitude[row]);
    }
}

static double cosine(const float *a, const float *b, uint64_t count)
{
    double ab = 0, aa = 0, bb = 0;
    uint64_t i;
    for (i = 0; i < count; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Calls body(problem, info) for every format, layout and a few row lengths. */
typedef void problem_body(problem *p, const tenon_format_info *info);
static uint32_t each_problem(problem_body *body)
{
    static const uint64_t lengths[] = {32, 64, 96, 160, 192, 224, 256, 576, 768, 1536, 4096};
    tenon_format_info info;
    uint32_t index, format, layout, made = 0;
    size_t n;

    state = 11;
    for (index = 0; (format = tenon_format_at(index)) != 0; index++) {
        ck_assert_int_eq(tenon_format_find(format, &info), 1);
        for (layout = 0; layout <= 2; layout++) {
            for (n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
                tenon_weight_desc desc = fixture_desc(format, layout,
                                                      info.arith_block == 1 ? 48 : 0, 24,
                                                      lengths[n], TENON_CLASS_F32);
                uint64_t codes, scales;
                uint32_t reason;
                problem p;
                if (tenon_weight_bytes(&desc, &codes, &scales, &reason) != TENON_OK) continue;
                make_problem(&p, format, layout, desc.group_size, desc.rows, desc.cols);
                body(&p, &info);
                free_problem(&p);
                made++;
            }
        }
    }
    return made;
}

/* ----------------------------------------------------------------------------------------- tests */

static void f32_body(problem *p, const tenon_format_info *info)
{
    (void)info;
    solve(p);
    run_f32(p);
    check_f32(p, 3e-7);
}

START_TEST(class_f32_is_close_to_float64)
{
    ck_assert_uint_ge(each_problem(f32_body), 200);
}
END_TEST

static double lowest_cosine;
static void a8_body(problem *p, const tenon_format_info *info)
{
    double c;
    if ((info->traits & TENON_TRAIT_FLOATS) != 0) return;
    run_f32(p);
    run_a8(p);
    c = cosine(p->y, p->y_a8, p->desc.rows);
    if (c < lowest_cosine) lowest_cosine = c;
    ck_assert_msg(c >= 0.9997, "format %u, cols %llu: cosine %.6f", p->desc.format,
                  (unsigned long long)p->desc.cols, c);
}

START_TEST(class_a8_is_close_to_class_f32)
{
    lowest_cosine = 1.0;
    ck_assert_uint_ge(each_problem(a8_body), 200);
    ck_assert(lowest_cosine < 1.0); /* it does round */
}
END_TEST

/* 32 times 3000, then 32 times -60000: sums that overflow binary16. */
START_TEST(large_sums_stay_finite_and_close)
{
    static const uint32_t formats[] = {TENON_FORMAT_Q4_1, TENON_FORMAT_Q5_1, TENON_FORMAT_Q2_K,
                                       TENON_FORMAT_Q4_K, TENON_FORMAT_Q5_K, TENON_FORMAT_Q8_0};
    size_t n;
    state = 12;
    for (n = 0; n < sizeof formats / sizeof formats[0]; n++) {
        problem p;
        uint64_t i, row;
        make_problem(&p, formats[n], 0, 0, 16, 512);
        for (i = 0; i < 512; i++) p.x[i] = i / 32 % 2 == 0 ? 3000.0f : -60000.0f;
        solve(&p);
        run_f32(&p);
        run_a8(&p);
        check_f32(&p, 3e-7);
        /* Blocks of equal values round to 127 times d but for the rounding of d itself. */
        for (row = 0; row < 16; row++) {
            double error = fabs((double)p.y_a8[row] - p.truth[row]);
            ck_assert(isfinite(p.y_a8[row]));
            ck_assert_msg(error <= 1e-6 * p.magnitude[row], "format %u: error %g of %g", formats[n],
                          error, p.magnitude[row]);
        }
        free_problem(&p);
    }
}
END_TEST

/* 4096 times 8 x 8 is 262144, exactly, in every float format. */
START_TEST(sums_beyond_binary16_are_exact)
{
    static uint8_t codes[4096 * 4];
    static float x[4096];
    const uint8_t f16[2] = {0x00, 0x48}, bf16[2] = {0x00, 0x41}, f32[4] = {0x00, 0x00, 0x00, 0x41};
    tenon_weight_desc desc;
    float y = 0;
    size_t i;

    for (i = 0; i < 4096; i++) x[i] = 8.0f;
    for (i = 0; i < 4096; i++) memcpy(codes + 2 * i, f16, 2);
    desc = fixture_desc(TENON_FORMAT_F16, 0, 0, 1, 4096, TENON_CLASS_F32);
    fixture_product(&self, &desc, codes, NULL, x, 1, &y);
    ck_assert(y == 262144.0f);
    for (i = 0; i < 4096; i++) memcpy(codes + 2 * i, bf16, 2);
    desc.format = TENON_FORMAT_BF16;
    fixture_product(&self, &desc, codes, NULL, x, 1, &y);
    ck_assert(y == 262144.0f);
    for (i = 0; i < 4096; i++) memcpy(codes + 4 * i, f32, 4);
    desc.format = TENON_FORMAT_F32;
    fixture_product(&self, &desc, codes, NULL, x, 1, &y);
    ck_assert(y == 262144.0f);
}
END_TEST

/* Group scales 100-fold apart inside a row: one scale for the whole row would be far off. */
START_TEST(unequal_group_scales)
{
    static const uint64_t groups[] = {32, 64, 128, 48};
    size_t n;
    uint32_t layout;
    state = 13;
    for (n = 0; n < sizeof groups / sizeof groups[0]; n++) {
        for (layout = TENON_LAYOUT_PAIR; layout <= TENON_LAYOUT_PLANAR; layout++) {
            problem p, flat;
            uint64_t i, across;
            make_problem(&p, TENON_FORMAT_INT4_GROUP, layout, groups[n], 24, 512);
            across = tenon_ceil_div_u64(512, groups[n]);
            for (i = 0; i < 24 * across; i++) p.scales[i] = i % across % 2 == 0 ? 0.001f : 0.1f;
            solve(&p);
            run_f32(&p);
            run_a8(&p);
            check_f32(&p, 3e-7);
            ck_assert(cosine(p.y, p.y_a8, 24) >= 0.9997);

            flat = p; /* the same codes, every group with the row's first scale */
            flat.scales = malloc((size_t)(24 * across) * 4);
            flat.y = malloc(24 * 4);
            ck_assert(flat.scales != NULL && flat.y != NULL);
            for (i = 0; i < 24 * across; i++) flat.scales[i] = p.scales[i / across * across];
            run_f32(&flat);
            ck_assert(fabs(cosine(p.y, flat.y, 24)) < 0.9);
            free(flat.scales);
            free(flat.y);
            free_problem(&p);
        }
    }
}
END_TEST

#if defined(__SSE2__)
#include <xmmintrin.h>
static uint32_t float_controls(void)
{
    return _mm_getcsr() & ~UINT32_C(0x3f);
} /* but the flags */
#else
static uint32_t float_controls(void)
{
    return (uint32_t)fegetround();
}
#endif

/* Subnormal activations: kept in class F32, zero in class A8; the float mode is left alone. */
START_TEST(subnormal_activations)
{
    uint8_t codes[32 * 4];
    float x[32], y = -1.0f, sum = 0.0f;
    const float one = 1.0f;
    uint32_t before = float_controls(), i;
    tenon_weight_desc desc = fixture_desc(TENON_FORMAT_F32, 0, 0, 1, 32, TENON_CLASS_F32);

    for (i = 0; i < 32; i++) {
        memcpy(codes + 4 * i, &one, 4);
        x[i] = 1e-40f;
        sum += x[i]; /* exact: the values are multiples of 2^-149 and the sum has 24 bits */
    }
    fixture_product(&self, &desc, codes, NULL, x, 1, &y);
    ck_assert_uint_eq(bits_of(y), bits_of(sum));
    ck_assert(y > 3.1e-39f && y < 3.3e-39f);

    memset(codes, 1, sizeof codes);
    desc = fixture_desc(TENON_FORMAT_INT8_ROW, 0, 0, 1, 32, TENON_CLASS_F32);
    fixture_product(&self, &desc, codes, &one, x, 1, &y);
    ck_assert_uint_eq(bits_of(y), bits_of(sum));
    desc.arith = TENON_CLASS_A8;
    fixture_product(&self, &desc, codes, &one, x, 1, &y);
    ck_assert_uint_eq(bits_of(y), 0); /* +0 */
    ck_assert_uint_eq(float_controls(), before);
}
END_TEST

/* One activation that is not finite makes NaN of class A8 rows, and only of its own token. */
START_TEST(activations_that_are_not_finite)
{
    static uint8_t codes[3 * 64];
    float x[3 * 64], y[9];
    const float scales[3] = {1.0f, 0.0f, -2.0f};
    tenon_weight_desc desc = fixture_desc(TENON_FORMAT_INT8_ROW, 0, 0, 3, 64, TENON_CLASS_A8);
    uint32_t i;

    memset(codes, 0, sizeof codes); /* even codes of zero: 0 times d is NaN */
    for (i = 0; i < 3 * 64; i++) x[i] = 1.0f;
    x[64 + 40] = -INFINITY;
    x[128 + 3] = NAN;
    fixture_product(&self, &desc, codes, scales, x, 3, y);
    for (i = 0; i < 3; i++) ck_assert_uint_eq(bits_of(y[i]), 0);
    for (i = 3; i < 9; i++) ck_assert(isnan(y[i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reference accuracy");
    TCase *tcase = tcase_create("accuracy");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, class_f32_is_close_to_float64);
    tcase_add_test(tcase, class_a8_is_close_to_class_f32);
    tcase_add_test(tcase, large_sums_stay_finite_and_close);
    tcase_add_test(tcase, sums_beyond_binary16_are_exact);
    tcase_add_test(tcase, unequal_group_scales);
    tcase_add_test(tcase, subnormal_activations);
    tcase_add_test(tcase, activations_that_are_not_finite);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
