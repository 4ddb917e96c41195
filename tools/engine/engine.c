#include "engine.h"
#include "family.h"
#include "history.h"
#include "rope.h"
#include "step_internal.h"

#include <stdlib.h>
#include <string.h>

#define OUTSIDE UINT64_MAX /* of all layers */
#define SCORED_ROWS 16u    /* logits computed at once when many are wanted */
#define MOST_LOSSES 32u    /* in one call: a chain has fewer links, something else is wrong */

struct engine {
    const model *model;
    engine_options options;
    step step;
    tenon_cache **caches; /* [layers] */
    history past;
    float *table, *local_table; /* rotations */
    uint64_t table_bytes, local_table_bytes;
    tenon_view logits; /* [vocabulary], of what follows the last token fed */
    bool has_logits;   /* they are what follows the last token of the past */
    tenon_view token;  /* one id: what a step of one token begins with */
    tenon_graph
        *decode;       /* such a step with its logits and their argmax, which goes to token; NULL */
    bool no_decode;    /* no device takes that as one; until the caches are made anew */
    bool has_best;     /* token holds the argmax of the logits */
    uint32_t best;     /* it, as soon as somebody asked; TENON_ARGMAX_NONE: nobody did */
    tenon_view scored; /* [SCORED_ROWS][vocabulary], when first needed */
    float *scored_host; /* the same, where their reader sees them */
    uint64_t replays, shifts;
};

/* What to do with the rows of a step behind the last layer. */
typedef struct wanted {
    uint64_t rows;   /* the last ones of the step, whose logits are wanted */
    engine_row *row; /* NULL: the logits of one row stay where they are made */
    void *context;
    size_t index;   /* of the first wanted row, for row */
    uint64_t given; /* rows that row has had: a step that is run again does not repeat them */
    bool stopped;
} wanted;

/* ---- caches ---------------------------------------------------------------------------------- */

static void free_caches(engine *self)
{
    uint64_t i;
    for (i = 0; self->caches != NULL && i < self->model->layer_count; i++) {
        tenon_cache_destroy(self->caches[i]);
        self->caches[i] = NULL;
    }
}

static bool make_caches(engine *self, engine_fault *fault)
{
    const model *m = self->model;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t i;
    for (i = 0; i < m->layer_count; i++) {
        bool local = m->layers[i].local;
        tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc), .kv_heads = m->kv_heads};
        desc.head_size = m->head_size;
        desc.capacity = self->options.context;
        desc.window = local ? m->window : 0;
        desc.type = self->options.cache_type;
        desc.flags = self->options.shift ? TENON_CACHE_EVICTABLE : 0;
        if (m->rotary > 0) {
            desc.pairing = m->pairing;
            desc.rotary = (uint32_t)m->rotary;
            desc.table = local ? self->local_table : self->table;
            desc.table_bytes = local ? self->local_table_bytes : self->table_bytes;
        }
        if (tenon_cache_create(m->session, &desc, &self->caches[i], &error) != TENON_OK)
            return fault_call(fault, "a key-value cache", &error);
    }
    return true;
}

static bool make_tables(engine *self, engine_fault *fault)
{
    const model *m = self->model;
    rope_rule rule = {m->rotary, m->rope_base, m->rope_factor, m->rope_factors};
    bool any_local = false, any_global = false;
    uint64_t i;
    if (m->rotary == 0) return true;
    for (i = 0; i < m->layer_count; i++) {
        any_local = any_local || m->layers[i].local;
        any_global = any_global || !m->layers[i].local;
    }
    if (any_global) {
        self->table = rope_table(&rule, self->options.context, &self->table_bytes);
        if (self->table == NULL) return fault_memory(fault, "the rotation table");
    }
    if (any_local) {
        rule = (rope_rule){m->rotary, m->local_base, 1.0, NULL};
        self->local_table = rope_table(&rule, self->options.context, &self->local_table_bytes);
        if (self->local_table == NULL) return fault_memory(fault, "the rotation table");
    }
    return true;
}

