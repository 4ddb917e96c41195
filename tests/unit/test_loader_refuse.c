/* Every broken provider is refused at its stage, with its reason and name, and told in one line. */
#include "loader_rig.h"
#include "runner.h"

#include <loader/symbols.h>

/* What must come out. NULL: not looked at. A symbol, have or need that begins with '~' need only be
 * contained. */
typedef struct expectation {
    const char *variant;
    uint32_t reason; /* the stage is its hundreds; 0: it loads */
    const char *symbol, *have, *need, *text;
} expectation;

static const expectation expectations[] = {
    /* names and kinds */
    {"omits_provider", TENON_REASON_MISSING_SYMBOL, "provider_v1", NULL, NULL, NULL},
    {"omits_qmatmul", TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", NULL, NULL, NULL},
    {"old_provider", TENON_REASON_MISSING_SYMBOL, "provider_v1", "provider_v0", "provider_v1",
     NULL},
    {"old_qmatmul", TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", "qmatmul_v0", "qmatmul_v1", NULL},
    {"unversioned_provider", TENON_REASON_MISSING_SYMBOL, "provider_v1", NULL, "provider_v1", NULL},
    {"unversioned_qmatmul", TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", NULL, "qmatmul_v1", NULL},
    {"function_provider", TENON_REASON_NOT_DATA, "provider_v1", NULL, NULL, NULL},
    {"function_qmatmul", TENON_REASON_NOT_DATA, "qmatmul_v1", NULL, NULL, NULL},
    {"foreign_symbol", TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", NULL, NULL, NULL},
    /* sizes */
    {"short_provider", TENON_REASON_SHORT_DESCRIPTOR, "provider_v1", "152", "160", NULL},
    {"short_qmatmul", TENON_REASON_SHORT_DESCRIPTOR, "qmatmul_v1", "56", "64", NULL},
    {"understates_provider", TENON_REASON_SHORT_DESCRIPTOR, "provider_v1", "152", "160", NULL},
    {"understates_qmatmul", TENON_REASON_SHORT_DESCRIPTOR, "qmatmul_v1", "56", "64", NULL},
    {"empty_provider", TENON_REASON_SHORT_DESCRIPTOR, "provider_v1", "0", "160", NULL},
    {"empty_qmatmul", TENON_REASON_SHORT_DESCRIPTOR, "qmatmul_v1", "0", "64", NULL},
    {"overstates_provider", TENON_REASON_SHORT_DESCRIPTOR, "provider_v1", NULL, NULL, NULL},
    {"overstates_qmatmul", TENON_REASON_SHORT_DESCRIPTOR, "qmatmul_v1", NULL, NULL, NULL},
    {"long_zero_provider", 0, NULL, NULL, NULL, NULL},
    {"long_zero_qmatmul", 0, NULL, NULL, NULL, NULL},
    {"long_provider", 0, NULL, NULL, NULL, NULL},
    {"long_qmatmul", 0, NULL, NULL, NULL, NULL},
    /* versions: both numbers are named */
    {"abi_zero_provider", TENON_REASON_OLD_ABI, "provider_v1", "0", "1", NULL},
    {"abi_zero_qmatmul", TENON_REASON_OLD_ABI, "qmatmul_v1", "0", "1", NULL},
    {"abi_next_provider", TENON_REASON_NEW_ABI, "provider_v1", "2", "1", NULL},
    {"abi_next_qmatmul", TENON_REASON_NEW_ABI, "qmatmul_v1", "2", "1", NULL},
    {"abi_five_provider", TENON_REASON_NEW_ABI, "provider_v1", "6", "1", NULL},
    {"abi_five_qmatmul", TENON_REASON_NEW_ABI, "qmatmul_v1", "6", "1", NULL},
    {"abi_huge_provider", TENON_REASON_NEW_ABI, "provider_v1", "4294967295", "1", NULL},
    {"abi_huge_qmatmul", TENON_REASON_NEW_ABI, "qmatmul_v1", "4294967295", "1", NULL},
    {"unknown_need", TENON_REASON_UNKNOWN_NEED, "provider_v1", NULL, NULL, NULL},
    {"unknown_need_high", TENON_REASON_UNKNOWN_NEED, "provider_v1", NULL, NULL, NULL},
    /* ids */
    {"id_upper", TENON_REASON_BAD_ID, NULL, "Acme", NULL, NULL},
    {"id_empty", TENON_REASON_BAD_ID, NULL, NULL, NULL, NULL},
    {"id_quote", TENON_REASON_BAD_ID, NULL, NULL, NULL, NULL},
    {"id_endless", TENON_REASON_BAD_ID, NULL, NULL, NULL, NULL},
    /* how the file was made */
    {"needs_library", TENON_REASON_MISSING_DEPENDENCY, "libnotthere.so.1", NULL, NULL, NULL},
    {"executable_stack", TENON_REASON_EXECUTABLE_STACK, NULL, NULL, NULL, NULL},
    {"text_relocation", TENON_REASON_TEXT_RELOCATIONS, NULL, NULL, NULL, NULL},
    {"static_tls", TENON_REASON_STATIC_TLS, NULL, NULL, NULL, NULL},
    /* what its code does when loaded */
    {"aborts_at_load", TENON_REASON_PROBE_CRASHED, NULL, NULL, NULL, "~SIGABRT"},
    {"illegal_at_load", TENON_REASON_PROBE_CRASHED, NULL, NULL, NULL, "~SIGILL"},
    {"exits_at_load", TENON_REASON_PROBE_EXITED, NULL, NULL, NULL, NULL},
    {"flushes_at_load", TENON_REASON_PROBE_FP_ENVIRONMENT, NULL, NULL, NULL, NULL},
    {"prints_at_load", 0, NULL, NULL, NULL, NULL},
    {"logs_at_unload", 0, NULL, NULL, NULL, NULL},
    {"unresolved", TENON_REASON_PROBE_REFUSED, NULL, NULL, NULL, "~tenon_fixture_defined_nowhere"},
    /* what open and close do */
    {"flushes_in_open", TENON_REASON_PROBE_FP_ENVIRONMENT, NULL, NULL, NULL, NULL},
    {"crashes_in_open", TENON_REASON_PROBE_CRASHED, NULL, NULL, NULL, "~SIGSEGV"},
    {"signal_in_open", TENON_REASON_PROBE_SIGNALS, NULL, NULL, NULL, NULL},
    {"locale_in_open", TENON_REASON_PROBE_LOCALE, NULL, NULL, NULL, NULL},
    {"directory_in_open", TENON_REASON_PROBE_DIRECTORY, NULL, NULL, NULL, NULL},
    {"thread_in_open", TENON_REASON_PROBE_THREADS, NULL, NULL, NULL, NULL},
    {"descriptor_in_open", TENON_REASON_PROBE_DESCRIPTORS, NULL, NULL, NULL, NULL},
    /* a wrong answer in the small self-test */
    {"wrong_bit", TENON_REASON_PROBE_SELF_TEST, NULL, NULL, NULL, NULL},
    {"writes_past_y", TENON_REASON_PROBE_SELF_TEST, NULL, NULL, NULL, NULL},
    {"writes_x", TENON_REASON_PROBE_SELF_TEST, NULL, NULL, NULL, NULL},
    {"nonsense_status", TENON_REASON_PROBE_SELF_TEST, NULL, NULL, NULL, NULL},
    {"null_device", TENON_REASON_PROBE_SELF_TEST, NULL, NULL, NULL, NULL},
    {"null_prepared", TENON_REASON_PROBE_SELF_TEST, NULL, NULL, NULL, NULL},
    /* functions that must be there */
    {"null_open", TENON_REASON_CHECK_NULL_FUNCTION, "~open", NULL, NULL, NULL},
    {"null_run", TENON_REASON_CHECK_NULL_FUNCTION, "~run", NULL, NULL, NULL},
    {"half_queue", TENON_REASON_CHECK_NULL_FUNCTION, "~queue_close", NULL, NULL, NULL},
    {"knows_no_call", TENON_REASON_CHECK_STRUCT_SIZE, "~call_size", NULL, NULL, NULL},
    {"knows_no_desc", TENON_REASON_CHECK_STRUCT_SIZE, "~weight_desc_size", NULL, NULL, NULL},
    {"knows_no_error", TENON_REASON_CHECK_STRUCT_SIZE, "~error_size", NULL, NULL, NULL},
    {"knows_no_services", TENON_REASON_CHECK_STRUCT_SIZE, "~services_size", NULL, NULL, NULL},
    {"knows_huge_call", TENON_REASON_CHECK_STRUCT_SIZE, "~call_size", NULL, NULL, NULL},
    {"knows_later_call", 0, NULL, NULL, NULL, NULL},
    /* nothing is wrong with a provider that cannot work here, or that is told apart later */
    {"good", 0, NULL, NULL, NULL, NULL},
    {"good_two", 0, NULL, NULL, NULL, NULL},
    {"kinds", 0, NULL, NULL, NULL, NULL},
    {"software_only", 0, NULL, NULL, NULL, NULL},
    {"no_device", 0, NULL, NULL, NULL, NULL},
    {"driver_too_old", 0, NULL, NULL, NULL, NULL},
    {"runtime_absent", 0, NULL, NULL, NULL, NULL},
    {"declines_all", 0, NULL, NULL, NULL, NULL},
    {"ignores_groups", 0, NULL, NULL, NULL, NULL},
    {"stale_weight", 0, NULL, NULL, NULL, NULL},
    {"slow", 0, NULL, NULL, NULL, NULL},
    {"fails_at_call", 0, NULL, NULL, NULL, NULL},
    {"prints", 0, NULL, NULL, NULL, NULL},
    {"frozen_1", 0, NULL, NULL, NULL, NULL},
};

static void expect_field(const char *file, const char *what, const char *got, const char *want)
{
    bool good;
    if (want == NULL) return;
    good = want[0] == '~' ? strstr(got, want + 1) != NULL : strcmp(got, want) == 0;
    ck_assert_msg(good, "%s: %s is \"%s\", not \"%s\"", file, what, got, want);
}

START_TEST(each_at_its_stage)
{
    const expectation *want = &expectations[_i];
    char *path = rig_fixture(want->variant);
    loader *self = rig_load_one(path);
    const loader_verdict *got = rig_verdict(self, path);
    ck_assert_msg(got->reason == want->reason, "%s: reason %u, not %u: %s", want->variant,
                  got->reason, want->reason, got->line);
    if (want->reason == 0) {
        ck_assert_msg(got->verdict == TENON_CANDIDATE_LOADED, "%s", got->line);
        ck_assert_uint_eq(got->stage, TENON_STAGE_PUBLISH);
        ck_assert_ptr_nonnull(rig_module(self, want->variant));
        ck_assert_uint_eq(loader_module_count(self), 1);
        ck_assert_str_eq(rig_log_text, "");
    } else {
        ck_assert_msg(got->verdict == TENON_CANDIDATE_REFUSED, "%s", got->line);
        ck_assert_uint_eq(got->stage, want->reason / 100);
        ck_assert_uint_eq(loader_module_count(self), 0);
        /* named by the user and refused: said at once, with the whole line */
        ck_assert_msg(strstr(rig_log_text, got->line) != NULL, "not said: %s", got->line);
    }
    expect_field(want->variant, "symbol", got->symbol, want->symbol);
    expect_field(want->variant, "have", got->have, want->have);
    expect_field(want->variant, "need", got->need, want->need);
    expect_field(want->variant, "text", got->text, want->text);
    loader_destroy(self);
    /* a refused file is gone, a published one stays */
    if (want->reason != 0)
        ck_assert_uint_eq(rig_mappings(rig_path("tenon-%s.so", want->variant)), 0);
    else
        ck_assert_uint_gt(rig_mappings(rig_path("tenon-%s.so", want->variant)), 0);
}
END_TEST

/* Judging alone runs nothing, so only the first three stages can refuse. */
START_TEST(judged_without_running)
{
    const expectation *want = &expectations[_i];
    char *path = rig_fixture(want->variant);
    loader_verdict verdict;
    loader_image_facts facts;
    bool early = want->reason != 0 && want->reason < 400;
    ck_assert_int_eq(loader_judge(path, &verdict, &facts, NULL), TENON_OK);
    /* where folders for newer processors exist, only loading can tell that a library is missing */
    if (verdict.reason != 0 || want->reason != TENON_REASON_MISSING_DEPENDENCY)
        ck_assert_msg(verdict.reason == (early ? want->reason : 0), "%s: %s", want->variant,
                      verdict.line);
    ck_assert_str_eq(facts.container, "elf");
    ck_assert_uint_eq(facts.symbol_count, SYMBOL_COUNT);
    ck_assert_uint_eq(rig_mappings(want->variant), 0);
    loader_verdict_clear(&verdict);
    loader_image_facts_clear(&facts);
}
END_TEST

/* The line of a refusal, to the letter. */
START_TEST(one_line)
{
    static const struct {
        const char *variant, *before, *after;
    } lines[] = {
        {"old_qmatmul",
         "tenon: refused provider=old_qmatmul stage=static reason=301 symbol=qmatmul_v1 file=\"",
         "\" have=qmatmul_v0 need=qmatmul_v1 hint=\"rebuild against the tenon 1.x headers\""},
        {"abi_five_provider",
         "tenon: refused provider=abi_five_provider stage=static reason=305 symbol=provider_v1 "
         "file=\"",
         "\" have=6 need=1 hint=\"update tenon\""},
        {"abi_zero_qmatmul",
         "tenon: refused provider=abi_zero_qmatmul stage=static reason=304 symbol=qmatmul_v1 "
         "file=\"",
         "\" have=0 need=1 hint=\"update the provider\""},
    };
    size_t i;
    for (i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char *path = rig_fixture(lines[i].variant);
        char *want = rig_path("%s%s%s", lines[i].before, path, lines[i].after);
        loader *self = rig_load_one(path);
        ck_assert_str_eq(rig_verdict(self, path)->line, want);
        loader_destroy(self);
    }
}
END_TEST

/* A name made to forge a second line stays on the one it is in. */
START_TEST(line_is_escaped)
{
    char *path = rig_path("%s/tenon-a\nb \"c\" \x1b[31m.so", rig_scratch());
    loader *self;
    const char *line;
    rig_copy(rig_fixture("old_qmatmul"), path, -1);
    self = rig_load_one(path);
    line = rig_verdict(self, path)->line;
    ck_assert_ptr_null(strchr(line, '\n'));
    ck_assert_ptr_null(strchr(line, '\x1b'));
    ck_assert_msg(strstr(line, "a\\nb \\\"c\\\" \\x1b[31m.so\"") != NULL, "%s", line);
    ck_assert_ptr_nonnull(strstr(line, " reason=301 "));
    loader_destroy(self);
}
END_TEST

/* A file refused before its code runs: the code would have left a mark. */
START_TEST(refused_code_never_runs)
{
    char *mark = rig_path("%s/mark", rig_scratch());
    loader *self;
    ck_assert_int_eq(setenv("FIXTURE_MARK", mark, 1), 0);
    self = rig_load_one(rig_fixture("old_and_marks"));
    ck_assert_uint_eq(loader_module_count(self), 0);
    loader_destroy(self);
    ck_assert_int_ne(access(mark, F_OK), 0);
    self = rig_load_one(rig_fixture("marks_at_load"));
    ck_assert_uint_eq(loader_module_count(self), 1);
    loader_destroy(self);
    ck_assert_int_eq(access(mark, F_OK), 0);
}
END_TEST

/* What was judged is what is loaded: the probe's copy of the file grew meanwhile. */
START_TEST(changed_between_judging_and_loading)
{
    char *path = rig_path("%s/tenon-grows_at_load.so", rig_scratch());
    loader *self;
    const loader_verdict *verdict;
    rig_copy(rig_fixture("grows_at_load"), path, -1);
    self = rig_load_one(path);
    verdict = rig_verdict(self, path);
    ck_assert_msg(verdict->reason == TENON_REASON_FILE_CHANGED, "%s", verdict->line);
    ck_assert_uint_eq(loader_module_count(self), 0);
    ck_assert_uint_eq(rig_mappings(path), 0);
    loader_destroy(self);
}
END_TEST

/* Loading must not leave flush-to-zero behind in the process that loads. */
START_TEST(floating_point_mode_is_kept)
{
    volatile float tiny = 1e-40f, one = 1.0f;
    loader *self = rig_load_one(rig_fixture("flushes_at_load"));
    ck_assert_msg(tiny * one != 0.0f, "subnormals are flushed");
    loader_destroy(self);
}
END_TEST

int main(void)
{
    int count = (int)(sizeof expectations / sizeof expectations[0]);
    Suite *suite = suite_create("loader refusals");
    TCase *test_case = tcase_create("refuse");
    tcase_add_checked_fixture(test_case, rig_clean_environment, rig_clean);
    tcase_set_timeout(test_case, 120);
    tcase_add_loop_test(test_case, each_at_its_stage, 0, count);
    tcase_add_loop_test(test_case, judged_without_running, 0, count);
    tcase_add_test(test_case, one_line);
    tcase_add_test(test_case, line_is_escaped);
    tcase_add_test(test_case, refused_code_never_runs);
    tcase_add_test(test_case, changed_between_judging_and_loading);
    tcase_add_test(test_case, floating_point_mode_is_kept);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
