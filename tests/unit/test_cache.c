/* Key-value caches: where they are made, what loses them, and that a replay gives the same bits. */

#include "operations_rig.h"

#include <math.h>
#include <sys/wait.h>

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

static tenon_cache_desc describe(void)
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

static tenon_append_call appending(tenon_cache *cache, uint64_t first, uint64_t tokens)
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

static tenon_attention_call attending(tenon_cache *cache, uint64_t first, uint64_t tokens)
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

static int32_t append(tenon_cache *cache, uint64_t first, uint64_t tokens)
{
    tenon_append_call call = appending(cache, first, tokens);
    return tenon_append(tenon_session_queue(self.session), &call, &rig_error);
}

static int32_t attend(tenon_cache *cache, uint64_t first, uint64_t tokens)
{
    tenon_attention_call call = attending(cache, first, tokens);
    memset(self.y, 0xa5, sizeof self.y);
    return tenon_attention(tenon_session_queue(self.session), &call, &rig_error);
}

/* Appends and attends to positions [first, first + tokens); the bits must be right. */
static void step(tenon_cache *cache, uint64_t first, uint64_t tokens)
{
    rig_ok(append(cache, first, tokens));
    rig_ok(attend(cache, first, tokens));
    ck_assert_int_eq(memcmp(self.y + first * Q_ROW, right + first * Q_ROW, tokens * Q_ROW * 4), 0);
}

static void open_session(const char *chain, uint32_t mode)
{
    tenon_cache_desc desc = describe();
    self.session = rig_session(self.host, chain, mode);
    rig_ok(tenon_cache_create(self.session, &desc, &self.cache, &rig_error));
}

static tenon_cache *another(void)
{
    tenon_cache_desc desc = describe();
    tenon_cache *cache = NULL;
    rig_ok(tenon_cache_create(self.session, &desc, &cache, &rig_error));
    return cache;
}

static void start(int fakes)
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

static void end(void)
{
    int i;
    tenon_session_destroy(self.session);
    rig_ok(tenon_host_destroy(self.host, &rig_error));
    for (i = 0; i < FAKES; i++) ck_assert_msg(fake_balanced(i), "fake %d is out of balance", i);
}

static uint64_t length(tenon_cache *cache)
{
    uint64_t out = 99;
    rig_ok(tenon_cache_length(cache, &out, &rig_error));
    return out;
}

static void counted(uint64_t link, uint64_t calls, uint64_t declined, uint64_t failed)
{
    tenon_counter counter = op_counter(self.session, "attention", link);
    ck_assert_msg(counter.calls == calls && counter.declined == declined &&
                      counter.failed == failed,
                  "link %llu: calls %llu declined %llu failed %llu", (unsigned long long)link,
                  (unsigned long long)counter.calls, (unsigned long long)counter.declined,
                  (unsigned long long)counter.failed);
}

static void acme(void)
{
    fake_reset(0, "acme");
    fake[0].offers = FAKE_ATTENTION;
}

START_TEST(lives)
{
    tenon_cache *copy = NULL;
    tenon_queue *queue;
    uint64_t bytes = 0;
    acme();
    fake[0].no_queue = _i == 1;
    start(1);
    open_session("acme", 0);
    queue = tenon_session_queue(self.session);
    step(self.cache, 0, 1);
    step(self.cache, 1, 5);
    ck_assert_uint_eq(length(self.cache), 6);
    rig_ok(tenon_cache_bytes(self.cache, &bytes, &rig_error));
    ck_assert_uint_ge(bytes, 2 * CAPACITY * KV_ROW * 2);
    rig_ok(tenon_cache_clone(queue, self.cache, &copy, &rig_error));
    step(copy, 6, 4);
    ck_assert_uint_eq(length(self.cache), 6);
    rig_ok(tenon_cache_truncate(queue, copy, 3, &rig_error));
    step(copy, 3, 2);
    rig_ok(tenon_cache_evict(queue, self.cache, 2, 0, &rig_error));
    rig_ok(tenon_cache_evict(queue, self.cache, 0, 6, &rig_error));
    step(self.cache, 0, 3);
    counted(0, 5, 0, 0);
    counted(1, 0, 0, 0);
    ck_assert_uint_eq(fake[0].caches_now, 2);
    tenon_cache_destroy(copy);
    tenon_cache_destroy(NULL);
    ck_assert_uint_eq(fake[0].caches_now, 1); /* the other one goes with its session */
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 0);
    end();
}
END_TEST

