/* A thin layer over jansson: values that cannot be mangled, and one document per run.
 *
 * The set functions own the value they are given, take a NULL value (memory ran out while it was
 * made) and remember it: json_emit then fails instead of printing half a document. */
#ifndef TENON_TOOLS_JSON_H
#define TENON_TOOLS_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A string of any bytes: those that are no UTF-8 become U+FFFD, NUL stays (as \u0000). */
json_t *json_text(const char *text);
json_t *json_text_n(const char *text, size_t length);
/* An unsigned number. Above 2^63 - 1, where JSON readers begin to round, a string of its digits. */
json_t *json_u64(uint64_t value);
/* A byte count or another quantity: TENON_UNKNOWN becomes null. */
json_t *json_quantity(uint64_t value);
/* A float; NaN and infinities, which JSON lacks, become "nan", "inf" and "-inf". */
json_t *json_number(double value);

/* Adds value under key, or at the end of an array. */
void json_put(json_t *object, const char *key, json_t *value);
void json_push(json_t *array, json_t *value);
/* {"schema":1}: the head of every document. */
json_t *json_document(void);

/* Prints the document on terminal_out() with a newline and frees it. Returns false, having said
 * so, when memory ran out anywhere since the last call or the output failed. */
bool json_emit(json_t *document);

/* Writes the document to a file, which appears whole or not at all, and frees it. Returns false,
 * having said so, as json_emit does. */
bool json_save(json_t *document, const char *path);

/* {"schema":1,"exit":N,"error":"..."}: the document of a command that failed before it had one. */
bool json_emit_failure(int status);

#endif
