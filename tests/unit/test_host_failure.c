/* What a product does when a link does not: the same bits, the right counters, the right memory of
 * failures, for every way in which a provider can go wrong. */

#include "test_host_rig.h"

#include <host/host.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static rig self;

/* What a later host would find: a provider made for this one, whose structs are shorter than that
 * host's. The loader of this host refuses sizes below its own, so the sizes are lowered behind it.
 * Returns the descriptors of fake[0]. */
static loader_module *lowered(void)
{
    host_provider *provider = self.host->providers;
    while (strcmp(provider_id(provider), "acme") != 0) provider = provider->next;
    return (loader_module *)(uintptr_t)provider->module;
}

/* A chain of one fake in mode prefer. */
static void start(uint32_t threads)
{
    rig_start(&self, threads, 1);
    rig_open(&self, "acme", TENON_MODE_PREFER);
}

/* Link 0 is the fake, link 1 the reference. */
static void expect_counts(uint64_t link, uint64_t calls, uint64_t declined, uint64_t failed,
                          uint64_t fallbacks)
{
    tenon_counter counter = rig_counter(self.session, link);
    ck_assert_str_eq(counter.operation, "qmatmul");
    ck_assert_str_eq(counter.provider, link == 0 ? "acme" : "reference");
    ck_assert_uint_eq(counter.calls, calls);
    ck_assert_uint_eq(counter.declined, declined);
    ck_assert_uint_eq(counter.failed, failed);
    ck_assert_uint_eq(counter.fallbacks, fallbacks);
}

START_TEST(runs_well)
{
    fake_reset(0, "acme");
    start(1);
    rig_run_right(&self, 1);
    rig_run_right(&self, 7);
    expect_counts(0, 2, 0, 0, 0);
    expect_counts(1, 0, 0, 0, 0);
    ck_assert_uint_eq(fake[0].runs, 2);
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 0);
    rig_end(&self);
    ck_assert_uint_eq(fake[0].opens, 1);
    ck_assert_uint_eq(fake[0].releases, 1);
}
END_TEST

START_TEST(declines_every_weight)
{
    tenon_counter counter;
    fake_reset(0, "acme");
    fake[0].supports_status = TENON_DECLINED;
    fake[0].answer_reason = TENON_REASON_UNSUPPORTED_FORMAT;
    start(1);
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    rig_run_right(&self, 3);
    rig_run_right(&self, 3);
    ck_assert_uint_eq(fake[0].runs, 0);
    ck_assert_uint_eq(fake[0].supports, 1);
    expect_counts(0, 0, 1, 0, 0);
    expect_counts(1, 2, 0, 0, 2);
    counter = rig_counter(self.session, 0);
    ck_assert_uint_eq(counter.last_reason, TENON_REASON_UNSUPPORTED_FORMAT);
    ck_assert_str_eq(counter.last_text, "told to");
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 1); /* said once */
    ck_assert_ptr_nonnull(strstr(rig_said.last[TENON_LOG_WARNING], "reference takes over"));
    rig_end(&self);
}
END_TEST

START_TEST(declines_every_call)
{
    fake_reset(0, "acme");
    fake[0].run_status = TENON_DECLINED;
    fake[0].write_half = true; /* and writes all the same: y is recomputed whole */
    start(1);
    rig_run_right(&self, 3);
    rig_run_right(&self, 4);
    ck_assert_uint_eq(fake[0].runs, 2); /* asked again: a refusal is no failure */
    expect_counts(0, 0, 2, 0, 0);
    expect_counts(1, 2, 0, 0, 2);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_ACTIVE);
    rig_end(&self);
}
END_TEST

