/* Comma-separated globs over provider names: "cpu", "vulkan,cu*". Spaces around a token and empty
 * tokens mean nothing. '*' is any run of characters, '?' any one; everything else is itself. */
#ifndef TENON_LOADER_FILTER_H
#define TENON_LOADER_FILTER_H

#include <loader/names.h>

/* Does a glob match the whole of name? */
bool filter_glob(const char *glob, uint64_t glob_length, const char *name, uint64_t name_length);
/* Does any token of list match name? list NULL: no. */
bool filter_matches(const char *list, const char *name, uint64_t name_length);
/* Has list a token at all? */
bool filter_is_empty(const char *list);
/* The first token of list that matches none of the known names: true with *token, *length. */
bool filter_unknown(const char *list, const names *known, const char **token, uint64_t *length);

#endif