static bool make_memory(engine *self, uint64_t width, uint64_t rows, tenon_view *out,
                        engine_fault *fault)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_buffer *made = NULL;
    uint64_t bytes;
    if (!tenon_mul_u64(width, rows * sizeof(float), &bytes)) return fault_memory(fault, "logits");
    if (tenon_buffer_create(self->model->session, bytes, &made, &error) != TENON_OK)
        return fault_call(fault, "the memory of logits", &error);
    *out = (tenon_view){.buffer = made, .bytes = bytes};
    return true;
}

engine *engine_open(const model *of, const engine_options *options, engine_fault *fault)
{
    engine *self = calloc(1, sizeof *self);
    uint64_t batch = options->batch < options->context ? options->batch : options->context;
    memset(fault, 0, sizeof *fault);
    if (self == NULL) {
        fault_memory(fault, "the engine");
        return NULL;
    }
    self->model = of;
    self->options = *options;
    self->options.batch = batch;
    self->step.model = of;
    self->step.queue = tenon_session_queue(of->session);
    self->step.watch = options->watch;
    self->step.fault = fault;
    self->caches = calloc((size_t)of->layer_count, sizeof *self->caches);
    if (self->caches == NULL) fault_memory(fault, "the caches");
    if (self->caches != NULL && step_reserve(&self->step, batch) &&
        make_memory(self, self->model->vocabulary, 1, &self->logits, fault) &&
        make_memory(self, 1, 1, &self->token, fault) && make_tables(self, fault) &&
        make_caches(self, fault))
        return self;
    engine_close(self);
    return NULL;
}

void engine_close(engine *self)
{
    if (self == NULL) return;
    tenon_graph_destroy(self->decode);
    free_caches(self);
    free(self->caches);
    tenon_buffer_destroy(self->token.buffer);
    step_release(&self->step);
    history_free(&self->past);
    free(self->table);
    free(self->local_table);
    tenon_buffer_destroy(self->logits.buffer);
    tenon_buffer_destroy(self->scored.buffer);
    free(self->scored_host);
    free(self);
}

/* ---- one step -------------------------------------------------------------------------------- */

/* Are all of these finite? */
static bool are_finite(const float *x, uint64_t count)
{
    uint32_t largest = 0;
    uint64_t i;
    for (i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7F800000u;
}

/* Brings logits to host memory, where they are looked at: values that are no numbers would make
 * every choice meaningless. */
static bool read_logits(engine *self, tenon_view from, float *to, engine_fault *fault)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    if (tenon_buffer_read(self->step.queue, from.buffer, from.offset, to, from.bytes, &error) !=
        TENON_OK)
        return fault_call(fault, "reading the logits", &error);
    return are_finite(to, from.bytes / sizeof *to) ||
           fault_set(fault, FAULT_NOT_FINITE, "the logits hold values that are not finite");
}

/* The norm behind the last layer, then the logits of the rows that are wanted. */
static bool finish(engine *self, wanted *want)
{
    const model *m = self->model;
    step *s = &self->step;
    uint64_t at, i;
    s->layer = OUTSIDE;
    if (want->rows == 0) return true;
    if (!step_norm(s, s->kept, 1, m->width, s->at->x, m->output_norm, s->at->h)) return false;
    if (want->row == NULL)
        return step_multiply(s, 1, s->at->h, m->width, m->output, m->vocabulary, self->logits);
    for (at = want->given; at < want->rows && !want->stopped; at = want->given) {
        uint64_t rows = want->rows - at < SCORED_ROWS ? want->rows - at : SCORED_ROWS;
        tenon_view scored = step_part(self->scored, 0, rows * m->vocabulary);
        if (!step_multiply(s, rows, step_part(s->at->h, at * m->width, rows * m->width), m->width,
                           m->output, m->vocabulary, scored) ||
            !read_logits(self, scored, self->scored_host, s->fault))
            return false;
        for (i = 0; i < rows && !want->stopped; i++, want->given++)
            want->stopped = !want->row(want->context, want->index + (size_t)(at + i),
                                       self->scored_host + i * m->vocabulary);
    }
    return true;
}

static bool run_step(engine *self, tenon_view ids, uint64_t count, wanted *want)
{
    const model *m = self->model;
    step *s = &self->step;
    uint64_t i;
    step_begin(s, count);
    self->has_best = false;
    if (!step_embed(s, ids)) return false;
    for (i = 0; i < m->layer_count; i++) {
        s->layer = i;
        if (i + 1 == m->layer_count) s->kept = want->rows;
        if (!m->kind->layer(s, &m->layers[i], self->caches[i])) return false;
    }
    return finish(self, want);
}

