/* The exported descriptors of fixture.c, and what variants change in them. Included once, at its
 * end: every field has a FIXTURE_* macro, and each descriptor can be left out, replaced by a
 * function, renamed, cut short or lengthened. */
#ifndef FIXTURE_PROVIDER_SIZE
#define FIXTURE_PROVIDER_SIZE sizeof(tenon_provider_v1)
#endif
#ifndef FIXTURE_QMATMUL_SIZE
#define FIXTURE_QMATMUL_SIZE sizeof(tenon_qmatmul_v1)
#endif
#ifndef FIXTURE_PROVIDER_ABI
#define FIXTURE_PROVIDER_ABI TENON_ABI_VERSION
#endif
#ifndef FIXTURE_QMATMUL_ABI
#define FIXTURE_QMATMUL_ABI TENON_ABI_VERSION
#endif
#ifndef FIXTURE_NEEDS
#define FIXTURE_NEEDS 0
#endif
#ifndef FIXTURE_RESERVED
#define FIXTURE_RESERVED 0
#endif
#ifndef FIXTURE_VERSION
#define FIXTURE_VERSION "1.0"
#endif
#ifndef FIXTURE_OPEN
#define FIXTURE_OPEN fixture_open
#endif
#ifndef FIXTURE_QUEUE_OPEN
#define FIXTURE_QUEUE_OPEN NULL
#endif
#ifndef FIXTURE_RUN
#define FIXTURE_RUN fixture_run
#endif
#ifndef FIXTURE_SERVICES_SIZE
#define FIXTURE_SERVICES_SIZE sizeof(tenon_services)
#endif
#ifndef FIXTURE_DEVICE_INFO_SIZE
#define FIXTURE_DEVICE_INFO_SIZE sizeof(tenon_device_info)
#endif
#ifndef FIXTURE_ERROR_SIZE
#define FIXTURE_ERROR_SIZE sizeof(tenon_error)
#endif
#ifndef FIXTURE_CALL_SIZE
#define FIXTURE_CALL_SIZE sizeof(tenon_qmatmul_call)
#endif
#ifndef FIXTURE_DESC_SIZE
#define FIXTURE_DESC_SIZE sizeof(tenon_weight_desc)
#endif

/* A queue_open that opens nothing: for the variant that offers it without its queue_close. */
int32_t TENON_CALL fixture_queue_open(tenon_device *device, tenon_device_queue **out,
                                      tenon_error *error);
#if defined(FIXTURE_WITH_QUEUE_OPEN)
int32_t TENON_CALL fixture_queue_open(tenon_device *device, tenon_device_queue **out,
                                      tenon_error *error)
{
    (void)device;
    (void)out;
    return tenon_fail(error, TENON_INTERNAL, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_CALL, "");
}
#endif

#define PROVIDER_FIELDS \
    { \
        (uint32_t)(FIXTURE_PROVIDER_SIZE), FIXTURE_PROVIDER_ABI, FIXTURE_NEEDS, \
            (uint32_t)(FIXTURE_SERVICES_SIZE), (uint32_t)(FIXTURE_DEVICE_INFO_SIZE), \
            (uint32_t)(FIXTURE_ERROR_SIZE), FIXTURE_RESERVED, FIXTURE_ID, FIXTURE_VERSION, \
            FIXTURE_OPEN, fixture_close, fixture_device_count, fixture_device_info, \
            fixture_device_open, fixture_device_close, FIXTURE_QUEUE_OPEN, NULL \
    }

#define QMATMUL_FIELDS \
    { \
        (uint32_t)(FIXTURE_QMATMUL_SIZE), FIXTURE_QMATMUL_ABI, (uint32_t)(FIXTURE_DESC_SIZE), \
            sizeof(tenon_weight_data), (uint32_t)(FIXTURE_CALL_SIZE), \
            sizeof(tenon_qmatmul_support), (uint32_t)(FIXTURE_ERROR_SIZE), FIXTURE_RESERVED, \
            fixture_supports, fixture_prepare, FIXTURE_RUN, fixture_release \
    }

#if defined(_WIN32)
#define HIDDEN /* there nothing is exported that does not say so */
#else
#define HIDDEN __attribute__((visibility("hidden")))
#endif

