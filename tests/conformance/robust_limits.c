/* Robustness at the ends: caches that are full, sizes that no machine has. */
#include "robust.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define HEADS 2u
#define HEAD_SIZE 32u
#define WIDTH (HEADS * HEAD_SIZE)
#define CAPACITY 70u

/* One cache of each side: [1] under test, [0] the reference. */
typedef struct full_cache {
    robust_kit *kit;
    tenon_cache *cache[2];
    guarded values; /* CAPACITY + 8 rows: keys, values and queries alike */
} full_cache;

static tenon_queue *queue_of(const full_cache *self, int side)
{
    const engine_side *engine = &self->kit->engine;
    return tenon_session_queue(side != 0 ? engine->tested : engine->reference);
}

static int32_t append(full_cache *self, int side, uint64_t from, uint64_t tokens,
                      tenon_error *error)
{
    const tenon_view rows = robust_host(self->values.data + from * WIDTH * 4, tokens * WIDTH * 4);
    const tenon_append_call call = {TENON_HEAD(tenon_append_call),
                                    .cache = self->cache[side],
                                    .k = rows,
                                    .v = rows,
                                    .tokens = tokens,
                                    .k_row_stride = WIDTH * 4,
                                    .v_row_stride = WIDTH * 4};
    return tenon_append(queue_of(self, side), &call, error);
}

static bool append_both(full_cache *self, uint64_t from, uint64_t tokens)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    return robust_good(self->kit->result, append(self, 1, from, tokens, &error), &error,
                       "append up to the capacity") &&
           robust_good(self->kit->result, append(self, 0, from, tokens, &error), &error,
                       "append by the reference");
}

/* More than there is room for: CAPACITY, and the cache is as it was. */
static bool append_over(full_cache *self, uint64_t tokens, uint64_t length)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    conformance_result *result = self->kit->result;
    int32_t status = append(self, 1, 0, tokens, &error);
    uint64_t now = 0;
    result->requests++;
    if (status != TENON_ARG || error.reason != TENON_REASON_CAPACITY)
        return conformance_fail(result,
                                "append of %" PRIu64 " positions to %" PRIu64
                                " of %u: status %d, reason %u, not CAPACITY",
                                tokens, length, CAPACITY, status, error.reason);
    if (!robust_good(result, tenon_cache_length(self->cache[1], &now, &error), &error, "length"))
        return false;
    return now == length || conformance_fail(result,
                                             "a cache of %" PRIu64 " positions has %" PRIu64
                                             " after an append without room",
                                             length, now);
}

static bool attend(full_cache *self, uint64_t tokens)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    float got[8 * WIDTH], want[8 * WIDTH];
    bool good = true;
    int side;
    for (side = 0; good && side < 2; side++) {
        const tenon_attention_call call = {
            TENON_HEAD(tenon_attention_call),
            .cache = self->cache[side],
            .q = robust_host(self->values.data, tokens * WIDTH * 4),
            .y = robust_host(side != 0 ? got : want, tokens * WIDTH * 4),
            .tokens = tokens,
            .heads = HEADS,
            .q_row_stride = WIDTH * 4,
            .y_row_stride = WIDTH * 4,
            .scale = 0.17f};
        good = robust_good(self->kit->result, tenon_attention(queue_of(self, side), &call, &error),
                           &error, "attention over a full cache");
    }
    self->kit->result->requests++;
    if (good && memcmp(got, want, tokens * WIDTH * 4) != 0)
        good = conformance_fail(self->kit->result, "attention over a full cache gives other bits");
    return good;
}

static bool truncate_both(full_cache *self, uint64_t length)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    int side;
    for (side = 0; side < 2; side++)
        if (!robust_good(
                self->kit->result,
                tenon_cache_truncate(queue_of(self, side), self->cache[side], length, &error),
                &error, "truncate"))
            return false;
    return true;
}

