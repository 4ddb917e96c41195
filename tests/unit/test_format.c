/* The format table and its size functions: exact in 64 bits, or refused with the right reason. */
#include <string.h>
#include <tenon/format.h>

#include "runner.h"

/* Products too long for 64 bits, so that the check does not lean on what it checks. */
__extension__ typedef unsigned __int128 u128;

typedef struct expected {
    uint32_t format;
    const char *text;
    uint32_t inputs, bytes; /* of a stored block; separate scales: bytes of codes per inputs */
    uint32_t block;         /* B of SPEC.md 2.2, 0: row, 1: group */
    int int4;
} expected;

/* SPEC.md 3, written out once more. */
static const expected table[] = {
    {TENON_FORMAT_F32, "F32", 1, 4, 256, 0},
    {TENON_FORMAT_F16, "F16", 1, 2, 256, 0},
    {TENON_FORMAT_BF16, "BF16", 1, 2, 256, 0},
    {TENON_FORMAT_Q4_0, "Q4_0", 32, 18, 32, 0},
    {TENON_FORMAT_Q4_1, "Q4_1", 32, 20, 32, 0},
    {TENON_FORMAT_Q5_0, "Q5_0", 32, 22, 32, 0},
    {TENON_FORMAT_Q5_1, "Q5_1", 32, 24, 32, 0},
    {TENON_FORMAT_Q8_0, "Q8_0", 32, 34, 32, 0},
    {TENON_FORMAT_Q2_K, "Q2_K", 256, 84, 16, 0},
    {TENON_FORMAT_Q3_K, "Q3_K", 256, 110, 16, 0},
    {TENON_FORMAT_Q4_K, "Q4_K", 256, 144, 32, 0},
    {TENON_FORMAT_Q5_K, "Q5_K", 256, 176, 32, 0},
    {TENON_FORMAT_Q6_K, "Q6_K", 256, 210, 16, 0},
    {TENON_FORMAT_IQ4_NL, "IQ4_NL", 32, 18, 32, 0},
    {TENON_FORMAT_IQ4_XS, "IQ4_XS", 256, 136, 32, 0},
    {TENON_FORMAT_MXFP4, "MXFP4", 32, 17, 32, 0},
    {TENON_FORMAT_NVFP4, "NVFP4", 64, 36, 16, 0},
    {TENON_FORMAT_TQ1_0, "TQ1_0", 256, 54, 256, 0},
    {TENON_FORMAT_TQ2_0, "TQ2_0", 256, 66, 256, 0},
    {TENON_FORMAT_INT8_ROW, "int8-row", 1, 1, 0, 0},
    {TENON_FORMAT_INT4_ROW, "int4-row", 2, 1, 0, 1},
    {TENON_FORMAT_INT4_GROUP, "int4-group", 2, 1, 1, 1},
    {TENON_FORMAT_INT2_ROW, "int2-row", 4, 1, 0, 0},
    {TENON_FORMAT_INT3_GROUP64, "int3-group64", 64, 24, 64, 0},
    {TENON_FORMAT_MXFP4_GROUP32, "mxfp4-group32", 2, 1, 32, 0},
    {TENON_FORMAT_FP8_E4M3_B128, "fp8-e4m3-b128", 1, 1, 128, 0},
};
#define COUNT (sizeof table / sizeof table[0])

static tenon_weight_desc desc_of(const expected *row, uint64_t rows, uint64_t cols)
{
    return (tenon_weight_desc){TENON_HEAD(tenon_weight_desc),
                               .format = row->format,
                               .layout = row->int4 ? TENON_LAYOUT_PAIR : TENON_LAYOUT_NONE,
                               .group_size = row->block == 1 ? 128 : 0,
                               .rows = rows,
                               .cols = cols};
}

