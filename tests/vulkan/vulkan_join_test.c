/* Joined steps: the same calls with a fence between them, where nothing can join, leave the same bytes
 * everywhere; and steps do join where they should. */
#include "provider_rig.h"

#include <tenon/op/gated.h>
#include <tenon/op/rmsnorm.h>
#include <vulkan/vulkan_core.h>

#define ROWS 40u  /* of the weight */
#define TOKENS 3u /* at most */
#define SPACE (96u * 1024u)
#define WORDS (SPACE / 4u)

typedef struct joins {
    rig rig;
    const tenon_rmsnorm_v1 *rmsnorm;
    const tenon_gated_v1 *gated;
    const tenon_graph_v1 *graph;
    tenon_prepared *weight;
    tenon_device_buffer *space; /* everything lies in it */
    float before[WORDS], apart[WORDS], joined[WORDS];
} joins;

/* Rows of COLS floats, as words of the space. */
typedef struct place {
    uint32_t at, stride;
} place;

/* add a and b to sum; normalize `from` by w to y; multiply y to out. gated: y = silu(a) * b instead. more:
 * rows that only the first of them makes. */
typedef struct scene {
    uint32_t tokens, gated, more;
    place a, b, sum, from, w, y, out;
} scene;

/* type: 0, or what VkPhysicalDeviceType the device is passed off as, and 1. */
static joins *set_up_as(uint32_t type)
{
    joins *self = calloc(1, sizeof *self);

    ck_assert_ptr_nonnull(self);
    rig_load(&self->rig, 1);
    self->rig.faults->device_type = type;
    self->rmsnorm = dlsym(self->rig.module, "rmsnorm_v1");
    self->gated = dlsym(self->rig.module, "gated_v1");
    self->graph = dlsym(self->rig.module, "graph_v1");
    ck_assert(self->rmsnorm != NULL && self->gated != NULL && self->graph != NULL);
    if (!rig_open_device(&self->rig)) {
        free(self);
        return NULL;
    }
    rig_fill(self->before, WORDS);
    ck_assert_int_eq(rig_prepare(&self->rig, ROWS, 1, 0, 0, &self->weight), TENON_OK);
    ck_assert_int_eq(
        self->rig.memory->alloc(self->rig.device, SPACE, &self->space, &self->rig.error), TENON_OK);
    return self;
}

static joins *set_up(void)
{
    return set_up_as(0);
}

static void tear_down(joins *self)
{
    self->rig.qmatmul->release(self->rig.device, self->weight);
    self->rig.memory->free(self->rig.device, self->space);
    rig_close(&self->rig);
    free(self);
}

static tenon_view view_of(joins *self, place p, uint32_t tokens, uint32_t width)
{
    return (tenon_view){.buffer = self->space,
                        .offset = UINT64_C(4) * p.at,
                        .bytes = UINT64_C(4) * ((tokens - 1) * p.stride + width)};
}

static void wait_if(joins *self, int fenced)
{
    rig *on = &self->rig;
    if (fenced) ck_assert_int_eq(on->memory->fence(on->device, on->queue, &on->error), TENON_OK);
}

static void check(joins *self, int32_t status)
{
    ck_assert_msg(status == TENON_OK, "%d: %s", status, self->rig.error.text);
}

