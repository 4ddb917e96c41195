/* Stage abi: the rules of the border (SPEC.md section 1), each checked at the descriptors. */
#include "abi_operations.h"
#include "device_memory.h"
#include "graph.h"

#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* A check that needs the descriptors only. */
typedef bool (*direct_check)(direct *self, conformance_result *result);
/* A check that needs an open device. */
typedef bool (*device_check)(direct *self, direct_device *on, conformance_result *result);
/* One that needs a device, over one of the operations. */
typedef bool (*operation_check)(direct *self, direct_device *on, sample_kind kind,
                                conformance_result *result);

/* What must hold of every case. */
static void look_back(direct *self, conformance_result *result)
{
    if (atomic_load(&self->after_close) != 0)
        conformance_fail(result, "a service of the host was called after close");
    if (atomic_load(&self->spilled) != 0)
        conformance_fail(result, "R5: a call wrote behind a struct of the size that it states");
}

static void run_direct(const conformance_target *target, direct_check check,
                       conformance_result *result)
{
    direct self;
    if (!direct_load(&self, target, result)) return;
    if (check(&self, result) && result->outcome == 0) result->outcome = CONFORMANCE_PASSED;
    look_back(&self, result);
    direct_unload(&self);
}

/* Exactly one of the two checks. */
static void on_device(const conformance_target *target, device_check check,
                      operation_check operation, sample_kind kind, conformance_result *result)
{
    direct self;
    direct_device on;
    bool good;
    if (!direct_load(&self, target, result)) return;
    if (direct_device_open(&self, &on, result)) {
        good = check != NULL ? check(&self, &on, result) : operation(&self, &on, kind, result);
        if (good && result->outcome == 0) result->outcome = CONFORMANCE_PASSED;
        direct_device_close(&self, &on);
        look_back(&self, result);
    }
    direct_unload(&self);
}

static void run_device(const conformance_target *target, device_check check,
                       conformance_result *result)
{
    on_device(target, check, NULL, SAMPLE_KINDS, result);
}

/* Every size stated, reserved fields zero, the id a name (R1, R2, R5, R7). */
static bool check_descriptors(direct *self, conformance_result *result)
{
    const tenon_provider_v1 *provider = &self->module->provider;
    const tenon_qmatmul_v1 *qmatmul = &self->module->qmatmul;
    size_t i;
    result->requests += 4;
    if (provider->abi_version != TENON_ABI_VERSION || qmatmul->abi_version != TENON_ABI_VERSION)
        return conformance_fail(result, "R1: abi_version %u and %u", provider->abi_version,
                                qmatmul->abi_version);
    if (provider->reserved0 != 0 || qmatmul->reserved0 != 0)
        return conformance_fail(result, "R7: a reserved field of a descriptor is not zero");
    for (i = 0; i < sizeof provider->id && provider->id[i] != '\0'; i++)
        if (strchr("abcdefghijklmnopqrstuvwxyz0123456789_", provider->id[i]) == NULL ||
            (i == 0 && (provider->id[0] < 'a' || provider->id[0] > 'z')))
            return conformance_fail(result, "the id is not [a-z][a-z0-9_]*");
    if (i == 0 || i == sizeof provider->id)
        return conformance_fail(result, "the id is empty or not terminated");
    for (i = 0; i < sizeof provider->version && provider->version[i] != '\0'; i++)
        if (provider->version[i] < ' ' || provider->version[i] > '~')
            return conformance_fail(result, "the version is not printable ASCII");
    if (i == sizeof provider->version)
        return conformance_fail(result, "the version is not terminated");
    if ((provider->queue_open == NULL) != (provider->queue_close == NULL))
        return conformance_fail(result, "R8: only one of queue_open and queue_close is offered");
    return true;
}

static uint64_t count_entries(const char *folder)
{
    DIR *open = opendir(folder);
    uint64_t count = 0;
    if (open == NULL) return 0;
    while (readdir(open) != NULL) count++;
    closedir(open);
    return count;
}

