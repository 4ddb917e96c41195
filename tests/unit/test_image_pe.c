/* The PE reader, from bytes: good files, damaged ones, files of other machines. */
#include "image_rig.h"
#include "runner.h"
#include <glob.h>

static const rig pe = {"pe", "x86-64"};

static plan good(void)
{
    return plan_good(PE_X86_64, PE_DLL);
}

static built made(const plan *p)
{
    static built b;
    build_pe(&b, p);
    return b;
}

START_TEST(good_file)
{
    const rig arm = {"pe", "aarch64"};
    plan p = good();
    built b = made(&p);
    loader_fault fault;
    rig_good(&pe, &b);
    p.machine = PE_AARCH64;
    b = made(&p);
    rig_good(&arm, &b);
    fault = rig_fault(&pe, b.bytes, b.size);
    ck_assert_uint_eq(fault.reason, TENON_REASON_WRONG_ARCH);
    ck_assert_str_eq(fault.have, "aarch64");
    ck_assert_str_eq(fault.need, "x86-64");
}
END_TEST

START_TEST(another_system)
{
    const rig elf = {"elf", "x86-64"};
    plan p = good();
    built b = made(&p);
    loader_fault fault = rig_fault(&elf, b.bytes, b.size);
    ck_assert_uint_eq(fault.reason, TENON_REASON_WRONG_SYSTEM);
    ck_assert_str_eq(fault.have, "pe");
    ck_assert_str_eq(fault.need, "elf");
}
END_TEST

START_TEST(cut_everywhere)
{
    plan p = good();
    built b = made(&p);
    rig_cut_everywhere(&pe, &b);
}
END_TEST

START_TEST(damaged_everywhere)
{
    plan p = good();
    built b = made(&p);
    rig_damage_everywhere(&pe, &b);
}
END_TEST

START_TEST(one_change_one_reason)
{
    plan p = good();
    rig_plan_case(&pe, build_pe, &p, &common_cases[_i]);
}
END_TEST

static void change_forwarder(plan *p)
{
    p->forwarder = true;
}
static void change_program(plan *p)
{
    p->kind = 0x22;
}
static void change_beyond(plan *p)
{
    p->provider_size = 4096; /* the section ends before */
}
static void change_no_imports(plan *p)
{
    p->needed = NULL;
}

START_TEST(properties)
{
    static const plan_case cases[] = {
        {"forwarder", change_forwarder, TENON_REASON_NOT_DATA, "qmatmul_v1", NULL, NULL},
        {"program", change_program, TENON_REASON_NOT_SHARED_OBJECT, NULL, NULL, "DLL"},
        {"beyond", change_beyond, TENON_REASON_SHORT_DESCRIPTOR, "provider_v1", "1024", "4096"},
        {"no imports", change_no_imports, 0, NULL, NULL, NULL},
    };
    plan p = good();
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
        rig_plan_case(&pe, build_pe, &p, &cases[i]);
}
END_TEST

