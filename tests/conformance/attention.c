/* Cases of attention: the same history on a cache of the provider and on one of the reference. */
#include "operation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CAPACITY 560u /* two segments of 256 positions and more */

typedef struct shape {
    uint64_t heads, kv_heads, head_size, window;
    uint32_t rotary_part; /* rotated inputs: head size / this, made even */
} shape;

static const shape shapes[] = {
    {4, 2, 64, 0, 1}, {9, 3, 64, 0, 1}, {4, 1, 256, 300, 1}, {3, 3, 18, 5, 2},
    {2, 1, 8, 1, 1},  {1, 1, 1, 0, 1},  {8, 2, 80, 7, 3},    {2, 2, 33, 256, 4},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* Everything of one history. Index [1]: the session under test, [0]: the reference. */
typedef struct history {
    const conformance_case *test;
    const tenon_cache_desc *desc;
    const shape *of;
    const engine_side *engine;
    random_state *random;
    conformance_result *result;
    tenon_cache *cache[2];
    data_kind kind;
    float scale;
    uint64_t tokens, pad; /* of the call on its way */
    guarded q;
    uint32_t step; /* for messages */
    /* Where failures are saved: what the cache holds, as if it had come at once. */
    guarded k, v, table;
    uint64_t length;
} history;

/* Keeps what is appended. */
static void remember(history *self, const guarded *k, const guarded *v, uint64_t tokens,
                     uint64_t width, uint64_t stride)
{
    uint64_t s;
    if (self->k.data != NULL)
        for (s = 0; s < tokens; s++) {
            memcpy(self->k.data + (self->length + s) * 4 * width, k->data + s * stride, 4 * width);
            memcpy(self->v.data + (self->length + s) * 4 * width, v->data + s * stride, 4 * width);
        }
    self->length += tokens;
}

static void forget(history *self, uint64_t first, uint64_t count)
{
    const uint64_t row = 4 * self->of->kv_heads * self->of->head_size;
    if (self->k.data != NULL) {
        uint64_t rest = (self->length - first - count) * row;
        memmove(self->k.data + first * row, self->k.data + (first + count) * row, rest);
        memmove(self->v.data + first * row, self->v.data + (first + count) * row, rest);
    }
    self->length -= count;
}

/* How `tenon op` makes the request: over a cache that got its positions at once, which gives the same
 * bits as one that had a history. */
static void describe(const history *self, save_call *save)
{
    static const char *const pairings[] = {"none", "adjacent", "halves"};
    const tenon_cache_desc *desc = self->desc;
    const uint64_t kv = 4 * self->of->kv_heads * self->of->head_size * self->length;
    const uint64_t width = self->of->heads * self->of->head_size;
    size_t used;
    save->operation = "attention";
    snprintf(save->words, sizeof save->words,
             " --tokens %" PRIu64 " --positions %" PRIu64 " --heads %" PRIu64 " --kv-heads %" PRIu64
             " --head-size %" PRIu64 " --kv %s --scale=%.9g",
             self->tokens, self->length, self->of->heads, self->of->kv_heads, self->of->head_size,
             desc->type == TENON_CACHE_F16 ? "f16" : "f32", (double)self->scale);
    used = strlen(save->words);
    if (self->of->window != 0)
        snprintf(save->words + used, sizeof save->words - used, " --window %" PRIu64,
                 self->of->window);
    used = strlen(save->words);
    if (desc->pairing != TENON_ROPE_NONE)
        snprintf(save->words + used, sizeof save->words - used, " --rope %s --rotary %" PRIu32,
                 pairings[desc->pairing], desc->rotary);
    save->parts[0] = (save_part){"k", self->k.data, 1, kv, 0};
    save->parts[1] = (save_part){"v", self->v.data, 1, kv, 0};
    save->parts[2] = (save_part){"q", self->q.data, self->tokens, 4 * width,
                                 operation_stride(width, self->pad)};
    save->parts[3] = (save_part){"table", self->table.data, 1, 4 * self->length * desc->rotary, 0};
    save->part_count = desc->pairing != TENON_ROPE_NONE ? 4 : 3;
    save->result = save->parts[2];
}

static tenon_queue *queue_of(const history *self, int tested)
{
    return tenon_session_queue(tested ? self->engine->tested : self->engine->reference);
}

/* The answers of both sides to something that writes nothing. */
static bool both_good(const history *self, const int32_t status[2], const tenon_error errors[2],
                      const char *what)
{
    int side;
    for (side = 1; side >= 0; side--)
        if (status[side] != TENON_OK)
            return conformance_fail(self->result, "step %u, %s%s: status %d, reason %u: %s",
                                    self->step, what, side == 0 ? " by the reference" : "",
                                    status[side], errors[side].reason, errors[side].text);
    return true;
}

#define TWO_ERRORS \
    { \
        {TENON_HEAD(tenon_error), .status = TENON_OK}, \
        { \
            TENON_HEAD(tenon_error), .status = TENON_OK \
        } \
    }

static bool append(history *self, uint64_t tokens)
{
    const uint64_t width = self->of->kv_heads * self->of->head_size;
    const uint64_t pad = 4 * (self->step % 3), bytes = operation_rows_bytes(tokens, width, pad);
    tenon_error errors[2] = TWO_ERRORS;
    int32_t status[2];
    guarded k = {0}, v = {0};
    int side;
    bool good = operation_floats(&k, bytes / 4, GUARDED_AT_END, self->random, self->kind,
                                 self->result) &&
                operation_floats(&v, bytes / 4, 4, self->random, self->kind, self->result);
    self->step++;
    for (side = 0; good && side < 2; side++) {
        const tenon_append_call call = {TENON_HEAD(tenon_append_call),
                                        .cache = self->cache[side],
                                        .k = {.host = k.data, .bytes = bytes},
                                        .v = {.host = v.data, .bytes = bytes},
                                        .tokens = tokens,
                                        .k_row_stride = operation_stride(width, pad),
                                        .v_row_stride = operation_stride(width, pad)};
        status[side] = tenon_append(queue_of(self, side), &call, &errors[side]);
    }
    if (good) good = both_good(self, status, errors, "append");
    if (good) remember(self, &k, &v, tokens, width, operation_stride(width, pad));
    /* host memory is free again as soon as append returns */
    guarded_free(&k);
    guarded_free(&v);
    return good;
}

static int32_t call_attention(void *context, tenon_session *session, bool tested, void *y,
                              tenon_error *error)
{
    const history *self = context;
    const uint64_t width = self->of->heads * self->of->head_size;
    const tenon_attention_call call = {
        TENON_HEAD(tenon_attention_call),
        .cache = self->cache[tested],
        .q = {.host = self->q.data, .bytes = self->q.bytes},
        .y = {.host = y, .bytes = operation_rows_bytes(self->tokens, width, self->pad)},
        .tokens = self->tokens,
        .heads = self->of->heads,
        .q_row_stride = operation_stride(width, self->pad),
        .y_row_stride = operation_stride(width, self->pad),
        .scale = self->scale};
    return tenon_attention(tenon_session_queue(session), &call, error);
}

static bool attend(history *self, uint64_t tokens)
{
    const uint64_t width = self->of->heads * self->of->head_size;
    operation_request request = {.call = call_attention, .context = self, .input_count = 1};
    bool good;
    self->step++;
    self->tokens = tokens;
    self->pad = 4 * (self->step % 4);
    request.y_bytes = operation_rows_bytes(tokens, width, self->pad);
    request.y_offset = self->step % 2 == 0 ? GUARDED_AT_END : 4;
    request.inputs[0] = &self->q;
    snprintf(request.what, sizeof request.what, "step %u, %" PRIu64 " rows", self->step, tokens);
    good = operation_floats(&self->q, request.y_bytes / 4, request.y_offset, self->random,
                            self->kind, self->result);
    if (good && self->test->save_dir != NULL) describe(self, &request.save);
    good = good && operation_compare(&request, self->test, self->engine, self->result);
    guarded_free(&self->q);
    return good;
}

static bool has_length(history *self, uint64_t expected)
{
    tenon_error errors[2] = TWO_ERRORS;
    uint64_t told[2] = {0, 0}, bytes[2] = {0, 0};
    int32_t status[2];
    int side;
    for (side = 0; side < 2; side++)
        status[side] = tenon_cache_length(self->cache[side], &told[side], &errors[side]);
    if (!both_good(self, status, errors, "length")) return false;
    for (side = 0; side < 2; side++)
        status[side] = tenon_cache_bytes(self->cache[side], &bytes[side], &errors[side]);
    if (!both_good(self, status, errors, "bytes")) return false;
    if (told[1] != expected)
        return conformance_fail(self->result, "step %u: length %" PRIu64 ", not %" PRIu64,
                                self->step, told[1], expected);
    return bytes[1] > 0 ? true : conformance_fail(self->result, "bytes is 0");
}

static bool truncate(history *self, uint64_t length)
{
    tenon_error errors[2] = TWO_ERRORS;
    int32_t status[2];
    int side;
    self->step++;
    for (side = 0; side < 2; side++)
        status[side] = tenon_cache_truncate(queue_of(self, side), self->cache[side], length,
                                            &errors[side]);
    if (!both_good(self, status, errors, "truncate")) return false;
    self->length = length;
    return true;
}

static bool evict(history *self, uint64_t first, uint64_t count)
{
    tenon_error errors[2] = TWO_ERRORS;
    int32_t status[2];
    int side;
    self->step++;
    for (side = 0; side < 2; side++)
        status[side] = tenon_cache_evict(queue_of(self, side), self->cache[side], first, count,
                                         &errors[side]);
    if (!both_good(self, status, errors, "evict")) return false;
    forget(self, first, count);
    return true;
}

/* Goes on with copies of both caches, then with the originals: neither may have changed the other.
 */
static bool on_clones(history *self)
{
    tenon_error errors[2] = TWO_ERRORS;
    tenon_cache *originals[2] = {self->cache[0], self->cache[1]}, *copies[2] = {NULL, NULL};
    int32_t status[2];
    int side;
    bool good;
    self->step++;
    for (side = 0; side < 2; side++)
        status[side] = tenon_cache_clone(queue_of(self, side), originals[side], &copies[side],
                                         &errors[side]);
    good = both_good(self, status, errors, "clone");
    if (good) {
        const uint64_t length = self->length;
        memcpy(self->cache, copies, sizeof copies);
        good = append(self, 2) && attend(self, 2);
        memcpy(self->cache, originals, sizeof originals);
        self->length = length;
    }
    good = good && attend(self, 2);
    good = good && append(self, 1) && attend(self, 1);
    for (side = 0; side < 2; side++) tenon_cache_destroy(copies[side]);
    return good;
}

static bool script(history *self)
{
    return append(self, 1) && attend(self, 1) && append(self, 5) && attend(self, 5) &&
           attend(self, 3) && append(self, 249) && attend(self, 17) && append(self, 1) &&
           attend(self, 1) && append(self, 1) && attend(self, 2) && append(self, 262) &&
           attend(self, 9) && has_length(self, 519) && evict(self, 100, 41) && attend(self, 13) &&
           append(self, 2) && attend(self, 2) && has_length(self, 480) && evict(self, 470, 10) &&
           attend(self, 1) && truncate(self, 300) && attend(self, 2) && on_clones(self) &&
           has_length(self, 301) && truncate(self, 0) && append(self, 3) && attend(self, 3) &&
           evict(self, 0, 3) && has_length(self, 0) && append(self, 2) && attend(self, 2);
}

/* cos and sin of every position and pair. */
static bool make_table(guarded *out, uint64_t rotary, conformance_result *result)
{
    float *values;
    uint64_t t, i;
    if (!guarded_make(out, CAPACITY * rotary * sizeof(float), GUARDED_AT_END))
        return conformance_fail(result, "out of memory");
    values = (float *)(void *)out->data;
    for (t = 0; t < CAPACITY; t++)
        for (i = 0; i < rotary / 2; i++) {
            double angle = (double)t * pow(10000.0, -2.0 * (double)i / (double)rotary);
            values[(t * (rotary / 2) + i) * 2] = (float)cos(angle);
            values[(t * (rotary / 2) + i) * 2 + 1] = (float)sin(angle);
        }
    return true;
}

static bool requests(const conformance_case *test, engine_side *engine, random_state *random,
                     conformance_result *result)
{
    const shape *of = &shapes[test->cols];
    tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc), .kv_heads = of->kv_heads,
                             .head_size = of->head_size,   .capacity = CAPACITY,
                             .window = of->window,         .type = test->format,
                             .pairing = test->layout,      .flags = TENON_CACHE_EVICTABLE};
    const uint64_t kept = test->save_dir != NULL ? CAPACITY * of->kv_heads * of->head_size * 4 : 0;
    history self = {.test = test,
                    .desc = &desc,
                    .of = of,
                    .engine = engine,
                    .random = random,
                    .result = result,
                    .kind = (data_kind)test->kind,
                    .scale = 1.0f / sqrtf((float)of->head_size)};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    guarded table = {0};
    int32_t status;
    bool good = false;
    if (kept != 0 && (!guarded_make(&self.k, kept, 0) || !guarded_make(&self.v, kept, 0))) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    if (desc.pairing != TENON_ROPE_NONE) {
        desc.rotary = (uint32_t)(of->head_size / of->rotary_part / 2 * 2);
        if (!make_table(&table, desc.rotary, result) ||
            (kept != 0 && !make_table(&self.table, desc.rotary, result)))
            goto out;
        desc.table = (const float *)(void *)table.data;
        desc.table_bytes = table.bytes;
    }
    status = tenon_cache_create(engine->tested, &desc, &self.cache[1], &error);
    if (engine_side_declined(status, &error)) {
        result->declined++;
        snprintf(result->detail, sizeof result->detail, "declined: %s", error.text);
        good = true;
        goto out;
    }
    if (status == TENON_OK)
        status = tenon_cache_create(engine->reference, &desc, &self.cache[0], &error);
    if (status != TENON_OK) {
        conformance_fail(result, "cache: status %d, reason %u: %s", status, error.reason,
                         error.text);
        goto out;
    }
    guarded_free(&table); /* valid during create only */
    good = script(&self);
