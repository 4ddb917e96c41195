/* platform.h on Windows: the probe, parent side and helper side. */
#include "windows_shared.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tlhelp32.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* The variable that tells the helper the handle of its channel: handles fit 32 bits. */
#define CHANNEL_VARIABLE L"TENON_PROBE_CHANNEL"

/* ---- parent side ---------------------------------------------------------------------------- */

/* One direction out of the helper: read to its end by a thread of its own, so that neither pipe can
 * fill up while the other is waited for. */
typedef struct stream {
    HANDLE reading, writing, thread;
    char *bytes; /* the first limit bytes, or with keep_last the last ones */
    uint64_t count, limit;
    bool keep_last, cut, no_memory;
} stream;

/* Adds what was read. The whole of it is kept up to limit; after that the rest, or with keep_last
 * the beginning, is dropped. */
static void stream_add(stream *self, const char *bytes, uint64_t count)
{
    uint64_t room = self->limit - self->count;
    char *longer;
    if (count > room) {
        self->cut = true;
        if (self->keep_last) {
            uint64_t drop = count - room;
            if (drop > self->count) drop = self->count;
            memmove(self->bytes, self->bytes + drop, (size_t)(self->count - drop));
            self->count -= drop;
            room = self->limit - self->count;
            if (count > room) {
                bytes += count - room;
                count = room;
            }
        } else {
            count = room;
        }
    }
    longer = realloc(self->bytes, (size_t)(self->count + count + 1));
    if (longer == NULL) {
        self->no_memory = true;
        return;
    }
    self->bytes = longer;
    memcpy(self->bytes + self->count, bytes, (size_t)count);
    self->count += count;
    self->bytes[self->count] = '\0';
}

static DWORD WINAPI stream_read(void *context)
{
    stream *self = context;
    char part[4096];
    DWORD got;
    while (ReadFile(self->reading, part, sizeof part, &got, NULL) && got > 0)
        stream_add(self, part, got);
    return 0;
}

static void close_handle(HANDLE *handle)
{
    if (*handle != NULL && *handle != INVALID_HANDLE_VALUE) CloseHandle(*handle);
    *handle = NULL;
}

/* Both ends; only the writing one may be inherited. */
static bool stream_open(stream *self)
{
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
    return CreatePipe(&self->reading, &self->writing, &inherited, 0) &&
           SetHandleInformation(self->reading, HANDLE_FLAG_INHERIT, 0);
}

/* A command line under construction. */
typedef struct line {
    wchar_t *text;
    size_t count, room;
    bool bad;
} line;

static void line_add(line *self, wchar_t c)
{
    if (self->count + 1 >= self->room) {
        size_t room = self->room == 0 ? 256 : self->room * 2;
        wchar_t *longer = realloc(self->text, room * sizeof *longer);
        if (longer == NULL) {
            self->bad = true;
            return;
        }
        self->text = longer;
        self->room = room;
    }
    self->text[self->count++] = c;
    self->text[self->count] = L'\0';
}

/* One argument in quotes, so that the C library of the helper takes it apart again to the same
 * bytes: backslashes are doubled only before a quote. */
static void line_add_argument(line *self, const char *argument)
{
    wchar_t *wide = windows_wide(argument);
    size_t i, slashes = 0, n;
    if (wide == NULL) {
        self->bad = true;
        return;
    }
    if (self->count > 0) line_add(self, L' ');
    line_add(self, L'"');
    for (i = 0;; i++) {
        if (wide[i] == L'\\') {
            slashes++;
            continue;
        }
        if (wide[i] == L'"' || wide[i] == L'\0') slashes *= 2;
        for (n = 0; n < slashes; n++) line_add(self, L'\\');
        slashes = 0;
        if (wide[i] == L'\0') break;
        if (wide[i] == L'"') line_add(self, L'\\');
        line_add(self, wide[i]);
    }
    line_add(self, L'"');
    free(wide);
}

