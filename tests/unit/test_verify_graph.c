/* Does stage abi of the conformance suite see faults of graph_v1? A provider in this process records
 * calls and makes them again at each launch, with one fault at a time; the same cases must pass
 * without one. */
#include <tests/conformance/runner.h>

#include "fake_provider.h"
#include "runner.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ALL \
    (FAKE_EMBED | FAKE_RMSNORM | FAKE_GATED | FAKE_ADD | FAKE_ARGMAX | FAKE_ATTENTION | \
     FAKE_MEMORY | FAKE_GRAPH)

typedef enum fault {
    FAULT_NONE,
    DONE_AT_ONCE,      /* recorded calls are made, too */
    LENGTH_AT_ONCE,    /* recording makes the cache longer */
    END_NULL,          /* end answers OK without a graph */
    ABORT_KEEPS,       /* abort goes on recording */
    ERROR_NEEDED,      /* begin needs an error */
    HOST_TAKEN,        /* host memory is recorded */
    HOST_WRITTEN,      /* it is declined, and the result written all the same */
    LAUNCHES_NOTHING,  /* launch does nothing */
    LAUNCHES_ONCE,     /* only the first one does */
    LAUNCHES_TWICE,    /* each does all of it twice */
    LAST_MISSING,      /* a launch leaves out the last call */
    TURNED_ROUND,      /* a launch makes its first two calls in opposite order */
    WRITES_BESIDE,     /* a launch writes behind its last result */
    LENGTH_BAKED,      /* a launch goes back to the length that the cache had at the first one */
    LENGTH_STAYS,      /* a launch appends, and the cache is no longer */
    RELEASE_DROPS,     /* release takes back what is in flight */
    RELEASE_NEEDS_ONE, /* release of NULL is fatal */
    LAUNCH_FAILS
} fault;

static fault active; /* inherited by the processes of the cases */

/* ---- the provider --------------------------------------------------------------------------- */

/* Of a fault that loses work: a launch that waits for the next access to memory. */
static struct {
    tenon_device *device;
    tenon_device_queue *queue;
    tenon_device_graph *graph;
} pending;

static void work_off(void)
{
    tenon_device_graph *graph = pending.graph;
    pending.graph = NULL;
    if (graph != NULL && fake_graph_launch(pending.device, pending.queue, graph, NULL) != TENON_OK)
        abort();
}

static int32_t TENON_CALL begin(tenon_device *device, tenon_device_queue *queue, tenon_error *error)
{
    if (active == ERROR_NEEDED && error == NULL) abort(); /* a crash that sanitizers leave alone */
    return active == DONE_AT_ONCE ? TENON_OK : fake_graph_begin(device, queue, error);
}

static int32_t TENON_CALL end(tenon_device *device, tenon_device_queue *queue,
                              tenon_device_graph **out, tenon_error *error)
{
    fake_graph_of_calls *graph;
    int32_t status;
    int i;
    if (active == DONE_AT_ONCE && fake_graph_begin(device, queue, error) != TENON_OK) abort();
    status = fake_graph_end(device, queue, out, error);
    graph = (fake_graph_of_calls *)(void *)*out;
    for (i = 0; active == LENGTH_AT_ONCE && i < graph->count; i++)
        if (graph->kinds[i] == FAKE_CALL_APPEND)
            fake_append(device, queue, &graph->calls[i].append, error);
    return status;
}

static void TENON_CALL drop(tenon_device *device, tenon_device_queue *queue)
{
    if (active != ABORT_KEEPS) fake_graph_abort(device, queue);
}

static tenon_device_cache *cache_of(const fake_graph_of_calls *graph)
{
    int i;
    for (i = 0; i < graph->count; i++)
        if (graph->kinds[i] == FAKE_CALL_APPEND) return graph->calls[i].append.cache;
    return NULL;
}

/* The view that the last call writes. */
static tenon_view *result_of(fake_graph_of_calls *graph)
{
    const int last = graph->count - 1;
    switch (graph->kinds[last]) {
    case FAKE_CALL_QMATMUL: return &graph->calls[last].qmatmul.outputs[0].y;
    case FAKE_CALL_embed: return &graph->calls[last].embed.y;
    case FAKE_CALL_rmsnorm: return &graph->calls[last].rmsnorm.y;
    case FAKE_CALL_gated: return &graph->calls[last].gated.y;
    case FAKE_CALL_add: return &graph->calls[last].add.y;
    case FAKE_CALL_argmax: return &graph->calls[last].argmax.y;
    default: return &graph->calls[last].attention.y;
    }
}

static void swap_calls(fake_graph_of_calls *graph)
{
    fake_graph_of_calls copy = *graph;
    if (graph->count < 2) return;
    graph->kinds[0] = copy.kinds[1];
    graph->calls[0] = copy.calls[1];
    graph->kinds[1] = copy.kinds[0];
    graph->calls[1] = copy.calls[0];
}

