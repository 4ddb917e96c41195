/* The loader on Windows: loads a good DLL, refuses broken ones at their stage, reads PE images.
 *     test_loader.exe PROVIDER_DIRECTORY PROBE_HELPER
 * PROVIDER_DIRECTORY holds the DLLs that run.sh builds. */
#include <loader/loader.h>
#include <loader/symbols.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "harness.h"

#define UNICODE_NAME "p \xc3\xb6 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82"

static const char *directory, *helper;

static void TENON_CALL say(void *context, uint32_t level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
}

static char *path_of(const char *name)
{
    size_t room = strlen(directory) + strlen(name) + 2;
    char *path = malloc(room);
    if (path == NULL) abort();
    snprintf(path, room, "%s\\%s", directory, name);
    return path;
}

static wchar_t *wide_of(const char *path)
{
    static wchar_t wide[4][1024];
    static unsigned next;
    wchar_t *out = wide[next++ % 4];
    if (MultiByteToWideChar(CP_UTF8, 0, path, -1, out, 1024) == 0) abort();
    return out;
}

static loader *load(const char *path)
{
    loader_options options = {.paths = &path,
                              .path_count = 1,
                              .no_search = true,
                              .probe_helper = helper,
                              .probe_timeout_ms = 60000,
                              .log = say};
    tenon_error error = {TENON_HEAD(tenon_error), 0, 0, 0, 0, 0, 0, ""};
    loader *self = NULL;
    int32_t status = loader_create(&options, &self, &error);
    CHECK(status == TENON_OK && self != NULL, "%s: %d %s", path, (int)status, error.text);
    if (self == NULL) abort();
    return self;
}

/* A provider that loads: y = W x through its own functions. */
static void multiply(const loader_module *module)
{
    static unsigned char weights[34] = {0x00, 0x3c}; /* one block of Q8_0, scale 1 */
    static float x[32], y[2];
    tenon_weight_desc desc = {.struct_size = sizeof desc,
                              .abi_version = TENON_ABI_VERSION,
                              .format = TENON_FORMAT_Q8_0,
                              .rows = 1,
                              .cols = 32,
                              .arith = TENON_CLASS_F32};
    tenon_weight_data data = {.struct_size = sizeof data,
                              .abi_version = TENON_ABI_VERSION,
                              .weights = weights,
                              .weights_bytes = sizeof weights,
                              .identity = 1,
                              .lifetime = TENON_LIFETIME_STABLE};
    tenon_qmatmul_call call = {.struct_size = sizeof call,
                               .abi_version = TENON_ABI_VERSION,
                               .x = {x, NULL, 0, sizeof x},
                               .tokens = 1,
                               .x_row_stride = sizeof x,
                               .output_count = 1};
    tenon_services services = {
        .struct_size = sizeof services, .abi_version = TENON_ABI_VERSION, .log = say};
    tenon_provider *provider = NULL;
    tenon_device *device = NULL;
    tenon_prepared *prepared = NULL;
    int i;
    for (i = 0; i < 32; i++) {
        weights[2 + i] = (unsigned char)i;
        x[i] = 2.0f;
    }
    y[1] = -7.0f;
    CHECK(module->provider.open(&services, &provider, NULL) == TENON_OK, "open");
    CHECK(module->provider.device_open(provider, 0, &device, NULL) == TENON_OK, "device_open");
    CHECK(module->qmatmul.prepare(device, &desc, &data, &prepared, NULL) == TENON_OK, "prepare");
    call.outputs[0].weight = prepared;
    call.outputs[0].y = (tenon_view){y, NULL, 0, sizeof y[0]};
    call.outputs[0].row_stride = sizeof y[0];
    CHECK(module->qmatmul.run(device, NULL, &call, NULL) == TENON_OK, "run");
    CHECK(y[0] == 992.0f && y[1] == -7.0f, "%f %f", (double)y[0], (double)y[1]);
    module->qmatmul.release(device, prepared);
    module->provider.device_close(device);
    module->provider.close(provider);
}

