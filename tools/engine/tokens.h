/* Token ids in a list, and token bytes as text while they come. */
#ifndef TENON_TOOLS_TOKENS_H
#define TENON_TOOLS_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_NONE UINT32_MAX /* no id of any vocabulary */

/* Ids in order. Zero-initialised it is empty; the array belongs to the list. */
typedef struct token_list {
    uint32_t *ids;
    size_t count, capacity;
} token_list;

/* Appends one id; false when memory is out, the list is then as before. */
bool token_list_add(token_list *self, uint32_t id);
/* Frees the array; the list is empty and usable afterwards. */
void token_list_free(token_list *self);

/* Turns the bytes of one token after another into text that is always whole UTF-8: the beginning
 * of a character that is still incomplete is held back until its other bytes come, and bytes that
 * can be part of no character become U+FFFD, one each. Zero-initialised it is at the beginning.
 * One thread at a time. */
typedef struct token_stream {
    char *text; /* what the last call gave out */
    size_t capacity;
    char held[4]; /* the beginning of a character, not yet given out */
    size_t held_count;
} token_stream;

/* Takes the bytes of the next token. *text and *length are what can be shown now (perhaps
 * nothing), valid until the next call; false when memory is out, the stream is then as before. */
bool token_stream_add(token_stream *self, const char *bytes, size_t count, const char **text,
                      size_t *length);
/* The end of the stream: what was held back comes out as U+FFFD. The stream is at its beginning
 * again afterwards. */
bool token_stream_end(token_stream *self, const char **text, size_t *length);
void token_stream_free(token_stream *self);

#endif
