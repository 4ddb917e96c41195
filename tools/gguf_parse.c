/* GGUF reader: from bytes to records. Nothing is mapped yet and nothing in the file is believed:
 * every length is held against the bytes that are left before it is used. */
#include "gguf_internal.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <tenon/format.h>
#include <unistd.h>

/* Smallest records there can be: they bound the counts by the size of the file. */
#define KEY_RECORD_MINIMUM 13u    /* name length, type, one byte */
#define TENSOR_RECORD_MINIMUM 32u /* name length, dimensions, one of them, type, offset */

typedef struct parser {
    gguf *file;
    gguf_source *source;
    gguf_error *error;
    char what[200]; /* "key 'general.name' at offset 24", for errors */
} parser;

static void set_what(parser *self, const char *kind, uint64_t position, const char *name,
                     size_t length, uint64_t offset)
{
    char shown[140];
    if (name != NULL)
        snprintf(self->what, sizeof self->what, "%s '%s' at offset %llu", kind,
                 text_escape(shown, sizeof shown, name, length), (unsigned long long)offset);
    else
        snprintf(self->what, sizeof self->what, "%s %llu at offset %llu", kind,
                 (unsigned long long)position, (unsigned long long)offset);
}

static uint64_t bytes_left(const parser *self)
{
    return self->source->size - self->source->position;
}

/* The record wants more bytes than the file has: a cut file, or a length that lies. */
static bool fail_short(parser *self, const char *part, uint64_t bytes)
{
    uint64_t needed;
    if (!tenon_add_u64(self->source->position, bytes, &needed)) needed = UINT64_MAX;
    return gguf_fail(self->error,
                     "%s: %s of %llu bytes needs a file of at least %llu bytes, it has %llu: "
                     "truncated or damaged",
                     self->what, part, (unsigned long long)bytes, (unsigned long long)needed,
                     (unsigned long long)self->source->size);
}

/* Reads exactly bytes, which were checked to be there. */
static bool read_checked(parser *self, void *out, uint64_t bytes)
{
    gguf_source *s = self->source;
    uint8_t *to = out;
    if (s->memory != NULL) {
        if (bytes > 0) memcpy(to, s->memory + s->position, (size_t)bytes);
        s->position += bytes;
        return true;
    }
    while (bytes > 0) {
        uint64_t skip, take;
        if (s->position < s->window_start || s->position >= s->window_start + s->window_length) {
            ssize_t n;
            do {
                n = pread(s->fd, s->window, sizeof s->window, (off_t)s->position);
            } while (n < 0 && errno == EINTR);
            if (n < 0)
                return gguf_fail(self->error, "%s: cannot be read: %s", self->what,
                                 strerror(errno));
            if (n == 0)
                return gguf_fail(self->error, "%s: the file became shorter while it was read",
                                 self->what);
            s->window_start = s->position;
            s->window_length = (uint64_t)n;
        }
        skip = s->position - s->window_start;
        take = s->window_length - skip < bytes ? s->window_length - skip : bytes;
        memcpy(to, s->window + skip, (size_t)take);
        to += take;
        s->position += take;
        bytes -= take;
    }
    return true;
}

static bool read_bytes(parser *self, const char *part, void *out, uint64_t bytes)
{
    if (bytes > bytes_left(self)) return fail_short(self, part, bytes);
    return read_checked(self, out, bytes);
}

static bool skip_bytes(parser *self, const char *part, uint64_t bytes)
{
    if (bytes > bytes_left(self)) return fail_short(self, part, bytes);
    self->source->position += bytes;
    return true;
}

