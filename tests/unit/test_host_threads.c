/* Everything that is [any thread], at once; made to be run under the thread sanitizer. */

#include "test_host_rig.h"

#define THREADS 4
#define ROUNDS 60

static rig self;
static atomic_bool stop;
static atomic_uint wrong;

/* Calls on a queue of its own until told to stop; the bits must be right each time. */
static void *call_loop(void *context)
{
    tenon_queue *queue = NULL;
    tenon_error error = {.struct_size = sizeof error, .abi_version = TENON_ABI_VERSION};
    float *y = malloc(RIG_TOKENS_MAX * RIG_ROWS * 4);
    uint32_t seed = (uint32_t)(uintptr_t)context, round;
    if (y == NULL || tenon_queue_create(self.session, &queue, &error) != TENON_OK) {
        wrong++;
        free(y);
        return NULL;
    }
    for (round = 0; round < ROUNDS || !stop; round++) {
        uint64_t tokens = rig_next(&seed) % 5 + 1;
        tenon_qmatmul_call call = rig_call(self.x, tokens, self.weight, y, RIG_ROWS);
        int32_t status;
        memset(y, 0xa5, tokens * RIG_ROWS * 4);
        status = tenon_qmatmul(queue, &call, &error);
        if (status == TENON_STATE && error.reason == TENON_REASON_UPDATING) continue;
        if (status != TENON_OK || memcmp(y, self.right, tokens * RIG_ROWS * 4) != 0) wrong++;
        if (round > 100000) break;
    }
    tenon_queue_destroy(queue);
    free(y);
    return NULL;
}

static void with_callers(void (*meanwhile)(void))
{
    pthread_t threads[THREADS];
    unsigned i;
    stop = false;
    wrong = 0;
    for (i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_loop, (void *)(uintptr_t)(i + 1)),
                         0);
    meanwhile();
    stop = true;
    for (i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(wrong, 0);
}

static void nothing(void) {}

START_TEST(queues_at_once)
{
    fake_reset(0, "acme");
    fake[0].no_queue = _i == 1;
    rig_start(&self, 2, 1);
    rig_open(&self, "acme", 0);
    with_callers(nothing);
    if (_i == 1) ck_assert_uint_eq(fake[0].in_run_most, 1); /* the host locks the device */
    ck_assert_uint_ge(rig_counter(self.session, 0).calls, THREADS * ROUNDS);
    rig_end(&self);
}
END_TEST

static void update_often(void)
{
    unsigned i;
    for (i = 0; i < 50; i++) {
        rig_ok(tenon_weight_begin_update(self.weight, &rig_error));
        ck_assert_uint_eq(fake[0].in_run, 0); /* drained */
        ck_assert_uint_eq(rig_info(self.weight).generation, i + 1);
        rig_ok(tenon_weight_end_update(self.weight, &rig_error));
    }
}

START_TEST(updates_drain)
{
    fake_reset(0, "acme");
    rig_start(&self, 2, 1);
    rig_open(&self, "acme", 0);
    with_callers(update_often);
    ck_assert_uint_eq(rig_info(self.weight).generation, 51);
    rig_end(&self);
}
END_TEST

/* Weights come and go while others compute: release waits, nothing of another weight is touched. */
static void weights_come_and_go(void)
{
    unsigned i;
    for (i = 0; i < 50; i++) {
        tenon_weight *weight = rig_weight(self.session, self.values, RIG_ROWS);
        tenon_queue *queue = NULL;
        rig_ok(tenon_queue_create(self.session, &queue, &rig_error));
        self.call = rig_call(self.x, 1, weight, self.y, RIG_ROWS);
        rig_ok(tenon_qmatmul(queue, &self.call, &rig_error));
        (void)rig_counter(self.session, 0);
        (void)rig_link(self.session, 0);
        if (i % 2 == 0) tenon_queue_destroy(queue);
        tenon_weight_destroy(weight);
        if (i % 2 == 1) tenon_queue_destroy(queue);
    }
}

