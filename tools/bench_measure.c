/* Times products: medians over samples, one sample a few calls long where a call is short. */
#include "bench_measure.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <tests/conformance/data.h>

#define MAX_COPY_BYTES ((uint64_t)1 << 30)
#define MAX_SAMPLES 301u
#define SHORTEST_SAMPLE 100e-6 /* seconds: the clock and its reading must not show */

static bool no_memory(tenon_error *error, uint64_t bytes)
{
    tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL, bytes,
                      TENON_UNKNOWN, "no memory for the benchmark");
    return false;
}

bool bench_weights_make(bench_weights *self, tenon_session *session, const bench_shape *shape,
                        bool hot, tenon_error *error)
{
    tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = shape->format,
                              .layout = shape->layout,       .group_size = shape->group_size,
                              .rows = shape->rows,           .cols = shape->cols};
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .lifetime = TENON_LIFETIME_STABLE};
    random_state random = {shape->rows * 31 + shape->cols};
    uint64_t wanted = 1, cache = calibrate_cache_bytes();
    uint32_t reason;
    memset(self, 0, sizeof *self);
    self->shape = *shape;
    if (tenon_weight_bytes(&desc, &data.weights_bytes, &data.scales_bytes, &reason) != TENON_OK) {
        tenon_fail(error, TENON_ARG, reason, TENON_SCOPE_CALL, tenon_reason_text(reason));
        return false;
    }
    self->bytes = data.weights_bytes + data.scales_bytes;
    data.weights = shape->data;
    if (shape->data == NULL) {
        self->weights = malloc(data.weights_bytes);
        self->scales = malloc(data.scales_bytes != 0 ? data.scales_bytes : 1);
        if (self->weights == NULL || self->scales == NULL) {
            bench_weights_free(self);
            return no_memory(error, self->bytes);
        }
        data_fill_weight(&random, DATA_ORDINARY, &desc, self->weights, data.weights_bytes,
                         self->scales, data.scales_bytes);
        data.weights = self->weights;
        if (data.scales_bytes != 0) data.scales = self->scales;
    }
    /* Twice the cache, and one more, so that a copy is long gone when its turn comes again. */
    if (!hot) wanted = 2 * cache / self->bytes + 2;
    if (wanted * self->bytes > MAX_COPY_BYTES)
        wanted = MAX_COPY_BYTES / self->bytes > 2 ? MAX_COPY_BYTES / self->bytes : hot ? 1 : 2;
    self->copies = calloc(wanted, sizeof(tenon_weight *));
    if (self->copies == NULL) {
        bench_weights_free(self);
        return no_memory(error, wanted * sizeof(tenon_weight *));
    }
    for (; self->count < wanted; self->count++) {
        if (tenon_weight_create(session, &desc, &data, &self->copies[self->count], error) !=
            TENON_OK) {
            bench_weights_free(self);
            return false;
        }
    }
    {
        tenon_weight_information info = {TENON_HEAD(tenon_weight_information), .arith = 0};
        if (tenon_weight_info(self->copies[0], &info, error) != TENON_OK) {
            bench_weights_free(self);
            return false;
        }
        self->arith = info.arith;
    }
    return true;
}

void bench_weights_free(bench_weights *self)
{
    uint32_t i;
    for (i = 0; i < self->count; i++) tenon_weight_destroy(self->copies[i]);
    free(self->copies);
    free(self->weights);
    free(self->scales);
    memset(self, 0, sizeof *self);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static uint64_t major_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_majflt : 0;
}

/* Which limit bounds the product, and how much of it was reached. */
static void judge(bench_point *out, const calibration *limits)
{
    double operations = 2.0 * (double)out->shape.rows * (double)out->shape.cols *
                        (double)out->tokens;
    double rate = out->arith == TENON_CLASS_A8 ? limits->int8_gops : limits->f32_gflops;
    out->gbps = (double)out->bytes / out->ns_median;
    out->gops = operations / out->ns_median;
    out->bound_by_memory = (double)out->bytes / limits->read_gbps >= operations / rate;
    out->limit = out->bound_by_memory ? limits->read_gbps : rate;
    out->ratio = (out->bound_by_memory ? out->gbps : out->gops) / out->limit;
}

