/* The Vulkan provider opened by its descriptors, as a host would: what its tests share. */
#ifndef TENON_TESTS_VULKAN_PROVIDER_RIG_H
#define TENON_TESTS_VULKAN_PROVIDER_RIG_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/provider.h>

#include "faulty_loader.h"
#include "runner.h"

/* Paths from the environment of the build: the module, the loader with faults. */
#define MODULE_VARIABLE "TENON_TEST_VULKAN"
#define LOADER_VARIABLE "TENON_TEST_VULKAN_LOADER"

#define MOST_SETTINGS 6

typedef struct rig {
    void *module, *loader;
    const tenon_provider_v1 *p;
    const tenon_qmatmul_v1 *qmatmul;
    const tenon_memory_v1 *memory;
    const tenon_add_v1 *add;
    const tenon_embed_v1 *embed;
    const tenon_attention_v1 *attention;
    faulty_control *faults; /* NULL: the system's loader is used */
    tenon_services services;
    const char *settings[MOST_SETTINGS][2];
    int logged, warned; /* lines; those that tell of a fault */
    tenon_provider *provider;
    tenon_device *device;
    tenon_device_queue *queue;
    tenon_error error;
} rig;

static inline void TENON_CALL rig_log(void *host, uint32_t level, const char *text)
{
    (void)text;
    ((rig *)host)->logged++;
    if (level <= TENON_LOG_WARNING) ((rig *)host)->warned++;
}

static inline void TENON_CALL rig_parallel_for(void *host, uint64_t count, tenon_parallel_body body,
                                               void *context)
{
    uint64_t i;
    (void)host;
    for (i = 0; i < count; i++) body(context, i, 0);
}

static inline uint32_t TENON_CALL rig_team_size(void *host)
{
    (void)host;
    return 1;
}

static inline const char *TENON_CALL rig_config(void *host, const char *key)
{
    const rig *self = host;
    int i;
    for (i = 0; i < MOST_SETTINGS; i++)
        if (self->settings[i][0] != NULL && strcmp(self->settings[i][0], key) == 0)
            return self->settings[i][1];
    return NULL;
}

static inline void rig_set(rig *self, const char *key, const char *value)
{
    int i;
    for (i = 0; i < MOST_SETTINGS && self->settings[i][0] != NULL; i++) {}
    ck_assert_int_lt(i, MOST_SETTINGS);
    self->settings[i][0] = key;
    self->settings[i][1] = value;
}

