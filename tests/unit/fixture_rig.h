/* A fixture of whole operations, loaded from its file and called as a host would: services of this
 * test, the same requests for it and for the reference. */
#ifndef TENON_TESTS_FIXTURE_RIG_H
#define TENON_TESTS_FIXTURE_RIG_H

#include "runner.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <tenon/provider.h>

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
extern const tenon_embed_v1 tenon_reference_embed_v1;
extern const tenon_rmsnorm_v1 tenon_reference_rmsnorm_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;
extern const tenon_gated_v1 tenon_reference_gated_v1;
extern const tenon_add_v1 tenon_reference_add_v1;
extern const tenon_argmax_v1 tenon_reference_argmax_v1;

/* A provider with one device open. */
typedef struct fixture {
    void *file; /* NULL: the reference */
    const tenon_provider_v1 *provider_v1;
    const tenon_qmatmul_v1 *qmatmul;
    const tenon_memory_v1 *memory;
    const tenon_graph_v1 *graph;
    const tenon_embed_v1 *embed;
    const tenon_rmsnorm_v1 *rmsnorm;
    const tenon_attention_v1 *attention;
    const tenon_gated_v1 *gated;
    const tenon_add_v1 *add;
    const tenon_argmax_v1 *argmax;
    tenon_services services;
    const char *settings[4]; /* key=value */
    tenon_provider *provider;
    tenon_device *device;
    tenon_device_queue *queue;
    tenon_error error;
    unsigned errors; /* lines that were said at level ERROR */
    char last[256];
} fixture;

static void TENON_CALL fixture_log(void *host, uint32_t level, const char *text)
{
    fixture *self = host;
    if (level != TENON_LOG_ERROR) return;
    self->errors++;
    snprintf(self->last, sizeof self->last, "%s", text);
}

static void TENON_CALL fixture_loop(void *host, uint64_t count, tenon_parallel_body body,
                                    void *context)
{
    uint64_t i;
    (void)host;
    for (i = 0; i < count; i++) body(context, i, 0);
}

static uint32_t TENON_CALL fixture_team(void *host)
{
    (void)host;
    return 1;
}

static const char *TENON_CALL fixture_config(void *host, const char *key)
{
    const fixture *self = host;
    size_t i, length = strlen(key);
    for (i = 0; i < 4 && self->settings[i] != NULL; i++)
        if (strncmp(self->settings[i], key, length) == 0 && self->settings[i][length] == '=')
            return self->settings[i] + length + 1;
    return NULL;
}

static inline void fixture_find(fixture *self, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tenon-%s.so", getenv("TENON_OPERATION_FIXTURES"), name);
    self->file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(self->file != NULL, "%s: %s", path, dlerror());
    self->provider_v1 = dlsym(self->file, "provider_v1");
    self->qmatmul = dlsym(self->file, "qmatmul_v1");
    self->memory = dlsym(self->file, "memory_v1");
    self->graph = dlsym(self->file, "graph_v1");
    self->embed = dlsym(self->file, "embed_v1");
    self->rmsnorm = dlsym(self->file, "rmsnorm_v1");
    self->attention = dlsym(self->file, "attention_v1");
    self->gated = dlsym(self->file, "gated_v1");
    self->add = dlsym(self->file, "add_v1");
    self->argmax = dlsym(self->file, "argmax_v1");
}

