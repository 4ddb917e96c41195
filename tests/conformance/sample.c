/* The requests themselves: odd widths, rows with gaps, every kind of value that matters. */
#include "sample.h"

#include "data.h"

#include <loader/symbols.h>
#include <math.h>
#include <string.h>

enum {
    TOKENS = 3,
    WIDTH = 37,
    GAP = 8, /* bytes between two rows */
    ROW = WIDTH * 4 + GAP,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD = 10,
    POSITIONS = 7,
    POISON = 0xa7
};

static const struct {
    const char *name;
    uint32_t symbol;
} operations[SAMPLE_KINDS] = {
    {"qmatmul", SYMBOL_qmatmul_v1},     {"embed", SYMBOL_embed_v1}, {"rmsnorm", SYMBOL_rmsnorm_v1},
    {"attention", SYMBOL_attention_v1}, {"gated", SYMBOL_gated_v1}, {"add", SYMBOL_add_v1},
    {"argmax", SYMBOL_argmax_v1},
};

const char *sample_name(sample_kind kind)
{
    return operations[kind].name;
}

bool sample_offered(const direct *self, sample_kind kind)
{
    return (self->module->offered >> operations[kind].symbol & 1u) != 0;
}

/* Gives a view memory of its own. The view of a result is poisoned, another is filled. */
static bool add_view(sample *self, const char *name, tenon_view *view, uint64_t bytes, bool written)
{
    sample_view *added = &self->views[self->view_count];
    random_state random = {self->view_count * 977u + (uint32_t)self->kind};
    uint64_t i;
    *added = (sample_view){.name = name, .view = view, .written = written};
    if (!guarded_make(&added->memory, bytes, GUARDED_AT_END)) return false;
    self->view_count++;
    for (i = 0; i < bytes / 4; i++)
        ((float *)(void *)added->memory.data)[i] = random_normal(&random);
    if (written) memset(added->memory.data, POISON, bytes);
    *view = (tenon_view){.host = added->memory.data, .bytes = bytes};
    return true;
}

