/* Compiled kernels, made when first needed and kept until the device is closed. */
#ifndef TENON_VULKAN_PIPELINES_H
#define TENON_VULKAN_PIPELINES_H

#include "device.h"
#include "kernels.h"

/* What the pipelines of one kernel share. */
typedef struct vulkan_layout {
    VkShaderModule module;
    VkDescriptorSetLayout set;
    VkPipelineLayout pipeline;
    uint32_t made;
} vulkan_layout;

typedef struct vulkan_pipeline {
    struct vulkan_pipeline *next;
    VkPipeline handle;
    const vulkan_layout *layout;
    uint32_t kernel;
    uint32_t bindings, texel, push_bytes; /* as the kernel's; texel: 0 but in flavour TEXEL */
    uint32_t constants[VULKAN_MOST_CONSTANTS];
} vulkan_pipeline;

int32_t vulkan_pipelines_make(tenon_device *device, tenon_error *error);
void vulkan_pipelines_free(tenon_device *device);

/* The pipeline of a kernel (enum vulkan_kernel_id) with the specialization constants 1, 2, ... that
 * options holds; NULL: all 0. Constant 0 is the device's. Owned by the device. [any thread] */
int32_t vulkan_pipeline_get(tenon_device *device, uint32_t kernel,
                            const uint32_t options[VULKAN_MOST_CONSTANTS - 1],
                            const vulkan_pipeline **out, tenon_error *error);
/* The driver's own form of all pipelines, kept in a file below vulkan.cache_dir (pipeline_cache.c).
 * A file that is missing, damaged or of another device or driver is as none. *out may stay NULL. */
void vulkan_cache_load(tenon_device *device, VkPipelineCache *out);
/* Writes what has come to it; frees it. */
void vulkan_cache_save(tenon_device *device, VkPipelineCache cache, int changed);

/* Forgets all of them: the modules to use have changed. Nothing is in flight. */
void vulkan_pipelines_clear(tenon_device *device);

#endif