static void expect_loaded(const char *path)
{
    loader *self = load(path);
    CHECK(loader_module_count(self) == 1, "%s",
          loader_verdict_count(self) > 0 ? loader_verdict_at(self, 0)->line : path);
    if (loader_module_count(self) == 1) {
        CHECK(strcmp(loader_module_at(self, 0)->verdict->file, path) == 0, "%s",
              loader_module_at(self, 0)->verdict->file);
        multiply(loader_module_at(self, 0));
    }
    loader_destroy(self);
}

static void expect_refused(const char *path, uint32_t reason, const char *symbol)
{
    loader *self = load(path);
    const loader_verdict *verdict;
    CHECK(loader_module_count(self) == 0, "%s was loaded", path);
    CHECK(loader_verdict_count(self) == 1, "%s", path);
    if (loader_verdict_count(self) == 1) {
        verdict = loader_verdict_at(self, 0);
        CHECK(verdict->reason == reason && verdict->stage == reason / 100, "%u: %s", reason,
              verdict->line);
        CHECK(strcmp(verdict->symbol, symbol) == 0, "%s: %s", symbol, verdict->line);
    }
    CHECK(GetModuleHandleW(wide_of(path)) == NULL, "%s is still mapped", path);
    loader_destroy(self);
}

static void test_good(void)
{
    char *path = path_of("tenon-good.dll"), *folder = path_of(UNICODE_NAME);
    char *inside = path_of(UNICODE_NAME "\\tenon-good.dll");
    loader *self;
    CHECK(CreateDirectoryW(wide_of(folder), NULL) || GetLastError() == ERROR_ALREADY_EXISTS,
          "folder");
    CHECK(CopyFileW(wide_of(path), wide_of(inside), FALSE), "copied");
    expect_loaded(inside);
    /* the same folder by its name */
    self = load(folder);
    CHECK(loader_module_count(self) == 1, "%s", folder);
    loader_destroy(self);
    expect_loaded(path);
    free(inside);
    free(folder);
    free(path);
}

/* The Vulkan provider: judged, probed, loaded, and where there is no Vulkan it says so. services of a
 * host that offers nothing: it is not asked for anything before the Vulkan loader is found. */
static void TENON_CALL no_log(void *host, uint32_t level, const char *text)
{
    (void)host;
    (void)level;
    (void)text;
}

static const char *TENON_CALL no_config(void *host, const char *key)
{
    (void)host;
    (void)key;
    return NULL;
}

static void TENON_CALL no_team(void *host, uint64_t count, tenon_parallel_body body, void *context)
{
    uint64_t i;
    (void)host;
    for (i = 0; i < count; i++) body(context, i, 0);
}

static uint32_t TENON_CALL one_worker(void *host)
{
    (void)host;
    return 1;
}

static void test_vulkan(void)
{
    char *path = path_of("tenon-vulkan.dll");
    tenon_services services = {TENON_HEAD(tenon_services), .log = no_log, .parallel_for = no_team,
                               .team_size = one_worker, .config = no_config};
    tenon_error error = {TENON_HEAD(tenon_error), .status = 0};
    loader *self;
    if (GetFileAttributesW(wide_of(path)) == INVALID_FILE_ATTRIBUTES) {
        SKIP("tenon-vulkan.dll", "it was not built");
        free(path);
        return;
    }
    self = load(path);
    CHECK(loader_module_count(self) == 1, "%s",
          loader_verdict_count(self) > 0 ? loader_verdict_at(self, 0)->line : path);
    if (loader_module_count(self) == 1) {
        const loader_module *module = loader_module_at(self, 0);
        tenon_provider *provider = NULL;
        int32_t status;
        CHECK(strcmp(module->provider.id, "vulkan") == 0, "%s", module->provider.id);
        CHECK(module->memory.alloc != NULL && module->graph.launch != NULL &&
                  module->attention.run != NULL,
              "what it offers");
        status = module->provider.open(&services, &provider, &error);
        /* wine has a Vulkan loader of its own, of version 1.0 where the system has no driver */
        CHECK(status == TENON_OK || error.reason == TENON_REASON_RUNTIME_ABSENT ||
                  error.reason == TENON_REASON_DRIVER_TOO_OLD,
              "%d %u %s", status, error.reason, error.text);
        if (status == TENON_OK) module->provider.close(provider);
    }
    loader_destroy(self);
    free(path);
}

