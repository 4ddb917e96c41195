/* Comma-separated lists on the command line, and the instruction-set levels of a device. */
#ifndef TENON_TOOLS_BENCH_LISTS_H
#define TENON_TOOLS_BENCH_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIST_MAX_WORDS 32u
#define LIST_WORD_BYTES 48u

/* Words in the order given. */
typedef struct word_list {
    char words[LIST_MAX_WORDS][LIST_WORD_BYTES];
    uint32_t count;
} word_list;

/* Splits at commas. False when a word is empty or too long, or there are too many. */
bool list_words(word_list *out, const char *text);

/* The same for numbers from minimum to maximum. */
typedef struct number_list {
    uint64_t numbers[LIST_MAX_WORDS];
    uint32_t count;
} number_list;

bool list_numbers(number_list *out, const char *text, uint64_t minimum, uint64_t maximum);

/* What a CPU device says in its detail: "level=avx2 levels=portable,avx2". current is "" and the
 * list empty where it says nothing. */
void list_device_levels(const char *detail, char current[LIST_WORD_BYTES], word_list *levels);

#endif
