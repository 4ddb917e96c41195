/* The optional descriptors of a provider, called directly with structs as it states them (R5).
 *
 * Each function is to be called only when the provider offers it (module->offered). error may be
 * NULL, and is then NULL for the provider too. */
#ifndef TENON_CONFORMANCE_DIRECT_OPERATIONS_H
#define TENON_CONFORMANCE_DIRECT_OPERATIONS_H

#include "direct.h"

int32_t direct_embed(direct *self, const direct_device *on, const tenon_embed_call *call,
                     tenon_error *error);
int32_t direct_rmsnorm(direct *self, const direct_device *on, const tenon_rmsnorm_call *call,
                       tenon_error *error);
int32_t direct_gated(direct *self, const direct_device *on, const tenon_gated_call *call,
                     tenon_error *error);
int32_t direct_add(direct *self, const direct_device *on, const tenon_add_call *call,
                   tenon_error *error);
int32_t direct_argmax(direct *self, const direct_device *on, const tenon_argmax_call *call,
                      tenon_error *error);

/* *out is NULL unless the provider made a cache. */
int32_t direct_cache_create(direct *self, const direct_device *on, const tenon_cache_desc *desc,
                            tenon_device_cache **out, tenon_error *error);
int32_t direct_append(direct *self, const direct_device *on, const tenon_append_call *call,
                      tenon_error *error);
int32_t direct_attention(direct *self, const direct_device *on, const tenon_attention_call *call,
                         tenon_error *error);

/* *out is NULL unless the provider made a buffer. */
int32_t direct_alloc(direct *self, const direct_device *on, uint64_t bytes,
                     tenon_device_buffer **out, tenon_error *error);
int32_t direct_write(direct *self, const direct_device *on, tenon_device_buffer *buffer,
                     uint64_t offset, const void *from, uint64_t bytes, tenon_error *error);
int32_t direct_read(direct *self, const direct_device *on, const tenon_device_buffer *buffer,
                    uint64_t offset, void *to, uint64_t bytes, tenon_error *error);
int32_t direct_copy(direct *self, const direct_device *on, tenon_device_buffer *to,
                    uint64_t to_offset, const tenon_device_buffer *from, uint64_t from_offset,
                    uint64_t bytes, tenon_error *error);
int32_t direct_fence(direct *self, const direct_device *on, tenon_error *error);
/* *out is NULL unless the provider made a graph. */
int32_t direct_graph_begin(direct *self, const direct_device *on, tenon_error *error);
int32_t direct_graph_end(direct *self, const direct_device *on, tenon_device_graph **out,
                         tenon_error *error);
int32_t direct_graph_launch(direct *self, const direct_device *on, tenon_device_graph *graph,
                            tenon_error *error);
int32_t direct_memory_info(direct *self, const direct_device *on, tenon_memory_info *out,
                           tenon_error *error);

#endif
