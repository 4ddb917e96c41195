/* Conformance of qmatmul_v1: every format, layout and group size, both classes.
 *
 * A case is one format, class and row length (or one kind of special data). It asks for weights of
 * many row counts, cut at random places from one matrix and put at every alignment; for products
 * with many token counts, out of one set of activations; for one to four outputs at once; on one
 * thread and on several. Since no element may depend on what it is computed with, one table of
 * expected bits serves them all. */
#include "qmatmul.h"

#include "reuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WEIGHTS 24u

/* A weight made for a case, with the memory it was made from. */
typedef struct made_weight {
    tenon_weight *weight;
    uint64_t first_row, rows, known_tokens;
    guarded weights, scales;
    uint64_t hash; /* of both, for lifetime STABLE */
    bool revoked;  /* lifetime COPY: the memory is gone since prepare returned */
} made_weight;

static uint64_t weight_hash(const made_weight *self)
{
    return guarded_hash(&self->weights) * 31 + guarded_hash(&self->scales);
}

static uint32_t random_place(random_state *random)
{
    static const uint32_t places[] = {0, 1, 2, 4, 8, 16, 32, 63, GUARDED_AT_END, GUARDED_AT_END};
    return places[random_below(random, sizeof places / sizeof places[0])];
}

/* Makes the weight of this many rows, cut from the problem at a random row such that the tokens the
 * whole row count would have are known for it. Declined: weight stays NULL, true. */
static bool make_weight(made_weight *self, problem *of, engine_side *engine, random_state *random,
                        uint64_t rows, const conformance_case *test,
                        const conformance_target *target, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_desc desc = of->desc;
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .weights = NULL};
    tenon_weight_information information = {TENON_HEAD(tenon_weight_information), .arith = 0};
    uint64_t step = data_row_step(desc.format), room = 0, i;
    uint32_t reason;
    int32_t status;
    self->known_tokens = problem_known_tokens(&of->sizes, rows);
    for (i = 0; i < of->sizes.row_count; i++)
        if (problem_known_tokens(&of->sizes, of->sizes.rows[i]) >= self->known_tokens &&
            of->sizes.rows[i] >= rows)
            room = of->sizes.rows[i] - rows;
    self->rows = rows;
    self->first_row = random_below(random, room / step + 1) * step;
    desc.rows = rows;
    status = tenon_weight_bytes(&desc, &data.weights_bytes, &data.scales_bytes, &reason);
    if (status != TENON_OK)
        return conformance_fail(result, "no such weight: %s", tenon_reason_text(reason));
    if (!guarded_copy(&self->weights, of->weights + data_weight_offset(&of->desc, self->first_row),
                      data.weights_bytes, random_place(random)))
        return conformance_fail(result, "out of memory");
    if (data.scales_bytes != 0 &&
        !guarded_copy(&self->scales, of->scales + data_scale_offset(&of->desc, self->first_row),
                      data.scales_bytes, random_place(random)))
        return conformance_fail(result, "out of memory");
    self->hash = weight_hash(self);
    data.weights = self->weights.data;
    data.scales = self->scales.data;
    self->revoked = random_below(random, 2) == 0;
    data.lifetime = self->revoked ? TENON_LIFETIME_COPY : TENON_LIFETIME_STABLE;
    status = tenon_weight_create(engine->tested, &desc, &data, &self->weight, &error);
    if (status != TENON_OK) {
        self->weight = NULL;
        if (!engine_side_declined(status, &error))
            return conformance_fail(result, "weight of %llu rows: status %d, reason %u: %s",
                                    (unsigned long long)rows, status, error.reason, error.text);
        result->declined++;
        if (result->detail[0] == '\0')
            snprintf(result->detail, sizeof result->detail, "declined: %s", error.text);
        return true;
    }
    if (weight_hash(self) != self->hash)
        return conformance_fail(result, "prepare changed the weight's bytes");
    if (self->revoked) {
        guarded_revoke(&self->weights);
        guarded_revoke(&self->scales);
    }
    status = tenon_weight_info(self->weight, &information, &error);
    if (status != TENON_OK)
        return conformance_fail(result, "tenon_weight_info: status %d, %s", status, error.text);
    if (information.arith != test->arith)
        return conformance_fail(result, "the weight is in class %u, want %u", information.arith,
                                test->arith);
    if (strcmp(information.provider, target->id) != 0)
        return conformance_fail(result, "the weight went to %s", information.provider);
    return true;
}

