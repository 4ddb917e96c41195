/* Buffers of an engine: made, written, read, copied, freed. Operations reach them in transfer.c. */
#include "buffer.h"

#include "border.h"
#include "counters.h"
#include "failure.h"
#include "graph.h"
#include "operation.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

#define HOST_PLACE 0u
#define MOST_BYTES (UINT64_C(1) << 48) /* no address space holds more */

/* Addresses of buffers begin where no pointer is, so that the bytes of all views, in host memory or
 * in buffers, lie on one line and overlaps are comparisons of numbers. Never given twice: 2^62
 * bytes of addresses outlast any process. */
static _Atomic uint64_t next_address = UINT64_C(1) << 62;

static int32_t bad(tenon_error *error, uint32_t reason, const char *where, const char *text)
{
    return view_bad(error, reason, where, text);
}

/* ---- made and freed ----------------------------------------------------------------------------- */

int32_t TENON_CALL tenon_buffer_create(struct tenon_session *session, uint64_t bytes,
                                       tenon_buffer **out, tenon_error *error)
{
    tenon_buffer *buffer;
    size_t size;

    if (session == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "session or out is NULL");
    *out = NULL;
    if (fork_guard_crossed(session->fork_mark)) return fail_forked(error);
    if (bytes == 0) return bad(error, TENON_REASON_EMPTY_SHAPE, "bytes", "at least 4");
    if (bytes % sizeof(float) != 0)
        return bad(error, TENON_REASON_ALIGNMENT, "bytes", "a multiple of 4");
    if (bytes > MOST_BYTES)
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_TOO_BIG, TENON_SCOPE_CALL, bytes,
                                 MOST_BYTES, "a buffer of more bytes than can be addressed");
    size = sizeof *buffer + session->link_count * sizeof(buffer_copy);
    buffer = calloc(1, size);
    if (buffer == NULL || pthread_mutex_init(&buffer->lock, NULL) != 0) {
        free(buffer);
        return fail_memory(error, size, "no memory for a buffer");
    }
    buffer->session = session;
    buffer->fork_mark = session->fork_mark;
    buffer->bytes = bytes;
    buffer->address = atomic_fetch_add(&next_address, bytes);
    buffer->why = (tenon_error)EMPTY_ERROR;
    pthread_mutex_lock(&session->lock);
    buffer->next = session->buffers;
    buffer->back = &session->buffers;
    if (buffer->next != NULL) buffer->next->back = &buffer->next;
    session->buffers = buffer;
    pthread_mutex_unlock(&session->lock);
    *out = buffer;
    return TENON_OK;
}

void buffer_free(tenon_buffer *buffer)
{
    tenon_session *session = buffer->session;
    uint32_t i;

    pthread_mutex_lock(&session->lock);
    *buffer->back = buffer->next;
    if (buffer->next != NULL) buffer->next->back = buffer->back;
    pthread_mutex_unlock(&session->lock);
    queue_drain(session);
    for (i = 0; i < session->link_count; i++)
        if (buffer->copies[i].handle != NULL)
            border_memory_free(&session->links[i], buffer->copies[i].handle);
    free(buffer->host);
    pthread_mutex_destroy(&buffer->lock);
    free(buffer);
}

void TENON_CALL tenon_buffer_destroy(tenon_buffer *buffer)
{
    if (buffer == NULL || fork_guard_crossed(buffer->fork_mark)) return;
    buffer_free(buffer);
}

int32_t TENON_CALL tenon_buffer_info(tenon_buffer *buffer, tenon_buffer_information *out,
                                     tenon_error *error)
{
    tenon_buffer_information mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    int32_t status;

    if (buffer == NULL) return bad(error, TENON_REASON_NULL_POINTER, "buffer", "is NULL");
    if (fork_guard_crossed(buffer->fork_mark)) return fail_forked(error);
    status = struct_check_out(out, "tenon_buffer_information", error);
    if (status != TENON_OK) return status;
    pthread_mutex_lock(&buffer->lock);
    transfer_source(buffer); /* takes notice of links that are gone */
    mine.bytes = buffer->bytes;
    mine.used = atomic_load(&buffer->end);
    mine.host_bytes = buffer->host != NULL ? buffer->bytes : 0;
    mine.valid = atomic_load(&buffer->valid);
    pthread_mutex_unlock(&buffer->lock);
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}

/* ---- calls on a queue --------------------------------------------------------------------------- */

