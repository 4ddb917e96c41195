/* A host of a few plain loops, for tests of the engine: it computes every operation in order, and
 * can fail or lose everything at a chosen call. Linked in place of libtenon. Only F32 weights. */
#ifndef TENON_TESTS_ENGINE_HOST_H
#define TENON_TESTS_ENGINE_HOST_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/engine.h>

/* Check's own assertions tell its parent process about every success, which is slow. */
#define must(condition) \
    do { \
        if (!(condition)) ck_abort_msg("the engine broke a rule: %s", #condition); \
    } while (0)

struct tenon_session {
    int unused;
};
struct tenon_queue {
    int unused;
};
struct tenon_weight {
    const float *values;
    uint64_t rows, cols;
};
struct tenon_cache {
    tenon_cache_desc desc;
    float *table, *k, *v; /* [capacity][kv_heads][head_size], k un-rotated */
    uint64_t length;
    bool lost;
};

struct tenon_buffer {
    char *bytes;
    uint64_t size;
    bool lost, kept; /* what it held; a write makes it good again. kept: the host has a copy */
};

static struct {
    uint64_t calls;   /* on a queue, so far */
    uint64_t fail_at; /* the call with this number (from 1) fails; 0: none */
    int32_t status;   /* with this; TENON_LOST loses all caches that exist then */
    uint64_t again;   /* and every so many calls after it, as often as: */
    uint64_t times;
    uint64_t weights, caches, cache_at; /* alive; caches: creation number cache_at fails */
    uint64_t cache_makes, most_tokens;
    bool capture;              /* graphs are captured; else they only could be made call by call */
    uint64_t graphs, launches; /* alive, made */
    struct tenon_cache *live[256];
    struct tenon_buffer *buffers[256];
    uint64_t buffer_count, buffer_makes, buffer_at; /* creation number buffer_at fails */
} machine;

static struct tenon_session the_session;
static struct tenon_queue the_queue;

static int32_t refuse(tenon_error *error, int32_t status)
{
    return tenon_fail(error, status, TENON_REASON_NONE, TENON_SCOPE_CALL, "made to fail");
}

static int32_t count_call(tenon_error *error)
{
    size_t i;
    machine.calls++;
    if (machine.fail_at == 0 || machine.calls != machine.fail_at) return TENON_OK;
    if (machine.times > 1) {
        machine.times--;
        machine.fail_at += machine.again;
    }
    for (i = 0; machine.status == TENON_LOST && i < 256; i++)
        if (machine.live[i] != NULL) machine.live[i]->lost = true;
    for (i = 0; machine.status == TENON_LOST && i < 256; i++)
        if (machine.buffers[i] != NULL && !machine.buffers[i]->kept)
            machine.buffers[i]->lost = true;
    return refuse(error, machine.status);
}

static char *memory_of(const tenon_view *view)
{
    const struct tenon_buffer *buffer = view->buffer;
    must((view->host != NULL) != (buffer != NULL));
    if (buffer == NULL) return (char *)view->host + view->offset;
    must(view->offset <= buffer->size && view->bytes <= buffer->size - view->offset);
    return buffer->bytes + view->offset;
}

/* An input: what was lost must not be read. */
static void *at(const tenon_view *view)
{
    must(view->buffer == NULL || !((struct tenon_buffer *)view->buffer)->lost);
    return memory_of(view);
}

/* An output. */
static void *to(const tenon_view *view)
{
    struct tenon_buffer *buffer = view->buffer;
    if (buffer != NULL) buffer->lost = buffer->kept = false;
    return memory_of(view);
}

int32_t tenon_buffer_create(tenon_session *session, uint64_t bytes, tenon_buffer **out,
                            tenon_error *error)
{
    tenon_buffer *made;
    size_t i = 0;
    must(session == &the_session && bytes > 0 && bytes % 4 == 0);
    machine.buffer_makes++;
    if (machine.buffer_at != 0 && machine.buffer_makes == machine.buffer_at)
        return refuse(error, TENON_NOMEM);
    made = calloc(1, sizeof *made);
    must(made != NULL);
    made->bytes = malloc((size_t)bytes);
    must(made->bytes != NULL);
    memset(made->bytes, 0xff, (size_t)bytes); /* NaN: what nobody wrote shows */
    made->size = bytes;
    while (i < 256 && machine.buffers[i] != NULL) i++;
    must(i < 256);
    machine.buffers[i] = made;
    machine.buffer_count++;
    *out = made;
    return TENON_OK;
}

void tenon_buffer_destroy(tenon_buffer *buffer)
{
    size_t i = 0;
    if (buffer == NULL) return;
    while (machine.buffers[i] != buffer) must(++i < 256);
    machine.buffers[i] = NULL;
    machine.buffer_count--;
    free(buffer->bytes);
    free(buffer);
}

int32_t tenon_buffer_write(tenon_queue *queue, tenon_buffer *buffer, uint64_t offset,
                           const void *from, uint64_t bytes, tenon_error *error)
{
    (void)error;
    must(queue == &the_queue && offset + bytes <= buffer->size);
    memcpy(buffer->bytes + offset, from, (size_t)bytes);
    buffer->lost = false;
    buffer->kept = true;
    return TENON_OK;
}

/* Where late failures show. */
int32_t tenon_buffer_read(tenon_queue *queue, tenon_buffer *buffer, uint64_t offset, void *into,
                          uint64_t bytes, tenon_error *error)
{
    must(queue == &the_queue && offset + bytes <= buffer->size);
    if (!buffer->kept && count_call(error) != TENON_OK) return machine.status;
    must(!buffer->lost);
    memcpy(into, buffer->bytes + offset, (size_t)bytes);
    return TENON_OK;
}

tenon_queue *tenon_session_queue(tenon_session *session)
{
    must(session == &the_session);
    return &the_queue;
}

int32_t tenon_weight_create(tenon_session *session, const tenon_weight_desc *desc,
                            const tenon_weight_data *data, tenon_weight **out, tenon_error *error)
{
    tenon_weight *made = malloc(sizeof *made);
    (void)session;
    (void)error;
    must(made != NULL);
    must(desc->format == TENON_FORMAT_F32);
    must(data->weights_bytes == 4 * desc->rows * desc->cols);
    *made = (tenon_weight){data->weights, desc->rows, desc->cols};
    machine.weights++;
    *out = made;
    return TENON_OK;
}

void tenon_weight_destroy(tenon_weight *weight)
{
    if (weight == NULL) return;
    machine.weights--;
    free(weight);
}

int32_t tenon_weight_info(tenon_weight *weight, tenon_weight_information *out, tenon_error *error)
{
    (void)weight;
    (void)error;
    out->prepared_bytes = TENON_UNKNOWN;
    return TENON_OK;
}

/* ---- graphs: a tape of calls, made again at each launch ---- */

enum { ON_EMBED, ON_RMSNORM, ON_QMATMUL, ON_GATED, ON_ADD, ON_ARGMAX, ON_APPEND, ON_ATTENTION };

typedef struct taped {
    int kind;
    union {
        tenon_embed_call embed;
        tenon_rmsnorm_call rmsnorm;
        tenon_qmatmul_call qmatmul;
        tenon_gated_call gated;
        tenon_add_call add;
        tenon_argmax_call argmax;
        tenon_append_call append;
        tenon_attention_call attention;
    } call;
} taped;

struct tenon_graph {
    taped calls[256];
    size_t count;
};
static tenon_graph *tape;

/* true: the call went to the tape. */
static bool taking(int kind, const void *call, size_t size)
{
    if (tape == NULL) return false;
    must(tape->count < 256);
    tape->calls[tape->count].kind = kind;
    memcpy(&tape->calls[tape->count++].call, call, size);
    return true;
}
#define TAKE(kind) \
    if (taking((kind), call, sizeof *call)) return TENON_OK

static int32_t do_embed(tenon_queue *queue, const tenon_embed_call *call, tenon_error *error)
{
    const tenon_weight *w = call->weight;
    const uint32_t *ids = at(&call->ids);
    float *y = to(&call->y);
    uint64_t s, i;
    int32_t status = count_call(error);
    must(queue == &the_queue);
    if (status != TENON_OK) return status;
    if (call->tokens > machine.most_tokens) machine.most_tokens = call->tokens;
    for (s = 0; s < call->tokens; s++)
        for (i = 0; i < w->cols; i++)
            y[s * w->cols + i] = w->values[ids[s] * w->cols + i] * call->scale;
    return TENON_OK;
}

static int32_t do_rmsnorm(tenon_queue *queue, const tenon_rmsnorm_call *call, tenon_error *error)
{
    const float *x = at(&call->x), *w = at(&call->w);
    float *y = to(&call->y);
    uint64_t group, i, n = call->width;
    int32_t status = count_call(error);
    (void)queue;
    must(x != y);
    if (status != TENON_OK) return status;
    for (group = 0; group < call->tokens * call->groups; group++) {
        float sum = 0.0f;
        for (i = 0; i < n; i++) sum += x[group * n + i] * x[group * n + i];
        sum = 1.0f / sqrtf(sum / (float)n + call->eps);
        for (i = 0; i < n; i++) y[group * n + i] = x[group * n + i] * sum * w[i];
    }
    return TENON_OK;
}

static int32_t do_qmatmul(tenon_queue *queue, const tenon_qmatmul_call *call, tenon_error *error)
{
    const float *x = at(&call->x);
    uint32_t n;
    uint64_t s, o, i;
    int32_t status = count_call(error);
    (void)queue;
    if (status != TENON_OK) return status;
    for (n = 0; n < call->output_count; n++) {
        const tenon_weight *w = call->outputs[n].weight;
        float *y = to(&call->outputs[n].y);
        must(call->x_row_stride == 4 * w->cols);
        must(call->outputs[n].y.bytes >= 4 * call->tokens * w->rows);
        for (s = 0; s < call->tokens; s++)
            for (o = 0; o < w->rows; o++) {
                float sum = 0.0f;
                for (i = 0; i < w->cols; i++)
                    sum += w->values[o * w->cols + i] * x[s * w->cols + i];
                y[s * w->rows + o] = sum;
            }
    }
    return TENON_OK;
}

static int32_t do_gated(tenon_queue *queue, const tenon_gated_call *call, tenon_error *error)
{
    const float *gate = at(&call->gate), *up = at(&call->up);
    float *y = to(&call->y);
    uint64_t i;
    int32_t status = count_call(error);
    (void)queue;
    if (status != TENON_OK) return status;
    for (i = 0; i < call->tokens * call->width; i++)
        y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
    return TENON_OK;
}

static int32_t do_add(tenon_queue *queue, const tenon_add_call *call, tenon_error *error)
{
    const float *a = at(&call->a), *b = at(&call->b);
    float *y = to(&call->y);
    uint64_t i;
    int32_t status = count_call(error);
    (void)queue;
    must(y != a && y != b);
    if (status != TENON_OK) return status;
    for (i = 0; i < call->tokens * call->width; i++) y[i] = a[i] + b[i];
    return TENON_OK;
}

static int32_t do_argmax(tenon_queue *queue, const tenon_argmax_call *call, tenon_error *error)
{
    const float *x = at(&call->x);
    uint32_t *y = to(&call->y), best = TENON_ARGMAX_NONE;
    uint64_t i;
    int32_t status = count_call(error);
    (void)queue;
    if (status != TENON_OK) return status;
    for (i = 0; i < call->width; i++)
        if (!isnan(x[i]) && (best == TENON_ARGMAX_NONE || x[i] > x[best])) best = (uint32_t)i;
    *y = best;
    return TENON_OK;
}

/* ---- caches ---- */

int32_t tenon_cache_create(tenon_session *session, const tenon_cache_desc *desc, tenon_cache **out,
                           tenon_error *error)
{
    uint64_t size = desc->capacity * desc->kv_heads * desc->head_size;
    tenon_cache *made;
    size_t i;
    (void)session;
    machine.cache_makes++;
    if (machine.cache_makes == machine.cache_at) return refuse(error, TENON_NOMEM);
    made = calloc(1, sizeof *made);
    must(made != NULL);
    made->desc = *desc;
    made->k = calloc((size_t)size, sizeof(float));
    made->v = calloc((size_t)size, sizeof(float));
    made->table = malloc((size_t)desc->table_bytes);
    must(made->k != NULL && made->v != NULL && made->table != NULL);
    must(desc->table_bytes == desc->capacity * desc->rotary * sizeof(float));
    memcpy(made->table, desc->table, (size_t)desc->table_bytes);
    for (i = 0; i < 256 && machine.live[i] != NULL; i++)
        ;
    must(i < 256);
    machine.live[i] = made;
    machine.caches++;
    *out = made;
    return TENON_OK;
}

void tenon_cache_destroy(tenon_cache *cache)
{
    size_t i;
    if (cache == NULL) return;
    for (i = 0; i < 256; i++)
        if (machine.live[i] == cache) machine.live[i] = NULL;
    machine.caches--;
    free(cache->k);
    free(cache->v);
    free(cache->table);
    free(cache);
}

int32_t tenon_cache_length(tenon_cache *cache, uint64_t *length, tenon_error *error)
{
    if (cache->lost) return refuse(error, TENON_LOST);
    *length = cache->length;
    return TENON_OK;
}

int32_t tenon_cache_bytes(tenon_cache *cache, uint64_t *bytes, tenon_error *error)
{
    (void)error;
    *bytes = cache->desc.capacity;
    return TENON_OK;
}

int32_t tenon_cache_truncate(tenon_queue *queue, tenon_cache *cache, uint64_t length,
                             tenon_error *error)
{
    (void)queue;
    if (cache->lost) return refuse(error, TENON_LOST);
    must(length <= cache->length);
    cache->length = length;
    return TENON_OK;
}

int32_t tenon_cache_evict(tenon_queue *queue, tenon_cache *cache, uint64_t first, uint64_t count,
                          tenon_error *error)
{
    uint64_t row = cache->desc.kv_heads * cache->desc.head_size;
    uint64_t behind = cache->length - first - count;
    int32_t status = count_call(error);
    (void)queue;
    if (cache->lost) return refuse(error, TENON_LOST);
    if (status != TENON_OK) return status;
    must((cache->desc.flags & TENON_CACHE_EVICTABLE) != 0);
    must(first + count <= cache->length);
    memmove(cache->k + first * row, cache->k + (first + count) * row, (size_t)(behind * row * 4));
    memmove(cache->v + first * row, cache->v + (first + count) * row, (size_t)(behind * row * 4));
    cache->length -= count;
    return TENON_OK;
}

static int32_t do_append(tenon_queue *queue, const tenon_append_call *call, tenon_error *error)
{
    tenon_cache *cache = call->cache;
    uint64_t row = cache->desc.kv_heads * cache->desc.head_size;
    int32_t status = count_call(error);
    (void)queue;
    if (cache->lost) return refuse(error, TENON_LOST);
    if (status != TENON_OK) return status;
    must(cache->length + call->tokens <= cache->desc.capacity);
    memcpy(cache->k + cache->length * row, at(&call->k), (size_t)(call->tokens * row * 4));
    memcpy(cache->v + cache->length * row, at(&call->v), (size_t)(call->tokens * row * 4));
    cache->length += call->tokens;
    return TENON_OK;
}

static void rotate(const tenon_cache *cache, const float *x, uint64_t position, float *y)
{
    uint64_t pairs = cache->desc.rotary / 2, i;
    memcpy(y, x, (size_t)cache->desc.head_size * sizeof *y);
    for (i = 0; i < pairs; i++) {
        const float *turn = cache->table + (position * pairs + i) * 2;
        uint64_t a = cache->desc.pairing == TENON_ROPE_HALVES ? i : 2 * i;
        uint64_t b = cache->desc.pairing == TENON_ROPE_HALVES ? i + pairs : 2 * i + 1;
        y[a] = x[a] * turn[0] - x[b] * turn[1];
        y[b] = x[b] * turn[0] + x[a] * turn[1];
    }
}

static void attend(const tenon_cache *cache, const float *q, uint64_t position, uint64_t group,
                   float scale, float *y)
{
    uint64_t size = cache->desc.head_size, row = cache->desc.kv_heads * size, t, i;
    uint64_t first = 0;
    float weight[64], turned[2][64], sum = 0.0f;
    must(position < 64 && size <= 64);
    if (cache->desc.window != 0 && position + 1 > cache->desc.window)
        first = position + 1 - cache->desc.window;
    rotate(cache, q, position, turned[0]);
    memset(y, 0, (size_t)size * sizeof *y);
    for (t = first; t <= position; t++) {
        float score = 0.0f;
        rotate(cache, cache->k + t * row + group * size, t, turned[1]);
        for (i = 0; i < size; i++) score += turned[0][i] * turned[1][i];
        weight[t] = expf(score * scale);
        sum += weight[t];
    }
    for (t = first; t <= position; t++)
        for (i = 0; i < size; i++) y[i] += weight[t] / sum * cache->v[t * row + group * size + i];
}

static int32_t do_attention(tenon_queue *queue, const tenon_attention_call *call,
                            tenon_error *error)
{
    const tenon_cache *cache = call->cache;
    const float *q = at(&call->q);
    float *y = to(&call->y);
    uint64_t size = cache->desc.head_size, s, h;
    int32_t status = count_call(error);
    (void)queue;
    if (cache->lost) return refuse(error, TENON_LOST);
    if (status != TENON_OK) return status;
    must(call->tokens <= cache->length);
    for (s = 0; s < call->tokens; s++)
        for (h = 0; h < call->heads; h++)
            attend(cache, q + (s * call->heads + h) * size, cache->length - call->tokens + s,
                   h / (call->heads / cache->desc.kv_heads), call->scale,
                   y + (s * call->heads + h) * size);
    return TENON_OK;
}

int32_t tenon_embed(tenon_queue *queue, const tenon_embed_call *call, tenon_error *error)
{
    TAKE(ON_EMBED);
    return do_embed(queue, call, error);
}

int32_t tenon_rmsnorm(tenon_queue *queue, const tenon_rmsnorm_call *call, tenon_error *error)
{
    TAKE(ON_RMSNORM);
    return do_rmsnorm(queue, call, error);
}

int32_t tenon_qmatmul(tenon_queue *queue, const tenon_qmatmul_call *call, tenon_error *error)
{
    TAKE(ON_QMATMUL);
    return do_qmatmul(queue, call, error);
}

int32_t tenon_gated(tenon_queue *queue, const tenon_gated_call *call, tenon_error *error)
{
    TAKE(ON_GATED);
    return do_gated(queue, call, error);
}

int32_t tenon_add(tenon_queue *queue, const tenon_add_call *call, tenon_error *error)
{
    TAKE(ON_ADD);
    return do_add(queue, call, error);
}

int32_t tenon_argmax(tenon_queue *queue, const tenon_argmax_call *call, tenon_error *error)
{
    TAKE(ON_ARGMAX);
    return do_argmax(queue, call, error);
}

int32_t tenon_append(tenon_queue *queue, const tenon_append_call *call, tenon_error *error)
{
    TAKE(ON_APPEND);
    return do_append(queue, call, error);
}

int32_t tenon_attention(tenon_queue *queue, const tenon_attention_call *call, tenon_error *error)
{
    TAKE(ON_ATTENTION);
    return do_attention(queue, call, error);
}

int32_t tenon_graph_begin(tenon_queue *queue, tenon_error *error)
{
    (void)error;
    must(queue == &the_queue && tape == NULL);
    tape = calloc(1, sizeof *tape);
    must(tape != NULL);
    return TENON_OK;
}

int32_t tenon_graph_end(tenon_queue *queue, tenon_graph **out, tenon_error *error)
{
    (void)queue;
    (void)error;
    must(tape != NULL && tape->count > 0);
    *out = tape;
    tape = NULL;
    machine.graphs++;
    return TENON_OK;
}

void tenon_graph_abort(tenon_queue *queue)
{
    (void)queue;
    free(tape);
    tape = NULL;
}

void tenon_graph_destroy(tenon_graph *graph)
{
    if (graph == NULL) return;
    machine.graphs--;
    free(graph);
}

int32_t tenon_graph_info(tenon_graph *graph, tenon_graph_information *out, tenon_error *error)
{
    (void)error;
    out->calls = graph->count;
    out->captured = machine.capture;
    return TENON_OK;
}

int32_t tenon_graph_launch(tenon_queue *queue, tenon_graph *graph, tenon_error *error)
{
    int32_t status = TENON_OK;
    size_t i;
    must(machine.capture && tape == NULL);
    machine.launches++;
    for (i = 0; i < graph->count && status == TENON_OK; i++) {
        const taped *one = &graph->calls[i];
        switch (one->kind) {
        case ON_EMBED: status = do_embed(queue, &one->call.embed, error); break;
        case ON_RMSNORM: status = do_rmsnorm(queue, &one->call.rmsnorm, error); break;
        case ON_QMATMUL: status = do_qmatmul(queue, &one->call.qmatmul, error); break;
        case ON_GATED: status = do_gated(queue, &one->call.gated, error); break;
        case ON_ADD: status = do_add(queue, &one->call.add, error); break;
        case ON_ARGMAX: status = do_argmax(queue, &one->call.argmax, error); break;
        case ON_APPEND: status = do_append(queue, &one->call.append, error); break;
        default: status = do_attention(queue, &one->call.attention, error); break;
        }
    }
    return status;
}

#endif
