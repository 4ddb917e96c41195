/* Recorded sequences: recording does nothing, a launch does what the calls would do now. */
#include "graph.h"

#include "data.h"
#include "device_memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MARK 0x5b
#define EMPTY_ERROR \
    { \
        TENON_HEAD(tenon_error), .status = TENON_OK \
    }
#define GOOD(call, what) device_memory_good(call, &error, what, result)

static bool offered(const direct *self, conformance_result *result)
{
    if (!device_memory_offered(self, result)) return false;
    if (self->module->graph.begin != NULL) return true;
    conformance_set(result, CONFORMANCE_UNSUPPORTED, "graph_v1 is not offered");
    return false;
}

/* ---- recording ------------------------------------------------------------------------------ */

/* False: UNSUPPORTED where the provider records nothing now. */
static bool begin(direct *self, direct_device *on, conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    int32_t status = direct_graph_begin(self, on, &error);
    if (status != TENON_DECLINED) return GOOD(status, "begin");
    conformance_set(result, CONFORMANCE_UNSUPPORTED, "begin declined: %s", error.text);
    return false;
}

static bool end(direct *self, direct_device *on, tenon_device_graph **out,
                conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    if (!GOOD(direct_graph_end(self, on, out, &error), "end")) return false;
    return *out != NULL || conformance_fail(result, "end answers OK and NULL");
}

static bool launch(direct *self, direct_device *on, tenon_device_graph *graph,
                   conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    return GOOD(direct_graph_launch(self, on, graph, &error), "launch");
}

static void release(direct *self, direct_device *on, tenon_device_graph *graph)
{
    self->module->graph.release(on->device, graph); /* NULL is allowed */
}

/* ---- buffers -------------------------------------------------------------------------------- */

static tenon_device_buffer *buffer(direct *self, direct_device *on, uint64_t bytes,
                                   const void *from, conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    tenon_device_buffer *made = NULL;
    if (GOOD(direct_alloc(self, on, bytes, &made, &error), "alloc") &&
        GOOD(direct_write(self, on, made, 0, from, bytes, &error), "write"))
        return made;
    if (made != NULL) self->module->memory.free(on->device, made);
    return NULL;
}

static bool put(direct *self, direct_device *on, tenon_device_buffer *to, const void *from,
                uint64_t bytes, conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    return GOOD(direct_write(self, on, to, 0, from, bytes, &error), "write");
}

static bool get(direct *self, direct_device *on, const tenon_device_buffer *from, void *to,
                uint64_t bytes, conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    return GOOD(direct_read(self, on, from, 0, to, bytes, &error), "read");
}

static void free_all(direct *self, direct_device *on, tenon_device_buffer *const *buffers,
                     uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++)
        if (buffers[i] != NULL) self->module->memory.free(on->device, buffers[i]);
}

static tenon_view view(tenon_device_buffer *of, uint64_t bytes)
{
    return (tenon_view){.buffer = of, .bytes = bytes};
}

static bool same_floats(const float *a, const float *b, uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], 4) != 0 && (!isnan(a[i]) || !isnan(b[i]))) return false;
    return true;
}

/* ---- each operation ------------------------------------------------------------------------- */

/* A request whose views lie in buffers, with marks around them, and for attention its cache. */
typedef struct recorded {
    sample request;
    tenon_device_buffer *buffers[SAMPLE_VIEWS];
    guarded images[SAMPLE_VIEWS]; /* what the buffers hold before a launch */
    guarded wanted[2];            /* of the inputs as they are, and of changed ones */
    tenon_device_cache *cache;
    tenon_device_graph *graph;
} recorded;

static uint64_t offset_of(uint32_t i)
{
    return 4 * (3 + 5 * (uint64_t)i);
}

/* Changes the first input, and the second time changes it back: its words in opposite order. */
static void turn(sample *request)
{
    guarded *memory = &request->views[0].memory;
    uint64_t i, count = memory->bytes / 4;
    for (i = 0; i < count / 2; i++) {
        uint8_t *a = memory->data + 4 * i, *b = memory->data + 4 * (count - 1 - i);
        uint32_t word;
        memcpy(&word, a, 4);
        memcpy(a, b, 4);
        memcpy(b, &word, 4);
    }
}