static int32_t TENON_CALL launch(tenon_device *device, tenon_device_queue *queue,
                                 tenon_device_graph *opaque, tenon_error *error)
{
    static uint64_t launches, first_length;
    fake_graph_of_calls *graph = (fake_graph_of_calls *)(void *)opaque;
    tenon_device_cache *cache = cache_of(graph);
    uint64_t length = 0, number = launches++;
    const tenon_view *y = result_of(graph);
    int32_t status;
    work_off();
    if (cache != NULL && fake_length(device, cache, &length, NULL) != TENON_OK) abort();
    if (number == 0) first_length = length;
    if (active == LAUNCH_FAILS)
        return tenon_fail(error, TENON_TIMEOUT, TENON_REASON_DEVICE_FAILED, TENON_SCOPE_CALL, "no");
    if (active == LAUNCHES_NOTHING || (active == LAUNCHES_ONCE && number > 0)) return TENON_OK;
    if (active == RELEASE_DROPS) {
        pending.device = device;
        pending.queue = queue;
        pending.graph = opaque;
        return TENON_OK;
    }
    if (active == LENGTH_BAKED && cache != NULL && length > first_length &&
        fake_truncate(device, queue, cache, first_length, error) != TENON_OK)
        abort();
    if (active == TURNED_ROUND) swap_calls(graph);
    if (active == LAST_MISSING) graph->count--;
    status = fake_graph_launch(device, queue, opaque, error);
    if (active == LAUNCHES_TWICE) status = fake_graph_launch(device, queue, opaque, error);
    if (active == LAST_MISSING) graph->count++;
    if (active == TURNED_ROUND) swap_calls(graph);
    if (active == WRITES_BESIDE) ((fake_buffer *)y->buffer)->bytes[y->offset + y->bytes] = 1;
    if (active == LENGTH_STAYS && cache != NULL &&
        fake_truncate(device, queue, cache, length, error) != TENON_OK)
        abort();
    return status;
}

static void TENON_CALL release(tenon_device *device, tenon_device_graph *graph)
{
    if (graph == NULL && active == RELEASE_NEEDS_ONE) abort();
    if (graph != NULL && pending.graph == graph) pending.graph = NULL;
    fake_graph_release(device, graph);
}

static int32_t TENON_CALL read_buffer(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_device_buffer *buffer, uint64_t offset, void *to,
                                      uint64_t bytes, tenon_error *error)
{
    work_off();
    return fake_read(device, queue, buffer, offset, to, bytes, error);
}

static int32_t TENON_CALL add(tenon_device *device, tenon_device_queue *queue,
                              const tenon_add_call *call, tenon_error *error)
{
    if (active == HOST_WRITTEN && fake[0].recording != NULL && call->y.host != NULL)
        memset(call->y.host, 0, 4);
    return fake_add(device, queue, call, error);
}

static const tenon_graph_v1 graph_v1 = {TENON_HEAD(tenon_graph_v1),
                                        .error_size = sizeof(tenon_error),
                                        .begin = begin,
                                        .end = end,
                                        .abort = drop,
                                        .launch = launch,
                                        .release = release};
static const tenon_add_v1 add_v1 = {TENON_HEAD(tenon_add_v1), sizeof(tenon_add_call),
                                    sizeof(tenon_error), add};
static tenon_memory_v1 memory_v1;

/* ---- the runs ------------------------------------------------------------------------------- */

static char last_detail[900];

static void keep(void *context, const conformance_report *report)
{
    (void)context;
    if (report->result->outcome == CONFORMANCE_PASSED) return;
    snprintf(last_detail, sizeof last_detail, "%s: %s: %s", report->name,
             conformance_outcome_name(report->result->outcome), report->result->detail);
}

/* Runs the cases that match over the fake with this fault. */
static conformance_totals run_with(fault what, const char *filter)
{
    tenon_static_symbol symbols[FAKE_SYMBOLS];
    conformance_target target = {.id = "acme", .symbols = symbols};
    const conformance_run_options options = {
        .target = &target, .time_limit_ms = 100000, .reporter = keep};
    conformance_suite suite = {.seed = 1};
    conformance_totals totals;
    uint64_t i;
    target.symbol_count = fake_symbols(0, symbols);
    memory_v1 = fake_memory_v1;
    memory_v1.read = read_buffer;
    for (i = 0; i < target.symbol_count; i++) {
        if (strcmp(symbols[i].name, "graph_v1") == 0) symbols[i].descriptor = &graph_v1;
        if (strcmp(symbols[i].name, "add_v1") == 0) symbols[i].descriptor = &add_v1;
        if (strcmp(symbols[i].name, "memory_v1") == 0) symbols[i].descriptor = &memory_v1;
    }
    last_detail[0] = '\0';
    active = what;
    fake[0].record_host = what == HOST_TAKEN;
    if (what == END_NULL) fake[0].end_status = FAKE_NULL;
    ck_assert(conformance_add_abi(&suite));
    ck_assert_msg(conformance_filter(&suite, filter, NULL, 0) > 0, "%s", filter);
    ck_assert_int_eq(conformance_run(&suite, &options, &totals, NULL), TENON_OK);
    conformance_clear(&suite);
    return totals;
}

