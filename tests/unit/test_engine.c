/* The engine over a host that fails on demand: whatever is lost and whenever, the logits are those
 * of a run in which nothing happened. */
#include "runner.h"

#include "engine_host.h"

#include <tools/engine/engine.h>
#include <tools/engine/history.h>
#include <tools/engine/rope.h>
#include <tools/engine/sampler.h>

#define LAYERS 6
#define WIDTH 16
#define HEADS 4
#define KV_HEADS 2
#define HEAD 4
#define FFN 24
#define VOCABULARY 40

/* ---- a model out of nothing ------------------------------------------------------------------ */

static float numbers[1 << 14];
static const char *architecture;

static bool value(const void *context, const char *key, model_value *out)
{
    static const struct {
        const char *name;
        uint64_t number;
    } keys[] = {{"block_count", LAYERS},         {"context_length", 64},
                {"embedding_length", WIDTH},     {"feed_forward_length", FFN},
                {"attention.head_count", HEADS}, {"attention.head_count_kv", KV_HEADS},
                {"attention.sliding_window", 5}};
    size_t i, prefix = strlen(architecture) + 1;
    (void)context;
    memset(out, 0, sizeof *out);
    out->type_name = "number";
    if (strcmp(key, "general.architecture") == 0) {
        out->kind = MODEL_TEXT;
        out->text = architecture;
        out->length = strlen(architecture);
        return true;
    }
    if (strcmp(key + prefix, "attention.layer_norm_rms_epsilon") == 0) {
        out->kind = MODEL_REAL;
        out->real = 1e-5;
        return true;
    }
    out->kind = MODEL_INTEGER;
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key + prefix, keys[i].name) == 0) {
            out->integer = keys[i].number;
            return true;
        }
    return false;
}

static bool tensor(const void *context, const char *name, model_tensor *out)
{
    static const struct {
        const char *end;
        uint64_t cols, rows;
    } shapes[] = {{"token_embd.weight", WIDTH, VOCABULARY},
                  {"output_norm.weight", WIDTH, 1},
                  {"attn_q.weight", WIDTH, HEADS * HEAD},
                  {"attn_k.weight", WIDTH, KV_HEADS * HEAD},
                  {"attn_v.weight", WIDTH, KV_HEADS * HEAD},
                  {"attn_output.weight", HEADS * HEAD, WIDTH},
                  {"ffn_gate.weight", WIDTH, FFN},
                  {"ffn_up.weight", WIDTH, FFN},
                  {"ffn_down.weight", FFN, WIDTH},
                  {"attn_q_norm.weight", HEAD, 1},
                  {"attn_k_norm.weight", HEAD, 1},
                  {"attn_norm.weight", WIDTH, 1},
                  {"ffn_norm.weight", WIDTH, 1},
                  {"post_attention_norm.weight", WIDTH, 1},
                  {"post_ffw_norm.weight", WIDTH, 1}};
    const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') + 1 : name;
    size_t i, mix = 0;
    (void)context;
    for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(dot, shapes[i].end) == 0) break;
    if (i == sizeof shapes / sizeof shapes[0]) return false;
    for (; *name != '\0'; name++) mix = mix * 31 + (unsigned char)*name;
    memset(out, 0, sizeof *out);
    out->name = name;
    out->format = TENON_FORMAT_F32;
    out->type_name = "F32";
    out->dimensions = shapes[i].rows == 1 ? 1 : 2;
    out->shape[0] = shapes[i].cols;
    out->shape[1] = shapes[i].rows;
    out->shape[2] = out->shape[3] = 1;
    out->data = numbers + mix % 8192;
    out->bytes = shapes[i].cols * shapes[i].rows * sizeof(float);
    return true;
}

static const model_source source = {.value = value, .tensor = tensor, .lifetime = 1};

static model *open_model(const char *kind)
{
    engine_fault fault;
    uint64_t state = 7;
    size_t i;
    model *made;
    for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        numbers[i] = (float)(int32_t)(state >> 32) * 0x1p-32f;
    }
    memset(&machine, 0, sizeof machine);
    architecture = kind;
    made = model_open(&the_session, &source, NULL, NULL, &fault);
    ck_assert_msg(made != NULL, "%s", fault.text);
    ck_assert_uint_eq(machine.weights, 1 + 7 * LAYERS);
    return made;
}

