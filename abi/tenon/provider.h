/* Tenon ABI: what a provider includes, and all it needs.
 *
 * A provider is a shared object tenon-<id>.so (.dll, .dylib) that exports constant descriptors
 * under the names of symbols.def: provider_v1 and qmatmul_v1 are mandatory. A descriptor is data:
 * the host judges its first bytes in the file before any code of the file runs.
 *
 *     #include <tenon/provider.h>
 *     TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = {
 *         TENON_HEAD(tenon_provider_v1), .needs = 0, ... .id = "acme", ...
 *     };
 *
 * Thread tags: [any thread] at any time on any thread; [serial per queue] the host makes one call
 * at a time on a queue, different queues run at once; [open] and [close] before every other call
 * on the object and after the last. No function may throw, longjmp, keep errno or the FP
 * environment changed, print, or read the environment (R11). */
#ifndef TENON_PROVIDER_H
#define TENON_PROVIDER_H

#include <tenon/base.h>
#include <tenon/format.h>
#include <tenon/op/add.h>
#include <tenon/op/argmax.h>
#include <tenon/op/attention.h>
#include <tenon/op/embed.h>
#include <tenon/op/gated.h>
#include <tenon/op/graph.h>
#include <tenon/op/memory.h>
#include <tenon/op/qmatmul.h>
#include <tenon/op/rmsnorm.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Objects of the provider; the host only passes them back. The host destroys what it created
 * through the paired function, exactly once, and never passes any of it to free() (R11). */
typedef struct tenon_provider tenon_provider;         /* one opened provider */
typedef struct tenon_device tenon_device;             /* one opened device of it */
typedef struct tenon_device_queue tenon_device_queue; /* an order of calls on a device */

/* Defines a descriptor under its exported name. A program that links a provider statically
 * compiles it with -DTENON_PROVIDER_PREFIX=acme_ and registers acme_provider_v1, ... instead. */
#define TENON_CONCAT_(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_(a, b)
#if defined(TENON_PROVIDER_PREFIX)
#define TENON_PROVIDER_DESCRIPTOR(type, name) \
    extern const type TENON_CONCAT(TENON_PROVIDER_PREFIX, name); \
    const type TENON_CONCAT(TENON_PROVIDER_PREFIX, name)
#else
#define TENON_PROVIDER_DESCRIPTOR(type, name) \
    extern TENON_EXPORT const type name; \
    TENON_EXPORT const type name
#endif

/* Device kinds. */
#define TENON_DEVICE_CPU 1u
#define TENON_DEVICE_DISCRETE 2u
#define TENON_DEVICE_INTEGRATED 3u
#define TENON_DEVICE_VIRTUAL 4u
#define TENON_DEVICE_SOFTWARE 5u /* a software rasteriser: never chosen unless named */
#define TENON_DEVICE_NPU 6u

/* Bit of a class in tenon_device_info.arith. */
#define TENON_CLASS_BIT(arith) (1u << (arith))

/* One unit of a parallel loop: index in [0, count), worker in [0, team_size). Two units of one
 * loop never run with the same worker at once, so worker selects scratch memory. */
typedef void(TENON_CALL *tenon_parallel_body)(void *context, uint64_t index, uint32_t worker);

/* The host's services, valid from open until close of the provider returns. After that every
 * callback is dead and must not be called. All functions are [any thread] and non-NULL. */
typedef struct tenon_services {
    uint32_t struct_size;
    uint32_t abi_version;
    void *host; /* first argument of every service */
    /* Says text (UTF-8, one line, copied) at a TENON_LOG_* level. */
    void(TENON_CALL *log)(void *host, uint32_t level, const char *text);
    /* Calls body(context, i, worker) once for every i in [0, count) on the host's thread team,
     * the caller included, and returns when all are done. Indices are taken in ascending order,
     * by whichever thread is free; results must not depend on who runs what. Nested or concurrent
     * use runs on the calling thread alone. Providers create no CPU worker threads of their own. */
    void(TENON_CALL *parallel_for)(void *host, uint64_t count, tenon_parallel_body body,
                                   void *context);
    /* Number of workers a loop may use at most, >= 1, constant while the provider is open. */
    uint32_t(TENON_CALL *team_size)(void *host);
    /* The value of a configuration key such as "cpu.level", or NULL when it was not set. UTF-8,
     * valid until close. Providers read no environment variables. */
    const char *(TENON_CALL *config)(void *host, const char *key);
} tenon_services;
TENON_STATIC_ASSERT(sizeof(tenon_services) == 48, "tenon_services changed size");