/* Fails at call N, having written nothing or half. */
START_TEST(fails_at_call)
{
    fake_reset(0, "acme");
    fake[0].run_status = TENON_INTERNAL;
    fake[0].run_from = fake[0].run_until = 3;
    fake[0].write_half = _i == 1;
    fake[0].no_queue = _i == 2;
    start(1);
    rig_run_right(&self, 2);
    rig_run_right(&self, 2);
    rig_run_right(&self, 2); /* fails at 2 tokens */
    expect_counts(0, 2, 0, 1, 0);
    expect_counts(1, 1, 0, 0, 1);
    rig_run_right(&self, 2); /* remembered: not tried at 2 */
    rig_run_right(&self, 5);
    ck_assert_uint_eq(fake[0].runs, 3);
    rig_run_right(&self, 1); /* but below */
    ck_assert_uint_eq(fake[0].runs, 4);
    expect_counts(0, 3, 0, 1, 0);
    expect_counts(1, 3, 0, 0, 3);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_ACTIVE);
    ck_assert_str_eq(rig_info(self.weight).provider, "acme");
    rig_end(&self);
}
END_TEST

/* Failures at a number of tokens are remembered per weight. */
START_TEST(memory_is_per_weight)
{
    tenon_weight *other;
    fake_reset(0, "acme");
    fake[0].run_status = TENON_IO;
    fake[0].fail_tokens = 16;
    start(1);
    rig_run_right(&self, 16);
    rig_run_right(&self, 15);
    expect_counts(0, 1, 0, 1, 0);
    other = rig_weight(self.session, self.values, RIG_ROWS);
    self.call = rig_call(self.x, 16, other, self.y, RIG_ROWS);
    rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &self.call, &rig_error));
    ck_assert_int_eq(memcmp(self.y, self.right, 16 * RIG_ROWS * 4), 0);
    expect_counts(0, 1, 0, 2, 0);
    rig_end(&self);
}
END_TEST

/* After eight failed calls the link is set aside for the session, and that is said once. */
START_TEST(set_aside)
{
    tenon_weight *weights[12];
    unsigned i, j;
    fake_reset(0, "acme");
    fake[0].run_status = TENON_TIMEOUT;
    start(1);
    for (i = 0; i < 12; i++) {
        weights[i] = rig_weight(self.session, self.values, RIG_ROWS);
        ck_assert_str_eq(rig_info(weights[i]).provider, i < 8 ? "acme" : "reference");
        for (j = 0; j < 2; j++) {
            memset(self.y, 0xff, sizeof self.y);
            self.call = rig_call(self.x, 3, weights[i], self.y, RIG_ROWS);
            rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &self.call, &rig_error));
            ck_assert_int_eq(memcmp(self.y, self.right, 3 * RIG_ROWS * 4), 0);
        }
    }
    ck_assert_uint_eq(fake[0].runs, 8);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_SET_ASIDE);
    ck_assert_uint_eq(rig_link(self.session, 0).reason, TENON_REASON_SET_ASIDE);
    expect_counts(0, 0, 0, 8, 0);
    expect_counts(1, 24, 0, 0, 24);
    /* the first failure, that the reference took over, and the setting aside */
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 3);
    ck_assert_ptr_nonnull(strstr(rig_said.last[TENON_LOG_WARNING], "set aside"));
    rig_run_right(&self, 1); /* a weight that was at home there moves */
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    { /* another session starts anew */
        tenon_session *next = rig_session(self.host, "acme", TENON_MODE_PREFER);
        ck_assert_uint_eq(rig_link(next, 0).state, TENON_LINK_ACTIVE);
        tenon_session_destroy(next);
    }
    rig_end(&self);
}
END_TEST

START_TEST(scope_weight)
{
    tenon_weight *other;
    fake_reset(0, "acme");
    fake[0].run_status = TENON_INTERNAL;
    fake[0].run_until = 1;
    fake[0].answer_scope = TENON_SCOPE_WEIGHT;
    start(1);
    rig_run_right(&self, 4);
    rig_run_right(&self, 1); /* not even for less */
    ck_assert_uint_eq(fake[0].runs, 1);
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    other = rig_weight(self.session, self.values, RIG_ROWS);
    ck_assert_str_eq(rig_info(other).provider, "acme");
    rig_end(&self);
}
END_TEST

