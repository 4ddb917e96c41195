/* What the three files behind platform.h on Windows share: strings in both encodings, texts of
 * failures. Nothing else includes it. */
#ifndef TENON_LOADER_WINDOWS_SHARED_H
#define TENON_LOADER_WINDOWS_SHARED_H

#include <loader/platform.h>

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

/* UTF-8 to UTF-16. An unpaired surrogate, written as three bytes (WTF-8), stays one, so every file
 * name of the system survives the way there and back. NULL: not UTF-8, or no memory. Owned. */
wchar_t *windows_wide(const char *text);
/* The way back; never fails but for memory. Owned. */
char *windows_narrow(const wchar_t *text);
/* windows_wide of a path for a system call: '/' becomes '\', and a long absolute path gets the
 * prefix that lifts the limit of 260 characters. NULL as above. Owned. */
wchar_t *windows_path(const char *path);
/* The system's words for an error, its number after them: "Access is denied (error 5)". */
void windows_error_text(DWORD error, char *text);
/* directory and name with one separator between them. NULL: no memory. Owned. */
char *windows_join(const char *directory, const char *name);

#endif
