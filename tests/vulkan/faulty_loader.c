/* The loader of faulty_loader.h. One instance and one device at a time. */
#define VK_NO_PROTOTYPES
#include "faulty_loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

#define EXPORT __attribute__((visibility("default")))

static faulty_control control;
static PFN_vkGetInstanceProcAddr real_get;
static PFN_vkGetDeviceProcAddr real_get_device;
static VkInstance instance;
static VkDevice device;
static atomic_int lost, hangs; /* the device, as a call was told to answer */

EXPORT faulty_control *faulty_loader_control(void);
faulty_control *faulty_loader_control(void)
{
    return &control;
}

static PFN_vkVoidFunction real_of(const char *name)
{
    PFN_vkVoidFunction found = NULL;
    if (device != VK_NULL_HANDLE) found = real_get_device(device, name);
    return found != NULL ? found : real_get(instance, name);
}

#define REAL(name) ((PFN_vk##name)real_of("vk" #name))

/* Is it this call's turn to fail? */
static int fails(enum faulty_call call, VkResult *result)
{
    atomic_fetch_add(&control.call[call].made, 1);
    if (atomic_load(&control.call[call].after) == 0 ||
        atomic_fetch_sub(&control.call[call].after, 1) != 1)
        return 0;
    *result = (VkResult)atomic_load(&control.call[call].result);
    if (*result == VK_ERROR_DEVICE_LOST) atomic_store(&lost, 1);
    if (*result == VK_TIMEOUT) atomic_store(&hangs, 1);
    return 1;
}

static VkResult count(VkResult result)
{
    if (result == VK_SUCCESS) atomic_fetch_add(&control.alive, 1);
    return result;
}

