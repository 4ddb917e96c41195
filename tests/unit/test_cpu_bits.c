/* Every level, thread count, batch size and shape of the CPU provider gives the reference's bits.
 *
 *     test_cpu_bits MODULE
 *
 * MODULE is the provider, or the same sources built over SIMDe, whose levels are always there; what
 * runs is what the module says it has. TENON_LONG=1 runs the full product of shapes. */
#include "test_cpu_common.h"

static const uint64_t tokens_list[] = {1, 2, 3, 5, 8, 17, 64};
static const uint64_t inputs_list[] = {32, 64, 96, 160, 224, 256, 576, 768, 1536, 4096};
static const uint64_t rows_list[] = {1, 3, 15, 16, 17, 31, 63, 64, 65, 255, 257};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* A format as it is asked for. */
typedef struct variant {
    uint32_t format, layout;
    uint64_t group;
} variant;

#define MOST_VARIANTS 64
static variant variants[MOST_VARIANTS];
static int variant_count;

static void list_variants(void)
{
    static const uint64_t groups[] = {32, 64, 128, 48, 16, 300, 5, 256, 320};
    uint32_t i, format;
    size_t g;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        if (format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP) {
            for (g = 0; g < COUNT(groups); g++) {
                uint32_t layout = g % 2 == 0 ? TENON_LAYOUT_PAIR : TENON_LAYOUT_PLANAR;
                if (format == TENON_FORMAT_INT4_ROW && g > 1) break;
                variants[variant_count++] = (variant){
                    format, layout, format == TENON_FORMAT_INT4_ROW ? 0 : groups[g]};
            }
            continue;
        }
        variants[variant_count++] = (variant){format, TENON_LAYOUT_NONE, 0};
    }
}

static bool long_run(void)
{
    const char *value = getenv("TENON_LONG");
    return value != NULL && strcmp(value, "1") == 0;
}

/* The links of one test: the reference and every level that runs here, opened once a thread count. */
static link_t reference, links[8][MOST_THREADS + 1];
static char level_names[8][24];
static uint32_t level_count;
static bool level_runs[8];

static void open_links(void)
{
    uint32_t l;
    link_open_reference(&reference);
    level_count = module_levels(level_names);
    for (l = 0; l < level_count; l++) {
        uint32_t threads;
        level_runs[l] = true;
        for (threads = 1; threads <= MOST_THREADS && level_runs[l]; threads++)
            level_runs[l] = link_open(&links[l][threads], threads, level_names[l]);
    }
}

static void close_links(void)
{
    uint32_t l, threads;
    for (l = 0; l < level_count; l++)
        for (threads = 1; threads <= MOST_THREADS && level_runs[l]; threads++)
            link_close(&links[l][threads]);
    link_close(&reference);
}

/* One request on the reference and on every level, with threads threads; then its first and last
 * token alone, for a row must not depend on its batch. */
static void check_request(request *self, uint32_t threads)
{
    tenon_prepared *prepared[4];
    float *want[4], *got[4];
    uint32_t l, n;

    prepare_all(&reference, self, prepared);
    run_part(&reference, prepared, self, 0, self->tokens, want);
    release_all(&reference, self, prepared);
    for (l = 0; l < level_count; l++) {
        link_t *on = &links[l][threads];
        uint64_t alone;
        if (!level_runs[l]) continue;
        prepare_all(on, self, prepared);
        run_part(on, prepared, self, 0, self->tokens, got);
        compare(self, want, got, level_names[l]);
        free_all(self, got);
        for (alone = 0; self->tokens > 1 && alone < self->tokens; alone += self->tokens - 1) {
            run_part(on, prepared, self, alone, 1, got);
            for (n = 0; n < self->outputs; n++)
                ck_assert_msg(memcmp(got[n] + 4, want[n] + 4 + alone * self->y_stride[n], 0) == 0 &&
                                  same_bits(got[n][4], want[n][4 + alone * self->y_stride[n]]),
                              "%s: token %d alone differs", level_names[l], (int)alone);
            free_all(self, got);
        }
        release_all(on, self, prepared);
    }
    free_all(self, want);
}