static void close_model(model *self)
{
    model_close(self);
    ck_assert_uint_eq(machine.weights, 0);
    ck_assert_uint_eq(machine.caches, 0);
    ck_assert_uint_eq(machine.buffer_count, 0);
    ck_assert_uint_eq(machine.graphs, 0);
}

/* Feeds, and brings the logits of what follows to the host. NULL: none are wanted. */
static bool feed(engine *self, const uint32_t *ids, size_t count, float *logits,
                 engine_fault *fault)
{
    return engine_feed(self, ids, count, logits != NULL, fault) &&
           (logits == NULL || engine_logits(self, logits, fault));
}

static const engine_options usual = {
    .context = 16, .batch = 5, .cache_type = TENON_CACHE_F32, .shift = true, .keep = 1};

static engine *open_engine(const model *of)
{
    engine_fault fault;
    engine *made = engine_open(of, &usual, &fault);
    ck_assert_msg(made != NULL, "%s", fault.text);
    return made;
}

/* A life with everything in it: a prompt, some tokens, a conversation taken up again earlier on, a
 * full context, an eviction by hand. Returns false at the first failure. */
#define STEPS 30
static bool live(engine *self, float *logits, engine_fault *fault)
{
    uint32_t ids[STEPS], i;
    for (i = 0; i < STEPS; i++) ids[i] = (i * 7 + 3) % VOCABULARY;
    if (!feed(self, ids, 9, logits, fault) || !feed(self, ids + 9, 1, logits, fault) ||
        !engine_truncate(self, 7, fault) || !feed(self, ids + 10, 6, logits, fault))
        return false;
    for (i = 16; i < 26; i++) /* runs over 16 positions */
        if (!feed(self, ids + i, 1, logits + i * VOCABULARY, fault)) return false;
    return engine_evict(self, 3, 2, fault) &&
           engine_truncate(self, 9, fault) && /* behind an eviction: a trace of its own */
           feed(self, ids + 26, 4, logits + 26 * VOCABULARY, fault);
}

