#include "reuse.h"

#include <string.h>

/* The parts of the problem that take turns in one place. 128 rows each suit every format. */
#define PART_ROWS 128u
#define PARTS 3u

/* One weight in one place, and which part of the problem its bytes are now. */
typedef struct place {
    guarded weights, scales;
    tenon_weight *weight;
    uint64_t part;
} place;

static tenon_weight_data data_of(const place *self, uint32_t lifetime)
{
    return (tenon_weight_data){TENON_HEAD(tenon_weight_data),
                               .weights = self->weights.data,
                               .weights_bytes = self->weights.bytes,
                               .scales = self->scales.bytes != 0 ? self->scales.data : NULL,
                               .scales_bytes = self->scales.bytes,
                               .lifetime = lifetime};
}

static void put_part(place *self, const problem *of, uint64_t part)
{
    self->part = part;
    memcpy(self->weights.data, of->weights + data_weight_offset(&of->desc, part * PART_ROWS),
           self->weights.bytes);
    if (self->scales.bytes != 0)
        memcpy(self->scales.data, of->scales + data_scale_offset(&of->desc, part * PART_ROWS),
               self->scales.bytes);
}

static bool make_weight(place *self, const problem *of, engine_side *engine, uint32_t lifetime,
                        conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_weight_data data = data_of(self, lifetime);
    tenon_weight_desc desc = of->desc;
    int32_t status;
    desc.rows = PART_ROWS;
    status = tenon_weight_create(engine->tested, &desc, &data, &self->weight, &error);
    if (status == TENON_OK) return true;
    self->weight = NULL;
    if (!engine_side_declined(status, &error))
        return conformance_fail(result, "weight: status %d, reason %u: %s", status, error.reason,
                                error.text);
    conformance_set(result, CONFORMANCE_UNSUPPORTED, "declined: %s", error.text);
    return false;
}

static bool check(const problem *of, tenon_weight *weight, uint64_t part, const problem_room *room,
                  engine_side *engine, const conformance_case *test,
                  const conformance_target *target, conformance_result *result)
{
    problem_request request = {.tokens = of->tokens, .outputs = 1};
    request.output[0].first_row = part * PART_ROWS;
    request.output[0].rows = PART_ROWS;
    request.output[0].weight = weight;
    return problem_check(of, &request, room, engine, test, target, result);
}

/* Lifetime COPY: the place is free when create returns, and the next weight may come there. */
static bool same_address(problem *of, place *at, const problem_room *room, engine_side *engine,
                         const conformance_case *test, const conformance_target *target,
                         conformance_result *result)
{
    tenon_weight *made[PARTS] = {NULL};
    uint64_t part;
    bool good = true;
    for (part = 0; good && part < PARTS; part++) {
        put_part(at, of, part);
        good = make_weight(at, of, engine, TENON_LIFETIME_COPY, result);
        made[part] = at->weight;
    }
    for (part = PARTS; good && part-- > 0;)
        good = check(of, made[part], part, room, engine, test, target, result);
    /* A weight made after another was destroyed, at the same address as well. */
    tenon_weight_destroy(made[0]);
    made[0] = NULL;
    if (good) {
        put_part(at, of, 1);
        good = make_weight(at, of, engine, TENON_LIFETIME_COPY, result);
        made[0] = at->weight;
    }
    if (good) good = check(of, made[0], 1, room, engine, test, target, result);
    for (part = 0; part < PARTS; part++) tenon_weight_destroy(made[part]);
    at->weight = NULL;
    return good;
}

/* Lifetime STABLE: bytes changed in place between begin and end of an update. */
static bool in_place(problem *of, place *at, const problem_room *room, engine_side *engine,
                     const conformance_case *test, const conformance_target *target,
                     conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t part;
    int32_t status;
    bool good;
    put_part(at, of, 0);
    good = make_weight(at, of, engine, TENON_LIFETIME_STABLE, result);
    if (good) good = check(of, at->weight, 0, room, engine, test, target, result);
    for (part = 1; good && part < PARTS; part++) {
        status = tenon_weight_begin_update(at->weight, &error);
        if (status == TENON_OK) {
            put_part(at, of, part);
            status = tenon_weight_end_update(at->weight, &error);
        }
        if (status != TENON_OK)
            good = conformance_fail(result, "update: status %d, reason %u: %s", status,
                                    error.reason, error.text);
        else
            good = check(of, at->weight, part, room, engine, test, target, result);
    }
    tenon_weight_destroy(at->weight);
    at->weight = NULL;
    return good;
}

bool reuse_requests(const conformance_case *test, const conformance_target *target,
                    conformance_result *result)
{
    const problem_sizes sizes = {.rows = {PART_ROWS, PARTS * PART_ROWS},
                                 .row_count = 2,
                                 .tokens = {2},
                                 .token_count = 1,
                                 .limit = UINT64_MAX};
    tenon_weight_desc part;
    engine_side engine = {0};
    problem of = {0};
    problem_room room = {0};
    place at = {0};
    uint64_t weights_bytes, scales_bytes;
    uint32_t reason;
    bool good = engine_side_open(&engine, target, 1, test->arith, result);
    if (!good) return false;
    good = problem_make(&of, test, &sizes, NULL, result) &&
           problem_expect(&of, &engine, target, result) && problem_room_make(&room, &of, result);
    if (!good) goto out;
    part = of.desc;
    part.rows = PART_ROWS;
    if (tenon_weight_bytes(&part, &weights_bytes, &scales_bytes, &reason) != TENON_OK ||
        !guarded_make(&at.weights, weights_bytes, 4) ||
        !guarded_make(&at.scales, scales_bytes, 4)) {
        good = conformance_fail(result, "out of memory");
        goto out;
    }
    good = same_address(&of, &at, &room, &engine, test, target, result) &&
           in_place(&of, &at, &room, &engine, test, target, result);
out:
    guarded_free(&at.weights);
    guarded_free(&at.scales);
    problem_room_free(&room);
    problem_free(&of);
    engine_side_close(&engine, result);
    return good && result->outcome != CONFORMANCE_FAILED;
}
