/* platform.h on Windows: files, who may write them, the private cache, the fingerprint. */
#include "windows_shared.h"

#include <aclapi.h>
#include <sddl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

/* ---- who may write -------------------------------------------------------------------------- */

/* The installer of the system owns its files under this service identity. */
#define TRUSTED_INSTALLER L"S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

/* The user this process runs as, or NULL. Owned (free); the identity lies inside. */
static TOKEN_USER *own_user(void)
{
    TOKEN_USER *user = NULL;
    DWORD length = 0;
    HANDLE token;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) return NULL;
    GetTokenInformation(token, TokenUser, NULL, 0, &length);
    if (length > 0) user = malloc(length);
    if (user != NULL && !GetTokenInformation(token, TokenUser, user, length, &length)) {
        free(user);
        user = NULL;
    }
    CloseHandle(token);
    return user;
}

static bool is_trusted(PSID identity, const TOKEN_USER *self)
{
    PSID installer = NULL;
    bool trusted = IsWellKnownSid(identity, WinLocalSystemSid) ||
                   IsWellKnownSid(identity, WinBuiltinAdministratorsSid) ||
                   (self != NULL && EqualSid(identity, self->User.Sid));
    if (!trusted && ConvertStringSidToSidW(TRUSTED_INSTALLER, &installer)) {
        trusted = EqualSid(identity, installer) != 0;
        LocalFree(installer);
    }
    return trusted;
}

/* The rights that let their holder change a file's bytes, or what an entry of a directory leads
 * to. Making new folders in a directory is not among them: everybody may do that in C:\. */
static DWORD dangerous_rights(uint32_t kind)
{
    DWORD both = DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE | GENERIC_ALL;
    if (kind == PLATFORM_DIRECTORY) return both | FILE_ADD_FILE | FILE_DELETE_CHILD;
    return both | FILE_WRITE_DATA | FILE_APPEND_DATA;
}

/* May anybody write who is not trusted? Rights are only added up: a denial elsewhere in the list is
 * not taken as protection. */
static bool others_may_write(PACL list, uint32_t kind, PSID owner, bool owner_trusted,
                             const TOKEN_USER *self)
{
    DWORD i;
    if (list == NULL) return true; /* no list: everybody may do everything */
    for (i = 0; i < list->AceCount; i++) {
        ACCESS_ALLOWED_ACE *entry;
        PSID identity;
        if (!GetAce(list, i, (void **)&entry)) return true;
        if ((entry->Header.AceFlags & INHERIT_ONLY_ACE) != 0) continue;
        if (entry->Header.AceType != ACCESS_ALLOWED_ACE_TYPE) continue;
        if ((entry->Mask & dangerous_rights(kind)) == 0) continue;
        identity = &entry->SidStart;
        if (owner_trusted && EqualSid(identity, owner)) continue;
        if (!is_trusted(identity, self)) return true;
    }
    return false;
}

/* Fills all of *access but kind, which is already there. false: the system would not say. */
static bool access_of(HANDLE file, platform_access *access)
{
    PSECURITY_DESCRIPTOR descriptor = NULL;
    TOKEN_USER *self = own_user();
    PSID owner = NULL;
    PACL list = NULL;
    wchar_t *name = NULL;
    bool good = false;
    if (GetSecurityInfo(file, SE_FILE_OBJECT,
                        OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, NULL, &list,
                        NULL, &descriptor) != ERROR_SUCCESS ||
        owner == NULL)
        goto out;
    access->owner_trusted = is_trusted(owner, self);
    access->others_write = others_may_write(list, access->kind, owner, access->owner_trusted, self);
    if (ConvertSidToStringSidW(owner, &name)) {
        char *narrow = windows_narrow(name);
        snprintf(access->owner, sizeof access->owner, "%.39s", narrow != NULL ? narrow : "");
        free(narrow);
        LocalFree(name);
    }
    snprintf(access->mode, sizeof access->mode, "%s",
             access->others_write ? "others may write" : "others may not write");
    good = true;
out:
    if (descriptor != NULL) LocalFree(descriptor);
    free(self);
    return good;
}

/* ---- files ---------------------------------------------------------------------------------- */

