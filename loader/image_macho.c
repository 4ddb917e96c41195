/* Mach-O, thin or fat: load commands, the export trie or else the symbol table.
 * Numbers are those of Apple's <mach-o/loader.h>, <mach-o/nlist.h> and <mach-o/fat.h>. */
#include <loader/image.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER = 32,
    MH_DYLIB = 6,
    MH_BUNDLE = 8,
    MH_ALLOW_STACK_EXECUTION = 0x20000,
    LC_SYMTAB = 2,
    LC_LOAD_DYLIB = 0xc,
    LC_SEGMENT_64 = 0x19,
    LC_DYLD_INFO = 0x22,
    LC_BITS = 0x7fffffff, /* without "the system must understand this" */
    LC_RPATH = 0x1c,
    LC_REEXPORT_DYLIB = 0x1f,
    LC_LOAD_UPWARD_DYLIB = 0x23,
    LC_DYLD_EXPORTS_TRIE = 0x33,
    SEGMENT = 72,
    SECTION = 80,
    NLIST = 16,
    MAX_SLICES = 42
};

typedef struct macho {
    image_bytes file; /* the slice */
    image *out;
    uint64_t commands_end;
    uint32_t command_count;
    uint64_t base; /* address of the header once mapped */
    uint64_t trie, trie_bytes, table, table_count, strings, strings_bytes;
} macho;

static bool malformed(image *out, const char *what)
{
    image_fail(out, TENON_REASON_MALFORMED_IMAGE, what, NULL);
    return false;
}

static bool truncated(macho *self, uint64_t offset, uint64_t count)
{
    image_fail_truncated(self->out, self->file.size,
                         offset > UINT64_MAX - count ? UINT64_MAX : offset + count);
    return false;
}

static const char *machine_name(uint32_t type)
{
    switch (type) {
    case 7: return "i386";
    case 12: return "arm";
    case 18: return "ppc";
    case 0x01000007: return "x86-64";
    case 0x0100000c: return "aarch64";
    case 0x01000012: return "ppc64";
    case 0x0200000c: return "aarch64-ilp32";
    default: return "unknown";
    }
}

static uint64_t big_number(const image_bytes *file, uint64_t offset, unsigned count)
{
    uint64_t value = 0;
    unsigned i;
    if (!image_inside(file, offset, count)) return 0;
    for (i = 0; i < count; i++) value = value << 8 | file->at[offset + i];
    return value;
}

/* Replaces the file by its slice for machine. false: there is none. */
static bool pick_slice(macho *self, const char *machine)
{
    const image_bytes whole = self->file;
    bool wide = whole.at[3] == 0xbf;
    uint64_t count = big_number(&whole, 4, 4), step = wide ? 32 : 20, i;
    char have[160] = "";
    size_t used = 0;
    if (whole.size < 8) return truncated(self, 0, 8);
    if (count == 0 || count > MAX_SLICES) { /* Java classes begin with the same four bytes */
        image_fail(self->out, TENON_REASON_NOT_AN_IMAGE, "neither fat file nor image", NULL);
        return false;
    }
    if (!image_inside(&whole, 8, count * step)) return truncated(self, 8, count * step);
    for (i = 0; i < count; i++) {
        uint64_t at = 8 + i * step;
        uint64_t offset = big_number(&whole, at + 8, wide ? 8 : 4);
        uint64_t bytes = big_number(&whole, wide ? at + 16 : at + 12, wide ? 8 : 4);
        const char *name = machine_name((uint32_t)big_number(&whole, at, 4));
        if (strcmp(name, machine) == 0) {
            if (!image_inside(&whole, offset, bytes)) return truncated(self, offset, bytes);
            self->file = (image_bytes){whole.at + offset, bytes};
            return true;
        }
        if (used + strlen(name) + 2 < sizeof have)
            used += (size_t)snprintf(have + used, sizeof have - used, "%s%s", used ? "," : "",
                                     name);
        self->out->facts.machine = name;
    }
    image_fail(self->out, TENON_REASON_WRONG_ARCH, have, machine);
    return false;
}

