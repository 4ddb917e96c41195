/* GGUF reader: what an opened file answers. */
#include "gguf.h"
#include "gguf_internal.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

uint32_t gguf_version(const gguf *self)
{
    return self->version;
}

uint64_t gguf_alignment(const gguf *self)
{
    return self->alignment;
}

uint64_t gguf_file_size(const gguf *self)
{
    return self->size;
}

uint64_t gguf_key_count(const gguf *self)
{
    return self->key_count;
}

const gguf_key *gguf_key_at(const gguf *self, uint64_t index)
{
    return index < self->key_count ? &self->keys[index] : NULL;
}

uint64_t gguf_tensor_count(const gguf *self)
{
    return self->tensor_count;
}

const gguf_tensor *gguf_tensor_at(const gguf *self, uint64_t index)
{
    return index < self->tensor_count ? &self->tensors[index] : NULL;
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, ((const gguf_index *)entry)->name);
}

static const gguf_index *find(const gguf_index *index, uint64_t count, const char *name)
{
    if (count == 0) return NULL;
    return bsearch(name, index, (size_t)count, sizeof *index, compare_name);
}

const gguf_key *gguf_find_key(const gguf *self, const char *name)
{
    const gguf_index *entry = find(self->key_index, self->key_count, name);
    return entry != NULL ? &self->keys[entry->position] : NULL;
}

const gguf_tensor *gguf_find_tensor(const gguf *self, const char *name)
{
    const gguf_index *entry = find(self->tensor_index, self->tensor_count, name);
    return entry != NULL ? &self->tensors[entry->position] : NULL;
}

/* Element index of a key, as raw bits, zero-extended. */
static bool raw_element(const gguf_key *key, uint64_t index, uint64_t *out)
{
    uint32_t size = gguf_value_size(key->element_type), i;
    const uint8_t *at;
    if (size == 0 || index >= key->count) return false;
    at = key->data + index * size;
    *out = 0;
    for (i = 0; i < size; i++) *out |= (uint64_t)at[i] << (8 * i);
    return true;
}

bool gguf_element_i64(const gguf_key *key, uint64_t index, int64_t *out)
{
    uint64_t raw;
    if (!raw_element(key, index, &raw)) return false;
    switch (key->element_type) {
    case GGUF_U8:
    case GGUF_BOOL:
    case GGUF_U16:
    case GGUF_U32: *out = (int64_t)raw; return true;
    case GGUF_I8: *out = (int8_t)raw; return true;
    case GGUF_I16: *out = (int16_t)raw; return true;
    case GGUF_I32: *out = (int32_t)raw; return true;
    case GGUF_I64: *out = (int64_t)raw; return true;
    default: return false;
    }
}

bool gguf_element_u64(const gguf_key *key, uint64_t index, uint64_t *out)
{
    int64_t value;
    if (key->element_type == GGUF_U64) return raw_element(key, index, out);
    if (!gguf_element_i64(key, index, &value) || value < 0) return false;
    *out = (uint64_t)value;
    return true;
}

bool gguf_element_f64(const gguf_key *key, uint64_t index, double *out)
{
    uint64_t raw;
    if (!raw_element(key, index, &raw)) return false;
    if (key->element_type == GGUF_F32) {
        uint32_t bits = (uint32_t)raw;
        float value;
        memcpy(&value, &bits, sizeof value);
        *out = (double)value;
        return true;
    }
    if (key->element_type != GGUF_F64) return false;
    memcpy(out, &raw, sizeof *out);
    return true;
}

/* "key 'x' is ..., wanted ..." */
static bool fail_type(gguf_error *error, const gguf_key *key, const char *wanted)
{
    char name[140];
    text_escape(name, sizeof name, key->name, strlen(key->name));
    if (key->type == GGUF_ARRAY)
        return gguf_fail(error, "key '%s' at offset %llu is an array of %llu %s, wanted %s", name,
                         (unsigned long long)key->offset, (unsigned long long)key->count,
                         gguf_value_type_name(key->element_type), wanted);
    return gguf_fail(error, "key '%s' at offset %llu is a %s, wanted %s", name,
                     (unsigned long long)key->offset, gguf_value_type_name(key->type), wanted);
}

static const gguf_key *wanted_key(const gguf *self, const char *name, gguf_error *error)
{
    const gguf_key *key = gguf_find_key(self, name);
    if (key == NULL) gguf_fail(error, "key '%s' is missing", name);
    return key;
}

