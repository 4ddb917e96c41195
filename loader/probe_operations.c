/* The self-test's second half: one small request of each whole operation, whose every bit the
 * reference fixes (SPEC.md 2.4), and a round trip through each kind of memory. */
#include <loader/platform.h>
#include <loader/probe_target.h>
#include <stdlib.h>
#include <string.h>

/* Odd, so that tails are met. */
enum {
    TOKENS = 3,
    WIDTH = 40,
    ROWS = 5, /* of the weight that embed reads */
    HEADS = 4,
    KV_HEADS = 2,
    HEAD = WIDTH / HEADS,
    POSITIONS = 6,
    GUARD = 8,
    FLOATS = POSITIONS * WIDTH
};

typedef struct material {
    float a[FLOATS], b[FLOATS], before[FLOATS]; /* inputs */
    float table[POSITIONS * HEAD];
    uint32_t ids[TOKENS];
    float weights[ROWS * WIDTH];
    uint32_t y[FLOATS + GUARD], wanted[FLOATS + GUARD];
} material;

static void fill(float *values, uint32_t count, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    uint32_t i;
    for (i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        values[i] = (float)((int64_t)(state >> 40) - (1 << 23)) * 0x1p-22f; /* -2 to 2 */
    }
}

static tenon_view view(const void *host, uint64_t floats)
{
    return (tenon_view){(void *)(uintptr_t)host, NULL, 0, 4 * floats};
}

/* ---- calls with structs in the stated sizes ------------------------------------------------- */

/* What the requests share: the operation's function is reached with boxes of both structs. spare is
 * put into the last reserved field of the request (R7). */
typedef struct caller {
    probe_target *target;
    material *with;
    uint64_t spare;
    tenon_error error;
    bool spilled; /* something was written behind a struct (R5) */
} caller;

static bool kept(const probe_box *box, uint32_t known)
{
    const uint8_t *bytes = (const uint8_t *)box;
    uint32_t i;
    for (i = known; i < sizeof *box; i++)
        if (bytes[i] != 0) return false;
    return true;
}

static void give(probe_box *request, const void *from, uint32_t bytes, uint32_t known,
                 probe_box *error, uint32_t error_known)
{
    const tenon_error empty = {TENON_HEAD(tenon_error), .status = TENON_OK};
    probe_present(request, from, bytes, known);
    probe_present(error, &empty, sizeof empty, error_known);
}

static void take(caller *self, const probe_box *request, uint32_t known, const probe_box *error,
                 uint32_t error_known)
{
    if (!kept(request, known) || !kept(error, error_known)) self->spilled = true;
    probe_take(error, error_known, &self->error, sizeof self->error);
    self->error.text[sizeof self->error.text - 1] = '\0';
}

#define CALL(member, size, function, type, request) \
    do { \
        const uint32_t known = self->target->module->member.size; \
        const uint32_t error_known = self->target->module->member.error_size; \
        probe_box asked, told; \
        give(&asked, &(request), sizeof(request), known, &told, error_known); \
        status = self->target->module->member.function(self->target->device, self->target->queue, \
                                                       (const type *)(const void *)&asked, \
                                                       &told.as.error); \
        take(self, &asked, known, &told, error_known); \
    } while (0)

static int32_t call_rmsnorm(caller *self, uint32_t *y)
{
    const material *with = self->with;
    const tenon_rmsnorm_call request = {TENON_HEAD(tenon_rmsnorm_call),
                                        .x = view(with->a, TOKENS * WIDTH),
                                        .w = view(with->b, WIDTH),
                                        .y = view(y, TOKENS * WIDTH),
                                        .tokens = TOKENS,
                                        .groups = 1,
                                        .width = WIDTH,
                                        .x_row_stride = 4 * WIDTH,
                                        .y_row_stride = 4 * WIDTH,
                                        .eps = 1e-5f,
                                        .reserved1 = {0, self->spare}};
    int32_t status;
    CALL(rmsnorm, call_size, run, tenon_rmsnorm_call, request);
    return status;
}

static int32_t call_gated(caller *self, uint32_t *y)
{
    const material *with = self->with;
    const tenon_gated_call request = {TENON_HEAD(tenon_gated_call),
                                      .gate = view(with->a, TOKENS * WIDTH),
                                      .up = view(with->b, TOKENS * WIDTH),
                                      .y = view(y, TOKENS * WIDTH),
                                      .tokens = TOKENS,
                                      .width = WIDTH,
                                      .gate_row_stride = 4 * WIDTH,
                                      .up_row_stride = 4 * WIDTH,
                                      .y_row_stride = 4 * WIDTH,
                                      .activation = TENON_ACT_SILU,
                                      .reserved1 = {0, self->spare}};
    int32_t status;
    CALL(gated, call_size, run, tenon_gated_call, request);
    return status;
}