static bool check_unchanged(const made_weight *self, conformance_result *result)
{
    if (self->weight == NULL || self->revoked) return true;
    if (weight_hash(self) != self->hash)
        return conformance_fail(result, "the bytes of a weight were changed");
    return true;
}

/* A request over one weight, the tokens at the start or the end of the known ones. */
static problem_request plain_request(const made_weight *of, uint64_t tokens, random_state *random)
{
    problem_request request = {.tokens = tokens, .outputs = 1};
    request.first_token = random_below(random, 2) == 0 ? 0 : of->known_tokens - tokens;
    request.x = (uint32_t)random_below(random, 2);
    request.output[0].first_row = of->first_row;
    request.output[0].rows = of->rows;
    request.output[0].weight = of->weight;
    request.output[0].y_pad = 4 * (random_below(random, 3) * random_below(random, 5));
    return request;
}

/* Adds outputs with other weights of the case; all need the same tokens. */
static void add_outputs(problem_request *request, const made_weight *weights, uint32_t count,
                        uint32_t wanted, random_state *random)
{
    uint32_t tries;
    for (tries = 0; request->outputs < wanted && tries < 4 * count; tries++) {
        const made_weight *other = &weights[random_below(random, count)];
        uint32_t n = request->outputs;
        if (other->weight == NULL || request->first_token + request->tokens > other->known_tokens)
            continue;
        request->output[n].first_row = other->first_row;
        request->output[n].rows = other->rows;
        request->output[n].weight = other->weight;
        request->output[n].y_pad = 4 * random_below(random, 3);
        request->outputs++;
    }
}

/* All requests on one host. few: only the smallest and the largest token count of each weight. */
static bool requests_on(problem *of, engine_side *engine, const conformance_case *test,
                        const conformance_target *target, bool few, random_state *random,
                        conformance_result *result)
{
    made_weight weights[MAX_WEIGHTS];
    problem_room room;
    uint64_t hashes[2] = {guarded_hash(&of->x[0]), guarded_hash(&of->x[1])};
    uint32_t i, k, made = 0;
    bool good;
    memset(weights, 0, sizeof weights);
    good = problem_room_make(&room, of, result);
    for (i = 0; good && i < of->sizes.row_count; i++, made++)
        good = make_weight(&weights[i], of, engine, random, of->sizes.rows[i], test, target,
                           result);
    for (i = 0; good && i < of->sizes.row_count; i++) {
        for (k = 0; good && weights[i].weight != NULL && k < of->sizes.token_count; k++) {
            uint64_t tokens = of->sizes.tokens[k];
            problem_request request;
            if (tokens > weights[i].known_tokens) break;
            if (few && k > 0 && k + 1 < of->sizes.token_count &&
                of->sizes.tokens[k + 1] <= weights[i].known_tokens)
                continue;
            request = plain_request(&weights[i], tokens, random);
            good = problem_check(of, &request, &room, engine, test, target, result);
            if (!good || (i + k) % 3 != 0) continue;
            add_outputs(&request, weights, made, 2 + (uint32_t)random_below(random, 3), random);
            if (request.outputs > 1)
                good = problem_check(of, &request, &room, engine, test, target, result);
        }
        if (good) good = check_unchanged(&weights[i], result);
    }
    if (good && (guarded_hash(&of->x[0]) != hashes[0] || guarded_hash(&of->x[1]) != hashes[1]))
        good = conformance_fail(result, "the activations were changed");
    for (i = 0; i < MAX_WEIGHTS; i++) {
        tenon_weight_destroy(weights[i].weight);
        guarded_free(&weights[i].weights);
        guarded_free(&weights[i].scales);
    }
    problem_room_free(&room);
    return good;
}

