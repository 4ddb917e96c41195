/* Where providers are looked for, in order (SPEC.md 4.1). Looks at names only; judges no file. */
#ifndef TENON_LOADER_SEARCH_H
#define TENON_LOADER_SEARCH_H

#include <loader/names.h>
#include <loader/platform.h>

/* One thing found, or looked for in vain. */
typedef struct search_entry {
    char *path;      /* absolute, unless it is refused for being relative or empty */
    bool explicit_;  /* named by the user */
    bool directory;  /* a directory that could not be searched, for this reason: */
    uint32_t reason; /* TENON_REASON_*, 0: a file to be judged */
    char text[PLATFORM_TEXT_BYTES];
} search_entry;

typedef struct search_list {
    search_entry *items;
    uint64_t count, capacity;
} search_list;

/* A list of more provider files than this in one directory is cut, and that is said. */
#define SEARCH_MAX_FILES 4096u

/* Fills *out (which search_clear frees whatever the answer) in the order of 4.1, each directory
 * once. Says what was set but ignored (once a process) and, at level debug, every directory looked
 * at. TENON_OK or TENON_NOMEM. */
int32_t search_run(const loader_options *options, search_list *out);
void search_clear(search_list *list);

/* What a file tenon.layout beside the library says: lines "providers=DIRECTORY" (any number) and
 * "probe=FILE", relative to base. Unknown lines and '#' comments are skipped; probe may be NULL.
 * *probe is owned. false: no memory. */
bool search_parse_layout(const char *text, const char *base, names *directories, char **probe);
/* The directories of providers and the path of the probe helper that belong to this library or
 * program (4.1, 4). Either argument may be NULL. false: no memory. */
bool search_built_in(names *directories, char **probe);

#endif
