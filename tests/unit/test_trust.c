/* Whom a file is trusted from: the rule over facts, and the walk over real directories and links. */
#include <loader/trust.h>
#include "runner.h"
#include "scratch.h"

static const struct {
    platform_access access;
    uint32_t reason;
} rules[] = {
    {{PLATFORM_REGULAR, true, false, false, false, "", ""}, 0},
    {{PLATFORM_REGULAR, false, false, false, false, "", ""}, TENON_REASON_UNTRUSTED_OWNER},
    {{PLATFORM_REGULAR, true, true, false, false, "", ""}, TENON_REASON_WRITABLE_PATH},
    {{PLATFORM_REGULAR, true, false, true, false, "", ""}, TENON_REASON_WRITABLE_PATH},
    {{PLATFORM_REGULAR, false, true, true, false, "", ""}, TENON_REASON_UNTRUSTED_OWNER},
    {{PLATFORM_DIRECTORY, true, false, false, false, "", ""}, 0},
    {{PLATFORM_DIRECTORY, true, true, false, false, "", ""}, TENON_REASON_WRITABLE_PATH},
    {{PLATFORM_DIRECTORY, true, false, true, false, "", ""}, TENON_REASON_WRITABLE_PATH},
    {{PLATFORM_DIRECTORY, true, true, true, true, "", ""}, 0}, /* /tmp */
};

START_TEST(rule)
{
    ck_assert_uint_eq(trust_rule(&rules[_i].access), rules[_i].reason);
}
END_TEST

/* The judgement of the file at path; *where is the file or directory at fault, "" for none. */
static uint32_t judge(const char *path, char where[8192])
{
    char text[PLATFORM_TEXT_BYTES];
    loader_identity identity;
    platform_access access;
    platform_file file;
    trust_fault fault;
    uint32_t reason;
    memset(&identity, 0, sizeof identity);
    ck_assert_uint_eq(platform_file_open(path, &file, text), 0);
    ck_assert_uint_eq(platform_file_facts(file, &identity, &access, text), 0);
    platform_file_close(file);
    ck_assert_int_eq(trust_judge(path, &access, &fault), TENON_OK);
    reason = fault.reason;
    snprintf(where, 8192, "%s", fault.path != NULL ? fault.path : "");
    trust_fault_clear(&fault);
    return reason;
}

START_TEST(modes)
{
    char where[8192];
    char *folder = make_folder("f", 0755), *file = make_file("f/a", 0644, "x");
    ck_assert_uint_eq(judge(file, where), 0);
    ck_assert_int_eq(chmod(file, 0646), 0);
    ck_assert_uint_eq(judge(file, where), TENON_REASON_WRITABLE_PATH);
    ck_assert_str_eq(where, file);
    ck_assert_int_eq(chmod(file, 0444), 0);
    ck_assert_uint_eq(judge(file, where), 0);
    ck_assert_int_eq(chmod(folder, 0757), 0);
    ck_assert_uint_eq(judge(file, where), TENON_REASON_WRITABLE_PATH);
    ck_assert_str_eq(where, folder);
    ck_assert_int_eq(chmod(folder, 01777), 0);
    ck_assert_uint_eq(judge(file, where), 0);
}
END_TEST

/* A directory further up counts as much as the last one. */
START_TEST(directories_above)
{
    char where[8192];
    char *top = make_folder("top", 0777), *file;
    make_folder("top/mid", 0755);
    make_folder("top/mid/low", 0755);
    file = make_file("top/mid/low/a", 0644, "x");
    ck_assert_uint_eq(judge(file, where), TENON_REASON_WRITABLE_PATH);
    ck_assert_str_eq(where, top);
    ck_assert_int_eq(chmod(top, 0755), 0);
    ck_assert_uint_eq(judge(file, where), 0);
}
END_TEST

/* Through links, the directories that they lie in and those that they lead to. */
START_TEST(links)
{
    char where[8192];
    char *open = make_folder("open", 0777), *shut, *file;
    shut = make_folder("shut", 0755);
    file = make_file("shut/a", 0644, "x");
    ck_assert_int_eq(symlink(file, below("open/absolute")), 0);
    ck_assert_int_eq(symlink("../shut/a", below("open/relative")), 0);
    ck_assert_int_eq(symlink("a", below("shut/near")), 0);
    ck_assert_int_eq(symlink("../open/../shut", below("shut/round")), 0);
    make_file("open/b", 0644, "x");
    ck_assert_int_eq(symlink("../open/b", below("shut/out")), 0);
    ck_assert_uint_eq(judge(below("open/absolute"), where), TENON_REASON_WRITABLE_PATH);
    ck_assert_str_eq(where, open);
    ck_assert_uint_eq(judge(below("open/relative"), where), TENON_REASON_WRITABLE_PATH);
    ck_assert_uint_eq(judge(below("shut/near"), where), 0);
    ck_assert_uint_eq(judge(below("shut/out"), where), TENON_REASON_WRITABLE_PATH);
    ck_assert_uint_eq(judge(below("shut/round/a"), where), TENON_REASON_WRITABLE_PATH);
    ck_assert_int_eq(chmod(open, 0755), 0);
    ck_assert_uint_eq(judge(below("open/relative"), where), 0);
    ck_assert_uint_eq(judge(below("shut/round/a"), where), 0);
    ck_assert_uint_eq(judge(below("shut//./../shut/near"), where), 0);
    ck_assert_int_eq(chmod(shut, 0757), 0);
    ck_assert_uint_eq(judge(below("open/absolute"), where), TENON_REASON_WRITABLE_PATH);
    ck_assert_str_eq(where, shut);
}
END_TEST