/* What was behind a range that is taken out has the bits of a cache that never saw the range. */
START_TEST(evicted)
{
    tenon_cache *other;
    tenon_queue *queue;
    float rows[Q_ROW];
    acme();
    start(1);
    open_session("acme", 0);
    queue = tenon_session_queue(self.session);
    rig_ok(append(self.cache, 0, 9));
    rig_ok(tenon_cache_evict(queue, self.cache, 2, 4, &rig_error));
    ck_assert_uint_eq(length(self.cache), 5);
    rig_ok(attend(self.cache, 0, 1));
    memcpy(rows, self.y, sizeof rows);
    other = another();
    rig_ok(append(other, 0, 2));
    rig_ok(append(other, 6, 3));
    rig_ok(attend(other, 0, 1));
    ck_assert_int_eq(memcmp(rows, self.y, sizeof rows), 0);
    end();
}
END_TEST

/* A chain without attention_v1, and one whose attention_v1 lacks a function: the reference. */
START_TEST(not_offered)
{
    acme();
    if (_i == 0)
        fake[0].offers = 0;
    else
        fake[0].evict_null = true;
    start(1);
    open_session("acme", 0);
    step(self.cache, 0, STEPS);
    counted(1, 1, 0, 0);
    ck_assert_uint_eq(fake[0].creates, 0);
    tenon_session_destroy(self.session);
    self.session = rig_session(self.host, "acme", TENON_MODE_PIN);
    {
        tenon_cache_desc desc = describe();
        tenon_cache *none = NULL;
        rig_fails(tenon_cache_create(self.session, &desc, &none, &rig_error), TENON_DECLINED,
                  TENON_REASON_CHAIN_DECLINED);
        ck_assert_ptr_null(none);
        ck_assert_ptr_nonnull(strstr(rig_error.text, "attention"));
    }
    end();
}
END_TEST

/* Full at the third layer: that one and those behind it live on the next link. */
START_TEST(full)
{
    static const int32_t answers[] = {TENON_NOMEM, TENON_DECLINED, FAKE_NULL, TENON_DEVICE_LOST};
    tenon_cache *caches[5];
    uint64_t i, layer;
    bool gone = _i >= 2;
    acme();
    fake[0].create_status = answers[_i];
    fake[0].create_good = 2;
    fake[0].answer_scope = TENON_SCOPE_WEIGHT;
    start(1);
    open_session("acme", 0);
    caches[0] = self.cache;
    for (layer = 1; layer < 5; layer++) caches[layer] = another();
    ck_assert_uint_eq(fake[0].creates, gone ? 3 : 5);
    ck_assert_uint_eq(fake[0].caches_now, 2);
    for (i = 0; i < STEPS; i += 4)
        for (layer = gone ? 2 : 0; layer < 5; layer++) step(caches[layer], i, 4);
    counted(0, gone ? 0 : 6, _i == 1 ? 3 : 0, _i == 1 ? 0 : gone ? 1 : 3);
    counted(1, 9, 0, 0);
    if (gone) /* those that were there went with the link */
        rig_fails(attend(caches[1], 0, 1), TENON_LOST, rig_link(self.session, 0).reason);
    end();
}
END_TEST

/* What a call on a cache may answer, by whom, and what the link is afterwards. */
static const struct {
    int32_t status;
    bool mode, half;
    uint32_t scope, state;
} faults[] = {
    {TENON_INTERNAL, false, false, TENON_SCOPE_CALL, TENON_LINK_ACTIVE},
    {TENON_NOMEM, false, true, TENON_SCOPE_WEIGHT, TENON_LINK_ACTIVE},
    {TENON_DECLINED, false, false, 0, TENON_LINK_ACTIVE},
    {TENON_DEVICE_LOST, false, true, TENON_SCOPE_CALL, TENON_LINK_LOST},
    {TENON_LOST, false, false, TENON_SCOPE_CALL, TENON_LINK_LOST},
    {TENON_IO, false, false, TENON_SCOPE_PROVIDER, TENON_LINK_LOST},
    {77, false, false, TENON_SCOPE_CALL, TENON_LINK_QUARANTINED},
    {0, true, false, TENON_SCOPE_CALL, TENON_LINK_QUARANTINED},
};
#define FAULTS (sizeof faults / sizeof faults[0])

