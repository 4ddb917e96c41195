/* Graphs: a launch does what its calls would do, whatever the length of a cache by then, and nothing
 * is left behind of what was recorded, dropped, launched or lost. */
#include "provider_rig.h"

#include <vulkan/vulkan_core.h>

#define HEADS 2u
#define HEAD_SIZE 16u
#define WIDTH (HEADS * HEAD_SIZE)
#define CAPACITY 1400u
#define ROW (WIDTH * 4u)

/* A step: k = v = q = a + b of one token, appended to a cache and attended to. */
typedef struct step {
    rig rig;
    const tenon_graph_v1 *graph;
    tenon_device_buffer *a, *b, *sum, *y;
    tenon_device_cache *cache;
} step;

static tenon_device_cache *make_cache(step *self)
{
    static float table[CAPACITY * HEAD_SIZE];
    const tenon_cache_desc desc = {
        TENON_HEAD(tenon_cache_desc),   .kv_heads = HEADS,       .head_size = HEAD_SIZE,
        .capacity = CAPACITY,           .type = TENON_CACHE_F32, .pairing = TENON_ROPE_ADJACENT,
        .flags = TENON_CACHE_EVICTABLE, .rotary = HEAD_SIZE,     .table = table,
        .table_bytes = sizeof table};
    tenon_device_cache *cache = NULL;
    rig_fill(table, CAPACITY * HEAD_SIZE);
    ck_assert_int_eq(self->rig.attention->create(self->rig.device, &desc, &cache, &self->rig.error),
                     TENON_OK);
    return cache;
}

static int set_up(step *self)
{
    float x[WIDTH];
    tenon_device_buffer **buffers[4] = {&self->a, &self->b, &self->sum, &self->y};
    uint32_t i;

    rig_load(&self->rig, 1);
    self->graph = dlsym(self->rig.module, "graph_v1");
    ck_assert_ptr_nonnull(self->graph);
    if (!rig_open_device(&self->rig)) return 0;
    rig_fill(x, WIDTH);
    for (i = 0; i < 4; i++) {
        ck_assert_int_eq(
            self->rig.memory->alloc(self->rig.device, ROW, buffers[i], &self->rig.error), TENON_OK);
        ck_assert_int_eq(self->rig.memory->write(self->rig.device, self->rig.queue, *buffers[i], 0,
                                                 x, ROW, &self->rig.error),
                         TENON_OK);
    }
    self->cache = make_cache(self);
    return 1;
}

static void tear_down(step *self)
{
    self->rig.attention->free(self->rig.device, self->cache);
    self->rig.memory->free(self->rig.device, self->a);
    self->rig.memory->free(self->rig.device, self->b);
    self->rig.memory->free(self->rig.device, self->sum);
    self->rig.memory->free(self->rig.device, self->y);
    rig_close(&self->rig);
}

/* The calls of a step, and a = y for the next one. */
static int32_t make_calls(step *self, tenon_device_cache *cache)
{
    const tenon_add_call add = {TENON_HEAD(tenon_add_call),
                                .a = buffer_view(self->a, ROW),
                                .b = buffer_view(self->b, ROW),
                                .y = buffer_view(self->sum, ROW),
                                .tokens = 1,
                                .width = WIDTH,
                                .a_row_stride = ROW,
                                .b_row_stride = ROW,
                                .y_row_stride = ROW};
    const tenon_append_call append = {TENON_HEAD(tenon_append_call),
                                      .cache = cache,
                                      .k = buffer_view(self->sum, ROW),
                                      .v = buffer_view(self->sum, ROW),
                                      .tokens = 1,
                                      .k_row_stride = ROW,
                                      .v_row_stride = ROW};
    const tenon_attention_call attention = {TENON_HEAD(tenon_attention_call),
                                            .cache = cache,
                                            .q = buffer_view(self->sum, ROW),
                                            .y = buffer_view(self->y, ROW),
                                            .tokens = 1,
                                            .heads = HEADS,
                                            .q_row_stride = ROW,
                                            .y_row_stride = ROW,
                                            .scale = 0.25f};
    tenon_add_call again = add;
    int32_t status = self->rig.add->run(self->rig.device, self->rig.queue, &add, &self->rig.error);

    if (status == TENON_OK)
        status = self->rig.attention->append(self->rig.device, self->rig.queue, &append,
                                             &self->rig.error);
    if (status == TENON_OK)
        status = self->rig.attention->run(self->rig.device, self->rig.queue, &attention,
                                          &self->rig.error);
    again.a = buffer_view(self->y, ROW);
    again.y = buffer_view(self->a, ROW);
    if (status == TENON_OK)
        status = self->rig.add->run(self->rig.device, self->rig.queue, &again, &self->rig.error);
    return status;
}

static tenon_device_graph *record(step *self, tenon_device_cache *cache)
{
    tenon_device_graph *graph = NULL;
    ck_assert_int_eq(self->graph->begin(self->rig.device, self->rig.queue, &self->rig.error),
                     TENON_OK);
    ck_assert_msg(make_calls(self, cache) == TENON_OK, "%s", self->rig.error.text);
    ck_assert_int_eq(self->graph->end(self->rig.device, self->rig.queue, &graph, &self->rig.error),
                     TENON_OK);
    ck_assert_ptr_nonnull(graph);
    return graph;
}

