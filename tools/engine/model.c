/* Weights of a model: their shapes checked, all before the first is prepared. */
#include "model.h"
#include "family.h"
#include "model_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor that a model needs: its name, shape, and where it goes. */
typedef struct piece {
    model_tensor tensor;
    char name[64];
    uint64_t cols, rows; /* rows 0: a vector */
    uint32_t semantic;
    tenon_weight **weight; /* of a matrix, else: */
    tenon_view *vector;
    const char *alternative; /* when it is missing: share the weight of this name */
} piece;

typedef struct plan {
    model *self;
    const model_source *source;
    piece *pieces;
    size_t count, capacity;
    engine_fault *fault;
} plan;

static void shape_text(char *out, size_t size, uint32_t dimensions, const uint64_t *shape)
{
    size_t at = 0;
    uint32_t i;
    out[0] = '\0';
    for (i = 0; i < dimensions && at < size; i++) {
        int n = snprintf(out + at, size - at, "%s%llu", i > 0 ? " x " : "",
                         (unsigned long long)shape[i]);
        if (n < 0) return;
        at += (size_t)n;
    }
}

static bool fail_shape(plan *work, const piece *wanted, const model_tensor *have)
{
    uint64_t shape[2] = {wanted->cols, wanted->rows};
    char have_text[96], wanted_text[96];
    shape_text(have_text, sizeof have_text, have->dimensions, have->shape);
    shape_text(wanted_text, sizeof wanted_text, wanted->rows == 0 ? 1 : 2, shape);
    return fault_set(work->fault, FAULT_MODEL, "tensor '%s' has shape %s, wanted %s", wanted->name,
                     have_text, wanted_text);
}

/* Checks one tensor against what is wanted. */
static bool check(plan *work, piece *wanted)
{
    model_tensor *have = &wanted->tensor;
    uint64_t rows = wanted->rows == 0 ? 1 : wanted->rows, needed, scales;
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = have->format};
    uint32_t reason;
    if (have->shape[0] != wanted->cols || have->shape[1] != rows || have->shape[2] != 1 ||
        have->shape[3] != 1)
        return fail_shape(work, wanted, have);
    if (have->format == TENON_FORMAT_NONE)
        return fault_set(work->fault, FAULT_MODEL,
                         "tensor '%s' has type %s, which no provider multiplies with", wanted->name,
                         have->type_name);
    if (wanted->vector != NULL && have->format != TENON_FORMAT_F32)
        return fault_set(work->fault, FAULT_MODEL, "tensor '%s' has type %s, wanted F32",
                         wanted->name, have->type_name);
    desc.rows = rows;
    desc.cols = wanted->cols;
    if (tenon_weight_bytes(&desc, &needed, &scales, &reason) != TENON_OK)
        return fault_set(work->fault, FAULT_MODEL, "tensor '%s' of type %s: %s", wanted->name,
                         have->type_name, tenon_reason_text(reason));
    if (have->data == NULL || have->bytes < needed)
        return fault_set(work->fault, FAULT_MODEL,
                         "tensor '%s' has %llu bytes of data, its shape needs %llu", wanted->name,
                         (unsigned long long)have->bytes, (unsigned long long)needed);
    return true;
}

static piece *add(plan *work, int64_t layer, const char *name)
{
    piece *made;
    if (work->count == work->capacity) {
        size_t wanted = work->capacity == 0 ? 64 : work->capacity * 2;
        piece *more = realloc(work->pieces, wanted * sizeof *more);
        if (more == NULL) return NULL;
        work->pieces = more;
        work->capacity = wanted;
    }
    made = &work->pieces[work->count];
    memset(made, 0, sizeof *made);
    if (layer >= 0)
        snprintf(made->name, sizeof made->name, "blk.%lld.%s.weight", (long long)layer, name);
    else
        snprintf(made->name, sizeof made->name, "%s.weight", name);
    return made;
}

