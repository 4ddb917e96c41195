/* What the tests of the CPU provider share: loading the module, a small thread team, random weights
 * of every format, and runs of one request with poison around every row of y. */
#ifndef TENON_TESTS_CPU_COMMON_H
#define TENON_TESTS_CPU_COMMON_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <string.h>
#include <tenon/provider.h>

#include "runner.h"

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;

static const char *module_path; /* argv[1] */

/* ------------------------------------------------------------------------------------ services */

#define MOST_THREADS 8u

typedef struct team {
    tenon_services services;
    uint32_t threads;
    const char *level;          /* value of cpu.level, NULL: not set */
    atomic_uint_fast64_t loops; /* parallel loops that used more than one thread */
} team;

typedef struct loop {
    atomic_uint_fast64_t next;
    uint64_t count;
    tenon_parallel_body body;
    void *context;
} loop;

typedef struct loop_thread {
    loop *loop;
    uint32_t worker;
} loop_thread;

static inline void loop_work(loop *self, uint32_t worker)
{
    uint64_t i;
    while ((i = atomic_fetch_add(&self->next, 1)) < self->count)
        self->body(self->context, i, worker);
}

static inline void *loop_thread_main(void *context)
{
    loop_thread *self = context;
    loop_work(self->loop, self->worker);
    return NULL;
}

static inline void TENON_CALL team_parallel_for(void *host, uint64_t count,
                                                tenon_parallel_body body, void *context)
{
    team *self = host;
    loop here = {.count = count, .body = body, .context = context};
    pthread_t threads[MOST_THREADS];
    loop_thread contexts[MOST_THREADS];
    uint32_t w;

    for (w = 1; w < self->threads; w++) {
        contexts[w] = (loop_thread){&here, w};
        ck_assert_int_eq(pthread_create(&threads[w], NULL, loop_thread_main, &contexts[w]), 0);
    }
    loop_work(&here, 0);
    for (w = 1; w < self->threads; w++) pthread_join(threads[w], NULL);
    if (self->threads > 1) atomic_fetch_add(&self->loops, 1);
}

static inline void TENON_CALL team_log(void *host, uint32_t level, const char *text)
{
    (void)host;
    (void)level;
    printf("log: %s\n", text);
}

static inline uint32_t TENON_CALL team_size(void *host)
{
    return ((team *)host)->threads;
}

static const char *TENON_CALL team_config(void *host, const char *key)
{
    return strcmp(key, "cpu.level") == 0 ? ((team *)host)->level : NULL;
}

static inline void team_init(team *self, uint32_t threads, const char *level)
{
    memset(self, 0, sizeof *self);
    self->threads = threads;
    self->level = level;
    self->services = (tenon_services){
        TENON_HEAD(tenon_services),        .host = self,           .log = team_log,
        .parallel_for = team_parallel_for, .team_size = team_size, .config = team_config};
}

/* ------------------------------------------------------------------------------------- opening */

typedef struct link {
    const tenon_provider_v1 *v1;
    const tenon_qmatmul_v1 *qmatmul;
    team team;
    tenon_provider *provider;
    tenon_device *device;
    tenon_device_queue *queue;
} link_t;

/* The module's descriptors; loaded once, never unloaded. */
static inline void module_symbols(link_t *self)
{
    static void *module;
    if (module == NULL) module = dlopen(module_path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(module != NULL, "%s", dlerror());
    self->v1 = dlsym(module, "provider_v1");
    self->qmatmul = dlsym(module, "qmatmul_v1");
    ck_assert_ptr_nonnull(self->v1);
    ck_assert_ptr_nonnull(self->qmatmul);
}

static inline void link_devices(link_t *self)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    ck_assert_msg(self->v1->device_open(self->provider, 0, &self->device, &error) == TENON_OK, "%s",
                  error.text);
    self->queue = NULL;
    if (self->v1->queue_open != NULL)
        ck_assert_int_eq(self->v1->queue_open(self->device, &self->queue, &error), TENON_OK);
}

