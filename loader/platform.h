/* Everything the loader asks of the operating system: one contract, implemented once by posix*.c
 * and once by windows.c. No other file of the loader includes a system header.
 *
 * Strings. Paths and texts are NUL-terminated. POSIX: bytes as the system gives them. Windows:
 * UTF-8 (WTF-8 for unpaired surrogates), converted to wide characters inside windows.c; only the
 * wide calls of the system are used. Returned strings are malloc'd and owned by the caller (free),
 * NULL when there is no such thing or no memory, as each function says.
 *
 * Texts of failures: functions that take `char *text` write the system's own words for the failure
 * there, NUL-terminated and cut to PLATFORM_TEXT_BYTES; they are never NULL. Functions that return
 * a reason answer 0 (TENON_REASON_NONE) when all is well.
 *
 * All functions are [any thread] unless they say otherwise. None keeps state but the one lock. */
#ifndef TENON_LOADER_PLATFORM_H
#define TENON_LOADER_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <loader/loader.h>

#define PLATFORM_TEXT_BYTES 256u

/* What a provider file of this build looks like: its container and machine in the words of
 * image.h, the ending of its name, and the character between the entries of a list of paths. */
#if defined(_WIN32)
#define PLATFORM_CONTAINER "pe"
#define PLATFORM_SUFFIX ".dll"
#define PLATFORM_LIST_SEPARATOR ';'
#elif defined(__APPLE__)
#define PLATFORM_CONTAINER "macho"
#define PLATFORM_SUFFIX ".dylib"
#define PLATFORM_LIST_SEPARATOR ':'
#else
#define PLATFORM_CONTAINER "elf"
#define PLATFORM_SUFFIX ".so"
#define PLATFORM_LIST_SEPARATOR ':'
#endif
#if defined(__x86_64__) || defined(_M_X64)
#define PLATFORM_MACHINE "x86-64"
#elif defined(__aarch64__) || defined(_M_ARM64)
#define PLATFORM_MACHINE "aarch64"
#elif defined(__riscv) && __riscv_xlen == 64
#define PLATFORM_MACHINE "riscv64"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define PLATFORM_MACHINE "ppc64le"
#elif defined(__loongarch64)
#define PLATFORM_MACHINE "loongarch64"
#else
#define PLATFORM_MACHINE "unknown"
#endif

/* ---- the one lock ------------------------------------------------------------------------- */

/* A process-wide, non-recursive lock held while providers are judged and loaded. */
void platform_lock(void);
void platform_unlock(void);

/* ---- paths -------------------------------------------------------------------------------- */

/* Is c a separator of path components? ('/'; on Windows also '\\'.) */
bool platform_is_separator(char c);
/* Does path name the same file from every working directory? (Windows: "C:\..." or "\\...";
 * "C:x" and "\x" are relative.) */
bool platform_is_absolute(const char *path);
/* path made absolute with the working directory; "." and ".." and symbolic links stay as they
 * are. Absolute paths are copied unchanged. NULL: no memory, or no working directory. */
char *platform_absolute(const char *path);
/* The path without links and dots, of a file that exists. NULL: it does not, or no memory. */
char *platform_real_path(const char *path);
/* What the symbolic link at path (its last component is not followed) says, NULL when it is not a
 * link. Windows: NULL always, links are followed by the system. */
char *platform_link_target(const char *path);
/* The real path of the file whose code this is: the shared library, or the executable that the
 * loader is linked into. NULL: unknown. */
char *platform_own_path(void);
/* The directory of providers of this user ($XDG_CONFIG_HOME/tenon/providers or
 * ~/.config/tenon/providers; Windows: %APPDATA%\tenon\providers). NULL: none. Absolute. */
char *platform_user_directory(void);
/* The directory of providers of this system, fixed when built. NULL: none. Absolute. */
char *platform_system_directory(void);

/* ---- environment -------------------------------------------------------------------------- */

/* A copy of the variable, NULL when it is not set. When the process runs with more rights than the
 * user who started it (set-user-id, capabilities; Windows: elevated) the answer is NULL and, if
 * the variable is set, *ignored is true. */
char *platform_environment(const char *name, bool *ignored);

