/* The ELF reader, from bytes: good files, damaged ones, files of other machines. */
#include "image_rig.h"
#include "runner.h"

static const rig elf = {"elf", "x86-64"};

static plan good(void)
{
    return plan_good(ELF_X86_64, ELF_DYN);
}

static built made(const plan *p)
{
    static built b;
    build_elf(&b, p);
    return b;
}

START_TEST(good_file)
{
    plan p = good();
    built b;
    p.old_tables = _i == 1;
    b = made(&p);
    rig_good(&elf, &b);
}
END_TEST

START_TEST(good_file_of_another_machine)
{
    const rig arm = {"elf", "aarch64"};
    plan p = plan_good(ELF_AARCH64, ELF_DYN);
    built b = made(&p);
    image out;
    loader_fault fault;
    rig_good(&arm, &b);
    /* the wrong one here, but told apart and read all the same */
    fault = rig_judge(&elf, b.bytes, b.size, &out);
    ck_assert_uint_eq(fault.reason, TENON_REASON_WRONG_ARCH);
    ck_assert_str_eq(fault.have, "aarch64");
    ck_assert_str_eq(fault.need, "x86-64");
    ck_assert_str_eq(out.facts.machine, "aarch64");
    ck_assert_str_eq(out.facts.id, "acme");
    image_clear(&out);
}
END_TEST

START_TEST(cut_everywhere)
{
    plan p = good();
    built b;
    p.old_tables = _i == 1;
    b = made(&p);
    rig_cut_everywhere(&elf, &b);
}
END_TEST

START_TEST(damaged_everywhere)
{
    plan p = good();
    built b;
    p.old_tables = _i == 1;
    b = made(&p);
    rig_damage_everywhere(&elf, &b);
}
END_TEST

START_TEST(one_change_one_reason)
{
    plan p = good();
    rig_plan_case(&elf, build_elf, &p, &common_cases[_i]);
    p.old_tables = true;
    rig_plan_case(&elf, build_elf, &p, &common_cases[_i]);
}
END_TEST

static void change_text_relocations(plan *p)
{
    p->text_relocations = true;
}
static void change_text_flag(plan *p)
{
    p->dynamic_flags = 4;
}
static void change_static_tls(plan *p)
{
    p->dynamic_flags = 0x10;
}
static void change_stack(plan *p)
{
    p->executable_stack = true;
}
static void change_no_mark(plan *p)
{
    p->no_stack_mark = true;
}
static void change_pie(plan *p)
{
    p->dynamic_flags_1 = 0x08000000;
}
static void change_executable(plan *p)
{
    p->kind = 2;
}
static void change_object_file(plan *p)
{
    p->kind = 1;
}
static void change_liar(plan *p)
{
    p->object_size = 100;
}
static void change_liar_beyond(plan *p)
{
    p->provider_size = 4096; /* and so says its symbol, but the segment ends before */
}

START_TEST(properties)
{
    static const plan_case cases[] = {
        {"text relocations", change_text_relocations, TENON_REASON_TEXT_RELOCATIONS, NULL, NULL,
         NULL},
        {"text relocation flag", change_text_flag, TENON_REASON_TEXT_RELOCATIONS, NULL, NULL, NULL},
        {"static tls", change_static_tls, TENON_REASON_STATIC_TLS, NULL, NULL, NULL},
        {"executable stack", change_stack, TENON_REASON_EXECUTABLE_STACK, NULL, NULL, NULL},
        {"no stack mark", change_no_mark, TENON_REASON_EXECUTABLE_STACK, NULL, NULL, NULL},
        {"position-independent executable", change_pie, TENON_REASON_NOT_SHARED_OBJECT, NULL,
         "executable", "shared object"},
        {"executable", change_executable, TENON_REASON_NOT_SHARED_OBJECT, NULL, "executable", NULL},
        {"object file", change_object_file, TENON_REASON_NOT_SHARED_OBJECT, NULL, "object file",
         NULL},
        {"size liar", change_liar, TENON_REASON_SHORT_DESCRIPTOR, "provider_v1", "100", "160"},
        {"size liar beyond the segment", change_liar_beyond, TENON_REASON_SHORT_DESCRIPTOR,
         "provider_v1", "768", "4096"},
    };
    plan p = good();
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
        rig_plan_case(&elf, build_elf, &p, &cases[i]);
}
END_TEST