static void check_same(const float *a, const float *b)
{
    size_t i;
    for (i = 0; i < (size_t)STEPS * VOCABULARY; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            ck_abort_msg("logit %zu: %g, wanted %g", i, (double)a[i], (double)b[i]);
}

static float right[STEPS * VOCABULARY], got[STEPS * VOCABULARY];

static uint64_t live_well(const model *of)
{
    engine_fault fault;
    engine *self = open_engine(of);
    uint64_t calls;
    machine.calls = 0;
    ck_assert_msg(live(self, right, &fault), "%s", fault.text);
    calls = machine.calls;
    ck_assert_uint_eq(machine.most_tokens, usual.batch);
    ck_assert_uint_eq(engine_shifts(self), 1);
    ck_assert_uint_eq(engine_replays(self), 0);
    engine_close(self);
    ck_assert_uint_eq(machine.caches, 0);
    return calls;
}

/* Loses all caches at one call, in turn at every single one (TENON_LONG) or at some of all kinds. */
static void lose_everywhere(const char *kind, uint64_t times, bool capture)
{
    model *of = open_model(kind);
    uint64_t calls = live_well(of), n;
    machine.capture = capture;
    ck_assert_uint_gt(calls, 500);
    for (n = 1; n <= calls; n += getenv("TENON_LONG") != NULL ? 1 : 11) {
        engine_fault fault;
        engine *self = open_engine(of);
        memset(got, 0, sizeof got);
        machine.calls = 0;
        machine.fail_at = n;
        machine.status = TENON_LOST;
        machine.times = times;
        machine.again = 13;
        ck_assert_msg(live(self, got, &fault), "lost at call %llu: %s", (unsigned long long)n,
                      fault.text);
        machine.fail_at = 0;
        check_same(got, right);
        ck_assert_uint_eq(engine_replays(self), times);
        engine_close(self);
        ck_assert_uint_eq(machine.caches, 0);
    }
    close_model(of);
}

START_TEST(lost_once_llama)
{
    lose_everywhere("llama", 1, _i == 1);
}
END_TEST

START_TEST(lost_once_gemma3)
{
    lose_everywhere("gemma3", 1, _i == 1);
}
END_TEST

START_TEST(lost_while_replayed)
{
    lose_everywhere("llama", 3, _i == 1);
}
END_TEST

START_TEST(lost_for_ever)
{
    model *of = open_model("llama");
    engine *self = open_engine(of);
    engine_fault fault;
    machine.fail_at = 3;
    machine.times = UINT64_MAX;
    machine.again = 1;
    machine.status = TENON_LOST;
    ck_assert(!live(self, got, &fault));
    ck_assert_int_eq(fault.kind, FAULT_CALL);
    ck_assert_int_eq(fault.cause.status, TENON_LOST);
    engine_close(self);
    close_model(of);
}
END_TEST

/* A call that fails leaves the context as it was: the same tokens can be fed again. */
START_TEST(failed_step_leaves_no_trace)
{
    model *of = open_model("gemma3");
    uint32_t ids[12], i;
    float wanted[VOCABULARY], logits[VOCABULARY];
    uint64_t calls, n;
    engine_fault fault;
    engine *self = open_engine(of);
    size_t length, fresh = _i == 1 ? 1 : 4;
    machine.capture = _i == 1; /* one token: as one */
    for (i = 0; i < 12; i++) ids[i] = i * 3 % VOCABULARY;
    ck_assert(feed(self, ids, 8, NULL, &fault));
    machine.calls = 0;
    ck_assert(engine_feed(self, ids + 8, fresh, true, &fault));
    calls = machine.calls;
    ck_assert(engine_logits(self, wanted, &fault));
    for (n = 1; n <= calls; n++) {
        ck_assert(engine_truncate(self, 8, &fault));
        machine.calls = 0;
        machine.fail_at = n;
        machine.status = TENON_NOMEM;
        ck_assert(!engine_feed(self, ids + 8, fresh, true, &fault));
        ck_assert_int_eq(fault.kind, FAULT_CALL);
        ck_assert_ptr_nonnull(strstr(fault.text, "made to fail"));
        engine_tokens(self, &length);
        ck_assert_uint_eq(length, 8);
        machine.fail_at = 0;
        ck_assert_msg(feed(self, ids + 8, fresh, logits, &fault), "%s", fault.text);
        ck_assert_int_eq(memcmp(logits, wanted, sizeof wanted), 0);
    }
    engine_close(self);
    close_model(of);
}
END_TEST

START_TEST(caches_that_cannot_be_made)
{
    model *of = open_model("llama");
    uint64_t n;
    for (n = 1; n <= LAYERS; n++) {
        engine_fault fault;
        machine.cache_makes = 0;
        machine.cache_at = n;
        ck_assert_ptr_null(engine_open(of, &usual, &fault));
        ck_assert_int_eq(fault.cause.status, TENON_NOMEM);
        ck_assert_uint_eq(machine.caches, 0);
    }
    close_model(of);
}
END_TEST

START_TEST(wrong_use)
{
    model *of = open_model("llama");
    engine_fault fault;
    engine_options fixed = usual;
    engine *self;
    uint32_t ids[20] = {0}, bad = VOCABULARY;
    size_t length;
    fixed.shift = false;
    self = engine_open(of, &fixed, &fault);
    ck_assert_ptr_nonnull(self);
    ck_assert(!feed(self, &bad, 1, got, &fault));
    ck_assert_int_eq(fault.kind, FAULT_USE);
    ck_assert(feed(self, ids, 16, got, &fault));
    ck_assert(!feed(self, ids, 1, got, &fault));
    ck_assert_int_eq(fault.kind, FAULT_USE);
    ck_assert(feed(self, ids, 0, got, &fault));
    ck_assert(!engine_evict(self, 10, 7, &fault));
    ck_assert_int_eq(fault.kind, FAULT_USE);
    engine_tokens(self, &length);
    ck_assert_uint_eq(length, 16);
    engine_close(self);
    close_model(of);
}
END_TEST

START_TEST(logits_that_are_no_numbers)
{
    model *of = open_model("llama");
    engine *self = open_engine(of);
    engine_fault fault;
    uint32_t id = 1, best = 0;
    const float not_a_number = NAN;
    uint64_t at;
    for (at = 0; at < of->norm_bytes; at += sizeof not_a_number)
        ck_assert_int_eq(
            tenon_buffer_write(&the_queue, of->norms, at, &not_a_number, sizeof not_a_number, NULL),
            TENON_OK);
    ck_assert(engine_feed(self, &id, 1, true, &fault));
    ck_assert(!engine_logits(self, got, &fault));
    ck_assert_int_eq(fault.kind, FAULT_NOT_FINITE);
    ck_assert(!engine_largest(self, &best, &fault));
    ck_assert_int_eq(fault.kind, FAULT_NOT_FINITE);
    engine_close(self);
    close_model(of);
}
END_TEST

/* Logits are there behind a feed that asked for them, and only there. */
START_TEST(logits_when_asked_for)
{
    model *of = open_model("llama");
    engine *self = open_engine(of);
    engine_fault fault;
    uint32_t ids[3] = {1, 2, 3}, best = 0, wanted = 0, i;
    ck_assert(!engine_logits(self, got, &fault));
    ck_assert_int_eq(fault.kind, FAULT_USE);
    ck_assert(engine_feed(self, ids, 3, false, &fault));
    ck_assert(!engine_largest(self, &best, &fault));
    ck_assert_int_eq(fault.kind, FAULT_USE);
    ck_assert(engine_feed(self, ids, 3, true, &fault));
    ck_assert(engine_logits(self, got, &fault));
    for (i = 1; i < VOCABULARY; i++)
        if (got[i] > got[wanted]) wanted = i;
    ck_assert(engine_largest(self, &best, &fault));
    ck_assert_uint_eq(best, wanted);
    ck_assert(engine_truncate(self, 5, &fault));
    ck_assert(!engine_largest(self, &best, &fault));
    ck_assert_int_eq(fault.kind, FAULT_USE);
    engine_close(self);
    close_model(of);
}
END_TEST

/* What fails late shows when an answer is wanted: the history is replayed, the answer is the same. */
START_TEST(lost_when_asked)
{
    model *of = open_model("llama");
    engine *self = open_engine(of);
    engine_fault fault;
    uint32_t ids[12], best = 0, wanted = 0, i;
    for (i = 0; i < 12; i++) ids[i] = i * 5 % VOCABULARY;
    ck_assert(engine_feed(self, ids, 12, true, &fault));
    ck_assert(engine_logits(self, right, &fault));
    ck_assert(engine_largest(self, &wanted, &fault));
    machine.status = TENON_LOST;
    machine.calls = 0;
    machine.fail_at = 1;
    ck_assert_msg(engine_largest(self, &best, &fault), "%s", fault.text);
    ck_assert_uint_eq(best, wanted);
    ck_assert_uint_eq(engine_replays(self), 1);
    machine.calls = 0;
    ck_assert_msg(engine_logits(self, got, &fault), "%s", fault.text);
    ck_assert_uint_eq(engine_replays(self), 2);
    ck_assert_int_eq(memcmp(got, right, VOCABULARY * sizeof *got), 0);
    engine_close(self);
    close_model(of);
}
END_TEST

START_TEST(buffers_that_cannot_be_made)
{
    model *of;
    engine_fault fault;
    uint64_t n, makes;
    of = open_model("llama");
    machine.buffer_makes = 0;
    engine_close(open_engine(of));
    makes = machine.buffer_makes;
    ck_assert_uint_gt(makes, 10);
    for (n = 1; n <= makes; n++) {
        machine.buffer_makes = 0;
        machine.buffer_at = n;
        ck_assert_ptr_null(engine_open(of, &usual, &fault));
        ck_assert_int_eq(fault.cause.status, TENON_NOMEM);
        ck_assert_uint_eq(machine.buffer_count, 1); /* the model's */
    }
    machine.buffer_at = 0;
    close_model(of);
}
END_TEST

/* A step of one token is recorded once and launched; its argmax is there without asking. */
START_TEST(decode_as_one)
{
    model *of = open_model("llama");
    engine *self = open_engine(of);
    engine_fault fault;
    uint32_t id, wanted[12], i;
    uint64_t calls;
    for (i = 0, id = 3; i < 12; i++) {
        ck_assert(engine_feed(self, &id, 1, true, &fault));
        ck_assert(engine_logits(self, right + i * VOCABULARY, &fault));
        ck_assert(engine_largest(self, &id, &fault));
        wanted[i] = id;
    }
    ck_assert_uint_eq(machine.launches, 0);
    engine_close(self);
    machine.capture = true;
    self = open_engine(of);
    for (i = 0, id = 3; i < 12; i++) {
        ck_assert(engine_feed(self, &id, 1, true, &fault));
        ck_assert(engine_largest(self, &id, &fault));
        ck_assert_uint_eq(id, wanted[i]);
        ck_assert(engine_logits(self, got + i * VOCABULARY, &fault));
        if (i == 6) { /* tokens in between that come by other ways */
            uint32_t more[2] = {5, 6};
            ck_assert(engine_feed(self, more, 2, true, &fault));
            ck_assert(engine_truncate(self, 7, &fault));
        }
        ck_assert_uint_eq(machine.launches, i + 1);
    }
    check_same(got, right);
    ck_assert_uint_eq(machine.graphs, 1);
    /* lost when asked: replayed without it, then recorded anew */
    calls = machine.calls;
    machine.status = TENON_LOST;
    machine.fail_at = calls + 1;
    ck_assert(engine_largest(self, &id, &fault));
    ck_assert_uint_eq(id, wanted[11]);
    ck_assert_uint_eq(engine_replays(self), 1);
    ck_assert_uint_eq(machine.graphs, 0);
    machine.fail_at = 0;
    ck_assert(engine_feed(self, &id, 1, true, &fault));
    ck_assert_uint_eq(machine.launches, 13);
    engine_close(self);
    close_model(of);
}
END_TEST

typedef struct row_check {
    size_t next, stop_at;
    float *rows;
} row_check;

static bool take_row(void *context, size_t index, const float *logits)
{
    row_check *self = context;
    ck_assert_uint_eq(index, self->next);
    self->next++;
    memcpy(self->rows + index * VOCABULARY, logits, VOCABULARY * sizeof *logits);
    return self->next != self->stop_at;
}

/* Rows that are scored are those that feeding one by one gives, also when all is lost on the way. */
START_TEST(scored_rows)
{
    model *of = open_model("llama");
    engine *self = open_engine(of);
    engine_fault fault;
    row_check check = {0, 0, got};
    uint32_t ids[14], i;
    uint64_t calls, n;
    for (i = 0; i < 14; i++) {
        ids[i] = i * 5 % VOCABULARY;
        ck_assert(feed(self, ids + i, 1, right + i * VOCABULARY, &fault));
    }
    machine.calls = 0;
    for (n = 0, calls = 1; n <= calls; n++) {
        memcpy(got, right, sizeof got);
        memset(got + 4 * VOCABULARY, 0, 10 * VOCABULARY * sizeof *got);
        check.next = 4;
        ck_assert(engine_truncate(self, 0, &fault));
        machine.calls = 0;
        machine.fail_at = n;
        machine.status = TENON_LOST;
        ck_assert(engine_score(self, ids, 14, 4, take_row, &check, &fault));
        if (n == 0) calls = machine.calls;
        ck_assert_uint_eq(check.next, 14);
        check_same(got, right);
    }
    machine.fail_at = 0;
    check.next = 4;
    check.stop_at = 6;
    ck_assert(engine_truncate(self, 0, &fault));
    ck_assert(engine_score(self, ids, 14, 4, take_row, &check, &fault));
    ck_assert_uint_eq(check.next, 6);
    engine_close(self);
    close_model(of);
}
END_TEST

/* ---- parts ----------------------------------------------------------------------------------- */

START_TEST(history_keeps_what_left_a_trace)
{
    history self = {0};
    const uint32_t ids[] = {10, 11, 12, 13, 14, 15};
    ck_assert(history_add(&self, ids, 6));
    ck_assert(history_truncate(&self, 4));
    ck_assert_uint_eq(self.event_count, 4); /* as if the last two had never been */
    ck_assert(history_evict(&self, 1, 2));
    ck_assert_uint_eq(self.token_count, 2);
    ck_assert_uint_eq(self.tokens[1], 13);
    ck_assert(history_add(&self, ids, 1));
    ck_assert(history_truncate(&self, 1));
    ck_assert_uint_eq(self.event_count, 6); /* four tokens, an eviction, a cut of 13 */
    ck_assert_uint_eq(self.events[5].kind, HISTORY_TRUNCATE);
    ck_assert(history_truncate(&self, 0));
    ck_assert_uint_eq(self.event_count, 0);
    history_free(&self);
}
END_TEST

START_TEST(rotation_tables)
{
    const float factors[] = {1.0f, 4.0f};
    const rope_rule rule = {4, 100.0, 2.0, factors};
    uint64_t bytes;
    float *table = rope_table(&rule, 3, &bytes);
    ck_assert_ptr_nonnull(table);
    ck_assert_uint_eq(bytes, 3 * 2 * 2 * sizeof *table);
    ck_assert(table[0] == 1.0f && table[1] == 0.0f && table[2] == 1.0f && table[3] == 0.0f);
    ck_assert(table[8] == (float)cos(1.0) && table[9] == (float)sin(1.0));
    ck_assert(fabs((double)table[10] - cos(2.0 / 10 / 2 / 4)) < 1e-7);
    free(table);
    ck_assert_ptr_null(rope_table(&rule, UINT64_MAX / 4, &bytes));
}
END_TEST

/* Draws follow the probabilities, and filters leave what they say. */
START_TEST(sampling)
{
    const float logits[] = {0.0f, 1.0f, 2.0f, -1.0f, 2.0f};
    const double sum = 1.0 + exp(1.0) + 2 * exp(2.0) + exp(-1.0);
    sampler_options options = {.temperature = 1.0, .top_p = 1.0, .repeat_penalty = 1.0, .seed = 5};
    sampler *self = sampler_open(&options, 5);
    double count[5] = {0};
    size_t i;
    ck_assert_ptr_nonnull(self);
    for (i = 0; i < 40000; i++) count[sampler_choose(self, logits, NULL, 0)] += 1.0 / 40000;
    for (i = 0; i < 5; i++) ck_assert(fabs(count[i] - exp((double)logits[i]) / sum) < 0.01);
    sampler_close(self);
    options.top_k = 3;
    self = sampler_open(&options, 5);
    memset(count, 0, sizeof count);
    for (i = 0; i < 1000; i++) count[sampler_choose(self, logits, NULL, 0)] += 1.0;
    ck_assert(count[0] == 0.0 && count[3] == 0.0 && count[1] > 0.0 && count[2] > 0.0);
    sampler_close(self);
    options.top_k = 0;
    options.min_p = 0.5;
    self = sampler_open(&options, 5);
    memset(count, 0, sizeof count);
    for (i = 0; i < 1000; i++) count[sampler_choose(self, logits, NULL, 0)] += 1.0;
    ck_assert(count[2] > 0.0 && count[4] > 0.0 && count[2] + count[4] == 1000.0);
    sampler_close(self);
    options.min_p = 0.0;
    options.top_p = 0.4; /* the first of the two equals has 0.39 */
    self = sampler_open(&options, 5);
    memset(count, 0, sizeof count);
    for (i = 0; i < 1000; i++) count[sampler_choose(self, logits, NULL, 0)] += 1.0;
    ck_assert(count[2] > 0.0 && count[4] > 0.0 && count[2] + count[4] == 1000.0);
    sampler_close(self);
    options = (sampler_options){.top_p = 1.0, .repeat_penalty = 3.0, .repeat_last = 2};
    self = sampler_open(&options, 5);
    {
        const uint32_t before[] = {1, 2, 4, 2};
        ck_assert_uint_eq(sampler_choose(self, logits, before, 4), 1);
        ck_assert_uint_eq(sampler_choose(self, logits, before, 2), 4);
        ck_assert_uint_eq(sampler_choose(self, logits, before, 0), 2);
    }
    sampler_close(self);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *tests = tcase_create("engine");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, lost_once_llama, 0, 2);
    tcase_add_loop_test(tests, lost_once_gemma3, 0, 2);
    tcase_add_loop_test(tests, lost_while_replayed, 0, 2);
    tcase_add_test(tests, lost_for_ever);
    tcase_add_loop_test(tests, failed_step_leaves_no_trace, 0, 2);
    tcase_add_test(tests, caches_that_cannot_be_made);
    tcase_add_test(tests, wrong_use);
    tcase_add_test(tests, logits_that_are_no_numbers);
    tcase_add_test(tests, logits_when_asked_for);
    tcase_add_test(tests, lost_when_asked);
    tcase_add_test(tests, buffers_that_cannot_be_made);
    tcase_add_test(tests, decode_as_one);
    tcase_add_test(tests, scored_rows);
    tcase_add_test(tests, history_keeps_what_left_a_trace);
    tcase_add_test(tests, rotation_tables);
    tcase_add_test(tests, sampling);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
