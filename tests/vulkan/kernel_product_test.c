/* The products and embed of the Vulkan provider's kernels against the reference, bit for bit: every
 * format, both classes, every flavour and math of the modules, odd shapes, special values.
 *
 * Needs a Vulkan device (lavapipe will do); without one every test is skipped. */
#include <runner.h>
#include <stdbool.h>

#include "data.h"
#include "kernel_pack.h"
#include "kernel_rig.h"
#include "qmatmul.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
static rig device;

/* One weight as the reference holds it and packed. */
typedef struct weight_case {
    tenon_weight_desc desc;
    uint8_t *weights, *scales;
    reference_weight reference;
    packed packed;
} weight_case;

static void make_weight(weight_case *self, random_state *random, data_kind kind)
{
    uint64_t weights_bytes, scales_bytes;
    uint32_t reason;

    ck_assert_int_eq(tenon_weight_bytes(&self->desc, &weights_bytes, &scales_bytes, &reason),
                     TENON_OK);
    self->weights = calloc(1, (size_t)weights_bytes + 64);
    self->scales = calloc(1, (size_t)scales_bytes + 64);
    ck_assert(self->weights != NULL && self->scales != NULL);
    data_fill_weight(random, kind, &self->desc, self->weights, weights_bytes, self->scales,
                     scales_bytes);
    reference_weight_describe(&self->reference, &self->desc, self->weights, self->scales);
    self->packed = pack_weight(&self->desc, &self->reference);
}

static void free_weight(weight_case *self)
{
    free(self->weights);
    free(self->scales);
    free(self->packed.codes);
    free(self->packed.scale_words);
}

/* What one run of a product looks like. */
typedef struct run_case {
    uint32_t flavour, math, fma, tokens;
    bool gemm;
} run_case;

static void run_product(const weight_case *weight, const rig_buffer *codes,
                        const rig_buffer *scales, const float *x, const run_case *how, uint32_t *y,
                        uint32_t y_stride)
{
    const packed *p = &weight->packed;
    bool a8 = weight->desc.arith == TENON_CLASS_A8;
    uint32_t vectors = a8 ? VULKAN_A8_VECTORS : VULKAN_F32_VECTORS, id;
    uint32_t constants[VULKAN_MOST_CONSTANTS] = {how->fma, p->storage, p->kind, p->minima,
                                                 p->block};
    uint32_t x_stride = p->cols + 3, work_stride = p->units * vectors + 5;
    rig_buffer xs = rig_upload(&device, x, (uint64_t)x_stride * how->tokens * 4 + 64);
    rig_buffer work = rig_buffer_make(&device, ((uint64_t)work_stride * how->tokens + 7) * 16);
    rig_buffer ys = rig_buffer_make(&device, ((uint64_t)y_stride * how->tokens + 9) * 4);
    const rig_buffer *stage_buffers[2] = {&xs, &work};
    const rig_buffer *buffers[4] = {codes, scales, &work, &ys};
    vulkan_stage_push stage = {2, x_stride, p->cols, p->units, 7, work_stride};
    vulkan_product_push push = {.units = p->units,
                                .tokens = how->tokens,
                                .scales = p->scales,
                                .work = 7,
                                .work_stride = work_stride,
                                .zero = p->zero,
                                .cols = p->cols,
                                .group = p->group,
                                .table = {p->table[0], p->table[1], p->table[2], p->table[3]}};
    const rig_kernel *kernel;
    uint32_t i, tile, groups = (p->rows + 63) / 64;
    static uint32_t turn;

    /* In every other turn as several weights of a tile each, and one of all the others. */
    for (i = tile = 0; i < VULKAN_MOST_WEIGHTS && tile < groups; i++) {
        uint32_t tiles = turn % 2 == 0 || i + 1 == VULKAN_MOST_WEIGHTS ? groups - tile : 1;
        uint32_t left = p->rows - tile * 64;
        push.codes_from[i] = tile * (uint32_t)(p->code_words / 4 / groups);
        push.scales_from[i] = tile * p->scales * 64;
        push.rows[i] = tiles * 64 < left ? tiles * 64 : left;
        push.y[i] = 9 + tile * 64;
        push.y_stride[i] = y_stride;
        tile += tiles;
    }
    turn++;
    for (i = 0; i < y_stride * how->tokens + 9; i++) ((uint32_t *)ys.at)[i] = KERNEL_POISON;
    kernel = rig_kernel_get(&device, a8 ? VULKAN_ROUND : VULKAN_STAGE, how->flavour, how->math,
                            constants);
    (void)rig_run(&device, kernel, stage_buffers, &stage, (p->units + 63) / 64, how->tokens, 1, 1);
    if (p->irregular)
        id = a8 ? VULKAN_GROUPS_A8 : VULKAN_GROUPS_F32;
    else if (how->gemm)
        id = a8 ? VULKAN_GEMM_A8 : VULKAN_GEMM_F32;
    else
        id = a8 ? VULKAN_GEMV_A8 : VULKAN_GEMV_F32;
    kernel = rig_kernel_get(&device, id, how->flavour, how->math, constants);
    (void)rig_run(&device, kernel, buffers, &push, groups + 1,
                  how->gemm && !p->irregular ? (how->tokens - 1) / VULKAN_GEMM_TOKENS + 1
                                             : how->tokens,
                  1, 1);
    for (i = 0; i < 9; i++) ck_assert_uint_eq(((uint32_t *)ys.at)[i], KERNEL_POISON);
    memcpy(y, (uint32_t *)ys.at + 9, (size_t)y_stride * how->tokens * 4);
    rig_buffer_free(&device, &xs);
    rig_buffer_free(&device, &work);
    rig_buffer_free(&device, &ys);
}