static void make_calls(joins *self, const scene *s, int fenced)
{
    rig *on = &self->rig;
    const uint32_t all = s->tokens + s->more;
    const tenon_add_call add = {TENON_HEAD(tenon_add_call),
                                .a = view_of(self, s->a, all, COLS),
                                .b = view_of(self, s->b, all, COLS),
                                .y = view_of(self, s->sum, all, COLS),
                                .tokens = all,
                                .width = COLS,
                                .a_row_stride = s->a.stride * 4,
                                .b_row_stride = s->b.stride * 4,
                                .y_row_stride = s->sum.stride * 4};
    const tenon_rmsnorm_call norm = {TENON_HEAD(tenon_rmsnorm_call),
                                     .x = view_of(self, s->from, s->tokens, COLS),
                                     .w = view_of(self, s->w, 1, COLS),
                                     .y = view_of(self, s->y, s->tokens, COLS),
                                     .tokens = s->tokens,
                                     .groups = 1,
                                     .width = COLS,
                                     .x_row_stride = s->from.stride * 4,
                                     .y_row_stride = s->y.stride * 4,
                                     .eps = 1e-5f};
    const tenon_gated_call gated = {TENON_HEAD(tenon_gated_call),
                                    .gate = view_of(self, s->a, all, COLS),
                                    .up = view_of(self, s->b, all, COLS),
                                    .y = view_of(self, s->y, all, COLS),
                                    .tokens = all,
                                    .width = COLS,
                                    .activation = TENON_ACT_SILU,
                                    .gate_row_stride = s->a.stride * 4,
                                    .up_row_stride = s->b.stride * 4,
                                    .y_row_stride = s->y.stride * 4};
    const tenon_qmatmul_call product = {
        TENON_HEAD(tenon_qmatmul_call),
        .x = view_of(self, s->y, s->tokens, COLS),
        .tokens = s->tokens,
        .x_row_stride = s->y.stride * 4,
        .output_count = 1,
        .outputs = {{self->weight, view_of(self, s->out, s->tokens, ROWS), s->out.stride * 4}}};

    if (s->gated) {
        check(self, self->gated->run(on->device, on->queue, &gated, &on->error));
    } else {
        check(self, on->add->run(on->device, on->queue, &add, &on->error));
        wait_if(self, fenced);
        check(self, self->rmsnorm->run(on->device, on->queue, &norm, &on->error));
    }
    wait_if(self, fenced);
    check(self, on->qmatmul->run(on->device, on->queue, &product, &on->error));
}

/* Runs the calls over the bytes of before; how many dispatches they took. */
static long run(joins *self, const scene *s, int fenced, int recorded, float *after)
{
    rig *on = &self->rig;
    tenon_device_graph *graph = NULL;
    long made;

    check(self, on->memory->write(on->device, on->queue, self->space, 0, self->before, SPACE,
                                  &on->error));
    wait_if(self, 1);
    made = atomic_load(&on->faults->dispatches);
    if (recorded) check(self, self->graph->begin(on->device, on->queue, &on->error));
    make_calls(self, s, fenced);
    if (recorded) {
        check(self, self->graph->end(on->device, on->queue, &graph, &on->error));
        check(self, self->graph->launch(on->device, on->queue, graph, &on->error));
    }
    check(self, on->memory->read(on->device, on->queue, self->space, 0, after, SPACE, &on->error));
    made = atomic_load(&on->faults->dispatches) - made;
    self->graph->release(on->device, graph);
    return made;
}

static void compare(joins *self, const scene *s, long wanted)
{
    long apart = run(self, s, 1, 0, self->apart), made;
    int recorded;

    ck_assert_int_eq(apart, s->gated ? 3 : 4);
    for (recorded = 0; recorded < 2; recorded++) {
        made = run(self, s, 0, recorded, self->joined);
        ck_assert_msg(
            memcmp(self->joined, self->apart, SPACE) == 0,
            "other bytes: tokens %u gated %u recorded %d, %ld dispatches: a %u+%u b %u+%u "
            "sum %u+%u from %u+%u w %u y %u+%u out %u+%u",
            s->tokens, s->gated, recorded, made, s->a.at, s->a.stride, s->b.at, s->b.stride,
            s->sum.at, s->sum.stride, s->from.at, s->from.stride, s->w.at, s->y.at, s->y.stride,
            s->out.at, s->out.stride);
        if (wanted != 0) ck_assert_int_eq(made, wanted);
    }
}