static void check_case(const variant *v, uint32_t arith, uint64_t rows, uint64_t cols,
                       uint64_t tokens, uint32_t threads, enum flavour flavour, uint32_t alignment)
{
    stored weight;
    request self;
    stored_make(&weight, describe(v->format, v->layout, v->group, rows, cols, arith), flavour,
                alignment);
    request_make(&self, &weight, 1, tokens, flavour);
    check_request(&self, threads);
    request_free(&self);
    stored_free(&weight);
}

/* Does the format allow rows of cols inputs? */
static bool allows(const variant *v, uint64_t cols)
{
    tenon_format_info info;
    ck_assert(tenon_format_find(v->format, &info));
    return info.block_inputs == 0 || cols % info.block_inputs == 0;
}

static bool has_a8(const variant *v)
{
    tenon_format_info info;
    ck_assert(tenon_format_find(v->format, &info));
    return (info.traits & TENON_TRAIT_FLOATS) == 0;
}

/* Variant _i / 2, class F32 or A8 by _i % 2: all allowed I, with O and S taken in turn so that each
 * of them meets the format several times. */
START_TEST(test_shapes)
{
    const variant *v = &variants[_i / 2];
    uint32_t arith = _i % 2 == 0 ? TENON_CLASS_F32 : TENON_CLASS_A8, turn = 0;
    size_t i, o, s;

    if (arith == TENON_CLASS_A8 && !has_a8(v)) return; /* class F32 only, by the contract */
    random_state = (uint64_t)_i + 1000;
    open_links();
    for (i = 0; i < COUNT(inputs_list); i++) {
        if (!allows(v, inputs_list[i])) continue;
        if (long_run()) {
            for (o = 0; o < COUNT(rows_list); o++)
                for (s = 0; s < COUNT(tokens_list); s++, turn++)
                    check_case(v, arith, rows_list[o], inputs_list[i], tokens_list[s],
                               1 + turn % MOST_THREADS, ORDINARY, turn % 64);
            continue;
        }
        for (o = 0; o < 4; o++, turn++) {
            uint64_t rows = rows_list[(turn * 4 + i + (size_t)_i) % COUNT(rows_list)];
            uint64_t tokens = tokens_list[(turn * 3 + (size_t)_i) % COUNT(tokens_list)];
            if (inputs_list[i] * rows * tokens > 2000000) tokens = tokens > 3 ? 3 : tokens;
            check_case(v, arith, rows, inputs_list[i], tokens, 1 + turn % 3, ORDINARY, turn % 64);
        }
    }
    close_links();
}
END_TEST

/* Rows that are no whole number of anything, where the format has no blocks. */
START_TEST(test_ragged)
{
    static const uint64_t inputs[] = {1, 2, 7, 15, 17, 31, 33, 47, 63, 65, 100, 257, 300, 515};
    const variant *v = &variants[_i / 2];
    uint32_t arith = _i % 2 == 0 ? TENON_CLASS_F32 : TENON_CLASS_A8;
    size_t i;

    if (arith == TENON_CLASS_A8 && !has_a8(v)) return;
    random_state = (uint64_t)_i + 2000;
    open_links();
    for (i = 0; i < COUNT(inputs); i++)
        if (allows(v, inputs[i]))
            check_case(v, arith, rows_list[i % COUNT(rows_list)] % 40 + 1, inputs[i],
                       tokens_list[i % 5], 1 + (uint32_t)i % 3, ORDINARY, (uint32_t)i);
    close_links();
}
END_TEST

/* Weights of random bytes, activations with every kind of odd value. */
START_TEST(test_odd_values)
{
    const variant *v = &variants[_i / 2];
    uint32_t arith = _i % 2 == 0 ? TENON_CLASS_F32 : TENON_CLASS_A8, n;

    if (arith == TENON_CLASS_A8 && !has_a8(v)) return;
    random_state = (uint64_t)_i + 3000;
    open_links();
    for (n = 0; n < 4; n++) {
        check_case(v, arith, 33, 768, tokens_list[n], 1, HOSTILE, n);
        check_case(v, arith, 33, 768, tokens_list[n + 1], 1, SPECIAL_X, n);
    }
    close_links();
}
END_TEST

