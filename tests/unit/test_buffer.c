/* Buffers: the same bits over every mix of links with and without memory of their own, whatever
 * fails on the way, and what is lost when a device is. */
#include "operations_rig.h"

#define ROW (OP_WIDTH * 4u)
#define ALL_OPS (FAKE_RMSNORM | FAKE_GATED | FAKE_ADD | FAKE_ARGMAX)

/* A small step: h = rmsnorm(a), g = silu(h) * b, s = g + a, i = argmax(s). Four operations over
 * buffers, its inputs written before, its outputs read behind it. */
typedef struct step {
    tenon_buffer *a, *b, *w, *h, *g, *s, *i;
    float read_s[OP_TOKENS * OP_WIDTH];
    uint32_t read_i[OP_TOKENS];
} step;

static op_rig self;
static step it;
static float right_s[OP_TOKENS * OP_WIDTH];
static uint32_t right_i[OP_TOKENS];

static tenon_queue *queue(void)
{
    return tenon_session_queue(self.session);
}

static tenon_buffer *buffer(uint64_t bytes)
{
    tenon_buffer *made = NULL;
    rig_ok(tenon_buffer_create(self.session, bytes, &made, &rig_error));
    ck_assert_ptr_nonnull(made);
    return made;
}

static void make(void)
{
    it.a = buffer(OP_TOKENS * ROW);
    it.b = buffer(OP_TOKENS * ROW);
    it.w = buffer(ROW);
    it.h = buffer(OP_TOKENS * ROW);
    it.g = buffer(OP_TOKENS * ROW);
    it.s = buffer(OP_TOKENS * ROW);
    it.i = buffer(OP_TOKENS * 4);
}

static int32_t write_inputs(void)
{
    int32_t status = tenon_buffer_write(queue(), it.a, 0, self.a, OP_TOKENS * ROW, &rig_error);
    if (status == TENON_OK)
        status = tenon_buffer_write(queue(), it.b, 0, self.b, OP_TOKENS * ROW, &rig_error);
    return status == TENON_OK ? tenon_buffer_write(queue(), it.w, 0, self.w, ROW, &rig_error)
                              : status;
}

static tenon_view of(tenon_buffer *made, uint64_t bytes)
{
    return (tenon_view){.buffer = made, .bytes = bytes};
}

static int32_t norm(tenon_view x, tenon_view w, tenon_view y, uint64_t tokens)
{
    const tenon_rmsnorm_call call = {
        TENON_HEAD(tenon_rmsnorm_call), x, w, y, tokens, 1, OP_WIDTH, ROW, ROW, 1e-5f, 0, {0}};
    return tenon_rmsnorm(queue(), &call, &rig_error);
}

static int32_t gated(tenon_view gate, tenon_view up, tenon_view y, uint64_t tokens)
{
    const tenon_gated_call call = {TENON_HEAD(tenon_gated_call),
                                   gate,
                                   up,
                                   y,
                                   tokens,
                                   OP_WIDTH,
                                   ROW,
                                   ROW,
                                   ROW,
                                   TENON_ACT_SILU,
                                   0,
                                   {0}};
    return tenon_gated(queue(), &call, &rig_error);
}

static int32_t add(tenon_view a, tenon_view b, tenon_view y, uint64_t tokens)
{
    const tenon_add_call call = {
        TENON_HEAD(tenon_add_call), a, b, y, tokens, OP_WIDTH, ROW, ROW, ROW, {0}};
    return tenon_add(queue(), &call, &rig_error);
}

static int32_t argmax(tenon_view x, tenon_view y, uint64_t tokens)
{
    const tenon_argmax_call call = {
        TENON_HEAD(tenon_argmax_call), x, y, tokens, OP_WIDTH, ROW, {0}};
    return tenon_argmax(queue(), &call, &rig_error);
}

static int32_t compute(void)
{
    uint64_t all = OP_TOKENS * ROW;
    int32_t status = norm(of(it.a, all), of(it.w, ROW), of(it.h, all), OP_TOKENS);
    if (status == TENON_OK) status = gated(of(it.h, all), of(it.b, all), of(it.g, all), OP_TOKENS);
    if (status == TENON_OK) status = add(of(it.g, all), of(it.a, all), of(it.s, all), OP_TOKENS);
    if (status == TENON_OK) status = argmax(of(it.s, all), of(it.i, OP_TOKENS * 4), OP_TOKENS);
    return status;
}

