/* platform.h on Windows: strings, paths, environment, libraries. Files are in windows_files.c, the
 * probe in windows_process.c. Wide calls of the system only. */
#include "windows_shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- strings -------------------------------------------------------------------------------- */

/* One character of UTF-8 at *text, which is moved past it; surrogates are let through. Negative:
 * not UTF-8. */
static int32_t next_character(const unsigned char **text)
{
    const unsigned char *at = *text;
    int32_t character = *at++, least;
    int more;
    if (character < 0x80) {
        *text = at;
        return character;
    }
    if (character >= 0xC2 && character < 0xE0) {
        more = 1, least = 0x80, character &= 0x1F;
    } else if (character >= 0xE0 && character < 0xF0) {
        more = 2, least = 0x800, character &= 0x0F;
    } else if (character >= 0xF0 && character < 0xF5) {
        more = 3, least = 0x10000, character &= 0x07;
    } else {
        return -1;
    }
    while (more-- > 0) {
        if ((*at & 0xC0) != 0x80) return -1;
        character = character << 6 | (*at++ & 0x3F);
    }
    *text = at;
    return character >= least && character <= 0x10FFFF ? character : -1;
}

wchar_t *windows_wide(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t room = strlen(text) + 1, count = 0; /* never more units than bytes */
    wchar_t *wide = calloc(room, sizeof *wide);
    if (wide == NULL) return NULL;
    while (*at != '\0') {
        int32_t character = next_character(&at);
        if (character < 0) {
            free(wide);
            return NULL;
        }
        if (character >= 0x10000) {
            wide[count++] = (wchar_t)(0xD800 + ((character - 0x10000) >> 10));
            wide[count++] = (wchar_t)(0xDC00 + ((character - 0x10000) & 0x3FF));
        } else {
            wide[count++] = (wchar_t)character;
        }
    }
    wide[count] = L'\0';
    return wide;
}

char *windows_narrow(const wchar_t *text)
{
    size_t length = wcslen(text), count = 0, i;
    char *narrow;
    if (length > SIZE_MAX / 3 - 1) return NULL;
    narrow = malloc(length * 3 + 1);
    if (narrow == NULL) return NULL;
    for (i = 0; i < length; i++) {
        uint32_t c = text[i];
        if (c >= 0xD800 && c < 0xDC00 && text[i + 1] >= 0xDC00 && text[i + 1] < 0xE000)
            c = 0x10000 + ((c - 0xD800) << 10) + (uint32_t)(text[++i] - 0xDC00);
        if (c < 0x80) {
            narrow[count++] = (char)c;
            continue;
        }
        if (c >= 0x10000) {
            narrow[count++] = (char)(0xF0 | c >> 18);
            narrow[count++] = (char)(0x80 | (c >> 12 & 0x3F));
        } else if (c >= 0x800) {
            narrow[count++] = (char)(0xE0 | c >> 12);
        }
        if (c >= 0x800) narrow[count++] = (char)(0x80 | (c >> 6 & 0x3F));
        if (c < 0x800) narrow[count++] = (char)(0xC0 | c >> 6);
        narrow[count++] = (char)(0x80 | (c & 0x3F));
    }
    narrow[count] = '\0';
    return narrow;
}

/* A path of MAX_PATH units or more needs the prefix; a directory's limit is twelve less. */
#define LONG_PATH (MAX_PATH - 12)

wchar_t *windows_path(const char *path)
{
    static const wchar_t drive_prefix[] = L"\\\\?\\", share_prefix[] = L"\\\\?\\UNC";
    const wchar_t *prefix;
    wchar_t *wide = windows_wide(path), *longer, *at;
    size_t prefix_length, length;
    bool share;
    if (wide == NULL) return NULL;
    for (at = wide; *at != L'\0'; at++)
        if (*at == L'/') *at = L'\\';
    length = (size_t)(at - wide);
    if (length < LONG_PATH || !platform_is_absolute(path) || wcsncmp(wide, L"\\\\?\\", 4) == 0)
        return wide;
    share = wide[0] == L'\\';
    prefix = share ? share_prefix : drive_prefix;
    prefix_length = wcslen(prefix);
    longer = malloc((prefix_length + length + 1) * sizeof *longer);
    if (longer != NULL) {
        memcpy(longer, prefix, prefix_length * sizeof *longer);
        /* of the two backslashes that begin a share one belongs to the prefix */
        wcscpy(longer + prefix_length, share ? wide + 1 : wide);
    }
    free(wide);
    return longer;
}

void windows_error_text(DWORD error, char *text)
{
    wchar_t wide[PLATFORM_TEXT_BYTES];
    DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL,
                                  error, 0, wide, PLATFORM_TEXT_BYTES, NULL);
    char *narrow;
    if (error >= 0xC0000000u) { /* an exception in the code of a library that was being loaded */
        snprintf(text, PLATFORM_TEXT_BYTES, "exception 0x%08lx in its code", error);
        return;
    }
    while (length > 0 && (wide[length - 1] <= L' ' || wide[length - 1] == L'.')) length--;
    wide[length < PLATFORM_TEXT_BYTES ? length : PLATFORM_TEXT_BYTES - 1] = L'\0';
    narrow = windows_narrow(wide);
    if (narrow == NULL || narrow[0] == '\0')
        snprintf(text, PLATFORM_TEXT_BYTES, "error %lu", error);
    else
        snprintf(text, PLATFORM_TEXT_BYTES, "%.200s (error %lu)", narrow, error);
    free(narrow);
}

