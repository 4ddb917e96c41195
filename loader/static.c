#include <loader/static.h>
#include <loader/platform.h>
#include <loader/sha256.h>
#include <loader/trust.h>
#include <loader/verdict.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool static_id_is_good(const char *id)
{
    const char *at;
    if (!(id[0] >= 'a' && id[0] <= 'z')) return false;
    for (at = id; *at != '\0'; at++)
        if (!(*at >= 'a' && *at <= 'z') && !(*at >= '0' && *at <= '9') && *at != '_') return false;
    return strcmp(id, "reference") != 0; /* the built-in last link */
}

static bool version_is_good(const char *version)
{
    for (; *version != '\0'; version++)
        if (*version < 0x20 || *version > 0x7e) return false;
    return true;
}

/* An export of the same family and another version: "qmatmul_v0" for "qmatmul_v1". NULL: none. */
static const char *relative_of(const image *self, const char *name)
{
    const char *mark = strrchr(name, 'v');
    size_t stem = mark != NULL ? (size_t)(mark - name) + 1 : 0;
    uint64_t i;
    for (i = 0; i < self->facts.export_count && stem != 0; i++) {
        const char *other = self->facts.exports[i];
        size_t length = strlen(other);
        if (length > stem && length < 64 && strncmp(other, name, stem) == 0 &&
            strspn(other + stem, "0123456789") == length - stem)
            return other;
    }
    return NULL;
}

/* A missing name is told with what is there in its place, when anything is. */
static void judge_names(const image *self, loader_fault *fault)
{
    const char *first = NULL;
    unsigned row;
    for (row = 0; row < SYMBOL_COUNT; row++) {
        symbol_row symbol = symbol_at(row);
        const char *other;
        if (!symbol.mandatory || self->facts.symbols[row].present) continue;
        other = relative_of(self, symbol.name);
        if (other != NULL)
            fault_note(fault, TENON_REASON_MISSING_SYMBOL, symbol.name, other, symbol.name, NULL);
        if (first == NULL) first = symbol.name;
    }
    if (first != NULL) fault_note(fault, TENON_REASON_MISSING_SYMBOL, first, NULL, first, NULL);
}

static void judge_descriptors(const image *self, loader_fault *fault)
{
    unsigned row;
    for (row = 0; row < SYMBOL_COUNT; row++) {
        symbol_row symbol = symbol_at(row);
        const loader_symbol_facts *facts = &self->facts.symbols[row];
        if (!facts->present) continue;
        if (!facts->is_data) {
            fault_note(fault, TENON_REASON_NOT_DATA, symbol.name, "function or other", "data",
                       NULL);
            continue;
        }
        if (facts->abi_version != TENON_ABI_VERSION)
            fault_note_amounts(fault,
                               facts->abi_version < TENON_ABI_VERSION ? TENON_REASON_OLD_ABI
                                                                      : TENON_REASON_NEW_ABI,
                               symbol.name, facts->abi_version, TENON_ABI_VERSION, "");
        if (facts->struct_size < symbol.minimum)
            fault_note_amounts(fault, TENON_REASON_SHORT_DESCRIPTOR, symbol.name,
                               facts->struct_size, symbol.minimum, "");
        /* A size larger than the object itself would make us read what is not its own. */
        if (facts->struct_size > self->room[row])
            fault_note_amounts(fault, TENON_REASON_SHORT_DESCRIPTOR, symbol.name, self->room[row],
                               facts->struct_size, "");
    }
}

static void judge_provider(const image *self, loader_fault *fault)
{
    const char *name = symbol_at(SYMBOL_provider_v1).name;
    char have[32];
    if (self->facts.needs != 0) {
        snprintf(have, sizeof have, "0x%llx", (unsigned long long)self->facts.needs);
        fault_note(fault, TENON_REASON_UNKNOWN_NEED, name, have, "0x0", NULL);
    }
    if (!self->id_ended || !static_id_is_good(self->facts.id))
        fault_note(fault, TENON_REASON_BAD_ID, name, self->facts.id, "[a-z][a-z0-9_]*", NULL);
    if (!self->version_ended || !version_is_good(self->facts.version))
        fault_note(fault, TENON_REASON_BAD_ID, name, self->facts.version, "a printable version",
                   NULL);
}

