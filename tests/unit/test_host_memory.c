/* Memory runs out at every allocation in turn: a clear answer, nothing leaked, the host usable.
 * Linked with --wrap for the allocation functions, so that host, loader and reference are the
 * same code that ships. */

#include "test_host_rig.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static atomic_bool counting;                   /* only what the scenario allocates */
static atomic_ullong asked;                    /* allocations so far */
static unsigned long long fail_at, fail_until; /* these fail, counted from 1 */
static atomic_llong live;

static bool refuse(void)
{
    unsigned long long number;
    if (!counting) return false;
    number = ++asked;
    return number >= fail_at && number <= fail_until;
}

static void *note(void *memory)
{
    if (counting && memory != NULL) live++;
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return refuse() ? NULL : note(__real_malloc(bytes));
}
void *__wrap_calloc(size_t count, size_t bytes)
{
    return refuse() ? NULL : note(__real_calloc(count, bytes));
}
void *__wrap_realloc(void *old, size_t bytes)
{
    void *grown;
    if (refuse()) return NULL;
    grown = __real_realloc(old, bytes);
    if (old == NULL) note(grown);
    return grown;
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return refuse() ? NULL : note(__real_aligned_alloc(alignment, bytes));
}
char *__wrap_strdup(const char *text)
{
    return refuse() ? NULL : note(__real_strdup(text));
}
void __wrap_free(void *memory)
{
    if (counting && memory != NULL) live--;
    __real_free(memory);
}

static float values[RIG_ROWS * RIG_COLS], x[4 * RIG_COLS], right[4 * RIG_ROWS], y[4 * RIG_ROWS];
static const char *failed_step;

/* A step that may only succeed or say that memory is out. */
#define STEP(call) \
    do { \
        int32_t status_ = (call); \
        if (status_ == TENON_OK) break; \
        if (failed_step == NULL) failed_step = #call; \
        if (status_ != TENON_NOMEM || rig_error.status != TENON_NOMEM || \
            rig_error.text[0] == '\0') { \
            printf("%s: status %d: %s\n", #call, status_, rig_error.text); \
            good = false; \
        } \
        goto out; \
    } while (0)

static void TENON_CALL unit(void *context, uint64_t index, uint32_t worker)
{
    (void)index;
    (void)worker;
    ++*(atomic_uint *)context;
}

static void TENON_CALL deaf(void *context, uint32_t level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
}

/* A call on a cache does not come out well without losing the cache. */
static bool came_out(int32_t status)
{
    return status == TENON_OK ||
           (status == TENON_LOST && rig_error.reason == TENON_REASON_OUT_OF_MEMORY);
}

/* A cache, its history, a copy of it, and an operation over views; inputs are x. */
static bool with_cache(tenon_session *session, tenon_queue *queue)
{
    tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc), .kv_heads = 1,
                             .head_size = RIG_COLS,        .capacity = 4,
                             .type = TENON_CACHE_F16,      .flags = TENON_CACHE_EVICTABLE};
    const uint64_t row = RIG_COLS * 4;
    tenon_view rows = {.host = x, .bytes = 2 * row}, out = {.host = y, .bytes = 2 * row};
    tenon_append_call more = {
        TENON_HEAD(tenon_append_call), .k = rows,          .v = rows, .tokens = 2,
        .k_row_stride = row,           .v_row_stride = row};
    tenon_attention_call run = {TENON_HEAD(tenon_attention_call),
                                .q = rows,
                                .y = out,
                                .tokens = 2,
                                .heads = 1,
                                .q_row_stride = row,
                                .y_row_stride = row,
                                .scale = 1.0f};
    tenon_add_call add = {TENON_HEAD(tenon_add_call),
                          .a = rows,
                          .b = rows,
                          .y = out,
                          .tokens = 2,
                          .width = RIG_COLS,
                          .a_row_stride = row,
                          .b_row_stride = row,
                          .y_row_stride = row};
    tenon_cache *cache = NULL, *copy = NULL;
    int32_t status;
    bool good = true;

    TENON_STATIC_ASSERT(sizeof y >= 2 * RIG_COLS * 4, "y has room for two rows of x");
    STEP(tenon_cache_create(session, &desc, &cache, &rig_error));
    more.cache = run.cache = cache;
    good = came_out(tenon_append(queue, &more, &rig_error));
    good = came_out(tenon_attention(queue, &run, &rig_error)) && good;
    status = tenon_cache_clone(queue, cache, &copy, &rig_error);
    good = (came_out(status) || status == TENON_NOMEM) && good;
    good = came_out(tenon_cache_evict(queue, cache, 0, 1, &rig_error)) && good;
    STEP(tenon_add(queue, &add, &rig_error));
    good = y[0] == x[0] + x[0] && good;
