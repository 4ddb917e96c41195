/* The fixtures of whole operations do what their tests rely on: exact answers, and failures that
 * come when and as they were ordered. */
#include "fixture_rig.h"

/* ------------------------------------------------------------------ what they export */

START_TEST(test_names)
{
    static const struct {
        const char *name;
        bool operations, memory; /* memory: and graphs */
    } known[] = {{"only_qmatmul", false, false},
                 {"ops_fail", true, false},
                 {"ops_full", true, false},
                 {"async", true, true}};
    static const char *const names[] = {
#define TENON_SYMBOL(name, kind, type, header) #name,
#define TENON_SYMBOL_VIEW(name, direction, field)
#include <symbols.def>
#undef TENON_SYMBOL
#undef TENON_SYMBOL_VIEW
    };
    size_t i, k;
    ck_assert_uint_ge(sizeof names / sizeof names[0], 9);
    for (i = 0; i < sizeof known / sizeof known[0]; i++) {
        fixture of;
        fixture_open(&of, known[i].name, NULL);
        ck_assert_str_eq(of.provider_v1->id, known[i].name);
        for (k = 0; k < sizeof names / sizeof names[0]; k++) {
            bool must = strcmp(names[k], "provider_v1") == 0 || strcmp(names[k], "qmatmul_v1") == 0;
            bool device = strcmp(names[k], "memory_v1") == 0 || strcmp(names[k], "graph_v1") == 0;
            bool wanted = must || (device ? known[i].memory : known[i].operations);
            ck_assert_msg((dlsym(of.file, names[k]) != NULL) == wanted, "%s: %s", known[i].name,
                          names[k]);
        }
        ck_assert_ptr_null(dlsym(of.file, "tenon_reference_provider_v1"));
        fixture_close(&of, 0);
    }
}
END_TEST

START_TEST(test_settings)
{
    static const struct {
        const char *name, *setting;
    } bad[] = {{"ops_fail", "ops_fail.at=x"},       {"ops_fail", "ops_fail.how=badly"},
               {"ops_fail", "ops_fail.operation="}, {"ops_full", "ops_full.weights=-1"},
               {"async", "async.lose_at=1x"},       {"async", "async.memory="}};
    size_t i;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fixture of;
        ck_assert_int_eq(fixture_begin(&of, bad[i].name, bad[i].setting, NULL), TENON_STATE);
        ck_assert_uint_eq(of.error.reason, TENON_REASON_UNKNOWN_CONFIG);
        dlclose(of.file);
    }
}
END_TEST

/* ------------------------------------------------------------------ exact in host memory */

