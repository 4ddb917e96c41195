/* Shared by the files of the option parser; not for others. */
#ifndef TENON_TOOLS_OPTIONS_INTERNAL_H
#define TENON_TOOLS_OPTIONS_INTERNAL_H

#include "options.h"

/* Reads a configuration file into settings. OPTIONS_GO_ON, or an exit code, having said why and
 * in which line. */
int options_read_file(options *self, const char *path);
/* The same over the bytes of a file; name is for messages. */
int options_read_text(options *self, const char *name, const char *text, size_t length);

/* Prints the help of a subcommand on terminal_out(). */
void options_print_help(const option_usage *usage, const option_entry *shared);

/* The short form of an option of the subcommand: 'n' for "count". False: it has none. */
bool options_letter(const option_usage *usage, const char *name, char *letter);

/* Is this a key such as "cpu.level"? */
bool options_key_valid(const char *key, size_t length);
/* A text made of three, freed with the options; NULL when memory is out. */
char *options_own(options *self, const char *a, const char *b, const char *c);

#endif