/* What an engine does: everything apart, each step over the rows of the one before. */
START_TEST(steps_join)
{
    const place a = {8, 64}, b = {1000, 70}, sum = {2001, 80}, w = {3003, 64}, y = {4005, 100},
                out = {5000, 50};
    joins *self = set_up();
    scene s = {1, 0, 0, a, b, sum, sum, w, y, out};

    if (self == NULL) return;
    for (s.tokens = 1; s.tokens <= TOKENS; s.tokens++) compare(self, &s, 2);
    s.gated = 1;
    for (s.tokens = 1; s.tokens <= TOKENS; s.tokens++) compare(self, &s, 2);
    tear_down(self);
}
END_TEST

/* Rows that are not those of the step before: fewer, others, of another stride. */
START_TEST(steps_stay_apart)
{
    const place a = {8, 64}, b = {1000, 70}, sum = {2001, 80}, w = {3003, 64}, y = {4005, 100},
                out = {5000, 50};
    joins *self = set_up();
    scene s = {2, 0, 0, a, b, sum, sum, w, y, out};

    if (self == NULL) return;
    s.from.at += 80; /* the second row and one more */
    compare(self, &s, 3);
    s.from = (place){2001, 64};
    compare(self, &s, 3);
    s.from = sum;
    s.w.at = 2001; /* the sum is its own weight: other workgroups write it */
    compare(self, &s, 3);
    s.w = w;
    s.y = (place){8 + 64, 64}; /* y over rows of a that other workgroups read */
    compare(self, &s, 3);
    s.y = (place){8, 64}; /* y over a, row for row */
    compare(self, &s, 2);
    s.y = (place){8, 72}; /* the same for the first row, but not for the second */
    compare(self, &s, 3);
    s.y = (place){1001, 70}; /* y over b, but by a word apart */
    compare(self, &s, 3);
    s.y = y;
    s.more = 1;
    compare(self, &s, 3);
    s.gated = 1;
    compare(self, &s, 3);
    tear_down(self);
}
END_TEST

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static int meet(place p, place q, uint32_t p_words, uint32_t q_words)
{
    return p.at < q.at + q_words && q.at < p.at + p_words;
}

/* Anything over anything, as far as each call by itself is one (outputs beside inputs). */
START_TEST(any_places)
{
    joins *self = set_up();
    uint64_t state = 1;
    uint32_t tries = 0, i;

    if (self == NULL) return;
    while (tries < 300) {
        scene s = {.tokens = 1 + next(&state) % TOKENS, .gated = next(&state) % 4 == 0};
        place *places[7] = {&s.a, &s.b, &s.sum, &s.from, &s.w, &s.y, &s.out};
        uint32_t words;
        for (i = 0; i < 7; i++)
            *places[i] = (place){next(&state) % 12 * 64 + next(&state) % 2 * (next(&state) % 64),
                                 COLS + next(&state) % 3 * 8};
        if (next(&state) % 4 != 0) s.from = s.sum;
        words = (s.tokens - 1) * (COLS + 16) + COLS;
        if (s.gated ? meet(s.y, s.a, words, words) || meet(s.y, s.b, words, words)
                    : meet(s.sum, s.a, words, words) || meet(s.sum, s.b, words, words) ||
                          meet(s.y, s.from, words, words) || meet(s.y, s.w, words, COLS))
            continue;
        if (meet(s.out, s.y, words, words)) continue;
        compare(self, &s, 0);
        tries++;
    }
    tear_down(self);
}
END_TEST

/* What comes next is no kernel: rows are copied as soon as they are made. */
START_TEST(copied)
{
    const place a = {8, 64}, b = {1000, 64}, y = {4000, 64};
    joins *self = set_up();
    rig *on = &self->rig;
    tenon_device_buffer *other = NULL;
    tenon_add_call add;
    uint32_t i;

    if (self == NULL) return;
    check(self, on->memory->alloc(on->device, COLS * 4, &other, &on->error));
    check(self, on->memory->write(on->device, on->queue, self->space, 0, self->before, SPACE,
                                  &on->error));
    add = (tenon_add_call){TENON_HEAD(tenon_add_call),
                           .a = view_of(self, a, 1, COLS),
                           .b = view_of(self, b, 1, COLS),
                           .y = view_of(self, y, 1, COLS),
                           .tokens = 1,
                           .width = COLS,
                           .a_row_stride = COLS * 4,
                           .b_row_stride = COLS * 4,
                           .y_row_stride = COLS * 4};
    check(self, on->add->run(on->device, on->queue, &add, &on->error));
    check(self, on->memory->copy(on->device, on->queue, other, 0, self->space, 4 * y.at, COLS * 4,
                                 &on->error));
    check(self,
          on->memory->read(on->device, on->queue, other, 0, self->joined, COLS * 4, &on->error));
    for (i = 0; i < COLS; i++)
        ck_assert(self->joined[i] == self->before[a.at + i] + self->before[b.at + i]);
    on->memory->free(on->device, other);
    tear_down(self);
}
END_TEST

