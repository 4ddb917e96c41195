/* The allocator of memory.h. */
#include <stdio.h>
#include <stdlib.h>

#include "import.h"

#define BLOCK_BYTES (UINT64_C(64) << 20)
#define STAGING_BLOCK_BYTES (UINT64_C(8) << 20)
#define HEAP_PARTS 16u /* a block takes no larger part of its heap unless one range needs it */

typedef struct vulkan_block {
    struct vulkan_block *next;
    VkDeviceMemory handle;
    VkBuffer buffer;
    VkBufferView view; /* all of it as texels, VK_NULL_HANDLE: nobody asked */
    uint8_t *mapped;
    uint64_t bytes;
    uint32_t place;
    uint32_t ranges; /* in use */
    vulkan_memory *first;
} vulkan_block;

int32_t vulkan_pool_make(tenon_device *device, tenon_error *error)
{
    if (!vulkan_lock_make(&device->memory.lock))
        return vulkan_no_memory(sizeof device->memory.lock, TENON_SCOPE_DEVICE,
                                "no memory for a lock", error);
    device->memory.made = 1;
    return TENON_OK;
}

/* -------------------------------------------------------------------------------- blocks */

static void free_block(tenon_device *device, vulkan_block *block)
{
    vulkan_memory *range, *next;

    for (range = block->first; range != NULL; range = next) {
        next = range->after;
        free(range);
    }
    if (block->view != VK_NULL_HANDLE)
        device->api.DestroyBufferView(device->handle, block->view, NULL);
    /* Freeing memory unmaps it. */
    if (block->buffer != VK_NULL_HANDLE)
        device->api.DestroyBuffer(device->handle, block->buffer, NULL);
    if (block->handle != VK_NULL_HANDLE)
        device->api.FreeMemory(device->handle, block->handle, NULL);
    free(block);
}

void vulkan_pool_free(tenon_device *device)
{
    vulkan_block *block, *next;
    uint32_t place;

    if (!device->memory.made) return;
    for (place = 0; place < VULKAN_PLACES; place++)
        for (block = device->memory.blocks[place]; block != NULL; block = next) {
            next = block->next;
            free_block(device, block);
        }
    vulkan_lock_free(&device->memory.lock);
}

/* Fills block: memory of the driver, a buffer over it, mapped where the host may reach it. */
static VkResult fill_block(tenon_device *device, vulkan_block *block)
{
    const vulkan_gpu *gpu = device->gpu;
    uint32_t type = block->place == VULKAN_MAIN ? gpu->main_type : gpu->staging_type;
    const VkBufferCreateInfo wanted = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = block->bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
                 VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .memoryTypeIndex = type};
    VkMemoryRequirements needs;
    VkResult result;
    void *mapped = NULL;

    result = device->api.CreateBuffer(device->handle, &wanted, NULL, &block->buffer);
    if (result != VK_SUCCESS) return result;
    device->api.GetBufferMemoryRequirements(device->handle, block->buffer, &needs);
    if ((needs.memoryTypeBits & 1u << type) == 0) return VK_ERROR_FEATURE_NOT_PRESENT;
    memory.allocationSize = needs.size;
    result = device->api.AllocateMemory(device->handle, &memory, NULL, &block->handle);
    if (result != VK_SUCCESS) return result;
    result = device->api.BindBufferMemory(device->handle, block->buffer, block->handle, 0);
    if (result != VK_SUCCESS) return result;
    if (block->place == VULKAN_MAIN && !gpu->unified) return VK_SUCCESS;
    result = device->api.MapMemory(device->handle, block->handle, 0, VK_WHOLE_SIZE, 0, &mapped);
    block->mapped = mapped;
    return result;
}

/* A block of one free range, linked in. NULL: *result says why. */
static vulkan_block *make_block(tenon_device *device, uint32_t place, uint64_t bytes,
                                VkResult *result)
{
    vulkan_block *block = calloc(1, sizeof *block);
    vulkan_memory *range = calloc(1, sizeof *range);

    *result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (block == NULL || range == NULL) {
        free(block);
        free(range);
        return NULL;
    }
    block->place = place;
    block->bytes = bytes;
    block->first = range;
    *range = (vulkan_memory){.block = block, .size = bytes, .free = 1};
    *result = fill_block(device, block);
    if (*result != VK_SUCCESS) {
        free_block(device, block);
        return NULL;
    }
    block->next = device->memory.blocks[place];
    device->memory.blocks[place] = block;
    if (place == VULKAN_MAIN) device->memory.held += bytes;
    return block;
}

static void unlink_block(tenon_device *device, vulkan_block *block)
{
    vulkan_block **at = &device->memory.blocks[block->place];
    while (*at != block) at = &(*at)->next;
    *at = block->next;
    if (block->place == VULKAN_MAIN) device->memory.held -= block->bytes;
    free_block(device, block);
}

