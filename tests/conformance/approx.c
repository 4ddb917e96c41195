/* Conformance of qmatmul_v1 in class APPROX: products in a session that allows it, of weights whose
 * exact class the provider declines. No bit is compared: the gates of SPEC.md 2 are. What lies around
 * an answer is nobody's to write, here too. */
#include "approx.h"

#include "problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/provider.h>

#define POISON 0xdeadbeefu
#define GUARD_WORDS 64u
#define LEAST_COSINE 0.995
/* A cosine of 0.995 is an error of a tenth of the norm. */
#define ERROR_ALLOWED 0.1
/* Rows of fewer values are judged together: a cosine of one value is its sign. */
#define LEAST_VALUES 16u

typedef struct sums {
    double product, got, want;
} sums;

static void add_values(sums *into, const float *got, const float *want, uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++) {
        into->product += (double)got[i] * (double)want[i];
        into->got += (double)got[i] * (double)got[i];
        into->want += (double)want[i] * (double)want[i];
    }
}

/* Of two vectors of zeros it is 1, of one 0. */
static double cosine_of(const sums *of)
{
    if (of->got == 0 && of->want == 0) return 1;
    if (of->got == 0 || of->want == 0) return 0;
    return of->product / (sqrt(of->got) * sqrt(of->want));
}

