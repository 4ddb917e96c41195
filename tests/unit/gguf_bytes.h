/* Builds GGUF files byte by byte, right ones and wrong ones, for tests. */
#ifndef TENON_TESTS_GGUF_BYTES_H
#define TENON_TESTS_GGUF_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct byte_list {
    uint8_t *data;
    size_t size, capacity;
} byte_list;

static inline void bytes_add(byte_list *self, const void *from, size_t count)
{
    if (self->size + count > self->capacity) {
        self->capacity = (self->size + count) * 2;
        self->data = realloc(self->data, self->capacity);
        if (self->data == NULL) abort();
    }
    if (count > 0) memcpy(self->data + self->size, from, count);
    self->size += count;
}

static inline void bytes_number(byte_list *self, uint64_t value, size_t count)
{
    uint8_t out[8];
    size_t i;
    for (i = 0; i < count; i++) out[i] = (uint8_t)(value >> (8 * i));
    bytes_add(self, out, count);
}

static inline void bytes_u32(byte_list *self, uint64_t value)
{
    bytes_number(self, value, 4);
}

static inline void bytes_u64(byte_list *self, uint64_t value)
{
    bytes_number(self, value, 8);
}

static inline void bytes_string(byte_list *self, const char *text)
{
    bytes_u64(self, strlen(text));
    bytes_add(self, text, strlen(text));
}

static inline void bytes_zeros(byte_list *self, size_t count)
{
    while (count-- > 0) bytes_number(self, 0, 1);
}

static inline void bytes_align(byte_list *self, size_t alignment)
{
    while (self->size % alignment != 0) bytes_number(self, 0, 1);
}

static inline void bytes_free(byte_list *self)
{
    free(self->data);
    memset(self, 0, sizeof *self);
}

static inline void gguf_head(byte_list *self, uint64_t tensors, uint64_t keys)
{
    bytes_add(self, "GGUF", 4);
    bytes_u32(self, 3);
    bytes_u64(self, tensors);
    bytes_u64(self, keys);
}

static inline void gguf_key_u32(byte_list *self, const char *name, uint32_t value)
{
    bytes_string(self, name);
    bytes_u32(self, 4);
    bytes_u32(self, value);
}

static inline void gguf_key_text(byte_list *self, const char *name, const char *value)
{
    bytes_string(self, name);
    bytes_u32(self, 8);
    bytes_string(self, value);
}

/* A tensor record of two dimensions. */
static inline void gguf_matrix(byte_list *self, const char *name, uint64_t cols, uint64_t rows,
                               uint32_t type, uint64_t offset)
{
    bytes_string(self, name);
    bytes_u32(self, 2);
    bytes_u64(self, cols);
    bytes_u64(self, rows);
    bytes_u32(self, type);
    bytes_u64(self, offset);
}

#endif
