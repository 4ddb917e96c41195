/* Tenon operation gated: y = act(gate) * up, the middle of a gated feed-forward layer.
 *
 * Element by element over tokens x width; the activations are those of SPEC.md 2.4. */
#ifndef TENON_OP_GATED_H
#define TENON_OP_GATED_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;

#define TENON_ACT_SILU 1u
#define TENON_ACT_GELU_TANH 2u
#define TENON_ACT_GELU_ERF 3u
#define TENON_ACT_RELU 4u

typedef struct tenon_gated_call {
    uint32_t struct_size;
    uint32_t abi_version;
    tenon_view gate;          /* float32 [tokens][width], 4-byte aligned */
    tenon_view up;            /* float32 [tokens][width], 4-byte aligned */
    tenon_view y;             /* float32 [tokens][width], 4-byte aligned */
    uint64_t tokens;          /* at least 1 */
    uint64_t width;           /* at least 1 */
    uint64_t gate_row_stride; /* bytes from one token to the next, >= 4 * width, multiple of 4 */
    uint64_t up_row_stride;
    uint64_t y_row_stride;
    uint32_t activation;   /* TENON_ACT_* */
    uint32_t reserved0;    /* zero (R7) */
    uint64_t reserved1[2]; /* zero (R7) */
} tenon_gated_call;
TENON_STATIC_ASSERT(sizeof(tenon_gated_call) == 168, "tenon_gated_call changed size");

/* gated_v1, optional. */
typedef struct tenon_gated_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t call_size; /* sizeof(tenon_gated_call) this provider knows (R5) */
    uint32_t error_size;
    int32_t(TENON_CALL *run)(struct tenon_device *device, struct tenon_device_queue *queue,
                             const tenon_gated_call *call, tenon_error *error);
} tenon_gated_v1;
TENON_STATIC_ASSERT(sizeof(tenon_gated_v1) == 24, "tenon_gated_v1 changed size");

/* The engine's call. [serial per queue] Implemented by libtenon. */
TENON_HOST_API int32_t TENON_CALL tenon_gated(struct tenon_queue *queue,
                                              const tenon_gated_call *call, tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
