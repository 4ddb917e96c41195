#include "operation.h"

#include "qmatmul.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What y holds before a call: no number that an operation gives. */
#define POISON 0xA5A5A5A5u

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static void poison(uint32_t *words, uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++) words[i] = POISON;
}

/* Hands the call an address that may have any alignment of 4. */
static int32_t make_call(const operation_request *request, tenon_session *session, bool tested,
                         uint8_t *y, uint64_t words, tenon_error *error)
{
    poison((uint32_t *)(void *)y, words);
    return request->call(request->context, session, tested, y, error);
}

static bool compare_words(const operation_request *request, const uint32_t *got,
                          const uint32_t *want, uint64_t words, conformance_result *result)
{
    uint64_t i;
    for (i = 0; i < words; i++) {
        if (got[i] == want[i]) continue;
        if (!request->indices && is_nan(got[i]) && is_nan(want[i])) continue;
        return conformance_fail(result, "%s: word %" PRIu64 " of y is %08" PRIx32 ", %s %08" PRIx32,
                                request->what, i, got[i],
                                want[i] == POISON ? "and lies between rows, untouched it is"
                                                  : "the reference has",
                                want[i]);
    }
    return true;
}

bool operation_compare(const operation_request *request, const conformance_case *test,
                       const engine_side *engine, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t before[OPERATION_INPUTS], words = request->y_bytes / 4, i;
    guarded got = {0}, want = {0};
    bool good = false, known = false; /* known: what it should be stands in want */
    int32_t status;

    for (i = 0; i < request->input_count; i++) before[i] = guarded_hash(request->inputs[i]);
    if (!guarded_make(&got, request->y_bytes, request->y_offset) ||
        !guarded_make(&want, request->y_bytes, request->y_offset)) {
        conformance_fail(result, "out of memory");
        goto out;
    }
    status = make_call(request, engine->tested, true, got.data, words, &error);
    for (i = 0; i < request->input_count; i++)
        if (guarded_hash(request->inputs[i]) != before[i]) {
            conformance_fail(result, "%s: input %" PRIu64 " was written", request->what, i);
            goto out;
        }
    if (engine_side_declined(status, &error)) {
        poison((uint32_t *)(void *)want.data, words);
        result->declined++;
        if (result->detail[0] == '\0')
            snprintf(result->detail, sizeof result->detail, "declined: %s", error.text);
        good = memcmp(got.data, want.data, got.bytes) == 0 ||
               conformance_fail(result, "%s: declined, but y was written", request->what);
        goto out;
    }
    if (status != TENON_OK) {
        conformance_fail(result, "%s: status %d, reason %u: %s", request->what, status,
                         error.reason, error.text);
        known = make_call(request, engine->reference, false, want.data, words, NULL) == TENON_OK;
        goto out;
    }
    status = make_call(request, engine->reference, false, want.data, words, &error);
    known = status == TENON_OK;
    if (!known) {
        conformance_fail(result, "%s: the reference answers %d: %s", request->what, status,
                         error.text);
        goto out;
    }
    result->requests++;
    good = compare_words(request, (const uint32_t *)(void *)got.data,
                         (const uint32_t *)(void *)want.data, words, result);
out:
    if (!good && known && test->save_dir != NULL)
        save_operation(&request->save, got.data, want.data, engine->threads, test, engine->target,
                       result);
    guarded_free(&got);
    guarded_free(&want);
    return good;
}

void operation_run(const conformance_case *test, const conformance_target *target,
                   operation_body body, conformance_result *result)
{
    static const uint32_t threads[] = {1, 2, 5};
    random_state random = {test->seed};
    engine_side engine;
    size_t i;
    bool good = true;

    for (i = 0; good && i < sizeof threads / sizeof threads[0]; i++) {
        if (i > 1 && !test->thorough) break;
        random.state = test->seed; /* the same requests each time */
        if (!engine_side_open(&engine, target, threads[i], TENON_CLASS_F32, result)) return;
        good = body(test, &engine, &random, result);
        engine_side_close(&engine, result);
        if (result->requests == 0) break; /* not offered: more threads change nothing */
    }
    if (good) qmatmul_conclude(result);
}

bool operation_floats(guarded *out, uint64_t count, uint32_t offset, random_state *random,
                      data_kind kind, conformance_result *result)
{
    float *values;
    uint64_t i;

    if (!guarded_make(out, count * sizeof(float), offset))
        return conformance_fail(result, "out of memory");
    values = (float *)(void *)out->data;
    for (i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)random_u64(random);
        if (kind == DATA_SPECIAL)
            memcpy(&values[i], &bits, sizeof bits);
        else if (kind == DATA_TINY)
            values[i] = random_normal(random) * 1e-39f;
        else
            values[i] = random_normal(random) * (kind == DATA_LARGE_SUMS ? 1e18f : 3.0f);
    }
    return true;
}

uint64_t operation_stride(uint64_t width, uint64_t pad)
{
    return width * sizeof(float) + pad;
}

uint64_t operation_rows_bytes(uint64_t rows, uint64_t width, uint64_t pad)
{
    return (rows - 1) * operation_stride(width, pad) + width * sizeof(float);
}
