/* Cases of memory_v1: buffers of a provider, called directly. UNSUPPORTED where it has none. */
#ifndef TENON_CONFORMANCE_DEVICE_MEMORY_H
#define TENON_CONFORMANCE_DEVICE_MEMORY_H

#include "sample.h"

bool device_memory_round_trips(direct *self, direct_device *on, conformance_result *result);
bool device_memory_too_much(direct *self, direct_device *on, conformance_result *result);
bool device_memory_balance(direct *self, direct_device *on, conformance_result *result);
bool device_memory_chosen_token(direct *self, direct_device *on, conformance_result *result);
bool device_memory_queues(direct *self, direct_device *on, conformance_result *result);
/* An operation over every mix of buffers and host memory in its views. */
bool device_memory_operation(direct *self, direct_device *on, sample_kind kind,
                             conformance_result *result);

/* Is memory_v1 offered? False: UNSUPPORTED is set. */
bool device_memory_offered(const direct *self, conformance_result *result);
/* Fails with what the provider said unless status is TENON_OK. */
bool device_memory_good(int32_t status, const tenon_error *error, const char *what,
                        conformance_result *result);

#endif