/* The outputs of one call, in one dispatch behind that which makes x ready; the values are those of
 * calls of their own. Outputs in another buffer, far from the rest, as well. */
START_TEST(outputs_of_one_call)
{
    static const uint32_t rows[TENON_QMATMUL_MAX_OUTPUTS] = {40, 130, 64, 200};
    static const uint32_t at[TENON_QMATMUL_MAX_OUTPUTS] = {9000, 1000, 16000, 5000};
    const place x = {8, COLS};
    tenon_prepared *weights[TENON_QMATMUL_MAX_OUTPUTS];
    joins *self = set_up_as(_i < 5 ? 0 : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU + 1);
    rig *on = &self->rig;
    tenon_device_buffer *far = NULL;
    float apart[220 * TOKENS], whole[220 * TOKENS];
    uint32_t i, outputs, tokens;
    long made;

    if (self == NULL) return;
    check(self, on->memory->alloc(on->device, UINT64_C(70) << 20, &far, &on->error));
    for (i = 0; i < TENON_QMATMUL_MAX_OUTPUTS; i++)
        ck_assert_int_eq(rig_prepare(on, rows[i], i + 2, 0, 0, &weights[i]), TENON_OK);
    check(self, on->memory->write(on->device, on->queue, self->space, 0, self->before, SPACE,
                                  &on->error));
    for (tokens = 1; tokens <= TOKENS; tokens++)
        for (outputs = 1; outputs <= TENON_QMATMUL_MAX_OUTPUTS; outputs++) {
            tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call),
                                       .x = view_of(self, x, tokens, COLS), .tokens = tokens,
                                       .x_row_stride = x.stride * 4, .output_count = outputs};
            for (i = 0; i < outputs; i++) {
                const place y = {at[i], rows[i] + i};
                call.outputs[i] = (tenon_output){weights[i], view_of(self, y, tokens, rows[i]),
                                                 y.stride * 4};
                if ((int)i == _i % 5 - 1) call.outputs[i].y.buffer = far;
            }
            check(self, on->memory->fence(on->device, on->queue, &on->error));
            made = atomic_load(&on->faults->dispatches);
            check(self, on->qmatmul->run(on->device, on->queue, &call, &on->error));
            check(self, on->memory->fence(on->device, on->queue, &on->error));
            made = atomic_load(&on->faults->dispatches) - made;
            if (_i % 5 == 0) ck_assert_int_eq(made, 2);
            for (i = 0; i < outputs; i++) {
                const uint64_t bytes = call.outputs[i].y.bytes, offset = call.outputs[i].y.offset;
                tenon_qmatmul_call one = call;
                memset(one.outputs, 0, sizeof one.outputs);
                one.output_count = 1;
                one.outputs[0] = call.outputs[i];
                one.outputs[0].y.buffer = self->space;
                one.outputs[0].y.offset = 4 * 20000;
                check(self, on->memory->read(on->device, on->queue, call.outputs[i].y.buffer,
                                             offset, whole, bytes, &on->error));
                check(self, on->memory->write(on->device, on->queue, self->space, 4 * 20000, whole,
                                              bytes, &on->error));
                check(self, on->qmatmul->run(on->device, on->queue, &one, &on->error));
                check(self, on->memory->read(on->device, on->queue, self->space, 4 * 20000, apart,
                                             bytes, &on->error));
                ck_assert_msg(memcmp(apart, whole, bytes) == 0, "output %u of %u", i, outputs);
            }
        }
    for (i = 0; i < TENON_QMATMUL_MAX_OUTPUTS; i++) on->qmatmul->release(on->device, weights[i]);
    on->memory->free(on->device, far);
    tear_down(self);
}
END_TEST

