#include "step_internal.h"
#include "family.h"

#include <stdio.h>
#include <string.h>

#define OUTSIDE UINT64_MAX /* of all layers */

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct room {
    tenon_view *at;
    uint64_t width;
} room;

#define ROOMS 13u

static void list_rooms(const model *m, step_rooms *self, room out[ROOMS])
{
    uint64_t q = m->heads * m->head_size, kv = m->kv_heads * m->head_size;
    const room rooms[ROOMS] = {
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
    memcpy(out, rooms, sizeof rooms);
}

static bool reserve(step *self, step_rooms *rooms, uint64_t capacity)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    room each[ROOMS];
    size_t i;
    list_rooms(self->model, rooms, each);
    rooms->capacity = capacity;
    for (i = 0; i < ROOMS; i++) {
        tenon_buffer *made = NULL;
        uint64_t size;
        if (!tenon_mul_u64(each[i].width * sizeof(float), capacity, &size))
            return fault_memory(self->fault, "a step");
        if (tenon_buffer_create(self->model->session, size, &made, &error) != TENON_OK)
            return fault_call(self->fault, "the memory of a step", &error);
        *each[i].at = (tenon_view){.buffer = made, .bytes = size};
    }
    return true;
}

static void release(step *self, step_rooms *rooms)
{
    room each[ROOMS];
    size_t i;
    list_rooms(self->model, rooms, each);
    for (i = 0; i < ROOMS; i++) tenon_buffer_destroy(each[i].at->buffer);
    memset(rooms, 0, sizeof *rooms);
}

bool step_reserve(step *self, uint64_t capacity)
{
    return reserve(self, &self->one, 1) && (capacity == 1 || reserve(self, &self->many, capacity));
}

void step_release(step *self)
{
    release(self, &self->one);
    release(self, &self->many);
}

void step_begin(step *self, uint64_t rows)
{
    self->rows = self->kept = rows;
    self->layer = OUTSIDE;
    self->at = rows == 1 ? &self->one : &self->many;
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

bool step_embed(step *self, tenon_view ids)
{
    const model *m = self->model;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_embed_call call = {TENON_HEAD(tenon_embed_call), .weight = m->embedding};
    int32_t status;
    call.ids = step_part(ids, 0, self->rows);
    call.y = step_part(self->at->x, 0, self->rows * m->width);
    call.tokens = self->rows;
    call.y_row_stride = m->width * sizeof(float);
    call.scale = m->embed_scale;
    begin(self);
    status = tenon_embed(self->queue, &call, &error);
    return end(self, "embed", self->rows, self->rows * (m->width + 1), status, &error);
}

bool step_norm(step *self, uint64_t rows, uint64_t groups, uint64_t width, tenon_view x,
               tenon_view w, tenon_view y)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_rmsnorm_call call = {TENON_HEAD(tenon_rmsnorm_call), .tokens = rows};
    uint64_t all = rows * groups * width;
    int32_t status;
    call.x = step_part(x, 0, all);
    call.w = step_part(w, 0, width);
    call.y = step_part(y, 0, all);
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
    tenon_view y;
    uint64_t width;
} product;

static bool multiply(step *self, uint64_t rows, tenon_view x, uint64_t cols, const product *each,
                     uint32_t count)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = rows};
    uint64_t numbers = rows * cols;
    uint32_t i;
    int32_t status;
    call.x = step_part(x, 0, rows * cols);
    call.x_row_stride = cols * sizeof(float);
    call.output_count = count;
    for (i = 0; i < count; i++) {
        call.outputs[i].weight = each[i].weight;
        call.outputs[i].y = step_part(each[i].y, 0, rows * each[i].width);
        call.outputs[i].row_stride = each[i].width * sizeof(float);
        numbers += rows * each[i].width;
    }
    begin(self);
    status = tenon_qmatmul(self->queue, &call, &error);
    return end(self, "qmatmul", rows, numbers, status, &error);
}

bool step_multiply(step *self, uint64_t rows, tenon_view x, uint64_t cols, tenon_weight *weight,
                   uint64_t width, tenon_view y)
{
    const product one = {weight, y, width};
    return multiply(self, rows, x, cols, &one, 1);
}

bool step_project(step *self, const model_layer *layer, tenon_view x, tenon_view y)
{
    const model *m = self->model;
    return step_multiply(self, self->kept, x, m->heads * m->head_size, layer->output, m->width, y);
}

