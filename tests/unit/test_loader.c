/* The loader over time: failed loads leave nothing behind, names stay apart, old providers run,
 * the probe is limited and remembered, what was judged once is not judged again. */
#include "loader_rig.h"
#include "runner.h"

/* ---- nothing is left behind ------------------------------------------------------------------ */

/* One reason of each stage that a file can reach without a probe, and what a helper tells. */
START_TEST(failed_loads_leave_nothing)
{
    static const char *const variants[] = {"old_qmatmul",   "short_provider", "abi_next_qmatmul",
                                           "needs_library", "static_tls",     "id_upper"};
    unsigned i, mappings, descriptors, threads;
    const unsigned kinds = sizeof variants / sizeof variants[0];
    loader_destroy(rig_load_one(rig_fixture(variants[0]))); /* what the first use allocates */
    mappings = rig_mappings("/");                           /* of files: the heap may grow */
    descriptors = rig_count("fd");
    threads = rig_count("task");
    for (i = 0; i < 1000; i++) {
        loader *self = rig_load_one(rig_fixture(variants[i % kinds]));
        ck_assert_uint_eq(loader_module_count(self), 0);
        loader_destroy(self);
        rig_log_text[0] = '\0';
    }
    ck_assert_uint_eq(rig_mappings("tenon-"), 0);
    ck_assert_uint_eq(rig_count("fd"), descriptors);
    ck_assert_uint_eq(rig_count("task"), threads);
    ck_assert_uint_eq(rig_mappings("/"), mappings);
}
END_TEST

/* Files that are mapped, bound and then refused at stage check. */
START_TEST(refused_after_loading_leaves_nothing)
{
    unsigned i, descriptors, threads;
    loader_destroy(rig_load_one(rig_fixture("null_run")));
    descriptors = rig_count("fd");
    threads = rig_count("task");
    for (i = 0; i < 50; i++) {
        loader *self = rig_load_one(rig_fixture(i % 2 == 0 ? "null_run" : "knows_no_call"));
        ck_assert_uint_eq(loader_module_count(self), 0);
        ck_assert_uint_ge(loader_verdict_at(self, 0)->stage, TENON_STAGE_PROBE);
        loader_destroy(self);
        ck_assert_uint_eq(rig_mappings("tenon-"), 0);
    }
    ck_assert_uint_eq(rig_count("fd"), descriptors);
    ck_assert_uint_eq(rig_count("task"), threads);
}
END_TEST

START_TEST(rescan_keeps_what_is_loaded)
{
    char *folder = rig_path("%s/grows", rig_scratch());
    const char *path = folder;
    const loader_module *module;
    tenon_error error = {TENON_HEAD(tenon_error), 0, 0, 0, 0, 0, 0, ""};
    loader *self;
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    rig_copy(rig_fixture("good"), rig_path("%s/tenon-good.so", folder), -1);
    self = rig_load(&path, 1);
    module = rig_module(self, "good");
    ck_assert_ptr_nonnull(module);
    rig_copy(rig_fixture("kinds"), rig_path("%s/tenon-kinds.so", folder), -1);
    ck_assert_int_eq(loader_rescan(self, &error), TENON_OK);
    ck_assert_ptr_eq(rig_module(self, "good"), module); /* immovable */
    ck_assert_ptr_nonnull(rig_module(self, "kinds"));
    ck_assert_uint_eq(loader_module_count(self), 2);
    loader_destroy(self);
}
END_TEST

/* ---- names stay apart ------------------------------------------------------------------------ */

static void each_shows_its_own_name(const char *first, const char *second)
{
    const char *paths[2] = {rig_fixture(first), rig_fixture(second)};
    loader *self = rig_load(paths, 2);
    char name[96];
    ck_assert_uint_eq(loader_module_count(self), 2);
    rig_device_name(rig_module(self, "shares_a"), name, sizeof name);
    ck_assert_str_eq(name, "fixture shares_a");
    rig_device_name(rig_module(self, "shares_b"), name, sizeof name);
    ck_assert_str_eq(name, "fixture shares_b");
    loader_destroy(self);
}

START_TEST(same_names_one_order)
{
    each_shows_its_own_name("shares_a", "shares_b");
}
END_TEST

START_TEST(same_names_other_order)
{
    each_shows_its_own_name("shares_b", "shares_a");
}
END_TEST

