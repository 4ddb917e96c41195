/* The border of attention_v1: caches of a provider and the calls on them. */
#include "border_parts.h"

static const tenon_attention_v1 *attention(const session_link *link)
{
    return &link->device->provider->module->attention;
}

void border_cache_free(session_link *link, tenon_device_cache *cache)
{
    fp_mode mode = fp_enter();
    attention(link)->free(link->device->handle, cache);
    fp_leave(mode);
}

/* The end of a call that makes a cache: none is kept of a call that did not come out well. */
static int32_t keep(border_visit *visit, session_link *link, const char *function, int32_t status,
                    bool may_decline, tenon_device_cache **out, tenon_error *error)
{
    bool made = status == TENON_OK && *out != NULL;
    int32_t answer = border_leave(visit, function, status, may_decline,
                                  status != TENON_OK || *out != NULL, TENON_SCOPE_WEIGHT, error);

    if (answer == TENON_OK) return TENON_OK;
    if (made) border_cache_free(link, *out);
    *out = NULL;
    return answer;
}

int32_t border_cache_create(session_link *link, const tenon_cache_desc *desc,
                            tenon_device_cache **out, tenon_error *error)
{
    const tenon_attention_v1 *a = attention(link);
    struct_room presented;
    border_visit visit;
    uint32_t offset = 0;
    int32_t status;

    *out = NULL;
    if (!struct_present(presented.bytes, a->desc_size, desc, sizeof *desc, &offset))
        return border_cut("tenon_cache_desc", a->desc_size, offset, error);
    status = border_enter(&visit, NULL, link, a->error_size, error);
    if (status != TENON_OK) return status;
    status = a->create(link->device->handle, (const tenon_cache_desc *)(void *)presented.bytes, out,
                       border_error(&visit));
    return keep(&visit, link, "attention create", status, true, out, error);
}

int32_t border_cache_append(tenon_queue *queue, session_link *link, const tenon_append_call *call,
                            tenon_error *error)
{
    const tenon_attention_v1 *a = attention(link);
    struct_room presented;
    border_visit visit;
    uint32_t offset = 0;
    int32_t status;

    if (!struct_present(presented.bytes, a->append_size, call, sizeof *call, &offset))
        return border_cut("tenon_append_call", a->append_size, offset, error);
    status = border_enter(&visit, queue, link, a->error_size, error);
    if (status != TENON_OK) return status;
    status = a->append(link->device->handle, visit.queue,
                       (const tenon_append_call *)(void *)presented.bytes, border_error(&visit));
    return border_leave(&visit, "attention append", status, true, true, TENON_SCOPE_CALL, error);
}

int32_t border_cache_run(tenon_queue *queue, session_link *link, const tenon_attention_call *call,
                         tenon_error *error)
{
    const tenon_attention_v1 *a = attention(link);
    struct_room presented;
    border_visit visit;
    uint32_t offset = 0;
    int32_t status;

    if (!struct_present(presented.bytes, a->call_size, call, sizeof *call, &offset))
        return border_cut("tenon_attention_call", a->call_size, offset, error);
    status = border_enter(&visit, queue, link, a->error_size, error);
    if (status != TENON_OK) return status;
    status = a->run(link->device->handle, visit.queue,
                    (const tenon_attention_call *)(void *)presented.bytes, border_error(&visit));
    return border_leave(&visit, "attention run", status, true, true, TENON_SCOPE_CALL, error);
}

int32_t border_cache_length(session_link *link, const tenon_device_cache *cache, uint64_t *length,
                            tenon_error *error)
{
    const tenon_attention_v1 *a = attention(link);
    border_visit visit;
    int32_t status = border_enter(&visit, NULL, link, a->error_size, error);

    if (status != TENON_OK) return status;
    status = a->length(link->device->handle, cache, length, border_error(&visit));
    return border_leave(&visit, "attention length", status, false, true, TENON_SCOPE_CALL, error);
}

int32_t border_cache_bytes(session_link *link, const tenon_device_cache *cache, uint64_t *bytes,
                           tenon_error *error)
{
    const tenon_attention_v1 *a = attention(link);
    border_visit visit;
    int32_t status = border_enter(&visit, NULL, link, a->error_size, error);

    if (status != TENON_OK) return status;
    status = a->bytes(link->device->handle, cache, bytes, border_error(&visit));
    return border_leave(&visit, "attention bytes", status, false, true, TENON_SCOPE_CALL, error);
}

int32_t border_cache_truncate(tenon_queue *queue, session_link *link, tenon_device_cache *cache,
                              uint64_t length, tenon_error *error)
{
    const tenon_attention_v1 *a = attention(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, a->error_size, error);

    if (status != TENON_OK) return status;
    status = a->truncate(link->device->handle, visit.queue, cache, length, border_error(&visit));
    return border_leave(&visit, "attention truncate", status, false, true, TENON_SCOPE_CALL, error);
}

int32_t border_cache_evict(tenon_queue *queue, session_link *link, tenon_device_cache *cache,
                           uint64_t first, uint64_t count, tenon_error *error)
{
    const tenon_attention_v1 *a = attention(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, a->error_size, error);

    if (status != TENON_OK) return status;
    status = a->evict(link->device->handle, visit.queue, cache, first, count, border_error(&visit));
    return border_leave(&visit, "attention evict", status, false, true, TENON_SCOPE_CALL, error);
}

int32_t border_cache_clone(tenon_queue *queue, session_link *link, const tenon_device_cache *cache,
                           tenon_device_cache **out, tenon_error *error)
{
    const tenon_attention_v1 *a = attention(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, a->error_size, error);

    *out = NULL;
    if (status != TENON_OK) return status;
    status = a->clone(link->device->handle, visit.queue, cache, out, border_error(&visit));
    return keep(&visit, link, "attention clone", status, false, out, error);
}
