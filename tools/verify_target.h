/* Finding what is to be verified: a provider by its id, or a file. */
#ifndef TENON_TOOLS_VERIFY_TARGET_H
#define TENON_TOOLS_VERIFY_TARGET_H

#include "bench_lists.h"
#include "options.h"

#include <tests/conformance/case.h>

typedef struct verify_target {
    conformance_target target;
    char id[32], version[32], file[4096];
    char device_name[96], why_no_device[300];
    bool device_usable;
    char default_level[LIST_WORD_BYTES];
    word_list levels; /* what the device says it can be forced to */
} verify_target;

/* Finds it in a process of its own, so that no host exists in this one. name: "cpu", "vulkan:1",
 * "reference", or a path. Returns EXIT_GOOD, or an exit code, having said why; a file that is
 * refused is said with its refusal line. */
int verify_find(verify_target *self, const char *name, options *parsed);

#endif