/* ---- what is loaded works -------------------------------------------------------------------- */

/* y = W x with W of one Q8_0 block a row: scale 2^-3, codes 1, 2, ... and x = 1. */
static void multiply(const loader_module *module, uint32_t arith)
{
    enum { ROWS = 5, COLS = 32 };
    const tenon_qmatmul_v1 *op = &module->qmatmul;
    tenon_weight_desc desc = {.struct_size = sizeof desc,
                              .abi_version = TENON_ABI_VERSION,
                              .format = TENON_FORMAT_Q8_0,
                              .rows = ROWS,
                              .cols = COLS,
                              .arith = arith};
    unsigned char weights[ROWS * 34];
    float x[COLS], y[ROWS + 1];
    tenon_weight_data data = {.struct_size = sizeof data,
                              .abi_version = TENON_ABI_VERSION,
                              .weights = weights,
                              .weights_bytes = sizeof weights,
                              .identity = 1,
                              .lifetime = TENON_LIFETIME_STABLE};
    tenon_qmatmul_call call = {.struct_size = sizeof call,
                               .abi_version = TENON_ABI_VERSION,
                               .x = {x, NULL, 0, sizeof x},
                               .tokens = 1,
                               .x_row_stride = sizeof x,
                               .output_count = 1};
    tenon_qmatmul_support support = {.struct_size = sizeof support,
                                     .abi_version = TENON_ABI_VERSION};
    tenon_provider *provider = NULL;
    tenon_device *device = NULL;
    tenon_prepared *prepared = NULL;
    unsigned row, i;
    for (row = 0; row < ROWS; row++) {
        weights[row * 34] = 0x00;
        weights[row * 34 + 1] = 0x30; /* the half float 0.125 */
        for (i = 0; i < 32; i++) weights[row * 34 + 2 + i] = (unsigned char)(row + i);
    }
    for (i = 0; i < COLS; i++) x[i] = 1.0f;
    y[ROWS] = -7.0f;
    ck_assert_int_eq(module->provider.open(&rig_services, &provider, NULL), TENON_OK);
    ck_assert_int_eq(module->provider.device_open(provider, 0, &device, NULL), TENON_OK);
    ck_assert_int_eq(op->supports(device, &desc, &support, NULL), TENON_OK);
    ck_assert_int_eq(op->prepare(device, &desc, &data, &prepared, NULL), TENON_OK);
    call.outputs[0].weight = prepared;
    call.outputs[0].y = (tenon_view){y, NULL, 0, ROWS * sizeof(float)};
    call.outputs[0].row_stride = ROWS * sizeof(float);
    ck_assert_int_eq(op->run(device, NULL, &call, NULL), TENON_OK);
    for (row = 0; row < ROWS; row++) {
        /* class A8: 1/127 twice; the sums here are near enough to tell right from wrong */
        float want = (float)(32 * row + 496) * 0.125f;
        ck_assert_msg(y[row] > want * 0.9999f && y[row] < want * 1.0001f, "%f, not %f",
                      (double)y[row], (double)want);
        if (arith == TENON_CLASS_F32) ck_assert(memcmp(&y[row], &want, sizeof want) == 0);
    }
    ck_assert(y[ROWS] == -7.0f);
    op->release(device, prepared);
    module->provider.device_close(device);
    module->provider.close(provider);
}

START_TEST(good_provider_multiplies)
{
    loader *self = rig_load_one(rig_fixture("good"));
    ck_assert_uint_eq(loader_module_count(self), 1);
    multiply(loader_module_at(self, 0), TENON_CLASS_F32);
    multiply(loader_module_at(self, 0), TENON_CLASS_A8);
    /* all it made was given back through its own functions */
    ck_assert_str_eq(rig_service_text, "good: closed, prepared 2 released 2, devices 2 closed 2");
    loader_destroy(self);
}
END_TEST

/* Built against the headers of the first release, and never touched since. */
START_TEST(provider_of_the_past_multiplies)
{
    loader *self = rig_load_one(rig_fixture("frozen_1"));
    ck_assert_msg(loader_module_count(self) == 1, "%s", loader_verdict_at(self, 0)->line);
    multiply(loader_module_at(self, 0), TENON_CLASS_F32);
    loader_destroy(self);
}
END_TEST

