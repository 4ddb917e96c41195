/* What went wrong in an engine: a word of its own, or that of the call that failed. */
#ifndef TENON_TOOLS_ENGINE_FAULT_H
#define TENON_TOOLS_ENGINE_FAULT_H

#include <stdbool.h>
#include <tenon/engine.h>

typedef enum fault_kind {
    FAULT_NONE = 0,
    FAULT_MODEL,      /* the file: a key, a tensor, the architecture */
    FAULT_USE,        /* the caller: a token out of range, no room in the context */
    FAULT_MEMORY,     /* memory of the engine itself is out */
    FAULT_CALL,       /* a call of the host failed: cause says how */
    FAULT_NOT_FINITE, /* the logits hold NaN or infinity */
} fault_kind;

typedef struct engine_fault {
    fault_kind kind;
    tenon_error cause; /* FAULT_CALL only */
    char text[512];    /* one line; bytes of a file in it are as they are there */
} engine_fault;

/* Fills fault (never NULL) with one line. Always returns false. */
bool fault_set(engine_fault *fault, fault_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "<doing>: <the cause's words> (reason N)". Always returns false. */
bool fault_call(engine_fault *fault, const char *doing, const tenon_error *cause);
/* Out of memory. Always returns false. */
bool fault_memory(engine_fault *fault, const char *doing);

#endif
