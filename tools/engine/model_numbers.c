/* Numbers of a model, out of the metadata of its file: each with the range it must lie in. */
#include "family.h"
#include "model_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Larger than any model has; products of them fit 64 bits and lists of them fit memory. */
#define MOST_LAYERS 4096u
#define MOST_HEADS 65536u
#define MOST_HEAD_SIZE 65536u
#define MOST_WIDTH (1u << 23)
#define MOST_CONTEXT (UINT64_C(1) << 31)

static const family *const families[] = {&family_llama, &family_gemma3};
#define FAMILIES (sizeof families / sizeof families[0])

const char *model_families(void)
{
    return "llama, gemma3";
}

static void key_name(const model *self, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s.%s", self->kind->architecture, name);
}

bool model_integer(const model *self, const model_source *source, const char *name, bool wanted,
                   uint64_t minimum, uint64_t maximum, uint64_t *out, engine_fault *fault)
{
    char key[96];
    model_value value;
    key_name(self, name, key, sizeof key);
    if (!source->value(source->context, key, &value)) {
        if (!wanted) return true;
        return fault_set(fault, FAULT_MODEL, "key '%s' is missing", key);
    }
    if (value.kind != MODEL_INTEGER)
        return fault_set(fault, FAULT_MODEL, "key '%s' is a %s, wanted an integer of at least 0",
                         key, value.type_name);
    if (value.integer < minimum || value.integer > maximum)
        return fault_set(fault, FAULT_MODEL, "key '%s' is %llu, wanted %llu to %llu", key,
                         (unsigned long long)value.integer, (unsigned long long)minimum,
                         (unsigned long long)maximum);
    *out = value.integer;
    return true;
}

bool model_real(const model *self, const model_source *source, const char *name, bool wanted,
                double minimum, double maximum, double *out, engine_fault *fault)
{
    char key[96];
    model_value value;
    key_name(self, name, key, sizeof key);
    if (!source->value(source->context, key, &value)) {
        if (!wanted) return true;
        return fault_set(fault, FAULT_MODEL, "key '%s' is missing", key);
    }
    if (value.kind != MODEL_REAL)
        return fault_set(fault, FAULT_MODEL, "key '%s' is a %s, wanted an f32", key,
                         value.type_name);
    if (!(value.real >= minimum && value.real <= maximum))
        return fault_set(fault, FAULT_MODEL, "key '%s' is %g, wanted %g to %g", key, value.real,
                         minimum, maximum);
    *out = value.real;
    return true;
}

bool model_absent(const model *self, const model_source *source, const char *name,
                  engine_fault *fault)
{
    char key[96];
    model_value value;
    key_name(self, name, key, sizeof key);
    if (!source->value(source->context, key, &value)) return true;
    if ((value.kind == MODEL_INTEGER || value.kind == MODEL_BOOL) && value.integer == 0)
        return true;
    if (value.kind == MODEL_REAL && value.real == 0.0) return true;
    return fault_set(fault, FAULT_MODEL, "key '%s' asks for what this engine does not do", key);
}

bool model_scaling(model *self, const model_source *source, engine_fault *fault)
{
    char key[96];
    model_value value;
    self->rope_factor = 1.0;
    key_name(self, "rope.scaling.type", key, sizeof key);
    if (source->value(source->context, key, &value)) {
        if (value.kind != MODEL_TEXT)
            return fault_set(fault, FAULT_MODEL, "key '%s' is a %s, wanted a string", key,
                             value.type_name);
        if (value.length == 4 && memcmp(value.text, "none", 4) == 0) return true;
        if (value.length != 6 || memcmp(value.text, "linear", 6) != 0)
            return fault_set(fault, FAULT_MODEL, "key '%s' is '%.*s', known are none and linear",
                             key, value.length > 40 ? 40 : (int)value.length, value.text);
        return model_real(self, source, "rope.scaling.factor", true, 1e-6, 1e6, &self->rope_factor,
                          fault);
    }
    /* as older files say it */
    return model_real(self, source, "rope.scale_linear", false, 1e-6, 1e6, &self->rope_factor,
                      fault);
}