static void check_product(const weight_case *weight, random_state *random, data_kind kind,
                          const run_case *runs, size_t run_count)
{
    const packed *p = &weight->packed;
    bool a8 = weight->desc.arith == TENON_CLASS_A8;
    uint32_t tokens = 0, s, row, x_stride = p->cols + 3, y_stride = p->rows + 2;
    rig_buffer codes = rig_upload(&device, p->codes, p->code_words * 4);
    rig_buffer scales = rig_upload(&device, p->scale_words, p->scale_count * 4);
    reference_activations rounded;
    float *x, *expected;
    uint32_t *y;
    size_t r;

    for (r = 0; r < run_count; r++)
        if (runs[r].tokens > tokens) tokens = runs[r].tokens;
    x = calloc((size_t)tokens * x_stride + 16, 4);
    expected = calloc((size_t)tokens * y_stride, 4);
    y = calloc((size_t)tokens * y_stride, 4);
    rounded.d = calloc((size_t)p->units, 4);
    rounded.u = calloc((size_t)p->units, 32);
    ck_assert(x != NULL && expected != NULL && y != NULL && rounded.d != NULL && rounded.u != NULL);
    for (s = 0; s < tokens; s++) {
        const float *from = x + 2 + (size_t)s * x_stride;
        data_fill_row(random, kind, s, x + 2 + (size_t)s * x_stride, p->cols);
        if (a8) reference_quantize(from, p->cols, &rounded);
        for (row = 0; row < p->rows; row++)
            expected[(size_t)s * y_stride + row] = a8 ? reference_dot_a8(&weight->reference, row,
                                                                         &rounded)
                                                      : reference_dot_f32(&weight->reference, row,
                                                                          from);
    }
    for (r = 0; r < run_count; r++) {
        run_product(weight, &codes, &scales, x, &runs[r], y, y_stride);
        for (s = 0; s < runs[r].tokens; s++)
            for (row = 0; row < y_stride; row++) {
                uint32_t found = y[(size_t)s * y_stride + row];
                float want = expected[(size_t)s * y_stride + row];
                if (row >= p->rows)
                    ck_assert_uint_eq(found, KERNEL_POISON);
                else
                    ck_assert_msg(kernel_same(reference_bits_of(want), found),
                                  "format %u group %u class %u rows %u cols %u flavour %u math %u "
                                  "fma %u gemm %d token %u row %u: %08x, not %08x (%g)",
                                  weight->desc.format, p->group, weight->desc.arith, p->rows,
                                  p->cols, runs[r].flavour, runs[r].math, runs[r].fma,
                                  (int)runs[r].gemm, s, row, found, reference_bits_of(want),
                                  (double)want);
            }
    }
    free(x);
    free(expected);
    free(y);
    free(rounded.d);
    free(rounded.u);
    rig_buffer_free(&device, &codes);
    rig_buffer_free(&device, &scales);
}

static void check_format(uint32_t format, uint32_t layout, uint32_t group, uint32_t arith,
                         uint32_t rows, uint32_t cols, data_kind kind, bool wide)
{
    run_case runs[] = {{VULKAN_TEXEL, VULKAN_DOUBLE, VULKAN_FMA_EMULATED, 1, false},
                       {VULKAN_TEXEL, VULKAN_DOUBLE, VULKAN_FMA_EMULATED, 11, true},
                       {VULKAN_BUFFER, VULKAN_DOUBLE, VULKAN_FMA_EMULATED, 5, true},
                       {VULKAN_BUFFER, VULKAN_SINGLE, VULKAN_FMA_EMULATED, 2, false}};
    random_state random = {((uint64_t)format << 32 | group) + rows * 1000u + cols};
    weight_case weight = {.desc = {TENON_HEAD(tenon_weight_desc), .format = format,
                                   .layout = layout, .group_size = group, .arith = arith,
                                   .rows = rows, .cols = cols}};
    make_weight(&weight, &random, kind);
    check_product(&weight, &random, kind, runs, wide ? COUNT(runs) : 2);
    free_weight(&weight);
}