/* Finds, checks and keeps one tensor. missing: NULL when it must be there. */
static bool want(plan *work, int64_t layer, const char *name, uint64_t cols, uint64_t rows,
                 uint32_t semantic, tenon_weight **weight, tenon_view *vector, bool *missing)
{
    piece *made = add(work, layer, name);
    if (made == NULL) return fault_memory(work->fault, "the list of tensors");
    made->cols = cols;
    made->rows = rows;
    made->semantic = semantic;
    made->weight = weight;
    made->vector = vector;
    if (missing != NULL) *missing = false;
    if (!work->source->tensor(work->source->context, made->name, &made->tensor)) {
        uint64_t shape[2] = {cols, rows};
        char text[96];
        if (missing != NULL) {
            *missing = true;
            return true;
        }
        shape_text(text, sizeof text, rows == 0 ? 1 : 2, shape);
        return fault_set(work->fault, FAULT_MODEL, "tensor '%s' is missing, wanted %s", made->name,
                         text);
    }
    if (!check(work, made)) return false;
    work->count++;
    return true;
}

static bool want_vector(plan *work, int64_t layer, const char *name, uint64_t count,
                        tenon_view *out)
{
    return want(work, layer, name, count, 0, 0, NULL, out, NULL);
}

static bool want_layer(plan *work, uint64_t index)
{
    const model *self = work->self;
    const family *kind = self->kind;
    model_layer *layer = &self->layers[index];
    int64_t at = (int64_t)index;
    uint64_t n = self->width, head = self->head_size, f = self->ffn_width;
    uint64_t q = self->heads * head, kv = self->kv_heads * head;
    return want_vector(work, at, "attn_norm", n, &layer->attention_norm) &&
           want(work, at, "attn_q", n, q, TENON_SEM_ATTN_Q, &layer->q, NULL, NULL) &&
           want(work, at, "attn_k", n, kv, TENON_SEM_ATTN_K, &layer->k, NULL, NULL) &&
           want(work, at, "attn_v", n, kv, TENON_SEM_ATTN_V, &layer->v, NULL, NULL) &&
           (!kind->head_norms || (want_vector(work, at, "attn_q_norm", head, &layer->q_norm) &&
                                  want_vector(work, at, "attn_k_norm", head, &layer->k_norm))) &&
           want(work, at, "attn_output", q, n, TENON_SEM_ATTN_OUT, &layer->output, NULL, NULL) &&
           (!kind->post_norms ||
            (want_vector(work, at, "post_attention_norm", n, &layer->post_attention_norm) &&
             want_vector(work, at, "post_ffw_norm", n, &layer->post_ffn_norm))) &&
           want_vector(work, at, "ffn_norm", n, &layer->ffn_norm) &&
           want(work, at, "ffn_gate", n, f, TENON_SEM_FFN_GATE, &layer->gate, NULL, NULL) &&
           want(work, at, "ffn_up", n, f, TENON_SEM_FFN_UP, &layer->up, NULL, NULL) &&
           want(work, at, "ffn_down", f, n, TENON_SEM_FFN_DOWN, &layer->down, NULL, NULL);
}

