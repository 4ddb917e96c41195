/* Opening and closing a device. */
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "kernels.h"
#include "weights.h"

int32_t vulkan_failed(tenon_device *device, VkResult result, const char *what, uint32_t scope,
                      tenon_error *error)
{
    char text[160];

    snprintf(text, sizeof text, "%s: %s", what, vulkan_result_name(result));
    switch (result) {
    case VK_ERROR_DEVICE_LOST:
        atomic_store(&device->lost, 1);
        return tenon_fail(error, TENON_DEVICE_LOST, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_DEVICE,
                          text);
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS: return vulkan_no_memory(0, scope, text, error);
    default: return tenon_fail(error, TENON_INTERNAL, TENON_REASON_DEVICE_FAILED, scope, text);
    }
}

/* ------------------------------------------------------------------------------------- open */

static int32_t make_device(tenon_device *self, tenon_error *error)
{
    const char *extensions[2];
    static const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = self->gpu->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkPhysicalDeviceFeatures features = {.shaderFloat64 = self->gpu->features.shaderFloat64};
    VkDeviceCreateInfo wanted = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                 .queueCreateInfoCount = 1,
                                 .pQueueCreateInfos = &queue,
                                 .ppEnabledExtensionNames = extensions,
                                 .pEnabledFeatures = &features};
    const vulkan_instance_api *api = &self->provider->api;
    const char *missing;
    char text[120];
    VkResult result;

    if (self->gpu->is_subset)
        extensions[wanted.enabledExtensionCount++] = "VK_KHR_portability_subset";
    if (self->gpu->import_unit != 0)
        extensions[wanted.enabledExtensionCount++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    result = api->CreateDevice(self->gpu->handle, &wanted, NULL, &self->handle);
    if (result != VK_SUCCESS) {
        self->handle = VK_NULL_HANDLE;
        return vulkan_failed(self, result, "vkCreateDevice", TENON_SCOPE_DEVICE, error);
    }
    missing = vulkan_find_device(api, self->handle, &self->api);
    if (missing != NULL) {
        snprintf(text, sizeof text, "the driver has no %s", missing);
        self->api.DestroyDevice = (PFN_vkDestroyDevice)api->GetDeviceProcAddr(self->handle,
                                                                              "vkDestroyDevice");
        if (self->api.DestroyDevice != NULL) self->api.DestroyDevice(self->handle, NULL);
        self->handle = VK_NULL_HANDLE;
        return tenon_fail(error, TENON_STATE, TENON_REASON_DRIVER_TOO_OLD, TENON_SCOPE_DEVICE,
                          text);
    }
    if (self->gpu->import_unit != 0)
        self->host_pointer = (PFN_vkGetMemoryHostPointerPropertiesEXT)api->GetDeviceProcAddr(
            self->handle, "vkGetMemoryHostPointerPropertiesEXT");
    self->api.GetDeviceQueue(self->handle, self->gpu->family, 0, &self->queue);
    return TENON_OK;
}

/* Locks last as long as the device; made first, so that closing may rely on them. */
static int make_locks(tenon_device *self)
{
    if (!vulkan_lock_make(&self->queue_lock)) return 0;
    if (!vulkan_lock_make(&self->upload_lock)) {
        vulkan_lock_free(&self->queue_lock);
        return 0;
    }
    if (!vulkan_lock_make(&self->buffer_lock)) {
        vulkan_lock_free(&self->upload_lock);
        vulkan_lock_free(&self->queue_lock);
        return 0;
    }
    return 1;
}

static int32_t check_usable(const vulkan_gpu *gpu, tenon_error *error)
{
    if (gpu->info.unusable == 0) return TENON_OK;
    return tenon_fail(error, TENON_STATE, gpu->info.unusable, TENON_SCOPE_DEVICE, gpu->info.detail);
}