static int32_t call_add(caller *self, uint32_t *y)
{
    const material *with = self->with;
    const tenon_add_call request = {TENON_HEAD(tenon_add_call),
                                    .a = view(with->a, TOKENS * WIDTH),
                                    .b = view(with->b, TOKENS * WIDTH),
                                    .y = view(y, TOKENS * WIDTH),
                                    .tokens = TOKENS,
                                    .width = WIDTH,
                                    .a_row_stride = 4 * WIDTH,
                                    .b_row_stride = 4 * WIDTH,
                                    .y_row_stride = 4 * WIDTH,
                                    .reserved0 = {0, self->spare}};
    int32_t status;
    CALL(add, call_size, run, tenon_add_call, request);
    return status;
}

static int32_t call_argmax(caller *self, uint32_t *y)
{
    const material *with = self->with;
    const tenon_argmax_call request = {TENON_HEAD(tenon_argmax_call),
                                       .x = view(with->a, TOKENS * WIDTH),
                                       .y = view(y, TOKENS),
                                       .tokens = TOKENS,
                                       .width = WIDTH,
                                       .x_row_stride = 4 * WIDTH,
                                       .reserved0 = {0, self->spare}};
    int32_t status;
    CALL(argmax, call_size, run, tenon_argmax_call, request);
    return status;
}

/* A weight of F32; a provider that does not take it has embed for others, which is no fault. */
static int32_t call_embed(caller *self, uint32_t *y)
{
    const material *with = self->with;
    const tenon_weight_desc desc = {TENON_HEAD(tenon_weight_desc), .format = TENON_FORMAT_F32,
                                    .rows = ROWS, .cols = WIDTH, .arith = TENON_CLASS_F32};
    const tenon_weight_data data = {TENON_HEAD(tenon_weight_data),
                                    .weights = with->weights,
                                    .weights_bytes = sizeof with->weights,
                                    .identity = 90001,
                                    .generation = 1,
                                    .lifetime = TENON_LIFETIME_STABLE};
    tenon_embed_call request = {TENON_HEAD(tenon_embed_call), .ids = view(with->ids, TOKENS),
                                .y = view(y, TOKENS * WIDTH), .tokens = TOKENS,
                                .y_row_stride = 4 * WIDTH,    .scale = 0.3f,
                                .reserved1 = {0, self->spare}};
    tenon_prepared *prepared = NULL;
    int32_t status = probe_prepare(self->target, &desc, &data, &prepared, &self->error);
    if (status != TENON_OK || prepared == NULL) return status == TENON_OK ? TENON_INTERNAL : status;
    request.weight = prepared;
    CALL(embed, call_size, run, tenon_embed_call, request);
    self->target->module->qmatmul.release(self->target->device, prepared);
    return status;
}

/* A cache from its creation to its end. */
static int32_t call_attention(caller *self, uint32_t *y)
{
    const material *with = self->with;
    const tenon_attention_v1 *from = &self->target->module->attention;
    const tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                                   .kv_heads = KV_HEADS,
                                   .head_size = HEAD,
                                   .capacity = POSITIONS,
                                   .window = 4,
                                   .type = TENON_CACHE_F16,
                                   .pairing = TENON_ROPE_HALVES,
                                   .rotary = HEAD,
                                   .table = with->table,
                                   .table_bytes = sizeof with->table};
    const uint64_t kv = KV_HEADS * HEAD;
    tenon_append_call append = {TENON_HEAD(tenon_append_call),
                                .k = view(with->a, POSITIONS * kv),
                                .v = view(with->b, POSITIONS * kv),
                                .tokens = POSITIONS,
                                .k_row_stride = 4 * kv,
                                .v_row_stride = 4 * kv};
    tenon_attention_call request = {TENON_HEAD(tenon_attention_call),
                                    .q = view(with->a + WIDTH, TOKENS * WIDTH),
                                    .y = view(y, TOKENS * WIDTH),
                                    .tokens = TOKENS,
                                    .heads = HEADS,
                                    .q_row_stride = 4 * WIDTH,
                                    .y_row_stride = 4 * WIDTH,
                                    .scale = 0.3f,
                                    .reserved1 = {0, self->spare}};
    tenon_device_cache *cache = NULL;
    probe_box shape, error;
    uint64_t length = 0, bytes = 0;
    int32_t status;
    give(&shape, &desc, sizeof desc, from->desc_size, &error, from->error_size);
    status = from->create(self->target->device, (const tenon_cache_desc *)(const void *)&shape,
                          &cache, &error.as.error);
    take(self, &shape, from->desc_size, &error, from->error_size);
    if (status != TENON_OK || cache == NULL) return status == TENON_OK ? TENON_INTERNAL : status;
    append.cache = request.cache = cache;
    CALL(attention, append_size, append, tenon_append_call, append);
    if (status == TENON_OK)
        status = from->length(self->target->device, cache, &length, NULL) != TENON_OK ||
                         length != POSITIONS ||
                         from->bytes(self->target->device, cache, &bytes, NULL) != TENON_OK ||
                         bytes == 0
                     ? TENON_INTERNAL
                     : TENON_OK;
    if (status == TENON_OK) CALL(attention, call_size, run, tenon_attention_call, request);
    from->free(self->target->device, cache);
    from->free(self->target->device, NULL);
    return status;
}