/* A call fails at some point of a generation: the cache is lost and says so; a new one on what
 * remains of the chain, with the history again, has the same bits. */
START_TEST(lost)
{
    size_t which = (size_t)_i % FAULTS;
    uint64_t from = (uint64_t)_i / FAULTS + 7; /* an append, then an attention */
    uint64_t i = 0, told = 0;
    int32_t status = TENON_OK;
    tenon_queue *queue;
    tenon_cache *copy = NULL;
    acme();
    fake[0].op_status = faults[which].status;
    fake[0].op_mode = faults[which].mode;
    fake[0].op_half = faults[which].half;
    fake[0].answer_scope = faults[which].scope;
    fake[0].answer_reason = TENON_REASON_DEVICE_FAILED;
    fake[0].op_from = from;
    fake[0].op_until = from;
    start(1);
    open_session("acme", 0);
    queue = tenon_session_queue(self.session);
    for (i = 0; i < STEPS && status == TENON_OK; i++) {
        status = append(self.cache, i, 1);
        if (status == TENON_OK) status = attend(self.cache, i, 1);
    }
    ck_assert_int_eq(status, TENON_LOST);
    ck_assert_uint_eq(i, 4);
    ck_assert_ptr_nonnull(strstr(rig_error.text, "acme:0"));
    ck_assert_uint_eq(rig_link(self.session, 0).state, faults[which].state);
    ck_assert_uint_eq(fake[0].op_runs, from);
    /* lost is lost, whatever is asked */
    ck_assert_int_eq(append(self.cache, i, 1), TENON_LOST);
    ck_assert_int_eq(attend(self.cache, 0, 1), TENON_LOST);
    ck_assert_int_eq(tenon_cache_truncate(queue, self.cache, 0, &rig_error), TENON_LOST);
    ck_assert_int_eq(tenon_cache_evict(queue, self.cache, 0, 1, &rig_error), TENON_LOST);
    ck_assert_int_eq(tenon_cache_clone(queue, self.cache, &copy, &rig_error), TENON_LOST);
    ck_assert_int_eq(tenon_cache_length(self.cache, &told, &rig_error), TENON_LOST);
    ck_assert_int_eq(tenon_cache_bytes(self.cache, &told, &rig_error), TENON_LOST);
    ck_assert_uint_eq(fake[0].op_runs, from);
    /* replay */
    tenon_cache_destroy(self.cache);
    self.cache = another();
    ck_assert_uint_eq(fake[0].creates, 1);
    for (i = 0; i < STEPS; i += 3) step(self.cache, i, 3);
    counted(1, 4, 0, 0);
    ck_assert_uint_eq(fake[0].caches_now, 0);
    end();
}
END_TEST

/* A failure that reaches no further than its call loses one cache; the others of the link go on. */
START_TEST(neighbours)
{
    tenon_cache *other;
    acme();
    fake[0].op_status = _i == 0 ? TENON_TIMEOUT : TENON_DEVICE_LOST;
    fake[0].op_from = fake[0].op_until = 5;
    start(1);
    open_session("acme", 0);
    other = another();
    step(self.cache, 0, 2);
    step(other, 0, 2);
    ck_assert_int_eq(append(self.cache, 2, 1), TENON_LOST);
    if (_i == 0) {
        step(other, 2, 2);
    } else {
        ck_assert_int_eq(append(other, 2, 1), TENON_LOST);
        ck_assert_uint_eq(rig_error.reason, rig_link(self.session, 0).reason);
    }
    end();
}
END_TEST

START_TEST(pinned)
{
    tenon_cache_desc desc;
    tenon_cache *none = NULL;
    acme();
    fake[0].op_status = TENON_TIMEOUT;
    fake[0].op_from = 2;
    start(1);
    open_session("acme", TENON_MODE_PIN);
    rig_ok(append(self.cache, 0, 1));
    ck_assert_int_eq(attend(self.cache, 0, 1), TENON_LOST);
    desc = describe();
    rig_fails(tenon_cache_create(self.session, &desc, &none, &rig_error), TENON_STATE,
              TENON_REASON_FAILED_BEFORE);
    end();
}
END_TEST