/* Weights that go while their product is in flight: another one takes no memory that it still reads. */
START_TEST(released_in_flight)
{
    static const uint32_t at[3] = {1000, 5000, 9000};
    const place x = {8, COLS};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = 1,
                               .x_row_stride = COLS * 4, .output_count = 3};
    joins *self = set_up();
    rig *on = &self->rig;
    tenon_prepared *weights[3], *later[3];
    uint32_t i, turn;

    if (self == NULL) return;
    for (turn = 0; turn < 2; turn++) {
        check(self, on->memory->write(on->device, on->queue, self->space, 0, self->before, SPACE,
                                      &on->error));
        check(self, on->memory->fence(on->device, on->queue, &on->error));
        call.x = view_of(self, x, 1, COLS);
        for (i = 0; i < 3; i++) {
            const place y = {at[i], 200};
            ck_assert_int_eq(rig_prepare(on, 200, i, 0, 0, &weights[i]), TENON_OK);
            call.outputs[i] = (tenon_output){weights[i], view_of(self, y, 1, 200), 200 * 4};
        }
        check(self, on->qmatmul->run(on->device, on->queue, &call, &on->error));
        for (i = 0; i < 3 && turn == 1; i++) on->qmatmul->release(on->device, weights[i]);
        for (i = 0; i < 3 && turn == 1; i++)
            ck_assert_int_eq(rig_prepare(on, 200, 90 + i, 0, 0, &later[i]), TENON_OK);
        check(self, on->memory->read(on->device, on->queue, self->space, 0,
                                     turn == 0 ? self->apart : self->joined, SPACE, &on->error));
        for (i = 0; i < 3; i++) on->qmatmul->release(on->device, turn == 0 ? weights[i] : later[i]);
    }
    ck_assert(memcmp(self->apart, self->joined, SPACE) == 0);
    tear_down(self);
}
END_TEST

/* Weights that one kernel reads, but not with the same zero: nibbles of 4 and of 2 bits. */
START_TEST(formats_of_one_call)
{
    static const uint32_t formats[3] = {TENON_FORMAT_INT4_ROW, TENON_FORMAT_INT2_ROW,
                                        TENON_FORMAT_INT4_ROW};
    static uint8_t bytes[ROWS * COLS];
    static float scales[ROWS], apart[ROWS], whole[ROWS];
    const place x = {8, COLS};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = 1,
                               .x_row_stride = COLS * 4, .output_count = 3};
    joins *self = set_up();
    rig *on = &self->rig;
    tenon_prepared *weights[3];
    uint32_t i;

    if (self == NULL) return;
    for (i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 89 + i / 7);
    for (i = 0; i < ROWS; i++) scales[i] = 0.5f + (float)i;
    for (i = 0; i < 3; i++) {
        const tenon_weight_desc desc = {
            TENON_HEAD(tenon_weight_desc),
            .format = formats[i],
            .rows = ROWS,
            .cols = COLS,
            .arith = TENON_CLASS_A8,
            .layout = formats[i] == TENON_FORMAT_INT4_ROW ? TENON_LAYOUT_PAIR : 0};
        tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = bytes, .scales = scales,
                                  .lifetime = TENON_LIFETIME_COPY};
        uint32_t reason;
        ck_assert_int_eq(
            tenon_weight_bytes(&desc, &data.weights_bytes, &data.scales_bytes, &reason), TENON_OK);
        ck_assert_uint_le(data.weights_bytes, sizeof bytes);
        check(self, on->qmatmul->prepare(on->device, &desc, &data, &weights[i], &on->error));
    }
    check(self, on->memory->write(on->device, on->queue, self->space, 0, self->before, SPACE,
                                  &on->error));
    call.x = view_of(self, x, 1, COLS);
    for (i = 0; i < 3; i++) {
        const place y = {1000 * (i + 1), ROWS};
        call.outputs[i] = (tenon_output){weights[i], view_of(self, y, 1, ROWS), ROWS * 4};
    }
    check(self, on->qmatmul->run(on->device, on->queue, &call, &on->error));
    for (i = 0; i < 3; i++) {
        tenon_qmatmul_call one = call;
        check(self, on->memory->read(on->device, on->queue, self->space, 4000 * (i + 1), whole,
                                     sizeof whole, &on->error));
        memset(one.outputs, 0, sizeof one.outputs);
        one.output_count = 1;
        one.outputs[0] = call.outputs[i];
        check(self, on->qmatmul->run(on->device, on->queue, &one, &on->error));
        check(self, on->memory->read(on->device, on->queue, self->space, 4000 * (i + 1), apart,
                                     sizeof apart, &on->error));
        ck_assert_msg(memcmp(whole, apart, sizeof whole) == 0, "output %u", i);
    }
    for (i = 0; i < 3; i++) on->qmatmul->release(on->device, weights[i]);
    tear_down(self);
}
END_TEST

