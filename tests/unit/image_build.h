/* Small shared objects made by hand, byte by byte, for the tests and seeds of the image readers. */
#ifndef TENON_TESTS_IMAGE_BUILD_H
#define TENON_TESTS_IMAGE_BUILD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/op/qmatmul.h>
#include <tenon/provider.h>

/* What the image is like; plan_good() is a good provider, tests change one thing. */
typedef struct plan {
    uint32_t machine;     /* the container's own number */
    uint32_t kind;        /* ET_DYN, MH_DYLIB, or PE characteristics */
    bool old_tables;      /* ELF: DT_HASH instead of DT_GNU_HASH; Mach-O: symbol table, no trie */
    const char *names[4]; /* exported: provider, qmatmul, and others; NULL: not there */
    bool code[4];         /* it is a function */
    uint32_t provider_size, provider_abi, qmatmul_size, qmatmul_abi;
    uint64_t needs;
    const char *id, *version;
    const char *needed, *run_path; /* NULL: none */
    uint64_t object_size;          /* ELF: of both symbols; 0: as the descriptors say */
    uint64_t dynamic_flags, dynamic_flags_1;
    bool text_relocations, executable_stack, no_stack_mark;
    bool forwarder; /* PE: qmatmul_v1 is another library's */
} plan;

typedef struct built {
    uint8_t bytes[16384];
    uint64_t size;
} built;

static inline plan plan_good(uint32_t machine, uint32_t kind)
{
    return (plan){.machine = machine,
                  .kind = kind,
                  .names = {"provider_v1", "qmatmul_v1", "helper", NULL},
                  .code = {false, false, true, false},
                  .provider_size = sizeof(tenon_provider_v1),
                  .provider_abi = TENON_ABI_VERSION,
                  .qmatmul_size = sizeof(tenon_qmatmul_v1),
                  .qmatmul_abi = TENON_ABI_VERSION,
                  .id = "acme",
                  .version = "1.2",
                  .needed = "libc.so.6",
                  .run_path = "$ORIGIN/lib:/opt/acme"};
}

static inline void put_bytes(built *b, uint64_t at, const void *bytes, uint64_t count)
{
    if (at + count > sizeof b->bytes) abort();
    if (count != 0) memcpy(b->bytes + at, bytes, count);
    if (at + count > b->size) b->size = at + count;
}

