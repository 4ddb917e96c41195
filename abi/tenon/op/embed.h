/* Tenon operation embed: rows of a weight as activations.
 *
 *   y[s][i] = w[ids[s]][i] * scale,   s < tokens, i < cols of the weight
 *
 * in the order of SPEC.md 2.4. The weight is one that qmatmul prepared, so that tied embeddings are
 * held once. Its class does not matter: a row is decoded, never rounded. */
#ifndef TENON_OP_EMBED_H
#define TENON_OP_EMBED_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;

typedef struct tenon_embed_call {
    uint32_t struct_size;
    uint32_t abi_version;
    void *weight;          /* engine: tenon_weight *; provider: tenon_prepared * of qmatmul_v1 */
    tenon_view ids;        /* uint32 [tokens], 4-byte aligned; in host memory each below rows of
                              the weight, in a buffer others give rows of NaN (SPEC.md 1.8) */
    tenon_view y;          /* float32 [tokens][cols], 4-byte aligned */
    uint64_t tokens;       /* at least 1 */
    uint64_t y_row_stride; /* bytes from one token to the next, >= 4 * cols, multiple of 4 */
    float scale;           /* factor; a scale of exactly 1 is not applied */
    uint32_t reserved0;    /* zero (R7) */
    uint64_t reserved1[2]; /* zero (R7) */
} tenon_embed_call;
TENON_STATIC_ASSERT(sizeof(tenon_embed_call) == 120, "tenon_embed_call changed size");

/* embed_v1, optional. */
typedef struct tenon_embed_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t call_size; /* sizeof(tenon_embed_call) this provider knows (R5) */
    uint32_t error_size;
    /* All or nothing, as qmatmul's run. An id in a buffer that is not below rows gives a row of NaN.
     * One in host memory, where the host refuses it before, gives the same, or TENON_ARG, reason
     * INDEX, and nothing written. [serial per queue] */
    int32_t(TENON_CALL *run)(struct tenon_device *device, struct tenon_device_queue *queue,
                             const tenon_embed_call *call, tenon_error *error);
} tenon_embed_v1;
TENON_STATIC_ASSERT(sizeof(tenon_embed_v1) == 24, "tenon_embed_v1 changed size");

/* The engine's call. [serial per queue] Implemented by libtenon. */
TENON_HOST_API int32_t TENON_CALL tenon_embed(struct tenon_queue *queue,
                                              const tenon_embed_call *call, tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
