/* `tenon inspect` for GGUF models: every key and every tensor. */
#include "command.h"
#include "gguf.h"
#include "inspect.h"
#include "json.h"
#include "terminal.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS_SHOWN 6u /* of an array, unless --verbose */
#define TEXT_SHOWN 100u   /* bytes of a string, for people, unless --verbose */

static const char *known_name(uint32_t known)
{
    switch (known) {
    case GGUF_TYPE_OFFERED: return "offered";
    case GGUF_TYPE_OTHER: return "other";
    case GGUF_TYPE_RETIRED: return "retired";
    default: return "unknown";
    }
}

static int refused(const options *parsed, const char *path, const char *text)
{
    if (parsed->json) {
        json_t *document = json_document();
        json_put(document, "file", json_text(path));
        json_put(document, "kind", json_string("gguf"));
        json_put(document, "status", json_string("refused"));
        json_put(document, "text", json_text(text));
        if (!json_emit(document)) return EXIT_FAILED;
    } else {
        char shown[300];
        terminal_error("%s: refused: %s", text_escape(shown, sizeof shown, path, strlen(path)),
                       text);
    }
    return EXIT_REFUSED;
}

/* One element of a key, or NULL for what has no plain value (an array of arrays). */
static json_t *element_json(const gguf_key *key, uint64_t index)
{
    uint64_t u;
    int64_t i;
    double d;
    if (key->element_type == GGUF_BOOL && gguf_element_u64(key, index, &u)) return json_boolean(u);
    if (gguf_element_u64(key, index, &u)) return json_u64(u);
    if (gguf_element_i64(key, index, &i)) return json_integer(i);
    if (gguf_element_f64(key, index, &d)) return json_number(d);
    return NULL;
}

static json_t *value_json(const gguf_key *key, bool all)
{
    uint64_t i, cursor = 0, length;
    const char *text;
    json_t *values;
    if (key->type == GGUF_STRING) return json_text_n((const char *)key->data, (size_t)key->bytes);
    if (key->type != GGUF_ARRAY) return element_json(key, 0);
    if (key->element_type == GGUF_ARRAY) return json_null();
    values = json_array();
    for (i = 0; i < key->count && (all || i < ELEMENTS_SHOWN); i++) {
        if (key->element_type != GGUF_STRING)
            json_push(values, element_json(key, i));
        else if (gguf_next_string(key, &cursor, &text, &length))
            json_push(values, json_text_n(text, (size_t)length));
    }
    return values;
}

static int emit_json(const options *parsed, const char *path, const gguf *file, json_t *findings)
{
    json_t *document = json_document(), *keys = json_array(), *tensors = json_array();
    uint64_t i;
    uint32_t d;
    json_put(document, "file", json_text(path));
    json_put(document, "kind", json_string("gguf"));
    json_put(document, "status", json_string("good"));
    json_put(document, "version", json_integer(gguf_version(file)));
    json_put(document, "size", json_u64(gguf_file_size(file)));
    json_put(document, "alignment", json_u64(gguf_alignment(file)));
    for (i = 0; i < gguf_key_count(file); i++) {
        const gguf_key *key = gguf_key_at(file, i);
        json_t *entry = json_object();
        json_put(entry, "name", json_text(key->name));
        json_put(entry, "type", json_string(gguf_value_type_name(key->type)));
        if (key->type == GGUF_ARRAY) {
            json_put(entry, "element_type", json_string(gguf_value_type_name(key->element_type)));
            json_put(entry, "count", json_u64(key->count));
        }
        json_put(entry, "value", value_json(key, parsed->verbose));
        json_push(keys, entry);
    }
    for (i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        json_t *entry = json_object(), *shape = json_array();
        for (d = 0; d < tensor->dimensions; d++) json_push(shape, json_u64(tensor->shape[d]));
        json_put(entry, "name", json_text(tensor->name));
        json_put(entry, "format", json_string(tensor->type_name));
        json_put(entry, "type", json_integer(tensor->type));
        json_put(entry, "known", json_string(known_name(tensor->known)));
        json_put(entry, "shape", shape);
        json_put(entry, "rows", json_u64(tensor->rows));
        json_put(entry, "cols", json_u64(tensor->cols));
        json_put(entry, "offset", json_u64(tensor->data_offset));
        json_put(entry, "bytes",
                 tensor->data == NULL && tensor->rows != 0 ? json_null() : json_u64(tensor->bytes));
        json_push(tensors, entry);
    }
    json_put(document, "keys", keys);
    json_put(document, "tensors", tensors);
    if (findings != NULL) json_put(document, "findings", json_incref(findings));
    return json_emit(document) ? EXIT_GOOD : EXIT_FAILED;
}

static void print_string(FILE *out, const char *text, uint64_t length, bool all)
{
    uint64_t shown = !all && length > TEXT_SHOWN ? TEXT_SHOWN : length;
    fputc('"', out);
    text_print(out, text, (size_t)shown);
    fputs(shown < length ? "\"..." : "\"", out);
}

/* With as few digits as tell the value from its neighbours. */
static void print_float(FILE *out, double value, bool single)
{
    char text[400];
    int digits;
    for (digits = single ? 6 : 15; digits < (single ? 9 : 17); digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) break;
    }
    fprintf(out, "%.*g", digits, value);
}