/* Opens the module at a level (NULL: its own choice). False when this machine lacks the level. */
static inline bool link_open(link_t *self, uint32_t threads, const char *level)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    int32_t status;
    memset(self, 0, sizeof *self);
    module_symbols(self);
    team_init(&self->team, threads, level);
    status = self->v1->open(&self->team.services, &self->provider, &error);
    if (status != TENON_OK) {
        ck_assert_int_eq(status, TENON_STATE);
        ck_assert_msg(error.reason == TENON_REASON_LEVEL_ABSENT, "%s", error.text);
        return false;
    }
    link_devices(self);
    return true;
}

static inline void link_open_reference(link_t *self)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    memset(self, 0, sizeof *self);
    self->v1 = &tenon_reference_provider_v1;
    self->qmatmul = &tenon_reference_qmatmul_v1;
    team_init(&self->team, 1, NULL);
    ck_assert_int_eq(self->v1->open(&self->team.services, &self->provider, &error), TENON_OK);
    link_devices(self);
}

static inline void link_close(link_t *self)
{
    if (self->v1->queue_close != NULL) self->v1->queue_close(self->queue);
    self->v1->device_close(self->device);
    self->v1->close(self->provider);
}

/* The names after "levels=" in the device's detail. Returns their number. */
static inline uint32_t module_levels(char names[8][24])
{
    tenon_device_info info = {TENON_HEAD(tenon_device_info), .kind = 0};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint32_t count = 0;
    link_t self;
    char *name, *rest;
    ck_assert(link_open(&self, 1, NULL));
    ck_assert_int_eq(self.v1->device_info(self.provider, 0, &info, &error), TENON_OK);
    name = strstr(info.detail, "levels=");
    ck_assert_ptr_nonnull(name);
    for (name = strtok_r(name + 7, ",", &rest); name != NULL && count < 8;
         name = strtok_r(NULL, ",", &rest))
        snprintf(names[count++], 24, "%s", name);
    link_close(&self);
    return count;
}

/* ------------------------------------------------------------------------------------- numbers */

static uint64_t random_state = 1;

static inline uint64_t random_u64(void) /* splitmix64 */
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static inline uint32_t random_below(uint32_t limit)
{
    return (uint32_t)(random_u64() % limit);
}
/* About normal, magnitude below 6. */
static inline float random_float(void)
{
    float sum = 0;
    int i;
    for (i = 0; i < 12; i++) sum += (float)random_below(1u << 20) / (float)(1u << 20);
    return sum - 6.0f;
}
static inline void put16(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}
/* A half float of ordinary size: 2^-8 to 2^-3, either sign. */
static inline uint32_t random_half(void)
{
    return 0x1c00u + random_below(0x1400) + (random_below(2) << 15);
}
static inline void put_float(uint8_t *to, float value)
{
    memcpy(to, &value, sizeof value);
}

/* What the numbers of a case look like. */
enum flavour {
    ORDINARY,
    HOSTILE,  /* weights of random bytes: every scale, NaN and Inf included */
    SPECIAL_X /* activations with subnormals, zeros of both signs, Inf, NaN, tiny and huge blocks */
};

static const uint8_t half_at[][4] = {
    /* offsets of half floats in a block, ended by 255 */
    [TENON_FORMAT_Q4_0] = {0, 255},    [TENON_FORMAT_Q4_1] = {0, 2, 255},
    [TENON_FORMAT_Q5_0] = {0, 255},    [TENON_FORMAT_Q5_1] = {0, 2, 255},
    [TENON_FORMAT_Q8_0] = {0, 255},    [TENON_FORMAT_Q2_K] = {80, 82, 255},
    [TENON_FORMAT_Q3_K] = {108, 255},  [TENON_FORMAT_Q4_K] = {0, 2, 255},
    [TENON_FORMAT_Q5_K] = {0, 2, 255}, [TENON_FORMAT_Q6_K] = {208, 255},
    [TENON_FORMAT_IQ4_NL] = {0, 255},  [TENON_FORMAT_IQ4_XS] = {0, 255},
    [TENON_FORMAT_MXFP4] = {255},      [TENON_FORMAT_NVFP4] = {255},
    [TENON_FORMAT_TQ1_0] = {52, 255},  [TENON_FORMAT_TQ2_0] = {64, 255},
};

