/* The fixtures of whole operations do what their tests rely on: exact answers, and failures that
 * come when and as they were ordered. */
#include "fixture_rig.h"

#include <math.h>

#define UNTOUCHED 0x77
#define POISON 0xFF /* of buffers that nobody has written */

static float expected[OPERATIONS][VALUES];

/* What the reference answers, once for all tests. */
static void compute_expected(void)
{
    fixture of;
    work_rig rig;
    int i;
    fixture_open(&of, NULL, NULL);
    work_open(&rig, &of);
    for (i = 0; i < OPERATIONS; i++) {
        fixture_must(&of, work_run(&rig, i));
        memcpy(expected[i], rig.y, sizeof rig.y);
    }
    work_close(&rig);
    fixture_close(&of, 0);
}

static void check_right(const work_rig *rig, int operation)
{
    ck_assert_msg(memcmp(rig->y, expected[operation], work_bytes(operation)) == 0,
                  "%s is not what the reference gives", operation_names[operation]);
}

/* ------------------------------------------------------------------ what they export */

START_TEST(test_names)
{
    static const struct {
        const char *name;
        bool operations, memory;
    } known[] = {{"only_qmatmul", false, false},
                 {"ops_fail", true, false},
                 {"ops_full", true, false},
                 {"async", true, true}};
    static const char *const names[] = {
#define TENON_SYMBOL(name, kind, type, header) #name,
#define TENON_SYMBOL_VIEW(name, direction, field)
#include <symbols.def>
#undef TENON_SYMBOL
#undef TENON_SYMBOL_VIEW
    };
    size_t i, k;
    ck_assert_uint_ge(sizeof names / sizeof names[0], 9);
    for (i = 0; i < sizeof known / sizeof known[0]; i++) {
        fixture of;
        fixture_open(&of, known[i].name, NULL);
        ck_assert_str_eq(of.provider_v1->id, known[i].name);
        for (k = 0; k < sizeof names / sizeof names[0]; k++) {
            bool wanted = strcmp(names[k], "provider_v1") == 0 ||
                          strcmp(names[k], "qmatmul_v1") == 0 ||
                          (strcmp(names[k], "memory_v1") == 0 ? known[i].memory
                                                              : known[i].operations);
            ck_assert_msg((dlsym(of.file, names[k]) != NULL) == wanted, "%s: %s", known[i].name,
                          names[k]);
        }
        ck_assert_ptr_null(dlsym(of.file, "tenon_reference_provider_v1"));
        fixture_close(&of, 0);
    }
}
END_TEST

START_TEST(test_settings)
{
    static const struct {
        const char *name, *setting;
    } bad[] = {{"ops_fail", "ops_fail.at=x"},       {"ops_fail", "ops_fail.how=badly"},
               {"ops_fail", "ops_fail.operation="}, {"ops_full", "ops_full.weights=-1"},
               {"async", "async.lose_at=1x"},       {"async", "async.memory="}};
    size_t i;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fixture of;
        ck_assert_int_eq(fixture_begin(&of, bad[i].name, bad[i].setting, NULL), TENON_STATE);
        ck_assert_uint_eq(of.error.reason, TENON_REASON_UNKNOWN_CONFIG);
        dlclose(of.file);
    }
}
END_TEST

/* ------------------------------------------------------------------ exact in host memory */

