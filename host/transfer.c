/* Which copy of a buffer a call is handed, and what has to be moved before it can be. */
#include "border.h"
#include "buffer.h"
#include "counters.h"
#include "failure.h"
#include "operation.h"
#include "queue.h"

#include <stdlib.h>

#define HOST_PLACE 0u
#define COPY_ALIGNMENT 64u /* of the host copy: what any provider so far could ask for */

static uint64_t bit(uint32_t place)
{
    return UINT64_C(1) << place;
}

static uint32_t place_of_link(const session_link *link)
{
    return link->index + 1;
}

/* Where a call on the link finds the buffer: with the link, or in host memory. */
static uint32_t place_for(const tenon_buffer *buffer, const session_link *link)
{
    if (link->index >= BUFFER_LINKS || !operation_offered(link, OPERATION_MEMORY) ||
        atomic_load_explicit(&buffer->copies[link->index].given_up, memory_order_relaxed))
        return HOST_PLACE;
    return place_of_link(link);
}

/* Can the memory of a link still be read? A link that was only set aside keeps what it holds. */
static uint32_t memory_gone(const session_link *link)
{
    uint32_t reason = atomic_load(&link->device->lost);
    if (reason == 0) reason = atomic_load(&link->device->provider->lost);
    if (reason == 0) reason = atomic_load(&link->device->provider->fault);
    return reason;
}

/* ---- all below, up to the views, with buffer->lock held ---------------------------------------- */

session_link *transfer_source(tenon_buffer *buffer)
{
    tenon_session *session = buffer->session;
    uint64_t valid = atomic_load(&buffer->valid);
    session_link *found = NULL;
    uint32_t i;

    for (i = 0; i < session->link_count && i < BUFFER_LINKS; i++) {
        session_link *link = &session->links[i];
        uint32_t reason;
        if ((valid & bit(place_of_link(link))) == 0) continue;
        reason = memory_gone(link);
        if (reason == 0) {
            if (found == NULL) found = link;
            continue;
        }
        valid &= ~bit(place_of_link(link));
        if (valid != 0) continue;
        tenon_fail(&buffer->why, TENON_LOST, reason, TENON_SCOPE_DEVICE, tenon_reason_text(reason));
        link_name_answer(link, &buffer->why);
    }
    atomic_store(&buffer->valid, valid);
    return found;
}

transfer_result transfer_answer_lost(const tenon_buffer *buffer, tenon_error *error)
{
    fail_text(error, TENON_LOST, buffer->why.reason, buffer->why.scope, buffer->why.wanted,
              buffer->why.available, "a buffer is lost, replay what made it: %s", buffer->why.text);
    return TRANSFER_FAILED;
}

void transfer_read_failed(tenon_queue *queue, session_link *link, tenon_buffer *buffer,
                          tenon_error *why)
{
    counters_remember(link, OPERATION_MEMORY, why);
    queue_count(queue, link, OPERATION_MEMORY, COUNT_FAILED, 1);
    failure_in_read(link, why);
    link_name_answer(link, why);
    atomic_fetch_and(&buffer->valid, ~bit(place_of_link(link)));
    buffer->why = *why;
}

transfer_result transfer_host_room(tenon_buffer *buffer, tenon_error *error)
{
    uint64_t total;

    if (buffer->host != NULL) return TRANSFER_OK;
    if (tenon_add_u64(buffer->bytes, COPY_ALIGNMENT - 1, &total) && total <= SIZE_MAX) {
        total -= total % COPY_ALIGNMENT; /* aligned_alloc wants whole multiples */
        buffer->host = aligned_alloc(COPY_ALIGNMENT, (size_t)total);
    }
    if (buffer->host != NULL) return TRANSFER_OK;
    fail_memory(error, buffer->bytes, "no memory for the host copy of a buffer");
    return TRANSFER_FAILED;
}

transfer_result transfer_to_host(tenon_queue *queue, tenon_buffer *buffer, tenon_error *error)
{
    uint64_t begin = atomic_load(&buffer->begin), bytes = atomic_load(&buffer->end) - begin;
    tenon_error why = EMPTY_ERROR;
    session_link *link;

    if ((atomic_load(&buffer->valid) & bit(HOST_PLACE)) != 0) return TRANSFER_OK;
    if (transfer_host_room(buffer, error) != TRANSFER_OK) return TRANSFER_FAILED;
    while ((link = transfer_source(buffer)) != NULL) {
        int32_t status = border_memory_read(queue, link, buffer->copies[link->index].handle, begin,
                                            (unsigned char *)buffer->host + begin, bytes, &why);
        if (status == TENON_OK) {
            queue_count(queue, link, OPERATION_MEMORY, COUNT_CALLS, 1);
            atomic_fetch_or(&buffer->valid, bit(HOST_PLACE));
            return TRANSFER_OK;
        }
        transfer_read_failed(queue, link, buffer, &why);
    }
    return transfer_answer_lost(buffer, error);
}

