/* attention_v1: append, run, truncate and evict over a cache. */
#include "graph.h"

#define TILE_POSITIONS 64u
#define SEGMENT_POSITIONS 256u
#define WORK_BYTES (UINT64_C(32) << 20) /* of scores at a time */
#define MOVED_POSITIONS 1024u           /* of an eviction at a time */

/* The length of a cache becomes set + add * length, behind all recorded before. */
static int32_t record_length(tenon_device_queue *queue, const tenon_device_cache *cache,
                             uint64_t set, uint32_t add, tenon_error *error)
{
    const vulkan_length_push push = {(uint32_t)set, add};
    const vulkan_span span = vulkan_whole(cache->state);
    vulkan_dispatch dispatch = {.spans = &span,
                                .span_count = 1,
                                .push = &push,
                                .push_bytes = sizeof push,
                                .groups = {1, 1, 1}};
    int32_t status = vulkan_pipeline_get(queue->device, VULKAN_LENGTH, NULL, &dispatch.pipeline,
                                         error);
    return status == TENON_OK ? vulkan_record(queue, &dispatch, error) : status;
}

/* ------------------------------------------------------------------------------------- append */

static int32_t check_append(tenon_device *device, const tenon_device_queue *queue,
                            const tenon_append_call *call, tenon_error *error)
{
    const tenon_device_cache *cache;
    uint64_t width, room;
    int32_t status = vulkan_check_head(device, queue, call, sizeof *call, "tenon_append_call",
                                       error);
    if (status != TENON_OK) return status;
    status = vulkan_check_zero(call->reserved0, sizeof call->reserved0,
                               "tenon_append_call.reserved0", error);
    if (status != TENON_OK) return status;
    if (call->cache == NULL) return vulkan_null_pointer("cache", error);
    if (call->tokens == 0) return vulkan_empty("tokens must be at least 1", error);
    cache = call->cache;
    width = cache->desc.kv_heads * cache->desc.head_size;
    /* What is recorded is appended at a launch, which looks at the length of then. */
    room = cache->desc.capacity -
           (queue->graph != NULL ? vulkan_graph_appended(queue->graph, cache) : cache->length);
    if (call->tokens > room)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_CAPACITY, TENON_SCOPE_CALL,
                                 call->tokens, room, "the cache has no room for the positions");
    status = vulkan_check_rows(device, &call->k, call->k_row_stride, call->tokens, width, "k",
                               error);
    if (status != TENON_OK) return status;
    return vulkan_check_rows(device, &call->v, call->v_row_stride, call->tokens, width, "v", error);
}

/* Rows [first, first + count) of k and of v, and the new length. */
static int32_t record_append(tenon_device_queue *queue, const tenon_device_cache *cache,
                             const vulkan_rows *k, const vulkan_rows *v, uint64_t first,
                             uint64_t count, tenon_error *error)
{
    vulkan_append_push push = {.cache = vulkan_cache_shape(cache),
                               .has_plain = cache->plain != NULL,
                               .k_stride = vulkan_stride(k),
                               .v_stride = vulkan_stride(v)};
    const vulkan_span spans[7] = {vulkan_whole(cache->k),
                                  vulkan_whole(cache->plain != NULL ? cache->plain : cache->k),
                                  vulkan_whole(cache->v),
                                  vulkan_bind(k, first, count, &push.k),
                                  vulkan_bind(v, first, count, &push.v),
                                  vulkan_cache_table(cache),
                                  vulkan_whole(cache->state)};
    uint32_t options[VULKAN_MOST_CONSTANTS - 1];
    vulkan_dispatch dispatch = {
        .spans = spans,
        .span_count = 7,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {(uint32_t)tenon_ceil_div_u64(cache->heads_v * cache->desc.kv_heads, 64),
                   (uint32_t)count, 1}};
    int32_t status;

    vulkan_cache_options(cache, options);
    status = vulkan_pipeline_get(queue->device, VULKAN_APPEND, options, &dispatch.pipeline, error);
    return status == TENON_OK ? vulkan_record(queue, &dispatch, error) : status;
}