/* A descriptor of a version of the contract still to come: the fields of today and a tail. */
typedef struct longer_provider {
    tenon_provider_v1 known;
    uint64_t tail[2];
} longer_provider;
typedef struct longer_qmatmul {
    tenon_qmatmul_v1 known;
    uint64_t tail[2];
} longer_qmatmul;

/* One that ends a field early, as a file built before that field was added. Only its bytes are
 * ever looked at, so the functions need no types. */
typedef struct shorter_provider {
    uint32_t struct_size, abi_version;
    uint64_t needs;
    uint32_t sizes[4];
    char id[32], version[32];
    void (*functions[7])(void);
} shorter_provider;
typedef struct shorter_qmatmul {
    uint32_t struct_size, abi_version;
    uint32_t sizes[6];
    void (*functions[3])(void);
} shorter_qmatmul;

#if defined(FIXTURE_OMIT_provider_v1)
extern const tenon_provider_v1 fixture_kept_provider;
HIDDEN
const tenon_provider_v1 fixture_kept_provider = PROVIDER_FIELDS;
#elif defined(FIXTURE_FUNCTION_provider_v1)
TENON_EXPORT const void *provider_v1(void);
TENON_EXPORT const void *provider_v1(void)
{
    static const tenon_provider_v1 fields = PROVIDER_FIELDS;
    return &fields;
}
#elif defined(FIXTURE_OLD_provider_v1)
TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, FIXTURE_OLD_provider_v1) = PROVIDER_FIELDS;
#elif defined(FIXTURE_LONG_provider_v1)
TENON_PROVIDER_DESCRIPTOR(longer_provider, provider_v1) = {PROVIDER_FIELDS,
                                                           {FIXTURE_LONG_provider_v1, 0}};
#elif defined(FIXTURE_SHORT_provider_v1)
TENON_PROVIDER_DESCRIPTOR(shorter_provider, provider_v1) = {
    sizeof(shorter_provider),
    TENON_ABI_VERSION,
    0,
    {sizeof(tenon_services), sizeof(tenon_device_info), sizeof(tenon_error), 0},
    FIXTURE_ID,
    "1.0",
    {(void (*)(void))fixture_open, (void (*)(void))fixture_close,
     (void (*)(void))fixture_device_count, (void (*)(void))fixture_device_info,
     (void (*)(void))fixture_device_open, (void (*)(void))fixture_device_close, NULL}};
#else
TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = PROVIDER_FIELDS;
#endif

#if defined(FIXTURE_OMIT_qmatmul_v1)
extern const tenon_qmatmul_v1 fixture_kept_qmatmul;
HIDDEN const tenon_qmatmul_v1 fixture_kept_qmatmul = QMATMUL_FIELDS;
#elif defined(FIXTURE_FUNCTION_qmatmul_v1)
TENON_EXPORT const void *qmatmul_v1(void);
TENON_EXPORT const void *qmatmul_v1(void)
{
    static const tenon_qmatmul_v1 fields = QMATMUL_FIELDS;
    return &fields;
}
#elif defined(FIXTURE_OLD_qmatmul_v1)
TENON_PROVIDER_DESCRIPTOR(tenon_qmatmul_v1, FIXTURE_OLD_qmatmul_v1) = QMATMUL_FIELDS;
#elif defined(FIXTURE_LONG_qmatmul_v1)
TENON_PROVIDER_DESCRIPTOR(longer_qmatmul, qmatmul_v1) = {QMATMUL_FIELDS,
                                                         {FIXTURE_LONG_qmatmul_v1, 0}};
#elif defined(FIXTURE_SHORT_qmatmul_v1)
TENON_PROVIDER_DESCRIPTOR(shorter_qmatmul, qmatmul_v1) = {
    sizeof(shorter_qmatmul),
    TENON_ABI_VERSION,
    {sizeof(tenon_weight_desc), sizeof(tenon_weight_data), sizeof(tenon_qmatmul_call),
     sizeof(tenon_qmatmul_support), sizeof(tenon_error), 0},
    {(void (*)(void))fixture_supports, (void (*)(void))fixture_prepare,
     (void (*)(void))fixture_run}};
#else
TENON_PROVIDER_DESCRIPTOR(tenon_qmatmul_v1, qmatmul_v1) = QMATMUL_FIELDS;
#endif