/* Opens the provider alone; up to four settings, NULL ends them. */
static inline int32_t fixture_begin(fixture *self, const char *name, ...)
{
    va_list settings;
    size_t i;
    memset(self, 0, sizeof *self);
    va_start(settings, name);
    for (i = 0; i < 4; i++)
        if ((self->settings[i] = va_arg(settings, const char *)) == NULL) break;
    va_end(settings);
    self->error = (tenon_error){TENON_HEAD(tenon_error), .status = TENON_OK};
    if (name != NULL) {
        fixture_find(self, name);
    } else {
        self->provider_v1 = &tenon_reference_provider_v1;
        self->qmatmul = &tenon_reference_qmatmul_v1;
        self->embed = &tenon_reference_embed_v1;
        self->rmsnorm = &tenon_reference_rmsnorm_v1;
        self->attention = &tenon_reference_attention_v1;
        self->gated = &tenon_reference_gated_v1;
        self->add = &tenon_reference_add_v1;
        self->argmax = &tenon_reference_argmax_v1;
    }
    self->services = (tenon_services){TENON_HEAD(tenon_services), .host = self,
                                      .log = fixture_log,         .parallel_for = fixture_loop,
                                      .team_size = fixture_team,  .config = fixture_config};
    return self->provider_v1->open(&self->services, &self->provider, &self->error);
}

#define fixture_must(self, call) \
    do { \
        int32_t status_ = (call); \
        ck_assert_msg(status_ == TENON_OK, "%s: %d, %s", #call, status_, (self)->error.text); \
    } while (0)

/* The same with its device and a queue. */
#define fixture_open(self, name, ...) \
    do { \
        fixture_must(self, fixture_begin(self, name, __VA_ARGS__)); \
        fixture_open_device(self); \
    } while (0)

static inline void fixture_open_device(fixture *self)
{
    fixture_must(self,
                 self->provider_v1->device_open(self->provider, 0, &self->device, &self->error));
    if (self->provider_v1->queue_open != NULL)
        fixture_must(self, self->provider_v1->queue_open(self->device, &self->queue, &self->error));
}

/* Nothing may be left behind, or errors lines said so. */
static inline void fixture_close(fixture *self, unsigned errors)
{
    if (self->provider_v1->queue_close != NULL) self->provider_v1->queue_close(self->queue);
    self->provider_v1->device_close(self->device);
    self->provider_v1->close(self->provider);
    ck_assert_msg(self->errors == errors, "%u error lines: %s", self->errors, self->last);
    if (self->file != NULL) dlclose(self->file);
}

/* ------------------------------------------------------------------ the same requests for all */

#define TOKENS 5u
#define WIDTH 64u /* of the activations; the one weight is [WIDTH][WIDTH] of Q8_0 */
#define VALUES (TOKENS * WIDTH)
#define HEADS 4u
#define KV_HEADS 2u
#define HEAD_SIZE 16u
#define KV_VALUES (TOKENS * KV_HEADS * HEAD_SIZE)
#define BLOCK_BYTES 34u

enum { EMBED, RMSNORM, QMATMUL, GATED, ADD, ARGMAX, APPEND, ATTENTION, OPERATIONS };
static const char *const operation_names[OPERATIONS] = {"embed", "rmsnorm", "qmatmul", "gated",
                                                        "add",   "argmax",  "append",  "attention"};

static inline float input_at(uint64_t i)
{
    return (float)((int)(i * 7919u % 201u) - 100) / 64.0f;
}

/* Inputs, a weight and a cache of one fixture, and the views of its requests. */
typedef struct work_rig {
    fixture *of;
    float a[VALUES], b[VALUES], w[WIDTH], k[KV_VALUES], v[KV_VALUES], y[VALUES];
    uint32_t ids[TOKENS];
    uint8_t codes[WIDTH * WIDTH / 32 * BLOCK_BYTES];
    tenon_prepared *weight;
    tenon_device_cache *cache;
    tenon_view in_a, in_b, in_w, in_k, in_v, in_ids, out; /* by default the arrays above */
} work_rig;

static inline tenon_view host_view(const void *at, uint64_t bytes)
{
    return (tenon_view){.host = (void *)(uintptr_t)at, .bytes = bytes};
}

static inline tenon_view buffer_view(tenon_device_buffer *buffer, uint64_t bytes)
{
    return (tenon_view){.buffer = buffer, .bytes = bytes};
}

static inline int32_t prepare_weight(work_rig *self, tenon_prepared **out)
{
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = TENON_FORMAT_Q8_0};
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = self->codes};
    desc.rows = desc.cols = WIDTH;
    desc.arith = TENON_CLASS_F32;
    data.weights_bytes = sizeof self->codes;
    data.lifetime = TENON_LIFETIME_COPY;
    data.identity = 1;
    return self->of->qmatmul->prepare(self->of->device, &desc, &data, out, &self->of->error);
}