/* Learns what the device computes, and with it which of the kernels' modules to use. */
static int32_t prove(tenon_device *self, tenon_error *error)
{
    int software = self->gpu->info.kind == TENON_DEVICE_SOFTWARE;
    int32_t status;

    self->flavour = self->gpu->has_views ? VULKAN_TEXEL : VULKAN_BUFFER;
    self->math = VULKAN_SINGLE;
    self->fma = VULKAN_FMA_NATIVE;
    status = vulkan_probe(self, &self->arithmetic, error);
    if (status == TENON_OK && !self->arithmetic.halves) self->flavour = VULKAN_BUFFER;
    if (status == TENON_OK && !self->arithmetic.fused) {
        /* Binary64 is as fast as binary32 on a processor, and far slower on most others. */
        self->fma = VULKAN_FMA_EMULATED;
        self->math = software && self->gpu->features.shaderFloat64 ? VULKAN_DOUBLE : VULKAN_SINGLE;
        vulkan_pipelines_clear(self);
        status = vulkan_probe(self, &self->arithmetic, error);
    }
    if (status == TENON_OK && !self->arithmetic.fused && self->math == VULKAN_DOUBLE) {
        self->math = VULKAN_SINGLE;
        vulkan_pipelines_clear(self);
        status = vulkan_probe(self, &self->arithmetic, error);
    }
    if (status == TENON_OK) atomic_store(&self->gpu->arith, vulkan_classes(&self->arithmetic));
    return status;
}

int32_t TENON_CALL vulkan_device_open(tenon_provider *provider, uint32_t index, tenon_device **out,
                                      tenon_error *error)
{
    tenon_device *self;
    int32_t status;

    if (provider == NULL || out == NULL)
        return vulkan_null_pointer("device_open needs provider and out", error);
    *out = NULL;
    if (index >= provider->gpu_count)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL,
                                 index, provider->gpu_count, "no Vulkan device of this number");
    status = check_usable(&provider->gpus[index], error);
    if (status != TENON_OK) return status;
    self = calloc(1, sizeof *self);
    if (self == NULL || !make_locks(self)) {
        free(self);
        return vulkan_no_memory(sizeof *self, TENON_SCOPE_DEVICE, "no memory for a device", error);
    }
    self->provider = provider;
    self->gpu = &provider->gpus[index];
    status = make_device(self, error);
    if (status == TENON_OK) status = vulkan_pool_make(self, error);
    if (status == TENON_OK) status = vulkan_pipelines_make(self, error);
    if (status == TENON_OK) status = vulkan_queue_open(self, &self->uploads, error);
    if (status == TENON_OK) status = vulkan_weights_make(self, error);
    if (status == TENON_OK) status = prove(self, error);
    if (status != TENON_OK) {
        vulkan_device_close(self);
        return status;
    }
    *out = self;
    return TENON_OK;
}

void TENON_CALL vulkan_device_close(tenon_device *device)
{
    const tenon_services *services;
    char text[120];
    uint64_t left;

    if (device == NULL) return;
    services = device->provider->services;
    left = atomic_load(&device->objects);
    if (left != 0) {
        snprintf(text, sizeof text, "vulkan: %llu objects were not given back before the device",
                 (unsigned long long)left);
        services->log(services->host, TENON_LOG_WARNING, text);
    }
    if (device->handle != VK_NULL_HANDLE) {
        vulkan_queue_close(device->uploads);
        if (left == 0 && device->memory.made && vulkan_memory_used(device) != 0)
            services->log(services->host, TENON_LOG_WARNING,
                          "vulkan: memory of the device was not given back");
        vulkan_weights_free(device);
        vulkan_pipelines_free(device);
        vulkan_pool_free(device);
        device->api.DestroyDevice(device->handle, NULL);
    }
    vulkan_lock_free(&device->buffer_lock);
    vulkan_lock_free(&device->upload_lock);
    vulkan_lock_free(&device->queue_lock);
    free(device);
}
