/* What the device really computes, found out by a kernel over a few thousand cases (SPEC.md 2.1, A4).
 *
 * The cases: every pair out of a list of edges, and bit patterns of a fixed random sequence, half of
 * them any, half of them of ordinary size; a third operand that makes fma cancel where it can. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define RANDOM_CASES 3072u
#define EDGES 24u
#define CASES (RANDOM_CASES + EDGES * EDGES)

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* a * b + c rounded once: the product is exact in binary64, the sum is rounded to odd there, and so
 * rounding to binary32 sees what it needs (the method of Boldo and Melquiond). */
static float exact_fma(float a, float b, float c)
{
    double product = (double)a * (double)b, sum = product + (double)c, back, rest;
    uint64_t bits;

    if (!(sum - sum == 0.0)) return (float)sum; /* not finite */
    back = sum - product;
    rest = (product - (sum - back)) + ((double)c - back);
    memcpy(&bits, &sum, sizeof bits);
    if (rest != 0.0 && (bits & 1) == 0) {
        bits += (rest > 0.0) == (sum > 0.0) ? 1 : UINT64_MAX;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}

static const float edges[EDGES] = {0.0f,
                                   -0.0f,
                                   1.0f,
                                   -1.0f,
                                   0x1p-149f,
                                   -0x1p-149f,
                                   0x1.8p-140f,
                                   0x1p-126f,
                                   -0x1.fffffcp-127f,
                                   0x1.fffffep127f,
                                   -0x1p127f,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   0.5f,
                                   2.5f,
                                   -3.5f,
                                   0x1.000002p0f,
                                   0x1.fffffep-1f,
                                   127.0f,
                                   -126.5f,
                                   0x1.8p23f,
                                   0x1p-40f,
                                   0x1.99999ap-4f};

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13; /* Marsaglia's xorshift */
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void fill(float *cases)
{
    uint32_t state = 0x2545f491u, i, k;

    for (i = 0; i < EDGES * EDGES; i++, cases += VULKAN_PROBE_IN) {
        cases[0] = edges[i / EDGES];
        cases[1] = edges[i % EDGES];
        cases[2] = edges[(i * 7 + i / EDGES) % EDGES];
    }
    for (i = 0; i < RANDOM_CASES; i++, cases += VULKAN_PROBE_IN) {
        for (k = 0; k < VULKAN_PROBE_IN; k++) {
            uint32_t bits = next(&state);
            if (i % 2 == 0) bits = (bits & 0x81ffffffu) + 0x3e000000u; /* 2^-3 to 2 */
            cases[k] = of_bits(bits);
        }
        if (i % 4 == 0) cases[2] = -(cases[0] * cases[1]);
    }
}

/* The bits of a binary16 as binary32. */
static uint32_t widened(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest < 0x400u) return bits_of((float)rest * 0x1p-24f) | sign;
    return ((rest << 13) + (rest >= 0x7c00u ? 0x70000000u : 0x38000000u)) | sign;
}

/* What an output must be, as bits. Only comparisons are exact whatever the operands. */
static void expect(const float *at, uint32_t *out)
{
    float a = at[0], b = at[1], c = at[2], product = a * b;
    int32_t whole;
    uint32_t bits = bits_of(a);

    memcpy(&whole, &bits, sizeof whole);
    out[0] = bits_of(exact_fma(a, b, c));
    out[1] = bits_of(product);
    out[2] = bits_of(a + b);
    out[3] = bits_of(a - b);
    out[4] = bits_of(a / b);
    out[5] = bits_of(sqrtf(a));
    out[6] = bits_of(1.0f / a);
    out[7] = bits_of(a / 127.0f);
    out[8] = bits_of(a + 0x1.8p23f);
    out[9] = bits_of((float)whole);
    out[10] = (a < b ? 1u : 0u) | (a == b ? 2u : 0u) | (a != a ? 4u : 0u);
    out[11] = bits_of(product + c);
    out[12] = widened(bits & 0xffffu);
}

static int is_subnormal(uint32_t bits)
{
    return (bits & 0x7f800000u) == 0 && (bits & 0x7fffffu) != 0;
}