static const struct operation {
    const char *name;
    unsigned symbol;
    uint32_t words; /* of the result */
    bool indices;   /* it holds integers */
    int32_t (*call)(caller *self, uint32_t *y);
} operations[] = {
    {"embed_v1.run", SYMBOL_embed_v1, TOKENS *WIDTH, false, call_embed},
    {"rmsnorm_v1.run", SYMBOL_rmsnorm_v1, TOKENS *WIDTH, false, call_rmsnorm},
    {"attention_v1.run", SYMBOL_attention_v1, TOKENS *WIDTH, false, call_attention},
    {"gated_v1.run", SYMBOL_gated_v1, TOKENS *WIDTH, false, call_gated},
    {"add_v1.run", SYMBOL_add_v1, TOKENS *WIDTH, false, call_add},
    {"argmax_v1.run", SYMBOL_argmax_v1, TOKENS, true, call_argmax},
};

/* ---- judging -------------------------------------------------------------------------------- */

static void self_test_fault(loader_fault *fault, const char *name, const char *have,
                            const char *need, const char *text)
{
    fault_note(fault, TENON_REASON_PROBE_SELF_TEST, name, have, need, text);
}

static void poison(uint32_t *y)
{
    memset(y, 0xa5, sizeof(uint32_t) * (FLOATS + GUARD));
}

static bool poisoned(const uint32_t *y, uint32_t from, uint32_t to)
{
    uint32_t i;
    for (i = from; i < to; i++)
        if (y[i] != 0xa5a5a5a5u) return false;
    return true;
}

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static void compare(const struct operation *of, const material *got, loader_fault *fault)
{
    char have[32], need[32], text[48];
    uint32_t i;
    for (i = 0; i < of->words; i++) {
        const uint32_t a = got->y[i], b = got->wanted[i];
        if (a == b || (!of->indices && is_nan(a) && is_nan(b))) continue;
        cut_format(have, sizeof have, "0x%08x", (unsigned)a);
        cut_format(need, sizeof need, "0x%08x", (unsigned)b);
        cut_format(text, sizeof text, "word %u of %u", (unsigned)i, (unsigned)of->words);
        self_test_fault(fault, of->name, have, need, text);
        return;
    }
    if (!poisoned(got->y, of->words, FLOATS + GUARD))
        self_test_fault(fault, of->name, "bytes behind y were written", NULL, NULL);
}

/* The request as it should be, then with a reserved field set. */
static void run_operation(const struct operation *of, probe_target *target, probe_target *reference,
                          material *with, uint64_t *tested, loader_fault *fault)
{
    caller self = {.target = target, .with = with};
    caller model = {.target = reference, .with = with};
    platform_state before, after;
    char have[40], need[40];
    int32_t status;
    poison(with->y);
    poison(with->wanted);
    if (of->call(&model, with->wanted) != TENON_OK) return; /* cannot be: the reference offers it */
    memcpy(with->before, with->a, sizeof with->a);
    if (!platform_state_read(&before)) return;
    status = of->call(&self, with->y);
    if (platform_state_read(&after) && after.fp_control != before.fp_control) {
        cut_format(have, sizeof have, "0x%llx", (unsigned long long)after.fp_control);
        cut_format(need, sizeof need, "0x%llx", (unsigned long long)before.fp_control);
        fault_note(fault, TENON_REASON_PROBE_FP_ENVIRONMENT, of->name, have, need, NULL);
    }
    if (status == TENON_DECLINED || status == TENON_NOMEM) return;
    if (status != TENON_OK) {
        cut_format(have, sizeof have, "status %d", (int)status);
        self_test_fault(fault, of->name, have, NULL, self.error.text);
        return;
    }
    if (memcmp(with->a, with->before, sizeof with->a) != 0)
        self_test_fault(fault, of->name, "an input was changed", "inputs unchanged", NULL);
    compare(of, with, fault);
    ++*tested;
    poison(with->y);
    self.spare = 1;
    status = of->call(&self, with->y);
    if (status == TENON_OK)
        self_test_fault(fault, of->name, "takes a reserved field that is not zero", "R7", NULL);
    else if (!poisoned(with->y, 0, FLOATS + GUARD))
        self_test_fault(fault, of->name, "refuses a request and writes y", NULL, NULL);
    if (self.spilled)
        self_test_fault(fault, of->name, "writes behind a struct of the stated size", "R5", NULL);
}