static uint64_t length_of(step *self, tenon_device_cache *cache)
{
    uint64_t length = 99;
    ck_assert_int_eq(
        self->rig.attention->length(self->rig.device, cache, &length, &self->rig.error), TENON_OK);
    return length;
}

static void read_y(step *self, float *y)
{
    ck_assert_int_eq(self->rig.memory->read(self->rig.device, self->rig.queue, self->y, 0, y, ROW,
                                            &self->rig.error),
                     TENON_OK);
}

/* count steps, launched or call by call; with cuts some positions are truncated and evicted. */
static void go(step *self, tenon_device_cache *cache, tenon_device_graph *graph, uint32_t count,
               int cuts, float *y)
{
    const tenon_attention_v1 *attention = self->rig.attention;
    float x[WIDTH];
    uint32_t i;

    rig_fill(x, WIDTH);
    ck_assert_int_eq(self->rig.memory->write(self->rig.device, self->rig.queue, self->a, 0, x, ROW,
                                             &self->rig.error),
                     TENON_OK);
    for (i = 0; i < count; i++) {
        int32_t status = graph == NULL ? make_calls(self, cache)
                                       : self->graph->launch(self->rig.device, self->rig.queue,
                                                             graph, &self->rig.error);
        ck_assert_msg(status == TENON_OK, "step %u: %s", i, self->rig.error.text);
        if (cuts && i == 20)
            ck_assert_int_eq(
                attention->truncate(self->rig.device, self->rig.queue, cache, 7, &self->rig.error),
                TENON_OK);
        if (cuts && i == 120)
            ck_assert_int_eq(
                attention->evict(self->rig.device, self->rig.queue, cache, 2, 30, &self->rig.error),
                TENON_OK);
    }
    read_y(self, y);
}

START_TEST(launches_are_the_calls)
{
    float wanted[WIDTH], y[WIDTH];
    tenon_device_graph *graph;
    tenon_device_cache *other;
    step self;

    if (!set_up(&self)) return;
    other = make_cache(&self);
    go(&self, other, NULL, 200, 1, wanted);
    graph = record(&self, self.cache);
    ck_assert_uint_eq(length_of(&self, self.cache), 0); /* nothing has run yet */
    go(&self, self.cache, graph, 200, 1, y);
    ck_assert_uint_eq(length_of(&self, self.cache), length_of(&self, other));
    ck_assert(memcmp(y, wanted, ROW) == 0);
    self.graph->release(self.rig.device, graph);
    self.rig.attention->free(self.rig.device, other);
    tear_down(&self);
}
END_TEST

/* Far past the positions that the workgroups of a recorded attention are made for. */
START_TEST(long_caches)
{
    float wanted[WIDTH], y[WIDTH];
    tenon_device_graph *graph;
    tenon_device_cache *other;
    step self;

    if (!set_up(&self)) return;
    other = make_cache(&self);
    graph = record(&self, self.cache);
    go(&self, other, NULL, 1250, 0, wanted);
    go(&self, self.cache, graph, 1250, 0, y);
    ck_assert_uint_gt(length_of(&self, other), 1024);
    ck_assert_uint_eq(length_of(&self, self.cache), length_of(&self, other));
    ck_assert(memcmp(y, wanted, ROW) == 0);
    self.graph->release(self.rig.device, graph);
    self.rig.attention->free(self.rig.device, other);
    tear_down(&self);
}
END_TEST

START_TEST(a_full_cache_is_left_alone)
{
    float y[WIDTH];
    tenon_device_graph *graph;
    step self;
    uint32_t i;
    int32_t status = TENON_OK;

    if (!set_up(&self)) return;
    graph = record(&self, self.cache);
    for (i = 0; i <= CAPACITY && status == TENON_OK; i++)
        status = self.graph->launch(self.rig.device, self.rig.queue, graph, &self.rig.error);
    ck_assert_uint_eq(i, CAPACITY + 1);
    ck_assert_int_eq(status, TENON_DECLINED);
    ck_assert_uint_eq(self.rig.error.reason, TENON_REASON_CAPACITY);
    ck_assert_uint_eq(length_of(&self, self.cache), CAPACITY);
    read_y(&self, y);
    self.graph->release(self.rig.device, graph);
    tear_down(&self);
}
END_TEST

