/* The CPU provider: opening it, its one device and its queues. */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <sys/sysinfo.h>
#endif

#include "kernels/level.h"

#define LEVEL_KEY "cpu.level"

void cpu_memory(uint64_t *total, uint64_t *available)
{
    *total = *available = TENON_UNKNOWN;
#if defined(__linux__)
    {
        struct sysinfo info;
        if (sysinfo(&info) != 0) return;
        if (!tenon_mul_u64(info.totalram, info.mem_unit, total)) *total = TENON_UNKNOWN;
        if (!tenon_mul_u64(info.freeram, info.mem_unit, available)) *available = TENON_UNKNOWN;
    }
#endif
}

/* Appends text, cut to room with its NUL. */
static void append(char *to, size_t room, const char *text)
{
    size_t length = strlen(to);
    snprintf(to + length, room - length, "%s", text);
}

/* "portable,avx2,...": the levels of this file, or only those that run here. */
static void append_levels(char *to, size_t room, int usable_only)
{
    const char *comma = "", *lacks;
    uint32_t i;
    for (i = 0; cpu_levels[i] != NULL; i++) {
        if (usable_only && !cpu_level_usable(cpu_levels[i], &lacks)) continue;
        append(to, room, comma);
        append(to, room, cpu_levels[i]->name);
        comma = ",";
    }
}

/* The level that was asked for, or the best one. */
static int32_t choose_level(const char *wanted, const cpu_level **out, tenon_error *error)
{
    const char *lacks;
    char text[208] = "";
    uint32_t i;

    *out = NULL;
    for (i = 0; cpu_levels[i] != NULL; i++) {
        if (wanted == NULL) {
            if (cpu_level_usable(cpu_levels[i], &lacks)) *out = cpu_levels[i];
            continue;
        }
        if (strcmp(cpu_levels[i]->name, wanted) != 0) continue;
        if (cpu_level_usable(cpu_levels[i], &lacks)) {
            *out = cpu_levels[i];
            return TENON_OK;
        }
        snprintf(text, sizeof text, "%s=%s: have=", LEVEL_KEY, wanted);
        append_levels(text, sizeof text, 1);
        append(text, sizeof text, " need=");
        append(text, sizeof text, lacks);
        return tenon_fail(error, TENON_STATE, TENON_REASON_LEVEL_ABSENT, TENON_SCOPE_PROVIDER,
                          text);
    }
    if (wanted == NULL) return TENON_OK;
    snprintf(text, sizeof text, "%s=%.40s is unknown; levels: ", LEVEL_KEY, wanted);
    append_levels(text, sizeof text, 0);
    return tenon_fail(error, TENON_STATE, TENON_REASON_UNKNOWN_CONFIG, TENON_SCOPE_PROVIDER, text);
}

static int32_t no_memory(uint64_t wanted, uint32_t scope, tenon_error *error)
{
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, scope, wanted,
                             TENON_UNKNOWN, "out of memory");
}

static int32_t null_pointer(const char *text, tenon_error *error)
{
    return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, text);
}

static int32_t TENON_CALL provider_open(const tenon_services *services, tenon_provider **out,
                                        tenon_error *error)
{
    const cpu_level *level;
    tenon_provider *self;
    int32_t status;

    if (services == NULL || out == NULL) return null_pointer("open needs services and out", error);
    *out = NULL;
    if (services->struct_size != sizeof *services || services->abi_version != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_PROVIDER,
                                 sizeof *services, services->struct_size,
                                 "tenon_services is not of version 1");
    if (services->log == NULL || services->parallel_for == NULL || services->team_size == NULL ||
        services->config == NULL)
        return null_pointer("a function of tenon_services is NULL", error);
    status = choose_level(services->config(services->host, LEVEL_KEY), &level, error);
    if (status != TENON_OK) return status;
    self = malloc(sizeof *self);
    if (self == NULL) return no_memory(sizeof *self, TENON_SCOPE_PROVIDER, error);
    self->services = services;
    self->level = level;
    *out = self;
    return TENON_OK;
}

static void TENON_CALL provider_close(tenon_provider *provider)
{
    free(provider);
}

static int32_t TENON_CALL device_count(tenon_provider *provider, uint32_t *count,
                                       tenon_error *error)
{
    if (provider == NULL || count == NULL)
        return null_pointer("device_count needs provider and count", error);
    *count = 1;
    return TENON_OK;
}

static int32_t no_such_device(uint32_t index, tenon_error *error)
{
    return tenon_fail_amount(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL, index,
                             0, "the CPU provider has device 0 only");
}

static int32_t TENON_CALL device_info(tenon_provider *provider, uint32_t index,
                                      tenon_device_info *out, tenon_error *error)
{
    if (provider == NULL || out == NULL)
        return null_pointer("device_info needs provider and out", error);
    if (out->struct_size != sizeof *out || out->abi_version != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                                 sizeof *out, out->struct_size,
                                 "tenon_device_info is not of version 1");
    if (index != 0) return no_such_device(index, error);
    *out = (tenon_device_info){TENON_HEAD(tenon_device_info), .kind = TENON_DEVICE_CPU,
                               .arith = TENON_CLASS_BIT(TENON_CLASS_F32) |
                                        TENON_CLASS_BIT(TENON_CLASS_A8)};
    cpu_memory(&out->memory_total, &out->memory_free);
    cpu_brand(out->name, sizeof out->name);
    snprintf(out->detail, sizeof out->detail, "level=%s levels=", provider->level->name);
    append_levels(out->detail, sizeof out->detail, 0);
    return TENON_OK;
}

static int32_t TENON_CALL device_open(tenon_provider *provider, uint32_t index, tenon_device **out,
                                      tenon_error *error)
{
    tenon_device *self;

    if (provider == NULL || out == NULL)
        return null_pointer("device_open needs provider and out", error);
    *out = NULL;
    if (index != 0) return no_such_device(index, error);
    self = malloc(sizeof *self);
    if (self == NULL) return no_memory(sizeof *self, TENON_SCOPE_DEVICE, error);
    self->provider = provider;
    *out = self;
    return TENON_OK;
}

static void TENON_CALL device_close(tenon_device *device)
{
    free(device);
}

static int32_t TENON_CALL queue_open(tenon_device *device, tenon_device_queue **out,
                                     tenon_error *error)
{
    tenon_device_queue *self;

    if (device == NULL || out == NULL)
        return null_pointer("queue_open needs device and out", error);
    self = calloc(1, sizeof *self);
    *out = self;
    return self != NULL ? TENON_OK : no_memory(sizeof *self, TENON_SCOPE_DEVICE, error);
}

static void TENON_CALL queue_close(tenon_device_queue *queue)
{
    if (queue == NULL) return;
    cpu_queue_clear(queue);
    free(queue);
}

TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = {
    TENON_HEAD(tenon_provider_v1),
    .needs = 0,
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = "cpu",
    .version = TENON_VERSION,
    .open = provider_open,
    .close = provider_close,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .queue_open = queue_open,
    .queue_close = queue_close,
};

TENON_PROVIDER_DESCRIPTOR(tenon_qmatmul_v1, qmatmul_v1) = {
    TENON_HEAD(tenon_qmatmul_v1),
    .weight_desc_size = sizeof(tenon_weight_desc),
    .weight_data_size = sizeof(tenon_weight_data),
    .call_size = sizeof(tenon_qmatmul_call),
    .support_size = sizeof(tenon_qmatmul_support),
    .error_size = sizeof(tenon_error),
    .supports = cpu_supports,
    .prepare = cpu_prepare,
    .run = cpu_run,
    .release = cpu_release,
};
