#include "json.h"
#include "output_file.h"
#include "terminal.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/types.h>

/* Set when memory ran out while a value was made; the next document is then not printed. */
static bool failed;

json_t *json_text_n(const char *text, size_t length)
{
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    json_t *value;
    char *clean;
    size_t i = 0, at = 0;
    if (length > (SIZE_MAX - 1) / 3) return NULL;
    clean = malloc(length * 3 + 1); /* every byte may become three */
    if (clean == NULL) return NULL;
    while (i < length) {
        size_t n = text_utf8(text + i, length - i);
        if (n != 0) {
            memcpy(clean + at, text + i, n);
            at += n;
            i += n;
        } else {
            memcpy(clean + at, replacement, 3);
            at += 3;
            i++;
        }
    }
    value = json_stringn(clean, at);
    free(clean);
    return value;
}

json_t *json_text(const char *text)
{
    return json_text_n(text, strlen(text));
}

json_t *json_u64(uint64_t value)
{
    char digits[24];
    if (value <= INT64_MAX) return json_integer((json_int_t)value);
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    return json_string(digits);
}

json_t *json_quantity(uint64_t value)
{
    return value == TENON_UNKNOWN ? json_null() : json_u64(value);
}

json_t *json_number(double value)
{
    if (isnan(value)) return json_string("nan");
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return json_real(value);
}

void json_put(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0) failed = true;
}

void json_push(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0) failed = true;
}

json_t *json_document(void)
{
    json_t *document = json_object();
    json_put(document, "schema", json_integer(1));
    return document;
}

bool json_emit(json_t *document)
{
    char *text = failed || document == NULL ? NULL : json_dumps(document, JSON_INDENT(2));
    bool good = text != NULL;
    json_decref(document);
    failed = false;
    if (!good) {
        terminal_error("out of memory while writing JSON");
        return false;
    }
    if (fputs(text, terminal_out()) < 0 || fputc('\n', terminal_out()) == EOF ||
        fflush(terminal_out()) != 0) {
        terminal_error("cannot write the results");
        good = false;
    }
    terminal_document_printed();
    free(text);
    return good;
}

bool json_save(json_t *document, const char *path)
{
    char *text = failed || document == NULL ? NULL : json_dumps(document, JSON_INDENT(2));
    output_file file;
    bool good;
    json_decref(document);
    if (text == NULL) {
        failed = false;
        terminal_error("out of memory while writing JSON");
        return false;
    }
    good = output_file_begin(&file, path);
    if (good) {
        fprintf(file.stream, "%s\n", text); /* commit looks at the stream */
        good = output_file_commit(&file);
    }
    free(text);
    return good;
}

bool json_emit_failure(int status)
{
    json_t *document = json_document();
    json_put(document, "exit", json_integer(status));
    json_put(document, "error", json_text(terminal_last_error()));
    return json_emit(document);
}
