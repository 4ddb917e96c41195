/* One step: some new tokens through all layers. The operations that families are written in.
 *
 * Every operation is one call of <tenon/engine.h> over buffers, so that a step can stay on a device
 * from its embedding to its logits. No row depends on the others of its batch, so any cut of a
 * prompt into steps gives the same bits. */
#ifndef TENON_TOOLS_ENGINE_STEP_INTERNAL_H
#define TENON_TOOLS_ENGINE_STEP_INTERNAL_H

#include "family.h"
#include "fault.h"
#include "model.h"
#include "step.h"

/* The memory of steps: matrices [rows][...], dense, each a buffer of its own. */
typedef struct step_rooms {
    uint64_t capacity; /* rows that each holds */
    tenon_view x, y;   /* [width] the residual, which alternates between the two */
    tenon_view h, projected, q, q_normed, k, k_normed, v, attended, gate, up, gated;
} step_rooms;

/* A step at work, and the memory of all steps. */
struct step {
    const model *model;
    tenon_queue *queue;
    engine_fault *fault;
    const step_watch *watch; /* NULL: nobody looks */
    uint64_t rows;           /* new tokens */
    uint64_t kept; /* rows, the last ones, that are still needed behind this layer's keys: all of
                      them, but in the last layer only those whose logits are wanted */
    uint64_t layer;
    /* steps of one token have small rooms of their own: what moves between devices moves whole */
    step_rooms one, many;
    const step_rooms *at; /* of this step */
};

/* Makes the memory for steps of up to capacity rows. False with the step's fault. */
bool step_reserve(step *self, uint64_t capacity);
void step_release(step *self);
/* Begins a step of so many rows, all of them kept. */
void step_begin(step *self, uint64_t rows);
/* Numbers in host memory. */
static inline tenon_view step_host(const void *at, uint64_t count)
{
    return (tenon_view){.host = (void *)(uintptr_t)at, .bytes = count * sizeof(float)};
}
/* A view of count numbers, from number first on. */
static inline tenon_view step_part(tenon_view of, uint64_t first, uint64_t count)
{
    of.offset += first * sizeof(float);
    of.bytes = count * sizeof(float);
    return of;
}

/* All of these return false with the step's fault. Outputs are none of their inputs. */
/* ids: [rows], in host memory or in a buffer */
bool step_embed(step *self, tenon_view ids);
/* [rows][groups][width]; w [width] */
bool step_norm(step *self, uint64_t rows, uint64_t groups, uint64_t width, tenon_view x,
               tenon_view w, tenon_view y);
/* q of the kept rows, k and v of all, from [rows][width] */
bool step_qkv(step *self, const model_layer *layer, tenon_view x);
bool step_append(step *self, tenon_cache *cache, tenon_view k, tenon_view v);
bool step_attend(step *self, tenon_cache *cache, tenon_view q, tenon_view y);
/* the attention's output of the kept rows: [heads][head_size] to [width] */
bool step_project(step *self, const model_layer *layer, tenon_view x, tenon_view y);
/* one product: [rows][cols] to [rows][width] */
bool step_multiply(step *self, uint64_t rows, tenon_view x, uint64_t cols, tenon_weight *weight,
                   uint64_t width, tenon_view y);
/* the feed-forward half of the kept rows: down(activation(gate(x)) * up(x)) */
bool step_gated(step *self, const model_layer *layer, tenon_view x, uint32_t activation,
                tenon_view y);
/* a + b of the kept rows [width] */
bool step_add(step *self, tenon_view a, tenon_view b, tenon_view y);
/* the kept rows of the residual */
tenon_view step_kept_x(const step *self);
/* the index of the first maximum of one row, TENON_ARGMAX_NONE when there is none */
bool step_argmax(step *self, tenon_view x, uint64_t width, tenon_view out);

#endif