/* What the host may know about a device without opening it. */
typedef struct tenon_device_info {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t kind;         /* TENON_DEVICE_* */
    uint32_t arith;        /* classes of qmatmul claimed: TENON_CLASS_BIT(TENON_CLASS_F32) | ... */
    uint32_t unusable;     /* TENON_REASON_* why the device cannot be used, 0: usable */
    uint32_t reserved0;    /* zero (R7) */
    uint64_t memory_total; /* bytes, or TENON_UNKNOWN */
    uint64_t memory_free;  /* bytes, or TENON_UNKNOWN */
    uint8_t uuid[16];      /* stable over restarts, all zero: none */
    char name[96];         /* UTF-8, NUL-terminated */
    char driver[64];       /* driver name and version, "" when there is none */
    char detail[96];       /* a few words: instruction-set level, or why it is unusable */
} tenon_device_info;
TENON_STATIC_ASSERT(sizeof(tenon_device_info) == 312, "tenon_device_info changed size");

/* provider_v1, mandatory. Constant for the life of the process. */
typedef struct tenon_provider_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint64_t needs;            /* bits a host must understand; 0 in version 1 (R6) */
    uint32_t services_size;    /* sizeof(tenon_services) this provider knows (R5) */
    uint32_t device_info_size; /* sizeof(tenon_device_info) it knows */
    uint32_t error_size;       /* sizeof(tenon_error) it knows */
    uint32_t reserved0;        /* zero (R7) */
    char id[32];      /* [a-z][a-z0-9_]*, the name in chains and diagnostics, NUL-terminated */
    char version[32]; /* the provider's own version, printable ASCII, NUL-terminated */

    /* Opens the provider: finds its runtime, does not yet open a device. services stays valid
     * until close returns. On TENON_OK *out is not NULL and the caller owns it until close.
     * Failures: a missing runtime or too old a driver answers TENON_STATE with RUNTIME_ABSENT,
     * DRIVER_TOO_OLD (wanted, available) or UNKNOWN_CONFIG. [open] */
    int32_t(TENON_CALL *open)(const tenon_services *services, tenon_provider **out,
                              tenon_error *error);
    /* Ends everything open began: joins threads, frees memory. NULL is allowed. [close] */
    void(TENON_CALL *close)(tenon_provider *provider);
    /* *count = number of devices, unusable ones included. When it is 0 the answer is still
     * TENON_OK and *error may say why (reason and text). [any thread] */
    int32_t(TENON_CALL *device_count)(tenon_provider *provider, uint32_t *count,
                                      tenon_error *error);
    /* Fills *out for device index < count. Opens nothing. [any thread] */
    int32_t(TENON_CALL *device_info)(tenon_provider *provider, uint32_t index,
                                     tenon_device_info *out, tenon_error *error);
    /* Opens device index. On TENON_OK *out is not NULL, owned until device_close. [any thread] */
    int32_t(TENON_CALL *device_open)(tenon_provider *provider, uint32_t index, tenon_device **out,
                                     tenon_error *error);
    /* Closes a device after its queues were closed and its weights released. NULL is allowed. */
    void(TENON_CALL *device_close)(tenon_device *device);
    /* Opens a queue on a device. Optional: when NULL, runs get a NULL queue and the host makes one
     * call at a time per device. [any thread] */
    int32_t(TENON_CALL *queue_open)(tenon_device *device, tenon_device_queue **out,
                                    tenon_error *error);
    /* Optional, NULL exactly when queue_open is. NULL queues are allowed. [close] */
    void(TENON_CALL *queue_close)(tenon_device_queue *queue);
} tenon_provider_v1;
TENON_STATIC_ASSERT(sizeof(tenon_provider_v1) == 160, "tenon_provider_v1 changed size");

#ifdef __cplusplus
}
#endif
#endif