/* -------------------------------------------------------------------------------- ranges */

/* The smallest free range that is large enough. */
static vulkan_memory *best_fit(vulkan_block *block, uint64_t size)
{
    vulkan_memory *best = NULL, *range;
    for (; block != NULL; block = block->next)
        for (range = block->first; range != NULL; range = range->after)
            if (range->free && range->size >= size && (best == NULL || range->size < best->size))
                best = range;
    return best;
}

/* Cuts size off a free range. 0 without host memory. */
static int take(vulkan_memory *range, uint64_t size)
{
    vulkan_memory *rest;

    if (range->size != size) {
        rest = calloc(1, sizeof *rest);
        if (rest == NULL) return 0;
        *rest = (vulkan_memory){.block = range->block,
                                .offset = range->offset + size,
                                .size = range->size - size,
                                .free = 1,
                                .before = range,
                                .after = range->after};
        if (rest->after != NULL) rest->after->before = rest;
        range->after = rest;
        range->size = size;
    }
    range->free = 0;
    range->block->ranges++;
    return 1;
}

/* Joins range with a free neighbour behind it. */
static void join(vulkan_memory *range)
{
    vulkan_memory *gone = range->after;
    if (gone == NULL || !gone->free || !range->free) return;
    range->size += gone->size;
    range->after = gone->after;
    if (range->after != NULL) range->after->before = range;
    free(gone);
}

/* Under the lock. */
static uint64_t available(tenon_device *device)
{
    return vulkan_heap_available(device->provider, device->gpu, device->memory.held);
}

/* A block of the usual size, or where that is not to be had or too small of just what is needed. */
static vulkan_block *block_for(tenon_device *device, uint32_t place, uint64_t size,
                               VkResult *result)
{
    uint64_t usual = place == VULKAN_MAIN ? BLOCK_BYTES : STAGING_BLOCK_BYTES;
    uint64_t left = place == VULKAN_MAIN ? available(device) : TENON_UNKNOWN;
    vulkan_block *block;

    usual = vulkan_least(usual, device->gpu->heap_bytes / HEAP_PARTS);
    usual = vulkan_least(usual, device->gpu->block_limit) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
    if (size <= usual / 2 && usual <= left) {
        block = make_block(device, place, usual, result);
        if (block != NULL || *result == VK_ERROR_DEVICE_LOST) return block;
    }
    *result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (size > left || size > device->gpu->block_limit) return NULL;
    return make_block(device, place, size, result);
}

/* Gives back the empty blocks but those that are kept at hand. */
static void trim(tenon_device *device, uint32_t place, uint32_t keep)
{
    vulkan_block *block, *next;
    for (block = device->memory.blocks[place]; block != NULL; block = next) {
        next = block->next;
        if (block->ranges != 0) continue;
        if (keep > 0 && block->bytes <= BLOCK_BYTES)
            keep--;
        else
            unlink_block(device, block);
    }
}

static int32_t out_of_memory(tenon_device *device, uint64_t wanted, uint64_t left, VkResult result,
                             uint32_t scope, tenon_error *error)
{
    if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY && result != VK_ERROR_OUT_OF_HOST_MEMORY &&
        result != VK_ERROR_TOO_MANY_OBJECTS && result != VK_ERROR_MEMORY_MAP_FAILED)
        return vulkan_failed(device, result, "a block of device memory", scope, error);
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, scope, wanted, left,
                             "no device memory");
}

int32_t vulkan_memory_make(tenon_device *device, uint32_t place, uint64_t bytes, uint32_t scope,
                           vulkan_memory **out, tenon_error *error)
{
    vulkan_pool *pool = &device->memory;
    VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
    vulkan_memory *range;
    uint64_t size, left = 0;

    *out = NULL;
    size = bytes > UINT64_MAX - VULKAN_ALIGNMENT
               ? bytes /* nobody has as much */
               : vulkan_round_up(bytes != 0 ? bytes : 1, VULKAN_ALIGNMENT);
    vulkan_lock_take(&pool->lock);
    range = best_fit(pool->blocks[place], size);
    if (range == NULL) {
        vulkan_block *block = block_for(device, place, size, &result);
        if (block == NULL) { /* an empty block of another size may be in the way */
            trim(device, place, 0);
            block = block_for(device, place, size, &result);
        }
        if (block != NULL) range = block->first;
    }
    if (range != NULL && !take(range, size)) range = NULL;
    if (range != NULL && place == VULKAN_MAIN) pool->used += size;
    if (range == NULL) left = available(device);
    vulkan_lock_give(&pool->lock);
    if (range == NULL) return out_of_memory(device, size, left, result, scope, error);
    range->bytes = bytes;
    range->view = VK_NULL_HANDLE;
    range->shares_view = 0;
    range->buffer = range->block->buffer;
    range->mapped = range->block->mapped == NULL ? NULL : range->block->mapped + range->offset;
    atomic_store(&range->users, 1);
    atomic_store(&range->pinned, 0);
    atomic_store(&range->batch, 0);
    *out = range;
    return TENON_OK;
}

