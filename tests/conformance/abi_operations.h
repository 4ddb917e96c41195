/* Stage abi, the part about the optional operations. */
#ifndef TENON_CONFORMANCE_ABI_OPERATIONS_H
#define TENON_CONFORMANCE_ABI_OPERATIONS_H

#include "sample.h"

/* Each over the operation that the case is about; UNSUPPORTED where it is not offered. */
bool abi_check_sane(direct *self, direct_device *on, sample_kind kind, conformance_result *result);
bool abi_check_sample_reserved(direct *self, direct_device *on, sample_kind kind,
                               conformance_result *result);
bool abi_check_foreign_buffer(direct *self, direct_device *on, sample_kind kind,
                              conformance_result *result);

bool abi_check_ids_past_rows(direct *self, direct_device *on, conformance_result *result);
bool abi_check_cache_pairs(direct *self, direct_device *on, conformance_result *result);
bool abi_check_cache_calls(direct *self, direct_device *on, conformance_result *result);

#endif
