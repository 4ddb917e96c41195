#include <loader/filter.h>
#include <stddef.h>
#include <string.h>

bool filter_glob(const char *glob, uint64_t glob_length, const char *name, uint64_t name_length)
{
    uint64_t g = 0, n = 0, star = UINT64_MAX, retry = 0;
    while (n < name_length) {
        if (g < glob_length && glob[g] == '*') {
            star = g++;
            retry = n;
        } else if (g < glob_length && (glob[g] == '?' || glob[g] == name[n])) {
            g++;
            n++;
        } else if (star != UINT64_MAX) { /* let the last star take one more */
            g = star + 1;
            n = ++retry;
        } else {
            return false;
        }
    }
    while (g < glob_length && glob[g] == '*') g++;
    return g == glob_length;
}

/* The next token at *at, which moves behind it. false: there is none. */
static bool next_token(const char **at, const char **token, uint64_t *length)
{
    const char *end;
    if (*at == NULL) return false;
    while (**at == ',' || **at == ' ' || **at == '\t') ++*at;
    if (**at == '\0') return false;
    *token = *at;
    *at += strcspn(*at, ",");
    end = *at;
    while (end[-1] == ' ' || end[-1] == '\t') end--;
    *length = (uint64_t)(end - *token);
    return true;
}

bool filter_matches(const char *list, const char *name, uint64_t name_length)
{
    const char *token;
    uint64_t length;
    while (next_token(&list, &token, &length))
        if (filter_glob(token, length, name, name_length)) return true;
    return false;
}

bool filter_is_empty(const char *list)
{
    const char *token;
    uint64_t length;
    return !next_token(&list, &token, &length);
}

bool filter_unknown(const char *list, const names *known, const char **token, uint64_t *length)
{
    uint64_t i;
    while (next_token(&list, token, length)) {
        for (i = 0; i < known->count; i++)
            if (filter_glob(*token, *length, known->items[i], strlen(known->items[i]))) break;
        if (i == known->count) return true;
    }
    return false;
}
