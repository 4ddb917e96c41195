/* Cutting text into words by the patterns of the "gpt2" kind, on PCRE2. */
#ifndef TENON_TOOLS_TOKENIZER_SPLIT_H
#define TENON_TOOLS_TOKENIZER_SPLIT_H

#include "../gguf.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct splitter splitter;
/* What one thread needs to run a splitter. */
typedef struct split_work split_work;

/* The patterns of this name (tokenizer.ggml.pre). NULL with *error when the name is not known.
 * *whole_words: words of this family that are tokens are not merged from bytes. *adds_begin: its
 * models begin with the begin token unless the file says otherwise. */
splitter *splitter_open(const char *name, uint64_t length, bool *whole_words, bool *adds_begin,
                        gguf_error *error);
void splitter_close(splitter *self);

/* NULL when memory is out. */
split_work *split_work_make(const splitter *self);
void split_work_free(split_work *work);

/* A word; false ends the walk. */
typedef bool split_word(void *context, const char *word, size_t length);

/* Calls word for every word of the text, in order; together they are the text. The text must be
 * UTF-8. False when word was false, or when PCRE2 failed, which *failure (PCRE2's number, else 0)
 * says. */
bool splitter_run(const splitter *self, split_work *work, const char *text, size_t length,
                  split_word *word, void *context, int *failure);

#endif
