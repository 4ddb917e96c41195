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
    const step_rooms *r = s->at;
    const model *m = s->model;
    if (!step_norm(s, s->rows, 1, m->width, r->x, l->attention_norm, r->h) ||
        !step_qkv(s, l, r->h) || !step_append(s, cache, r->k, r->v))
        return false;
    if (s->kept == 0) return true;
    return step_attend(s, cache, r->q, r->attended) && step_project(s, l, r->attended, r->h) &&
           step_add(s, step_kept_x(s), r->h, r->y) &&
           step_norm(s, s->kept, 1, m->width, r->y, l->ffn_norm, r->h) &&
           step_gated(s, l, r->h, TENON_ACT_SILU, r->projected) &&
           step_add(s, r->y, r->projected, r->x);
}

const family family_llama = {"llama", false, false, describe, layer};
