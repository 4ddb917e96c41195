/* Filling and rendering verdicts. */
#ifndef TENON_LOADER_VERDICT_H
#define TENON_LOADER_VERDICT_H

#include <loader/loader.h>

/* Makes an empty verdict: every string "". */
void verdict_init(loader_verdict *self);
/* Replaces a string of a verdict by a copy; NULL counts as "". false: no memory, it is "". */
bool verdict_set(char **field, const char *text);
/* Marks it refused for a reason; the stage is the reason's hundreds, the hint is the reason's own.
 * NULL strings stay as they are. false: no memory. */
bool verdict_refuse(loader_verdict *self, uint32_t reason, const char *symbol, const char *have,
                    const char *need, const char *text);
/* Renders self->line from the other fields. false: no memory. */
bool verdict_render(loader_verdict *self);
/* Is a refusal for this reason only information when the file was found by scanning a directory? */
bool verdict_is_information(uint32_t reason);
/* The name of a provider as its file name tells it: tenon-NAME.so. A pointer into file, *length
 * bytes of it. */
const char *verdict_file_stem(const char *file, uint64_t *length);

/* Sets id to what the name of self->file tells. false: no memory. */
bool verdict_name_by_file(loader_verdict *self);

/* The line of SPEC.md 4.2, without newline: one pass over the fields, everything escaped. Exposed
 * for tests. NULL: no memory. Owned. */
char *line_render(const loader_verdict *verdict);
/* Appends text escaped to one line: control characters (C0, DEL, C1, line and paragraph
 * separators) and bytes that are no UTF-8 as \n \r \t or \xNN; quote and backslash with a
 * backslash; everything else as it is. Returns the bytes needed without the NUL; writes at most
 * capacity with it. */
uint64_t line_escape(const char *text, char *out, uint64_t capacity);

#endif
