/* Finding the functions of api.h. */
#include "api.h"

#include "system.h"

const char *vulkan_find_global(vulkan_global_api *api)
{
    void (*first)(void) = vulkan_library_find(api->library, "vkGetInstanceProcAddr");

    if (first == NULL) return "vkGetInstanceProcAddr";
    api->GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)first;
#define FIND(name) \
    api->name = (PFN_vk##name)api->GetInstanceProcAddr(NULL, "vk" #name); \
    if (api->name == NULL) return "vk" #name;
    VULKAN_GLOBAL_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

const char *vulkan_find_instance(const vulkan_global_api *global, VkInstance instance,
                                 vulkan_instance_api *api)
{
#define FIND(name) \
    api->name = (PFN_vk##name)global->GetInstanceProcAddr(instance, "vk" #name); \
    if (api->name == NULL) return "vk" #name;
    VULKAN_INSTANCE_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

const char *vulkan_find_device(const vulkan_instance_api *instance, VkDevice device,
                               vulkan_device_api *api)
{
#define FIND(name) \
    api->name = (PFN_vk##name)instance->GetDeviceProcAddr(device, "vk" #name); \
    if (api->name == NULL) return "vk" #name;
    VULKAN_DEVICE_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

const char *vulkan_result_name(VkResult result)
{
    switch (result) {
#define NAME(value) \
    case value: return #value;
        NAME(VK_SUCCESS)
        NAME(VK_NOT_READY)
        NAME(VK_TIMEOUT)
        NAME(VK_INCOMPLETE)
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        NAME(VK_ERROR_INITIALIZATION_FAILED)
        NAME(VK_ERROR_DEVICE_LOST)
        NAME(VK_ERROR_MEMORY_MAP_FAILED)
        NAME(VK_ERROR_LAYER_NOT_PRESENT)
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
        NAME(VK_ERROR_FEATURE_NOT_PRESENT)
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
        NAME(VK_ERROR_TOO_MANY_OBJECTS)
        NAME(VK_ERROR_FRAGMENTED_POOL)
        NAME(VK_ERROR_UNKNOWN)
        NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
        NAME(VK_ERROR_FRAGMENTATION)
#undef NAME
    default: return "VkResult";
    }
}