static inline void put_number(built *b, uint64_t at, uint64_t value, unsigned count)
{
    uint8_t bytes[8];
    unsigned i;
    for (i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    put_bytes(b, at, bytes, count);
}

static inline void put16(built *b, uint64_t at, uint64_t value)
{
    put_number(b, at, value, 2);
}
static inline void put32(built *b, uint64_t at, uint64_t value)
{
    put_number(b, at, value, 4);
}
static inline void put64(built *b, uint64_t at, uint64_t value)
{
    put_number(b, at, value, 8);
}

static inline uint64_t put_text(built *b, uint64_t at, const char *text)
{
    put_bytes(b, at, text, strlen(text) + 1);
    return at + strlen(text) + 1;
}

/* The heads of both descriptors, as far as the static stage looks at them; 512 bytes. */
static inline void put_descriptors(built *b, uint64_t at, const plan *p)
{
    uint8_t zeros[512] = {0};
    put_bytes(b, at, zeros, sizeof zeros);
    put32(b, at, p->provider_size);
    put32(b, at + 4, p->provider_abi);
    put64(b, at + 8, p->needs);
    put32(b, at + 16, sizeof(tenon_services));
    put32(b, at + 20, sizeof(tenon_device_info));
    put32(b, at + 24, sizeof(tenon_error));
    put_bytes(b, at + offsetof(tenon_provider_v1, id), p->id, strnlen(p->id, 32));
    put_bytes(b, at + offsetof(tenon_provider_v1, version), p->version, strnlen(p->version, 32));
    put32(b, at + 256, p->qmatmul_size);
    put32(b, at + 260, p->qmatmul_abi);
}

/* ---- ELF ------------------------------------------------------------------------------------ */

enum {
    ELF_X86_64 = 62,
    ELF_AARCH64 = 183,
    ELF_DYN = 3,
    ELF_PHDR = 64,
    ELF_TABLES = 0x200, /* in the first segment, whose addresses are its offsets */
    ELF_DYNAMIC = ELF_TABLES,
    ELF_HASH = 0x300,
    ELF_SYMBOLS = 0x400,
    ELF_STRINGS = 0x500,
    ELF_FIRST_END = 0x600,
    ELF_DATA = 0x700, /* second segment: other addresses than offsets */
    ELF_DATA_ADDRESS = 0x3700,
    ELF_DATA_END = 0x900,
    ELF_CODE_ADDRESS = 0x5900,
    ELF_CODE_END = 0x940,
    ELF_SECTIONS = 0x940
};

static inline void elf_segment(built *b, unsigned index, uint32_t type, uint32_t flags,
                               uint64_t offset, uint64_t address, uint64_t bytes, uint64_t memory)
{
    uint64_t at = ELF_PHDR + 56 * (uint64_t)index;
    put32(b, at, type);
    put32(b, at + 4, flags);
    put64(b, at + 8, offset);
    put64(b, at + 16, address);
    put64(b, at + 24, address);
    put64(b, at + 32, bytes);
    put64(b, at + 40, memory);
    put64(b, at + 48, type == 1 ? 0x100 : 8);
}

static inline void build_elf(built *b, const plan *p)
{
    uint64_t at, string = 1, count = 1, entry = ELF_DYNAMIC;
    uint64_t offsets[4] = {0}, i, needed = 0, run_path = 0;
    memset(b, 0, sizeof *b);
    put_bytes(b, 0, "\177ELF\2\1\1", 7);
    put16(b, 16, p->kind);
    put16(b, 18, p->machine);
    put32(b, 20, 1);
    put64(b, 32, ELF_PHDR);
    put64(b, 40, ELF_SECTIONS);
    put16(b, 52, 64);
    put16(b, 54, 56);
    put16(b, 56, p->no_stack_mark ? 4 : 5);
    put16(b, 58, 64);
    put16(b, 60, 1);
    elf_segment(b, 0, 1, 4, 0, 0, ELF_FIRST_END, ELF_FIRST_END);
    elf_segment(b, 1, 1, 6, ELF_DATA, ELF_DATA_ADDRESS, ELF_DATA_END - ELF_DATA,
                ELF_DATA_END - ELF_DATA + 0x100);
    elf_segment(b, 2, 1, 5, ELF_DATA_END, ELF_CODE_ADDRESS, ELF_CODE_END - ELF_DATA_END,
                ELF_CODE_END - ELF_DATA_END);
    elf_segment(b, 3, 2, 6, ELF_DYNAMIC, ELF_DYNAMIC, 16 * 14, 16 * 14);
    elf_segment(b, 4, 0x6474e551, p->executable_stack ? 7 : 6, 0, 0, 0, 0);
    /* strings and symbols */
    for (i = 0; i < 4; i++) {
        if (p->names[i] == NULL) continue;
        offsets[i] = string;
        string = put_text(b, ELF_STRINGS + string, p->names[i]) - ELF_STRINGS;
        at = ELF_SYMBOLS + 24 * count++;
        put32(b, at, offsets[i]);
        put_number(b, at + 4, 0x10u | (p->code[i] ? 2u : 1u), 1);
        put16(b, at + 6, 5);
        put64(b, at + 8,
              p->code[i] ? ELF_CODE_ADDRESS + 16 : ELF_DATA_ADDRESS + (i == 0 ? 0 : 256));
        put64(b, at + 16,
              p->object_size != 0 ? p->object_size
              : i == 0            ? p->provider_size
                                  : p->qmatmul_size);
    }
    if (p->needed != NULL) {
        needed = string;
        string = put_text(b, ELF_STRINGS + string, p->needed) - ELF_STRINGS;
    }
    if (p->run_path != NULL) {
        run_path = string;
        string = put_text(b, ELF_STRINGS + string, p->run_path) - ELF_STRINGS;
    }
    /* hash table: one bucket, one chain */
    if (p->old_tables) {
        put32(b, ELF_HASH, 1);
        put32(b, ELF_HASH + 4, count);
        put32(b, ELF_HASH + 8, count > 1 ? 1 : 0);
        for (i = 0; i < count; i++) put32(b, ELF_HASH + 12 + 4 * i, i + 1 < count ? i + 1 : 0);
    } else {
        put32(b, ELF_HASH, 1);
        put32(b, ELF_HASH + 4, 1);
        put32(b, ELF_HASH + 8, 1);
        put32(b, ELF_HASH + 12, 6);
        put64(b, ELF_HASH + 16, UINT64_MAX);
        put32(b, ELF_HASH + 24, count > 1 ? 1 : 0);
        for (i = 1; i < count; i++) put32(b, ELF_HASH + 24 + 4 * i, 2 | (i + 1 == count));
    }
    /* dynamic table */
#define ELF_ENTRY(tag, value) (put64(b, entry, tag), put64(b, entry + 8, value), entry += 16)
    if (p->needed != NULL) ELF_ENTRY(1, needed);
    if (p->run_path != NULL) ELF_ENTRY(29, run_path);
    ELF_ENTRY(p->old_tables ? 4 : 0x6ffffef5, ELF_HASH);
    ELF_ENTRY(5, ELF_STRINGS);
    ELF_ENTRY(6, ELF_SYMBOLS);
    ELF_ENTRY(10, string);
    ELF_ENTRY(11, 24);
    if (p->text_relocations) ELF_ENTRY(22, 0);
    if (p->dynamic_flags != 0) ELF_ENTRY(30, p->dynamic_flags);
    if (p->dynamic_flags_1 != 0) ELF_ENTRY(0x6ffffffb, p->dynamic_flags_1);
    ELF_ENTRY(0, 0);
#undef ELF_ENTRY
    put_descriptors(b, ELF_DATA, p);
    put64(b, ELF_SECTIONS + 56, 0); /* one empty section header */
}

/* ---- PE ------------------------------------------------------------------------------------- */

enum {
    PE_X86_64 = 0x8664,
    PE_AARCH64 = 0xaa64,
    PE_DLL = 0x2022,
    PE_HEADER = 0x80,
    PE_OPTIONAL = PE_HEADER + 24,
    PE_SECTIONS = PE_OPTIONAL + 240,
    PE_RDATA = 0x400, /* file offset; its address: */
    PE_RDATA_ADDRESS = 0x1000,
    PE_RDATA_BYTES = 0x800,
    PE_TEXT = 0xc00,
    PE_TEXT_ADDRESS = 0x2000,
    PE_TEXT_BYTES = 0x200,
    PE_EXPORTS = 0x000, /* in .rdata */
    PE_FUNCTIONS = 0x040,
    PE_NAME_TABLE = 0x060,
    PE_ORDINALS = 0x080,
    PE_STRINGS = 0x0a0,
    PE_EXPORTS_END = 0x200,
    PE_IMPORTS = 0x200,
    PE_IMPORT_NAME = 0x240,
    PE_DESCRIPTORS = 0x400
};

static inline void pe_section(built *b, unsigned index, const char *name, uint32_t address,
                              uint32_t bytes, uint32_t offset, uint32_t flags)
{
    uint64_t at = PE_SECTIONS + 40 * (uint64_t)index;
    put_bytes(b, at, name, strlen(name));
    put32(b, at + 8, bytes);
    put32(b, at + 12, address);
    put32(b, at + 16, bytes);
    put32(b, at + 20, offset);
    put32(b, at + 36, flags);
}

static inline void build_pe(built *b, const plan *p)
{
    uint64_t string = PE_RDATA + PE_STRINGS, count = 0, i;
    memset(b, 0, sizeof *b);
    put_bytes(b, 0, "MZ", 2);
    put32(b, 60, PE_HEADER);
    put_bytes(b, PE_HEADER, "PE\0\0", 4);
    put16(b, PE_HEADER + 4, p->machine);
    put16(b, PE_HEADER + 6, 2);
    put16(b, PE_HEADER + 20, 240);
    put16(b, PE_HEADER + 22, p->kind);
    put16(b, PE_OPTIONAL, 0x20b);
    put32(b, PE_OPTIONAL + 108, 16);
    put32(b, PE_OPTIONAL + 112, PE_RDATA_ADDRESS + PE_EXPORTS);
    put32(b, PE_OPTIONAL + 116, PE_EXPORTS_END);
    put32(b, PE_OPTIONAL + 120, PE_RDATA_ADDRESS + PE_IMPORTS);
    put32(b, PE_OPTIONAL + 124, 40);
    pe_section(b, 0, ".rdata", PE_RDATA_ADDRESS, PE_RDATA_BYTES, PE_RDATA, 0x40000040);
    pe_section(b, 1, ".text", PE_TEXT_ADDRESS, PE_TEXT_BYTES, PE_TEXT, 0x60000020);
    for (i = 0; i < 4; i++) {
        uint64_t address = PE_RDATA_ADDRESS + PE_DESCRIPTORS + (i == 0 ? 0 : 256);
        if (p->names[i] == NULL) continue;
        if (p->code[i]) address = PE_TEXT_ADDRESS + 16;
        if (p->forwarder && i == 1) address = PE_RDATA_ADDRESS + PE_STRINGS;
        put32(b, PE_RDATA + PE_FUNCTIONS + 4 * count, address);
        put32(b, PE_RDATA + PE_NAME_TABLE + 4 * count, PE_RDATA_ADDRESS + string - PE_RDATA);
        put16(b, PE_RDATA + PE_ORDINALS + 2 * count, count);
        string = put_text(b, string, p->names[i]);
        count++;
    }
    put32(b, PE_RDATA + PE_EXPORTS + 20, count);
    put32(b, PE_RDATA + PE_EXPORTS + 24, count);
    put32(b, PE_RDATA + PE_EXPORTS + 28, PE_RDATA_ADDRESS + PE_FUNCTIONS);
    put32(b, PE_RDATA + PE_EXPORTS + 32, PE_RDATA_ADDRESS + PE_NAME_TABLE);
    put32(b, PE_RDATA + PE_EXPORTS + 36, PE_RDATA_ADDRESS + PE_ORDINALS);
    if (p->needed != NULL) {
        put32(b, PE_RDATA + PE_IMPORTS + 12, PE_RDATA_ADDRESS + PE_IMPORT_NAME);
        put_text(b, PE_RDATA + PE_IMPORT_NAME, p->needed);
    }
    put_descriptors(b, PE_RDATA + PE_DESCRIPTORS, p);
    put64(b, PE_TEXT + PE_TEXT_BYTES - 8, 0);
}

/* ---- Mach-O --------------------------------------------------------------------------------- */

enum {
    MACHO_X86_64 = 0x01000007,
    MACHO_AARCH64 = 0x0100000c,
    MACHO_DYLIB = 6,
    MACHO_BASE = 0x4000, /* address of the header: dylibs begin at 0, bundles need not */
    MACHO_COMMANDS = 32,
    MACHO_DATA = 0x600,
    MACHO_DATA_ADDRESS = MACHO_BASE + 0x1600,
    MACHO_DATA_BYTES = 0x200,
    MACHO_LINK = 0x800,
    MACHO_LINK_BYTES = 0x400,
    MACHO_SYMBOLS = 0x800,
    MACHO_STRINGS = 0x900,
    MACHO_STRING_BYTES = 0x100,
    MACHO_TRIE = 0xa00,
    MACHO_CODE = 0x500
};

static inline uint64_t macho_segment(built *b, uint64_t at, const char *segment,
                                     const char *section, uint32_t flags, uint64_t address,
                                     uint64_t offset, uint64_t bytes)
{
    uint32_t sections = section != NULL ? 1 : 0;
    put32(b, at, 0x19);
    put32(b, at + 4, 72 + 80 * sections);
    put_bytes(b, at + 8, segment, strlen(segment));
    put64(b, at + 24, address);
    put64(b, at + 32, bytes);
    put64(b, at + 40, offset);
    put64(b, at + 48, bytes);
    put32(b, at + 64, sections);
    if (section != NULL) {
        put_bytes(b, at + 72, section, strlen(section));
        put_bytes(b, at + 88, segment, strlen(segment));
        /* code is the end of its segment, data all of it */
        put64(b, at + 104, flags != 0 ? address + MACHO_CODE : address);
        put64(b, at + 112, flags != 0 ? 0x100 : bytes);
        put32(b, at + 136, flags);
    }
    return at + 72 + 80 * sections;
}

static inline uint64_t put_leb(built *b, uint64_t at, uint64_t value)
{
    do {
        put_number(b, at++, (value & 0x7f) | (value > 0x7f ? 0x80 : 0), 1);
        value >>= 7;
    } while (value != 0);
    return at;
}

/* A trie of one root and one leaf a name; leaves have a fixed size of 16 bytes. */
static inline uint64_t macho_trie(built *b, const plan *p)
{
    uint64_t at = MACHO_TRIE, leaf, count = 0, i;
    for (i = 0; i < 4; i++) count += p->names[i] != NULL;
    at = put_leb(b, at, 0);
    put_number(b, at++, count, 1);
    leaf = 0xc0;
    for (i = 0; i < 4; i++) {
        uint64_t to = MACHO_TRIE + leaf, end;
        uint64_t address = p->code[i] ? MACHO_CODE + 16
                                      : MACHO_DATA_ADDRESS - MACHO_BASE + (i == 0 ? 0 : 256);
        if (p->names[i] == NULL) continue;
        put_bytes(b, at, "_", 1);
        at = put_text(b, at + 1, p->names[i]);
        at = put_leb(b, at, leaf);
        end = put_leb(b, to + 1, 0);
        end = put_leb(b, end, address);
        put_number(b, to, end - to - 1, 1);
        put_number(b, end, 0, 1);
        leaf += 16;
    }
    return leaf;
}

static inline void build_macho(built *b, const plan *p)
{
    uint64_t at = MACHO_COMMANDS, commands = 0, count = 0, string = 1, i, trie;
    memset(b, 0, sizeof *b);
    put32(b, 0, 0xfeedfacf);
    put32(b, 4, p->machine);
    put32(b, 12, p->kind);
    at = macho_segment(b, at, "__TEXT", "__text", 0x80000400u, MACHO_BASE, 0, MACHO_DATA);
    at = macho_segment(b, at, "__DATA_CONST", "__const", 0, MACHO_DATA_ADDRESS, MACHO_DATA,
                       MACHO_DATA_BYTES);
    at = macho_segment(b, at, "__LINKEDIT", NULL, 0, MACHO_BASE + 0x4000, MACHO_LINK,
                       MACHO_LINK_BYTES);
    commands = 3;
    for (i = 0; i < 4; i++) {
        uint64_t entry = MACHO_SYMBOLS + 16 * count;
        if (p->names[i] == NULL) continue;
        put32(b, entry, string);
        put_number(b, entry + 4, 0x0f, 1);
        put_number(b, entry + 5, p->code[i] ? 1 : 2, 1);
        put64(b, entry + 8,
              p->code[i] ? MACHO_BASE + MACHO_CODE + 16 : MACHO_DATA_ADDRESS + (i == 0 ? 0 : 256));
        put_bytes(b, MACHO_STRINGS + string, "_", 1);
        string = put_text(b, MACHO_STRINGS + string + 1, p->names[i]) - MACHO_STRINGS;
        count++;
    }
    put32(b, at, 2);
    put32(b, at + 4, 24);
    put32(b, at + 8, MACHO_SYMBOLS);
    put32(b, at + 12, count);
    put32(b, at + 16, MACHO_STRINGS);
    put32(b, at + 20, MACHO_STRING_BYTES);
    at += 24;
    commands++;
    if (!p->old_tables) {
        trie = macho_trie(b, p);
        put32(b, at, 0x80000033u);
        put32(b, at + 4, 16);
        put32(b, at + 8, MACHO_TRIE);
        put32(b, at + 12, trie);
        at += 16;
        commands++;
    }
    if (p->needed != NULL) {
        put32(b, at, 0xc);
        put32(b, at + 4, 64);
        put32(b, at + 8, 24);
        put_text(b, at + 24, p->needed);
        put64(b, at + 56, 0);
        at += 64;
        commands++;
    }
    if (p->run_path != NULL) {
        put32(b, at, 0x8000001cu);
        put32(b, at + 4, 48);
        put32(b, at + 8, 12);
        put_text(b, at + 12, p->run_path);
        put64(b, at + 40, 0);
        at += 48;
        commands++;
    }
    put32(b, 16, commands);
    put32(b, 20, at - MACHO_COMMANDS);
    if (p->executable_stack) put32(b, 24, 0x20000);
    put_descriptors(b, MACHO_DATA, p);
    put64(b, MACHO_LINK + MACHO_LINK_BYTES - 8, 0);
}

/* Two images as one fat file: big-endian header, slices at 4096 and 8192. */
static inline void build_fat(built *b, const built *first, uint32_t first_machine,
                             const built *second, uint32_t second_machine)
{
    const built *slices[2] = {first, second};
    const uint32_t machines[2] = {first_machine, second_machine};
    unsigned i, j;
    memset(b, 0, sizeof *b);
    put_bytes(b, 0, "\xca\xfe\xba\xbe\0\0\0\2", 8);
    for (i = 0; i < 2; i++) {
        const uint32_t words[5] = {machines[i], 0, 4096 * (i + 1), (uint32_t)slices[i]->size, 12};
        for (j = 0; j < 20; j++)
            put_number(b, 8 + 20 * i + j, words[j / 4] >> (24 - 8 * (j % 4)) & 0xff, 1);
        put_bytes(b, 4096 * (i + 1), slices[i]->bytes, slices[i]->size);
    }
}

#endif