int32_t TENON_CALL vulkan_cache_append(tenon_device *device, tenon_device_queue *queue,
                                       const tenon_append_call *call, tenon_error *error)
{
    int32_t status = check_append(device, queue, call, error);
    vulkan_rows k = {0}, v = {0};
    const vulkan_rows *const views[2] = {&k, &v};
    tenon_device_cache *cache;
    uint64_t width, first, count, most = 0;
    vulkan_job job = {0};

    if (status != TENON_OK) return status;
    cache = call->cache;
    width = cache->desc.kv_heads * cache->desc.head_size;
    status = vulkan_job_begin(&job, queue, 0, error);
    if (status == TENON_OK)
        status = vulkan_job_input(&job, &call->k, call->k_row_stride, call->tokens, width, &k,
                                  error);
    if (status == TENON_OK)
        status = vulkan_job_input(&job, &call->v, call->v_row_stride, call->tokens, width, &v,
                                  error);
    if (status == TENON_OK)
        status = vulkan_choose_rows(device, views, 2,
                                    device->gpu->limits.maxComputeWorkGroupCount[1], &most, error);
    for (first = 0; first < call->tokens && status == TENON_OK; first += count) {
        count = vulkan_least(most, call->tokens - first);
        status = record_append(queue, cache, &k, &v, first, count, error);
    }
    if (status == TENON_OK && queue->graph != NULL)
        status = vulkan_graph_append(queue->graph, cache, call->tokens, error);
    if (status == TENON_OK)
        status = vulkan_job_end(&job, status, error);
    else if (first > 0) /* some of it is recorded: the length as it was */
        (void)record_length(queue, cache, cache->length, 0, NULL);
    if (status == TENON_OK && queue->graph == NULL) cache->length += call->tokens;
    return status;
}

/* ---------------------------------------------------------------------------------------- run */

uint32_t vulkan_reach_groups(const vulkan_reach *reach, uint64_t length)
{
    uint64_t window = reach->cache->desc.window;
    uint64_t groups = tenon_ceil_div_u64(length - reach->behind, reach->per);

    /* A window begins anywhere in a group and ends anywhere in another. */
    if (window != 0) groups = vulkan_least(groups, (window - 1) / reach->per + 2);
    groups = vulkan_least(groups, 65535); /* kernels make up for it */
    return groups > 0 ? (uint32_t)groups : 1;
}

static int32_t check_run(tenon_device *device, const tenon_device_queue *queue,
                         const tenon_attention_call *call, tenon_error *error)
{
    const VkPhysicalDeviceLimits *limits;
    const tenon_device_cache *cache;
    uint64_t width;
    int32_t status = vulkan_check_head(device, queue, call, sizeof *call, "tenon_attention_call",
                                       error);
    if (status != TENON_OK) return status;
    status = vulkan_check_zero(&call->reserved0, sizeof call->reserved0,
                               "tenon_attention_call.reserved0", error);
    if (status == TENON_OK)
        status = vulkan_check_zero(call->reserved1, sizeof call->reserved1,
                                   "tenon_attention_call.reserved1", error);
    if (status != TENON_OK) return status;
    if (call->cache == NULL) return vulkan_null_pointer("cache", error);
    cache = call->cache;
    if (call->tokens == 0 || call->heads == 0)
        return vulkan_empty("tokens and heads must be at least 1", error);
    if (call->tokens > (queue->graph != NULL ? cache->desc.capacity : cache->length))
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL,
                                 call->tokens, cache->length,
                                 "the cache holds fewer positions than tokens");
    if (call->heads % cache->desc.kv_heads != 0)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_HEADS, TENON_SCOPE_CALL,
                                 call->heads, cache->desc.kv_heads, "heads");
    if (!tenon_mul_u64(call->heads, cache->desc.head_size, &width))
        return tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL,
                          "heads times head_size");
    status = vulkan_check_rows(device, &call->q, call->q_row_stride, call->tokens, width, "q",
                               error);
    if (status == TENON_OK)
        status = vulkan_check_rows(device, &call->y, call->y_row_stride, call->tokens, width, "y",
                                   error);
    limits = &device->gpu->limits;
    if (status == TENON_OK && call->heads > limits->maxComputeWorkGroupCount[1])
        status = tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_SHAPE, TENON_SCOPE_CALL,
                            "more heads than the device takes workgroups");
    return status;
}

