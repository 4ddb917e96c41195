/* Fuzz target: the GGUF reader over arbitrary bytes. What it accepts is then used the way the tools
 * use it: every key is read, every tensor's first and last byte and all scales are looked at. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tools/gguf.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void read_keys(const gguf *file)
{
    uint64_t i, e;
    for (i = 0; i < gguf_key_count(file); i++) {
        const gguf_key *key = gguf_key_at(file, i);
        const char *text;
        uint64_t cursor = 0, length, u;
        int64_t s;
        double d;
        if (gguf_find_key(file, key->name) != key) abort();
        for (e = 0; e < key->count && e < 1000; e++)
            if (gguf_element_u64(key, e, &u) || gguf_element_f64(key, e, &d) ||
                gguf_element_i64(key, e, &s))
                sink += key->bytes;
        while (gguf_next_string(key, &cursor, &text, &length))
            if (length > 0) sink += (uint8_t)text[length - 1];
    }
}

static void read_tensors(const gguf *file, const uint8_t *data, size_t size)
{
    uint64_t i, block;
    gguf_error error;
    for (i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        const uint8_t *bytes = tensor->data;
        if (gguf_find_tensor(file, tensor->name) != tensor) abort();
        if (bytes != NULL) {
            if (bytes < data || tensor->bytes > size ||
                (uint64_t)(bytes - data) > size - tensor->bytes)
                abort();
            sink += bytes[0] + bytes[tensor->bytes - 1];
        }
        gguf_check_data(tensor, &block, &error);
        gguf_tensor_usable(tensor, &error);
    }
    gguf_types_known(file, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf_error error = {{0}};
    gguf *file = gguf_open_memory(data, size, &error);
    if (file == NULL) {
        /* a refusal says why, on one line */
        if (error.text[0] == '\0' || strpbrk(error.text, "\r\n\033") != NULL) abort();
        return 0;
    }
    read_keys(file);
    read_tensors(file, data, size);
    gguf_close(file);
    return 0;
}
