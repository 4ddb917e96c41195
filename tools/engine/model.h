/* A model: its numbers, checked, and its weights, prepared in a session.
 *
 * The file comes in through a model_source, so that the engine knows no file format. Nothing that a
 * file says is used before it was checked; what is wrong is refused with the name of the key or
 * tensor, what it is and what was wanted. Tensors that the family does not explain are refused too:
 * a model computed without them would answer badly without any sign. */
#ifndef TENON_TOOLS_ENGINE_MODEL_H
#define TENON_TOOLS_ENGINE_MODEL_H

#include "fault.h"

#include <stdbool.h>
#include <stdint.h>
#include <tenon/engine.h>

/* A value of the file's metadata. */
enum { MODEL_INTEGER = 1, MODEL_REAL, MODEL_BOOL, MODEL_TEXT, MODEL_OTHER };
typedef struct model_value {
    uint32_t kind;
    uint64_t integer; /* INTEGER (not negative), BOOL (0 or 1) */
    double real;      /* REAL */
    const char *text; /* TEXT: not NUL-terminated */
    uint64_t length;
    const char *type_name; /* how the file calls the type: "u32", "array" */
} model_value;

/* A tensor of the file. */
typedef struct model_tensor {
    const char *name;
    uint32_t format;       /* TENON_FORMAT_*, NONE: one that Tenon does not multiply with */
    const char *type_name; /* "Q4_1", "IQ2_XS" */
    uint32_t dimensions;   /* 1 to 4 */
    uint64_t shape[4];     /* fastest first, unused ones 1 */
    const void *data;      /* any alignment, valid as long as the model; NULL: no elements */
    uint64_t bytes;
} model_tensor;

/* What the engine asks of a file. Answers stay valid as long as the model lives. */
typedef struct model_source {
    const void *context;
    bool (*value)(const void *context, const char *key, model_value *out); /* false: no such key */
    bool (*tensor)(const void *context, const char *name, model_tensor *out); /* the same */
    uint64_t tensor_count;
    void (*tensor_at)(const void *context, uint64_t index, model_tensor *out);
    uint32_t lifetime; /* TENON_LIFETIME_STABLE_FILE for a mapped file, else STABLE */
} model_source;

typedef struct model_layer {
    tenon_weight *q, *k, *v, *output, *gate, *up, *down;
    /* norm weights, views of model.norms; empty where the family has none */
    tenon_view attention_norm, q_norm, k_norm, post_attention_norm, ffn_norm, post_ffn_norm;
    bool local; /* sees the window only and rotates with local_base */
} model_layer;

typedef struct family family;

typedef struct model {
    const family *kind;
    tenon_session *session;
    /* numbers */
    uint64_t layer_count, width, heads, kv_heads, head_size, ffn_width, vocabulary;
    uint64_t trained_context;
    uint64_t rotary;  /* inputs of a head that are rotated */
    uint64_t window;  /* of local layers, 0: there are none */
    uint32_t pairing; /* TENON_ROPE_* */
    float eps, attention_scale, embed_scale;
    double rope_base, rope_factor; /* global layers: base, and what angles are divided by */
    double local_base;             /* local layers, without a factor */
    float *rope_factors;           /* [rotary / 2], owned; NULL: none */
    /* weights */
    tenon_weight *embedding, *output; /* the same one when the output is tied */
    tenon_view output_norm;
    model_layer *layers;
    uint64_t weight_count; /* prepared ones */
    tenon_weight **weights;
    tenon_buffer *norms; /* where all the norm weights are, one behind the other */
    uint64_t norm_bytes; /* written so far */
} model;

/* Told while weights are prepared, which may take seconds. */
typedef void model_progress(void *context, uint64_t done, uint64_t all);

/* Reads and checks the numbers and shapes of a file, then prepares its weights in session. The
 * source's data must outlive the model. NULL with *fault. progress may be NULL. */
model *model_open(tenon_session *session, const model_source *source, model_progress *progress,
                  void *context, engine_fault *fault);
void model_close(model *self);

/* "llama, gemma3": the architectures that are known. */
const char *model_families(void);

/* Bytes that providers hold for the weights, as far as they tell: TENON_UNKNOWN when none does. */
uint64_t model_prepared_bytes(const model *self);

#endif