static uint64_t index_of_best(const float *values, uint64_t count)
{
    uint64_t best = 0, i;
    for (i = 1; i < count; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

/* Both of the two best may be wrong by what is allowed; nearer ones may change places. */
static bool same_best(const float *got, const float *want, uint64_t count, double rms)
{
    uint64_t best = index_of_best(want, count), i;
    double second = -INFINITY;
    for (i = 0; i < count; i++)
        if (i != best && (double)want[i] > second) second = (double)want[i];
    if (count < 2 || (double)want[best] - second <= 2 * ERROR_ALLOWED * rms) return true;
    return index_of_best(got, count) == best;
}

static bool finite_where(const float *got, const float *want, uint64_t count, uint64_t token,
                         const char *where, conformance_result *result)
{
    uint64_t i;
    for (i = 0; i < count; i++)
        if (isfinite(want[i]) && !isfinite(got[i]))
            return conformance_fail(result,
                                    "token %" PRIu64 ", row %" PRIu64
                                    ": %g is not finite, the reference has %g (%s)",
                                    token, i, (double)got[i], (double)want[i], where);
    return true;
}

bool approx_within(const float *got, uint64_t got_stride, const float *want, uint64_t rows,
                   uint64_t tokens, const char *where, conformance_result *result)
{
    sums all = {0, 0, 0};
    uint64_t s;
    for (s = 0; s < tokens; s++) {
        const float *have = got + s * got_stride, *need = want + s * rows;
        sums row = {0, 0, 0};
        if (!finite_where(have, need, rows, s, where, result)) return false;
        add_values(&row, have, need, rows);
        add_values(&all, have, need, rows);
        if (rows >= LEAST_VALUES && cosine_of(&row) < LEAST_COSINE)
            return conformance_fail(result, "token %" PRIu64 ": cosine %.6f, under %.3f (%s)", s,
                                    cosine_of(&row), LEAST_COSINE, where);
        if (!same_best(have, need, rows, sqrt(row.want / (double)rows)))
            return conformance_fail(
                result, "token %" PRIu64 ": argmax %" PRIu64 ", the reference has %" PRIu64 " (%s)",
                s, index_of_best(have, rows), index_of_best(need, rows), where);
    }
    if (rows * tokens >= LEAST_VALUES && cosine_of(&all) < LEAST_COSINE)
        return conformance_fail(result, "cosine %.6f, under %.3f (%s)", cosine_of(&all),
                                LEAST_COSINE, where);
    return true;
}

/* The weight of a problem's first rows. NULL: declined or exact, both counted, or a failure. */
static tenon_weight *make_weight(const problem *of, engine_side *engine, uint64_t rows,
                                 conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_information information = {TENON_HEAD(tenon_weight_information), .arith = 0};
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = of->weights,
                              .scales = of->scales_bytes != 0 ? of->scales : NULL,
                              .lifetime = TENON_LIFETIME_STABLE};
    tenon_weight_desc desc = of->desc;
    tenon_weight *weight = NULL;
    uint32_t reason;
    int32_t status;
    desc.rows = rows;
    status = tenon_weight_bytes(&desc, &data.weights_bytes, &data.scales_bytes, &reason);
    if (status != TENON_OK) {
        conformance_fail(result, "no such weight: %s", tenon_reason_text(reason));
        return NULL;
    }
    status = tenon_weight_create(engine->tested, &desc, &data, &weight, &error);
    if (status != TENON_OK) {
        if (!engine_side_declined(status, &error))
            conformance_fail(result, "weight of %" PRIu64 " rows: status %d, reason %u: %s", rows,
                             status, error.reason, error.text);
        result->declined++;
        if (result->detail[0] == '\0')
            snprintf(result->detail, sizeof result->detail, "declined: %s", error.text);
        return NULL;
    }
    status = tenon_weight_info(weight, &information, &error);
    if (status != TENON_OK) {
        conformance_fail(result, "tenon_weight_info: status %d, %s", status, error.text);
    } else if (information.arith == TENON_CLASS_APPROX) {
        return weight;
    } else {
        result->declined++;
        if (result->detail[0] == '\0')
            snprintf(result->detail, sizeof result->detail, "taken in its exact class");
    }
    tenon_weight_destroy(weight);
    return NULL;
}

/* Words that nobody may write, and those that somebody must. */
static bool check_written(const uint32_t *y, uint64_t rows, uint64_t stride, uint64_t tokens,
                          const char *where, conformance_result *result)
{
    const uint64_t inside = stride * (tokens - 1) + rows;
    uint64_t i;
    for (i = 0; i < inside + 2 * GUARD_WORDS; i++) {
        uint64_t at = i - GUARD_WORDS;
        bool wanted = i >= GUARD_WORDS && at < inside && at % stride < rows;
        if (wanted == (y[i] != POISON)) continue;
        if (wanted)
            return conformance_fail(result, "word %" PRIu64 " of y is not written (%s)", at, where);
        return conformance_fail(result, "wrote outside of y, %lld words from its start (%s)",
                                (long long)at, where);
    }
    return true;
}

static bool check_product(const problem *of, engine_side *engine, tenon_weight *weight,
                          uint64_t rows, uint64_t tokens, const problem_room *room,
                          conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = tokens};
    const uint64_t stride = rows + tokens % 3, words = stride * (tokens - 1) + rows;
    uint32_t *y = (uint32_t *)(void *)room->y[0].data;
    const float *got = (const float *)(void *)(y + GUARD_WORDS);
    char where[120];
    uint64_t i, s;
    int32_t status;
    bool good = true;
    snprintf(where, sizeof where, "rows %" PRIu64 ", cols %" PRIu64 ", tokens %" PRIu64, rows,
             of->desc.cols, tokens);
    for (i = 0; i < words + 2 * GUARD_WORDS; i++) y[i] = POISON;
    call.x.host = of->x[1].data;
    call.x.bytes = tokens * of->x_stride[1];
    call.x_row_stride = of->x_stride[1];
    call.output_count = 1;
    call.outputs[0].weight = weight;
    call.outputs[0].row_stride = stride * 4;
    call.outputs[0].y.host = y + GUARD_WORDS;
    call.outputs[0].y.bytes = words * 4;
    status = tenon_qmatmul(tenon_session_queue(engine->tested), &call, &error);
    if (engine_side_declined(status, &error)) {
        result->declined++;
        for (i = 0; i < words + 2 * GUARD_WORDS; i++)
            if (y[i] != POISON)
                return conformance_fail(result, "declined, but wrote to y (%s)", where);
        return true;
    }
    if (status != TENON_OK)
        return conformance_fail(result, "status %d, reason %u: %s (%s)", status, error.reason,
                                error.text, where);
    result->requests++;
    if (!check_written(y, rows, stride, tokens, where, result)) return false;
    for (s = 0; good && s < tokens; s++) {
        const float *want = of->expected + s * of->desc.rows;
        /* special weights overflow in an order that is not promised: only written is asked */
        if (of->kind == DATA_SPECIAL) break;
        good = of->kind == DATA_ORDINARY
                   ? approx_within(got + s * stride, stride, want, rows, 1, where, result)
                   : finite_where(got + s * stride, want, rows, s, where, result);
    }
    return good;
}