/* The link has no memory for a copy, or could not fill it: calls there get host views from now on,
 * unless the link is gone. */
static transfer_result give_up(tenon_queue *queue, session_link *link, tenon_buffer *buffer,
                               tenon_error *why)
{
    counters_remember(link, OPERATION_MEMORY, why);
    queue_count(queue, link, OPERATION_MEMORY, COUNT_FAILED, 1);
    failure_in_transfer(link, why);
    link_name_answer(link, why);
    if (link_out(link) != 0) return TRANSFER_LINK_GONE;
    atomic_store(&buffer->copies[link->index].given_up, true);
    return TRANSFER_OK;
}

/* Memory for the copy of a link, without content. *given_up: host views from now on. */
static transfer_result link_room(tenon_queue *queue, session_link *link, tenon_buffer *buffer,
                                 bool *given_up, tenon_error *error)
{
    buffer_copy *copy = &buffer->copies[link->index];

    *given_up = false;
    if (copy->handle != NULL) return TRANSFER_OK;
    if (border_memory_alloc(link, buffer->bytes, &copy->handle, error) == TENON_OK)
        return TRANSFER_OK;
    *given_up = true;
    return give_up(queue, link, buffer, error);
}

/* Makes the copy of a place valid, whole; the place may change to the host's on the way. */
static transfer_result bring(tenon_queue *queue, session_link *link, tenon_buffer *buffer,
                             uint32_t *place, tenon_error *error)
{
    bool given_up;
    transfer_result result;

    if ((atomic_load(&buffer->valid) & bit(*place)) != 0) return TRANSFER_OK;
    result = transfer_to_host(queue, buffer, error);
    if (result != TRANSFER_OK || *place == HOST_PLACE) return result;
    result = link_room(queue, link, buffer, &given_up, error);
    if (result != TRANSFER_OK) return result;
    if (!given_up) {
        uint64_t begin = atomic_load(&buffer->begin);
        int32_t status = border_memory_write(queue, link, buffer->copies[link->index].handle, begin,
                                             (unsigned char *)buffer->host + begin,
                                             atomic_load(&buffer->end) - begin, error);
        if (status == TENON_OK) {
            queue_count(queue, link, OPERATION_MEMORY, COUNT_CALLS, 1);
            atomic_fetch_or(&buffer->valid, bit(*place));
            return TRANSFER_OK;
        }
        result = give_up(queue, link, buffer, error);
        if (result != TRANSFER_OK) return result;
    }
    *place = HOST_PLACE;
    return TRANSFER_OK;
}

bool transfer_covers(const tenon_buffer *buffer, uint64_t begin, uint64_t end)
{
    uint64_t written = atomic_load(&buffer->end);
    return written == 0 || (begin <= atomic_load(&buffer->begin) && end >= written);
}

void transfer_forget_lost(tenon_buffer *buffer)
{
    if (atomic_load(&buffer->end) == 0 || (atomic_load(&buffer->valid) & bit(HOST_PLACE)) != 0 ||
        transfer_source(buffer) != NULL)
        return;
    atomic_store(&buffer->end, 0);
}

void transfer_take_note(tenon_buffer *buffer, uint32_t place, uint64_t begin, uint64_t end)
{
    uint64_t written = atomic_load(&buffer->end);

    if (written == 0 || begin < atomic_load(&buffer->begin)) atomic_store(&buffer->begin, begin);
    if (end > written) atomic_store(&buffer->end, end);
    atomic_store(&buffer->valid, bit(place));
}

int32_t transfer_check_written(const tenon_buffer *buffer, uint64_t begin, uint64_t end,
                               tenon_error *error)
{
    uint64_t first = atomic_load(&buffer->begin), last = atomic_load(&buffer->end);

    if (begin >= first && end <= last) return TENON_OK;
    return fail_text(error, TENON_STATE, TENON_REASON_NOT_WRITTEN, TENON_SCOPE_CALL, end, last,
                     "bytes %llu to %llu of a buffer are read, %llu to %llu are written",
                     (unsigned long long)begin, (unsigned long long)end, (unsigned long long)first,
                     (unsigned long long)last);
}

/* ---- views -------------------------------------------------------------------------------------- */

static uint64_t begin_of(const tenon_buffer *buffer, const byte_rows *rows)
{
    return rows->start - buffer->address;
}

static uint64_t end_of(const tenon_buffer *buffer, const byte_rows *rows)
{
    return rows->start + (rows->count - 1) * rows->stride + rows->width - buffer->address;
}

/* The view of a copy. */
static tenon_view view_of(const tenon_buffer *buffer, const session_link *link, uint32_t place,
                          const tenon_view *theirs)
{
    tenon_view out = *theirs;

    out.buffer = NULL;
    if (place == HOST_PLACE)
        out.host = buffer->host;
    else
        out.buffer = buffer->copies[link->index].handle;
    return out;
}

