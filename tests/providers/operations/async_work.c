/* Work in flight: given in order, done in order by one thread, waited for where it must be. */
#include "async.h"

#include "request.h"

#include <time.h>

/* ------------------------------------------------------------------ the worker */

int32_t async_health(const tenon_device *device, const tenon_device_queue *queue,
                     tenon_error *error)
{
    if (device->lost)
        return tenon_fail(error, TENON_DEVICE_LOST, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_DEVICE,
                          "the device was lost");
    if (queue != NULL && queue->failed)
        return tenon_fail(error, TENON_LOST, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_DEVICE,
                          "work that was in flight has failed");
    return TENON_OK;
}

static void sleep_us(uint64_t time)
{
    struct timespec pause = {(time_t)(time / 1000000), (long)(time % 1000000) * 1000};
    if (time > 0) nanosleep(&pause, NULL);
}

static void write_half(async_work *work)
{
    uint32_t i;
    for (i = 0; i < work->outputs; i++) inner_write_half(&work->y[i]);
}

/* Does one piece of work. Called with the lock, which it gives up meanwhile. */
static void perform(tenon_device *device, async_work *work)
{
    const tenon_provider *provider = device->provider;
    uint64_t number = ++device->executed;
    bool fails = number == provider->fail_late_at, loses = number == provider->lose_at;
    work->status = async_health(device, work->queue, &work->error);
    if (work->status != TENON_OK) return;
    pthread_mutex_unlock(&device->lock);
    sleep_us(provider->delay_us);
    if (fails || loses)
        write_half(work);
    else
        work->status = work->body(device, work, &work->error);
    pthread_mutex_lock(&device->lock);
    if (loses) {
        device->lost = true;
        work->status = async_health(device, NULL, &work->error);
    } else if (fails) {
        work->status = tenon_fail(&work->error, TENON_INTERNAL, TENON_REASON_DEVICE_FAILED,
                                  TENON_SCOPE_CALL, "was told to fail");
    }
    if (work->status != TENON_OK && !work->waits) work->queue->failed = true;
}

static void *work_on(void *context)
{
    tenon_device *device = context;
    pthread_mutex_lock(&device->lock);
    for (;;) {
        async_work *work = device->first;
        if (work == NULL) {
            if (device->ends) break;
            pthread_cond_wait(&device->given, &device->lock);
            continue;
        }
        device->first = work->next;
        if (device->first == NULL) device->end = &device->first;
        perform(device, work);
        device->outstanding--;
        work->queue->outstanding--;
        work->finished = true;
        if (!work->waits) async_drop(work);
        pthread_cond_broadcast(&device->done);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

int32_t async_start(tenon_device *device, tenon_error *error)
{
    device->end = &device->first;
    if (pthread_mutex_init(&device->lock, NULL) != 0) goto no_lock;
    if (pthread_cond_init(&device->given, NULL) != 0) goto no_given;
    if (pthread_cond_init(&device->done, NULL) != 0) goto no_done;
    if (pthread_create(&device->worker, NULL, work_on, device) == 0) return TENON_OK;
    pthread_cond_destroy(&device->done);
no_done:
    pthread_cond_destroy(&device->given);
no_given:
    pthread_mutex_destroy(&device->lock);
no_lock:
    return tenon_fail(error, TENON_NOMEM, TENON_REASON_THREAD_START, TENON_SCOPE_DEVICE,
                      "the thread of a device");
}

void async_stop(tenon_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->ends = true;
    pthread_cond_signal(&device->given);
    pthread_mutex_unlock(&device->lock);
    pthread_join(device->worker, NULL);
    pthread_cond_destroy(&device->done);
    pthread_cond_destroy(&device->given);
    pthread_mutex_destroy(&device->lock);
}

void async_drain(tenon_device *device, const tenon_device_queue *queue)
{
    while ((queue != NULL ? queue->outstanding : device->outstanding) > 0)
        pthread_cond_wait(&device->done, &device->lock);
}

/* ------------------------------------------------------------------ a piece of work */

async_work *async_begin(tenon_device_queue *queue, async_body *body, tenon_error *error)
{
    async_work *work;
    if (queue == NULL) {
        tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL, "queue");
        return NULL;
    }
    work = calloc(1, sizeof *work);
    if (work == NULL) {
        inner_no_memory(sizeof *work, TENON_SCOPE_CALL, error);
        return NULL;
    }
    work->queue = queue;
    work->body = body;
    work->error = (tenon_error){TENON_HEAD(tenon_error), .status = TENON_OK};
    return work;
}

void async_drop(async_work *work)
{
    uint32_t i;
    if (work == NULL) return;
    for (i = 0; i < work->staged_count; i++) free(work->staged[i]);
    free(work);
}

void *async_stage(async_work *work, uint64_t bytes, tenon_error *error)
{
    void *block = bytes <= SIZE_MAX / 2 ? malloc((size_t)bytes) : NULL;
    if (block == NULL)
        inner_no_memory(bytes, TENON_SCOPE_CALL, error);
    else
        work->staged[work->staged_count++] = block;
    return block;
}

/* A view as the reference takes it, checked. */
static int32_t resolve(async_work *work, const tenon_view *view, uint64_t rows, uint64_t stride,
                       uint64_t values, const char *name, tenon_view *out, tenon_error *error)
{
    *out = *view;
    if (view->buffer != NULL) {
        if (view->host != NULL)
            return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, name);
        out->host = async_room_at(work->queue->device, view->buffer, view->offset, view->bytes,
                                  error);
        if (out->host == NULL) return TENON_ARG;
        out->buffer = NULL;
        out->offset = 0;
    }
    return reference_check_view(out, stride, rows, values, name, error);
}