/* Fills the codes or blocks of a weight, tame unless hostile. */
static inline void random_weights(const tenon_weight_desc *desc, uint8_t *to, uint64_t bytes,
                                  enum flavour flavour)
{
    tenon_format_info info;
    uint64_t i, j;
    for (i = 0; i < bytes; i++) to[i] = (uint8_t)random_u64();
    if (flavour == HOSTILE) return;
    ck_assert(tenon_format_find(desc->format, &info));
    switch (desc->format) {
    case TENON_FORMAT_F32:
        for (i = 0; i < bytes; i += 4) put_float(to + i, random_float());
        return;
    case TENON_FORMAT_F16:
        for (i = 0; i < bytes; i += 2) put16(to + i, random_half() + 0x1000);
        return;
    case TENON_FORMAT_BF16:
        for (i = 0; i < bytes; i += 2)
            put16(to + i, 0x3e00 + random_below(0x180) + (random_below(2) << 15));
        return;
    case TENON_FORMAT_FP8_E4M3_B128:
        for (i = 0; i < bytes; i++)
            if ((to[i] & 0x7f) == 0x7f) to[i] = 0x80;
        return;
    case TENON_FORMAT_MXFP4:
        for (i = 0; i < bytes; i += info.block_bytes) to[i] = (uint8_t)(118 + random_below(12));
        return;
    case TENON_FORMAT_NVFP4:
        for (i = 0; i < bytes; i += info.block_bytes)
            for (j = 0; j < 4; j++)
                if ((to[i + j] & 0x7f) == 0x7f) to[i + j] = 1;
        return;
    default: break;
    }
    if (info.block_bytes == 0) return;
    for (i = 0; i < bytes; i += info.block_bytes)
        for (j = 0; half_at[desc->format][j] != 255; j++)
            put16(to + i + half_at[desc->format][j], random_half());
}

/* Scales of separate-scale formats: very unequal, so that a mixed-up group shows. */
static inline void random_scales(const tenon_weight_desc *desc, uint8_t *to, uint64_t bytes,
                                 enum flavour flavour)
{
    uint64_t i;
    for (i = 0; i < bytes; i++) to[i] = (uint8_t)random_u64();
    if (flavour == HOSTILE) return;
    if (desc->format == TENON_FORMAT_MXFP4_GROUP32) {
        for (i = 0; i < bytes; i++) to[i] = (uint8_t)(110 + random_below(24));
        return;
    }
    for (i = 0; i < bytes; i += 4)
        put_float(to + i, random_float() * (random_below(2) != 0 ? 0.01f : 1.0f));
}

static inline float special_float(void)
{
    static const uint32_t bits[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                    0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000,
                                    0xff800000, 0x7fc00000, 0xffc12345, 0x2b800000, 0x2b7fffff};
    float value;
    memcpy(&value, &bits[random_below(sizeof bits / sizeof *bits)], sizeof value);
    return value;
}

static inline void random_x(float *x, uint64_t count, enum flavour flavour)
{
    uint64_t i, j;
    for (i = 0; i < count; i++) x[i] = random_float();
    if (flavour != SPECIAL_X) return;
    for (i = 0; i + 32 <= count; i += 32) {
        uint32_t what = random_below(8);
        for (j = i; j < i + 32; j++) {
            if (what == 0)
                x[j] = special_float();
            else if (what == 1)
                x[j] *= 0x1p-43f;
            else if (what == 2)
                x[j] *= 0x1p-140f;
            else if (what == 3)
                x[j] *= 1e38f;
            else if (what == 4)
                x[j] = random_below(2) != 0 ? 0.0f : -0.0f;
            else if (what == 5 && random_below(16) == 0)
                x[j] = special_float();
            else if (what == 6)
                x[j] = -60000.0f;
        }
    }
}

