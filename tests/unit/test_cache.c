/* Key-value caches: where they are made, what loses them, and that a replay gives the same bits. */

#include "cache_rig.h"

#include <sys/wait.h>

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
          *threads = tcase_create("threads");
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
    tcase_add_loop_test(threads, at_once, 0, FAULTS);
    suite_add_tcase(suite, life);
    suite_add_tcase(suite, failing);
    suite_add_tcase(suite, threads);
    return runner_main(srunner_create(suite));
}