bool step_qkv(step *self, const model_layer *layer, tenon_view x)
{
    const model *m = self->model;
    uint64_t kv = m->kv_heads * m->head_size;
    const product each[] = {{layer->k, self->at->k, kv},
                            {layer->v, self->at->v, kv},
                            {layer->q, self->at->q, m->heads * m->head_size}};
    if (self->kept == self->rows) return multiply(self, self->rows, x, m->width, each, 3);
    return multiply(self, self->rows, x, m->width, each, 2) &&
           (self->kept == 0 ||
            multiply(self, self->kept, step_part(x, (self->rows - self->kept) * m->width, 0),
                     m->width, each + 2, 1));
}

bool step_append(step *self, tenon_cache *cache, tenon_view k, tenon_view v)
{
    uint64_t width = self->model->kv_heads * self->model->head_size;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_append_call call = {TENON_HEAD(tenon_append_call), .cache = cache};
    int32_t status;
    call.k = step_part(k, 0, self->rows * width);
    call.v = step_part(v, 0, self->rows * width);
    call.tokens = self->rows;
    call.k_row_stride = call.v_row_stride = width * sizeof(float);
    begin(self);
    status = tenon_append(self->queue, &call, &error);
    return end(self, "append", self->rows, 2 * self->rows * width, status, &error);
}

bool step_attend(step *self, tenon_cache *cache, tenon_view q, tenon_view y)
{
    const model *m = self->model;
    uint64_t width = m->heads * m->head_size;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_attention_call call = {TENON_HEAD(tenon_attention_call), .cache = cache};
    int32_t status;
    call.q = step_part(q, 0, self->kept * width);
    call.y = step_part(y, 0, self->kept * width);
    call.tokens = self->kept;
    call.heads = m->heads;
    call.q_row_stride = call.y_row_stride = width * sizeof(float);
    call.scale = m->attention_scale;
    begin(self);
    status = tenon_attention(self->queue, &call, &error);
    return end(self, "attention", self->kept, 2 * self->kept * width, status, &error);
}

bool step_gated(step *self, const model_layer *layer, tenon_view x, uint32_t activation,
                tenon_view y)
{
    const model *m = self->model;
    const product both[] = {{layer->gate, self->at->gate, m->ffn_width},
                            {layer->up, self->at->up, m->ffn_width}};
    const product down = {layer->down, y, m->width};
    uint64_t all = self->kept * m->ffn_width;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_gated_call call = {TENON_HEAD(tenon_gated_call), .activation = activation};
    int32_t status;
    if (!multiply(self, self->kept, x, m->width, both, 2)) return false;
    call.gate = step_part(self->at->gate, 0, all);
    call.up = step_part(self->at->up, 0, all);
    call.y = step_part(self->at->gated, 0, all);
    call.tokens = self->kept;
    call.width = m->ffn_width;
    call.gate_row_stride = call.up_row_stride = call.y_row_stride = m->ffn_width * sizeof(float);
    begin(self);
    status = tenon_gated(self->queue, &call, &error);
    return end(self, "gated", self->kept, 3 * all, status, &error) &&
           multiply(self, self->kept, self->at->gated, m->ffn_width, &down, 1);
}

bool step_add(step *self, tenon_view a, tenon_view b, tenon_view y)
{
    uint64_t width = self->model->width, all = self->kept * width;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_add_call call = {TENON_HEAD(tenon_add_call), .tokens = self->kept};
    int32_t status;
    call.a = step_part(a, 0, all);
    call.b = step_part(b, 0, all);
    call.y = step_part(y, 0, all);
    call.width = width;
    call.a_row_stride = call.b_row_stride = call.y_row_stride = width * sizeof(float);
    begin(self);
    status = tenon_add(self->queue, &call, &error);
    return end(self, "add", self->kept, 3 * all, status, &error);
}

tenon_view step_kept_x(const step *self)
{
    uint64_t width = self->model->width;
    return step_part(self->at->x, (self->rows - self->kept) * width, self->kept * width);
}

bool step_argmax(step *self, tenon_view x, uint64_t width, tenon_view out)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_argmax_call call = {TENON_HEAD(tenon_argmax_call), .tokens = 1};
    int32_t status;
    call.x = step_part(x, 0, width);
    call.y = step_part(out, 0, 1);
    call.width = width;
    call.x_row_stride = width * sizeof(float);
    begin(self);
    status = tenon_argmax(self->queue, &call, &error);
    return end(self, "argmax", 1, width + 1, status, &error);
}