static void add_reserved(sample *self, const char *name, void *at, uint32_t bytes)
{
    self->reserved[self->reserved_count++] = (sample_field){name, at, bytes};
}
#define RESERVED(request, field) \
    add_reserved(self, #request "." #field, &self->request.field, sizeof self->request.field)

/* A weight that the provider takes, and the views of a product with it. */
static bool make_qmatmul(sample *self, direct *on, direct_device *device,
                         conformance_result *result)
{
    tenon_qmatmul_call *call = &self->product.call;
    if (!abi_request_make(&self->product, on, device, 33, 96, TOKENS, result)) return false;
    call->x_row_stride += GAP;
    call->outputs[0].row_stride += GAP;
    RESERVED(product.call, reserved0);
    RESERVED(product.call, reserved1[0]);
    RESERVED(product.call, reserved1[1]);
    return add_view(self, "x", &call->x,
                    (TOKENS - 1) * call->x_row_stride + self->product.desc.cols * 4, false) &&
           add_view(self, "y", &call->outputs[0].y,
                    (TOKENS - 1) * call->outputs[0].row_stride + 33 * 4, true);
}

static bool make_embed(sample *self, direct *on, direct_device *device, conformance_result *result)
{
    static const uint32_t ids[TOKENS] = {32, 0, 17};
    uint64_t row;
    if (!abi_request_make(&self->product, on, device, 33, 96, TOKENS, result)) return false;
    row = self->product.desc.cols * 4;
    self->embed = (tenon_embed_call){TENON_HEAD(tenon_embed_call), .weight = self->product.prepared,
                                     .tokens = TOKENS, .y_row_stride = row + GAP, .scale = 0.3f};
    RESERVED(embed, reserved0);
    RESERVED(embed, reserved1[0]);
    RESERVED(embed, reserved1[1]);
    if (!add_view(self, "ids", &self->embed.ids, sizeof ids, false) ||
        !add_view(self, "y", &self->embed.y, (TOKENS - 1) * (row + GAP) + row, true))
        return false;
    memcpy(self->views[0].memory.data, ids, sizeof ids);
    return true;
}

#define ROWS_BYTES ((TOKENS - 1) * ROW + WIDTH * 4)

static bool make_rmsnorm(sample *self)
{
    self->rmsnorm = (tenon_rmsnorm_call){TENON_HEAD(tenon_rmsnorm_call),
                                         .tokens = TOKENS,
                                         .groups = 1,
                                         .width = WIDTH,
                                         .x_row_stride = ROW,
                                         .y_row_stride = ROW,
                                         .eps = 1e-5f};
    RESERVED(rmsnorm, reserved0);
    RESERVED(rmsnorm, reserved1[0]);
    RESERVED(rmsnorm, reserved1[1]);
    return add_view(self, "x", &self->rmsnorm.x, ROWS_BYTES, false) &&
           add_view(self, "w", &self->rmsnorm.w, WIDTH * 4, false) &&
           add_view(self, "y", &self->rmsnorm.y, ROWS_BYTES, true);
}

static bool make_gated(sample *self)
{
    self->gated = (tenon_gated_call){
        TENON_HEAD(tenon_gated_call), .tokens = TOKENS,     .width = WIDTH,
        .gate_row_stride = ROW,       .up_row_stride = ROW, .y_row_stride = ROW,
        .activation = TENON_ACT_SILU};
    RESERVED(gated, reserved0);
    RESERVED(gated, reserved1[0]);
    RESERVED(gated, reserved1[1]);
    return add_view(self, "gate", &self->gated.gate, ROWS_BYTES, false) &&
           add_view(self, "up", &self->gated.up, ROWS_BYTES, false) &&
           add_view(self, "y", &self->gated.y, ROWS_BYTES, true);
}

static bool make_add(sample *self)
{
    self->add = (tenon_add_call){
        TENON_HEAD(tenon_add_call), .tokens = TOKENS,    .width = WIDTH,
        .a_row_stride = ROW,        .b_row_stride = ROW, .y_row_stride = ROW};
    RESERVED(add, reserved0[0]);
    RESERVED(add, reserved0[1]);
    return add_view(self, "a", &self->add.a, ROWS_BYTES, false) &&
           add_view(self, "b", &self->add.b, ROWS_BYTES, false) &&
           add_view(self, "y", &self->add.y, ROWS_BYTES, true);
}

/* The last row has only NaN: its index is nobody's. */
static bool make_argmax(sample *self)
{
    uint64_t i;
    self->argmax = (tenon_argmax_call){TENON_HEAD(tenon_argmax_call), .tokens = TOKENS,
                                       .width = WIDTH, .x_row_stride = ROW};
    RESERVED(argmax, reserved0[0]);
    RESERVED(argmax, reserved0[1]);
    if (!add_view(self, "x", &self->argmax.x, ROWS_BYTES, false) ||
        !add_view(self, "y", &self->argmax.y, 4 * TOKENS, true))
        return false;
    for (i = 0; i < WIDTH; i++)
        ((float *)(void *)(self->views[0].memory.data + (TOKENS - 1) * ROW))[i] = NAN;
    return true;
}

static bool make_attention(sample *self)
{
    const uint64_t kv = KV_HEADS * HEAD * 4, row = HEADS * HEAD * 4;
    float *table;
    uint64_t i;
    self->cache = (tenon_cache_desc){TENON_HEAD(tenon_cache_desc),
                                     .kv_heads = KV_HEADS,
                                     .head_size = HEAD,
                                     .capacity = POSITIONS + 1,
                                     .window = 5,
                                     .type = TENON_CACHE_F16,
                                     .pairing = TENON_ROPE_HALVES,
                                     .flags = TENON_CACHE_EVICTABLE,
                                     .rotary = HEAD};
    self->append = (tenon_append_call){TENON_HEAD(tenon_append_call), .tokens = POSITIONS,
                                       .k_row_stride = kv + GAP, .v_row_stride = kv};
    self->attention = (tenon_attention_call){
        TENON_HEAD(tenon_attention_call), .tokens = TOKENS, .heads = HEADS, .q_row_stride = row,
        .y_row_stride = row + GAP,        .scale = 0.3f};
    RESERVED(cache, reserved0[0]);
    RESERVED(cache, reserved0[1]);
    RESERVED(append, reserved0[0]);
    RESERVED(append, reserved0[1]);
    RESERVED(attention, reserved0);
    RESERVED(attention, reserved1[0]);
    RESERVED(attention, reserved1[1]);
    if (!guarded_make(&self->table, (POSITIONS + 1) * HEAD * 4, GUARDED_AT_END)) return false;
    table = (float *)(void *)self->table.data;
    for (i = 0; i < (POSITIONS + 1) * HEAD / 2; i++) {
        table[2 * i] = (float)cos((double)i);
        table[2 * i + 1] = (float)sin((double)i);
    }
    self->cache.table = table;
    self->cache.table_bytes = self->table.bytes;
    return add_view(self, "k", &self->append.k, (POSITIONS - 1) * (kv + GAP) + kv, false) &&
           add_view(self, "v", &self->append.v, POSITIONS * kv, false) &&
           add_view(self, "q", &self->attention.q, TOKENS * row, false) &&
           add_view(self, "y", &self->attention.y, (TOKENS - 1) * (row + GAP) + row, true);
}

bool sample_make(sample *self, direct *on, direct_device *device, sample_kind kind,
                 conformance_result *result)
{
    bool good = false;
    memset(self, 0, sizeof *self);
    self->kind = kind;
    if (!sample_offered(on, kind)) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "%s_v1 is not offered", sample_name(kind));
        return false;
    }
    switch (kind) {
    case SAMPLE_QMATMUL: good = make_qmatmul(self, on, device, result); break;
    case SAMPLE_EMBED: good = make_embed(self, on, device, result); break;
    case SAMPLE_RMSNORM: good = make_rmsnorm(self); break;
    case SAMPLE_ATTENTION: good = make_attention(self); break;
    case SAMPLE_GATED: good = make_gated(self); break;
    case SAMPLE_ADD: good = make_add(self); break;
    default: good = make_argmax(self); break;
    }
    if (good) return true;
    if (result->outcome == 0) conformance_fail(result, "out of memory");
    sample_free(self, on, device);
    return false;
}