/* Truncate and evict that fail leave nobody knows what; a clone that fails leaves all as it was. */
START_TEST(changes_fail)
{
    tenon_queue *queue;
    tenon_cache *copy = NULL;
    acme();
    fake[0].op_status = TENON_NOMEM;
    fake[0].op_from = fake[0].op_until = 3;
    start(1);
    open_session("acme", 0);
    queue = tenon_session_queue(self.session);
    step(self.cache, 0, 4);
    switch (_i) {
    case 0:
        ck_assert_int_eq(tenon_cache_truncate(queue, self.cache, 1, &rig_error), TENON_LOST);
        ck_assert_int_eq(append(self.cache, 1, 1), TENON_LOST);
        break;
    case 1:
        ck_assert_int_eq(tenon_cache_evict(queue, self.cache, 0, 1, &rig_error), TENON_LOST);
        ck_assert_int_eq(append(self.cache, 1, 1), TENON_LOST);
        break;
    default:
        ck_assert_int_eq(tenon_cache_clone(queue, self.cache, &copy, &rig_error), TENON_NOMEM);
        ck_assert_ptr_null(copy);
        step(self.cache, 4, 1);
        rig_ok(tenon_cache_clone(queue, self.cache, &copy, &rig_error));
        step(copy, 5, 1);
        counted(0, 3, 0, 1);
        break;
    }
    end();
}
END_TEST

START_TEST(length_lies)
{
    uint64_t told = 0;
    acme();
    fake[0].length_lie = 1;
    start(1);
    open_session("acme", 0);
    rig_ok(append(self.cache, 0, 2));
    ck_assert_int_eq(tenon_cache_length(self.cache, &told, &rig_error), TENON_LOST);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_QUARANTINED);
    end();
}
END_TEST

/* ---- what makes a request wrong ----------------------------------------------------------- */

#define SPOIL(name, type, statement) \
    static void name(type *r) \
    { \
        statement; \
    }
SPOIL(d_heads, tenon_cache_desc, r->kv_heads = 0)
SPOIL(d_head, tenon_cache_desc, r->head_size = 0)
SPOIL(d_capacity, tenon_cache_desc, r->capacity = 0)
SPOIL(d_huge, tenon_cache_desc, r->capacity = UINT64_MAX / 8)
SPOIL(d_wide, tenon_cache_desc, r->head_size = UINT64_MAX / 4)
SPOIL(d_type, tenon_cache_desc, r->type = 0)
SPOIL(d_type3, tenon_cache_desc, r->type = 3)
SPOIL(d_pairing, tenon_cache_desc, r->pairing = 3)
SPOIL(d_flags, tenon_cache_desc, r->flags = 2)
SPOIL(d_odd, tenon_cache_desc, r->rotary = 7)
SPOIL(d_rotary, tenon_cache_desc, r->rotary = HEAD + 2)
SPOIL(d_none, tenon_cache_desc, r->rotary = 0)
SPOIL(d_unrotated, tenon_cache_desc, r->pairing = TENON_ROPE_NONE)
SPOIL(d_table, tenon_cache_desc, r->table = NULL)
SPOIL(d_short, tenon_cache_desc, r->table_bytes -= 4)
SPOIL(d_far, tenon_cache_desc, r->table_bytes = UINT64_MAX)
SPOIL(d_reserved, tenon_cache_desc, r->reserved0[1] = 1)
SPOIL(p_tokens, tenon_append_call, r->tokens = 0)
SPOIL(p_reserved, tenon_append_call, r->reserved0[0] = 1)
SPOIL(p_k, tenon_append_call, r->k.host = NULL)
SPOIL(p_v, tenon_append_call, r->v.bytes -= 4)
SPOIL(p_odd, tenon_append_call, r->k.offset = 1)
SPOIL(p_stride, tenon_append_call, r->v_row_stride -= 4)
SPOIL(p_buffer, tenon_append_call, r->v.buffer = &self)
SPOIL(p_huge, tenon_append_call, r->tokens = UINT64_MAX / 2)
SPOIL(p_capacity, tenon_append_call, r->k_row_stride = r->v_row_stride = KV_ROW * 4;
      r->tokens = CAPACITY; r->k = op_view(self.k, sizeof self.k);
      r->v = op_view(self.v, sizeof self.v))
