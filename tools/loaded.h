/* A model file opened for computing: the file, its tokenizer, a host, a session, and the model
 * prepared in it. */
#ifndef TENON_TOOLS_LOADED_H
#define TENON_TOOLS_LOADED_H

#include "engine/fault.h"
#include "engine/model.h"
#include "engine/tokenizer.h"
#include "gguf.h"
#include "options.h"

#include <tenon/engine.h>

/* How and on what to compute: options that commands with a model share. */
typedef struct placement {
    const char *chain;    /* --provider */
    uint32_t mode, arith; /* indices of their words */
    bool mode_given, arith_given;
} placement;

#define PLACEMENT_MODES "pin|prefer|auto"
#define PLACEMENT_CLASSES "f32|a8"

typedef struct loaded {
    const char *path;
    gguf *file;
    tokenizer *words;
    tenon_host *host;
    tenon_session *session;
    model *of;
    double seconds; /* that all of it took */
} loaded;

/* Does the placement make sense? OPTIONS_GO_ON, else an exit code, having said why. With --level
 * and no chain, the chain becomes the provider that the level is for. */
int placement_judge(placement *self, const options *parsed, const char *command);

/* Opens all of it. *self needs no initialisation. require_accelerator: EXIT_REFUSED when no weight
 * would be computed on anything but processors. EXIT_GOOD, else an exit code, having said why, and
 * nothing is left to close. */
int loaded_open(loaded *self, const char *path, options *parsed, const placement *on,
                bool require_accelerator);
void loaded_close(loaded *self);

/* "tenon: <path>: <the fault>" on stderr; names the tensor when logits are not finite. Returns the
 * exit code. */
int loaded_failed(const loaded *self, const engine_fault *fault);

/* Monotonic, in seconds. */
double loaded_clock(void);

#endif
