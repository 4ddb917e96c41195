#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REMEMBERED 8
#define MAPPINGS 8

static FILE *results;
static bool colour, progress_wanted, progress_shown, document_missing;
static char last_error[512]; /* guarded by the lock of stderr */

/* Read by signal handlers: each slot is one pointer, set and cleared whole. */
static const char *volatile remembered[REMEMBERED];

typedef struct mapping {
    volatile uintptr_t start, end;
    char name[256];
} mapping;
static mapping mappings[MAPPINGS];

/* Removes unfinished files, then dies of the signal as if it had not been caught. */
static void on_interrupt(int number)
{
    size_t i;
    for (i = 0; i < REMEMBERED; i++) {
        const char *path = remembered[i];
        if (path != NULL) unlink(path);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void write_all(const char *text)
{
    size_t length = strlen(text);
    while (length > 0) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n <= 0) return;
        text += n;
        length -= (size_t)n;
    }
}

/* A page of a mapped file is gone: the file was cut after it had been checked. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    size_t i;
    (void)context;
    for (i = 0; i < MAPPINGS; i++) {
        if (mappings[i].end == 0 || at < mappings[i].start || at >= mappings[i].end) continue;
        write_all("tenon: ");
        write_all(mappings[i].name);
        write_all(": the file was cut short while it was in use\n");
        for (i = 0; i < REMEMBERED; i++)
            if (remembered[i] != NULL) unlink(remembered[i]);
        _exit(1);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static bool catch_signals(void)
{
    static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action, old;
    size_t i;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_interrupt;
    for (i = 0; i < sizeof interrupts / sizeof interrupts[0]; i++) {
        /* what the parent ignores (nohup, a background job) stays ignored */
        if (sigaction(interrupts[i], NULL, &old) != 0) return false;
        if (old.sa_handler == SIG_IGN) continue;
        if (sigaction(interrupts[i], &action, NULL) != 0) return false;
    }
    action.sa_handler = NULL;
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGBUS, &action, NULL) == 0;
}

/* A program started with standard descriptors closed would otherwise open its model as stdout. */
static bool fill_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0) return false;
    } while (fd <= STDERR_FILENO);
    return close(fd) == 0;
}

bool terminal_begin(void)
{
    const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
    bool dumb = kind != NULL && strcmp(kind, "dumb") == 0;
    int fd;
    if (!fill_descriptors()) return false;
    fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        terminal_error("cannot set standard output aside: %s", strerror(errno));
        return false;
    }
    results = fdopen(fd, "w");
    if (results == NULL) {
        terminal_error("cannot set standard output aside: %s", strerror(errno));
        return false;
    }
    colour = isatty(fd) && !dumb && (no_colour == NULL || no_colour[0] == '\0');
    progress_wanted = isatty(STDERR_FILENO) && !dumb;
    if (!catch_signals()) {
        terminal_error("cannot catch signals: %s", strerror(errno));
        return false;
    }
    return true;
}

bool terminal_end(void)
{
    bool good = true;
    terminal_progress_end();
    if (results == NULL) return true;
    if (ferror(results) != 0) good = false;
    if (fclose(results) != 0) good = false;
    results = NULL;
    if (!good) terminal_error("cannot write the results: %s", strerror(errno));
    return good;
}

FILE *terminal_out(void)
{
    return results != NULL ? results : stdout;
}

bool terminal_colour(void)
{
    return colour;
}

const char *terminal_green(void)
{
    return colour ? "\033[32m" : "";
}

const char *terminal_red(void)
{
    return colour ? "\033[31m" : "";
}

const char *terminal_dim(void)
{
    return colour ? "\033[2m" : "";
}

const char *terminal_plain(void)
{
    return colour ? "\033[0m" : "";
}

void terminal_progress(const char *format, ...)
{
    va_list arguments;
    if (!progress_wanted) return;
    fputs("\r\033[K", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
    progress_shown = true;
}

void terminal_progress_end(void)
{
    if (!progress_shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress_shown = false;
}

void terminal_error(const char *format, ...)
{
    va_list arguments;
    flockfile(stderr);
    terminal_progress_end();
    if (results != NULL) fflush(results);
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    fputs("tenon: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
}

const char *terminal_last_error(void)
{
    return last_error;
}

void terminal_expect_document(void)
{
    document_missing = true;
}

void terminal_document_printed(void)
{
    document_missing = false;
}

bool terminal_document_missing(void)
{
    return document_missing;
}

bool terminal_remember(const char *path)
{
    size_t i;
    for (i = 0; i < REMEMBERED; i++) {
        if (remembered[i] != NULL) continue;
        remembered[i] = path;
        return true;
    }
    return false;
}

void terminal_forget(const char *path)
{
    size_t i;
    for (i = 0; i < REMEMBERED; i++)
        if (remembered[i] == path) remembered[i] = NULL;
}

void terminal_mapping(const void *start, uint64_t bytes, const char *name)
{
    size_t i;
    for (i = 0; i < MAPPINGS; i++) {
        if (mappings[i].end != 0) continue;
        text_escape(mappings[i].name, sizeof mappings[i].name, name, strlen(name));
        mappings[i].start = (uintptr_t)start;
        mappings[i].end = (uintptr_t)start + (uintptr_t)bytes;
        return;
    }
}

void terminal_mapping_end(const void *start)
{
    size_t i;
    for (i = 0; i < MAPPINGS; i++)
        if (mappings[i].end != 0 && mappings[i].start == (uintptr_t)start) mappings[i].end = 0;
}