/* The environment of this process with the channel's variable: "A=1\0B=2\0\0". Owned. */
static wchar_t *environment_with_channel(HANDLE channel)
{
    wchar_t *mine = GetEnvironmentStringsW(), *all = NULL, *at, entry[64];
    size_t length = 0, added;
    if (mine == NULL) return NULL;
    for (at = mine; *at != L'\0'; at += wcslen(at) + 1) length += wcslen(at) + 1;
    added = (size_t)swprintf(entry, sizeof entry / sizeof entry[0], L"%ls=%lu", CHANNEL_VARIABLE,
                             (unsigned long)(uintptr_t)channel);
    all = malloc((length + added + 2) * sizeof *all);
    if (all != NULL) {
        memcpy(all, mine, length * sizeof *all);
        memcpy(all + length, entry, (added + 1) * sizeof *all);
        all[length + added + 1] = L'\0';
    }
    FreeEnvironmentStringsW(mine);
    return all;
}

/* A job whose processes end with it, and that swallows their crash dialogs. */
static HANDLE make_job(void)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
                                              JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
    if (job != NULL &&
        !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits))
        close_handle(&job);
    return job;
}

/* Starts the helper inside job with exactly the handles given. */
static bool start(wchar_t *program, wchar_t *command, wchar_t *environment, HANDLE nowhere,
                  HANDLE channel, HANDLE errors, HANDLE job, PROCESS_INFORMATION *process)
{
    HANDLE inherited[3] = {nowhere, channel, errors};
    STARTUPINFOEXW startup = {0};
    SIZE_T bytes = 0;
    bool listed = false, started = false;
    DWORD error;
    InitializeProcThreadAttributeList(NULL, 1, 0, &bytes);
    startup.lpAttributeList = malloc(bytes);
    if (startup.lpAttributeList == NULL) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return false;
    }
    listed = InitializeProcThreadAttributeList(startup.lpAttributeList, 1, 0, &bytes) != 0;
    if (!listed ||
        !UpdateProcThreadAttribute(startup.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
                                   inherited, sizeof inherited, NULL, NULL))
        goto out;
    startup.StartupInfo.cb = sizeof startup;
    startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
    startup.StartupInfo.hStdInput = nowhere;
    startup.StartupInfo.hStdOutput = nowhere;
    startup.StartupInfo.hStdError = errors;
    if (!CreateProcessW(program, command, NULL, NULL, TRUE,
                        CREATE_SUSPENDED | CREATE_NO_WINDOW | CREATE_UNICODE_ENVIRONMENT |
                            CREATE_NEW_PROCESS_GROUP | EXTENDED_STARTUPINFO_PRESENT,
                        environment, NULL, &startup.StartupInfo, process))
        goto out;
    /* it has not run yet, so nothing it starts can be outside the job */
    started = AssignProcessToJobObject(job, process->hProcess) &&
              ResumeThread(process->hThread) != (DWORD)-1;
    if (!started) {
        error = GetLastError();
        TerminateProcess(process->hProcess, 1);
        SetLastError(error);
    }
out:
    error = GetLastError();
    if (listed) DeleteProcThreadAttributeList(startup.lpAttributeList);
    free(startup.lpAttributeList);
    SetLastError(error);
    return started;
}

/* Waits for the end of the started helper, kills what is left, and reads how it ended. */
static void wait_for_end(HANDLE process, HANDLE job, uint32_t timeout_ms,
                         platform_run_result *result)
{
    DWORD code = 0;
    if (WaitForSingleObject(process, timeout_ms) != WAIT_OBJECT_0) {
        result->ended = PLATFORM_ENDED_TIMEOUT;
    } else if (!GetExitCodeProcess(process, &code)) {
        result->ended = PLATFORM_ENDED_UNKNOWN;
    } else if (code >= 0xC0000000u || code == 0x80000003u) {
        /* the status codes of exceptions: 0xC... errors, and a breakpoint */
        result->ended = PLATFORM_ENDED_SIGNAL;
        result->code = code;
        snprintf(result->name, sizeof result->name, "exception 0x%08lx", code);
    } else {
        result->ended = PLATFORM_ENDED_EXIT;
        result->code = code;
    }
    TerminateJobObject(job, 1);
    WaitForSingleObject(process, INFINITE);
}

