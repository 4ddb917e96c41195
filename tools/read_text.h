/* Texts out of files and pipes. */
#ifndef TENON_TOOLS_READ_TEXT_H
#define TENON_TOOLS_READ_TEXT_H

#include <stddef.h>

/* All of a file or pipe ("-": standard input) into memory that the caller frees. EXIT_GOOD, else an
 * exit code, having said why. */
int read_text(const char *path, char **text, size_t *length);

#endif
