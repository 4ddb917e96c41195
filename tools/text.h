/* Foreign text on one line: names out of files, paths, words of other programs. */
#ifndef TENON_TOOLS_TEXT_H
#define TENON_TOOLS_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Length in bytes (1 to 4) of the UTF-8 character at text, or 0 when the bytes there are none:
 * overlong, a surrogate, above U+10FFFF or cut off by length. */
size_t text_utf8(const char *text, size_t length);

/* Writes text into buffer with control characters and bytes that are no UTF-8 as \xNN, cut to fit
 * between two characters and always terminated (size > 0). Returns buffer. */
const char *text_escape(char *buffer, size_t size, const char *text, size_t length);

/* The same straight to a stream, uncut. */
void text_print(FILE *stream, const char *text, size_t length);

/* Edit distance of two short words, for naming the nearest one; words beyond 63 bytes are cut. */
size_t text_distance(const char *a, const char *b);

#endif