/* The embedding says how many tokens there are. */
static bool want_embedding(plan *work, bool *tied)
{
    model *self = work->self;
    model_tensor table;
    if (!work->source->tensor(work->source->context, "token_embd.weight", &table))
        return fault_set(work->fault, FAULT_MODEL,
                         "tensor 'token_embd.weight' is missing, wanted %llu x tokens",
                         (unsigned long long)self->width);
    self->vocabulary = table.shape[1];
    if (table.dimensions != 2 || self->vocabulary == 0 || self->vocabulary >= UINT32_MAX) {
        char text[96];
        shape_text(text, sizeof text, table.dimensions, table.shape);
        return fault_set(work->fault, FAULT_MODEL,
                         "tensor 'token_embd.weight' has shape %s, wanted %llu x tokens", text,
                         (unsigned long long)self->width);
    }
    if (!want(work, -1, "output", self->width, self->vocabulary, TENON_SEM_OUTPUT, &self->output,
              NULL, tied))
        return false;
    return want(work, -1, "token_embd", self->width, self->vocabulary,
                *tied ? TENON_SEM_OUTPUT : TENON_SEM_EMBED, &self->embedding, NULL, NULL) &&
           want_vector(work, -1, "output_norm", self->width, &self->output_norm);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Old files carry a table of angles that nobody reads. */
static bool is_ignored(const char *name)
{
    const char *end = strstr(name, ".attn_rot_embd");
    return end != NULL && strncmp(name, "blk.", 4) == 0;
}

/* Everything the file has must have been asked for. */
static bool check_all_used(plan *work)
{
    const char **names = malloc((work->count + 1) * sizeof *names);
    const char *foreign = NULL;
    model_tensor one;
    uint64_t i;
    size_t n;
    if (names == NULL) return fault_memory(work->fault, "the list of tensors");
    for (n = 0; n < work->count; n++) names[n] = work->pieces[n].name;
    qsort(names, work->count, sizeof *names, compare_names);
    for (i = 0; i < work->source->tensor_count && foreign == NULL; i++) {
        work->source->tensor_at(work->source->context, i, &one);
        if (bsearch(&one.name, names, work->count, sizeof *names, compare_names) == NULL &&
            !is_ignored(one.name))
            foreign = one.name;
    }
    free(names);
    if (foreign == NULL) return true;
    return fault_set(work->fault, FAULT_MODEL,
                     "tensor '%.64s' has no place in a model of architecture '%s' as this engine "
                     "knows it",
                     foreign, work->self->kind->architecture);
}

/* Checks a vector and puts it behind the others in the one buffer of them. */
static bool make_vector(plan *work, const piece *from)
{
    model *self = work->self;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const unsigned char *data = from->tensor.data;
    uint64_t i, bytes = from->cols * sizeof(float);
    for (i = 0; i < from->cols; i++) {
        float value;
        memcpy(&value, data + i * sizeof value, sizeof value);
        if (!isfinite(value))
            return fault_set(work->fault, FAULT_MODEL, "tensor '%s': value %llu is not finite",
                             from->name, (unsigned long long)i);
    }
    if (tenon_buffer_write(tenon_session_queue(self->session), self->norms, self->norm_bytes, data,
                           bytes, &error) != TENON_OK)
        return fault_call(work->fault, from->name, &error);
    *from->vector = (tenon_view){.buffer = self->norms, .offset = self->norm_bytes, .bytes = bytes};
    self->norm_bytes += bytes;
    return true;
}

static bool make_weight(plan *work, const piece *from)
{
    model *self = work->self;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = from->tensor.format};
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = from->tensor.data};
    desc.rows = from->rows;
    desc.cols = from->cols;
    desc.semantic = from->semantic;
    data.weights_bytes = from->tensor.bytes;
    data.lifetime = work->source->lifetime;
    if (tenon_weight_create(self->session, &desc, &data, from->weight, &error) != TENON_OK)
        return fault_call(work->fault, from->name, &error);
    self->weights[self->weight_count++] = *from->weight;
    return true;
}

static bool make_all(plan *work, model_progress *progress, void *context)
{
    model *self = work->self;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t vectors = 0, matrices = 0;
    size_t i;
    for (i = 0; i < work->count; i++) {
        if (work->pieces[i].vector != NULL)
            vectors += work->pieces[i].cols; /* data of that size is in the file: no overflow */
        else
            matrices++;
    }
    self->weights = calloc((size_t)matrices, sizeof *self->weights);
    if (self->weights == NULL) return fault_memory(work->fault, "the weights of the model");
    if (tenon_buffer_create(self->session, vectors * sizeof(float), &self->norms, &error) !=
        TENON_OK)
        return fault_call(work->fault, "the norms of the model", &error);
    /* the small ones first: what is wrong with them is known at once */
    for (i = 0; i < work->count; i++)
        if (work->pieces[i].vector != NULL && !make_vector(work, &work->pieces[i])) return false;
    for (i = 0; i < work->count; i++) {
        if (work->pieces[i].vector != NULL) continue;
        if (progress != NULL) progress(context, self->weight_count, matrices);
        if (!make_weight(work, &work->pieces[i])) return false;
    }
    if (progress != NULL) progress(context, matrices, matrices);
    return true;
}

