/* Where providers are looked for, in which order, and what is said about it. */
#include <loader/filter.h>
#include <loader/search.h>
#include "runner.h"
#include "scratch.h"

static char said[65536]; /* "LEVEL text\n" of every line */

static void TENON_CALL take_line(void *context, uint32_t level, const char *text)
{
    size_t used = strlen(said);
    (void)context;
    ck_assert_ptr_null(strchr(text, '\n'));
    snprintf(said + used, sizeof said - used, "%u %s\n", level, text);
}

static unsigned times_said(const char *text)
{
    const char *at;
    unsigned count = 0;
    for (at = strstr(said, text); at != NULL; at = strstr(at + 1, text)) count++;
    return count;
}

static void setup(void)
{
    scratch_make();
    unsetenv("TENON_PROVIDERS");
    unsetenv("TENON_PROVIDER_PATH");
    setenv("XDG_CONFIG_HOME", below("config"), 1);
    said[0] = '\0';
}

static search_list found;

static void finish(void)
{
    search_clear(&found);
    scratch_end();
}

static void run(const char *const *paths, uint64_t count, bool no_search)
{
    loader_options options = {
        .paths = paths, .path_count = count, .no_search = no_search, .log = take_line};
    search_clear(&found);
    ck_assert_int_eq(search_run(&options, &found), TENON_OK);
}

/* The entry of a path; it must be there exactly once. */
static uint64_t index_of(const char *path)
{
    uint64_t i, at = UINT64_MAX;
    for (i = 0; i < found.count; i++)
        if (strcmp(found.items[i].path, path) == 0) {
            ck_assert_msg(at == UINT64_MAX, "%s is there twice", path);
            at = i;
        }
    ck_assert_msg(at != UINT64_MAX, "%s is not there", path);
    return at;
}

static bool is_there(const char *path)
{
    uint64_t i;
    for (i = 0; i < found.count; i++)
        if (strcmp(found.items[i].path, path) == 0) return true;
    return false;
}

START_TEST(names_and_order_in_a_directory)
{
    static const char *const wanted[] = {"tenon-A.so", "tenon-a.so", "tenon-a1.so", "tenon-b.so",
                                         "tenon-\xc3\xb6.so"};
    const char *paths[1];
    unsigned i;
    make_folder("d", 0755);
    make_file("d/tenon-b.so", 0644, "x");
    make_file("d/tenon-\xc3\xb6.so", 0644, "x");
    make_file("d/tenon-a1.so", 0644, "x");
    make_file("d/tenon-a.so", 0644, "x");
    make_file("d/tenon-A.so", 0644, "x");
    make_file("d/tenon-a.so.1", 0644, "x");
    make_file("d/libtenon.so", 0644, "x");
    make_file("d/xtenon-a.so", 0644, "x");
    make_file("d/Tenon-a.so", 0644, "x");
    make_file("d/tenon-readme.txt", 0644, "x");
    paths[0] = below("d");
    run(paths, 1, true);
    ck_assert_uint_eq(found.count, 5);
    for (i = 0; i < 5; i++) {
        ck_assert_str_eq(found.items[i].path, below("d/%s", wanted[i]));
        ck_assert(!found.items[i].explicit_);
        ck_assert_uint_eq(found.items[i].reason, 0);
    }
}
END_TEST

START_TEST(order_of_sources)
{
    const char *paths[2];
    make_folder("named", 0755);
    make_file("named/tenon-n.so", 0644, "x");
    make_file("file.so", 0644, "x");
    make_folder("path1", 0755);
    make_file("path1/tenon-p.so", 0644, "x");
    make_folder("path2", 0755);
    make_file("path2/tenon-o.so", 0644, "x");
    make_folder("config", 0755);
    make_folder("config/tenon", 0755);
    make_folder("config/tenon/providers", 0755);
    make_file("config/tenon/providers/tenon-u.so", 0644, "x");
    setenv("TENON_PROVIDER_PATH", below("path1:%s/path2", scratch), 1);
    paths[0] = below("file.so");
    paths[1] = below("named");
    run(paths, 2, false);
    ck_assert_uint_eq(index_of(below("file.so")), 0);
    ck_assert(found.items[0].explicit_);
    ck_assert_uint_eq(index_of(below("named/tenon-n.so")), 1);
    ck_assert(!found.items[1].explicit_);
    ck_assert_uint_eq(index_of(below("path1/tenon-p.so")), 2);
    ck_assert_uint_eq(index_of(below("path2/tenon-o.so")), 3);
    ck_assert_uint_gt(index_of(below("config/tenon/providers/tenon-u.so")), 3);
    ck_assert_uint_ge(times_said("source=built-in"), 1);
    ck_assert_uint_eq(times_said("source=user outcome=1-found"), 1);
    ck_assert_uint_eq(times_said("source=system"), 1);
    /* each directory looked at is told, and nothing of it above level debug */
    ck_assert_uint_eq(times_said("3 tenon:") + times_said("2 tenon:") + times_said("1 tenon:"), 0);
    /* TENON_PROVIDERS replaces all below it, not what was named */
    setenv("TENON_PROVIDERS", below("file.so:%s/path2", scratch), 1);
    run(paths + 1, 1, false);
    ck_assert_uint_eq(index_of(below("named/tenon-n.so")), 0);
    ck_assert_uint_eq(index_of(below("file.so")), 1);
    ck_assert_uint_eq(index_of(below("path2/tenon-o.so")), 2);
    ck_assert_uint_eq(found.count, 3);
    /* only the paths */
    run(paths, 2, true);
    ck_assert_uint_eq(found.count, 2);
}
END_TEST

