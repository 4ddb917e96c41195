/* A file that appears whole or not at all: written beside its place, then renamed. */
#ifndef TENON_TOOLS_OUTPUT_FILE_H
#define TENON_TOOLS_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct output_file {
    FILE *stream;    /* write here; NULL when not open */
    char *path;      /* where it will appear */
    char *temporary; /* NULL: written in place */
} output_file;

/* Begins a file. Returns false, having said why, when it cannot be made. An interrupt removes it.
 * A link is followed: what it leads to is replaced. A character device (/dev/null, a terminal) is
 * written as it is; anything else that is no regular file is refused. */
bool output_file_begin(output_file *self, const char *path);
/* Flushes, checks and renames it into its place. Returns false, having said why; either way
 * nothing is left to free and no unfinished file stays behind. */
bool output_file_commit(output_file *self);
/* Gives up: removes what was written. Harmless after commit and on a zeroed struct. */
void output_file_abandon(output_file *self);

/* All of it at once. */
bool output_file_write(const char *path, const void *bytes, uint64_t size);

#endif