static bool fill_cache(full_cache *self, uint32_t type, uint32_t flags)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const tenon_cache_desc desc = {
        TENON_HEAD(tenon_cache_desc), .kv_heads = HEADS, .head_size = HEAD_SIZE,
        .capacity = CAPACITY,         .type = type,      .flags = flags};
    const engine_side *engine = &self->kit->engine;
    int32_t status = tenon_cache_create(engine->tested, &desc, &self->cache[1], &error);
    if (engine_side_declined(status, &error)) {
        self->cache[1] = NULL;
        self->kit->result->declined++;
        return true;
    }
    return robust_good(self->kit->result, status, &error, "a cache") &&
           robust_good(self->kit->result,
                       tenon_cache_create(engine->reference, &desc, &self->cache[0], &error),
                       &error, "a cache of the reference") &&
           append_over(self, CAPACITY + 1, 0) && append_both(self, 0, 64) &&
           append_over(self, CAPACITY - 64 + 1, 64) && append_both(self, 64, CAPACITY - 64) &&
           append_over(self, 1, CAPACITY) && attend(self, 8) && truncate_both(self, 9) &&
           append_over(self, CAPACITY - 8, 9) && append_both(self, 9, CAPACITY - 9) &&
           append_over(self, 1, CAPACITY) && attend(self, 3);
}

void robust_cache_full(const conformance_case *test, const conformance_target *target,
                       conformance_result *result)
{
    static const struct {
        uint32_t type, flags;
    } kinds[] = {{TENON_CACHE_F32, 0},
                 {TENON_CACHE_F16, 0},
                 {TENON_CACHE_F32, TENON_CACHE_EVICTABLE},
                 {TENON_CACHE_F16, TENON_CACHE_EVICTABLE}};
    full_cache self = {.kit = NULL};
    robust_kit kit;
    size_t i;
    bool good;
    if (!robust_open(&kit, test, target, 2, result)) return;
    self.kit = &kit;
    result->requests = 0;
    good = robust_fill_x(&kit, &self.values, CAPACITY + 8, WIDTH, 1);
    for (i = 0; good && i < sizeof kinds / sizeof kinds[0]; i++) {
        good = fill_cache(&self, kinds[i].type, kinds[i].flags);
        tenon_cache_destroy(self.cache[0]);
        tenon_cache_destroy(self.cache[1]);
        self.cache[0] = self.cache[1] = NULL;
    }
    guarded_free(&self.values);
    if (good && result->requests == 0)
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "caches are not offered");
    robust_close(&kit);
}

/* Keeps a provider that believes in the size from taking the machine's memory along: a few gigabytes
 * more than there are now. Mappings that cannot be written do not count. */
static void bound_memory(void)
{
    const rlim_t more = (rlim_t)4 << 30;
    struct rlimit limit;
    unsigned long long kilobytes = 0;
    char line[200];
    FILE *status = fopen("/proc/self/status", "r");
    if (status == NULL) return;
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmData: %llu", &kilobytes) == 1) break;
    fclose(status);
    if (kilobytes == 0 || getrlimit(RLIMIT_DATA, &limit) != 0) return;
    limit.rlim_cur = (rlim_t)kilobytes * 1024 + more;
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_cur < limit.rlim_max)
        (void)setrlimit(RLIMIT_DATA, &limit);
}

/* A session in which everything absurd is asked for, and what must go on in it. */
typedef struct pressed {
    robust_kit *kit;
    tenon_session *session;
    robust_weight weight;
    guarded x;
    float *want, *got;
    tenon_memory_info before;
} pressed;

/* A product in the same session, over buffers. */
static bool multiplies(pressed *self, const char *after)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    const uint64_t size = ROBUST_SIDE * 4;
    tenon_queue *queue = tenon_session_queue(self->session);
    conformance_result *result = self->kit->result;
    tenon_buffer *in = NULL, *out = NULL;
    tenon_view views[2];
    bool good;
    memset(self->got, 0xa5, size);
    good = robust_good(result, tenon_buffer_create(self->session, size, &in, &error), &error,
                       after) &&
           robust_good(result, tenon_buffer_create(self->session, size, &out, &error), &error,
                       after) &&
           robust_good(result, tenon_buffer_write(queue, in, 0, self->x.data, size, &error), &error,
                       after);
    if (good) {
        views[0] = robust_buffer(in, size);
        views[1] = robust_buffer(out, size);
        good = robust_good(result,
                           robust_product(queue, self->weight.weight, &views[0], &views[1], 1,
                                          ROBUST_SIDE, ROBUST_SIDE, &error),
                           &error, after) &&
               robust_good(result, tenon_buffer_read(queue, out, 0, self->got, size, &error),
                           &error, after) &&
               robust_same(self->kit, self->got, self->want, ROBUST_SIDE, 1, after, result);
    }
    tenon_buffer_destroy(in);
    tenon_buffer_destroy(out);
    return good;
}