static uint32_t u32_of(const uint8_t *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint64_t u64_of(const uint8_t *b)
{
    return (uint64_t)u32_of(b) | (uint64_t)u32_of(b + 4) << 32;
}

static bool read_u32(parser *self, const char *part, uint32_t *out)
{
    uint8_t bytes[4];
    if (!read_bytes(self, part, bytes, sizeof bytes)) return false;
    *out = u32_of(bytes);
    return true;
}

static bool read_u64(parser *self, const char *part, uint64_t *out)
{
    uint8_t bytes[8];
    if (!read_bytes(self, part, bytes, sizeof bytes)) return false;
    *out = u64_of(bytes);
    return true;
}

/* Room for one more element; doubles, so memory follows what was read. */
static bool grow(void **array, uint64_t count, uint64_t *capacity, size_t size)
{
    uint64_t wanted;
    void *more;
    if (count < *capacity) return true;
    wanted = *capacity == 0 ? 16 : *capacity * 2;
    more = realloc(*array, (size_t)wanted * size); /* count is below 2^18, size a few hundred */
    if (more == NULL) return false;
    *array = more;
    *capacity = wanted;
    return true;
}

/* A count of records, each of at least so many bytes, against the bytes left and the limit. */
static bool check_count(parser *self, const char *name, uint32_t offset, uint64_t count,
                        uint32_t limit, uint32_t record)
{
    uint64_t needed = UINT64_MAX;
    if (count > bytes_left(self) / record) {
        if (!tenon_mul_u64(count, record, &needed) || !tenon_add_u64(needed, 24, &needed))
            needed = UINT64_MAX;
        return gguf_fail(self->error,
                         "%s %llu at offset %lu needs a file of at least %llu bytes, it has %llu: "
                         "truncated or damaged",
                         name, (unsigned long long)count, (unsigned long)offset,
                         (unsigned long long)needed, (unsigned long long)self->source->size);
    }
    if (count > limit)
        return gguf_fail(self->error, "%s %llu at offset %lu is above this reader's limit of %lu",
                         name, (unsigned long long)count, (unsigned long)offset,
                         (unsigned long)limit);
    return true;
}

static bool read_head(parser *self, uint64_t *keys, uint64_t *tensors)
{
    uint8_t magic[4], bytes[4];
    uint32_t version, swapped;
    set_what(self, "header", 0, "GGUF", 4, 0);
    if (self->source->size < 24) {
        uint64_t n = self->source->size < 4 ? self->source->size : 4;
        if (!read_checked(self, magic, n)) return false;
        if (n > 0 && memcmp(magic, "GGUF", (size_t)n) != 0)
            return gguf_fail(self->error, "no GGUF file: it does not begin with 'GGUF'");
        return gguf_fail(self->error,
                         "%s: needs a file of at least 24 bytes, it has %llu: truncated",
                         self->what, (unsigned long long)self->source->size);
    }
    if (!read_checked(self, magic, sizeof magic)) return false;
    if (memcmp(magic, "FUGG", 4) == 0)
        return gguf_fail(self->error, "the magic is reversed ('FUGG'): a file of the other byte "
                                      "order, not supported");
    if (memcmp(magic, "GGUF", 4) != 0)
        return gguf_fail(self->error, "no GGUF file: it does not begin with 'GGUF'");
    if (!read_checked(self, bytes, sizeof bytes)) return false;
    version = u32_of(bytes);
    swapped = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
              (uint32_t)bytes[3];
    if (version > 0xFFFFu && swapped <= 0xFFFFu)
        return gguf_fail(self->error,
                         "big-endian GGUF file (version bytes %02x %02x %02x %02x at offset 4), "
                         "not supported",
                         bytes[0], bytes[1], bytes[2], bytes[3]);
    if (version != 2 && version != 3)
        return gguf_fail(self->error, "GGUF version %lu at offset 4 is not supported (2 and 3 are)",
                         (unsigned long)version);
    self->file->version = version;
    if (!read_u64(self, "tensor count", tensors) || !read_u64(self, "key count", keys))
        return false;
    return check_count(self, "key count", 16, *keys, GGUF_KEYS_LIMIT, KEY_RECORD_MINIMUM) &&
           check_count(self, "tensor count", 8, *tensors, GGUF_TENSORS_LIMIT,
                       TENSOR_RECORD_MINIMUM);
}

/* Bools hold 0 or 1; anything else means that the reader lost its place. */
static bool check_bools(parser *self, uint64_t count)
{
    uint8_t some[256];
    while (count > 0) {
        uint64_t n = count < sizeof some ? count : sizeof some, i;
        if (!read_bytes(self, "value", some, n)) return false;
        for (i = 0; i < n; i++)
            if (some[i] > 1)
                return gguf_fail(self->error, "%s: a bool holds %u, neither 0 nor 1", self->what,
                                 some[i]);
        count -= n;
    }
    return true;
}

static uint64_t saturated(uint64_t count, uint64_t size)
{
    uint64_t bytes;
    return tenon_mul_u64(count, size, &bytes) ? bytes : UINT64_MAX;
}

/* Steps over count values of one type, checking that all of them are there. */
static bool skip_values(parser *self, uint32_t type, uint64_t count, uint32_t depth)
{
    uint64_t bytes, i;
    uint32_t size = gguf_value_size(type);
    if (type == GGUF_BOOL) {
        if (count > bytes_left(self)) return fail_short(self, "value", count);
        return check_bools(self, count);
    }
    if (size != 0) return skip_bytes(self, "value", saturated(count, size));
    if (type == GGUF_STRING) {
        if (count > bytes_left(self) / 8)
            return fail_short(self, "array of strings", saturated(count, 8));
        for (i = 0; i < count; i++)
            if (!read_u64(self, "string length", &bytes) || !skip_bytes(self, "string", bytes))
                return false;
        return true;
    }
    if (type == GGUF_ARRAY) {
        if (depth >= GGUF_ARRAY_DEPTH)
            return gguf_fail(self->error, "%s: arrays are nested more than %u deep", self->what,
                             GGUF_ARRAY_DEPTH);
        if (count > bytes_left(self) / 12)
            return fail_short(self, "array of arrays", saturated(count, 12));
        for (i = 0; i < count; i++) {
            uint32_t inner;
            if (!read_u32(self, "element type", &inner) || !read_u64(self, "array count", &bytes) ||
                !skip_values(self, inner, bytes, depth + 1))
                return false;
        }
        return true;
    }
    return gguf_fail(self->error, "%s: value type %lu is unknown", self->what, (unsigned long)type);
}

static bool read_key(parser *self, uint64_t position)
{
    gguf *file = self->file;
    gguf_key *key;
    uint64_t length;
    char *name;
    uint64_t start = self->source->position;
    void *array = file->keys;
    set_what(self, "key", position, NULL, 0, start);
    if (!grow(&array, file->key_count, &file->key_capacity, sizeof *file->keys))
        return gguf_fail(self->error, "%s: out of memory", self->what);
    file->keys = array;
    if (!read_u64(self, "name length", &length)) return false;
    if (length > bytes_left(self)) return fail_short(self, "name", length);
    if (length > GGUF_KEY_NAME_LIMIT)
        return gguf_fail(self->error, "%s: a name of %llu bytes is longer than %u", self->what,
                         (unsigned long long)length, GGUF_KEY_NAME_LIMIT);
    name = malloc((size_t)length + 1);
    if (name == NULL) return gguf_fail(self->error, "%s: out of memory", self->what);
    key = &file->keys[file->key_count++]; /* owns the name from here on */
    memset(key, 0, sizeof *key);
    key->name = name;
    key->offset = start;
    name[0] = '\0';
    if (!read_checked(self, name, length)) return false;
    name[length] = '\0';
    if (length == 0) return gguf_fail(self->error, "%s: the name is empty", self->what);
    if (memchr(name, '\0', (size_t)length) != NULL)
        return gguf_fail(self->error, "%s: the name holds a zero byte", self->what);
    set_what(self, "key", position, name, (size_t)length, start);
    if (!read_u32(self, "value type", &key->type)) return false;
    key->element_type = key->type;
    key->count = 1;
    if (key->type == GGUF_STRING) {
        if (!read_u64(self, "string length", &key->bytes)) return false;
        key->data = NULL;
        start = self->source->position;
        if (!skip_bytes(self, "string", key->bytes)) return false;
    } else {
        if (key->type == GGUF_ARRAY && (!read_u32(self, "element type", &key->element_type) ||
                                        !read_u64(self, "array count", &key->count)))
            return false;
        start = self->source->position;
        if (key->type == GGUF_ARRAY && key->element_type > GGUF_F64)
            return gguf_fail(self->error, "%s: array element type %lu is unknown", self->what,
                             (unsigned long)key->element_type);
        if (!skip_values(self, key->element_type, key->count, key->type == GGUF_ARRAY ? 1 : 0))
            return false;
        key->bytes = self->source->position - start;
    }
    /* an offset for now; gguf_open turns it into a pointer once the file is mapped */
    key->data = (const uint8_t *)(uintptr_t)start;
    return true;
}

static bool read_tensor(parser *self, uint64_t position)
{
    gguf *file = self->file;
    gguf_tensor *tensor;
    gguf_type type;
    uint64_t length, i, elements = 1;
    void *array = file->tensors;
    uint64_t start = self->source->position;
    set_what(self, "tensor", position, NULL, 0, start);
    if (!grow(&array, file->tensor_count, &file->tensor_capacity, sizeof *file->tensors))
        return gguf_fail(self->error, "%s: out of memory", self->what);
    file->tensors = array;
    if (!read_u64(self, "name length", &length)) return false;
    if (length > bytes_left(self)) return fail_short(self, "name", length);
    if (length > GGUF_NAME_LENGTH)
        return gguf_fail(self->error, "%s: a name of %llu bytes is longer than %u", self->what,
                         (unsigned long long)length, GGUF_NAME_LENGTH);
    tensor = &file->tensors[file->tensor_count];
    memset(tensor, 0, sizeof *tensor);
    tensor->header_offset = start;
    if (!read_checked(self, tensor->name, length)) return false;
    if (length == 0) return gguf_fail(self->error, "%s: the name is empty", self->what);
    if (memchr(tensor->name, '\0', (size_t)length) != NULL)
        return gguf_fail(self->error, "%s: the name holds a zero byte", self->what);
    set_what(self, "tensor", position, tensor->name, (size_t)length, start);
    if (!read_u32(self, "dimension count", &tensor->dimensions)) return false;
    if (tensor->dimensions < 1 || tensor->dimensions > GGUF_MAX_DIMENSIONS)
        return gguf_fail(self->error, "%s: %lu dimensions, only 1 to %u are possible", self->what,
                         (unsigned long)tensor->dimensions, GGUF_MAX_DIMENSIONS);
    for (i = 0; i < GGUF_MAX_DIMENSIONS; i++) {
        tensor->shape[i] = 1;
        if (i < tensor->dimensions && !read_u64(self, "dimension", &tensor->shape[i])) return false;
        if (tensor->shape[i] == 0) elements = 0;
    }
    for (i = 0; elements != 0 && i < GGUF_MAX_DIMENSIONS; i++)
        if (!tenon_mul_u64(elements, tensor->shape[i], &elements))
            return gguf_fail(
                self->error, "%s: the product of its dimensions (%llu, %llu, %llu, %llu) overflows",
                self->what, (unsigned long long)tensor->shape[0],
                (unsigned long long)tensor->shape[1], (unsigned long long)tensor->shape[2],
                (unsigned long long)tensor->shape[3]);
    if (!read_u32(self, "type", &tensor->type) || !read_u64(self, "offset", &tensor->data_offset))
        return false;
    type = gguf_type_of(tensor->type);
    tensor->known = type.known;
    tensor->format = type.format;
    tensor->type_name = type.name;
    tensor->cols = tensor->shape[0];
    tensor->rows = elements == 0 ? 0 : elements / tensor->cols;
    if (elements != 0 && type.block_bytes != 0) {
        if (tensor->cols % type.block_inputs != 0)
            return gguf_fail(self->error,
                             "%s: rows of %llu inputs are not a whole number of %s blocks of %lu",
                             self->what, (unsigned long long)tensor->cols, type.name,
                             (unsigned long)type.block_inputs);
        if (!tenon_mul_u64(elements / type.block_inputs, type.block_bytes, &tensor->bytes))
            return gguf_fail(self->error, "%s: its size in bytes overflows", self->what);
    }
    file->tensor_count++;
    return true;
}

static int compare_index(const void *a, const void *b)
{
    const gguf_index *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order != 0) return order;
    return x->position < y->position ? -1 : 1;
}