/* open and close: in turn, two at once, NULL; nothing is left behind. */
static bool check_open_close(direct *self, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_provider *one, *two;
    uint64_t threads = 0, files = 0;
    int32_t status;
    int round;
    direct_close(self, NULL);
    for (round = 0; round < 4; round++) {
        status = direct_open(self, &one, &error);
        if (status != TENON_OK) {
            if (error.reason == 0 && error.text[0] == '\0')
                return conformance_fail(result, "open answered %d and does not say why", status);
            conformance_set(result, CONFORMANCE_SKIPPED, "%s", error.text);
            atomic_store(&self->closed, true);
            return true;
        }
        if (one == NULL) return conformance_fail(result, "open answered OK without a provider");
        status = direct_open(self, &two, &error);
        if (status != TENON_OK || two == NULL) {
            direct_close(self, one);
            return conformance_fail(result, "a second open answered %d: %s", status, error.text);
        }
        direct_close(self, one);
        direct_close(self, two);
        direct_close(self, NULL);
        atomic_store(&self->closed, true);
        result->requests += 2;
        /* The first round may leave what a runtime keeps for the whole process. */
        if (round == 0) {
            threads = count_entries("/proc/self/task");
            files = count_entries("/proc/self/fd");
        }
    }
    if (count_entries("/proc/self/task") > threads)
        return conformance_fail(result, "open and close leave threads behind");
    if (count_entries("/proc/self/fd") > files)
        return conformance_fail(result, "open and close leave descriptors behind");
    return true;
}

static bool terminated(const char *text, size_t bytes)
{
    return memchr(text, '\0', bytes) != NULL;
}

/* Counting, describing, opening devices twice; indices past the end; NULL. */
static bool check_devices(direct *self, direct_device *on, conformance_result *result)
{
    const tenon_provider_v1 *functions = &self->module->provider;
    const tenon_device_info empty = {TENON_HEAD(tenon_device_info), .kind = 0};
    tenon_device *second = NULL, *past = NULL;
    tenon_device_queue *queue = NULL;
    uint32_t count = 0, again = 0, i;
    int32_t status;
    if (functions->device_count(on->provider, &count, NULL) != TENON_OK ||
        functions->device_count(on->provider, &again, NULL) != TENON_OK || count != again)
        return conformance_fail(result, "device_count answers %u, then %u", count, again);
    for (i = 0; i < count; i++) {
        direct_struct info;
        direct_present(&info, &empty, sizeof empty, functions->device_info_size);
        status = functions->device_info(on->provider, i, &info.info, NULL);
        if (status != TENON_OK) return conformance_fail(result, "device_info %u: %d", i, status);
        if (!terminated(info.info.name, sizeof info.info.name) ||
            !terminated(info.info.driver, sizeof info.info.driver) ||
            !terminated(info.info.detail, sizeof info.info.detail))
            return conformance_fail(result, "a text of device %u is not terminated", i);
        if (info.info.kind < TENON_DEVICE_CPU || info.info.kind > TENON_DEVICE_NPU)
            return conformance_fail(result, "device %u is of kind %u", i, info.info.kind);
        if (info.info.reserved0 != 0)
            return conformance_fail(result, "R7: reserved0 of device %u is not zero", i);
        if (info.info.memory_total != TENON_UNKNOWN && info.info.memory_free != TENON_UNKNOWN &&
            info.info.memory_free > info.info.memory_total)
            return conformance_fail(result, "device %u has more memory free than it has", i);
        result->requests++;
    }
    if (functions->device_open(on->provider, count, &past, NULL) == TENON_OK)
        return conformance_fail(result, "device_open answers OK for index %u of %u", count, count);
    {
        direct_struct info;
        direct_present(&info, &empty, sizeof empty, functions->device_info_size);
        if (functions->device_info(on->provider, count, &info.info, NULL) == TENON_OK)
            return conformance_fail(result, "device_info answers OK for index %u of %u", count,
                                    count);
    }
    status = functions->device_open(on->provider, self->target->device, &second, NULL);
    if (status != TENON_OK || second == NULL)
        return conformance_fail(result, "a second device_open answers %d", status);
    functions->device_close(second);
    functions->device_close(NULL);
    if (functions->queue_open != NULL) {
        status = functions->queue_open(on->device, &queue, NULL);
        if (status != TENON_OK || queue == NULL)
            return conformance_fail(result, "a second queue_open answers %d", status);
        functions->queue_close(queue);
        functions->queue_close(NULL);
    }
    self->module->qmatmul.release(on->device, NULL);
    result->requests += 5;
    return true;
}

