/* A provider as the helper program talks to it: every struct is presented at the size it states
 * (R5), every answer is taken up to what both sides know. */
#ifndef TENON_LOADER_PROBE_TARGET_H
#define TENON_LOADER_PROBE_TARGET_H

#include <loader/bind.h>

/* Storage for one presented struct; BIND_MAX_STRUCT bytes, aligned for anything. */
typedef struct probe_box {
    union {
        uint64_t words[BIND_MAX_STRUCT / 8];
        tenon_error error;
        tenon_services services;
        tenon_device_info device_info;
        tenon_weight_desc weight_desc;
        tenon_weight_data weight_data;
        tenon_qmatmul_call call;
        tenon_qmatmul_support support;
    } as;
} probe_box;

/* One provider, opened or not. Zero it, set module. */
typedef struct probe_target {
    const loader_module *module;
    tenon_provider *provider;
    tenon_device *device;
    tenon_device_queue *queue;
    probe_box services; /* as presented to open: valid until close returns */
} probe_target;

/* Fills *box with the struct at from (bytes of it, its head first), cut or zero-extended to the
 * size that the provider knows. */
void probe_present(probe_box *box, const void *from, uint32_t bytes, uint32_t known);
/* The way back: what *box says, cut or zero-extended to bytes. */
void probe_take(const probe_box *box, uint32_t known, void *to, uint32_t bytes);

/* The provider's functions. status is theirs; *error is always filled. */
int32_t probe_open(probe_target *self, const tenon_services *services, tenon_error *error);
int32_t probe_device_count(probe_target *self, uint32_t *count, tenon_error *error);
int32_t probe_device_info(probe_target *self, uint32_t index, tenon_device_info *out,
                          tenon_error *error);
/* Device and, where there are queues, a queue of it. */
int32_t probe_device_open(probe_target *self, uint32_t index, tenon_error *error);
int32_t probe_prepare(probe_target *self, const tenon_weight_desc *desc,
                      const tenon_weight_data *data, tenon_prepared **out, tenon_error *error);
int32_t probe_supports(probe_target *self, const tenon_weight_desc *desc, tenon_error *error);
int32_t probe_run_call(probe_target *self, const tenon_qmatmul_call *call, tenon_error *error);
/* Closes whatever is open, in reverse order. */
void probe_close(probe_target *self);

/* The exact self-test of device 0 against the reference: a few small products in each class that
 * arith claims, then the operations. *tested counts the cases that were run. Notes SELF_TEST (or FP_ENVIRONMENT) in
 * *fault, or FP trouble. A device that cannot be opened just now, declines, or lacks memory is no
 * fault. */
void probe_self_test(probe_target *self, uint32_t arith, const tenon_services *services,
                     uint64_t *tested, loader_fault *fault);
/* Its part about the optional descriptors; both devices are open. */
void probe_operations_test(probe_target *self, probe_target *reference, uint64_t *tested,
                           loader_fault *fault);

#endif
