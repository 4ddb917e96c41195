/* The helper's exact self-test: small products whose every bit the reference fixes (SPEC.md 2). */
#include <loader/probe_target.h>
#include <loader/platform.h>
#include <stdlib.h>
#include <string.h>

/* The reference, linked into the helper; reached through its descriptors like any provider. */
extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
extern const tenon_embed_v1 tenon_reference_embed_v1;
extern const tenon_rmsnorm_v1 tenon_reference_rmsnorm_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;
extern const tenon_gated_v1 tenon_reference_gated_v1;
extern const tenon_add_v1 tenon_reference_add_v1;
extern const tenon_argmax_v1 tenon_reference_argmax_v1;

/* Few rows and tokens, odd, so that tails are met; a step of every kind of arithmetic. */
enum { ROWS = 17, COLS = 320, MAX_TOKENS = 2, GUARD = 8, MAX_WEIGHT = 4 * ROWS * 512 };

/* A format and where in its blocks the half floats stand that must be sane numbers. */
typedef struct format_case {
    uint32_t format, cols;
    uint32_t half_count, half_at[2];
    bool floats;
} format_case;

static const format_case format_cases[] = {
    {TENON_FORMAT_Q4_0, COLS, 1, {0, 0}, false},  {TENON_FORMAT_Q4_1, COLS, 2, {0, 2}, false},
    {TENON_FORMAT_Q8_0, COLS, 1, {0, 0}, false},  {TENON_FORMAT_Q4_K, 512, 2, {0, 2}, false},
    {TENON_FORMAT_Q6_K, 512, 1, {208, 0}, false}, {TENON_FORMAT_INT8_ROW, COLS, 0, {0, 0}, false},
    {TENON_FORMAT_F32, COLS, 0, {0, 0}, true},
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A number between -2 and 2, never subnormal but for an exact zero now and then. */
static float next_float(uint64_t *state)
{
    uint64_t bits = next_random(state);
    if (bits % 61 == 0) return 0.0f;
    return (float)((int64_t)(bits >> 40) - (1 << 23)) * 0x1p-22f;
}

typedef struct test_data {
    uint8_t weights[MAX_WEIGHT];
    float scales[ROWS];
    float x[MAX_TOKENS * 512 + GUARD], x_before[MAX_TOKENS * 512 + GUARD];
    float y[MAX_TOKENS * ROWS + GUARD], wanted[MAX_TOKENS * ROWS + GUARD];
    tenon_weight_desc desc;
    tenon_weight_data data;
} test_data;

/* Makes a weight of the case. false: its bytes do not fit, which the table above rules out. */
static bool make_weight(const format_case *from, uint32_t arith, uint64_t seed, test_data *to)
{
    uint64_t codes = 0, scales = 0, i, state = seed * 0x9e3779b97f4a7c15u + 1;
    tenon_format_info info;
    uint32_t reason, h;
    to->desc = (tenon_weight_desc){TENON_HEAD(tenon_weight_desc), .format = from->format};
    to->desc.rows = ROWS;
    to->desc.cols = from->cols;
    to->desc.arith = arith;
    if (tenon_weight_bytes(&to->desc, &codes, &scales, &reason) != TENON_OK ||
        codes > sizeof to->weights || scales > sizeof to->scales ||
        !tenon_format_find(from->format, &info))
        return false;
    for (i = 0; i < codes; i++) to->weights[i] = (uint8_t)(next_random(&state) >> 32);
    for (i = 0; i < ROWS; i++) to->scales[i] = next_float(&state);
    for (i = 0; from->floats && i < codes / 4; i++) {
        float value = next_float(&state);
        memcpy(to->weights + 4 * i, &value, sizeof value);
    }
    for (i = 0; from->half_count > 0 && i < codes; i += info.block_bytes)
        for (h = 0; h < from->half_count; h++) /* sign, exponent 2^-5 .. 2^-2, any mantissa */
            to->weights[i + from->half_at[h] +
                        1] = (uint8_t)((to->weights[i + from->half_at[h] + 1] & 0x8f) | 0x20);
    for (i = 0; i < sizeof to->x / sizeof to->x[0]; i++) to->x[i] = next_float(&state);
    to->data = (tenon_weight_data){TENON_HEAD(tenon_weight_data), .weights = to->weights};
    to->data.weights_bytes = codes;
    if (scales != 0) {
        to->data.scales = to->scales;
        to->data.scales_bytes = scales;
    }
    to->data.identity = seed;
    to->data.generation = 1;
    to->data.lifetime = TENON_LIFETIME_STABLE;
    return true;
}

/* Prepares, runs at S tokens into y (poisoned, with guard words), releases. The answers DECLINED
 * and NOMEM of prepare, and DECLINED of run, are handed back; everything else that is not OK is a
 * fault. */
static int32_t product(probe_target *target, test_data *with, uint32_t tokens, float *y,
                       loader_fault *fault)
{
    tenon_prepared *prepared = NULL;
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = tokens};
    tenon_error error;
    char have[96];
    int32_t status = probe_prepare(target, &with->desc, &with->data, &prepared, &error);
    if (status == TENON_DECLINED || status == TENON_NOMEM) return status;
    if (status != TENON_OK || prepared == NULL) {
        cut_format(have, sizeof have, status == TENON_OK ? "OK and NULL" : "status %d",
                   (int)status);
        fault_note(fault, TENON_REASON_PROBE_SELF_TEST, "qmatmul_v1.prepare", have, NULL,
                   error.text);
        return TENON_INTERNAL;
    }
    memset(y, 0xa5, sizeof with->y);
    memcpy(with->x_before, with->x, sizeof with->x);
    call.x = (tenon_view){with->x, NULL, 0, 4ull * tokens * with->desc.cols};
    call.x_row_stride = 4 * with->desc.cols;
    call.output_count = 1;
    call.outputs[0].weight = prepared;
    call.outputs[0].y = (tenon_view){y, NULL, 0, 4ull * tokens * ROWS};
    call.outputs[0].row_stride = 4 * ROWS;
    status = probe_run_call(target, &call, &error);
    target->module->qmatmul.release(target->device, prepared);
    if (status != TENON_OK && status != TENON_DECLINED) {
        cut_format(have, sizeof have, "status %d", (int)status);
        fault_note(fault, TENON_REASON_PROBE_SELF_TEST, "qmatmul_v1.run", have, NULL, error.text);
    }
    if (memcmp(with->x, with->x_before, sizeof with->x) != 0)
        fault_note(fault, TENON_REASON_PROBE_SELF_TEST, "qmatmul_v1.run", "x was changed",
                   "x unchanged", NULL);
    return status;
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); /* any NaN equals any NaN */
}