static void judge_properties(const image *self, loader_fault *fault)
{
    if (self->facts.text_relocations)
        fault_note(fault, TENON_REASON_TEXT_RELOCATIONS, NULL, NULL, NULL, NULL);
    if (self->facts.executable_stack)
        fault_note(fault, TENON_REASON_EXECUTABLE_STACK, NULL, NULL, NULL, NULL);
    if (self->facts.static_tls) fault_note(fault, TENON_REASON_STATIC_TLS, NULL, NULL, NULL, NULL);
}

static void judge_libraries(const image *self, const char *path, loader_fault *fault)
{
    uint64_t i;
    for (i = 0; i < self->facts.library_count && fault->reason == TENON_REASON_NONE; i++) {
        const char *library = self->facts.libraries[i];
        if (platform_dependency(library, path, (const char *const *)self->search.items,
                                self->search.count) == PLATFORM_DEPENDENCY_MISSING)
            fault_note(fault, TENON_REASON_MISSING_DEPENDENCY, library, NULL, library, NULL);
    }
}

int32_t static_judge_bytes(const uint8_t *bytes, uint64_t size, const char *container,
                           const char *machine, const char *path, image *out, loader_fault *fault)
{
    int32_t status = image_read(bytes, size, container, machine, out);
    if (status != TENON_OK) return status;
    *fault = out->fault;
    if (fault->reason != TENON_REASON_NONE) return TENON_OK;
    judge_names(out, fault);
    if (fault->reason != TENON_REASON_NONE) return TENON_OK;
    judge_descriptors(out, fault);
    if (fault->reason != TENON_REASON_NONE) return TENON_OK;
    judge_provider(out, fault);
    judge_properties(out, fault);
    if (path != NULL) judge_libraries(out, path, fault);
    return TENON_OK;
}

/* The stage open: an open regular file that nobody else could have written. A file that is not
 * trusted is still read, for what it says of itself. false: nothing can be read, *file is closed.
 * *memory false: no memory. */
static bool open_file(const char *path, platform_file *file, loader_verdict *verdict, bool *memory)
{
    static const char *const kinds[] = {"", "", "directory", "FIFO, socket or device"};
    char text[PLATFORM_TEXT_BYTES], have[96];
    platform_access access;
    trust_fault fault = {0};
    uint32_t reason = platform_file_open(path, file, text);
    if (reason == TENON_REASON_NONE)
        reason = platform_file_facts(*file, &verdict->identity, &access, text);
    if (reason != TENON_REASON_NONE) {
        *memory = verdict_refuse(verdict, reason, NULL, NULL, NULL, text);
        goto close;
    }
    if (access.kind != PLATFORM_REGULAR) {
        *memory = verdict_refuse(verdict, TENON_REASON_NOT_REGULAR, NULL, kinds[access.kind & 3],
                                 "regular file", NULL);
        goto close;
    }
    *memory = trust_judge(path, &access, &fault) == TENON_OK;
    if (*memory && fault.reason != TENON_REASON_NONE) {
        bool owner = fault.reason == TENON_REASON_UNTRUSTED_OWNER;
        snprintf(have, sizeof have, "%s", owner ? fault.access.owner : fault.access.mode);
        *memory = verdict_refuse(verdict, fault.reason, NULL, have,
                                 owner ? "root or self" : "writable by its owner alone",
                                 fault.path);
    }
    trust_fault_clear(&fault);
    if (!*memory) goto close;
    if (verdict->identity.size > STATIC_MAX_BYTES) {
        char need[32];
        snprintf(have, sizeof have, "%llu bytes", (unsigned long long)verdict->identity.size);
        snprintf(need, sizeof need, "%llu bytes", (unsigned long long)STATIC_MAX_BYTES);
        if (verdict->reason == TENON_REASON_NONE)
            *memory = verdict_refuse(verdict, TENON_REASON_FILE_TOO_LARGE, NULL, have, need, NULL);
        goto close;
    }
    return true;
close:
    platform_file_close(*file);
    *file = PLATFORM_NO_FILE;
    return false;
}

