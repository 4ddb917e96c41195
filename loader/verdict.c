#include <loader/verdict.h>
#include <loader/platform.h>
#include <stdlib.h>
#include <string.h>

/* What unset strings point to, so that no field is ever NULL and none of it is freed. */
static char nothing[1] = "";

/* The string fields, for doing the same to all of them. */
static void fields_of(loader_verdict *self, char **out[9])
{
    char **fields[9] = {&self->file, &self->id,   &self->version, &self->symbol, &self->have,
                        &self->need, &self->hint, &self->text,    &self->line};
    memcpy(out, fields, sizeof fields);
}

void verdict_init(loader_verdict *self)
{
    char **fields[9];
    unsigned i;
    memset(self, 0, sizeof *self);
    fields_of(self, fields);
    for (i = 0; i < 9; i++) *fields[i] = nothing;
}

static void drop(char **field)
{
    if (*field != nothing) free(*field);
    *field = nothing;
}

void loader_verdict_clear(loader_verdict *verdict)
{
    char **fields[9];
    unsigned i;
    fields_of(verdict, fields);
    for (i = 0; i < 9; i++) drop(fields[i]);
    verdict_init(verdict);
}

bool verdict_set(char **field, const char *text)
{
    char *copy = nothing;
    size_t bytes;
    if (text != NULL && text[0] != '\0') {
        bytes = strlen(text) + 1;
        copy = malloc(bytes);
        if (copy != NULL) memcpy(copy, text, bytes);
    }
    drop(field);
    if (copy == NULL) return false;
    *field = copy;
    return true;
}

/* One thing to do about it. */
static const char *hint_of(uint32_t reason)
{
    switch (reason) {
    case TENON_REASON_FILTERED: return "left out by select or disable";
    case TENON_REASON_NO_SUCH_PATH: return "check the path";
    case TENON_REASON_LOADING_NOT_BUILT: return "use a build of tenon that can load providers";
    case TENON_REASON_RELATIVE_PATH: return "give an absolute path";
    case TENON_REASON_OPEN_FAILED: return "check the permissions of the file and its directories";
    case TENON_REASON_NOT_REGULAR: return "name a file, not a directory, FIFO or device";
    case TENON_REASON_UNTRUSTED_OWNER: return "let root or the user of this process own it";
    case TENON_REASON_WRITABLE_PATH: return "take the write permission of others away";
    case TENON_REASON_FILE_TOO_LARGE: return "providers of this size are not loaded";
    case TENON_REASON_READ_FAILED: return "check the disk";
    case TENON_REASON_MISSING_SYMBOL: return "rebuild against the tenon 1.x headers";
    case TENON_REASON_TRUNCATED: return "the file is incomplete: install it again";
    case TENON_REASON_WRONG_ARCH: return "install the provider for this processor";
    case TENON_REASON_OLD_ABI: return "update the provider";
    case TENON_REASON_NEW_ABI: return "update tenon";
    case TENON_REASON_MISSING_DEPENDENCY: return "install the missing library";
    case TENON_REASON_NOT_DATA: return "export a constant descriptor, not a function";
    case TENON_REASON_TEXT_RELOCATIONS: return "compile the provider with -fPIC";
    case TENON_REASON_EXECUTABLE_STACK: return "link the provider with -z noexecstack";
    case TENON_REASON_STATIC_TLS: return "compile without -ftls-model=initial-exec";
    case TENON_REASON_SHORT_DESCRIPTOR: return "rebuild against the tenon 1.x headers (R6)";
    case TENON_REASON_NOT_AN_IMAGE: return "this is no shared library";
    case TENON_REASON_MALFORMED_IMAGE: return "the file is damaged: install it again";
    case TENON_REASON_BAD_ID: return "an id is [a-z][a-z0-9_]*, at most 31 characters";
    case TENON_REASON_UNKNOWN_NEED: return "update tenon";
    case TENON_REASON_NOT_SHARED_OBJECT: return "link the provider as a shared library";
    case TENON_REASON_WRONG_SYSTEM: return "install the provider for this system";
    case TENON_REASON_PROBE_CRASHED: return "report it to the provider's maker";
    case TENON_REASON_PROBE_TIMEOUT: return "report it to the provider's maker";
    case TENON_REASON_PROBE_FP_ENVIRONMENT: return "build without -ffast-math (R11)";
    case TENON_REASON_PROBE_SIGNALS: return "the provider may not install signal handlers (R11)";
    case TENON_REASON_PROBE_LOCALE: return "the provider may not change the locale (R11)";
    case TENON_REASON_PROBE_DIRECTORY: return "the provider may not change directory (R11)";
    case TENON_REASON_PROBE_THREADS: return "close must end what open began (R11)";
    case TENON_REASON_PROBE_DESCRIPTORS: return "close must end what open began (R11)";
    case TENON_REASON_PROBE_SELF_TEST: return "run: tenon verify FILE";
    case TENON_REASON_PROBE_HELPER: return "install the helper program tenon-probe";
    case TENON_REASON_PROBE_EXITED: return "a provider may not end the process (R11)";
    case TENON_REASON_PROBE_REFUSED: return "run: tenon verify FILE";
    case TENON_REASON_SYSTEM_LOADER: return "see the system loader's words";
    case TENON_REASON_FILE_CHANGED: return "start the program again";
    case TENON_REASON_BIND_MISSING_SYMBOL: return "rebuild against the tenon 1.x headers";
    case TENON_REASON_FOREIGN_SYMBOL: return "the provider must define the symbol itself";
    case TENON_REASON_CHECK_UNKNOWN_NEED: return "update tenon";
    case TENON_REASON_CHECK_SHORT_DESCRIPTOR: return "rebuild against the tenon 1.x headers (R6)";
    case TENON_REASON_DUPLICATE_ID: return "remove one of the two, or disable it";
    case TENON_REASON_DUPLICATE_FILE: return "it is loaded once";
    case TENON_REASON_CHECK_ABI: return "rebuild against the tenon 1.x headers";
    case TENON_REASON_CHECK_BAD_ID: return "an id is [a-z][a-z0-9_]*, at most 31 characters";
    case TENON_REASON_CHECK_NULL_FUNCTION: return "every mandatory function must be there (R8)";
    case TENON_REASON_CHECK_STRUCT_SIZE: return "state sizeof of the tenon 1.x structs (R5)";
    case TENON_REASON_PUBLISH_FAILED: return "see the system loader's words";
    default: return "";
    }
}