#define CREATE(name, info, handle) \
    static VkResult VKAPI_CALL faulty_##name(VkDevice on, const info *wanted, \
                                             const VkAllocationCallbacks *memory, handle *out) \
    { \
        VkResult result; \
        if (fails(FAULTY_##name, &result)) return result; \
        return count(REAL(name)(on, wanted, memory, out)); \
    }
#define DESTROY(name, handle) \
    static void VKAPI_CALL faulty_##name(VkDevice on, handle gone, \
                                         const VkAllocationCallbacks *memory) \
    { \
        if (gone != VK_NULL_HANDLE) atomic_fetch_sub(&control.alive, 1); \
        REAL(name)(on, gone, memory); \
    }
DESTROY(DestroyBuffer, VkBuffer)
static VkResult VKAPI_CALL faulty_CreateBufferView(VkDevice on,
                                                   const VkBufferViewCreateInfo *wanted,
                                                   const VkAllocationCallbacks *memory,
                                                   VkBufferView *out)
{
    VkResult result;
    if (control.texel_elements != 0 && wanted->range / 16 > control.texel_elements)
        atomic_fetch_add(&control.too_long, 1);
    if (fails(FAULTY_CreateBufferView, &result)) return result;
    return count(REAL(CreateBufferView)(on, wanted, memory, out));
}
DESTROY(DestroyBufferView, VkBufferView)
CREATE(CreateFence, VkFenceCreateInfo, VkFence)
DESTROY(DestroyFence, VkFence)
DESTROY(DestroyCommandPool, VkCommandPool)
CREATE(CreateShaderModule, VkShaderModuleCreateInfo, VkShaderModule)
DESTROY(DestroyShaderModule, VkShaderModule)
CREATE(CreateDescriptorSetLayout, VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout)
DESTROY(DestroyDescriptorSetLayout, VkDescriptorSetLayout)
CREATE(CreatePipelineLayout, VkPipelineLayoutCreateInfo, VkPipelineLayout)
DESTROY(DestroyPipelineLayout, VkPipelineLayout)
CREATE(CreateDescriptorPool, VkDescriptorPoolCreateInfo, VkDescriptorPool)
DESTROY(DestroyDescriptorPool, VkDescriptorPool)
DESTROY(DestroyPipeline, VkPipeline)
DESTROY(DestroyPipelineCache, VkPipelineCache)

#define MOST_IMPORTS 64
static VkDeviceMemory imports[MOST_IMPORTS]; /* alive */

static void note_import(VkDeviceMemory gone, VkDeviceMemory made, int by)
{
    int i;
    for (i = 0; i < MOST_IMPORTS && imports[i] != gone; i++) {}
    if (i == MOST_IMPORTS) return;
    imports[i] = made;
    atomic_fetch_add(&control.imported, by);
}

static VkResult VKAPI_CALL faulty_AllocateMemory(VkDevice on, const VkMemoryAllocateInfo *wanted,
                                                 const VkAllocationCallbacks *memory,
                                                 VkDeviceMemory *out)
{
    const VkBaseInStructure *more = wanted->pNext;
    VkResult result;
    if (fails(FAULTY_AllocateMemory, &result)) return result;
    result = count(REAL(AllocateMemory)(on, wanted, memory, out));
    if (result != VK_SUCCESS || more == NULL ||
        more->sType != VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT)
        return result;
    atomic_fetch_add(&control.imports, 1);
    note_import(VK_NULL_HANDLE, *out, 1);
    return result;
}

static void VKAPI_CALL faulty_FreeMemory(VkDevice on, VkDeviceMemory gone,
                                         const VkAllocationCallbacks *memory)
{
    if (gone != VK_NULL_HANDLE) {
        atomic_fetch_sub(&control.alive, 1);
        note_import(gone, VK_NULL_HANDLE, -1);
    }
    REAL(FreeMemory)(on, gone, memory);
}

static VkResult VKAPI_CALL
faulty_GetMemoryHostPointerPropertiesEXT(VkDevice on, VkExternalMemoryHandleTypeFlagBits type,
                                         const void *pointer, VkMemoryHostPointerPropertiesEXT *out)
{
    VkResult result;
    if (fails(FAULTY_GetMemoryHostPointerPropertiesEXT, &result)) return result;
    return REAL(GetMemoryHostPointerPropertiesEXT)(on, type, pointer, out);
}

static VkResult VKAPI_CALL faulty_CreatePipelineCache(VkDevice on,
                                                      const VkPipelineCacheCreateInfo *wanted,
                                                      const VkAllocationCallbacks *memory,
                                                      VkPipelineCache *out)
{
    VkResult result;
    atomic_store(&control.cache_bytes, (long)wanted->initialDataSize);
    if (fails(FAULTY_CreatePipelineCache, &result)) return result;
    return count(REAL(CreatePipelineCache)(on, wanted, memory, out));
}

static VkResult VKAPI_CALL faulty_CreateBuffer(VkDevice on, const VkBufferCreateInfo *wanted,
                                               const VkAllocationCallbacks *memory, VkBuffer *out)
{
    VkBufferCreateInfo empty = *wanted;
    VkBuffer useless = VK_NULL_HANDLE;
    VkResult result;
    if (fails(FAULTY_CreateBuffer, &result)) return result;
    if (control.misuse) {
        control.misuse = 0;
        empty.size = 0;
        if (REAL(CreateBuffer)(on, &empty, memory, &useless) == VK_SUCCESS)
            REAL(DestroyBuffer)(on, useless, memory);
    }
    return count(REAL(CreateBuffer)(on, wanted, memory, out));
}

static VkResult VKAPI_CALL faulty_CreateCommandPool(VkDevice on,
                                                    const VkCommandPoolCreateInfo *wanted,
                                                    const VkAllocationCallbacks *memory,
                                                    VkCommandPool *out)
{
    VkCommandPoolCreateInfo mine = *wanted;
    VkResult result;
    if (fails(FAULTY_CreateCommandPool, &result)) return result;
    if (control.family_count != 0) mine.queueFamilyIndex = 0;
    return count(REAL(CreateCommandPool)(on, &mine, memory, out));
}

static VkResult VKAPI_CALL faulty_CreateComputePipelines(VkDevice on, VkPipelineCache cache,
                                                         uint32_t n,
                                                         const VkComputePipelineCreateInfo *wanted,
                                                         const VkAllocationCallbacks *memory,
                                                         VkPipeline *out)
{
    VkResult result;
    if (fails(FAULTY_CreateComputePipelines, &result)) return result;
    return count(REAL(CreateComputePipelines)(on, cache, n, wanted, memory, out));
}

static VkResult VKAPI_CALL faulty_MapMemory(VkDevice on, VkDeviceMemory memory, VkDeviceSize offset,
                                            VkDeviceSize size, VkMemoryMapFlags flags, void **out)
{
    VkResult result;
    if (fails(FAULTY_MapMemory, &result)) return result;
    return REAL(MapMemory)(on, memory, offset, size, flags, out);
}

static VkResult VKAPI_CALL faulty_BindBufferMemory(VkDevice on, VkBuffer buffer,
                                                   VkDeviceMemory memory, VkDeviceSize offset)
{
    VkResult result;
    if (fails(FAULTY_BindBufferMemory, &result)) return result;
    return REAL(BindBufferMemory)(on, buffer, memory, offset);
}

static VkResult VKAPI_CALL faulty_AllocateCommandBuffers(VkDevice on,
                                                         const VkCommandBufferAllocateInfo *wanted,
                                                         VkCommandBuffer *out)
{
    VkResult result;
    if (fails(FAULTY_AllocateCommandBuffers, &result)) return result;
    return REAL(AllocateCommandBuffers)(on, wanted, out);
}

static VkResult VKAPI_CALL faulty_AllocateDescriptorSets(VkDevice on,
                                                         const VkDescriptorSetAllocateInfo *wanted,
                                                         VkDescriptorSet *out)
{
    VkResult result;
    if (fails(FAULTY_AllocateDescriptorSets, &result)) return result;
    return REAL(AllocateDescriptorSets)(on, wanted, out);
}

static VkResult VKAPI_CALL faulty_BeginCommandBuffer(VkCommandBuffer commands,
                                                     const VkCommandBufferBeginInfo *wanted)
{
    VkResult result;
    if (fails(FAULTY_BeginCommandBuffer, &result)) return result;
    return REAL(BeginCommandBuffer)(commands, wanted);
}

static VkResult VKAPI_CALL faulty_EndCommandBuffer(VkCommandBuffer commands)
{
    VkResult result;
    if (fails(FAULTY_EndCommandBuffer, &result)) {
        (void)REAL(EndCommandBuffer)(commands);
        return result;
    }
    return REAL(EndCommandBuffer)(commands);
}

static void VKAPI_CALL faulty_UpdateDescriptorSets(VkDevice on, uint32_t n,
                                                   const VkWriteDescriptorSet *writes,
                                                   uint32_t copies, const VkCopyDescriptorSet *from)
{
    uint32_t i;
    for (i = 0; i < n; i++)
        if (control.storage_range != 0 && writes[i].pBufferInfo != NULL &&
            writes[i].descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER &&
            writes[i].pBufferInfo->range > control.storage_range)
            atomic_fetch_add(&control.too_long, 1);
    REAL(UpdateDescriptorSets)(on, n, writes, copies, from);
}

static void VKAPI_CALL faulty_CmdDispatch(VkCommandBuffer commands, uint32_t x, uint32_t y,
                                          uint32_t z)
{
    atomic_fetch_add(&control.dispatches, 1);
    REAL(CmdDispatch)(commands, x, y, z);
}

static VkResult VKAPI_CALL faulty_QueueSubmit(VkQueue queue, uint32_t n,
                                              const VkSubmitInfo *submits, VkFence fence)
{
    VkResult result;
    if (fails(FAULTY_QueueSubmit, &result)) return result;
    return REAL(QueueSubmit)(queue, n, submits, fence);
}

static VkResult VKAPI_CALL faulty_WaitForFences(VkDevice on, uint32_t n, const VkFence *fences,
                                                VkBool32 all, uint64_t timeout)
{
    VkResult result;
    if (fails(FAULTY_WaitForFences, &result)) return result;
    if (atomic_load(&lost)) return VK_ERROR_DEVICE_LOST;
    if (atomic_load(&hangs)) return VK_TIMEOUT;
    return REAL(WaitForFences)(on, n, fences, all, timeout);
}

static VkResult VKAPI_CALL faulty_GetFenceStatus(VkDevice on, VkFence fence)
{
    if (atomic_load(&lost)) return VK_ERROR_DEVICE_LOST;
    return atomic_load(&hangs) ? VK_NOT_READY : REAL(GetFenceStatus)(on, fence);
}

/* It is idle afterwards, whatever it answers. */
static VkResult VKAPI_CALL faulty_DeviceWaitIdle(VkDevice on)
{
    VkResult idle = REAL(DeviceWaitIdle)(on), result;
    atomic_store(&hangs, 0);
    if (fails(FAULTY_DeviceWaitIdle, &result)) return result;
    return atomic_load(&lost) ? VK_ERROR_DEVICE_LOST : idle;
}

static void VKAPI_CALL faulty_GetDeviceQueue(VkDevice on, uint32_t family, uint32_t index,
                                             VkQueue *out)
{
    REAL(GetDeviceQueue)(on, control.family_count != 0 ? 0 : family, index, out);
}

static void VKAPI_CALL faulty_DestroyDevice(VkDevice on, const VkAllocationCallbacks *memory)
{
    PFN_vkDestroyDevice destroy = REAL(DestroyDevice);
    if (on != VK_NULL_HANDLE) atomic_fetch_sub(&control.alive, 1);
    destroy(on, memory);
    if (on == device) device = VK_NULL_HANDLE;
    atomic_store(&lost, 0);
    atomic_store(&hangs, 0);
}

/* ---------------------------------------------------------------------------------- devices */

static VkResult VKAPI_CALL faulty_CreateDevice(VkPhysicalDevice of,
                                               const VkDeviceCreateInfo *wanted,
                                               const VkAllocationCallbacks *memory, VkDevice *out)
{
    VkDeviceQueueCreateInfo queue = *wanted->pQueueCreateInfos;
    VkDeviceCreateInfo mine = *wanted;
    VkResult result;
    if (fails(FAULTY_CreateDevice, &result)) return result;
    atomic_store(&control.family_used, queue.queueFamilyIndex);
    if (control.family_count != 0) queue.queueFamilyIndex = 0;
    mine.pQueueCreateInfos = &queue;
    result = ((PFN_vkCreateDevice)real_get(instance, "vkCreateDevice"))(of, &mine, memory, out);
    if (result == VK_SUCCESS) device = *out;
    return count(result);
}

static VkResult VKAPI_CALL faulty_EnumeratePhysicalDevices(VkInstance in, uint32_t *n,
                                                           VkPhysicalDevice *out)
{
    VkResult result;
    if (fails(FAULTY_EnumeratePhysicalDevices, &result)) {
        if (result == VK_SUCCESS) *n = 0;
        return result;
    }
    return REAL(EnumeratePhysicalDevices)(in, n, out);
}

static void change(VkPhysicalDeviceProperties *properties)
{
    if (control.api_version != 0) properties->apiVersion = control.api_version;
    if (control.storage_range != 0)
        properties->limits.maxStorageBufferRange = control.storage_range;
    if (control.texel_elements != 0)
        properties->limits.maxTexelBufferElements = control.texel_elements;
    if (control.largest_group != 0)
        properties->limits.maxComputeWorkGroupInvocations = control.largest_group;
    if (control.most_bindings != 0)
        properties->limits.maxPerStageDescriptorStorageBuffers = control.most_bindings;
    if (control.device_type != 0)
        properties->deviceType = (VkPhysicalDeviceType)(control.device_type - 1);
}

static void VKAPI_CALL faulty_GetPhysicalDeviceProperties(VkPhysicalDevice of,
                                                          VkPhysicalDeviceProperties *out)
{
    REAL(GetPhysicalDeviceProperties)(of, out);
    change(out);
}

static void VKAPI_CALL faulty_GetPhysicalDeviceProperties2(VkPhysicalDevice of,
                                                           VkPhysicalDeviceProperties2 *out)
{
    REAL(GetPhysicalDeviceProperties2)(of, out);
    change(&out->properties);
}

static void VKAPI_CALL faulty_GetPhysicalDeviceMemoryProperties2(
    VkPhysicalDevice of, VkPhysicalDeviceMemoryProperties2 *out)
{
    VkBaseOutStructure *at;
    uint32_t i;
    REAL(GetPhysicalDeviceMemoryProperties2)(of, out);
    for (at = out->pNext; at != NULL && control.budget != 0; at = at->pNext)
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
            for (i = 0; i < VK_MAX_MEMORY_HEAPS; i++) {
                VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (void *)at;
                budget->heapBudget[i] = control.budget;
                budget->heapUsage[i] = control.usage;
            }
}

static VkResult VKAPI_CALL faulty_EnumerateDeviceExtensionProperties(VkPhysicalDevice of,
                                                                     const char *layer, uint32_t *n,
                                                                     VkExtensionProperties *out)
{
    uint32_t room = *n;
    VkResult result = REAL(EnumerateDeviceExtensionProperties)(of, layer, n, out);
    if (control.budget == 0 || result < 0) return result;
    if (out != NULL && *n < room) {
        memset(&out[*n], 0, sizeof out[*n]);
        strcpy(out[*n].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    }
    ++*n;
    return result;
}

static void VKAPI_CALL faulty_GetPhysicalDeviceQueueFamilyProperties2(VkPhysicalDevice of,
                                                                      uint32_t *n,
                                                                      VkQueueFamilyProperties2 *out)
{
    uint32_t i, room = *n;
    if (control.family_count == 0) {
        REAL(GetPhysicalDeviceQueueFamilyProperties2)(of, n, out);
        return;
    }
    *n = control.family_count;
    for (i = 0; out != NULL && i < room && i < *n; i++) {
        /* Whoever lays the structs out wrongly is told of families that do nothing. */
        out[i].queueFamilyProperties = (VkQueueFamilyProperties){.queueCount = 1};
        if (out[i].sType != VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2) continue;
        out[i].queueFamilyProperties.queueFlags = i + 1 == *n && control.family_computes
                                                      ? VK_QUEUE_COMPUTE_BIT
                                                      : VK_QUEUE_TRANSFER_BIT;
    }
}

/* ------------------------------------------------------------------------------ the instance */

static VkResult VKAPI_CALL faulty_CreateInstance(const VkInstanceCreateInfo *wanted,
                                                 const VkAllocationCallbacks *memory,
                                                 VkInstance *out)
{
    VkResult result;
    if (fails(FAULTY_CreateInstance, &result)) return result;
    result = ((PFN_vkCreateInstance)real_get(NULL, "vkCreateInstance"))(wanted, memory, out);
    if (result == VK_SUCCESS) {
        instance = *out;
        real_get_device = (PFN_vkGetDeviceProcAddr)real_get(instance, "vkGetDeviceProcAddr");
    }
    return count(result);
}

static void VKAPI_CALL faulty_DestroyInstance(VkInstance in, const VkAllocationCallbacks *memory)
{
    PFN_vkDestroyInstance destroy = REAL(DestroyInstance);
    if (in != VK_NULL_HANDLE) atomic_fetch_sub(&control.alive, 1);
    destroy(in, memory);
    instance = VK_NULL_HANDLE;
}

static PFN_vkVoidFunction VKAPI_CALL faulty_GetDeviceProcAddr(VkDevice on, const char *name);

static PFN_vkVoidFunction mine(const char *name)
{
#define MINE(function) \
    if (strcmp(name, "vk" #function) == 0) return (PFN_vkVoidFunction)faulty_##function;
    FAULTY_CALLS(MINE)
    MINE(CmdDispatch)
    MINE(UpdateDescriptorSets)
    MINE(DestroyInstance)
    MINE(DestroyDevice)
    MINE(GetDeviceProcAddr)
    MINE(GetDeviceQueue)
    MINE(GetFenceStatus)
    MINE(GetPhysicalDeviceProperties)
    MINE(GetPhysicalDeviceProperties2)
    MINE(GetPhysicalDeviceMemoryProperties2)
    MINE(GetPhysicalDeviceQueueFamilyProperties2)
    MINE(EnumerateDeviceExtensionProperties)
    MINE(FreeMemory)
    MINE(DestroyBuffer)
    MINE(DestroyBufferView)
    MINE(DestroyFence)
    MINE(DestroyCommandPool)
    MINE(DestroyShaderModule)
    MINE(DestroyDescriptorSetLayout)
    MINE(DestroyPipelineLayout)
    MINE(DestroyDescriptorPool)
    MINE(DestroyPipeline)
    MINE(DestroyPipelineCache)
#undef MINE
    return NULL;
}

static PFN_vkVoidFunction VKAPI_CALL faulty_GetDeviceProcAddr(VkDevice on, const char *name)
{
    PFN_vkVoidFunction found = mine(name);
    return found != NULL ? found : real_get_device(on, name);
}

/* The same faults for a program that cannot reach the control. */
static void read_environment(void)
{
    static const char *const names[FAULTY_CALL_COUNT] = {
#define NAME(function) [FAULTY_##function] = #function,
        FAULTY_CALLS(NAME)
#undef NAME
    };
    const char *type = getenv("TENON_FAULTY_DEVICE_TYPE"), *fault = getenv("TENON_FAULTY_CALL");
    const char *misuse = getenv("TENON_FAULTY_MISUSE");
    char name[40];
    int result, i;
    long after;
    if (type != NULL) control.device_type = (uint32_t)strtoul(type, NULL, 10) + 1;
    if (misuse != NULL) control.misuse = (uint32_t)strtoul(misuse, NULL, 10);
    if (fault == NULL || sscanf(fault, "%39[A-Za-z]:%ld:%d", name, &after, &result) != 3) return;
    for (i = 0; i < FAULTY_CALL_COUNT; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        atomic_store(&control.call[i].result, result);
        atomic_store(&control.call[i].after, after);
    }
}

EXPORT PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance in, const char *name);
PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance in, const char *name)
{
    PFN_vkVoidFunction found;
    if (real_get == NULL) {
        void *symbol, *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) return NULL;
        symbol = dlsym(library, "vkGetInstanceProcAddr");
        memcpy(&real_get, &symbol, sizeof real_get); /* POSIX: both have one representation */
        if (real_get == NULL) return NULL;
        read_environment();
    }
    found = mine(name);
    return found != NULL ? found : real_get(in, name);
}
