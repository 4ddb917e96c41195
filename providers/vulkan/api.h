/* The functions of Vulkan that the provider calls, found at run time: nothing links libvulkan.
 *
 * One list for each way of finding them; the lists make the tables and fill them. */
#ifndef TENON_VULKAN_API_H
#define TENON_VULKAN_API_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#define VULKAN_GLOBAL_FUNCTIONS(X) \
    X(EnumerateInstanceVersion) \
    X(EnumerateInstanceExtensionProperties) \
    X(CreateInstance)

#define VULKAN_INSTANCE_FUNCTIONS(X) \
    X(DestroyInstance) \
    X(EnumeratePhysicalDevices) \
    X(GetPhysicalDeviceProperties2) \
    X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties2) \
    X(GetPhysicalDeviceQueueFamilyProperties2) \
    X(GetPhysicalDeviceProperties) \
    X(GetPhysicalDeviceExternalBufferProperties) \
    X(EnumerateDeviceExtensionProperties) \
    X(CreateDevice) \
    X(GetDeviceProcAddr)

#define VULKAN_DEVICE_FUNCTIONS(X) \
    X(DestroyDevice) \
    X(GetDeviceQueue) \
    X(DeviceWaitIdle) \
    X(QueueSubmit) \
    X(AllocateMemory) \
    X(FreeMemory) \
    X(MapMemory) \
    X(CreateBuffer) \
    X(DestroyBuffer) \
    X(GetBufferMemoryRequirements) \
    X(CreateBufferView) \
    X(DestroyBufferView) \
    X(BindBufferMemory) \
    X(CreateFence) \
    X(DestroyFence) \
    X(ResetFences) \
    X(GetFenceStatus) \
    X(WaitForFences) \
    X(CreateCommandPool) \
    X(DestroyCommandPool) \
    X(AllocateCommandBuffers) \
    X(BeginCommandBuffer) \
    X(EndCommandBuffer) \
    X(CmdBindPipeline) \
    X(CmdBindDescriptorSets) \
    X(CmdPushConstants) \
    X(CmdDispatch) \
    X(CmdDispatchIndirect) \
    X(CmdUpdateBuffer) \
    X(CmdPipelineBarrier) \
    X(CmdCopyBuffer) \
    X(CreateShaderModule) \
    X(DestroyShaderModule) \
    X(CreateDescriptorSetLayout) \
    X(DestroyDescriptorSetLayout) \
    X(CreatePipelineLayout) \
    X(DestroyPipelineLayout) \
    X(CreatePipelineCache) \
    X(DestroyPipelineCache) \
    X(GetPipelineCacheData) \
    X(CreateComputePipelines) \
    X(DestroyPipeline) \
    X(CreateDescriptorPool) \
    X(DestroyDescriptorPool) \
    X(ResetDescriptorPool) \
    X(AllocateDescriptorSets) \
    X(UpdateDescriptorSets)

#define VULKAN_MEMBER(name) PFN_vk##name name;

typedef struct vulkan_global_api {
    void *library;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    VULKAN_GLOBAL_FUNCTIONS(VULKAN_MEMBER)
} vulkan_global_api;

typedef struct vulkan_instance_api {
    VULKAN_INSTANCE_FUNCTIONS(VULKAN_MEMBER)
} vulkan_instance_api;

typedef struct vulkan_device_api {
    VULKAN_DEVICE_FUNCTIONS(VULKAN_MEMBER)
} vulkan_device_api;

/* Each fills a table; NULL, or the name of the first function that is missing. */
const char *vulkan_find_global(vulkan_global_api *api);
const char *vulkan_find_instance(const vulkan_global_api *global, VkInstance instance,
                                 vulkan_instance_api *api);
const char *vulkan_find_device(const vulkan_instance_api *instance, VkDevice device,
                               vulkan_device_api *api);

/* The name of a result in the headers, "VkResult" when it is none of those a call here gives. */
const char *vulkan_result_name(VkResult result);

#endif
