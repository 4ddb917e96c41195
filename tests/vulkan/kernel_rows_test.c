/* The kernels over whole rows, and the probe, against the reference, bit for bit. */
#include <runner.h>
#include <math.h>
#include <stdbool.h>
#include <tenon/op/gated.h>

#include "activation.h"
#include "data.h"
#include "exp.h"
#include "fma_exact.h"
#include "kernel_pack.h"
#include "kernel_rig.h"
#include "numbers.h"
#include "qmatmul.h"
#include "sums.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static rig device;

/* Both maths; FMA emulated, as lavapipe does not fuse. */
static const uint32_t constants[VULKAN_MOST_CONSTANTS] = {VULKAN_FMA_EMULATED};

static float special_float(random_state *random)
{
    static const uint32_t values[] = {
        0,           0x80000000u, 1,           0x807fffffu, 0x00800000u, 0x7f7fffffu, 0x7f800000u,
        0xff800000u, 0x7fc00000u, 0x3f800000u, 0xbf800000u, 0x33800000u, 0x4b000000u, 0x34000001u};
    uint64_t bits = random_u64(random);
    if (bits % 5 == 0) return reference_float_of(values[(bits >> 8) % COUNT(values)]);
    if (bits % 5 == 1) return reference_float_of((uint32_t)(bits >> 32));
    return random_normal(random) * 4.0f;
}

static void check_words(const float *expected, const uint32_t *found, uint64_t count,
                        const char *what, uint32_t math)
{
    uint64_t i;
    for (i = 0; i < count; i++)
        ck_assert_msg(kernel_same(reference_bits_of(expected[i]), found[i]),
                      "%s math %u value %lu: %08x, not %08x", what, math, (unsigned long)i,
                      found[i], reference_bits_of(expected[i]));
}

/* -------------------------------------------------------------------------------------- probe */

/* Cases around every rounding: close exponents, ties, both ends of the range. */
static void probe_case(random_state *random, float *abc)
{
    uint64_t bits = random_u64(random);
    uint32_t i, word[3];
    for (i = 0; i < 3; i++) word[i] = (uint32_t)(random_u64(random) >> 16);
    switch (bits % 6) {
    case 0: break; /* any bits */
    case 1:        /* c cancels the product */
        word[0] = (word[0] & 0x007fffffu) | (uint32_t)(100 + random_below(random, 50)) << 23;
        word[1] = (word[1] & 0x007fffffu) | (uint32_t)(100 + random_below(random, 50)) << 23;
        word[2] = reference_bits_of(-(reference_float_of(word[0]) * reference_float_of(word[1]))) +
                  (uint32_t)random_below(random, 5) - 2;
        break;
    case 2: /* the product is near the smallest numbers */
        word[0] = (word[0] & 0x807fffffu) | (uint32_t)random_below(random, 127) << 23;
        word[1] = (word[1] & 0x807fffffu) |
                  (uint32_t)(128 - (word[0] >> 23 & 255) - random_below(random, 30) % 30 + 30) % 255
                      << 23;
        word[2] = (word[2] & 0x807fffffu) | (uint32_t)random_below(random, 30) << 23;
        break;
    case 3: /* few bits, so ties are common */
        for (i = 0; i < 3; i++)
            word[i] = (word[i] & 0x80780000u) | (uint32_t)(110 + random_below(random, 36)) << 23;
        word[2] = (word[2] & 0x80000fffu) | (uint32_t)(96 + random_below(random, 40)) << 23;
        break;
    case 4: /* near overflow */
        word[0] = (word[0] & 0x807fffffu) | (uint32_t)(180 + random_below(random, 20)) << 23;
        word[1] = (word[1] & 0x807fffffu) | (uint32_t)(180 + random_below(random, 20)) << 23;
        word[2] = (word[2] & 0x807fffffu) | (uint32_t)(225 + random_below(random, 30)) << 23;
        break;
    default: /* subnormal and special */
        for (i = 0; i < 3; i++) word[i] = reference_bits_of(special_float(random));
        if (bits >> 40 & 1) word[0] &= 0x807fffffu;
        if (bits >> 41 & 1) word[2] &= 0x807fffffu;
        break;
    }
    for (i = 0; i < 3; i++) abc[i] = reference_float_of(word[i]);
}