START_TEST(weights_at_once)
{
    fake_reset(0, "acme");
    rig_start(&self, 2, 1);
    rig_open(&self, "acme", 0);
    with_callers(weights_come_and_go);
    rig_end(&self);
    ck_assert_uint_eq(fake[0].releases, 51);
}
END_TEST

/* A provider that fails now and then, and is set aside in the middle of it all. */
static void until_set_aside(void)
{
    unsigned i;
    for (i = 0; i < 40; i++) {
        tenon_weight *weight = rig_weight(self.session, self.values, RIG_ROWS);
        memset(self.y, 0, sizeof self.y);
        self.call = rig_call(self.x, 2, weight, self.y, RIG_ROWS);
        rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &self.call, &rig_error));
        ck_assert_int_eq(memcmp(self.y, self.right, 2 * RIG_ROWS * 4), 0);
    }
}

START_TEST(failures_at_once)
{
    fake_reset(0, "acme");
    fake_reset(1, "bolt");
    fake[0].run_status = _i == 0 ? TENON_IO : _i == 1 ? 99 : TENON_DEVICE_LOST;
    fake[0].run_from = 20;
    fake[0].write_half = true;
    fake[1].run_status = TENON_DECLINED;
    fake[1].run_from = 5;
    rig_start(&self, 2, 2);
    rig_open(&self, "acme,bolt", 0);
    with_callers(until_set_aside);
    ck_assert_uint_ne(rig_link(self.session, 0).state, TENON_LINK_ACTIVE);
    rig_end(&self);
}
END_TEST

static void *session_loop(void *context)
{
    unsigned i;
    (void)context;
    for (i = 0; i < 20; i++) {
        tenon_session_desc desc = {.struct_size = sizeof desc, .abi_version = TENON_ABI_VERSION};
        tenon_error error = {.struct_size = sizeof error, .abi_version = TENON_ABI_VERSION};
        tenon_team_info team = {.struct_size = sizeof team, .abi_version = TENON_ABI_VERSION};
        tenon_candidate candidate = {.struct_size = sizeof candidate, .abi_version = 1};
        tenon_session *session = NULL;
        uint32_t count;
        if (tenon_session_create(self.host, &desc, &session, &error) != TENON_OK) wrong++;
        if (tenon_host_device_count(self.host, "acme", &count, &error) != TENON_OK) wrong++;
        if (tenon_host_team(self.host, &team, &error) != TENON_OK || team.threads != 2) wrong++;
        if (tenon_host_candidate(self.host, 0, &candidate, &error) != TENON_OK) wrong++;
        tenon_session_destroy(session);
    }
    return NULL;
}

START_TEST(sessions_at_once)
{
    pthread_t threads[THREADS];
    unsigned i;
    fake_reset(0, "acme");
    rig_start(&self, 2, 1);
    wrong = 0;
    for (i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, session_loop, NULL), 0);
    for (i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(wrong, 0);
    rig_end(&self);
    ck_assert_uint_eq(fake[0].opens, 1);
}
END_TEST

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool inside;

