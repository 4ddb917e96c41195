/* The Vulkan provider: what it opened and what its devices are.
 *
 * One instance a provider; every physical device is listed, unusable ones with their reason. An
 * opened device has one VkQueue, shared under a lock by all queues of the host. */
#ifndef TENON_VULKAN_DEVICE_H
#define TENON_VULKAN_DEVICE_H

#include <stdatomic.h>

#include <tenon/provider.h>

#include "api.h"
#include "memory.h"
#include "system.h"

/* When memory of the caller is imported rather than copied: from a size on where it pays, never, from one
 * page on. */
enum { VULKAN_IMPORT_AUTO, VULKAN_IMPORT_OFF, VULKAN_IMPORT_ALWAYS };
/* What imported memory is used for. */
#define VULKAN_IMPORT_USAGE \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | \
     VK_BUFFER_USAGE_TRANSFER_DST_BIT)

/* Bytes that a view as texels must reach to be of use: a block of memory.c. */
#define VULKAN_LEAST_VIEW (UINT64_C(64) << 20)

/* Configuration values, read once at open. */
typedef struct vulkan_settings {
    const char *library;   /* vulkan.library: the loader's file, NULL: the system's */
    const char *cache_dir; /* vulkan.cache_dir: where compiled pipelines are kept, NULL: nowhere */
    uint64_t
        memory_limit;    /* vulkan.memory_limit: bytes of device memory, TENON_UNKNOWN: no limit */
    uint64_t timeout_ns; /* vulkan.timeout_s: longest wait for work */
    uint32_t staging;    /* vulkan.staging=always: never touch device memory in place */
    uint32_t no_graphs;  /* vulkan.graph=off: recorded sequences are declined */
    uint32_t import;     /* vulkan.import: VULKAN_IMPORT_* */
} vulkan_settings;

/* A physical device as it was found. */
typedef struct vulkan_gpu {
    VkPhysicalDevice handle;
    tenon_device_info info; /* memory_free and arith are filled anew at every question */
    uint32_t family;        /* the first queue family that computes */
    uint32_t main_type;     /* memory type of buffers, weights and caches */
    uint32_t main_heap;
    uint32_t staging_type; /* memory type that the host writes and reads */
    uint32_t unified;      /* main memory is mapped, and the host reads and writes it in place */
    uint32_t has_budget;   /* VK_EXT_memory_budget */
    uint32_t is_subset;    /* VK_KHR_portability_subset, which must be enabled where it is */
    uint64_t heap_bytes;
    uint64_t range_limit;  /* bytes that one binding may cover */
    uint64_t block_limit;  /* bytes of one allocation of the driver */
    uint32_t has_views;    /* a software device whose views as texels reach all of an allocation */
    uint64_t import_unit;  /* memory of the host is imported in multiples of it, 0: not at all */
    uint32_t import_types; /* memory types that may be */
    VkPhysicalDeviceLimits limits;
    VkPhysicalDeviceFeatures features;
    uint8_t cache_uuid[VK_UUID_SIZE]; /* of compiled pipelines: the driver's version and options */
    atomic_uint arith; /* classes: what may be claimed, after the first open what was proven */
} vulkan_gpu;

struct tenon_provider {
    const tenon_services *services; /* the host's, valid until close */
    vulkan_settings settings;
    vulkan_global_api global;
    VkInstance instance;
    vulkan_instance_api api;
    vulkan_gpu *gpus;
    uint32_t gpu_count;
    uint32_t why_reason; /* why there is no device at all */
    char why[160];
};

/* What the probe found that a device does with binary32. */
typedef struct vulkan_arithmetic {
    uint32_t fused;      /* fma rounds once */
    uint32_t rounded;    /* sums and products are rounded to nearest even, conversions exact */
    uint32_t subnormals; /* and kept where they are subnormal */
    uint32_t divides;    /* division is correctly rounded */
    uint32_t roots;      /* so is the square root */
    uint32_t halves;     /* unpackHalf2x16 is exact, subnormal halves included */
} vulkan_arithmetic;

struct vulkan_pipelines;
struct vulkan_weights;

#define VULKAN_BUFFER_BUCKETS 64u

struct tenon_device {
    tenon_provider *provider;
    vulkan_gpu *gpu;
    VkDevice handle;
    vulkan_device_api api;
    PFN_vkGetMemoryHostPointerPropertiesEXT host_pointer; /* NULL: nothing is imported */
    VkQueue queue;                                        /* under queue_lock */
    vulkan_lock queue_lock;
    vulkan_pool memory;
    struct vulkan_pipelines *pipelines;
    struct vulkan_weights *weights;
    uint32_t flavour; /* enum vulkan_flavour, enum vulkan_math, VULKAN_FMA_*: which modules */
    uint32_t math;
    uint32_t fma;
    vulkan_arithmetic arithmetic;
    atomic_uint lost;        /* the device answered VK_ERROR_DEVICE_LOST */
    atomic_ullong batches;   /* serial numbers given to batches */
    atomic_uint launches;    /* of graphs, in flight */
    atomic_ullong objects;   /* buffers, weights and caches alive */
    vulkan_lock buffer_lock; /* of buffers */
    tenon_device_buffer *buffers[VULKAN_BUFFER_BUCKETS]; /* alive, by address */
    vulkan_lock upload_lock; /* of uploads, the queue that weights and tables travel on */
    tenon_device_queue *uploads;
};

/* Reads the configuration. TENON_OK or UNKNOWN_CONFIG. */
int32_t vulkan_settings_read(const tenon_services *services, vulkan_settings *out,
                             tenon_error *error);

/* Makes the instance and lists the devices. An absent device is no failure: then gpu_count is 0
 * and why is filled. */
int32_t vulkan_instance_make(tenon_provider *provider, tenon_error *error);
void vulkan_instance_free(tenon_provider *provider);

/* Bytes that the driver would still give out of a device's main heap, other processes counted. own:
 * bytes that this process holds there, used where the driver tells no budget. */
uint64_t vulkan_heap_available(const tenon_provider *provider, const vulkan_gpu *gpu, uint64_t own);

int32_t TENON_CALL vulkan_provider_open(const tenon_services *services, tenon_provider **out,
                                        tenon_error *error);
void TENON_CALL vulkan_provider_close(tenon_provider *provider);
int32_t TENON_CALL vulkan_device_count(tenon_provider *provider, uint32_t *count,
                                       tenon_error *error);
int32_t TENON_CALL vulkan_device_info(tenon_provider *provider, uint32_t index,
                                      tenon_device_info *out, tenon_error *error);
int32_t TENON_CALL vulkan_device_open(tenon_provider *provider, uint32_t index, tenon_device **out,
                                      tenon_error *error);
void TENON_CALL vulkan_device_close(tenon_device *device);

/* Turns the result of a driver's call into a status and fills *error. A lost device is remembered. */
int32_t vulkan_failed(tenon_device *device, VkResult result, const char *what, uint32_t scope,
                      tenon_error *error);
/* No host memory for bytes. */
int32_t vulkan_no_memory(uint64_t bytes, uint32_t scope, const char *what, tenon_error *error);
int32_t vulkan_null_pointer(const char *what, tenon_error *error);

/* Runs the probe kernel. Called once, before the device is handed out. */
int32_t vulkan_probe(tenon_device *device, vulkan_arithmetic *out, tenon_error *error);
/* The classes of qmatmul that the arithmetic proves. */
uint32_t vulkan_classes(const vulkan_arithmetic *arithmetic);

static inline uint64_t vulkan_round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static inline uint64_t vulkan_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