START_TEST(damaged_numbers)
{
    static const struct {
        uint64_t at, value;
        unsigned bytes;
        uint32_t reason;
        const char *have;
    } cases[] = {
        {60, 0xfffffff0, 4, TENON_REASON_TRUNCATED, NULL},
        {PE_HEADER, 'X', 1, TENON_REASON_NOT_AN_IMAGE, NULL},
        {PE_HEADER + 4, 0x14c, 2, TENON_REASON_WRONG_ARCH, "i386"},
        {PE_HEADER + 4, 0x1234, 2, TENON_REASON_WRONG_ARCH, "machine 0x1234"},
        {PE_HEADER + 6, 0, 2, TENON_REASON_MALFORMED_IMAGE, "number of sections"},
        {PE_HEADER + 6, 0xffff, 2, TENON_REASON_TRUNCATED, NULL},
        {PE_HEADER + 6, 97, 2, TENON_REASON_TRUNCATED, NULL},
        {PE_HEADER + 12, 0x7fffffff, 4, TENON_REASON_TRUNCATED, NULL}, /* debug symbols */
        {PE_HEADER + 20, 40, 2, TENON_REASON_MALFORMED_IMAGE, "optional header"},
        {PE_OPTIONAL, 0x10b, 2, TENON_REASON_WRONG_ARCH, "32-bit"},
        {PE_OPTIONAL + 108, 1000, 4, TENON_REASON_MALFORMED_IMAGE, "data directories"},
        {PE_OPTIONAL + 108, 0, 4, TENON_REASON_MISSING_SYMBOL, NULL},
        {PE_OPTIONAL + 112, 0, 4, TENON_REASON_MISSING_SYMBOL, NULL},
        {PE_OPTIONAL + 112, 0x90000, 4, TENON_REASON_MALFORMED_IMAGE,
         "export directory outside the file"},
        {PE_OPTIONAL + 120, 0x90000, 4, TENON_REASON_MALFORMED_IMAGE,
         "import directory outside the file"},
        {PE_SECTIONS + 16, 0x7fffffff, 4, TENON_REASON_TRUNCATED, NULL},
        {PE_SECTIONS + 20, 0xfffffff0, 4, TENON_REASON_TRUNCATED, NULL},
        {PE_SECTIONS + 40 + 12, 0x1000, 4, TENON_REASON_MALFORMED_IMAGE, "sections out of order"},
        {PE_RDATA + PE_EXPORTS + 24, 70000, 4, TENON_REASON_MALFORMED_IMAGE, "number of exports"},
        {PE_RDATA + PE_EXPORTS + 24, 60000, 4, TENON_REASON_MALFORMED_IMAGE,
         "export tables outside the file"},
        {PE_RDATA + PE_EXPORTS + 20, UINT32_MAX, 4, TENON_REASON_MALFORMED_IMAGE,
         "export tables outside the file"},
        {PE_RDATA + PE_ORDINALS, 0xffff, 2, TENON_REASON_MALFORMED_IMAGE, "export ordinal"},
        {PE_RDATA + PE_NAME_TABLE, 0x7000, 4, TENON_REASON_MALFORMED_IMAGE,
         "export name outside the file"},
        {PE_RDATA + PE_IMPORTS + 12, 0x7000, 4, TENON_REASON_MALFORMED_IMAGE,
         "library name outside the file"},
    };
    plan p = good();
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        built b = made(&p);
        loader_fault fault;
        put_number(&b, cases[i].at, cases[i].value, cases[i].bytes);
        fault = rig_fault(&pe, b.bytes, b.size);
        ck_assert_msg(fault.reason == cases[i].reason, "case %u: reason %u, not %u (%s)",
                      (unsigned)i, fault.reason, cases[i].reason, fault.have);
        if (cases[i].have != NULL) ck_assert_str_eq(fault.have, cases[i].have);
    }
}
END_TEST

/* An import directory that never ends stops at the end of its section. */
START_TEST(endless_imports)
{
    plan p = good();
    built b = made(&p);
    loader_fault fault;
    uint64_t at;
    for (at = PE_RDATA + PE_IMPORTS; at + 20 <= PE_RDATA + PE_RDATA_BYTES; at += 20)
        put32(&b, at + 12, PE_RDATA_ADDRESS + PE_STRINGS);
    fault = rig_fault(&pe, b.bytes, b.size);
    ck_assert_uint_eq(fault.reason, TENON_REASON_MALFORMED_IMAGE);
    ck_assert_str_eq(fault.have, "import directory without end");
}
END_TEST

/* Libraries that a mingw toolchain brings along. */
START_TEST(real_files)
{
    glob_t found;
    size_t i, looked_at = 0;
    if (glob("/usr/lib/gcc/x86_64-w64-mingw32/*/*.dll", 0, NULL, &found) != 0) {
        runner_skip("no DLLs of mingw are installed");
        return;
    }
    for (i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "rb");
        static uint8_t bytes[32u << 20];
        size_t size;
        image out;
        loader_fault fault;
        ck_assert_ptr_nonnull(file);
        size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        if (size == sizeof bytes) continue;
        fault = rig_judge(&pe, bytes, size, &out);
        ck_assert_msg(fault.reason == TENON_REASON_MISSING_SYMBOL, "%s: %u %s", found.gl_pathv[i],
                      fault.reason, fault.have);
        ck_assert_uint_gt(out.facts.export_count, 0);
        ck_assert_uint_gt(out.facts.library_count, 0);
        looked_at++;
        image_clear(&out);
    }
    globfree(&found);
    ck_assert_uint_gt(looked_at, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_pe");
    TCase *test_case = tcase_create("pe");
    tcase_set_timeout(test_case, 120);
    tcase_add_test(test_case, good_file);
    tcase_add_test(test_case, another_system);
    tcase_add_test(test_case, cut_everywhere);
    tcase_add_test(test_case, damaged_everywhere);
    tcase_add_loop_test(test_case, one_change_one_reason, 0, COMMON_CASES);
    tcase_add_test(test_case, properties);
    tcase_add_test(test_case, damaged_numbers);
    tcase_add_test(test_case, endless_imports);
    tcase_add_test(test_case, real_files);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