static bool check_problem(const conformance_case *test, engine_side *engine,
                          conformance_result *result)
{
    static const problem_sizes sizes = {.rows = {1, 16, 33, 64, 257},
                                        .row_count = 5,
                                        .tokens = {1, 3, 9},
                                        .token_count = 3,
                                        .limit = UINT64_MAX};
    problem of;
    problem_room room = {0};
    uint32_t i, k;
    bool good = problem_make(&of, test, &sizes, NULL, result) &&
                problem_expect(&of, engine, engine->target, result) &&
                problem_room_make(&room, &of, result);
    for (i = 0; good && i < sizes.row_count; i++) {
        tenon_weight *weight = make_weight(&of, engine, sizes.rows[i], result);
        good = result->outcome != CONFORMANCE_FAILED;
        for (k = 0; good && weight != NULL && k < sizes.token_count; k++)
            good = check_product(&of, engine, weight, sizes.rows[i], sizes.tokens[k], &room,
                                 result);
        tenon_weight_destroy(weight);
    }
    problem_room_free(&room);
    problem_free(&of);
    return good;
}

/* Does the device claim the class? False: UNSUPPORTED, or a failure. */
static bool claimed(const engine_side *engine, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
    int32_t status;
    if (strcmp(engine->target->id, "reference") != 0) {
        status = tenon_host_device(engine->host, engine->target->id, engine->target->device,
                                   &device, &error);
        if (status != TENON_OK)
            return conformance_fail(result, "device: status %d: %s", status, error.text);
        if ((device.arith & TENON_CLASS_BIT(TENON_CLASS_APPROX)) != 0) return true;
    }
    conformance_set(result, CONFORMANCE_UNSUPPORTED, "class APPROX is not claimed");
    return false;
}

static void run_approx(const conformance_case *test, const conformance_target *target,
                       conformance_result *result)
{
    static const struct {
        data_kind kind;
        uint64_t cols;
    } problems[] = {{DATA_ORDINARY, 0},
                    {DATA_ORDINARY, 1536},
                    {DATA_LARGE_SUMS, 512},
                    {DATA_TINY, 0},
                    {DATA_SPECIAL, 0}};
    engine_side engine;
    size_t i;
    bool good;
    if (!engine_side_open_as(&engine, target, 2, test->arith, TENON_SESSION_ALLOW_APPROX, result))
        return;
    good = claimed(&engine, result);
    for (i = 0; good && i < sizeof problems / sizeof problems[0]; i++) {
        conformance_case part = *test;
        part.kind = (uint32_t)problems[i].kind;
        part.seed = test->seed + i;
        if (problems[i].cols != 0) part.cols = problems[i].cols;
        good = check_problem(&part, &engine, result);
        if (result->requests == 0) break; /* not offered: other values change nothing */
    }
    engine_side_close(&engine, result);
    if (result->outcome != 0) return;
    if (result->requests == 0) {
        char why[sizeof result->detail];
        memcpy(why, result->detail, sizeof why);
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "%.500s",
                        why[0] != '\0' ? why : "every request was declined");
        return;
    }
    result->outcome = CONFORMANCE_PASSED;
    result->detail[0] = '\0';
}

bool conformance_add_approx(conformance_suite *suite)
{
    tenon_format_info info;
    uint32_t i, format, arith;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        if (!tenon_format_find(format, &info)) return false;
        for (arith = TENON_CLASS_F32; arith <= TENON_CLASS_A8; arith++) {
            const uint64_t block = info.block_inputs != 0 ? info.block_inputs : 1;
            conformance_case *added;
            char name[160];
            if (arith == TENON_CLASS_A8 && (info.traits & TENON_TRAIT_FLOATS) != 0) continue;
            snprintf(name, sizeof name, "approx/qmatmul/%s/%s", info.text,
                     arith == TENON_CLASS_A8 ? "a8" : "f32");
            added = conformance_add(suite, CONFORMANCE_APPROX, run_approx, name);
            if (added == NULL) return false;
            added->format = format;
            added->arith = arith;
            added->cols = block > 64 ? 2 * block : 160 / block * block;
            if (format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP)
                added->layout = TENON_LAYOUT_PAIR;
            if (format == TENON_FORMAT_INT4_GROUP) added->group_size = 64;
        }
    }
    return true;
}