/* ---- files -------------------------------------------------------------------------------- */

/* An open file. */
typedef intptr_t platform_file;
#define PLATFORM_NO_FILE ((platform_file)-1)

/* What a path leads to. */
#define PLATFORM_MISSING 0u
#define PLATFORM_REGULAR 1u
#define PLATFORM_DIRECTORY 2u
#define PLATFORM_OTHER 3u /* a FIFO, a device, a socket */

/* Who could have written, or could replace, a file or the entries of a directory. */
typedef struct platform_access {
    uint32_t kind;      /* PLATFORM_* */
    bool owner_trusted; /* the superuser (Windows: SYSTEM, Administrators, TrustedInstaller) or the
                           effective user of this process */
    bool others_write;  /* everybody may write (o+w; Windows: a write right for Everyone, Users,
                           Authenticated Users, Guests or any user but the trusted ones) */
    bool group_write;   /* a group may write that is not the owner's private one */
    bool sticky;        /* a directory in which only owners may replace their entries */
    char owner[40];     /* for messages: "uid 1000" */
    char mode[40];      /* for messages: "mode 0777" */
} platform_access;

/* Opens path for reading, following links, without ever waiting (a FIFO or a device is opened
 * non-blocking) and without handing the file to child processes. 0, NO_SUCH_PATH, or OPEN_FAILED
 * with text. *out is PLATFORM_NO_FILE unless 0. */
uint32_t platform_file_open(const char *path, platform_file *out, char *text);
/* Identity (all but sha256, which is left alone) and access of an open file. 0 or OPEN_FAILED. */
uint32_t platform_file_facts(platform_file file, loader_identity *identity, platform_access *access,
                             char *text);
/* The same of whatever path leads to now, following links; opens nothing that could wait. A path
 * that does not exist is access->kind PLATFORM_MISSING with answer 0. identity may be NULL. */
uint32_t platform_path_facts(const char *path, loader_identity *identity, platform_access *access,
                             char *text);
/* Reads exactly count bytes at offset. 0, READ_FAILED with text, TRUNCATED when the file ends
 * before. Interrupted and partial reads are continued. */
uint32_t platform_file_read(platform_file file, uint64_t offset, uint8_t *bytes, uint64_t count,
                            char *text);
/* PLATFORM_NO_FILE is allowed. */
void platform_file_close(platform_file file);

/* Calls visit(context, name) for every entry of a directory but "." and "..", in any order, until
 * it returns false. 0, NO_SUCH_PATH or OPEN_FAILED with text. */
uint32_t platform_list(const char *directory, bool (*visit)(void *context, const char *name),
                       void *context, char *text);

/* ---- private cache ------------------------------------------------------------------------ */

/* The directory name ("probe") inside this user's cache directory for Tenon ($XDG_CACHE_HOME/tenon
 * or ~/.cache/tenon; Windows: %LOCALAPPDATA%\tenon\cache), made when it is absent, readable and
 * writable by this user alone. NULL: there is none that nobody else can write, or no memory; the
 * caller then does without. */
char *platform_cache_directory(const char *name);
/* Reads a file of at most capacity bytes that belongs to this user and that nobody else can write;
 * links are not followed. false: there is no such file. */
bool platform_cache_read(const char *directory, const char *name, void *bytes, uint64_t capacity,
                         uint64_t *count);
/* Writes the file as a whole: readers see the old or the new one, whoever writes at the same time.
 * false: it could not be written, nothing is left behind. */
bool platform_cache_write(const char *directory, const char *name, const void *bytes,
                          uint64_t count);
/* Feeds add() with whatever a probe's outcome depends on besides file and helper: processor,
 * system, versions of drivers and runtime libraries as far as they can be told cheaply. */
void platform_fingerprint(void (*add)(void *context, const void *bytes, uint64_t count),
                          void *context);

/* ---- libraries ---------------------------------------------------------------------------- */

/* Is a library that a file needs there? */
#define PLATFORM_DEPENDENCY_FOUND 0u
#define PLATFORM_DEPENDENCY_MISSING 1u /* certainly not: loading would fail */
#define PLATFORM_DEPENDENCY_UNKNOWN 2u /* only loading can tell */
/* library: the name as the file states it. file: absolute path of the needing file. search: the
 * run paths the file states, unexpanded ("$ORIGIN/..."). Loads nothing. */