/* Sums and products as the processor makes them, one at a time. */
static void probe_expected(const float *abc, float *out)
{
    volatile float a = abc[0], b = abc[1], c = abc[2], product = a * b;
    out[0] = reference_fma(a, b, c);
    out[1] = product;
    out[2] = a + b;
    out[3] = a - b;
    out[4] = a / b;
    out[5] = sqrtf(a);
    out[6] = 1.0f / a;
    out[7] = a / 127.0f;
    out[8] = a + 12582912.0f;
    out[9] = (float)(int32_t)reference_bits_of(a);
    out[10] = reference_float_of((uint32_t)(a < b) | (uint32_t)(a == b) << 1 |
                                 (uint32_t)(a != a) << 2);
    out[11] = product + c;
    out[12] = reference_f16((uint16_t)(reference_bits_of(a) & 0xffffu));
}

START_TEST(probe)
{
    const uint32_t cases = 200000;
    random_state random = {7};
    rig_buffer in = rig_buffer_make(&device, (uint64_t)cases * 12);
    rig_buffer out = rig_buffer_make(&device, (uint64_t)cases * VULKAN_PROBE_OUT * 4);
    const rig_buffer *buffers[2] = {&in, &out};
    vulkan_probe_push push = {cases};
    uint32_t i, math;

    for (i = 0; i < cases; i++) probe_case(&random, (float *)in.at + 3 * i);
    for (math = 0; math < VULKAN_MATHS; math++) {
        const rig_kernel *kernel = rig_kernel_get(&device, VULKAN_PROBE, VULKAN_BUFFER, math,
                                                  constants);
        (void)rig_run(&device, kernel, buffers, &push, cases / 64, 1, 1, 1);
        for (i = 0; i < cases; i++) {
            const float *abc = (const float *)in.at + 3 * i;
            const uint32_t *found = (const uint32_t *)out.at + VULKAN_PROBE_OUT * i;
            float expected[VULKAN_PROBE_OUT];
            uint32_t n;
            probe_expected(abc, expected);
            for (n = 0; n < VULKAN_PROBE_OUT; n++)
                ck_assert_msg(kernel_same(reference_bits_of(expected[n]), found[n]),
                              "math %u answer %u of %a %a %a: %08x, not %08x", math, n,
                              (double)abc[0], (double)abc[1], (double)abc[2], found[n],
                              reference_bits_of(expected[n]));
        }
    }
    rig_buffer_free(&device, &in);
    rig_buffer_free(&device, &out);
}
END_TEST

/* --------------------------------------------------------------------------- rmsnorm, gated, add */

#define TOKENS 3u

static float *random_rows(random_state *random, uint64_t count, bool special)
{
    float *out = malloc((size_t)count * 4);
    uint64_t i;
    ck_assert_ptr_nonnull(out);
    for (i = 0; i < count; i++)
        out[i] = special ? special_float(random) : random_normal(random) * 3.0f;
    return out;
}

/* What a joined kernel adds beside its own work (join.h). */
enum { ADDS = 1, ROUNDS = 2 };

/* Records that ROUND makes of rows of width floats from word 3 on, against those in work. */
static void check_records(const rig_buffer *rows, uint32_t stride, uint32_t width,
                          const rig_buffer *work, const char *what)
{
    uint32_t units = (width + 31) / 32, vectors = units * VULKAN_A8_VECTORS + 1;
    rig_buffer expected = rig_buffer_make(&device, (uint64_t)TOKENS * vectors * 16);
    const rig_buffer *buffers[2] = {rows, &expected};
    vulkan_stage_push push = {3, stride, width, units, 0, vectors};

    (void)rig_run(&device, rig_kernel_get(&device, VULKAN_ROUND, VULKAN_BUFFER, 0, constants),
                  buffers, &push, units / 64 + 1, TOKENS, 1, 1);
    ck_assert_msg(memcmp(expected.at, work->at, (size_t)TOKENS * vectors * 16) == 0,
                  "%s: width %u: other records than ROUND makes", what, width);
    rig_buffer_free(&device, &expected);
}