/* Bytes in, across and out of a device; nothing is left. */
static void run_memory(probe_target *self, uint64_t *tested, loader_fault *fault)
{
    enum { BYTES = 260 };
    const tenon_memory_v1 *from = &self->module->memory;
    const tenon_memory_info empty = {TENON_HEAD(tenon_memory_info), .objects = TENON_UNKNOWN};
    tenon_device_buffer *first = NULL, *second = NULL;
    tenon_memory_info start, end;
    probe_box box;
    uint8_t in[BYTES], out[BYTES];
    const char *what = "memory_v1.alloc";
    int32_t status;
    unsigned i;
    for (i = 0; i < BYTES; i++) in[i] = (uint8_t)(i * 37 + 11);
    memset(out, 0x5a, sizeof out);
    probe_present(&box, &empty, sizeof empty, from->info_size);
    status = from->info(self->device, (tenon_memory_info *)(void *)&box, NULL);
    if (status != TENON_OK || !kept(&box, from->info_size)) {
        self_test_fault(fault, "memory_v1.info",
                        status != TENON_OK ? "a failure" : "writes behind a struct", NULL, NULL);
        return;
    }
    probe_take(&box, from->info_size, &start, sizeof start);
    status = from->alloc(self->device, BYTES, &first, NULL);
    if (status == TENON_NOMEM) return;
    if (status == TENON_OK) status = from->alloc(self->device, BYTES, &second, NULL);
    if (status == TENON_OK && (first == NULL || second == NULL || first == second))
        status = TENON_INTERNAL;
    if (status == TENON_OK) {
        what = "memory_v1.write";
        status = from->write(self->device, self->queue, first, 0, in, BYTES, NULL);
    }
    if (status == TENON_OK)
        status = from->write(self->device, self->queue, second, 0, out, BYTES, NULL);
    if (status == TENON_OK) {
        what = "memory_v1.copy";
        status = from->copy(self->device, self->queue, second, 4, first, 128, BYTES - 128, NULL);
    }
    if (status == TENON_OK) {
        what = "memory_v1.fence";
        status = from->fence(self->device, self->queue, NULL);
    }
    if (status == TENON_OK) {
        what = "memory_v1.read";
        status = from->read(self->device, self->queue, second, 4, out, BYTES - 4, NULL);
    }
    if (second != first) from->free(self->device, second);
    from->free(self->device, first);
    from->free(self->device, NULL);
    if (status != TENON_OK) {
        char have[32];
        if (status == TENON_NOMEM) return;
        cut_format(have, sizeof have, "status %d", (int)status);
        self_test_fault(fault, what, have, NULL, NULL);
        return;
    }
    if (memcmp(out, in + 128, BYTES - 128) != 0 || out[BYTES - 128] != 0x5a ||
        out[BYTES - 5] != 0x5a)
        self_test_fault(fault, "memory_v1.read", "other bytes than were written and copied", NULL,
                        NULL);
    probe_present(&box, &empty, sizeof empty, from->info_size);
    if (from->info(self->device, (tenon_memory_info *)(void *)&box, NULL) == TENON_OK) {
        probe_take(&box, from->info_size, &end, sizeof end);
        if (end.objects != start.objects)
            fault_note_amounts(fault, TENON_REASON_PROBE_SELF_TEST, "memory_v1.free", end.objects,
                               start.objects, "objects");
    }
    ++*tested;
}

void probe_operations_test(probe_target *self, probe_target *reference, uint64_t *tested,
                           loader_fault *fault)
{
    material *with = calloc(1, sizeof *with);
    unsigned i;
    if (with == NULL) return;
    fill(with->a, FLOATS, 1);
    fill(with->b, FLOATS, 2);
    fill(with->table, POSITIONS * HEAD, 3);
    fill(with->weights, ROWS * WIDTH, 4);
    with->ids[0] = ROWS - 1;
    with->ids[1] = 2;
    with->ids[2] = 1;
    for (i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if ((self->module->offered >> operations[i].symbol & 1u) != 0 &&
            fault->reason == TENON_REASON_NONE)
            run_operation(&operations[i], self, reference, with, tested, fault);
    if ((self->module->offered >> SYMBOL_memory_v1 & 1u) != 0 && fault->reason == TENON_REASON_NONE)
        run_memory(self, tested, fault);
    free(with);
}
