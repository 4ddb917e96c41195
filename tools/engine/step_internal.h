/* One step: some new tokens through all layers. The operations that families are written in.
 *
 * Every operation is one call of <tenon/engine.h> on host memory. No row depends on the others of
 * its batch, so any cut of a prompt into steps gives the same bits. */
#ifndef TENON_TOOLS_ENGINE_STEP_INTERNAL_H
#define TENON_TOOLS_ENGINE_STEP_INTERNAL_H

#include "family.h"
#include "fault.h"
#include "model.h"
#include "step.h"

/* A step at work, and the memory of all steps. Matrices are [rows][...], dense. */
struct step {
    const model *model;
    tenon_queue *queue;
    engine_fault *fault;
    const step_watch *watch; /* NULL: nobody looks */
    uint64_t rows;           /* new tokens */
    uint64_t kept; /* rows, the last ones, that are still needed behind this layer's keys: all of
                      them, but in the last layer only those whose logits are wanted */
    uint64_t layer;
    uint64_t capacity; /* rows that the memory holds */
    float *x, *y;      /* [width] the residual, which alternates between the two */
    float *h, *projected, *q, *q_normed, *k, *k_normed, *v, *attended, *gate, *up, *gated;
    void *memory;
};

/* Makes the memory for steps of up to capacity rows. False with the step's fault. */
bool step_reserve(step *self, uint64_t capacity);
void step_release(step *self);

/* All of these return false with the step's fault. Outputs are none of their inputs. */
bool step_embed(step *self, const uint32_t *ids);
/* [rows][groups][width]; w [width] */
bool step_norm(step *self, uint64_t rows, uint64_t groups, uint64_t width, const float *x,
               const float *w, float *y);
/* q of the kept rows, k and v of all, from [rows][width] */
bool step_qkv(step *self, const model_layer *layer, const float *x);
bool step_append(step *self, tenon_cache *cache, const float *k, const float *v);
bool step_attend(step *self, tenon_cache *cache, const float *q, float *y);
/* the attention's output of the kept rows: [heads][head_size] to [width] */
bool step_project(step *self, const model_layer *layer, const float *x, float *y);
/* one product: [rows][cols] to [rows][width] */
bool step_multiply(step *self, uint64_t rows, const float *x, uint64_t cols, tenon_weight *weight,
                   uint64_t width, float *y);
/* the feed-forward half of the kept rows: down(activation(gate(x)) * up(x)) */
bool step_gated(step *self, const model_layer *layer, const float *x, uint32_t activation,
                float *y);
/* a + b of the kept rows [width] */
bool step_add(step *self, const float *a, const float *b, float *y);
/* the kept rows of the residual */
const float *step_kept_x(const step *self);
/* the first maximum of one row; FAULT_NOT_FINITE when there is none */
bool step_argmax(step *self, const float *x, uint64_t width, uint32_t *out);

#endif