START_TEST(what_does_not_exist)
{
    const char *paths[4];
    paths[0] = below("no-folder");
    paths[1] = below("tenon-no.so");
    paths[2] = "";
    paths[3] = make_file("plain", 0644, "x"); /* named by the user: judged, whatever its name */
    run(paths, 4, true);
    ck_assert_uint_eq(found.count, 4);
    ck_assert(found.items[0].directory);
    ck_assert(found.items[0].explicit_);
    ck_assert_uint_eq(found.items[0].reason, TENON_REASON_NO_SUCH_PATH);
    ck_assert(!found.items[1].directory);
    ck_assert_uint_eq(found.items[1].reason, TENON_REASON_NO_SUCH_PATH);
    ck_assert(found.items[2].directory);
    ck_assert_uint_eq(found.items[2].reason, TENON_REASON_NO_SUCH_PATH);
    ck_assert(!found.items[3].directory);
    ck_assert_uint_eq(found.items[3].reason, 0);
    ck_assert(found.items[3].explicit_);
    /* a folder that the user named is missed aloud */
    ck_assert_uint_eq(times_said("2 tenon: searched directory="), 2);
    ck_assert_uint_eq(times_said(below("no-folder")), 1);
}
END_TEST

START_TEST(relative_paths)
{
    const char *paths[1];
    char *again;
    make_folder("d", 0755);
    make_file("d/tenon-a.so", 0644, "x");
    ck_assert_int_eq(chdir(scratch), 0);
    /* from a caller they are his working directory's */
    paths[0] = "d/tenon-a.so";
    run(paths, 1, true);
    again = keep(realpath(found.items[0].path, NULL));
    ck_assert_ptr_nonnull(again);
    ck_assert_str_eq(again, keep(realpath(below("d/tenon-a.so"), NULL)));
    ck_assert_int_eq(found.items[0].path[0], '/');
    /* from the environment they count for nothing, and that is said once a process */
    setenv("TENON_PROVIDERS", "d:tenon-a.so:", 1);
    run(NULL, 0, false);
    ck_assert_uint_eq(found.count, 2);
    ck_assert_uint_eq(found.items[0].reason, TENON_REASON_RELATIVE_PATH);
    ck_assert_str_eq(found.items[0].path, "d");
    ck_assert_uint_eq(found.items[1].reason, TENON_REASON_RELATIVE_PATH);
    ck_assert_uint_eq(times_said("2 tenon: ignored variable=TENON_PROVIDERS value=\"d\""), 1);
    run(NULL, 0, false);
    ck_assert_uint_eq(times_said("ignored variable="), 1);
}
END_TEST

START_TEST(empty_variable)
{
    setenv("TENON_PROVIDERS", "", 1);
    run(NULL, 0, false);
    ck_assert_uint_eq(times_said("2 tenon: ignored variable=TENON_PROVIDERS"), 1);
    ck_assert_uint_eq(times_said("source=built-in"), 1); /* it replaced nothing */
    run(NULL, 0, false);
    ck_assert_uint_eq(times_said("ignored variable="), 1);
}
END_TEST

START_TEST(each_directory_once)
{
    const char *paths[3];
    make_folder("d", 0755);
    make_file("d/tenon-a.so", 0644, "x");
    ck_assert_int_eq(symlink("d", below("link")), 0);
    paths[0] = below("d");
    paths[1] = below("d/../link/");
    paths[2] = below("d");
    setenv("TENON_PROVIDER_PATH", below("d"), 1);
    run(paths, 3, false);
    ck_assert_uint_eq(index_of(below("d/tenon-a.so")), 0);
    ck_assert(!is_there(below("link/tenon-a.so")));
    ck_assert_uint_eq(times_said("outcome=searched-before"), 3);
}
END_TEST