void sample_free(sample *self, direct *on, direct_device *device)
{
    uint32_t i;
    abi_request_free(&self->product, on, device);
    for (i = 0; i < self->view_count; i++) guarded_free(&self->views[i].memory);
    guarded_free(&self->table);
    self->view_count = 0;
}

static int32_t run_attention(sample *self, direct *on, direct_device *device, tenon_error *error)
{
    tenon_device_cache *cache = NULL;
    int32_t status = direct_cache_create(on, device, &self->cache, &cache, error);
    if (status == TENON_OK) {
        self->append.cache = self->attention.cache = cache;
        status = direct_append(on, device, &self->append, error);
        if (status == TENON_OK) status = direct_attention(on, device, &self->attention, error);
    }
    on->module->attention.free(device->device, cache); /* NULL is allowed */
    return status;
}

int32_t sample_run(sample *self, direct *on, direct_device *device, tenon_error *error)
{
    switch (self->kind) {
    case SAMPLE_QMATMUL: return direct_run(on, device, &self->product.call, error);
    case SAMPLE_EMBED: return direct_embed(on, device, &self->embed, error);
    case SAMPLE_RMSNORM: return direct_rmsnorm(on, device, &self->rmsnorm, error);
    case SAMPLE_ATTENTION: return run_attention(self, on, device, error);
    case SAMPLE_GATED: return direct_gated(on, device, &self->gated, error);
    case SAMPLE_ADD: return direct_add(on, device, &self->add, error);
    default: return direct_argmax(on, device, &self->argmax, error);
    }
}

sample_view *sample_result(sample *self)
{
    return &self->views[self->view_count - 1];
}

void sample_poison(sample *self)
{
    const sample_view *result = sample_result(self);
    memset(result->memory.data, POISON, result->memory.bytes);
}

bool sample_untouched(const sample *self)
{
    const guarded *memory = &self->views[self->view_count - 1].memory;
    uint64_t i;
    for (i = 0; i < memory->bytes; i++)
        if (memory->data[i] != POISON) return false;
    return true;
}

bool sample_same(const sample *self, const void *one, const void *other, uint64_t bytes)
{
    const uint8_t *a = one, *b = other;
    uint64_t i;
    for (i = 0; i + 4 <= bytes; i += 4) {
        float x, y;
        memcpy(&x, a + i, 4);
        memcpy(&y, b + i, 4);
        if (memcmp(a + i, b + i, 4) != 0 && (self->kind == SAMPLE_ARGMAX || !isnan(x) || !isnan(y)))
            return false;
    }
    return true;
}