static int32_t make_view(tenon_device *device, VkBuffer buffer, uint64_t offset, uint64_t bytes,
                         uint32_t scope, VkBufferView *out, tenon_error *error)
{
    const VkBufferViewCreateInfo wanted = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                           .buffer = buffer,
                                           .format = VK_FORMAT_R32G32B32A32_UINT,
                                           .offset = offset,
                                           .range = bytes};
    VkResult result = device->api.CreateBufferView(device->handle, &wanted, NULL, out);

    if (result == VK_SUCCESS) return TENON_OK;
    *out = VK_NULL_HANDLE;
    return vulkan_failed(device, result, "vkCreateBufferView", scope, error);
}

int32_t vulkan_memory_view(tenon_device *device, vulkan_memory *memory, uint32_t scope,
                           tenon_error *error)
{
    if (memory->view != VK_NULL_HANDLE) return TENON_OK;
    return make_view(device, memory->buffer, memory->offset, memory->size, scope, &memory->view,
                     error);
}

int32_t vulkan_memory_share_view(tenon_device *device, vulkan_memory *memory, uint32_t scope,
                                 tenon_error *error)
{
    vulkan_block *block = memory->block;
    int32_t status = TENON_OK;

    vulkan_lock_take(&device->memory.lock);
    if (block->view == VK_NULL_HANDLE)
        status = make_view(device, block->buffer, 0, block->bytes, scope, &block->view, error);
    memory->view = block->view;
    memory->shares_view = 1;
    vulkan_lock_give(&device->memory.lock);
    return status;
}

int vulkan_span_cover(vulkan_span *all, vulkan_span more, uint64_t most)
{
    uint64_t a = all->memory->offset + all->offset, b = more.memory->offset + more.offset;
    uint64_t end = a + all->bytes > b + more.bytes ? a + all->bytes : b + more.bytes;
    vulkan_span first = a <= b ? *all : more;

    if (all->memory->block == NULL && all->memory != more.memory) return 0; /* imported */
    if (all->memory->block != more.memory->block || end - vulkan_least(a, b) > most) return 0;
    *all = (vulkan_span){first.memory, first.offset, end - vulkan_least(a, b)};
    return 1;
}

void vulkan_memory_release(tenon_device *device, vulkan_memory *memory)
{
    vulkan_pool *pool = &device->memory;
    vulkan_block *block;

    if (memory == NULL || atomic_fetch_sub(&memory->users, 1) != 1) return;
    if (memory->view != VK_NULL_HANDLE && !memory->shares_view)
        device->api.DestroyBufferView(device->handle, memory->view, NULL);
    memory->view = VK_NULL_HANDLE;
    memory->shares_view = 0;
    block = memory->block;
    if (block == NULL) {
        vulkan_import_free(device, memory);
        return;
    }
    vulkan_lock_take(&pool->lock);
    if (block->place == VULKAN_MAIN) pool->used -= memory->size;
    if (memory->limbo) atomic_fetch_sub(&pool->limbo, memory->size);
    memory->limbo = 0;
    memory->free = 1;
    block->ranges--;
    join(memory);
    if (memory->before != NULL) join(memory->before);
    if (block->ranges == 0) trim(device, block->place, 1);
    vulkan_lock_give(&pool->lock);
}

void vulkan_memory_abandon(tenon_device *device, vulkan_memory *memory)
{
    if (memory == NULL) return;
    vulkan_lock_take(&device->memory.lock);
    memory->limbo = atomic_load(&memory->users) > 1 + atomic_load(&memory->pinned);
    if (memory->limbo) atomic_fetch_add(&device->memory.limbo, memory->size);
    vulkan_lock_give(&device->memory.lock);
    vulkan_memory_release(device, memory);
}

uint64_t vulkan_memory_available(tenon_device *device)
{
    uint64_t left;
    vulkan_lock_take(&device->memory.lock);
    left = available(device) + (device->memory.held - device->memory.used);
    vulkan_lock_give(&device->memory.lock);
    return left;
}

uint64_t vulkan_memory_used(tenon_device *device)
{
    uint64_t used;
    vulkan_lock_take(&device->memory.lock);
    used = device->memory.used;
    vulkan_lock_give(&device->memory.lock);
    return used;
}