/* A folder with too many files is cut, aloud. */
START_TEST(too_many_files)
{
    const char *paths[1];
    char name[64];
    unsigned i;
    make_folder("d", 0755);
    for (i = 0; i < SEARCH_MAX_FILES + 5; i++) {
        snprintf(name, sizeof name, "d/tenon-%u.so", i);
        make_file(name, 0644, "x");
    }
    paths[0] = below("d");
    run(paths, 1, true);
    ck_assert_uint_eq(found.count, SEARCH_MAX_FILES);
    ck_assert_uint_eq(times_said("2 tenon: searched"), 1);
}
END_TEST

/* Names with anything in them are found as they are and said on one line. */
START_TEST(odd_names)
{
    const char *paths[1];
    make_folder("p \xc3\xb6 \xe6\x97\xa5 \xf0\x9f\x99\x82\n\"", 0755);
    paths[0] = make_file("p \xc3\xb6 \xe6\x97\xa5 \xf0\x9f\x99\x82\n\"/tenon-\xff\n.so", 0644, "x");
    run(paths, 1, true);
    ck_assert_str_eq(found.items[0].path, paths[0]);
    paths[0] = below("p \xc3\xb6 \xe6\x97\xa5 \xf0\x9f\x99\x82\n\"");
    run(paths, 1, true);
    ck_assert_uint_eq(found.count, 1);
    ck_assert_uint_eq(times_said("\\n\\\"\" source=named outcome=1-found"), 1);
}
END_TEST

START_TEST(layout)
{
    names folders = {NULL, 0, 0, 0};
    char *probe = NULL;
    char *base = make_folder("bin", 0755);
    make_folder("good", 0755);
    ck_assert(search_parse_layout("# comment\nproviders=../good\r\nproviders=/abs/x\n"
                                  "unknown=1\nprobe=tenon-probe \nproviders=../good",
                                  base, &folders, &probe));
    ck_assert_uint_eq(folders.count, 3);
    ck_assert_str_eq(folders.items[0], keep(realpath(below("good"), NULL)));
    ck_assert_str_eq(folders.items[1], "/abs/x");
    ck_assert_str_eq(probe, below("bin/tenon-probe"));
    ck_assert(search_parse_layout("", base, NULL, NULL));
    ck_assert(search_parse_layout("probe=a\nproviders=b\n", base, NULL, NULL));
    names_clear(&folders);
    free(probe);
    /* whatever this test program lies beside, something is said to belong to it */
    probe = NULL;
    ck_assert(search_built_in(&folders, &probe));
    ck_assert_uint_ge(folders.count, 1);
    ck_assert_int_eq(folders.items[0][0], '/');
    ck_assert_ptr_nonnull(probe);
    ck_assert_int_eq(probe[0], '/');
    names_clear(&folders);
    free(probe);
}
END_TEST

static const struct {
    const char *glob, *name;
    bool match;
} globs[] = {
    {"cpu", "cpu", true},     {"cpu", "cpu2", false},    {"cpu", "cp", false},
    {"*", "", true},          {"*", "anything", true},   {"", "", true},
    {"", "x", false},         {"c*", "cuda", true},      {"*a", "cuda", true},
    {"c*a", "cuda", true},    {"c*x", "cuda", false},    {"c?da", "cuda", true},
    {"????", "cuda", true},   {"???", "cuda", false},    {"*u*d*", "cuda", true},
    {"**", "cuda", true},     {"*ab", "aab", true},      {"*ab*ab", "abab", true},
    {"*ab*ab", "aba", false}, {"[c]uda", "cuda", false}, {"a*b*c*d*e*f", "abcdef", true},
};

START_TEST(globbing)
{
    ck_assert(filter_glob(globs[_i].glob, strlen(globs[_i].glob), globs[_i].name,
                          strlen(globs[_i].name)) == globs[_i].match);
}
END_TEST

START_TEST(lists)
{
    names known = {NULL, 0, 0, 0};
    const char *token;
    uint64_t length;
    ck_assert(names_add_string(&known, "cpu") && names_add_string(&known, "vulkan"));
    ck_assert(filter_matches("cuda, cpu", "cpu", 3));
    ck_assert(filter_matches(" v* ", "vulkan", 6));
    ck_assert(!filter_matches("cuda", "cpu", 3));
    ck_assert(!filter_matches(NULL, "cpu", 3));
    ck_assert(!filter_matches(" , ,", "cpu", 3));
    ck_assert(filter_is_empty(NULL));
    ck_assert(filter_is_empty(" ,\t, "));
    ck_assert(!filter_is_empty("x"));
    ck_assert(!filter_unknown("cpu,v*,*", &known, &token, &length));
    ck_assert(!filter_unknown(NULL, &known, &token, &length));
    ck_assert(filter_unknown("cpu , cuda ,x", &known, &token, &length));
    ck_assert_uint_eq(length, 4);
    ck_assert_int_eq(strncmp(token, "cuda", 4), 0);
    names_clear(&known);
}
END_TEST