/* Weights at every alignment from 1 to 64. */
START_TEST(test_alignments)
{
    uint32_t alignment;
    random_state = (uint64_t)_i + 4000;
    open_links();
    for (alignment = 0; alignment < 64; alignment++)
        check_case(&variants[_i], TENON_CLASS_F32, 17, 256, 2, 1, ORDINARY, alignment);
    close_links();
}
END_TEST

/* Two to four outputs of mixed formats and classes over one input. */
START_TEST(test_outputs)
{
    uint32_t round, n;
    random_state = 5000;
    open_links();
    for (round = 0; round < 24; round++) {
        uint32_t outputs = 1 + round % 4;
        stored weights[4];
        request self;
        for (n = 0; n < outputs; n++) {
            variant v = variants[random_below((uint32_t)variant_count)];
            uint32_t arith = has_a8(&v) && round % 3 != 0 ? TENON_CLASS_A8 : TENON_CLASS_F32;
            if (round % 2 == 0 && n > 0) { /* q, k and v: the same form of x */
                v = (variant){weights[0].desc.format, weights[0].desc.layout,
                              weights[0].desc.group_size};
                arith = weights[0].desc.arith;
            }
            stored_make(
                &weights[n],
                describe(v.format, v.layout, v.group, rows_list[random_below(11)], 768, arith),
                ORDINARY, n);
        }
        request_make(&self, weights, outputs, tokens_list[random_below(7)], ORDINARY);
        check_request(&self, 1 + round % MOST_THREADS);
        request_free(&self);
        for (n = 0; n < outputs; n++) stored_free(&weights[n]);
    }
    close_links();
}
END_TEST

/* Work that is really split, over 1 to 8 threads; more tokens than one go takes. */
START_TEST(test_threads)
{
    static const variant wide = {TENON_FORMAT_Q4_0, TENON_LAYOUT_NONE, 0};
    static const variant k = {TENON_FORMAT_Q4_K, TENON_LAYOUT_NONE, 0};
    uint32_t threads = (uint32_t)_i, l;
    random_state = (uint64_t)_i + 6000;
    open_links();
    check_case(&wide, TENON_CLASS_A8, 1000, 768, 19, threads, ORDINARY, 1);
    check_case(&k, TENON_CLASS_F32, 505, 512, 13, threads, ORDINARY, 2);
    check_case(&wide, TENON_CLASS_A8, 6, 64, 401, threads, ORDINARY, 3);
    check_case(&wide, TENON_CLASS_F32, 7, 64, 205, threads, ORDINARY, 3);
    for (l = 0; l < level_count && threads > 1; l++)
        if (level_runs[l]) ck_assert_uint_gt(atomic_load(&links[l][threads].team.loops), 0);
    close_links();
}
END_TEST

/* One level each, so that what ran and what this machine lacks is counted and said. */
START_TEST(test_level)
{
    char names[8][24];
    link_t self;
    uint32_t count = module_levels(names);
    const char *how = strstr(module_path, "emulated") != NULL ? "emulated" : "native";

    if ((uint32_t)_i >= count) {
        runner_skip("the module was built without this level");
        return;
    }
    if (!link_open(&self, 1, names[_i])) {
        printf("level %s: not on this machine\n", names[_i]);
        runner_skip("this machine lacks the level");
        return;
    }
    printf("level %s: %s\n", names[_i], how);
    link_close(&self);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("cpu_bits");
    TCase *cases = tcase_create("bits");

    if (argc != 2) {
        fprintf(stderr, "usage: %s MODULE\n", argv[0]);
        return 64;
    }
    module_path = argv[1];
    list_variants();
    tcase_set_timeout(cases, long_run() ? 36000 : 600);
    tcase_add_loop_test(cases, test_level, 0, 4);
    tcase_add_loop_test(cases, test_shapes, 0, 2 * variant_count);
    tcase_add_loop_test(cases, test_ragged, 0, 2 * variant_count);
    tcase_add_loop_test(cases, test_odd_values, 0, 2 * variant_count);
    tcase_add_loop_test(cases, test_alignments, 0, variant_count);
    tcase_add_test(cases, test_outputs);
    tcase_add_loop_test(cases, test_threads, 1, MOST_THREADS + 1);
    suite_add_tcase(suite, cases);
    return runner_main(srunner_create(suite));
}
