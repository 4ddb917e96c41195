/* What lies in a provider folder besides good providers: foreign machines, text, pipes, cut files,
 * writable paths, links and twins. And where the loader looks, in which order. */
#include "loader_rig.h"
#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>

/* The head of a shared object of another kind: class, byte order and machine as given. */
static void write_foreign(const char *path, unsigned class_, unsigned order, unsigned machine)
{
    unsigned char image[512] = {0x7f, 'E', 'L', 'F', 0, 0, 1};
    unsigned type_at = order == 1 ? 16 : 17, machine_at = order == 1 ? 18 : 19;
    image[4] = (unsigned char)class_;
    image[5] = (unsigned char)order;
    image[type_at] = 3; /* a shared object */
    image[machine_at] = (unsigned char)machine;
    image[order == 1 ? 20 : 23] = 1;
    rig_write(path, image, sizeof image);
}

/* A folder of files that are no fault of anybody, with one good provider. */
static char *mixed_folder(void)
{
    static const char text[] = "GROUP ( libfoo.so.1 )\n";
    char *folder = rig_path("%s/mixed", rig_scratch());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    rig_copy(rig_fixture("good"), rig_path("%s/tenon-good.so", folder), -1);
    write_foreign(rig_path("%s/tenon-i386.so", folder), 1, 1, 3);
    write_foreign(rig_path("%s/tenon-aarch64.so", folder), 2, 1, 183);
    write_foreign(rig_path("%s/tenon-s390x.so", folder), 2, 2, 22);
    rig_write(rig_path("%s/tenon-script.so", folder), text, sizeof text - 1);
    rig_write(rig_path("%s/libother.so", folder), text, sizeof text - 1);
    rig_write(rig_path("%s/tenon-notes.txt", folder), text, sizeof text - 1);
    return folder;
}

START_TEST(foreign_files_are_information)
{
    static const char *const foreign[] = {"i386", "aarch64", "s390x", "script"};
    char *folder = mixed_folder();
    const char *path = folder;
    loader *self = rig_load(&path, 1);
    size_t i;
    ck_assert_ptr_nonnull(rig_module(self, "good"));
    ck_assert_uint_eq(loader_module_count(self), 1);
    for (i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        const loader_verdict *verdict = rig_verdict(self,
                                                    rig_path("%s/tenon-%s.so", folder, foreign[i]));
        ck_assert_msg(verdict->verdict == TENON_CANDIDATE_SKIPPED, "%s", verdict->line);
        if (i < 3) {
            ck_assert_uint_eq(verdict->reason, TENON_REASON_WRONG_ARCH);
            ck_assert_msg(strstr(verdict->have, foreign[i]) != NULL, "%s", verdict->line);
            ck_assert_msg(strcmp(verdict->have, verdict->need) != 0, "%s", verdict->line);
        }
    }
    ck_assert_str_eq(rig_log_text, ""); /* nothing to worry a user with */
    for (i = 0; i < loader_verdict_count(self); i++) {
        const char *file = loader_verdict_at(self, i)->file;
        ck_assert_msg(strstr(file, "libother") == NULL, "%s", file);
        ck_assert_msg(strstr(file, "notes") == NULL, "%s", file);
    }
    loader_destroy(self);
}
END_TEST

START_TEST(foreign_file_by_name_is_an_error)
{
    char *path = rig_path("%s/tenon-i386.so", mixed_folder());
    loader *self = rig_load_one(path);
    const loader_verdict *verdict = rig_verdict(self, path);
    ck_assert_msg(verdict->verdict == TENON_CANDIDATE_REFUSED, "%s", verdict->line);
    ck_assert_uint_eq(verdict->reason, TENON_REASON_WRONG_ARCH);
    ck_assert_msg(strstr(rig_log_text, verdict->line) != NULL, "%s", rig_log_text);
    loader_destroy(self);
}
END_TEST

/* A bad file found by scanning is shown, and does no harm to its neighbour. */
START_TEST(bad_file_beside_a_good_one)
{
    char *folder = mixed_folder();
    const char *path = folder;
    loader *self;
    rig_copy(rig_fixture("omits_qmatmul"), rig_path("%s/tenon-bad.so", folder), -1);
    self = rig_load(&path, 1);
    ck_assert_ptr_nonnull(rig_module(self, "good"));
    ck_assert_str_eq(rig_verdict(self, rig_path("%s/tenon-bad.so", folder))->symbol, "qmatmul_v1");
    ck_assert_uint_eq(rig_verdict(self, rig_path("%s/tenon-bad.so", folder))->verdict,
                      TENON_CANDIDATE_REFUSED);
    loader_destroy(self);
}
END_TEST

