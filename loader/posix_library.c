/* platform.h on Linux and its kin: loading libraries, and whether what they need is there. */
#include <loader/platform.h>
#include <loader/posix.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void *platform_library_open(const char *path, char *text)
{
    void *library;
    const char *words;
    text[0] = '\0';
    dlerror();
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    words = dlerror();
    snprintf(text, PLATFORM_TEXT_BYTES, "%s",
             words != NULL && words[0] != '\0' ? words : "dlopen failed without a word");
    return NULL;
}

bool platform_library_missing(const char *text, const char *file, char *name, size_t capacity)
{
    /* glibc: "NAME: cannot open shared object file: ..."; musl: "Error loading shared library
     * NAME: ... (needed by FILE)". The file itself in that place is no dependency. */
    static const char musl[] = "Error loading shared library ";
    const char *start = text, *end = strstr(text, ": cannot open shared object file");
    size_t length;
    if (end == NULL && strncmp(text, musl, sizeof musl - 1) == 0) {
        start = text + sizeof musl - 1;
        end = strchr(start, ':');
    }
    if (end == NULL || end == start) return false;
    length = (size_t)(end - start);
    if (length >= capacity || (strlen(file) == length && strncmp(file, start, length) == 0))
        return false;
    memcpy(name, start, length);
    name[length] = '\0';
    return true;
}

const void *platform_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

/* The base of the mapping that an address lies in, NULL: none. */
static const void *base_of(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

bool platform_library_owns(void *library, const void *address)
{
    struct link_map *map = NULL;
    const void *own;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == NULL) return false;
    own = base_of(map->l_ld); /* its dynamic table is certainly its own */
    return own != NULL && own == base_of(address);
}

bool platform_library_keep(void *library, const char *path)
{
    void *again = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    bool same = again == library;
    if (again != NULL) dlclose(again); /* the reference; the mark that it stays remains */
    return same;
}

void platform_library_close(void *library)
{
    if (library != NULL) dlclose(library);
}

static bool exists(const char *path)
{
    struct stat state;
    return stat(path, &state) == 0 && !S_ISDIR(state.st_mode);
}

static bool exists_in(const char *directory, const char *name, bool *sure)
{
    char *path = posix_join(directory, name);
    bool found = path != NULL && exists(path);
    if (path == NULL) *sure = false;
    free(path);
    /* Variants for newer processors lie in folders of their own that we do not search. */
    path = posix_join(directory, "glibc-hwcaps");
    if (path == NULL || access(path, F_OK) == 0) *sure = false;
    free(path);
    return found;
}

/* One run path, its $ORIGIN replaced by the directory of file. Other variables: not sure. */
static bool exists_in_run_path(const char *path, const char *file, const char *name, bool *sure)
{
    static const char *const spellings[] = {"$ORIGIN", "${ORIGIN}"};
    const char *dollar = strchr(path, '$'), *slash = strrchr(file, '/');
    size_t i, before, origin = slash != NULL ? (size_t)(slash - file) : 0, length;
    char *expanded;
    bool found;
    if (dollar == NULL) return exists_in(path, name, sure);
    for (i = 0; i < 2; i++)
        if (strncmp(dollar, spellings[i], strlen(spellings[i])) == 0) break;
    if (i == 2 || strchr(dollar + 1, '$') != NULL || slash == NULL) {
        *sure = false;
        return false;
    }
    before = (size_t)(dollar - path);
    dollar += strlen(spellings[i]);
    length = before + origin + strlen(dollar) + 2;
    expanded = malloc(length);
    if (expanded == NULL) {
        *sure = false;
        return false;
    }
    snprintf(expanded, length, "%.*s%.*s%s", (int)before, path, (int)origin, file, dollar);
    found = exists_in(expanded, name, sure);
    free(expanded);
    return found;
}

/* Is name in the linker's cache? It is a header, count entries of 24 bytes, and strings; offsets
 * count from the header. An older header may come first. Not sure unless it is understood. */