static void compare(const test_data *got, uint32_t tokens, const char *name, const char *class_,
                    loader_fault *fault)
{
    uint32_t i, count = tokens * ROWS, a, b;
    char have[96], need[96], text[96];
    for (i = 0; i < count; i++) {
        if (same_bits(got->y[i], got->wanted[i])) continue;
        memcpy(&a, &got->y[i], sizeof a);
        memcpy(&b, &got->wanted[i], sizeof b);
        cut_format(have, sizeof have, "0x%08x", (unsigned)a);
        cut_format(need, sizeof need, "0x%08x", (unsigned)b);
        cut_format(text, sizeof text, "%s class %s, token %u of %u, row %u", name, class_,
                   (unsigned)(i / ROWS), (unsigned)tokens, (unsigned)(i % ROWS));
        fault_note(fault, TENON_REASON_PROBE_SELF_TEST, "qmatmul_v1.run", have, need, text);
        return;
    }
    for (i = 0; i < GUARD; i++)
        if (memcmp(&got->y[count + i], "\xa5\xa5\xa5\xa5", 4) != 0)
            fault_note(fault, TENON_REASON_PROBE_SELF_TEST, "qmatmul_v1.run",
                       "bytes behind y were written", NULL, name);
}

static void check_mode(uint64_t before, loader_fault *fault)
{
    platform_state now;
    char have[32], need[32];
    if (!platform_state_read(&now) || now.fp_control == before) return;
    cut_format(have, sizeof have, "0x%llx", (unsigned long long)now.fp_control);
    cut_format(need, sizeof need, "0x%llx", (unsigned long long)before);
    fault_note(fault, TENON_REASON_PROBE_FP_ENVIRONMENT, "qmatmul_v1.run", have, need, NULL);
}

