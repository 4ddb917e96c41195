/* Recorded sequences of the Vulkan provider, through the host: one step of a layer, recorded once,
 * launched over a cache that grows, is cut back and loses positions, gives the bits that the
 * reference gives call by call. The provider's file is the first argument. */
#include "graph_rig.h"

/* ---- the tests ------------------------------------------------------------------------------- */

static const struct {
    uint32_t type;
    uint64_t window;
    const char *setting;
} lives[] = {{TENON_CACHE_F16, 0, NULL},  {TENON_CACHE_F32, 0, NULL},
             {TENON_CACHE_F16, 30, NULL}, {TENON_CACHE_F32, 130, NULL},
             {TENON_CACHE_F16, 1, NULL},  {TENON_CACHE_F16, 0, "vulkan.staging=always"}};

START_TEST(whole_life)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host(lives[_i].setting);
    tenon_session *session = vulkan_session(host);
    tenon_graph *graph;
    uint32_t steps;
    scene self;
    if (session == NULL) return;
    live_right(host, lives[_i].type, lives[_i].window, right);
    open_scene(&self, session, tenon_session_queue(session), lives[_i].type, lives[_i].window);
    graph = record(&self);
    check_captured(graph);
    ck_assert_uint_eq(length(self.cache), 0); /* nothing was done yet */
    steps = live(&self, graph, 0, LIFE, got);
    compare(got, right, 0, LIFE);
    ck_assert_uint_eq(length(self.cache), 3);
    check_captured(graph);
    ck_assert_uint_eq(info(graph).launches, steps);
    ck_assert_uint_eq(info(graph).replays, 0);
    ck_assert_uint_eq(counter(session, "graph").calls, steps);
    ck_assert_uint_eq(counter(session, "attention").calls, steps);
    ck_assert_uint_eq(counter(session, "graph").failed, 0);
    tenon_graph_destroy(graph);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* Launches and calls made one by one take turns, and two graphs share a cache. */