/* A glob made to take time takes none. */
START_TEST(hostile_glob)
{
    char glob[2001], name[2001];
    unsigned i;
    for (i = 0; i < 2000; i++) {
        glob[i] = i % 2 == 0 ? '*' : 'a';
        name[i] = 'a';
    }
    glob[1999] = 'b';
    ck_assert(!filter_glob(glob, 2000, name, 2000));
}
END_TEST

/* Which needed libraries are there. */
START_TEST(dependencies)
{
    static const char *const search[] = {"$ORIGIN/lib", "/no/such/folder"};
    const char *const braces[] = {"${ORIGIN}/lib"}, *const unknown[] = {"/x/$LIB"};
    char *file = below("tenon-x.so");
    make_folder("lib", 0755);
    make_file("lib/libprivate.so.9", 0644, "x");
    ck_assert_uint_eq(platform_dependency("libc.so.6", file, NULL, 0), PLATFORM_DEPENDENCY_FOUND);
    ck_assert_uint_eq(platform_dependency("libprivate.so.9", file, search, 2),
                      PLATFORM_DEPENDENCY_FOUND);
    ck_assert_uint_eq(platform_dependency("libprivate.so.9", file, braces, 1),
                      PLATFORM_DEPENDENCY_FOUND);
    ck_assert_uint_eq(platform_dependency("libprivate.so.9", file, NULL, 0),
                      PLATFORM_DEPENDENCY_MISSING);
    ck_assert_uint_eq(platform_dependency("libnotthere.so.1", file, search, 2),
                      PLATFORM_DEPENDENCY_MISSING);
    /* what cannot be known is not said */
    ck_assert_uint_eq(platform_dependency("libnotthere.so.1", file, unknown, 1),
                      PLATFORM_DEPENDENCY_UNKNOWN);
    ck_assert_uint_eq(platform_dependency("", file, NULL, 0), PLATFORM_DEPENDENCY_UNKNOWN);
    ck_assert_uint_eq(platform_dependency("lib/x.so", file, NULL, 0), PLATFORM_DEPENDENCY_UNKNOWN);
    ck_assert_uint_eq(platform_dependency("/no/such.so", file, NULL, 0),
                      PLATFORM_DEPENDENCY_MISSING);
    ck_assert_uint_eq(platform_dependency(below("lib/libprivate.so.9"), file, NULL, 0),
                      PLATFORM_DEPENDENCY_FOUND);
}
END_TEST

/* What the system's loader says of a missing library, as glibc and as musl put it. */
START_TEST(missing_library_by_text)
{
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"libz.so.9: cannot open shared object file: No such file or directory", "libz.so.9"},
        {"Error loading shared library libz.so.9: No such file (needed by /x.so)", "libz.so.9"},
        {"/x.so: cannot open shared object file: No such file or directory", NULL},
        {"/x.so: undefined symbol: nothing", NULL},
        {": cannot open shared object file", NULL},
        {"", NULL},
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64] = "";
        ck_assert(platform_library_missing(cases[i].text, "/x.so", name, sizeof name) ==
                  (cases[i].name != NULL));
        if (cases[i].name != NULL) ck_assert_str_eq(name, cases[i].name);
        ck_assert(!platform_library_missing(cases[i].text, "/x.so", name, 4));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("search");
    TCase *test_case = tcase_create("search"), *filters = tcase_create("filter");
    tcase_add_checked_fixture(test_case, setup, finish);
    tcase_set_timeout(test_case, 60);
    tcase_add_test(test_case, names_and_order_in_a_directory);
    tcase_add_test(test_case, order_of_sources);
    tcase_add_test(test_case, what_does_not_exist);
    tcase_add_test(test_case, relative_paths);
    tcase_add_test(test_case, empty_variable);
    tcase_add_test(test_case, each_directory_once);
    tcase_add_test(test_case, too_many_files);
    tcase_add_test(test_case, odd_names);
    tcase_add_test(test_case, layout);
    tcase_add_test(test_case, dependencies);
    tcase_add_test(test_case, missing_library_by_text);
    tcase_add_loop_test(filters, globbing, 0, (int)(sizeof globs / sizeof globs[0]));
    tcase_add_test(filters, lists);
    tcase_add_test(filters, hostile_glob);
    suite_add_tcase(suite, test_case);
    suite_add_tcase(suite, filters);
    return runner_main(srunner_create(suite));
}