bool bench_measure(const bench_weights *weights, tenon_session *session, uint64_t tokens,
                   double seconds, const calibration *limits, bench_point *out, tenon_error *error)
{
    static double samples[MAX_SAMPLES];
    const bench_shape *shape = &weights->shape;
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = tokens,
                               .x_row_stride = shape->cols * 4, .output_count = 1};
    tenon_queue *queue = tenon_session_queue(session);
    random_state random = {tokens};
    uint64_t x_bytes, y_bytes, s, faults;
    uint32_t turn = 0, k, smallest;
    double began, spent, estimate = 0;
    float *x = NULL, *y = NULL;
    bool good = false;
    memset(out, 0, sizeof *out);
    out->shape = *shape;
    out->tokens = tokens;
    out->bytes = weights->bytes;
    out->arith = weights->arith;
    out->copies = weights->count;
    if (!tenon_mul_u64(tokens * 4, shape->cols, &x_bytes) ||
        !tenon_mul_u64(tokens * 4, shape->rows, &y_bytes)) {
        tenon_fail(error, TENON_ARG, TENON_REASON_OVERFLOW, TENON_SCOPE_CALL, "tokens");
        return false;
    }
    x = malloc(x_bytes);
    y = malloc(y_bytes);
    if (x == NULL || y == NULL) {
        no_memory(error, x_bytes + y_bytes);
        goto out;
    }
    for (s = 0; s < tokens; s++)
        data_fill_row(&random, DATA_ORDINARY, s, x + s * shape->cols, shape->cols);
    memset(y, 0, y_bytes);
    call.x.host = x;
    call.x.bytes = x_bytes;
    call.outputs[0].y.host = y;
    call.outputs[0].y.bytes = y_bytes;
    call.outputs[0].row_stride = shape->rows * 4;
    /* Warm-up: every copy once where that is quick, two calls at least. */
    began = calibrate_seconds();
    for (k = 0; k < weights->count + 1 || k < 2; k++) {
        double before = calibrate_seconds();
        call.outputs[0].weight = weights->copies[turn++ % weights->count];
        if (tenon_qmatmul(queue, &call, error) != TENON_OK) goto out;
        estimate = calibrate_seconds() - before;
        if (k >= 1 && calibrate_seconds() - began > seconds) break;
    }
    out->calls_per_sample = estimate < SHORTEST_SAMPLE
                                ? (uint32_t)(SHORTEST_SAMPLE / (estimate + 20e-9)) + 1
                                : 1;
    smallest = estimate > seconds ? 3 : 7;
    faults = major_faults();
    began = calibrate_seconds();
    do {
        double before = calibrate_seconds();
        for (k = 0; k < out->calls_per_sample; k++) {
            call.outputs[0].weight = weights->copies[turn++ % weights->count];
            if (tenon_qmatmul(queue, &call, error) != TENON_OK) goto out;
        }
        samples[out->samples++] = (calibrate_seconds() - before) * 1e9 /
                                  (double)out->calls_per_sample;
        spent = calibrate_seconds() - began;
    } while (out->samples < smallest || (spent < seconds && out->samples < MAX_SAMPLES));
    out->major_faults = major_faults() - faults;
    qsort(samples, out->samples, sizeof samples[0], ascending);
    out->ns_min = samples[0];
    out->ns_max = samples[out->samples - 1];
    out->ns_median = (samples[(out->samples - 1) / 2] + samples[out->samples / 2]) / 2;
    judge(out, limits);
    good = true;
out:
    free(x);
    free(y);
    return good;
}
