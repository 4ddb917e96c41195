/* Formatting into fixed room where too long is cut, knowingly. */
#ifndef TENON_LOADER_CUT_H
#define TENON_LOADER_CUT_H

#include <stddef.h>

/* As snprintf, but the cut never leaves half a UTF-8 character. room > 0. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void cut_format(char *out, size_t room, const char *format, ...);
/* A copy of text in room bytes, cut the same way; NULL counts as "". */
void cut_copy(char *out, size_t room, const char *text);

#endif