SPOIL(p_cache, tenon_append_call, r->cache = NULL)
SPOIL(r_tokens, tenon_attention_call, r->tokens = 0)
SPOIL(r_rows, tenon_attention_call, r->tokens = 4)
SPOIL(r_heads, tenon_attention_call, r->heads = 0)
SPOIL(r_heads3, tenon_attention_call, r->heads = 3)
SPOIL(r_huge, tenon_attention_call, r->heads = UINT64_C(1) << 62)
SPOIL(r_reserved0, tenon_attention_call, r->reserved0 = 1)
SPOIL(r_reserved1, tenon_attention_call, r->reserved1[1] = 1)
SPOIL(r_q, tenon_attention_call, r->q.host = NULL)
SPOIL(r_short, tenon_attention_call, r->y.bytes -= 4)
SPOIL(r_stride, tenon_attention_call, r->q_row_stride -= 4)
SPOIL(r_overlap, tenon_attention_call, r->y = r->q)
SPOIL(r_cache, tenon_attention_call, r->cache = NULL)
#undef SPOIL

static const struct {
    uint32_t reason;
    void (*desc)(tenon_cache_desc *r);
    void (*append)(tenon_append_call *r);
    void (*attend)(tenon_attention_call *r);
} wrongs[] = {
    {TENON_REASON_EMPTY_SHAPE, d_heads, NULL, NULL},
    {TENON_REASON_EMPTY_SHAPE, d_head, NULL, NULL},
    {TENON_REASON_EMPTY_SHAPE, d_capacity, NULL, NULL},
    {TENON_REASON_OVERFLOW, d_huge, NULL, NULL},
    {TENON_REASON_OVERFLOW, d_wide, NULL, NULL},
    {TENON_REASON_UNKNOWN_VALUE, d_type, NULL, NULL},
    {TENON_REASON_UNKNOWN_VALUE, d_type3, NULL, NULL},
    {TENON_REASON_UNKNOWN_VALUE, d_pairing, NULL, NULL},
    {TENON_REASON_UNKNOWN_VALUE, d_flags, NULL, NULL},
    {TENON_REASON_UNSUPPORTED_SHAPE, d_odd, NULL, NULL},
    {TENON_REASON_UNSUPPORTED_SHAPE, d_rotary, NULL, NULL},
    {TENON_REASON_UNSUPPORTED_SHAPE, d_none, NULL, NULL},
    {TENON_REASON_UNKNOWN_VALUE, d_unrotated, NULL, NULL},
    {TENON_REASON_NULL_POINTER, d_table, NULL, NULL},
    {TENON_REASON_SHORT_BUFFER, d_short, NULL, NULL},
    {TENON_REASON_OVERFLOW, d_far, NULL, NULL},
    {TENON_REASON_RESERVED, d_reserved, NULL, NULL},
    {TENON_REASON_EMPTY_SHAPE, NULL, p_tokens, NULL},
    {TENON_REASON_RESERVED, NULL, p_reserved, NULL},
    {TENON_REASON_NULL_POINTER, NULL, p_k, NULL},
    {TENON_REASON_SHORT_BUFFER, NULL, p_v, NULL},
    {TENON_REASON_ALIGNMENT, NULL, p_odd, NULL},
    {TENON_REASON_STRIDE, NULL, p_stride, NULL},
    {TENON_REASON_NO_BUFFERS, NULL, p_buffer, NULL},
    {TENON_REASON_OVERFLOW, NULL, p_huge, NULL},
    {TENON_REASON_CAPACITY, NULL, p_capacity, NULL},
    {TENON_REASON_NULL_POINTER, NULL, p_cache, NULL},
    {TENON_REASON_EMPTY_SHAPE, NULL, NULL, r_tokens},
    {TENON_REASON_INDEX, NULL, NULL, r_rows},
    {TENON_REASON_UNSUPPORTED_SHAPE, NULL, NULL, r_heads},
    {TENON_REASON_UNSUPPORTED_SHAPE, NULL, NULL, r_heads3},
    {TENON_REASON_OVERFLOW, NULL, NULL, r_huge},
    {TENON_REASON_RESERVED, NULL, NULL, r_reserved0},
    {TENON_REASON_RESERVED, NULL, NULL, r_reserved1},
    {TENON_REASON_NULL_POINTER, NULL, NULL, r_q},
    {TENON_REASON_SHORT_BUFFER, NULL, NULL, r_short},
    {TENON_REASON_STRIDE, NULL, NULL, r_stride},
    {TENON_REASON_OVERLAP, NULL, NULL, r_overlap},
    {TENON_REASON_NULL_POINTER, NULL, NULL, r_cache},
};