static bool find_family(model *self, const model_source *source, engine_fault *fault)
{
    model_value value;
    size_t i;
    if (!source->value(source->context, "general.architecture", &value))
        return fault_set(fault, FAULT_MODEL, "key 'general.architecture' is missing");
    if (value.kind != MODEL_TEXT)
        return fault_set(fault, FAULT_MODEL, "key 'general.architecture' is a %s, wanted a string",
                         value.type_name);
    for (i = 0; i < FAMILIES; i++) {
        const char *name = families[i]->architecture;
        if (value.length != strlen(name) || memcmp(value.text, name, strlen(name)) != 0) continue;
        self->kind = families[i];
        return true;
    }
    return fault_set(fault, FAULT_MODEL, "architecture '%.*s' is not known; known are %s",
                     value.length > 60 ? 60 : (int)value.length, value.text, model_families());
}

static bool read_heads(model *self, const model_source *source, engine_fault *fault)
{
    uint64_t value_size;
    if (!model_integer(self, source, "attention.head_count", true, 1, MOST_HEADS, &self->heads,
                       fault))
        return false;
    self->kv_heads = self->heads;
    if (!model_integer(self, source, "attention.head_count_kv", false, 1, self->heads,
                       &self->kv_heads, fault))
        return false;
    if (self->heads % self->kv_heads != 0)
        return fault_set(fault, FAULT_MODEL,
                         "key '%s.attention.head_count_kv' is %llu, which does not divide "
                         "head_count %llu",
                         self->kind->architecture, (unsigned long long)self->kv_heads,
                         (unsigned long long)self->heads);
    self->head_size = 0;
    if (!model_integer(self, source, "attention.key_length", false, 1, MOST_HEAD_SIZE,
                       &self->head_size, fault))
        return false;
    if (self->head_size == 0) {
        if (self->width % self->heads != 0)
            return fault_set(fault, FAULT_MODEL,
                             "key '%s.embedding_length' is %llu, which attention.head_count %llu "
                             "does not divide",
                             self->kind->architecture, (unsigned long long)self->width,
                             (unsigned long long)self->heads);
        self->head_size = self->width / self->heads;
    }
    value_size = self->head_size;
    if (!model_integer(self, source, "attention.value_length", false, 1, MOST_HEAD_SIZE,
                       &value_size, fault))
        return false;
    if (value_size != self->head_size)
        return fault_set(fault, FAULT_MODEL,
                         "key '%s.attention.value_length' is %llu, wanted the %llu of keys",
                         self->kind->architecture, (unsigned long long)value_size,
                         (unsigned long long)self->head_size);
    self->rotary = self->head_size;
    if (!model_integer(self, source, "rope.dimension_count", false, 0, self->head_size,
                       &self->rotary, fault))
        return false;
    if (self->rotary % 2 != 0)
        return fault_set(
            fault, FAULT_MODEL,
            "%llu inputs of a head are rotated (key '%s.rope.dimension_count'), wanted "
            "an even number",
            (unsigned long long)self->rotary, self->kind->architecture);
    return true;
}

bool model_read_numbers(model *self, const model_source *source, engine_fault *fault)
{
    double eps = 0.0, scale;
    if (!find_family(self, source, fault)) return false;
    if (!model_integer(self, source, "block_count", true, 1, MOST_LAYERS, &self->layer_count,
                       fault) ||
        !model_integer(self, source, "context_length", true, 1, MOST_CONTEXT,
                       &self->trained_context, fault) ||
        !model_integer(self, source, "embedding_length", true, 1, MOST_WIDTH, &self->width,
                       fault) ||
        !model_integer(self, source, "feed_forward_length", true, 1, MOST_WIDTH, &self->ffn_width,
                       fault) ||
        !read_heads(self, source, fault) ||
        !model_real(self, source, "attention.layer_norm_rms_epsilon", true, 0.0, 1.0, &eps, fault))
        return false;
    self->eps = (float)eps;
    scale = 1.0 / sqrt((double)self->head_size);
    if (!model_real(self, source, "attention.scale", false, 1e-30, 1e30, &scale, fault))
        return false;
    self->attention_scale = (float)scale;
    self->embed_scale = 1.0f;
    return model_absent(self, source, "expert_count", fault) &&
           model_absent(self, source, "attn_logit_softcapping", fault) &&
           model_absent(self, source, "final_logit_softcapping", fault);
}
