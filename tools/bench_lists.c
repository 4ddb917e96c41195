#include "bench_lists.h"

#include <string.h>

/* Appends length bytes as a word. */
static bool add_word(word_list *out, const char *text, size_t length)
{
    if (length == 0 || length >= LIST_WORD_BYTES || out->count == LIST_MAX_WORDS) return false;
    memcpy(out->words[out->count], text, length);
    out->words[out->count][length] = '\0';
    out->count++;
    return true;
}

/* Splits text, which ends at its NUL or at a space. */
static bool split(word_list *out, const char *text)
{
    out->count = 0;
    for (;;) {
        size_t length = strcspn(text, ", ");
        if (!add_word(out, text, length)) return false;
        text += length;
        if (*text != ',') return *text == '\0' || *text == ' ';
        text++;
    }
}

bool list_words(word_list *out, const char *text)
{
    return strchr(text, ' ') == NULL && split(out, text);
}

static bool read_number(const char *text, uint64_t *out)
{
    uint64_t number = 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || number > (UINT64_MAX - 9) / 10) return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *out = number;
    return true;
}

bool list_numbers(number_list *out, const char *text, uint64_t minimum, uint64_t maximum)
{
    word_list words;
    uint32_t i;
    out->count = 0;
    if (!list_words(&words, text)) return false;
    for (i = 0; i < words.count; i++) {
        if (!read_number(words.words[i], &out->numbers[i]) || out->numbers[i] < minimum ||
            out->numbers[i] > maximum)
            return false;
    }
    out->count = words.count;
    return true;
}

/* The value of " key=value" in detail, NULL when it is not there. */
static const char *value_of(const char *detail, const char *key)
{
    size_t length = strlen(key);
    const char *at = detail;
    while (at != NULL && *at != '\0') {
        if (strncmp(at, key, length) == 0 && at[length] == '=') return at + length + 1;
        at = strchr(at, ' ');
        if (at != NULL) at++;
    }
    return NULL;
}

void list_device_levels(const char *detail, char current[LIST_WORD_BYTES], word_list *levels)
{
    const char *value = value_of(detail, "level");
    word_list one = {.count = 0};
    current[0] = '\0';
    levels->count = 0;
    if (value != NULL && split(&one, value)) memcpy(current, one.words[0], LIST_WORD_BYTES);
    value = value_of(detail, "levels");
    if (value != NULL && !split(levels, value)) levels->count = 0;
}