bool qmatmul_requests(const conformance_case *test, const conformance_target *target,
                      const problem_sizes *sizes, const uint8_t *tensor_rows,
                      conformance_result *result)
{
    random_state random = {~test->seed};
    engine_side engine = {0};
    problem of = {0};
    uint32_t threads, more = 2 + (uint32_t)random_below(&random, 7);
    bool good = engine_side_open(&engine, target, 1, test->arith, result);
    if (!good) return false;
    good = problem_make(&of, test, sizes, tensor_rows, result) &&
           problem_expect(&of, &engine, target, result) &&
           requests_on(&of, &engine, test, target, false, &random, result);
    engine_side_close(&engine, result);
    /* Nothing taken on one thread: more threads will not change that. */
    if (good && result->requests == 0) goto out;
    for (threads = 2; good && threads <= 8; threads++) {
        if (!test->thorough && threads != more) continue;
        good = engine_side_open(&engine, target, threads, test->arith, result);
        if (!good) break;
        good = requests_on(&of, &engine, test, target, true, &random, result);
        engine_side_close(&engine, result);
    }
out:
    problem_free(&of);
    return good && result->outcome != CONFORMANCE_FAILED;
}

void qmatmul_conclude(conformance_result *result)
{
    if (result->outcome != 0) return;
    if (result->requests == 0) {
        char why[sizeof result->detail];
        memcpy(why, result->detail, sizeof why);
        conformance_set(result, CONFORMANCE_UNSUPPORTED, "%.500s",
                        why[0] != '\0' ? why : "every request was declined");
        return;
    }
    result->outcome = CONFORMANCE_PASSED;
    if (result->declined == 0) result->detail[0] = '\0';
}

static void run_reuse(const conformance_case *test, const conformance_target *target,
                      conformance_result *result)
{
    if (reuse_requests(test, target, result)) qmatmul_conclude(result);
}

static void sizes_of(const conformance_case *test, problem_sizes *sizes)
{
    static const uint64_t rows[] = {1, 3, 15, 16, 17, 31, 63, 64, 65, 255, 257};
    static const uint64_t tokens[] = {1, 2, 3, 5, 8, 17, 64};
    static const uint64_t batches[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33};
    static const uint64_t special_rows[] = {1, 17, 64}, special_tokens[] = {1, 2, 9, 18};
    uint64_t cols = test->cols;
    memset(sizes, 0, sizeof *sizes);
    switch (test->kind) {
    case DATA_ORDINARY:
        sizes->row_count = sizeof rows / sizeof rows[0];
        sizes->token_count = sizeof tokens / sizeof tokens[0];
        memcpy(sizes->rows, rows, sizeof rows);
        memcpy(sizes->tokens, tokens, sizeof tokens);
        /* Long rows with fewer pairs of large sizes: every size still occurs. */
        sizes->limit = test->thorough || cols <= 300 ? UINT64_MAX : cols <= 1536 ? 4160 : 1105;
        break;
    case DATA_BATCHES:
        sizes->row_count = 2;
        sizes->rows[0] = 33;
        sizes->rows[1] = 48;
        sizes->token_count = sizeof batches / sizeof batches[0];
        memcpy(sizes->tokens, batches, sizeof batches);
        sizes->limit = UINT64_MAX;
        break;
    default:
        sizes->row_count = sizeof special_rows / sizeof special_rows[0];
        sizes->token_count = sizeof special_tokens / sizeof special_tokens[0];
        memcpy(sizes->rows, special_rows, sizeof special_rows);
        memcpy(sizes->tokens, special_tokens, sizeof special_tokens);
        sizes->limit = UINT64_MAX;
        break;
    }
}

static void run_qmatmul(const conformance_case *test, const conformance_target *target,
                        conformance_result *result)
{
    problem_sizes sizes;
    sizes_of(test, &sizes);
    if (qmatmul_requests(test, target, &sizes, NULL, result)) qmatmul_conclude(result);
}

/* One format with its layout and group size, one class. */
typedef struct variant {
    tenon_format_info info;
    uint32_t layout, arith;
    uint64_t group_size;
} variant;

