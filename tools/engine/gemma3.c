/* Gemma 3, text: the embedding is scaled, q and k are normalised head by head, there is a norm
 * before and behind each half of a layer, and of every six layers five see a window only. The
 * files hold norm weights with the 1 of this family's formula added. */
#include "family.h"
#include "step_internal.h"

#include <math.h>

#define LOCAL_BASE 10000.0 /* rotation of local layers: no file says it */
#define PATTERN 6u         /* every sixth layer is global */
#define LAYERS_OF_27B 62u  /* the one size whose scale does not come from the head */

static bool describe(model *self, const model_source *source, engine_fault *fault)
{
    double scale = (double)self->attention_scale;
    uint64_t pattern = PATTERN, i;
    self->pairing = TENON_ROPE_HALVES;
    self->rope_base = 1000000.0;
    self->local_base = LOCAL_BASE;
    self->embed_scale = sqrtf((float)self->width);
    if (self->layer_count == LAYERS_OF_27B)
        scale = 1.0 / sqrt((double)self->width / (double)self->heads);
    if (!model_real(self, source, "rope.freq_base", false, 1.0, 1e12, &self->rope_base, fault) ||
        !model_real(self, source, "rope.freq_base_swa", false, 1.0, 1e12, &self->local_base,
                    fault) ||
        !model_real(self, source, "attention.scale", false, 1e-30, 1e30, &scale, fault) ||
        !model_integer(self, source, "attention.sliding_window", true, 1, UINT64_C(1) << 31,
                       &self->window, fault) ||
        !model_integer(self, source, "attention.sliding_window_pattern", false, 1, 4096, &pattern,
                       fault) ||
        !model_scaling(self, source, fault))
        return false;
    self->attention_scale = (float)scale;
    for (i = 0; i < self->layer_count; i++) self->layers[i].local = i % pattern != pattern - 1;
    return true;
}

static bool attend(step *s, const model_layer *l, tenon_cache *cache)
{
    const step_rooms *r = s->at;
    const model *m = s->model;
    if (!step_norm(s, s->rows, 1, m->width, r->x, l->attention_norm, r->h) ||
        !step_qkv(s, l, r->h) ||
        !step_norm(s, s->rows, m->kv_heads, m->head_size, r->k, l->k_norm, r->k_normed) ||
        !step_append(s, cache, r->k_normed, r->v))
        return false;
    if (s->kept == 0) return true;
    return step_norm(s, s->kept, m->heads, m->head_size, r->q, l->q_norm, r->q_normed) &&
           step_attend(s, cache, r->q_normed, r->attended) &&
           step_project(s, l, r->attended, r->projected) &&
           step_norm(s, s->kept, 1, m->width, r->projected, l->post_attention_norm, r->h) &&
           step_add(s, step_kept_x(s), r->h, r->y);
}

static bool layer(step *s, const model_layer *l, tenon_cache *cache)
{
    const step_rooms *r = s->at;
    const model *m = s->model;
    if (!attend(s, l, cache)) return false;
    if (s->kept == 0) return true;
    return step_norm(s, s->kept, 1, m->width, r->y, l->ffn_norm, r->h) &&
           step_gated(s, l, r->h, TENON_ACT_GELU_TANH, r->projected) &&
           step_norm(s, s->kept, 1, m->width, r->projected, l->post_ffn_norm, r->h) &&
           step_add(s, r->y, r->h, r->x);
}

const family family_gemma3 = {"gemma3", true, true, describe, layer};
