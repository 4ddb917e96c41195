/* loader/windows*.c against its contract, platform.h. Run by run.sh under wine or on Windows:
 *     test_platform.exe SCRATCH_DIRECTORY GOOD_PROVIDER.dll
 * SCRATCH_DIRECTORY exists, is empty and is not writable by others. With --helper as its first
 * argument the program is the other side of platform_run. */
#include <loader/platform.h>

#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "harness.h"

/* a blank, a small letter beyond ASCII, two of three bytes, one of four */
#define UNICODE_NAME "p \xc3\xb6 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82"

static char text[PLATFORM_TEXT_BYTES];

static char *joined(const char *directory, const char *name)
{
    size_t room = strlen(directory) + strlen(name) + 2;
    char *path = malloc(room);
    if (path == NULL) abort();
    snprintf(path, room, "%s\\%s", directory, name);
    return path;
}

/* The wide form made by the system itself, to compare windows.c with. */
static wchar_t *system_wide(const char *path)
{
    static wchar_t wide[4][1024];
    static unsigned next;
    wchar_t *out = wide[next++ % 4];
    if (MultiByteToWideChar(CP_UTF8, 0, path, -1, out, 1024) == 0) abort();
    return out;
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    DWORD done = 0;
    HANDLE file = CreateFileW(system_wide(path), GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    if (file == INVALID_HANDLE_VALUE || !WriteFile(file, bytes, (DWORD)count, &done, NULL)) abort();
    CloseHandle(file);
}

static void test_paths(const char *scratch)
{
    char *absolute, *again, *real, *plain;
    CHECK(platform_is_absolute("C:\\x"), "drive");
    CHECK(platform_is_absolute("z:/x"), "drive with a slash");
    CHECK(platform_is_absolute("\\\\server\\share"), "share");
    CHECK(!platform_is_absolute("C:x"), "relative to a drive's directory");
    CHECK(!platform_is_absolute("\\x"), "relative to the drive");
    CHECK(!platform_is_absolute("x\\y"), "relative");
    CHECK(!platform_is_absolute(""), "empty");
    CHECK(platform_is_separator('\\') && platform_is_separator('/'), "both");
    absolute = platform_absolute("x\\.\\y");
    CHECK(absolute != NULL && platform_is_absolute(absolute) && strstr(absolute, "x\\.\\y") != NULL,
          "%s", absolute != NULL ? absolute : "NULL");
    again = platform_absolute(absolute);
    CHECK(again != NULL && strcmp(again, absolute) == 0, "unchanged");
    free(absolute);
    free(again);
    absolute = platform_absolute("\\x");
    CHECK(absolute != NULL && platform_is_absolute(absolute), "%s", absolute);
    free(absolute);
    real = platform_real_path(scratch);
    CHECK(real != NULL && platform_is_absolute(real) && strncmp(real, "\\\\?\\", 4) != 0, "%s",
          real != NULL ? real : "NULL");
    free(real);
    CHECK(platform_real_path("C:\\nowhere\\at all") == NULL, "does not exist");
    plain = platform_own_path();
    CHECK(plain != NULL && strstr(plain, ".exe") != NULL, "%s", plain != NULL ? plain : "NULL");
    free(plain);
    CHECK(platform_link_target(scratch) == NULL, "no links");
}

static void test_environment(void)
{
    bool ignored = false;
    char *value;
    SetEnvironmentVariableW(L"TENON_TEST", system_wide(UNICODE_NAME));
    value = platform_environment("TENON_TEST", &ignored);
    /* an elevated process ignores it, and says so */
    CHECK(ignored ? value == NULL : value != NULL && strcmp(value, UNICODE_NAME) == 0, "%s",
          value != NULL ? value : "NULL");
    free(value);
    ignored = false;
    value = platform_environment("TENON_TEST_NOT_SET", &ignored);
    CHECK(value == NULL && !ignored, "not set");
}

static void test_files(const char *scratch)
{
    static const uint8_t bytes[] = "0123456789";
    char *path = joined(scratch, UNICODE_NAME ".bin");
    loader_identity identity = {0}, again = {0};
    platform_access access;
    platform_file file;
    uint8_t got[8] = {0};
    write_file(path, bytes, 10);
    CHECK(platform_file_open(path, &file, text) == 0, "%s", text);
    CHECK(platform_file_facts(file, &identity, &access, text) == 0, "%s", text);
    CHECK(access.kind == PLATFORM_REGULAR && identity.size == 10, "size");
    CHECK(access.owner_trusted, "owner %s", access.owner);
    CHECK(!access.others_write, "mode %s", access.mode);
    CHECK(platform_path_facts(path, &again, &access, text) == 0, "%s", text);
    CHECK(again.device == identity.device && again.inode == identity.inode &&
              again.mtime_ns == identity.mtime_ns && again.size == identity.size,
          "the same file by handle and by path");
    CHECK(identity.mtime_ns > (int64_t)1500000000 * 1000000000, "after 2017");
    CHECK(platform_file_read(file, 3, got, 4, text) == 0 && memcmp(got, "3456", 4) == 0, "%s",
          text);
    CHECK(platform_file_read(file, 8, got, 3, text) == TENON_REASON_TRUNCATED, "past the end");
    CHECK(platform_file_read(file, (uint64_t)1 << 40, got, 1, text) == TENON_REASON_TRUNCATED,
          "far past the end");
    platform_file_close(file);
    platform_file_close(PLATFORM_NO_FILE);
    CHECK(platform_file_open("C:\\nowhere\\x.dll", &file, text) == TENON_REASON_NO_SUCH_PATH &&
              file == PLATFORM_NO_FILE && text[0] != '\0',
          "%s", text);
    CHECK(platform_file_open("C:\\not \xff utf-8", &file, text) == TENON_REASON_OPEN_FAILED, "%s",
          text);
    CHECK(platform_file_open("\\\\.\\pipe\\tenon", &file, text) == TENON_REASON_OPEN_FAILED, "%s",
          text);
    CHECK(platform_path_facts("C:\\nowhere", NULL, &access, text) == 0 &&
              access.kind == PLATFORM_MISSING,
          "missing");
    CHECK(platform_path_facts(scratch, NULL, &access, text) == 0 &&
              access.kind == PLATFORM_DIRECTORY,
          "%s", text);
    CHECK(platform_file_open(scratch, &file, text) == 0 &&
              platform_file_facts(file, &identity, &access, text) == 0 &&
              access.kind == PLATFORM_DIRECTORY,
          "a directory is told as one: %s", text);
    platform_file_close(file);
    CHECK(platform_file_open("NUL", &file, text) != 0 ||
              (platform_file_facts(file, &identity, &access, text) == 0 &&
               access.kind == PLATFORM_OTHER),
          "NUL is no file");
    platform_file_close(file);
    free(path);
}

/* A file that everybody may write is told as such. */
static void test_access(const char *scratch)
{
    SECURITY_DESCRIPTOR everybody;
    char *path = joined(scratch, "open.bin");
    platform_access access;
    write_file(path, "x", 1);
    InitializeSecurityDescriptor(&everybody, SECURITY_DESCRIPTOR_REVISION);
    SetSecurityDescriptorDacl(&everybody, TRUE, NULL, FALSE); /* no list: everything is allowed */
    if (!SetFileSecurityW(system_wide(path), DACL_SECURITY_INFORMATION, &everybody)) {
        harness_skipped++;
    } else {
        CHECK(platform_path_facts(path, NULL, &access, text) == 0 && access.others_write, "%s %s",
              text, access.mode);
    }
    free(path);
}

typedef struct seen {
    unsigned count, stop_after;
    bool unicode;
} seen;

static bool see(void *context, const char *name)
{
    seen *self = context;
    self->count++;
    if (strcmp(name, UNICODE_NAME ".bin") == 0) self->unicode = true;
    return self->count != self->stop_after;
}

static void test_list(const char *scratch)
{
    seen all = {0}, one = {.stop_after = 1};
    CHECK(platform_list(scratch, see, &all, text) == 0 && all.unicode && all.count >= 2, "%s",
          text);
    CHECK(platform_list(scratch, see, &one, text) == 0 && one.count == 1, "stopped");
    CHECK(platform_list("C:\\nowhere", see, &one, text) == TENON_REASON_NO_SUCH_PATH, "%s", text);
}

static void test_cache(const char *scratch)
{
    char bytes[8] = {0};
    uint64_t count = 0;
    char *directory = platform_cache_directory("probe");
    bool ignored = false;
    free(platform_environment("LOCALAPPDATA", &ignored));
    CHECK(ignored ? directory == NULL : true, "elevated: %s", directory);
    free(directory);
    CHECK(platform_cache_write(scratch, "entry", "abc", 3), "written");
    CHECK(platform_cache_read(scratch, "entry", bytes, sizeof bytes, &count) && count == 3 &&
              memcmp(bytes, "abc", 3) == 0,
          "read");
    CHECK(platform_cache_write(scratch, "entry", "defg", 4), "replaced");
    CHECK(platform_cache_read(scratch, "entry", bytes, sizeof bytes, &count) && count == 4, "read");
    CHECK(!platform_cache_read(scratch, "entry", bytes, 3, &count), "larger than the room");
    CHECK(!platform_cache_read(scratch, "nothing", bytes, 3, &count), "absent");
    CHECK(!platform_cache_write("C:\\nowhere", "entry", "abc", 3), "no directory");
}

static void test_libraries(const char *scratch, const char *provider)
{
    char *copy = joined(scratch, UNICODE_NAME ".dll"), *broken = joined(scratch, "broken.dll");
    const char *const none[] = {NULL};
    void *library, *kernel;
    platform_lock();
    CHECK(CopyFileW(system_wide(provider), system_wide(copy), FALSE), "copied");
    library = platform_library_open(copy, text);
    CHECK(library != NULL, "%s", text);
    if (library != NULL) {
        const void *address = platform_library_symbol(library, "provider_v1");
        CHECK(address != NULL && platform_library_owns(library, address), "provider_v1");
        CHECK(platform_library_symbol(library, "provider_v0") == NULL, "provider_v0");
        kernel = platform_library_open("C:\\windows\\system32\\kernel32.dll", text);
        CHECK(kernel != NULL, "%s", text);
        if (kernel != NULL) {
            address = platform_library_symbol(kernel, "CreateFileW");
            CHECK(address != NULL && !platform_library_owns(library, address), "foreign");
            platform_library_close(kernel);
        }
        platform_library_close(library);
        CHECK(GetModuleHandleW(system_wide(copy)) == NULL, "gone after close");
        library = platform_library_open(copy, text);
        CHECK(library != NULL && platform_library_keep(library, copy), "kept");
        platform_library_close(library);
        CHECK(GetModuleHandleW(system_wide(copy)) != NULL, "still there after close");
    }
    write_file(broken, "MZ, but no more", 15);
    CHECK(platform_library_open(broken, text) == NULL && text[0] != '\0', "%s", text);
    CHECK(platform_library_open("C:\\nowhere\\x.dll", text) == NULL && text[0] != '\0', "%s", text);
    platform_library_close(NULL);
    platform_unlock();
    CHECK(platform_dependency("KERNEL32.dll", copy, none, 0) == PLATFORM_DEPENDENCY_FOUND,
          "system");
    CHECK(platform_dependency("api-ms-win-crt-heap-l1-1-0.dll", copy, none, 0) ==
              PLATFORM_DEPENDENCY_FOUND,
          "api set");
    CHECK(platform_dependency("broken.dll", copy, none, 0) == PLATFORM_DEPENDENCY_FOUND, "beside");
    CHECK(platform_dependency("notthere-1.dll", copy, none, 0) == PLATFORM_DEPENDENCY_MISSING,
          "absent");
    free(broken);
    free(copy);
}

static void test_run(void)
{
    const char *echo[] = {"--helper", "echo", UNICODE_NAME, "a \"b\" \\\\\"c\\", "", "tail\\"};
    const char *crash[] = {"--helper", "crash"};
    const char *hang[] = {"--helper", "hang"};
    const char *flood[] = {"--helper", "flood"};
    platform_run_result result;
    char *self = platform_own_path();
    CHECK(platform_run(self, echo, 6, 60000, 4096, &result, text) == 0, "%s", text);
    CHECK(result.ended == PLATFORM_ENDED_EXIT && result.code == 7, "%u %ld", result.ended,
          (long)result.code);
    CHECK(result.report != NULL &&
              strcmp(result.report, "[" UNICODE_NAME "][a \"b\" \\\\\"c\\][][tail\\]") == 0 &&
              result.report_bytes == strlen(result.report) && !result.report_cut,
          "%s", result.report != NULL ? result.report : "NULL");
    CHECK(strstr(result.said, "said on stderr") != NULL, "%s", result.said);
    free(result.report);
    CHECK(platform_run(self, crash, 2, 60000, 4096, &result, text) == 0, "%s", text);
    CHECK(result.ended == PLATFORM_ENDED_SIGNAL && strstr(result.name, "exception 0xc0") != NULL,
          "%u %s", result.ended, result.name);
    free(result.report);
    CHECK(platform_run(self, hang, 2, 1500, 4096, &result, text) == 0, "%s", text);
    CHECK(result.ended == PLATFORM_ENDED_TIMEOUT, "%u", result.ended);
    CHECK(result.report != NULL && strcmp(result.report, "before") == 0, "%s", result.report);
    free(result.report);
    CHECK(platform_run(self, flood, 2, 60000, 1000, &result, text) == 0, "%s", text);
    CHECK(result.ended == PLATFORM_ENDED_EXIT && result.report_cut && result.report_bytes == 1000,
          "%u %lu", result.ended, (unsigned long)result.report_bytes);
    CHECK(strlen(result.said) > 0 && strstr(result.said, "last words") != NULL, "%s", result.said);
    free(result.report);
    CHECK(platform_run("C:\\nowhere\\x.exe", echo, 2, 1000, 10, &result, text) ==
                  TENON_REASON_PROBE_HELPER &&
              text[0] != '\0' && result.report == NULL,
          "%s", text);
    free(self);
}

static DWORD WINAPI wait_forever(void *unused)
{
    (void)unused;
    Sleep(INFINITE);
    return 0;
}

static void test_state(void)
{
    platform_state before, after;
    wchar_t directory[1024];
    unsigned control;
    CHECK(platform_state_read(&before), "read");
    CHECK(platform_state_read(&after) && memcmp(&before, &after, sizeof before) == 0,
          "nothing changed");
    control = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(control | 0x8040u);
    platform_state_read(&after);
    __builtin_ia32_ldmxcsr(control);
    CHECK(before.fp_control != after.fp_control, "flush-to-zero");
    CloseHandle(CreateThread(NULL, 0, wait_forever, NULL, 0, NULL));
    platform_state_read(&after);
    CHECK(after.threads == before.threads + 1, "%lu %lu", (unsigned long)before.threads,
          (unsigned long)after.threads);
    GetCurrentDirectoryW(1024, directory);
    SetCurrentDirectoryW(L"C:\\windows");
    platform_state_read(&after);
    SetCurrentDirectoryW(directory);
    CHECK(strcmp(before.directory, after.directory) != 0, "directory");
}

static int helper(int count, char **arguments)
{
    char part[1000];
    int i;
    platform_helper_begin();
    if (count >= 3 && strcmp(arguments[2], "echo") == 0) {
        fprintf(stderr, "said on stderr\n");
        for (i = 3; i < count; i++) {
            snprintf(part, sizeof part, "[%s]", arguments[i]);
            if (!platform_channel_write(part, strlen(part))) platform_helper_end(1);
        }
        platform_helper_end(7);
    }
    if (count >= 3 && strcmp(arguments[2], "crash") == 0) *(volatile int *)16 = 1;
    if (count >= 3 && strcmp(arguments[2], "hang") == 0) {
        platform_channel_write("before", 6);
        Sleep(INFINITE);
    }
    if (count >= 3 && strcmp(arguments[2], "flood") == 0) {
        memset(part, 'x', sizeof part);
        for (i = 0; i < 500; i++) {
            platform_channel_write(part, sizeof part);
            fprintf(stderr, "line %d\n", i);
        }
        fprintf(stderr, "last words\n");
        fflush(stderr);
        platform_helper_end(0);
    }
    return 64;
}

int main(int count, char **arguments)
{
    if (count >= 2 && strcmp(arguments[1], "--helper") == 0) return helper(count, arguments);
    if (count != 3) {
        fprintf(stderr, "usage: test_platform SCRATCH_DIRECTORY PROVIDER\n");
        return 64;
    }
    test_paths(arguments[1]);
    test_environment();
    test_files(arguments[1]);
    test_access(arguments[1]);
    test_list(arguments[1]);
    test_cache(arguments[1]);
    test_libraries(arguments[1], arguments[2]);
    test_run();
    test_state();
    return harness_end();
}
