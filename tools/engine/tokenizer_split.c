#include "tokenizer_split.h"
#include "tokenizer_internal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGES_MOST 2u

/* White space as Unicode has it. The \s of PCRE2 counts U+180E, too, the tokenizers do not. */
#define SPACE \
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}" \
    "\\x{205F}\\x{3000}"
/* A run of white space leaves its last character to the word behind it. */
#define SPACES "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define MARKS "[^" SPACE "\\p{L}\\p{N}]+"

/* The pattern that GPT-2 was published with: endings of English contractions in lower case, then
 * runs of letters, of digits and of all else, each with one blank before it. */
#define CONTRACTIONS_LOWER "'s|'t|'re|'ve|'m|'ll|'d"
#define WORDS_GPT2 CONTRACTIONS_LOWER "| ?\\p{L}+| ?\\p{N}+| ?" MARKS "|" SPACES

/* The family of Llama 3 and Qwen 2: contractions in any case; letters with any one character
 * before them that is no letter, digit or end of line; digits in groups; marks with the ends of
 * line behind them; blanks up to an end of line. */
#define CONTRACTIONS_ANY "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
#define WORDS_LINES(digits) \
    CONTRACTIONS_ANY "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?" MARKS "[\\r\\n]*|[" SPACE \
                     "]*[\\r\\n]+|" SPACES

/* Every stage cuts what the one before it gave, matches and the gaps between them alike. */
static const struct family {
    const char *name;
    const char *stages[STAGES_MOST];
    bool whole_words, adds_begin;
} families[] = {
    {"gpt-2", {WORDS_GPT2, NULL}, false, false},
    {"llama-bpe", {WORDS_LINES("\\p{N}{1,3}"), NULL}, true, true},
    {"qwen2", {WORDS_LINES("\\p{N}"), NULL}, false, false},
    /* digits one by one, first of all */
    {"smollm", {"\\p{N}", WORDS_GPT2}, false, false},
};
#define FAMILIES (sizeof families / sizeof families[0])

struct splitter {
    pcre2_code *stages[STAGES_MOST];
    size_t count;
};

struct split_work {
    pcre2_match_context *limits;
    pcre2_match_data *matches[STAGES_MOST];
};

static const struct family *find_family(const char *name, uint64_t length, gguf_error *error)
{
    char shown[TOKENIZER_SHOWN], known[120];
    size_t i, at = 0;
    for (i = 0; i < FAMILIES; i++)
        if (strlen(families[i].name) == length && memcmp(families[i].name, name, length) == 0)
            return &families[i];
    for (i = 0; i < FAMILIES; i++) {
        int n = snprintf(known + at, sizeof known - at, "%s%s", i == 0 ? "" : ", ",
                         families[i].name);
        if (n < 0 || (size_t)n >= sizeof known - at) break;
        at += (size_t)n;
    }
    tokenizer_fail(error, "tokenizer.ggml.pre is '%s', which is not known; known are %s",
                   tokenizer_shown(shown, name, length), known);
    return NULL;
}

splitter *splitter_open(const char *name, uint64_t length, bool *whole_words, bool *adds_begin,
                        gguf_error *error)
{
    const struct family *family = find_family(name, length, error);
    splitter *self;
    if (family == NULL) return NULL;
    *whole_words = family->whole_words;
    *adds_begin = family->adds_begin;
    self = calloc(1, sizeof *self);
    if (self == NULL) {
        tokenizer_no_memory(error);
        return NULL;
    }
    while (self->count < STAGES_MOST && family->stages[self->count] != NULL) {
        int number = 0;
        PCRE2_SIZE where = 0;
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)family->stages[self->count],
                                         PCRE2_ZERO_TERMINATED, PCRE2_UTF, &number, &where, NULL);
        if (code == NULL) {
            tokenizer_fail(error, "PCRE2 refuses the words of '%s' (error %d at %lu)", family->name,
                           number, (unsigned long)where);
            splitter_close(self);
            return NULL;
        }
        /* machine code where it can be had; the same matches without it, only slower */
        (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
        self->stages[self->count++] = code;
    }
    return self;
}

void splitter_close(splitter *self)
{
    size_t i;
    if (self == NULL) return;
    for (i = 0; i < self->count; i++) pcre2_code_free(self->stages[i]);
    free(self);
}

split_work *split_work_make(const splitter *self)
{
    split_work *work = calloc(1, sizeof *work);
    size_t i;
    if (work == NULL) return NULL;
    work->limits = pcre2_match_context_create(NULL);
    if (work->limits == NULL) goto out;
    /* the patterns walk back over a run once; a run of millions of blanks is no attack */
    pcre2_set_match_limit(work->limits, UINT32_MAX);
    for (i = 0; i < self->count; i++) {
        work->matches[i] = pcre2_match_data_create_from_pattern(self->stages[i], NULL);
        if (work->matches[i] == NULL) goto out;
    }
    return work;
out:
    split_work_free(work);
    return NULL;
}

void split_work_free(split_work *work)
{
    size_t i;
    if (work == NULL) return;
    for (i = 0; i < STAGES_MOST; i++) pcre2_match_data_free(work->matches[i]);
    pcre2_match_context_free(work->limits);
    free(work);
}

static int match(const splitter *self, split_work *work, size_t stage, const char *text,
                 size_t length, size_t from)
{
    uint32_t flags = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int found = pcre2_match(self->stages[stage], (PCRE2_SPTR)text, length, from, flags,
                            work->matches[stage], work->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(self->stages[stage], (PCRE2_SPTR)text, length, from,
                            flags | PCRE2_NO_JIT, work->matches[stage], work->limits);
    return found;
}

static bool run(const splitter *self, split_work *work, size_t stage, const char *text,
                size_t length, split_word *word, void *context, int *failure)
{
    size_t at = 0;
    if (length == 0) return true;
    if (stage == self->count) return word(context, text, length);
    while (at < length) {
        const PCRE2_SIZE *ends;
        size_t begin, end;
        int found = match(self, work, stage, text, length, at);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0) {
            *failure = found;
            return false;
        }
        ends = pcre2_get_ovector_pointer(work->matches[stage]);
        begin = ends[0];
        end = ends[1];
        if (!run(self, work, stage + 1, text + at, begin - at, word, context, failure) ||
            !run(self, work, stage + 1, text + begin, end - begin, word, context, failure))
            return false;
        at = end;
    }
    return run(self, work, stage + 1, text + at, length - at, word, context, failure);
}

bool splitter_run(const splitter *self, split_work *work, const char *text, size_t length,
                  split_word *word, void *context, int *failure)
{
    *failure = 0;
    return run(self, work, 0, text, length, word, context, failure);
}
