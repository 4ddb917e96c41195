/* Tenon ABI: what every other header stands on: calling convention, status, reasons, errors.
 *
 * This header needs only <stddef.h> and <stdint.h> and compiles as C11 and C++17.
 * The numbered rules (R1 ... R12) are those of abi/SPEC.md, section 1. */
#ifndef TENON_BASE_H
#define TENON_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI version carried by every struct and descriptor of this family of headers. */
#define TENON_ABI_VERSION 1u

/* The version of the headers and of the host library made from the same tree. */
#define TENON_VERSION "0.1.0"

#if defined(_WIN32)
#define TENON_CALL __cdecl
#define TENON_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define TENON_CALL
#define TENON_EXPORT __attribute__((visibility("default")))
#else
#define TENON_CALL
#define TENON_EXPORT
#endif

/* Marks functions of libtenon; a program that links it statically needs nothing special. */
#if defined(_WIN32) && defined(TENON_HOST_BUILD)
#define TENON_HOST_API __declspec(dllexport)
#elif defined(__GNUC__) && defined(TENON_HOST_BUILD)
#define TENON_HOST_API __attribute__((visibility("default")))
#else
#define TENON_HOST_API
#endif

#if defined(__cplusplus)
#define TENON_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define TENON_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* R2: 64-bit platforms only; LP64 and LLP64 agree on every struct. */
TENON_STATIC_ASSERT(sizeof(void *) == 8, "Tenon needs 64-bit pointers");
TENON_STATIC_ASSERT(sizeof(void (*)(void)) == 8, "Tenon needs 64-bit function pointers");
TENON_STATIC_ASSERT(sizeof(float) == 4 && sizeof(double) == 8, "Tenon needs IEEE 754 sizes");

/* The first two members of a struct's initialiser (R1): {TENON_HEAD(tenon_error), ...}. */
#define TENON_HEAD(type) ((uint32_t)sizeof(type)), TENON_ABI_VERSION

/* Status of a call, an int32_t. 0 and 1 are answers, negative values are failures. A value not
 * listed here counts as TENON_INTERNAL and quarantines the provider that returned it. */
#define TENON_OK 0
#define TENON_DECLINED 1       /* "not mine": nothing was written, ask the next link */
#define TENON_ABI (-1)         /* a struct or descriptor of a version or size not understood */
#define TENON_ARG (-2)         /* the request itself is wrong, whoever runs it */
#define TENON_STATE (-3)       /* right request, wrong moment: not open, forked, being updated */
#define TENON_NOMEM (-4)       /* out of memory; wanted and available say how much */
#define TENON_DEVICE_LOST (-5) /* the device is gone */
#define TENON_LOST (-6)        /* what the call reads was lost with a device: replay the history */
#define TENON_TIMEOUT (-7)
#define TENON_IO (-8)
#define TENON_INTERNAL (-9)

/* How far a failure reaches. */
#define TENON_SCOPE_CALL 1u
#define TENON_SCOPE_WEIGHT 2u
#define TENON_SCOPE_DEVICE 3u
#define TENON_SCOPE_PROVIDER 4u

/* Log levels; a host calls its log function with one of them. */
#define TENON_LOG_ERROR 1u
#define TENON_LOG_WARNING 2u
#define TENON_LOG_INFO 3u
#define TENON_LOG_DEBUG 4u

/* Stable reason numbers, TENON_REASON_<NAME>; numbers and texts stand in reasons.def. */
enum {
    TENON_REASON_NONE = 0,
#define TENON_REASON(name, number, text) TENON_REASON_##name = number,
#include <tenon/reasons.def>
#undef TENON_REASON
    TENON_REASON_LAST_ = 1 << 30
};

/* What went wrong. The caller owns it and may pass NULL where it does not care.
 * A callee writes it only when it returns something other than TENON_OK, with one exception that
 * is stated where it applies (device_count: why there are no devices). */
typedef struct tenon_error {
    uint32_t struct_size;
    uint32_t abi_version;
    int32_t status;     /* the returned status once more */
    uint32_t reason;    /* TENON_REASON_*, 0: not stated */
    uint32_t scope;     /* TENON_SCOPE_*, 0: not stated */
    uint32_t reserved0; /* zero (R7) */
    uint64_t wanted;    /* bytes, version or count wanted; 0: not stated */
    uint64_t available; /* the same unit as wanted; 0: not stated unless wanted is */
    char text[208];     /* UTF-8, one line, always NUL-terminated */
} tenon_error;
TENON_STATIC_ASSERT(sizeof(tenon_error) == 248, "tenon_error is frozen");

/* Fills *error (which may be NULL) and returns status, so that a provider writes
 *     return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT, "...");
 * Fields past error->struct_size are not touched. Text that is too long is cut. [any thread] */
static inline int32_t tenon_fail(tenon_error *error, int32_t status, uint32_t reason,
                                 uint32_t scope, const char *text)
{
    size_t room, i;
    if (error == NULL || error->struct_size < offsetof(tenon_error, text)) return status;
    error->status = status;
    error->reason = reason;
    error->scope = scope;
    error->wanted = 0;
    error->available = 0;
    room = (size_t)error->struct_size - offsetof(tenon_error, text);
    if (room > sizeof error->text) room = sizeof error->text;
    for (i = 0; text != NULL && i + 1 < room && text[i] != '\0'; i++)
        error->text[i] = (text[i] == '\n' || text[i] == '\r') ? ' ' : text[i];
    if (room > 0) error->text[i] = '\0';
    return status;
}

/* tenon_fail with the two amounts: bytes, versions or counts, the same unit for both. */
static inline int32_t tenon_fail_amount(tenon_error *error, int32_t status, uint32_t reason,
                                        uint32_t scope, uint64_t wanted, uint64_t available,
                                        const char *text)
{
    tenon_fail(error, status, reason, scope, text);
    if (error != NULL && error->struct_size >= offsetof(tenon_error, text)) {
        error->wanted = wanted;
        error->available = available;
    }
    return status;
}

/* The short text of a reason number, "" when it is unknown. Static storage. [any thread] */
static inline const char *tenon_reason_text(uint32_t reason)
{
    switch (reason) {
#define TENON_REASON(name, number, text) \
    case number: \
        return text;
#include <tenon/reasons.def>
#undef TENON_REASON
    default: return "";
    }
}

#ifdef __cplusplus
}
#endif
#endif