static bool read_header(macho *self, const char *machine)
{
    const image_bytes *file = &self->file;
    uint32_t type, kind;
    uint64_t bytes;
    if (file->at[0] == 0xca && !pick_slice(self, machine)) return false;
    if (file->size < HEADER) return truncated(self, 0, HEADER);
    if (file->at[0] == 0xfe) { /* the other byte order */
        self->out->facts.machine = machine_name((uint32_t)big_number(file, 4, 4));
        image_fail(self->out, TENON_REASON_WRONG_ARCH, self->out->facts.machine, machine);
        return false;
    }
    if (memcmp(file->at + 1, "\xfa\xed\xfe", 3) != 0 ||
        (file->at[0] != 0xcf && file->at[0] != 0xce)) {
        image_fail(self->out, TENON_REASON_NOT_AN_IMAGE, "slice without image", NULL);
        return false;
    }
    type = image_u32(file, 4);
    self->out->facts.machine = machine_name(type);
    if (strcmp(self->out->facts.machine, machine) != 0) {
        char have[40];
        snprintf(have, sizeof have, "%s", self->out->facts.machine);
        if (strcmp(have, "unknown") == 0) snprintf(have, sizeof have, "machine 0x%x", type);
        image_fail(self->out, TENON_REASON_WRONG_ARCH, have, machine);
    }
    if (file->at[0] != 0xcf) {
        image_fail(self->out, TENON_REASON_WRONG_ARCH, "32-bit", machine);
        return false;
    }
    kind = image_u32(file, 12);
    if (kind != MH_DYLIB && kind != MH_BUNDLE) {
        image_fail(self->out, TENON_REASON_NOT_SHARED_OBJECT,
                   kind == 2 ? "executable" : "object file", "dylib or bundle");
        return false;
    }
    self->command_count = image_u32(file, 16);
    bytes = image_u32(file, 20);
    if ((image_u32(file, 24) & MH_ALLOW_STACK_EXECUTION) != 0)
        self->out->facts.executable_stack = true;
    if (!image_inside(file, HEADER, bytes)) return truncated(self, HEADER, bytes);
    if (self->command_count > bytes / 8) return malformed(self->out, "number of load commands");
    self->commands_end = HEADER + bytes;
    return true;
}

/* The string of a load command, whose offset in the command stands at where. */
static const char *command_string(const macho *self, uint64_t at, uint64_t where, uint64_t size,
                                  uint64_t *length)
{
    uint64_t offset = image_u32(&self->file, at + where), most;
    const char *text;
    const void *end;
    if (offset < 12 || offset >= size) return NULL;
    text = (const char *)self->file.at + at + offset;
    most = size - offset;
    end = memchr(text, 0, (size_t)most);
    *length = end != NULL ? (uint64_t)((const char *)end - text) : most;
    return text;
}

static bool read_segment(macho *self, uint64_t at, uint64_t size)
{
    const image_bytes *file = &self->file;
    uint64_t offset = image_u64(file, at + 40), bytes = image_u64(file, at + 48);
    uint64_t memory = image_u64(file, at + 32), address = image_u64(file, at + 24);
    if (size < SEGMENT || (size - SEGMENT) / SECTION < image_u32(file, at + 64))
        return malformed(self->out, "segment command size");
    if (bytes > memory || address > UINT64_MAX - memory)
        return malformed(self->out, "segment size");
    if (!image_inside(file, offset, bytes)) return truncated(self, offset, bytes);
    if (offset == 0 && bytes != 0 && self->base == UINT64_MAX) self->base = address;
    return true;
}

static bool read_commands(macho *self, bool *memory)
{
    const image_bytes *file = &self->file;
    uint64_t at = HEADER, length = 0;
    uint32_t i;
    for (i = 0; i < self->command_count; i++) {
        uint64_t size;
        const char *text;
        if (self->commands_end - at < 8) return malformed(self->out, "load commands");
        size = image_u32(file, at + 4);
        if (size < 8 || size % 8 != 0 || size > self->commands_end - at)
            return malformed(self->out, "load command size");
        switch (image_u32(file, at) & LC_BITS) {
        case LC_SEGMENT_64:
            if (!read_segment(self, at, size)) return false;
            break;
        case LC_SYMTAB:
            if (size < 24) return malformed(self->out, "symbol table command");
            self->table = image_u32(file, at + 8);
            self->table_count = image_u32(file, at + 12);
            self->strings = image_u32(file, at + 16);
            self->strings_bytes = image_u32(file, at + 20);
            break;
        case LC_DYLD_INFO:
            if (size < 48) return malformed(self->out, "dyld info command");
            self->trie = image_u32(file, at + 40);
            self->trie_bytes = image_u32(file, at + 44);
            break;
        case LC_DYLD_EXPORTS_TRIE:
            if (size < 16) return malformed(self->out, "export trie command");
            self->trie = image_u32(file, at + 8);
            self->trie_bytes = image_u32(file, at + 12);
            break;
        case LC_LOAD_DYLIB:
        case LC_REEXPORT_DYLIB:
        case LC_LOAD_UPWARD_DYLIB:
            text = command_string(self, at, 8, size, &length);
            if (text == NULL) return malformed(self->out, "library name outside its command");
            *memory = image_library(self->out, text, length);
            break;
        case LC_RPATH:
            text = command_string(self, at, 8, size, &length);
            if (text == NULL) return malformed(self->out, "run path outside its command");
            if (self->out->search.count < 64) *memory = names_add(&self->out->search, text, length);
            break;
        default: break;
        }
        if (!*memory) return false;
        at += size;
    }
    return true;
}