static int32_t check_range(const tenon_queue *queue, const tenon_buffer *buffer, uint64_t offset,
                           uint64_t bytes, tenon_error *error)
{
    if (queue == NULL || buffer == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "queue or buffer is NULL");
    if (fork_guard_crossed(queue->fork_mark)) return fail_forked(error);
    if (buffer->session != queue->session)
        return bad(error, TENON_REASON_UNKNOWN_VALUE, "buffer", "belongs to another session");
    if (offset % sizeof(float) != 0 || bytes % sizeof(float) != 0)
        return bad(error, TENON_REASON_ALIGNMENT, "buffer", "offset and bytes are multiples of 4");
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return fail_text(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL, bytes,
                         buffer->bytes, "%llu bytes from %llu on, the buffer has %llu",
                         (unsigned long long)bytes, (unsigned long long)offset,
                         (unsigned long long)buffer->bytes);
    return TENON_OK;
}

static int32_t enter(tenon_queue *queue, tenon_error *error)
{
    int32_t status;

    if (!queue_enter(queue))
        return tenon_fail(error, TENON_STATE, TENON_REASON_IN_USE, TENON_SCOPE_CALL,
                          "another thread is in a call on this queue");
    status = graph_check_idle(queue, error);
    if (status != TENON_OK) queue_leave(queue);
    return status;
}

/* Makes the host copy one that bytes [offset, offset + bytes) may be written to. */
static transfer_result open_host(tenon_queue *queue, tenon_buffer *buffer, uint64_t offset,
                                 uint64_t bytes, tenon_error *error)
{
    transfer_forget_lost(buffer);
    if (transfer_covers(buffer, offset, offset + bytes)) return transfer_host_room(buffer, error);
    return transfer_to_host(queue, buffer, error);
}

int32_t TENON_CALL tenon_buffer_write(struct tenon_queue *queue, tenon_buffer *buffer,
                                      uint64_t offset, const void *from, uint64_t bytes,
                                      tenon_error *error)
{
    tenon_error answer = EMPTY_ERROR;
    transfer_result result;
    int32_t status = check_range(queue, buffer, offset, bytes, error);

    if (status != TENON_OK) return status;
    if (bytes == 0) return TENON_OK;
    if (from == NULL) return bad(error, TENON_REASON_NULL_POINTER, "from", "is NULL");
    status = enter(queue, error);
    if (status != TENON_OK) return status;
    pthread_mutex_lock(&buffer->lock);
    result = open_host(queue, buffer, offset, bytes, &answer);
    if (result == TRANSFER_OK) {
        memcpy((unsigned char *)buffer->host + offset, from, (size_t)bytes);
        transfer_take_note(buffer, HOST_PLACE, offset, offset + bytes);
    }
    pthread_mutex_unlock(&buffer->lock);
    queue_leave(queue);
    return result == TRANSFER_OK ? TENON_OK : fail_again(&answer, error);
}

int32_t TENON_CALL tenon_buffer_read(struct tenon_queue *queue, tenon_buffer *buffer,
                                     uint64_t offset, void *to, uint64_t bytes, tenon_error *error)
{
    tenon_error answer = EMPTY_ERROR;
    session_link *link;
    int32_t status = check_range(queue, buffer, offset, bytes, error);

    if (status != TENON_OK) return status;
    if (bytes == 0) return TENON_OK;
    if (to == NULL) return bad(error, TENON_REASON_NULL_POINTER, "to", "is NULL");
    status = transfer_check_written(buffer, offset, offset + bytes, error);
    if (status != TENON_OK) return status;
    status = enter(queue, error);
    if (status != TENON_OK) return status;
    pthread_mutex_lock(&buffer->lock);
    status = TENON_LOST;
    if ((atomic_load(&buffer->valid) & 1u) != 0) {
        memcpy(to, (unsigned char *)buffer->host + offset, (size_t)bytes);
        status = TENON_OK;
    }
    while (status != TENON_OK && (link = transfer_source(buffer)) != NULL) {
        status = border_memory_read(queue, link, buffer->copies[link->index].handle, offset, to,
                                    bytes, &answer);
        if (status == TENON_OK)
            queue_count(queue, link, OPERATION_MEMORY, COUNT_CALLS, 1);
        else
            transfer_read_failed(queue, link, buffer, &answer);
    }
    if (status != TENON_OK) {
        transfer_answer_lost(buffer, error);
        status = TENON_LOST;
    }
    pthread_mutex_unlock(&buffer->lock);
    queue_leave(queue);
    return status;
}