START_TEST(what_is_no_graph)
{
    float x[WIDTH], before[WIDTH], after[WIDTH];
    tenon_device_graph *graph = NULL;
    tenon_add_call add;
    step self;
    rig *on = &self.rig;

    if (!set_up(&self)) return;
    read_y(&self, before);
    rig_fill(x, WIDTH);
    ck_assert_int_eq(self.graph->end(on->device, on->queue, &graph, &on->error), TENON_STATE);
    ck_assert_int_eq(self.graph->begin(on->device, on->queue, &on->error), TENON_OK);
    ck_assert_int_eq(self.graph->begin(on->device, on->queue, &on->error), TENON_STATE);
    add = (tenon_add_call){TENON_HEAD(tenon_add_call),
                           .a = host_view(x, ROW),
                           .b = buffer_view(self.b, ROW),
                           .y = buffer_view(self.y, ROW),
                           .tokens = 1,
                           .width = WIDTH,
                           .a_row_stride = ROW,
                           .b_row_stride = ROW,
                           .y_row_stride = ROW};
    ck_assert_int_eq(on->add->run(on->device, on->queue, &add, &on->error), TENON_DECLINED);
    ck_assert_int_eq(on->memory->fence(on->device, on->queue, &on->error), TENON_STATE);
    ck_assert_int_eq(on->memory->read(on->device, on->queue, self.y, 0, x, ROW, &on->error),
                     TENON_STATE);
    ck_assert_int_eq(on->attention->truncate(on->device, on->queue, self.cache, 0, &on->error),
                     TENON_OK); /* no change */
    ck_assert_int_eq(make_calls(&self, self.cache), TENON_OK);
    self.graph->abort(on->device, on->queue);
    self.graph->abort(on->device, on->queue);
    ck_assert_uint_eq(length_of(&self, self.cache), 0);
    read_y(&self, after); /* dropped: nothing was written */
    ck_assert(memcmp(before, after, ROW) == 0);
    self.graph->release(on->device, NULL);
    /* One that is never ended goes with its queue. */
    ck_assert_int_eq(self.graph->begin(on->device, on->queue, &on->error), TENON_OK);
    ck_assert_int_eq(make_calls(&self, self.cache), TENON_OK);
    on->p->queue_close(on->queue);
    on->queue = NULL;
    tear_down(&self);
}
END_TEST

START_TEST(released_in_flight)
{
    float wanted[WIDTH], y[WIDTH];
    tenon_device_graph *graph;
    tenon_device_cache *other;
    step self;

    if (!set_up(&self)) return;
    other = make_cache(&self);
    ck_assert_int_eq(make_calls(&self, other), TENON_OK);
    read_y(&self, wanted);
    rig_fill(y, WIDTH);
    ck_assert_int_eq(
        self.rig.memory->write(self.rig.device, self.rig.queue, self.a, 0, y, ROW, &self.rig.error),
        TENON_OK);
    graph = record(&self, self.cache);
    ck_assert_int_eq(self.graph->launch(self.rig.device, self.rig.queue, graph, &self.rig.error),
                     TENON_OK);
    self.graph->release(self.rig.device, graph);
    read_y(&self, y);
    ck_assert(memcmp(y, wanted, ROW) == 0);
    self.rig.attention->free(self.rig.device, other);
    tear_down(&self);
}
END_TEST

/* The device goes while a graph is recorded, and while launches are in flight. */
START_TEST(the_device_is_lost)
{
    tenon_device_graph *graph = NULL;
    float y[WIDTH];
    step self;
    rig *on = &self.rig;

    if (!set_up(&self)) return;
    graph = record(&self, self.cache);
    ck_assert_int_eq(self.graph->launch(on->device, on->queue, graph, &on->error), TENON_OK);
    rig_fail(on, FAULTY_WaitForFences, 1, VK_ERROR_DEVICE_LOST);
    if (_i == 0) {
        ck_assert_int_eq(on->memory->read(on->device, on->queue, self.y, 0, y, ROW, &on->error),
                         TENON_DEVICE_LOST);
        ck_assert_int_eq(self.graph->launch(on->device, on->queue, graph, &on->error),
                         TENON_DEVICE_LOST);
        ck_assert_uint_eq(length_of(&self, self.cache), 1);
        ck_assert_int_eq(self.graph->begin(on->device, on->queue, &on->error), TENON_DEVICE_LOST);
    } else {
        tenon_device_queue *second = NULL, *first = on->queue;
        tenon_device_graph *never = NULL;
        ck_assert_int_eq(on->p->queue_open(on->device, &second, &on->error), TENON_OK);
        on->queue = second;
        ck_assert_int_eq(self.graph->begin(on->device, second, &on->error), TENON_OK);
        ck_assert_int_eq(on->memory->fence(on->device, first, &on->error), TENON_DEVICE_LOST);
        ck_assert_int_eq(make_calls(&self, self.cache), TENON_DEVICE_LOST);
        self.graph->abort(on->device, second);
        ck_assert_int_eq(self.graph->end(on->device, second, &never, &on->error), TENON_STATE);
        on->p->queue_close(second);
        on->queue = first;
    }
    self.graph->release(on->device, graph);
    tear_down(&self);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("vulkan graph");
    TCase *graphs = tcase_create("graphs");
    tcase_set_timeout(graphs, 300);
    tcase_add_test(graphs, launches_are_the_calls);
    tcase_add_test(graphs, long_caches);
    tcase_add_test(graphs, a_full_cache_is_left_alone);
    tcase_add_test(graphs, what_is_no_graph);
    tcase_add_test(graphs, released_in_flight);
    tcase_add_loop_test(graphs, the_device_is_lost, 0, 2);
    suite_add_tcase(made, graphs);
    return made;
}

int main(void)
{
    return runner_main(srunner_create(suite()));
}