static void run_case(probe_target *self, probe_target *reference, const format_case *from,
                     uint32_t arith, uint64_t seed, test_data *with, uint64_t *tested,
                     loader_fault *fault)
{
    const char *class_ = arith == TENON_CLASS_A8 ? "A8" : "F32";
    loader_fault own = {0};
    tenon_format_info info;
    tenon_error error;
    platform_state before;
    uint32_t tokens;
    int32_t status;
    if (!tenon_format_find(from->format, &info) || !make_weight(from, arith, seed, with)) return;
    if (probe_supports(self, &with->desc, &error) == TENON_DECLINED) return;
    if (!platform_state_read(&before)) return;
    for (tokens = 1; tokens <= MAX_TOKENS && fault->reason == TENON_REASON_NONE; tokens++) {
        status = product(reference, with, tokens, with->wanted, &own);
        if (status != TENON_OK) return; /* not a case after all: the reference does not do it */
        status = product(self, with, tokens, with->y, fault);
        check_mode(before.fp_control, fault);
        if (status != TENON_OK || fault->reason != TENON_REASON_NONE) return;
        compare(with, tokens, info.text, class_, fault);
        ++*tested;
    }
}

void probe_self_test(probe_target *self, uint32_t arith, const tenon_services *services,
                     uint64_t *tested, loader_fault *fault)
{
    const uint32_t classes[] = {TENON_CLASS_F32, TENON_CLASS_A8};
    const loader_module reference_module = {.provider = tenon_reference_provider_v1,
                                            .qmatmul = tenon_reference_qmatmul_v1,
                                            .embed = tenon_reference_embed_v1,
                                            .rmsnorm = tenon_reference_rmsnorm_v1,
                                            .attention = tenon_reference_attention_v1,
                                            .gated = tenon_reference_gated_v1,
                                            .add = tenon_reference_add_v1,
                                            .argmax = tenon_reference_argmax_v1};
    probe_target reference = {.module = &reference_module};
    test_data *with = malloc(sizeof *with);
    tenon_error error;
    unsigned c, f;
    int32_t status;
    if (with == NULL || probe_open(&reference, services, &error) != TENON_OK ||
        probe_device_open(&reference, 0, &error) != TENON_OK) {
        fault_note(fault, TENON_REASON_PROBE_HELPER, NULL, NULL, NULL,
                   "the reference could not be opened");
        goto out;
    }
    status = probe_device_open(self, 0, &error);
    if (status == TENON_OK && self->device == NULL)
        fault_note(fault, TENON_REASON_PROBE_SELF_TEST, "provider_v1.device_open", "OK and NULL",
                   "a device", NULL);
    if (status == TENON_OK && self->module->provider.queue_open != NULL && self->queue == NULL)
        fault_note(fault, TENON_REASON_PROBE_SELF_TEST, "provider_v1.queue_open", "OK and NULL",
                   "a queue", NULL);
    if (status != TENON_OK || fault->reason != TENON_REASON_NONE) goto out;
    for (c = 0; c < 2; c++)
        for (f = 0; f < sizeof format_cases / sizeof format_cases[0]; f++)
            if ((arith & TENON_CLASS_BIT(classes[c])) != 0 &&
                !(classes[c] == TENON_CLASS_A8 && format_cases[f].floats) &&
                fault->reason == TENON_REASON_NONE)
                run_case(self, &reference, &format_cases[f], classes[c], 1 + 100 * c + f, with,
                         tested, fault);
    if (fault->reason == TENON_REASON_NONE) probe_operations_test(self, &reference, tested, fault);
out:
    probe_close(&reference);
    free(with);
}