/* Sorts an index by name and refuses two of one name. Sorting, unlike hashing, cannot be made
 * slow by a file that was written to do so. */
static bool sort_index(gguf_index *index, uint64_t count, const char *kind, gguf_error *error)
{
    uint64_t i;
    char shown[140];
    if (count > 1) qsort(index, (size_t)count, sizeof *index, compare_index);
    for (i = 1; i < count; i++)
        if (strcmp(index[i - 1].name, index[i].name) == 0)
            return gguf_fail(error, "%s '%s' occurs twice, as number %llu and number %llu", kind,
                             text_escape(shown, sizeof shown, index[i].name, strlen(index[i].name)),
                             (unsigned long long)index[i - 1].position,
                             (unsigned long long)index[i].position);
    return true;
}

static bool build_indexes(gguf *self, gguf_error *error)
{
    uint64_t i;
    self->key_index = calloc((size_t)self->key_count + 1, sizeof *self->key_index);
    self->tensor_index = calloc((size_t)self->tensor_count + 1, sizeof *self->tensor_index);
    if (self->key_index == NULL || self->tensor_index == NULL)
        return gguf_fail(error, "out of memory");
    for (i = 0; i < self->key_count; i++) self->key_index[i] = (gguf_index){self->keys[i].name, i};
    for (i = 0; i < self->tensor_count; i++)
        self->tensor_index[i] = (gguf_index){self->tensors[i].name, i};
    return sort_index(self->key_index, self->key_count, "key", error) &&
           sort_index(self->tensor_index, self->tensor_count, "tensor", error);
}