START_TEST(pipe_and_directory)
{
    char *folder = rig_path("%s/odd", rig_scratch());
    const char *path = folder;
    loader *self;
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    ck_assert_int_eq(mkfifo(rig_path("%s/tenon-pipe.so", folder), 0644), 0);
    ck_assert_int_eq(mkdir(rig_path("%s/tenon-folder.so", folder), 0755), 0);
    ck_assert_int_eq(symlink("nowhere", rig_path("%s/tenon-dangling.so", folder)), 0);
    ck_assert_int_eq(symlink("tenon-loop.so", rig_path("%s/tenon-loop.so", folder)), 0);
    ck_assert_int_eq(symlink("/dev/zero", rig_path("%s/tenon-endless.so", folder)), 0);
    self = rig_load(&path, 1);
    ck_assert_uint_eq(loader_module_count(self), 0);
    ck_assert_uint_eq(rig_verdict(self, rig_path("%s/tenon-pipe.so", folder))->reason,
                      TENON_REASON_NOT_REGULAR);
    ck_assert_uint_eq(rig_verdict(self, rig_path("%s/tenon-endless.so", folder))->reason,
                      TENON_REASON_NOT_REGULAR);
    ck_assert_uint_ne(rig_verdict(self, rig_path("%s/tenon-loop.so", folder))->reason, 0);
    ck_assert_uint_ne(rig_verdict(self, rig_path("%s/tenon-dangling.so", folder))->reason, 0);
    loader_destroy(self);
    self = rig_load_one(rig_path("%s/tenon-pipe.so", folder));
    ck_assert_uint_eq(loader_module_count(self), 0);
    loader_destroy(self);
}
END_TEST

START_TEST(cut_at_any_length)
{
    char *whole = rig_fixture("good"), *path = rig_path("%s/tenon-cut.so", rig_scratch());
    struct stat state;
    long size, cut;
    ck_assert_int_eq(stat(whole, &state), 0);
    size = (long)state.st_size;
    for (cut = 0; cut < size; cut += cut < 512 ? 61 : size / 23) {
        loader *self;
        const loader_verdict *verdict;
        rig_copy(whole, path, cut);
        self = rig_load_one(path);
        verdict = rig_verdict(self, path);
        /* what ends before its last segment is truncated; after it only section headers are
         * missing, which loading does not need */
        ck_assert_msg(verdict->verdict == TENON_CANDIDATE_REFUSED || cut > size / 2, "%ld: %s", cut,
                      verdict->line);
        if (verdict->verdict == TENON_CANDIDATE_REFUSED)
            ck_assert_msg(verdict->stage == TENON_STAGE_STATIC, "%ld: %s", cut, verdict->line);
        loader_destroy(self);
        unlink(path);
    }
}
END_TEST

START_TEST(empty_and_missing)
{
    static const char *const none[] = {"/nowhere/tenon-x.so", "/nowhere", ""};
    char *empty = rig_path("%s/tenon-empty.so", rig_scratch());
    const char *paths[4] = {empty, none[0], none[1], none[2]};
    loader *self;
    uint64_t i;
    rig_write(empty, "", 0);
    self = rig_load(paths, 4);
    ck_assert_uint_eq(loader_module_count(self), 0);
    ck_assert_uint_eq(rig_verdict(self, empty)->stage, TENON_STAGE_STATIC);
    ck_assert_uint_eq(rig_verdict(self, none[0])->reason, TENON_REASON_NO_SUCH_PATH);
    ck_assert_uint_ge(loader_verdict_count(self), 3);
    for (i = 0; i < loader_verdict_count(self); i++)
        ck_assert_uint_ne(loader_verdict_at(self, i)->verdict, TENON_CANDIDATE_LOADED);
    loader_destroy(self);
}
END_TEST

