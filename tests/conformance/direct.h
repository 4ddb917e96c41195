/* The descriptors of a provider, called directly: what stage abi does instead of a host.
 *
 * It keeps the host's promises, no more: structs of exactly the stated sizes (R5), services that
 * live until close, one call at a time on a queue. */
#ifndef TENON_CONFORMANCE_DIRECT_H
#define TENON_CONFORMANCE_DIRECT_H

#include "case.h"

#include <loader/loader.h>
#include <stdatomic.h>

#define DIRECT_MAX_STRUCT 4096u

/* A struct in the size that the provider states, zero-extended or cut; behind it marks that nobody
 * may touch. */
typedef union direct_struct {
    uint64_t words[DIRECT_MAX_STRUCT / 8];
    tenon_services services;
    tenon_device_info info;
    tenon_error error;
    tenon_weight_desc desc;
    tenon_weight_data data;
    tenon_qmatmul_call call;
    tenon_qmatmul_support support;
    tenon_memory_info memory;
    tenon_embed_call embed;
    tenon_rmsnorm_call rmsnorm;
    tenon_gated_call gated;
    tenon_add_call add;
    tenon_argmax_call argmax;
    tenon_cache_desc cache;
    tenon_append_call append;
    tenon_attention_call attention;
} direct_struct;

/* Fills *out with from (ours bytes), sized as stated. stated must be 8 to DIRECT_MAX_STRUCT. */
void direct_present(direct_struct *out, const void *from, size_t ours, uint32_t stated);
/* Are the marks behind a struct of this size as they were? */
bool direct_kept(const direct_struct *presented, uint32_t stated);

typedef struct direct {
    loader *found;
    const loader_module *module;
    const conformance_target *target;
    direct_struct services;
    atomic_ullong log_lines, loops, config_reads;
    atomic_bool closed;        /* no provider of ours is open */
    atomic_ullong after_close; /* services called when they were dead */
    atomic_ullong spilled;     /* calls that wrote behind a struct of the stated size (R5) */
} direct;

/* An error in the stated size, and afterwards what came back, put into ours. Both take NULL for a
 * caller that does not care. */
tenon_error *direct_error_give(direct_struct *box, const tenon_error *error, uint32_t stated);
void direct_error_take(direct *self, const direct_struct *box, tenon_error *error, uint32_t stated);

/* Loads the target's descriptors. False: the failure set, nothing left. */
bool direct_load(direct *self, const conformance_target *target, conformance_result *result);
void direct_unload(direct *self);

/* The provider, the target's device and, where offered, a queue on it. */
typedef struct direct_device {
    tenon_provider *provider;
    tenon_device *device;
    tenon_device_queue *queue;
    tenon_device_info info;
} direct_device;

/* open, and *out; the status as the provider gave it, *error filled. */
int32_t direct_open(direct *self, tenon_provider **out, tenon_error *error);
void direct_close(direct *self, tenon_provider *provider);
/* Opens all three. False: SKIPPED when the provider says that there is no device, else FAILED. */
bool direct_device_open(direct *self, direct_device *out, conformance_result *result);
void direct_device_close(direct *self, direct_device *device);

/* The functions of qmatmul_v1 with structs sized as stated. The answers are put back into ours. */
int32_t direct_supports(direct *self, tenon_device *device, const tenon_weight_desc *desc,
                        tenon_qmatmul_support *out, tenon_error *error);
int32_t direct_prepare(direct *self, tenon_device *device, const tenon_weight_desc *desc,
                       const tenon_weight_data *data, tenon_prepared **out, tenon_error *error);
int32_t direct_run(direct *self, const direct_device *on, const tenon_qmatmul_call *call,
                   tenon_error *error);

#endif