START_TEST(test_exact)
{
    static const char *const names[] = {"ops_fail", "ops_full", "async", "only_qmatmul"};
    fixture of;
    work_rig rig;
    int i;
    fixture_open(&of, names[_i], NULL);
    work_open(&rig, &of);
    for (i = 0; i < OPERATIONS; i++) {
        if (of.attention == NULL && i != QMATMUL) continue;
        memset(rig.y, UNTOUCHED, sizeof rig.y);
        fixture_must(&of, work_run(&rig, i));
        check_right(&rig, i);
    }
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

/* ------------------------------------------------------------------ ops_fail */

static uint64_t length_of(work_rig *rig)
{
    uint64_t length = 0;
    fixture_must(rig->of,
                 rig->of->attention->length(rig->of->device, rig->cache, &length, &rig->of->error));
    return length;
}

/* Of TOKENS rows the first two, and half of the third, are written. */
static void check_half(const work_rig *rig, int operation, uint8_t rest)
{
    const uint8_t *y = (const uint8_t *)rig->y;
    size_t row = work_bytes(operation) / TOKENS, half = TOKENS / 2 * row + row / 8 * 4, i;
    ck_assert_uint_gt(half, 0);
    for (i = 0; i < sizeof rig->y; i++) ck_assert_uint_eq(y[i], i < half ? 0x5A : rest);
}

/* The second and third call of one operation fail, the others answer. */
START_TEST(test_fails)
{
    int operation = _i / 2, call;
    bool half = _i % 2 != 0;
    char setting[64];
    fixture of;
    work_rig rig;
    snprintf(setting, sizeof setting, "ops_fail.operation=%s", operation_names[operation]);
    fixture_open(&of, "ops_fail", setting, "ops_fail.at=2", "ops_fail.times=2",
                 half ? "ops_fail.how=half" : "ops_fail.how=clean");
    work_open(&rig, &of);
    if (operation == ATTENTION) fixture_must(&of, work_run(&rig, APPEND));
    for (call = 1; call <= 4; call++) {
        uint64_t length = length_of(&rig);
        int32_t status;
        if (operation != ADD) fixture_must(&of, work_run(&rig, ADD)); /* another one, not counted */
        memset(rig.y, UNTOUCHED, sizeof rig.y);
        status = work_run(&rig, operation);
        if (call == 1 || call == 4) {
            ck_assert_int_eq(status, TENON_OK);
            check_right(&rig, operation);
            if (operation == APPEND)
                fixture_must(&of,
                             of.attention->truncate(of.device, of.queue, rig.cache, 0, &of.error));
            continue;
        }
        ck_assert_int_eq(status, TENON_INTERNAL);
        ck_assert_uint_eq(of.error.scope, TENON_SCOPE_CALL);
        ck_assert_uint_eq(length_of(&rig), length);
        if (half && operation != APPEND) {
            check_half(&rig, operation, UNTOUCHED);
        } else {
            size_t i;
            for (i = 0; i < sizeof rig.y; i++) ck_assert_uint_eq(((uint8_t *)rig.y)[i], UNTOUCHED);
        }
    }
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

START_TEST(test_fails_any)
{
    fixture of;
    work_rig rig;
    int i;
    fixture_open(&of, "ops_fail", "ops_fail.at=4", NULL);
    work_open(&rig, &of);
    for (i = 0; i < OPERATIONS; i++)
        ck_assert_int_eq(work_run(&rig, i), i == 3 ? TENON_INTERNAL : TENON_OK);
    work_close(&rig);
    fixture_close(&of, 0);
}
END_TEST

/* ------------------------------------------------------------------ ops_full */

START_TEST(test_full)
{
    fixture of;
    work_rig rig;
    tenon_prepared *second = NULL, *third = NULL;
    tenon_device_cache *more = NULL;
    uint64_t bytes;
    fixture_open(&of, "ops_full", "ops_full.weights=2", "ops_full.caches=1", NULL);
    work_open(&rig, &of);
    fixture_must(&of, prepare_weight(&rig, &second));
    ck_assert_int_eq(prepare_weight(&rig, &third), TENON_NOMEM);
    ck_assert_uint_eq(of.error.scope, TENON_SCOPE_WEIGHT);
    ck_assert_uint_gt(of.error.wanted, sizeof rig.codes);
    bytes = of.error.wanted;
    ck_assert_ptr_null(third);
    ck_assert_int_eq(create_cache(&rig, &more), TENON_NOMEM);
    ck_assert_uint_eq(of.error.scope, TENON_SCOPE_WEIGHT);
    ck_assert_int_eq(of.attention->clone(of.device, of.queue, rig.cache, &more, &of.error),
                     TENON_NOMEM);
    fixture_must(&of, work_run(&rig, QMATMUL));
    check_right(&rig, QMATMUL);
    of.qmatmul->release(of.device, second); /* makes room */
    fixture_must(&of, prepare_weight(&rig, &third));
    of.qmatmul->release(of.device, third);
    work_close(&rig);
    fixture_close(&of, 0);
    /* by bytes: one and a half */
    {
        char setting[64];
        snprintf(setting, sizeof setting, "ops_full.bytes=%llu",
                 (unsigned long long)(bytes + bytes / 2));
        fixture_open(&of, "ops_full", setting, NULL);
        work_open(&rig, &of);
        ck_assert_int_eq(prepare_weight(&rig, &second), TENON_NOMEM);
        ck_assert_uint_eq(of.error.wanted, bytes);
        ck_assert_uint_eq(of.error.available, bytes / 2);
        work_close(&rig);
        fixture_close(&of, 0);
    }
}
END_TEST

START_TEST(test_leak_is_said)
{
    static void *forgotten; /* not by leak checkers */
    fixture of;
    work_rig rig;
    fixture_open(&of, _i == 0 ? "ops_full" : "async", NULL);
    work_open(&rig, &of);
    of.qmatmul->release(of.device, rig.weight);
    forgotten = rig.cache;
    ck_assert_ptr_nonnull(forgotten);
    fixture_close(&of, 1); /* the cache is still there */
    ck_assert_ptr_nonnull(strstr(of.last, "never given back"));
}
END_TEST

/* ------------------------------------------------------------------ async */

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
    rig.ids[1] = WIDTH; /* in host memory it is an error */
    rig.in_ids = host_view(rig.ids, sizeof rig.ids);
    ck_assert_int_eq(work_run(&rig, EMBED), TENON_ARG);
    ck_assert_uint_eq(of.error.reason, TENON_REASON_INDEX);
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

/* Cuts and copies of a cache come in order with the rest. */
START_TEST(test_cache)
{
    static const char *const names[] = {NULL, "async", "ops_fail"};
    static float right[VALUES];
    fixture of;
    work_rig rig;
    tenon_device_cache *original, *copy = NULL;
    size_t n;
    for (n = 0; n < 3; n++) {
        fixture_open(&of, names[n], NULL);
        work_open(&rig, &of);
        fixture_must(&of, work_run(&rig, APPEND));
        memmove(rig.k, rig.k + 3, sizeof rig.k - 3 * sizeof *rig.k);
        fixture_must(&of, work_run(&rig, APPEND));
        fixture_must(&of, of.attention->evict(of.device, of.queue, rig.cache, 2, 3, &of.error));
        ck_assert_uint_eq(length_of(&rig), 2 * TOKENS - 3);
        fixture_must(&of, of.attention->clone(of.device, of.queue, rig.cache, &copy, &of.error));
        fixture_must(&of, of.attention->truncate(of.device, of.queue, rig.cache, 1, &of.error));
        ck_assert_int_lt(work_run(&rig, ATTENTION), 0); /* five rows of one position */
        original = rig.cache;
        rig.cache = copy;
        fixture_must(&of, work_run(&rig, ATTENTION));
        if (n == 0) memcpy(right, rig.y, sizeof right);
        ck_assert_int_eq(memcmp(rig.y, right, sizeof right), 0);
        of.attention->free(of.device, original);
        work_close(&rig);
        fixture_close(&of, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("operation fixtures");
    TCase *all = tcase_create("all");
    SRunner *runner;
    tcase_add_unchecked_fixture(all, compute_expected, NULL);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, test_names);
    tcase_add_test(all, test_settings);
    tcase_add_loop_test(all, test_exact, 0, 4);
    tcase_add_loop_test(all, test_fails, 0, 2 * OPERATIONS);
    tcase_add_test(all, test_fails_any);
    tcase_add_test(all, test_full);
    tcase_add_loop_test(all, test_leak_is_said, 0, 2);
    tcase_add_test(all, test_buffers);
    tcase_add_test(all, test_order);
    tcase_add_test(all, test_ids_that_are_none);
    tcase_add_test(all, test_memory);
    tcase_add_test(all, test_loses_its_device);
    tcase_add_test(all, test_fails_late);
    tcase_add_loop_test(all, test_fails_when_waited_for, 0, 2);
    tcase_add_test(all, test_cache);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    return runner_main(runner);
}