transfer_result transfer_in(tenon_queue *queue, session_link *link, const tenon_view *theirs,
                            const byte_rows *rows, tenon_view *out, tenon_error *error)
{
    tenon_buffer *buffer = theirs->buffer;
    transfer_result result = TRANSFER_OK;
    uint32_t place;

    if (buffer == NULL) {
        *out = *theirs;
        return TRANSFER_OK;
    }
    place = place_for(buffer, link);
    if (transfer_check_written(buffer, begin_of(buffer, rows), end_of(buffer, rows), error) !=
        TENON_OK)
        return TRANSFER_FAILED;
    if ((atomic_load(&buffer->valid) & bit(place)) == 0) {
        pthread_mutex_lock(&buffer->lock);
        result = bring(queue, link, buffer, &place, error);
        pthread_mutex_unlock(&buffer->lock);
    }
    if (result == TRANSFER_OK) *out = view_of(buffer, link, place, theirs);
    return result;
}

/* Room at a place for a write that leaves nothing of what was there. */
static transfer_result room_at(tenon_queue *queue, session_link *link, tenon_buffer *buffer,
                               uint32_t *place, tenon_error *error)
{
    bool given_up = false;
    transfer_result result;

    if (*place != HOST_PLACE) {
        result = link_room(queue, link, buffer, &given_up, error);
        if (result != TRANSFER_OK || !given_up) return result;
        *place = HOST_PLACE;
    }
    return transfer_host_room(buffer, error);
}

transfer_result transfer_out(tenon_queue *queue, session_link *link, const tenon_view *theirs,
                             const byte_rows *rows, tenon_view *out, tenon_error *error)
{
    tenon_buffer *buffer = theirs->buffer;
    transfer_result result = TRANSFER_OK;
    uint32_t place;
    bool dense = rows->count == 1 || rows->stride == rows->width;

    if (buffer == NULL) {
        *out = *theirs;
        return TRANSFER_OK;
    }
    place = place_for(buffer, link);
    if ((atomic_load(&buffer->valid) & bit(place)) == 0) {
        pthread_mutex_lock(&buffer->lock);
        transfer_forget_lost(buffer);
        if (atomic_load(&buffer->end) == 0 ||
            (dense && transfer_covers(buffer, begin_of(buffer, rows), end_of(buffer, rows))))
            result = room_at(queue, link, buffer, &place, error);
        else
            result = bring(queue, link, buffer, &place, error);
        pthread_mutex_unlock(&buffer->lock);
    }
    if (result == TRANSFER_OK) *out = view_of(buffer, link, place, theirs);
    return result;
}

transfer_result transfer_place(tenon_queue *queue, session_link *link, const tenon_view *theirs,
                               tenon_view *out, tenon_error *error)
{
    tenon_buffer *buffer = theirs->buffer;
    uint32_t place = place_for(buffer, link);
    bool given_up = place == HOST_PLACE;
    transfer_result result = TRANSFER_OK;

    pthread_mutex_lock(&buffer->lock);
    if (!given_up) result = link_room(queue, link, buffer, &given_up, error);
    pthread_mutex_unlock(&buffer->lock);
    if (result != TRANSFER_OK) return result;
    if (given_up) {
        fail_text(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL, buffer->bytes,
                  0, "a buffer has no copy there");
        return TRANSFER_FAILED;
    }
    *out = view_of(buffer, link, place, theirs);
    return TRANSFER_OK;
}

void transfer_written(session_link *link, const tenon_view *theirs, const byte_rows *rows,
                      const tenon_view *out)
{
    tenon_buffer *buffer = theirs->buffer;
    uint32_t place = out->buffer != NULL ? place_of_link(link) : HOST_PLACE;

    if (buffer == NULL) return;
    if (atomic_load(&buffer->valid) == bit(place) &&
        begin_of(buffer, rows) >= atomic_load(&buffer->begin) &&
        end_of(buffer, rows) <= atomic_load(&buffer->end))
        return;
    pthread_mutex_lock(&buffer->lock);
    transfer_take_note(buffer, place, begin_of(buffer, rows), end_of(buffer, rows));
    pthread_mutex_unlock(&buffer->lock);
}

void transfer_spoiled(session_link *link, const tenon_view *theirs, const tenon_view *out)
{
    tenon_buffer *buffer = theirs->buffer;
    uint64_t mine;

    if (buffer == NULL) return;
    mine = bit(out->buffer != NULL ? place_of_link(link) : HOST_PLACE);
    pthread_mutex_lock(&buffer->lock);
    if ((atomic_load(&buffer->valid) & ~mine) != 0) atomic_fetch_and(&buffer->valid, ~mine);
    pthread_mutex_unlock(&buffer->lock);
}
