/* The least of Vulkan that runs one kernel on one device, for the kernels' own tests. Linked
 * against the loader; every failure ends the test. Not for use by more than one thread. */
#ifndef TENON_TESTS_KERNEL_RIG_H
#define TENON_TESTS_KERNEL_RIG_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vulkan/vulkan.h>

#include "kernels.h"

#define RIG_BINDINGS VULKAN_MOST_BINDINGS

typedef struct rig_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    void *at; /* mapped for its whole life */
    VkDeviceSize bytes;
} rig_buffer;

typedef struct rig_kernel {
    VkShaderModule module;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    uint32_t bindings, texel, push_bytes;
} rig_kernel;

typedef struct rig_kept {
    struct rig_kept *next;
    uint32_t key[3 + VULKAN_MOST_CONSTANTS];
    rig_kernel kernel;
} rig_kept;

typedef struct rig {
    rig_kept *kept;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceFeatures features;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    VkDescriptorPool descriptors;
    uint32_t family;
} rig;

#define KERNEL_POISON UINT32_C(0x7fc0dead)

/* Equal bits; any NaN equals any NaN (SPEC.md 2.1, A7). */
static inline int kernel_same(uint32_t expected, uint32_t found)
{
    if ((expected & 0x7fffffffu) > 0x7f800000u) return (found & 0x7fffffffu) > 0x7f800000u;
    return expected == found;
}

static inline void rig_check(VkResult result, const char *what)
{
    if (result == VK_SUCCESS) return;
    printf("%s answers %d\n", what, (int)result);
    exit(EXIT_FAILURE);
}
#define RIG_DO(call) rig_check((call), #call)

/* Opens the first device that has a compute queue; 0 when there is none. */
static inline int rig_open(rig *self)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                     .pApplicationInfo = &application};
    float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkPhysicalDeviceFeatures features = {0};
    VkDeviceCreateInfo device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                 .queueCreateInfoCount = 1,
                                 .pQueueCreateInfos = &queue,
                                 .pEnabledFeatures = &features};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
    VkDescriptorPoolSize sizes[2] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, RIG_BINDINGS},
                                     {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, RIG_BINDINGS}};
    VkDescriptorPoolCreateInfo descriptors = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 2,
        .pPoolSizes = sizes};
    VkQueueFamilyProperties families[16];
    uint32_t count = 1, i;

    memset(self, 0, sizeof *self);
    if (vkCreateInstance(&instance, NULL, &self->instance) != VK_SUCCESS) return 0;
    if (vkEnumeratePhysicalDevices(self->instance, &count, &self->physical) < 0 || count == 0) {
        vkDestroyInstance(self->instance, NULL);
        return 0;
    }
    vkGetPhysicalDeviceProperties(self->physical, &self->properties);
    vkGetPhysicalDeviceFeatures(self->physical, &self->features);
    features.shaderFloat64 = self->features.shaderFloat64;
    count = sizeof families / sizeof *families;
    vkGetPhysicalDeviceQueueFamilyProperties(self->physical, &count, families);
    for (i = 0; i < count; i++)
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) break;
    if (i == count) {
        vkDestroyInstance(self->instance, NULL);
        return 0;
    }
    self->family = queue.queueFamilyIndex = pool.queueFamilyIndex = i;
    RIG_DO(vkCreateDevice(self->physical, &device, NULL, &self->device));
    vkGetDeviceQueue(self->device, i, 0, &self->queue);
    RIG_DO(vkCreateCommandPool(self->device, &pool, NULL, &self->pool));
    commands.commandPool = self->pool;
    RIG_DO(vkAllocateCommandBuffers(self->device, &commands, &self->commands));
    RIG_DO(vkCreateFence(self->device, &fence, NULL, &self->fence));
    RIG_DO(vkCreateDescriptorPool(self->device, &descriptors, NULL, &self->descriptors));
    return 1;
}