char *windows_join(const char *directory, const char *name)
{
    size_t length = strlen(directory), room = length + strlen(name) + 2;
    char *joined = malloc(room);
    if (joined == NULL) return NULL;
    snprintf(joined, room, "%s%s%s", directory,
             length > 0 && platform_is_separator(directory[length - 1]) ? "" : "\\", name);
    return joined;
}

/* ---- the one lock --------------------------------------------------------------------------- */

static SRWLOCK the_lock = SRWLOCK_INIT;

void platform_lock(void)
{
    AcquireSRWLockExclusive(&the_lock);
}

void platform_unlock(void)
{
    ReleaseSRWLockExclusive(&the_lock);
}

/* ---- paths ---------------------------------------------------------------------------------- */

bool platform_is_separator(char c)
{
    return c == '\\' || c == '/';
}

bool platform_is_absolute(const char *path)
{
    bool letter = (path[0] >= 'A' && path[0] <= 'Z') || (path[0] >= 'a' && path[0] <= 'z');
    if (letter && path[1] == ':') return platform_is_separator(path[2]);
    return platform_is_separator(path[0]) && platform_is_separator(path[1]);
}

/* Calls a function of the system that fills a buffer and answers how long it should have been,
 * until the buffer is long enough. NULL: it failed, or no memory. Owned. */
static wchar_t *grown(DWORD (*fill)(void *context, DWORD room, wchar_t *buffer), void *context)
{
    DWORD room = MAX_PATH;
    wchar_t *buffer = NULL;
    for (;;) {
        wchar_t *longer = realloc(buffer, room * sizeof *buffer);
        DWORD length;
        if (longer == NULL) break;
        buffer = longer;
        length = fill(context, room, buffer);
        if (length == 0) break;
        if (length < room) return buffer;
        if (room > 0x10000) break;
        room = length >= room * 2 ? length + 1 : room * 2;
    }
    free(buffer);
    return NULL;
}

static DWORD fill_current_directory(void *context, DWORD room, wchar_t *buffer)
{
    (void)context;
    return GetCurrentDirectoryW(room, buffer);
}

static DWORD fill_full_path(void *context, DWORD room, wchar_t *buffer)
{
    return GetFullPathNameW(context, room, buffer, NULL);
}

static DWORD fill_final_path(void *context, DWORD room, wchar_t *buffer)
{
    return GetFinalPathNameByHandleW(context, buffer, room, VOLUME_NAME_DOS);
}

static DWORD fill_module_path(void *context, DWORD room, wchar_t *buffer)
{
    return GetModuleFileNameW(context, buffer, room); /* cut when the answer is room */
}

static DWORD fill_variable(void *context, DWORD room, wchar_t *buffer)
{
    return GetEnvironmentVariableW(context, buffer, room);
}

static DWORD fill_system_directory(void *context, DWORD room, wchar_t *buffer)
{
    (void)context;
    return GetSystemDirectoryW(buffer, room);
}

/* The narrow form of an owned wide string, which is freed. */
static char *take_narrow(wchar_t *wide)
{
    char *narrow = wide != NULL ? windows_narrow(wide) : NULL;
    free(wide);
    return narrow;
}

char *platform_absolute(const char *path)
{
    char *directory, *joined;
    if (platform_is_absolute(path)) return strdup(path);
    if (platform_is_separator(path[0]) || (path[0] != '\0' && path[1] == ':')) {
        /* relative to a drive or to its current directory: only the system knows */
        wchar_t *wide = windows_wide(path);
        char *full = wide != NULL ? take_narrow(grown(fill_full_path, wide)) : NULL;
        free(wide);
        return full;
    }
    directory = take_narrow(grown(fill_current_directory, NULL));
    joined = directory != NULL ? windows_join(directory, path) : NULL;
    free(directory);
    return joined;
}

char *platform_real_path(const char *path)
{
    wchar_t *wide = windows_path(path), *final = NULL, *bare;
    HANDLE file = INVALID_HANDLE_VALUE;
    char *real = NULL;
    if (wide == NULL) goto out;
    file = CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                       OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (file == INVALID_HANDLE_VALUE) goto out;
    final = grown(fill_final_path, file);
    if (final == NULL) goto out;
    bare = final;
    if (wcsncmp(final, L"\\\\?\\UNC\\", 8) == 0) {
        bare = final + 6;
        bare[0] = L'\\';
    } else if (wcsncmp(final, L"\\\\?\\", 4) == 0) {
        bare = final + 4;
    }
    real = windows_narrow(bare);
out:
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    free(final);
    free(wide);
    return real;
}

