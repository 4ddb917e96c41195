/* A bounded, growing list of owned strings. */
#ifndef TENON_LOADER_NAMES_H
#define TENON_LOADER_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* All zero is an empty list. */
typedef struct names {
    char **items;
    uint64_t count, capacity;
    uint64_t bytes; /* of all strings together, NULs included */
} names;

/* Appends a copy of length bytes and a NUL. false: no memory, the list is unchanged. */
bool names_add(names *self, const char *text, uint64_t length);
/* Appends a copy of a string. false: no memory. */
bool names_add_string(names *self, const char *text);
bool names_has(const names *self, const char *text);
/* Orders by the bytes of the strings. */
void names_sort(names *self);
void names_clear(names *self);

#endif
