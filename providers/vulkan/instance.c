/* The instance, and what is to be known of every physical device without opening it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "kernels.h"

#define NEEDED_VERSION VK_API_VERSION_1_2

/* No device at all, and why. */
static void say_why(tenon_provider *provider, uint32_t reason, const char *what, VkResult result)
{
    provider->why_reason = reason;
    snprintf(provider->why, sizeof provider->why, "%s (%s)", what, vulkan_result_name(result));
}

static int has_extension(const VkExtensionProperties *list, uint32_t count, const char *name)
{
    uint32_t i;
    for (i = 0; i < count; i++)
        if (strcmp(list[i].extensionName, name) == 0) return 1;
    return 0;
}

/* Layered drivers on other systems' devices are listed only when asked for. */
static int has_portability(const tenon_provider *provider)
{
    VkExtensionProperties *list = NULL;
    uint32_t count = 0;
    int has = 0;

    if (provider->global.EnumerateInstanceExtensionProperties(NULL, &count, NULL) != VK_SUCCESS ||
        count == 0)
        return 0;
    list = calloc(count, sizeof *list);
    if (list == NULL) return 0;
    if (provider->global.EnumerateInstanceExtensionProperties(NULL, &count, list) >= 0)
        has = has_extension(list, count, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    free(list);
    return has;
}

/* ------------------------------------------------------------------------------ one device */

static uint32_t kind_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return TENON_DEVICE_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return TENON_DEVICE_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return TENON_DEVICE_SOFTWARE;
    default: return TENON_DEVICE_VIRTUAL;
    }
}

static void unusable(vulkan_gpu *gpu, uint32_t reason, const char *why)
{
    gpu->info.unusable = reason;
    snprintf(gpu->info.detail, sizeof gpu->info.detail, "%s", why);
}

/* Can it run the kernels? Vulkan promises less than they need of these two limits. */
static int check_limits(vulkan_gpu *gpu)
{
    const VkPhysicalDeviceLimits *can = &gpu->limits;
    char text[96];

    if (can->maxComputeWorkGroupInvocations < VULKAN_LARGEST_GROUP ||
        can->maxComputeWorkGroupSize[0] < VULKAN_LARGEST_GROUP)
        snprintf(text, sizeof text, "workgroups of %u, %u are needed",
                 can->maxComputeWorkGroupInvocations < can->maxComputeWorkGroupSize[0]
                     ? can->maxComputeWorkGroupInvocations
                     : can->maxComputeWorkGroupSize[0],
                 VULKAN_LARGEST_GROUP);
    else if (can->maxPerStageDescriptorStorageBuffers < VULKAN_MOST_BINDINGS)
        snprintf(text, sizeof text, "%u storage buffers in a kernel, %u are needed",
                 can->maxPerStageDescriptorStorageBuffers, VULKAN_MOST_BINDINGS);
    else
        return 1;
    unusable(gpu, TENON_REASON_DEVICE_UNUSABLE, text);
    return 0;
}

/* The first queue family that computes. 0 when there is none, -1 without memory. */
static int find_family(const tenon_provider *provider, vulkan_gpu *gpu)
{
    VkQueueFamilyProperties2 *families;
    uint32_t count = 0, i;
    int found = 0;

    provider->api.GetPhysicalDeviceQueueFamilyProperties2(gpu->handle, &count, NULL);
    if (count == 0) return 0;
    families = calloc(count, sizeof *families);
    if (families == NULL) return -1;
    for (i = 0; i < count; i++) families[i].sType = VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2;
    provider->api.GetPhysicalDeviceQueueFamilyProperties2(gpu->handle, &count, families);
    for (i = 0; i < count && !found; i++) {
        const VkQueueFamilyProperties *family = &families[i].queueFamilyProperties;
        found = family->queueCount > 0 && (family->queueFlags & VK_QUEUE_COMPUTE_BIT) != 0;
        gpu->family = i;
    }
    free(families);
    return found;
}

