/* What `tenon list` gathers, and the two ways of showing it. */
#ifndef TENON_TOOLS_LIST_H
#define TENON_TOOLS_LIST_H

#include <loader/loader.h>
#include <stdbool.h>
#include <tenon/engine.h>

typedef struct list_device {
    uint32_t kind, arith, unusable;
    uint64_t memory_total, memory_free; /* bytes or TENON_UNKNOWN */
    char name[96], driver[64], detail[96];
    uint8_t uuid[16]; /* all zero: none */
} list_device;

/* One candidate. Texts that are pointers belong to the host. */
typedef struct list_entry {
    const char *id, *version, *file;
    const char *symbol, *have, *need, *hint, *line;
    uint32_t verdict, stage; /* TENON_CANDIDATE_*, TENON_STAGE_* */
    uint32_t reason;         /* why refused or skipped; loaded: why there is no device */
    uint64_t wanted, available;
    char text[208];
    bool directory;         /* no file: a directory that could not be searched */
    bool built_in;          /* part of this program */
    bool named_and_refused; /* asked for by name: the exit code tells */
    list_device *devices;
    uint32_t device_count;
} list_entry;

/* A directory that was looked into. */
typedef struct list_place {
    char path[512], text[208];
    char source[32];  /* "named", "TENON_PROVIDERS", "built-in", ... */
    char outcome[32]; /* "2-found", "no-such-path", ... */
} list_place;

typedef struct list {
    tenon_host *host;
    tenon_team_info team;
    list_entry *entries;
    uint64_t count;
    list_place *places;
    uint64_t place_count;
} list;

/* For people. why: skipped candidates, places and hints too. */
void list_print(const list *self, bool why);
/* One JSON document; false when it could not be written. */
bool list_emit(const list *self);

#endif