static int is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static void judge(const float *cases, const uint32_t *found, vulkan_arithmetic *out)
{
    uint32_t wanted[VULKAN_PROBE_OUT], i, k;

    *out = (vulkan_arithmetic){1, 1, 1, 1, 1, 1};
    for (i = 0; i < CASES; i++) {
        const float *at = cases + i * VULKAN_PROBE_IN;
        int small = is_subnormal(bits_of(at[0])) || is_subnormal(bits_of(at[1])) ||
                    is_subnormal(bits_of(at[2]));
        expect(at, wanted);
        for (k = 0; k < VULKAN_PROBE_OUT; k++) {
            uint32_t is = found[i * VULKAN_PROBE_OUT + k];
            if (is == wanted[k] || (k != 10 && is_nan(is) && is_nan(wanted[k]))) continue;
            if (k == 12)
                out->halves = 0;
            else if (small || is_subnormal(wanted[k]) || (k == 11 && is_subnormal(wanted[1])))
                out->subnormals = 0;
            else if (k == 0)
                out->fused = 0;
            else if (k == 4 || k == 6 || k == 7)
                out->divides = 0;
            else if (k == 5)
                out->roots = 0;
            else
                out->rounded = 0;
        }
    }
}

uint32_t vulkan_classes(const vulkan_arithmetic *arithmetic)
{
    uint32_t classes = 0;
    if (arithmetic->fused && arithmetic->rounded && arithmetic->subnormals)
        classes |= TENON_CLASS_BIT(TENON_CLASS_F32);
    if (arithmetic->rounded && arithmetic->divides) classes |= TENON_CLASS_BIT(TENON_CLASS_A8);
    return classes;
}

/* Runs the kernel over in; both spans are main memory. */
static int32_t run(tenon_device *device, vulkan_span in, vulkan_span out, tenon_error *error)
{
    const vulkan_probe_push push = {CASES};
    const vulkan_span spans[2] = {in, out};
    vulkan_dispatch dispatch = {.spans = spans,
                                .span_count = 2,
                                .push = &push,
                                .push_bytes = sizeof push,
                                .groups = {(CASES + 63) / 64, 1, 1}};
    int32_t status = vulkan_pipeline_get(device, VULKAN_PROBE, NULL, &dispatch.pipeline, error);

    if (status == TENON_OK) status = vulkan_record(device->uploads, &dispatch, error);
    return status;
}

int32_t vulkan_probe(tenon_device *device, vulkan_arithmetic *out, tenon_error *error)
{
    const uint64_t in_bytes = (uint64_t)CASES * VULKAN_PROBE_IN * sizeof(float);
    const uint64_t out_bytes = (uint64_t)CASES * VULKAN_PROBE_OUT * sizeof(uint32_t);
    tenon_device_queue *queue = device->uploads;
    vulkan_memory *in = NULL, *made = NULL;
    float *cases = malloc((size_t)in_bytes);
    uint32_t *found = malloc((size_t)out_bytes);
    int32_t status;

    if (cases == NULL || found == NULL) {
        status = vulkan_no_memory(in_bytes + out_bytes, TENON_SCOPE_DEVICE,
                                  "no memory for the probe", error);
        goto out;
    }
    fill(cases);
    status = vulkan_memory_make(device, VULKAN_MAIN, in_bytes, TENON_SCOPE_DEVICE, &in, error);
    if (status == TENON_OK)
        status = vulkan_memory_make(device, VULKAN_MAIN, out_bytes, TENON_SCOPE_DEVICE, &made,
                                    error);
    if (status == TENON_OK) status = vulkan_upload(device, vulkan_whole(in), cases, error);
    if (status == TENON_OK) status = vulkan_call_begin(queue, error);
    if (status == TENON_OK) status = run(device, vulkan_whole(in), vulkan_whole(made), error);
    if (status == TENON_OK) status = vulkan_download(queue, vulkan_whole(made), found, error);
    if (status == TENON_OK) judge(cases, found, out);
out:
    vulkan_memory_release(device, in);
    vulkan_memory_release(device, made);
    free(cases);
    free(found);
    return status;
}