static uint32_t reason_of(const tenon_weight_desc *desc)
{
    uint64_t weights = 7, scales = 7;
    uint32_t reason = 12345;
    int32_t status = tenon_weight_bytes(desc, &weights, &scales, &reason);
    if (status == TENON_OK) {
        ck_assert_uint_eq(reason, TENON_REASON_NONE);
        ck_assert_uint_gt(weights, 0);
        return TENON_REASON_NONE;
    }
    ck_assert_int_eq(status, TENON_ARG);
    ck_assert_uint_eq(weights, 0);
    ck_assert_uint_eq(scales, 0);
    ck_assert_uint_ne(reason, TENON_REASON_NONE);
    return reason;
}

START_TEST(table_says_what_the_specification_says)
{
    tenon_format_info info;
    uint32_t i, j;
    for (i = 0; i < COUNT; i++) {
        int separate = table[i].format >= TENON_FORMAT_INT8_ROW;
        ck_assert_uint_eq(tenon_format_at(i), table[i].format);
        ck_assert_int_eq(tenon_format_find(table[i].format, &info), 1);
        ck_assert_str_eq(info.text, table[i].text);
        ck_assert_uint_eq(info.format, table[i].format);
        ck_assert_uint_eq(info.block_inputs, separate ? 0 : table[i].inputs);
        ck_assert_uint_eq(info.block_bytes, separate ? 0 : table[i].bytes);
        ck_assert_uint_eq(info.arith_block, table[i].block);
        ck_assert_int_eq(info.gguf < 0, separate);
        for (j = 0; j < i; j++) {
            tenon_format_info other;
            ck_assert_int_eq(tenon_format_find(table[j].format, &other), 1);
            ck_assert_uint_ne(table[i].format, table[j].format);
            ck_assert_str_ne(info.text, other.text);
            if (info.gguf >= 0) ck_assert_int_ne(info.gguf, other.gguf);
        }
    }
    ck_assert_uint_eq(tenon_format_at(COUNT), 0);
    ck_assert_int_eq(tenon_format_find(0, &info), 0);
    ck_assert_int_eq(tenon_format_find(63, &info), 0);
    ck_assert_int_eq(tenon_format_find(UINT32_MAX, &info), 0);
}
END_TEST

/* 65536 rows of 33024 inputs: 2,164,260,864 elements, beyond every 32-bit product. */
START_TEST(sizes_beyond_32_bits)
{
    const uint64_t rows = 65536, cols = 33024;
    uint32_t i;
    for (i = 0; i < COUNT; i++) {
        tenon_weight_desc desc = desc_of(&table[i], rows, cols);
        uint64_t weights, scales, want = cols / table[i].inputs * table[i].bytes;
        uint32_t reason;
        ck_assert_uint_eq(tenon_row_bytes(table[i].format, cols), want);
        ck_assert_int_eq(tenon_weight_bytes(&desc, &weights, &scales, &reason), TENON_OK);
        ck_assert_uint_eq(weights, want * 65536);
        switch (table[i].format) {
        case TENON_FORMAT_INT8_ROW:
        case TENON_FORMAT_INT4_ROW:
        case TENON_FORMAT_INT2_ROW: ck_assert_uint_eq(scales, 262144); break;
        case TENON_FORMAT_INT4_GROUP: ck_assert_uint_eq(scales, 67633152); break;    /* 258 a row */
        case TENON_FORMAT_INT3_GROUP64: ck_assert_uint_eq(scales, 135266304); break; /* 516 */
        case TENON_FORMAT_MXFP4_GROUP32: ck_assert_uint_eq(scales, 67633152); break; /* 1032 */
        case TENON_FORMAT_FP8_E4M3_B128: ck_assert_uint_eq(scales, 528384); break;   /* 512 * 258 */
        default: ck_assert_uint_eq(scales, 0); break;
        }
    }
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_F32, cols) * rows, UINT64_C(8657043456));
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_Q4_0, cols) * rows, UINT64_C(1217396736));
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_refused)
{
    const uint64_t cols[] = {UINT64_C(1) << 62, UINT64_C(1) << 63, UINT64_MAX - 255,
                             UINT64_MAX,        UINT64_MAX / 2,    UINT64_C(1) << 40};
    const uint64_t rows[] = {1, 2, 3, 5, 1000, UINT64_C(1) << 32, UINT64_MAX / 2, UINT64_MAX};
    uint32_t i, r, c;
    for (i = 0; i < COUNT; i++) {
        for (r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            for (c = 0; c < sizeof cols / sizeof cols[0]; c++) {
                tenon_weight_desc desc = desc_of(&table[i], rows[r], cols[c]);
                uint64_t weights, scales;
                uint32_t reason;
                u128 want;
                if (table[i].format < TENON_FORMAT_INT8_ROW && cols[c] % table[i].inputs != 0) {
                    ck_assert_uint_eq(reason_of(&desc), TENON_REASON_ROW_LENGTH);
                    continue;
                }
                want = (u128)cols[c] / table[i].inputs;
                want += cols[c] % table[i].inputs != 0 ? 1 : 0;
                want *= table[i].bytes;
                want = want > UINT64_MAX ? want : want * rows[r];
                if (want > UINT64_MAX) {
                    ck_assert_uint_eq(reason_of(&desc), TENON_REASON_OVERFLOW);
                } else if (tenon_weight_bytes(&desc, &weights, &scales, &reason) == TENON_OK) {
                    ck_assert_uint_eq(weights, (uint64_t)want);
                } else { /* the scales are what does not fit */
                    ck_assert_uint_eq(reason, TENON_REASON_OVERFLOW);
                    ck_assert_uint_ge(table[i].format, TENON_FORMAT_INT8_ROW);
                    ck_assert_uint_gt(rows[r], UINT64_MAX / 4 / cols[c]);
                }
            }
        }
    }
}
END_TEST

