/* ELF: what the system's loader would see, so program headers and the dynamic table only; section
 * headers are not looked at, but a file that ends before them was cut.
 * Numbers are those of the System V ABI and its GNU extensions. */
#include <loader/image.h>
#include <stdio.h>
#include <string.h>

enum {
    HEADER = 64,
    SEGMENT = 56,
    SYMBOL = 24,
    PT_LOAD = 1,
    PT_DYNAMIC = 2,
    PT_GNU_STACK = 0x6474e551,
    PF_X = 1,
    DT_NEEDED = 1,
    DT_HASH = 4,
    DT_STRTAB = 5,
    DT_SYMTAB = 6,
    DT_STRSZ = 10,
    DT_SYMENT = 11,
    DT_RPATH = 15,
    DT_TEXTREL = 22,
    DT_RUNPATH = 29,
    DT_FLAGS = 30,
    DT_GNU_HASH = 0x6ffffef5,
    DT_FLAGS_1 = 0x6ffffffb,
    DF_TEXTREL = 4,
    DF_STATIC_TLS = 0x10,
    DF_1_PIE = 0x08000000,
    STT_NOTYPE = 0,
    STT_OBJECT = 1,
    STT_TLS = 6
};

typedef struct segment {
    uint64_t offset, address, in_file, in_memory;
    uint32_t flags;
} segment;

typedef struct elf {
    image_bytes file;
    image *out;
    uint64_t table; /* program headers: offset and count */
    unsigned count;
    uint64_t dynamic, dynamic_count; /* offset and entries */
    uint64_t strings, strings_bytes; /* offset and bytes */
} elf;

static bool malformed(elf *self, const char *what)
{
    image_fail(self->out, TENON_REASON_MALFORMED_IMAGE, what, NULL);
    return false;
}

static const char *machine_name(uint16_t machine, bool wide, bool big)
{
    switch (machine) {
    case 3: return "i386";
    case 8: return wide ? "mips64" : "mips";
    case 20: return "ppc";
    case 21: return big ? "ppc64" : "ppc64le";
    case 22: return wide ? "s390x" : "s390";
    case 40: return "arm";
    case 43: return "sparc64";
    case 62: return wide ? "x86-64" : "x32";
    case 183: return wide ? (big ? "aarch64-be" : "aarch64") : "aarch64-ilp32";
    case 243: return wide ? "riscv64" : "riscv32";
    case 258: return wide ? "loongarch64" : "loongarch32";
    default: return "unknown";
    }
}

static segment segment_at(const elf *self, unsigned index)
{
    uint64_t at = self->table + (uint64_t)index * SEGMENT;
    return (segment){image_u64(&self->file, at + 8), image_u64(&self->file, at + 16),
                     image_u64(&self->file, at + 32), image_u64(&self->file, at + 40),
                     image_u32(&self->file, at + 4)};
}

static uint32_t segment_type(const elf *self, unsigned index)
{
    return image_u32(&self->file, self->table + (uint64_t)index * SEGMENT);
}

/* The place of an address in the file. false when no segment has it. */
static bool place_of(const elf *self, uint64_t address, image_place *place, bool *code)
{
    unsigned i;
    for (i = 0; i < self->count; i++) {
        segment s;
        uint64_t into;
        if (segment_type(self, i) != PT_LOAD) continue;
        s = segment_at(self, i);
        if (address < s.address || address - s.address >= s.in_memory) continue;
        into = address - s.address;
        place->offset = s.offset + (into < s.in_file ? into : s.in_file);
        place->count = into < s.in_file ? s.in_file - into : 0;
        place->room = s.in_memory - into;
        if (code != NULL) *code = (s.flags & PF_X) != 0;
        return true;
    }
    return false;
}