/* ---- the step of one token as one piece of work ------------------------------------------------ */

/* Puts an id where the next step of one token begins, unless the last one has left it there. */
static bool place_token(engine *self, uint32_t id)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    if (self->has_best && self->best == id) return true;
    return tenon_buffer_write(self->step.queue, self->token.buffer, 0, &id, sizeof id, &error) ==
               TENON_OK ||
           fault_call(self->step.fault, "the token of a step", &error);
}

/* Records the step, for a device that takes it as one; else it is made call by call as ever. */
static void record_decode(engine *self)
{
    wanted one = {.rows = 1};
    engine_fault ignored = {.kind = FAULT_NONE}, *fault = self->step.fault;
    tenon_graph_information info = {TENON_HEAD(tenon_graph_information), .calls = 0};
    self->no_decode = true;
    if (tenon_graph_begin(self->step.queue, NULL) != TENON_OK) return;
    self->step.fault = &ignored;
    if (run_step(self, self->token, 1, &one) &&
        step_argmax(&self->step, self->logits, self->model->vocabulary, self->token))
        tenon_graph_end(self->step.queue, &self->decode, NULL);
    else
        tenon_graph_abort(self->step.queue);
    self->step.fault = fault;
    if (self->decode != NULL && tenon_graph_info(self->decode, &info, NULL) == TENON_OK &&
        info.captured != 0)
        return;
    tenon_graph_destroy(self->decode);
    self->decode = NULL;
}

/* One token and the logits behind it, on a device that takes the step as one. *made: it was so, and
 * the answer is that of the step. */
static bool decode(engine *self, uint32_t id, bool *made)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    *made = false;
    /* whoever watches wants to see each operation */
    if (self->decode == NULL && !self->no_decode && self->step.watch == NULL) record_decode(self);
    if (self->decode == NULL) return true;
    *made = true;
    if (!place_token(self, id)) return false;
    self->has_best = false;
    self->step.layer = OUTSIDE;
    if (tenon_graph_launch(self->step.queue, self->decode, &error) != TENON_OK)
        return fault_call(self->step.fault, "a step of one token", &error);
    self->has_best = true;
    self->best = TENON_ARGMAX_NONE;
    return true;
}

static void forget_decode(engine *self)
{
    tenon_graph_destroy(self->decode);
    self->decode = NULL;
    self->no_decode = self->has_best = false;
}

static bool run_tokens(engine *self, const uint32_t *ids, uint64_t count, wanted *want)
{
    bool made;
    if (count == 1 && want->row == NULL && want->rows == 1) {
        bool good = decode(self, ids[0], &made);
        if (made) return good;
    }
    return run_step(self, step_host(ids, count), count, want);
}

static bool truncate_caches(engine *self, uint64_t length, engine_fault *fault)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t i, have;
    for (i = 0; i < self->model->layer_count; i++) {
        if (tenon_cache_length(self->caches[i], &have, &error) != TENON_OK ||
            (have > length &&
             tenon_cache_truncate(self->step.queue, self->caches[i], length, &error) != TENON_OK))
            return fault_call(fault, "shortening a cache", &error);
    }
    return true;
}

static bool evict_caches(engine *self, uint64_t first, uint64_t count, engine_fault *fault)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t i;
    for (i = 0; i < self->model->layer_count; i++)
        if (tenon_cache_evict(self->step.queue, self->caches[i], first, count, &error) != TENON_OK)
            return fault_call(fault, "evicting from a cache", &error);
    return true;
}

static bool was_lost(const engine_fault *fault)
{
    return fault->kind == FAULT_CALL && fault->cause.status == TENON_LOST;
}

/* ---- replay ---------------------------------------------------------------------------------- */