static int32_t read_outputs(void)
{
    int32_t status;
    memset(it.read_s, 0xa5, sizeof it.read_s);
    memset(it.read_i, 0xa5, sizeof it.read_i);
    status = tenon_buffer_read(queue(), it.s, 0, it.read_s, sizeof it.read_s, &rig_error);
    return status == TENON_OK
               ? tenon_buffer_read(queue(), it.i, 0, it.read_i, sizeof it.read_i, &rig_error)
               : status;
}

static void check_outputs(void)
{
    ck_assert_int_eq(memcmp(it.read_s, right_s, sizeof right_s), 0);
    ck_assert_int_eq(memcmp(it.read_i, right_i, sizeof right_i), 0);
}

static void run_right(void)
{
    rig_ok(write_inputs());
    rig_ok(compute());
    rig_ok(read_outputs());
    check_outputs();
}

/* The right answers, on the reference and over host memory. */
static void start(int fakes)
{
    static float h[OP_TOKENS * OP_WIDTH], g[OP_TOKENS * OP_WIDTH];
    uint64_t all = OP_TOKENS * ROW;
    op_start(&self, fakes);
    op_open(&self, "reference", TENON_MODE_PIN);
    rig_ok(norm(op_view(self.a, all), op_view(self.w, ROW), op_view(h, all), OP_TOKENS));
    rig_ok(gated(op_view(h, all), op_view(self.b, all), op_view(g, all), OP_TOKENS));
    rig_ok(add(op_view(g, all), op_view(self.a, all), op_view(right_s, all), OP_TOKENS));
    rig_ok(argmax(op_view(right_s, all), op_view(right_i, sizeof right_i), OP_TOKENS));
    tenon_session_destroy(self.session);
}

static void reset(int n, const char *id, uint32_t offers)
{
    fake_reset(n, id);
    fake[n].offers = offers;
    fake[n].answer_reason = TENON_REASON_DEVICE_FAILED;
}

static tenon_buffer_information info(tenon_buffer *made)
{
    tenon_buffer_information out = {TENON_HEAD(tenon_buffer_information), .bytes = 0};
    rig_ok(tenon_buffer_info(made, &out, &rig_error));
    return out;
}

static void memory_counted(uint64_t link, uint64_t calls, uint64_t failed)
{
    tenon_counter counter = op_counter(self.session, "memory", link);
    ck_assert_msg(counter.calls == calls && counter.failed == failed, "calls %llu failed %llu",
                  (unsigned long long)counter.calls, (unsigned long long)counter.failed);
}

/* All on one device: inputs go there once, and only what is read comes back. */
START_TEST(resident)
{
    int round;
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    fake[0].no_queue = _i == 1;
    start(1);
    op_open(&self, "acme", TENON_MODE_PIN);
    make();
    ck_assert_uint_eq(info(it.a).host_bytes, 0);
    ck_assert_uint_eq(info(it.a).used, 0);
    run_right();
    ck_assert_uint_eq(fake[0].writes, 3);
    ck_assert_uint_eq(fake[0].reads, 2);
    memory_counted(0, 5, 0);
    ck_assert_uint_eq(info(it.h).valid, 2);
    ck_assert_uint_eq(info(it.h).host_bytes, 0);
    ck_assert_uint_eq(info(it.a).valid, 3);
    for (round = 0; round < 3; round++) rig_ok(compute());
    ck_assert_uint_eq(fake[0].writes, 3); /* nothing had to move */
    ck_assert_uint_eq(fake[0].reads, 2);
    rig_ok(tenon_queue_fence(queue(), &rig_error));
    ck_assert_uint_eq(fake[0].fences, 1);
    tenon_buffer_destroy(it.h); /* the others go with the session */
    tenon_buffer_destroy(NULL);
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 0);
    op_end(&self);
}
END_TEST

/* Every set of operations on a device with memory, the rest on the reference. */
START_TEST(mixes)
{
    reset(0, "acme", ((uint32_t)_i & ALL_OPS) | FAKE_MEMORY);
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    make();
    run_right();
    run_right();
    op_end(&self);
}
END_TEST