/* A storage buffer in memory that the host sees; zeroed. */
static inline rig_buffer rig_buffer_make(rig *self, uint64_t bytes)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = bytes < 16 ? 16 : bytes,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT};
    VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                   VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties types;
    VkMemoryRequirements needs;
    rig_buffer out = {.bytes = info.size};

    RIG_DO(vkCreateBuffer(self->device, &info, NULL, &out.buffer));
    vkGetBufferMemoryRequirements(self->device, out.buffer, &needs);
    vkGetPhysicalDeviceMemoryProperties(self->physical, &types);
    for (memory.memoryTypeIndex = 0; memory.memoryTypeIndex < types.memoryTypeCount;
         memory.memoryTypeIndex++)
        if ((needs.memoryTypeBits >> memory.memoryTypeIndex & 1) != 0 &&
            (types.memoryTypes[memory.memoryTypeIndex].propertyFlags & wanted) == wanted)
            break;
    memory.allocationSize = needs.size;
    RIG_DO(vkAllocateMemory(self->device, &memory, NULL, &out.memory));
    RIG_DO(vkBindBufferMemory(self->device, out.buffer, out.memory, 0));
    RIG_DO(vkMapMemory(self->device, out.memory, 0, VK_WHOLE_SIZE, 0, &out.at));
    memset(out.at, 0, (size_t)info.size);
    return out;
}

static inline rig_buffer rig_upload(rig *self, const void *bytes, uint64_t count)
{
    rig_buffer out = rig_buffer_make(self, count);
    memcpy(out.at, bytes, (size_t)count);
    return out;
}

static inline void rig_buffer_free(rig *self, rig_buffer *buffer)
{
    vkDestroyBuffer(self->device, buffer->buffer, NULL);
    vkFreeMemory(self->device, buffer->memory, NULL);
    memset(buffer, 0, sizeof *buffer);
}

static inline VkDescriptorType rig_type(uint32_t texel, uint32_t binding)
{
    return (texel >> binding & 1) != 0 ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER
                                       : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
}

/* A kernel in one flavour and math, with its specialization constants 0, 1, ... */
static inline rig_kernel rig_kernel_make(rig *self, uint32_t id, uint32_t flavour, uint32_t math,
                                         const uint32_t *constants)
{
    const vulkan_kernel *kernel = &vulkan_kernels[id];
    VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                       .codeSize = kernel->module[flavour][math].bytes,
                                       .pCode = kernel->module[flavour][math].words};
    VkDescriptorSetLayoutBinding binding[VULKAN_MOST_BINDINGS];
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = kernel->bindings,
        .pBindings = binding};
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, kernel->push_bytes};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkSpecializationMapEntry entries[VULKAN_MOST_CONSTANTS];
    VkSpecializationInfo special = {kernel->constants, entries, kernel->constants * 4u, constants};
    VkComputePipelineCreateInfo pipeline = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .pName = "main",
                  .pSpecializationInfo = &special}};
    rig_kernel out = {.bindings = kernel->bindings,
                      .texel = flavour == VULKAN_TEXEL ? kernel->texel : 0,
                      .push_bytes = kernel->push_bytes};
    uint32_t i;

    for (i = 0; i < kernel->bindings; i++)
        binding[i] = (VkDescriptorSetLayoutBinding){i, rig_type(out.texel, i), 1,
                                                    VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    for (i = 0; i < kernel->constants; i++) entries[i] = (VkSpecializationMapEntry){i, 4 * i, 4};
    RIG_DO(vkCreateShaderModule(self->device, &module, NULL, &out.module));
    RIG_DO(vkCreateDescriptorSetLayout(self->device, &set, NULL, &out.set_layout));
    layout.pSetLayouts = &out.set_layout;
    RIG_DO(vkCreatePipelineLayout(self->device, &layout, NULL, &out.layout));
    pipeline.stage.module = out.module;
    pipeline.layout = out.layout;
    RIG_DO(
        vkCreateComputePipelines(self->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &out.pipeline));
    return out;
}

static inline void rig_kernel_free(rig *self, rig_kernel *kernel)
{
    vkDestroyPipeline(self->device, kernel->pipeline, NULL);
    vkDestroyPipelineLayout(self->device, kernel->layout, NULL);
    vkDestroyDescriptorSetLayout(self->device, kernel->set_layout, NULL);
    vkDestroyShaderModule(self->device, kernel->module, NULL);
}