static bool exists_in_cache(const char *name, bool *sure)
{
    static const char magic[] = "glibc-ld.so.cache1.1", old_magic[] = "ld.so-1.7.0";
    char text[PLATFORM_TEXT_BYTES];
    platform_file file = PLATFORM_NO_FILE;
    loader_identity identity = {0};
    platform_access access;
    uint8_t *bytes = NULL;
    uint64_t start = 0, size, i, length = strlen(name);
    uint32_t count = 0, key;
    bool found = false, understood = false;
    if (platform_file_open("/etc/ld.so.cache", &file, text) != 0 ||
        platform_file_facts(file, &identity, &access, text) != 0 ||
        access.kind != PLATFORM_REGULAR || identity.size < 64 || identity.size > 64u << 20)
        goto out;
    size = identity.size;
    bytes = malloc((size_t)size);
    if (bytes == NULL || platform_file_read(file, 0, bytes, size, text) != 0) goto out;
    if (memcmp(bytes, old_magic, sizeof old_magic - 1) == 0) {
        memcpy(&count, bytes + 12, 4);
        start = (16 + 12 * (uint64_t)count + 7) / 8 * 8;
    }
    if (start > size - 48 || memcmp(bytes + start, magic, sizeof magic - 1) != 0) goto out;
    memcpy(&count, bytes + start + 20, 4);
    if ((size - start - 48) / 24 < count) goto out;
    understood = true;
    for (i = 0; i < count && !found; i++) {
        memcpy(&key, bytes + start + 48 + 24 * i + 4, 4);
        if (key >= size - start) {
            understood = false;
            break;
        }
        found = length < size - start - key && memcmp(bytes + start + key, name, length + 1) == 0;
    }
out:
    if (!understood) *sure = false;
    free(bytes);
    platform_file_close(file);
    return found;
}

/* The directories that the program itself searches: its own run paths, LD_LIBRARY_PATH as it was
 * at the start, the system's. */
static bool exists_in_program_paths(const char *name, bool *sure)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    Dl_serinfo head, *list = NULL;
    bool found = false, known = false;
    unsigned i;
    if (program == NULL || dlinfo(program, RTLD_DI_SERINFOSIZE, &head) != 0) goto out;
    list = malloc(head.dls_size);
    if (list == NULL) goto out;
    list->dls_size = head.dls_size;
    list->dls_cnt = head.dls_cnt;
    if (dlinfo(program, RTLD_DI_SERINFOSIZE, list) != 0 ||
        dlinfo(program, RTLD_DI_SERINFO, list) != 0)
        goto out;
    known = true;
    for (i = 0; i < list->dls_cnt && !found; i++)
        found = exists_in(list->dls_serpath[i].dls_name, name, sure);
out:
    if (!known) *sure = false;
    free(list);
    if (program != NULL) dlclose(program);
    return found;
}

uint32_t platform_dependency(const char *library, const char *file, const char *const *search,
                             uint64_t search_count)
{
    bool sure = true;
    uint64_t i;
    void *loaded;
    if (strchr(library, '$') != NULL || library[0] == '\0') return PLATFORM_DEPENDENCY_UNKNOWN;
    if (strchr(library, '/') != NULL) {
        if (library[0] != '/') return PLATFORM_DEPENDENCY_UNKNOWN;
        return exists(library) ? PLATFORM_DEPENDENCY_FOUND : PLATFORM_DEPENDENCY_MISSING;
    }
    for (i = 0; i < search_count; i++)
        if (exists_in_run_path(search[i], file, library, &sure)) return PLATFORM_DEPENDENCY_FOUND;
    if (exists_in_cache(library, &sure)) return PLATFORM_DEPENDENCY_FOUND;
    loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD); /* known by its name already: runs nothing */
    if (loaded != NULL) {
        dlclose(loaded);
        return PLATFORM_DEPENDENCY_FOUND;
    }
    if (exists_in_program_paths(library, &sure)) return PLATFORM_DEPENDENCY_FOUND;
    return sure ? PLATFORM_DEPENDENCY_MISSING : PLATFORM_DEPENDENCY_UNKNOWN;
}
