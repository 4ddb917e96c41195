#include "history.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(void **items, size_t *capacity, size_t size, size_t count, size_t more)
{
    size_t wanted = *capacity == 0 ? 256 : *capacity;
    void *grown;
    if (more <= *capacity - count) return true;
    while (wanted - count < more) {
        if (wanted > SIZE_MAX / 2) return false;
        wanted *= 2;
    }
    if (wanted > SIZE_MAX / size) return false;
    grown = realloc(*items, wanted * size);
    if (grown == NULL) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

static bool reserve_events(history *self, size_t more)
{
    void *items = self->events;
    bool good = reserve(&items, &self->event_capacity, sizeof *self->events, self->event_count,
                        more);
    self->events = items;
    return good;
}

bool history_add(history *self, const uint32_t *ids, size_t count)
{
    void *items = self->tokens;
    bool good = reserve(&items, &self->token_capacity, sizeof *self->tokens, self->token_count,
                        count);
    size_t i;
    self->tokens = items;
    if (!good || !reserve_events(self, count)) return false;
    for (i = 0; i < count; i++) {
        self->events[self->event_count++] = (history_event){HISTORY_TOKEN, ids[i], 0, 0};
        self->tokens[self->token_count++] = ids[i];
    }
    return true;
}

bool history_evict(history *self, uint64_t first, uint64_t count)
{
    size_t at = (size_t)first, n = (size_t)count;
    if (n == 0) return true;
    if (!reserve_events(self, 1)) return false;
    self->events[self->event_count++] = (history_event){HISTORY_EVICT, 0, first, count};
    memmove(self->tokens + at, self->tokens + at + n,
            (self->token_count - at - n) * sizeof *self->tokens);
    self->token_count -= n;
    return true;
}

bool history_truncate(history *self, uint64_t length)
{
    size_t end = self->event_count;
    size_t drop = self->token_count - (size_t)length;
    /* tokens behind which nothing was changed have left no trace */
    while (drop > 0 && end > 0 && self->events[end - 1].kind == HISTORY_TOKEN) {
        end--;
        drop--;
    }
    if (drop > 0) {
        if (end == self->event_count && !reserve_events(self, 1)) return false;
        self->events[end++] = (history_event){HISTORY_TRUNCATE, 0, length, 0};
    }
    if (length == 0) end = 0; /* an empty context has no past */
    self->event_count = end;
    self->token_count = (size_t)length;
    return true;
}

void history_free(history *self)
{
    free(self->events);
    free(self->tokens);
    memset(self, 0, sizeof *self);
}
