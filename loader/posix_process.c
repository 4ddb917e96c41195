/* platform.h on Linux and its kin: the helper program, seen from both sides. */
#include <loader/platform.h>
#include <loader/posix.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The descriptor on which a helper finds its channel. Not 1 or 2: providers print. */
enum { CHANNEL = 3, TICK_MS = 20 };

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void signal_name(int number, char name[32])
{
    static const struct {
        int number;
        const char *name;
    } table[] = {
        {SIGABRT, "SIGABRT"}, {SIGALRM, "SIGALRM"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
        {SIGHUP, "SIGHUP"},   {SIGILL, "SIGILL"},   {SIGINT, "SIGINT"},   {SIGKILL, "SIGKILL"},
        {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"}, {SIGSEGV, "SIGSEGV"}, {SIGSYS, "SIGSYS"},
        {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"}, {SIGXCPU, "SIGXCPU"},
    };
    unsigned i;
    for (i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].number == number) {
            snprintf(name, 32, "%s", table[i].name);
            return;
        }
    snprintf(name, 32, "signal %d", number);
}

/* ---- parent side -------------------------------------------------------------------------- */

/* One pipe from the child: the end we read, and the end it writes until it has been started. */
typedef struct stream {
    int ours, theirs;
} stream;

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Both ends are moved up, clear of the numbers that the child's own descriptors get. */
static bool open_stream(stream *self)
{
    int ends[2], i;
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    for (i = 0; i < 2; i++) {
        int up = fcntl(ends[i], F_DUPFD_CLOEXEC, 16);
        close(ends[i]);
        ends[i] = up;
    }
    self->ours = ends[0];
    self->theirs = ends[1];
    return self->ours >= 0 && self->theirs >= 0 && fcntl(self->ours, F_SETFL, O_NONBLOCK) == 0;
}

static int start(const char *program, const char *const *arguments, uint64_t count, int channel,
                 int errors, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char **argv = calloc((size_t)count + 2, sizeof *argv);
    int error;
    uint64_t i;
    if (argv == NULL) return ENOMEM;
    /* exec does not write to its arguments; its type says otherwise for historical reasons. */
    memcpy(&argv[0], &program, sizeof program);
    for (i = 0; i < count; i++) memcpy(&argv[i + 1], &arguments[i], sizeof arguments[i]);
    error = posix_spawn_file_actions_init(&actions);
    if (error != 0) goto free_argv;
    error = posix_spawnattr_init(&attributes);
    if (error != 0) goto free_actions;
    sigemptyset(&none);
    sigfillset(&all);
    if ((error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) == 0 &&
        (error = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, errors, 2)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, channel, CHANNEL)) == 0 &&
        (error = posix_spawnattr_setpgroup(&attributes, 0)) == 0 &&
        (error = posix_spawnattr_setsigmask(&attributes, &none)) == 0 &&
        (error = posix_spawnattr_setsigdefault(&attributes, &all)) == 0 &&
        (error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                                           POSIX_SPAWN_SETSIGMASK |
                                                           POSIX_SPAWN_SETSIGDEF)) == 0)
        error = posix_spawn(pid, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
free_actions:
    posix_spawn_file_actions_destroy(&actions);
free_argv:
    free(argv);
    return error;
}

/* Takes what a stream holds now. false: it is at its end. */
static bool drain(int fd, void (*take)(platform_run_result *, const char *, uint64_t, uint64_t),
                  platform_run_result *result, uint64_t limit)
{
    char bytes[4096];
    unsigned turns;
    /* A child that never stops talking must not keep us from looking at the clock. */
    for (turns = 0; turns < 64; turns++) {
        ssize_t count = read(fd, bytes, sizeof bytes);
        if (count < 0) return errno == EAGAIN || errno == EINTR;
        if (count == 0) return false;
        take(result, bytes, (uint64_t)count, limit);
    }
    return true;
}

static void take_report(platform_run_result *result, const char *bytes, uint64_t count,
                        uint64_t limit)
{
    uint64_t room = limit - result->report_bytes;
    if (count > room) {
        result->report_cut = true;
        count = room;
    }
    memcpy(result->report + result->report_bytes, bytes, (size_t)count);
    result->report_bytes += count;
    result->report[result->report_bytes] = '\0';
}

/* Keeps the last bytes. */
static void take_said(platform_run_result *result, const char *bytes, uint64_t count,
                      uint64_t limit)
{
    const uint64_t capacity = sizeof result->said - 1;
    uint64_t held = strlen(result->said), i;
    (void)limit;
    for (i = 0; i < count; i++) {
        if (held == capacity) {
            memmove(result->said, result->said + capacity / 2, (size_t)(capacity - capacity / 2));
            held = capacity - capacity / 2;
        }
        result->said[held++] = bytes[i] != '\0' ? bytes[i] : ' ';
    }
    result->said[held] = '\0';
}

/* Has the child ended? It stays unreaped, so that its number still is its group's; *lost: somebody
 * else of this process took it, and the number may by now be anybody's. */
static bool has_ended(pid_t pid, bool *lost)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        *lost = errno == ECHILD;
        return *lost;
    }
    return info.si_pid == pid;
}

/* Ends what is left of the group, then takes the child's status. */
static void finish(pid_t pid, bool late, bool lost, platform_run_result *result)
{
    int status = 0;
    pid_t got = -1;
    if (!lost) {
        kill(-pid, SIGKILL);
        if (late) kill(pid, SIGKILL); /* it may have left its group */
        do got = waitpid(pid, &status, 0);
        while (got < 0 && errno == EINTR);
    }
    if (late) {
        result->ended = PLATFORM_ENDED_TIMEOUT;
    } else if (got != pid) {
        result->ended = PLATFORM_ENDED_UNKNOWN;
    } else if (WIFSIGNALED(status)) {
        result->ended = PLATFORM_ENDED_SIGNAL;
        result->code = WTERMSIG(status);
        signal_name(WTERMSIG(status), result->name);
    } else {
        result->ended = PLATFORM_ENDED_EXIT;
        result->code = WEXITSTATUS(status);
    }
}

