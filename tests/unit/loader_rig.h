/* What the loader's tests share: the folder of fixtures, a scratch folder, a loader over paths. */
#ifndef TENON_TESTS_LOADER_RIG_H
#define TENON_TESTS_LOADER_RIG_H

#include <check.h>
#include <dirent.h>
#include <loader/loader.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- places --------------------------------------------------------------------------------- */

/* Where the build put the fixtures and the probe helper; the build says so in the environment. */
static inline const char *rig_place(const char *variable)
{
    const char *value = getenv(variable);
    ck_assert_msg(value != NULL && value[0] == '/', "%s must be an absolute path", variable);
    return value;
}

/* A path, kept for the life of the test. */
static inline char *rig_path(const char *format, ...)
{
    static struct kept {
        struct kept *next;
        char text[4096];
    } * all;
    struct kept *path = malloc(sizeof *path);
    va_list arguments;
    ck_assert_ptr_nonnull(path);
    va_start(arguments, format);
    vsnprintf(path->text, sizeof path->text, format, arguments);
    va_end(arguments);
    path->next = all;
    all = path;
    return path->text;
}

static inline char *rig_fixture(const char *variant)
{
    return rig_path("%s/tenon-%s.so", rig_place("TENON_FIXTURES"), variant);
}

/* A folder of this test's own, the same one at every call. Removed by rig_clean. */
static inline const char *rig_scratch(void)
{
    static char scratch[64];
    if (scratch[0] == '\0') {
        strcpy(scratch, "/tmp/tenon-loader-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(scratch));
    }
    return scratch;
}

static inline void rig_remove_below(const char *folder)
{
    DIR *open = opendir(folder);
    struct dirent *entry;
    ck_assert_ptr_nonnull(open);
    while ((entry = readdir(open)) != NULL) {
        struct stat state;
        char *path = rig_path("%s/%s", folder, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (lstat(path, &state) == 0 && S_ISDIR(state.st_mode)) {
            chmod(path, 0700);
            rig_remove_below(path);
            rmdir(path);
        } else {
            unlink(path);
        }
    }
    closedir(open);
}

static inline void rig_copy(const char *from, const char *to, long bytes)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    int c;
    ck_assert_msg(in != NULL, "%s", from);
    ck_assert_msg(out != NULL, "%s", to);
    while (bytes != 0 && (c = fgetc(in)) != EOF) {
        fputc(c, out);
        if (bytes > 0) bytes--;
    }
    fclose(in);
    ck_assert_int_eq(fclose(out), 0);
}

static inline void rig_write(const char *path, const void *bytes, size_t count)
{
    FILE *out = fopen(path, "wb");
    ck_assert_msg(out != NULL, "%s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, count, out), count);
    ck_assert_int_eq(fclose(out), 0);
}

/* A copy of the running program, scratch/bin/program, with a tenon.layout beside it that says where
 * the probe helper is, and more lines as given. */
static inline char *rig_program_copy(const char *more_layout)
{
    char own[4096], *folder = rig_path("%s/bin", rig_scratch());
    char *copy = rig_path("%s/program", folder);
    char *layout = rig_path("probe=%s\n%s", rig_place("TENON_PROBE"), more_layout);
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    ck_assert_int_gt(length, 0);
    own[length] = '\0';
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    rig_copy(own, copy, -1);
    ck_assert_int_eq(chmod(copy, 0755), 0);
    rig_write(rig_path("%s/tenon.layout", folder), layout, strlen(layout));
    return copy;
}

/* Runs a program of two arguments and returns its exit status; a signal fails the test. */
static inline int rig_run(const char *program, const char *first, const char *second)
{
    int status = 0;
    pid_t process = fork();
    ck_assert_int_ge(process, 0);
    if (process == 0) {
        execl(program, program, first, second, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(process, &status, 0), process);
    ck_assert_msg(WIFEXITED(status), "%s %s: ended by signal %d", first, second,
                  WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return WEXITSTATUS(status);
}

/* ---- a loader ------------------------------------------------------------------------------- */

static pthread_mutex_t rig_log_lock = PTHREAD_MUTEX_INITIALIZER;
static char rig_log_text[65536]; /* every line of level warning or worse, and their levels */

static inline void rig_log(void *context, uint32_t level, const char *text)
{
    size_t used;
    (void)context;
    if (level > TENON_LOG_WARNING) return;
    pthread_mutex_lock(&rig_log_lock);
    used = strlen(rig_log_text);
    snprintf(rig_log_text + used, sizeof rig_log_text - used, "%u %s\n", level, text);
    pthread_mutex_unlock(&rig_log_lock);
}

/* Before each test: nothing of the machine's own set-up is seen. */
static inline void rig_clean_environment(void)
{
    unsetenv("TENON_PROVIDERS");
    unsetenv("TENON_PROVIDER_PATH");
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", rig_path("%s/cache", rig_scratch()), 1), 0);
    ck_assert_int_eq(setenv("XDG_CONFIG_HOME", rig_path("%s/config", rig_scratch()), 1), 0);
    ck_assert_int_eq(mkdir(getenv("XDG_CACHE_HOME"), 0700), 0);
    rig_log_text[0] = '\0';
    /* a helper built with a sanitizer must die of the signals that the fixtures earn */
    ck_assert_int_eq(setenv("ASAN_OPTIONS",
                            rig_path("%s:handle_segv=0:handle_abort=0:handle_sigill=0",
                                     getenv("ASAN_OPTIONS") != NULL ? getenv("ASAN_OPTIONS") : ""),
                            1),
                     0);
}

static inline void rig_clean(void)
{
    rig_remove_below(rig_scratch());
    rmdir(rig_scratch());
}

static inline loader_options rig_options(const char *const *paths, uint64_t count)
{
    loader_options options = {.paths = paths,
                              .path_count = count,
                              .no_search = true,
                              .probe_helper = rig_place("TENON_PROBE"),
                              .probe_timeout_ms = 60000,
                              .log = rig_log};
    return options;
}

static inline loader *rig_create(const loader_options *options)
{
    tenon_error error = {TENON_HEAD(tenon_error), 0, 0, 0, 0, 0, 0, ""};
    loader *made = NULL;
    int32_t status = loader_create(options, &made, &error);
    ck_assert_msg(status == TENON_OK, "loader_create: %d %s", (int)status, error.text);
    ck_assert_ptr_nonnull(made);
    return made;
}

static inline loader *rig_load(const char *const *paths, uint64_t count)
{
    loader_options options = rig_options(paths, count);
    return rig_create(&options);
}

static inline loader *rig_load_one(const char *path)
{
    return rig_load(&path, 1);
}

/* The verdict over a file, which must be there. */
static inline const loader_verdict *rig_verdict(const loader *self, const char *path)
{
    uint64_t i;
    for (i = 0; i < loader_verdict_count(self); i++)
        if (strcmp(loader_verdict_at(self, i)->file, path) == 0) return loader_verdict_at(self, i);
    ck_abort_msg("no verdict over %s", path);
    return NULL;
}

static inline const loader_module *rig_module(const loader *self, const char *id)
{
    uint64_t i;
    for (i = 0; i < loader_module_count(self); i++)
        if (strcmp(loader_module_at(self, i)->provider.id, id) == 0)
            return loader_module_at(self, i);
    return NULL;
}

/* ---- services, as a host would hand them to a provider --------------------------------------- */

static char rig_service_text[4096]; /* what providers said last */

static inline void TENON_CALL rig_service_log(void *host, uint32_t level, const char *text)
{
    (void)host;
    (void)level;
    snprintf(rig_service_text, sizeof rig_service_text, "%s", text);
}

static inline void TENON_CALL rig_service_for(void *host, uint64_t count, tenon_parallel_body body,
                                              void *context)
{
    uint64_t i;
    (void)host;
    for (i = 0; i < count; i++) body(context, i, 0);
}

static inline uint32_t TENON_CALL rig_service_size(void *host)
{
    (void)host;
    return 1;
}

static inline const char *TENON_CALL rig_service_config(void *host, const char *key)
{
    (void)host;
    (void)key;
    return NULL;
}

static const tenon_services rig_services = {
    TENON_HEAD(tenon_services), NULL, rig_service_log, rig_service_for, rig_service_size,
    rig_service_config};

/* Name of a published provider's device 0. */
static inline void rig_device_name(const loader_module *module, char *name, size_t room)
{
    tenon_provider *provider = NULL;
    tenon_device_info info = {.struct_size = sizeof info, .abi_version = TENON_ABI_VERSION};
    ck_assert_int_eq(module->provider.open(&rig_services, &provider, NULL), TENON_OK);
    ck_assert_int_eq(module->provider.device_info(provider, 0, &info, NULL), TENON_OK);
    snprintf(name, room, "%s", info.name);
    module->provider.close(provider);
}

/* ---- what a process holds ------------------------------------------------------------------- */

/* Mappings of files whose path contains the word. */
static inline unsigned rig_mappings(const char *word)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[8192];
    unsigned count = 0;
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, word) != NULL) count++;
    fclose(maps);
    return count;
}

/* Entries of /proc/self/<what>: descriptors ("fd"), threads ("task"). */
static inline unsigned rig_count(const char *what)
{
    char *path = rig_path("/proc/self/%s", what);
    DIR *open = opendir(path);
    unsigned count = 0;
    ck_assert_ptr_nonnull(open);
    while (readdir(open) != NULL) count++;
    closedir(open);
    return count;
}

#endif