/* One number of a good file replaced: what it is called then. */
START_TEST(damaged_numbers)
{
    static const struct {
        uint64_t at, value;
        unsigned bytes;
        uint32_t reason;
        const char *have;
    } cases[] = {
        {4, 1, 1, TENON_REASON_WRONG_ARCH, "x32"},
        {5, 2, 1, TENON_REASON_WRONG_ARCH, NULL},
        {5, 7, 1, TENON_REASON_MALFORMED_IMAGE, NULL},
        {18, 3, 2, TENON_REASON_WRONG_ARCH, "i386"},
        {18, 40, 2, TENON_REASON_WRONG_ARCH, "arm"},
        {18, 243, 2, TENON_REASON_WRONG_ARCH, "riscv64"},
        {18, 9999, 2, TENON_REASON_WRONG_ARCH, "machine 9999"},
        {0, 'M', 1, TENON_REASON_NOT_AN_IMAGE, NULL},
        {32, UINT64_MAX - 10, 8, TENON_REASON_TRUNCATED, NULL},
        {40, 0, 8, 0, NULL}, /* stripped of its section headers: nobody needs them */
        {40, UINT64_MAX, 8, TENON_REASON_TRUNCATED, NULL},
        {54, 32, 2, TENON_REASON_MALFORMED_IMAGE, NULL},
        {56, 0, 2, TENON_REASON_MALFORMED_IMAGE, NULL},
        {56, 0xffff, 2, TENON_REASON_MALFORMED_IMAGE, NULL},
        {56, 0xfffe, 2, TENON_REASON_TRUNCATED, NULL},
        {ELF_PHDR + 8, 0x100000, 8, TENON_REASON_TRUNCATED, NULL},
        {ELF_PHDR + 8, UINT64_MAX - 0xff, 8, TENON_REASON_MALFORMED_IMAGE, "segment size"},
        {ELF_PHDR + 32, UINT64_MAX, 8, TENON_REASON_MALFORMED_IMAGE, "segment size"},
        {ELF_PHDR + 40, 0x100000, 8, TENON_REASON_MALFORMED_IMAGE, "segments out of order"},
        {ELF_PHDR + 48, 0x180, 8, TENON_REASON_MALFORMED_IMAGE, "segment alignment"},
        {ELF_PHDR + 56 + 16, 0x3701, 8, TENON_REASON_MALFORMED_IMAGE, "segment alignment"},
        {ELF_PHDR + 56 + 16, UINT64_MAX, 8, TENON_REASON_MALFORMED_IMAGE, "segment size"},
        {ELF_PHDR + 3 * 56, 9, 4, TENON_REASON_MALFORMED_IMAGE, "no dynamic table"},
        {ELF_PHDR + 3 * 56 + 16, 0x7f0000, 8, TENON_REASON_MALFORMED_IMAGE,
         "dynamic table outside the file"},
        {ELF_PHDR + 3 * 56 + 32, 0x30, 8, TENON_REASON_MALFORMED_IMAGE,
         "dynamic table without end"},
        {ELF_HASH, 0x7fffffff, 4, TENON_REASON_MALFORMED_IMAGE, "hash table size"},
        {ELF_HASH + 8, UINT32_MAX, 4, TENON_REASON_MALFORMED_IMAGE, "hash table size"},
        {ELF_HASH + 24, 0x7fffffff, 4, TENON_REASON_MALFORMED_IMAGE, "hash chain without end"},
        {ELF_HASH + 4, 7, 4, TENON_REASON_MALFORMED_IMAGE, "hash bucket"},
        {ELF_SYMBOLS + 24, 0x7fffffff, 4, TENON_REASON_MALFORMED_IMAGE,
         "symbol name outside the string table"},
        {ELF_SYMBOLS + 24 + 6, 0, 2, TENON_REASON_MISSING_SYMBOL, NULL},
        {ELF_SYMBOLS + 24 + 6, 0xfff1, 2, TENON_REASON_NOT_DATA, NULL},
        {ELF_SYMBOLS + 24 + 5, 2, 1, TENON_REASON_MISSING_SYMBOL, NULL},    /* hidden */
        {ELF_SYMBOLS + 24 + 4, 0x01, 1, TENON_REASON_MISSING_SYMBOL, NULL}, /* local */
        {ELF_SYMBOLS + 24 + 4, 0x16, 1, TENON_REASON_NOT_DATA, NULL},       /* thread-local */
        {ELF_SYMBOLS + 24 + 4, 0x1a, 1, TENON_REASON_NOT_DATA, NULL},       /* resolver */
        {ELF_SYMBOLS + 24 + 4, 0x10, 1, 0, NULL}, /* no type, among data: made in assembly */
        {ELF_SYMBOLS + 24 + 4, 0x21, 1, 0, NULL}, /* weak */
        {ELF_SYMBOLS + 24 + 8, 0xdead0000, 8, TENON_REASON_NOT_DATA, NULL},
        /* in memory but not in the file: all zero */
        {ELF_SYMBOLS + 24 + 8, ELF_DATA_ADDRESS + 0x210, 8, TENON_REASON_OLD_ABI, "0"},
    };
    plan p = good();
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        built b = made(&p);
        loader_fault fault;
        put_number(&b, cases[i].at, cases[i].value, cases[i].bytes);
        fault = rig_fault(&elf, b.bytes, b.size);
        ck_assert_msg(fault.reason == cases[i].reason, "case %u: reason %u, not %u (%s)",
                      (unsigned)i, fault.reason, cases[i].reason, fault.have);
        if (cases[i].have != NULL) ck_assert_str_eq(fault.have, cases[i].have);
    }
}
END_TEST