/* A device or provider that is lost leaves every session at once. */
START_TEST(scope_device_and_provider)
{
    static const uint32_t scopes[] = {TENON_SCOPE_DEVICE, TENON_SCOPE_PROVIDER, TENON_SCOPE_CALL};
    tenon_session *other;
    fake_reset(0, "acme");
    fake[0].run_status = _i == 2 ? TENON_DEVICE_LOST : TENON_INTERNAL; /* lost is lost */
    fake[0].answer_scope = scopes[_i];
    start(1);
    other = rig_session(self.host, "acme", TENON_MODE_PREFER);
    rig_run_right(&self, 4);
    rig_run_right(&self, 1);
    ck_assert_uint_eq(fake[0].runs, 1);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_LOST);
    ck_assert_uint_eq(rig_link(self.session, 0).reason, TENON_REASON_DEVICE_FAILED);
    ck_assert_uint_eq(rig_link(other, 0).state, TENON_LINK_LOST);
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_ERROR], 1);
    ck_assert_int_eq(rig_no_session(self.host, "acme", TENON_MODE_PREFER), TENON_DEVICE_LOST);
    tenon_session_destroy(other);
    rig_end(&self);
}
END_TEST

/* Breaking the contract quarantines the provider: nonsense, a mode left changed. */
START_TEST(contract_broken_in_run)
{
    int before;
    fake_reset(0, "acme");
    if (_i == 0) fake[0].run_status = 17;
    if (_i == 1) fake[0].run_status = -100;
    if (_i == 2) fake[0].change_mode = true;
    if (_i == 3) fake[0].change_worker_mode = true;
    start(_i == 3 ? 4 : 1);
    before = fegetround();
    rig_run_right(&self, 4);
    ck_assert_int_eq(fegetround(), before);
    rig_run_right(&self, 4);
    ck_assert_uint_eq(fake[0].runs, 1);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_QUARANTINED);
    ck_assert_uint_eq(rig_link(self.session, 0).reason, TENON_REASON_QUARANTINED);
    expect_counts(0, 0, 0, 1, 0);
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_ERROR], 1);
    ck_assert_ptr_nonnull(strstr(rig_said.last[TENON_LOG_ERROR], "acme broke the contract"));
    rig_fails(rig_no_session(self.host, "acme", TENON_MODE_PREFER), TENON_STATE,
              TENON_REASON_QUARANTINED);
    rig_end(&self);
}
END_TEST

START_TEST(contract_broken_in_prepare)
{
    fake_reset(0, "acme");
    if (_i == 0) fake[0].prepare_null = true;
    if (_i == 1) fake[0].prepare_status = 5;
    if (_i == 2) fake[0].supports_status = 2;
    if (_i == 3) fake[0].support_reserved = 1;
    if (_i == 4) fake[0].alignment = 3;
    start(1);
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_QUARANTINED);
    ck_assert_uint_eq(rig_counter(self.session, 0).last_reason, TENON_REASON_CONTRACT_BROKEN);
    rig_run_right(&self, 2);
    rig_end(&self);
}
END_TEST

/* Out of memory for one weight: that weight goes on, the device stays. */
START_TEST(no_memory_in_prepare)
{
    tenon_weight *next;
    fake_reset(0, "acme");
    fake[0].prepare_status = TENON_NOMEM;
    fake[0].answer_reason = TENON_REASON_OUT_OF_MEMORY;
    fake[0].answer_scope = TENON_SCOPE_WEIGHT;
    start(1);
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    fake[0].prepare_status = 0;
    next = rig_weight(self.session, self.values, RIG_ROWS);
    ck_assert_str_eq(rig_info(next).provider, "acme");
    rig_run_right(&self, 2);
    ck_assert_uint_eq(rig_link(self.session, 0).weights, 1);
    ck_assert_uint_eq(rig_link(self.session, 1).weights, 1);
    expect_counts(0, 0, 0, 1, 0);
    rig_end(&self);
}
END_TEST

/* A provider that knows a shorter call: presented in its size; what would be cut off and is not
 * zero is declined for it, with the struct and the offset named. */