/* A longer descriptor than the host knows: what it has in common works (R6). */
START_TEST(provider_of_the_future_multiplies)
{
    const char *paths[2] = {rig_fixture("long_provider"), rig_fixture("long_qmatmul")};
    loader *self = rig_load(paths, 2);
    ck_assert_uint_eq(loader_module_count(self), 2);
    multiply(loader_module_at(self, 0), TENON_CLASS_F32);
    multiply(loader_module_at(self, 1), TENON_CLASS_A8);
    ck_assert_uint_eq(loader_module_at(self, 0)->provider.struct_size, sizeof(tenon_provider_v1));
    loader_destroy(self);
}
END_TEST

/* ---- the probe ------------------------------------------------------------------------------- */

/* The time limit is what ends it: without one this test would run into its own. */
START_TEST(endless_constructor_is_killed)
{
    const char *path = rig_fixture("loops_at_load");
    loader_options options = rig_options(&path, 1);
    const loader_verdict *verdict;
    loader *self;
    options.probe_timeout_ms = 1000;
    self = rig_create(&options);
    verdict = rig_verdict(self, path);
    ck_assert_msg(verdict->reason == TENON_REASON_PROBE_TIMEOUT, "%s", verdict->line);
    ck_assert_msg(strstr(verdict->line, "1000") != NULL, "%s", verdict->line);
    ck_assert_uint_eq(rig_mappings("tenon-loops"), 0);
    loader_destroy(self);
}
END_TEST

START_TEST(probe_report_of_a_good_provider)
{
    loader_probe_report report;
    ck_assert_int_eq(
        loader_probe(rig_fixture("kinds"), NULL, 0, rig_place("TENON_PROBE"), 60000, &report, NULL),
        TENON_OK);
    ck_assert_msg(report.reason == 0, "%u %s", report.reason, report.detail);
    ck_assert_int_eq(report.open_status, TENON_OK);
    ck_assert_uint_eq(report.device_count, 2);
    ck_assert_uint_eq(report.devices[0].kind, TENON_DEVICE_SOFTWARE);
    ck_assert_uint_eq(report.devices[1].kind, TENON_DEVICE_DISCRETE);
    ck_assert_str_eq(report.devices[1].name, "fixture kinds");
    loader_probe_report_clear(&report);
}
END_TEST

START_TEST(probe_report_of_an_old_driver)
{
    loader_probe_report report;
    ck_assert_int_eq(loader_probe(rig_fixture("driver_too_old"), NULL, 0, rig_place("TENON_PROBE"),
                                  60000, &report, NULL),
                     TENON_OK);
    ck_assert_msg(report.reason == 0, "%u %s", report.reason, report.detail);
    ck_assert_int_eq(report.open_status, TENON_STATE);
    ck_assert_uint_eq(report.open_reason, TENON_REASON_DRIVER_TOO_OLD);
    ck_assert_uint_eq(report.open_wanted, 550);
    ck_assert_uint_eq(report.open_available, 535);
    ck_assert_msg(strstr(report.open_text, "535") != NULL, "%s", report.open_text);
    loader_probe_report_clear(&report);
}
END_TEST

START_TEST(probe_report_without_devices)
{
    loader_probe_report report;
    ck_assert_int_eq(loader_probe(rig_fixture("no_device"), NULL, 0, rig_place("TENON_PROBE"),
                                  60000, &report, NULL),
                     TENON_OK);
    ck_assert_msg(report.reason == 0, "%u %s", report.reason, report.detail);
    ck_assert_uint_eq(report.device_count, 0);
    ck_assert_uint_eq(report.no_device_reason, TENON_REASON_NO_DEVICE);
    ck_assert_str_eq(report.no_device_text, "firmware did not come up");
    loader_probe_report_clear(&report);
}
END_TEST

START_TEST(probe_without_a_helper)
{
    const char *path = rig_fixture("good");
    loader_options options = rig_options(&path, 1);
    loader *self;
    options.probe_helper = "/nowhere/tenon-probe";
    self = rig_create(&options);
    ck_assert_uint_eq(loader_module_count(self), 0); /* a stranger's code is not run unprobed */
    ck_assert_msg(rig_verdict(self, path)->reason == TENON_REASON_PROBE_HELPER, "%s",
                  rig_verdict(self, path)->line);
    loader_destroy(self);
}
END_TEST

