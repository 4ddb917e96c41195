/* Requests on caches: everything is checked before anybody is called, and the cache goes on. */

#include "cache_rig.h"

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
    {TENON_REASON_UNKNOWN_VALUE, NULL, p_buffer, NULL},
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

int main(void)
{
    Suite *suite = suite_create("cache requests");
    TCase *requests = tcase_create("requests");
    tcase_add_loop_test(requests, wrong_request, 0, sizeof wrongs / sizeof wrongs[0]);
    tcase_add_test(requests, wrong_change);
    suite_add_tcase(suite, requests);
    return runner_main(srunner_create(suite));
}
