/* Compiled kernels: pipelines.h. */
#include "pipelines.h"

#include <stdlib.h>
#include <string.h>

typedef struct vulkan_pipelines {
    vulkan_lock lock;
    VkPipelineCache cache; /* VK_NULL_HANDLE: none */
    int changed;           /* something was compiled that was not loaded */
    vulkan_layout layouts[VULKAN_KERNEL_COUNT];
    vulkan_pipeline *first[VULKAN_KERNEL_COUNT];
} vulkan_pipelines;

int32_t vulkan_pipelines_make(tenon_device *device, tenon_error *error)
{
    vulkan_pipelines *self = calloc(1, sizeof *self);

    if (self == NULL || !vulkan_lock_make(&self->lock)) {
        free(self);
        return vulkan_no_memory(sizeof *self, TENON_SCOPE_DEVICE, "no memory for pipelines", error);
    }
    device->pipelines = self;
    vulkan_cache_load(device, &self->cache);
    return TENON_OK;
}

void vulkan_pipelines_clear(tenon_device *device)
{
    vulkan_pipelines *self = device->pipelines;
    vulkan_pipeline *pipeline, *next;
    uint32_t i;

    for (i = 0; i < VULKAN_KERNEL_COUNT; i++) {
        vulkan_layout *layout = &self->layouts[i];
        for (pipeline = self->first[i]; pipeline != NULL; pipeline = next) {
            next = pipeline->next;
            device->api.DestroyPipeline(device->handle, pipeline->handle, NULL);
            free(pipeline);
        }
        if (layout->module != VK_NULL_HANDLE)
            device->api.DestroyShaderModule(device->handle, layout->module, NULL);
        if (layout->pipeline != VK_NULL_HANDLE)
            device->api.DestroyPipelineLayout(device->handle, layout->pipeline, NULL);
        if (layout->set != VK_NULL_HANDLE)
            device->api.DestroyDescriptorSetLayout(device->handle, layout->set, NULL);
        self->first[i] = NULL;
        *layout = (vulkan_layout){0};
    }
}

void vulkan_pipelines_free(tenon_device *device)
{
    if (device->pipelines == NULL) return;
    vulkan_cache_save(device, device->pipelines->cache, device->pipelines->changed);
    vulkan_pipelines_clear(device);
    vulkan_lock_free(&device->pipelines->lock);
    free(device->pipelines);
    device->pipelines = NULL;
}

static uint32_t texel_of(const tenon_device *device, uint32_t kernel)
{
    return device->flavour == VULKAN_TEXEL ? vulkan_kernels[kernel].texel : 0;
}

/* Fills what is still missing of a kernel's layout. */
static VkResult make_layout(tenon_device *device, uint32_t kernel, vulkan_layout *layout)
{
    const vulkan_kernel *from = &vulkan_kernels[kernel];
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, from->push_bytes};
    const VkShaderModuleCreateInfo module = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = from->module[device->flavour][device->math].bytes,
        .pCode = from->module[device->flavour][device->math].words};
    VkDescriptorSetLayoutBinding bindings[VULKAN_MOST_BINDINGS] = {{0}};
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = from->bindings,
        .pBindings = bindings};
    VkPipelineLayoutCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                           .setLayoutCount = 1,
                                           .pSetLayouts = &layout->set,
                                           .pushConstantRangeCount = from->push_bytes > 0 ? 1 : 0,
                                           .pPushConstantRanges = &push};
    VkResult result = VK_SUCCESS;
    uint32_t i;

    for (i = 0; i < from->bindings; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = (texel_of(device, kernel) >> i & 1) != 0
                                  ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER
                                  : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    if (layout->set == VK_NULL_HANDLE)
        result = device->api.CreateDescriptorSetLayout(device->handle, &set, NULL, &layout->set);
    if (result == VK_SUCCESS && layout->pipeline == VK_NULL_HANDLE)
        result = device->api.CreatePipelineLayout(device->handle, &pipeline, NULL,
                                                  &layout->pipeline);
    if (result == VK_SUCCESS && layout->module == VK_NULL_HANDLE)
        result = device->api.CreateShaderModule(device->handle, &module, NULL, &layout->module);
    layout->made = result == VK_SUCCESS;
    return result;
}

static VkResult make_pipeline(tenon_device *device, vulkan_pipeline *pipeline)
{
    const vulkan_pipelines *self = device->pipelines;
    VkSpecializationMapEntry entries[VULKAN_MOST_CONSTANTS];
    const VkSpecializationInfo constants = {
        .mapEntryCount = vulkan_kernels[pipeline->kernel].constants,
        .pMapEntries = entries,
        .dataSize = sizeof pipeline->constants,
        .pData = pipeline->constants};
    const VkComputePipelineCreateInfo wanted = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = pipeline->layout->module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = pipeline->layout->pipeline};
    uint32_t i;

    for (i = 0; i < VULKAN_MOST_CONSTANTS; i++)
        entries[i] = (VkSpecializationMapEntry){i, i * (uint32_t)sizeof(uint32_t),
                                                sizeof(uint32_t)};
    return device->api.CreateComputePipelines(device->handle, self->cache, 1, &wanted, NULL,
                                              &pipeline->handle);
}

/* Under the lock. */
static int32_t get(tenon_device *device, uint32_t kernel, const uint32_t *constants,
                   const vulkan_pipeline **out, tenon_error *error)
{
    vulkan_pipelines *self = device->pipelines;
    const vulkan_kernel *from = &vulkan_kernels[kernel];
    vulkan_layout *layout = &self->layouts[kernel];
    vulkan_pipeline *pipeline;
    VkResult result;

    for (pipeline = self->first[kernel]; pipeline != NULL; pipeline = pipeline->next) {
        if (memcmp(pipeline->constants, constants, sizeof pipeline->constants) != 0) continue;
        *out = pipeline;
        return TENON_OK;
    }
    pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL)
        return vulkan_no_memory(sizeof *pipeline, TENON_SCOPE_CALL, "no memory for a pipeline",
                                error);
    *pipeline = (vulkan_pipeline){.kernel = kernel,
                                  .layout = layout,
                                  .bindings = from->bindings,
                                  .texel = texel_of(device, kernel),
                                  .push_bytes = from->push_bytes};
    memcpy(pipeline->constants, constants, sizeof pipeline->constants);
    result = layout->made ? VK_SUCCESS : make_layout(device, kernel, layout);
    if (result == VK_SUCCESS) result = make_pipeline(device, pipeline);
    if (result != VK_SUCCESS) {
        free(pipeline);
        return vulkan_failed(device, result, from->name, TENON_SCOPE_CALL, error);
    }
    self->changed = 1;
    pipeline->next = self->first[kernel];
    self->first[kernel] = pipeline;
    *out = pipeline;
    return TENON_OK;
}

int32_t vulkan_pipeline_get(tenon_device *device, uint32_t kernel,
                            const uint32_t options[VULKAN_MOST_CONSTANTS - 1],
                            const vulkan_pipeline **out, tenon_error *error)
{
    uint32_t constants[VULKAN_MOST_CONSTANTS] = {device->fma};
    int32_t status;

    if (options != NULL)
        memcpy(constants + 1, options, (VULKAN_MOST_CONSTANTS - 1) * sizeof *options);
    vulkan_lock_take(&device->pipelines->lock);
    status = get(device, kernel, constants, out, error);
    vulkan_lock_give(&device->pipelines->lock);
    return status;
}