/* in_place: the sum goes to x. */
static void check_rmsnorm(uint32_t width, uint32_t groups, float eps, bool special, uint32_t joins,
                          bool in_place)
{
    random_state random = {width * 31u + groups};
    uint32_t row = width * groups, stride = row + 5, s, g, i, variant;
    uint64_t bytes = ((uint64_t)stride * TOKENS + 64) * 4;
    uint32_t vectors = (width + 31) / 32 * VULKAN_A8_VECTORS + 1;
    uint32_t options[VULKAN_MOST_CONSTANTS] = {VULKAN_FMA_EMULATED, joins & 1, joins >> 1};
    float *x = random_rows(&random, stride * TOKENS + 1, special);
    float *b = random_rows(&random, stride * TOKENS + 1, special);
    float *w = random_rows(&random, width + 2, false);
    float *expected = calloc(row, 4), *sum = calloc(row, 4);
    vulkan_rmsnorm_push push = {1,   stride, 2,      3, stride, width, (float)width,
                                eps, 1,      stride, 1, stride, 0,     vectors};

    ck_assert_ptr_nonnull(expected);
    ck_assert_ptr_nonnull(sum);
    if (!special) memset(x + 1, 0, (size_t)width * 4); /* a group of zeros */
    if (!special) memset(b + 1, 0, (size_t)width * 4);
    for (variant = 0; variant < (uint32_t)VULKAN_MATHS * VULKAN_FLAVOURS; variant++) {
        uint32_t math = variant % VULKAN_MATHS, flavour = variant / VULKAN_MATHS;
        rig_buffer xs = rig_upload(&device, x, ((uint64_t)stride * TOKENS + 1) * 4);
        rig_buffer bs = rig_upload(&device, b, ((uint64_t)stride * TOKENS + 1) * 4);
        rig_buffer ws = rig_upload(&device, w, ((uint64_t)width + 2) * 4);
        rig_buffer ys = rig_buffer_make(&device, bytes), sums = rig_buffer_make(&device, bytes);
        rig_buffer work = rig_buffer_make(&device, (uint64_t)TOKENS * vectors * 16);
        const rig_buffer *kept = in_place ? &xs : &sums;
        const rig_buffer *buffers[6] = {&xs, &ws, &ys, &bs, kept, &work};

        (void)rig_run(&device, rig_kernel_get(&device, VULKAN_RMSNORM, flavour, math, options),
                      buffers, &push, groups, TOKENS, 1, 1);
        for (s = 0; s < TOKENS; s++) {
            const float *from = x + 1 + (size_t)s * stride, *other = b + 1 + (size_t)s * stride;
            for (i = 0; i < row; i++) sum[i] = (joins & ADDS) != 0 ? from[i] + other[i] : from[i];
            for (g = 0; g < groups; g++) {
                const float *group = sum + (size_t)g * width;
                float v = reference_dot16(group, group, width) / (float)width + eps;
                float r = v == 0.0f ? 0.0f : 1.0f / sqrtf(v);
                for (i = 0; i < width; i++) expected[g * width + i] = group[i] * r * w[2 + i];
            }
            check_words(expected, (uint32_t *)ys.at + 3 + (size_t)s * stride, row, "rmsnorm", math);
            if ((joins & ADDS) != 0)
                check_words(sum, (uint32_t *)kept->at + 1 + (size_t)s * stride, row, "sum", math);
        }
        if ((joins & ROUNDS) != 0) check_records(&ys, stride, width, &work, "rmsnorm");
        rig_buffer_free(&device, &xs);
        rig_buffer_free(&device, &bs);
        rig_buffer_free(&device, &ws);
        rig_buffer_free(&device, &ys);
        rig_buffer_free(&device, &sums);
        rig_buffer_free(&device, &work);
    }
    free(x);
    free(b);
    free(w);
    free(expected);
    free(sum);
}

START_TEST(rmsnorm)
{
    static const uint32_t widths[] = {1,  5,  15,  16,  17,   31,   32,   33,  63,
                                      64, 65, 576, 511, 1000, 2049, 2080, 4100};
    uint32_t joins;
    size_t i;
    for (i = 0; i < COUNT(widths); i++) {
        check_rmsnorm(widths[i], 1, 1e-5f, false, 0, false);
        check_rmsnorm(widths[i], 3, 0.0f, false, 0, false);
        check_rmsnorm(widths[i], 2, 1e-6f, true, 0, false);
        for (joins = 1; joins < 4; joins++) {
            check_rmsnorm(widths[i], 1, 0.0f, false, joins, true);
            check_rmsnorm(widths[i], 1, 1e-5f, true, joins, false);
        }
    }
}
END_TEST

