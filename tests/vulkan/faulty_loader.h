/* A Vulkan loader for tests: it passes every call on to the system's own, counts what is alive, and
 * makes chosen calls fail or chosen answers differ. The provider opens it by vulkan.library.
 *
 * Programs that cannot reach its control use the environment: TENON_FAULTY_DEVICE_TYPE is the
 * VkPhysicalDeviceType of every device, TENON_FAULTY_CALL=QueueSubmit:40:-4 a call, the number from
 * which on it fails once, and its VkResult, TENON_FAULTY_MISUSE=1 the misuse below. */
#ifndef TENON_TESTS_VULKAN_FAULTY_LOADER_H
#define TENON_TESTS_VULKAN_FAULTY_LOADER_H

#include <stdatomic.h>
#include <stdint.h>

/* Calls that can be told to fail. */
#define FAULTY_CALLS(X) \
    X(CreateInstance) \
    X(EnumeratePhysicalDevices) \
    X(CreateDevice) \
    X(AllocateMemory) \
    X(MapMemory) \
    X(BindBufferMemory) \
    X(GetMemoryHostPointerPropertiesEXT) \
    X(CreateBuffer) \
    X(CreateBufferView) \
    X(CreateFence) \
    X(CreateCommandPool) \
    X(CreateShaderModule) \
    X(CreateDescriptorSetLayout) \
    X(CreatePipelineLayout) \
    X(CreateComputePipelines) \
    X(CreatePipelineCache) \
    X(CreateDescriptorPool) \
    X(AllocateCommandBuffers) \
    X(AllocateDescriptorSets) \
    X(BeginCommandBuffer) \
    X(EndCommandBuffer) \
    X(QueueSubmit) \
    X(WaitForFences) \
    X(DeviceWaitIdle)

enum faulty_call {
#define FAULTY_NAME(name) FAULTY_##name,
    FAULTY_CALLS(FAULTY_NAME)
#undef FAULTY_NAME
        FAULTY_CALL_COUNT
};

/* A device that a call told to be lost stays so until it is destroyed. One of which a wait timed out
 * comes to no end of its work until vkDeviceWaitIdle. */
typedef struct faulty_control {
    struct {
        atomic_long after; /* the call of this number from now on fails; 0: none */
        atomic_int result; /* with this VkResult */
        atomic_long made;  /* calls so far */
    } call[FAULTY_CALL_COUNT];
    atomic_long alive;        /* objects created and not destroyed */
    atomic_long imports;      /* of host memory so far */
    atomic_long imported;     /* those of them that are alive */
    atomic_long dispatches;   /* recorded so far */
    atomic_long too_long;     /* bindings above storage_range, views above texel_elements */
    atomic_long cache_bytes;  /* that the last pipeline cache was made with */
    uint32_t family_count;    /* 0: as they are; else these, of which the last one computes */
    uint32_t family_computes; /* 0: none of them does */
    atomic_uint family_used;  /* that a device was created with */
    uint32_t storage_range;   /* 0: as it is */
    uint32_t texel_elements;  /* of a view, 0: as it is */
    uint32_t largest_group;   /* invocations of a workgroup, 0: as it is */
    uint32_t most_bindings;   /* storage buffers of a kernel, 0: as it is */
    uint32_t api_version;     /* of devices, 0: as it is */
    uint32_t device_type;     /* VkPhysicalDeviceType + 1, 0: as it is */
    uint64_t budget, usage;   /* of every heap, budget 0: no VK_EXT_memory_budget */
    uint32_t misuse;          /* the next buffer is created with a size of 0 */
} faulty_control;

/* Exported by the library. */
#define FAULTY_CONTROL_NAME "faulty_loader_control"
typedef faulty_control *(*faulty_control_function)(void);

#endif
