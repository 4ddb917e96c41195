/* Buffers: one host copy and one copy a link, and which of them are valid (SPEC.md 1.8).
 *
 * buffer.c makes, reads and writes them for an engine. transfer.c is what operations use: before a
 * call on a link it makes the copies valid that the call needs there, after the call it takes note
 * of what was written. While every copy is where it is needed that costs two atomic loads a view. */
#ifndef TENON_HOST_BUFFER_H
#define TENON_HOST_BUFFER_H

#include "host.h"
#include "views.h"

/* Waits for calls that use the buffer, frees it. */
void buffer_free(tenon_buffer *buffer);

/* How a view came out on a link. */
typedef enum transfer_result {
    TRANSFER_OK,
    TRANSFER_LINK_GONE, /* the link was lost meanwhile: ask the next one; *error says how */
    TRANSFER_FAILED     /* no link can do it: the engine's answer is in *error */
} transfer_result;

/* A view as a link is to be handed it: *out names that link's copy, or host memory. A view of host
 * memory stays as it is. rows: what the call touches of it. [serial per queue] */
transfer_result transfer_in(tenon_queue *queue, session_link *link, const tenon_view *theirs,
                            const byte_rows *rows, tenon_view *out, tenon_error *error);
/* The same for a view that the call will write. Changes no content. */
transfer_result transfer_out(tenon_queue *queue, session_link *link, const tenon_view *theirs,
                             const byte_rows *rows, tenon_view *out, tenon_error *error);
/* The call has written the view (out of transfer_out) on the link. */
void transfer_written(session_link *link, const tenon_view *theirs, const byte_rows *rows,
                      const tenon_view *out);
/* The call failed and may have written a part of it: that copy is valid only where it is the last. */
void transfer_spoiled(session_link *link, const tenon_view *theirs, const tenon_view *out);

/* A view as a link would be handed it, whatever it holds: room is made where there is none.
 * TRANSFER_FAILED: only as a view of host memory. */
transfer_result transfer_place(tenon_queue *queue, session_link *link, const tenon_view *theirs,
                               tenon_view *out, tenon_error *error);

/* For buffer.c. All want buffer->lock. */
/* Makes the host copy valid, whole. */
transfer_result transfer_to_host(tenon_queue *queue, tenon_buffer *buffer, tenon_error *error);
/* Memory for the host copy, without content. */
transfer_result transfer_host_room(tenon_buffer *buffer, tenon_error *error);
/* A link on which a valid copy can be read; NULL: none. Takes notice of links that are gone. */
session_link *transfer_source(tenon_buffer *buffer);
/* Answers LOST: what the buffer held went with a device. */
transfer_result transfer_answer_lost(const tenon_buffer *buffer, tenon_error *error);
/* A read on the link failed: the copy there is lost, the link leaves the chain; why says how. */
void transfer_read_failed(tenon_queue *queue, session_link *link, tenon_buffer *buffer,
                          tenon_error *why);
/* Bytes [begin, end) were written to the copy of a place: 0 the host's, n + 1 that of link n. */
void transfer_take_note(tenon_buffer *buffer, uint32_t place, uint64_t begin, uint64_t end);
/* Would a write of [begin, end) leave nothing of what was written before? */
bool transfer_covers(const tenon_buffer *buffer, uint64_t begin, uint64_t end);
/* Forgets what was written, when no copy of it is left: the next write begins anew. */
void transfer_forget_lost(tenon_buffer *buffer);
/* Checks that [begin, end) was written. TENON_OK or TENON_STATE. [no lock needed] */
int32_t transfer_check_written(const tenon_buffer *buffer, uint64_t begin, uint64_t end,
                               tenon_error *error);

#endif