/* Two devices share the step: everything between them goes through the host. */
START_TEST(two_devices)
{
    reset(0, "acme", FAKE_RMSNORM | FAKE_ADD | (_i & 1 ? FAKE_MEMORY : 0u));
    reset(1, "bolt", ALL_OPS | (_i & 2 ? FAKE_MEMORY : 0u));
    start(2);
    op_open(&self, "acme,bolt", TENON_MODE_PIN);
    make();
    run_right();
    run_right();
    op_counted(&self, OP_RMSNORM, 0, 2, 0, 0, 0);
    op_counted(&self, OP_GATED, 1, 2, 0, 0, 2);
    op_end(&self);
}
END_TEST

/* A device without room gets host views; the engine does not notice, the counters do. */
START_TEST(no_room)
{
    uint64_t good;
    for (good = 0; good < 8; good++) {
        reset(0, "acme", ALL_OPS | FAKE_MEMORY);
        fake[0].alloc_status = TENON_NOMEM;
        fake[0].alloc_good = good;
        start(1);
        op_open(&self, "acme", TENON_MODE_PIN);
        make();
        run_right();
        run_right();
        op_counted(&self, OP_ADD, 0, 2, 0, 0, 0);
        ck_assert_uint_eq(op_counter(self.session, "memory", 0).failed, 7 - (good < 7 ? good : 7));
        ck_assert_uint_eq(fake[0].allocs, 7); /* each buffer asks once */
        ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], good < 7 ? 1 : 0);
        op_end(&self);
    }
}
END_TEST

START_TEST(write_fails)
{
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    fake[0].write_status = TENON_IO;
    start(1);
    op_open(&self, "acme", TENON_MODE_PIN);
    make();
    run_right();
    op_counted(&self, OP_ADD, 0, 1, 0, 0, 0);
    memory_counted(0, 2, 3);
    op_end(&self);
}
END_TEST

/* A call that fails when made, untouched or half written, is recomputed: same bits, unseen. */
START_TEST(call_fails)
{
    uint64_t number;
    for (number = 1; number <= 8; number++) {
        reset(0, "acme", ALL_OPS | FAKE_MEMORY);
        fake[0].op_status = _i == 2 ? TENON_DECLINED : TENON_TIMEOUT;
        fake[0].op_from = number;
        fake[0].op_until = number;
        fake[0].op_half = _i == 1;
        start(1);
        op_open(&self, "acme", TENON_MODE_PREFER);
        make();
        run_right();
        run_right();
        op_end(&self);
    }
}
END_TEST

/* The device is lost by a call: the inputs it alone held are lost, the rest goes on. */
START_TEST(lost_by_a_call)
{
    uint64_t number;
    for (number = 1; number <= 8; number++) {
        int tries = 0, round;
        reset(0, "acme", ALL_OPS | FAKE_MEMORY);
        fake[0].op_status = TENON_DEVICE_LOST;
        fake[0].op_from = number;
        start(1);
        op_open(&self, "acme", TENON_MODE_PREFER);
        make();
        rig_ok(write_inputs());
        for (round = 0; round < 2; round++)
            while (compute() != TENON_OK) { /* replays */
                ck_assert_int_eq(rig_error.status, TENON_LOST);
                ck_assert_int_lt(++tries, 2);
            }
        rig_ok(read_outputs());
        check_outputs();
        op_end(&self);
    }
}
END_TEST

/* Work that fails late shows at the read; what lived only there is lost, a replay gives the bits. */
START_TEST(lost_late)
{
    uint64_t from;
    for (from = 1; from <= 4; from++) {
        reset(0, "acme", ALL_OPS | FAKE_MEMORY);
        fake[0].late_status = _i == 0 ? TENON_LOST : TENON_DEVICE_LOST;
        fake[0].late_from = from;
        start(1);
        op_open(&self, "acme", TENON_MODE_PREFER);
        make();
        rig_ok(write_inputs());
        if (compute() == TENON_OK) { /* else moving the inputs told it */
            ck_assert_int_eq(read_outputs(), TENON_LOST);
            ck_assert_int_eq(read_outputs(), TENON_LOST); /* and again, until it is made anew */
        }
        ck_assert_int_eq(rig_error.status, TENON_LOST);
        ck_assert_ptr_nonnull(strstr(rig_error.text, "acme:0"));
        rig_ok(compute());
        rig_ok(read_outputs());
        check_outputs();
        {
            tenon_link_info link = {TENON_HEAD(tenon_link_info), .device = 0};
            rig_ok(tenon_session_link(self.session, 0, &link, &rig_error));
            ck_assert_uint_eq(link.state, TENON_LINK_LOST);
        }
        op_end(&self);
    }
}
END_TEST