/* Every format in one class. */
static void check_class(uint32_t arith, uint32_t rows, uint32_t cols, data_kind kind, bool wide)
{
    static const uint32_t groups[] = {32, 64, 128, 256, 5000, 5, 48, 300};
    uint32_t i, format;
    size_t g;

    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        tenon_format_info info;
        uint32_t whole = cols;
        (void)tenon_format_find(format, &info);
        if (arith == TENON_CLASS_A8 && (info.traits & TENON_TRAIT_FLOATS) != 0) continue;
        if (info.block_inputs != 0) whole = (cols / info.block_inputs + 1) * info.block_inputs;
        if (format == TENON_FORMAT_INT4_GROUP) {
            for (g = 0; g < COUNT(groups); g++)
                check_format(format, TENON_LAYOUT_PLANAR, groups[g], arith, rows, cols, kind, wide);
            continue;
        }
        check_format(format,
                     format == TENON_FORMAT_INT4_ROW ? TENON_LAYOUT_PAIR : TENON_LAYOUT_NONE, 0,
                     arith, rows, whole, kind, wide);
    }
}

START_TEST(a8_ordinary)
{
    check_class(TENON_CLASS_A8, 67, 600, DATA_ORDINARY, true);
}
END_TEST

START_TEST(a8_special)
{
    check_class(TENON_CLASS_A8, 130, 290, DATA_SPECIAL, false);
    check_class(TENON_CLASS_A8, 3, 17, DATA_TINY, false);
}
END_TEST

/* Sums as far from 0 as they get: every code is the least or the greatest, and so is every u. */
START_TEST(a8_largest)
{
    static const uint32_t formats[] = {TENON_FORMAT_INT8_ROW, TENON_FORMAT_INT4_ROW,
                                       TENON_FORMAT_INT4_GROUP};
    static const uint8_t codes[] = {0x00, 0x77, 0x7f, 0x80, 0x88, 0xff};
    const run_case runs[] = {{VULKAN_TEXEL, VULKAN_DOUBLE, VULKAN_FMA_EMULATED, 2, false},
                             {VULKAN_BUFFER, VULKAN_DOUBLE, VULKAN_FMA_EMULATED, 2, true}};
    random_state random = {1};
    size_t f, c;

    for (f = 0; f < COUNT(formats); f++)
        for (c = 0; c < COUNT(codes); c++) {
            weight_case weight = {.desc = {TENON_HEAD(tenon_weight_desc), .format = formats[f],
                                           .arith = TENON_CLASS_A8, .rows = 3, .cols = 320}};
            uint64_t bytes, scales;
            uint32_t reason;
            if (formats[f] == TENON_FORMAT_INT4_ROW) weight.desc.layout = TENON_LAYOUT_PAIR;
            if (formats[f] == TENON_FORMAT_INT4_GROUP) {
                weight.desc.layout = TENON_LAYOUT_PLANAR;
                weight.desc.group_size = 32;
            }
            make_weight(&weight, &random, DATA_ORDINARY);
            (void)tenon_weight_bytes(&weight.desc, &bytes, &scales, &reason);
            memset(weight.weights, codes[c], (size_t)bytes);
            free(weight.packed.codes);
            free(weight.packed.scale_words);
            weight.packed = pack_weight(&weight.desc, &weight.reference);
            check_product(&weight, &random, DATA_LARGE_SUMS, runs, COUNT(runs));
            free_weight(&weight);
        }
}
END_TEST

START_TEST(f32_ordinary)
{
    check_class(TENON_CLASS_F32, 67, 600, DATA_ORDINARY, true);
}
END_TEST

START_TEST(f32_special)
{
    check_class(TENON_CLASS_F32, 130, 290, DATA_SPECIAL, true);
    check_class(TENON_CLASS_F32, 3, 17, DATA_TINY, true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel products");
    TCase *cases = tcase_create("products");
    SRunner *runner = srunner_create(suite);
    int status;

    if (!rig_open(&device)) {
        printf("SKIP: no Vulkan device\n0 passed, 0 failed, 5 skipped\n");
        srunner_free(runner);
        return EXIT_SUCCESS;
    }
    tcase_set_timeout(cases, 600);
    tcase_add_test(cases, a8_ordinary);
    tcase_add_test(cases, a8_special);
    tcase_add_test(cases, a8_largest);
    tcase_add_test(cases, f32_ordinary);
    tcase_add_test(cases, f32_special);
    suite_add_tcase(suite, cases);
    srunner_set_fork_status(runner, CK_NOFORK); /* a device does not survive a fork */
    status = runner_main(runner);
    rig_close(&device);
    return status;
}