/* What must not differ after calls from what it was before (R11). */
typedef struct environment {
    int rounding, error_number;
    uint32_t control;
    char locale[64];
    struct stat directory;
    sigset_t mask;
    struct sigaction actions[32];
} environment;

static void read_environment(environment *out)
{
    const char *locale = setlocale(LC_ALL, NULL);
    int i;
    memset(out, 0, sizeof *out);
    out->error_number = errno;
    out->rounding = fegetround();
#if defined(__x86_64__)
    out->control = _mm_getcsr() & 0xffc0u; /* all but the sticky flags */
#endif
    snprintf(out->locale, sizeof out->locale, "%s", locale != NULL ? locale : "");
    if (stat(".", &out->directory) != 0) memset(&out->directory, 0, sizeof out->directory);
    sigprocmask(SIG_BLOCK, NULL, &out->mask);
    for (i = 1; i < 32; i++) sigaction(i, NULL, &out->actions[i]);
}

static bool same_environment(const environment *before, const environment *after, const char *when,
                             conformance_result *result)
{
    int i;
    if (before->error_number != after->error_number)
        return conformance_fail(result, "R11: %s changes errno", when);
    if (before->rounding != after->rounding || before->control != after->control)
        return conformance_fail(result, "R11: %s changes the floating point environment", when);
    if (strcmp(before->locale, after->locale) != 0)
        return conformance_fail(result, "R11: %s changes the locale", when);
    if (before->directory.st_ino != after->directory.st_ino)
        return conformance_fail(result, "R11: %s changes the directory", when);
    for (i = 1; i < 32; i++) {
        if (before->actions[i].sa_handler != after->actions[i].sa_handler)
            return conformance_fail(result, "R11: %s changes the handler of signal %d", when, i);
        if (sigismember(&before->mask, i) != sigismember(&after->mask, i))
            return conformance_fail(result, "R11: %s changes the mask of signal %d", when, i);
    }
    return true;
}

/* Every function leaves errno, rounding, locale, directory and handlers alone and prints nothing. */
static bool check_environment(direct *self, direct_device *on, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    environment before, after;
    abi_request request = {0};
    struct stat printed;
    int output = memfd_create("stdout", MFD_CLOEXEC);
    bool good = false;
    int32_t status;
    if (output < 0 || dup2(output, STDOUT_FILENO) < 0) {
        conformance_fail(result, "standard output could not be watched");
        goto out;
    }
    errno = 7777;
    read_environment(&before);
    if (!abi_request_make(&request, self, on, 96, 64, 3, result)) goto out;
    read_environment(&after);
    if (!same_environment(&before, &after, "prepare", result)) goto out;
    status = direct_run(self, on, &request.call, &error);
    read_environment(&after);
    if (!same_environment(&before, &after, "run", result)) goto out;
    if (status != TENON_OK && status != TENON_DECLINED) {
        conformance_fail(result, "run: status %d: %s", status, error.text);
        goto out;
    }
    abi_request_free(&request, self, on);
    read_environment(&after);
    if (!same_environment(&before, &after, "release", result)) goto out;
    fflush(stdout);
    if (fstat(output, &printed) == 0 && printed.st_size != 0) {
        conformance_fail(result, "R11: the provider prints to standard output");
        goto out;
    }
    result->requests += 3;
    good = true;
out:
    abi_request_free(&request, self, on);
    if (output >= 0) close(output);
    return good;
}

#define DIRECT_CASE(name) \
    static void run_##name(const conformance_case *test, const conformance_target *target, \
                           conformance_result *result) \
    { \
        (void)test; \
        run_direct(target, check_##name, result); \
    }
#define DEVICE_CASE(name, function) \
    static void run_##name(const conformance_case *test, const conformance_target *target, \
                           conformance_result *result) \
    { \
        (void)test; \
        run_device(target, function, result); \
    }