#define MAPPED_FLAGS \
    ((uint32_t)VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define CACHED_FLAG ((uint32_t)VK_MEMORY_PROPERTY_HOST_CACHED_BIT)
#define LOCAL_FLAG ((uint32_t)VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)

/* Points for a memory type: wanted flags count far more than unwanted ones; 0: not to be used. */
static uint64_t points(const VkPhysicalDeviceMemoryProperties *memory, uint32_t type,
                       uint32_t needed, uint32_t wanted, uint32_t unwanted)
{
    uint32_t flags = memory->memoryTypes[type].propertyFlags, bit;
    uint64_t heap = memory->memoryHeaps[memory->memoryTypes[type].heapIndex].size;
    uint64_t score = 1000;

    if ((flags & needed) != needed) return 0;
    /* Protected, lazily allocated and vendors' uncached memory is no memory for data. */
    if ((flags & ~(MAPPED_FLAGS | CACHED_FLAG | LOCAL_FLAG)) != 0) return 0;
    for (bit = 1; bit < 32; bit <<= 1) {
        if ((wanted & flags & bit) != 0) score += 100000;
        if ((unwanted & flags & bit) != 0) score -= 100;
    }
    return score + (heap >> 30 > 800 ? 800 : heap >> 30); /* GiB: the larger heap of equals */
}

static int best_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t needed,
                     uint32_t wanted, uint32_t unwanted, uint32_t *type)
{
    uint64_t best = 0, score;
    uint32_t i;
    for (i = 0; i < memory->memoryTypeCount; i++) {
        score = points(memory, i, needed, wanted, unwanted);
        if (score <= best) continue;
        best = score;
        *type = i;
    }
    return best != 0;
}

static int choose_memory(const tenon_provider *provider, vulkan_gpu *gpu)
{
    VkPhysicalDeviceMemoryProperties2 answer = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    const VkPhysicalDeviceMemoryProperties *memory = &answer.memoryProperties;
    int in_place = gpu->info.kind != TENON_DEVICE_DISCRETE && !provider->settings.staging;
    int found = 0;

    provider->api.GetPhysicalDeviceMemoryProperties2(gpu->handle, &answer);
    if (!best_type(memory, MAPPED_FLAGS, CACHED_FLAG, LOCAL_FLAG, &gpu->staging_type)) return 0;
    /* Memory that the processor reads without its cache is slower than a copy. */
    if (in_place)
        found = best_type(memory, MAPPED_FLAGS | CACHED_FLAG, LOCAL_FLAG, 0, &gpu->main_type);
    gpu->unified = found ? 1 : 0;
    if (!found) found = best_type(memory, 0, LOCAL_FLAG, MAPPED_FLAGS, &gpu->main_type);
    if (!found) return 0;
    gpu->main_heap = memory->memoryTypes[gpu->main_type].heapIndex;
    gpu->heap_bytes = memory->memoryHeaps[gpu->main_heap].size;
    gpu->info.memory_total = vulkan_least(gpu->heap_bytes, provider->settings.memory_limit);
    return 1;
}

/* Fills what there is to know about importing memory of the host. */
static void find_import(const tenon_provider *provider, vulkan_gpu *gpu)
{
    const VkPhysicalDeviceExternalBufferInfo buffer = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
        .usage = VULKAN_IMPORT_USAGE,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
    VkExternalBufferProperties can = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 answer = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                          .pNext = &host};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    VkExternalMemoryFeatureFlags features;
    uint32_t i;

    provider->api.GetPhysicalDeviceExternalBufferProperties(gpu->handle, &buffer, &can);
    features = can.externalMemoryProperties.externalMemoryFeatures;
    if ((features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) == 0 ||
        (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0)
        return;
    provider->api.GetPhysicalDeviceMemoryProperties2(gpu->handle, &memory);
    for (i = 0; i < memory.memoryProperties.memoryTypeCount; i++)
        if ((memory.memoryProperties.memoryTypes[i].propertyFlags & MAPPED_FLAGS) == MAPPED_FLAGS)
            gpu->import_types |= 1u << i;
    provider->api.GetPhysicalDeviceProperties2(gpu->handle, &answer);
    /* Units above a page could reach memory that is not there. */
    gpu->import_unit = host.minImportedHostPointerAlignment;
    if (gpu->import_unit != 0 && vulkan_page_bytes() % gpu->import_unit != 0) gpu->import_unit = 0;
}

static int find_extensions(const tenon_provider *provider, vulkan_gpu *gpu)
{
    VkExtensionProperties *list;
    uint32_t count = 0;
    VkResult result;

    result = provider->api.EnumerateDeviceExtensionProperties(gpu->handle, NULL, &count, NULL);
    if (result != VK_SUCCESS || count == 0) return result == VK_SUCCESS;
    list = calloc(count, sizeof *list);
    if (list == NULL) return 0;
    result = provider->api.EnumerateDeviceExtensionProperties(gpu->handle, NULL, &count, list);
    if (result >= 0) {
        gpu->has_budget = has_extension(list, count, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) ? 1 : 0;
        gpu->is_subset = has_extension(list, count, "VK_KHR_portability_subset") ? 1 : 0;
    }
    if (result >= 0 && provider->settings.import != VULKAN_IMPORT_OFF &&
        has_extension(list, count, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME))
        find_import(provider, gpu);
    free(list);
    return result >= 0;
}

