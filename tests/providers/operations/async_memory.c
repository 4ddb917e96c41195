/* memory_v1: buffers in rooms that only their device knows, and what its memory holds. */
#include "async.h"

#define ALIGNMENT 64u

/* ------------------------------------------------------------------ what is held */

int32_t async_count(tenon_device *device, uint64_t bytes, uint32_t scope, tenon_error *error)
{
    uint64_t limit = device->provider->memory;
    int32_t status;
    pthread_mutex_lock(&device->lock);
    status = async_health(device, NULL, error);
    if (status == TENON_OK && bytes > limit - device->used)
        status = tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, scope, bytes,
                                   limit - device->used, "the device is full");
    if (status == TENON_OK) {
        device->used += bytes;
        device->objects++;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

void async_uncount(tenon_device *device, uint64_t bytes)
{
    pthread_mutex_lock(&device->lock);
    device->used -= bytes;
    device->objects--;
    pthread_mutex_unlock(&device->lock);
}

/* ------------------------------------------------------------------ rooms */

static tenon_device_buffer *handle_of(uint32_t room)
{
    return (tenon_device_buffer *)((uintptr_t)room + 1);
}

/* The room of a buffer; NULL: it is none of this device's. [lock] */
static async_room *room_of(tenon_device *device, const void *buffer)
{
    uintptr_t number = (uintptr_t)buffer;
    if (number == 0 || number > ASYNC_ROOMS || device->rooms[number - 1].memory == NULL)
        return NULL;
    return &device->rooms[number - 1];
}

uint8_t *async_room_at(tenon_device *device, const void *buffer, uint64_t offset, uint64_t bytes,
                       tenon_error *error)
{
    const async_room *room;
    uint8_t *at = NULL;
    pthread_mutex_lock(&device->lock);
    room = room_of(device, buffer);
    if (room == NULL)
        tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                   "no buffer of this device");
    else if (offset > room->bytes || bytes > room->bytes - offset)
        tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_CALL, bytes,
                          room->bytes, "bytes behind the end of a buffer");
    else
        at = room->memory + offset;
    pthread_mutex_unlock(&device->lock);
    return at;
}

/* Room and bytes for a buffer. [lock] */
static int32_t find_room(tenon_device *device, uint64_t bytes, uint32_t *room, tenon_error *error)
{
    uint64_t left = device->provider->buffers - device->buffer_bytes;
    uint32_t i;
    if (bytes > left)
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                                 bytes, left, "no memory for buffers is left");
    for (i = 0; i < ASYNC_ROOMS; i++) {
        *room = (device->next_room + i) % ASYNC_ROOMS;
        if (device->rooms[*room].memory == NULL) return TENON_OK;
    }
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                             bytes, 0, "too many buffers");
}

static int32_t TENON_CALL alloc(struct tenon_device *device, uint64_t bytes,
                                tenon_device_buffer **out, tenon_error *error)
{
    uint64_t whole;
    uint8_t *memory;
    uint32_t room = 0;
    int32_t status;
    *out = NULL;
    if (bytes < 4 || bytes % 4 != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_ALIGNMENT, TENON_SCOPE_CALL, "bytes");
    status = async_count(device, bytes, TENON_SCOPE_CALL, error);
    if (status != TENON_OK) return status;
    memory = tenon_add_u64(bytes, ALIGNMENT - 1, &whole) && whole <= SIZE_MAX / 2
                 ? aligned_alloc(ALIGNMENT, (size_t)(whole / ALIGNMENT * ALIGNMENT))
                 : NULL;
    if (memory == NULL) {
        async_uncount(device, bytes);
        return inner_no_memory(bytes, TENON_SCOPE_CALL, error);
    }
    memset(memory, 0xFF, (size_t)bytes); /* as floats NaN: nobody has written it */
    pthread_mutex_lock(&device->lock);
    status = find_room(device, bytes, &room, error);
    if (status == TENON_OK) {
        device->rooms[room] = (async_room){memory, bytes};
        device->next_room = room + 1;
        device->buffer_bytes += bytes;
        *out = handle_of(room);
    }
    pthread_mutex_unlock(&device->lock);
    if (status != TENON_OK) {
        free(memory);
        async_uncount(device, bytes);
    }
    return status;
}

static void TENON_CALL free_buffer(struct tenon_device *device, tenon_device_buffer *buffer)
{
    async_room *room, old = {NULL, 0};
    if (buffer == NULL) return;
    pthread_mutex_lock(&device->lock);
    async_drain(device, NULL);
    room = room_of(device, buffer);
    if (room != NULL) {
        old = *room;
        *room = (async_room){NULL, 0};
        device->buffer_bytes -= old.bytes;
        device->used -= old.bytes;
        device->objects--;
    }
    pthread_mutex_unlock(&device->lock);
    free(old.memory);
    if (old.memory == NULL)
        device->provider->services->log(device->provider->services->host, TENON_LOG_ERROR,
                                        "a buffer was freed that does not exist");
}