/* general.alignment, where the file has one; a u32 that is a multiple of 8 (SPEC.md 3.3). */
static bool read_alignment(parser *self)
{
    gguf *file = self->file;
    uint64_t i;
    uint32_t value;
    file->alignment = 32;
    for (i = 0; i < file->key_count; i++) {
        const gguf_key *key = &file->keys[i];
        if (strcmp(key->name, "general.alignment") != 0) continue;
        set_what(self, "key", i, key->name, strlen(key->name), key->offset);
        if (key->type != GGUF_U32)
            return gguf_fail(self->error, "%s: is a %s, must be a u32", self->what,
                             gguf_value_type_name(key->type));
        self->source->position = (uint64_t)(uintptr_t)key->data;
        if (!read_u32(self, "value", &value)) return false;
        if (value == 0 || value % 8 != 0 || value > GGUF_ALIGNMENT_LIMIT)
            return gguf_fail(self->error,
                             "%s: %lu is no alignment, it must be a multiple of 8 up to %u",
                             self->what, (unsigned long)value, GGUF_ALIGNMENT_LIMIT);
        file->alignment = value;
    }
    return true;
}

bool gguf_parse(gguf *self, gguf_source *source, gguf_error *error)
{
    parser parse;
    uint64_t keys = 0, tensors = 0, i, end;
    memset(&parse, 0, sizeof parse);
    parse.file = self;
    parse.source = source;
    parse.error = error;
    self->size = source->size;
    if (!read_head(&parse, &keys, &tensors)) return false;
    for (i = 0; i < keys; i++)
        if (!read_key(&parse, i)) return false;
    for (i = 0; i < tensors; i++)
        if (!read_tensor(&parse, i)) return false;
    end = source->position;
    if (!build_indexes(self, error) || !read_alignment(&parse)) return false;
    /* end is at most the file size and the alignment small: no overflow below 2^63 bytes */
    self->data_start = tenon_ceil_div_u64(end, self->alignment) * self->alignment;
    return gguf_place_tensors(self, error);
}