START_TEST(shorter_call_struct)
{
    tenon_counter counter;
    float more[RIG_TOKENS_MAX * RIG_ROWS];
    const uint32_t one = offsetof(tenon_qmatmul_call, outputs) + sizeof(tenon_output);
    fake_reset(0, "acme");
    start(1);
    lowered()->qmatmul.call_size = one;
    rig_run_right(&self, 2);
    ck_assert_uint_eq(fake[0].size_seen, one);
    expect_counts(0, 1, 0, 0, 0);
    self.call = rig_call(self.x, 2, self.weight, self.y, RIG_ROWS);
    rig_add_output(&self.call, self.weight, more, RIG_ROWS);
    rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &self.call, &rig_error));
    ck_assert_int_eq(memcmp(more, self.right, 2 * RIG_ROWS * 4), 0);
    expect_counts(0, 3, 0, 0, 0); /* one by one */

    rig_end(&self);
    rig_start(&self, 1, 1);
    rig_open(&self, "acme", TENON_MODE_PREFER);
    lowered()->qmatmul.call_size = one - 32; /* not even one output */
    rig_run_right(&self, 2);
    expect_counts(0, 0, 1, 0, 0);
    counter = rig_counter(self.session, 0);
    ck_assert_uint_eq(counter.last_reason, TENON_REASON_TRUNCATED_REQUEST);
    ck_assert_ptr_nonnull(strstr(counter.last_text, "tenon_qmatmul_call, byte"));
    ck_assert_uint_eq(fake[0].runs, 2 + 1); /* of before: never called with a cut request */
    rig_end(&self);
}
END_TEST

/* Every other struct in a shorter and a longer size. */
START_TEST(other_struct_sizes)
{
    fake_reset(0, "acme");
    fake[0].prepared_bytes = 12345;
    if (_i == 1) {
        fake[0].desc_size = fake[0].data_size = fake[0].support_size = 512;
        fake[0].error_size = fake[0].info_size = fake[0].call_size = 1024;
        fake[0].services_size = 256;
    }
    rig_start(&self, 1, 1);
    if (_i == 0) {
        loader_module *module = lowered();
        module->qmatmul.weight_desc_size = 48; /* the reserved tail unknown */
        module->qmatmul.weight_data_size = 80;
        module->qmatmul.support_size = 16; /* knows prepared_bytes only */
        module->qmatmul.error_size = module->provider.error_size = 64;
        module->provider.device_info_size = 64;
    }
    rig_open(&self, "acme", TENON_MODE_PREFER);
    ck_assert_str_eq(rig_info(self.weight).provider, "acme");
    ck_assert_uint_eq(rig_info(self.weight).prepared_bytes, 12345);
    rig_run_right(&self, 2);
    expect_counts(0, 1, 0, 0, 0);
    fake[0].run_status = TENON_IO;
    rig_run_right(&self, 2);
    ck_assert_str_eq(rig_counter(self.session, 0).last_text, "told to");
    rig_end(&self);
}
END_TEST

/* A weight description of which a provider does not know a part that matters is declined for it. */
START_TEST(cut_description)
{
    fake_reset(0, "acme");
    rig_start(&self, 1, 1);
    lowered()->qmatmul.weight_desc_size = 40; /* ends before class and meaning */
    rig_open(&self, "acme", TENON_MODE_PREFER);
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    ck_assert_uint_eq(rig_counter(self.session, 0).last_reason, TENON_REASON_TRUNCATED_REQUEST);
    ck_assert_uint_eq(fake[0].supports, 0);
    rig_end(&self);
}
END_TEST

/* A declined group is tried output by output. */
START_TEST(declined_group)
{
    float y1[RIG_TOKENS_MAX * RIG_ROWS], y2[RIG_TOKENS_MAX * RIG_ROWS];
    fake_reset(0, "acme");
    fake[0].decline_groups = true;
    start(1);
    self.call = rig_call(self.x, 3, self.weight, self.y, RIG_ROWS);
    rig_add_output(&self.call, self.weight, y1, RIG_ROWS);
    rig_add_output(&self.call, self.weight, y2, RIG_ROWS);
    rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &self.call, &rig_error));
    ck_assert_int_eq(memcmp(self.y, self.right, 3 * RIG_ROWS * 4), 0);
    ck_assert_int_eq(memcmp(y1, self.right, 3 * RIG_ROWS * 4), 0);
    ck_assert_int_eq(memcmp(y2, self.right, 3 * RIG_ROWS * 4), 0);
    ck_assert_uint_eq(fake[0].runs, 4);
    expect_counts(0, 3, 0, 0, 0);
    rig_end(&self);
}
END_TEST

