/* GGUF reader: opening, mapping, closing, and where tensors lie. */
#include "gguf.h"
#include "gguf_internal.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenon/format.h>
#include <unistd.h>

bool gguf_fail(gguf_error *error, const char *format, ...)
{
    va_list arguments;
    if (error == NULL) return false;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

static bool fail_tensor(gguf_error *error, const gguf_tensor *tensor, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail_tensor(gguf_error *error, const gguf_tensor *tensor, const char *format, ...)
{
    char name[140], text[240];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return gguf_fail(error, "tensor '%s' at offset %llu: %s",
                     text_escape(name, sizeof name, tensor->name, strlen(tensor->name)),
                     (unsigned long long)tensor->header_offset, text);
}

/* The bytes a tensor covers for certain: all of it, or one when its type has no known size. */
static uint64_t covered(const gguf_tensor *tensor)
{
    if (tensor->rows == 0) return 0;
    return tensor->bytes != 0 ? tensor->bytes : 1;
}

static int compare_offset(const void *a, const void *b)
{
    const gguf_tensor *x = *(const gguf_tensor *const *)a, *y = *(const gguf_tensor *const *)b;
    if (x->data_offset != y->data_offset) return x->data_offset < y->data_offset ? -1 : 1;
    return x < y ? -1 : 1;
}

/* Gaps are legal, overlap is not. */
static bool check_overlap(const gguf *self, gguf_error *error)
{
    const gguf_tensor **order = calloc((size_t)self->tensor_count + 1, sizeof *order);
    const gguf_tensor *before = NULL;
    uint64_t i, count = 0;
    bool good = true;
    if (order == NULL) return gguf_fail(error, "out of memory");
    for (i = 0; i < self->tensor_count; i++)
        if (covered(&self->tensors[i]) != 0) order[count++] = &self->tensors[i];
    if (count > 1) qsort(order, (size_t)count, sizeof *order, compare_offset);
    for (i = 0; i < count && good; i++) {
        if (before != NULL && order[i]->data_offset < before->data_offset + covered(before)) {
            char name[140];
            good = fail_tensor(error, order[i],
                               "its data at offset %llu overlaps that of '%s' at offset %llu",
                               (unsigned long long)order[i]->data_offset,
                               text_escape(name, sizeof name, before->name, strlen(before->name)),
                               (unsigned long long)before->data_offset);
        }
        before = order[i];
    }
    free(order);
    return good;
}

/* Where each tensor lies: aligned, inside the file, not on top of another. Until now data_offset
 * was what the file says, relative to the data section; from here on it counts from the start. */
bool gguf_place_tensors(gguf *self, gguf_error *error)
{
    uint64_t available = self->data_start < self->size ? self->size - self->data_start : 0;
    uint64_t i, needed = 0;
    const gguf_tensor *first = NULL;
    for (i = 0; i < self->tensor_count; i++) {
        gguf_tensor *tensor = &self->tensors[i];
        uint64_t end;
        if (tensor->data_offset % self->alignment != 0)
            return fail_tensor(
                error, tensor, "its data offset %llu is not a multiple of the alignment %llu",
                (unsigned long long)tensor->data_offset, (unsigned long long)self->alignment);
        if (!tenon_add_u64(tensor->data_offset, covered(tensor), &end) ||
            !tenon_add_u64(end, self->data_start, &end))
            return fail_tensor(error, tensor, "its data offset %llu overflows with its size %llu",
                               (unsigned long long)tensor->data_offset,
                               (unsigned long long)tensor->bytes);
        if (tensor->data_offset > available || covered(tensor) > available - tensor->data_offset) {
            if (first == NULL) first = tensor;
            if (end > needed) needed = end;
        }
        tensor->data_offset += self->data_start;
    }
    if (first != NULL)
        return fail_tensor(
            error, first,
            "its data ends past the end: a file of at least %llu bytes is needed, it "
            "has %llu: truncated or damaged",
            (unsigned long long)needed, (unsigned long long)self->size);
    return check_overlap(self, error);
}

/* Turns the offsets of a parsed file into pointers. */
static void set_pointers(gguf *self, const uint8_t *base)
{
    uint64_t i;
    self->base = base;
    for (i = 0; i < self->key_count; i++) self->keys[i].data = base + (uintptr_t)self->keys[i].data;
    for (i = 0; i < self->tensor_count; i++)
        if (self->tensors[i].bytes != 0)
            self->tensors[i].data = base + self->tensors[i].data_offset;
}

gguf *gguf_open_memory(const void *bytes, uint64_t size, gguf_error *error)
{
    gguf *self = calloc(1, sizeof *self);
    gguf_source *source = calloc(1, sizeof *source);
    if (self == NULL || source == NULL) {
        gguf_fail(error, "out of memory");
        goto fail;
    }
    source->fd = -1;
    source->memory = size > 0 ? bytes : (const uint8_t *)"";
    source->size = size;
    if (!gguf_parse(self, source, error)) goto fail;
    set_pointers(self, source->memory);
    free(source);
    return self;
fail:
    free(source);
    gguf_close(self);
    return NULL;
}

/* Opened without waiting, so that a FIFO cannot hang the tool. */
static int open_regular(const char *path, struct stat *state, gguf_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        gguf_fail(error, "cannot be opened: %s", strerror(errno));
        return -1;
    }
    if (fstat(fd, state) != 0) {
        gguf_fail(error, "cannot be examined: %s", strerror(errno));
    } else if (S_ISDIR(state->st_mode)) {
        gguf_fail(error, "is a directory");
    } else if (!S_ISREG(state->st_mode)) {
        gguf_fail(error, "is not a regular file");
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

gguf *gguf_open(const char *path, gguf_error *error)
{
    struct stat before, after;
    gguf *self = NULL;
    gguf_source *source = NULL;
    void *base = MAP_FAILED;
    bool good = false;
    int fd = open_regular(path, &before, error);
    if (fd < 0) return NULL;
    self = calloc(1, sizeof *self);
    source = calloc(1, sizeof *source);
    if (self == NULL || source == NULL) {
        gguf_fail(error, "out of memory");
        goto out;
    }
    source->fd = fd;
    source->size = (uint64_t)before.st_size;
    if (!gguf_parse(self, source, error)) goto out;
    base = mmap(NULL, (size_t)source->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) {
        gguf_fail(error, "cannot be mapped: %s", strerror(errno));
        goto out;
    }
    self->base = base;
    self->mapped = true;
    terminal_mapping(base, source->size, path);
    /* what was checked through the descriptor must be what is mapped now */
    if (fstat(fd, &after) != 0 || !same_file(&before, &after)) {
        gguf_fail(error, "was changed by somebody while it was read");
        goto out;
    }
    set_pointers(self, base);
    good = true;
out:
    close(fd);
    free(source);
    if (good) return self;
    gguf_close(self);
    return NULL;
}

void gguf_close(gguf *self)
{
    uint64_t i;
    if (self == NULL) return;
    if (self->mapped) {
        terminal_mapping_end(self->base);
        munmap((void *)(uintptr_t)self->base, (size_t)self->size);
    }
    for (i = 0; i < self->key_count; i++) free((void *)(uintptr_t)self->keys[i].name);
    free(self->keys);
    free(self->key_index);
    free(self->tensors);
    free(self->tensor_index);
    free(self);
}

bool gguf_is_model(const char *path)
{
    struct stat state;
    char magic[4];
    ssize_t n;
    int fd = open_regular(path, &state, NULL);
    if (fd < 0) return false;
    n = pread(fd, magic, sizeof magic, 0);
    close(fd);
    return n == (ssize_t)sizeof magic &&
           (memcmp(magic, "GGUF", sizeof magic) == 0 || memcmp(magic, "FUGG", sizeof magic) == 0);
}
