/* The probe as the host sees it: reports that may say anything, helpers that end in every way, and
 * a cache that nobody can plant an answer in. The helpers here are small shell scripts. */
#include <loader/platform.h>
#include <loader/probe.h>
#include <loader/sha256.h>
#include <pthread.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include "runner.h"
#include "scratch.h"

static void setup(void)
{
    scratch_make();
    setenv("XDG_CACHE_HOME", below("cache"), 1);
}

/* ---- reports -------------------------------------------------------------------------------- */

static const char good_report[] = PROBE_PROTOCOL
    "\n"
    "at load\n"
    "at open\n"
    "open 0 0 0 0 -\n"
    "devices 2 0 -\n"
    "device 1 6 0 1024 512 000102030405060708090a0b0c0d0e0f 637075 - 61767832\n"
    "device 5 2 1004 18446744073709551615 0 - 736f6674 64726976 -\n"
    "at test\n"
    "tested 12\n"
    "at close\n"
    "end\n";

START_TEST(good)
{
    probe_outcome out = {0};
    ck_assert_int_eq(probe_parse(good_report, &out), TENON_OK);
    ck_assert_uint_eq(out.fault.reason, 0);
    ck_assert(out.ended);
    ck_assert_str_eq(out.phase, "close");
    ck_assert_uint_eq(out.tested, 12);
    ck_assert_int_eq(out.report.open_status, TENON_OK);
    ck_assert_uint_eq(out.report.device_count, 2);
    ck_assert_uint_eq(out.report.devices[0].kind, TENON_DEVICE_CPU);
    ck_assert_uint_eq(out.report.devices[0].arith, 6);
    ck_assert_uint_eq(out.report.devices[0].memory_total, 1024);
    ck_assert_uint_eq(out.report.devices[0].memory_free, 512);
    ck_assert_uint_eq(out.report.devices[0].uuid[15], 15);
    ck_assert_str_eq(out.report.devices[0].name, "cpu");
    ck_assert_str_eq(out.report.devices[0].driver, "");
    ck_assert_str_eq(out.report.devices[0].detail, "avx2");
    ck_assert_uint_eq(out.report.devices[1].unusable, TENON_REASON_DEVICE_UNUSABLE);
    ck_assert_uint_eq(out.report.devices[1].memory_total, TENON_UNKNOWN);
    ck_assert_str_eq(out.report.devices[1].driver, "driv");
    probe_outcome_clear(&out);
}
END_TEST

/* Cut anywhere, it is read as far as it goes and never taken for a whole one. */
START_TEST(cut_everywhere)
{
    size_t size;
    for (size = 0; size < strlen(good_report); size++) {
        char *text = strndup(good_report, size);
        probe_outcome out = {0};
        ck_assert_int_eq(probe_parse(text, &out), TENON_OK);
        ck_assert(!out.ended);
        ck_assert_uint_le(out.report.device_count, 2);
        probe_outcome_clear(&out);
        free(text);
    }
}
END_TEST

START_TEST(damaged_everywhere)
{
    size_t at;
    unsigned i, refused = 0;
    for (at = 0; at < strlen(good_report); at++)
        for (i = 0; i < 8; i++) {
            char *text = strdup(good_report);
            probe_outcome out = {0};
            text[at] = (char)(text[at] ^ 1 << i);
            ck_assert_int_eq(probe_parse(text, &out), TENON_OK);
            refused += out.fault.reason != 0 || !out.ended;
            ck_assert_uint_le(out.report.device_count, PROBE_MAX_DEVICES);
            probe_outcome_clear(&out);
            free(text);
        }
    ck_assert_uint_gt(refused, strlen(good_report));
}
END_TEST

#define REPORT(lines) PROBE_PROTOCOL "\n" lines "end\n"

