/* A provider whose destructor calls the host's log, after the host is gone: the process ends with
 * the status it chose, and the log function is not called again. */
#include <tenon/engine.h>

#include "loader_rig.h"
#include "runner.h"

static bool host_is_gone;

/* The engine's log function: after tenon_host_destroy nobody may call it. */
static void TENON_CALL log_line(void *context, uint32_t level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
    if (host_is_gone) _exit(99);
}

/* Opens the provider through a session, so that it knows the host's services, and closes all. */
static int open_and_close(const char *variant)
{
    char path[4096]; /* no check of Check's here: this is not a test but its child */
    const char *paths[1] = {path};
    tenon_host_desc desc = {.struct_size = sizeof desc,
                            .abi_version = TENON_ABI_VERSION,
                            .provider_paths = paths,
                            .provider_path_count = 1,
                            .log = log_line,
                            .threads = 1,
                            .flags = TENON_HOST_NO_SEARCH};
    tenon_session_desc session_desc = {.struct_size = sizeof session_desc,
                                       .abi_version = TENON_ABI_VERSION,
                                       .chain = variant,
                                       .mode = TENON_MODE_PIN};
    tenon_error error = {TENON_HEAD(tenon_error), 0, 0, 0, 0, 0, 0, ""};
    tenon_host *host = NULL;
    tenon_session *session = NULL;
    int status = 20;
    snprintf(path, sizeof path, "%s/tenon-%s.so", getenv("TENON_FIXTURES"), variant);
    if (tenon_host_create(&desc, &host, &error) != TENON_OK) goto out;
    status = 21;
    if (tenon_session_create(host, &session_desc, &session, &error) != TENON_OK) goto out;
    status = 0;
out:
    if (status != 0) fprintf(stderr, "%s\n", error.text);
    tenon_session_destroy(session);
    if (tenon_host_destroy(host, NULL) != TENON_OK) status = 22;
    host_is_gone = true;
    return status;
}

/* What the child process does: its status is 0 (or 7) when all went well. */
static int child(const char *how)
{
    int status = open_and_close("logs_at_unload");
    if (status != 0) return status;
    if (strcmp(how, "exit") == 0) exit(7);
    if (strcmp(how, "again") == 0) {
        host_is_gone = false;
        return open_and_close("logs_at_unload");
    }
    if (strcmp(how, "other") == 0) { /* a new host that does not know the old provider */
        host_is_gone = false;
        return open_and_close("good");
    }
    return 0;
}

static void ends_with(const char *how, int want)
{
    int status = rig_run(rig_program_copy("providers=/nowhere\n"), "--child", how);
    ck_assert_msg(status != 99, "%s: the log was called after the host's end", how);
    ck_assert_msg(status == want, "%s: status %d, not %d", how, status, want);
}

START_TEST(by_return)
{
    ends_with("return", 0);
}
END_TEST

START_TEST(by_exit)
{
    ends_with("exit", 7);
}
END_TEST

START_TEST(after_a_second_host)
{
    ends_with("again", 0);
}
END_TEST

START_TEST(after_another_host)
{
    ends_with("other", 0);
}
END_TEST

int main(int count, char **arguments)
{
    Suite *suite;
    TCase *test_case;
    if (count == 3 && strcmp(arguments[1], "--child") == 0) return child(arguments[2]);
    suite = suite_create("loader exit");
    test_case = tcase_create("exit");
    tcase_add_checked_fixture(test_case, rig_clean_environment, rig_clean);
    tcase_set_timeout(test_case, 120);
    tcase_add_test(test_case, by_return);
    tcase_add_test(test_case, by_exit);
    tcase_add_test(test_case, after_a_second_host);
    tcase_add_test(test_case, after_another_host);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