/* Nobody is asked, and the cache goes on. */
START_TEST(wrong_request)
{
    tenon_cache_desc desc;
    tenon_append_call more;
    tenon_attention_call run;
    tenon_cache *none = NULL;
    tenon_queue *queue;
    uint64_t before;
    acme();
    start(1);
    open_session("acme", 0);
    queue = tenon_session_queue(self.session);
    step(self.cache, 0, 2);
    before = fake[0].op_runs;
    if (wrongs[_i].desc != NULL) {
        desc = describe();
        wrongs[_i].desc(&desc);
        rig_fails(tenon_cache_create(self.session, &desc, &none, &rig_error), TENON_ARG,
                  wrongs[_i].reason);
        ck_assert_ptr_null(none);
        ck_assert_uint_eq(fake[0].creates, 1);
    } else if (wrongs[_i].append != NULL) {
        more = appending(self.cache, 2, 1);
        wrongs[_i].append(&more);
        rig_fails(tenon_append(queue, &more, &rig_error), TENON_ARG, wrongs[_i].reason);
    } else {
        run = attending(self.cache, 1, 1);
        wrongs[_i].attend(&run);
        memset(self.y, 0xa5, sizeof self.y);
        rig_fails(tenon_attention(queue, &run, &rig_error), TENON_ARG, wrongs[_i].reason);
    }
    ck_assert_uint_eq(fake[0].op_runs, before);
    step(self.cache, 2, 2);
    end();
}
END_TEST