uint32_t platform_dependency(const char *library, const char *file, const char *const *search,
                             uint64_t search_count);

/* Loads the file of an absolute path: all symbols bound at once, none of them offered to other
 * libraries; dependencies from beside the file and from the system only. NULL with the system's
 * words in text; they are never empty. A library already loaded is counted once more.
 * Windows: no message box ever appears. [lock held] */
void *platform_library_open(const char *path, char *text);
/* The missing library's name when text, from platform_library_open, says that a dependency was not
 * found: copied into name (capacity bytes). false: text says something else. Windows: the system
 * does not tell which; windows.c may look for itself, with file as the path that did not load. */
bool platform_library_missing(const char *text, const char *file, char *name, size_t capacity);
/* The address of an exported object, NULL when there is none of that name. */
const void *platform_library_symbol(void *library, const char *name);
/* Does address lie in this library, not in a dependency of it? */
bool platform_library_owns(void *library, const void *address);
/* Makes a loaded library permanent: it stays mapped until the process ends. */
bool platform_library_keep(void *library, const char *path);
/* NULL is allowed. [lock held] */
void platform_library_close(void *library);

/* ---- the probe: parent side --------------------------------------------------------------- */

#define PLATFORM_ENDED_EXIT 0u /* code is the exit status */
#define PLATFORM_ENDED_SIGNAL \
    1u /* code is the signal (Windows: the exception code), name its name */
#define PLATFORM_ENDED_TIMEOUT 2u /* killed at the time limit */
#define PLATFORM_ENDED_UNKNOWN 3u /* it ended, but somebody else of this process took its status */

/* How a helper ended and what it said. */
typedef struct platform_run_result {
    uint32_t ended;
    int64_t code;
    char name[32];         /* "SIGILL", "exception 0xc000001d"; "" unless SIGNAL */
    char *report;          /* what it wrote to its channel, NUL-terminated, owned */
    uint64_t report_bytes; /* without the NUL */
    bool report_cut;       /* it wrote more than report_limit; the rest was dropped */
    char said[512];        /* the last it printed on stderr, any bytes but NUL, NUL-terminated */
} platform_run_result;

/* Starts program with arguments[0 .. count) (program itself is put before them) in a process group
 * (Windows: a job) of its own, never by a bare fork, with default signal handling, stdin and stdout
 * leading nowhere, stderr captured, and the channel open for platform_channel_write. Waits for its
 * end or the time limit, then kills all that is left of the group. 0, or PROBE_HELPER with text
 * when it could not be started (*result is cleared); NULL report: no memory counts as that too. */
uint32_t platform_run(const char *program, const char *const *arguments, uint64_t count,
                      uint32_t timeout_ms, uint64_t report_limit, platform_run_result *result,
                      char *text);

/* ---- the probe: helper side --------------------------------------------------------------- */

/* First call of the helper: no core files or crash dialogs, ends with its parent, closes every
 * descriptor it was handed but 0, 1, 2 and the channel. */
void platform_helper_begin(void);
/* Writes to the channel of platform_run. false: there is none, or the parent is gone. */
bool platform_channel_write(const void *bytes, uint64_t count);
/* Ends the process at once: no exit handlers, no destructors of the provider. */
void platform_helper_end(int status);

/* What a provider may not change. Read before loading and after close, on the same thread. What a
 * system does not have stays 0 or "". */
typedef struct platform_state {
    uint64_t fp_control;  /* rounding, flush-to-zero, exception masks; not the sticky flags */
    uint64_t signals;     /* a digest of all handlers and of the thread's signal mask */
    uint64_t descriptors; /* open descriptors or handles */
    uint64_t threads;
    char locale[256];
    char directory[1024];
} platform_state;
/* Fills *state. false: it could not be read (no /proc). Threads that have just been joined may
 * take a moment to leave the count: callers that see too many try again. */
bool platform_state_read(platform_state *state);
/* Sleeps for about that long. */
void platform_sleep_ms(uint32_t milliseconds);

#endif
