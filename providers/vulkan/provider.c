/* The provider itself: opening it, counting and describing its devices. */
#include <stdio.h>
#include <stdlib.h>

#include "device.h"

int32_t vulkan_no_memory(uint64_t bytes, uint32_t scope, const char *what, tenon_error *error)
{
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, scope, bytes,
                             TENON_UNKNOWN, what);
}

int32_t vulkan_null_pointer(const char *what, tenon_error *error)
{
    return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, what);
}

int32_t TENON_CALL vulkan_provider_open(const tenon_services *services, tenon_provider **out,
                                        tenon_error *error)
{
    tenon_provider *self;
    int32_t status;

    if (services == NULL || out == NULL)
        return vulkan_null_pointer("open needs services and out", error);
    *out = NULL;
    if (services->struct_size != sizeof *services || services->abi_version != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_PROVIDER,
                                 sizeof *services, services->struct_size,
                                 "tenon_services is not of version 1");
    if (services->log == NULL || services->parallel_for == NULL || services->team_size == NULL ||
        services->config == NULL)
        return vulkan_null_pointer("a function of tenon_services is NULL", error);
    self = calloc(1, sizeof *self);
    if (self == NULL)
        return vulkan_no_memory(sizeof *self, TENON_SCOPE_PROVIDER, "no memory for the provider",
                                error);
    self->services = services;
    status = vulkan_settings_read(services, &self->settings, error);
    if (status == TENON_OK) status = vulkan_instance_make(self, error);
    if (status != TENON_OK) {
        vulkan_provider_close(self);
        return status;
    }
    *out = self;
    return TENON_OK;
}

void TENON_CALL vulkan_provider_close(tenon_provider *provider)
{
    if (provider == NULL) return;
    vulkan_instance_free(provider);
    free(provider);
}

int32_t TENON_CALL vulkan_device_count(tenon_provider *provider, uint32_t *count,
                                       tenon_error *error)
{
    if (provider == NULL || count == NULL)
        return vulkan_null_pointer("device_count needs provider and count", error);
    *count = provider->gpu_count;
    if (provider->gpu_count == 0)
        tenon_fail(error, TENON_OK, provider->why_reason, TENON_SCOPE_PROVIDER, provider->why);
    return TENON_OK;
}

static int32_t no_such_device(const tenon_provider *provider, uint32_t index, tenon_error *error)
{
    char text[80];
    snprintf(text, sizeof text, "there are %u Vulkan devices", provider->gpu_count);
    return tenon_fail_amount(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL, index,
                             provider->gpu_count, text);
}

int32_t TENON_CALL vulkan_device_info(tenon_provider *provider, uint32_t index,
                                      tenon_device_info *out, tenon_error *error)
{
    vulkan_gpu *gpu;

    if (provider == NULL || out == NULL)
        return vulkan_null_pointer("device_info needs provider and out", error);
    if (out->struct_size != sizeof *out || out->abi_version != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                                 sizeof *out, out->struct_size,
                                 "tenon_device_info is not of version 1");
    if (index >= provider->gpu_count) return no_such_device(provider, index, error);
    gpu = &provider->gpus[index];
    *out = gpu->info;
    if (gpu->info.unusable != 0) return TENON_OK;
    out->arith = atomic_load(&gpu->arith);
    out->memory_free = vulkan_heap_available(provider, gpu, 0);
    return TENON_OK;
}