char *platform_link_target(const char *path)
{
    (void)path;
    return NULL;
}

char *platform_own_path(void)
{
    static const int here; /* an object of this very image */
    HMODULE module = NULL;
    char *path, *real;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (const wchar_t *)(const void *)&here, &module))
        return NULL;
    path = take_narrow(grown(fill_module_path, module));
    real = path != NULL ? platform_real_path(path) : NULL;
    free(path);
    return real;
}

char *platform_user_directory(void)
{
    bool ignored = false;
    char *roaming = platform_environment("APPDATA", &ignored), *directory = NULL;
    if (roaming != NULL && platform_is_absolute(roaming))
        directory = windows_join(roaming, "tenon\\providers");
    free(roaming);
    return directory;
}

char *platform_system_directory(void)
{
#if defined(TENON_SYSTEM_PROVIDER_DIR)
    return platform_is_absolute(TENON_SYSTEM_PROVIDER_DIR) ? strdup(TENON_SYSTEM_PROVIDER_DIR)
                                                           : NULL;
#else
    return NULL;
#endif
}

/* ---- environment ---------------------------------------------------------------------------- */

/* Does the process run with more rights than its user's other programs? When it cannot be told,
 * the careful answer. */
static bool elevated(void)
{
    TOKEN_ELEVATION elevation = {1};
    DWORD length = 0;
    HANDLE token;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) return true;
    if (!GetTokenInformation(token, TokenElevation, &elevation, sizeof elevation, &length))
        elevation.TokenIsElevated = 1;
    CloseHandle(token);
    return elevation.TokenIsElevated != 0;
}

char *platform_environment(const char *name, bool *ignored)
{
    wchar_t *wide = windows_wide(name);
    char *value = wide != NULL ? take_narrow(grown(fill_variable, wide)) : NULL;
    free(wide);
    if (value != NULL && elevated()) {
        *ignored = true;
        free(value);
        return NULL;
    }
    return value;
}

/* ---- libraries ------------------------------------------------------------------------------ */

static bool exists_in(const char *directory, const char *name)
{
    char *path = windows_join(directory, name);
    wchar_t *wide = path != NULL ? windows_path(path) : NULL;
    DWORD attributes = wide != NULL ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    free(path);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) == 0;
}

uint32_t platform_dependency(const char *library, const char *file, const char *const *search,
                             uint64_t search_count)
{
    uint32_t answer = PLATFORM_DEPENDENCY_UNKNOWN;
    char *directory = strdup(file), *system_directory = NULL, *last;
    wchar_t *wide = windows_wide(library);
    (void)search; /* there are no run paths here */
    (void)search_count;
    if (directory == NULL || wide == NULL) goto out;
    for (last = directory + strlen(directory); last > directory; last--)
        if (platform_is_separator(last[-1])) break;
    *last = '\0';
    system_directory = take_narrow(grown(fill_system_directory, NULL));
    if (system_directory == NULL) goto out;
    /* api-ms-... and ext-ms-... are no files: the system maps them to what implements them */
    if (_strnicmp(library, "api-ms-", 7) == 0 || _strnicmp(library, "ext-ms-", 7) == 0 ||
        exists_in(directory, library) || exists_in(system_directory, library) ||
        GetModuleHandleW(wide) != NULL)
        answer = PLATFORM_DEPENDENCY_FOUND;
    else
        answer = PLATFORM_DEPENDENCY_MISSING;
out:
    free(system_directory);
    free(wide);
    free(directory);
    return answer;
}

void *platform_library_open(const char *path, char *text)
{
    wchar_t *wide = windows_path(path);
    HMODULE module;
    DWORD mode = 0, error;
    bool silent;
    if (wide == NULL) {
        snprintf(text, PLATFORM_TEXT_BYTES, "the path is not UTF-8, or there is no memory");
        return NULL;
    }
    silent = SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &mode) != 0;
    module = LoadLibraryExW(wide, NULL,
                            LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32);
    error = GetLastError();
    if (silent) SetThreadErrorMode(mode, NULL);
    if (module == NULL) windows_error_text(error, text);
    free(wide);
    return module;
}

bool platform_library_missing(const char *text, const char *file, char *name, size_t capacity)
{
    /* the direct dependencies were looked at before (platform_dependency), and of those behind
     * them the system says no more than that one is missing */
    (void)text;
    (void)file;
    (void)name;
    (void)capacity;
    return false;
}

const void *platform_library_symbol(void *library, const char *name)
{
    FARPROC found = GetProcAddress(library, name);
    const void *address;
    memcpy(&address, &found, sizeof address);
    return address;
}

bool platform_library_owns(void *library, const void *address)
{
    HMODULE owner = NULL;
    return GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                  GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                              address, &owner) != 0 &&
           owner == library;
}

bool platform_library_keep(void *library, const char *path)
{
    HMODULE kept = NULL;
    (void)path; /* a module's handle is the address where it begins */
    return GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN |
                                  GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                              library, &kept) != 0;
}

void platform_library_close(void *library)
{
    if (library != NULL) FreeLibrary(library);
}
