/* The device memory of a fake provider: reachable through its functions and the fake's operations
 * only, filled with rubbish when made. Included by fake_provider.h.
 *
 * Work is done at once, but a fake can pretend that it failed late: from piece of work late_from on
 * what operations and copies write is rubbish, and every read and fence answers late_status. */
#ifndef TENON_TESTS_FAKE_MEMORY_H
#define TENON_TESTS_FAKE_MEMORY_H

#define FAKE_RUBBISH 0xe7

typedef struct fake_buffer {
    fake_state *owner;
    unsigned char *bytes;
    uint64_t size;
} fake_buffer;

static inline bool fake_is_late(fake_state *self)
{
    return self->late_status != 0 && self->works >= self->late_from;
}

/* The host pointer behind a view of either kind, for the reference. */
static inline void fake_place(fake_state *self, tenon_view *view)
{
    fake_buffer *buffer = view->buffer;
    if (buffer == NULL) return;
    if (view->host != NULL || buffer->owner != self || view->offset > buffer->size ||
        view->bytes > buffer->size - view->offset)
        abort(); /* the host's fault */
    self->buffer_views++;
    view->host = buffer->bytes;
    view->buffer = NULL;
}

/* What late work leaves where it was to write. */
static inline void fake_spoil_late(fake_state *self, const tenon_view *y)
{
    if (fake_is_late(self)) memset((char *)y->host + y->offset, FAKE_RUBBISH, (size_t)y->bytes);
}

static inline int32_t fake_memory_step(fake_state *self, int32_t status, tenon_error *error)
{
    if (fake_is_late(self)) return fake_answer(self, self->late_status, error);
    return status != 0 ? fake_answer(self, status, error) : TENON_OK;
}

static int32_t TENON_CALL fake_alloc(tenon_device *handle, uint64_t bytes,
                                     tenon_device_buffer **out, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    uint64_t number = ++self->allocs;
    fake_buffer *made;
    *out = NULL;
    if (self->alloc_status == FAKE_NULL && number > self->alloc_good) return TENON_OK;
    if (self->alloc_status != 0 && number > self->alloc_good)
        return fake_answer(self, self->alloc_status, error);
    made = malloc(sizeof *made);
    if (made == NULL || (made->bytes = malloc((size_t)bytes)) == NULL) abort();
    memset(made->bytes, FAKE_RUBBISH, (size_t)bytes);
    made->owner = self;
    made->size = bytes;
    self->buffers_now++;
    *out = (tenon_device_buffer *)(void *)made;
    return TENON_OK;
}

static void TENON_CALL fake_free_buffer(tenon_device *handle, tenon_device_buffer *opaque)
{
    fake_buffer *buffer = (fake_buffer *)(void *)opaque;
    (void)handle;
    if (buffer == NULL) return;
    buffer->owner->buffers_now--;
    free(buffer->bytes);
    free(buffer);
}

static int32_t TENON_CALL fake_write(tenon_device *handle, tenon_device_queue *queue,
                                     tenon_device_buffer *opaque, uint64_t offset, const void *from,
                                     uint64_t bytes, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    fake_buffer *buffer = (fake_buffer *)(void *)opaque;
    int32_t status = fake_memory_step(self, self->write_status, error);
    if (self->no_queue != (queue == NULL)) abort();
    if (offset > buffer->size || bytes > buffer->size - offset || bytes == 0) abort();
    self->writes++;
    if (status != TENON_OK) return status;
    memcpy(buffer->bytes + offset, from, (size_t)bytes);
    return TENON_OK;
}

static int32_t TENON_CALL fake_read(tenon_device *handle, tenon_device_queue *queue,
                                    const tenon_device_buffer *opaque, uint64_t offset, void *to,
                                    uint64_t bytes, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    const fake_buffer *buffer = (const fake_buffer *)(const void *)opaque;
    int32_t status = fake_memory_step(self, self->read_status, error);
    if (self->no_queue != (queue == NULL)) abort();
    if (offset > buffer->size || bytes > buffer->size - offset || bytes == 0) abort();
    self->reads++;
    if (status != TENON_OK) {
        memset(to, FAKE_RUBBISH, (size_t)bytes);
        return status;
    }
    memcpy(to, buffer->bytes + offset, (size_t)bytes);
    return TENON_OK;
}

static int32_t TENON_CALL fake_copy(tenon_device *handle, tenon_device_queue *queue,
                                    tenon_device_buffer *to, uint64_t to_offset,
                                    const tenon_device_buffer *from, uint64_t from_offset,
                                    uint64_t bytes, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    fake_buffer *into = (fake_buffer *)(void *)to;
    const fake_buffer *source = (const fake_buffer *)(const void *)from;
    (void)queue;
    if (self->copy_status != 0) return fake_answer(self, self->copy_status, error);
    self->copies++;
    self->works++;
    memcpy(into->bytes + to_offset, source->bytes + from_offset, (size_t)bytes);
    if (fake_is_late(self)) memset(into->bytes + to_offset, FAKE_RUBBISH, (size_t)bytes);
    return TENON_OK;
}

static int32_t TENON_CALL fake_fence(tenon_device *handle, tenon_device_queue *queue,
                                     tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    (void)queue;
    self->fences++;
    return fake_memory_step(self, self->read_status, error);
}

static int32_t TENON_CALL fake_memory_info(tenon_device *handle, tenon_memory_info *out,
                                           tenon_error *error)
{
    const fake_state *self = ((fake_device *)(void *)handle)->owner;
    (void)error;
    out->total = self->memory_total;
    out->free = self->memory_free;
    out->used = TENON_UNKNOWN;
    out->objects = self->buffers_now;
    return TENON_OK;
}

static const tenon_memory_v1 fake_memory_v1 = {TENON_HEAD(tenon_memory_v1),
                                               .info_size = sizeof(tenon_memory_info),
                                               .error_size = sizeof(tenon_error),
                                               .alloc = fake_alloc,
                                               .free = fake_free_buffer,
                                               .write = fake_write,
                                               .read = fake_read,
                                               .copy = fake_copy,
                                               .fence = fake_fence,
                                               .info = fake_memory_info};

#endif