static void check_pair(uint32_t id, uint32_t activation, uint32_t width, bool special,
                       uint32_t rounds)
{
    random_state random = {width + 77u * activation};
    uint32_t stride = width + 3, s, i, variant;
    uint32_t vectors = (width + 31) / 32 * VULKAN_A8_VECTORS + 1;
    float *a = random_rows(&random, (uint64_t)stride * TOKENS + 1, special);
    float *b = random_rows(&random, (uint64_t)stride * TOKENS + 2, special);
    float *expected = calloc(width, 4);
    rig_buffer as = rig_upload(&device, a, ((uint64_t)stride * TOKENS + 1) * 4);
    rig_buffer bs = rig_upload(&device, b, ((uint64_t)stride * TOKENS + 2) * 4);
    /* The push struct of ADD is the beginning of that of GATED. */
    vulkan_gated_push push = {1, stride, 2, stride, 3, stride, width, activation, 0, vectors};
    uint32_t options[VULKAN_MOST_CONSTANTS] = {VULKAN_FMA_EMULATED, special ? activation : 0,
                                               rounds};

    ck_assert_ptr_nonnull(expected);
    for (variant = 0; variant < (uint32_t)VULKAN_MATHS * VULKAN_FLAVOURS; variant++) {
        uint32_t math = variant % VULKAN_MATHS, flavour = variant / VULKAN_MATHS;
        rig_buffer ys = rig_buffer_make(&device, (uint64_t)stride * TOKENS * 4 + 64);
        rig_buffer work = rig_buffer_make(&device, (uint64_t)TOKENS * vectors * 16);
        const rig_buffer *buffers[4] = {&as, &bs, &ys, &work};

        (void)rig_run(&device, rig_kernel_get(&device, id, flavour, math, options), buffers, &push,
                      width / 256 + 1, TOKENS, 1, 1);
        for (s = 0; s < TOKENS; s++) {
            const float *left = a + 1 + (size_t)s * stride, *right = b + 2 + (size_t)s * stride;
            for (i = 0; i < width; i++)
                expected[i] = id == VULKAN_ADD ? left[i] + right[i]
                                               : reference_activate(activation, left[i]) * right[i];
            check_words(expected, (uint32_t *)ys.at + 3 + (size_t)s * stride, width,
                        id == VULKAN_ADD ? "add" : "gated", math);
        }
        if (rounds) check_records(&ys, stride, width, &work, "gated");
        rig_buffer_free(&device, &ys);
        rig_buffer_free(&device, &work);
    }
    free(a);
    free(b);
    free(expected);
    rig_buffer_free(&device, &as);
    rig_buffer_free(&device, &bs);
}

START_TEST(gated_and_add)
{
    static const uint32_t widths[] = {1, 31, 33, 255, 256, 257, 1536};
    uint32_t activation;
    size_t i;
    check_pair(VULKAN_ADD, 0, 1, false, 0);
    check_pair(VULKAN_ADD, 0, 700, true, 0);
    for (activation = TENON_ACT_SILU; activation <= TENON_ACT_RELU; activation++) {
        check_pair(VULKAN_GATED, activation, 255, false, 0);
        check_pair(VULKAN_GATED, activation, 20000, true, 0);
        check_pair(VULKAN_GATED, activation, 20000, true, 1);
    }
    for (i = 0; i < COUNT(widths); i++) {
        check_pair(VULKAN_GATED, TENON_ACT_SILU, widths[i], false, 1);
        check_pair(VULKAN_GATED, TENON_ACT_SILU, widths[i], true, 1);
    }
}
END_TEST

/* ------------------------------------------------------------------------------------- argmax */

