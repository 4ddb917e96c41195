/* What the files of the tokenizer share. */
#ifndef TENON_TOOLS_TOKENIZER_INTERNAL_H
#define TENON_TOOLS_TOKENIZER_INTERNAL_H

#include "tokenizer.h"
#include "tokenizer_merge.h"
#include "tokenizer_split.h"

/* Types of tokens, by the numbers of the file format. */
enum {
    TOKEN_UNDEFINED = 0,
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

enum { TOKENIZER_GPT2 = 1, TOKENIZER_LLAMA = 2 };

#define TOKENIZER_COUNT_LARGEST (UINT32_C(1) << 24) /* tokens of a vocabulary */
#define TOKENIZER_SPECIAL_LONGEST 4096u /* bytes of a special token: bounds the search for them */

/* The tokens: their texts as the file has them, and what these stand for. */
typedef struct vocabulary {
    uint32_t count;
    char *texts;       /* one after the other */
    uint32_t *text_at; /* [count + 1] */
    char *pieces;
    uint32_t *piece_at; /* [count + 1] */
    uint8_t *types;     /* [count] */
    uint32_t *orders;   /* [count] llama: smaller is joined first; else NULL */
    uint32_t longest;   /* bytes of the longest text */
    /* from text to id: open addressing, TOKEN_NONE where free */
    struct vocabulary_slot {
        uint32_t id, tag;
    } * slots;
    uint64_t slot_mask; /* number of slots - 1, a power of two - 1 */
    uint64_t seed;      /* another one every time: a file cannot aim at collisions */
} vocabulary;

/* Reads tokens, types and (llama) scores; pieces are left to the kind. False with *error. */
bool vocabulary_read(vocabulary *self, const gguf *file, bool scored, gguf_error *error);
void vocabulary_free(vocabulary *self);
/* Id of a text as the file writes it, TOKEN_NONE when there is none. */
uint32_t vocabulary_find(const vocabulary *self, const char *text, size_t length);
const char *vocabulary_text(const vocabulary *self, uint32_t id, size_t *length);

/* The merges of gpt2: from a pair of ids to the id they give and its rank. */
typedef struct pair_table {
    struct pair_slot {
        uint64_t key; /* left id << 32 | right id, UINT64_MAX where free */
        uint32_t order, id;
    } * slots;
    uint64_t slot_mask, seed;
} pair_table;

/* Special tokens, sorted by text. */
typedef struct special_tokens {
    uint32_t *ids;
    uint32_t count;
    uint32_t first[257]; /* those that begin with byte b: first[b] to first[b + 1] */
} special_tokens;

struct tokenizer {
    int kind;
    vocabulary words;
    special_tokens specials;
    uint8_t *ends; /* [count], 1: a generation ends with it */
    uint32_t begin, end, end_of_turn, unknown;
    bool adds_begin;
    uint32_t bytes[256]; /* the token of a single byte, TOKEN_NONE: there is none */
    /* gpt2 */
    splitter *split;
    pair_table pairs;
    bool whole_words; /* a word that is a token is taken as it is, whatever the merges say */
    /* llama */
    bool space_prefix;
};

/* One call of encoding: what it works with and what it has made. */
typedef struct encoding {
    const tokenizer *self;
    token_list *out;
    uint64_t lost;
    split_work *split;
    merge_work merge;
    char *text; /* scratch */
    size_t text_capacity;
    gguf_error *error;
} encoding;

/* Fills error (may be NULL) with one line. Always returns false. */
bool tokenizer_fail(gguf_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool tokenizer_no_memory(gguf_error *error);
/* Foreign text for an error, cut to what is readable in one line. */
#define TOKENIZER_SHOWN 80u
const char *tokenizer_shown(char buffer[TOKENIZER_SHOWN], const char *text, uint64_t length);
/* Makes room for size bytes of scratch. False with the encoding's error. */
bool encoding_reserve(encoding *work, size_t size);
/* Appends an id. False with the encoding's error. */
bool encoding_put(encoding *work, uint32_t id);
uint64_t tokenizer_mix(uint64_t value);

/* Each kind: the rest of opening, freeing, and encoding text without special tokens in it.
 * after_special: nothing or a special token precedes the text. */
bool gpt2_open(tokenizer *self, const gguf *file, gguf_error *error);
void gpt2_close(tokenizer *self);
bool gpt2_encode(encoding *work, const char *text, size_t length);
bool llama_open(tokenizer *self, const gguf *file, gguf_error *error);
bool llama_encode(encoding *work, const char *text, size_t length, bool after_special);

bool special_tokens_open(tokenizer *self, gguf_error *error);
/* The longest special token at the beginning of text, TOKEN_NONE when there is none. A control
 * token must be no longer than plain, the bytes of text before a literal part. */
uint32_t special_tokens_match(const tokenizer *self, const char *text, size_t length, size_t plain,
                              size_t *matched);

#endif
