/* Tenon operation argmax: the index of the largest value of each row, never the row itself.
 *
 * The first maximum counts, +0 and -0 are equal, NaN never wins. A row of width 0 or of only NaN
 * gives TENON_ARGMAX_NONE, which an engine reports as an error and never uses as a token. */
#ifndef TENON_OP_ARGMAX_H
#define TENON_OP_ARGMAX_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;

#define TENON_ARGMAX_NONE 0xFFFFFFFFu

typedef struct tenon_argmax_call {
    uint32_t struct_size;
    uint32_t abi_version;
    tenon_view x;          /* float32 [tokens][width], 4-byte aligned */
    tenon_view y;          /* uint32 [tokens], 4-byte aligned */
    uint64_t tokens;       /* at least 1 */
    uint64_t width;        /* 0 to 2^32 - 2 */
    uint64_t x_row_stride; /* bytes from one token to the next, >= 4 * width, multiple of 4 */
    uint64_t reserved0[2]; /* zero (R7) */
} tenon_argmax_call;
TENON_STATIC_ASSERT(sizeof(tenon_argmax_call) == 112, "tenon_argmax_call changed size");

/* argmax_v1, optional. */
typedef struct tenon_argmax_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t call_size; /* sizeof(tenon_argmax_call) this provider knows (R5) */
    uint32_t error_size;
    int32_t(TENON_CALL *run)(struct tenon_device *device, struct tenon_device_queue *queue,
                             const tenon_argmax_call *call, tenon_error *error);
} tenon_argmax_v1;
TENON_STATIC_ASSERT(sizeof(tenon_argmax_v1) == 24, "tenon_argmax_v1 changed size");

/* The engine's call. [serial per queue] Implemented by libtenon. */
TENON_HOST_API int32_t TENON_CALL tenon_argmax(struct tenon_queue *queue,
                                               const tenon_argmax_call *call, tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
