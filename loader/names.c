#include <loader/names.h>
#include <stdlib.h>
#include <string.h>

bool names_add(names *self, const char *text, uint64_t length)
{
    char *copy;
    if (self->count == self->capacity) {
        uint64_t capacity = self->capacity == 0 ? 8 : 2 * self->capacity;
        char **items;
        if (capacity > SIZE_MAX / sizeof *items) return false;
        items = realloc(self->items, (size_t)capacity * sizeof *items);
        if (items == NULL) return false;
        self->items = items;
        self->capacity = capacity;
    }
    if (length >= SIZE_MAX) return false;
    copy = malloc((size_t)length + 1);
    if (copy == NULL) return false;
    if (length != 0) memcpy(copy, text, (size_t)length);
    copy[length] = '\0';
    self->items[self->count++] = copy;
    self->bytes += length + 1;
    return true;
}

bool names_add_string(names *self, const char *text)
{
    return names_add(self, text, strlen(text));
}

bool names_has(const names *self, const char *text)
{
    uint64_t i;
    for (i = 0; i < self->count; i++)
        if (strcmp(self->items[i], text) == 0) return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_sort(names *self)
{
    if (self->count > 1) qsort(self->items, (size_t)self->count, sizeof *self->items, by_bytes);
}

void names_clear(names *self)
{
    uint64_t i;
    for (i = 0; i < self->count; i++) free(self->items[i]);
    free(self->items);
    *self = (names){NULL, 0, 0, 0};
}
