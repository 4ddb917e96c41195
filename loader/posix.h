/* What the files behind platform.h on POSIX systems share. Nothing else includes it. */
#ifndef TENON_LOADER_POSIX_H
#define TENON_LOADER_POSIX_H

/* directory and name with one slash between them. NULL: no memory. Owned. */
char *posix_join(const char *directory, const char *name);
/* The system's words for an errno, into PLATFORM_TEXT_BYTES. */
void posix_error_text(int error, char *text);
/* The user's directory of one kind: $variable when it is absolute, else ~/fallback. NULL: none, or
 * no memory. Owned. */
char *posix_user_base(const char *variable, const char *fallback);

#endif