START_TEST(scales_that_do_not_fit_are_refused)
{
    /* One input a group, four bytes a scale, half a byte a code. */
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = TENON_FORMAT_INT4_GROUP,
                              .layout = TENON_LAYOUT_PAIR,   .group_size = 1,
                              .rows = UINT64_C(1) << 32,     .cols = UINT64_C(1) << 30};
    ck_assert_uint_eq(reason_of(&desc), TENON_REASON_OVERFLOW);
    desc.cols = UINT64_C(1) << 33;
    desc.rows = UINT64_C(1) << 31;
    ck_assert_uint_eq(reason_of(&desc), TENON_REASON_OVERFLOW);
    desc.group_size = UINT64_MAX; /* one scale a row, whatever its length */
    ck_assert_uint_eq(reason_of(&desc), TENON_REASON_NONE);
    desc.format = TENON_FORMAT_INT2_ROW;
    desc.layout = 0;
    desc.group_size = 0;
    desc.cols = 1;
    desc.rows = UINT64_MAX; /* codes fit, scales do not */
    ck_assert_uint_eq(reason_of(&desc), TENON_REASON_OVERFLOW);
}
END_TEST

START_TEST(wrong_descriptions_are_refused_by_name)
{
    tenon_weight_desc desc;
    uint32_t i;
    for (i = 0; i < COUNT; i++) {
        const expected *row = &table[i];
        int separate = row->format >= TENON_FORMAT_INT8_ROW;

        desc = desc_of(row, 3, 256);
        ck_assert_uint_eq(reason_of(&desc), TENON_REASON_NONE);
        desc.rows = 0;
        ck_assert_uint_eq(reason_of(&desc), TENON_REASON_EMPTY_SHAPE);
        desc = desc_of(row, 3, 0);
        ck_assert_uint_eq(reason_of(&desc), TENON_REASON_EMPTY_SHAPE);

        desc = desc_of(row, 3, 256);
        desc.layout = row->int4 ? TENON_LAYOUT_NONE : TENON_LAYOUT_PAIR;
        ck_assert_uint_eq(reason_of(&desc), TENON_REASON_UNSUPPORTED_LAYOUT);
        desc.layout = 3;
        ck_assert_uint_eq(reason_of(&desc), TENON_REASON_UNSUPPORTED_LAYOUT);
        desc.layout = TENON_LAYOUT_PLANAR;
        ck_assert_uint_eq(reason_of(&desc),
                          row->int4 ? TENON_REASON_NONE : TENON_REASON_UNSUPPORTED_LAYOUT);

        desc = desc_of(row, 3, 256);
        desc.group_size = row->block == 1 ? 0 : 32;
        ck_assert_uint_eq(reason_of(&desc), TENON_REASON_UNSUPPORTED_GROUP);

        /* One input less than whole blocks: refused, never rounded. */
        desc = desc_of(row, 3, 255);
        ck_assert_uint_eq(reason_of(&desc), !separate && row->inputs > 1 ? TENON_REASON_ROW_LENGTH
                                                                         : TENON_REASON_NONE);
        /* 576 is no multiple of 256 but one of 32 and 64. */
        desc = desc_of(row, 3, 576);
        ck_assert_uint_eq(reason_of(&desc), !separate && row->inputs == 256
                                                ? TENON_REASON_ROW_LENGTH
                                                : TENON_REASON_NONE);
    }
    desc = desc_of(&table[0], 3, 256);
    desc.format = 99;
    ck_assert_uint_eq(reason_of(&desc), TENON_REASON_UNKNOWN_FORMAT);
    desc.format = 0;
    ck_assert_uint_eq(reason_of(&desc), TENON_REASON_UNKNOWN_FORMAT);
    ck_assert_uint_eq(tenon_row_bytes(99, 256), 0);
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_Q4_0, 0), 0);
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_Q4_0, 33), 0);
}
END_TEST