static void reset(uint32_t offers)
{
    fake_reset(0, "acme");
    fake[0].offers = offers;
}

#define CASES 10u /* seven operations, cache, order, dropped */

START_TEST(without_a_fault_everything_passes)
{
    conformance_totals totals;
    reset(ALL);
    totals = run_with(FAULT_NONE, "abi/graph/*");
    ck_assert_msg(totals.passed == CASES, "%s", last_detail);
    reset(ALL & ~FAKE_GRAPH);
    totals = run_with(FAULT_NONE, "abi/graph/*");
    ck_assert_msg(totals.unsupported == CASES, "%s", last_detail);
    reset(ALL);
    fake[0].begin_status = TENON_DECLINED;
    totals = run_with(FAULT_NONE, "abi/graph/*");
    ck_assert_msg(totals.unsupported == CASES, "%s", last_detail);
    reset(ALL);
    fake[0].record_decline = 1;
    totals = run_with(FAULT_NONE, "abi/graph/*");
    ck_assert_msg(totals.unsupported == CASES, "%s", last_detail);
}
END_TEST

static const struct {
    fault what;
    const char *filter, *words;
} faults[] = {
    {DONE_AT_ONCE, "abi/graph/add", "recorded, not launched: view y was written"},
    {DONE_AT_ONCE, "abi/graph/attention", "recorded, not launched: view y was written"},
    {DONE_AT_ONCE, "abi/graph/dropped", "a dropped recording wrote"},
    {LENGTH_AT_ONCE, "abi/graph/cache", "recorded the cache holds 1 positions, not 0"},
    {END_NULL, "abi/graph/cache", "OK and NULL"},
    {END_NULL, "abi/graph/order", "OK and NULL"},
    {END_NULL, "abi/graph/qmatmul", "OK and NULL"},
    {ABORT_KEEPS, "abi/graph/dropped", "SIGABRT"},
    {ERROR_NEEDED, "abi/graph/dropped", "SIGABRT"},
    {HOST_TAKEN, "abi/graph/dropped", "answers 0, not DECLINED"},
    {HOST_WRITTEN, "abi/graph/dropped", "wrote to y"},
    {LAUNCHES_NOTHING, "abi/graph/qmatmul", "launched: other bits"},
    {LAUNCHES_NOTHING, "abi/graph/embed", "launched: other bits"},
    {LAUNCHES_NOTHING, "abi/graph/rmsnorm", "launched: other bits"},
    {LAUNCHES_NOTHING, "abi/graph/attention", "launched: other bits"},
    {LAUNCHES_NOTHING, "abi/graph/gated", "launched: other bits"},
    {LAUNCHES_NOTHING, "abi/graph/add", "launched: other bits"},
    {LAUNCHES_NOTHING, "abi/graph/argmax", "launched: other bits"},
    {LAUNCHES_NOTHING, "abi/graph/cache", "other bits"},
    {LAUNCHES_NOTHING, "abi/graph/order", "other bits"},
    {LAUNCHES_NOTHING, "abi/graph/dropped", "released behind its launch"},
    {LAUNCHES_ONCE, "abi/graph/qmatmul", "launched over another input"},
    {LAUNCHES_ONCE, "abi/graph/embed", "launched over another input"},
    {LAUNCHES_ONCE, "abi/graph/argmax", "launched over another input"},
    {LAUNCHES_ONCE, "abi/graph/attention", "launched over another input"},
    {LAUNCHES_TWICE, "abi/graph/order", "other bits"},
    {LAUNCHES_TWICE, "abi/graph/cache", ""},
    {LAST_MISSING, "abi/graph/order", "other bits"},
    {LAST_MISSING, "abi/graph/cache", "other bits"},
    {TURNED_ROUND, "abi/graph/order", "other bits"},
    {WRITES_BESIDE, "abi/graph/gated", "view y was written beside"},
    {LENGTH_BAKED, "abi/graph/cache", ""},
    {LENGTH_STAYS, "abi/graph/cache", "the cache holds 0 positions, not 1"},
    {RELEASE_DROPS, "abi/graph/dropped", "released behind its launch"},
    {RELEASE_DROPS, "abi/graph/rmsnorm", "released behind its launch"},
    {RELEASE_NEEDS_ONE, "abi/graph/dropped", "SIGABRT"},
    {LAUNCH_FAILS, "abi/graph/add", "launch: status"},
};

START_TEST(what_graphs_may_do_wrong)
{
    conformance_totals totals;
    reset(ALL);
    totals = run_with(faults[_i].what, faults[_i].filter);
    ck_assert_msg(totals.failed == 1, "fault %d passes %s: %s", (int)faults[_i].what,
                  faults[_i].filter, last_detail);
    ck_assert_msg(strstr(last_detail, faults[_i].words) != NULL, "fault %d: %s",
                  (int)faults[_i].what, last_detail);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify graph");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, without_a_fault_everything_passes);
    tcase_add_loop_test(tests, what_graphs_may_do_wrong, 0, COUNT(faults));
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
