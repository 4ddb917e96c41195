/* What the three tests of image readers share. */
#ifndef TENON_TESTS_IMAGE_RIG_H
#define TENON_TESTS_IMAGE_RIG_H

#include <check.h>
#include <loader/image.h>
#include <loader/static.h>
#include "image_build.h"

typedef void (*builder)(built *b, const plan *p);

/* What is wanted of an image. */
typedef struct rig {
    const char *container, *machine;
} rig;

/* Judges a copy of exactly size bytes, so that a tool that watches memory sees one byte too far. */
static inline loader_fault rig_judge(const rig *self, const uint8_t *bytes, uint64_t size,
                                     image *out)
{
    loader_fault fault = {0};
    uint8_t *copy = malloc(size != 0 ? size : 1);
    ck_assert_ptr_nonnull(copy);
    if (size != 0) memcpy(copy, bytes, size);
    memset(out, 0, sizeof *out);
    ck_assert_int_eq(
        static_judge_bytes(copy, size, self->container, self->machine, NULL, out, &fault),
        TENON_OK);
    free(copy);
    return fault;
}

static inline loader_fault rig_fault(const rig *self, const uint8_t *bytes, uint64_t size)
{
    image out;
    loader_fault fault = rig_judge(self, bytes, size, &out);
    image_clear(&out);
    return fault;
}

/* A good image is read right in every field. */
static inline void rig_good(const rig *self, const built *b)
{
    image out;
    loader_fault fault = rig_judge(self, b->bytes, b->size, &out);
    const loader_image_facts *facts = &out.facts;
    ck_assert_msg(fault.reason == 0, "reason %u %s %s", fault.reason, fault.symbol, fault.have);
    ck_assert_str_eq(facts->container, self->container);
    ck_assert_str_eq(facts->machine, self->machine);
    ck_assert_uint_eq(facts->symbol_count, SYMBOL_COUNT);
    ck_assert_str_eq(facts->symbols[SYMBOL_provider_v1].name, "provider_v1");
    ck_assert(facts->symbols[SYMBOL_provider_v1].present);
    ck_assert(facts->symbols[SYMBOL_provider_v1].is_data);
    ck_assert_uint_eq(facts->symbols[SYMBOL_provider_v1].struct_size, 160);
    ck_assert_uint_eq(facts->symbols[SYMBOL_provider_v1].abi_version, 1);
    ck_assert(facts->symbols[SYMBOL_qmatmul_v1].present);
    ck_assert(facts->symbols[SYMBOL_qmatmul_v1].is_data);
    ck_assert_uint_eq(facts->symbols[SYMBOL_qmatmul_v1].struct_size, 64);
    ck_assert_uint_eq(facts->symbols[SYMBOL_qmatmul_v1].abi_version, 1);
    ck_assert_str_eq(facts->id, "acme");
    ck_assert_str_eq(facts->version, "1.2");
    ck_assert_uint_eq(facts->needs, 0);
    ck_assert_uint_eq(facts->export_count, 3);
    ck_assert_str_eq(facts->exports[0], "provider_v1");
    ck_assert_str_eq(facts->exports[1], "qmatmul_v1");
    ck_assert_str_eq(facts->exports[2], "helper");
    ck_assert_uint_eq(facts->library_count, 1);
    ck_assert_str_eq(facts->libraries[0], "libc.so.6");
    ck_assert(!facts->text_relocations);
    ck_assert(!facts->executable_stack);
    ck_assert(!facts->static_tls);
    image_clear(&out);
}

/* Cut anywhere, it is refused; whatever lies beyond the cut is not read. */
static inline void rig_cut_everywhere(const rig *self, const built *b)
{
    uint64_t size;
    for (size = 0; size < b->size; size++) {
        loader_fault fault = rig_fault(self, b->bytes, size);
        ck_assert_msg(fault.reason == TENON_REASON_TRUNCATED, "cut at %u of %u: reason %u %s",
                      (unsigned)size, (unsigned)b->size, fault.reason, fault.have);
    }
}

/* Every bit turned over, and every aligned number replaced: judged somehow, harming nothing. */
static inline void rig_damage_everywhere(const rig *self, const built *b)
{
    static const uint32_t values[] = {0,          1,           0x7f,        0x1000,
                                      0x7fffffff, 0x80000000u, 0xfffffff0u, UINT32_MAX};
    built copy = *b;
    uint64_t at;
    unsigned i, refused = 0;
    for (at = 0; at < b->size; at++)
        for (i = 0; i < 8; i++) {
            copy.bytes[at] = (uint8_t)(b->bytes[at] ^ 1u << i);
            refused += rig_fault(self, copy.bytes, b->size).reason != 0;
            copy.bytes[at] = b->bytes[at];
        }
    for (at = 0; at + 4 <= b->size; at += 2)
        for (i = 0; i < sizeof values / sizeof values[0]; i++) {
            memcpy(copy.bytes + at, &values[i], 4);
            refused += rig_fault(self, copy.bytes, b->size).reason != 0;
            memcpy(copy.bytes + at, b->bytes + at, 4);
        }
    ck_assert_uint_gt(refused, 100);
}

/* One change to the plan, one reason. NULL: not looked at. */
typedef struct plan_case {
    const char *what;
    void (*change)(plan *p);
    uint32_t reason;
    const char *symbol, *have, *need;
} plan_case;