/* ----------------------------------------------------------------------------------------- runs */

/* A weight in memory at a chosen alignment. */
typedef struct stored {
    tenon_weight_desc desc;
    uint8_t *memory, *scales_memory;
    tenon_weight_data data;
} stored;

static inline tenon_weight_desc describe(uint32_t format, uint32_t layout, uint64_t group,
                                         uint64_t rows, uint64_t cols, uint32_t arith)
{
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc),
                              .format = format,
                              .layout = layout,
                              .group_size = group,
                              .rows = rows,
                              .cols = cols,
                              .arith = arith};
    return desc;
}

static inline void stored_make(stored *self, tenon_weight_desc desc, enum flavour flavour,
                               uint32_t alignment)
{
    uint64_t bytes, scales;
    uint32_t reason;
    ck_assert_int_eq(tenon_weight_bytes(&desc, &bytes, &scales, &reason), TENON_OK);
    memset(self, 0, sizeof *self);
    self->desc = desc;
    self->memory = malloc((size_t)bytes + 64);
    self->scales_memory = malloc((size_t)scales + 64);
    ck_assert_ptr_nonnull(self->memory);
    ck_assert_ptr_nonnull(self->scales_memory);
    random_weights(&desc, self->memory + alignment, bytes, flavour);
    random_scales(&desc, self->scales_memory + alignment, scales, flavour);
    self->data = (tenon_weight_data){TENON_HEAD(tenon_weight_data),
                                     .weights = self->memory + alignment,
                                     .weights_bytes = bytes,
                                     .scales = scales != 0 ? self->scales_memory + alignment : NULL,
                                     .scales_bytes = scales,
                                     .identity = 1,
                                     .lifetime = TENON_LIFETIME_STABLE};
}

static inline void stored_free(stored *self)
{
    free(self->memory);
    free(self->scales_memory);
}

#define POISON 0xa5a5a5a5u

/* One request: tokens rows of x, one y an output, rows of both longer than need be. */
typedef struct request {
    uint32_t outputs;
    stored *weights[4];
    uint64_t tokens, cols, x_stride, y_stride[4]; /* floats */
    float *x_memory, *x, *x_copy;
} request;

static inline void request_make(request *self, stored *weights, uint32_t outputs, uint64_t tokens,
                                enum flavour flavour)
{
    uint64_t t;
    uint32_t n, shift = random_below(4);
    memset(self, 0, sizeof *self);
    self->outputs = outputs;
    self->tokens = tokens;
    self->cols = weights[0].desc.cols;
    self->x_stride = self->cols + random_below(5);
    for (n = 0; n < outputs; n++) {
        self->weights[n] = &weights[n];
        self->y_stride[n] = weights[n].desc.rows + random_below(5);
    }
    self->x_memory = malloc((size_t)(tokens * self->x_stride + 8) * sizeof(float));
    self->x_copy = malloc((size_t)(tokens * self->x_stride) * sizeof(float));
    ck_assert_ptr_nonnull(self->x_memory);
    ck_assert_ptr_nonnull(self->x_copy);
    self->x = self->x_memory + shift;
    for (t = 0; t < tokens; t++) random_x(self->x + t * self->x_stride, self->x_stride, flavour);
    memcpy(self->x_copy, self->x, (size_t)(tokens * self->x_stride) * sizeof(float));
}

static inline void request_free(request *self)
{
    free(self->x_memory);
    free(self->x_copy);
}

/* Floats of the poisoned y of output n: 4 before, rows with their gaps, 4 after. */
static inline uint64_t y_floats(const request *self, uint32_t n)
{
    return self->tokens * self->y_stride[n] + 8;
}

/* Runs tokens [first, first + tokens) of a request on one link; y[n] is allocated, poison outside
 * the rows included. */
