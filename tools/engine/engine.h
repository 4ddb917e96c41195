/* An engine: a model, the context it has seen so far, and the logits of what comes next.
 *
 * Stands on <tenon/engine.h> alone. Tokens are fed in any portions: the same tokens give the same
 * bits. When a device is lost with what lived on it, the context is made again on what remains of
 * the session's chain, unseen by the caller but for the count. One thread at a time. */
#ifndef TENON_TOOLS_ENGINE_ENGINE_H
#define TENON_TOOLS_ENGINE_ENGINE_H

#include "fault.h"
#include "model.h"
#include "step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct engine_options {
    uint64_t context;    /* positions the caches hold, at least 1 */
    uint64_t batch;      /* most tokens of one step, at least 1 */
    uint32_t cache_type; /* TENON_CACHE_* */
    bool shift; /* a full context drops its oldest half, but for the first keep positions */
    uint64_t keep;
    const step_watch *watch; /* NULL, or lives as long as the engine */
} engine_options;

typedef struct engine engine;

/* Makes an empty context. The model must outlive it. NULL with *fault. */
engine *engine_open(const model *of, const engine_options *options, engine_fault *fault);
void engine_close(engine *self);

/* Appends tokens. logits: also compute those of what follows the last one; they stay where they were
 * made until they are asked for. False with *fault; the context is then as it was before the step
 * that failed. FAULT_USE when a token is none of the vocabulary's or there is no room. */
bool engine_feed(engine *self, const uint32_t *ids, size_t count, bool logits, engine_fault *fault);

/* The logits that the last feed computed, [vocabulary]. FAULT_NOT_FINITE when they are not finite,
 * FAULT_USE when there are none: not asked for, or the context was changed since. */
bool engine_logits(engine *self, float *out, engine_fault *fault);
/* The token of the largest of them, the first of equals, without bringing them to the host.
 * FAULT_NOT_FINITE when none of them is a number. */
bool engine_largest(engine *self, uint32_t *out, engine_fault *fault);

/* Receives the logits behind token index of the ids given; false ends the walk, which is no
 * failure. */
typedef bool engine_row(void *context, size_t index, const float *logits);
/* Appends tokens and hands out the logits behind each one from index first on. */
bool engine_score(engine *self, const uint32_t *ids, size_t count, size_t first, engine_row *row,
                  void *context, engine_fault *fault);

/* What the context holds, position by position. */
const uint32_t *engine_tokens(const engine *self, size_t *count);
/* Keeps the first length positions. */
bool engine_truncate(engine *self, size_t length, engine_fault *fault);
/* Drops count positions from first on; those behind move up. Needs shift. */
bool engine_evict(engine *self, size_t first, size_t count, engine_fault *fault);

/* Bytes of all caches. TENON_UNKNOWN when a provider does not tell. */
uint64_t engine_cache_bytes(const engine *self);
/* How often the context was made again, and how often it dropped positions. */
uint64_t engine_replays(const engine *self);
uint64_t engine_shifts(const engine *self);

#endif
