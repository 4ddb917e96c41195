/* Conformance over the tensors of a real model: some rows of each (all of them when thorough), with
 * random activations. */
#include "qmatmul.h"

#include <stdio.h>
#include <string.h>

#define SLICE_WORK 2000000u /* multiply-adds that a slice may cost */

static void run_model(const conformance_case *test, const conformance_target *target,
                      conformance_result *result)
{
    const conformance_tensor *tensor = test->tensor;
    uint64_t row_bytes = tenon_row_bytes(tensor->format, tensor->cols), at, step, slice;
    problem_sizes sizes = {.tokens = {1, 3}, .token_count = 2, .limit = UINT64_MAX};
    if (row_bytes == 0 || tensor->bytes / row_bytes < tensor->rows) {
        conformance_fail(result, "tensor of %llu rows of %llu in %llu bytes",
                         (unsigned long long)tensor->rows, (unsigned long long)tensor->cols,
                         (unsigned long long)tensor->bytes);
        return;
    }
    slice = SLICE_WORK / (tensor->cols * 3);
    if (slice < 16) slice = 16;
    if (slice > tensor->rows) slice = tensor->rows;
    /* The first, a middle and the last slice; thorough: one after the other. */
    step = test->thorough || tensor->rows <= 3 * slice ? slice : (tensor->rows - slice + 1) / 2;
    if (step == 0) step = 1;
    for (at = 0; at < tensor->rows; at += step) {
        uint64_t rows = tensor->rows - at < slice ? tensor->rows - at : slice;
        if (!test->thorough && rows < slice && at > 0) at = tensor->rows - slice, rows = slice;
        sizes.row_count = 1;
        sizes.rows[0] = rows;
        if (!qmatmul_requests(test, target, &sizes, (const uint8_t *)tensor->data + at * row_bytes,
                              result))
            return;
    }
    qmatmul_conclude(result);
}

bool conformance_add_model(conformance_suite *suite, const conformance_tensor *tensors,
                           uint64_t count)
{
    uint64_t i;
    uint32_t arith;
    for (i = 0; i < count; i++) {
        tenon_format_info info;
        if (!tenon_format_find(tensors[i].format, &info)) continue;
        for (arith = TENON_CLASS_F32; arith <= TENON_CLASS_A8; arith++) {
            conformance_case *added;
            char name[176];
            if (arith == TENON_CLASS_A8 && (info.traits & TENON_TRAIT_FLOATS) != 0) continue;
            snprintf(name, sizeof name, "model/qmatmul/%.80s/%s/%s", tensors[i].name, info.text,
                     arith == TENON_CLASS_A8 ? "a8" : "f32");
            added = conformance_add(suite, CONFORMANCE_MODEL, run_model, name);
            if (added == NULL) return false;
            added->format = tensors[i].format;
            added->arith = arith;
            added->kind = 0;
            added->cols = tensors[i].cols;
            added->tensor = &tensors[i];
        }
    }
    return true;
}