/* Reads the whole file; it must not change meanwhile. false: refused, or no memory. */
static bool read_file(platform_file file, loader_verdict *verdict, uint8_t **bytes, bool *memory)
{
    char text[PLATFORM_TEXT_BYTES] = "";
    loader_identity after = verdict->identity;
    platform_access access;
    uint64_t size = verdict->identity.size;
    uint32_t reason = TENON_REASON_READ_FAILED;
    *bytes = malloc(size != 0 ? (size_t)size : 1);
    if (*bytes == NULL) {
        strcpy(text, "out of memory");
    } else {
        reason = platform_file_read(file, 0, *bytes, size, text);
        if (reason == TENON_REASON_NONE) reason = platform_file_facts(file, &after, &access, text);
        if (reason == TENON_REASON_TRUNCATED || after.size != size ||
            after.mtime_ns != verdict->identity.mtime_ns) {
            reason = TENON_REASON_READ_FAILED;
            strcpy(text, "it changed while it was read");
        }
    }
    if (reason == TENON_REASON_NONE) {
        sha256_of(*bytes, size, verdict->identity.sha256);
        return true;
    }
    free(*bytes);
    *bytes = NULL;
    if (verdict->reason == TENON_REASON_NONE)
        *memory = verdict_refuse(verdict, reason, NULL, NULL, NULL, text);
    return false;
}

/* The name to show: the file's own id when it is good, else what the file is called. */
static bool name_verdict(loader_verdict *verdict, const image *read)
{
    const loader_image_facts *facts = &read->facts;
    if (!read->id_ended || (!static_id_is_good(facts->id) && strcmp(facts->id, "reference") != 0))
        return true;
    return verdict_set(&verdict->id, facts->id) &&
           (!read->version_ended || !version_is_good(facts->version) ||
            verdict_set(&verdict->version, facts->version));
}

int32_t static_judge_file(loader_verdict *verdict, loader_image_facts *facts)
{
    const char *path = verdict->file;
    platform_file file = PLATFORM_NO_FILE;
    uint8_t *bytes = NULL;
    image read;
    loader_fault fault = {0};
    bool memory = true;
    int32_t status = TENON_NOMEM;
    memset(&read, 0, sizeof read);
    loader_image_facts_clear(&read.facts);
    verdict->verdict = TENON_CANDIDATE_LOADED;
    verdict->stage = TENON_STAGE_OPEN;
    if (!verdict_name_by_file(verdict)) goto out;
    if (open_file(path, &file, verdict, &memory) && read_file(file, verdict, &bytes, &memory)) {
        if (static_judge_bytes(bytes, verdict->identity.size, PLATFORM_CONTAINER, PLATFORM_MACHINE,
                               path, &read, &fault) != TENON_OK ||
            !name_verdict(verdict, &read))
            goto out;
        if (verdict->reason == TENON_REASON_NONE && fault.reason != TENON_REASON_NONE)
            memory = verdict_refuse(verdict, fault.reason, fault.symbol, fault.have, fault.need,
                                    fault.text);
        else if (verdict->reason == TENON_REASON_NONE)
            verdict->stage = TENON_STAGE_STATIC;
    }
    if (memory) status = TENON_OK;
out:
    *facts = read.facts;
    memset(&read.facts, 0, sizeof read.facts);
    image_clear(&read);
    platform_file_close(file);
    free(bytes);
    return status;
}

int32_t loader_judge(const char *file, loader_verdict *verdict, loader_image_facts *facts,
                     tenon_error *error)
{
    char *path = NULL;
    int32_t status;
    verdict_init(verdict);
    memset(facts, 0, sizeof *facts);
    loader_image_facts_clear(facts);
    verdict->explicit_ = true;
    if (file != NULL && file[0] != '\0') path = platform_absolute(file);
    status = verdict_set(&verdict->file, path != NULL ? path : file) ? TENON_OK : TENON_NOMEM;
    if (status == TENON_OK && path != NULL)
        status = static_judge_file(verdict, facts);
    else if (status == TENON_OK &&
             !verdict_refuse(verdict, TENON_REASON_NO_SUCH_PATH, NULL, NULL, NULL, NULL))
        status = TENON_NOMEM;
    free(path);
    if (status == TENON_OK && !verdict_render(verdict)) status = TENON_NOMEM;
    if (status != TENON_OK)
        return tenon_fail(error, status, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                          "out of memory");
    return TENON_OK;
}