static HANDLE handle_of(platform_file file)
{
    return (HANDLE)file;
}

/* Names of devices and pipes: opening one could wait, and none is a file. */
static bool is_device_path(const wchar_t *path)
{
    return wcsncmp(path, L"\\\\.\\", 4) == 0;
}

static uint32_t open_with(const char *path, DWORD rights, DWORD flags, HANDLE *out, char *text)
{
    wchar_t *wide = windows_path(path);
    DWORD error;
    *out = INVALID_HANDLE_VALUE;
    if (wide == NULL || is_device_path(wide)) {
        snprintf(text, PLATFORM_TEXT_BYTES, "%s",
                 wide == NULL ? "the path is not UTF-8, or there is no memory" : "a device");
        free(wide);
        return TENON_REASON_OPEN_FAILED;
    }
    /* with backup semantics a directory opens too, and its kind can be told */
    *out = CreateFileW(wide, rights, SHARE_ALL, NULL, OPEN_EXISTING,
                       FILE_FLAG_BACKUP_SEMANTICS | flags, NULL);
    error = GetLastError();
    free(wide);
    if (*out != INVALID_HANDLE_VALUE) return TENON_REASON_NONE;
    windows_error_text(error, text);
    return error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND ||
                   error == ERROR_INVALID_NAME || error == ERROR_BAD_NETPATH
               ? TENON_REASON_NO_SUCH_PATH
               : TENON_REASON_OPEN_FAILED;
}

uint32_t platform_file_open(const char *path, platform_file *out, char *text)
{
    HANDLE file;
    uint32_t reason = open_with(path, GENERIC_READ, 0, &file, text);
    *out = reason == TENON_REASON_NONE ? (platform_file)file : PLATFORM_NO_FILE;
    return reason;
}