int32_t async_in(async_work *work, const tenon_view *view, uint64_t rows, uint64_t stride,
                 uint64_t values, const char *name, tenon_view *out, tenon_error *error)
{
    int32_t status = resolve(work, view, rows, stride, values, name, out, error);
    uint64_t bytes;
    void *copy;
    if (status != TENON_OK || view->buffer != NULL) return status;
    bytes = (rows - 1) * stride + values * sizeof(float); /* in the view, which was checked */
    copy = async_stage(work, bytes, error);
    if (copy == NULL) return TENON_NOMEM;
    memcpy(copy, (const uint8_t *)view->host + view->offset, (size_t)bytes);
    work->copies_host = true;
    *out = (tenon_view){.host = copy, .bytes = bytes};
    return TENON_OK;
}

int32_t async_out(async_work *work, const tenon_view *view, uint64_t rows, uint64_t stride,
                  uint64_t values, const char *name, tenon_view *out, tenon_error *error)
{
    int32_t status = resolve(work, view, rows, stride, values, name, out, error);
    if (status != TENON_OK) return status;
    work->y[work->outputs++] = inner_rows_of(out, rows, stride, values);
    if (view->buffer == NULL) work->waits = true;
    return TENON_OK;
}

void async_push(tenon_device *device, async_work *work)
{
    work->next = NULL;
    *device->end = work;
    device->end = &work->next;
    device->outstanding++;
    work->queue->outstanding++;
    pthread_cond_signal(&device->given);
}

int32_t async_operate(async_work *work, tenon_error *error)
{
    if (work->queue->recording != NULL) return async_record(work, error);
    return async_give(work, error);
}

int32_t async_give(async_work *work, tenon_error *error)
{
    tenon_device *device = work->queue->device;
    int32_t status;
    pthread_mutex_lock(&device->lock);
    status = async_health(device, work->queue, error);
    if (status != TENON_OK) {
        pthread_mutex_unlock(&device->lock);
        async_drop(work);
        return status;
    }
    async_push(device, work);
    if (!work->waits) { /* it may be gone already once the lock is free */
        pthread_mutex_unlock(&device->lock);
        return TENON_OK;
    }
    device->waits++;
    while (!work->finished) pthread_cond_wait(&device->done, &device->lock);
    pthread_mutex_unlock(&device->lock);
    status = work->status;
    if (status != TENON_OK)
        tenon_fail_amount(error, status, work->error.reason, work->error.scope, work->error.wanted,
                          work->error.available, work->error.text);
    async_drop(work);
    return status;
}