/* One of the three steps of a row's attention. */
static int32_t record_step(tenon_device_queue *queue, uint32_t kernel, const uint32_t *options,
                           const vulkan_attention_push *push, const vulkan_span *spans,
                           uint32_t span_count, const vulkan_reach *reach, uint64_t heads,
                           uint64_t tokens, tenon_error *error)
{
    vulkan_dispatch dispatch = {.spans = spans,
                                .span_count = span_count,
                                .push = push,
                                .push_bytes = sizeof *push,
                                .groups = {1, (uint32_t)heads, (uint32_t)tokens},
                                .reach = reach};
    int32_t status;

    if (reach != NULL && queue->graph == NULL)
        dispatch.groups[0] = vulkan_reach_groups(reach, reach->cache->length);
    status = vulkan_pipeline_get(queue->device, kernel, options, &dispatch.pipeline, error);
    return status == TENON_OK ? vulkan_record(queue, &dispatch, error) : status;
}

/* The last step, which makes the rows. */
static int32_t record_combine(tenon_device_queue *queue, const uint32_t *options,
                              const vulkan_attention_push *push, const vulkan_span *spans,
                              const vulkan_rows *y, uint64_t first, uint64_t count,
                              tenon_error *error)
{
    const uint64_t width = (uint64_t)push->heads * push->cache.head_size;
    vulkan_dispatch dispatch = {
        .spans = spans,
        .span_count = 4,
        .push = push,
        .push_bytes = sizeof *push,
        .groups = {(uint32_t)tenon_ceil_div_u64(width, VULKAN_COMBINE_VALUES), (uint32_t)count, 1}};
    int32_t status = vulkan_pipeline_get(queue->device, VULKAN_COMBINE, options, &dispatch.pipeline,
                                         error);
    return status == TENON_OK ? vulkan_record_open(queue, &dispatch, y, first, count, error)
                              : status;
}

/* Rows [first, first + count) of the call. */
static int32_t record_rows(tenon_device_queue *queue, const tenon_attention_call *call,
                           const vulkan_rows *q, const vulkan_rows *y, vulkan_span work,
                           uint64_t first, uint64_t count, tenon_error *error)
{
    tenon_device_cache *cache = call->cache;
    const uint64_t behind = call->tokens - first - count;
    const vulkan_reach tiles = {cache, behind, TILE_POSITIONS};
    const vulkan_reach parts = {cache, behind, SEGMENT_POSITIONS};
    vulkan_attention_push push = {.cache = vulkan_cache_shape(cache),
                                  .heads = (uint32_t)call->heads,
                                  .back = (uint32_t)(call->tokens - first),
                                  .window = (uint32_t)vulkan_least(cache->desc.window, UINT32_MAX),
                                  .q_stride = vulkan_stride(q),
                                  .y_stride = vulkan_stride(y),
                                  .scale = call->scale};
    const vulkan_span q_span = vulkan_bind(q, first, count, &push.q);
    const vulkan_span y_span = vulkan_bind(y, first, count, &push.y);
    const vulkan_span state = vulkan_whole(cache->state);
    const vulkan_span scores[5] = {vulkan_whole(cache->k), q_span, vulkan_cache_table(cache), state,
                                   work};
    const vulkan_span segments[3] = {vulkan_whole(cache->v), work, state};
    const vulkan_span combine[4] = {work, state, y_span, y_span}; /* the last is not used */
    uint32_t options[VULKAN_MOST_CONSTANTS - 1];
    int32_t status;

    vulkan_cache_options(cache, options);
    status = record_step(queue, VULKAN_SCORES, options, &push, scores, 5, &tiles, call->heads,
                         count, error);
    if (status == TENON_OK)
        status = record_step(queue, VULKAN_SEGMENTS, options, &push, segments, 3, &parts,
                             call->heads, count, error);
    if (status == TENON_OK)
        status = record_combine(queue, options, &push, combine, y, first, count, error);
    return status;
}

/* Tokens at a time by the size of the work buffer, and its bytes for one token. */
static uint64_t tokens_by_work(const tenon_device *device, const tenon_attention_call *call,
                               uint64_t *token_bytes)
{
    const tenon_device_cache *cache = call->cache;
    uint64_t most = vulkan_least(WORK_BYTES, device->gpu->range_limit);

    *token_bytes = 4 * vulkan_attention_words(1, call->heads, cache->tiles, cache->desc.head_size);
    if (*token_bytes > device->gpu->range_limit) return 0;
    return *token_bytes < most ? most / *token_bytes : 1;
}

