/* The tokenizer of a model file: text to token ids and back (SPEC.md 3.3 for the file format).
 *
 * Two kinds, by the file's tokenizer.ggml.model:
 *   "gpt2"   byte-pair encoding over bytes with a list of merges. A pattern cuts the text into
 *            words first; tokenizer.ggml.pre names it: gpt-2, llama-bpe, qwen2 or smollm. Others
 *            are refused by name, since a wrong pattern gives wrong ids without any sign.
 *   "llama"  sentencepiece: characters are joined by the scores of the tokens they give, what is no
 *            token is spelled in byte tokens. Spaces are U+2581 inside the file. A space is put
 *            before the text, and before text behind a special token, unless the file says
 *            tokenizer.ggml.add_space_prefix = false.
 * Words of the file that a kind does not use (add_space_prefix for gpt2) are not looked at.
 *
 * Text is bytes. NUL is a character like others. Bytes that are no UTF-8 belong to no word: a run
 * of them stands alone (gpt2) or every one of them (llama), and is spelled in the tokens of these
 * very bytes, so that nothing changes on the way there and back. Which characters are letters and
 * digits is a matter of the Unicode version of the PCRE2 library that is linked.
 *
 * An opened tokenizer does not change: any number of threads may use it at once. It copies what it
 * needs, so the file may be closed before it. */
#ifndef TENON_TOOLS_TOKENIZER_H
#define TENON_TOOLS_TOKENIZER_H

#include "../gguf.h"
#include "tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENIZER_TEXT_LONGEST (UINT64_C(1) << 30) /* bytes that one call encodes at most */

/* Flags of encoding. */
enum {
    TOKENIZER_BEGIN = 1u /* the begin token first, if the vocabulary has one */
};

/* A piece of text. The pieces of one call are encoded as if they were one text; only control
 * tokens must not touch a literal piece: what a user typed cannot end his own turn. */
typedef struct token_part {
    const char *text; /* not NUL-terminated */
    size_t length;
    bool literal;
} token_part;

typedef struct tokenizer tokenizer;

/* Reads and checks the vocabulary of a model file. Returns NULL and fills *error, naming the key,
 * when it is missing, wrong in itself or of an unknown kind. */
tokenizer *tokenizer_open(const gguf *file, gguf_error *error);
/* Frees. NULL is allowed. */
void tokenizer_close(tokenizer *self);

/* Ids go from 0 to count - 1. */
uint32_t tokenizer_count(const tokenizer *self);

/* The bytes that a token stands for, owned by the tokenizer; of control tokens, their names.
 * NULL and length 0 when id is none of the vocabulary's. */
const char *tokenizer_piece(const tokenizer *self, uint32_t id, size_t *length);

/* The token that is called so in the file, TOKEN_NONE when there is none. Meant for control
 * tokens: the names of others are written in the file's own alphabet. */
uint32_t tokenizer_find(const tokenizer *self, const char *name, size_t length);

/* Single tokens the file names, TOKEN_NONE when it does not. */
uint32_t tokenizer_begin(const tokenizer *self);
uint32_t tokenizer_end(const tokenizer *self);
uint32_t tokenizer_end_of_turn(const tokenizer *self);
uint32_t tokenizer_unknown(const tokenizer *self);

/* Does a generation end with this token? True for the tokens the file names as an end (of text,
 * turn or message), and for control tokens of such names that files forget to list. */
bool tokenizer_is_end(const tokenizer *self, uint32_t id);
/* Is it a control token, which stands for no text? */
bool tokenizer_is_control(const tokenizer *self, uint32_t id);
/* Was the model trained with the begin token before every text? By the file's
 * tokenizer.ggml.add_bos_token, else the habit of the kind (llama, llama-bpe: yes). Encoding
 * itself goes by TOKENIZER_BEGIN alone. */
bool tokenizer_adds_begin(const tokenizer *self);

/* Appends the ids of a text to *out. Special tokens (control, unknown and user-defined ones) that
 * occur in the text are recognised, at every place the longest. Bytes that the vocabulary has no
 * token for become its unknown token (llama) or are left out, as in training (gpt2); *lost (may be
 * NULL) counts them. False with *error when memory is out or the text too long; *out then holds
 * what it held before. */
bool tokenizer_encode(const tokenizer *self, const char *text, size_t length, uint32_t flags,
                      token_list *out, uint64_t *lost, gguf_error *error);
bool tokenizer_encode_parts(const tokenizer *self, const token_part *parts, size_t count,
                            uint32_t flags, token_list *out, uint64_t *lost, gguf_error *error);

#endif
