/* platform.h on Linux and its kin: files, directories, the private cache. */
#include <loader/platform.h>
#include <loader/posix.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

uint32_t platform_file_open(const char *path, platform_file *out, char *text)
{
    int fd;
    *out = PLATFORM_NO_FILE;
    text[0] = '\0';
    /* O_NONBLOCK: a FIFO without a writer must not hang us. O_NOCTTY: nor a terminal adopt us. */
    do fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        posix_error_text(errno, text);
        return errno == ENOENT || errno == ENOTDIR ? TENON_REASON_NO_SUCH_PATH
                                                   : TENON_REASON_OPEN_FAILED;
    }
    *out = fd;
    return TENON_REASON_NONE;
}

/* Is the group one that a user has for himself: of his name, or at least of his number, and with
 * no other member? */
static bool private_group(uid_t owner, gid_t group)
{
    struct passwd user, *found_user = NULL;
    struct group entry, *found_group = NULL;
    char user_buffer[4096], group_buffer[16384];
    char **member;
    if (getpwuid_r(owner, &user, user_buffer, sizeof user_buffer, &found_user) != 0)
        found_user = NULL;
    if (getgrgid_r(group, &entry, group_buffer, sizeof group_buffer, &found_group) != 0)
        return false;
    if (found_group == NULL) return owner == group && found_user == NULL;
    if (found_user == NULL || user.pw_gid != group || strcmp(entry.gr_name, user.pw_name) != 0)
        return false;
    for (member = entry.gr_mem; *member != NULL; member++)
        if (strcmp(*member, user.pw_name) != 0) return false;
    return true;
}

static void facts_of(const struct stat *state, loader_identity *identity, platform_access *access)
{
    memset(access, 0, sizeof *access);
    access->kind = S_ISREG(state->st_mode)   ? PLATFORM_REGULAR
                   : S_ISDIR(state->st_mode) ? PLATFORM_DIRECTORY
                                             : PLATFORM_OTHER;
    access->owner_trusted = state->st_uid == 0 || state->st_uid == geteuid();
    access->others_write = (state->st_mode & S_IWOTH) != 0;
    access->group_write = (state->st_mode & S_IWGRP) != 0 &&
                          !private_group(state->st_uid, state->st_gid);
    access->sticky = S_ISDIR(state->st_mode) && (state->st_mode & S_ISVTX) != 0;
    snprintf(access->owner, sizeof access->owner, "uid %lu", (unsigned long)state->st_uid);
    snprintf(access->mode, sizeof access->mode, "mode %04lo",
             (unsigned long)(state->st_mode & 07777));
    if (identity == NULL) return;
    identity->device = (uint64_t)state->st_dev;
    identity->inode = (uint64_t)state->st_ino;
    identity->size = (uint64_t)state->st_size;
    identity->mtime_ns = (int64_t)state->st_mtim.tv_sec * 1000000000 + state->st_mtim.tv_nsec;
}

uint32_t platform_file_facts(platform_file file, loader_identity *identity, platform_access *access,
                             char *text)
{
    struct stat state;
    text[0] = '\0';
    memset(access, 0, sizeof *access);
    if (fstat((int)file, &state) != 0) {
        posix_error_text(errno, text);
        return TENON_REASON_OPEN_FAILED;
    }
    facts_of(&state, identity, access);
    return TENON_REASON_NONE;
}

uint32_t platform_path_facts(const char *path, loader_identity *identity, platform_access *access,
                             char *text)
{
    struct stat state;
    text[0] = '\0';
    memset(access, 0, sizeof *access);
    if (stat(path, &state) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return TENON_REASON_NONE;
        posix_error_text(errno, text);
        return TENON_REASON_OPEN_FAILED;
    }
    facts_of(&state, identity, access);
    return TENON_REASON_NONE;
}

uint32_t platform_file_read(platform_file file, uint64_t offset, uint8_t *bytes, uint64_t count,
                            char *text)
{
    text[0] = '\0';
    while (count > 0) {
        size_t step = count < (1u << 30) ? (size_t)count : 1u << 30;
        ssize_t got;
        if (offset > (uint64_t)INT64_MAX - step) {
            posix_error_text(EOVERFLOW, text);
            return TENON_REASON_READ_FAILED;
        }
        got = pread((int)file, bytes, step, (off_t)offset);
        if (got < 0) {
            if (errno == EINTR) continue;
            posix_error_text(errno, text);
            return TENON_REASON_READ_FAILED;
        }
        if (got == 0) return TENON_REASON_TRUNCATED;
        bytes += got;
        offset += (uint64_t)got;
        count -= (uint64_t)got;
    }
    return TENON_REASON_NONE;
}

void platform_file_close(platform_file file)
{
    if (file != PLATFORM_NO_FILE) close((int)file);
}

