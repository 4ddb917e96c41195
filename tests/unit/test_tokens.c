/* Lists of ids, and the stream that never shows half a character. */
#include "tokenizer_rig.h"

#include <tools/text.h>

/* Feeds text in steps of the given size and returns all that came out, the end included. */
static char *stream(const char *text, size_t length, size_t step, size_t *got)
{
    token_stream self = {0};
    char *all = malloc(length * 3 + 1);
    const char *out;
    size_t at = 0, n;
    ck_assert_ptr_nonnull(all);
    *got = 0;
    for (at = 0; at < length; at += step) {
        size_t take = length - at < step ? length - at : step;
        ck_assert(token_stream_add(&self, text + at, take, &out, &n));
        memcpy(all + *got, out, n);
        *got += n;
    }
    ck_assert(token_stream_end(&self, &out, &n));
    memcpy(all + *got, out, n);
    *got += n;
    token_stream_free(&self);
    return all;
}

static void check_stream(const char *text, const char *wanted)
{
    size_t step, n;
    for (step = 1; step <= 5; step++) {
        char *got = stream(text, strlen(text), step, &n);
        ck_assert_msg(n == strlen(wanted) && memcmp(got, wanted, n) == 0,
                      "'%s' by %zu: have '%.*s', want '%s'", text, step, (int)n, got, wanted);
        free(got);
    }
}

#define R "\xEF\xBF\xBD" /* U+FFFD */

START_TEST(characters_come_out_whole)
{
    check_stream("abc", "abc");
    check_stream("\xC3\xA9", "\xC3\xA9");
    check_stream("a\xE4\xBD\xA0"
                 "b\xF0\x9F\x99\x82"
                 "c",
                 "a\xE4\xBD\xA0"
                 "b\xF0\x9F\x99\x82"
                 "c");
    check_stream("\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80\xC2\x80", /* ends of the ranges */
                 "\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80\xC2\x80");
}
END_TEST

START_TEST(bytes_of_no_character_are_replaced)
{
    check_stream("\xFF", R);
    check_stream("a\x80"
                 "b",
                 "a" R "b");
    check_stream("\xC0\x80", R R);             /* overlong */
    check_stream("\xE0\x80\x80", R R R);       /* overlong */
    check_stream("\xED\xA0\x80", R R R);       /* a surrogate */
    check_stream("\xF4\x90\x80\x80", R R R R); /* above U+10FFFF */
    check_stream("\xE4\xBD", R R);             /* cut off */
    check_stream("\xE4\xBD"
                 "a",
                 R R "a");
    check_stream("\xF0\x9F\x99\xC3\xA9", R R R "\xC3\xA9");
    check_stream("\xE4\xE4\xBD\xA0", R "\xE4\xBD\xA0");
}
END_TEST

START_TEST(what_is_incomplete_is_held_back)
{
    token_stream self = {0};
    const char *out;
    size_t n;
    ck_assert(token_stream_add(&self, "a\xF0\x9F", 3, &out, &n));
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(out[0], 'a');
    ck_assert(token_stream_add(&self, "", 0, &out, &n));
    ck_assert_uint_eq(n, 0);
    ck_assert(token_stream_add(&self, "\x99", 1, &out, &n));
    ck_assert_uint_eq(n, 0);
    ck_assert(token_stream_add(&self, "\x82!", 2, &out, &n));
    ck_assert_uint_eq(n, 5);
    ck_assert_int_eq(memcmp(out, "\xF0\x9F\x99\x82!", 5), 0);
    ck_assert(token_stream_end(&self, &out, &n));
    ck_assert_uint_eq(n, 0);
    token_stream_free(&self);
}
END_TEST

START_TEST(the_cuts_do_not_matter)
{
    static const char pieces[] = "\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x99\x82\xED\xA0\xC0\xFF"
                                 "a ";
    uint64_t seed = 4;
    int round;
    for (round = 0; round < 500; round++) {
        char text[60];
        size_t length = rig_random(&seed) % sizeof text, i, whole, n, step, one;
        char *at_once, *in_steps;
        for (i = 0; i < length; i++) text[i] = pieces[rig_random(&seed) % (sizeof pieces - 1)];
        at_once = stream(text, length, length + 1, &whole);
        for (i = 0; i < whole; i += one) {
            one = text_utf8(at_once + i, whole - i);
            ck_assert_uint_ne(one, 0);
        }
        for (step = 1; step < 6; step++) {
            in_steps = stream(text, length, step, &n);
            ck_assert_uint_eq(n, whole);
            ck_assert_int_eq(memcmp(in_steps, at_once, n), 0);
            free(in_steps);
        }
        free(at_once);
    }
}
END_TEST

START_TEST(lists_grow)
{
    token_list list = {0};
    uint32_t i;
    for (i = 0; i < 1000; i++) ck_assert(token_list_add(&list, i * 3));
    ck_assert_uint_eq(list.count, 1000);
    for (i = 0; i < 1000; i++) ck_assert_uint_eq(list.ids[i], i * 3);
    token_list_free(&list);
    ck_assert_uint_eq(list.count, 0);
    ck_assert(token_list_add(&list, 1));
    token_list_free(&list);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokens");
    TCase *tcase = tcase_create("tokens");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, characters_come_out_whole);
    tcase_add_test(tcase, bytes_of_no_character_are_replaced);
    tcase_add_test(tcase, what_is_incomplete_is_held_back);
    tcase_add_test(tcase, the_cuts_do_not_matter);
    tcase_add_test(tcase, lists_grow);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
