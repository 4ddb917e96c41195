/* The one line of a verdict: its form to the letter, and nothing of it that a stranger could turn
 * into a second line, another field or a terminal's command. */
#include <loader/cut.h>
#include <loader/platform.h>
#include <loader/verdict.h>
#include <string.h>
#include "runner.h"

static loader_verdict refused(void)
{
    loader_verdict v;
    verdict_init(&v);
    ck_assert(verdict_set(&v.file, "/opt/x/tenon-cuda.so"));
    ck_assert(verdict_set(&v.id, "cuda"));
    ck_assert(verdict_refuse(&v, TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", "qmatmul_v0",
                             "qmatmul_v1", NULL));
    return v;
}

START_TEST(to_the_letter)
{
    loader_verdict v = refused();
    ck_assert(verdict_render(&v));
    ck_assert_str_eq(v.line,
                     "tenon: refused provider=cuda stage=static reason=301 symbol=qmatmul_v1 "
                     "file=\"/opt/x/tenon-cuda.so\" have=qmatmul_v0 need=qmatmul_v1 "
                     "hint=\"rebuild against the tenon 1.x headers\"");
    v.verdict = TENON_CANDIDATE_SKIPPED;
    ck_assert(verdict_render(&v));
    ck_assert_ptr_eq(strstr(v.line, "tenon: skipped provider=cuda stage=static reason=301 "),
                     v.line);
    loader_verdict_clear(&v);
    verdict_init(&v);
    v.verdict = TENON_CANDIDATE_LOADED;
    v.stage = TENON_STAGE_PUBLISH;
    ck_assert(verdict_set(&v.file, "/x/tenon-cpu.so") && verdict_set(&v.id, "cpu") &&
              verdict_set(&v.version, "1.0"));
    ck_assert(verdict_render(&v));
    ck_assert_str_eq(v.line, "tenon: loaded provider=cpu version=\"1.0\" stage=publish "
                             "file=\"/x/tenon-cpu.so\"");
    v.stage = TENON_STAGE_STATIC;
    ck_assert(verdict_render(&v));
    ck_assert_ptr_eq(strstr(v.line, "tenon: accepted provider=cpu "), v.line);
    loader_verdict_clear(&v);
}
END_TEST

static const struct {
    const char *raw, *escaped;
} escapes[] = {
    {"", ""},
    {"plain", "plain"},
    {"two\nlines\r\n", "two\\nlines\\r\\n"},
    {"tab\there", "tab\\there"},
    {"quote\" back\\slash", "quote\\\" back\\\\slash"},
    {"\x1b[31mred\x7f", "\\x1b[31mred\\x7f"},
    {"\x01\x1f", "\\x01\\x1f"},
    {"p \xc3\xb6 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82", /* unharmed */
     "p \xc3\xb6 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82"},
    {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},     /* the last character */
    {"\xff\xfe", "\\xff\\xfe"},                   /* never in UTF-8 */
    {"\xc3", "\\xc3"},                            /* cut */
    {"\xe6\x97", "\\xe6\\x97"},                   /* cut */
    {"\xc0\xaf", "\\xc0\\xaf"},                   /* too long a form of '/' */
    {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},          /* likewise */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond the last character */
    {"\xc2\x85", "\\xc2\\x85"},                   /* C1: next line */
    {"\xc2\x9b[2J", "\\xc2\\x9b[2J"},             /* C1: control sequence */
    {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},          /* line separator */
    {"\xc2\xa0", "\xc2\xa0"},                     /* no-break space is a character */
};

START_TEST(escaping)
{
    char out[256];
    uint64_t needed = line_escape(escapes[_i].raw, out, sizeof out);
    ck_assert_str_eq(out, escapes[_i].escaped);
    ck_assert_uint_eq(needed, strlen(escapes[_i].escaped));
}
END_TEST

START_TEST(little_room)
{
    char out[8] = "xxxxxxx";
    ck_assert_uint_eq(line_escape("abcdefghij", out, 4), 10);
    ck_assert_str_eq(out, "abc");
    ck_assert_str_eq(out + 4, "xxx");
    ck_assert_uint_eq(line_escape("a\nb", NULL, 0), 4);
}
END_TEST