uint32_t platform_list(const char *directory, bool (*visit)(void *context, const char *name),
                       void *context, char *text)
{
    DIR *list = opendir(directory);
    const struct dirent *entry;
    uint32_t reason = TENON_REASON_NONE;
    text[0] = '\0';
    if (list == NULL) {
        posix_error_text(errno, text);
        return errno == ENOENT || errno == ENOTDIR ? TENON_REASON_NO_SUCH_PATH
                                                   : TENON_REASON_OPEN_FAILED;
    }
    for (;;) {
        errno = 0;
        entry = readdir(list);
        if (entry == NULL) {
            if (errno != 0) {
                posix_error_text(errno, text);
                reason = TENON_REASON_OPEN_FAILED;
            }
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (!visit(context, entry->d_name)) break;
    }
    closedir(list);
    return reason;
}

/* Does this user own the directory that path lies in? */
static bool owns_parent(const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat state;
    if (slash == NULL || (size_t)(slash - path) >= sizeof parent) return false;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    return stat(parent[0] != '\0' ? parent : "/", &state) == 0 && state.st_uid == geteuid();
}

/* Makes the directory if need be, but in nobody else's (sudo keeps HOME); it must then be one that
 * this user owns and alone can write. */
static bool own_directory(const char *path)
{
    struct stat state;
    if (stat(path, &state) != 0) {
        if (errno != ENOENT || !owns_parent(path)) return false;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
        if (stat(path, &state) != 0) return false;
    }
    return S_ISDIR(state.st_mode) && state.st_uid == geteuid() &&
           (state.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

char *platform_cache_directory(const char *name)
{
    char *base = posix_user_base("XDG_CACHE_HOME", ".cache"), *tenon = NULL, *out = NULL;
    bool good = false;
    if (base == NULL) goto out;
    tenon = posix_join(base, "tenon");
    if (tenon == NULL) goto out;
    out = posix_join(tenon, name);
    if (out == NULL) goto out;
    good = own_directory(base) && own_directory(tenon) && own_directory(out);
out:
    if (!good) {
        free(out);
        out = NULL;
    }
    free(tenon);
    free(base);
    return out;
}

bool platform_cache_read(const char *directory, const char *name, void *bytes, uint64_t capacity,
                         uint64_t *count)
{
    char *path = posix_join(directory, name), text[PLATFORM_TEXT_BYTES];
    struct stat state;
    bool good = false;
    int fd = -1;
    *count = 0;
    if (path == NULL) goto out;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &state) != 0 || !S_ISREG(state.st_mode)) goto out;
    if (state.st_uid != geteuid() || (state.st_mode & (S_IWGRP | S_IWOTH)) != 0) goto out;
    if (state.st_size < 0 || (uint64_t)state.st_size > capacity) goto out;
    if (platform_file_read(fd, 0, bytes, (uint64_t)state.st_size, text) != 0) goto out;
    *count = (uint64_t)state.st_size;
    good = true;
out:
    if (fd >= 0) close(fd);
    free(path);
    return good;
}

static bool write_all(int fd, const void *bytes, uint64_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t put = write(fd, at, count < SSIZE_MAX ? (size_t)count : SSIZE_MAX);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put;
        count -= (uint64_t)put;
    }
    return true;
}

bool platform_cache_write(const char *directory, const char *name, const void *bytes,
                          uint64_t count)
{
    char *path = posix_join(directory, name), *draft = posix_join(directory, "draft-XXXXXX");
    bool good = false;
    int fd = -1;
    if (path == NULL || draft == NULL) goto out;
    fd = mkostemp(draft, O_CLOEXEC); /* mode 0600, so nobody else ever sees half of it */
    if (fd < 0) goto out;
    good = write_all(fd, bytes, count);
    if (close(fd) != 0) good = false;
    good = good && rename(draft, path) == 0;
    if (!good) unlink(draft);
out:
    free(draft);
    free(path);
    return good;
}

typedef void (*add_function)(void *context, const void *bytes, uint64_t count);

/* The first bytes of a file of the system, if it is there. */
static void add_file(const char *path, add_function add, void *context)
{
    char bytes[4096];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t count = fd >= 0 ? read(fd, bytes, sizeof bytes) : 0;
    if (count > 0) add(context, bytes, (uint64_t)count);
    if (fd >= 0) close(fd);
    add(context, path, strlen(path)); /* so that present and absent files cannot be exchanged */
}

/* The lines of /proc/cpuinfo that say which instructions there are, of the first processor. */
static void add_processor(add_function add, void *context)
{
    static const char *const wanted[] = {"vendor_id", "cpu family", "model",
                                         "stepping",  "microcode",  "flags",
                                         "CPU ",      "Features",   "isa"};
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[8192];
    unsigned i;
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL && line[0] != '\n')
        for (i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0) add(context, line, strlen(line));
    fclose(file);
}

void platform_fingerprint(add_function add, void *context)
{
    /* The linker's cache is rewritten whenever a library of the system comes, goes or changes. */
    static const char *const stamps[] = {"/etc/ld.so.cache", "/etc/ld.so.preload"};
    static const char *const versions[] = {
        "/proc/driver/nvidia/version", "/sys/module/nvidia/version", "/sys/module/amdgpu/version",
        "/sys/module/amdxdna/version", "/sys/module/xe/version",     "/sys/module/i915/version"};
    struct utsname system;
    struct stat state;
    const char *path = getenv("LD_LIBRARY_PATH");
    unsigned i;
    if (path != NULL) add(context, path, strlen(path));
    if (uname(&system) == 0) {
        add(context, system.release, strlen(system.release));
        add(context, system.machine, strlen(system.machine));
    }
    for (i = 0; i < sizeof stamps / sizeof stamps[0]; i++) {
        int64_t facts[3] = {-1, -1, -1};
        if (stat(stamps[i], &state) == 0) {
            facts[0] = (int64_t)state.st_size;
            facts[1] = (int64_t)state.st_mtim.tv_sec;
            facts[2] = (int64_t)state.st_mtim.tv_nsec;
        }
        add(context, facts, sizeof facts);
    }
    for (i = 0; i < sizeof versions / sizeof versions[0]; i++) add_file(versions[i], add, context);
    add_processor(add, context);
}