/* A helper that counts how often it is run, one byte a time, and then is the real one. */
static char *counting_helper(const char *count)
{
    char *script = rig_path("%s/counting-probe", rig_scratch());
    char *text = rig_path("#!/bin/sh\nprintf x >>'%s'\nexec '%s' \"$@\"\n", count,
                          rig_place("TENON_PROBE"));
    rig_write(script, text, strlen(text));
    ck_assert_int_eq(chmod(script, 0755), 0);
    return script;
}

static long size_of(const char *path)
{
    struct stat state;
    return stat(path, &state) == 0 ? (long)state.st_size : 0;
}

START_TEST(judging_only_runs_nothing)
{
    char *mark = rig_path("%s/mark", rig_scratch()), *count = rig_path("%s/count", rig_scratch());
    const char *path = rig_fixture("marks_at_load");
    loader_options options = rig_options(&path, 1);
    loader *self;
    ck_assert_int_eq(setenv("FIXTURE_MARK", mark, 1), 0);
    options.judge_only = true;
    options.probe_helper = counting_helper(count);
    self = rig_create(&options);
    ck_assert_uint_eq(loader_module_count(self), 0);
    ck_assert_uint_eq(rig_verdict(self, path)->stage, TENON_STAGE_STATIC);
    ck_assert_uint_eq(rig_verdict(self, path)->reason, 0);
    loader_destroy(self);
    ck_assert_int_ne(access(mark, F_OK), 0);
    ck_assert_int_eq(size_of(count), 0);
}
END_TEST

/* A success is remembered by content: another copy of the same bytes is not probed again, one
 * changed byte is. A failure is tried again. */
START_TEST(probe_is_remembered)
{
    char *count = rig_path("%s/count", rig_scratch());
    char *copy = rig_path("%s/tenon-copy.so", rig_scratch());
    const char *path = rig_fixture("good");
    loader_options options = rig_options(&path, 1);
    loader *self;
    FILE *file;
    options.probe_helper = counting_helper(count);
    self = rig_create(&options);
    ck_assert_msg(loader_module_count(self) == 1, "%s", rig_verdict(self, path)->line);
    loader_destroy(self);
    ck_assert_int_eq(size_of(count), 1);

    rig_copy(path, copy, -1);
    options.paths = (const char *const[]){copy};
    self = rig_create(&options);
    ck_assert_uint_eq(loader_module_count(self), 1);
    loader_destroy(self);
    ck_assert_int_eq(size_of(count), 1);

    ck_assert_int_eq(unlink(copy), 0);
    rig_copy(path, copy, -1);
    file = fopen(copy, "ab");
    ck_assert_ptr_nonnull(file);
    fputc('x', file);
    fclose(file);
    self = rig_create(&options);
    loader_destroy(self);
    ck_assert_int_eq(size_of(count), 2);

    options.paths = (const char *const[]){rig_fixture("exits_at_load")};
    self = rig_create(&options);
    ck_assert_uint_eq(loader_verdict_at(self, 0)->reason, TENON_REASON_PROBE_EXITED);
    loader_destroy(self);
    self = rig_create(&options);
    ck_assert_uint_eq(loader_module_count(self), 0);
    loader_destroy(self);
    ck_assert_int_eq(size_of(count), 4);
}
END_TEST

/* What a provider prints does not reach this process's standard output. */
START_TEST(stdout_stays_clean)
{
    char *file = rig_path("%s/stdout", rig_scratch());
    struct stat state;
    loader_probe_report report;
    int kept = dup(1);
    ck_assert_int_ge(kept, 0);
    fflush(stdout);
    ck_assert_ptr_nonnull(freopen(file, "wb", stdout));
    ck_assert_int_eq(loader_probe(rig_fixture("prints_at_load"), NULL, 0, rig_place("TENON_PROBE"),
                                  60000, &report, NULL),
                     TENON_OK);
    fflush(stdout);
    ck_assert_int_ge(dup2(kept, 1), 0);
    close(kept);
    ck_assert_int_eq(stat(file, &state), 0);
    ck_assert_int_eq(state.st_size, 0);
    ck_assert_uint_eq(report.reason, 0);
    loader_probe_report_clear(&report);
}
END_TEST