DIRECT_CASE(descriptors)
DIRECT_CASE(open_close)
DEVICE_CASE(devices, check_devices)
DEVICE_CASE(environment, check_environment)
DEVICE_CASE(unknown_values, abi_check_unknown_values)
DEVICE_CASE(supports_prepare, abi_check_supports_prepare)
DEVICE_CASE(reserved, abi_check_reserved)
DEVICE_CASE(buffer_view, abi_check_buffer_view)
DEVICE_CASE(release_pairs, abi_check_release_pairs)
DEVICE_CASE(any_thread, abi_check_any_thread)
DEVICE_CASE(ids_past_rows, abi_check_ids_past_rows)
DEVICE_CASE(cache_pairs, abi_check_cache_pairs)
DEVICE_CASE(cache_calls, abi_check_cache_calls)
DEVICE_CASE(round_trips, device_memory_round_trips)
DEVICE_CASE(too_much, device_memory_too_much)
DEVICE_CASE(balance, device_memory_balance)
DEVICE_CASE(chosen_token, device_memory_chosen_token)
DEVICE_CASE(queues, device_memory_queues)
DEVICE_CASE(graph_cache, graph_cache)
DEVICE_CASE(graph_order, graph_order)
DEVICE_CASE(graph_dropped, graph_dropped)

/* The cases that every operation has; conformance_case.layout is the index. */
static const struct {
    const char *name;
    operation_check check;
    bool products; /* of qmatmul too: its other cases stand below */
} operation_cases[] = {
    {"abi/%s/sane", abi_check_sane, true},
    {"abi/%s/reserved", abi_check_sample_reserved, false},
    {"abi/%s/buffer-view", abi_check_foreign_buffer, false},
    {"abi/memory/%s", device_memory_operation, true},
    {"abi/graph/%s", graph_operation, true},
};

static void run_operation(const conformance_case *test, const conformance_target *target,
                          conformance_result *result)
{
    on_device(target, NULL, operation_cases[test->layout].check, (sample_kind)test->format, result);
}

static bool add_operations(conformance_suite *suite)
{
    char name[80];
    uint32_t kind, i;
    for (kind = 0; kind < SAMPLE_KINDS; kind++)
        for (i = 0; i < sizeof operation_cases / sizeof operation_cases[0]; i++) {
            conformance_case *added;
            if (kind == SAMPLE_QMATMUL && !operation_cases[i].products) continue;
            snprintf(name, sizeof name, operation_cases[i].name, sample_name((sample_kind)kind));
            added = conformance_add(suite, CONFORMANCE_ABI, run_operation, name);
            if (added == NULL) return false;
            added->format = kind;
            added->layout = i;
        }
    return true;
}

bool conformance_add_abi(conformance_suite *suite)
{
    static const struct {
        const char *name;
        conformance_body body;
    } cases[] = {
        {"abi/provider/descriptors", run_descriptors},
        {"abi/provider/open-close", run_open_close},
        {"abi/provider/devices", run_devices},
        {"abi/provider/environment", run_environment},
        {"abi/qmatmul/unknown-values", run_unknown_values},
        {"abi/qmatmul/supports-prepare", run_supports_prepare},
        {"abi/qmatmul/reserved", run_reserved},
        {"abi/qmatmul/buffer-view", run_buffer_view},
        {"abi/qmatmul/release-pairs", run_release_pairs},
        {"abi/qmatmul/any-thread", run_any_thread},
        {"abi/embed/ids-past-rows", run_ids_past_rows},
        {"abi/attention/release-pairs", run_cache_pairs},
        {"abi/attention/calls", run_cache_calls},
        {"abi/memory/round-trips", run_round_trips},
        {"abi/memory/too-much", run_too_much},
        {"abi/memory/balance", run_balance},
        {"abi/memory/chosen-token", run_chosen_token},
        {"abi/memory/queues", run_queues},
        {"abi/graph/cache", run_graph_cache},
        {"abi/graph/order", run_graph_order},
        {"abi/graph/dropped", run_graph_dropped},
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (conformance_add(suite, CONFORMANCE_ABI, cases[i].body, cases[i].name) == NULL)
            return false;
    return add_operations(suite);
}
