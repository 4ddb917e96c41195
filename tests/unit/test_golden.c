/* The reference against the golden vectors: weights as the package gguf decodes them, products as
 * an exact-arithmetic program written from SPEC.md 2 computes them. */
#include <math.h>

#include "../golden/golden.h"
#include "../golden/reference_fixture.h"
#include "decode.h"
#include "runner.h"

static const char *folder(void)
{
    const char *given = getenv("TENON_GOLDEN_DIR");
    return given != NULL ? given : TENON_GOLDEN_DIR;
}

static tenon_weight_desc desc_of(const golden_record *record, uint32_t arith)
{
    return fixture_desc(record->head.format, record->head.layout, record->head.group,
                        record->head.rows, record->head.cols, arith);
}

/* MXFP4 scale 255 and NVFP4 scale 0x7F are NaN here; gguf decodes 2^127, and 0 or 240. */
static int scale_is_known_to_differ(uint32_t format, float scale)
{
    return (format == TENON_FORMAT_MXFP4 || format == TENON_FORMAT_NVFP4) && isnan(scale);
}

/* Every weight w = s q - m of a record. Returns how many differ knowingly. */
static uint64_t check_weights(const golden_record *record)
{
    tenon_weight_desc desc = desc_of(record, TENON_CLASS_F32);
    reference_weight weight;
    uint64_t row, first, known = 0;

    reference_weight_describe(&weight, &desc, record->codes, record->scales);
    for (row = 0; row < desc.rows; row++) {
        reference_segment segment;
        for (first = 0; first < desc.cols; first += segment.inputs) {
            uint32_t i;
            reference_decode(&weight, row, first, &segment);
            ck_assert_uint_ge(segment.inputs, 1);
            ck_assert_uint_le(segment.inputs, 256);
            for (i = 0; i < segment.inputs; i++) {
                uint32_t b = i / segment.block;
                uint32_t want = golden_u32(record->results[0], row * desc.cols + first + i);
                float w = segment.q[i];
                if (weight.info.block_inputs != 1) w = segment.s[b] * w;
                if ((weight.info.traits & TENON_TRAIT_MINIMA) != 0) w = w - segment.m[b];
                if (scale_is_known_to_differ(desc.format, segment.s[b])) {
                    ck_assert(isnan(w));
                    known++;
                    continue;
                }
                ck_assert_msg(same_value(bits_of(w), want),
                              "%s row %llu input %llu: have %08x, want %08x", record->head.name,
                              (unsigned long long)row, (unsigned long long)(first + i), bits_of(w),
                              want);
            }
        }
        ck_assert_uint_eq(first, desc.cols);
    }
    return known;
}

START_TEST(weights_equal_the_decoder_of_gguf)
{
    golden_file file = golden_open(folder(), "decode.bin");
    golden_record record;
    uint32_t records = 0, index, format;
    uint8_t seen[128] = {0};

    while (golden_next(&file, &record)) {
        tenon_weight_desc desc = desc_of(&record, TENON_CLASS_F32);
        uint64_t codes, scales, known;
        uint32_t reason;

        ck_assert_int_eq(tenon_weight_bytes(&desc, &codes, &scales, &reason), TENON_OK);
        ck_assert_uint_eq(codes, record.head.codes_bytes);
        ck_assert_uint_eq(scales, record.head.scales_bytes);
        ck_assert_uint_eq(record.head.results, 1);
        known = check_weights(&record);
        /* one scale byte of 255 for 32 inputs; 0x7F and 0xFF for 16 inputs each */
        if (desc.format == TENON_FORMAT_MXFP4) ck_assert_uint_ge(known, 32);
        if (desc.format == TENON_FORMAT_NVFP4) ck_assert_uint_ge(known, 32);
        seen[desc.format] = 1;
        records++;
    }
    ck_assert_uint_eq(records, file.count);
    for (index = 0; (format = tenon_format_at(index)) != 0; index++)
        ck_assert_msg(seen[format], "format %u has no golden weights", format);
    golden_close(&file);
}
END_TEST

static void check_products(const fixture *self, const golden_record *record, uint32_t arith,
                           const uint8_t *want)
{
    tenon_weight_desc desc = desc_of(record, arith);
    uint64_t count = record->head.tokens * desc.rows, i;
    float *x = malloc(4 * record->head.tokens * desc.cols), *y = malloc(4 * count);

    ck_assert(x != NULL && y != NULL);
    memcpy(x, record->x, 4 * record->head.tokens * desc.cols);
    memset(y, 0xA5, 4 * count);
    fixture_product(self, &desc, record->codes, record->scales, x, record->head.tokens, y);
    for (i = 0; i < count; i++)
        ck_assert_msg(same_value(bits_of(y[i]), golden_u32(want, i)),
                      "%s, format %u, layout %u, group %llu, cols %llu, class %u, y %llu: "
                      "have %08x, want %08x",
                      record->head.name, desc.format, desc.layout,
                      (unsigned long long)desc.group_size, (unsigned long long)desc.cols, arith,
                      (unsigned long long)i, bits_of(y[i]), golden_u32(want, i));
    free(x);
    free(y);
}

START_TEST(products_equal_exact_arithmetic)
{
    golden_file file = golden_open(folder(), "products.bin");
    golden_record record;
    uint32_t records = 0, index, format;
    uint8_t seen[128] = {0};
    fixture self;

    fixture_open(&self);
    while (golden_next(&file, &record)) {
        tenon_format_info info;
        uint32_t floats;
        ck_assert_int_eq(tenon_format_find(record.head.format, &info), 1);
        floats = info.traits & TENON_TRAIT_FLOATS;
        ck_assert_uint_eq(record.head.results, floats != 0 ? 1 : 2);
        check_products(&self, &record, TENON_CLASS_F32, record.results[0]);
        if (floats == 0) check_products(&self, &record, TENON_CLASS_A8, record.results[1]);
        seen[record.head.format] = 1;
        records++;
    }
    ck_assert_uint_eq(records, file.count);
    for (index = 0; (format = tenon_format_at(index)) != 0; index++)
        ck_assert_msg(seen[format], "format %u has no golden products", format);
    fixture_close(&self);
    golden_close(&file);
}
END_TEST

/* What the golden products themselves must say, whoever computed them. */
START_TEST(golden_products_are_sound)
{
    golden_file file = golden_open(folder(), "products.bin");
    golden_record record;
    uint32_t large = 0, half = 0, r;
    uint64_t i;

    while (golden_next(&file, &record)) {
        uint64_t count = record.head.tokens * record.head.rows;
        for (r = 0; r < record.head.results; r++) {
            for (i = 0; i < count; i++) {
                uint32_t y = golden_u32(record.results[r], i);
                ck_assert_uint_ne(y, 0x80000000u); /* y is never -0 */
                if (strcmp(record.head.name, "large-sums") == 0) {
                    ck_assert(isfinite(float_of(y)));
                    large++;
                }
                if (strcmp(record.head.name, "half-sums") == 0) {
                    ck_assert_uint_eq(y, bits_of(262144.0f));
                    half++;
                }
            }
        }
    }
    ck_assert_uint_ge(large, 6 * 2); /* Q4_1 Q5_1 Q2_K Q4_K Q5_K Q8_0 */
    ck_assert_uint_eq(half, 1);
    golden_close(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *tcase = tcase_create("golden");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, weights_equal_the_decoder_of_gguf);
    tcase_add_test(tcase, products_equal_exact_arithmetic);
    tcase_add_test(tcase, golden_products_are_sound);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
