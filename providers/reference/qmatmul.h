/* The matrix product of the reference: what its source files share. */
#ifndef TENON_REFERENCE_QMATMUL_H
#define TENON_REFERENCE_QMATMUL_H

#include <tenon/provider.h>

#include "decode.h"
#include "device.h"

#define REFERENCE_ACTIVATION_BLOCK 32u

/* A private copy of the weight's bytes follows the struct: codes or blocks, then scales. */
struct tenon_prepared {
    reference_weight weight;
};

/* One row of activations in class A8: x_i is about d[i / 32] * u[i]. */
typedef struct reference_activations {
    float *d;  /* one per block of 32, NaN: the block holds a value that is not finite */
    int8_t *u; /* one per input, -127 to 127 */
} reference_activations;

/* y of one row, class F32 (SPEC.md 2.2). x holds weight->cols values. [any thread] */
float reference_dot_f32(const reference_weight *weight, uint64_t row, const float *x);
/* Rounds one row of cols activations (SPEC.md 2.3). [any thread] */
void reference_quantize(const float *x, uint64_t cols, const reference_activations *out);
/* y of one row, class A8 (SPEC.md 2.3). [any thread] */
float reference_dot_a8(const reference_weight *weight, uint64_t row,
                       const reference_activations *x);

/* The functions of qmatmul_v1. */
int32_t TENON_CALL reference_qmatmul_supports(struct tenon_device *device,
                                              const tenon_weight_desc *desc,
                                              tenon_qmatmul_support *out, tenon_error *error);
int32_t TENON_CALL reference_qmatmul_prepare(struct tenon_device *device,
                                             const tenon_weight_desc *desc,
                                             const tenon_weight_data *data, tenon_prepared **out,
                                             tenon_error *error);
int32_t TENON_CALL reference_qmatmul_run(struct tenon_device *device,
                                         struct tenon_device_queue *queue,
                                         const tenon_qmatmul_call *call, tenon_error *error);
void TENON_CALL reference_qmatmul_release(struct tenon_device *device, tenon_prepared *prepared);

#endif
