/* One line per verdict (SPEC.md 4.2). Names of files, symbols and libraries come from strangers:
 * nothing of them may end the line, forge a field or reach the terminal as a control sequence. */
#include <loader/verdict.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

/* The length of the well-formed UTF-8 character at text (Unicode 15, table 3-7), 0: none. */
static unsigned character(const unsigned char *text, uint32_t *code)
{
    unsigned length, i;
    uint32_t c = text[0], low;
    if (c < 0x80) {
        *code = c;
        return c != 0 ? 1 : 0;
    }
    if (c < 0xc2 || c > 0xf4) return 0;
    length = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    low = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    c &= 0xffu >> (length + 1);
    for (i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (text[i] & 0x3fu);
    }
    if (c < low || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *code = c;
    return length;
}

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
}

typedef struct sink {
    char *out;
    uint64_t capacity, used;
} sink;

static void put(sink *self, const char *bytes, uint64_t count)
{
    uint64_t i;
    for (i = 0; i < count; i++, self->used++)
        if (self->used + 1 < self->capacity) self->out[self->used] = bytes[i];
}

uint64_t line_escape(const char *text, char *out, uint64_t capacity)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)text;
    sink to = {out, capacity, 0};
    while (*at != 0) {
        uint32_t code = 0;
        unsigned length = character(at, &code), i;
        if (length == 0 || is_control(code)) {
            if (length == 0) length = 1;
            for (i = 0; i < length; i++) {
                const char hex[4] = {'\\', 'x', digits[at[i] >> 4], digits[at[i] & 15]};
                if (at[i] == '\n')
                    put(&to, "\\n", 2);
                else if (at[i] == '\r')
                    put(&to, "\\r", 2);
                else if (at[i] == '\t')
                    put(&to, "\\t", 2);
                else
                    put(&to, hex, 4);
            }
        } else {
            if (code == '"' || code == '\\') put(&to, "\\", 1);
            put(&to, (const char *)at, length);
        }
        at += length;
    }
    if (capacity > 0) out[to.used < capacity ? to.used : capacity - 1] = '\0';
    return to.used;
}

/* Words of these characters alone need no quotes. */
static bool is_plain(const char *text)
{
    const char *at;
    for (at = text; *at != '\0'; at++)
        if (!(*at >= 'a' && *at <= 'z') && !(*at >= 'A' && *at <= 'Z') &&
            !(*at >= '0' && *at <= '9') && strchr("_.+-:/", *at) == NULL)
            return false;
    return at != text;
}

static void put_field(sink *to, const char *key, const char *value, bool quoted)
{
    uint64_t count;
    if (value[0] == '\0') return;
    put(to, " ", 1);
    put(to, key, strlen(key));
    put(to, "=", 1);
    quoted = quoted || !is_plain(value);
    if (quoted) put(to, "\"", 1);
    if (to->used < to->capacity)
        count = line_escape(value, to->out + to->used, to->capacity - to->used);
    else
        count = line_escape(value, NULL, 0);
    to->used += count;
    if (quoted) put(to, "\"", 1);
}

static void put_line(sink *to, const loader_verdict *verdict)
{
    static const char *const stages[] = {"",     "policy", "open",  "static", "probe",
                                         "load", "bind",   "check", "publish"};
    const char *word = verdict->verdict == TENON_CANDIDATE_REFUSED   ? "refused"
                       : verdict->verdict == TENON_CANDIDATE_SKIPPED ? "skipped"
                       : verdict->stage == TENON_STAGE_PUBLISH       ? "loaded"
                                                                     : "accepted";
    char number[16] = "";
    if (verdict->reason != 0) snprintf(number, sizeof number, "%u", (unsigned)verdict->reason);
    put(to, "tenon: ", 7);
    put(to, word, strlen(word));
    put_field(to, "provider", verdict->id, false);
    if (verdict->verdict == TENON_CANDIDATE_LOADED)
        put_field(to, "version", verdict->version, true);
    put_field(to, "stage", verdict->stage < 9 ? stages[verdict->stage] : "", false);
    put_field(to, "reason", number, false);
    put_field(to, "symbol", verdict->symbol, false);
    put_field(to, "file", verdict->file, true);
    put_field(to, "have", verdict->have, false);
    put_field(to, "need", verdict->need, false);
    put_field(to, "hint", verdict->hint, true);
    put_field(to, "text", verdict->text, true);
}

char *line_render(const loader_verdict *verdict)
{
    sink measure = {NULL, 0, 0}, to = {NULL, 0, 0};
    put_line(&measure, verdict);
    to.capacity = measure.used + 1;
    to.out = to.capacity <= SIZE_MAX ? malloc((size_t)to.capacity) : NULL;
    if (to.out == NULL) return NULL;
    put_line(&to, verdict);
    to.out[to.used] = '\0';
    return to.out;
}