/* The place of an address. false when no segment has it. */
static bool place_of(const macho *self, uint64_t address, image_place *place, bool *code)
{
    const image_bytes *file = &self->file;
    uint64_t at = HEADER;
    uint32_t i, j;
    for (i = 0; i < self->command_count; i++, at += image_u32(file, at + 4)) {
        uint64_t start, into, in_file;
        if (image_u32(file, at) != LC_SEGMENT_64) continue;
        start = image_u64(file, at + 24);
        if (address < start || address - start >= image_u64(file, at + 32)) continue;
        into = address - start;
        in_file = image_u64(file, at + 48);
        place->offset = image_u64(file, at + 40) + (into < in_file ? into : in_file);
        place->count = into < in_file ? in_file - into : 0;
        place->room = image_u64(file, at + 32) - into;
        *code = false;
        for (j = 0; j < image_u32(file, at + 64); j++) {
            uint64_t section = at + SEGMENT + (uint64_t)j * SECTION;
            uint64_t low = image_u64(file, section + 32), bytes = image_u64(file, section + 40);
            if (address < low || address - low >= bytes) continue;
            *code = (image_u32(file, section + 64) & 0x80000400u) != 0; /* holds instructions */
            if (bytes - (address - low) < place->room) place->room = bytes - (address - low);
            if (place->count > place->room) place->count = place->room;
        }
        return true;
    }
    return false;
}

/* One exported symbol, its name as the file has it: with C's leading underscore. data false: it is
 * known to be no address in this file. false: no memory. */
static bool take_export(macho *self, const char *name, uint64_t length, uint64_t address, bool data)
{
    image_place place;
    bool code = false;
    unsigned row;
    if (length > 0 && name[0] == '_') {
        name++;
        length--;
    }
    if (length == 0) return true;
    if (!image_export(self->out, name, length)) return false;
    row = image_row(name, length);
    if (row == SYMBOL_COUNT || self->out->facts.symbols[row].present) return true;
    if (data && place_of(self, address, &place, &code) && !code)
        image_symbol(self->out, self->file, row, &place);
    else
        image_symbol(self->out, self->file, row, NULL);
    return true;
}

static bool read_table(macho *self, bool *memory)
{
    const image_bytes *file = &self->file;
    uint64_t i;
    if (!image_inside(file, self->table, self->table_count * NLIST))
        return truncated(self, self->table, self->table_count * NLIST);
    if (!image_inside(file, self->strings, self->strings_bytes))
        return truncated(self, self->strings, self->strings_bytes);
    for (i = 0; i < self->table_count; i++) {
        uint64_t at = self->table + i * NLIST, offset = image_u32(file, at), most;
        uint8_t type = file->at[at + 4];
        const char *name;
        const void *end;
        /* Global, defined in a section or absolute; no debugger's entry, not private. */
        if ((type & 0xf1) != 1 || ((type & 0xe) != 0xe && (type & 0xe) != 2)) continue;
        if (offset >= self->strings_bytes)
            return malformed(self->out, "symbol name outside the string table");
        name = (const char *)file->at + self->strings + offset;
        most = self->strings_bytes - offset;
        if (most > image_name_limit(self->out)) most = image_name_limit(self->out);
        end = memchr(name, 0, (size_t)most);
        if (end != NULL) most = (uint64_t)((const char *)end - name);
        if (!take_export(self, name, most, image_u64(file, at + 8), (type & 0xe) == 0xe)) {
            *memory = false;
            return false;
        }
    }
    return true;
}