/* A fence tells of it, too; and a read that fails for another reason counts the same. */
START_TEST(fence_and_read_fail)
{
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    make();
    rig_ok(write_inputs());
    rig_ok(compute());
    fake[0].read_status = TENON_IO;
    if (_i == 0)
        rig_fails(tenon_queue_fence(queue(), &rig_error), TENON_LOST, TENON_REASON_DEVICE_FAILED);
    else
        rig_fails(read_outputs(), TENON_LOST, TENON_REASON_DEVICE_FAILED);
    ck_assert_ptr_nonnull(strstr(rig_said.last[TENON_LOG_WARNING], "set aside"));
    rig_ok(compute());
    fake[0].read_status = 0;
    rig_ok(read_outputs());
    check_outputs();
    op_end(&self);
}
END_TEST

/* What breaks the contract quarantines the provider; the reference has the bits. */
START_TEST(alloc_answers_nothing)
{
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    fake[0].alloc_status = FAKE_NULL;
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    make();
    run_right();
    op_counted(&self, OP_ADD, 0, 0, 0, 0, 0);
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_ERROR], 1);
    op_end(&self);
}
END_TEST

/* A part of a buffer is written on one link, the rest on another. */
START_TEST(parts)
{
    float wanted[OP_TOKENS * OP_WIDTH], read[OP_TOKENS * OP_WIDTH];
    uint64_t i;
    tenon_buffer *sum;
    reset(0, "acme", FAKE_ADD | FAKE_MEMORY);
    reset(1, "bolt", FAKE_GATED | FAKE_MEMORY);
    start(2);
    op_open(&self, "acme,bolt", TENON_MODE_PREFER);
    make();
    sum = buffer(OP_TOKENS * ROW);
    rig_ok(write_inputs());
    rig_ok(add(of(it.a, 5 * ROW), of(it.b, 5 * ROW), of(sum, 5 * ROW), OP_TOKENS));
    for (i = 0; i < OP_TOKENS * OP_WIDTH; i++) wanted[i] = self.a[i] + self.b[i];
    {
        /* row 1 anew on the other link, row 3 by the host */
        float silu[OP_WIDTH];
        tenon_view row = {.buffer = sum, .offset = ROW, .bytes = ROW};
        tenon_view a = {.buffer = it.a, .offset = ROW, .bytes = ROW};
        tenon_view b = {.buffer = it.b, .offset = ROW, .bytes = ROW};
        rig_ok(gated(a, b, row, 1));
        rig_ok(gated(op_view(self.a + OP_WIDTH, ROW), op_view(self.b + OP_WIDTH, ROW),
                     op_view(silu, ROW), 1));
        memcpy(wanted + OP_WIDTH, silu, ROW);
        rig_ok(tenon_buffer_write(queue(), sum, 3 * ROW, self.w, ROW, &rig_error));
        memcpy(wanted + 3 * OP_WIDTH, self.w, ROW);
    }
    rig_ok(tenon_buffer_read(queue(), sum, 0, read, sizeof read, &rig_error));
    ck_assert_int_eq(memcmp(read, wanted, sizeof read), 0);
    ck_assert_uint_eq(info(sum).used, OP_TOKENS * ROW);
    op_end(&self);
}
END_TEST

/* Buffer to buffer: inside a device, or through the host when that cannot be. */
START_TEST(copies)
{
    float read[2 * OP_WIDTH];
    tenon_buffer *to;
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    fake[0].copy_status = _i == 1 ? TENON_IO : 0;
    fake[0].alloc_status = _i == 2 ? TENON_NOMEM : 0;
    fake[0].alloc_good = 7;
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    make();
    run_right();
    to = buffer(3 * ROW);
    rig_ok(tenon_buffer_copy(queue(), to, ROW, it.s, 2 * ROW, 2 * ROW, &rig_error));
    ck_assert_uint_eq(fake[0].copies, _i == 0 ? 1 : 0);
    rig_ok(tenon_buffer_read(queue(), to, ROW, read, sizeof read, &rig_error));
    ck_assert_int_eq(memcmp(read, right_s + 2 * OP_WIDTH, sizeof read), 0);
    rig_fails(tenon_buffer_read(queue(), to, 0, read, ROW, &rig_error), TENON_STATE,
              TENON_REASON_NOT_WRITTEN);
    rig_fails(tenon_buffer_copy(queue(), to, 0, to, ROW, ROW, &rig_error), TENON_ARG,
              TENON_REASON_OVERLAP);
    rig_fails(tenon_buffer_copy(queue(), to, 0, it.s, 5 * ROW, ROW, &rig_error), TENON_ARG,
              TENON_REASON_SHORT_BUFFER);
    op_end(&self);
}
END_TEST