out:
    tenon_cache_destroy(self.cache[0]);
    tenon_cache_destroy(self.cache[1]);
    guarded_free(&table);
    guarded_free(&self.k);
    guarded_free(&self.v);
    guarded_free(&self.table);
    return good;
}

static void run(const conformance_case *test, const conformance_target *target,
                conformance_result *result)
{
    operation_run(test, target, requests, result);
}

static bool add(conformance_suite *suite, uint32_t type, uint32_t pairing, size_t at,
                data_kind kind)
{
    static const char *const pairings[] = {"unrotated", "adjacent", "halves"};
    const shape *of = &shapes[at];
    char name[160];
    conformance_case *added;
    snprintf(name, sizeof name,
             "exact/attention/%s/%s/heads=%" PRIu64 "x%" PRIu64 "x%" PRIu64 "/window=%" PRIu64 "%s",
             type == TENON_CACHE_F16 ? "f16" : "f32", pairings[pairing], of->heads, of->kv_heads,
             of->head_size, of->window, kind == DATA_SPECIAL ? "/special" : "");
    added = conformance_add(suite, CONFORMANCE_EXACT, run, name);
    if (added == NULL) return false;
    added->format = type;
    added->layout = pairing;
    added->cols = at;
    added->kind = (uint32_t)kind;
    return true;
}

bool conformance_add_attention(conformance_suite *suite)
{
    uint32_t type, pairing;
    size_t at;
    for (type = TENON_CACHE_F32; type <= TENON_CACHE_F16; type++) {
        for (at = 0; at < SHAPES; at++)
            for (pairing = TENON_ROPE_NONE; pairing <= TENON_ROPE_HALVES; pairing++) {
                bool turns = shapes[at].head_size / shapes[at].rotary_part >= 2;
                if (pairing != TENON_ROPE_NONE && !turns) continue;
                if (!add(suite, type, pairing, at, DATA_ORDINARY)) return false;
            }
        if (!add(suite, type, TENON_ROPE_HALVES, 3, DATA_SPECIAL)) return false;
    }
    return true;
}