static inline int32_t create_cache(work_rig *self, tenon_device_cache **out)
{
    tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc), .kv_heads = KV_HEADS};
    desc.head_size = HEAD_SIZE;
    desc.capacity = 4 * TOKENS;
    desc.type = TENON_CACHE_F32;
    desc.flags = TENON_CACHE_EVICTABLE;
    return self->of->attention->create(self->of->device, &desc, out, &self->of->error);
}

/* Fills the rig; makes the weight, and the cache where attention is offered. */
static inline void work_open(work_rig *self, fixture *of)
{
    uint64_t i;
    memset(self, 0, sizeof *self);
    self->of = of;
    for (i = 0; i < VALUES; i++) {
        self->a[i] = input_at(i);
        self->b[i] = input_at(i + 1000);
    }
    for (i = 0; i < WIDTH; i++) self->w[i] = input_at(i + 2000);
    for (i = 0; i < KV_VALUES; i++) {
        self->k[i] = input_at(i + 3000);
        self->v[i] = input_at(i + 4000);
    }
    for (i = 0; i < TOKENS; i++) self->ids[i] = (uint32_t)(i * 13 % WIDTH);
    for (i = 0; i < sizeof self->codes; i++) {
        uint64_t at = i % BLOCK_BYTES; /* the scale is 2^-3 or 2^-4 as binary16 */
        self->codes[i] = (uint8_t)(at == 0   ? 0
                                   : at == 1 ? (i / BLOCK_BYTES % 2 == 0 ? 0x30 : 0x2C)
                                             : i * 37 % 251);
    }
    self->in_a = host_view(self->a, sizeof self->a);
    self->in_b = host_view(self->b, sizeof self->b);
    self->in_w = host_view(self->w, sizeof self->w);
    self->in_k = host_view(self->k, sizeof self->k);
    self->in_v = host_view(self->v, sizeof self->v);
    self->in_ids = host_view(self->ids, sizeof self->ids);
    self->out = host_view(self->y, sizeof self->y);
    fixture_must(of, prepare_weight(self, &self->weight));
    if (of->attention != NULL) fixture_must(of, create_cache(self, &self->cache));
}

static inline void work_close(work_rig *self)
{
    self->of->qmatmul->release(self->of->device, self->weight);
    if (self->of->attention != NULL) self->of->attention->free(self->of->device, self->cache);
}

#define ROW (WIDTH * sizeof(float))