START_TEST(test_exact)
{
    static const char *const names[] = {"ops_fail", "ops_full", "async", "only_qmatmul"};
    fixture of;
    work_rig rig;
    int i;
    fixture_open(&of, names[_i], NULL);
    work_open(&rig, &of);
    for (i = 0; i < OPERATIONS; i++) {
        if (of.attention == NULL && i != QMATMUL) continue;
        memset(rig.y, UNTOUCHED, sizeof rig.y);
        fixture_must(&of, work_run(&rig, i));
        check_right(&rig, i);
    }
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

/* ------------------------------------------------------------------ ops_fail */

/* The second and third call of one operation fail, the others answer. */
START_TEST(test_fails)
{
    int operation = _i / 2, call;
    bool half = _i % 2 != 0;
    char setting[64];
    fixture of;
    work_rig rig;
    snprintf(setting, sizeof setting, "ops_fail.operation=%s", operation_names[operation]);
    fixture_open(&of, "ops_fail", setting, "ops_fail.at=2", "ops_fail.times=2",
                 half ? "ops_fail.how=half" : "ops_fail.how=clean");
    work_open(&rig, &of);
    if (operation == ATTENTION) fixture_must(&of, work_run(&rig, APPEND));
    for (call = 1; call <= 4; call++) {
        uint64_t length = length_of(&rig);
        int32_t status;
        if (operation != ADD) fixture_must(&of, work_run(&rig, ADD)); /* another one, not counted */
        memset(rig.y, UNTOUCHED, sizeof rig.y);
        status = work_run(&rig, operation);
        if (call == 1 || call == 4) {
            ck_assert_int_eq(status, TENON_OK);
            check_right(&rig, operation);
            if (operation == APPEND)
                fixture_must(&of,
                             of.attention->truncate(of.device, of.queue, rig.cache, 0, &of.error));
            continue;
        }
        ck_assert_int_eq(status, TENON_INTERNAL);
        ck_assert_uint_eq(of.error.scope, TENON_SCOPE_CALL);
        ck_assert_uint_eq(length_of(&rig), length);
        if (half && operation != APPEND) {
            check_half(&rig, operation, UNTOUCHED);
        } else {
            size_t i;
            for (i = 0; i < sizeof rig.y; i++) ck_assert_uint_eq(((uint8_t *)rig.y)[i], UNTOUCHED);
        }
    }
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

START_TEST(test_fails_any)
{
    fixture of;
    work_rig rig;
    int i;
    fixture_open(&of, "ops_fail", "ops_fail.at=4", NULL);
    work_open(&rig, &of);
    for (i = 0; i < OPERATIONS; i++)
        ck_assert_int_eq(work_run(&rig, i), i == 3 ? TENON_INTERNAL : TENON_OK);
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

/* ------------------------------------------------------------------ ops_full */

START_TEST(test_full)
{
    fixture of;
    work_rig rig;
    tenon_prepared *second = NULL, *third = NULL;
    tenon_device_cache *more = NULL;
    uint64_t bytes;
    fixture_open(&of, "ops_full", "ops_full.weights=2", "ops_full.caches=1", NULL);
    work_open(&rig, &of);
    fixture_must(&of, prepare_weight(&rig, &second));
    ck_assert_int_eq(prepare_weight(&rig, &third), TENON_NOMEM);
    ck_assert_uint_eq(of.error.scope, TENON_SCOPE_WEIGHT);
    ck_assert_uint_gt(of.error.wanted, sizeof rig.codes);
    bytes = of.error.wanted;
    ck_assert_ptr_null(third);
    ck_assert_int_eq(create_cache(&rig, &more), TENON_NOMEM);
    ck_assert_uint_eq(of.error.scope, TENON_SCOPE_WEIGHT);
    ck_assert_int_eq(of.attention->clone(of.device, of.queue, rig.cache, &more, &of.error),
                     TENON_NOMEM);
    fixture_must(&of, work_run(&rig, QMATMUL));
    check_right(&rig, QMATMUL);
    of.qmatmul->release(of.device, second); /* makes room */
    fixture_must(&of, prepare_weight(&rig, &third));
    of.qmatmul->release(of.device, third);
    work_close(&rig);
    fixture_close(&of, 0);
    /* by bytes: one and a half */
    {
        char setting[64];
        snprintf(setting, sizeof setting, "ops_full.bytes=%llu",
                 (unsigned long long)(bytes + bytes / 2));
        fixture_open(&of, "ops_full", setting, NULL);
        work_open(&rig, &of);
        ck_assert_int_eq(prepare_weight(&rig, &second), TENON_NOMEM);
        ck_assert_uint_eq(of.error.wanted, bytes);
        ck_assert_uint_eq(of.error.available, bytes / 2);
        work_close(&rig);
        fixture_close(&of, 0);
    }
}
END_TEST

START_TEST(test_leak_is_said)
{
    static void *forgotten; /* not by leak checkers */
    fixture of;
    work_rig rig;
    fixture_open(&of, _i == 0 ? "ops_full" : "async", NULL);
    work_open(&rig, &of);
    of.qmatmul->release(of.device, rig.weight);
    forgotten = rig.cache;
    ck_assert_ptr_nonnull(forgotten);
    fixture_close(&of, 1); /* the cache is still there */
    ck_assert_ptr_nonnull(strstr(of.last, "never given back"));
}
END_TEST

/* Cuts and copies of a cache come in order with the rest. */
START_TEST(test_cache)
{
    static const char *const names[] = {NULL, "async", "ops_fail"};
    static float right[VALUES];
    fixture of;
    work_rig rig;
    tenon_device_cache *original, *copy = NULL;
    size_t n;
    for (n = 0; n < 3; n++) {
        fixture_open(&of, names[n], NULL);
        work_open(&rig, &of);
        fixture_must(&of, work_run(&rig, APPEND));
        memmove(rig.k, rig.k + 3, sizeof rig.k - 3 * sizeof *rig.k);
        fixture_must(&of, work_run(&rig, APPEND));
        fixture_must(&of, of.attention->evict(of.device, of.queue, rig.cache, 2, 3, &of.error));
        ck_assert_uint_eq(length_of(&rig), 2 * TOKENS - 3);
        fixture_must(&of, of.attention->clone(of.device, of.queue, rig.cache, &copy, &of.error));
        fixture_must(&of, of.attention->truncate(of.device, of.queue, rig.cache, 1, &of.error));
        ck_assert_int_lt(work_run(&rig, ATTENTION), 0); /* five rows of one position */
        original = rig.cache;
        rig.cache = copy;
        fixture_must(&of, work_run(&rig, ATTENTION));
        if (n == 0) memcpy(right, rig.y, sizeof right);
        ck_assert_int_eq(memcmp(rig.y, right, sizeof right), 0);
        of.attention->free(of.device, original);
        work_close(&rig);
        fixture_close(&of, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("operation fixtures");
    TCase *all = tcase_create("all");
    SRunner *runner;
    tcase_add_unchecked_fixture(all, compute_expected, NULL);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, test_names);
    tcase_add_test(all, test_settings);
    tcase_add_loop_test(all, test_exact, 0, 4);
    tcase_add_loop_test(all, test_fails, 0, 2 * OPERATIONS);
    tcase_add_test(all, test_fails_any);
    tcase_add_test(all, test_full);
    tcase_add_loop_test(all, test_leak_is_said, 0, 2);
    tcase_add_test(all, test_cache);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    return runner_main(runner);
}
