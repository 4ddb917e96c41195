/* Memory of the caller as memory of the device (VK_EXT_external_memory_host), without a copy between.
 *
 * The pages around the caller's bytes become one VkDeviceMemory with one VkBuffer. It lives no longer
 * than the call whose bytes these are: whoever imports waits for the device before returning, and what
 * cannot be waited for is copied. Bytes beside the caller's lie on the pages too; no binding and no
 * copy reaches them. It is memory of the host and counts nowhere as memory of the device. */
#ifndef TENON_VULKAN_IMPORT_H
#define TENON_VULKAN_IMPORT_H

#include "commands.h"

/* Bytes from which on vulkan.import=auto imports; README.md has the numbers. */
#define VULKAN_IMPORT_BYTES (UINT64_C(256) << 10)

/* Is so much worth an import, where the device offers it? */
int vulkan_import_pays(const tenon_device *device, uint64_t bytes);

/* The bytes at `at` as out->offset of out->memory, which has one user (vulkan_memory_release gives it
 * back). memory NULL: the driver does not take these pages, and they are to be copied. DEVICE_LOST is
 * the one failure. [any thread] */
int32_t vulkan_import(tenon_device *device, const void *at, uint64_t bytes, vulkan_span *out,
                      tenon_error *error);
/* Called with the last release. */
void vulkan_import_free(tenon_device *device, vulkan_memory *memory);

/* Waits for all work of the queue, then has the device copy each of count spans to the imported one
 * beside it, and waits for that. Whatever it answers, afterwards the device touches no import. */
int32_t vulkan_import_fill(tenon_device_queue *queue, const vulkan_span *to,
                           const vulkan_span *from, uint32_t count, tenon_error *error);

#endif