/* Outputs whose weights live on different links: each link gets its own, in one call each. */
START_TEST(groups_by_link)
{
    float y1[RIG_TOKENS_MAX * RIG_ROWS], y2[RIG_TOKENS_MAX * RIG_ROWS],
        y3[RIG_TOKENS_MAX * RIG_ROWS];
    tenon_weight *elsewhere;
    fake_reset(0, "acme");
    fake_reset(1, "bolt");
    rig_start(&self, 1, 2);
    rig_open(&self, "acme,bolt", TENON_MODE_PREFER);
    fake[0].supports_status = TENON_DECLINED;
    elsewhere = rig_weight(self.session, self.values, RIG_ROWS);
    ck_assert_str_eq(rig_info(elsewhere).provider, "bolt");
    self.call = rig_call(self.x, 3, self.weight, self.y, RIG_ROWS);
    rig_add_output(&self.call, elsewhere, y1, RIG_ROWS);
    rig_add_output(&self.call, self.weight, y2, RIG_ROWS);
    rig_add_output(&self.call, elsewhere, y3, RIG_ROWS);
    rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &self.call, &rig_error));
    ck_assert_int_eq(memcmp(self.y, self.right, 3 * RIG_ROWS * 4), 0);
    ck_assert_int_eq(memcmp(y1, self.right, 3 * RIG_ROWS * 4), 0);
    ck_assert_int_eq(memcmp(y2, self.right, 3 * RIG_ROWS * 4), 0);
    ck_assert_int_eq(memcmp(y3, self.right, 3 * RIG_ROWS * 4), 0);
    ck_assert_uint_eq(fake[0].runs, 1);
    ck_assert_uint_eq(fake[1].runs, 1);
    ck_assert_uint_eq(fake[0].outputs_seen, 2);
    ck_assert_uint_eq(fake[1].outputs_seen, 2);
    rig_end(&self);
}
END_TEST

/* A chain falls link by link: a fails, b declines, the reference ends it. */
START_TEST(falls_through_the_chain)
{
    fake_reset(0, "acme");
    fake_reset(1, "bolt");
    fake[0].run_status = TENON_IO;
    fake[0].write_half = true;
    fake[1].run_status = TENON_DECLINED;
    rig_start(&self, 1, 2);
    rig_open(&self, "acme,bolt", TENON_MODE_PREFER);
    rig_run_right(&self, 5);
    ck_assert_uint_eq(fake[1].prepares, 1); /* prepared when first needed */
    ck_assert_uint_eq(rig_counter(self.session, 0).failed, 1);
    ck_assert_uint_eq(rig_counter(self.session, 1).declined, 1);
    ck_assert_uint_eq(rig_counter(self.session, 2).fallbacks, 1);
    rig_run_right(&self, 1);
    ck_assert_uint_eq(fake[1].prepares, 1);
    rig_end(&self);
}
END_TEST

/* Mode pin answers what its links answer. */
START_TEST(pin_answers)
{
    fake_reset(0, "acme");
    fake[0].run_status = TENON_IO;
    fake[0].answer_reason = TENON_REASON_DEVICE_BUSY;
    rig_start(&self, 1, 1);
    rig_open(&self, "acme", TENON_MODE_PIN);
    rig_fails(rig_run(&self, 2), TENON_IO, TENON_REASON_DEVICE_BUSY);
    ck_assert_str_eq(rig_error.text, "acme:0: told to");
    rig_fails(rig_run(&self, 2), TENON_STATE, TENON_REASON_FAILED_BEFORE);
    ck_assert_uint_eq(rig_error.available, 2);
    fake[0].run_status = TENON_DECLINED;
    rig_fails(rig_run(&self, 1), TENON_DECLINED, TENON_REASON_CHAIN_DECLINED);
    fake[0].run_status = 0;
    rig_run_right(&self, 1);
    rig_end(&self);
}
END_TEST