/* Every byte value in every field: one line, quotes balanced, printable. */
START_TEST(any_bytes)
{
    char all[256];
    loader_verdict v = refused();
    unsigned i, quotes = 0;
    for (i = 1; i < 256; i++) all[i - 1] = (char)i;
    all[255] = '\0';
    ck_assert(verdict_set(&v.file, all) && verdict_set(&v.id, all) && verdict_set(&v.symbol, all) &&
              verdict_set(&v.have, all) && verdict_set(&v.need, all) && verdict_set(&v.text, all));
    ck_assert(verdict_render(&v));
    for (i = 0; v.line[i] != '\0'; i++) {
        ck_assert_msg((unsigned char)v.line[i] >= 0x20 && (unsigned char)v.line[i] < 0x7f,
                      "byte %02x", (unsigned char)v.line[i]);
        if (v.line[i] == '\\' && v.line[i + 1] != '\0')
            i++;
        else
            quotes += v.line[i] == '"';
    }
    ck_assert_uint_eq(quotes, 2 * 7); /* hint included */
    loader_verdict_clear(&v);
}
END_TEST

/* A space or an equals sign cannot forge a field. */
START_TEST(forged_field)
{
    loader_verdict v = refused();
    ck_assert(verdict_set(&v.id, "x reason=0"));
    ck_assert(verdict_set(&v.have, ""));
    ck_assert(verdict_render(&v));
    ck_assert_ptr_nonnull(strstr(v.line, "provider=\"x reason=0\" stage=static reason=301 "));
    ck_assert_ptr_null(strstr(v.line, "have="));
    loader_verdict_clear(&v);
}
END_TEST

START_TEST(stems)
{
    static const struct {
        const char *file, *stem;
    } cases[] = {
        {"/a/tenon-cpu" PLATFORM_SUFFIX, "cpu"},
        {"tenon-x" PLATFORM_SUFFIX, "x"},
        {"/a/my" PLATFORM_SUFFIX, "my"},
        {"/a/tenon-cpu.txt", "cpu.txt"},
        {"/tenon-a/b", "b"},
        {"/a/" PLATFORM_SUFFIX, PLATFORM_SUFFIX},
        {"/a/", ""},
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t length;
        const char *stem = verdict_file_stem(cases[i].file, &length);
        ck_assert_uint_eq(length, strlen(cases[i].stem));
        ck_assert_int_eq(strncmp(stem, cases[i].stem, length), 0);
    }
}
END_TEST

/* Every reason of the loader has a hint, and its stage is its hundreds. */
START_TEST(every_reason_has_a_hint)
{
    static const uint32_t reasons[] = {
#define TENON_REASON(name, number, text) number,
#include <tenon/reasons.def>
#undef TENON_REASON
    };
    size_t i, looked_at = 0;
    for (i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        loader_verdict v;
        if (reasons[i] >= 900) continue;
        verdict_init(&v);
        ck_assert(verdict_refuse(&v, reasons[i], NULL, NULL, NULL, NULL));
        ck_assert_msg(v.hint[0] != '\0', "reason %u has no hint", reasons[i]);
        ck_assert_uint_eq(v.stage, reasons[i] / 100);
        ck_assert_uint_eq(v.verdict, TENON_CANDIDATE_REFUSED);
        loader_verdict_clear(&v);
        looked_at++;
    }
    ck_assert_uint_gt(looked_at, 40);
}
END_TEST

START_TEST(cutting)
{
    char out[8];
    cut_copy(out, sizeof out, "abcdef\xc3\xb6");
    ck_assert_str_eq(out, "abcdef");
    cut_copy(out, sizeof out, "abcde\xc3\xb6");
    ck_assert_str_eq(out, "abcde\xc3\xb6");
    cut_copy(out, sizeof out, "abcd\xf0\x9f\x99\x82");
    ck_assert_str_eq(out, "abcd");
    cut_copy(out, sizeof out, NULL);
    ck_assert_str_eq(out, "");
    cut_copy(out, 1, "abc");
    ck_assert_str_eq(out, "");
    cut_format(out, sizeof out, "%s-%d", "abcde", 42);
    ck_assert_str_eq(out, "abcde-4");
    cut_copy(out, sizeof out, "\x80\x80\x80\x80\x80\x80\x80\x80"); /* no character at all */
    ck_assert_uint_eq(strlen(out), 7);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("line");
    TCase *test_case = tcase_create("line");
    tcase_add_test(test_case, to_the_letter);
    tcase_add_loop_test(test_case, escaping, 0, (int)(sizeof escapes / sizeof escapes[0]));
    tcase_add_test(test_case, little_room);
    tcase_add_test(test_case, any_bytes);
    tcase_add_test(test_case, forged_field);
    tcase_add_test(test_case, stems);
    tcase_add_test(test_case, every_reason_has_a_hint);
    tcase_add_test(test_case, cutting);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
