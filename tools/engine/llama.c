/* The Llama family, SmolLM2 among it: a norm before each half of a layer, rotation of adjacent
 * pairs (files of this family hold the rows of q and k in that order), a gate of silu. */
#include "family.h"
#include "step_internal.h"

static bool describe(model *self, const model_source *source, engine_fault *fault)
{
    self->pairing = TENON_ROPE_ADJACENT;
    self->rope_base = 10000.0;
    return model_real(self, source, "rope.freq_base", false, 1.0, 1e12, &self->rope_base, fault) &&
           model_scaling(self, source, fault);
}

static bool layer(step *s, const model_layer *l, tenon_cache *cache)
{
    const model *m = s->model;
    if (!step_norm(s, s->rows, 1, m->width, s->x, l->attention_norm, s->h) ||
        !step_qkv(s, l, s->h) || !step_append(s, cache, s->k, s->v))
        return false;
    if (s->kept == 0) return true;
    return step_attend(s, cache, s->q, s->attended) && step_project(s, l, s->attended, s->h) &&
           step_add(s, step_kept_x(s), s->h, s->y) &&
           step_norm(s, s->kept, 1, m->width, s->y, l->ffn_norm, s->h) &&
           step_gated(s, l, s->h, TENON_ACT_SILU, s->projected) &&
           step_add(s, s->y, s->projected, s->x);
}

const family family_llama = {"llama", false, false, describe, layer};