/* Loads the module; with faults also the loader that has them. */
static inline void rig_load(rig *self, int with_faults)
{
    const char *module = getenv(MODULE_VARIABLE), *loader = getenv(LOADER_VARIABLE);
    faulty_control_function control;
    void *symbol;

    memset(self, 0, sizeof *self);
    self->error = (tenon_error){TENON_HEAD(tenon_error), .status = TENON_OK};
    self->services = (tenon_services){TENON_HEAD(tenon_services), self,          rig_log,
                                      rig_parallel_for,           rig_team_size, rig_config};
    ck_assert_ptr_nonnull(module);
    self->module = dlopen(module, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(self->module != NULL, "%s", dlerror());
    self->p = dlsym(self->module, "provider_v1");
    self->qmatmul = dlsym(self->module, "qmatmul_v1");
    self->memory = dlsym(self->module, "memory_v1");
    self->add = dlsym(self->module, "add_v1");
    self->embed = dlsym(self->module, "embed_v1");
    self->attention = dlsym(self->module, "attention_v1");
    ck_assert(self->p != NULL && self->qmatmul != NULL && self->memory != NULL);
    if (!with_faults) return;
    ck_assert_ptr_nonnull(loader);
    self->loader = dlopen(loader, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(self->loader != NULL, "%s", dlerror());
    symbol = dlsym(self->loader, FAULTY_CONTROL_NAME);
    memcpy(&control, &symbol, sizeof control);
    self->faults = control();
    rig_set(self, "vulkan.library", loader);
}

static inline void rig_fail(rig *self, enum faulty_call call, long after, int result)
{
    atomic_store(&self->faults->call[call].result, result);
    atomic_store(&self->faults->call[call].after, after);
}

static inline int32_t rig_open(rig *self)
{
    return self->p->open(&self->services, &self->provider, &self->error);
}

/* Opens all three. 0: there is no device here, and the test was told to skip. */
static inline int rig_open_device(rig *self)
{
    uint32_t count = 0;
    int32_t status = rig_open(self);

    if (status == TENON_STATE && self->error.reason == TENON_REASON_RUNTIME_ABSENT) {
        runner_skip("no Vulkan loader");
        return 0;
    }
    ck_assert_msg(status == TENON_OK, "%s", self->error.text);
    ck_assert_int_eq(self->p->device_count(self->provider, &count, &self->error), TENON_OK);
    if (count == 0) {
        runner_skip("no Vulkan device");
        self->p->close(self->provider);
        return 0;
    }
    status = self->p->device_open(self->provider, 0, &self->device, &self->error);
    ck_assert_msg(status == TENON_OK, "device_open: %d %s", status, self->error.text);
    status = self->p->queue_open(self->device, &self->queue, &self->error);
    ck_assert_msg(status == TENON_OK, "queue_open: %d %s", status, self->error.text);
    return 1;
}

/* Closes what is open; nothing of Vulkan is left. */
static inline void rig_close(rig *self)
{
    self->p->queue_close(self->queue);
    self->p->device_close(self->device);
    self->p->close(self->provider);
    self->queue = NULL;
    self->device = NULL;
    self->provider = NULL;
    if (self->faults != NULL) ck_assert_int_eq(atomic_load(&self->faults->alive), 0);
    ck_assert_int_eq(self->warned, 0); /* it would say that objects were left */
}

static inline tenon_memory_info rig_memory(rig *self)
{
    tenon_memory_info info = {TENON_HEAD(tenon_memory_info), .total = 0};
    ck_assert_int_eq(self->memory->info(self->device, &info, &self->error), TENON_OK);
    ck_assert_uint_le(info.free, info.total);
    return info;
}

/* ------------------------------------------------------------------------------- one product */

#define COLS 64u

/* A Q8_0 weight of rows, with codes that depend on seed, prepared. */
static inline int32_t rig_prepare(rig *self, uint32_t rows, uint32_t seed, uint64_t identity,
                                  uint64_t generation, tenon_prepared **out)
{
    const uint32_t blocks = rows * COLS / 32;
    uint8_t *bytes = malloc((size_t)blocks * 34);
    const tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = TENON_FORMAT_Q8_0,
                                    .rows = rows, .cols = COLS, .arith = TENON_CLASS_A8};
    const tenon_weight_data data = {TENON_HEAD(tenon_weight_data),
                                    .weights = bytes,
                                    .weights_bytes = (uint64_t)blocks * 34,
                                    .identity = identity,
                                    .generation = generation,
                                    .lifetime = TENON_LIFETIME_COPY};
    int32_t status;
    uint32_t b, i;

    ck_assert_ptr_nonnull(bytes);
    for (b = 0; b < blocks; b++) {
        bytes[34 * b] = 0;
        bytes[34 * b + 1] = (uint8_t)(0x30 + b % 7); /* binary16 of ordinary size */
        for (i = 0; i < 32; i++)
            bytes[34 * b + 2 + i] = (uint8_t)((b * 31 + i * 7 + seed * 13) % 251);
    }
    status = self->qmatmul->prepare(self->device, &desc, &data, out, &self->error);
    free(bytes);
    return status;
}

static inline void rig_fill(float *x, uint32_t count)
{
    uint32_t i;
    for (i = 0; i < count; i++) x[i] = (float)((int)(i * 37 % 101) - 50) * 0.125f;
}

static inline int32_t rig_multiply(rig *self, tenon_prepared *weight, uint32_t rows,
                                   uint32_t tokens, tenon_view x, tenon_view y)
{
    const tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call),
                                     .x = x,
                                     .tokens = tokens,
                                     .x_row_stride = COLS * 4,
                                     .output_count = 1,
                                     .outputs = {{weight, y, rows * 4}}};
    return self->qmatmul->run(self->device, self->queue, &call, &self->error);
}

static inline tenon_view host_view(void *memory, uint64_t bytes)
{
    return (tenon_view){.host = memory, .bytes = bytes};
}

static inline tenon_view buffer_view(tenon_device_buffer *buffer, uint64_t bytes)
{
    return (tenon_view){.buffer = buffer, .bytes = bytes};
}

#endif