uint32_t platform_run(const char *program, const char *const *arguments, uint64_t count,
                      uint32_t timeout_ms, uint64_t report_limit, platform_run_result *result,
                      char *text)
{
    SECURITY_ATTRIBUTES may_inherit = {sizeof may_inherit, NULL, TRUE};
    stream report = {.limit = report_limit},
           errors = {.limit = sizeof result->said - 1, .keep_last = true};
    PROCESS_INFORMATION process = {0};
    wchar_t *wide = windows_path(program), *environment = NULL;
    HANDLE nowhere = NULL, job = NULL;
    line command = {0};
    uint32_t reason = TENON_REASON_PROBE_HELPER;
    bool told = false; /* text says something already */
    uint64_t i;
    memset(result, 0, sizeof *result);
    line_add_argument(&command, program);
    for (i = 0; i < count; i++) line_add_argument(&command, arguments[i]);
    if (wide == NULL || command.bad) {
        snprintf(text, PLATFORM_TEXT_BYTES, "an argument is not UTF-8, or there is no memory");
        told = true;
        goto out;
    }
    job = make_job();
    nowhere = CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                          &may_inherit, OPEN_EXISTING, 0, NULL);
    if (job == NULL || nowhere == INVALID_HANDLE_VALUE || !stream_open(&report) ||
        !stream_open(&errors))
        goto out;
    environment = environment_with_channel(report.writing);
    if (environment == NULL) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        goto out;
    }
    if (!start(wide, command.text, environment, nowhere, report.writing, errors.writing, job,
               &process))
        goto out;
    close_handle(&report.writing);
    close_handle(&errors.writing);
    report.thread = CreateThread(NULL, 0, stream_read, &report, 0, NULL);
    errors.thread = CreateThread(NULL, 0, stream_read, &errors, 0, NULL);
    if (report.thread == NULL || errors.thread == NULL) {
        windows_error_text(GetLastError(), text);
        told = true;
        TerminateJobObject(job, 1);
    }
    wait_for_end(process.hProcess, job, timeout_ms, result);
    /* all writers are dead, so both readers come to the end */
    if (report.thread != NULL) WaitForSingleObject(report.thread, INFINITE);
    if (errors.thread != NULL) WaitForSingleObject(errors.thread, INFINITE);
    if (told) goto out;
    if (report.bytes == NULL && !report.no_memory) report.bytes = calloc(1, 1);
    if (report.bytes == NULL || report.no_memory) {
        snprintf(text, PLATFORM_TEXT_BYTES, "no memory for the report");
        told = true;
        goto out;
    }
    result->report = report.bytes;
    result->report_bytes = report.count;
    result->report_cut = report.cut;
    report.bytes = NULL;
    for (i = 0; i < errors.count; i++)
        result->said[i] = errors.bytes[i] != '\0' ? errors.bytes[i] : ' ';
    reason = TENON_REASON_NONE;
out:
    if (reason != TENON_REASON_NONE) {
        if (!told) windows_error_text(GetLastError(), text);
        memset(result, 0, sizeof *result);
    }
    close_handle(&process.hThread);
    close_handle(&process.hProcess);
    close_handle(&report.thread);
    close_handle(&errors.thread);
    close_handle(&report.reading);
    close_handle(&report.writing);
    close_handle(&errors.reading);
    close_handle(&errors.writing);
    close_handle(&nowhere);
    close_handle(&job);
    free(report.bytes);
    free(errors.bytes);
    free(environment);
    free(command.text);
    free(wide);
    return reason;
}

/* ---- helper side ---------------------------------------------------------------------------- */

static HANDLE channel; /* set by platform_helper_begin, before any other thread */

