#include "structs.h"

#include <stdio.h>
#include <string.h>

/* The head that every struct starts with. */
typedef struct head {
    uint32_t struct_size;
    uint32_t abi_version;
} head;

/* No struct of an engine is longer; a larger size is garbage rather than a newer header. */
#define ENGINE_STRUCT_LIMIT 65536u

int32_t struct_check_out(const void *theirs, const char *name, tenon_error *error)
{
    head found;
    char text[128];

    if (theirs == NULL) {
        snprintf(text, sizeof text, "%s is NULL", name);
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, text);
    }
    memcpy(&found, theirs, sizeof found);
    if (found.abi_version != TENON_ABI_VERSION) {
        snprintf(text, sizeof text, "%s: abi_version %u, this library knows %u", name,
                 found.abi_version, TENON_ABI_VERSION);
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                                 TENON_ABI_VERSION, found.abi_version, text);
    }
    if (found.struct_size < sizeof found || found.struct_size > ENGINE_STRUCT_LIMIT) {
        snprintf(text, sizeof text, "%s: struct_size %u is not the size of a struct (R1)", name,
                 found.struct_size);
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                                 sizeof found, found.struct_size, text);
    }
    return TENON_OK;
}

int32_t struct_take(void *mine, uint32_t mine_size, const void *theirs, const char *name,
                    tenon_error *error)
{
    const unsigned char *bytes = theirs;
    char text[128];
    head found;
    uint32_t i;
    int32_t status = struct_check_out(theirs, name, error);

    if (status != TENON_OK) return status;
    memcpy(&found, theirs, sizeof found);
    for (i = mine_size; i < found.struct_size; i++) {
        if (bytes[i] == 0) continue;
        snprintf(text, sizeof text, "%s: byte %u is not zero and not known here (R5)", name, i);
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_STRUCT_TAIL, TENON_SCOPE_CALL,
                                 found.struct_size, mine_size, text);
    }
    struct_read_answer(mine, mine_size, theirs, found.struct_size);
    return TENON_OK;
}

void struct_give(void *theirs, const void *mine, uint32_t mine_size)
{
    uint32_t size, known;
    unsigned char *out = theirs;
    const unsigned char *in = mine;

    memcpy(&size, theirs, sizeof size);
    known = size < mine_size ? size : mine_size;
    memcpy(out + sizeof(head), in + sizeof(head), known - sizeof(head));
    if (size > known) memset(out + known, 0, size - known);
}

bool struct_present(void *out, uint32_t size, const void *mine, uint32_t mine_size,
                    uint32_t *offset)
{
    const unsigned char *bytes = mine;
    uint32_t i, known = size < mine_size ? size : mine_size;

    for (i = known; i < mine_size; i++) {
        if (bytes[i] == 0) continue;
        *offset = i;
        return false;
    }
    struct_present_empty(out, size);
    memcpy((unsigned char *)out + sizeof(head), bytes + sizeof(head), known - sizeof(head));
    return true;
}

void struct_present_empty(void *out, uint32_t size)
{
    const head start = {size, TENON_ABI_VERSION};
    memset(out, 0, size);
    memcpy(out, &start, sizeof start);
}

void struct_read_answer(void *mine, uint32_t mine_size, const void *answer, uint32_t size)
{
    const head start = {mine_size, TENON_ABI_VERSION};
    uint32_t known = size < mine_size ? size : mine_size;
    memset(mine, 0, mine_size);
    memcpy(mine, answer, known);
    memcpy(mine, &start, sizeof start);
}
