/* Prompts for conversations, in the words the model was trained with.
 *
 * A file says these words as a program in a template language (tokenizer.chat_template). It is not
 * run: the template is recognised as one of the known families by the marks it writes, and built
 * here. Another one is refused by name, since a model prompted in foreign words answers badly
 * without any sign.
 *
 *   chatml   <|im_start|>role\n text <|im_end|>\n; with the system text of the template when the
 *            conversation brings none
 *   llama-3  <|start_header_id|>role<|end_header_id|>\n\n text <|eot_id|>; with the dates of the
 *            template where it has them
 *   gemma    <start_of_turn>role\n text <end_of_turn>\n; a system message begins the first turn
 *
 * An opened template does not change: any thread may use it. */
#ifndef TENON_TOOLS_CHAT_H
#define TENON_TOOLS_CHAT_H

#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct chat_message {
    const char *role;    /* "system" (only the first), "user" or "assistant" */
    const char *content; /* not NUL-terminated */
    size_t length;
} chat_message;

/* A prompt ready for tokenizer_encode_parts. What the messages say is in literal parts, so that
 * control tokens in it are plain text. Freed with chat_prompt_free. */
typedef struct chat_prompt {
    token_part *parts; /* texts belong to the prompt */
    size_t count;
    uint32_t flags; /* for encoding: TOKENIZER_BEGIN where the template begins with it */
    char *text;     /* all parts in a row */
    size_t length;
} chat_prompt;

typedef struct chat chat;

/* Recognises the template of a file. The tokenizer is of the same file: it must know the marks.
 * NULL with *error when there is no template, an unknown one, or a mark is no token. */
chat *chat_open(const gguf *file, const tokenizer *words, gguf_error *error);
void chat_close(chat *self);
/* "chatml", "llama-3" or "gemma". */
const char *chat_name(const chat *self);

/* Builds the prompt for a conversation; answer: and asks for the assistant's next message. *out
 * needs no initialisation. False with *error when a role is not known or out of order, or memory
 * is out; *out is then empty. */
bool chat_build(const chat *self, const chat_message *messages, size_t count, bool answer,
                chat_prompt *out, gguf_error *error);
void chat_prompt_free(chat_prompt *self);

#endif
