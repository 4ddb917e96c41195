/* What makes one family of models differ from another. The rest is shared: model.c, step.c. */
#ifndef TENON_TOOLS_ENGINE_FAMILY_H
#define TENON_TOOLS_ENGINE_FAMILY_H

#include "model.h"

typedef struct step step;

struct family {
    const char *architecture; /* general.architecture, also the prefix of its keys */
    bool head_norms;          /* q and k are normalised head by head */
    bool post_norms;          /* norms behind each half of a layer, too */
    /* Reads what the shared reader does not: pairing, windows, scales. False with *fault. */
    bool (*describe)(model *self, const model_source *source, engine_fault *fault);
    /* Computes one layer over the rows of a step. False with the step's fault. */
    bool (*layer)(step *self, const model_layer *layer, tenon_cache *cache);
};

extern const family family_llama, family_gemma3;

/* Readers of keys "<architecture>.<name>". All refuse with *fault a key of another type or out of
 * range, naming it. wanted keys must be there, optional ones leave *out as it is. */
bool model_integer(const model *self, const model_source *source, const char *name, bool wanted,
                   uint64_t minimum, uint64_t maximum, uint64_t *out, engine_fault *fault);
bool model_real(const model *self, const model_source *source, const char *name, bool wanted,
                double minimum, double maximum, double *out, engine_fault *fault);
/* Refuses a key that asks for what the engine does not do, unless its value is 0. */
bool model_absent(const model *self, const model_source *source, const char *name,
                  engine_fault *fault);
/* rope.scaling.*: none or linear. */
bool model_scaling(model *self, const model_source *source, engine_fault *fault);

#endif
