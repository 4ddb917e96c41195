/* A layer of attention with its history and right answers: what the tests of caches start from. */
#ifndef TENON_TESTS_CACHE_RIG_H
#define TENON_TESTS_CACHE_RIG_H

#include "operations_rig.h"

#include <math.h>

#define KV_HEADS 2u
#define HEADS 4u
#define HEAD 8u
#define CAPACITY 24u
#define STEPS 12u
#define KV_ROW (KV_HEADS * HEAD)
#define Q_ROW (HEADS * HEAD)

typedef struct scene {
    tenon_host *host;
    tenon_session *session;
    tenon_cache *cache;
    float k[CAPACITY * KV_ROW], v[CAPACITY * KV_ROW], q[CAPACITY * Q_ROW];
    float table[CAPACITY * (HEAD / 2) * 2];
    float y[CAPACITY * Q_ROW];
} scene;
static scene self;

/* The right answers: row s of attention after s + 1 positions. */
static float right[CAPACITY * Q_ROW];

static inline tenon_cache_desc describe(void)
{
    tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                             .kv_heads = KV_HEADS,
                             .head_size = HEAD,
                             .capacity = CAPACITY,
                             .type = TENON_CACHE_F16,
                             .pairing = TENON_ROPE_HALVES,
                             .flags = TENON_CACHE_EVICTABLE,
                             .rotary = HEAD,
                             .table = self.table,
                             .table_bytes = sizeof self.table};
    return desc;
}

static inline tenon_append_call appending(tenon_cache *cache, uint64_t first, uint64_t tokens)
{
    tenon_append_call call = {TENON_HEAD(tenon_append_call),
                              .cache = cache,
                              .k = op_view(self.k + first * KV_ROW, tokens * KV_ROW * 4),
                              .v = op_view(self.v + first * KV_ROW, tokens * KV_ROW * 4),
                              .tokens = tokens,
                              .k_row_stride = KV_ROW * 4,
                              .v_row_stride = KV_ROW * 4};
    return call;
}

static inline tenon_attention_call attending(tenon_cache *cache, uint64_t first, uint64_t tokens)
{
    tenon_attention_call call = {TENON_HEAD(tenon_attention_call),
                                 .cache = cache,
                                 .q = op_view(self.q + first * Q_ROW, tokens * Q_ROW * 4),
                                 .y = op_view(self.y + first * Q_ROW, tokens * Q_ROW * 4),
                                 .tokens = tokens,
                                 .heads = HEADS,
                                 .q_row_stride = Q_ROW * 4,
                                 .y_row_stride = Q_ROW * 4,
                                 .scale = 0.25f};
    return call;
}

static inline int32_t append(tenon_cache *cache, uint64_t first, uint64_t tokens)
{
    tenon_append_call call = appending(cache, first, tokens);
    return tenon_append(tenon_session_queue(self.session), &call, &rig_error);
}

static inline int32_t attend(tenon_cache *cache, uint64_t first, uint64_t tokens)
{
    tenon_attention_call call = attending(cache, first, tokens);
    memset(self.y, 0xa5, sizeof self.y);
    return tenon_attention(tenon_session_queue(self.session), &call, &rig_error);
}

/* Appends and attends to positions [first, first + tokens); the bits must be right. */
static inline void step(tenon_cache *cache, uint64_t first, uint64_t tokens)
{
    rig_ok(append(cache, first, tokens));
    rig_ok(attend(cache, first, tokens));
    ck_assert_int_eq(memcmp(self.y + first * Q_ROW, right + first * Q_ROW, tokens * Q_ROW * 4), 0);
}

static inline void open_session(const char *chain, uint32_t mode)
{
    tenon_cache_desc desc = describe();
    self.session = rig_session(self.host, chain, mode);
    rig_ok(tenon_cache_create(self.session, &desc, &self.cache, &rig_error));
}

static inline tenon_cache *another(void)
{
    tenon_cache_desc desc = describe();
    tenon_cache *cache = NULL;
    rig_ok(tenon_cache_create(self.session, &desc, &cache, &rig_error));
    return cache;
}

static inline void start(int fakes)
{
    uint32_t i, j;
    int n;
    memset(&self, 0, sizeof self);
    memset(rig_said.lines, 0, sizeof rig_said.lines);
    memset(rig_said.all, 0, sizeof rig_said.all);
    rig_fill(self.k, CAPACITY * KV_ROW, 1);
    rig_fill(self.v, CAPACITY * KV_ROW, 2);
    rig_fill(self.q, CAPACITY * Q_ROW, 3);
    for (i = 0; i < CAPACITY; i++)
        for (j = 0; j < HEAD / 2; j++) {
            double angle = i * pow(10000.0, -2.0 * j / HEAD);
            self.table[(i * (HEAD / 2) + j) * 2] = (float)cos(angle);
            self.table[(i * (HEAD / 2) + j) * 2 + 1] = (float)sin(angle);
        }
    self.host = rig_host(1);
    open_session("reference", TENON_MODE_PIN);
    rig_ok(append(self.cache, 0, CAPACITY));
    rig_ok(attend(self.cache, 0, CAPACITY));
    memcpy(right, self.y, sizeof right);
    tenon_session_destroy(self.session);
    for (n = 0; n < fakes; n++) rig_ok(fake_register(self.host, n, &rig_error));
}

static inline void end(void)
{
    int i;
    tenon_session_destroy(self.session);
    rig_ok(tenon_host_destroy(self.host, &rig_error));
    for (i = 0; i < FAKES; i++) ck_assert_msg(fake_balanced(i), "fake %d is out of balance", i);
}

static inline uint64_t length(tenon_cache *cache)
{
    uint64_t out = 99;
    rig_ok(tenon_cache_length(cache, &out, &rig_error));
    return out;
}

static inline void counted(uint64_t link, uint64_t calls, uint64_t declined, uint64_t failed)
{
    tenon_counter counter = op_counter(self.session, "attention", link);
    ck_assert_msg(counter.calls == calls && counter.declined == declined &&
                      counter.failed == failed,
                  "link %llu: calls %llu declined %llu failed %llu", (unsigned long long)link,
                  (unsigned long long)counter.calls, (unsigned long long)counter.declined,
                  (unsigned long long)counter.failed);
}

static inline void acme(void)
{
    fake_reset(0, "acme");
    fake[0].offers = FAKE_ATTENTION;
}

#endif
