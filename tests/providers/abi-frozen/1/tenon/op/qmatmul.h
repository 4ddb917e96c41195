/* Tenon operation qmatmul: y = x . W^T for one to four quantized weights over one input.
 *
 *   y_n[s][o] = sum over i of W_n[o][i] * x[s][i],   s < tokens, o < rows of W_n, i < cols
 *
 * in the order of arithmetic of SPEC.md 2.2 (class F32) or 2.3 (class A8), so that every provider
 * of a class returns the same bits. One header holds the request, the descriptor and the engine's
 * call. */
#ifndef TENON_OP_QMATMUL_H
#define TENON_OP_QMATMUL_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;

#define TENON_QMATMUL_MAX_OUTPUTS 4u

/* One output: a prepared weight and where its product goes. Embedded by value, frozen (R1). */
typedef struct tenon_output {
    void *weight;        /* engine: tenon_weight *; provider: tenon_prepared * it returned */
    tenon_view y;        /* float32 [tokens][rows], 4-byte aligned */
    uint64_t row_stride; /* bytes from y of one token to the next, >= 4 * rows, multiple of 4 */
} tenon_output;
TENON_STATIC_ASSERT(sizeof(tenon_output) == 48, "tenon_output is frozen");

/* The request. All weights have the same cols. Outputs overlap neither x nor each other (R12); the
 * bytes between rows of y are not touched. */
typedef struct tenon_qmatmul_call {
    uint32_t struct_size;
    uint32_t abi_version;
    tenon_view x;          /* float32 [tokens][cols], 4-byte aligned, read only */
    uint64_t tokens;       /* S, at least 1 */
    uint64_t x_row_stride; /* bytes from one token to the next, >= 4 * cols, multiple of 4 */
    uint32_t output_count; /* 1 to TENON_QMATMUL_MAX_OUTPUTS; further outputs are all zero */
    uint32_t reserved0;    /* zero (R7) */
    tenon_output outputs[TENON_QMATMUL_MAX_OUTPUTS];
    uint64_t reserved1[2]; /* zero (R7) */
} tenon_qmatmul_call;
TENON_STATIC_ASSERT(sizeof(tenon_qmatmul_call) == 272, "tenon_qmatmul_call changed size");

/* The answer to supports. */
typedef struct tenon_qmatmul_support {
    uint32_t struct_size;
    uint32_t abi_version;
    uint64_t prepared_bytes; /* device or host memory a prepared weight takes, or TENON_UNKNOWN */
    uint64_t alignment;      /* alignment wanted for the weight bytes, a power of two, 0 or 1: any;
                                the host copies when its pointer is below it */
    uint64_t reserved0[2];   /* zero (R7) */
} tenon_qmatmul_support;
TENON_STATIC_ASSERT(sizeof(tenon_qmatmul_support) == 40, "tenon_qmatmul_support changed size");

/* A weight in the form a provider computes with. An object of the provider. */
typedef struct tenon_prepared tenon_prepared;

/* qmatmul_v1, mandatory. */
typedef struct tenon_qmatmul_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t weight_desc_size; /* sizeof of every struct this provider knows (R5); the host */
    uint32_t weight_data_size; /* presents exactly these sizes */
    uint32_t call_size;
    uint32_t support_size;
    uint32_t error_size;
    uint32_t reserved0; /* zero (R7) */

    /* Would a weight like this be run here, in exactly the class desc->arith? TENON_OK and *out,
     * or TENON_DECLINED with a reason. Looks at no bytes, allocates nothing. [any thread] */
    int32_t(TENON_CALL *supports)(struct tenon_device *device, const tenon_weight_desc *desc,
                                  tenon_qmatmul_support *out, tenon_error *error);
    /* Makes the computable form of a weight. data is valid during the call only, its pointers no
     * longer than that. On TENON_OK *out is not NULL, owned until release. DECLINED as supports;
     * TENON_NOMEM has scope WEIGHT and says wanted and available. [any thread] */
    int32_t(TENON_CALL *prepare)(struct tenon_device *device, const tenon_weight_desc *desc,
                                 const tenon_weight_data *data, tenon_prepared **out,
                                 tenon_error *error);
    /* Runs the whole request or nothing: on anything but TENON_OK the host recomputes every y on
     * the next link, from the unchanged inputs. Declined: no byte of any y was written. Outputs in
     * host memory are complete on return. queue is NULL when the provider has no queue_open.
     * [serial per queue] */
    int32_t(TENON_CALL *run)(struct tenon_device *device, struct tenon_device_queue *queue,
                             const tenon_qmatmul_call *call, tenon_error *error);
    /* Frees a prepared weight; no call that names it is running. NULL is allowed. [any thread] */
    void(TENON_CALL *release)(struct tenon_device *device, tenon_prepared *prepared);
} tenon_qmatmul_v1;
TENON_STATIC_ASSERT(sizeof(tenon_qmatmul_v1) == 64, "tenon_qmatmul_v1 changed size");

/* The engine's call, made on a queue of a session. The weights are tenon_weight objects of that
 * session. Complete on return for host views. TENON_OK, or TENON_ARG (the request is wrong: reason
 * says what, no y was touched), TENON_STATE (forked, being updated), or in mode pin the failure or
 * refusal of the named links. In modes prefer and auto the reference is the last link, so a right
 * request is answered. [serial per queue] Implemented by libtenon. */
TENON_HOST_API int32_t TENON_CALL tenon_qmatmul(struct tenon_queue *queue,
                                                const tenon_qmatmul_call *call, tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