/* One pass over the past into fresh caches. */
static bool replay_once(engine *self, engine_fault *fault)
{
    const history *past = &self->past;
    wanted nothing = {0}, last = {.rows = 1};
    uint32_t *ids = malloc((size_t)self->options.batch * sizeof *ids);
    size_t at = 0;
    bool good = ids != NULL || fault_memory(fault, "the replay");
    forget_decode(self); /* it names the caches that go now */
    free_caches(self);
    good = good && make_caches(self, fault);
    while (good && at < past->event_count) {
        const history_event *event = &past->events[at];
        uint64_t count = 0;
        while (at < past->event_count && count < self->options.batch &&
               past->events[at].kind == HISTORY_TOKEN)
            ids[count++] = past->events[at++].id;
        if (count > 0) {
            good = run_step(self, step_host(ids, count), count,
                            self->has_logits && at == past->event_count ? &last : &nothing);
            continue;
        }
        good = event->kind == HISTORY_EVICT ? evict_caches(self, event->first, event->count, fault)
                                            : truncate_caches(self, event->first, fault);
        at++;
    }
    free(ids);
    return good;
}

/* Makes the context again. Devices may be lost on the way, too; *losses counts all of one call. */
static bool replay(engine *self, uint32_t *losses, engine_fault *fault)
{
    bool good;
    do {
        if (++*losses > MOST_LOSSES) return false; /* with the words of the last one */
        self->replays++;
        good = replay_once(self, fault);
    } while (!good && was_lost(fault));
    if (!good) self->has_logits = false;
    return good;
}

/* A step, again as long as it is lost with a device. Leaves the context as it was on failure. */
static bool step_surely(engine *self, const uint32_t *ids, uint64_t count, wanted *want,
                        engine_fault *fault)
{
    uint32_t losses = 0;
    bool good;
    self->has_logits = false;
    while (!(good = run_tokens(self, ids, count, want)) && was_lost(fault))
        if (!replay(self, &losses, fault)) break;
    if (good && !history_add(&self->past, ids, (size_t)count))
        good = fault_memory(fault, "the history");
    self->has_logits = good && want->row == NULL && want->rows > 0;
    if (!good) {
        engine_fault second = {.kind = FAULT_NONE};
        truncate_caches(self, self->past.token_count, &second);
    }
    return good;
}

/* ---- what callers ask for -------------------------------------------------------------------- */

/* Room for count more positions, count at most a batch. */
static bool make_room(engine *self, uint64_t count, engine_fault *fault)
{
    uint64_t have = self->past.token_count, context = self->options.context;
    uint64_t keep = self->options.keep, drop;
    if (count <= context - have) return true;
    if (!self->options.shift)
        return fault_set(fault, FAULT_USE, "the context of %llu positions is full",
                         (unsigned long long)context);
    if (keep >= have) keep = 0;
    drop = (have - keep + 1) / 2;
    if (drop < have + count - context) drop = have + count - context;
    if (drop > have - keep)
        return fault_set(fault, FAULT_USE, "%llu tokens do not fit a context of %llu positions",
                         (unsigned long long)count, (unsigned long long)context);
    self->shifts++;
    return engine_evict(self, (size_t)keep, (size_t)drop, fault);
}

static bool check_ids(const engine *self, const uint32_t *ids, size_t count, engine_fault *fault)
{
    size_t i;
    for (i = 0; i < count; i++)
        if (ids[i] >= self->model->vocabulary)
            return fault_set(fault, FAULT_USE, "token %lu is none of this model, which has %llu",
                             (unsigned long)ids[i], (unsigned long long)self->model->vocabulary);
    return true;
}

static bool feed(engine *self, const uint32_t *ids, size_t count, size_t first, wanted *want,
                 engine_fault *fault)
{
    size_t at = 0;
    memset(fault, 0, sizeof *fault);
    self->step.fault = fault;
    if (!check_ids(self, ids, count, fault)) return false;
    while (at < count && !want->stopped) {
        size_t n = count - at < self->options.batch ? count - at : (size_t)self->options.batch;
        want->index = at < first ? first : at;
        want->given = 0;
        want->rows = at + n > first ? at + n - want->index : 0;
        if (!make_room(self, n, fault) || !step_surely(self, ids + at, n, want, fault))
            return false;
        at += n;
    }
    return true;
}

bool engine_feed(engine *self, const uint32_t *ids, size_t count, bool logits, engine_fault *fault)
{
    wanted want = {.rows = 0};
    return feed(self, ids, count, logits && count > 0 ? count - 1 : count, &want, fault);
}

