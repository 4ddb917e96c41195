/* Lists of ids, and the stream that holds back incomplete characters. */
#include "tokens.h"
#include "../text.h"

#include <stdlib.h>
#include <string.h>

bool token_list_add(token_list *self, uint32_t id)
{
    if (self->count == self->capacity) {
        size_t wanted = self->capacity == 0 ? 64 : self->capacity * 2;
        uint32_t *more;
        if (self->capacity > SIZE_MAX / sizeof *more / 2) return false;
        more = realloc(self->ids, wanted * sizeof *more);
        if (more == NULL) return false;
        self->ids = more;
        self->capacity = wanted;
    }
    self->ids[self->count++] = id;
    return true;
}

void token_list_free(token_list *self)
{
    free(self->ids);
    memset(self, 0, sizeof *self);
}

/* Can these bytes, which are no whole character, become one when more follow? */
static bool incomplete(const char *text, size_t count)
{
    static const char fill[2] = {'\x80', '\xBF'};
    char whole[4];
    size_t total, k;
    if (count == 0 || count > 3) return false;
    memcpy(whole, text, count);
    /* the second byte decides about overlong forms, surrogates and the end of the range, so both
     * ends of its range stand for all that may follow */
    for (k = 0; k < 2; k++) {
        for (total = count + 1; total <= 4; total++) {
            memset(whole + count, fill[k], total - count);
            if (text_utf8(whole, total) == total) return true;
        }
    }
    return false;
}

static bool reserve(token_stream *self, size_t wanted)
{
    char *more;
    if (wanted <= self->capacity) return true;
    more = realloc(self->text, wanted);
    if (more == NULL) return false;
    self->text = more;
    self->capacity = wanted;
    return true;
}

static size_t put_replacement(char *at)
{
    memcpy(at, "\xEF\xBF\xBD", 3); /* U+FFFD */
    return 3;
}

bool token_stream_add(token_stream *self, const char *bytes, size_t count, const char **text,
                      size_t *length)
{
    size_t at = 0, i = 0, n;
    *text = "";
    *length = 0;
    if (count > SIZE_MAX / 3 - 8) return false;
    /* every byte may become three */
    if (!reserve(self, (count + self->held_count) * 3 + 1)) return false;
    /* the held beginning, completed byte by byte */
    while (self->held_count > 0 && i < count) {
        self->held[self->held_count++] = bytes[i++];
        n = text_utf8(self->held, self->held_count);
        if (n != 0) {
            memcpy(self->text + at, self->held, n);
            at += n;
            self->held_count = 0;
        } else if (!incomplete(self->held, self->held_count)) {
            /* the newest byte does not belong to it and is looked at again */
            i--;
            for (n = 1; n < self->held_count; n++) at += put_replacement(self->text + at);
            self->held_count = 0;
        }
    }
    while (i < count) {
        n = text_utf8(bytes + i, count - i);
        if (n != 0) {
            memcpy(self->text + at, bytes + i, n);
            at += n;
            i += n;
        } else if (incomplete(bytes + i, count - i)) {
            memcpy(self->held, bytes + i, count - i);
            self->held_count = count - i;
            i = count;
        } else {
            at += put_replacement(self->text + at);
            i++;
        }
    }
    *text = self->text;
    *length = at;
    return true;
}

bool token_stream_end(token_stream *self, const char **text, size_t *length)
{
    size_t at = 0, i;
    *text = "";
    *length = 0;
    if (!reserve(self, self->held_count * 3 + 1)) return false;
    for (i = 0; i < self->held_count; i++) at += put_replacement(self->text + at);
    self->held_count = 0;
    *text = self->text;
    *length = at;
    return true;
}

void token_stream_free(token_stream *self)
{
    free(self->text);
    memset(self, 0, sizeof *self);
}
