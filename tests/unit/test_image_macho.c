/* The Mach-O reader, from bytes: thin and fat files, both ways of finding names, damaged files. */
#include "image_rig.h"
#include "runner.h"

static const rig macho = {"macho", "aarch64"};

static plan good(void)
{
    return plan_good(MACHO_AARCH64, MACHO_DYLIB);
}

static built made(const plan *p)
{
    static built b;
    build_macho(&b, p);
    return b;
}

START_TEST(good_file)
{
    plan p = good();
    built b;
    p.old_tables = _i == 1;
    b = made(&p);
    rig_good(&macho, &b);
    p.kind = 8; /* a bundle */
    b = made(&p);
    rig_good(&macho, &b);
}
END_TEST

START_TEST(fat_file)
{
    const rig intel = {"macho", "x86-64"}, other = {"macho", "riscv64"};
    plan p = good();
    built arm = made(&p), x86, fat;
    loader_fault fault;
    uint64_t size;
    p.machine = MACHO_X86_64;
    p.id = "acme";
    x86 = made(&p);
    build_fat(&fat, &x86, MACHO_X86_64, &arm, MACHO_AARCH64);
    rig_good(&macho, &fat);
    rig_good(&intel, &fat);
    fault = rig_fault(&other, fat.bytes, fat.size);
    ck_assert_uint_eq(fault.reason, TENON_REASON_WRONG_ARCH);
    ck_assert_str_eq(fault.have, "x86-64,aarch64");
    ck_assert_str_eq(fault.need, "riscv64");
    for (size = 0; size < 64; size++)
        ck_assert_uint_eq(rig_fault(&macho, fat.bytes, size).reason, TENON_REASON_TRUNCATED);
    ck_assert_uint_eq(rig_fault(&macho, fat.bytes, fat.size - 1).reason, TENON_REASON_TRUNCATED);
    /* a slice that is itself fat, or nothing */
    memcpy(fat.bytes + 8192, fat.bytes, 64);
    ck_assert_uint_eq(rig_fault(&macho, fat.bytes, fat.size).reason, TENON_REASON_NOT_AN_IMAGE);
    memcpy(fat.bytes + 8192, "none", 4);
    ck_assert_uint_eq(rig_fault(&macho, fat.bytes, fat.size).reason, TENON_REASON_NOT_AN_IMAGE);
}
END_TEST

START_TEST(java_class)
{
    static const uint8_t start[32] = {0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 61};
    ck_assert_uint_eq(rig_fault(&macho, start, sizeof start).reason, TENON_REASON_NOT_AN_IMAGE);
}
END_TEST

START_TEST(cut_everywhere)
{
    plan p = good();
    built b;
    p.old_tables = _i == 1;
    b = made(&p);
    rig_cut_everywhere(&macho, &b);
}
END_TEST

START_TEST(damaged_everywhere)
{
    plan p = good();
    built b;
    p.old_tables = _i == 1;
    b = made(&p);
    rig_damage_everywhere(&macho, &b);
}
END_TEST

START_TEST(one_change_one_reason)
{
    plan p = good();
    rig_plan_case(&macho, build_macho, &p, &common_cases[_i]);
    p.old_tables = true;
    rig_plan_case(&macho, build_macho, &p, &common_cases[_i]);
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
        {0, 0xfeedface, 4, TENON_REASON_WRONG_ARCH, "32-bit"},
        {4, MACHO_X86_64, 4, TENON_REASON_WRONG_ARCH, "x86-64"},
        {4, 18, 4, TENON_REASON_WRONG_ARCH, "ppc"},
        {4, 99, 4, TENON_REASON_WRONG_ARCH, "machine 0x63"},
        {12, 2, 4, TENON_REASON_NOT_SHARED_OBJECT, "executable"},
        {12, 1, 4, TENON_REASON_NOT_SHARED_OBJECT, "object file"},
        {16, 0x7fffffff, 4, TENON_REASON_MALFORMED_IMAGE, "number of load commands"},
        {20, 0x7fffffff, 4, TENON_REASON_TRUNCATED, NULL},
        {24, 0x20000, 4, TENON_REASON_EXECUTABLE_STACK, NULL},
        {MACHO_COMMANDS + 4, 0, 4, TENON_REASON_MALFORMED_IMAGE, "load command size"},
        {MACHO_COMMANDS + 4, 12, 4, TENON_REASON_MALFORMED_IMAGE, "load command size"},
        {MACHO_COMMANDS + 4, 0xfffffff8, 4, TENON_REASON_MALFORMED_IMAGE, "load command size"},
        {MACHO_COMMANDS + 64, 0x1000000, 4, TENON_REASON_MALFORMED_IMAGE, "segment command size"},
        {MACHO_COMMANDS + 40, 0x100000, 8, TENON_REASON_TRUNCATED, NULL},
        {MACHO_COMMANDS + 48, UINT64_MAX, 8, TENON_REASON_MALFORMED_IMAGE, "segment size"},
        {MACHO_COMMANDS + 24, UINT64_MAX, 8, TENON_REASON_MALFORMED_IMAGE, "segment size"},
        /* the trie: a child that is its parent, one outside, more edges than bytes */
        {MACHO_TRIE + 2 + 13, 0, 1, TENON_REASON_MALFORMED_IMAGE, "export trie"},
        {MACHO_TRIE + 2 + 14, 0x7f, 1, TENON_REASON_MALFORMED_IMAGE, "export trie"},
        {MACHO_TRIE + 1, 255, 1, TENON_REASON_MALFORMED_IMAGE, "export trie"},
    };
    plan p = good();
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        built b = made(&p);
        loader_fault fault;
        put_number(&b, cases[i].at, cases[i].value, cases[i].bytes);
        fault = rig_fault(&macho, b.bytes, b.size);
        ck_assert_msg(fault.reason == cases[i].reason, "case %u: reason %u, not %u (%s)",
                      (unsigned)i, fault.reason, cases[i].reason, fault.have);
        if (cases[i].have != NULL) ck_assert_str_eq(fault.have, cases[i].have);
    }
}
END_TEST

