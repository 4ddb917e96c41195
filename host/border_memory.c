/* The border of memory_v1: buffers of a provider, and what moves their bytes. */
#include "border_parts.h"

static const tenon_memory_v1 *memory(const session_link *link)
{
    return &link->device->provider->module->memory;
}

void border_memory_free(session_link *link, tenon_device_buffer *buffer)
{
    fp_mode mode = fp_enter();
    memory(link)->free(link->device->handle, buffer);
    fp_leave(mode);
}

int32_t border_memory_alloc(session_link *link, uint64_t bytes, tenon_device_buffer **out,
                            tenon_error *error)
{
    const tenon_memory_v1 *m = memory(link);
    border_visit visit;
    bool made;
    int32_t answer, status = border_enter(&visit, NULL, link, m->error_size, error);

    *out = NULL;
    if (status != TENON_OK) return status;
    status = m->alloc(link->device->handle, bytes, out, border_error(&visit));
    made = status == TENON_OK && *out != NULL;
    answer = border_leave(&visit, "memory alloc", status, false, status != TENON_OK || made,
                          TENON_SCOPE_CALL, error);
    if (answer == TENON_OK) return TENON_OK;
    if (made) border_memory_free(link, *out);
    *out = NULL;
    return answer;
}

int32_t border_memory_write(tenon_queue *queue, session_link *link, tenon_device_buffer *buffer,
                            uint64_t offset, const void *from, uint64_t bytes, tenon_error *error)
{
    const tenon_memory_v1 *m = memory(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, m->error_size, error);

    if (status != TENON_OK) return status;
    status = m->write(link->device->handle, visit.queue, buffer, offset, from, bytes,
                      border_error(&visit));
    return border_leave(&visit, "memory write", status, false, true, TENON_SCOPE_CALL, error);
}

int32_t border_memory_read(tenon_queue *queue, session_link *link,
                           const tenon_device_buffer *buffer, uint64_t offset, void *to,
                           uint64_t bytes, tenon_error *error)
{
    const tenon_memory_v1 *m = memory(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, m->error_size, error);

    if (status != TENON_OK) return status;
    status = m->read(link->device->handle, visit.queue, buffer, offset, to, bytes,
                     border_error(&visit));
    return border_leave(&visit, "memory read", status, false, true, TENON_SCOPE_CALL, error);
}

int32_t border_memory_copy(tenon_queue *queue, session_link *link, tenon_device_buffer *to,
                           uint64_t to_offset, const tenon_device_buffer *from,
                           uint64_t from_offset, uint64_t bytes, tenon_error *error)
{
    const tenon_memory_v1 *m = memory(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, m->error_size, error);

    if (status != TENON_OK) return status;
    status = m->copy(link->device->handle, visit.queue, to, to_offset, from, from_offset, bytes,
                     border_error(&visit));
    return border_leave(&visit, "memory copy", status, false, true, TENON_SCOPE_CALL, error);
}

int32_t border_memory_fence(tenon_queue *queue, session_link *link, tenon_error *error)
{
    const tenon_memory_v1 *m = memory(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, m->error_size, error);

    if (status != TENON_OK) return status;
    status = m->fence(link->device->handle, visit.queue, border_error(&visit));
    return border_leave(&visit, "memory fence", status, false, true, TENON_SCOPE_CALL, error);
}

int32_t border_memory_info(session_link *link, tenon_memory_info *out, tenon_error *error)
{
    const tenon_memory_v1 *m = memory(link);
    struct_room answer;
    border_visit visit;
    int32_t status = border_enter(&visit, NULL, link, m->error_size, error);

    if (status != TENON_OK) return status;
    struct_present_empty(answer.bytes, m->info_size);
    status = m->info(link->device->handle, (tenon_memory_info *)(void *)answer.bytes,
                     border_error(&visit));
    status = border_leave(&visit, "memory info", status, false, true, TENON_SCOPE_DEVICE, error);
    if (status != TENON_OK) return status;
    struct_read_answer(out, sizeof *out, answer.bytes, m->info_size);
    if (out->reserved0[0] != 0 || out->reserved0[1] != 0)
        return border_broken(link->device->provider, error,
                             "memory info answered a reserved field that is not zero (R7)");
    if (out->total != TENON_UNKNOWN && out->free != TENON_UNKNOWN && out->free > out->total)
        return border_broken(link->device->provider, error,
                             "memory info says that more is free than there is");
    return TENON_OK;
}