START_TEST(rows_that_end_inside_a_byte_are_rounded_up)
{
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_INT4_ROW, 1), 1);
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_INT4_GROUP, 301), 151);
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_INT2_ROW, 5), 2);
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_INT3_GROUP64, 65), 48);
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_MXFP4_GROUP32, 33), 17);
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_INT4_ROW, UINT64_MAX), UINT64_C(1) << 63);
    ck_assert_uint_eq(tenon_row_bytes(TENON_FORMAT_INT3_GROUP64, UINT64_MAX),
                      (UINT64_C(1) << 58) * 24);
}
END_TEST

START_TEST(checked_arithmetic)
{
    uint64_t out = 5;
    ck_assert_int_eq(tenon_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out), 0);
    ck_assert_int_eq(tenon_add_u64(UINT64_MAX, 1, &out), 0);
    ck_assert_uint_eq(out, 5);
    ck_assert_int_eq(tenon_mul_u64(UINT64_MAX, 1, &out), 1);
    ck_assert_uint_eq(out, UINT64_MAX);
    ck_assert_int_eq(tenon_mul_u64(UINT64_MAX, 0, &out), 1);
    ck_assert_uint_eq(out, 0);
    ck_assert_int_eq(tenon_add_u64(UINT64_MAX - 1, 1, &out), 1);
    ck_assert_uint_eq(out, UINT64_MAX);
    ck_assert_uint_eq(tenon_ceil_div_u64(UINT64_MAX, 2), UINT64_C(1) << 63);
    ck_assert_uint_eq(tenon_ceil_div_u64(0, 7), 0);
    ck_assert_uint_eq(tenon_ceil_div_u64(14, 7), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("format");
    TCase *tcase = tcase_create("format");
    tcase_add_test(tcase, table_says_what_the_specification_says);
    tcase_add_test(tcase, sizes_beyond_32_bits);
    tcase_add_test(tcase, sizes_that_do_not_fit_are_refused);
    tcase_add_test(tcase, scales_that_do_not_fit_are_refused);
    tcase_add_test(tcase, wrong_descriptions_are_refused_by_name);
    tcase_add_test(tcase, rows_that_end_inside_a_byte_are_rounded_up);
    tcase_add_test(tcase, checked_arithmetic);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