static void print_element(FILE *out, const gguf_key *key, uint64_t index)
{
    uint64_t u;
    int64_t i;
    double d;
    if (key->element_type == GGUF_BOOL && gguf_element_u64(key, index, &u))
        fputs(u != 0 ? "true" : "false", out);
    else if (gguf_element_u64(key, index, &u))
        fprintf(out, "%" PRIu64, u);
    else if (gguf_element_i64(key, index, &i))
        fprintf(out, "%" PRId64, i);
    else if (gguf_element_f64(key, index, &d))
        print_float(out, d, key->element_type == GGUF_F32);
}

static void print_key(FILE *out, const gguf_key *key, bool all)
{
    uint64_t i, cursor = 0, length;
    const char *text;
    fputs("  ", out);
    text_print(out, key->name, strlen(key->name));
    if (key->type == GGUF_STRING) {
        fputs("  string  ", out);
        print_string(out, (const char *)key->data, key->bytes, all);
    } else if (key->type != GGUF_ARRAY) {
        fprintf(out, "  %s  ", gguf_value_type_name(key->type));
        print_element(out, key, 0);
    } else {
        fprintf(out, "  %" PRIu64 " x %s  [", key->count, gguf_value_type_name(key->element_type));
        for (i = 0; i < key->count && (all || i < ELEMENTS_SHOWN); i++) {
            if (i > 0) fputs(", ", out);
            if (key->element_type == GGUF_STRING && gguf_next_string(key, &cursor, &text, &length))
                print_string(out, text, length, all);
            else
                print_element(out, key, i);
        }
        fputs(i < key->count ? ", ...]" : "]", out);
    }
    fputc('\n', out);
}

static void print_model(const options *parsed, const char *path, const gguf *file)
{
    FILE *out = terminal_out();
    uint64_t i;
    uint32_t d;
    text_print(out, path, strlen(path));
    fprintf(out,
            ": GGUF version %lu, %" PRIu64 " bytes, alignment %" PRIu64 ", %" PRIu64
            " keys, %" PRIu64 " tensors\n\nKeys:\n",
            (unsigned long)gguf_version(file), gguf_file_size(file), gguf_alignment(file),
            gguf_key_count(file), gguf_tensor_count(file));
    for (i = 0; i < gguf_key_count(file); i++)
        print_key(out, gguf_key_at(file, i), parsed->verbose);
    fputs("\nTensors (shape: inputs first):\n", out);
    for (i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        char shape[96], shown[4 * GGUF_NAME_LENGTH + 1];
        size_t at = 0;
        for (d = 0; d < tensor->dimensions; d++) {
            int n = snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, d > 0 ? " x " : "",
                             tensor->shape[d]);
            at += n > 0 ? (size_t)n : 0;
        }
        text_escape(shown, sizeof shown, tensor->name, strlen(tensor->name));
        fprintf(out, "  %-36s %-8s %-20s", shown, tensor->type_name, shape);
        if (tensor->rows == 0)
            fputs(" no elements\n", out);
        else if (tensor->data == NULL)
            fprintf(out, " type %lu, size not known, at %" PRIu64 "\n", (unsigned long)tensor->type,
                    tensor->data_offset);
        else
            fprintf(out, " %10" PRIu64 " bytes at %" PRIu64 "\n", tensor->bytes,
                    tensor->data_offset);
    }
}

/* Looks at the data of every tensor; adds each finding to the array. Returns how many. */
static uint64_t check_all(const options *parsed, const gguf *file, json_t *findings)
{
    uint64_t i, found = 0, block = 0;
    for (i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        gguf_error error;
        terminal_progress("checking tensor %" PRIu64 " of %" PRIu64, i + 1,
                          gguf_tensor_count(file));
        if (gguf_check_data(tensor, &block, &error)) continue;
        found++;
        if (parsed->json) {
            json_t *entry = json_object();
            json_put(entry, "tensor", json_text(tensor->name));
            json_put(entry, "block", json_u64(block));
            json_put(entry, "text", json_text(error.text));
            json_push(findings, entry);
        } else {
            terminal_error("%s", error.text);
        }
    }
    terminal_progress_end();
    return found;
}

int inspect_model(const options *parsed, const char *path, bool check_data)
{
    gguf_error error;
    gguf *file = gguf_open(path, &error);
    json_t *findings = NULL;
    uint64_t found = 0;
    int status = EXIT_GOOD;
    if (file == NULL) return refused(parsed, path, error.text);
    if (!parsed->json) print_model(parsed, path, file);
    if (check_data) {
        findings = json_array();
        found = check_all(parsed, file, findings);
        if (!parsed->json)
            fprintf(terminal_out(),
                    "\nData check: %" PRIu64 " of %" PRIu64 " tensors have a scale "
                    "or value that is not finite\n",
                    found, gguf_tensor_count(file));
    }
    if (parsed->json) status = emit_json(parsed, path, file, findings);
    if (status == EXIT_GOOD && found > 0) status = EXIT_FAILED;
    json_decref(findings);
    gguf_close(file);
    return status;
}