/* Header and machine. false: nothing more can be read. */
static bool read_header(elf *self, const char *machine)
{
    const image_bytes *file = &self->file;
    bool wide, big;
    uint16_t number;
    if (file->size < 20) {
        image_fail_truncated(self->out, file->size, HEADER);
        return false;
    }
    wide = file->at[4] == 2;
    big = file->at[5] == 2;
    number = image_u16(file, 18);
    if (big) number = (uint16_t)(number << 8 | number >> 8);
    self->out->facts.machine = machine_name(number, wide, big);
    if (strcmp(self->out->facts.machine, machine) != 0) {
        char have[40];
        snprintf(have, sizeof have, "%s", self->out->facts.machine);
        if (strcmp(have, "unknown") == 0) snprintf(have, sizeof have, "machine %u", number);
        image_fail(self->out, TENON_REASON_WRONG_ARCH, have, machine);
    }
    if (!wide || big) {
        image_fail(self->out, TENON_REASON_WRONG_ARCH, big ? "big-endian" : "32-bit", machine);
        return false;
    }
    if (file->at[5] != 1 || file->at[6] != 1) return malformed(self, "unknown ELF version");
    if (file->size < HEADER) {
        image_fail_truncated(self->out, file->size, HEADER);
        return false;
    }
    if (image_u16(file, 16) != 3) {
        static const char *const kinds[] = {"no type", "object file", "executable", "",
                                            "core file"};
        uint16_t kind = image_u16(file, 16);
        image_fail(self->out, TENON_REASON_NOT_SHARED_OBJECT, kind < 5 ? kinds[kind] : "no type",
                   "shared object");
        return false;
    }
    return true;
}

/* Program headers, and that everything they promise is in the file. */
static bool read_segments(elf *self)
{
    const image_bytes *file = &self->file;
    uint64_t sections = image_u64(file, 40), last_end = 0;
    uint64_t sections_bytes = (uint64_t)image_u16(file, 58) * image_u16(file, 60);
    bool stack = false;
    unsigned i;
    self->table = image_u64(file, 32);
    self->count = image_u16(file, 56);
    if (self->count == 0 || self->count == 0xffff || image_u16(file, 54) != SEGMENT)
        return malformed(self, "program headers");
    if (!image_inside(file, self->table, (uint64_t)self->count * SEGMENT)) {
        image_fail_truncated(self->out, file->size, self->table + (uint64_t)self->count * SEGMENT);
        return false;
    }
    for (i = 0; i < self->count; i++) {
        uint32_t type = segment_type(self, i);
        segment s = segment_at(self, i);
        uint64_t align = image_u64(file, self->table + (uint64_t)i * SEGMENT + 48);
        if (type == PT_GNU_STACK) {
            stack = true;
            if ((s.flags & PF_X) != 0) self->out->facts.executable_stack = true;
        }
        if (type == PT_DYNAMIC && self->dynamic_count == 0) {
            self->dynamic = s.address;
            self->dynamic_count = s.in_file / 16;
        }
        if (type != PT_LOAD) continue;
        if (s.in_file > s.in_memory || s.address > UINT64_MAX - s.in_memory ||
            s.offset > UINT64_MAX - s.in_file)
            return malformed(self, "segment size");
        if (s.address < last_end) return malformed(self, "segments out of order");
        if (align > 1 &&
            ((align & (align - 1)) != 0 || ((s.address - s.offset) & (align - 1)) != 0))
            return malformed(self, "segment alignment");
        last_end = s.address + s.in_memory;
        if (!image_inside(file, s.offset, s.in_file)) {
            image_fail_truncated(self->out, file->size, s.offset + s.in_file);
            return false;
        }
    }
    /* Without the mark the system makes the stack executable. */
    if (!stack) self->out->facts.executable_stack = true;
    if (sections != 0 && !image_inside(file, sections, sections_bytes)) {
        image_fail_truncated(self->out, file->size,
                             sections > UINT64_MAX - sections_bytes ? UINT64_MAX
                                                                    : sections + sections_bytes);
        return false;
    }
    return true;
}