/* Runs one operation over the views of the rig. */
static inline int32_t work_run(work_rig *self, int operation)
{
    const fixture *f = self->of;
    tenon_error *error = &self->of->error;
    uint64_t kv_row = KV_HEADS * HEAD_SIZE * sizeof(float);
    switch (operation) {
    case EMBED: {
        const tenon_embed_call call = {TENON_HEAD(tenon_embed_call),
                                       self->weight,
                                       self->in_ids,
                                       self->out,
                                       TOKENS,
                                       ROW,
                                       1.5f,
                                       0,
                                       {0, 0}};
        return f->embed->run(f->device, f->queue, &call, error);
    }
    case RMSNORM: {
        tenon_rmsnorm_call call = {TENON_HEAD(tenon_rmsnorm_call), .x = self->in_a};
        call.w = self->in_w;
        call.y = self->out;
        call.tokens = TOKENS;
        call.groups = 1;
        call.width = WIDTH;
        call.x_row_stride = call.y_row_stride = ROW;
        call.eps = 1e-5f;
        return f->rmsnorm->run(f->device, f->queue, &call, error);
    }
    case QMATMUL: {
        tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .x = self->in_a};
        call.tokens = TOKENS;
        call.x_row_stride = ROW;
        call.output_count = 1;
        call.outputs[0] = (tenon_output){self->weight, self->out, ROW};
        return f->qmatmul->run(f->device, f->queue, &call, error);
    }
    case GATED: {
        const tenon_gated_call call = {TENON_HEAD(tenon_gated_call),
                                       self->in_a,
                                       self->in_b,
                                       self->out,
                                       TOKENS,
                                       WIDTH,
                                       ROW,
                                       ROW,
                                       ROW,
                                       TENON_ACT_SILU,
                                       0,
                                       {0, 0}};
        return f->gated->run(f->device, f->queue, &call, error);
    }
    case ADD: {
        const tenon_add_call call = {TENON_HEAD(tenon_add_call),
                                     self->in_a,
                                     self->in_b,
                                     self->out,
                                     TOKENS,
                                     WIDTH,
                                     ROW,
                                     ROW,
                                     ROW,
                                     {0, 0}};
        return f->add->run(f->device, f->queue, &call, error);
    }
    case ARGMAX: {
        const tenon_argmax_call call = {
            TENON_HEAD(tenon_argmax_call), self->in_a, self->out, TOKENS, WIDTH, ROW, {0, 0}};
        return f->argmax->run(f->device, f->queue, &call, error);
    }
    case APPEND: {
        const tenon_append_call call = {TENON_HEAD(tenon_append_call),
                                        self->cache,
                                        self->in_k,
                                        self->in_v,
                                        TOKENS,
                                        kv_row,
                                        kv_row,
                                        {0, 0}};
        return f->attention->append(f->device, f->queue, &call, error);
    }
    default: {
        const tenon_attention_call call = {TENON_HEAD(tenon_attention_call),
                                           self->cache,
                                           self->in_a,
                                           self->out,
                                           TOKENS,
                                           HEADS,
                                           ROW,
                                           ROW,
                                           0.25f,
                                           0,
                                           {0, 0}};
        return f->attention->run(f->device, f->queue, &call, error);
    }
    }
}

/* Bytes of y that an operation writes; append: none. */
static inline size_t work_bytes(int operation)
{
    return operation == APPEND   ? 0
           : operation == ARGMAX ? TOKENS * sizeof(uint32_t)
                                 : VALUES * sizeof(float);
}

/* ------------------------------------------------------------------ what tests look at */

#define UNTOUCHED 0x77
#define POISON 0xFF /* of buffers that nobody has written */

static float expected[OPERATIONS][VALUES];

/* What the reference answers, once for all tests. */
static inline void compute_expected(void)
{
    fixture of;
    work_rig rig;
    int i;
    fixture_open(&of, NULL, NULL);
    work_open(&rig, &of);
    for (i = 0; i < OPERATIONS; i++) {
        fixture_must(&of, work_run(&rig, i));
        memcpy(expected[i], rig.y, sizeof rig.y);
    }
    work_close(&rig);
    fixture_close(&of, 0);
}

static inline void check_right(const work_rig *rig, int operation)
{
    ck_assert_msg(memcmp(rig->y, expected[operation], work_bytes(operation)) == 0,
                  "%s is not what the reference gives", operation_names[operation]);
}

static inline uint64_t length_of(work_rig *rig)
{
    uint64_t length = 0;
    fixture_must(rig->of,
                 rig->of->attention->length(rig->of->device, rig->cache, &length, &rig->of->error));
    return length;
}

/* Of TOKENS rows the first two, and half of the third, are written. */
static inline void check_half(const work_rig *rig, int operation, uint8_t rest)
{
    const uint8_t *y = (const uint8_t *)rig->y;
    size_t row = work_bytes(operation) / TOKENS, half = TOKENS / 2 * row + row / 8 * 4, i;
    ck_assert_uint_gt(half, 0);
    for (i = 0; i < sizeof rig->y; i++) ck_assert_uint_eq(y[i], i < half ? 0x5A : rest);
}

#endif
