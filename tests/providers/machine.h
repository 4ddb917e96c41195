/* What the fixtures do to the process they are loaded into: memory of their own, and the
 * misbehaviour of defects.h that reaches past the contract. Included once, by fixture.c. */
#ifndef TENON_TESTS_MACHINE_H
#define TENON_TESTS_MACHINE_H

#if defined(__SSE__)
#include <xmmintrin.h>
#endif
#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#endif

/* ------------------------------------------------------------------ memory */

/* Every object lies 64 bytes inside its allocation: a host that passes one to free() instead of to
 * the provider's own function dies there and then. Zeroed; NULL when memory is short. */
#define ARENA_SHIFT 64u

static void *arena_take(uint64_t bytes)
{
    char *base;
    if (bytes > SIZE_MAX - ARENA_SHIFT) return NULL;
    base = calloc(1, (size_t)bytes + ARENA_SHIFT);
    return base != NULL ? base + ARENA_SHIFT : NULL;
}

static void arena_give(void *object)
{
    if (object != NULL) free((char *)object - ARENA_SHIFT);
}

/* ------------------------------------------------------------------ the process */

/* Flush-to-zero and denormals-are-zero on the calling thread, left on. */
static void machine_flush_to_zero(void)
{
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x8040u);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | (uint64_t)1 << 24));
#endif
}

/* Writes where nothing is mapped. Not quite at address 0, which sanitizers look for. */
static void machine_write_nowhere(void)
{
    volatile uintptr_t nowhere = 64;
    *(volatile int *)nowhere = 1;
}

#if defined(_WIN32)

static void machine_sleep_ms(unsigned ms)
{
    Sleep(ms);
}
static void machine_take_signal(void)
{
    SetUnhandledExceptionFilter(NULL);
}
static void machine_set_locale(void)
{
    SetThreadLocale(0x0407);
}
static void machine_change_directory(void)
{
    SetCurrentDirectoryW(L"C:\\");
}
static DWORD WINAPI machine_idle(void *unused)
{
    (void)unused;
    Sleep(INFINITE);
    return 0;
}
static void machine_leave_thread(void)
{
    CloseHandle(CreateThread(NULL, 0, machine_idle, NULL, 0, NULL));
}
static void machine_leave_descriptor(void)
{
    CreateEventW(NULL, FALSE, FALSE, NULL);
}
#if defined(FIXTURE_AT_LOAD)
static void machine_grow_own_file(void) {} /* the system keeps a loaded file from being written */
#endif

#else

static void machine_sleep_ms(unsigned ms)
{
    struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}
static void machine_on_signal(int number)
{
    (void)number;
}
static void machine_take_signal(void)
{
    struct sigaction action = {.sa_handler = machine_on_signal};
    sigaction(SIGUSR2, &action, NULL);
}
static void machine_set_locale(void)
{
    /* a machine without any other locale still has this name, which is not that of the start */
    if (setlocale(LC_ALL, "C.UTF-8") == NULL) setlocale(LC_NUMERIC, "POSIX");
}
static void machine_change_directory(void)
{
    if (chdir("/") != 0) abort();
}
static void *machine_idle(void *unused)
{
    for (;;) pause();
    return unused;
}
static void machine_leave_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, machine_idle, NULL) == 0) pthread_detach(thread);
}
static void machine_leave_descriptor(void)
{
    if (open("/dev/null", O_RDONLY) < 0) abort();
}
#if defined(FIXTURE_AT_LOAD)
static const char own_address; /* an object of this very file */
static void machine_grow_own_file(void)
{
    Dl_info own;
    FILE *file = dladdr((const void *)&own_address, &own) != 0 ? fopen(own.dli_fname, "ab") : NULL;
    if (file == NULL) abort();
    fputc(0, file);
    fclose(file);
}
#endif

#endif

/* ------------------------------------------------------------------ load and unload */

/* The log service as it was at open, for the variant that still calls it after close. */
static void(TENON_CALL *kept_log)(void *host, uint32_t level, const char *text);
static void *kept_host;

static void keep_services(const tenon_services *services)
{
    kept_log = services->log;
    kept_host = services->host;
}

#if defined(FIXTURE_AT_LOAD)
__attribute__((constructor)) static void fixture_at_load(void)
{
    volatile int forever = DEFECT == DEFECT_LOOPS_AT_LOAD;
    switch (DEFECT) {
    case DEFECT_ABORTS_AT_LOAD: abort();
    case DEFECT_EXITS_AT_LOAD: exit(0);
    case DEFECT_LOOPS_AT_LOAD:
        while (forever) machine_sleep_ms(10);
        break;
    case DEFECT_ILLEGAL_AT_LOAD: __builtin_trap();
    case DEFECT_FLUSHES_AT_LOAD: machine_flush_to_zero(); break;
    case DEFECT_PRINTS_AT_LOAD:
        puts("printed by a provider while loading");
        fflush(stdout);
        break;
    case DEFECT_MARKS_AT_LOAD: {
        const char *path = getenv("FIXTURE_MARK");
        FILE *mark = path != NULL ? fopen(path, "wb") : NULL;
        if (mark != NULL) fclose(mark);
        break;
    }
    case DEFECT_GROWS_AT_LOAD: machine_grow_own_file(); break;
    default: break;
    }
}

__attribute__((destructor)) static void fixture_at_unload(void)
{
    if (DEFECT == DEFECT_LOGS_AT_UNLOAD && kept_log != NULL)
        kept_log(kept_host, TENON_LOG_ERROR, "called after close");
}
#endif

/* ------------------------------------------------------------------ names and sections */

/* The device name of two variants comes from an exported helper and global of the same names: in
 * one global namespace the second file would show the first one's. */
#if defined(FIXTURE_SHARED_NAMES)
TENON_EXPORT extern char fixture_shared_global[32];
TENON_EXPORT char fixture_shared_global[32] = FIXTURE_ID;
TENON_EXPORT const char *fixture_shared_label(void);
TENON_EXPORT const char *fixture_shared_label(void)
{
    return fixture_shared_global;
}
#else
static const char *fixture_shared_label(void)
{
    return FIXTURE_ID;
}
#endif

/* A function that no library has: only the system loader can find out. */
#if defined(FIXTURE_UNRESOLVED)
extern int tenon_fixture_defined_nowhere(void);
extern int (*const fixture_unresolved)(void);
int (*const fixture_unresolved)(void) = tenon_fixture_defined_nowhere;
#endif

/* Thread-local memory in the form that only the start of a process can always provide. */
#if defined(FIXTURE_STATIC_TLS)
extern __thread int fixture_thread_local __attribute__((tls_model("initial-exec")));
__thread int fixture_thread_local __attribute__((tls_model("initial-exec")));
extern int *fixture_thread_local_address(void);
int *fixture_thread_local_address(void)
{
    return &fixture_thread_local;
}
#endif

/* An address inside code, which the system loader has to patch there. */
#if defined(FIXTURE_TEXT_RELOCATION)
__asm__(".pushsection .text\n\t.balign 8\n\t.quad provider_v1\n\t.popsection");
#endif

#endif