/* ---- several at once ------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 5 };

static void *load_and_close(void *context)
{
    const char *const *paths = context;
    intptr_t good = 0;
    int i;
    for (i = 0; i < ROUNDS; i++) {
        loader_options options = {.paths = paths,
                                  .path_count = 3,
                                  .no_search = true,
                                  .probe_helper = getenv("TENON_PROBE"),
                                  .probe_timeout_ms = 60000,
                                  .log = rig_log};
        loader *self = NULL;
        if (loader_create(&options, &self, NULL) == TENON_OK && loader_module_count(self) == 2 &&
            loader_verdict_count(self) == 3)
            good++;
        loader_destroy(self);
    }
    return (void *)good;
}

START_TEST(several_threads)
{
    const char *paths[3] = {rig_fixture("good"), rig_fixture("short_qmatmul"),
                            rig_fixture("good_two")};
    pthread_t threads[THREADS];
    int i;
    for (i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load_and_close, paths), 0);
    for (i = 0; i < THREADS; i++) {
        void *good = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &good), 0);
        ck_assert_int_eq((intptr_t)good, ROUNDS);
    }
}
END_TEST

/* ---- linked into the program ------------------------------------------------------------------ */

/* The descriptors of a provider that is there already, as a program that links it would hand them
 * over: under another id. */
START_TEST(linked_into_the_program)
{
    loader *file = rig_load_one(rig_fixture("good")), *self = rig_load(NULL, 0);
    tenon_provider_v1 provider = loader_module_at(file, 0)->provider, needy, old;
    tenon_qmatmul_v1 qmatmul = loader_module_at(file, 0)->qmatmul;
    tenon_static_symbol symbols[2] = {{"provider_v1", &provider}, {"qmatmul_v1", &qmatmul}};
    tenon_error error = {TENON_HEAD(tenon_error), 0, 0, 0, 0, 0, 0, ""};
    strcpy(provider.id, "linked");
    needy = old = provider;
    needy.needs = 1;
    old.abi_version = 0;
    ck_assert_int_eq(loader_register(self, symbols, 1, &error), TENON_ABI);
    ck_assert_msg(strstr(error.text, "qmatmul_v1") != NULL, "%s", error.text);
    symbols[1].name = "qmatmul_v0";
    ck_assert_int_eq(loader_register(self, symbols, 2, &error), TENON_ABI);
    symbols[1].name = "qmatmul_v1";
    symbols[0].descriptor = &needy;
    ck_assert_int_eq(loader_register(self, symbols, 2, &error), TENON_ABI);
    symbols[0].descriptor = &old;
    ck_assert_int_eq(loader_register(self, symbols, 2, &error), TENON_ABI);
    ck_assert_uint_eq(loader_module_count(self), 0);
    symbols[0].descriptor = &provider;
    ck_assert_int_eq(loader_register(self, symbols, 2, &error), TENON_OK);
    ck_assert_uint_eq(loader_module_count(self), 1);
    ck_assert_str_eq(loader_module_at(self, 0)->verdict->file, "");
    multiply(rig_module(self, "linked"), TENON_CLASS_F32);
    ck_assert_int_ne(loader_register(self, symbols, 2, &error), TENON_OK); /* the id is taken */
    ck_assert_uint_eq(loader_module_count(self), 1);
    loader_destroy(self);
    loader_destroy(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loader");
    TCase *test_case = tcase_create("loader");
    tcase_add_checked_fixture(test_case, rig_clean_environment, rig_clean);
    tcase_set_timeout(test_case, 120);
    tcase_add_test(test_case, failed_loads_leave_nothing);
    tcase_add_test(test_case, refused_after_loading_leaves_nothing);
    tcase_add_test(test_case, rescan_keeps_what_is_loaded);
    tcase_add_test(test_case, same_names_one_order);
    tcase_add_test(test_case, same_names_other_order);
    tcase_add_test(test_case, good_provider_multiplies);
    tcase_add_test(test_case, provider_of_the_past_multiplies);
    tcase_add_test(test_case, provider_of_the_future_multiplies);
    tcase_add_test(test_case, endless_constructor_is_killed);
    tcase_add_test(test_case, probe_report_of_a_good_provider);
    tcase_add_test(test_case, probe_report_of_an_old_driver);
    tcase_add_test(test_case, probe_report_without_devices);
    tcase_add_test(test_case, probe_without_a_helper);
    tcase_add_test(test_case, judging_only_runs_nothing);
    tcase_add_test(test_case, probe_is_remembered);
    tcase_add_test(test_case, stdout_stays_clean);
    tcase_add_test(test_case, several_threads);
    tcase_add_test(test_case, linked_into_the_program);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