/* ------------------------------------------------------------------ transfers */

static int32_t move(tenon_device *device, async_work *work, tenon_error *error)
{
    (void)device;
    (void)error;
    memcpy(work->call.move.to, work->call.move.from, (size_t)work->call.move.bytes);
    return TENON_OK;
}

/* Gives a move to bytes of a buffer; from is NULL when it could not be had. */
static int32_t give_move(async_work *work, tenon_device *device, const void *buffer,
                         uint64_t offset, const void *from, uint64_t bytes, tenon_error *error)
{
    uint8_t *to = from != NULL ? async_room_at(device, buffer, offset, bytes, error) : NULL;
    if (to == NULL) {
        async_drop(work);
        return error != NULL ? error->status : TENON_ARG;
    }
    work->call.move.to = to;
    work->call.move.from = from;
    work->call.move.bytes = bytes;
    work->y[0] = (inner_rows){to, 1, bytes, bytes};
    work->outputs = 1;
    return async_give(work, error);
}

static int32_t TENON_CALL write_buffer(struct tenon_device *device,
                                       struct tenon_device_queue *queue,
                                       tenon_device_buffer *buffer, uint64_t offset,
                                       const void *from, uint64_t bytes, tenon_error *error)
{
    tenon_error mine = {TENON_HEAD(tenon_error), .status = TENON_OK};
    async_work *work = async_begin(queue, move, error != NULL ? error : &mine);
    void *copy;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    copy = async_stage(work, bytes, error != NULL ? error : &mine);
    if (copy != NULL) memcpy(copy, from, (size_t)bytes);
    pthread_mutex_lock(&device->lock);
    device->bytes_in += bytes;
    pthread_mutex_unlock(&device->lock);
    return give_move(work, device, buffer, offset, copy, bytes, error != NULL ? error : &mine);
}

static int32_t TENON_CALL copy_buffer(struct tenon_device *device, struct tenon_device_queue *queue,
                                      tenon_device_buffer *to, uint64_t to_offset,
                                      const tenon_device_buffer *from, uint64_t from_offset,
                                      uint64_t bytes, tenon_error *error)
{
    tenon_error mine = {TENON_HEAD(tenon_error), .status = TENON_OK};
    async_work *work = async_begin(queue, move, error != NULL ? error : &mine);
    const uint8_t *source;
    if (work == NULL) return queue == NULL ? TENON_ARG : TENON_NOMEM;
    source = async_room_at(device, from, from_offset, bytes, error != NULL ? error : &mine);
    return give_move(work, device, to, to_offset, source, bytes, error != NULL ? error : &mine);
}

/* Waits; then copies, when there is something to copy. */
static int32_t wait_and_read(tenon_device *device, tenon_device_queue *queue, const uint8_t *from,
                             void *to, uint64_t bytes, tenon_error *error)
{
    int32_t status;
    pthread_mutex_lock(&device->lock);
    async_drain(device, queue);
    status = async_health(device, queue, error);
    device->waits++;
    if (status == TENON_OK && bytes > 0) {
        memcpy(to, from, (size_t)bytes);
        device->bytes_out += bytes;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static int32_t TENON_CALL read_buffer(struct tenon_device *device, struct tenon_device_queue *queue,
                                      const tenon_device_buffer *buffer, uint64_t offset, void *to,
                                      uint64_t bytes, tenon_error *error)
{
    const uint8_t *from = async_room_at(device, buffer, offset, bytes, error);
    if (from == NULL) return TENON_ARG;
    return wait_and_read(device, queue, from, to, bytes, error);
}

static int32_t TENON_CALL fence(struct tenon_device *device, struct tenon_device_queue *queue,
                                tenon_error *error)
{
    return wait_and_read(device, queue, NULL, NULL, 0, error);
}

static int32_t TENON_CALL info(struct tenon_device *device, tenon_memory_info *out,
                               tenon_error *error)
{
    uint64_t limit = device->provider->memory;
    int32_t status;
    pthread_mutex_lock(&device->lock);
    status = async_health(device, NULL, error);
    if (status == TENON_OK) {
        out->total = limit;
        out->free = limit != TENON_UNKNOWN ? limit - device->used : TENON_UNKNOWN;
        out->used = device->used;
        out->objects = device->objects;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

TENON_PROVIDER_DESCRIPTOR(tenon_memory_v1, memory_v1) = {
    TENON_HEAD(tenon_memory_v1),
    .info_size = sizeof(tenon_memory_info),
    .error_size = sizeof(tenon_error),
    .alloc = alloc,
    .free = free_buffer,
    .write = write_buffer,
    .read = read_buffer,
    .copy = copy_buffer,
    .fence = fence,
    .info = info,
};
