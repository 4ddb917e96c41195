/* What a context was made of, in order, so that it can be made again after a device was lost.
 *
 * The tokens alone are not enough: a token that came before an eviction had been seen by those that
 * stayed. So the tokens and the changes between them are kept. */
#ifndef TENON_TOOLS_ENGINE_HISTORY_H
#define TENON_TOOLS_ENGINE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTORY_TOKEN = 1, HISTORY_EVICT, HISTORY_TRUNCATE };

typedef struct history_event {
    uint32_t kind;  /* HISTORY_* */
    uint32_t id;    /* of a token */
    uint64_t first; /* EVICT: first position; TRUNCATE: the length that stays */
    uint64_t count; /* EVICT: positions */
} history_event;

/* Zero-initialised it is empty. */
typedef struct history {
    history_event *events; /* all of it */
    size_t event_count, event_capacity;
    uint32_t *tokens; /* what the context holds now, position by position */
    size_t token_count, token_capacity;
} history;

/* Each changes nothing and returns false when memory is out. */
bool history_add(history *self, const uint32_t *ids, size_t count);
bool history_evict(history *self, uint64_t first, uint64_t count); /* within the tokens */
bool history_truncate(history *self, uint64_t length);             /* at most the tokens */
void history_free(history *self);

#endif
