/* PE: sections and the export and import directories.
 * Numbers are those of Microsoft's PE format specification. */
#include <loader/image.h>
#include <stdio.h>
#include <string.h>

enum {
    SECTION = 40,
    OPTIONAL_HEADER = 112, /* of PE32+, without its data directories */
    EXECUTABLE_IMAGE = 2,
    DLL = 0x2000,
    IN_MEMORY_EXECUTE = 0x20000000
};

typedef struct pe {
    image_bytes file;
    image *out;
    uint64_t sections; /* offset and count of the section table */
    unsigned count;
    uint64_t directories; /* offset and count of the data directories */
    uint32_t directory_count;
} pe;

static bool malformed(pe *self, const char *what)
{
    image_fail(self->out, TENON_REASON_MALFORMED_IMAGE, what, NULL);
    return false;
}

static const char *machine_name(uint16_t machine)
{
    switch (machine) {
    case 0x14c: return "i386";
    case 0x1c0:
    case 0x1c4: return "arm";
    case 0x5064: return "riscv64";
    case 0x6264: return "loongarch64";
    case 0x8664: return "x86-64";
    case 0xaa64: return "aarch64";
    default: return "unknown";
    }
}

/* The place of a relative address. false when no section has it. */
static bool place_of(const pe *self, uint64_t address, image_place *place, bool *code)
{
    const image_bytes *file = &self->file;
    unsigned i;
    for (i = 0; i < self->count; i++) {
        uint64_t at = self->sections + (uint64_t)i * SECTION;
        uint64_t in_memory = image_u32(file, at + 8), start = image_u32(file, at + 12);
        uint64_t in_file = image_u32(file, at + 16), into;
        if (in_memory == 0) in_memory = in_file;
        if (in_file > in_memory) in_file = in_memory;
        if (address < start || address - start >= in_memory) continue;
        into = address - start;
        place->offset = image_u32(file, at + 20) + (into < in_file ? into : in_file);
        place->count = into < in_file ? in_file - into : 0;
        place->room = in_memory - into;
        if (code != NULL) *code = (image_u32(file, at + 36) & IN_MEMORY_EXECUTE) != 0;
        return true;
    }
    return false;
}

/* The string at a relative address, NULL when it is not wholly in the file or too long. */
static const char *string_at(const pe *self, uint64_t address, uint64_t *length)
{
    image_place place;
    const char *text;
    const void *end;
    if (!place_of(self, address, &place, NULL)) return NULL;
    text = (const char *)self->file.at + place.offset;
    if (place.count > IMAGE_MAX_NAME) place.count = IMAGE_MAX_NAME;
    end = place.count == 0 ? NULL : memchr(text, 0, (size_t)place.count);
    if (end == NULL) return NULL;
    *length = (uint64_t)((const char *)end - text);
    return text;
}

static bool read_header(pe *self, const char *machine)
{
    const image_bytes *file = &self->file;
    uint64_t at, symbols, optional;
    uint16_t number;
    if (file->size < 64) {
        image_fail_truncated(self->out, file->size, 64);
        return false;
    }
    at = image_u32(file, 60);
    if (!image_inside(file, at, 24)) {
        image_fail_truncated(self->out, file->size, at + 24);
        return false;
    }
    if (memcmp(file->at + at, "PE\0\0", 4) != 0) {
        image_fail(self->out, TENON_REASON_NOT_AN_IMAGE, "MZ file without PE header", NULL);
        return false;
    }
    number = image_u16(file, at + 4);
    self->out->facts.machine = machine_name(number);
    if (strcmp(self->out->facts.machine, machine) != 0) {
        char have[40];
        snprintf(have, sizeof have, "%s", self->out->facts.machine);
        if (strcmp(have, "unknown") == 0) snprintf(have, sizeof have, "machine 0x%x", number);
        image_fail(self->out, TENON_REASON_WRONG_ARCH, have, machine);
    }
    optional = image_u16(file, at + 20);
    self->count = image_u16(file, at + 6);
    self->sections = at + 24 + optional;
    if (!image_inside(file, self->sections, (uint64_t)self->count * SECTION)) {
        image_fail_truncated(self->out, file->size,
                             self->sections + (uint64_t)self->count * SECTION);
        return false;
    }
    if (optional < OPTIONAL_HEADER || image_u16(file, at + 24) != 0x20b) {
        if (optional >= 2 && image_u16(file, at + 24) == 0x10b)
            image_fail(self->out, TENON_REASON_WRONG_ARCH, "32-bit", machine);
        return malformed(self, "optional header");
    }
    if ((image_u16(file, at + 22) & (EXECUTABLE_IMAGE | DLL)) != (EXECUTABLE_IMAGE | DLL)) {
        image_fail(self->out, TENON_REASON_NOT_SHARED_OBJECT, "executable or object file", "DLL");
        return false;
    }
    self->directories = at + 24 + OPTIONAL_HEADER;
    self->directory_count = image_u32(file, at + 24 + 108);
    if (self->directory_count > (optional - OPTIONAL_HEADER) / 8)
        return malformed(self, "data directories");
    /* Debug symbols of GNU tools lie behind the sections: a file that ends inside them was cut. */
    symbols = image_u32(file, at + 12);
    if (symbols != 0 && !image_inside(file, symbols, 18ull * image_u32(file, at + 16))) {
        image_fail_truncated(self->out, file->size, symbols + 18ull * image_u32(file, at + 16));
        return false;
    }
    return true;
}

