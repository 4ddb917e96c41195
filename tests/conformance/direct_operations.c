/* Each call: the request and the error in the sizes that the descriptor states, the call, and what
 * came back into ours. */
#include "direct_operations.h"

#include <string.h>

static void look_behind(direct *self, const direct_struct *presented, uint32_t stated)
{
    if (!direct_kept(presented, stated)) atomic_fetch_add(&self->spilled, 1);
}

#define REQUEST(function, name, member, stated_size, run) \
    int32_t direct_##function(direct *self, const direct_device *on, \
                              const tenon_##name##_call *call, tenon_error *error) \
    { \
        const uint32_t stated = self->module->member.stated_size; \
        const uint32_t error_size = self->module->member.error_size; \
        direct_struct request, told; \
        int32_t status; \
        direct_present(&request, call, sizeof *call, stated); \
        status = self->module->member.run(on->device, on->queue, &request.name, \
                                          direct_error_give(&told, error, error_size)); \
        look_behind(self, &request, stated); \
        direct_error_take(self, &told, error, error_size); \
        return status; \
    }
REQUEST(embed, embed, embed, call_size, run)
REQUEST(rmsnorm, rmsnorm, rmsnorm, call_size, run)
REQUEST(gated, gated, gated, call_size, run)
REQUEST(add, add, add, call_size, run)
REQUEST(argmax, argmax, argmax, call_size, run)
REQUEST(append, append, attention, append_size, append)
REQUEST(attention, attention, attention, call_size, run)
#undef REQUEST

int32_t direct_cache_create(direct *self, const direct_device *on, const tenon_cache_desc *desc,
                            tenon_device_cache **out, tenon_error *error)
{
    const tenon_attention_v1 *functions = &self->module->attention;
    direct_struct shape, told;
    int32_t status;
    *out = NULL;
    direct_present(&shape, desc, sizeof *desc, functions->desc_size);
    status = functions->create(on->device, &shape.cache, out,
                               direct_error_give(&told, error, functions->error_size));
    look_behind(self, &shape, functions->desc_size);
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}

int32_t direct_alloc(direct *self, const direct_device *on, uint64_t bytes,
                     tenon_device_buffer **out, tenon_error *error)
{
    const tenon_memory_v1 *functions = &self->module->memory;
    direct_struct told;
    int32_t status;
    *out = NULL;
    status = functions->alloc(on->device, bytes, out,
                              direct_error_give(&told, error, functions->error_size));
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}

int32_t direct_write(direct *self, const direct_device *on, tenon_device_buffer *buffer,
                     uint64_t offset, const void *from, uint64_t bytes, tenon_error *error)
{
    const tenon_memory_v1 *functions = &self->module->memory;
    direct_struct told;
    int32_t status = functions->write(on->device, on->queue, buffer, offset, from, bytes,
                                      direct_error_give(&told, error, functions->error_size));
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}

int32_t direct_read(direct *self, const direct_device *on, const tenon_device_buffer *buffer,
                    uint64_t offset, void *to, uint64_t bytes, tenon_error *error)
{
    const tenon_memory_v1 *functions = &self->module->memory;
    direct_struct told;
    int32_t status = functions->read(on->device, on->queue, buffer, offset, to, bytes,
                                     direct_error_give(&told, error, functions->error_size));
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}

int32_t direct_copy(direct *self, const direct_device *on, tenon_device_buffer *to,
                    uint64_t to_offset, const tenon_device_buffer *from, uint64_t from_offset,
                    uint64_t bytes, tenon_error *error)
{
    const tenon_memory_v1 *functions = &self->module->memory;
    direct_struct told;
    int32_t status = functions->copy(on->device, on->queue, to, to_offset, from, from_offset, bytes,
                                     direct_error_give(&told, error, functions->error_size));
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}

int32_t direct_fence(direct *self, const direct_device *on, tenon_error *error)
{
    const tenon_memory_v1 *functions = &self->module->memory;
    direct_struct told;
    int32_t status = functions->fence(on->device, on->queue,
                                      direct_error_give(&told, error, functions->error_size));
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}

int32_t direct_memory_info(direct *self, const direct_device *on, tenon_memory_info *out,
                           tenon_error *error)
{
    const tenon_memory_v1 *functions = &self->module->memory;
    const tenon_memory_info empty = {TENON_HEAD(tenon_memory_info), .total = TENON_UNKNOWN,
                                     .free = TENON_UNKNOWN, .used = TENON_UNKNOWN,
                                     .objects = TENON_UNKNOWN};
    direct_struct box, told;
    int32_t status;
    direct_present(&box, &empty, sizeof empty, functions->info_size);
    status = functions->info(on->device, &box.memory,
                             direct_error_give(&told, error, functions->error_size));
    look_behind(self, &box, functions->info_size);
    direct_error_take(self, &told, error, functions->error_size);
    *out = empty;
    if (status == TENON_OK)
        memcpy(out, &box, functions->info_size < sizeof *out ? functions->info_size : sizeof *out);
    return status;
}

int32_t direct_graph_begin(direct *self, const direct_device *on, tenon_error *error)
{
    const tenon_graph_v1 *functions = &self->module->graph;
    direct_struct told;
    int32_t status;
    status = functions->begin(on->device, on->queue,
                              direct_error_give(&told, error, functions->error_size));
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}

int32_t direct_graph_end(direct *self, const direct_device *on, tenon_device_graph **out,
                         tenon_error *error)
{
    const tenon_graph_v1 *functions = &self->module->graph;
    direct_struct told;
    int32_t status;
    *out = NULL;
    status = functions->end(on->device, on->queue, out,
                            direct_error_give(&told, error, functions->error_size));
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}

int32_t direct_graph_launch(direct *self, const direct_device *on, tenon_device_graph *graph,
                            tenon_error *error)
{
    const tenon_graph_v1 *functions = &self->module->graph;
    direct_struct told;
    int32_t status;
    status = functions->launch(on->device, on->queue, graph,
                               direct_error_give(&told, error, functions->error_size));
    direct_error_take(self, &told, error, functions->error_size);
    return status;
}
