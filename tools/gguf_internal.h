/* Shared by the files of the GGUF reader; not for others. */
#ifndef TENON_TOOLS_GGUF_INTERNAL_H
#define TENON_TOOLS_GGUF_INTERNAL_H

#include "gguf.h"

/* More than any model has; they keep a hostile file from making the reader work for hours. */
#define GGUF_KEYS_LIMIT 65536u
#define GGUF_TENSORS_LIMIT 262144u
#define GGUF_KEY_NAME_LIMIT 65535u
#define GGUF_ALIGNMENT_LIMIT (1u << 20)
#define GGUF_ARRAY_DEPTH 4u

/* What a type number of the file means. block_bytes 0: unknown or retired. */
typedef struct gguf_type {
    const char *name;
    uint32_t known;  /* GGUF_TYPE_* */
    uint32_t format; /* TENON_FORMAT_* */
    uint32_t block_inputs, block_bytes;
} gguf_type;

gguf_type gguf_type_of(uint32_t number);

/* Bytes of a scalar of a value type, 0 for strings, arrays and unknown types. */
uint32_t gguf_value_size(uint32_t type);

/* A name and where it stands, sorted by name for look-up and for finding duplicates. */
typedef struct gguf_index {
    const char *name;
    uint64_t position;
} gguf_index;

struct gguf {
    uint32_t version;
    uint64_t alignment, size;
    const uint8_t *base; /* the file's bytes */
    bool mapped;         /* base is ours to unmap */
    gguf_key *keys;
    gguf_index *key_index;
    uint64_t key_count, key_capacity;
    gguf_tensor *tensors;
    gguf_index *tensor_index;
    uint64_t tensor_count, tensor_capacity;
    uint64_t data_start; /* offset of the data section in the file */
};

/* Fills error (which may be NULL) with one line. Always returns false. */
bool gguf_fail(gguf_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Where the reader reads from before anything is mapped. */
typedef struct gguf_source {
    int fd;                /* or memory */
    const uint8_t *memory; /* NULL: fd */
    uint64_t size, position;
    uint64_t window_start, window_length;
    uint8_t window[16384];
} gguf_source;

/* Header, keys and tensor records of the file, all checked except for what tensors hold; then
 * sizes, order and overlap of the data. Fills self; data pointers are set when the file is mapped,
 * until then data of keys and tensors is NULL. */
bool gguf_parse(gguf *self, gguf_source *source, gguf_error *error);
bool gguf_place_tensors(gguf *self, gguf_error *error);

#endif