bool gguf_get_u64(const gguf *self, const char *name, uint64_t *out, gguf_error *error)
{
    const gguf_key *key = wanted_key(self, name, error);
    if (key == NULL) return false;
    if (key->type == GGUF_ARRAY || key->type == GGUF_BOOL || !gguf_element_u64(key, 0, out))
        return fail_type(error, key, "an integer that is not negative");
    return true;
}

bool gguf_get_f64(const gguf *self, const char *name, double *out, gguf_error *error)
{
    const gguf_key *key = wanted_key(self, name, error);
    if (key == NULL) return false;
    if (key->type == GGUF_ARRAY || !gguf_element_f64(key, 0, out))
        return fail_type(error, key, "an f32 or f64");
    return true;
}

bool gguf_get_bool(const gguf *self, const char *name, bool *out, gguf_error *error)
{
    const gguf_key *key = wanted_key(self, name, error);
    if (key == NULL) return false;
    if (key->type != GGUF_BOOL) return fail_type(error, key, "a bool");
    *out = key->data[0] != 0;
    return true;
}

bool gguf_get_string(const gguf *self, const char *name, const char **text, uint64_t *length,
                     gguf_error *error)
{
    const gguf_key *key = wanted_key(self, name, error);
    if (key == NULL) return false;
    if (key->type != GGUF_STRING) return fail_type(error, key, "a string");
    *text = (const char *)key->data;
    *length = key->bytes;
    return true;
}

bool gguf_get_array(const gguf *self, const char *name, uint32_t element_type,
                    uint64_t expected_count, const gguf_key **out, gguf_error *error)
{
    const gguf_key *key = wanted_key(self, name, error);
    char wanted[80];
    if (key == NULL) return false;
    if (key->type == GGUF_ARRAY && key->element_type == element_type &&
        (expected_count == UINT64_MAX || key->count == expected_count)) {
        *out = key;
        return true;
    }
    if (expected_count == UINT64_MAX)
        snprintf(wanted, sizeof wanted, "an array of %s", gguf_value_type_name(element_type));
    else
        snprintf(wanted, sizeof wanted, "an array of %llu %s", (unsigned long long)expected_count,
                 gguf_value_type_name(element_type));
    return fail_type(error, key, wanted);
}

bool gguf_next_string(const gguf_key *array, uint64_t *cursor, const char **text, uint64_t *length)
{
    uint64_t n = 0, i;
    if (array->type != GGUF_ARRAY || array->element_type != GGUF_STRING) return false;
    if (*cursor >= array->bytes) return false;
    /* the lengths were checked when the file was opened, but its bytes may have changed since */
    if (array->bytes - *cursor < 8) return false;
    for (i = 0; i < 8; i++) n |= (uint64_t)array->data[*cursor + i] << (8 * i);
    if (n > array->bytes - *cursor - 8) return false;
    *text = (const char *)array->data + *cursor + 8;
    *length = n;
    *cursor += 8 + n;
    return true;
}

bool gguf_tensor_usable(const gguf_tensor *tensor, gguf_error *error)
{
    char name[140];
    text_escape(name, sizeof name, tensor->name, strlen(tensor->name));
    if (tensor->known == GGUF_TYPE_RETIRED || tensor->known == GGUF_TYPE_UNKNOWN)
        return gguf_fail(error, "tensor '%s' at offset %llu has type %lu, %s: %s", name,
                         (unsigned long long)tensor->header_offset, (unsigned long)tensor->type,
                         tensor->type_name,
                         tensor->known == GGUF_TYPE_RETIRED
                             ? "convert the model anew with a current converter"
                             : "the file may be newer than this program");
    if (tensor->known != GGUF_TYPE_OFFERED)
        return gguf_fail(error, "tensor '%s' has type %s, which no provider multiplies with", name,
                         tensor->type_name);
    if (tensor->data == NULL) return gguf_fail(error, "tensor '%s' has no elements", name);
    if (tensor->dimensions < 2) return gguf_fail(error, "tensor '%s' has one dimension", name);
    return true;
}

bool gguf_types_known(const gguf *self, gguf_error *error)
{
    uint64_t i;
    for (i = 0; i < self->tensor_count; i++) {
        uint32_t known = self->tensors[i].known;
        if (known == GGUF_TYPE_RETIRED || known == GGUF_TYPE_UNKNOWN)
            return gguf_tensor_usable(&self->tensors[i], error);
    }
    return true;
}