/* Copies inside the device that holds the bytes; false: not possible there. [both locks] */
static bool copy_on_link(tenon_queue *queue, session_link *link, tenon_buffer *to,
                         uint64_t to_offset, tenon_buffer *from, uint64_t from_offset,
                         uint64_t bytes)
{
    uint64_t place = UINT64_C(1) << (link->index + 1);
    bool whole = transfer_covers(to, to_offset, to_offset + bytes);
    buffer_copy *copy = &to->copies[link->index];

    if (atomic_load(&copy->given_up) || (!whole && (atomic_load(&to->valid) & place) == 0))
        return false;
    if (copy->handle == NULL &&
        border_memory_alloc(link, to->bytes, &copy->handle, &queue->failure) != TENON_OK)
        return false; /* the host copies; a call on the link asks again and takes note */
    if (border_memory_copy(queue, link, copy->handle, to_offset, from->copies[link->index].handle,
                           from_offset, bytes, &queue->failure) != TENON_OK) {
        failure_in_transfer(link, &queue->failure);
        return false;
    }
    transfer_take_note(to, link->index + 1, to_offset, to_offset + bytes);
    return true;
}

int32_t TENON_CALL tenon_buffer_copy(struct tenon_queue *queue, tenon_buffer *to,
                                     uint64_t to_offset, tenon_buffer *from, uint64_t from_offset,
                                     uint64_t bytes, tenon_error *error)
{
    tenon_error answer = EMPTY_ERROR;
    tenon_buffer *first, *second;
    transfer_result result = TRANSFER_OK;
    session_link *link;
    int32_t status = check_range(queue, to, to_offset, bytes, error);

    if (status == TENON_OK) status = check_range(queue, from, from_offset, bytes, error);
    if (status != TENON_OK) return status;
    if (to == from)
        return bad(error, TENON_REASON_OVERLAP, "to", "is the buffer that is copied from (R12)");
    if (bytes == 0) return TENON_OK;
    status = transfer_check_written(from, from_offset, from_offset + bytes, error);
    if (status != TENON_OK) return status;
    status = enter(queue, error);
    if (status != TENON_OK) return status;
    first = to->address < from->address ? to : from; /* two locks: always in one order */
    second = first == to ? from : to;
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    link = transfer_source(from);
    if (link == NULL || !copy_on_link(queue, link, to, to_offset, from, from_offset, bytes)) {
        result = transfer_to_host(queue, from, &answer);
        if (result == TRANSFER_OK) result = open_host(queue, to, to_offset, bytes, &answer);
        if (result == TRANSFER_OK) {
            memcpy((unsigned char *)to->host + to_offset, (unsigned char *)from->host + from_offset,
                   (size_t)bytes);
            transfer_take_note(to, HOST_PLACE, to_offset, to_offset + bytes);
        }
    }
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
    queue_leave(queue);
    return result == TRANSFER_OK ? TENON_OK : fail_again(&answer, error);
}

int32_t TENON_CALL tenon_queue_fence(struct tenon_queue *queue, tenon_error *error)
{
    tenon_error answer = EMPTY_ERROR;
    int32_t status = TENON_OK;
    uint32_t i;

    if (queue == NULL) return bad(error, TENON_REASON_NULL_POINTER, "queue", "is NULL");
    if (fork_guard_crossed(queue->fork_mark)) return fail_forked(error);
    status = enter(queue, error);
    if (status != TENON_OK) return status;
    for (i = 0; i < queue->session->link_count; i++) {
        session_link *link = &queue->session->links[i];
        if (!operation_offered(link, OPERATION_MEMORY) || link_out(link) != 0) continue;
        if (border_memory_fence(queue, link, &answer) == TENON_OK) continue;
        counters_remember(link, OPERATION_MEMORY, &answer);
        queue_count(queue, link, OPERATION_MEMORY, COUNT_FAILED, 1);
        failure_in_read(link, &answer);
        link_name_answer(link, &answer);
        if (status == TENON_OK)
            fail_text(error, TENON_LOST, answer.reason, answer.scope, answer.wanted,
                      answer.available, "work of the queue is lost: %s", answer.text);
        status = TENON_LOST;
    }
    queue_leave(queue);
    return status;
}

int32_t TENON_CALL tenon_session_memory(struct tenon_session *session, uint64_t link,
                                        tenon_memory_info *out, tenon_error *error)
{
    tenon_memory_info mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    tenon_error answer = EMPTY_ERROR;
    int32_t status;

    if (session == NULL) return bad(error, TENON_REASON_NULL_POINTER, "session", "is NULL");
    if (fork_guard_crossed(session->fork_mark)) return fail_forked(error);
    status = struct_check_out(out, "tenon_memory_info", error);
    if (status != TENON_OK) return status;
    if (link >= session->link_count)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, link,
                         session->link_count, "the chain has %u links", session->link_count);
    if (!operation_offered(&session->links[link], OPERATION_MEMORY))
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_NO_BUFFERS, TENON_SCOPE_DEVICE,
                          "the provider of the link has no memory_v1");
    status = border_memory_info(&session->links[link], &mine, &answer);
    if (status != TENON_OK) return fail_again(&answer, error);
    mine.struct_size = sizeof mine;
    mine.abi_version = TENON_ABI_VERSION;
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}