/* The rounding direction of the engine neither changes the bits nor is it changed. */
START_TEST(callers_mode)
{
    static const int directions[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    fake_reset(0, "acme");
    start(2);
    ck_assert_int_eq(fesetround(directions[_i]), 0);
    rig_run_right(&self, 6);
    ck_assert_int_eq(fegetround(), directions[_i]);
    fake[0].change_mode = true;
    rig_run_right(&self, 6);
    ck_assert_int_eq(fegetround(), directions[_i]);
    fesetround(FE_TONEAREST);
    rig_end(&self);
}
END_TEST

/* A queue that cannot be opened is a failed call, not a lost device. */
START_TEST(no_queue)
{
    fake_reset(0, "acme");
    fake[0].queue_open_status = TENON_NOMEM;
    start(1);
    rig_run_right(&self, 3);
    expect_counts(0, 0, 0, 1, 0);
    ck_assert_uint_eq(rig_link(self.session, 0).state, TENON_LINK_ACTIVE);
    fake[0].queue_open_status = 0;
    rig_run_right(&self, 2);
    expect_counts(0, 1, 0, 1, 0);
    rig_end(&self);
}
END_TEST

#if defined(__x86_64__)
static unsigned mode_inside;

static void look_at_mode(void *context)
{
    (void)context;
    mode_inside = _mm_getcsr() & ~0x3fu;
}

/* Flush-to-zero, denormals-are-zero and open traps of the engine: providers never see them, and the
 * engine finds them again. */
START_TEST(callers_flush_to_zero)
{
    static const unsigned modes[] = {0x8000, 0x0040, 0x8040, 0xe040};
    unsigned before = _mm_getcsr() & ~0x3fu, mine;
    fake_reset(0, "acme");
    fake[0].during = look_at_mode;
    start(1);
    mine = (before & ~0x6000u) | modes[_i];
    if (_i == 2) mine &= ~0x0800u; /* underflow traps */
    _mm_setcsr(mine);
    rig_ok(rig_run(&self, 2));
    ck_assert_uint_eq(_mm_getcsr() & ~0x3fu, mine);
    _mm_setcsr(before);
    ck_assert_uint_eq(mode_inside, 0x1f80);
    ck_assert_int_eq(memcmp(self.y, self.right, 2 * RIG_ROWS * 4), 0);
    rig_end(&self);
}
END_TEST
#endif

static Suite *make(void)
{
    Suite *suite = suite_create("host failure");
    TCase *one = tcase_create("failure");
    tcase_set_timeout(one, 60);
    tcase_add_test(one, runs_well);
    tcase_add_test(one, declines_every_weight);
    tcase_add_test(one, declines_every_call);
    tcase_add_loop_test(one, fails_at_call, 0, 3);
    tcase_add_test(one, memory_is_per_weight);
    tcase_add_test(one, set_aside);
    tcase_add_test(one, scope_weight);
    tcase_add_loop_test(one, scope_device_and_provider, 0, 3);
    tcase_add_loop_test(one, contract_broken_in_run, 0, 4);
    tcase_add_loop_test(one, contract_broken_in_prepare, 0, 5);
    tcase_add_test(one, no_memory_in_prepare);
    tcase_add_test(one, shorter_call_struct);
    tcase_add_loop_test(one, other_struct_sizes, 0, 2);
    tcase_add_test(one, cut_description);
    tcase_add_test(one, declined_group);
    tcase_add_test(one, groups_by_link);
    tcase_add_test(one, falls_through_the_chain);
    tcase_add_test(one, pin_answers);
    tcase_add_loop_test(one, callers_mode, 0, 3);
    tcase_add_test(one, no_queue);
#if defined(__x86_64__)
    tcase_add_loop_test(one, callers_flush_to_zero, 0, 4);
#endif
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