uint32_t platform_file_facts(platform_file file, loader_identity *identity, platform_access *access,
                             char *text)
{
    BY_HANDLE_FILE_INFORMATION facts;
    memset(access, 0, sizeof *access);
    access->kind = PLATFORM_OTHER;
    if (GetFileType(handle_of(file)) != FILE_TYPE_DISK) return TENON_REASON_NONE;
    if (!GetFileInformationByHandle(handle_of(file), &facts)) goto failed;
    access->kind = (facts.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? PLATFORM_DIRECTORY
                                                                            : PLATFORM_REGULAR;
    if (identity != NULL) {
        uint64_t ticks = (uint64_t)facts.ftLastWriteTime.dwHighDateTime << 32 |
                         facts.ftLastWriteTime.dwLowDateTime;
        identity->device = facts.dwVolumeSerialNumber;
        identity->inode = (uint64_t)facts.nFileIndexHigh << 32 | facts.nFileIndexLow;
        identity->size = (uint64_t)facts.nFileSizeHigh << 32 | facts.nFileSizeLow;
        /* ticks of 100 ns since 1601, and 11,644,473,600 s to 1970 */
        identity->mtime_ns = ((int64_t)ticks - 116444736000000000) * 100;
    }
    if (!access_of(handle_of(file), access)) goto failed;
    return TENON_REASON_NONE;
failed:
    windows_error_text(GetLastError(), text);
    return TENON_REASON_OPEN_FAILED;
}

uint32_t platform_path_facts(const char *path, loader_identity *identity, platform_access *access,
                             char *text)
{
    HANDLE file;
    uint32_t reason;
    memset(access, 0, sizeof *access);
    reason = open_with(path, FILE_READ_ATTRIBUTES | READ_CONTROL, 0, &file, text);
    if (reason == TENON_REASON_NO_SUCH_PATH) {
        access->kind = PLATFORM_MISSING;
        return TENON_REASON_NONE;
    }
    if (reason != TENON_REASON_NONE) return reason;
    reason = platform_file_facts((platform_file)file, identity, access, text);
    CloseHandle(file);
    return reason;
}

uint32_t platform_file_read(platform_file file, uint64_t offset, uint8_t *bytes, uint64_t count,
                            char *text)
{
    while (count > 0) {
        OVERLAPPED place = {0};
        DWORD part = count > (1u << 30) ? 1u << 30 : (DWORD)count, got = 0, error;
        place.Offset = (DWORD)offset;
        place.OffsetHigh = (DWORD)(offset >> 32);
        if (!ReadFile(handle_of(file), bytes, part, &got, &place)) {
            error = GetLastError();
            windows_error_text(error, text);
            return error == ERROR_HANDLE_EOF ? TENON_REASON_TRUNCATED : TENON_REASON_READ_FAILED;
        }
        if (got == 0) {
            snprintf(text, PLATFORM_TEXT_BYTES, "the file ends before");
            return TENON_REASON_TRUNCATED;
        }
        offset += got;
        bytes += got;
        count -= got;
    }
    return TENON_REASON_NONE;
}

void platform_file_close(platform_file file)
{
    if (file != PLATFORM_NO_FILE) CloseHandle(handle_of(file));
}

uint32_t platform_list(const char *directory, bool (*visit)(void *context, const char *name),
                       void *context, char *text)
{
    WIN32_FIND_DATAW entry;
    char *pattern = windows_join(directory, "*");
    wchar_t *wide = pattern != NULL ? windows_path(pattern) : NULL;
    HANDLE search;
    DWORD error;
    bool more;
    free(pattern);
    if (wide == NULL) {
        snprintf(text, PLATFORM_TEXT_BYTES, "the path is not UTF-8, or there is no memory");
        return TENON_REASON_OPEN_FAILED;
    }
    search = FindFirstFileW(wide, &entry);
    error = GetLastError();
    free(wide);
    if (search == INVALID_HANDLE_VALUE) {
        if (error == ERROR_FILE_NOT_FOUND) return TENON_REASON_NONE; /* the root of an empty disk */
        windows_error_text(error, text);
        return error == ERROR_PATH_NOT_FOUND ? TENON_REASON_NO_SUCH_PATH : TENON_REASON_OPEN_FAILED;
    }
    for (more = true; more; more = more && FindNextFileW(search, &entry)) {
        char *name;
        if (wcscmp(entry.cFileName, L".") == 0 || wcscmp(entry.cFileName, L"..") == 0) continue;
        name = windows_narrow(entry.cFileName);
        if (name == NULL) {
            FindClose(search);
            snprintf(text, PLATFORM_TEXT_BYTES, "no memory");
            return TENON_REASON_OPEN_FAILED;
        }
        more = visit(context, name);
        free(name);
    }
    FindClose(search);
    return TENON_REASON_NONE;
}

/* ---- private cache -------------------------------------------------------------------------- */

/* Makes the directory when it is absent. Its rights are those of the user's profile around it. */
static bool make_directory(const char *path)
{
    wchar_t *wide = windows_path(path);
    bool there = wide != NULL &&
                 (CreateDirectoryW(wide, NULL) || GetLastError() == ERROR_ALREADY_EXISTS);
    free(wide);
    return there;
}

char *platform_cache_directory(const char *name)
{
    static const char *const steps[] = {"tenon", "cache"};
    bool ignored = false;
    char *path = platform_environment("LOCALAPPDATA", &ignored), text[PLATFORM_TEXT_BYTES];
    platform_access access;
    size_t i;
    if (path != NULL && !platform_is_absolute(path)) goto none;
    for (i = 0; path != NULL && i < 3; i++) {
        char *longer = windows_join(path, i < 2 ? steps[i] : name);
        free(path);
        path = longer;
        if (path != NULL && !make_directory(path)) goto none;
    }
    if (path == NULL || platform_path_facts(path, NULL, &access, text) != TENON_REASON_NONE ||
        access.kind != PLATFORM_DIRECTORY || !access.owner_trusted || access.others_write)
        goto none;
    return path;
none:
    free(path);
    return NULL;
}

bool platform_cache_read(const char *directory, const char *name, void *bytes, uint64_t capacity,
                         uint64_t *count)
{
    char *path = windows_join(directory, name), text[PLATFORM_TEXT_BYTES];
    BY_HANDLE_FILE_INFORMATION facts;
    loader_identity identity = {0};
    platform_access access;
    HANDLE file = INVALID_HANDLE_VALUE;
    bool good = false;
    /* a link is opened itself, not what it leads to, and then told by its attribute */
    if (path == NULL ||
        open_with(path, GENERIC_READ, FILE_FLAG_OPEN_REPARSE_POINT, &file, text) != 0)
        goto out;
    if (!GetFileInformationByHandle(file, &facts) ||
        (facts.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0)
        goto out;
    if (platform_file_facts((platform_file)file, &identity, &access, text) != 0 ||
        access.kind != PLATFORM_REGULAR || !access.owner_trusted || access.others_write ||
        identity.size > capacity)
        goto out;
    good = platform_file_read((platform_file)file, 0, bytes, identity.size, text) == 0;
    if (good) *count = identity.size;
out:
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    free(path);
    return good;
}

static bool write_all(HANDLE file, const void *bytes, uint64_t count)
{
    const uint8_t *at = bytes;
    while (count > 0) {
        DWORD part = count > (1u << 30) ? 1u << 30 : (DWORD)count, done = 0;
        if (!WriteFile(file, at, part, &done, NULL) || done == 0) return false;
        at += done;
        count -= done;
    }
    return true;
}

bool platform_cache_write(const char *directory, const char *name, const void *bytes,
                          uint64_t count)
{
    static volatile LONG serial;
    char temporary[64], *path = windows_join(directory, name), *other = NULL;
    wchar_t *wide = path != NULL ? windows_path(path) : NULL, *wide_other = NULL;
    HANDLE file = INVALID_HANDLE_VALUE;
    bool good = false;
    snprintf(temporary, sizeof temporary, "new-%lu-%ld", GetCurrentProcessId(),
             InterlockedIncrement(&serial));
    other = windows_join(directory, temporary);
    wide_other = other != NULL ? windows_path(other) : NULL;
    if (wide == NULL || wide_other == NULL) goto out;
    file = CreateFileW(wide_other, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) goto out;
    good = write_all(file, bytes, count);
    if (!CloseHandle(file)) good = false;
    if (good && !MoveFileExW(wide_other, wide, MOVEFILE_REPLACE_EXISTING)) good = false;
    if (!good) DeleteFileW(wide_other);
out:
    free(wide_other);
    free(other);
    free(wide);
    free(path);
    return good;
}

/* ---- fingerprint ---------------------------------------------------------------------------- */

void platform_fingerprint(void (*add)(void *context, const void *bytes, uint64_t count),
                          void *context)
{
    /* the runtime libraries that drivers install, by size and time of writing */
    static const wchar_t *const drivers[] = {L"nvcuda.dll", L"amdhip64.dll", L"amdhip64_6.dll",
                                             L"vulkan-1.dll", L"xrt_coreutil.dll"};
    wchar_t path[MAX_PATH + 32];
    SYSTEM_INFO system;
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    LONG(WINAPI * real_version)(OSVERSIONINFOW *);
    FARPROC found = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion");
    size_t i;
    UINT length = GetSystemDirectoryW(path, MAX_PATH);
    memset(&system, 0, sizeof system);
    GetNativeSystemInfo(&system);
    add(context, &system.wProcessorArchitecture, sizeof system.wProcessorArchitecture);
    add(context, &system.wProcessorLevel, sizeof system.wProcessorLevel);
    add(context, &system.wProcessorRevision, sizeof system.wProcessorRevision);
    memcpy(&real_version, &found, sizeof real_version); /* GetVersionEx tells old programs lies */
    if (real_version != NULL && real_version(&version) == 0) add(context, &version, sizeof version);
    for (i = 0; length > 0 && length < MAX_PATH && i < sizeof drivers / sizeof drivers[0]; i++) {
        WIN32_FILE_ATTRIBUTE_DATA facts;
        path[length] = L'\\';
        wcscpy(path + length + 1, drivers[i]);
        if (!GetFileAttributesExW(path, GetFileExInfoStandard, &facts)) continue;
        add(context, drivers[i], wcslen(drivers[i]) * sizeof(wchar_t));
        add(context, &facts.ftLastWriteTime, sizeof facts.ftLastWriteTime);
        add(context, &facts.nFileSizeLow, sizeof facts.nFileSizeLow);
    }
}