static bool read_sections(pe *self)
{
    const image_bytes *file = &self->file;
    uint64_t last_end = 0;
    unsigned i;
    /* The system refuses more than 96, and every address costs a look at each of them. */
    if (self->count == 0 || self->count > 96) return malformed(self, "number of sections");
    for (i = 0; i < self->count; i++) {
        uint64_t at = self->sections + (uint64_t)i * SECTION;
        uint64_t in_memory = image_u32(file, at + 8), start = image_u32(file, at + 12);
        uint64_t in_file = image_u32(file, at + 16), offset = image_u32(file, at + 20);
        if (in_file != 0 && !image_inside(file, offset, in_file)) {
            image_fail_truncated(self->out, file->size, offset + in_file);
            return false;
        }
        if (start < last_end) return malformed(self, "sections out of order");
        last_end = start + (in_memory != 0 ? in_memory : in_file);
    }
    return true;
}

static bool read_exports(pe *self, bool *memory)
{
    const image_bytes *file = &self->file;
    image_place place, functions = {0, 0, 0}, named = {0, 0, 0}, ordinals = {0, 0, 0};
    uint64_t start, bytes, function_count, name_count, i;
    if (self->directory_count < 1) return true;
    start = image_u32(file, self->directories);
    bytes = image_u32(file, self->directories + 4);
    if (start == 0) return true;
    if (!place_of(self, start, &place, NULL) || place.count < 40)
        return malformed(self, "export directory outside the file");
    function_count = image_u32(file, place.offset + 20);
    name_count = image_u32(file, place.offset + 24);
    if (name_count == 0) return true;
    if (name_count > 65536) return malformed(self, "number of exports");
    if (!place_of(self, image_u32(file, place.offset + 28), &functions, NULL) ||
        functions.count / 4 < function_count ||
        !place_of(self, image_u32(file, place.offset + 32), &named, NULL) ||
        named.count / 4 < name_count ||
        !place_of(self, image_u32(file, place.offset + 36), &ordinals, NULL) ||
        ordinals.count / 2 < name_count)
        return malformed(self, "export tables outside the file");
    for (i = 0; i < name_count; i++) {
        uint64_t length = 0, ordinal, address;
        const char *name = string_at(self, image_u32(file, named.offset + 4 * i), &length);
        bool code = false;
        unsigned row;
        if (name == NULL) return malformed(self, "export name outside the file");
        if (length == 0) continue;
        if (!image_export(self->out, name, length)) {
            *memory = false;
            return false;
        }
        row = image_row(name, length);
        if (row == SYMBOL_COUNT || self->out->facts.symbols[row].present) continue;
        ordinal = image_u16(file, ordinals.offset + 2 * i);
        if (ordinal >= function_count) return malformed(self, "export ordinal");
        address = image_u32(file, functions.offset + 4 * ordinal);
        /* An address inside the export directory is the name of another library's symbol. */
        if (address - start < bytes || !place_of(self, address, &place, &code) || code)
            image_symbol(self->out, self->file, row, NULL);
        else
            image_symbol(self->out, self->file, row, &place);
    }
    return true;
}

static bool read_imports(pe *self, bool *memory)
{
    const image_bytes *file = &self->file;
    image_place place;
    uint64_t start, at;
    if (self->directory_count < 2) return true;
    start = image_u32(file, self->directories + 8);
    if (start == 0) return true;
    if (!place_of(self, start, &place, NULL))
        return malformed(self, "import directory outside the file");
    for (at = 0;; at += 20) {
        uint64_t length = 0, name_at;
        const char *name;
        if (place.count < 20 || at > place.count - 20)
            return malformed(self, "import directory without end");
        name_at = image_u32(file, place.offset + at + 12);
        if (name_at == 0) return true;
        name = string_at(self, name_at, &length);
        if (name == NULL) return malformed(self, "library name outside the file");
        if (!image_library(self->out, name, length)) {
            *memory = false;
            return false;
        }
        if (self->out->fault.reason == TENON_REASON_MALFORMED_IMAGE) return false;
    }
}

bool image_read_pe(image_bytes file, const char *machine, image *out)
{
    pe self = {file, out, 0, 0, 0, 0};
    bool memory = true;
    if (read_header(&self, machine) && read_sections(&self) && read_imports(&self, &memory))
        read_exports(&self, &memory);
    return memory;
}