void platform_helper_begin(void)
{
    wchar_t value[32];
    DWORD length;
    /* the job of platform_run ends this process with its parent, and it inherited no handle but
     * its standard ones and the channel */
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    length = GetEnvironmentVariableW(CHANNEL_VARIABLE, value, 32);
    if (length > 0 && length < 32) {
        channel = (HANDLE)(uintptr_t)wcstoul(value, NULL, 10);
        SetHandleInformation(channel, HANDLE_FLAG_INHERIT, 0);
        SetEnvironmentVariableW(CHANNEL_VARIABLE, NULL);
    }
}

bool platform_channel_write(const void *bytes, uint64_t count)
{
    const char *at = bytes;
    if (channel == NULL) return false;
    while (count > 0) {
        DWORD part = count > (1u << 20) ? 1u << 20 : (DWORD)count, done = 0;
        if (!WriteFile(channel, at, part, &done, NULL) || done == 0) return false;
        at += done;
        count -= done;
    }
    return true;
}

void platform_helper_end(int status)
{
    TerminateProcess(GetCurrentProcess(), (UINT)status);
    for (;;) Sleep(INFINITE); /* the call above does not come back */
}

/* Threads of this process that somebody started on purpose: the system starts and ends workers of
 * its own inside ntdll, whose number means nothing. */
static uint64_t count_threads(void)
{
    typedef LONG(WINAPI * query_function)(HANDLE, int, void *, ULONG, ULONG *);
    enum { query_start_address = 9 };
    FARPROC found = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "NtQueryInformationThread");
    HMODULE system = GetModuleHandleW(L"ntdll.dll"), owner;
    HANDLE snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    THREADENTRY32 entry = {.dwSize = sizeof entry};
    DWORD self = GetCurrentProcessId();
    query_function query;
    uint64_t count = 0;
    BOOL more;
    if (snapshot == INVALID_HANDLE_VALUE) return 0;
    memcpy(&query, &found, sizeof query);
    for (more = Thread32First(snapshot, &entry); more; more = Thread32Next(snapshot, &entry)) {
        void *address = NULL;
        HANDLE thread;
        if (entry.th32OwnerProcessID != self) continue;
        thread = OpenThread(THREAD_QUERY_INFORMATION, FALSE, entry.th32ThreadID);
        if (thread == NULL) continue; /* it has ended since */
        owner = NULL;
        if (query != NULL &&
            query(thread, query_start_address, &address, sizeof address, NULL) == 0)
            GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                   GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                               address, &owner);
        CloseHandle(thread);
        if (owner != system) count++;
    }
    CloseHandle(snapshot);
    return count;
}

bool platform_state_read(platform_state *state)
{
    LPTOP_LEVEL_EXCEPTION_FILTER filter = SetUnhandledExceptionFilter(NULL);
    wchar_t directory[MAX_PATH];
    const char *locale = setlocale(LC_ALL, NULL);
    DWORD length;
    char *narrow;
    memset(state, 0, sizeof *state);
    SetUnhandledExceptionFilter(filter);
    memcpy(&state->signals, &filter, sizeof filter);
#if defined(__SSE__)
    {
        uint16_t x87 = 0;
        __asm__ volatile("fnstcw %0" : "=m"(x87));
        state->fp_control = (_mm_getcsr() & ~0x3Fu) | (uint64_t)x87 << 32;
    }
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(state->fp_control));
#endif
    /* handles: the system opens and keeps some for itself in many calls, so their number tells
     * nothing about a provider */
    state->threads = count_threads();
    snprintf(state->locale, sizeof state->locale, "%s lcid %lu", locale != NULL ? locale : "",
             GetThreadLocale());
    length = GetCurrentDirectoryW(MAX_PATH, directory);
    if (length > 0 && length < MAX_PATH) {
        narrow = windows_narrow(directory);
        if (narrow == NULL) return false;
        snprintf(state->directory, sizeof state->directory, "%s", narrow);
        free(narrow);
    }
    return state->threads > 0;
}

void platform_sleep_ms(uint32_t milliseconds)
{
    Sleep(milliseconds);
}
