/* The small number formats: every code of every one. */
#include <math.h>
#include <string.h>

#include "numbers.h"
#include "runner.h"

static int is_nan_bits(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

START_TEST(every_half)
{
    uint32_t code;
    for (code = 0; code < 65536; code++) {
        int exponent = (int)(code >> 10 & 31);
        float have = reference_f16((uint16_t)code), want;
        if (exponent == 31)
            want = (code & 1023) != 0 ? NAN : INFINITY;
        else if (exponent == 0)
            want = ldexpf((float)(code & 1023), -24);
        else
            want = ldexpf((float)(1024 + (code & 1023)), exponent - 25);
        if ((code & 0x8000) != 0) want = -want;
        if (isnan(want))
            ck_assert_msg(isnan(have), "half %04x", code);
        else
            ck_assert_msg(reference_bits_of(have) == reference_bits_of(want),
                          "half %04x: have %a, want %a", code, (double)have, (double)want);
    }
    ck_assert(reference_f16(0x3c00) == 1.0f);
    ck_assert(reference_f16(0x7bff) == 65504.0f);
    ck_assert(reference_f16(0x0001) == 0x1p-24f);
    ck_assert_uint_eq(reference_bits_of(reference_f16(0x8000)), 0x80000000u);
}
END_TEST

START_TEST(every_bf16)
{
    uint32_t code;
    for (code = 0; code < 65536; code++) {
        const uint8_t bytes[3] = {0xEE, (uint8_t)code,
                                  (uint8_t)(code >> 8)}; /* at an odd address */
        uint32_t have = reference_bits_of(reference_load_bf16(bytes + 1));
        if (is_nan_bits(code << 16))
            ck_assert(is_nan_bits(have));
        else
            ck_assert_uint_eq(have, code << 16);
    }
}
END_TEST

/* The values of fp8 E4M3FN by magnitude, from its definition: multiples of 2^-9 up to 2^-6, then
 * eight steps a binade; the 127th would be 480 and is NaN. */
START_TEST(every_e4m3)
{
    float want = 0.0f, step = 0x1p-9f;
    uint32_t code;
    for (code = 0; code < 127; code++) {
        float have = reference_e4m3((uint8_t)code),
              negative = reference_e4m3((uint8_t)(code | 128));
        ck_assert_msg(have == want, "code %02x: have %a, want %a", code, (double)have,
                      (double)want);
        ck_assert_uint_eq(reference_bits_of(negative), reference_bits_of(have) ^ 0x80000000u);
        want += step;
        if (code >= 15 && code % 8 == 7) step *= 2.0f;
    }
    ck_assert(isnan(reference_e4m3(0x7f)));
    ck_assert(isnan(reference_e4m3(0xff)));
    ck_assert(reference_e4m3(0x7e) == 448.0f);
    ck_assert(reference_e4m3(0x38) == 1.0f);
    ck_assert(reference_e4m3(0x08) == 0x1p-6f);
    ck_assert(reference_e4m3(0x01) == 0x1p-9f);
}
END_TEST

START_TEST(every_e8m0)
{
    int code;
    for (code = 0; code < 255; code++)
        ck_assert_msg(reference_e8m0_half((uint8_t)code) == ldexpf(1.0f, code - 128), "code %d",
                      code);
    ck_assert(isnan(reference_e8m0_half(255)));
}
END_TEST

START_TEST(loads_are_little_endian_at_any_address)
{
    uint8_t bytes[16];
    size_t at;
    for (at = 0; at < 8; at++) {
        const uint8_t value[4] = {0x01, 0x02, 0x80, 0x3f};
        memset(bytes, 0xEE, sizeof bytes);
        memcpy(bytes + at, value, sizeof value);
        ck_assert_uint_eq(reference_load_u16(bytes + at), 0x0201);
        ck_assert_uint_eq(reference_load_u32(bytes + at), 0x3f800201u);
        ck_assert_uint_eq(reference_bits_of(reference_load_f32(bytes + at)), 0x3f800201u);
        ck_assert(reference_load_f16(bytes + at) == reference_f16(0x0201));
        ck_assert_uint_eq(reference_bits_of(reference_float_of(0x7fc12345u)) & 0x7f800000u,
                          0x7f800000u);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reference numbers");
    TCase *tcase = tcase_create("numbers");
    tcase_add_test(tcase, every_half);
    tcase_add_test(tcase, every_bf16);
    tcase_add_test(tcase, every_e4m3);
    tcase_add_test(tcase, every_e8m0);
    tcase_add_test(tcase, loads_are_little_endian_at_any_address);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