static inline void rig_plan_case(const rig *self, builder build, const plan *good,
                                 const plan_case *c)
{
    built b;
    plan p = *good;
    loader_fault fault;
    c->change(&p);
    build(&b, &p);
    fault = rig_fault(self, b.bytes, b.size);
    ck_assert_msg(fault.reason == c->reason, "%s: reason %u, not %u (%s)", c->what, fault.reason,
                  c->reason, fault.have);
    if (c->symbol != NULL) ck_assert_str_eq(fault.symbol, c->symbol);
    if (c->have != NULL) ck_assert_str_eq(fault.have, c->have);
    if (c->need != NULL) ck_assert_str_eq(fault.need, c->need);
}

/* Changes that mean the same in every container. */
static inline void change_nothing(plan *p)
{
    (void)p;
}
static inline void change_no_provider(plan *p)
{
    p->names[0] = NULL;
}
static inline void change_no_qmatmul(plan *p)
{
    p->names[1] = NULL;
}
static inline void change_old_qmatmul(plan *p)
{
    p->names[1] = "qmatmul_v0";
}
static inline void change_only_old(plan *p)
{
    p->names[0] = NULL;
    p->names[1] = "qmatmul_v0";
}
static inline void change_no_names(plan *p)
{
    p->names[0] = p->names[1] = p->names[2] = NULL;
}
static inline void change_longer_name(plan *p)
{
    p->names[1] = "qmatmul_v11";
}
static inline void change_function(plan *p)
{
    p->code[1] = true;
}
static inline void change_abi_zero(plan *p)
{
    p->provider_abi = 0;
}
static inline void change_abi_six(plan *p)
{
    p->qmatmul_abi = 6;
}
static inline void change_short_provider(plan *p)
{
    p->provider_size = 152;
}
static inline void change_short_qmatmul(plan *p)
{
    p->qmatmul_size = 0;
}
static inline void change_long(plan *p)
{
    p->provider_size = 176;
    p->qmatmul_size = 80;
}
static inline void change_need(plan *p)
{
    p->needs = 1ull << 40;
}
static inline void change_id_upper(plan *p)
{
    p->id = "Acme";
}
static inline void change_id_empty(plan *p)
{
    p->id = "";
}
static inline void change_id_endless(plan *p)
{
    p->id = "abcdefghijklmnopqrstuvwxyz0123456789";
}
static inline void change_id_reserved(plan *p)
{
    p->id = "reference";
}
static inline void change_version_control(plan *p)
{
    p->version = "1.\x1b[31m";
}
static inline void change_version_endless(plan *p)
{
    p->version = "1.000000000000000000000000000000000";
}

static const plan_case common_cases[] = {
    {"nothing", change_nothing, 0, NULL, NULL, NULL},
    {"no provider_v1", change_no_provider, TENON_REASON_MISSING_SYMBOL, "provider_v1", "",
     "provider_v1"},
    {"no qmatmul_v1", change_no_qmatmul, TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", "",
     "qmatmul_v1"},
    {"qmatmul_v0", change_old_qmatmul, TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", "qmatmul_v0",
     "qmatmul_v1"},
    {"only qmatmul_v0", change_only_old, TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", "qmatmul_v0",
     "qmatmul_v1"},
    {"no names", change_no_names, TENON_REASON_MISSING_SYMBOL, "provider_v1", "", "provider_v1"},
    {"qmatmul_v11", change_longer_name, TENON_REASON_MISSING_SYMBOL, "qmatmul_v1", "qmatmul_v11",
     "qmatmul_v1"},
    {"function", change_function, TENON_REASON_NOT_DATA, "qmatmul_v1", NULL, NULL},
    {"abi 0", change_abi_zero, TENON_REASON_OLD_ABI, "provider_v1", "0", "1"},
    {"abi 6", change_abi_six, TENON_REASON_NEW_ABI, "qmatmul_v1", "6", "1"},
    {"short provider", change_short_provider, TENON_REASON_SHORT_DESCRIPTOR, "provider_v1", "152",
     "160"},
    {"short qmatmul", change_short_qmatmul, TENON_REASON_SHORT_DESCRIPTOR, "qmatmul_v1", "0", "64"},
    {"longer", change_long, 0, NULL, NULL, NULL},
    {"need", change_need, TENON_REASON_UNKNOWN_NEED, "provider_v1", "0x10000000000", "0x0"},
    {"id Acme", change_id_upper, TENON_REASON_BAD_ID, "provider_v1", "Acme", NULL},
    {"id empty", change_id_empty, TENON_REASON_BAD_ID, "provider_v1", "", NULL},
    {"id endless", change_id_endless, TENON_REASON_BAD_ID, "provider_v1", NULL, NULL},
    {"id reserved", change_id_reserved, TENON_REASON_BAD_ID, "provider_v1", "reference", NULL},
    {"version control", change_version_control, TENON_REASON_BAD_ID, "provider_v1", NULL, NULL},
    {"version endless", change_version_endless, TENON_REASON_BAD_ID, "provider_v1", NULL, NULL},
};
#define COMMON_CASES ((int)(sizeof common_cases / sizeof common_cases[0]))

#endif