static void check_argmax(uint32_t width, uint32_t kind)
{
    random_state random = {width * 7u + kind};
    uint32_t stride = width + 2, s, i;
    uint32_t stretches = width == 0 ? 1 : (width - 1) / VULKAN_ARGMAX_STRETCH + 1;
    float *x = calloc((size_t)stride * TOKENS + 1, 4);
    rig_buffer xs, work = rig_buffer_make(&device, (uint64_t)stretches * TOKENS * 8 + 64);
    rig_buffer ys = rig_buffer_make(&device, 64);
    const rig_buffer *first[2] = {&xs, &work}, *last[2] = {&work, &ys};
    vulkan_argmax_push push = {1, stride, width, 5, stretches, 2};

    ck_assert_ptr_nonnull(x);
    for (i = 0; i < stride * TOKENS + 1; i++) {
        if (kind == 0) x[i] = random_normal(&random);
        if (kind == 1) x[i] = NAN;
        if (kind == 2) x[i] = random_below(&random, 2) != 0 ? 0.0f : -0.0f;
        if (kind == 3) x[i] = -(float)random_below(&random, 3) - 1.0f;
        if (kind == 4) x[i] = special_float(&random);
        if (kind == 5) x[i] = -INFINITY;
    }
    xs = rig_upload(&device, x, ((uint64_t)stride * TOKENS + 1) * 4);
    (void)rig_run(&device, rig_kernel_get(&device, VULKAN_ARGMAX, VULKAN_BUFFER, 0, constants),
                  first, &push, stretches + 1, TOKENS, 1, 1);
    (void)rig_run(&device, rig_kernel_get(&device, VULKAN_ARGMAX_LAST, VULKAN_BUFFER, 0, constants),
                  last, &push, TOKENS, 1, 1, 1);
    for (s = 0; s < TOKENS; s++) {
        const float *row = x + 1 + (size_t)s * stride;
        uint32_t best = UINT32_MAX;
        for (i = 0; i < width; i++)
            if (row[i] == row[i] && (best == UINT32_MAX || row[i] > row[best])) best = i;
        ck_assert_uint_eq(((uint32_t *)ys.at)[2 + s], best);
    }
    free(x);
    rig_buffer_free(&device, &xs);
    rig_buffer_free(&device, &work);
    rig_buffer_free(&device, &ys);
}

static float step_rounded_twice(float a, float b, float c)
{
    return (float)((double)a * (double)b + (double)c);
}

/* exponential() of exp.glsl as it is with binary64. */
static float exp_as_kernels(float x)
{
    static const float coefficients[] = {0x1.123a2p-7f,  0x1.5558f2p-5f, 0x1.555492p-3f,
                                         0x1.fffffcp-2f, 1.0f,           1.0f};
    float z, n, r, product, p = 0x1.6a23d2p-10f;
    int whole, low, i;

    x = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    z = step_rounded_twice(x, 0x1.715476p0f, 0x1.8p23f);
    n = z - 0x1.8p23f;
    product = n * -0x1.62e4p-1f;
    r = product + x;
    r = step_rounded_twice(n, -0x1.7f7d1cp-20f, r);
    for (i = 0; i < 6; i++) p = step_rounded_twice(p, r, coefficients[i]);
    whole = (int)n;
    low = (whole - (whole & 1)) / 2;
    return p * ldexpf(1.0f, low) * ldexpf(1.0f, whole - low);
}

/* Its steps round twice; exp is right nevertheless. All floats were looked at once, with a stride of 1:
 * none differs. */
#define EXP_STRIDE 1021u

START_TEST(exp_rounded_twice)
{
    uint64_t word;

    for (word = 0; word <= 0xff800000u; word += EXP_STRIDE) {
        float x = reference_float_of((uint32_t)word);
        if (x != x) continue;
        ck_assert_msg(reference_bits_of(exp_as_kernels(x)) == reference_bits_of(reference_exp(x)),
                      "%a", (double)x);
    }
}
END_TEST

START_TEST(argmax)
{
    static const uint32_t widths[] = {0, 1, 2, 127, 128, 129, 4095, 4096, 4097, 49152, 1000001};
    uint32_t kind;
    size_t i;
    for (i = 0; i < COUNT(widths); i++)
        for (kind = 0; kind < 6; kind++) check_argmax(widths[i], kind);
}
END_TEST

/* -------------------------------------------------------------------------------------- embed */