static inline void run_part(link_t *on, tenon_prepared *const *prepared, const request *self,
                            uint64_t first, uint64_t tokens, float **y)
{
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = tokens};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t i;
    uint32_t n;
    int32_t status;

    call.x = (tenon_view){.host = self->x,
                          .offset = first * self->x_stride * 4,
                          .bytes = ((tokens - 1) * self->x_stride + self->cols) * 4};
    call.x_row_stride = self->x_stride * 4;
    call.output_count = self->outputs;
    for (n = 0; n < self->outputs; n++) {
        uint64_t rows = self->weights[n]->desc.rows, count = y_floats(self, n);
        uint32_t poison = POISON;
        y[n] = malloc((size_t)count * sizeof(float));
        ck_assert_ptr_nonnull(y[n]);
        for (i = 0; i < count; i++) memcpy(&y[n][i], &poison, 4);
        call.outputs[n].weight = prepared[n];
        call.outputs[n].y = (tenon_view){
            .host = y[n], .offset = 16, .bytes = ((tokens - 1) * self->y_stride[n] + rows) * 4};
        call.outputs[n].row_stride = self->y_stride[n] * 4;
    }
    status = on->qmatmul->run(on->device, on->queue, &call, &error);
    ck_assert_msg(status == TENON_OK, "run: %d %s", (int)status, error.text);
    ck_assert_msg(memcmp(self->x, self->x_copy, (size_t)(self->tokens * self->x_stride) * 4) == 0,
                  "x was changed");
    for (n = 0; n < self->outputs; n++) {
        for (i = 0; i < y_floats(self, n); i++) {
            uint64_t at = i - 4, row = at / self->y_stride[n];
            uint32_t bits;
            if (i >= 4 && row < tokens && at % self->y_stride[n] < self->weights[n]->desc.rows)
                continue;
            memcpy(&bits, &y[n][i], 4);
            ck_assert_msg(bits == POISON, "output %u: float %d outside its rows was written", n,
                          (int)i - 4);
        }
    }
}

static inline void prepare_all(link_t *on, const request *self, tenon_prepared **prepared)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint32_t n;
    for (n = 0; n < self->outputs; n++) {
        int32_t status = on->qmatmul->prepare(on->device, &self->weights[n]->desc,
                                              &self->weights[n]->data, &prepared[n], &error);
        ck_assert_msg(status == TENON_OK, "prepare: %d %s", (int)status, error.text);
    }
}

static inline void release_all(link_t *on, const request *self, tenon_prepared **prepared)
{
    uint32_t n;
    for (n = 0; n < self->outputs; n++) on->qmatmul->release(on->device, prepared[n]);
}

/* Bits equal; any NaN equals any NaN, +0 and -0 differ. */
static inline bool same_bits(float a, float b)
{
    uint32_t x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    return x == y || ((x & 0x7fffffffu) > 0x7f800000u && (y & 0x7fffffffu) > 0x7f800000u);
}

static inline void compare(const request *self, float *const *want, float *const *got,
                           const char *what)
{
    uint64_t t, o;
    uint32_t n;
    for (n = 0; n < self->outputs; n++)
        for (t = 0; t < self->tokens; t++)
            for (o = 0; o < self->weights[n]->desc.rows; o++) {
                uint64_t at = 4 + t * self->y_stride[n] + o;
                tenon_format_info info;
                (void)tenon_format_find(self->weights[n]->desc.format, &info);
                ck_assert_msg(
                    same_bits(want[n][at], got[n][at]),
                    "%s: %s %s I=%d O=%d S=%d output %u token %d row %d: %a, reference %a", what,
                    info.text, self->weights[n]->desc.arith == TENON_CLASS_A8 ? "A8" : "F32",
                    (int)self->cols, (int)self->weights[n]->desc.rows, (int)self->tokens, n, (int)t,
                    (int)o, (double)got[n][at], (double)want[n][at]);
            }
}

static inline void free_all(const request *self, float **y)
{
    uint32_t n;
    for (n = 0; n < self->outputs; n++) free(y[n]);
}

#endif