static conformance_case *add_case(conformance_suite *suite, const variant *of, data_kind kind,
                                  uint64_t cols, const char *what)
{
    char name[160], form[64] = "", last[40];
    conformance_case *added;
    if (of->layout == TENON_LAYOUT_PLANAR) snprintf(form, sizeof form, "-planar");
    if (of->group_size != 0)
        snprintf(form + strlen(form), sizeof form - strlen(form), "-g%llu",
                 (unsigned long long)of->group_size);
    if (what == NULL) {
        snprintf(last, sizeof last, "cols=%llu", (unsigned long long)cols);
        what = last;
    }
    snprintf(name, sizeof name, "exact/qmatmul/%s%s/%s/%s", of->info.text, form,
             of->arith == TENON_CLASS_A8 ? "a8" : "f32", what);
    added = conformance_add(suite, CONFORMANCE_EXACT, run_qmatmul, name);
    if (added == NULL) return NULL;
    added->format = of->info.format;
    added->layout = of->layout;
    added->group_size = of->group_size;
    added->arith = of->arith;
    added->kind = (uint32_t)kind;
    added->cols = cols;
    return added;
}

static bool add_variant(conformance_suite *suite, const variant *of)
{
    static const uint64_t lengths[] = {32, 64, 96, 160, 224, 256, 576, 768, 1536, 4096};
    static const uint64_t ragged[] = {1, 33, 95, 300}; /* where blocks need not be whole */
    conformance_case *added;
    uint64_t block = of->info.block_inputs != 0 ? of->info.block_inputs : 1;
    uint64_t two_blocks = block > 64 ? 2 * block : 160 / block * block;
    size_t i;
    for (i = 0; block == 1 && i < sizeof ragged / sizeof ragged[0]; i++)
        if (add_case(suite, of, DATA_ORDINARY, ragged[i], NULL) == NULL) return false;
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        if (lengths[i] % block == 0 && add_case(suite, of, DATA_ORDINARY, lengths[i], NULL) == NULL)
            return false;
    if (add_case(suite, of, DATA_SPECIAL, two_blocks, "special") == NULL ||
        add_case(suite, of, DATA_TINY, two_blocks, "tiny") == NULL ||
        add_case(suite, of, DATA_LARGE_SUMS, 512, "large-sums") == NULL ||
        add_case(suite, of, DATA_BATCHES, two_blocks, "batches") == NULL)
        return false;
    added = add_case(suite, of, DATA_ORDINARY, two_blocks, "reused-memory");
    if (added == NULL) return false;
    added->body = run_reuse;
    /* N06 only says something where a weight can be 8 whatever its scale. */
    if (block == 1 && of->info.block_inputs == 1 &&
        add_case(suite, of, DATA_HALF_SUMS, 4096, "half-sums") == NULL)
        return false;
    return true;
}

/* The layouts and group sizes of a format, in both classes where it has both. */
static bool add_format(conformance_suite *suite, const tenon_format_info *info)
{
    static const uint64_t groups[] = {32, 48, 64, 128, 300};
    bool int4 = info->format == TENON_FORMAT_INT4_ROW || info->format == TENON_FORMAT_INT4_GROUP;
    uint32_t layout, last_layout = int4 ? TENON_LAYOUT_PLANAR : TENON_LAYOUT_NONE, arith;
    size_t g, group_count = info->format == TENON_FORMAT_INT4_GROUP ? 5 : 1;
    for (layout = int4 ? TENON_LAYOUT_PAIR : TENON_LAYOUT_NONE; layout <= last_layout; layout++) {
        for (g = 0; g < group_count; g++) {
            for (arith = TENON_CLASS_F32; arith <= TENON_CLASS_A8; arith++) {
                variant of = {.info = *info,
                              .layout = layout,
                              .arith = arith,
                              .group_size = group_count > 1 ? groups[g] : 0};
                if (arith == TENON_CLASS_A8 && (info->traits & TENON_TRAIT_FLOATS) != 0) continue;
                if (!add_variant(suite, &of)) return false;
            }
        }
    }
    return true;
}

bool conformance_add_qmatmul(conformance_suite *suite)
{
    tenon_format_info info;
    uint32_t i, format;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++)
        if (!tenon_format_find(format, &info) || !add_format(suite, &info)) return false;
    return true;
}
