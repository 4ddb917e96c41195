/* What the tests of the host share: hosts without a search, small weights, products to compare. */
#ifndef TENON_TESTS_HOST_RIG_H
#define TENON_TESTS_HOST_RIG_H

#include "fake_provider.h"
#include "runner.h"

#include <pthread.h>
#include <stdint.h>

#define RIG_ROWS 33u
#define RIG_COLS 64u
#define RIG_TOKENS_MAX 40u

static tenon_error rig_error = {.struct_size = sizeof(tenon_error),
                                .abi_version = TENON_ABI_VERSION};
#define rig_ok(call) \
    do { \
        int32_t status_ = (call); \
        ck_assert_msg(status_ == TENON_OK, "%s: status %d reason %u: %s", #call, status_, \
                      rig_error.reason, rig_error.text); \
    } while (0)
/* The call fails with this status and reason. */
#define rig_fails(call, wanted_, reason_) \
    do { \
        int32_t status_ = (call); \
        ck_assert_msg(status_ == (wanted_), "%s: status %d: %s", #call, status_, rig_error.text); \
        ck_assert_msg(rig_error.reason == (uint32_t)(reason_), "%s: reason %u: %s", #call, \
                      rig_error.reason, rig_error.text); \
        ck_assert_int_eq(rig_error.status, status_); \
        ck_assert(rig_error.text[0] != '\0'); \
    } while (0)

/* Everything the host said: the last line of each level, and how many there were. */
typedef struct rig_log {
    pthread_mutex_t lock;
    unsigned lines[5];
    char last[5][512];
    char all[8192];
} rig_log;
static rig_log rig_said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void TENON_CALL rig_listen(void *context, uint32_t level, const char *text)
{
    rig_log *log = context;
    size_t used;
    pthread_mutex_lock(&log->lock);
    ck_assert(level >= TENON_LOG_ERROR && level <= TENON_LOG_DEBUG);
    ck_assert(strchr(text, '\n') == NULL);
    log->lines[level]++;
    snprintf(log->last[level], sizeof log->last[level], "%s", text);
    used = strlen(log->all);
    snprintf(log->all + used, sizeof log->all - used, "%u %s\n", level, text);
    pthread_mutex_unlock(&log->lock);
}

static inline tenon_host_desc rig_host_desc(void)
{
    tenon_host_desc desc = {.struct_size = sizeof desc,
                            .abi_version = TENON_ABI_VERSION,
                            .flags = TENON_HOST_NO_SEARCH,
                            .log = rig_listen,
                            .log_context = &rig_said};
    return desc;
}

static inline tenon_host *rig_host(uint32_t threads)
{
    tenon_host_desc desc = rig_host_desc();
    tenon_host *host = NULL;
    desc.threads = threads;
    rig_ok(tenon_host_create(&desc, &host, &rig_error));
    ck_assert_ptr_nonnull(host);
    return host;
}

static inline tenon_session *rig_session(tenon_host *host, const char *chain, uint32_t mode)
{
    tenon_session_desc desc = {
        .struct_size = sizeof desc, .abi_version = TENON_ABI_VERSION, .chain = chain, .mode = mode};
    tenon_session *session = NULL;
    rig_ok(tenon_session_create(host, &desc, &session, &rig_error));
    return session;
}

/* What a session answers that cannot be made. */
static inline int32_t rig_no_session(tenon_host *host, const char *chain, uint32_t mode)
{
    tenon_session_desc desc = {
        .struct_size = sizeof desc, .abi_version = TENON_ABI_VERSION, .chain = chain, .mode = mode};
    tenon_session *session = NULL;
    int32_t status = tenon_session_create(host, &desc, &session, &rig_error);
    ck_assert_ptr_null(session);
    return status;
}

/* Small pseudo-random numbers, the same on every run. */
static inline uint32_t rig_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* An F32 weight of RIG_ROWS x RIG_COLS. seed tells weights apart. */
static inline void rig_fill(float *values, size_t count, uint32_t seed)
{
    size_t i;
    for (i = 0; i < count; i++)
        values[i] = (float)(int32_t)(rig_next(&seed) % 2001u) / 64.0f - 15.f;
}

static inline tenon_weight_desc rig_desc(uint64_t rows)
{
    tenon_weight_desc desc = {.struct_size = sizeof desc,
                              .abi_version = TENON_ABI_VERSION,
                              .format = TENON_FORMAT_F32,
                              .rows = rows,
                              .cols = RIG_COLS};
    return desc;
}

static inline tenon_weight_data rig_data(const void *weights, uint64_t bytes, uint32_t lifetime)
{
    tenon_weight_data data = {.struct_size = sizeof data,
                              .abi_version = TENON_ABI_VERSION,
                              .weights = weights,
                              .weights_bytes = bytes,
                              .lifetime = lifetime};
    return data;
}

static inline tenon_weight *rig_weight(tenon_session *session, const float *values, uint64_t rows)
{
    tenon_weight_desc desc = rig_desc(rows);
    tenon_weight_data data = rig_data(values, rows * RIG_COLS * 4, TENON_LIFETIME_STABLE);
    tenon_weight *weight = NULL;
    rig_ok(tenon_weight_create(session, &desc, &data, &weight, &rig_error));
    return weight;
}

/* A request of one output; y rows follow each other. */
static inline tenon_qmatmul_call rig_call(const float *x, uint64_t tokens, tenon_weight *weight,
                                          float *y, uint64_t rows)
{
    tenon_qmatmul_call call = {.struct_size = sizeof call, .abi_version = TENON_ABI_VERSION};
    call.x = (tenon_view){(void *)(uintptr_t)x, NULL, 0, tokens * RIG_COLS * 4};
    call.tokens = tokens;
    call.x_row_stride = RIG_COLS * 4;
    call.output_count = 1;
    call.outputs[0].weight = weight;
    call.outputs[0].y = (tenon_view){y, NULL, 0, tokens * rows * 4};
    call.outputs[0].row_stride = rows * 4;
    return call;
}

static inline void rig_add_output(tenon_qmatmul_call *call, tenon_weight *weight, float *y,
                                  uint64_t rows)
{
    tenon_output *output = &call->outputs[call->output_count++];
    output->weight = weight;
    output->y = (tenon_view){y, NULL, 0, call->tokens * rows * 4};
    output->row_stride = rows * 4;
}

/* The right answer, computed by a session of the reference alone. */
static inline void rig_expect(const float *values, const float *x, uint64_t tokens, float *y,
                              uint64_t rows)
{
    tenon_host *host = rig_host(1);
    tenon_session *session = rig_session(host, "reference", TENON_MODE_PIN);
    tenon_weight *weight = rig_weight(session, values, rows);
    tenon_qmatmul_call call = rig_call(x, tokens, weight, y, rows);
    rig_ok(tenon_qmatmul(tenon_session_queue(session), &call, &rig_error));
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}

static inline tenon_counter rig_counter(tenon_session *session, uint64_t index)
{
    tenon_counter counter = {.struct_size = sizeof counter, .abi_version = TENON_ABI_VERSION};
    rig_ok(tenon_session_counter(session, index, &counter, &rig_error));
    return counter;
}

static inline tenon_link_info rig_link(tenon_session *session, uint64_t index)
{
    tenon_link_info info = {.struct_size = sizeof info, .abi_version = TENON_ABI_VERSION};
    rig_ok(tenon_session_link(session, index, &info, &rig_error));
    return info;
}

static inline tenon_weight_information rig_info(tenon_weight *weight)
{
    tenon_weight_information info = {.struct_size = sizeof info, .abi_version = TENON_ABI_VERSION};
    rig_ok(tenon_weight_info(weight, &info, &rig_error));
    return info;
}

/* One weight, one input, the right product and room for an answer: what most tests start from. */
typedef struct rig {
    tenon_host *host;
    tenon_session *session;
    tenon_weight *weight;
    tenon_qmatmul_call call;
    float values[RIG_ROWS * RIG_COLS], x[RIG_TOKENS_MAX * RIG_COLS];
    float right[RIG_TOKENS_MAX * RIG_ROWS], y[RIG_TOKENS_MAX * RIG_ROWS];
} rig;

/* Makes a host and registers the first fakes of them with it. */
static inline void rig_start(rig *self, uint32_t threads, int fakes)
{
    int i;
    memset(self, 0, sizeof *self);
    memset(rig_said.lines, 0, sizeof rig_said.lines);
    memset(rig_said.all, 0, sizeof rig_said.all);
    rig_fill(self->values, RIG_ROWS * RIG_COLS, 1);
    rig_fill(self->x, RIG_TOKENS_MAX * RIG_COLS, 2);
    rig_expect(self->values, self->x, RIG_TOKENS_MAX, self->right, RIG_ROWS);
    self->host = rig_host(threads);
    for (i = 0; i < fakes; i++) rig_ok(fake_register(self->host, i, &rig_error));
}

static inline void rig_open(rig *self, const char *chain, uint32_t mode)
{
    self->session = rig_session(self->host, chain, mode);
    self->weight = rig_weight(self->session, self->values, RIG_ROWS);
}

/* Runs the product for so many tokens over a poisoned y. */
static inline int32_t rig_run(rig *self, uint64_t tokens)
{
    memset(self->y, 0xa5, sizeof self->y);
    self->call = rig_call(self->x, tokens, self->weight, self->y, RIG_ROWS);
    return tenon_qmatmul(tenon_session_queue(self->session), &self->call, &rig_error);
}

/* Runs it and compares the bits. */
static inline void rig_run_right(rig *self, uint64_t tokens)
{
    rig_ok(rig_run(self, tokens));
    ck_assert_int_eq(memcmp(self->y, self->right, tokens * RIG_ROWS * 4), 0);
}

/* Ends everything; the fakes must be in balance. */
static inline void rig_end(rig *self)
{
    int i;
    tenon_session_destroy(self->session);
    rig_ok(tenon_host_destroy(self->host, &rig_error));
    for (i = 0; i < FAKES; i++) ck_assert_msg(fake_balanced(i), "fake %d is out of balance", i);
}

#endif
