/* Who could have written a file, or could put another in its place (SPEC.md 4, stage open). */
#ifndef TENON_LOADER_TRUST_H
#define TENON_LOADER_TRUST_H

#include <loader/platform.h>

/* Why something is not trusted. */
typedef struct trust_fault {
    uint32_t reason; /* 0: it is trusted */
    char *path;      /* the file or directory at fault, owned; NULL unless reason */
    platform_access access;
} trust_fault;

/* Judges an open file by its facts and every directory that leads to it: those of the path as it
 * was given, and of every symbolic link on the way. path is absolute. TENON_OK also for a fault,
 * TENON_NOMEM. */
int32_t trust_judge(const char *path, const platform_access *file, trust_fault *fault);
void trust_fault_clear(trust_fault *fault);

/* The rule itself, over the facts of one file or directory: 0 or a reason. */
uint32_t trust_rule(const platform_access *access);

#endif