/* The right answers, call by call over host memory. */
static bool find_wanted(recorded *it, direct *self, direct_device *on, conformance_result *result)
{
    const sample_view *y = sample_result(&it->request);
    uint32_t i;
    for (i = 0; i < 2; i++) {
        tenon_error error = EMPTY_ERROR;
        int32_t status = sample_run(&it->request, self, on, &error);
        if (status == TENON_DECLINED) {
            conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
            return false;
        }
        if (!GOOD(status, sample_name(it->request.kind))) return false;
        if (!guarded_copy(&it->wanted[i], y->memory.data, y->memory.bytes, 0))
            return conformance_fail(result, "out of memory");
        turn(&it->request);
    }
    return true;
}

/* Moves a view into a buffer of its own. */
static bool place(recorded *it, uint32_t i, direct *self, direct_device *on,
                  conformance_result *result)
{
    sample_view *one = &it->request.views[i];
    const uint64_t bytes = offset_of(i) + one->memory.bytes + 20;
    if (!guarded_make(&it->images[i], bytes, 0)) return conformance_fail(result, "out of memory");
    memset(it->images[i].data, MARK, bytes);
    memcpy(it->images[i].data + offset_of(i), one->memory.data, one->memory.bytes);
    it->buffers[i] = buffer(self, on, bytes, it->images[i].data, result);
    *one->view = (tenon_view){
        .buffer = it->buffers[i], .offset = offset_of(i), .bytes = one->memory.bytes};
    return it->buffers[i] != NULL;
}

/* Records the request. False: dropped. */
static bool record(recorded *it, direct *self, direct_device *on, conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    sample *request = &it->request;
    int32_t status;
    if (request->kind == SAMPLE_ATTENTION) {
        if (!GOOD(direct_cache_create(self, on, &request->cache, &it->cache, &error), "create"))
            return false;
        request->append.cache = request->attention.cache = it->cache;
    }
    if (!begin(self, on, result)) return false;
    if (request->kind == SAMPLE_ATTENTION) {
        status = direct_append(self, on, &request->append, &error);
        if (status == TENON_OK) status = direct_attention(self, on, &request->attention, &error);
    } else {
        status = sample_run(request, self, on, &error);
    }
    if (status == TENON_OK) return end(self, on, &it->graph, result);
    self->module->graph.abort(on->device, on->queue);
    if (status != TENON_DECLINED) return GOOD(status, sample_name(request->kind));
    conformance_set(result, CONFORMANCE_UNSUPPORTED, "not recorded: %s", error.text);
    return false;
}

/* Does every buffer hold what it should? wanted: of the result, NULL: what it held at first. */
static bool check(recorded *it, direct *self, direct_device *on, const uint8_t *wanted,
                  const char *when, conformance_result *result)
{
    uint32_t i;
    for (i = 0; i < it->request.view_count; i++) {
        const sample_view *one = &it->request.views[i];
        const uint64_t start = offset_of(i), bytes = it->images[i].bytes;
        guarded now = {0};
        bool good = guarded_make(&now, bytes, GUARDED_AT_END) ||
                    conformance_fail(result, "out of memory");
        good = good && get(self, on, it->buffers[i], now.data, bytes, result);
        if (good && one->written && wanted != NULL &&
            !sample_same(&it->request, now.data + start, wanted, one->memory.bytes))
            good = conformance_fail(result, "%s: other bits than call by call", when);
        if (good && one->written && wanted != NULL)
            memcpy(now.data + start, it->images[i].data + start, one->memory.bytes);
        if (good && memcmp(now.data, it->images[i].data, bytes) != 0)
            good = conformance_fail(result, "%s: view %s was written%s", when, one->name,
                                    one->written && wanted != NULL ? " beside" : "");
        guarded_free(&now);
        if (!good) return false;
    }
    return true;
}

/* Launches over an empty cache, where there is one. */
static bool launch_anew(recorded *it, direct *self, direct_device *on, conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    if (it->cache != NULL &&
        !GOOD(self->module->attention.truncate(on->device, on->queue, it->cache, 0, NULL),
              "truncate"))
        return false;
    return launch(self, on, it->graph, result);
}

/* Gives the first input its other contents, on the device too. */
static bool turn_placed(recorded *it, direct *self, direct_device *on, conformance_result *result)
{
    const guarded *memory = &it->request.views[0].memory;
    turn(&it->request);
    memcpy(it->images[0].data + offset_of(0), memory->data, memory->bytes);
    return put(self, on, it->buffers[0], it->images[0].data, it->images[0].bytes, result);
}