static float embed_value(const reference_segment *segment, const tenon_format_info *info,
                         uint32_t i)
{
    uint32_t b = i / segment->block;
    if (info->block_inputs == 1) return segment->q[i];
    if ((info->traits & TENON_TRAIT_MINIMA) != 0)
        return reference_fma(segment->s[b], segment->q[i], -segment->m[b]);
    return segment->s[b] * segment->q[i];
}

static void check_embed(uint32_t format, uint32_t group, float scale, data_kind kind)
{
    const uint32_t rows = 200, ids[] = {0, 63, 64, 65, 127, 128, 199, 200, 0xffffffffu, 5};
    random_state random = {format * 1000u + group};
    tenon_format_info info;
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = format,
                              .arith = TENON_CLASS_A8, .rows = rows, .group_size = group};
    uint64_t weights_bytes, scales_bytes;
    uint32_t reason, math, part, stride, t, i;
    uint8_t *weights, *scales;
    reference_weight reference;
    packed p;
    float *expected;
    rig_buffer id_buffer = rig_upload(&device, ids, sizeof ids), ys, codes[2], scale_buffers[2];

    (void)tenon_format_find(format, &info);
    desc.cols = info.block_inputs == 0 ? 301 : (500 / info.block_inputs + 1) * info.block_inputs;
    if (format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP)
        desc.layout = TENON_LAYOUT_PAIR;
    ck_assert_int_eq(tenon_weight_bytes(&desc, &weights_bytes, &scales_bytes, &reason), TENON_OK);
    weights = calloc(1, (size_t)weights_bytes + 64);
    scales = calloc(1, (size_t)scales_bytes + 64);
    expected = calloc((size_t)desc.cols, 4);
    ck_assert(weights != NULL && scales != NULL && expected != NULL);
    data_fill_weight(&random, kind, &desc, weights, weights_bytes, scales, scales_bytes);
    reference_weight_describe(&reference, &desc, weights, scales);
    p = pack_weight(&desc, &reference);
    stride = p.cols + 4;
    ys = rig_buffer_make(&device, (uint64_t)stride * COUNT(ids) * 4 + 64);
    for (part = 0; part < 2; part++) { /* two parts: 128 rows, then 72 */
        uint64_t code_tile = (uint64_t)p.units * p.vectors * 1024, scale_tile = p.scales * 1024u;
        codes[part] = rig_upload(&device, p.codes + part * 2 * code_tile / 4, code_tile * 2);
        scale_buffers[part] = rig_upload(&device, p.scale_words + part * 2 * scale_tile / 4,
                                         scale_tile * 2);
    }
    for (math = 0; math < VULKAN_MATHS; math++) {
        uint32_t options[] = {VULKAN_FMA_EMULATED, p.storage, p.kind, p.minima, p.block};
        const rig_kernel *kernel = rig_kernel_get(&device, VULKAN_EMBED, VULKAN_BUFFER, math,
                                                  options);
        memset(ys.at, 0, (size_t)ys.bytes);
        for (part = 0; part < 2; part++) {
            vulkan_embed_push push = {.first_row = part * 128,
                                      .rows = part == 0 ? 128 : 72,
                                      .all_rows = rows,
                                      .units = p.units,
                                      .cols = p.cols,
                                      .scales = p.scales,
                                      .ids = 0,
                                      .y = 1,
                                      .y_stride = stride,
                                      .zero = p.zero,
                                      .group = p.irregular ? p.group : 0,
                                      .scale = scale,
                                      .table = {p.table[0], p.table[1], p.table[2], p.table[3]}};
            const rig_buffer *buffers[4] = {&codes[part], &scale_buffers[part], &id_buffer, &ys};
            (void)rig_run(&device, kernel, buffers, &push, (p.units + 63) / 64, COUNT(ids), 1, 1);
        }
        for (t = 0; t < COUNT(ids); t++) {
            uint64_t first;
            reference_segment segment;
            if (ids[t] >= rows)
                for (i = 0; i < p.cols; i++) expected[i] = NAN;
            else
                for (first = 0; first < p.cols; first += segment.inputs) {
                    reference_decode(&reference, ids[t], first, &segment);
                    for (i = 0; i < segment.inputs; i++) {
                        float value = embed_value(&segment, &info, i);
                        expected[first + i] = scale == 1.0f ? value : value * scale;
                    }
                }
            check_words(expected, (uint32_t *)ys.at + 1 + (size_t)t * stride, p.cols, info.text,
                        math);
        }
    }
    free(weights);
    free(scales);
    free(expected);
    free(p.codes);
    free(p.scale_words);
    rig_buffer_free(&device, &id_buffer);
    rig_buffer_free(&device, &ys);
    for (part = 0; part < 2; part++) {
        rig_buffer_free(&device, &codes[part]);
        rig_buffer_free(&device, &scale_buffers[part]);
    }
}