bool engine_score(engine *self, const uint32_t *ids, size_t count, size_t first, engine_row *row,
                  void *context, engine_fault *fault)
{
    wanted want = {.row = row, .context = context};
    if (self->scored.buffer == NULL &&
        !make_memory(self, self->model->vocabulary, SCORED_ROWS, &self->scored, fault))
        return false;
    if (self->scored_host == NULL && self->scored.bytes <= SIZE_MAX)
        self->scored_host = malloc((size_t)self->scored.bytes);
    if (self->scored_host == NULL) return fault_memory(fault, "logits");
    return feed(self, ids, count, first, &want, fault);
}

/* Begins a question about the logits. */
static bool ask_logits(engine *self, engine_fault *fault)
{
    memset(fault, 0, sizeof *fault);
    self->step.fault = fault;
    self->step.layer = OUTSIDE;
    return self->has_logits ||
           fault_set(fault, FAULT_USE,
                     "there are no logits: no tokens were fed that asked for any");
}

bool engine_logits(engine *self, float *out, engine_fault *fault)
{
    uint32_t losses = 0;
    bool good;
    if (!ask_logits(self, fault)) return false;
    while (!(good = read_logits(self, self->logits, out, fault)) && was_lost(fault))
        if (!replay(self, &losses, fault)) break;
    return good;
}

/* The argmax of the logits: a step made as one has left it, else it is computed now. */
static bool find_best(engine *self, uint32_t *out, engine_fault *fault)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    if (!self->has_best)
        return step_argmax(&self->step, self->logits, self->model->vocabulary, step_host(out, 1));
    if (tenon_buffer_read(self->step.queue, self->token.buffer, 0, out, sizeof *out, &error) !=
        TENON_OK)
        return fault_call(fault, "reading the argmax", &error);
    self->best = *out;
    return true;
}

bool engine_largest(engine *self, uint32_t *out, engine_fault *fault)
{
    uint32_t losses = 0;
    bool good;
    if (!ask_logits(self, fault)) return false;
    while (!(good = find_best(self, out, fault)) && was_lost(fault))
        if (!replay(self, &losses, fault)) break;
    if (good && *out == TENON_ARGMAX_NONE)
        return fault_set(fault, FAULT_NOT_FINITE, "the logits are not numbers");
    return good;
}

const uint32_t *engine_tokens(const engine *self, size_t *count)
{
    *count = self->past.token_count;
    return self->past.tokens;
}

bool engine_truncate(engine *self, size_t length, engine_fault *fault)
{
    uint32_t losses = 0;
    memset(fault, 0, sizeof *fault);
    self->step.fault = fault;
    if (length >= self->past.token_count) return true;
    self->has_logits = false;
    if (!history_truncate(&self->past, length)) return fault_memory(fault, "the history");
    return truncate_caches(self, length, fault) ||
           (was_lost(fault) && replay(self, &losses, fault));
}

bool engine_evict(engine *self, size_t first, size_t count, engine_fault *fault)
{
    size_t have = self->past.token_count;
    uint32_t losses = 0;
    memset(fault, 0, sizeof *fault);
    self->step.fault = fault;
    if (first > have || count > have - first)
        return fault_set(fault, FAULT_USE, "no %zu positions from %zu on in a context of %zu",
                         count, first, have);
    if (count == 0) return true;
    self->has_logits = false;
    if (!history_evict(&self->past, first, count)) return fault_memory(fault, "the history");
    return evict_caches(self, first, count, fault) ||
           (was_lost(fault) && replay(self, &losses, fault));
}

uint64_t engine_cache_bytes(const engine *self)
{
    uint64_t i, one, sum = 0;
    for (i = 0; i < self->model->layer_count; i++)
        if (tenon_cache_bytes(self->caches[i], &one, NULL) != TENON_OK || one == TENON_UNKNOWN ||
            !tenon_add_u64(sum, one, &sum))
            return TENON_UNKNOWN;
    return sum;
}

uint64_t engine_replays(const engine *self)
{
    return self->replays;
}

uint64_t engine_shifts(const engine *self)
{
    return self->shifts;
}