bool graph_operation(direct *self, direct_device *on, sample_kind kind, conformance_result *result)
{
    recorded it = {.cache = NULL};
    bool good;
    uint32_t i;
    if (!offered(self, result)) return false;
    if (!sample_make(&it.request, self, on, kind, result)) return false;
    good = find_wanted(&it, self, on, result);
    if (good) sample_poison(&it.request); /* what lies between its rows stays */
    for (i = 0; good && i < it.request.view_count; i++) good = place(&it, i, self, on, result);
    good = good && record(&it, self, on, result) &&
           check(&it, self, on, NULL, "recorded, not launched", result) &&
           launch_anew(&it, self, on, result) &&
           check(&it, self, on, it.wanted[0].data, "launched", result) &&
           turn_placed(&it, self, on, result) && launch_anew(&it, self, on, result) &&
           launch_anew(&it, self, on, result) &&
           check(&it, self, on, it.wanted[1].data, "launched over another input", result) &&
           turn_placed(&it, self, on, result) && launch_anew(&it, self, on, result);
    release(self, on, it.graph); /* perhaps in flight */
    good = good && check(&it, self, on, it.wanted[0].data, "released behind its launch", result);
    if (it.cache != NULL) self->module->attention.free(on->device, it.cache);
    free_all(self, on, it.buffers, SAMPLE_VIEWS);
    for (i = 0; i < SAMPLE_VIEWS; i++) guarded_free(&it.images[i]);
    for (i = 0; i < 2; i++) guarded_free(&it.wanted[i]);
    sample_free(&it.request, self, on);
    return good;
}

/* ---- a cache that changes ------------------------------------------------------------------- */

enum {
    KV_HEADS = 2,
    HEADS = 4,
    HEAD = 10,
    CAPACITY = 280,
    KV = KV_HEADS * HEAD,
    ROW = HEADS * HEAD,
    PREFILL = 250 /* a launch or two before the first edge of a segment */
};

/* Two caches with the same history: one by launches, the other call by call. */
typedef struct twins {
    direct *self;
    direct_device *on;
    conformance_result *result;
    random_state random;
    tenon_device_cache *caches[2];
    tenon_device_buffer *buffers[5]; /* k, v, q, and the results of both */
    tenon_device_graph *graph;
    uint64_t length;
} twins;

static void fill(twins *it, float *to, uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++) to[i] = random_normal(&it->random);
}

static int32_t call_step(twins *it, uint32_t which, tenon_error *error)
{
    const tenon_append_call append = {TENON_HEAD(tenon_append_call),
                                      .cache = it->caches[which],
                                      .k = view(it->buffers[0], KV * 4),
                                      .v = view(it->buffers[1], KV * 4),
                                      .tokens = 1,
                                      .k_row_stride = KV * 4,
                                      .v_row_stride = KV * 4};
    const tenon_attention_call attend = {TENON_HEAD(tenon_attention_call),
                                         .cache = it->caches[which],
                                         .q = view(it->buffers[2], ROW * 4),
                                         .y = view(it->buffers[3 + which], ROW * 4),
                                         .tokens = 1,
                                         .heads = HEADS,
                                         .q_row_stride = ROW * 4,
                                         .y_row_stride = ROW * 4,
                                         .scale = 0.3f};
    int32_t status = direct_append(it->self, it->on, &append, error);
    return status == TENON_OK ? direct_attention(it->self, it->on, &attend, error) : status;
}

static bool check_length(twins *it, const char *when)
{
    uint64_t length = UINT64_MAX;
    int32_t status = it->self->module->attention.length(it->on->device, it->caches[0], &length,
                                                        NULL);
    if (status == TENON_OK && length == it->length) return true;
    return conformance_fail(it->result, "%s the cache holds %" PRIu64 " positions, not %" PRIu64,
                            when, length, it->length);
}

static bool steps(twins *it, uint32_t count, const char *when)
{
    conformance_result *result = it->result;
    float k[KV], v[KV], q[ROW], y[2][ROW];
    uint32_t i;
    for (i = 0; i < count; i++) {
        tenon_error error = EMPTY_ERROR;
        fill(it, k, KV);
        fill(it, v, KV);
        fill(it, q, ROW);
        if (!put(it->self, it->on, it->buffers[0], k, sizeof k, result) ||
            !put(it->self, it->on, it->buffers[1], v, sizeof v, result) ||
            !put(it->self, it->on, it->buffers[2], q, sizeof q, result) ||
            !launch(it->self, it->on, it->graph, result) ||
            !GOOD(call_step(it, 1, &error), "append and attention") ||
            !get(it->self, it->on, it->buffers[3], y[0], sizeof y[0], result) ||
            !get(it->self, it->on, it->buffers[4], y[1], sizeof y[1], result))
            return false;
        it->length++;
        if (!same_floats(y[0], y[1], ROW))
            return conformance_fail(result,
                                    "%s, a launch at %" PRIu64 " positions: other bits than call "
                                    "by call",
                                    when, it->length);
        if (!check_length(it, when)) return false;
    }
    return true;
}