static void wait_at_gate(void *context)
{
    (void)context;
    inside = true;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void *one_call(void *context)
{
    rig_run(&self, 1);
    return context;
}

/* Two threads on one queue is a mistake of the engine's: it is told, nothing is lost. */
START_TEST(one_queue_twice)
{
    pthread_t thread;
    tenon_error error = {.struct_size = sizeof error, .abi_version = TENON_ABI_VERSION};
    float y[RIG_ROWS];
    tenon_qmatmul_call call;
    fake_reset(0, "acme");
    fake[0].during = wait_at_gate;
    rig_start(&self, 1, 1);
    rig_open(&self, "acme", 0);
    inside = false;
    pthread_mutex_lock(&gate);
    ck_assert_int_eq(pthread_create(&thread, NULL, one_call, NULL), 0);
    while (!inside) usleep(100);
    call = rig_call(self.x, 1, self.weight, y, RIG_ROWS);
    ck_assert_int_eq(tenon_qmatmul(tenon_session_queue(self.session), &call, &error), TENON_STATE);
    ck_assert_uint_eq(error.reason, TENON_REASON_IN_USE);
    pthread_mutex_unlock(&gate);
    pthread_join(thread, NULL);
    ck_assert_int_eq(memcmp(self.y, self.right, RIG_ROWS * 4), 0);
    rig_end(&self);
}
END_TEST

static void *destroy_weight(void *context)
{
    tenon_weight_destroy(self.weight);
    inside = true;
    return context;
}

/* Destroying a weight waits for the call that uses it. */
START_TEST(destroy_waits)
{
    pthread_t caller, destroyer;
    fake_reset(0, "acme");
    fake[0].during = wait_at_gate;
    rig_start(&self, 1, 1);
    rig_open(&self, "acme", 0);
    inside = false;
    pthread_mutex_lock(&gate);
    ck_assert_int_eq(pthread_create(&caller, NULL, one_call, NULL), 0);
    while (!inside) usleep(100);
    inside = false;
    ck_assert_int_eq(pthread_create(&destroyer, NULL, destroy_weight, NULL), 0);
    usleep(30000);
    ck_assert(!inside);
    ck_assert_uint_eq(fake[0].releases, 0);
    pthread_mutex_unlock(&gate);
    pthread_join(caller, NULL);
    pthread_join(destroyer, NULL);
    ck_assert(inside);
    ck_assert_uint_eq(fake[0].releases, 1);
    ck_assert_int_eq(memcmp(self.y, self.right, RIG_ROWS * 4), 0);
    rig_end(&self);
}
END_TEST

static void *begin_update(void *context)
{
    tenon_error error = {.struct_size = sizeof error, .abi_version = TENON_ABI_VERSION};
    if (tenon_weight_begin_update(self.weight, &error) != TENON_OK) wrong++;
    return context;
}

/* A call that loses its link while an update waits for it is finished elsewhere, from the old
 * bytes, and does not bring the weight back to life. */
START_TEST(falls_back_under_update)
{
    pthread_t caller, updater;
    fake_reset(0, "acme");
    fake[0].during = wait_at_gate;
    fake[0].run_status = TENON_DEVICE_LOST;
    rig_start(&self, 1, 1);
    rig_open(&self, "acme", 0);
    wrong = 0;
    inside = false;
    pthread_mutex_lock(&gate);
    ck_assert_int_eq(pthread_create(&caller, NULL, one_call, NULL), 0);
    while (!inside) usleep(100);
    ck_assert_int_eq(pthread_create(&updater, NULL, begin_update, NULL), 0);
    usleep(30000);
    pthread_mutex_unlock(&gate);
    pthread_join(caller, NULL);
    pthread_join(updater, NULL);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_int_eq(memcmp(self.y, self.right, RIG_ROWS * 4), 0);
    rig_fails(rig_run(&self, 1), TENON_STATE, TENON_REASON_UPDATING);
    rig_ok(tenon_weight_end_update(self.weight, &rig_error));
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    rig_run_right(&self, 1);
    rig_end(&self);
}
END_TEST

/* The same bits on 1 to 8 threads. */
START_TEST(thread_counts)
{
    fake_reset(0, "acme");
    rig_start(&self, (uint32_t)_i, 1);
    rig_open(&self, "acme", 0);
    rig_run_right(&self, 1);
    rig_run_right(&self, RIG_TOKENS_MAX);
    rig_end(&self);
}
END_TEST

static Suite *make(void)
{
    Suite *suite = suite_create("host threads");
    TCase *one = tcase_create("threads");
    tcase_set_timeout(one, 300);
    tcase_add_loop_test(one, queues_at_once, 0, 2);
    tcase_add_test(one, updates_drain);
    tcase_add_test(one, weights_at_once);
    tcase_add_loop_test(one, failures_at_once, 0, 3);
    tcase_add_test(one, sessions_at_once);
    tcase_add_test(one, one_queue_twice);
    tcase_add_test(one, destroy_waits);
    tcase_add_test(one, falls_back_under_update);
    tcase_add_loop_test(one, thread_counts, 1, 9);
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
