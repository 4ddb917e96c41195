#include <loader/cut.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Takes a character that lost its end off the end of a text that was cut. */
static void mend(char *out)
{
    size_t length = strlen(out), start = length, wanted;
    unsigned char lead;
    while (start > 0 && length - start < 3 && ((unsigned char)out[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0) return;
    lead = (unsigned char)out[start - 1];
    wanted = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead >= 0xc0 && length - (start - 1) < wanted) out[start - 1] = '\0';
}

void cut_format(char *out, size_t room, const char *format, ...)
{
    va_list list;
    int wanted;
    va_start(list, format);
    wanted = vsnprintf(out, room, format, list);
    va_end(list);
    if (wanted < 0) out[0] = '\0';
    if (wanted > 0 && (size_t)wanted >= room) mend(out);
}

void cut_copy(char *out, size_t room, const char *text)
{
    size_t length = text != NULL ? strlen(text) : 0;
    size_t count = length < room ? length : room - 1;
    if (count > 0) memcpy(out, text, count);
    out[count] = '\0';
    if (count < length) mend(out);
}