/* The same kernel again where it was made before; the rig owns it. */
static inline const rig_kernel *rig_kernel_get(rig *self, uint32_t id, uint32_t flavour,
                                               uint32_t math, const uint32_t *constants)
{
    uint32_t key[3 + VULKAN_MOST_CONSTANTS] = {id, flavour, math};
    rig_kept *kept;

    memcpy(key + 3, constants, vulkan_kernels[id].constants * sizeof *constants);
    for (kept = self->kept; kept != NULL; kept = kept->next)
        if (memcmp(kept->key, key, sizeof key) == 0) return &kept->kernel;
    kept = malloc(sizeof *kept);
    if (kept == NULL) abort();
    memcpy(kept->key, key, sizeof key);
    kept->kernel = rig_kernel_make(self, id, flavour, math, constants);
    kept->next = self->kept;
    self->kept = kept;
    return &kept->kernel;
}

static inline void rig_close(rig *self)
{
    while (self->kept != NULL) {
        rig_kept *kept = self->kept;
        self->kept = kept->next;
        rig_kernel_free(self, &kept->kernel);
        free(kept);
    }
    vkDestroyDescriptorPool(self->device, self->descriptors, NULL);
    vkDestroyFence(self->device, self->fence, NULL);
    vkDestroyCommandPool(self->device, self->pool, NULL);
    vkDestroyDevice(self->device, NULL);
    vkDestroyInstance(self->instance, NULL);
}

/* Runs groups x, y, z of the kernel `times` times over whole buffers and waits. Returns seconds. */
static inline double rig_run(rig *self, const rig_kernel *kernel, const rig_buffer *const *buffers,
                             const void *push, uint32_t x, uint32_t y, uint32_t z, uint32_t times)
{
    VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = self->descriptors,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &kernel->set_layout};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &self->commands};
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_SHADER_READ_BIT |
                                                VK_ACCESS_SHADER_WRITE_BIT |
                                                VK_ACCESS_HOST_READ_BIT};
    VkDescriptorSet set;
    VkDescriptorBufferInfo info[RIG_BINDINGS];
    VkBufferView views[RIG_BINDINGS] = {VK_NULL_HANDLE};
    VkWriteDescriptorSet writes[RIG_BINDINGS];
    struct timespec t0, t1;
    uint32_t i;

    RIG_DO(vkResetDescriptorPool(self->device, self->descriptors, 0));
    RIG_DO(vkAllocateDescriptorSets(self->device, &allocate, &set));
    for (i = 0; i < kernel->bindings; i++) {
        VkBufferViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                       .buffer = buffers[i]->buffer,
                                       .format = VK_FORMAT_R32G32B32A32_UINT,
                                       .range = buffers[i]->bytes / 16 * 16};
        info[i] = (VkDescriptorBufferInfo){buffers[i]->buffer, 0, VK_WHOLE_SIZE};
        if ((kernel->texel >> i & 1) != 0)
            RIG_DO(vkCreateBufferView(self->device, &view, NULL, &views[i]));
        writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                           .dstSet = set,
                                           .dstBinding = i,
                                           .descriptorCount = 1,
                                           .descriptorType = rig_type(kernel->texel, i),
                                           .pBufferInfo = &info[i],
                                           .pTexelBufferView = &views[i]};
    }
    vkUpdateDescriptorSets(self->device, kernel->bindings, writes, 0, NULL);
    RIG_DO(vkResetCommandPool(self->device, self->pool, 0));
    RIG_DO(vkBeginCommandBuffer(self->commands, &begin));
    vkCmdBindPipeline(self->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    vkCmdBindDescriptorSets(self->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, 1,
                            &set, 0, NULL);
    if (kernel->push_bytes != 0)
        vkCmdPushConstants(self->commands, kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           kernel->push_bytes, push);
    for (i = 0; i < times; i++) {
        vkCmdDispatch(self->commands, x, y, z);
        vkCmdPipelineBarrier(self->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                             VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0,
                             1, &barrier, 0, NULL, 0, NULL);
    }
    RIG_DO(vkEndCommandBuffer(self->commands));
    clock_gettime(CLOCK_MONOTONIC, &t0);
    RIG_DO(vkQueueSubmit(self->queue, 1, &submit, self->fence));
    RIG_DO(vkWaitForFences(self->device, 1, &self->fence, VK_TRUE, UINT64_MAX));
    clock_gettime(CLOCK_MONOTONIC, &t1);
    RIG_DO(vkResetFences(self->device, 1, &self->fence));
    for (i = 0; i < kernel->bindings; i++) vkDestroyBufferView(self->device, views[i], NULL);
    return (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
}

#endif
