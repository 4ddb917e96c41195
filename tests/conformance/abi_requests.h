/* Stage abi, the part about weights and requests. */
#ifndef TENON_CONFORMANCE_ABI_REQUESTS_H
#define TENON_CONFORMANCE_ABI_REQUESTS_H

#include "direct.h"
#include "memory.h"

/* A small weight of the first format that the provider offers, and a request over it. */
typedef struct abi_request {
    tenon_weight_desc desc;
    tenon_weight_data data;
    tenon_prepared *prepared;
    tenon_qmatmul_call call; /* one output; y is poisoned */
    guarded weights, scales, x, y;
} abi_request;

/* Makes and prepares one. False: UNSUPPORTED when no format is offered, else FAILED. */
bool abi_request_make(abi_request *self, direct *on, direct_device *device, uint64_t rows,
                      uint64_t cols, uint64_t tokens, conformance_result *result);
/* Releases and frees; harmless on a zeroed or freed one. */
void abi_request_free(abi_request *self, direct *on, direct_device *device);
/* Is every byte of y still poison? */
bool abi_request_untouched(const abi_request *self);

/* Bytes of this process that lie in memory; 0 where that tells nothing. */
uint64_t abi_resident_bytes(void);

bool abi_check_unknown_values(direct *self, direct_device *on, conformance_result *result);
bool abi_check_supports_prepare(direct *self, direct_device *on, conformance_result *result);
bool abi_check_reserved(direct *self, direct_device *on, conformance_result *result);
bool abi_check_buffer_view(direct *self, direct_device *on, conformance_result *result);
bool abi_check_release_pairs(direct *self, direct_device *on, conformance_result *result);
bool abi_check_any_thread(direct *self, direct_device *on, conformance_result *result);

#endif