static void describe(const tenon_provider *provider, vulkan_gpu *gpu)
{
    VkPhysicalDeviceMaintenance3Properties most = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, .pNext = &most};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
                                       .pNext = &driver};
    VkPhysicalDeviceProperties2 answer = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                          .pNext = &id};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDeviceProperties first;
    uint32_t version;
    uint64_t texels;
    char text[96];

    gpu->info = (tenon_device_info){TENON_HEAD(tenon_device_info), .memory_total = TENON_UNKNOWN,
                                    .memory_free = TENON_UNKNOWN};
    provider->api.GetPhysicalDeviceProperties(gpu->handle, &first);
    version = first.apiVersion;
    gpu->info.kind = kind_of(first.deviceType);
    snprintf(gpu->info.name, sizeof gpu->info.name, "%.95s", first.deviceName);
    if (version < NEEDED_VERSION) {
        snprintf(text, sizeof text, "Vulkan %u.%u, 1.2 is needed", VK_API_VERSION_MAJOR(version),
                 VK_API_VERSION_MINOR(version));
        unusable(gpu, TENON_REASON_DRIVER_TOO_OLD, text);
        return;
    }
    provider->api.GetPhysicalDeviceProperties2(gpu->handle, &answer);
    provider->api.GetPhysicalDeviceFeatures2(gpu->handle, &features);
    gpu->limits = answer.properties.limits;
    gpu->features = features.features;
    memcpy(gpu->cache_uuid, answer.properties.pipelineCacheUUID, sizeof gpu->cache_uuid);
    memcpy(gpu->info.uuid, id.deviceUUID, sizeof gpu->info.uuid);
    snprintf(gpu->info.driver, sizeof gpu->info.driver, "%.30s %.30s", driver.driverName,
             driver.driverInfo);
    snprintf(gpu->info.detail, sizeof gpu->info.detail, "Vulkan %u.%u",
             VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    gpu->range_limit = gpu->limits.maxStorageBufferRange / 256 * 256;
    gpu->block_limit = most.maxMemoryAllocationSize;
    texels = gpu->limits.maxTexelBufferElements * UINT64_C(16);
    gpu->has_views = gpu->info.kind == TENON_DEVICE_SOFTWARE && texels >= VULKAN_LEAST_VIEW;
    if (gpu->has_views) gpu->block_limit = vulkan_least(gpu->block_limit, texels);
    if (!check_limits(gpu)) return;
    switch (find_family(provider, gpu)) {
    case 0: unusable(gpu, TENON_REASON_DEVICE_UNUSABLE, "no queue family computes"); return;
    case -1: unusable(gpu, TENON_REASON_OUT_OF_MEMORY, "no memory to look at it"); return;
    default: break;
    }
    if (!choose_memory(provider, gpu)) {
        unusable(gpu, TENON_REASON_DEVICE_UNUSABLE, "no memory type that the host can write");
        return;
    }
    if (!find_extensions(provider, gpu)) {
        unusable(gpu, TENON_REASON_DEVICE_UNUSABLE, "its extensions cannot be listed");
        return;
    }
    atomic_store(&gpu->arith, TENON_CLASS_BIT(TENON_CLASS_F32) | TENON_CLASS_BIT(TENON_CLASS_A8));
}

/* ----------------------------------------------------------------------------- the instance */

static int32_t list_devices(tenon_provider *provider, tenon_error *error)
{
    VkPhysicalDevice *handles = NULL;
    uint32_t count = 0, i;
    VkResult result = provider->api.EnumeratePhysicalDevices(provider->instance, &count, NULL);

    if (result != VK_SUCCESS) {
        say_why(provider, TENON_REASON_DEVICE_FAILED, "the Vulkan drivers failed", result);
        return TENON_OK;
    }
    if (count == 0) {
        say_why(provider, TENON_REASON_NO_DEVICE, "the Vulkan drivers list no device", result);
        return TENON_OK;
    }
    handles = calloc(count, sizeof(VkPhysicalDevice));
    provider->gpus = calloc(count, sizeof *provider->gpus);
    if (handles == NULL || provider->gpus == NULL) {
        free(handles);
        return vulkan_no_memory((uint64_t)count * sizeof *provider->gpus, TENON_SCOPE_PROVIDER,
                                "no memory to list the devices", error);
    }
    result = provider->api.EnumeratePhysicalDevices(provider->instance, &count, handles);
    if (result < 0) {
        say_why(provider, TENON_REASON_DEVICE_FAILED, "the Vulkan drivers failed", result);
        count = 0;
    }
    provider->gpu_count = count;
    for (i = 0; i < count; i++) {
        provider->gpus[i].handle = handles[i];
        describe(provider, &provider->gpus[i]);
    }
    free(handles);
    return TENON_OK;
}

