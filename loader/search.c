#include <loader/search.h>
#include <loader/cut.h>
#include <loader/trust.h>
#include <loader/verdict.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where they lie when no file tenon.layout says so, relative to the directory of the library or
 * program; of several, separated by '|', the first that exists. */
#ifndef TENON_PROVIDER_DIR_REL
#define TENON_PROVIDER_DIR_REL "tenon/providers|../lib/tenon/providers"
#endif
#ifndef TENON_PROBE_REL
#define TENON_PROBE_REL "tenon/tenon-probe|../lib/tenon/tenon-probe"
#endif
#if defined(_WIN32)
#define PROGRAM_SUFFIX ".exe"
#else
#define PROGRAM_SUFFIX ""
#endif

typedef struct search {
    const loader_options *options;
    search_list *out;
    loader_identity *seen; /* directories already searched */
    uint64_t seen_count;
} search;

/* Things said once a process; one bit each. */
enum { SAID_PROVIDERS = 1, SAID_PATH = 2, SAID_RELATIVE = 4, SAID_EMPTY = 8 };

static bool first_time(unsigned bit)
{
    static atomic_uint said;
    return (atomic_fetch_or(&said, bit) & bit) == 0;
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void
say(const search *self, uint32_t level, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    self->options->log(self->options->log_context, level, text);
}

/* directory and name with one separator between them. NULL: no memory. */
static char *join(const char *directory, const char *name)
{
    size_t first = strlen(directory), second = strlen(name);
    char *path = malloc(first + second + 2);
    if (path == NULL) return NULL;
    memcpy(path, directory, first);
    if (first == 0 || !platform_is_separator(path[first - 1])) path[first++] = '/';
    memcpy(path + first, name, second + 1);
    return path;
}

static bool add(search *self, const char *path, bool explicit_, bool directory, uint32_t reason,
                const char *text)
{
    search_list *list = self->out;
    size_t bytes = strlen(path) + 1;
    search_entry *entry;
    if (list->count == list->capacity) {
        uint64_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        search_entry *items = realloc(list->items, (size_t)capacity * sizeof *items);
        if (items == NULL) return false;
        list->items = items;
        list->capacity = capacity;
    }
    entry = &list->items[list->count];
    entry->path = malloc(bytes);
    if (entry->path == NULL) return false;
    memcpy(entry->path, path, bytes);
    entry->explicit_ = explicit_;
    entry->directory = directory;
    entry->reason = reason;
    snprintf(entry->text, sizeof entry->text, "%s", text);
    list->count++;
    return true;
}

void search_clear(search_list *list)
{
    uint64_t i;
    for (i = 0; i < list->count; i++) free(list->items[i].path);
    free(list->items);
    memset(list, 0, sizeof *list);
}

static bool has_suffix(const char *name)
{
    size_t length = strlen(name), suffix = strlen(PLATFORM_SUFFIX);
    return length > suffix && strcmp(name + length - suffix, PLATFORM_SUFFIX) == 0;
}

typedef struct matches {
    names list;
    bool memory, cut;
} matches;

static bool take_name(void *context, const char *name)
{
    matches *self = context;
    if (strncmp(name, "tenon-", 6) != 0 || !has_suffix(name)) return true;
    if (self->list.count == SEARCH_MAX_FILES) {
        self->cut = true;
        return false;
    }
    self->memory = names_add_string(&self->list, name);
    return self->memory;
}

/* Says what became of a directory that was looked at. */
static void say_searched(const search *self, uint32_t level, const char *source,
                         const char *directory, const char *outcome, const char *text)
{
    char where[512], words[PLATFORM_TEXT_BYTES];
    line_escape(directory, where, sizeof where);
    line_escape(text, words, sizeof words);
    say(self, level, "tenon: searched directory=\"%s\" source=%s outcome=%s%s%s%s", where, source,
        outcome, words[0] != '\0' ? " text=\"" : "", words, words[0] != '\0' ? "\"" : "");
}

/* Was the directory searched before? It is remembered. */
static bool seen_before(search *self, const loader_identity *identity, bool *memory)
{
    loader_identity *grown;
    uint64_t i;
    for (i = 0; i < self->seen_count; i++)
        if (self->seen[i].device == identity->device && self->seen[i].inode == identity->inode)
            return true;
    grown = realloc(self->seen, (size_t)(self->seen_count + 1) * sizeof *grown);
    *memory = grown != NULL;
    if (grown == NULL) return false;
    self->seen = grown;
    self->seen[self->seen_count++] = *identity;
    return false;
}

/* Adds the provider files of one directory, by the bytes of their names. */
static bool search_directory(search *self, const char *path, const char *source, bool explicit_)
{
    char text[PLATFORM_TEXT_BYTES], outcome[48];
    loader_identity identity = {0};
    platform_access access;
    matches found = {{NULL, 0, 0, 0}, true, false};
    uint32_t level = explicit_ ? TENON_LOG_WARNING : TENON_LOG_DEBUG;
    uint32_t reason = platform_path_facts(path, &identity, &access, text);
    bool good = true;
    uint64_t i;
    if (reason == TENON_REASON_NONE && access.kind != PLATFORM_DIRECTORY)
        reason = TENON_REASON_NO_SUCH_PATH;
    if (reason == TENON_REASON_NONE && seen_before(self, &identity, &good)) {
        say_searched(self, TENON_LOG_DEBUG, source, path, "searched-before", "");
        return true;
    }
    if (!good) return false;
    if (reason == TENON_REASON_NONE) reason = platform_list(path, take_name, &found, text);
    good = found.memory;
    if (good && reason != TENON_REASON_NONE) {
        say_searched(self, level, source, path, tenon_reason_text(reason), text);
        good = add(self, path, explicit_, true, reason, text);
    } else if (good) {
        names_sort(&found.list);
        for (i = 0; i < found.list.count && good; i++) {
            char *file = join(path, found.list.items[i]);
            good = file != NULL && add(self, file, false, false, TENON_REASON_NONE, "");
            free(file);
        }
        snprintf(outcome, sizeof outcome, "%llu-found", (unsigned long long)found.list.count);
        say_searched(self, found.cut ? TENON_LOG_WARNING : TENON_LOG_DEBUG, source, path, outcome,
                     found.cut ? "more files were not looked at" : "");
    }
    names_clear(&found.list);
    return good;
}

/* A path that the user named: a file, a directory, or what is neither. */
static bool search_named(search *self, const char *path, const char *source)
{
    char text[PLATFORM_TEXT_BYTES];
    platform_access access;
    uint32_t reason = platform_path_facts(path, NULL, &access, text);
    if (reason == TENON_REASON_NONE && access.kind == PLATFORM_MISSING && has_suffix(path))
        return add(self, path, true, false, TENON_REASON_NO_SUCH_PATH, "");
    if (reason == TENON_REASON_NONE &&
        (access.kind == PLATFORM_DIRECTORY || access.kind == PLATFORM_MISSING))
        return search_directory(self, path, source, true);
    return add(self, path, true, false, TENON_REASON_NONE, "");
}

static bool search_options(search *self)
{
    uint64_t i;
    bool good = true;
    for (i = 0; i < self->options->path_count && good; i++) {
        const char *path = self->options->paths[i];
        char *absolute;
        if (path == NULL || path[0] == '\0') { /* never the current directory by accident */
            say_searched(self, TENON_LOG_WARNING, "named", "", "no-such-path", "empty path");
            good = add(self, "", true, true, TENON_REASON_NO_SUCH_PATH, "empty path");
            continue;
        }
        absolute = platform_absolute(path);
        if (absolute == NULL)
            good = add(self, path, true, false, TENON_REASON_RELATIVE_PATH,
                       "the working directory is unknown");
        else
            good = search_named(self, absolute, "named");
        free(absolute);
    }
    return good;
}

/* One entry of a list in the environment. */
static bool search_listed(search *self, const char *variable, const char *path, bool files)
{
    if (!platform_is_absolute(path)) {
        char escaped[256];
        line_escape(path, escaped, sizeof escaped);
        if (first_time(SAID_RELATIVE))
            say(self, TENON_LOG_WARNING,
                "tenon: ignored variable=%s value=\"%s\" hint=\"only absolute paths count\"",
                variable, escaped);
        /* Not looked at, like a directory that is not there: said above, once a process. */
        return add(self, path, true, true, TENON_REASON_RELATIVE_PATH, variable);
    }
    return files ? search_named(self, path, variable)
                 : search_directory(self, path, variable, true);
}

/* A variable with a list of paths; *set: it counts. */
static bool search_variable(search *self, const char *variable, unsigned said, bool files,
                            bool *set)
{
    bool ignored = false, good = true;
    char *value = platform_environment(variable, &ignored), *at, *next;
    *set = false;
    if (ignored && first_time(said))
        say(self, TENON_LOG_WARNING,
            "tenon: ignored variable=%s hint=\"this process has more rights than its user\"",
            variable);
    if (value == NULL) return true;
    if (value[0] == '\0') {
        if (first_time(SAID_EMPTY))
            say(self, TENON_LOG_WARNING, "tenon: ignored variable=%s hint=\"it is empty\"",
                variable);
        free(value);
        return true;
    }
    *set = true;
    for (at = value; at != NULL && good; at = next) {
        next = strchr(at, PLATFORM_LIST_SEPARATOR);
        if (next != NULL) *next++ = '\0';
        if (at[0] != '\0') good = search_listed(self, variable, at, files);
    }
    free(value);
    return good;
}

int32_t search_run(const loader_options *options, search_list *out)
{
    search self = {options, out, NULL, 0};
    names built_in = {NULL, 0, 0, 0};
    char *user = NULL, *whole = NULL;
    bool good, replaced = false, unused;
    uint64_t i;
    memset(out, 0, sizeof *out);
    good = search_options(&self);
    if (!good || options->no_search) goto out;
    good = search_variable(&self, "TENON_PROVIDERS", SAID_PROVIDERS, true, &replaced);
    if (!good || replaced) goto out;
    good = search_variable(&self, "TENON_PROVIDER_PATH", SAID_PATH, false, &unused) &&
           search_built_in(&built_in, NULL);
    for (i = 0; i < built_in.count && good; i++)
        good = search_directory(&self, built_in.items[i], "built-in", false);
    if (!good) goto out;
    user = platform_user_directory();
    if (user != NULL) good = search_directory(&self, user, "user", false);
    if (!good) goto out;
    whole = platform_system_directory();
    if (whole != NULL) good = search_directory(&self, whole, "system", false);
out:
    free(user);
    free(whole);
    names_clear(&built_in);
    free(self.seen);
    return good ? TENON_OK : TENON_NOMEM;
}

/* base and a relative path, without links and dots where they can be resolved. */
static char *resolved(const char *base, const char *path)
{
    char *whole = platform_is_absolute(path) ? platform_absolute(path) : join(base, path);
    char *real = whole != NULL ? platform_real_path(whole) : NULL;
    if (real == NULL) return whole;
    free(whole);
    return real;
}

/* The first of the alternatives of a list that exists, or the last one. NULL: no memory. */
static char *first_existing(const char *base, const char *list, const char *suffix)
{
    char text[PLATFORM_TEXT_BYTES], one[1024], *path = NULL;
    platform_access access;
    while (*list != '\0') {
        size_t length = strcspn(list, "|");
        cut_format(one, sizeof one, "%.*s%s", (int)length, list, suffix);
        free(path);
        path = resolved(base, one);
        if (path == NULL) return NULL;
        if (platform_path_facts(path, NULL, &access, text) == TENON_REASON_NONE &&
            access.kind != PLATFORM_MISSING)
            return path;
        list += length;
        if (*list == '|') list++;
    }
    return path;
}

bool search_parse_layout(const char *text, const char *base, names *directories, char **probe)
{
    static const char providers_key[] = "providers=", probe_key[] = "probe=";
    char line[4096];
    bool good = true;
    while (*text != '\0' && good) {
        size_t length = strcspn(text, "\n");
        size_t used = length;
        while (used > 0 && (text[used - 1] == '\r' || text[used - 1] == ' ')) used--;
        if (used < sizeof line) {
            memcpy(line, text, used);
            line[used] = '\0';
            if (directories != NULL &&
                strncmp(line, providers_key, sizeof providers_key - 1) == 0) {
                char *path = resolved(base, line + sizeof providers_key - 1);
                good = path != NULL && names_add_string(directories, path);
                free(path);
            } else if (probe != NULL && strncmp(line, probe_key, sizeof probe_key - 1) == 0) {
                free(*probe);
                *probe = resolved(base, line + sizeof probe_key - 1);
                good = *probe != NULL;
            }
        }
        text += length;
        if (*text == '\n') text++;
    }
    return good;
}

/* The text of base/tenon.layout when it is there and nobody else could have written it. */
static char *read_layout(const char *base)
{
    char *path = join(base, "tenon.layout"), *out = NULL, text[PLATFORM_TEXT_BYTES];
    platform_file file = PLATFORM_NO_FILE;
    loader_identity identity = {0};
    platform_access access;
    trust_fault fault = {0};
    if (path == NULL || platform_file_open(path, &file, text) != 0 ||
        platform_file_facts(file, &identity, &access, text) != 0 ||
        access.kind != PLATFORM_REGULAR || identity.size > 65536 ||
        trust_judge(path, &access, &fault) != TENON_OK || fault.reason != TENON_REASON_NONE)
        goto out;
    out = malloc((size_t)identity.size + 1);
    if (out == NULL) goto out;
    if (platform_file_read(file, 0, (uint8_t *)out, identity.size, text) != 0) {
        free(out);
        out = NULL;
    } else {
        out[identity.size] = '\0';
    }
out:
    trust_fault_clear(&fault);
    platform_file_close(file);
    free(path);
    return out;
}

bool search_built_in(names *directories, char **probe)
{
    char *own = platform_own_path(), *layout, *end;
    uint64_t before = directories != NULL ? directories->count : 0;
    bool good = true;
    if (probe != NULL) *probe = NULL;
    if (own == NULL) return true; /* then there is nothing to be relative to */
    for (end = own + strlen(own); end > own && !platform_is_separator(end[-1]); end--) continue;
    *end = '\0';
    layout = read_layout(own);
    if (layout != NULL) good = search_parse_layout(layout, own, directories, probe);
    if (good && directories != NULL && directories->count == before) {
        char *path = first_existing(own, TENON_PROVIDER_DIR_REL, "");
        good = path != NULL && names_add_string(directories, path);
        free(path);
    }
    if (good && probe != NULL && *probe == NULL) {
        *probe = first_existing(own, TENON_PROBE_REL, PROGRAM_SUFFIX);
        good = *probe != NULL;
    }
    free(layout);
    free(own);
    return good;
}
