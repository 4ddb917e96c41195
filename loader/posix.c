/* platform.h on Linux and its kin: the lock, paths, environment. */
#include <loader/platform.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <loader/posix.h>

/* The system's directory of providers; empty: none. */
#ifndef TENON_SYSTEM_PROVIDER_DIR
#define TENON_SYSTEM_PROVIDER_DIR "/usr/lib/tenon"
#endif

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;

void platform_lock(void)
{
    pthread_mutex_lock(&the_lock);
}

void platform_unlock(void)
{
    pthread_mutex_unlock(&the_lock);
}

char *posix_join(const char *directory, const char *name)
{
    size_t first = strlen(directory), second = strlen(name);
    char *path = malloc(first + second + 2);
    if (path == NULL) return NULL;
    memcpy(path, directory, first);
    while (first > 1 && path[first - 1] == '/') first--;
    if (first == 0 || path[first - 1] != '/') path[first++] = '/';
    memcpy(path + first, name, second + 1);
    return path;
}

void posix_error_text(int error, char *text)
{
    /* For numbers the system knows this is constant text, whatever thread asks. */
    snprintf(text, PLATFORM_TEXT_BYTES, "%s", strerror(error));
}

bool platform_is_separator(char c)
{
    return c == '/';
}

bool platform_is_absolute(const char *path)
{
    return path[0] == '/';
}

char *platform_absolute(const char *path)
{
    char *here, *out;
    if (platform_is_absolute(path)) return strdup(path);
    here = getcwd(NULL, 0);
    if (here == NULL) return NULL;
    out = here[0] == '/' ? posix_join(here, path) : NULL; /* "(unreachable)/..." */
    free(here);
    return out;
}

char *platform_real_path(const char *path)
{
    return realpath(path, NULL);
}

char *platform_link_target(const char *path)
{
    char buffer[PATH_MAX + 1];
    ssize_t count = readlink(path, buffer, sizeof buffer - 1);
    if (count <= 0 || (size_t)count == sizeof buffer - 1) return NULL;
    buffer[count] = '\0';
    return strdup(buffer);
}

char *platform_own_path(void)
{
    /* An object of this file, so that the answer is the file which the loader was linked into. */
    static const char here = 0;
    Dl_info own, program;
    uintptr_t headers = (uintptr_t)getauxval(AT_PHDR);
    if (dladdr(&here, &own) == 0 || own.dli_fname == NULL) return realpath("/proc/self/exe", NULL);
    /* The main program's name is whatever argv[0] says; the kernel knows better. */
    if (headers != 0 && dladdr((const void *)headers, &program) != 0 &&
        program.dli_fbase == own.dli_fbase)
        return realpath("/proc/self/exe", NULL);
    return own.dli_fname[0] == '/' ? realpath(own.dli_fname, NULL) : NULL;
}

char *platform_environment(const char *name, bool *ignored)
{
    const char *plain = getenv(name), *value = secure_getenv(name);
    if (ignored != NULL) *ignored = plain != NULL && value == NULL;
    return value != NULL ? strdup(value) : NULL;
}

/* The user's directory of one kind: $variable if it is absolute, or ~/fallback. */
char *posix_user_base(const char *variable, const char *fallback)
{
    const char *base = secure_getenv(variable), *home;
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (base != NULL && base[0] == '/') return strdup(base);
    home = secure_getenv("HOME");
    if (home == NULL && getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 &&
        found != NULL)
        home = found->pw_dir;
    if (home == NULL || home[0] != '/') return NULL;
    return posix_join(home, fallback);
}

char *platform_user_directory(void)
{
    char *base = posix_user_base("XDG_CONFIG_HOME", ".config"), *out;
    if (base == NULL) return NULL;
    out = posix_join(base, "tenon/providers");
    free(base);
    return out;
}

char *platform_system_directory(void)
{
    return TENON_SYSTEM_PROVIDER_DIR[0] == '/' ? strdup(TENON_SYSTEM_PROVIDER_DIR) : NULL;
}
