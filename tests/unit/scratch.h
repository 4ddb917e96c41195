/* A scratch folder of one test, and small helpers over it. */
#ifndef TENON_TESTS_SCRATCH_H
#define TENON_TESTS_SCRATCH_H

#include <check.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[64];

/* Strings that live as long as the test, so that a leak checker sees the product's leaks only. */
static char **kept;
static unsigned kept_count;

static inline char *keep(char *text)
{
    ck_assert_ptr_nonnull(text);
    kept = realloc(kept, (kept_count + 1) * sizeof *kept);
    ck_assert_ptr_nonnull(kept);
    return kept[kept_count++] = text;
}

static inline void scratch_make(void)
{
    strcpy(scratch, "/tmp/tenon-scratch-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
}

static inline void scratch_remove(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    if (list == NULL) return;
    while ((entry = readdir(list)) != NULL) {
        char path[8192];
        struct stat state;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            continue;
        if (lstat(path, &state) == 0 && S_ISDIR(state.st_mode)) {
            chmod(path, 0700);
            scratch_remove(path);
        } else {
            unlink(path);
        }
    }
    closedir(list);
    rmdir(folder);
}

static inline void scratch_end(void)
{
    scratch_remove(scratch);
    while (kept_count > 0) free(kept[--kept_count]);
    free(kept);
    kept = NULL;
}

/* A path below the scratch folder, kept. */
static inline char *below(const char *format, ...)
{
    char *path = keep(malloc(8192));
    va_list list;
    int used;
    used = snprintf(path, 8192, "%s/", scratch);
    va_start(list, format);
    vsnprintf(path + used, 8192 - (size_t)used, format, list);
    va_end(list);
    return path;
}

static inline char *make_folder(const char *name, mode_t mode)
{
    char *path = below("%s", name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
    return path;
}

static inline char *make_file(const char *name, mode_t mode, const char *text)
{
    char *path = below("%s", name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
    return path;
}

#endif