/* A call that would join fails: the step before it is made all the same. */
START_TEST(a_failed_join)
{
    static const enum faulty_call calls[] = {
        FAULTY_CreateComputePipelines, FAULTY_CreateDescriptorPool, FAULTY_AllocateDescriptorSets};
    const place a = {8, 64}, b = {1000, 70}, y = {4005, 100}, out = {5000, 50};
    joins *self = set_up();
    const scene s = {1, 1, 0, a, b, {0}, {0}, {0}, y, out};
    rig *on = &self->rig;
    tenon_gated_call gated;
    tenon_qmatmul_call product;

    if (self == NULL) return;
    (void)run(self, &s, 1, 0, self->apart);
    check(self, on->memory->write(on->device, on->queue, self->space, 0, self->before, SPACE,
                                  &on->error));
    gated = (tenon_gated_call){TENON_HEAD(tenon_gated_call),
                               .gate = view_of(self, a, 1, COLS),
                               .up = view_of(self, b, 1, COLS),
                               .y = view_of(self, y, 1, COLS),
                               .tokens = 1,
                               .width = COLS,
                               .activation = TENON_ACT_SILU,
                               .gate_row_stride = COLS * 4,
                               .up_row_stride = COLS * 4,
                               .y_row_stride = COLS * 4};
    product = (tenon_qmatmul_call){
        TENON_HEAD(tenon_qmatmul_call),
        .x = view_of(self, y, 1, COLS),
        .tokens = 1,
        .x_row_stride = COLS * 4,
        .output_count = 1,
        .outputs = {{self->weight, view_of(self, out, 1, ROWS), ROWS * 4}}};
    check(self, self->gated->run(on->device, on->queue, &gated, &on->error));
    rig_fail(on, calls[_i], 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    (void)on->qmatmul->run(on->device, on->queue, &product, &on->error);
    atomic_store(&on->faults->call[calls[_i]].after, 0);
    check(self,
          on->memory->read(on->device, on->queue, self->space, 0, self->joined, SPACE, &on->error));
    ck_assert(memcmp(self->joined + y.at, self->apart + y.at, COLS * 4) == 0);
    tear_down(self);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("vulkan join");
    TCase *tests = tcase_create("joins");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, steps_join);
    tcase_add_test(tests, steps_stay_apart);
    tcase_add_test(tests, any_places);
    tcase_add_test(tests, copied);
    tcase_add_test(tests, formats_of_one_call);
    tcase_add_test(tests, released_in_flight);
    tcase_add_loop_test(tests, outputs_of_one_call, 0, 10);
    tcase_add_loop_test(tests, a_failed_join, 0, 3);
    suite_add_tcase(made, tests);
    return made;
}

int main(void)
{
    return runner_main(srunner_create(suite()));
}