int32_t TENON_CALL vulkan_attention_run(tenon_device *device, tenon_device_queue *queue,
                                        const tenon_attention_call *call, tenon_error *error)
{
    int32_t status = check_run(device, queue, call, error);
    vulkan_rows q = {0}, y = {0};
    const vulkan_rows *const views[2] = {&q, &y};
    uint64_t width, first, count, most = 0, limit, token_bytes;
    vulkan_span work = {NULL, 0, 0};
    vulkan_job job = {0};

    if (status != TENON_OK) return status;
    width = call->heads * ((const tenon_device_cache *)call->cache)->desc.head_size;
    limit = vulkan_least(tokens_by_work(device, call, &token_bytes),
                         device->gpu->limits.maxComputeWorkGroupCount[2]);
    status = vulkan_job_begin(&job, queue, call->y.buffer == NULL, error);
    if (status == TENON_OK)
        status = vulkan_job_input(&job, &call->q, call->q_row_stride, call->tokens, width, &q,
                                  error);
    if (status == TENON_OK)
        status = vulkan_job_output(&job, &call->y, call->y_row_stride, call->tokens, width, &y,
                                   error);
    if (status == TENON_OK) status = vulkan_choose_rows(device, views, 2, limit, &most, error);
    most = vulkan_least(most, call->tokens);
    if (status == TENON_OK)
        status = vulkan_scratch(queue, VULKAN_MAIN, most * token_bytes, &work, error);
    for (first = 0; first < call->tokens && status == TENON_OK; first += count) {
        count = vulkan_least(most, call->tokens - first);
        status = record_rows(queue, call, &q, &y, work, first, count, error);
    }
    if (status == TENON_OK && queue->graph != NULL)
        status = vulkan_graph_attend(queue->graph, call->cache, call->tokens, error);
    return vulkan_job_end(&job, status, error);
}

/* ------------------------------------------------------------------------- truncate and evict */

static int32_t check_change(const tenon_device *device, const tenon_device_queue *queue,
                            const tenon_device_cache *cache, tenon_error *error)
{
    if (device == NULL || queue == NULL || cache == NULL)
        return vulkan_null_pointer("device, queue or cache", error);
    return TENON_OK;
}

int32_t TENON_CALL vulkan_cache_truncate(tenon_device *device, tenon_device_queue *queue,
                                         tenon_device_cache *cache, uint64_t length,
                                         tenon_error *error)
{
    int32_t status = check_change(device, queue, cache, error);

    if (status != TENON_OK) return status;
    if (length > cache->length)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL, length,
                                 cache->length, "the cache is shorter than that");
    if (length == cache->length) return TENON_OK;
    status = vulkan_call_begin(queue, error);
    if (status == TENON_OK) status = record_length(queue, cache, length, 0, error);
    if (status == TENON_OK) status = vulkan_call_end(queue, 0, error);
    if (status == TENON_OK) cache->length = length;
    return status;
}

/* Positions of one array to another. */
typedef struct move {
    vulkan_memory *from, *to;
    vulkan_span scratch; /* in the place of the array that is NULL */
    uint64_t from_tiles, to_tiles, from_first, to_first, count;
    uint32_t shape, rotate;
} move;

static int32_t record_move(tenon_device_queue *queue, const tenon_device_cache *cache,
                           const move *self, tenon_error *error)
{
    vulkan_move_push push = {.cache = vulkan_cache_shape(cache),
                             .target_tiles = (uint32_t)self->to_tiles,
                             .shape = self->shape,
                             .from = (uint32_t)self->from_first,
                             .to = (uint32_t)self->to_first,
                             .count = (uint32_t)self->count,
                             .rotate = self->rotate};
    const vulkan_span spans[3] = {self->from != NULL ? vulkan_whole(self->from) : self->scratch,
                                  self->to != NULL ? vulkan_whole(self->to) : self->scratch,
                                  vulkan_cache_table(cache)};
    vulkan_dispatch dispatch = {.spans = spans,
                                .span_count = 3,
                                .push = &push,
                                .push_bytes = sizeof push,
                                .groups = {(uint32_t)tenon_ceil_div_u64(self->count, 64),
                                           cache->heads_v, (uint32_t)cache->desc.kv_heads}};
    uint32_t options[VULKAN_MOST_CONSTANTS - 1];
    int32_t status;

    push.cache.tiles = (uint32_t)self->from_tiles;
    vulkan_cache_options(cache, options);
    status = vulkan_pipeline_get(queue->device, VULKAN_MOVE, options, &dispatch.pipeline, error);
    return status == TENON_OK ? vulkan_record(queue, &dispatch, error) : status;
}

