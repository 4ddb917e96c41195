#include <loader/image.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void image_fail(image *self, uint32_t reason, const char *have, const char *need)
{
    fault_note(&self->fault, reason, NULL, have, need, NULL);
}

void image_fail_truncated(image *self, uint64_t have, uint64_t need)
{
    fault_note_amounts(&self->fault, TENON_REASON_TRUNCATED, NULL, have, need, "bytes");
}

unsigned image_row(const char *name, uint64_t length)
{
    unsigned row;
    for (row = 0; row < SYMBOL_COUNT; row++) {
        const char *wanted = symbol_at(row).name;
        if (strlen(wanted) == length && memcmp(wanted, name, (size_t)length) == 0) break;
    }
    return row;
}

static bool exports_full(const image *self)
{
    return self->exports.count >= IMAGE_MAX_EXPORTS ||
           self->exports.bytes + IMAGE_MAX_NAME >= IMAGE_MAX_EXPORT_BYTES;
}

uint64_t image_name_limit(const image *self)
{
    return exports_full(self) ? sizeof self->facts.symbols[0].name : IMAGE_MAX_NAME;
}

bool image_export(image *self, const char *name, uint64_t length)
{
    if (exports_full(self)) return true;
    return names_add(&self->exports, name, length);
}

bool image_library(image *self, const char *name, uint64_t length)
{
    if (self->libraries.count >= IMAGE_MAX_LIBRARIES ||
        self->libraries.bytes + length >= IMAGE_MAX_LIBRARY_BYTES) {
        image_fail(self, TENON_REASON_MALFORMED_IMAGE, "too many needed libraries", NULL);
        return true;
    }
    return names_add(&self->libraries, name, length);
}

static bool copy_name(char out[32], const uint8_t *field)
{
    memcpy(out, field, 31);
    out[31] = '\0';
    return memchr(field, 0, 32) != NULL;
}

void image_symbol(image *self, image_bytes file, unsigned row, const image_place *place)
{
    loader_symbol_facts *facts = &self->facts.symbols[row];
    uint8_t head[sizeof(tenon_provider_v1)] = {0};
    const image_bytes bytes = {head, sizeof head};
    uint64_t count;
    if (facts->present) return; /* the first of several is the one that is found */
    facts->present = true;
    if (place == NULL) return;
    facts->is_data = true;
    self->room[row] = place->room;
    count = place->count < sizeof head ? place->count : sizeof head;
    if (image_inside(&file, place->offset, count)) memcpy(head, file.at + place->offset, count);
    facts->struct_size = image_u32(&bytes, offsetof(tenon_provider_v1, struct_size));
    facts->abi_version = image_u32(&bytes, offsetof(tenon_provider_v1, abi_version));
    if (row != SYMBOL_provider_v1 || facts->abi_version != TENON_ABI_VERSION) return;
    if (facts->struct_size < sizeof head || place->room < sizeof head) return;
    self->facts.needs = image_u64(&bytes, offsetof(tenon_provider_v1, needs));
    self->id_ended = copy_name(self->facts.id, head + offsetof(tenon_provider_v1, id));
    self->version_ended = copy_name(self->facts.version,
                                    head + offsetof(tenon_provider_v1, version));
}

static bool starts(const image_bytes *file, const char *magic, uint64_t length, bool *cut)
{
    uint64_t count = file->size < length ? file->size : length;
    bool same = count == 0 || memcmp(file->at, magic, (size_t)count) == 0;
    *cut = same && count < length;
    return same && count == length;
}

/* Which reader: 0 ELF, 1 PE, 2 Mach-O, -1 none; *cut: the file ends inside what may be a magic. */
static int container_of(const image_bytes *file, bool *cut)
{
    static const struct {
        const char *magic;
        uint64_t length;
        int reader;
    } table[] = {
        {"\177ELF", 4, 0},          {"MZ", 2, 1},
        {"\xcf\xfa\xed\xfe", 4, 2}, {"\xce\xfa\xed\xfe", 4, 2},
        {"\xfe\xed\xfa\xcf", 4, 2}, {"\xfe\xed\xfa\xce", 4, 2},
        {"\xca\xfe\xba\xbe", 4, 2}, {"\xca\xfe\xba\xbf", 4, 2},
    };
    unsigned i;
    bool any_cut = false;
    for (i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (starts(file, table[i].magic, table[i].length, cut)) return table[i].reader;
        any_cut = any_cut || *cut;
    }
    *cut = any_cut;
    return -1;
}

int32_t image_read(const uint8_t *bytes, uint64_t size, const char *container, const char *machine,
                   image *out)
{
    static const char *const names_of[] = {"elf", "pe", "macho"};
    bool (*const readers[])(image_bytes, const char *, image *) = {image_read_elf, image_read_pe,
                                                                   image_read_macho};
    const image_bytes file = {bytes, size};
    bool cut = false, good = true;
    unsigned row;
    int which = container_of(&file, &cut);
    memset(out, 0, sizeof *out);
    out->facts.container = "";
    out->facts.machine = "";
    out->facts.symbol_count = SYMBOL_COUNT;
    for (row = 0; row < SYMBOL_COUNT; row++)
        snprintf(out->facts.symbols[row].name, sizeof out->facts.symbols[row].name, "%s",
                 symbol_at(row).name);
    if (which < 0) {
        if (cut)
            image_fail_truncated(out, size, 64);
        else
            image_fail(out, TENON_REASON_NOT_AN_IMAGE, "no shared object", container);
        return TENON_OK;
    }
    out->facts.container = names_of[which];
    if (strcmp(names_of[which], container) != 0)
        image_fail(out, TENON_REASON_WRONG_SYSTEM, names_of[which], container);
    good = readers[which](file, machine, out);
    out->facts.exports = out->exports.items;
    out->facts.export_count = out->exports.count;
    out->facts.libraries = out->libraries.items;
    out->facts.library_count = out->libraries.count;
    memset(&out->exports, 0, sizeof out->exports);
    memset(&out->libraries, 0, sizeof out->libraries);
    return good ? TENON_OK : TENON_NOMEM;
}

void image_clear(image *self)
{
    names_clear(&self->search);
    names_clear(&self->exports);
    names_clear(&self->libraries);
    loader_image_facts_clear(&self->facts);
}

static void free_list(char **items, uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++) free(items[i]);
    free(items);
}

void loader_image_facts_clear(loader_image_facts *facts)
{
    free_list(facts->exports, facts->export_count);
    free_list(facts->libraries, facts->library_count);
    memset(facts, 0, sizeof *facts);
    facts->container = "";
    facts->machine = "";
}
