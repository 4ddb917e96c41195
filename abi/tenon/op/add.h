/* Tenon operation add: y = a + b, one rounded addition an element (residual connections). */
#ifndef TENON_OP_ADD_H
#define TENON_OP_ADD_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;

typedef struct tenon_add_call {
    uint32_t struct_size;
    uint32_t abi_version;
    tenon_view a;          /* float32 [tokens][width], 4-byte aligned */
    tenon_view b;          /* float32 [tokens][width], 4-byte aligned */
    tenon_view y;          /* float32 [tokens][width], 4-byte aligned, not a nor b (R12) */
    uint64_t tokens;       /* at least 1 */
    uint64_t width;        /* at least 1 */
    uint64_t a_row_stride; /* bytes from one token to the next, >= 4 * width, multiple of 4 */
    uint64_t b_row_stride;
    uint64_t y_row_stride;
    uint64_t reserved0[2]; /* zero (R7) */
} tenon_add_call;
TENON_STATIC_ASSERT(sizeof(tenon_add_call) == 160, "tenon_add_call changed size");

/* add_v1, optional. */
typedef struct tenon_add_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t call_size; /* sizeof(tenon_add_call) this provider knows (R5) */
    uint32_t error_size;
    int32_t(TENON_CALL *run)(struct tenon_device *device, struct tenon_device_queue *queue,
                             const tenon_add_call *call, tenon_error *error);
} tenon_add_v1;
TENON_STATIC_ASSERT(sizeof(tenon_add_v1) == 24, "tenon_add_v1 changed size");

/* The engine's call. [serial per queue] Implemented by libtenon. */
TENON_HOST_API int32_t TENON_CALL tenon_add(struct tenon_queue *queue, const tenon_add_call *call,
                                            tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