/* A link that leads to itself, or a directory that is gone, ends the walk. */
START_TEST(loops)
{
    platform_access access = {PLATFORM_REGULAR, true, false, false, false, "", ""};
    trust_fault fault;
    ck_assert_int_eq(symlink("loop", below("loop")), 0);
    ck_assert_int_eq(trust_judge(below("loop"), &access, &fault), TENON_OK);
    ck_assert_uint_ne(fault.reason, 0);
    trust_fault_clear(&fault);
    ck_assert_int_eq(symlink("grow/x", below("grow")), 0);
    ck_assert_int_eq(trust_judge(below("grow"), &access, &fault), TENON_OK);
    ck_assert_uint_ne(fault.reason, 0);
    trust_fault_clear(&fault);
    ck_assert_int_eq(trust_judge(below("gone/a"), &access, &fault), TENON_OK);
    ck_assert_uint_eq(fault.reason, TENON_REASON_NO_SUCH_PATH);
    trust_fault_clear(&fault);
}
END_TEST

START_TEST(owners)
{
    char where[8192];
    char *file = make_file("a", 0644, "x");
    if (geteuid() != 0) {
        runner_skip("only root can give files away");
        return;
    }
    ck_assert_int_eq(chown(file, 12345, 12345), 0);
    ck_assert_uint_eq(judge(file, where), TENON_REASON_UNTRUSTED_OWNER);
    ck_assert_str_eq(where, file);
    ck_assert_int_eq(chown(file, 0, 0), 0);
    ck_assert_uint_eq(judge(file, where), 0);
}
END_TEST

/* g+w is no fault when the group is the owner's private one, and is one when it is not. */
START_TEST(groups)
{
    char where[8192];
    char *file = make_file("a", 0664, "x");
    if (geteuid() != 0) {
        runner_skip("only root can choose the group");
        return;
    }
    ck_assert_int_eq(chown(file, 0, 0), 0); /* root's own group, which nobody else is in */
    ck_assert_int_eq(chmod(file, 0664), 0);
    ck_assert_uint_eq(judge(file, where), 0);
    ck_assert_int_eq(chown(file, 0, 1), 0);
    ck_assert_int_eq(chmod(file, 0664), 0);
    ck_assert_uint_eq(judge(file, where), TENON_REASON_WRITABLE_PATH);
    ck_assert_int_eq(chown(file, 0, 54321), 0); /* a group that nobody knows */
    ck_assert_int_eq(chmod(file, 0664), 0);
    ck_assert_uint_eq(judge(file, where), TENON_REASON_WRITABLE_PATH);
}
END_TEST

/* A FIFO does not hang, and says what it is. */
START_TEST(fifo)
{
    char text[PLATFORM_TEXT_BYTES];
    loader_identity identity;
    platform_access access;
    platform_file file;
    ck_assert_int_eq(mkfifo(below("pipe"), 0600), 0);
    ck_assert_uint_eq(platform_file_open(below("pipe"), &file, text), 0);
    ck_assert_uint_eq(platform_file_facts(file, &identity, &access, text), 0);
    ck_assert_uint_eq(access.kind, PLATFORM_OTHER);
    platform_file_close(file);
    ck_assert_uint_eq(platform_file_open(below("nothing"), &file, text), TENON_REASON_NO_SUCH_PATH);
    ck_assert_int_eq((int)file, (int)PLATFORM_NO_FILE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trust");
    TCase *test_case = tcase_create("trust");
    tcase_add_checked_fixture(test_case, scratch_make, scratch_end);
    tcase_set_timeout(test_case, 60);
    tcase_add_loop_test(test_case, rule, 0, (int)(sizeof rules / sizeof rules[0]));
    tcase_add_test(test_case, modes);
    tcase_add_test(test_case, directories_above);
    tcase_add_test(test_case, links);
    tcase_add_test(test_case, loops);
    tcase_add_test(test_case, owners);
    tcase_add_test(test_case, groups);
    tcase_add_test(test_case, fifo);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
