/* The asynchronous fixture: memory that only it can reach, work in flight, and how both are lost. */
#include "fixture_rig.h"

#include <math.h>

static tenon_memory_info memory_of(fixture *of)
{
    tenon_memory_info info = {TENON_HEAD(tenon_memory_info), .total = 0};
    fixture_must(of, of->memory->info(of->device, &info, &of->error));
    return info;
}

static tenon_device_buffer *new_buffer(fixture *of, uint64_t bytes)
{
    tenon_device_buffer *out = NULL;
    fixture_must(of, of->memory->alloc(of->device, bytes, &out, &of->error));
    ck_assert_ptr_nonnull(out);
    return out;
}

/* Inputs and output of the rig move into buffers. */
typedef struct buffers {
    tenon_device_buffer *a, *b, *ids, *y;
} buffers;

static buffers move_in(work_rig *rig)
{
    fixture *of = rig->of;
    buffers all = {new_buffer(of, sizeof rig->a), new_buffer(of, sizeof rig->b),
                   new_buffer(of, sizeof rig->ids), new_buffer(of, sizeof rig->y)};
    rig->in_a = buffer_view(all.a, sizeof rig->a);
    rig->in_b = buffer_view(all.b, sizeof rig->b);
    rig->in_ids = buffer_view(all.ids, sizeof rig->ids);
    rig->out = buffer_view(all.y, sizeof rig->y);
    of->memory->write(of->device, of->queue, all.a, 0, rig->a, sizeof rig->a, &of->error);
    of->memory->write(of->device, of->queue, all.b, 0, rig->b, sizeof rig->b, &of->error);
    of->memory->write(of->device, of->queue, all.ids, 0, rig->ids, sizeof rig->ids, &of->error);
    return all;
}

static void free_buffers(fixture *of, const buffers *all)
{
    of->memory->free(of->device, all->a);
    of->memory->free(of->device, all->b);
    of->memory->free(of->device, all->ids);
    of->memory->free(of->device, all->y);
    of->memory->free(of->device, NULL);
}

static int32_t read_y(work_rig *rig, const buffers *all, size_t bytes)
{
    fixture *of = rig->of;
    return of->memory->read(of->device, of->queue, all->y, 0, rig->y, bytes, &of->error);
}