START_TEST(wrong_change)
{
    tenon_cache_desc desc;
    tenon_queue *queue;
    tenon_session *other;
    tenon_cache *fixed = NULL;
    tenon_append_call call;
    acme();
    start(1);
    open_session("acme", 0);
    queue = tenon_session_queue(self.session);
    step(self.cache, 0, 3);
    rig_fails(tenon_cache_truncate(queue, self.cache, 4, &rig_error), TENON_ARG,
              TENON_REASON_INDEX);
    rig_fails(tenon_cache_evict(queue, self.cache, 2, 2, &rig_error), TENON_ARG,
              TENON_REASON_INDEX);
    rig_fails(tenon_cache_evict(queue, self.cache, 4, 0, &rig_error), TENON_ARG,
              TENON_REASON_INDEX);
    rig_fails(tenon_cache_evict(queue, self.cache, 1, UINT64_MAX, &rig_error), TENON_ARG,
              TENON_REASON_INDEX);
    rig_fails(tenon_cache_clone(queue, self.cache, NULL, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_cache_length(self.cache, NULL, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_cache_bytes(NULL, NULL, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    rig_fails(tenon_cache_truncate(queue, NULL, 0, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_cache_truncate(NULL, self.cache, 0, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_append(queue, NULL, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    desc = describe();
    desc.flags = 0;
    rig_ok(tenon_cache_create(self.session, &desc, &fixed, &rig_error));
    rig_ok(append(fixed, 0, 2));
    rig_fails(tenon_cache_evict(queue, fixed, 0, 1, &rig_error), TENON_STATE,
              TENON_REASON_NOT_EVICTABLE);
    other = rig_session(self.host, "acme", 0);
    call = appending(self.cache, 3, 1);
    rig_fails(tenon_append(tenon_session_queue(other), &call, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    tenon_session_destroy(other);
    step(self.cache, 3, 1);
    end();
}
END_TEST

START_TEST(forked)
{
    int status = -1;
    pid_t child;
    acme();
    start(1);
    open_session("acme", 0);
    fflush(NULL);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        tenon_queue *queue = tenon_session_queue(self.session);
        tenon_cache_desc desc = describe();
        tenon_cache *copy = NULL;
        uint64_t number = 0;
        unsigned bad = 0;
#define FORKED(call) bad += (call) != TENON_STATE || rig_error.reason != TENON_REASON_FORKED
        FORKED(append(self.cache, 0, 1));
        FORKED(attend(self.cache, 0, 1));
        FORKED(tenon_cache_create(self.session, &desc, &copy, &rig_error));
        FORKED(tenon_cache_clone(queue, self.cache, &copy, &rig_error));
        FORKED(tenon_cache_truncate(queue, self.cache, 0, &rig_error));
        FORKED(tenon_cache_evict(queue, self.cache, 0, 0, &rig_error));
        FORKED(tenon_cache_length(self.cache, &number, &rig_error));
        FORKED(tenon_cache_bytes(self.cache, &number, &rig_error));
        tenon_cache_destroy(self.cache); /* does nothing */
        _exit(bad == 0 && fake[0].caches_now == 1 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    step(self.cache, 0, 2);
    end();
}
END_TEST

/* ---- threads ------------------------------------------------------------------------------ */

#define CALLERS 4
static atomic_uint wrong_bits;

/* A generation on a queue and a cache of its own that replays whenever the cache is lost. */
static void *generate(void *context)
{
    tenon_error error = {.struct_size = sizeof error, .abi_version = TENON_ABI_VERSION};
    tenon_cache_desc desc = describe();
    tenon_queue *queue = NULL;
    uint32_t round, replays;
    (void)context;
    if (tenon_queue_create(self.session, &queue, &error) != TENON_OK) wrong_bits++;
    for (round = 0; queue != NULL && round < 20; round++) {
        tenon_cache *cache = NULL;
        uint64_t at = 0;
        for (replays = 0; at < STEPS; replays++) {
            float y[Q_ROW];
            tenon_append_call more;
            tenon_attention_call run;
            int32_t status = TENON_OK;
            if (cache == NULL) status = tenon_cache_create(self.session, &desc, &cache, &error);
            if (status != TENON_OK || replays > 100) break;
            more = appending(cache, at, 1);
            run = attending(cache, at, 1);
            run.y = op_view(y, sizeof y);
            status = tenon_append(queue, &more, &error);
            if (status == TENON_OK) status = tenon_attention(queue, &run, &error);
            if (status == TENON_LOST) {
                tenon_cache_destroy(cache);
                cache = NULL;
                at = 0;
                continue;
            }
            if (status != TENON_OK || memcmp(y, right + at * Q_ROW, sizeof y) != 0) wrong_bits++;
            at++;
        }
        if (at != STEPS) wrong_bits++;
        tenon_cache_destroy(cache);
    }
    tenon_queue_destroy(queue);
    return NULL;
}

START_TEST(at_once)
{
    pthread_t threads[CALLERS];
    size_t i;
    acme();
    fake_reset(1, "beta");
    fake[1].offers = FAKE_ATTENTION;
    fake[0].op_status = faults[_i].status;
    fake[0].op_mode = faults[_i].mode;
    fake[0].answer_scope = faults[_i].scope;
    fake[0].op_from = 60;
    fake[0].no_queue = _i % 2 != 0;
    start(2);
    open_session("acme,beta", 0);
    wrong_bits = 0;
    for (i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, generate, NULL), 0);
    for (i = 0; i < CALLERS; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(wrong_bits, 0);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache");
    TCase *life = tcase_create("life"), *failing = tcase_create("failing"),
          *requests = tcase_create("requests"), *threads = tcase_create("threads");
    tcase_set_timeout(threads, 240);
    tcase_add_loop_test(life, lives, 0, 2);
    tcase_add_test(life, evicted);
    tcase_add_loop_test(life, not_offered, 0, 2);
    tcase_add_test(life, forked);
    tcase_add_loop_test(failing, full, 0, 4);
    tcase_add_loop_test(failing, lost, 0, 2 * FAULTS);
    tcase_add_loop_test(failing, neighbours, 0, 2);
    tcase_add_test(failing, pinned);
    tcase_add_loop_test(failing, changes_fail, 0, 3);
    tcase_add_test(failing, length_lies);
    tcase_add_loop_test(requests, wrong_request, 0, sizeof wrongs / sizeof wrongs[0]);
    tcase_add_test(requests, wrong_change);
    tcase_add_loop_test(threads, at_once, 0, FAULTS);
    suite_add_tcase(suite, life);
    suite_add_tcase(suite, failing);
    suite_add_tcase(suite, requests);
    suite_add_tcase(suite, threads);
    return runner_main(srunner_create(suite));
}