/* A call that failed half-way under mode pin: the copy it was writing is not taken for good. */
START_TEST(half_written_copy)
{
    float wanted[OP_WIDTH], read[OP_WIDTH];
    uint64_t i;
    reset(0, "acme", FAKE_ADD | FAKE_MEMORY);
    start(1);
    op_open(&self, "acme", TENON_MODE_PIN);
    make();
    rig_ok(write_inputs());
    rig_ok(tenon_buffer_write(queue(), it.s, 0, self.b, OP_TOKENS * ROW, &rig_error));
    rig_ok(add(of(it.s, ROW), of(it.a, ROW), of(it.h, ROW), 1)); /* now it is there, too */
    fake[0].op_status = TENON_TIMEOUT;
    fake[0].op_half = true;
    fake[0].op_from = fake[0].op_until = 2;
    ck_assert_int_eq(add(of(it.a, 2 * ROW), of(it.a, 2 * ROW), of(it.s, 2 * ROW), 2),
                     TENON_TIMEOUT);
    fake[0].op_status = 0;
    rig_ok(add(of(it.s, ROW), of(it.a, ROW), of(it.g, ROW), 1));
    rig_ok(tenon_buffer_read(queue(), it.g, 0, read, ROW, &rig_error));
    for (i = 0; i < OP_WIDTH; i++) wanted[i] = self.b[i] + self.a[i];
    ck_assert_int_eq(memcmp(read, wanted, ROW), 0);
    op_end(&self);
}
END_TEST

/* Rows written with gaps leave what lies between them. */
START_TEST(rows_with_gaps)
{
    float read[3 * OP_WIDTH];
    uint64_t i;
    tenon_add_call call = {TENON_HEAD(tenon_add_call), .tokens = 2, .width = OP_WIDTH};
    reset(0, "acme", FAKE_ADD | FAKE_MEMORY);
    start(1);
    op_open(&self, "acme", TENON_MODE_PIN);
    make();
    rig_ok(write_inputs());
    rig_ok(tenon_buffer_write(queue(), it.s, 0, self.b, 3 * ROW, &rig_error));
    call.a = call.b = of(it.a, 2 * ROW);
    call.y = of(it.s, 3 * ROW);
    call.a_row_stride = call.b_row_stride = ROW;
    call.y_row_stride = 2 * ROW;
    rig_ok(tenon_add(queue(), &call, &rig_error));
    rig_ok(tenon_buffer_read(queue(), it.s, 0, read, sizeof read, &rig_error));
    ck_assert_int_eq(memcmp(read + OP_WIDTH, self.b + OP_WIDTH, ROW), 0);
    for (i = 0; i < OP_WIDTH; i++) {
        ck_assert(read[i] == self.a[i] + self.a[i]);
        ck_assert(read[2 * OP_WIDTH + i] == self.a[OP_WIDTH + i] + self.a[OP_WIDTH + i]);
    }
    op_end(&self);
}
END_TEST

/* The device goes while its inputs are moved there: it is not asked, the next link is. */
START_TEST(lost_by_a_transfer)
{
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    fake[0].write_status = TENON_DEVICE_LOST;
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    make();
    run_right();
    ck_assert_uint_eq(fake[0].op_runs, 0);
    op_end(&self);
}
END_TEST

