#include "text.h"

#include <stdbool.h>
#include <string.h>

size_t text_utf8(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    uint32_t code, least;
    size_t need, i;
    if (length == 0) return 0;
    if (s[0] < 0x80) return 1;
    if (s[0] >= 0xC2 && s[0] <= 0xDF) {
        need = 2;
        code = s[0] & 0x1Fu;
        least = 0x80;
    } else if (s[0] >= 0xE0 && s[0] <= 0xEF) {
        need = 3;
        code = s[0] & 0x0Fu;
        least = 0x800;
    } else if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        need = 4;
        code = s[0] & 0x07u;
        least = 0x10000;
    } else {
        return 0;
    }
    if (length < need) return 0;
    for (i = 1; i < need; i++) {
        if ((s[i] & 0xC0u) != 0x80u) return 0;
        code = code << 6 | (s[i] & 0x3Fu);
    }
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0;
    return need;
}

/* One character or one escaped byte of text into out (at least 5 bytes); *taken says how much of
 * text that was. Returns the bytes written. C1 controls (U+0080 to U+009F) can steer terminals. */
static size_t escape_one(const char *text, size_t length, char out[5], size_t *taken)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *s = (const unsigned char *)text;
    size_t n = text_utf8(text, length);
    bool control = (n == 1 && (s[0] < 0x20 || s[0] == 0x7F)) ||
                   (n == 2 && s[0] == 0xC2 && s[1] < 0xA0);
    if (n != 0 && !control) {
        memcpy(out, text, n);
        *taken = n;
        return n;
    }
    out[0] = '\\';
    out[1] = 'x';
    out[2] = digits[s[0] >> 4];
    out[3] = digits[s[0] & 15];
    *taken = 1;
    return 4;
}

const char *text_escape(char *buffer, size_t size, const char *text, size_t length)
{
    size_t at = 0, i = 0;
    while (i < length) {
        char one[5];
        size_t taken, n = escape_one(text + i, length - i, one, &taken);
        if (at + n + 1 > size) break;
        memcpy(buffer + at, one, n);
        at += n;
        i += taken;
    }
    buffer[at] = '\0';
    return buffer;
}

void text_print(FILE *stream, const char *text, size_t length)
{
    size_t i = 0;
    while (i < length) {
        char one[5];
        size_t taken, n = escape_one(text + i, length - i, one, &taken);
        fwrite(one, 1, n, stream);
        i += taken;
    }
}

size_t text_distance(const char *a, const char *b)
{
    size_t row[64], la = strlen(a), lb = strlen(b), i, j;
    if (la > 63) la = 63;
    if (lb > 63) lb = 63;
    for (j = 0; j <= lb; j++) row[j] = j;
    for (i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (j = 1; j <= lb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1] ? 1u : 0u);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}