START_TEST(embed)
{
    uint32_t i, format;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        if (format == TENON_FORMAT_INT4_GROUP) {
            check_embed(format, 64, 1.0f, DATA_ORDINARY);
            check_embed(format, 48, 0.3f, DATA_ORDINARY);
            continue;
        }
        check_embed(format, 0, 1.0f, DATA_SPECIAL);
        check_embed(format, 0, 25.25f, DATA_ORDINARY);
    }
}
END_TEST

/* ------------------------------------------------------------------------------------ class A8 */

/* Blocks whose greatest value is at the edges of what the rule tells apart, and ties. */
START_TEST(rounded_activations)
{
    static const uint32_t greatest[] = {0x2b800000, 0x2b7fffff, 0x2b800001, 0,          1,
                                        0x7f7fffff, 0x7f800000, 0x7fc00000, 0x42fe0000, 0x3f800000};
    enum { BLOCKS = COUNT(greatest), COLS = 32 * BLOCKS - 5 };
    random_state random = {11};
    float x[32 * BLOCKS], d[BLOCKS];
    int8_t u[32 * BLOCKS];
    reference_activations expected = {d, u};
    rig_buffer xs, work = rig_buffer_make(&device, (uint64_t)BLOCKS * VULKAN_A8_VECTORS * 16);
    const rig_buffer *buffers[2] = {&xs, &work};
    vulkan_stage_push push = {0, COLS, COLS, BLOCKS, 0, BLOCKS * VULKAN_A8_VECTORS};
    uint32_t i, b;

    for (i = 0; i < COLS; i++) {
        float scale = fabsf(reference_float_of(greatest[i / 32]));
        x[i] = ((float)random_below(&random, 255) - 127.0f) / 254.0f * scale; /* halves: ties */
        if (i % 32 == 7) x[i] = -reference_float_of(greatest[i / 32]);
    }
    xs = rig_upload(&device, x, COLS * 4);
    reference_quantize(x, COLS, &expected);
    (void)rig_run(&device, rig_kernel_get(&device, VULKAN_ROUND, VULKAN_BUFFER, 0, constants),
                  buffers, &push, 1, 1, 1, 1);
    for (b = 0; b < BLOCKS; b++) {
        const uint32_t *record = (uint32_t *)work.at + b * VULKAN_A8_VECTORS * 4;
        ck_assert_msg(kernel_same(reference_bits_of(d[b]), record[8]), "d of block %u: %08x", b,
                      record[8]);
        for (i = 0; i < 32 && 32 * b + i < COLS; i++)
            ck_assert_int_eq((int8_t)(record[i / 4] >> 8 * (i % 4)), u[32 * b + i]);
    }
    rig_buffer_free(&device, &xs);
    rig_buffer_free(&device, &work);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel rows");
    TCase *cases = tcase_create("rows");
    SRunner *runner = srunner_create(suite);
    int status;

    if (!rig_open(&device)) {
        printf("SKIP: no Vulkan device\n0 passed, 0 failed, 7 skipped\n");
        srunner_free(runner);
        return EXIT_SUCCESS;
    }
    tcase_set_timeout(cases, 600);
    tcase_add_test(cases, probe);
    tcase_add_test(cases, rmsnorm);
    tcase_add_test(cases, gated_and_add);
    tcase_add_test(cases, exp_rounded_twice);
    tcase_add_test(cases, argmax);
    tcase_add_test(cases, embed);
    tcase_add_test(cases, rounded_activations);
    suite_add_tcase(suite, cases);
    srunner_set_fork_status(runner, CK_NOFORK); /* a device does not survive a fork */
    status = runner_main(runner);
    rig_close(&device);
    return status;
}