static bool truncate(twins *it, uint64_t length)
{
    uint32_t i;
    for (i = 0; i < 2; i++)
        if (it->self->module->attention.truncate(it->on->device, it->on->queue, it->caches[i],
                                                 length, NULL) != TENON_OK)
            return conformance_fail(it->result, "truncate fails");
    it->length = length;
    return true;
}

static bool evict(twins *it, uint64_t first, uint64_t count)
{
    uint32_t i;
    for (i = 0; i < 2; i++)
        if (it->self->module->attention.evict(it->on->device, it->on->queue, it->caches[i], first,
                                              count, NULL) != TENON_OK)
            return conformance_fail(it->result, "evict fails");
    it->length -= count;
    return true;
}

/* Positions from host memory, the same for both, call by call. */
static bool prefill(twins *it)
{
    static float k[PREFILL * KV], v[PREFILL * KV];
    tenon_append_call append = {TENON_HEAD(tenon_append_call),
                                .k = {.host = k, .bytes = sizeof k},
                                .v = {.host = v, .bytes = sizeof v},
                                .tokens = PREFILL,
                                .k_row_stride = KV * 4,
                                .v_row_stride = KV * 4};
    conformance_result *result = it->result;
    uint32_t i;
    fill(it, k, PREFILL * KV);
    fill(it, v, PREFILL * KV);
    for (i = 0; i < 2; i++) {
        tenon_error error = EMPTY_ERROR;
        append.cache = it->caches[i];
        if (!GOOD(direct_append(it->self, it->on, &append, &error), "append")) return false;
    }
    it->length = PREFILL;
    return true;
}

static bool record_step(twins *it)
{
    tenon_error error = EMPTY_ERROR;
    int32_t status;
    if (!begin(it->self, it->on, it->result)) return false;
    status = call_step(it, 0, &error);
    if (status == TENON_OK)
        return end(it->self, it->on, &it->graph, it->result) && check_length(it, "recorded");
    it->self->module->graph.abort(it->on->device, it->on->queue);
    if (status == TENON_DECLINED)
        conformance_set(it->result, CONFORMANCE_UNSUPPORTED, "not recorded: %s", error.text);
    else
        conformance_fail(it->result, "append and attention: status %d: %s", status, error.text);
    return false;
}

/* One kind of cache. */
static bool twin_life(direct *self, direct_device *on, uint32_t type, uint64_t window,
                      conformance_result *result)
{
    static float table[CAPACITY * HEAD];
    tenon_error error = EMPTY_ERROR;
    const tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                                   .kv_heads = KV_HEADS,
                                   .head_size = HEAD,
                                   .capacity = CAPACITY,
                                   .window = window,
                                   .type = type,
                                   .pairing = TENON_ROPE_HALVES,
                                   .flags = TENON_CACHE_EVICTABLE,
                                   .rotary = HEAD,
                                   .table = table,
                                   .table_bytes = sizeof table};
    static const uint64_t bytes[5] = {KV * 4, KV * 4, ROW * 4, ROW * 4, ROW * 4};
    static const float nothing[ROW];
    twins it = {.self = self, .on = on, .result = result, .random = {window + type}};
    bool good = true;
    uint32_t i;
    for (i = 0; i < CAPACITY * HEAD / 2; i++) {
        table[2 * i] = (float)cos(0.01 * i);
        table[2 * i + 1] = (float)sin(0.01 * i);
    }
    for (i = 0; i < 2 && good; i++) {
        int32_t status = direct_cache_create(self, on, &desc, &it.caches[i], &error);
        if (status == TENON_DECLINED)
            conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
        good = status != TENON_DECLINED && GOOD(status, "create");
    }
    for (i = 0; i < 5 && good; i++) {
        it.buffers[i] = buffer(self, on, bytes[i], nothing, result);
        good = it.buffers[i] != NULL;
    }
    good = good && record_step(&it) && steps(&it, 3, "from nothing") && truncate(&it, 0) &&
           prefill(&it) && steps(&it, 12, "behind calls") && truncate(&it, 70) &&
           steps(&it, 2, "cut back") && evict(&it, 3, 40) && steps(&it, 3, "after an eviction") &&
           truncate(&it, 1) && steps(&it, 1, "cut back to one") && truncate(&it, 0) &&
           steps(&it, 2, "emptied");
    release(self, on, it.graph);
    for (i = 0; i < 2; i++)
        if (it.caches[i] != NULL) self->module->attention.free(on->device, it.caches[i]);
    free_all(self, on, it.buffers, 5);
    return good;
}