/* It goes on, and the device's books are as they were. */
static bool usable(pressed *self, const char *after)
{
    return multiplies(self, after) && robust_returned(self->kit, &self->before, after);
}

static bool absurd_buffer(pressed *self, uint64_t bytes)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_buffer *buffer = NULL;
    tenon_view view = robust_host(self->x.data, ROBUST_SIDE * 4), to;
    int32_t status = tenon_buffer_create(self->session, bytes, &buffer, &error);
    if (status == TENON_OK) {
        to = robust_buffer(buffer, ROBUST_SIDE * 4);
        status = robust_product(tenon_session_queue(self->session), self->weight.weight, &view, &to,
                                1, ROBUST_SIDE, ROBUST_SIDE, &error);
    }
    tenon_buffer_destroy(buffer);
    self->kit->result->requests++;
    if (status == TENON_OK)
        return conformance_fail(self->kit->result,
                                "a product into a buffer of %" PRIu64 " bytes answers OK", bytes);
    return usable(self, "after a buffer that nobody has memory for");
}

/* Some providers take their memory when positions come: an OK is given back. */
static bool absurd_cache(pressed *self)
{
    const tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc), .kv_heads = 8, .head_size = 128,
                                   .capacity = UINT64_C(1) << 40, .type = TENON_CACHE_F32};
    tenon_cache *cache = NULL;
    self->kit->result->requests++;
    if (tenon_cache_create(self->session, &desc, &cache, NULL) == TENON_OK)
        tenon_cache_destroy(cache);
    return usable(self, "after a cache that nobody has memory for");
}

/* Some terabytes of zeros that cost nothing, as the bytes of a weight. */
static bool absurd_weight(pressed *self, uint32_t lifetime)
{
    const uint64_t row = tenon_row_bytes(self->kit->format, ROBUST_SIDE);
    const size_t room = (size_t)1 << 44;
    tenon_weight_desc desc = self->weight.desc;
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .lifetime = lifetime};
    tenon_weight *weight = NULL;
    uint32_t reason;
    void *zeros;
    bool good = true;
    if (row == 0) return true; /* scales apart: the same memory twice proves no more */
    desc.rows = room / row;
    if (tenon_weight_bytes(&desc, &data.weights_bytes, &data.scales_bytes, &reason) != TENON_OK ||
        data.scales_bytes != 0)
        return true;
    zeros = mmap(NULL, room, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) return true; /* this machine has no room for the question */
    data.weights = zeros;
    self->kit->result->requests++;
    if (tenon_weight_create(self->session, &desc, &data, &weight, NULL) == TENON_OK)
        tenon_weight_destroy(weight);
    good = usable(self, "after a weight that nobody has memory for");
    munmap(zeros, room);
    return good;
}

void robust_out_of_memory(const conformance_case *test, const conformance_target *target,
                          conformance_result *result)
{
    pressed self = {.kit = NULL};
    robust_kit kit;
    bool offered;
    int i;
    if (!robust_open(&kit, test, target, 2, result)) return;
    self.kit = &kit;
    self.want = malloc(ROBUST_SIDE * 4);
    self.got = malloc(ROBUST_SIDE * 4);
    if (self.want == NULL || self.got == NULL) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    if (!robust_session(&kit, &self.session) ||
        !robust_weight_make(&kit, &self.weight, self.session, ROBUST_SIDE, ROBUST_SIDE, 1) ||
        !robust_fill_x(&kit, &self.x, 1, ROBUST_SIDE, 2) ||
        !robust_expect(&kit, &self.weight, (const float *)(void *)self.x.data, 1, self.want))
        goto out;
    /* a queue may make room for itself at its first calls, and keep it */
    for (i = 0; i < 4; i++)
        if (!multiplies(&self, "before anything")) goto out;
    if (!robust_memory(&kit, &self.before, &offered)) goto out;
    bound_memory();
    if (absurd_buffer(&self, UINT64_C(1) << 44) && absurd_buffer(&self, (UINT64_C(1) << 45) + 4) &&
        absurd_cache(&self) && absurd_weight(&self, TENON_LIFETIME_STABLE) &&
        absurd_weight(&self, TENON_LIFETIME_COPY))
        (void)usable(&self, "at the end");
out:
    robust_weight_free(&self.weight);
    guarded_free(&self.x);
    tenon_session_destroy(self.session);
    free(self.want);
    free(self.got);
    robust_close(&kit);
}