/* Replaces the trie of a good image. */
static loader_fault with_trie(const uint8_t *trie, uint64_t bytes)
{
    plan p = good();
    built b = made(&p);
    uint64_t at = MACHO_COMMANDS;
    while (b.bytes[at] != 0x33) { /* the trie's command */
        uint32_t size;
        memcpy(&size, b.bytes + at + 4, 4);
        at += size;
    }
    put_bytes(&b, MACHO_TRIE, trie, bytes);
    put32(&b, at + 12, bytes);
    return rig_fault(&macho, b.bytes, b.size);
}

START_TEST(hostile_tries)
{
    /* a chain of empty edges; a node entered twice; a number without end; a re-export */
    static const uint8_t chain[] = {0, 1, 0, 4, 0, 1, 0, 8, 0, 1, 0, 12, 0, 0};
    static const uint8_t shared[] = {0, 2, 'a', 0, 8, 'b', 0, 8, 0, 0};
    static const uint8_t endless[] = {0,    1,    'a',  0,    0x80, 0x80, 0x80, 0x80, 0x80,
                                      0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
    static const uint8_t reexport[] = {0,   1,   '_', 'p', 'r', 'o', 'v', 'i', 'd', 'e', 'r',
                                       '_', 'v', '1', 0,   16,  3,   8,   1,   0,   0};
    uint8_t wide[255 * 3 + 2 + 2];
    unsigned i;
    ck_assert_uint_eq(with_trie(chain, sizeof chain).reason, TENON_REASON_MISSING_SYMBOL);
    ck_assert_uint_eq(with_trie(shared, sizeof shared).reason, TENON_REASON_MALFORMED_IMAGE);
    ck_assert_uint_eq(with_trie(endless, sizeof endless).reason, TENON_REASON_MALFORMED_IMAGE);
    ck_assert_uint_eq(with_trie(reexport, sizeof reexport).reason, TENON_REASON_MISSING_SYMBOL);
    /* many edges to one leaf */
    wide[0] = 0;
    wide[1] = 255;
    for (i = 0; i < 255; i++) {
        wide[2 + 3 * i] = (uint8_t)(i + 1);
        wide[3 + 3 * i] = 0;
        wide[4 + 3 * i] = 2;
    }
    wide[sizeof wide - 2] = wide[sizeof wide - 1] = 0;
    ck_assert_uint_eq(with_trie(wide, 255 * 3 + 4).reason, TENON_REASON_MALFORMED_IMAGE);
}
END_TEST

START_TEST(libraries_and_run_paths)
{
    plan p = good();
    built b = made(&p);
    image out;
    rig_judge(&macho, b.bytes, b.size, &out);
    ck_assert_uint_eq(out.facts.library_count, 1);
    ck_assert_uint_eq(out.search.count, 1);
    ck_assert_str_eq(out.search.items[0], "$ORIGIN/lib:/opt/acme");
    image_clear(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_macho");
    TCase *test_case = tcase_create("macho");
    tcase_set_timeout(test_case, 120);
    tcase_add_loop_test(test_case, good_file, 0, 2);
    tcase_add_test(test_case, fat_file);
    tcase_add_test(test_case, java_class);
    tcase_add_loop_test(test_case, cut_everywhere, 0, 2);
    tcase_add_loop_test(test_case, damaged_everywhere, 0, 2);
    tcase_add_loop_test(test_case, one_change_one_reason, 0, COMMON_CASES);
    tcase_add_test(test_case, damaged_numbers);
    tcase_add_test(test_case, hostile_tries);
    tcase_add_test(test_case, libraries_and_run_paths);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
