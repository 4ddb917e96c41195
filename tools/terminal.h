/* Where output goes, and what must not be left behind.
 *
 * Results go to the real standard output, aside on a descriptor of its own: file descriptor 1
 * itself points to stderr while the tool runs, so that whatever a provider prints can never spoil
 * a JSON document. Colour and progress are for terminals only. */
#ifndef TENON_TOOLS_TERMINAL_H
#define TENON_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Sets standard output aside and installs the handlers that remove unfinished files when the tool
 * is interrupted, and that name a mapped file which was cut while in use. Call once, first.
 * Returns false, having said why, when the descriptors cannot be arranged. */
bool terminal_begin(void);
/* Flushes the results. Returns false, having said so, when they could not be written (a full
 * disk): the exit code must then not be 0. A closed pipe ends the tool as usual. */
bool terminal_end(void);

/* The stream for results. */
FILE *terminal_out(void);

/* May results be coloured? Standard output is a terminal and NO_COLOR is not set. */
bool terminal_colour(void);
/* Escape sequences, "" where colour is not wanted. */
const char *terminal_green(void);
const char *terminal_red(void);
const char *terminal_dim(void);
const char *terminal_plain(void);

/* Shows one line of progress on stderr, replacing the one before; nothing unless stderr is a
 * terminal. terminal_progress_end wipes it and must precede other output. */
void terminal_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_progress_end(void);

/* "tenon: <text>" on stderr, one line. [any thread] */
void terminal_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The text of the last one, "" when there was none. */
const char *terminal_last_error(void);

/* --json promises one document, also when the command fails before it has anything to show. The
 * parser of options says that one is expected, json_emit that one was printed. */
void terminal_expect_document(void);
void terminal_document_printed(void);
bool terminal_document_missing(void);

/* Files to remove when the tool is interrupted. The text must stay valid until forgotten; returns
 * false when the table is full. [not for signal handlers] */
bool terminal_remember(const char *path);
void terminal_forget(const char *path);

/* Names a file mapping, for the message when the file is cut while in use. name is copied.
 * Mappings beyond the table's size are not named. */
void terminal_mapping(const void *start, uint64_t bytes, const char *name);
void terminal_mapping_end(const void *start);

#endif
