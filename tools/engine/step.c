#include "step_internal.h"
#include "family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u
#define OUTSIDE UINT64_MAX /* of all layers */

static tenon_view view(const void *at, uint64_t count)
{
    return (tenon_view){.host = (void *)(uintptr_t)at, .bytes = count * sizeof(float)};
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct room {
    float **at;
    uint64_t width;
} room;

bool step_reserve(step *self, uint64_t capacity)
{
    const model *m = self->model;
    uint64_t q = m->heads * m->head_size, kv = m->kv_heads * m->head_size, total = 0, i;
    const room rooms[] = {
        {&self->x, m->width},
        {&self->y, m->width},
        {&self->h, m->width},
        {&self->q, q},
        {&self->projected, m->width},
        {&self->q_normed, q},
        {&self->k, kv},
        {&self->k_normed, kv},
        {&self->v, kv},
        {&self->attended, q},
        {&self->gate, m->ffn_width},
        {&self->up, m->ffn_width},
        {&self->gated, m->ffn_width},
    };
    char *at;
    for (i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        uint64_t size;
        if (!tenon_mul_u64(rooms[i].width * sizeof(float), capacity, &size) ||
            !tenon_add_u64(size, ALIGNMENT, &size) || !tenon_add_u64(total, size, &total))
            return fault_memory(self->fault, "a step");
    }
    total = (total + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (total > SIZE_MAX) return fault_memory(self->fault, "a step");
    step_release(self);
    self->memory = aligned_alloc(ALIGNMENT, (size_t)total);
    if (self->memory == NULL) return fault_memory(self->fault, "a step");
    at = self->memory;
    for (i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        uint64_t size = rooms[i].width * sizeof(float) * capacity;
        *rooms[i].at = (float *)(void *)at;
        at += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    self->capacity = capacity;
    return true;
}

void step_release(step *self)
{
    free(self->memory);
    self->memory = NULL;
    self->capacity = 0;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void begin(const step *self)
{
    if (self->watch != NULL) self->watch->begin(self->watch->context);
}

static bool end(step *self, const char *operation, uint64_t rows, uint64_t numbers, int32_t status,
                const tenon_error *error)
{
    char doing[64];
    if (self->watch != NULL)
        self->watch->end(self->watch->context, operation, self->layer, rows,
                         numbers * sizeof(float), status);
    if (status == TENON_OK) return true;
    if (self->layer == OUTSIDE)
        snprintf(doing, sizeof doing, "%s", operation);
    else
        snprintf(doing, sizeof doing, "layer %llu, %s", (unsigned long long)self->layer, operation);
    return fault_call(self->fault, doing, error);
}

bool step_embed(step *self, const uint32_t *ids)
{
    const model *m = self->model;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_embed_call call = {TENON_HEAD(tenon_embed_call), .weight = m->embedding};
    int32_t status;
    call.ids = view(ids, self->rows);
    call.y = view(self->x, self->rows * m->width);
    call.tokens = self->rows;
    call.y_row_stride = m->width * sizeof(float);
    call.scale = m->embed_scale;
    begin(self);
    status = tenon_embed(self->queue, &call, &error);
    return end(self, "embed", self->rows, self->rows * (m->width + 1), status, &error);
}

bool step_norm(step *self, uint64_t rows, uint64_t groups, uint64_t width, const float *x,
               const float *w, float *y)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_rmsnorm_call call = {TENON_HEAD(tenon_rmsnorm_call), .tokens = rows};
    uint64_t all = rows * groups * width;
    int32_t status;
    call.x = view(x, all);
    call.w = view(w, width);
    call.y = view(y, all);
    call.groups = groups;
    call.width = width;
    call.x_row_stride = call.y_row_stride = groups * width * sizeof(float);
    call.eps = self->model->eps;
    begin(self);
    status = tenon_rmsnorm(self->queue, &call, &error);
    return end(self, "rmsnorm", rows, 2 * all + width, status, &error);
}

/* Products over one input. */
typedef struct product {
    tenon_weight *weight;
    float *y;
    uint64_t width;
} product;

static bool multiply(step *self, uint64_t rows, const float *x, uint64_t cols, const product *each,
                     uint32_t count)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = rows};
    uint64_t numbers = rows * cols;
    uint32_t i;
    int32_t status;
    call.x = view(x, rows * cols);
    call.x_row_stride = cols * sizeof(float);
    call.output_count = count;
    for (i = 0; i < count; i++) {
        call.outputs[i].weight = each[i].weight;
        call.outputs[i].y = view(each[i].y, rows * each[i].width);
        call.outputs[i].row_stride = each[i].width * sizeof(float);
        numbers += rows * each[i].width;
    }
    begin(self);
    status = tenon_qmatmul(self->queue, &call, &error);
    return end(self, "qmatmul", rows, numbers, status, &error);
}

bool step_multiply(step *self, uint64_t rows, const float *x, uint64_t cols, tenon_weight *weight,
                   uint64_t width, float *y)
{
    const product one = {weight, y, width};
    return multiply(self, rows, x, cols, &one, 1);
}

bool step_project(step *self, const model_layer *layer, const float *x, float *y)
{
    const model *m = self->model;
    return step_multiply(self, self->kept, x, m->heads * m->head_size, layer->output, m->width, y);
}

bool step_qkv(step *self, const model_layer *layer, const float *x)
{
    const model *m = self->model;
    uint64_t kv = m->kv_heads * m->head_size;
    const product each[] = {{layer->k, self->k, kv},
                            {layer->v, self->v, kv},
                            {layer->q, self->q, m->heads * m->head_size}};
    if (self->kept == self->rows) return multiply(self, self->rows, x, m->width, each, 3);
    return multiply(self, self->rows, x, m->width, each, 2) &&
           (self->kept == 0 || multiply(self, self->kept, x + (self->rows - self->kept) * m->width,
                                        m->width, each + 2, 1));
}

bool step_append(step *self, tenon_cache *cache, const float *k, const float *v)
{
    uint64_t width = self->model->kv_heads * self->model->head_size;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_append_call call = {TENON_HEAD(tenon_append_call), .cache = cache};
    int32_t status;
    call.k = view(k, self->rows * width);
    call.v = view(v, self->rows * width);
    call.tokens = self->rows;
    call.k_row_stride = call.v_row_stride = width * sizeof(float);
    begin(self);
    status = tenon_append(self->queue, &call, &error);
    return end(self, "append", self->rows, 2 * self->rows * width, status, &error);
}

bool step_attend(step *self, tenon_cache *cache, const float *q, float *y)
{
    const model *m = self->model;
    uint64_t width = m->heads * m->head_size;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_attention_call call = {TENON_HEAD(tenon_attention_call), .cache = cache};
    int32_t status;
    call.q = view(q, self->kept * width);
    call.y = view(y, self->kept * width);
    call.tokens = self->kept;
    call.heads = m->heads;
    call.q_row_stride = call.y_row_stride = width * sizeof(float);
    call.scale = m->attention_scale;
    begin(self);
    status = tenon_attention(self->queue, &call, &error);
    return end(self, "attention", self->kept, 2 * self->kept * width, status, &error);
}

bool step_gated(step *self, const model_layer *layer, const float *x, uint32_t activation, float *y)
{
    const model *m = self->model;
    const product both[] = {{layer->gate, self->gate, m->ffn_width},
                            {layer->up, self->up, m->ffn_width}};
    const product down = {layer->down, y, m->width};
    uint64_t all = self->kept * m->ffn_width;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_gated_call call = {TENON_HEAD(tenon_gated_call), .activation = activation};
    int32_t status;
    if (!multiply(self, self->kept, x, m->width, both, 2)) return false;
    call.gate = view(self->gate, all);
    call.up = view(self->up, all);
    call.y = view(self->gated, all);
    call.tokens = self->kept;
    call.width = m->ffn_width;
    call.gate_row_stride = call.up_row_stride = call.y_row_stride = m->ffn_width * sizeof(float);
    begin(self);
    status = tenon_gated(self->queue, &call, &error);
    return end(self, "gated", self->kept, 3 * all, status, &error) &&
           multiply(self, self->kept, self->gated, m->ffn_width, &down, 1);
}

bool step_add(step *self, const float *a, const float *b, float *y)
{
    uint64_t width = self->model->width, all = self->kept * width;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_add_call call = {TENON_HEAD(tenon_add_call), .tokens = self->kept};
    int32_t status;
    call.a = view(a, all);
    call.b = view(b, all);
    call.y = view(y, all);
    call.width = width;
    call.a_row_stride = call.b_row_stride = call.y_row_stride = width * sizeof(float);
    begin(self);
    status = tenon_add(self->queue, &call, &error);
    return end(self, "add", self->kept, 3 * all, status, &error);
}

const float *step_kept_x(const step *self)
{
    return self->x + (self->rows - self->kept) * self->model->width;
}

bool step_argmax(step *self, const float *x, uint64_t width, uint32_t *out)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_argmax_call call = {TENON_HEAD(tenon_argmax_call), .tokens = 1};
    int32_t status;
    call.x = view(x, width);
    call.y = view(out, 1);
    call.width = width;
    call.x_row_stride = width * sizeof(float);
    begin(self);
    status = tenon_argmax(self->queue, &call, &error);
    if (!end(self, "argmax", 1, width + 1, status, &error)) return false;
    if (*out != TENON_ARGMAX_NONE) return true;
    return fault_set(self->fault, FAULT_NOT_FINITE, "the logits are not numbers");
}