/* The string at an offset of the string table; the table is known to end with a NUL. */
static const char *string_at(const elf *self, uint64_t offset, uint64_t most, uint64_t *length)
{
    const char *text;
    const void *end;
    uint64_t room;
    if (offset >= self->strings_bytes) return NULL;
    text = (const char *)self->file.at + self->strings + offset;
    room = self->strings_bytes - offset;
    if (room > most) room = most;
    end = memchr(text, 0, (size_t)room);
    *length = end != NULL ? (uint64_t)((const char *)end - text) : room;
    return text;
}

/* How many entries the symbol table has, from the hash table that names are looked up in. */
static bool count_symbols(elf *self, uint64_t gnu, uint64_t plain, uint64_t *first, uint64_t *count)
{
    const image_bytes *file = &self->file;
    image_place place;
    uint64_t buckets, chains, last = 0, i, taken;
    *first = 0;
    *count = 0;
    if (gnu == 0 && plain == 0) return true; /* nothing can be found by name */
    if (!place_of(self, gnu != 0 ? gnu : plain, &place, NULL) || place.count < 8)
        return malformed(self, "hash table outside the file");
    if (gnu == 0) {
        uint64_t wanted = image_u32(file, place.offset);
        *count = image_u32(file, place.offset + 4);
        if ((place.count - 8) / 4 < wanted + *count) return malformed(self, "hash table size");
        return true;
    }
    if (place.count < 16) return malformed(self, "hash table size");
    buckets = image_u32(file, place.offset);
    *first = image_u32(file, place.offset + 4);
    taken = 16 + 8 * (uint64_t)image_u32(file, place.offset + 8) + 4 * buckets;
    if (taken > place.count) return malformed(self, "hash table size");
    chains = place.offset + taken;
    for (i = 0; i < buckets; i++) {
        uint64_t start = image_u32(file, chains - 4 * (buckets - i));
        if (start > last) last = start;
    }
    *count = *first;
    if (last == 0) return true;
    if (last < *first) return malformed(self, "hash bucket");
    for (i = last - *first;; i++) {
        if (i >= (place.count - taken) / 4) return malformed(self, "hash chain without end");
        if ((image_u32(file, chains + 4 * i) & 1) != 0) break;
    }
    *count = *first + i + 1;
    return true;
}

/* One entry of the symbol table. false: malformed, or no memory and *memory is false. */
static bool read_symbol(elf *self, uint64_t at, bool *memory)
{
    const image_bytes *file = &self->file;
    uint8_t info = file->at[at + 4], visibility = file->at[at + 5] & 3;
    uint16_t section = image_u16(file, at + 6);
    unsigned binding = info >> 4, type = info & 15, row;
    uint64_t length = 0;
    const char *name;
    image_place place;
    bool code = false;
    /* Defined, global, weak or unique, and visible from outside. */
    if (section == 0 || (binding != 1 && binding != 2 && binding != 10)) return true;
    if (visibility == 1 || visibility == 2) return true;
    name = string_at(self, image_u32(file, at), image_name_limit(self->out), &length);
    if (name == NULL) return malformed(self, "symbol name outside the string table");
    if (length == 0) return true;
    if (!image_export(self->out, name, length)) {
        *memory = false;
        return false;
    }
    row = image_row(name, length);
    if (row == SYMBOL_COUNT || self->out->facts.symbols[row].present) return true;
    if ((type != STT_OBJECT && type != STT_NOTYPE) || section == 0xfff1 ||
        !place_of(self, image_u64(file, at + 8), &place, &code) || (type == STT_NOTYPE && code)) {
        image_symbol(self->out, self->file, row, NULL);
        return true;
    }
    if (image_u64(file, at + 16) != 0 && image_u64(file, at + 16) < place.room)
        place.room = image_u64(file, at + 16);
    image_symbol(self->out, self->file, row, &place);
    return true;
}

