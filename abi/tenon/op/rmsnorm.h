/* Tenon operation rmsnorm: root-mean-square normalisation of groups of a row.
 *
 *   y[s][g][i] = (x[s][g][i] * r) * w[i],   r = 1 / sqrt(mean of squares of group g + eps)
 *
 * s < tokens, g < groups, i < width, in the order of SPEC.md 2.4. groups = 1 normalises whole rows;
 * groups = heads normalises each head (the q and k norms of some models). */
#ifndef TENON_OP_RMSNORM_H
#define TENON_OP_RMSNORM_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;

typedef struct tenon_rmsnorm_call {
    uint32_t struct_size;
    uint32_t abi_version;
    tenon_view x;          /* float32 [tokens][groups][width], 4-byte aligned */
    tenon_view w;          /* float32 [width], 4-byte aligned */
    tenon_view y;          /* float32 [tokens][groups][width], 4-byte aligned */
    uint64_t tokens;       /* at least 1 */
    uint64_t groups;       /* at least 1 */
    uint64_t width;        /* n of the formula, at least 1, below 2^24 */
    uint64_t x_row_stride; /* bytes from one token to the next, >= 4 * groups * width */
    uint64_t y_row_stride; /* the same for y */
    float eps;             /* added to the mean of squares, finite and >= 0 */
    uint32_t reserved0;    /* zero (R7) */
    uint64_t reserved1[2]; /* zero (R7) */
} tenon_rmsnorm_call;
TENON_STATIC_ASSERT(sizeof(tenon_rmsnorm_call) == 168, "tenon_rmsnorm_call changed size");

/* rmsnorm_v1, optional. */
typedef struct tenon_rmsnorm_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t call_size; /* sizeof(tenon_rmsnorm_call) this provider knows (R5) */
    uint32_t error_size;
    int32_t(TENON_CALL *run)(struct tenon_device *device, struct tenon_device_queue *queue,
                             const tenon_rmsnorm_call *call, tenon_error *error);
} tenon_rmsnorm_v1;
TENON_STATIC_ASSERT(sizeof(tenon_rmsnorm_v1) == 24, "tenon_rmsnorm_v1 changed size");

/* The engine's call. [serial per queue] Implemented by libtenon. */
TENON_HOST_API int32_t TENON_CALL tenon_rmsnorm(struct tenon_queue *queue,
                                                const tenon_rmsnorm_call *call, tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
