/* Reader of GGUF model files, version 2 and 3, little-endian (SPEC.md 3.3).
 *
 * Trusts nothing: every count, length, offset and product is checked against the file before it is
 * used, memory grows with what was really read and never with what a count claims, and the file is
 * mapped only after all checks passed. Errors are one line that names the key or tensor and the
 * offset in the file.
 *
 * A file that is cut by somebody while it is mapped cannot be guarded against by any reader: the
 * tools name the file and end (terminal.h). An opened file is read-only; any thread may use it. */
#ifndef TENON_TOOLS_GGUF_H
#define TENON_TOOLS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/types.h>

#define GGUF_NAME_LENGTH 64u /* longest tensor name, bytes */
#define GGUF_MAX_DIMENSIONS 4u

/* Types of key values, by the numbers of the file format. */
enum {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12
};

/* What is known about a tensor's type number. */
enum {
    GGUF_TYPE_OFFERED = 1, /* a format of SPEC.md section 3: format is set */
    GGUF_TYPE_OTHER = 2,   /* a current type that Tenon does not multiply with */
    GGUF_TYPE_RETIRED = 3, /* removed from the file format: its bytes have no meaning any more */
    GGUF_TYPE_UNKNOWN = 4  /* a hole in the table, or newer than this reader */
};

typedef struct gguf_error {
    char text[400]; /* UTF-8, one line, foreign bytes escaped */
} gguf_error;

typedef struct gguf_key {
    const char *name;      /* NUL-terminated, no NUL inside; bytes of the file otherwise */
    uint32_t type;         /* GGUF_U8 ... */
    uint32_t element_type; /* of an array, else the same as type */
    uint64_t count;        /* elements of an array, else 1 */
    const uint8_t *data;   /* in the mapping, any alignment: a scalar, the bytes of a string, or the
                              elements of an array (strings: u64 length and bytes, each) */
    uint64_t bytes;        /* at data */
    uint64_t offset;       /* of the key's record in the file */
} gguf_key;

typedef struct gguf_tensor {
    char name[GGUF_NAME_LENGTH + 1];     /* NUL-terminated, no NUL inside */
    uint32_t type;                       /* the file's number */
    uint32_t known;                      /* GGUF_TYPE_* */
    uint32_t format;                     /* TENON_FORMAT_*, NONE unless OFFERED */
    uint32_t dimensions;                 /* 1 to 4 */
    const char *type_name;               /* "Q4_1", "IQ2_XS", "Q4_2 (retired)", "unknown" */
    uint64_t shape[GGUF_MAX_DIMENSIONS]; /* fastest first, unused ones 1 */
    uint64_t cols;                       /* inputs: shape[0] */
    uint64_t rows;        /* the product of the others, 0 when there are no elements */
    const void *data;     /* in the mapping; NULL without elements, or when the size is not known */
    uint64_t bytes;       /* of the data; 0 likewise */
    uint64_t data_offset; /* of the data in the file */
    uint64_t header_offset; /* of the tensor's record in the file */
} gguf_tensor;

typedef struct gguf gguf;

/* Opens, checks and maps a file. Returns NULL and fills *error when it is refused. Only regular
 * files; a FIFO or device is refused without waiting. */
gguf *gguf_open(const char *path, gguf_error *error);
/* The same over bytes in memory, which must outlive the result. */
gguf *gguf_open_memory(const void *bytes, uint64_t size, gguf_error *error);
/* Unmaps and frees. NULL is allowed. */
void gguf_close(gguf *self);

/* Does the file begin with the magic of GGUF (or its mirror image)? For telling file kinds apart;
 * false as well when it cannot be read. */
bool gguf_is_model(const char *path);

uint32_t gguf_version(const gguf *self);
uint64_t gguf_alignment(const gguf *self);
uint64_t gguf_file_size(const gguf *self);

/* Keys and tensors in file order; index < count. Pointers live until close. */
uint64_t gguf_key_count(const gguf *self);
const gguf_key *gguf_key_at(const gguf *self, uint64_t index);
uint64_t gguf_tensor_count(const gguf *self);
const gguf_tensor *gguf_tensor_at(const gguf *self, uint64_t index);
/* By name, NULL when there is none. */
const gguf_key *gguf_find_key(const gguf *self, const char *name);
const gguf_tensor *gguf_find_tensor(const gguf *self, const char *name);

/* Typed access: false, with *error naming the key, what it is and what was wanted, when the key is
 * missing or of another type. Integers of any width are accepted where their value fits. */
bool gguf_get_u64(const gguf *self, const char *name, uint64_t *out, gguf_error *error);
bool gguf_get_f64(const gguf *self, const char *name, double *out, gguf_error *error);
bool gguf_get_bool(const gguf *self, const char *name, bool *out, gguf_error *error);
/* *text is not NUL-terminated. */
bool gguf_get_string(const gguf *self, const char *name, const char **text, uint64_t *length,
                     gguf_error *error);
/* An array of exactly this element type; expected_count UINT64_MAX: any count. */
bool gguf_get_array(const gguf *self, const char *name, uint32_t element_type,
                    uint64_t expected_count, const gguf_key **out, gguf_error *error);
/* Walks an array of strings: *cursor begins at 0, false after the last. */
bool gguf_next_string(const gguf_key *array, uint64_t *cursor, const char **text, uint64_t *length);

/* A scalar, or element index of an array of numbers or bools, widened. index < count; false for
 * other types. */
bool gguf_element_i64(const gguf_key *key, uint64_t index, int64_t *out);  /* not U64, floats */
bool gguf_element_u64(const gguf_key *key, uint64_t index, uint64_t *out); /* not negative ones */
bool gguf_element_f64(const gguf_key *key, uint64_t index, double *out);   /* F32, F64 */

/* "u32", "string", ...; "unknown" for other numbers. */
const char *gguf_value_type_name(uint32_t type);

/* Can this tensor be a weight of a matrix product: a format of ours, elements, 2 dimensions or
 * more? Otherwise false, and *error (may be NULL) says why. */
bool gguf_tensor_usable(const gguf_tensor *tensor, gguf_error *error);
/* Are all tensors of types this reader knows the size of? Otherwise false, and *error names the
 * first tensor of a retired or unknown type, with a hint: such a file is refused for computing. */
bool gguf_types_known(const gguf *self, gguf_error *error);

/* Looks at the scales of every block of a tensor (values of float formats). Returns true when all
 * are finite; else *block is the first block (counted over the whole tensor) with one that is not,
 * and *error names it. Tensors without data or of other types are fine. */
bool gguf_check_data(const gguf_tensor *tensor, uint64_t *block, gguf_error *error);

#endif