/* An unsigned LEB128 number inside the trie. false: it has no end there or exceeds 64 bits. */
static bool trie_number(const image_bytes *trie, uint64_t *at, uint64_t *value)
{
    unsigned shift = 0;
    *value = 0;
    for (; *at < trie->size && shift < 64; shift += 7) {
        uint8_t byte = trie->at[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) return true;
    }
    return false;
}

/* A node whose children are being walked. */
typedef struct frame {
    uint64_t at;     /* of its next child's edge */
    unsigned left;   /* children not yet walked */
    uint64_t length; /* of the name that leads to it */
} frame;

typedef struct walk {
    image_bytes trie;
    uint8_t *seen; /* one bit for every byte of the trie: every node is entered once */
    frame *stack;
    uint64_t depth, capacity;
    char name[IMAGE_MAX_NAME];
} walk;

/* Enters the node at offset: takes its symbol if it has one, and pushes it. */
static bool enter_node(macho *self, walk *w, uint64_t offset, uint64_t length, bool *memory)
{
    uint64_t at = offset, bytes, flags, address = 0, end;
    if (offset >= w->trie.size || (w->seen[offset / 8] >> (offset % 8) & 1) != 0)
        return malformed(self->out, "export trie");
    w->seen[offset / 8] = (uint8_t)(w->seen[offset / 8] | 1u << (offset % 8));
    if (!trie_number(&w->trie, &at, &bytes) || bytes > w->trie.size - at)
        return malformed(self->out, "export trie");
    end = at + bytes;
    if (bytes != 0) {
        bool data;
        if (!trie_number(&w->trie, &at, &flags)) return malformed(self->out, "export trie");
        /* Regular symbols only: no re-export, no resolver, no thread-local or absolute one. */
        data = (flags & 0x1b) == 0;
        if (data && !trie_number(&w->trie, &at, &address))
            return malformed(self->out, "export trie");
        data = data && self->base != UINT64_MAX && address <= UINT64_MAX - self->base;
        if (!take_export(self, w->name, length, data ? self->base + address : 0, data)) {
            *memory = false;
            return false;
        }
    }
    if (end >= w->trie.size) return malformed(self->out, "export trie");
    if (w->depth == w->capacity) {
        uint64_t capacity = w->capacity == 0 ? 64 : 2 * w->capacity;
        frame *stack = realloc(w->stack, (size_t)capacity * sizeof *stack);
        if (stack == NULL) {
            *memory = false;
            return false;
        }
        w->stack = stack;
        w->capacity = capacity;
    }
    w->stack[w->depth++] = (frame){end + 1, w->trie.at[end], length};
    return true;
}

static bool walk_trie(macho *self, walk *w, bool *memory)
{
    if (!enter_node(self, w, 0, 0, memory)) return false;
    while (w->depth > 0) {
        frame *top = &w->stack[w->depth - 1];
        uint64_t at = top->at, length = top->length, child;
        if (top->left == 0) {
            w->depth--;
            continue;
        }
        for (; at < w->trie.size && w->trie.at[at] != 0; at++) {
            if (length == IMAGE_MAX_NAME) return malformed(self->out, "export name too long");
            w->name[length++] = (char)w->trie.at[at];
        }
        if (at >= w->trie.size) return malformed(self->out, "export trie");
        at++;
        if (!trie_number(&w->trie, &at, &child)) return malformed(self->out, "export trie");
        top->left--;
        top->at = at;
        if (!enter_node(self, w, child, length, memory)) return false;
    }
    return true;
}

static bool read_trie(macho *self, bool *memory)
{
    walk *w;
    bool good = false;
    if (!image_inside(&self->file, self->trie, self->trie_bytes))
        return truncated(self, self->trie, self->trie_bytes);
    w = calloc(1, sizeof *w);
    if (w != NULL) w->seen = calloc((size_t)(self->trie_bytes / 8 + 1), 1);
    if (w == NULL || w->seen == NULL) {
        *memory = false;
    } else {
        w->trie = (image_bytes){self->file.at + self->trie, self->trie_bytes};
        good = walk_trie(self, w, memory);
    }
    if (w != NULL) {
        free(w->seen);
        free(w->stack);
    }
    free(w);
    return good;
}

bool image_read_macho(image_bytes file, const char *machine, image *out)
{
    macho self = {.file = file, .out = out, .base = UINT64_MAX};
    bool memory = true;
    if (read_header(&self, machine) && read_commands(&self, &memory)) {
        if (self.trie_bytes != 0)
            read_trie(&self, &memory);
        else
            read_table(&self, &memory);
    }
    return memory;
}