/* A lost buffer begins anew with the next write, wherever that starts; only what is lost is gone. */
START_TEST(begun_anew)
{
    float read[OP_WIDTH];
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    make();
    run_right();
    fake[0].late_status = TENON_LOST;
    ck_assert_int_eq(read_outputs(), TENON_LOST);
    if (_i == 0)
        rig_ok(tenon_buffer_write(queue(), it.s, 2 * ROW, self.w, ROW, &rig_error));
    else
        rig_ok(add(of(it.a, ROW), of(it.b, ROW),
                   (tenon_view){.buffer = it.s, .offset = 2 * ROW, .bytes = ROW}, 1));
    rig_ok(tenon_buffer_read(queue(), it.s, 2 * ROW, read, ROW, &rig_error));
    rig_fails(tenon_buffer_read(queue(), it.s, 0, read, ROW, &rig_error), TENON_STATE,
              TENON_REASON_NOT_WRITTEN);
    rig_fails(tenon_buffer_read(queue(), it.s, 2 * ROW, it.read_s, 2 * ROW, &rig_error),
              TENON_STATE, TENON_REASON_NOT_WRITTEN);
    op_end(&self);
}
END_TEST

START_TEST(wrong_use)
{
    tenon_session *other;
    tenon_buffer *made = NULL, *foreign = NULL;
    tenon_memory_info memory = {TENON_HEAD(tenon_memory_info), .total = 0};
    tenon_view both, far;
    uint64_t all = OP_TOKENS * ROW;
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    fake[0].memory_total = 1000;
    fake[0].memory_free = 400;
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    make();
    rig_fails(tenon_buffer_create(self.session, 0, &made, &rig_error), TENON_ARG,
              TENON_REASON_EMPTY_SHAPE);
    rig_fails(tenon_buffer_create(self.session, 6, &made, &rig_error), TENON_ARG,
              TENON_REASON_ALIGNMENT);
    rig_fails(tenon_buffer_create(self.session, UINT64_MAX - 3, &made, &rig_error), TENON_NOMEM,
              TENON_REASON_TOO_BIG);
    rig_fails(tenon_buffer_create(NULL, 4, &made, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    ck_assert_ptr_null(made);
    rig_fails(read_outputs(), TENON_STATE, TENON_REASON_NOT_WRITTEN);
    rig_fails(compute(), TENON_STATE, TENON_REASON_NOT_WRITTEN);
    rig_ok(write_inputs());
    rig_fails(tenon_buffer_write(queue(), it.a, 2, self.a, 4, &rig_error), TENON_ARG,
              TENON_REASON_ALIGNMENT);
    rig_fails(tenon_buffer_write(queue(), it.a, all, self.a, 4, &rig_error), TENON_ARG,
              TENON_REASON_SHORT_BUFFER);
    rig_fails(tenon_buffer_write(queue(), it.a, UINT64_MAX - 3, self.a, 8, &rig_error), TENON_ARG,
              TENON_REASON_SHORT_BUFFER);
    rig_fails(tenon_buffer_write(queue(), it.a, 0, NULL, 4, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_ok(tenon_buffer_write(queue(), it.a, 4, NULL, 0, &rig_error));
    rig_fails(tenon_buffer_read(NULL, it.a, 0, it.read_s, 4, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    other = rig_session(self.host, "reference", TENON_MODE_PIN);
    rig_ok(tenon_buffer_create(other, all, &foreign, &rig_error));
    rig_fails(tenon_buffer_write(queue(), foreign, 0, self.a, 4, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    rig_fails(add(of(foreign, all), of(it.b, all), of(it.s, all), OP_TOKENS), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    both = of(it.a, all);
    both.host = self.a;
    rig_fails(add(both, of(it.b, all), of(it.s, all), OP_TOKENS), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    far = of(it.a, all + 4);
    rig_fails(add(far, of(it.b, all), of(it.s, all), OP_TOKENS), TENON_ARG,
              TENON_REASON_SHORT_BUFFER);
    far.offset = UINT64_MAX - 3;
    rig_fails(add(far, of(it.b, all), of(it.s, all), OP_TOKENS), TENON_ARG,
              TENON_REASON_SHORT_BUFFER);
    far = (tenon_view){.buffer = it.a, .offset = 2, .bytes = ROW};
    rig_fails(add(far, of(it.b, all), of(it.s, all), 1), TENON_ARG, TENON_REASON_ALIGNMENT);
    rig_fails(add(of(it.a, all), of(it.b, all), of(it.b, all), OP_TOKENS), TENON_ARG,
              TENON_REASON_OVERLAP);
    rig_ok(tenon_session_memory(self.session, 0, &memory, &rig_error));
    ck_assert_uint_eq(memory.total, 1000);
    rig_fails(tenon_session_memory(self.session, 1, &memory, &rig_error), TENON_DECLINED,
              TENON_REASON_NO_BUFFERS);
    rig_fails(tenon_session_memory(self.session, 2, &memory, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    tenon_session_destroy(other);
    run_right();
    op_end(&self);
}
END_TEST

/* A budget larger than its heap breaks the contract. */
START_TEST(more_free_than_there_is)
{
    tenon_memory_info memory = {TENON_HEAD(tenon_memory_info), .total = 0};
    reset(0, "acme", ALL_OPS | FAKE_MEMORY);
    fake[0].memory_total = 62;
    fake[0].memory_free = 120;
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    rig_fails(tenon_session_memory(self.session, 0, &memory, &rig_error), TENON_INTERNAL,
              TENON_REASON_CONTRACT_BROKEN);
    op_end(&self);
}
END_TEST

/* A product over buffers, three outputs, one of whose weights is elsewhere. */
START_TEST(product)
{
    static float x[3 * RIG_COLS], y[2][3 * RIG_ROWS], read[3 * RIG_ROWS];
    tenon_buffer *input, *output[2];
    tenon_weight *second;
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = 3};
    uint32_t i, round;
    reset(0, "acme", FAKE_MEMORY);
    if (_i == 1) fake[0].decline_groups = true;
    if (_i == 2)
        fake[0].run_status = TENON_TIMEOUT, fake[0].run_from = 2, fake[0].write_half = true;
    if (_i == 3) fake[0].alloc_status = TENON_NOMEM, fake[0].alloc_good = 1;
    start(1);
    op_open(&self, "acme", TENON_MODE_PREFER);
    second = rig_weight(self.session, self.values, RIG_ROWS);
    rig_fill(x, 3 * RIG_COLS, 9);
    call.x = op_view(x, sizeof x);
    call.x_row_stride = RIG_COLS * 4;
    call.output_count = 2;
    for (i = 0; i < 2; i++) {
        call.outputs[i].weight = i == 0 ? self.weight : second;
        call.outputs[i].y = op_view(y[i], sizeof y[i]);
        call.outputs[i].row_stride = RIG_ROWS * 4;
    }
    rig_ok(tenon_qmatmul(queue(), &call, &rig_error));
    input = buffer(sizeof x);
    rig_ok(tenon_buffer_write(queue(), input, 0, x, sizeof x, &rig_error));
    call.x = of(input, sizeof x);
    for (i = 0; i < 2; i++) {
        output[i] = buffer(sizeof y[i]);
        call.outputs[i].y = of(output[i], sizeof y[i]);
    }
    for (round = 0; round < 2; round++) {
        rig_ok(tenon_qmatmul(queue(), &call, &rig_error));
        for (i = 0; i < 2; i++) {
            rig_ok(tenon_buffer_read(queue(), output[i], 0, read, sizeof read, &rig_error));
            ck_assert_int_eq(memcmp(read, y[i], sizeof read), 0);
        }
    }
    call.outputs[1].y = of(output[0], sizeof y[0]);
    rig_fails(tenon_qmatmul(queue(), &call, &rig_error), TENON_ARG, TENON_REASON_OVERLAP);
    op_end(&self);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("buffers");
    TCase *tests = tcase_create("buffers");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, resident, 0, 2);
    tcase_add_loop_test(tests, mixes, 0, 32);
    tcase_add_loop_test(tests, two_devices, 0, 4);
    tcase_add_test(tests, no_room);
    tcase_add_test(tests, write_fails);
    tcase_add_loop_test(tests, call_fails, 0, 3);
    tcase_add_test(tests, lost_by_a_call);
    tcase_add_loop_test(tests, lost_late, 0, 2);
    tcase_add_loop_test(tests, fence_and_read_fail, 0, 2);
    tcase_add_test(tests, alloc_answers_nothing);
    tcase_add_test(tests, parts);
    tcase_add_loop_test(tests, copies, 0, 3);
    tcase_add_test(tests, half_written_copy);
    tcase_add_test(tests, rows_with_gaps);
    tcase_add_test(tests, lost_by_a_transfer);
    tcase_add_loop_test(tests, begun_anew, 0, 2);
    tcase_add_test(tests, wrong_use);
    tcase_add_test(tests, more_free_than_there_is);
    tcase_add_loop_test(tests, product, 0, 4);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