START_TEST(test_buffers)
{
    fixture of;
    work_rig rig;
    buffers all;
    int i;
    fixture_open(&of, "async", "async.delay_us=500", NULL);
    work_open(&rig, &of);
    all = move_in(&rig);
    ck_assert_uint_lt((uintptr_t)all.y, 65536); /* no pointer that could be read */
    /* what was given as host memory is the caller's again, whenever the work is done */
    memset(rig.a, 0, sizeof rig.a);
    for (i = 0; i < OPERATIONS; i++) {
        fixture_must(&of, work_run(&rig, i));
        if (i == RMSNORM) memset(rig.w, 0, sizeof rig.w);
        if (i == APPEND) {
            memset(rig.k, 0, sizeof rig.k);
            continue;
        }
        fixture_must(&of, read_y(&rig, &all, work_bytes(i)));
        check_right(&rig, i);
    }
    free_buffers(&of, &all);
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

/* y of one call is the input of the next; only the end is waited for. */
START_TEST(test_order)
{
    fixture of, reference;
    work_rig rig, right;
    buffers all;
    int i;
    fixture_open(&of, "async", "async.delay_us=200", NULL);
    fixture_open(&reference, NULL, NULL);
    work_open(&rig, &of);
    work_open(&right, &reference);
    all = move_in(&rig);
    for (i = 0; i < 20; i++) {
        const int operation = i % 3 == 0 ? RMSNORM : i % 3 == 1 ? QMATMUL : ADD;
        tenon_view view = rig.in_a;
        fixture_must(&of, work_run(&rig, operation));
        rig.in_a = rig.out;
        rig.out = view;
        fixture_must(&reference, work_run(&right, operation));
        memcpy(right.a, right.y, sizeof right.a);
    }
    fixture_must(&of, of.memory->copy(of.device, of.queue, all.b, 0, rig.in_a.buffer, 0,
                                      sizeof rig.y, &of.error));
    fixture_must(&of,
                 of.memory->read(of.device, of.queue, all.b, 0, rig.y, sizeof rig.y, &of.error));
    ck_assert_int_eq(memcmp(rig.y, right.a, sizeof rig.y), 0);
    free_buffers(&of, &all);
    work_close(&rig);
    work_close(&right);
    fixture_close(&of, 0);
    fixture_close(&reference, 0);
}
END_TEST

START_TEST(test_ids_that_are_none)
{
    const uint32_t none = 0xFFFFFFFFu;
    fixture of;
    work_rig rig;
    buffers all;
    size_t i;
    fixture_open(&of, "async", NULL);
    work_open(&rig, &of);
    all = move_in(&rig);
    fixture_must(&of, of.memory->write(of.device, of.queue, all.ids, 8, &none, 4, &of.error));
    fixture_must(&of, work_run(&rig, EMBED));
    fixture_must(&of, read_y(&rig, &all, sizeof rig.y));
    for (i = 0; i < VALUES; i++) {
        if (i / WIDTH == 2)
            ck_assert(isnan(rig.y[i]));
        else
            ck_assert_int_eq(memcmp(&rig.y[i], &expected[EMBED][i], 4), 0);
    }
    rig.ids[2] = WIDTH;
    rig.in_ids = host_view(rig.ids, sizeof rig.ids);
    memset(rig.y, 0, sizeof rig.y);
    fixture_must(&of, work_run(&rig, EMBED));
    fixture_must(&of, read_y(&rig, &all, sizeof rig.y));
    ck_assert(isnan(rig.y[2 * WIDTH]) && !isnan(rig.y[3 * WIDTH]));
    free_buffers(&of, &all);
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

START_TEST(test_memory)
{
    fixture of;
    work_rig rig;
    tenon_device_buffer *buffer, *more = NULL;
    tenon_memory_info before, now;
    float poison[2] = {0.0f, 0.0f};
    uint64_t cache_bytes = 0;
    fixture_open(&of, "async", "async.memory=100000", "async.buffers=1000", NULL);
    work_open(&rig, &of);
    before = memory_of(&of);
    fixture_must(&of, of.attention->bytes(of.device, rig.cache, &cache_bytes, &of.error));
    ck_assert_uint_eq(before.total, 100000);
    ck_assert_uint_eq(before.objects, 2);
    ck_assert_uint_gt(before.used, cache_bytes + sizeof rig.codes);
    ck_assert_uint_eq(before.free, before.total - before.used);
    buffer = new_buffer(&of, 600);
    now = memory_of(&of);
    ck_assert_uint_eq(now.objects, 3);
    ck_assert_uint_eq(now.used, before.used + 600);
    fixture_must(&of, of.memory->read(of.device, of.queue, buffer, 0, poison, 8, &of.error));
    ck_assert(isnan(poison[0]) && isnan(poison[1]));
    ck_assert_int_eq(of.memory->alloc(of.device, 404, &more, &of.error), TENON_NOMEM);
    ck_assert_uint_eq(of.error.wanted, 404);
    ck_assert_uint_eq(of.error.available, 400);
    ck_assert_int_eq(of.memory->alloc(of.device, 200000, &more, &of.error), TENON_NOMEM);
    ck_assert_uint_eq(of.error.available, now.free);
    ck_assert_ptr_null(more);
    ck_assert_uint_eq(memory_of(&of).used, now.used);
    ck_assert_int_eq(of.memory->read(of.device, of.queue, buffer, 596, poison, 8, &of.error),
                     TENON_ARG);
    of.memory->free(of.device, buffer);
    ck_assert_uint_eq(memory_of(&of).used, before.used);
    ck_assert_int_eq(of.memory->read(of.device, of.queue, buffer, 0, poison, 8, &of.error),
                     TENON_ARG);
    work_close(&rig);
    now = memory_of(&of);
    ck_assert_uint_eq(now.used + now.objects, 0);
    fixture_close(&of, 0);
}
END_TEST

/* The fourth piece of work, behind three writes, is in flight when the device goes. */
START_TEST(test_loses_its_device)
{
    fixture of;
    work_rig rig;
    buffers all;
    tenon_device_buffer *more = NULL;
    tenon_prepared *weight = NULL;
    tenon_memory_info info = {TENON_HEAD(tenon_memory_info), .total = 0};
    int i;
    fixture_open(&of, "async", "async.lose_at=4", "async.delay_us=1000", NULL);
    work_open(&rig, &of);
    all = move_in(&rig);
    fixture_must(&of, work_run(&rig, QMATMUL)); /* given, and that is all */
    ck_assert_int_eq(read_y(&rig, &all, sizeof rig.y), TENON_DEVICE_LOST);
    ck_assert_uint_eq(of.error.scope, TENON_SCOPE_DEVICE);
    for (i = 0; i < OPERATIONS; i++) {
        int32_t status = work_run(&rig, i);
        ck_assert_int_eq(status, i == ATTENTION ? TENON_ARG : TENON_DEVICE_LOST);
    }
    ck_assert_int_eq(of.memory->fence(of.device, of.queue, &of.error), TENON_DEVICE_LOST);
    ck_assert_int_eq(of.memory->alloc(of.device, 64, &more, &of.error), TENON_DEVICE_LOST);
    ck_assert_int_eq(of.memory->info(of.device, &info, &of.error), TENON_DEVICE_LOST);
    ck_assert_int_eq(prepare_weight(&rig, &weight), TENON_DEVICE_LOST);
    free_buffers(&of, &all); /* what was made is still given back */
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

/* Work fails late on one queue; another one goes on. */
START_TEST(test_fails_late)
{
    fixture of;
    work_rig rig;
    buffers all;
    tenon_device_queue *first, *second = NULL;
    fixture_open(&of, "async", "async.fail_late_at=4", "async.delay_us=1000", NULL);
    work_open(&rig, &of);
    first = of.queue;
    fixture_must(&of, of.provider_v1->queue_open(of.device, &second, &of.error));
    all = move_in(&rig);
    fixture_must(&of, work_run(&rig, ADD));
    ck_assert_int_eq(read_y(&rig, &all, sizeof rig.y), TENON_LOST);
    ck_assert_int_eq(work_run(&rig, ADD), TENON_LOST);
    ck_assert_int_eq(of.memory->fence(of.device, of.queue, &of.error), TENON_LOST);
    of.queue = second;
    fixture_must(&of, read_y(&rig, &all, sizeof rig.y));
    check_half(&rig, ADD, POISON);
    fixture_must(&of, work_run(&rig, ADD));
    fixture_must(&of, read_y(&rig, &all, sizeof rig.y));
    check_right(&rig, ADD);
    free_buffers(&of, &all);
    work_close(&rig);
    of.provider_v1->queue_close(second);
    of.queue = first;
    fixture_close(&of, 0);
}
END_TEST

/* A call that is waited for fails when it is made. */
START_TEST(test_fails_when_waited_for)
{
    fixture of;
    work_rig rig;
    fixture_open(&of, "async", _i == 0 ? "async.fail_late_at=1" : "async.lose_at=1", NULL);
    work_open(&rig, &of);
    memset(rig.y, UNTOUCHED, sizeof rig.y);
    ck_assert_int_eq(work_run(&rig, QMATMUL), _i == 0 ? TENON_INTERNAL : TENON_DEVICE_LOST);
    check_half(&rig, QMATMUL, UNTOUCHED);
    ck_assert_int_eq(work_run(&rig, QMATMUL), _i == 0 ? TENON_OK : TENON_DEVICE_LOST);
    if (_i == 0) check_right(&rig, QMATMUL);
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

/* ------------------------------------------------------------------ graphs */

typedef struct graph_rig {
    buffers all;
    tenon_device_buffer *w, *k, *v;
} graph_rig;

/* Everything that a recorded call names lies in buffers. */
static graph_rig all_in_buffers(work_rig *rig)
{
    fixture *of = rig->of;
    graph_rig out = {move_in(rig), new_buffer(of, sizeof rig->w), new_buffer(of, sizeof rig->k),
                     new_buffer(of, sizeof rig->v)};
    of->memory->write(of->device, of->queue, out.w, 0, rig->w, sizeof rig->w, &of->error);
    of->memory->write(of->device, of->queue, out.k, 0, rig->k, sizeof rig->k, &of->error);
    of->memory->write(of->device, of->queue, out.v, 0, rig->v, sizeof rig->v, &of->error);
    rig->in_w = buffer_view(out.w, sizeof rig->w);
    rig->in_k = buffer_view(out.k, sizeof rig->k);
    rig->in_v = buffer_view(out.v, sizeof rig->v);
    return out;
}

static void free_all(fixture *of, const graph_rig *all)
{
    of->memory->free(of->device, all->w);
    of->memory->free(of->device, all->k);
    of->memory->free(of->device, all->v);
    free_buffers(of, &all->all);
}

/* norm(a) to y, append, attention of a over the cache to b: each launch sees a longer cache. */
static void record(work_rig *rig, const graph_rig *all, tenon_device_graph **out)
{
    fixture *of = rig->of;
    fixture_must(of, of->graph->begin(of->device, of->queue, &of->error));
    fixture_must(of, work_run(rig, RMSNORM));
    fixture_must(of, work_run(rig, APPEND));
    rig->out = rig->in_b;
    fixture_must(of, work_run(rig, ATTENTION));
    rig->out = buffer_view(all->all.y, sizeof rig->y);
    fixture_must(of, of->graph->end(of->device, of->queue, out, &of->error));
    ck_assert_ptr_nonnull(*out);
}

START_TEST(test_graph)
{
    fixture of, reference;
    work_rig rig, right;
    graph_rig all;
    tenon_device_graph *graph = NULL;
    int i;
    fixture_open(&of, "async", "async.delay_us=200", NULL);
    fixture_open(&reference, NULL, NULL);
    work_open(&rig, &of);
    work_open(&right, &reference);
    all = all_in_buffers(&rig);
    record(&rig, &all, &graph);
    ck_assert_uint_eq(length_of(&rig), 0); /* nothing of it was done */
    fixture_must(&of, read_y(&rig, &all.all, sizeof rig.y));
    ck_assert(isnan(rig.y[0]));
    for (i = 0; i < 4; i++) {
        fixture_must(&of, of.graph->launch(of.device, of.queue, graph, &of.error));
        ck_assert_uint_eq(length_of(&rig), (uint64_t)(i + 1) * TOKENS);
        fixture_must(&of, read_y(&rig, &all.all, sizeof rig.y));
        check_right(&rig, RMSNORM);
        fixture_must(&of, of.memory->read(of.device, of.queue, all.all.b, 0, rig.y, sizeof rig.y,
                                          &of.error));
        fixture_must(&reference, work_run(&right, APPEND));
        fixture_must(&reference, work_run(&right, ATTENTION));
        ck_assert_int_eq(memcmp(rig.y, right.y, sizeof right.y), 0);
    }
    /* the cache is full: declined, and nothing has changed */
    ck_assert_int_eq(of.graph->launch(of.device, of.queue, graph, &of.error), TENON_DECLINED);
    ck_assert_uint_eq(length_of(&rig), 4 * TOKENS);
    fixture_must(&of, of.attention->truncate(of.device, of.queue, rig.cache, 0, &of.error));
    for (i = 0; i < 3; i++)
        fixture_must(&of, of.graph->launch(of.device, of.queue, graph, &of.error));
    of.graph->release(of.device, graph); /* waits for what is in flight */
    of.graph->release(of.device, NULL);
    free_all(&of, &all);
    work_close(&rig);
    work_close(&right);
    fixture_close(&of, 0);
    fixture_close(&reference, 0);
}
END_TEST

START_TEST(test_graph_declines)
{
    fixture of;
    work_rig rig;
    graph_rig all;
    tenon_device_graph *graph = NULL;
    fixture_open(&of, "async", "async.graphs=2", NULL);
    work_open(&rig, &of);
    ck_assert_int_lt(of.graph->end(of.device, of.queue, &graph, &of.error), 0); /* nothing begun */
    fixture_must(&of, of.graph->begin(of.device, of.queue, &of.error));
    ck_assert_int_lt(of.graph->begin(of.device, of.queue, &of.error), 0);
    ck_assert_int_eq(work_run(&rig, ADD), TENON_DECLINED); /* host memory */
    all = all_in_buffers(&rig);
    rig.in_w = host_view(rig.w, sizeof rig.w);
    ck_assert_int_eq(work_run(&rig, RMSNORM), TENON_DECLINED);
    rig.in_w = buffer_view(all.w, sizeof rig.w);
    of.graph->abort(of.device, of.queue);
    fixture_must(&of, work_run(&rig, ADD)); /* done, not recorded */
    fixture_must(&of, read_y(&rig, &all.all, sizeof rig.y));
    check_right(&rig, ADD);
    record(&rig, &all, &graph);
    ck_assert_int_eq(of.graph->begin(of.device, of.queue, &of.error), TENON_DECLINED);
    if (_i == 0) of.graph->release(of.device, graph);
    free_all(&of, &all);
    work_close(&rig);
    if (_i != 0) {
        static void *forgotten; /* not by leak checkers */
        forgotten = graph;
        ck_assert_ptr_nonnull(forgotten);
    }
    fixture_close(&of, (unsigned)_i);
}
END_TEST

/* The second call of the second launch is where the device goes. */
START_TEST(test_graph_is_lost)
{
    fixture of;
    work_rig rig;
    graph_rig all;
    tenon_device_graph *graph = NULL;
    fixture_open(&of, "async", "async.lose_at=11", "async.delay_us=1000", NULL);
    work_open(&rig, &of);
    all = all_in_buffers(&rig); /* six writes */
    record(&rig, &all, &graph);
    fixture_must(&of, of.graph->launch(of.device, of.queue, graph, &of.error));
    fixture_must(&of, read_y(&rig, &all.all, sizeof rig.y));
    fixture_must(&of, of.graph->launch(of.device, of.queue, graph, &of.error));
    ck_assert_int_eq(read_y(&rig, &all.all, sizeof rig.y), TENON_DEVICE_LOST);
    ck_assert_int_eq(of.graph->launch(of.device, of.queue, graph, &of.error), TENON_DEVICE_LOST);
    ck_assert_int_eq(of.graph->begin(of.device, of.queue, &of.error), TENON_DEVICE_LOST);
    of.graph->release(of.device, graph);
    free_all(&of, &all);
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("async fixture");
    TCase *all = tcase_create("all");
    SRunner *runner;
    tcase_add_unchecked_fixture(all, compute_expected, NULL);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, test_buffers);
    tcase_add_test(all, test_order);
    tcase_add_test(all, test_ids_that_are_none);
    tcase_add_test(all, test_memory);
    tcase_add_test(all, test_loses_its_device);
    tcase_add_test(all, test_fails_late);
    tcase_add_loop_test(all, test_fails_when_waited_for, 0, 2);
    tcase_add_test(all, test_graph);
    tcase_add_loop_test(all, test_graph_declines, 0, 2);
    tcase_add_test(all, test_graph_is_lost);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    return runner_main(runner);
}