START_TEST(big_endian)
{
    static const uint8_t start[64] = {0x7f, 'E', 'L', 'F', 2, 2, 1, 0, 0, 0,
                                      0,    0,   0,   0,   0, 0, 0, 3, 0, 22};
    loader_fault fault = rig_fault(&elf, start, sizeof start);
    ck_assert_uint_eq(fault.reason, TENON_REASON_WRONG_ARCH);
    ck_assert_str_eq(fault.have, "s390x");
}
END_TEST

START_TEST(no_image)
{
    static const char script[] = "#!/bin/sh\necho no library\n";
    static const char ar[] = "/* GNU ld script */ INPUT(libacme.so.1)";
    ck_assert_uint_eq(rig_fault(&elf, (const uint8_t *)script, sizeof script).reason,
                      TENON_REASON_NOT_AN_IMAGE);
    ck_assert_uint_eq(rig_fault(&elf, (const uint8_t *)ar, sizeof ar).reason,
                      TENON_REASON_NOT_AN_IMAGE);
    ck_assert_uint_eq(rig_fault(&elf, (const uint8_t *)"\177EL", 3).reason, TENON_REASON_TRUNCATED);
}
END_TEST

START_TEST(run_paths)
{
    plan p = good();
    built b = made(&p);
    image out;
    rig_judge(&elf, b.bytes, b.size, &out);
    ck_assert_uint_eq(out.search.count, 2);
    ck_assert_str_eq(out.search.items[0], "$ORIGIN/lib");
    ck_assert_str_eq(out.search.items[1], "/opt/acme");
    image_clear(&out);
}
END_TEST

/* Reads a whole file. NULL: it is not there. */
static uint8_t *whole(const char *path, uint64_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long end;
    if (file == NULL) return NULL;
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    end = ftell(file);
    ck_assert_int_gt(end, 0);
    rewind(file);
    bytes = malloc((size_t)end);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, (size_t)end, file), (size_t)end);
    fclose(file);
    *size = (uint64_t)end;
    return bytes;
}

/* The C library of this very process, and the program itself. */
START_TEST(real_files)
{
    const rig here = {
        "elf",
#if defined(__aarch64__)
        "aarch64"
#else
        "x86-64"
#endif
    };
    char line[4096], path[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    uint64_t size = 0, i;
    uint8_t *bytes;
    image out;
    loader_fault fault;
    bool found = false;
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        char *at = strchr(line, '/');
        if (at == NULL || strstr(at, "/libc.so.6") == NULL) continue;
        at[strcspn(at, "\n")] = '\0';
        strcpy(path, at);
    }
    fclose(maps);
    bytes = path[0] != '\0' ? whole(path, &size) : NULL;
    if (bytes == NULL) {
        runner_skip("no libc.so.6 is mapped");
    } else {
        fault = rig_judge(&here, bytes, size, &out);
        ck_assert_uint_eq(fault.reason, TENON_REASON_MISSING_SYMBOL);
        ck_assert_uint_gt(out.facts.export_count, 1000);
        for (i = 0; i < out.facts.export_count; i++)
            found = found || strcmp(out.facts.exports[i], "malloc") == 0;
        ck_assert(found);
        image_clear(&out);
        free(bytes);
    }
    bytes = whole("/proc/self/exe", &size);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(rig_fault(&here, bytes, size).reason, TENON_REASON_NOT_SHARED_OBJECT);
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_elf");
    TCase *test_case = tcase_create("elf");
    tcase_set_timeout(test_case, 120);
    tcase_add_loop_test(test_case, good_file, 0, 2);
    tcase_add_test(test_case, good_file_of_another_machine);
    tcase_add_loop_test(test_case, cut_everywhere, 0, 2);
    tcase_add_loop_test(test_case, damaged_everywhere, 0, 2);
    tcase_add_loop_test(test_case, one_change_one_reason, 0, COMMON_CASES);
    tcase_add_test(test_case, properties);
    tcase_add_test(test_case, damaged_numbers);
    tcase_add_test(test_case, big_endian);
    tcase_add_test(test_case, no_image);
    tcase_add_test(test_case, run_paths);
    tcase_add_test(test_case, real_files);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