/* What the angles of long contexts are divided by: the host computes with them. */
static bool take_factors(plan *work, const tenon_view *factors)
{
    model *self = work->self;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t i;
    if (factors->bytes == 0) return true;
    self->rope_factors = malloc((size_t)factors->bytes);
    if (self->rope_factors == NULL) return fault_memory(work->fault, "the factors of the rotation");
    if (tenon_buffer_read(tenon_session_queue(self->session), factors->buffer, factors->offset,
                          self->rope_factors, factors->bytes, &error) != TENON_OK)
        return fault_call(work->fault, "rope_freqs.weight", &error);
    for (i = 0; i < self->rotary / 2; i++)
        if (!(self->rope_factors[i] > 0.0f))
            return fault_set(work->fault, FAULT_MODEL,
                             "tensor 'rope_freqs.weight': value %llu is %g, wanted more than 0",
                             (unsigned long long)i, (double)self->rope_factors[i]);
    return true;
}

static bool load(plan *work, model_progress *progress, void *context)
{
    model *self = work->self;
    tenon_view factors = {.bytes = 0};
    bool tied = false, plain;
    uint64_t i;
    if (!want_embedding(work, &tied)) return false;
    for (i = 0; i < self->layer_count; i++)
        if (!want_layer(work, i)) return false;
    if (self->rotary > 0 &&
        !want(work, -1, "rope_freqs", self->rotary / 2, 0, 0, NULL, &factors, &plain))
        return false;
    if (!check_all_used(work) || !make_all(work, progress, context)) return false;
    if (tied) self->output = self->embedding;
    return take_factors(work, &factors);
}

model *model_open(tenon_session *session, const model_source *source, model_progress *progress,
                  void *context, engine_fault *fault)
{
    plan work = {.source = source, .fault = fault};
    model *self = calloc(1, sizeof *self);
    bool good = false;
    memset(fault, 0, sizeof *fault);
    if (self == NULL) {
        fault_memory(fault, "the model");
        return NULL;
    }
    self->session = session;
    work.self = self;
    if (!model_read_numbers(self, source, fault)) goto out;
    self->layers = calloc((size_t)self->layer_count, sizeof *self->layers);
    if (self->layers == NULL) {
        fault_memory(fault, "the layers of the model");
        goto out;
    }
    if (!self->kind->describe(self, source, fault)) goto out;
    good = load(&work, progress, context);
out:
    free(work.pieces);
    if (good) return self;
    model_close(self);
    return NULL;
}

void model_close(model *self)
{
    uint64_t i;
    if (self == NULL) return;
    for (i = 0; i < self->weight_count; i++) tenon_weight_destroy(self->weights[i]);
    free(self->weights);
    free(self->rope_factors);
    tenon_buffer_destroy(self->norms);
    free(self->layers);
    free(self);
}

uint64_t model_prepared_bytes(const model *self)
{
    uint64_t i, sum = 0;
    bool known = false;
    for (i = 0; i < self->weight_count; i++) {
        tenon_weight_information info = {TENON_HEAD(tenon_weight_information), .arith = 0};
        if (tenon_weight_info(self->weights[i], &info, NULL) != TENON_OK ||
            info.prepared_bytes == TENON_UNKNOWN || !tenon_add_u64(sum, info.prepared_bytes, &sum))
            continue;
        known = true;
    }
    return known ? sum : TENON_UNKNOWN;
}