bool verdict_refuse(loader_verdict *self, uint32_t reason, const char *symbol, const char *have,
                    const char *need, const char *text)
{
    bool good = true;
    self->verdict = TENON_CANDIDATE_REFUSED;
    self->reason = reason;
    self->stage = reason / 100;
    if (symbol != NULL) good = verdict_set(&self->symbol, symbol) && good;
    if (have != NULL) good = verdict_set(&self->have, have) && good;
    if (need != NULL) good = verdict_set(&self->need, need) && good;
    if (text != NULL) good = verdict_set(&self->text, text) && good;
    return verdict_set(&self->hint, hint_of(reason)) && good;
}

bool verdict_render(loader_verdict *self)
{
    char *line = line_render(self);
    drop(&self->line);
    if (line == NULL) return false;
    self->line = line;
    return true;
}

bool verdict_is_information(uint32_t reason)
{
    return reason == TENON_REASON_WRONG_ARCH || reason == TENON_REASON_WRONG_SYSTEM ||
           reason == TENON_REASON_NOT_AN_IMAGE;
}

const char *verdict_file_stem(const char *file, uint64_t *length)
{
    static const char prefix[] = "tenon-";
    const size_t suffix = strlen(PLATFORM_SUFFIX);
    const char *name = file, *at;
    size_t count;
    for (at = file; *at != '\0'; at++)
        if (platform_is_separator(*at)) name = at + 1;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
    count = strlen(name);
    if (count > suffix && strcmp(name + count - suffix, PLATFORM_SUFFIX) == 0) count -= suffix;
    *length = count;
    return name;
}

bool verdict_name_by_file(loader_verdict *self)
{
    uint64_t length;
    const char *stem = verdict_file_stem(self->file, &length);
    char name[256]; /* no file system has longer names */
    if (length >= sizeof name) length = sizeof name - 1;
    memcpy(name, stem, (size_t)length);
    name[length] = '\0';
    return verdict_set(&self->id, name);
}
