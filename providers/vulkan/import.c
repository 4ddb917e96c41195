/* Imported memory: import.h. */
#include "import.h"

#include <stdlib.h>

#define HANDLE VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT

typedef struct import {
    vulkan_memory memory; /* first: it is what others hold; its block is NULL */
    VkDeviceMemory handle;
} import;

int vulkan_import_pays(const tenon_device *device, uint64_t bytes)
{
    uint64_t least = device->gpu->import_unit;

    if (device->host_pointer == NULL) return 0;
    if (device->provider->settings.import == VULKAN_IMPORT_AUTO) least = VULKAN_IMPORT_BYTES;
    return bytes >= least;
}

/* A memory type of those in bits, the host's, coherent. 32: there is none. */
static uint32_t first_type(uint32_t bits)
{
    uint32_t type = 0;
    while (type < 32 && (bits >> type & 1) == 0) type++;
    return type;
}

static VkResult fill(tenon_device *device, import *self, void *pages, uint64_t bytes)
{
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = HANDLE};
    const VkBufferCreateInfo wanted = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                       .pNext = &external,
                                       .size = bytes,
                                       .usage = VULKAN_IMPORT_USAGE,
                                       .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    const VkImportMemoryHostPointerInfoEXT host = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = HANDLE,
        .pHostPointer = pages};
    VkMemoryAllocateInfo memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &host, .allocationSize = bytes};
    VkMemoryHostPointerPropertiesEXT takes = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkMemoryRequirements needs;
    VkResult result = device->host_pointer(device->handle, HANDLE, pages, &takes);

    if (result != VK_SUCCESS) return result;
    result = device->api.CreateBuffer(device->handle, &wanted, NULL, &self->memory.buffer);
    if (result != VK_SUCCESS) {
        self->memory.buffer = VK_NULL_HANDLE;
        return result;
    }
    device->api.GetBufferMemoryRequirements(device->handle, self->memory.buffer, &needs);
    memory.memoryTypeIndex = first_type(takes.memoryTypeBits & needs.memoryTypeBits &
                                        device->gpu->import_types);
    if (memory.memoryTypeIndex == 32 || needs.size > bytes) return VK_ERROR_FEATURE_NOT_PRESENT;
    result = device->api.AllocateMemory(device->handle, &memory, NULL, &self->handle);
    if (result != VK_SUCCESS) {
        self->handle = VK_NULL_HANDLE;
        return result;
    }
    return device->api.BindBufferMemory(device->handle, self->memory.buffer, self->handle, 0);
}

int32_t vulkan_import(tenon_device *device, const void *at, uint64_t bytes, vulkan_span *out,
                      tenon_error *error)
{
    const uint64_t unit = device->gpu->import_unit;
    const uint64_t before = (uintptr_t)at % unit;
    uint8_t *pages = (uint8_t *)(uintptr_t)((uintptr_t)at - before);
    uint64_t size;
    VkResult result;
    import *self;

    *out = (vulkan_span){NULL, 0, 0};
    if (bytes > device->gpu->block_limit - unit || bytes > SIZE_MAX - 2 * unit) return TENON_OK;
    size = vulkan_round_up(before + bytes, unit);
    if (size > device->gpu->block_limit) return TENON_OK;
    self = calloc(1, sizeof *self);
    if (self == NULL) return TENON_OK;
    self->memory.bytes = self->memory.size = size;
    atomic_store(&self->memory.users, 1);
    result = fill(device, self, pages, size);
    if (result == VK_SUCCESS) {
        *out = (vulkan_span){&self->memory, before, bytes};
        return TENON_OK;
    }
    vulkan_import_free(device, &self->memory);
    if (result != VK_ERROR_DEVICE_LOST) return TENON_OK;
    return vulkan_failed(device, result, "memory of the host", TENON_SCOPE_CALL, error);
}

void vulkan_import_free(tenon_device *device, vulkan_memory *memory)
{
    import *self = (import *)memory;

    if (memory->buffer != VK_NULL_HANDLE)
        device->api.DestroyBuffer(device->handle, memory->buffer, NULL);
    if (self->handle != VK_NULL_HANDLE) device->api.FreeMemory(device->handle, self->handle, NULL);
    free(self);
}

int32_t vulkan_import_fill(tenon_device_queue *queue, const vulkan_span *to,
                           const vulkan_span *from, uint32_t count, tenon_error *error)
{
    /* A device that never comes to an end of its work is answered TIMEOUT here, while there is nothing
     * of the caller's in flight. */
    int32_t status = vulkan_queue_finish(queue, error);
    uint32_t i;

    if (status == TENON_OK) status = vulkan_call_begin(queue, error);
    if (status != TENON_OK) return status;
    for (i = 0; i < count && status == TENON_OK; i++)
        status = vulkan_record_copy(queue, to[i], from[i], error);
    if (status == TENON_OK) status = vulkan_call_end(queue, 1, error);
    if (status != TENON_OK) vulkan_queue_drain(queue);
    return status;
}