START_TEST(mixed)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_graph *graphs[3] = {NULL};
    uint64_t i;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    graphs[1] = record(&self);
    check_captured(graphs[1]);
    for (i = 0; i < LIFE; i++) {
        if (i == 10) { /* recorded over a cache that holds something, behind work in flight */
            graphs[2] = record(&self);
            check_captured(graphs[2]);
        }
        live(&self, graphs[i % 3], i, 1, got);
    }
    compare(got, right, 0, LIFE);
    tenon_session_destroy(session); /* frees the graphs too */
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* All that a launch uses is freed while it may be in flight; nobody waited for it. */
START_TEST(freed_in_flight)
{
    static trace right[LIFE];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_memory_info before = {TENON_HEAD(tenon_memory_info), .total = 0}, after = before;
    tenon_graph *graph;
    uint32_t i, round;
    trace got;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    for (round = 0; round < 5; round++) {
        open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
        graph = record(&self);
        check_captured(graph);
        live(&self, NULL, 0, 1, NULL); /* the id */
        for (i = 0; i < 63; i++) rig_ok(tenon_graph_launch(self.queue, graph, &rig_error));
        tenon_graph_destroy(graph);
        if (round % 2 == 0) { /* what it made is there all the same */
            look(&self, &got);
            ck_assert_int_eq(memcmp(got.p, right[2].p, sizeof got.p), 0);
            ck_assert_uint_eq(got.id, right[2].id);
        }
        tenon_cache_destroy(self.cache);
        tenon_buffer_destroy(self.id);
        tenon_buffer_destroy(self.x);
        tenon_buffer_destroy(self.w);
        tenon_buffer_destroy(self.k);
        tenon_buffer_destroy(self.q);
        tenon_buffer_destroy(self.y);
        tenon_buffer_destroy(self.s);
        tenon_buffer_destroy(self.p);
        tenon_weight_destroy(self.table);
        tenon_weight_destroy(self.product);
        rig_ok(tenon_queue_fence(self.queue, &rig_error));
        rig_ok(tenon_session_memory(session, 0, &after, &rig_error));
        if (round == 1) before = after;
        if (round > 1) ck_assert_uint_eq(after.used, before.used);
        ck_assert_uint_eq(after.objects, 0);
    }
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    graph = record(&self);
    live(&self, graph, 0, 3, NULL);
    tenon_session_destroy(session); /* with the graph, in flight */
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

typedef struct worker {
    scene self;
    trace got[LIFE];
    int32_t status;
} worker;

static void *work(void *context)
{
    worker *self = context;
    tenon_graph *graph = record(&self->self);
    live(&self->self, graph, 0, LIFE, self->got);
    self->status = (int32_t)info(graph).captured;
    tenon_graph_destroy(graph);
    return NULL;
}

/* Two queues record and launch at once, each over its own cache. */
START_TEST(two_queues)
{
    static trace right[LIFE];
    static worker workers[2];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_queue *second = NULL;
    pthread_t threads[2];
    uint32_t i;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    rig_ok(tenon_queue_create(session, &second, &rig_error));
    open_scene(&workers[0].self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    open_scene(&workers[1].self, session, second, TENON_CACHE_F16, 0);
    for (i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(workers[i].status, 1);
        compare(workers[i].got, right, 0, LIFE);
    }
    tenon_queue_destroy(second);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* A graph recorded on one queue is launched on both, with a fence between. */
START_TEST(handed_over)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_queue *queues[2] = {NULL};
    tenon_graph *graph;
    uint64_t i;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    queues[0] = tenon_session_queue(session);
    rig_ok(tenon_queue_create(session, &queues[1], &rig_error));
    open_scene(&self, session, queues[0], TENON_CACHE_F16, 0);
    graph = record(&self);
    for (i = 0; i < LIFE; i++) {
        live(&self, graph, i, 1, got);
        rig_ok(tenon_queue_fence(self.queue, &rig_error));
        self.queue = queues[(i + 1) % 2];
    }
    compare(got, right, 0, LIFE);
    check_captured(graph);
    tenon_graph_destroy(graph);
    tenon_queue_destroy(queues[1]);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* A cache that is full is none of a launch's: it says so, and works again when it is cut back. */
START_TEST(full_cache)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host(NULL);
    tenon_session *session = vulkan_session(host);
    tenon_graph *graph, *other;
    uint32_t i, id = 3;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F32, 0, right);
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F32, 0);
    graph = record(&self);
    rig_ok(tenon_buffer_write(self.queue, self.id, 0, &id, sizeof id, &rig_error));
    for (i = 0; i < CAPACITY; i++) rig_ok(tenon_graph_launch(self.queue, graph, &rig_error));
    rig_fails(tenon_graph_launch(self.queue, graph, &rig_error), TENON_ARG, TENON_REASON_CAPACITY);
    other = record(&self); /* it can be emptied before a launch */
    check_captured(other);
    rig_ok(tenon_cache_truncate(self.queue, self.cache, 0, &rig_error));
    live(&self, other, 0, 8, got);
    compare(got, right, 0, 8);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* vulkan.graph=off: the calls are made one by one, with the same bits. */
START_TEST(switched_off)
{
    static trace right[LIFE], got[LIFE];
    tenon_host *host = make_host("vulkan.graph=off");
    tenon_session *session = vulkan_session(host);
    tenon_graph *graph;
    scene self;
    if (session == NULL) return;
    live_right(host, TENON_CACHE_F16, 0, right);
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    graph = record(&self);
    ck_assert_uint_eq(info(graph).captured, 0);
    ck_assert_ptr_nonnull(strstr(info(graph).why, "vulkan.graph=off"));
    live(&self, graph, 0, 13, got);
    compare(got, right, 0, 13);
    ck_assert_uint_eq(counter(session, "graph").calls, 0);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("vulkan graphs");
    TCase *tests = tcase_create("graphs");
    if (argc != 2) {
        fprintf(stderr, "the file of the provider is needed\n");
        return EXIT_FAILURE;
    }
    provider_file = argv[1];
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, whole_life, 0, sizeof lives / sizeof lives[0]);
    tcase_add_test(tests, mixed);
    tcase_add_test(tests, freed_in_flight);
    tcase_add_test(tests, two_queues);
    tcase_add_test(tests, handed_over);
    tcase_add_test(tests, full_cache);
    tcase_add_test(tests, switched_off);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