/* Needs the loader's version first: an older one would refuse to make an instance of 1.2. */
static int32_t check_version(const tenon_provider *provider, tenon_error *error)
{
    uint32_t version = 0;

    if (provider->global.EnumerateInstanceVersion(&version) == VK_SUCCESS &&
        version >= NEEDED_VERSION)
        return TENON_OK;
    return tenon_fail_amount(error, TENON_STATE, TENON_REASON_DRIVER_TOO_OLD, TENON_SCOPE_PROVIDER,
                             NEEDED_VERSION, version, "the Vulkan loader is older than 1.2");
}

int32_t vulkan_instance_make(tenon_provider *provider, tenon_error *error)
{
    static const char *const portability[] = {VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME};
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "tenon",
                                           .pEngineName = "tenon",
                                           .apiVersion = NEEDED_VERSION};
    VkInstanceCreateInfo wanted = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                   .pApplicationInfo = &application};
    char text[208], why[150] = "";
    const char *missing;
    int32_t status;
    VkResult result;

    provider->global.library = vulkan_library_open(provider->settings.library, why, sizeof why);
    if (provider->global.library == NULL) {
        snprintf(text, sizeof text, "no Vulkan loader: %s", why);
        return tenon_fail(error, TENON_STATE, TENON_REASON_RUNTIME_ABSENT, TENON_SCOPE_PROVIDER,
                          text);
    }
    missing = vulkan_find_global(&provider->global);
    if (missing != NULL) {
        snprintf(text, sizeof text, "the Vulkan loader has no %s", missing);
        return tenon_fail(error, TENON_STATE, TENON_REASON_DRIVER_TOO_OLD, TENON_SCOPE_PROVIDER,
                          text);
    }
    status = check_version(provider, error);
    if (status != TENON_OK) return status;
    if (has_portability(provider)) {
        wanted.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
        wanted.enabledExtensionCount = 1;
        wanted.ppEnabledExtensionNames = portability;
    }
    result = provider->global.CreateInstance(&wanted, NULL, &provider->instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
        provider->instance = VK_NULL_HANDLE;
        say_why(provider, TENON_REASON_NO_DEVICE, "no Vulkan driver is installed", result);
        return TENON_OK;
    }
    if (result != VK_SUCCESS) {
        provider->instance = VK_NULL_HANDLE;
        if (result == VK_ERROR_OUT_OF_HOST_MEMORY)
            return vulkan_no_memory(0, TENON_SCOPE_PROVIDER, "no memory for an instance", error);
        snprintf(text, sizeof text, "vkCreateInstance: %s", vulkan_result_name(result));
        return tenon_fail(error, TENON_STATE, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_PROVIDER,
                          text);
    }
    missing = vulkan_find_instance(&provider->global, provider->instance, &provider->api);
    if (missing != NULL) {
        provider->api.DestroyInstance = (PFN_vkDestroyInstance)provider->global.GetInstanceProcAddr(
            provider->instance, "vkDestroyInstance");
        snprintf(text, sizeof text, "the Vulkan loader has no %s", missing);
        return tenon_fail(error, TENON_STATE, TENON_REASON_DRIVER_TOO_OLD, TENON_SCOPE_PROVIDER,
                          text);
    }
    return list_devices(provider, error);
}

void vulkan_instance_free(tenon_provider *provider)
{
    free(provider->gpus);
    provider->gpus = NULL;
    if (provider->instance != VK_NULL_HANDLE && provider->api.DestroyInstance != NULL)
        provider->api.DestroyInstance(provider->instance, NULL);
    vulkan_library_close(provider->global.library);
}

uint64_t vulkan_heap_available(const tenon_provider *provider, const vulkan_gpu *gpu, uint64_t own)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 answer = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
    uint64_t most = gpu->heap_bytes, taken = own, limit = provider->settings.memory_limit;
    uint64_t left;

    if (gpu->has_budget) {
        provider->api.GetPhysicalDeviceMemoryProperties2(gpu->handle, &answer);
        /* Some drivers state budgets above the heap, some state none at all. */
        if (budget.heapBudget[gpu->main_heap] != 0)
            most = vulkan_least(most, budget.heapBudget[gpu->main_heap]);
        if (budget.heapUsage[gpu->main_heap] > taken) taken = budget.heapUsage[gpu->main_heap];
    }
    left = most - vulkan_least(most, taken);
    return vulkan_least(left, limit - vulkan_least(limit, own));
}