bool graph_cache(direct *self, direct_device *on, conformance_result *result)
{
    if (!offered(self, result)) return false;
    if (!sample_offered(self, SAMPLE_ATTENTION)) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "attention_v1 is not offered");
        return false;
    }
    return twin_life(self, on, TENON_CACHE_F16, 0, result) &&
           twin_life(self, on, TENON_CACHE_F32, 0, result) &&
           twin_life(self, on, TENON_CACHE_F16, 5, result) &&
           twin_life(self, on, TENON_CACHE_F32, 100, result);
}

/* ---- order ---------------------------------------------------------------------------------- */

enum { WIDTH = 37, SUM = WIDTH * 4 };

/* y = a + b */
static int32_t add(direct *self, direct_device *on, tenon_device_buffer *a, tenon_device_buffer *b,
                   tenon_device_buffer *y, tenon_error *error)
{
    const tenon_add_call call = {
        TENON_HEAD(tenon_add_call), .a = view(a, SUM),   .b = view(b, SUM),
        .y = view(y, SUM),          .tokens = 1,         .width = WIDTH,
        .a_row_stride = SUM,        .b_row_stride = SUM, .y_row_stride = SUM};
    return direct_add(self, on, &call, error);
}

static bool add_offered(const direct *self, conformance_result *result)
{
    if (!offered(self, result)) return false;
    if (sample_offered(self, SAMPLE_ADD)) return true;
    conformance_set(result, CONFORMANCE_UNSUPPORTED, "add_v1 is not offered");
    return false;
}

/* x = (x + b) + c, which no order of its parts but one gives. Buffers: x, sum, b, c. */
static int32_t two_adds(direct *self, direct_device *on, tenon_device_buffer *const *of,
                        tenon_error *error)
{
    int32_t status = add(self, on, of[0], of[2], of[1], error);
    return status == TENON_OK ? add(self, on, of[1], of[3], of[0], error) : status;
}

bool graph_order(direct *self, direct_device *on, conformance_result *result)
{
    enum { ROUNDS = 40 };
    tenon_error error = EMPTY_ERROR;
    random_state random = {7};
    float values[4][WIDTH], got[WIDTH], wanted[WIDTH];
    tenon_device_buffer *launched[4] = {NULL}, *called[4] = {NULL};
    tenon_device_graph *graph = NULL;
    bool good = true;
    uint32_t i, k;
    int32_t status;
    if (!add_offered(self, result)) return false;
    for (i = 0; i < 4 && good; i++) {
        for (k = 0; k < WIDTH; k++) values[i][k] = random_normal(&random) * (i == 3 ? 1e-3f : 1.0f);
        launched[i] = buffer(self, on, SUM, values[i], result);
        called[i] = buffer(self, on, SUM, values[i], result);
        good = launched[i] != NULL && called[i] != NULL;
    }
    good = good && begin(self, on, result);
    if (!good) goto out;
    status = two_adds(self, on, launched, &error);
    if (status != TENON_OK) {
        self->module->graph.abort(on->device, on->queue);
        if (status == TENON_DECLINED)
            conformance_set(result, CONFORMANCE_UNSUPPORTED, "not recorded: %s", error.text);
        good = status != TENON_DECLINED && GOOD(status, "add");
        goto out;
    }
    good = end(self, on, &graph, result);
    for (i = 0; i < ROUNDS && good; i++) {
        if (i % 7 == 3) { /* another b, while launches may be in flight */
            for (k = 0; k < WIDTH; k++) values[2][k] = random_normal(&random);
            good = put(self, on, launched[2], values[2], SUM, result) &&
                   put(self, on, called[2], values[2], SUM, result);
        }
        if (i % 7 == 5) /* a call made by itself between launches */
            good = good && GOOD(two_adds(self, on, launched, &error), "add");
        else
            good = good && launch(self, on, graph, result);
        good = good && GOOD(two_adds(self, on, called, &error), "add");
    }
    good = good && get(self, on, launched[0], got, SUM, result) &&
           get(self, on, called[0], wanted, SUM, result);
    if (good && !same_floats(got, wanted, WIDTH))
        good = conformance_fail(result,
                                "launches among calls and writes: other bits than call by call");
out:
    release(self, on, graph);
    free_all(self, on, launched, 4);
    free_all(self, on, called, 4);
    return good;
}

