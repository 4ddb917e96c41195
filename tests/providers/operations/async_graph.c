/* graph_v1: calls that are kept, and given again at each launch. */
#include "async.h"

static void drop_graph(tenon_device *device, tenon_device_graph *graph)
{
    while (graph->first != NULL) {
        async_work *work = graph->first;
        graph->first = work->next;
        async_drop(work);
    }
    free(graph);
    pthread_mutex_lock(&device->lock);
    device->graphs--;
    pthread_mutex_unlock(&device->lock);
}

static int32_t declined(tenon_error *error, uint32_t reason, const char *text)
{
    return tenon_fail(error, TENON_DECLINED, reason, TENON_SCOPE_CALL, text);
}

static int32_t TENON_CALL begin(struct tenon_device *device, struct tenon_device_queue *queue,
                                tenon_error *error)
{
    tenon_device_graph *graph;
    int32_t status;
    pthread_mutex_lock(&device->lock);
    status = async_health(device, queue, error);
    if (status == TENON_OK && device->recordings >= device->provider->graphs)
        status = declined(error, TENON_REASON_UNSUPPORTED_SHAPE, "no more graphs");
    pthread_mutex_unlock(&device->lock);
    if (status != TENON_OK) return status;
    if (queue->recording != NULL)
        return tenon_fail(error, TENON_STATE, TENON_REASON_CAPTURING, TENON_SCOPE_CALL,
                          "the queue records already");
    graph = calloc(1, sizeof *graph);
    if (graph == NULL) return inner_no_memory(sizeof *graph, TENON_SCOPE_CALL, error);
    graph->end = &graph->first;
    queue->recording = graph;
    pthread_mutex_lock(&device->lock);
    device->recordings++;
    device->graphs++;
    pthread_mutex_unlock(&device->lock);
    return TENON_OK;
}

int32_t async_record(async_work *work, tenon_error *error)
{
    tenon_device_graph *graph = work->queue->recording;
    if (work->waits || work->copies_host) {
        async_drop(work);
        return declined(error, TENON_REASON_NO_BUFFERS, "host memory cannot be in a graph");
    }
    *graph->end = work;
    graph->end = &work->next;
    return TENON_OK;
}

static void TENON_CALL abort_recording(struct tenon_device *device,
                                       struct tenon_device_queue *queue)
{
    tenon_device_graph *graph = queue->recording;
    queue->recording = NULL;
    if (graph != NULL) drop_graph(device, graph);
}

static int32_t TENON_CALL end(struct tenon_device *device, struct tenon_device_queue *queue,
                              tenon_device_graph **out, tenon_error *error)
{
    int32_t status;
    pthread_mutex_lock(&device->lock);
    status = async_health(device, queue, error);
    pthread_mutex_unlock(&device->lock);
    if (status == TENON_OK && queue->recording == NULL)
        status = tenon_fail(error, TENON_STATE, TENON_REASON_NOT_OPEN, TENON_SCOPE_CALL,
                            "nothing is recorded");
    if (status != TENON_OK) {
        abort_recording(device, queue);
        return status;
    }
    *out = queue->recording;
    queue->recording = NULL;
    return TENON_OK;
}

static void drop_all(async_work *work)
{
    while (work != NULL) {
        async_work *next = work->next;
        async_drop(work);
        work = next;
    }
}

/* Work for every call of the graph. */
static async_work *copy_calls(const tenon_device_graph *graph, tenon_device_queue *queue)
{
    async_work *first = NULL, **at = &first;
    const async_work *call;
    for (call = graph->first; call != NULL; call = call->next) {
        async_work *copy = malloc(sizeof *copy);
        if (copy == NULL) {
            drop_all(first);
            return NULL;
        }
        *copy = *call;
        copy->queue = queue;
        copy->next = NULL;
        *at = copy;
        at = &copy->next;
    }
    return first;
}

/* All caches grow, or none does. */
static bool grow_caches(const tenon_device_graph *graph)
{
    const async_work *call, *undone;
    for (call = graph->first; call != NULL; call = call->next) {
        if (call->grows == NULL) continue;
        if (call->tokens > call->grows->desc.capacity - call->grows->length) break;
        call->grows->length += call->tokens;
    }
    if (call == NULL) return true;
    for (undone = graph->first; undone != call; undone = undone->next)
        if (undone->grows != NULL) undone->grows->length -= undone->tokens;
    return false;
}

static int32_t TENON_CALL launch(struct tenon_device *device, struct tenon_device_queue *queue,
                                 tenon_device_graph *graph, tenon_error *error)
{
    async_work *work = copy_calls(graph, queue);
    int32_t status;
    if (work == NULL) return inner_no_memory(sizeof *work, TENON_SCOPE_CALL, error);
    pthread_mutex_lock(&device->lock);
    status = async_health(device, queue, error);
    if (status == TENON_OK && !grow_caches(graph))
        status = declined(error, TENON_REASON_CAPACITY, "a cache has no room");
    while (status == TENON_OK && work != NULL) {
        async_work *next = work->next;
        async_push(device, work);
        work = next;
    }
    if (status == TENON_OK) device->launches++;
    pthread_mutex_unlock(&device->lock);
    drop_all(work);
    return status;
}

static void TENON_CALL release(struct tenon_device *device, tenon_device_graph *graph)
{
    if (graph == NULL) return;
    pthread_mutex_lock(&device->lock);
    async_drain(device, NULL);
    pthread_mutex_unlock(&device->lock);
    drop_graph(device, graph);
}

TENON_PROVIDER_DESCRIPTOR(tenon_graph_v1, graph_v1) = {
    TENON_HEAD(tenon_graph_v1),
    .error_size = sizeof(tenon_error),
    .begin = begin,
    .end = end,
    .abort = abort_recording,
    .launch = launch,
    .release = release,
};