/* count positions of an array from `from` on to `to` and on, which is before them, through scratch
 * memory of as many tiles. */
static int32_t shift(tenon_device_queue *queue, const tenon_device_cache *cache,
                     vulkan_memory *array, uint32_t shape, vulkan_span scratch, uint64_t tiles,
                     uint64_t from, uint64_t to, uint64_t count, tenon_error *error)
{
    move self = {.from = array,
                 .scratch = scratch,
                 .from_tiles = cache->tiles,
                 .to_tiles = tiles,
                 .from_first = from,
                 .count = count,
                 .shape = shape};
    int32_t status = record_move(queue, cache, &self, error);

    if (status != TENON_OK) return status;
    self = (move){.to = array,
                  .scratch = scratch,
                  .from_tiles = tiles,
                  .to_tiles = cache->tiles,
                  .to_first = to,
                  .count = count,
                  .shape = shape};
    return record_move(queue, cache, &self, error);
}

/* Closes the gap [first, first + gone); keys are rotated anew for the place they come to. */
static int32_t record_evict(tenon_device_queue *queue, const tenon_device_cache *cache,
                            uint64_t first, uint64_t gone, tenon_error *error)
{
    uint64_t behind = first + gone, left = cache->length - behind, done, count;
    uint64_t tiles = tenon_ceil_div_u64(vulkan_least(left, MOVED_POSITIONS), TILE_POSITIONS);
    vulkan_memory *keys = cache->plain != NULL ? cache->plain : cache->k;
    int32_t status = TENON_OK;
    vulkan_span scratch;
    move turn;

    if (left == 0) return record_length(queue, cache, first, 0, error);
    status = vulkan_scratch(queue, VULKAN_MAIN,
                            cache->desc.kv_heads * tiles * TILE_POSITIONS * cache->heads_v * 16,
                            &scratch, error);
    for (done = 0; done < left && status == TENON_OK; done += count) {
        count = vulkan_least(left - done, MOVED_POSITIONS);
        status = shift(queue, cache, keys, VULKAN_MOVE_KEYS, scratch, tiles, behind + done,
                       first + done, count, error);
        if (status == TENON_OK)
            status = shift(queue, cache, cache->v, VULKAN_MOVE_VALUES, scratch, tiles,
                           behind + done, first + done, count, error);
    }
    if (status == TENON_OK && cache->plain != NULL) {
        turn = (move){.from = cache->plain,
                      .to = cache->k,
                      .from_tiles = cache->tiles,
                      .to_tiles = cache->tiles,
                      .from_first = first,
                      .to_first = first,
                      .count = left,
                      .shape = VULKAN_MOVE_KEYS,
                      .rotate = 1};
        status = record_move(queue, cache, &turn, error);
    }
    return status == TENON_OK ? record_length(queue, cache, first + left, 0, error) : status;
}

int32_t TENON_CALL vulkan_cache_evict(tenon_device *device, tenon_device_queue *queue,
                                      tenon_device_cache *cache, uint64_t first, uint64_t count,
                                      tenon_error *error)
{
    int32_t status = check_change(device, queue, cache, error);
    uint32_t steps;

    if (status != TENON_OK) return status;
    if ((cache->desc.flags & TENON_CACHE_EVICTABLE) == 0)
        return tenon_fail(error, TENON_STATE, TENON_REASON_NOT_EVICTABLE, TENON_SCOPE_CALL,
                          "the cache was not made evictable");
    if (first > cache->length || count > cache->length - first)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_INDEX, TENON_SCOPE_CALL,
                                 first > cache->length ? first : count,
                                 first > cache->length ? cache->length : cache->length - first,
                                 "the cache does not hold all of these positions");
    if (count == 0) return TENON_OK;
    status = vulkan_call_begin(queue, error);
    if (status != TENON_OK) return status;
    steps = queue->recording->steps;
    status = record_evict(queue, cache, first, count, error);
    if (status != TENON_OK && queue->recording->steps != steps)
        return vulkan_call_spoiled(queue, status, error);
    if (status == TENON_OK) status = vulkan_call_end(queue, 0, error);
    if (status == TENON_OK) cache->length -= count;
    return status;
}