/* Nobody else may have been able to put code there. */
START_TEST(writable_by_others)
{
    char *folder = rig_path("%s/open", rig_scratch()), *file = rig_path("%s/tenon-good.so", folder);
    const loader_verdict *verdict;
    loader *self;
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    rig_copy(rig_fixture("good"), file, -1);
    ck_assert_int_eq(chmod(file, 0777), 0);
    self = rig_load_one(file);
    verdict = rig_verdict(self, file);
    ck_assert_msg(verdict->reason == TENON_REASON_WRITABLE_PATH, "%s", verdict->line);
    ck_assert_msg(strstr(verdict->line, "0777") != NULL, "%s", verdict->line);
    loader_destroy(self);
    ck_assert_int_eq(chmod(file, 0644), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    self = rig_load_one(file);
    verdict = rig_verdict(self, file);
    ck_assert_msg(verdict->reason == TENON_REASON_WRITABLE_PATH, "%s", verdict->line);
    loader_destroy(self);
    ck_assert_int_eq(chmod(folder, 01777), 0); /* sticky: only owners replace their entries */
    self = rig_load_one(file);
    ck_assert_msg(loader_module_count(self) == 1, "%s", rig_verdict(self, file)->line);
    loader_destroy(self);
}
END_TEST

START_TEST(owned_by_a_stranger)
{
    char *file = rig_path("%s/tenon-good.so", rig_scratch());
    loader *self;
    if (geteuid() != 0) {
        runner_skip("only root can give files away");
        return;
    }
    rig_copy(rig_fixture("good"), file, -1);
    ck_assert_int_eq(chown(file, 12345, 12345), 0);
    self = rig_load_one(file);
    ck_assert_msg(rig_verdict(self, file)->reason == TENON_REASON_UNTRUSTED_OWNER, "%s",
                  rig_verdict(self, file)->line);
    ck_assert_msg(strstr(rig_verdict(self, file)->line, "12345") != NULL, "%s",
                  rig_verdict(self, file)->line);
    loader_destroy(self);
}
END_TEST

/* ---- twins ---------------------------------------------------------------------------------- */

START_TEST(same_id_twice)
{
    const char *paths[2] = {rig_fixture("twin_a"), rig_fixture("twin_b")};
    loader *self = rig_load(paths, 2);
    const loader_verdict *second = rig_verdict(self, paths[1]);
    ck_assert_uint_eq(rig_verdict(self, paths[0])->verdict, TENON_CANDIDATE_LOADED);
    ck_assert_msg(second->reason == TENON_REASON_DUPLICATE_ID, "%s", second->line);
    ck_assert_msg(strstr(second->line, paths[0]) != NULL, "%s", second->line);
    ck_assert_uint_eq(loader_module_count(self), 1);
    ck_assert_uint_eq(rig_mappings("tenon-twin_b.so"), 0);
    loader_destroy(self);
}
END_TEST

START_TEST(same_file_twice)
{
    char *folder = rig_path("%s/links", rig_scratch());
    char *file = rig_path("%s/tenon-good.so", folder), *link = rig_path("%s/tenon-link.so", folder);
    char *hard = rig_path("%s/tenon-hard.so", folder);
    const char *paths[4] = {file, link, hard, file};
    loader *self;
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    rig_copy(rig_fixture("good"), file, -1);
    ck_assert_int_eq(symlink(file, link), 0);
    ck_assert_int_eq(linkat(AT_FDCWD, file, AT_FDCWD, hard, 0), 0);
    self = rig_load(paths, 4);
    ck_assert_uint_eq(loader_module_count(self), 1);
    ck_assert_uint_eq(rig_verdict(self, file)->verdict, TENON_CANDIDATE_LOADED);
    ck_assert_msg(rig_verdict(self, link)->reason == TENON_REASON_DUPLICATE_FILE, "%s",
                  rig_verdict(self, link)->line);
    ck_assert_msg(rig_verdict(self, hard)->reason == TENON_REASON_DUPLICATE_FILE, "%s",
                  rig_verdict(self, hard)->line);
    loader_destroy(self);
}
END_TEST

/* A copy has another identity but the same id. */
START_TEST(copy_of_a_provider)
{
    char *copy = rig_path("%s/tenon-copy.so", rig_scratch());
    const char *paths[2] = {rig_fixture("good"), copy};
    loader *self;
    rig_copy(paths[0], copy, -1);
    self = rig_load(paths, 2);
    ck_assert_msg(rig_verdict(self, copy)->reason == TENON_REASON_DUPLICATE_ID, "%s",
                  rig_verdict(self, copy)->line);
    ck_assert_uint_eq(loader_module_count(self), 1);
    loader_destroy(self);
}
END_TEST

START_TEST(link_into_another_folder)
{
    char *link = rig_path("%s/tenon-link.so", rig_scratch());
    loader *self;
    ck_assert_int_eq(symlink(rig_fixture("good"), link), 0);
    self = rig_load_one(link);
    ck_assert_msg(loader_module_count(self) == 1, "%s", rig_verdict(self, link)->line);
    loader_destroy(self);
}
END_TEST

START_TEST(unicode_folder)
{
    char *folder = rig_path("%s/p \xc3\xb6 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82 '\"",
                            rig_scratch());
    char *file = rig_path("%s/tenon-good.so", folder);
    const char *path = folder;
    loader *self;
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    rig_copy(rig_fixture("good"), file, -1);
    self = rig_load(&path, 1);
    ck_assert_str_eq(rig_verdict(self, file)->file, file); /* byte for byte */
    ck_assert_msg(loader_module_count(self) == 1, "%s", rig_verdict(self, file)->line);
    loader_destroy(self);
}
END_TEST

/* ---- search --------------------------------------------------------------------------------- */

/* A folder with copies of the given fixtures under the given file names. */
static char *folder_with(const char *name, const char *variant, const char *file)
{
    char *folder = rig_path("%s/%s", rig_scratch(), name);
    ck_assert(mkdir(folder, 0755) == 0 || errno == EEXIST);
    rig_copy(rig_fixture(variant), rig_path("%s/tenon-%s.so", folder, file), -1);
    return folder;
}

/* A search whose own folders are those of this test alone, as far as they can be set. */
static loader *search(const char *const *paths, uint64_t count)
{
    loader_options options = rig_options(paths, count);
    options.no_search = false;
    return rig_create(&options);
}

static bool was_examined(const loader *self, const char *file)
{
    uint64_t i;
    for (i = 0; i < loader_verdict_count(self); i++)
        if (strcmp(loader_verdict_at(self, i)->file, file) == 0) return true;
    return false;
}

START_TEST(search_order)
{
    char *named = folder_with("named", "good", "good");
    char *listed = folder_with("listed", "twin_a", "twin");
    char *before = folder_with("before", "twin_b", "twin");
    char *user;
    const char *path = named;
    loader *self;
    ck_assert_int_eq(mkdir(getenv("XDG_CONFIG_HOME"), 0700), 0);
    ck_assert_int_eq(mkdir(rig_path("%s/tenon", getenv("XDG_CONFIG_HOME")), 0700), 0);
    user = rig_path("%s/tenon/providers", getenv("XDG_CONFIG_HOME"));
    ck_assert_int_eq(mkdir(user, 0700), 0);
    rig_copy(rig_fixture("good_two"), rig_path("%s/tenon-good_two.so", user), -1);

    /* named paths, TENON_PROVIDER_PATH, the user's folder: each adds to the ones before */
    ck_assert_int_eq(setenv("TENON_PROVIDER_PATH", rig_path("%s:%s", before, listed), 1), 0);
    self = search(&path, 1);
    ck_assert_ptr_nonnull(rig_module(self, "good"));
    ck_assert_ptr_nonnull(rig_module(self, "good_two"));
    ck_assert_str_eq(rig_module(self, "twin")->verdict->file,
                     rig_path("%s/tenon-twin.so", before)); /* the first of two */
    ck_assert_uint_eq(rig_verdict(self, rig_path("%s/tenon-twin.so", listed))->reason,
                      TENON_REASON_DUPLICATE_ID);
    loader_destroy(self);

    /* TENON_PROVIDERS replaces everything after the named paths */
    ck_assert_int_eq(setenv("TENON_PROVIDERS", rig_path("%s/tenon-twin.so", listed), 1), 0);
    self = search(&path, 1);
    ck_assert_ptr_nonnull(rig_module(self, "good"));
    ck_assert_str_eq(rig_module(self, "twin")->verdict->file, rig_path("%s/tenon-twin.so", listed));
    ck_assert_ptr_null(rig_module(self, "good_two"));
    ck_assert(!was_examined(self, rig_path("%s/tenon-twin.so", before)));
    loader_destroy(self);

    /* no_search: the environment does not count */
    self = rig_load(&path, 1);
    ck_assert_uint_eq(loader_module_count(self), 1);
    loader_destroy(self);
}
END_TEST

START_TEST(folder_in_byte_order)
{
    char *folder = folder_with("order", "twin_a", "b");
    const char *path = folder;
    loader *self;
    folder_with("order", "twin_b", "a");
    folder_with("order", "good", "B");
    self = rig_load(&path, 1);
    ck_assert_str_eq(loader_verdict_at(self, 0)->file, rig_path("%s/tenon-B.so", folder));
    ck_assert_str_eq(rig_module(self, "twin")->verdict->file, rig_path("%s/tenon-a.so", folder));
    loader_destroy(self);
}
END_TEST

/* Neither the current directory nor LD_LIBRARY_PATH nor PATH, and no relative name. */
START_TEST(never_looked_at)
{
    char *here = folder_with("here", "good", "good");
    loader *self;
    ck_assert_int_eq(chdir(here), 0);
    ck_assert_int_eq(setenv("LD_LIBRARY_PATH", here, 1), 0);
    ck_assert_int_eq(setenv("PATH", here, 1), 0);
    ck_assert_int_eq(setenv("TENON_PROVIDER_PATH", ".:here:", 1), 0);
    self = search(NULL, 0);
    ck_assert_ptr_null(rig_module(self, "good"));
    loader_destroy(self);
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* And what is ignored is said. */
START_TEST(relative_names_of_the_environment)
{
    loader *self;
    ck_assert_int_eq(chdir(folder_with("here", "good", "good")), 0);
    ck_assert_int_eq(setenv("TENON_PROVIDERS", "tenon-good.so:./tenon-good.so", 1), 0);
    self = search(NULL, 0);
    ck_assert_uint_eq(loader_module_count(self), 0);
    ck_assert_msg(strstr(rig_log_text, "tenon-good.so") != NULL, "ignored without a word: %s",
                  rig_log_text);
    loader_destroy(self);
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* A relative path of the user's own is fine: it is made absolute once. */
START_TEST(relative_path_by_the_user)
{
    const char *path = "here/tenon-good.so";
    loader *self;
    folder_with("here", "good", "good");
    ck_assert_int_eq(chdir(rig_scratch()), 0);
    self = rig_load(&path, 1);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_uint_eq(loader_module_count(self), 1);
    ck_assert_msg(loader_module_at(self, 0)->verdict->file[0] == '/', "%s",
                  loader_module_at(self, 0)->verdict->file);
    loader_destroy(self);
}
END_TEST

START_TEST(filters)
{
    const char *paths[3] = {rig_fixture("good"), rig_fixture("good_two"), rig_fixture("kinds")};
    loader_options options = rig_options(paths, 3);
    tenon_error error = {TENON_HEAD(tenon_error), 0, 0, 0, 0, 0, 0, ""};
    loader *self = NULL;
    options.select = "good*";
    options.disable = "good_two";
    self = rig_create(&options);
    ck_assert_uint_eq(loader_module_count(self), 1);
    ck_assert_ptr_nonnull(rig_module(self, "good"));
    ck_assert_uint_eq(rig_verdict(self, paths[1])->reason, TENON_REASON_FILTERED);
    ck_assert_uint_eq(rig_verdict(self, paths[2])->reason, TENON_REASON_FILTERED);
    loader_destroy(self);
    self = NULL;
    options.disable = NULL;
    options.select = "good,nosuch";
    ck_assert_int_eq(loader_create(&options, &self, &error), TENON_ARG);
    ck_assert_ptr_null(self);
    ck_assert_uint_eq(error.reason, TENON_REASON_UNKNOWN_FILTER);
    ck_assert_msg(strstr(error.text, "nosuch") != NULL, "%s", error.text);
    ck_assert_msg(strstr(error.text, "kinds") != NULL, "lists what exists: %s", error.text);
}
END_TEST

/* ---- a process with more rights than its user ------------------------------------------------ */

/* In the set-user-id copy of this program: 0 when TENON_PROVIDERS was ignored, and said so. */
static int secure_child(void)
{
    loader_options options = {.probe_timeout_ms = 60000, .log = rig_log, .judge_only = true};
    loader *self = NULL;
    uint64_t i;
    int status = 0;
    if (getauxval(AT_SECURE) == 0) return 77;

    if (loader_create(&options, &self, NULL) != TENON_OK) return 2;
    for (i = 0; i < loader_verdict_count(self); i++)
        if (strstr(loader_verdict_at(self, i)->file, "tenon-good.so") != NULL) status = 3;
    loader_destroy(self);
    if (status == 0 && strstr(rig_log_text, "TENON_PROVIDERS") == NULL) status = 4;
    return status;
}

START_TEST(secure_environment)
{
    char *copy;
    int status;
    if (geteuid() != 0) {
        runner_skip("only root can make a set-user-id file of another user");
        return;
    }
    copy = rig_program_copy("providers=/nowhere\n");
    ck_assert_int_eq(chmod(rig_scratch(), 0755), 0);
    ck_assert_int_eq(chown(copy, 65534, 65534), 0);
    ck_assert_int_eq(chmod(copy, 04755), 0);
    ck_assert_int_eq(setenv("TENON_PROVIDERS", rig_fixture("good"), 1), 0);
    status = rig_run(copy, "--child", "secure");
    if (status == 77) {
        runner_skip("set-user-id has no effect on this file system");
        return;
    }
    ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- the folder fixed at build --------------------------------------------------------------- */

/* In the copy of this program: 0 when the provider of the folder beside it was loaded. */
static int layout_child(void)
{
    loader_options options = {.probe_timeout_ms = 60000, .log = rig_log};
    loader *self = NULL;
    int status;
    if (loader_create(&options, &self, NULL) != TENON_OK) return 2;
    status = rig_module(self, "good") != NULL ? 0 : 3;
    loader_destroy(self);
    return status;
}

/* The folder counts from where the program really lies, however it was started. */
START_TEST(beside_the_real_program)
{
    char *program = rig_program_copy("providers=../lib\n");
    char *link = rig_path("%s/elsewhere/started", rig_scratch());
    ck_assert_int_eq(mkdir(rig_path("%s/elsewhere", rig_scratch()), 0755), 0);
    ck_assert_int_eq(symlink(program, link), 0);
    folder_with("lib", "good", "good");
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rig_run(link, "--child", "layout"), 0);
    ck_assert_int_eq(rig_run(program, "--child", "layout"), 0);
}
END_TEST

int main(int count, char **arguments)
{
    Suite *suite;
    TCase *test_case;
    /* the leak check of a sanitizer cannot run in a set-user-id process: no exit handlers */
    if (count == 3 && strcmp(arguments[1], "--child") == 0)
        _exit(strcmp(arguments[2], "secure") == 0 ? secure_child() : layout_child());
    suite = suite_create("loader files");
    test_case = tcase_create("files");
    tcase_add_checked_fixture(test_case, rig_clean_environment, rig_clean);
    tcase_set_timeout(test_case, 120);
    tcase_add_test(test_case, foreign_files_are_information);
    tcase_add_test(test_case, foreign_file_by_name_is_an_error);
    tcase_add_test(test_case, bad_file_beside_a_good_one);
    tcase_add_test(test_case, pipe_and_directory);
    tcase_add_test(test_case, cut_at_any_length);
    tcase_add_test(test_case, empty_and_missing);
    tcase_add_test(test_case, writable_by_others);
    tcase_add_test(test_case, owned_by_a_stranger);
    tcase_add_test(test_case, same_id_twice);
    tcase_add_test(test_case, same_file_twice);
    tcase_add_test(test_case, copy_of_a_provider);
    tcase_add_test(test_case, link_into_another_folder);
    tcase_add_test(test_case, unicode_folder);
    tcase_add_test(test_case, search_order);
    tcase_add_test(test_case, folder_in_byte_order);
    tcase_add_test(test_case, never_looked_at);
    tcase_add_test(test_case, relative_names_of_the_environment);
    tcase_add_test(test_case, relative_path_by_the_user);
    tcase_add_test(test_case, filters);
    tcase_add_test(test_case, secure_environment);
    tcase_add_test(test_case, beside_the_real_program);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
