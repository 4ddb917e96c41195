/* Opens made-up GGUF files for tests. Every case goes through memory (an exact allocation, so that a
 * sanitizer sees one byte too many) and through a file; both must agree to the letter. */
#ifndef TENON_TESTS_GGUF_RIG_H
#define TENON_TESTS_GGUF_RIG_H

#include "gguf_bytes.h"
#include "runner.h"

#include <fcntl.h>
#include <stdbool.h>
#include <tools/gguf.h>

static char folder[] = "/tmp/tenon-gguf-XXXXXX";
static char path[64];

static inline void write_file(const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert(size == 0 || write(fd, data, size) == (ssize_t)size);
    ck_assert_int_eq(close(fd), 0);
}

/* Opens through memory and through a file. Returns the file's, NULL when refused; *text then holds
 * the reason, one line. */
static inline gguf *open_both(const void *data, size_t size, gguf_error *error)
{
    gguf_error from_memory = {{0}};
    uint8_t *exact = malloc(size > 0 ? size : 1);
    gguf *memory, *file;
    ck_assert_ptr_nonnull(exact);
    if (size > 0) memcpy(exact, data, size);
    memory = gguf_open_memory(exact, size, &from_memory);
    memset(error, 0, sizeof *error);
    write_file(data, size);
    file = gguf_open(path, error);
    ck_assert_msg((memory == NULL) == (file == NULL), "memory: %s, file: %s", from_memory.text,
                  error->text);
    ck_assert_str_eq(from_memory.text, error->text);
    ck_assert_msg(file != NULL || error->text[0] != '\0', "a refusal without a word");
    ck_assert_ptr_null(strchr(error->text, '\n'));
    gguf_close(memory);
    free(exact);
    return file;
}

/* The file is refused, and the reason holds each of up to three words. */
static inline void refused(const byte_list *file, const char *a, const char *b, const char *c)
{
    gguf_error error;
    gguf *opened = open_both(file->data, file->size, &error);
    ck_assert_msg(opened == NULL, "accepted, expected a refusal with '%s'", a);
    ck_assert_msg(strstr(error.text, a) != NULL, "'%s' lacks '%s'", error.text, a);
    if (b != NULL) ck_assert_msg(strstr(error.text, b) != NULL, "'%s' lacks '%s'", error.text, b);
    if (c != NULL) ck_assert_msg(strstr(error.text, c) != NULL, "'%s' lacks '%s'", error.text, c);
}

static inline gguf *accepted(const byte_list *file)
{
    gguf_error error;
    gguf *opened = open_both(file->data, file->size, &error);
    ck_assert_msg(opened != NULL, "refused: %s", error.text);
    return opened;
}

/* Before the suite is run, and after it. */
static inline bool rig_begin(void)
{
    if (mkdtemp(folder) == NULL) return false;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    return true;
}

static inline void rig_end(void)
{
    unlink(path);
    rmdir(folder);
}

#endif