static void test_broken(void)
{
    static const struct {
        const char *name;
        uint32_t reason;
        const char *symbol;
    } broken[] = {
        {"tenon-omits_provider.dll", TENON_REASON_MISSING_SYMBOL, "provider_v1"},
        {"tenon-omits_qmatmul.dll", TENON_REASON_MISSING_SYMBOL, "qmatmul_v1"},
        {"tenon-old_qmatmul.dll", TENON_REASON_MISSING_SYMBOL, "qmatmul_v1"},
        {"tenon-function_qmatmul.dll", TENON_REASON_NOT_DATA, "qmatmul_v1"},
        {"tenon-short_provider.dll", TENON_REASON_SHORT_DESCRIPTOR, "provider_v1"},
        {"tenon-abi_zero_provider.dll", TENON_REASON_OLD_ABI, "provider_v1"},
        {"tenon-abi_five_qmatmul.dll", TENON_REASON_NEW_ABI, "qmatmul_v1"},
        {"tenon-unknown_need.dll", TENON_REASON_UNKNOWN_NEED, "provider_v1"},
        {"tenon-needs_library.dll", TENON_REASON_MISSING_DEPENDENCY, "notthere-1.dll"},
        /* here the system catches what constructors do, and refuses to load the library */
        {"tenon-illegal_at_load.dll", TENON_REASON_PROBE_REFUSED, ""},
        {"tenon-crashes_in_open.dll", TENON_REASON_PROBE_CRASHED, ""},
        {"tenon-flushes_in_open.dll", TENON_REASON_PROBE_FP_ENVIRONMENT, ""},
        {"tenon-exits_at_load.dll", TENON_REASON_PROBE_EXITED, ""},
        {"tenon-thread_in_open.dll", TENON_REASON_PROBE_THREADS, ""},
        {"tenon-directory_in_open.dll", TENON_REASON_PROBE_DIRECTORY, ""},
        {"tenon-wrong_bit.dll", TENON_REASON_PROBE_SELF_TEST, "qmatmul_v1.run"},
        {"tenon-nowhere.dll", TENON_REASON_NO_SUCH_PATH, ""},
    };
    size_t i;
    for (i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char *path = path_of(broken[i].name);
        expect_refused(path, broken[i].reason, broken[i].symbol);
        free(path);
    }
}

/* An endless constructor ends at the time limit. */
static void test_timeout(void)
{
    char *path = path_of("tenon-loops_at_load.dll");
    const char *paths[1] = {path};
    loader_options options = {.paths = paths,
                              .path_count = 1,
                              .no_search = true,
                              .probe_helper = helper,
                              .probe_timeout_ms = 3000,
                              .log = say};
    loader *self = NULL;
    CHECK(loader_create(&options, &self, NULL) == TENON_OK, "create");
    CHECK(self != NULL && loader_verdict_count(self) == 1 &&
              loader_verdict_at(self, 0)->reason == TENON_REASON_PROBE_TIMEOUT,
          "%s", self != NULL ? loader_verdict_at(self, 0)->line : "");
    loader_destroy(self);
    free(path);
}