/* ---- dropped, declined, released ------------------------------------------------------------ */

static bool holds(direct *self, direct_device *on, tenon_device_buffer *of, const float *wanted,
                  const char *what, conformance_result *result)
{
    float got[WIDTH];
    if (!get(self, on, of, got, SUM, result)) return false;
    return same_floats(got, wanted, WIDTH) || conformance_fail(result, "%s", what);
}

/* A call over host memory has no place in a sequence. */
static bool host_memory(direct *self, direct_device *on, tenon_device_buffer *const *buffers,
                        float *values, conformance_result *result)
{
    float y[WIDTH], before[WIDTH];
    tenon_error error = EMPTY_ERROR;
    const tenon_add_call call = {TENON_HEAD(tenon_add_call),
                                 .a = {.host = values, .bytes = SUM},
                                 .b = view(buffers[1], SUM),
                                 .y = {.host = y, .bytes = SUM},
                                 .tokens = 1,
                                 .width = WIDTH,
                                 .a_row_stride = SUM,
                                 .b_row_stride = SUM,
                                 .y_row_stride = SUM};
    int32_t status;
    memset(y, MARK, sizeof y);
    memcpy(before, y, sizeof y);
    if (!begin(self, on, result)) return false;
    status = direct_add(self, on, &call, &error);
    self->module->graph.abort(on->device, on->queue);
    result->requests++;
    if (status != TENON_DECLINED)
        return conformance_fail(result, "host memory in a recorded call answers %d, not DECLINED",
                                status);
    return memcmp(y, before, sizeof y) == 0 ||
           conformance_fail(result, "a declined call in a recording wrote to y");
}

bool graph_dropped(direct *self, direct_device *on, conformance_result *result)
{
    tenon_error error = EMPTY_ERROR;
    float a[WIDTH], b[WIDTH], nothing[WIDTH], sum[WIDTH];
    tenon_device_buffer *buffers[3] = {NULL};
    tenon_device_graph *graph = NULL;
    bool good;
    int32_t status;
    uint32_t i;
    if (!add_offered(self, result)) return false;
    for (i = 0; i < WIDTH; i++) {
        a[i] = (float)i;
        b[i] = 0.5f;
        sum[i] = (float)i + 0.5f;
        nothing[i] = -7.0f;
    }
    buffers[0] = buffer(self, on, SUM, a, result);
    buffers[1] = buffer(self, on, SUM, b, result);
    buffers[2] = buffer(self, on, SUM, nothing, result);
    good = buffers[0] != NULL && buffers[1] != NULL && buffers[2] != NULL &&
           begin(self, on, result);
    if (!good) goto out;
    status = add(self, on, buffers[0], buffers[1], buffers[2], &error);
    self->module->graph.abort(on->device, on->queue);
    if (status == TENON_DECLINED) {
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "not recorded: %s", error.text);
        good = false;
        goto out;
    }
    good = GOOD(status, "add") &&
           holds(self, on, buffers[2], nothing, "a dropped recording wrote to y", result) &&
           host_memory(self, on, buffers, a, result) &&
           GOOD(add(self, on, buffers[0], buffers[1], buffers[2], &error), "add") &&
           holds(self, on, buffers[2], sum, "a call behind dropped recordings: other bits", result);
    for (i = 0; i < 3 && good; i++) { /* whoever does not care about errors gives none */
        good = put(self, on, buffers[2], nothing, SUM, result) &&
               GOOD(direct_graph_begin(self, on, NULL), "begin") &&
               GOOD(add(self, on, buffers[0], buffers[1], buffers[2], NULL), "add") &&
               GOOD(direct_graph_end(self, on, &graph, NULL), "end") && graph != NULL &&
               (i == 1 || GOOD(direct_graph_launch(self, on, graph, NULL), "launch"));
        release(self, on, graph);
        graph = NULL;
        good = good && holds(self, on, buffers[2], i == 1 ? nothing : sum,
                             i == 1 ? "a graph that was never launched wrote to y"
                                    : "a graph released behind its launch: other bits",
                             result);
    }
    release(self, on, NULL);
out:
    free_all(self, on, buffers, 3);
    return good;
}
