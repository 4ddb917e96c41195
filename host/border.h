/* Every call into a provider goes through here, and nothing else calls one.
 *
 * Around each: the floating point mode (fpenv.h), structs in exactly the sizes the provider stated
 * (R5), and the meaning of what comes back. Answers are those of SPEC.md 1.5: an unknown status, OK
 * with NULL, and a changed floating point mode break the contract, quarantine the provider and come
 * out as TENON_INTERNAL with CONTRACT_BROKEN. *error is never NULL here and is always filled when
 * the answer is not TENON_OK: status, reason, scope and one line of text. */
#ifndef TENON_HOST_BORDER_H
#define TENON_HOST_BORDER_H

#include "host.h"

/* Are the sizes a provider states ones that can be presented? TENON_OK or TENON_ABI. */
int32_t border_check_sizes(const host_provider *provider, tenon_error *error);

int32_t border_open(host_provider *provider, tenon_error *error);
void border_close(host_provider *provider);
/* TENON_OK with *count 0: *error says why, as far as the provider does; its status is then 0. */
int32_t border_device_count(host_provider *provider, uint32_t *count, tenon_error *error);
int32_t border_device_info(host_provider *provider, uint32_t index, tenon_device_info *out,
                           tenon_error *error);
int32_t border_device_open(host_provider *provider, uint32_t index, tenon_device **out,
                           tenon_error *error);
void border_device_close(host_device *device);
int32_t border_queue_open(host_device *device, tenon_device_queue **out, tenon_error *error);
void border_queue_close(host_device *device, tenon_device_queue *queue);

int32_t border_supports(host_device *device, const tenon_weight_desc *desc,
                        tenon_qmatmul_support *out, tenon_error *error);
int32_t border_prepare(host_device *device, const tenon_weight_desc *desc,
                       const tenon_weight_data *data, tenon_prepared **out, tenon_error *error);
void border_release(host_device *device, tenon_prepared *prepared);

/* Runs outputs which[0 .. count) of call, whose weights are held by slots[0 .. count) on one link.
 * *error is filled only when the answer is not TENON_OK. [serial per queue] */
int32_t border_run(tenon_queue *queue, session_link *link, const tenon_qmatmul_call *call,
                   const uint32_t *which, weight_slot *const *slots, uint32_t count,
                   tenon_error *error);

union operation_request;
/* Runs a request of OPERATION_EMBED to OPERATION_ARGMAX, in this library's size, on a link that
 * offers it. *error is filled only when the answer is not TENON_OK. [serial per queue] */
int32_t border_operate(tenon_queue *queue, session_link *link, uint32_t index,
                       const union operation_request *request, tenon_error *error);

/* The functions of attention_v1 on a link that offers it; cache in a call is the provider's. */
int32_t border_cache_create(session_link *link, const tenon_cache_desc *desc,
                            tenon_device_cache **out, tenon_error *error);
void border_cache_free(session_link *link, tenon_device_cache *cache);
int32_t border_cache_append(tenon_queue *queue, session_link *link, const tenon_append_call *call,
                            tenon_error *error);
int32_t border_cache_run(tenon_queue *queue, session_link *link, const tenon_attention_call *call,
                         tenon_error *error);
int32_t border_cache_length(session_link *link, const tenon_device_cache *cache, uint64_t *length,
                            tenon_error *error);
int32_t border_cache_bytes(session_link *link, const tenon_device_cache *cache, uint64_t *bytes,
                           tenon_error *error);
int32_t border_cache_truncate(tenon_queue *queue, session_link *link, tenon_device_cache *cache,
                              uint64_t length, tenon_error *error);
int32_t border_cache_evict(tenon_queue *queue, session_link *link, tenon_device_cache *cache,
                           uint64_t first, uint64_t count, tenon_error *error);
int32_t border_cache_clone(tenon_queue *queue, session_link *link, const tenon_device_cache *cache,
                           tenon_device_cache **out, tenon_error *error);

/* The functions of memory_v1 on a link that offers it. */
int32_t border_memory_alloc(session_link *link, uint64_t bytes, tenon_device_buffer **out,
                            tenon_error *error);
void border_memory_free(session_link *link, tenon_device_buffer *buffer);
int32_t border_memory_write(tenon_queue *queue, session_link *link, tenon_device_buffer *buffer,
                            uint64_t offset, const void *from, uint64_t bytes, tenon_error *error);
int32_t border_memory_read(tenon_queue *queue, session_link *link,
                           const tenon_device_buffer *buffer, uint64_t offset, void *to,
                           uint64_t bytes, tenon_error *error);
int32_t border_memory_copy(tenon_queue *queue, session_link *link, tenon_device_buffer *to,
                           uint64_t to_offset, const tenon_device_buffer *from,
                           uint64_t from_offset, uint64_t bytes, tenon_error *error);
int32_t border_memory_fence(tenon_queue *queue, session_link *link, tenon_error *error);
int32_t border_memory_info(session_link *link, tenon_memory_info *out, tenon_error *error);

/* The functions of graph_v1 on a link that offers it. */
int32_t border_graph_begin(tenon_queue *queue, session_link *link, tenon_error *error);
int32_t border_graph_end(tenon_queue *queue, session_link *link, tenon_device_graph **out,
                         tenon_error *error);
void border_graph_abort(tenon_queue *queue, session_link *link);
int32_t border_graph_launch(tenon_queue *queue, session_link *link, tenon_device_graph *graph,
                            tenon_error *error);
void border_graph_release(session_link *link, tenon_device_graph *graph);

/* The provider broke the contract: says so once and quarantines it. [any thread] */
void border_broke(host_provider *provider, const char *how);

#endif