static const struct {
    const char *text;
    uint32_t reason;
} bad_reports[] = {
    {REPORT(""), 0},
    {REPORT("refused 409 71 - - -\n"), TENON_REASON_PROBE_SELF_TEST},
    {REPORT("refused 409 - - - -\nrefused 401 - - - -\n"), TENON_REASON_PROBE_SELF_TEST},
    {REPORT("refused 0 - - - -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("refused 1201 - - - -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("refused 409 - - -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("refused 409 - - - - -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("refused 409 - - - 7\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("refused 409 - - - zz\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("nonsense\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("at\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("at abcdefghijklmnopqrstuvwxyzabcdefghij\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("devices 257 0 -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("devices 18446744073709551616 0 -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("devices 1 0 -\ndevices 1 0 -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("device 1 6 0 1 1 - - - -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("devices 0 1002 6e6f\ndevice 1 6 0 1 1 - - - -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("open -99999999999 0 0 0 -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("open - 0 0 0 -\n"), TENON_REASON_PROBE_REFUSED},
    {REPORT("open -3 1003 550 535 6f6c64\n"), 0},
    {REPORT("end\n"), TENON_REASON_PROBE_REFUSED},
    {"tenon-probe 999 9.9.9\nend\n", TENON_REASON_PROBE_HELPER},
    {"hello\n", TENON_REASON_PROBE_HELPER},
};

START_TEST(reports)
{
    probe_outcome out = {0};
    ck_assert_int_eq(probe_parse(bad_reports[_i].text, &out), TENON_OK);
    ck_assert_msg(out.fault.reason == bad_reports[_i].reason, "report %d: %u", _i,
                  out.fault.reason);
    probe_outcome_clear(&out);
}
END_TEST

START_TEST(honest_failure)
{
    probe_outcome out = {0};
    ck_assert_int_eq(probe_parse(REPORT("open -3 1003 550 535 6f6c640a78\n"), &out), TENON_OK);
    ck_assert(out.ended);
    ck_assert_uint_eq(out.fault.reason, 0);
    ck_assert_int_eq(out.report.open_status, TENON_STATE);
    ck_assert_uint_eq(out.report.open_reason, TENON_REASON_DRIVER_TOO_OLD);
    ck_assert_uint_eq(out.report.open_wanted, 550);
    ck_assert_uint_eq(out.report.open_available, 535);
    ck_assert_str_eq(out.report.open_text, "old x"); /* one line */
    probe_outcome_clear(&out);
}
END_TEST

/* ---- helpers -------------------------------------------------------------------------------- */

/* Runs a script as the helper. */
static probe_outcome run_script(const char *script, uint32_t timeout_ms)
{
    static unsigned number;
    char name[32], text[4096];
    probe_outcome out;
    char *path;
    snprintf(name, sizeof name, "helper%u", number++);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    path = make_file(name, 0755, text);
    ck_assert_int_eq(probe_run("/some/tenon-x.so", NULL, 0, path, timeout_ms, &out), TENON_OK);
    return out;
}

#define SAY_FIRST "printf '%s\\n' '" PROBE_PROTOCOL "' 'at load' >&3\n"

START_TEST(ends)
{
    static const struct {
        const char *script;
        uint32_t timeout_ms, reason;
        const char *have, *text;
    } cases[] = {
        {SAY_FIRST "echo end >&3", 0, 0, "", NULL},
        {SAY_FIRST "echo printed; echo complained >&2; echo end >&3", 0, 0, "", NULL},
        {SAY_FIRST "read x; echo \"refused 409 - 65 - -\" >&3; echo end >&3", 0,
         TENON_REASON_PROBE_SELF_TEST, "e", NULL}, /* stdin leads nowhere: read returns */
        {SAY_FIRST "kill -SEGV $$", 0, TENON_REASON_PROBE_CRASHED, "SIGSEGV", "SIGSEGV in load"},
        {SAY_FIRST "echo 'two' >&2; echo 'last words' >&2; kill -ILL $$", 0,
         TENON_REASON_PROBE_CRASHED, "SIGILL", "SIGILL in load: last words"},
        {SAY_FIRST "kill -ABRT $$", 0, TENON_REASON_PROBE_CRASHED, "SIGABRT", NULL},
        {SAY_FIRST "exit 3", 0, TENON_REASON_PROBE_EXITED, "exit status 3",
         "exit status 3 in load"},
        {SAY_FIRST "exit 0", 0, TENON_REASON_PROBE_EXITED, "exit status 0", NULL},
        {"exit 5", 0, TENON_REASON_PROBE_EXITED, "exit status 5", "exit status 5 in start"},
        {SAY_FIRST "while :; do :; done", 300, TENON_REASON_PROBE_TIMEOUT, "after 300 ms", NULL},
        {SAY_FIRST "exec sleep 1000", 300, TENON_REASON_PROBE_TIMEOUT, "after 300 ms", NULL},
        {SAY_FIRST "trap '' TERM INT HUP; sleep 1000", 300, TENON_REASON_PROBE_TIMEOUT,
         "after 300 ms", NULL},
        {"yes >&3", 500, TENON_REASON_PROBE_TIMEOUT, "after 500 ms", NULL},
        {"yes >&2", 500, TENON_REASON_PROBE_TIMEOUT, "after 500 ms", NULL},
        {"echo other 1 >&3", 0, TENON_REASON_PROBE_HELPER, "other 1", NULL},
        {"head -c 5000000 /dev/zero >&3", 0, TENON_REASON_PROBE_EXITED, NULL, NULL},
        /* a child that outlives the helper does not hold us up */
        {SAY_FIRST "sleep 1000 & echo end >&3", 20000, 0, "", NULL},
    };
    probe_outcome out = run_script(cases[_i].script, cases[_i].timeout_ms);
    ck_assert_msg(out.fault.reason == cases[_i].reason, "case %d: reason %u (%s, %s)", _i,
                  out.fault.reason, out.fault.have, out.fault.text);
    ck_assert_uint_eq(out.report.reason, cases[_i].reason);
    if (cases[_i].have != NULL) ck_assert_str_eq(out.fault.have, cases[_i].have);
    if (cases[_i].text != NULL) ck_assert_str_eq(out.report.detail, cases[_i].text);
    probe_outcome_clear(&out);
}
END_TEST
enum { END_CASES = 17 };

/* Whatever the helper started ends with it. */
START_TEST(children_are_killed)
{
    char script[1024], text[64] = "";
    FILE *file;
    long child;
    probe_outcome out;
    unsigned tries;
    snprintf(script, sizeof script, "%s sleep 1000 & echo $! > %s; wait", SAY_FIRST,
             below("child"));
    out = run_script(script, 500);
    ck_assert_uint_eq(out.fault.reason, TENON_REASON_PROBE_TIMEOUT);
    probe_outcome_clear(&out);
    file = fopen(below("child"), "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, file));
    fclose(file);
    child = atol(text);
    ck_assert_int_gt(child, 1);
    for (tries = 0; tries < 500; tries++) { /* init may take a moment to reap it */
        char path[64], state[512] = "";
        snprintf(path, sizeof path, "/proc/%ld/stat", child);
        file = fopen(path, "r");
        if (file == NULL) return;
        if (fgets(state, sizeof state, file) != NULL && strstr(state, ") Z ") != NULL) {
            fclose(file);
            return;
        }
        fclose(file);
        platform_sleep_ms(10);
    }
    ck_abort_msg("process %ld is still there", child);
}
END_TEST

/* The arguments arrive whole and in order. */
START_TEST(arguments)
{
    static const char *const config[] = {"cpu.level=avx2", "text=a b \"c\" $x"};
    char line[512];
    FILE *file;
    probe_outcome out;
    char *path, text[1024];
    snprintf(text, sizeof text, "#!/bin/sh\nfor a in \"$@\"; do printf '[%%s]' \"$a\"; done > %s\n",
             below("args"));
    path = make_file("helper", 0755, text);
    ck_assert_int_eq(probe_run("/x y/tenon-z.so", config, 2, path, 0, &out), TENON_OK);
    probe_outcome_clear(&out);
    file = fopen(below("args"), "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    fclose(file);
    ck_assert_str_eq(line,
                     "[--set][cpu.level=avx2][--set][text=a b \"c\" $x][--][/x y/tenon-z.so]");
}
END_TEST

START_TEST(no_helper)
{
    probe_outcome out;
    char *path = below("none");
    ck_assert_int_eq(probe_run("/x.so", NULL, 0, path, 0, &out), TENON_OK);
    ck_assert_uint_eq(out.fault.reason, TENON_REASON_PROBE_HELPER);
    ck_assert_str_eq(out.fault.have, path);
    probe_outcome_clear(&out);
    path = make_file("plain", 0644, "#!/bin/sh\n"); /* not executable */
    ck_assert_int_eq(probe_run("/x.so", NULL, 0, path, 0, &out), TENON_OK);
    ck_assert_uint_eq(out.fault.reason, TENON_REASON_PROBE_HELPER);
    probe_outcome_clear(&out);
    path = make_file("open", 0777, "#!/bin/sh\n"); /* anybody could have written it */
    ck_assert_int_eq(probe_run("/x.so", NULL, 0, path, 0, &out), TENON_OK);
    ck_assert_uint_eq(out.fault.reason, TENON_REASON_PROBE_HELPER);
    ck_assert_ptr_nonnull(strstr(out.report.detail, "writable-path"));
    probe_outcome_clear(&out);
    path = make_file("broken", 0755, "#!/no/such/interpreter\n");
    ck_assert_int_eq(probe_run("/x.so", NULL, 0, path, 0, &out), TENON_OK);
    ck_assert_uint_eq(out.fault.reason, TENON_REASON_PROBE_HELPER);
    probe_outcome_clear(&out);
}
END_TEST

/* A program that reaps every child, or has no standard streams, gets its answer all the same. */
START_TEST(odd_parents)
{
    probe_outcome out;
    signal(SIGCHLD, SIG_IGN);
    out = run_script(SAY_FIRST "echo end >&3", 0);
    ck_assert_uint_eq(out.fault.reason, 0);
    ck_assert(out.ended);
    probe_outcome_clear(&out);
    out = run_script(SAY_FIRST "exit 1", 0);
    ck_assert_uint_eq(out.fault.reason, TENON_REASON_PROBE_EXITED);
    probe_outcome_clear(&out);
    signal(SIGCHLD, SIG_DFL);
    fflush(NULL);
    {
        int saved[3], i;
        for (i = 0; i < 3; i++) saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
        for (i = 0; i < 3; i++) close(i);
        out = run_script(SAY_FIRST "echo out; echo err >&2; echo end >&3", 0);
        for (i = 0; i < 3; i++) dup2(saved[i], i);
    }
    ck_assert_uint_eq(out.fault.reason, 0);
    ck_assert(out.ended);
    probe_outcome_clear(&out);
}
END_TEST

/* Nothing is left: no descriptor, no child. */
START_TEST(nothing_is_left)
{
    platform_state before, after;
    unsigned i;
    ck_assert(platform_state_read(&before));
    for (i = 0; i < 20; i++) {
        probe_outcome out = run_script(
            i % 2 == 0 ? SAY_FIRST "echo end >&3" : SAY_FIRST "kill -KILL $$", 0);
        probe_outcome_clear(&out);
    }
    ck_assert(platform_state_read(&after));
    ck_assert_uint_eq(after.descriptors, before.descriptors);
    ck_assert_uint_eq(after.threads, before.threads);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

/* ---- the cache ------------------------------------------------------------------------------ */

static char *only_entry(void)
{
    DIR *list = opendir(below("cache/tenon/probe"));
    struct dirent *entry;
    char *path = NULL;
    ck_assert_ptr_nonnull(list);
    while ((entry = readdir(list)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        ck_assert_ptr_null(path);
        path = below("cache/tenon/probe/%s", entry->d_name);
    }
    closedir(list);
    ck_assert_ptr_nonnull(path);
    return path;
}

START_TEST(cache)
{
    char *helper = make_file("helper", 0755, "#!/bin/sh\n"), *entry;
    uint8_t digest[32], other[32];
    FILE *file;
    sha256_of("a", 1, digest);
    sha256_of("b", 1, other);
    ck_assert(!probe_is_cached(digest, helper));
    probe_remember(digest, helper);
    ck_assert(probe_is_cached(digest, helper));
    ck_assert(!probe_is_cached(other, helper));
    probe_remember(digest, helper); /* again */
    entry = only_entry();
    /* writable by others, another's content, cut, a link: no answer */
    ck_assert_int_eq(chmod(entry, 0622), 0);
    ck_assert(!probe_is_cached(digest, helper));
    ck_assert_int_eq(chmod(entry, 0600), 0);
    ck_assert(probe_is_cached(digest, helper));
    file = fopen(entry, "ab");
    ck_assert_ptr_nonnull(file);
    fputs("x", file);
    fclose(file);
    ck_assert(!probe_is_cached(digest, helper));
    ck_assert_int_eq(truncate(entry, 10), 0);
    ck_assert(!probe_is_cached(digest, helper));
    probe_remember(digest, helper); /* and mended */
    ck_assert(probe_is_cached(digest, helper));
    ck_assert_int_eq(rename(entry, below("moved")), 0);
    ck_assert_int_eq(symlink(below("moved"), entry), 0);
    ck_assert(!probe_is_cached(digest, helper));
    ck_assert_int_eq(unlink(entry), 0);
    ck_assert_int_eq(mkfifo(entry, 0600), 0);
    ck_assert(!probe_is_cached(digest, helper));
}
END_TEST

START_TEST(cache_directories)
{
    char *helper = make_file("helper", 0755, "#!/bin/sh\n");
    uint8_t digest[32];
    sha256_of("a", 1, digest);
    probe_remember(digest, helper);
    ck_assert(probe_is_cached(digest, helper));
    /* a directory that others can write is not believed */
    ck_assert_int_eq(chmod(below("cache/tenon/probe"), 0777), 0);
    ck_assert(!probe_is_cached(digest, helper));
    ck_assert_int_eq(chmod(below("cache/tenon/probe"), 0700), 0);
    ck_assert_int_eq(chmod(below("cache/tenon"), 0777), 0);
    ck_assert(!probe_is_cached(digest, helper));
    ck_assert_int_eq(chmod(below("cache/tenon"), 0700), 0);
    ck_assert(probe_is_cached(digest, helper));
    if (geteuid() == 0) { /* nor one of another user */
        ck_assert_int_eq(chown(below("cache/tenon/probe"), 12345, 12345), 0);
        ck_assert(!probe_is_cached(digest, helper));
        ck_assert_int_eq(chown(below("cache/tenon/probe"), 0, 0), 0);
    }
    /* another helper is another answer; one that is gone is none */
    ck_assert_int_eq(unlink(helper), 0);
    ck_assert(!probe_is_cached(digest, helper));
    make_file("helper", 0755, "#!/bin/sh\n# newer\n");
    ck_assert(!probe_is_cached(digest, helper));
    /* no directory at all: everything goes on without */
    setenv("XDG_CACHE_HOME", below("helper"), 1);
    probe_remember(digest, helper);
    ck_assert(!probe_is_cached(digest, helper));
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", below("nowhere"), 1);
    ck_assert(!probe_is_cached(digest, helper));
}
END_TEST

static char *shared_helper;

static void *remember_often(void *context)
{
    uint8_t digest[32];
    unsigned i;
    (void)context;
    sha256_of("a", 1, digest);
    for (i = 0; i < 200; i++) {
        probe_remember(digest, shared_helper);
        if (!probe_is_cached(digest, shared_helper)) return &shared_helper;
    }
    return NULL;
}

/* Many at once: whoever reads finds a whole entry, and no drafts are left over. */
START_TEST(cache_writers)
{
    pthread_t threads[4];
    void *bad;
    unsigned i;
    shared_helper = make_file("helper", 0755, "#!/bin/sh\n");
    for (i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, remember_often, NULL), 0);
    for (i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &bad), 0);
        ck_assert_ptr_null(bad);
    }
    only_entry();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe");
    TCase *test_case = tcase_create("probe");
    tcase_add_checked_fixture(test_case, setup, scratch_end);
    tcase_set_timeout(test_case, 120);
    tcase_add_test(test_case, good);
    tcase_add_test(test_case, cut_everywhere);
    tcase_add_test(test_case, damaged_everywhere);
    tcase_add_loop_test(test_case, reports, 0, (int)(sizeof bad_reports / sizeof bad_reports[0]));
    tcase_add_test(test_case, honest_failure);
    tcase_add_loop_test(test_case, ends, 0, END_CASES);
    tcase_add_test(test_case, children_are_killed);
    tcase_add_test(test_case, arguments);
    tcase_add_test(test_case, no_helper);
    tcase_add_test(test_case, odd_parents);
    tcase_add_test(test_case, nothing_is_left);
    tcase_add_test(test_case, cache);
    tcase_add_test(test_case, cache_directories);
    tcase_add_test(test_case, cache_writers);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