uint32_t platform_run(const char *program, const char *const *arguments, uint64_t count,
                      uint32_t timeout_ms, uint64_t report_limit, platform_run_result *result,
                      char *text)
{
    stream channel = {-1, -1}, errors = {-1, -1};
    uint64_t begun = now_ms();
    bool talking = true, complaining = true, late = false, lost = false;
    uint32_t reason = TENON_REASON_PROBE_HELPER;
    pid_t pid = -1;
    int error;
    memset(result, 0, sizeof *result);
    text[0] = '\0';
    result->report = malloc((size_t)report_limit + 1);
    if (result->report == NULL) {
        posix_error_text(ENOMEM, text);
        goto out;
    }
    result->report[0] = '\0';
    if (!open_stream(&channel) || !open_stream(&errors)) {
        posix_error_text(errno, text);
        goto out;
    }
    error = start(program, arguments, count, channel.theirs, errors.theirs, &pid);
    if (error != 0) {
        posix_error_text(error, text);
        goto out;
    }
    close_fd(&channel.theirs);
    close_fd(&errors.theirs);
    reason = TENON_REASON_NONE;
    for (;;) {
        struct pollfd ends[2] = {{channel.ours, POLLIN, 0}, {errors.ours, POLLIN, 0}};
        bool ended;
        if (!talking) ends[0].fd = -1;
        if (!complaining) ends[1].fd = -1;
        ended = has_ended(pid, &lost);
        if (!ended) poll(ends, 2, talking || complaining ? TICK_MS : 1);
        if (talking) talking = drain(channel.ours, take_report, result, report_limit);
        if (complaining) complaining = drain(errors.ours, take_said, result, 0);
        if (ended) break; /* whatever it wrote was in the pipes before it ended */
        late = now_ms() - begun >= timeout_ms;
        if (late) break;
    }
    finish(pid, late, lost, result);
out:
    close_fd(&channel.ours);
    close_fd(&channel.theirs);
    close_fd(&errors.ours);
    close_fd(&errors.theirs);
    if (reason != TENON_REASON_NONE) {
        free(result->report);
        memset(result, 0, sizeof *result);
    }
    return reason;
}

/* ---- helper side -------------------------------------------------------------------------- */

/* Calls visit for every descriptor but the one that lists them. false: there is no list. */
static bool each_descriptor(void (*visit)(void *context, int fd), void *context)
{
    DIR *list = opendir("/proc/self/fd");
    const struct dirent *entry;
    if (list == NULL) return false;
    while ((entry = readdir(list)) != NULL) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == '\0' && fd != dirfd(list)) visit(context, (int)fd);
    }
    closedir(list);
    return true;
}

static void close_inherited(void *context, int fd)
{
    (void)context;
    if (fd > CHANNEL) close(fd);
}

void platform_helper_begin(void)
{
    const struct rlimit none = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGPIPE, SIG_IGN);
    each_descriptor(close_inherited, NULL);
}

bool platform_channel_write(const void *bytes, uint64_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t put = write(CHANNEL, at, (size_t)count);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put;
        count -= (uint64_t)put;
    }
    return true;
}

void platform_helper_end(int status)
{
    _exit(status);
}

static void count_one(void *context, int fd)
{
    (void)fd;
    ++*(uint64_t *)context;
}

static bool count_threads(uint64_t *count)
{
    DIR *list = opendir("/proc/self/task");
    const struct dirent *entry;
    *count = 0;
    if (list == NULL) return false;
    while ((entry = readdir(list)) != NULL) *count += entry->d_name[0] != '.';
    closedir(list);
    return true;
}

static uint64_t fp_control(void)
{
#if defined(__x86_64__)
    uint32_t sse;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0" : "=m"(sse));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)(sse & ~0x3fu) << 16 | x87; /* all but the sticky flags */
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
#else
    return 0;
#endif
}

/* FNV-1a over the handlers and flags of all signals and the mask. */
static uint64_t signal_digest(void)
{
    uint64_t digest = 0xcbf29ce484222325u;
    sigset_t mask;
    int number;
    sigemptyset(&mask);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action;
        uint64_t words[3] = {0, 0, (uint64_t)sigismember(&mask, number)};
        unsigned i;
        memset(&action, 0, sizeof action);
        if (sigaction(number, NULL, &action) == 0) {
            memcpy(&words[0], &action.sa_handler, sizeof action.sa_handler);
            words[1] = (uint64_t)(unsigned)action.sa_flags;
        }
        for (i = 0; i < 3; i++) digest = (digest ^ words[i]) * 0x100000001b3u;
    }
    return digest;
}

bool platform_state_read(platform_state *state)
{
    const char *locale = setlocale(LC_ALL, NULL);
    bool good;
    memset(state, 0, sizeof *state);
    state->fp_control = fp_control();
    state->signals = signal_digest();
    snprintf(state->locale, sizeof state->locale, "%s", locale != NULL ? locale : "");
    good = getcwd(state->directory, sizeof state->directory) != NULL || errno == ENOENT ||
           errno == ERANGE;
    good = each_descriptor(count_one, &state->descriptors) && good;
    return count_threads(&state->threads) && good;
}

void platform_sleep_ms(uint32_t milliseconds)
{
    struct timespec left = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}