static bool read_symbols(elf *self, uint64_t table, uint64_t gnu, uint64_t plain, bool *memory)
{
    image_place place;
    uint64_t first, count, i;
    if (!count_symbols(self, gnu, plain, &first, &count)) return false;
    if (count == first) return true;
    if (!place_of(self, table, &place, NULL) || place.count / SYMBOL < count)
        return malformed(self, "symbol table outside the file");
    for (i = first; i < count; i++)
        if (!read_symbol(self, place.offset + i * SYMBOL, memory)) return false;
    return true;
}

/* Splits a run path at its colons. */
static bool add_search(elf *self, const char *text, uint64_t length)
{
    uint64_t start = 0, i;
    for (i = 0; i <= length; i++) {
        if (i < length && text[i] != ':') continue;
        if (i > start && self->out->search.count < 64 &&
            !names_add(&self->out->search, text + start, i - start))
            return false;
        start = i + 1;
    }
    return true;
}

static bool read_dynamic(elf *self, bool *memory)
{
    const image_bytes *file = &self->file;
    uint64_t i, count, table = 0, gnu = 0, plain = 0, strings = 0, flags = 0, flags_1 = 0;
    uint64_t length, entry = SYMBOL;
    bool run_path = false;
    image_place place;
    if (self->dynamic_count == 0) return malformed(self, "no dynamic table");
    if (!place_of(self, self->dynamic, &place, NULL) || place.count / 16 < self->dynamic_count)
        return malformed(self, "dynamic table outside the file");
    self->dynamic = place.offset;
    for (i = 0; i < self->dynamic_count; i++) {
        uint64_t tag = image_u64(file, self->dynamic + 16 * i);
        uint64_t value = image_u64(file, self->dynamic + 16 * i + 8);
        if (tag == 0) break;
        switch (tag) {
        case DT_HASH: plain = value; break;
        case DT_GNU_HASH: gnu = value; break;
        case DT_SYMTAB: table = value; break;
        case DT_SYMENT: entry = value; break;
        case DT_STRTAB: strings = value; break;
        case DT_STRSZ: self->strings_bytes = value; break;
        case DT_TEXTREL: self->out->facts.text_relocations = true; break;
        case DT_FLAGS: flags = value; break;
        case DT_FLAGS_1: flags_1 = value; break;
        case DT_RUNPATH: run_path = true; break;
        default: break;
        }
    }
    count = i;
    if (count == self->dynamic_count) return malformed(self, "dynamic table without end");
    if ((flags_1 & DF_1_PIE) != 0) {
        image_fail(self->out, TENON_REASON_NOT_SHARED_OBJECT, "executable", "shared object");
        return false;
    }
    if ((flags & DF_TEXTREL) != 0) self->out->facts.text_relocations = true;
    if ((flags & DF_STATIC_TLS) != 0) self->out->facts.static_tls = true;
    if (entry != SYMBOL) return malformed(self, "symbol size");
    if (!place_of(self, strings, &place, NULL) || self->strings_bytes == 0 ||
        place.count < self->strings_bytes || file->at[place.offset + self->strings_bytes - 1] != 0)
        return malformed(self, "string table");
    self->strings = place.offset;
    for (i = 0; i < count; i++) {
        uint64_t tag = image_u64(file, self->dynamic + 16 * i);
        const char *text;
        if (tag != DT_NEEDED && tag != DT_RUNPATH && tag != DT_RPATH) continue;
        text = string_at(self, image_u64(file, self->dynamic + 16 * i + 8), IMAGE_MAX_NAME,
                         &length);
        if (text == NULL) return malformed(self, "library name outside the string table");
        /* An old run path counts only where there is no new one. */
        if (tag == DT_NEEDED)
            *memory = image_library(self->out, text, length);
        else if (tag == DT_RUNPATH || !run_path)
            *memory = add_search(self, text, length);
        if (!*memory) return false;
    }
    return read_symbols(self, table, gnu, plain, memory);
}

bool image_read_elf(image_bytes file, const char *machine, image *out)
{
    elf self = {file, out, 0, 0, 0, 0, 0, 0};
    bool memory = true;
    if (read_header(&self, machine) && read_segments(&self)) read_dynamic(&self, &memory);
    return memory;
}