out:
    tenon_cache_destroy(copy);
    tenon_cache_destroy(cache);
    return good;
}

/* From a host to a product and back. false: something answered other than well or out of memory. */
static bool scenario(void)
{
    static const char *const config[] = {"acme.level=low"};
    tenon_host_desc desc = rig_host_desc();
    tenon_session_desc session_desc = {
        .struct_size = sizeof session_desc, .abi_version = TENON_ABI_VERSION, .chain = "acme"};
    tenon_weight_desc weight_desc = rig_desc(RIG_ROWS);
    tenon_weight_data stable = rig_data(values, sizeof values, TENON_LIFETIME_STABLE);
    tenon_weight_data copy = rig_data((char *)values, sizeof values, TENON_LIFETIME_COPY);
    tenon_host *host = NULL;
    tenon_session *session = NULL;
    tenon_queue *queue = NULL;
    tenon_weight *weights[2] = {NULL, NULL};
    tenon_qmatmul_call call;
    atomic_uint units = 0;
    bool good = true;
    uint32_t i;

    failed_step = NULL;
    fake_reset(0, "acme");
    fake[0].alignment = 4096; /* makes the host copy */
    fake[0].offers = FAKE_ATTENTION;
    desc.config = config;
    desc.config_count = 1;
    desc.log = deaf; /* Check's own bookkeeping allocates */
    desc.threads = 3;
    STEP(tenon_host_create(&desc, &host, &rig_error));
    STEP(fake_register(host, 0, &rig_error));
    STEP(tenon_host_rescan(host, &rig_error));
    STEP(tenon_session_create(host, &session_desc, &session, &rig_error));
    STEP(tenon_queue_create(session, &queue, &rig_error));
    STEP(tenon_weight_create(session, &weight_desc, &stable, &weights[0], &rig_error));
    STEP(tenon_weight_create(session, &weight_desc, &copy, &weights[1], &rig_error));
    for (i = 0; i < 2; i++) {
        memset(y, 0xa5, sizeof y);
        call = rig_call(x, 4, weights[i], y, RIG_ROWS);
        STEP(tenon_qmatmul(queue, &call, &rig_error));
        if (memcmp(y, right, sizeof y) != 0) good = false;
    }
    if (!with_cache(session, queue)) good = false;
    STEP(tenon_weight_begin_update(weights[0], &rig_error));
    STEP(tenon_weight_end_update(weights[0], &rig_error));
    fake[0].run_status = TENON_IO; /* the reference is prepared now */
    memset(y, 0xa5, sizeof y);
    call = rig_call(x, 4, weights[1], y, RIG_ROWS);
    STEP(tenon_qmatmul(queue, &call, &rig_error));
    if (memcmp(y, right, sizeof y) != 0) good = false;
    if (fake[0].opens == 1) /* not when it fell to the reference for want of memory */
        fake[0].services->parallel_for(fake[0].services->host, 100, unit, &units);
    if (units != 100 && fake[0].opens == 1) good = false;
out:
    tenon_session_destroy(session);
    if (tenon_host_destroy(host, &rig_error) != TENON_OK) good = false;
    return good;
}

static void setup(void)
{
    rig_fill(values, RIG_ROWS * RIG_COLS, 1);
    rig_fill(x, 4 * RIG_COLS, 2);
    rig_expect(values, x, 4, right, RIG_ROWS);
}

static bool counted(unsigned long long from, unsigned long long until)
{
    bool good;
    fail_at = from;
    fail_until = until;
    asked = 0;
    live = 0;
    counting = true;
    good = scenario();
    counting = false;
    return good;
}

/* The Nth allocation fails; or it and all that follow. */
START_TEST(every_allocation)
{
    unsigned long long total, at;
    unsigned failures = 0;
    setup();
    ck_assert(counted(1, 0));
    ck_assert_ptr_null(failed_step);
    ck_assert_int_eq(live, 0);
    total = asked;
    ck_assert_uint_gt(total, 20);
    for (at = 1; at <= total + 1; at++) {
        bool good = counted(at, _i == 0 ? at : ~0ull);
        ck_assert_msg(good, "allocation %llu", at);
        ck_assert_msg(live == 0, "allocation %llu: %lld left, after %s", at, (long long)live,
                      failed_step != NULL ? failed_step : "success");
        ck_assert_msg(fake_balanced(0), "allocation %llu: the provider is out of balance", at);
        failures += failed_step != NULL;
    }
    ck_assert_uint_gt(failures, 10); /* it is really noticed */
    ck_assert_ptr_null(failed_step); /* past the last one all is well */
}
END_TEST

static Suite *make(void)
{
    Suite *suite = suite_create("host memory");
    TCase *one = tcase_create("memory");
    tcase_set_timeout(one, 120);
    tcase_add_loop_test(one, every_allocation, 0, 2);
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
