/* Out of memory at every single allocation: a clear answer, and nothing leaked (a leak checker
 * watches). Linked with -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup. */
#include "loader_rig.h"
#include "runner.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);

static bool armed;
static unsigned long made, fail_at;

static bool fails(void)
{
    return armed && made++ == fail_at;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

static void TENON_CALL silent(void *context, uint32_t level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
}

/* A loader over a good file, a refused one, and what is not there; with a rescan. */
static int32_t everything(const loader_options *options, tenon_error *error)
{
    loader *self = NULL;
    int32_t status = loader_create(options, &self, error);
    if (status == TENON_OK) status = loader_rescan(self, error);
    loader_destroy(self);
    return status;
}

START_TEST(at_every_allocation)
{
    char *good = rig_fixture("good"), *old = rig_fixture("old_qmatmul");
    char *none = rig_path("%s/none", rig_scratch());
    const char *paths[3] = {good, none, old};
    loader_options options = rig_options(paths, 3);
    tenon_error error = {TENON_HEAD(tenon_error), 0, 0, 0, 0, 0, 0, ""};
    unsigned long refused = 0;
    int32_t status;
    options.log = silent;
    options.select = "good,old*";
    options.disable = "old_qmatmul2*,reference";
    ck_assert_int_eq(everything(&options, &error), TENON_ARG); /* nothing is called old_qmatmul2 */
    options.disable = NULL;
    ck_assert_int_eq(everything(&options, &error), TENON_OK); /* and now the probe is remembered */
    for (fail_at = 0;; fail_at++) {
        made = 0;
        armed = true;
        status = everything(&options, &error);
        armed = false;
        if (status == TENON_NOMEM) {
            refused++;
            ck_assert_int_eq(error.status, TENON_NOMEM);
            ck_assert_uint_eq(error.reason, TENON_REASON_OUT_OF_MEMORY);
        } else {
            ck_assert_int_eq(status, TENON_OK);
        }
        if (made <= fail_at) break; /* it was not reached any more */
        ck_assert_uint_lt(fail_at, 100000);
    }
    ck_assert_uint_gt(refused, 20);
    ck_assert_int_eq(everything(&options, &error), TENON_OK);
}
END_TEST

/* The same for judging and for the probe. */
START_TEST(judging_and_probing)
{
    const char *helper = rig_place("TENON_PROBE");
    char *good = rig_fixture("good");
    for (fail_at = 0;; fail_at++) {
        loader_verdict verdict;
        loader_image_facts facts;
        int32_t status;
        made = 0;
        armed = true;
        status = loader_judge(good, &verdict, &facts, NULL);
        armed = false;
        ck_assert(status == TENON_OK || status == TENON_NOMEM);
        loader_verdict_clear(&verdict);
        loader_image_facts_clear(&facts);
        if (made <= fail_at) break;
    }
    ck_assert_uint_gt(fail_at, 5);
    for (fail_at = 0;; fail_at++) {
        loader_probe_report report;
        int32_t status;
        made = 0;
        armed = true;
        status = loader_probe(good, NULL, 0, helper, 60000, &report, NULL);
        armed = false;
        ck_assert(status == TENON_OK || status == TENON_NOMEM);
        loader_probe_report_clear(&report);
        if (made <= fail_at) break;
    }
    ck_assert_uint_gt(fail_at, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loader memory");
    TCase *test_case = tcase_create("memory");
    tcase_add_checked_fixture(test_case, rig_clean_environment, rig_clean);
    tcase_set_timeout(test_case, 300);
    tcase_add_test(test_case, at_every_allocation);
    tcase_add_test(test_case, judging_and_probing);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
