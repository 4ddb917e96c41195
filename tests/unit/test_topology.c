/* The default number of threads and their places, from fake trees of /proc and /sys. */
#include "runner.h"

#include <host/topology.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

/* Writes root/path, making its directories. */
static void put(const char *text, const char *format, ...)
{
    char path[512], *slash;
    va_list arguments;
    FILE *file;
    int used = snprintf(path, sizeof path, "%s/", root);
    va_start(arguments, format);
    vsnprintf(path + used, sizeof path - (size_t)used, format, arguments);
    va_end(arguments);
    for (slash = path + used; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

static void setup(void)
{
    strcpy(root, "/tmp/tenon-topology-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

/* Processors first .. last, each with this list of siblings' distance: cpu % cores is the core. */
static void put_cores(uint32_t first, uint32_t last, uint32_t cores_from, uint32_t cores)
{
    uint32_t cpu;
    char text[64];
    for (cpu = first; cpu <= last; cpu++) {
        uint32_t core = cores_from + (cpu - first) % cores, other = core + cores;
        if (other <= last && last - first + 1 > cores)
            snprintf(text, sizeof text, "%u,%u\n", core, other);
        else
            snprintf(text, sizeof text, "%u\n", core);
        put(text, "sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    }
}

static topology read_cpus(uint32_t first, uint32_t last)
{
    uint32_t cpus[64], i;
    topology out;
    for (i = first; i <= last; i++) cpus[i - first] = i;
    ck_assert(topology_read(root, cpus, last - first + 1, &out));
    ck_assert_uint_eq(out.placement_count, last - first + 1);
    return out;
}

static void expect(topology out, uint32_t threads, uint32_t processors, const char *why)
{
    ck_assert_uint_eq(out.threads, threads);
    ck_assert_uint_eq(out.processors, processors);
    ck_assert_str_eq(out.why, why);
    topology_clear(&out);
}

START_TEST(unreadable_tree)
{
    expect(read_cpus(0, 5), 6, 6, "affinity 6");
    expect(read_cpus(3, 3), 1, 1, "affinity 1");
}
END_TEST

START_TEST(no_processors)
{
    topology out;
    ck_assert(topology_read(root, NULL, 0, &out));
    expect(out, 1, 1, "processors unknown");
}
END_TEST

START_TEST(quota)
{
    static const struct {
        const char *text;
        uint32_t threads;
        const char *why;
    } cases[] = {
        {"150000 100000\n", 1, "cgroup quota 150000/100000"},
        {"400000 100000\n", 4, "cgroup quota 400000/100000"},
        {"399999 100000\n", 3, "cgroup quota 399999/100000"},
        {"50000 100000\n", 1, "cgroup quota 50000/100000"}, /* at least one */
        {"900000 100000\n", 8, "affinity 8"},
        {"max 100000\n", 8, "affinity 8"},
        {"", 8, "affinity 8"},
        {"rubbish\n", 8, "affinity 8"},
        {"100000 0\n", 8, "affinity 8"},
        {"-1 100000\n", 8, "affinity 8"},
        {"99999999999999999999999 1\n", 8, "affinity 8"},
    };
    put(cases[_i].text, "sys/fs/cgroup/cpu.max");
    expect(read_cpus(0, 7), cases[_i].threads, cases[_i].threads, cases[_i].why);
}
END_TEST

/* The tightest of the group and those around it. */
START_TEST(nested_groups)
{
    put("0::/outer/inner\n", "proc/self/cgroup");
    put("800000 100000\n", "sys/fs/cgroup/outer/inner/cpu.max");
    put("300000 100000\n", "sys/fs/cgroup/outer/cpu.max");
    expect(read_cpus(0, 7), 3, 3, "cgroup quota 300000/100000");
    put("20000 10000\n", "sys/fs/cgroup/outer/inner/cpu.max");
    expect(read_cpus(0, 7), 2, 2, "cgroup quota 20000/10000");
}
END_TEST

/* A path of the world outside: the container sees its own group at the top. */
START_TEST(foreign_path)
{
    put("0::/docker/0123456789\n", "proc/self/cgroup");
    put("200000 100000\n", "sys/fs/cgroup/cpu.max");
    expect(read_cpus(0, 7), 2, 2, "cgroup quota 200000/100000");
}
END_TEST

START_TEST(version_1)
{
    put("9:memory:/a\n4:cpu,cpuacct:/a/b\n0::/\n", "proc/self/cgroup");
    put("250000\n", "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us");
    put("100000\n", "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us");
    put("-1\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us");
    put("100000\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us");
    expect(read_cpus(0, 7), 2, 2, "cgroup quota 250000/100000");
}
END_TEST

/* Eight fast cores and twelve slow ones, no second hardware threads, told in each way. */
START_TEST(fast_and_slow)
{
    uint32_t cpu;
    topology out;
    put_cores(0, 19, 0, 20);
    if (_i == 0) {
        put("0-7\n", "sys/devices/cpu_core/cpus");
        put("8-19\n", "sys/devices/cpu_atom/cpus");
    }
    for (cpu = 0; cpu < 20 && _i == 1; cpu++)
        put(cpu < 8 ? "1024\n" : "600\n", "sys/devices/system/cpu/cpu%u/cpu_capacity", cpu);
    for (cpu = 0; cpu < 20 && _i == 2; cpu++) /* favoured cores are a little faster */
        put(cpu < 2   ? "5800000\n"
            : cpu < 8 ? "5500000\n"
                      : "4300000\n",
            "sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", cpu);
    out = read_cpus(0, 19);
    for (cpu = 0; cpu < 20; cpu++) ck_assert_uint_eq(out.placement[cpu], cpu);
    expect(out, 8, 20, "8 fast cores of 20 processors");
    if (_i == 0) /* only slow ones allowed: they are all there is */
        expect(read_cpus(8, 11), 4, 4, "affinity 4");
}
END_TEST

/* Six fast cores of two hardware threads, eight slow ones. */
START_TEST(fast_with_second_threads)
{
    static const uint32_t places[20] = {0, 2,  4,  6,  8,  10, 1,  3,  5,  7,
                                        9, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    uint32_t cpu;
    char text[32];
    topology out;
    for (cpu = 0; cpu < 12; cpu++) {
        snprintf(text, sizeof text, "%u-%u\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
        put(text, "sys/devices/system/cpu/cpu%u/topology/core_cpus_list", cpu);
    }
    put_cores(12, 19, 12, 8);
    put("0-11\n", "sys/devices/cpu_core/cpus");
    out = read_cpus(0, 19);
    ck_assert_int_eq(memcmp(out.placement, places, sizeof places), 0);
    expect(out, 6, 20, "6 fast cores of 20 processors");
}
END_TEST

/* Four cores of two hardware threads: one a core first. */
START_TEST(siblings)
{
    static const uint32_t places[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint32_t paired[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    uint32_t cpu;
    char text[32];
    topology out;
    put_cores(0, 7, 0, 4); /* 0,4 1,5 2,6 3,7 */
    out = read_cpus(0, 7);
    ck_assert_int_eq(memcmp(out.placement, places, sizeof places), 0);
    expect(out, 4, 8, "4 physical cores of 8 processors");
    for (cpu = 0; cpu < 8; cpu++) { /* 0,1 2,3 4,5 6,7 */
        snprintf(text, sizeof text, "%u,%u\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
        put(text, "sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    }
    out = read_cpus(0, 7);
    ck_assert_int_eq(memcmp(out.placement, paired, sizeof paired), 0);
    expect(out, 4, 8, "4 physical cores of 8 processors");
    expect(read_cpus(0, 1), 1, 2, "1 physical cores of 2 processors");
    put("300000 100000\n", "sys/fs/cgroup/cpu.max");
    expect(read_cpus(0, 7), 3, 3, "cgroup quota 300000/100000");
}
END_TEST

/* Only numbers of cores, of two packages. */
START_TEST(core_numbers)
{
    uint32_t cpu;
    char text[32];
    for (cpu = 0; cpu < 8; cpu++) {
        snprintf(text, sizeof text, "%u\n", cpu % 2);
        put(text, "sys/devices/system/cpu/cpu%u/topology/core_id", cpu);
        snprintf(text, sizeof text, "%u\n", cpu / 4);
        put(text, "sys/devices/system/cpu/cpu%u/topology/physical_package_id", cpu);
    }
    expect(read_cpus(0, 7), 4, 8, "4 physical cores of 8 processors");
}
END_TEST

/* Half a picture is none. */
START_TEST(half_a_tree)
{
    put("0,1\n", "sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    expect(read_cpus(0, 3), 4, 4, "affinity 4");
}
END_TEST

static Suite *make(void)
{
    Suite *suite = suite_create("topology");
    TCase *one = tcase_create("trees");
    tcase_add_checked_fixture(one, setup, teardown);
    tcase_add_test(one, unreadable_tree);
    tcase_add_test(one, no_processors);
    tcase_add_loop_test(one, quota, 0, 11);
    tcase_add_test(one, nested_groups);
    tcase_add_test(one, foreign_path);
    tcase_add_test(one, version_1);
    tcase_add_loop_test(one, fast_and_slow, 0, 3);
    tcase_add_test(one, fast_with_second_threads);
    tcase_add_test(one, siblings);
    tcase_add_test(one, core_numbers);
    tcase_add_test(one, half_a_tree);
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
