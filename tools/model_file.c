#include "model_file.h"

#include <string.h>

static bool value(const void *context, const char *name, model_value *out)
{
    const gguf_key *key = gguf_find_key(context, name);
    double real;
    uint64_t integer;
    if (key == NULL) return false;
    memset(out, 0, sizeof *out);
    out->kind = MODEL_OTHER;
    out->type_name = gguf_value_type_name(key->type);
    if (key->type == GGUF_STRING) {
        out->kind = MODEL_TEXT;
        out->text = (const char *)key->data;
        out->length = key->bytes;
    } else if (key->type == GGUF_BOOL) {
        out->kind = MODEL_BOOL;
        out->integer = key->data[0] != 0;
    } else if (key->type != GGUF_ARRAY && gguf_element_f64(key, 0, &real)) {
        out->kind = MODEL_REAL;
        out->real = real;
    } else if (key->type != GGUF_ARRAY && gguf_element_u64(key, 0, &integer)) {
        out->kind = MODEL_INTEGER;
        out->integer = integer;
    }
    return true;
}

static void convert(const gguf_tensor *from, model_tensor *out)
{
    memset(out, 0, sizeof *out);
    out->name = from->name;
    out->format = from->format;
    out->type_name = from->type_name;
    out->dimensions = from->dimensions;
    memcpy(out->shape, from->shape, sizeof out->shape);
    out->data = from->data;
    out->bytes = from->bytes;
}

static bool tensor(const void *context, const char *name, model_tensor *out)
{
    const gguf_tensor *found = gguf_find_tensor(context, name);
    if (found == NULL) return false;
    convert(found, out);
    return true;
}

static void tensor_at(const void *context, uint64_t index, model_tensor *out)
{
    convert(gguf_tensor_at(context, index), out);
}

void model_file_source(const gguf *file, model_source *out)
{
    memset(out, 0, sizeof *out);
    out->context = file;
    out->value = value;
    out->tensor = tensor;
    out->tensor_count = gguf_tensor_count(file);
    out->tensor_at = tensor_at;
    out->lifetime = TENON_LIFETIME_STABLE_FILE;
}

bool model_file_find_bad(const gguf *file, gguf_error *error)
{
    uint64_t i, block;
    for (i = 0; i < gguf_tensor_count(file); i++)
        if (!gguf_check_data(gguf_tensor_at(file, i), &block, error)) return true;
    return false;
}