/* A DLL cut at any length is refused by reading it, never by the system. */
static void test_cut(void)
{
    char *whole = path_of("tenon-good.dll"), *path = path_of("tenon-cut.dll");
    FILE *in = _wfopen(wide_of(whole), L"rb"), *out;
    static unsigned char bytes[1 << 22];
    size_t size = in != NULL ? fread(bytes, 1, sizeof bytes, in) : 0, cut;
    CHECK(size > 4096 && size < sizeof bytes, "%zu", size);
    if (in != NULL) fclose(in);
    for (cut = 0; cut < 8192 && cut < size; cut += cut < 1024 ? 97 : 1013) {
        loader_verdict verdict;
        loader_image_facts facts;
        out = _wfopen(wide_of(path), L"wb");
        if (out == NULL || fwrite(bytes, 1, cut, out) != cut) abort();
        fclose(out);
        CHECK(loader_judge(path, &verdict, &facts, NULL) == TENON_OK, "judged");
        CHECK(verdict.verdict == TENON_CANDIDATE_REFUSED && verdict.stage == TENON_STAGE_STATIC,
              "%zu: %s", cut, verdict.line);
        loader_verdict_clear(&verdict);
        loader_image_facts_clear(&facts);
    }
    DeleteFileW(wide_of(path));
    free(path);
    free(whole);
}

static bool contains(char **list, uint64_t count, const char *name)
{
    uint64_t i;
    for (i = 0; i < count; i++)
        if (_stricmp(list[i], name) == 0) return true;
    return false;
}

/* The parser of PE images, shown the system's own libraries and ours. */
static void test_images(void)
{
    static const char *const system_libraries[][2] = {
        {"C:\\windows\\system32\\kernel32.dll", "CreateFileW"},
        {"C:\\windows\\system32\\ntdll.dll", "NtClose"},
        {"C:\\windows\\system32\\user32.dll", "MessageBoxW"}};
    char *path = path_of("tenon-good.dll");
    loader_verdict verdict;
    loader_image_facts facts;
    size_t i;
    CHECK(loader_judge(path, &verdict, &facts, NULL) == TENON_OK, "judged");
    CHECK(verdict.reason == 0, "%s", verdict.line);
    CHECK(strcmp(facts.container, "pe") == 0 && strcmp(facts.machine, "x86-64") == 0, "%s %s",
          facts.container, facts.machine);
    CHECK(strcmp(facts.id, "good") == 0 && strcmp(facts.version, "1.0") == 0, "%s %s", facts.id,
          facts.version);
    CHECK(contains(facts.exports, facts.export_count, "provider_v1") &&
              contains(facts.exports, facts.export_count, "qmatmul_v1"),
          "exports");
    CHECK(contains(facts.libraries, facts.library_count, "KERNEL32.dll"), "libraries");
    CHECK(facts.symbol_count == SYMBOL_COUNT && facts.symbols[0].present &&
              facts.symbols[0].is_data && facts.symbols[0].struct_size == sizeof(tenon_provider_v1),
          "provider_v1");
    loader_verdict_clear(&verdict);
    loader_image_facts_clear(&facts);
    for (i = 0; i < sizeof system_libraries / sizeof system_libraries[0]; i++) {
        CHECK(loader_judge(system_libraries[i][0], &verdict, &facts, NULL) == TENON_OK, "judged");
        CHECK(verdict.verdict == TENON_CANDIDATE_REFUSED, "%s", verdict.line);
        CHECK(strcmp(facts.container, "pe") == 0, "%s", facts.container);
        CHECK(contains(facts.exports, facts.export_count, system_libraries[i][1]), "%s exports %s",
              system_libraries[i][0], system_libraries[i][1]);
        loader_verdict_clear(&verdict);
        loader_image_facts_clear(&facts);
    }
    free(path);
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fprintf(stderr, "usage: test_loader PROVIDER_DIRECTORY PROBE_HELPER\n");
        return 64;
    }
    directory = arguments[1];
    helper = arguments[2];
    test_images();
    test_cut();
    test_good();
    test_vulkan();
    test_broken();
    test_timeout();
    return harness_end();
}
