/* tenon-probe: loads one provider in a process of its own and tells what it saw.
 *
 *     tenon-probe [--set KEY=VALUE]... -- FILE
 *
 * Started by the loader (probe.c), which reads the report from a channel of its own, so that
 * nothing the provider prints can be taken for it; probe_report.c has its form. Not a tool for
 * people: run without a channel it writes nothing and exits with 64. */
#include <loader/load.h>
#include <loader/platform.h>
#include <loader/probe.h>
#include <loader/probe_target.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the report --------------------------------------------------------------------------- */

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
static void
tell(const char *format, ...)
{
    char line[4096];
    va_list list;
    int count;
    va_start(list, format);
    count = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    /* A parent that is gone, or a line that does not fit, cannot be told of. */
    if (count <= 0 || (size_t)count >= sizeof line ||
        !platform_channel_write(line, (uint64_t)count))
        platform_helper_end(64);
}

/* Bytes in hexadecimal, "-" for none; room for twice as many and a NUL. */
static const char *hex(const void *bytes, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *at = bytes;
    size_t i;
    if (count == 0) return "-";
    for (i = 0; i < count; i++) {
        out[2 * i] = digits[at[i] >> 4];
        out[2 * i + 1] = digits[at[i] & 15];
    }
    out[2 * count] = '\0';
    return out;
}

static const char *hex_text(const char *text, char *out)
{
    return hex(text, strlen(text), out);
}

static void tell_fault(const loader_fault *fault)
{
    char parts[4][2 * 256 + 1];
    tell("refused %u %s %s %s %s\n", (unsigned)fault->reason, hex_text(fault->symbol, parts[0]),
         hex_text(fault->have, parts[1]), hex_text(fault->need, parts[2]),
         hex_text(fault->text, parts[3]));
}

static void tell_device(const tenon_device_info *info)
{
    char parts[4][2 * 96 + 1];
    tell("device %u %u %u %llu %llu %s %s %s %s\n", (unsigned)info->kind, (unsigned)info->arith,
         (unsigned)info->unusable, (unsigned long long)info->memory_total,
         (unsigned long long)info->memory_free, hex(info->uuid, sizeof info->uuid, parts[0]),
         hex_text(info->name, parts[1]), hex_text(info->driver, parts[2]),
         hex_text(info->detail, parts[3]));
}

/* ---- services ----------------------------------------------------------------------------- */

/* "key=value" strings of the command line. */
typedef struct settings {
    char **items;
    int count;
} settings;

static void TENON_CALL service_log(void *host, uint32_t level, const char *text)
{
    (void)host;
    (void)level;
    (void)text; /* what a provider says while it is probed it says again when it is used */
}

static void TENON_CALL service_parallel_for(void *host, uint64_t count, tenon_parallel_body body,
                                            void *context)
{
    uint64_t i;
    (void)host;
    for (i = 0; i < count; i++) body(context, i, 0);
}

static uint32_t TENON_CALL service_team_size(void *host)
{
    (void)host;
    return 1;
}

static const char *TENON_CALL service_config(void *host, const char *key)
{
    const settings *self = host;
    size_t length = strlen(key);
    int i;
    for (i = self->count; i-- > 0;) /* the last one counts */
        if (strncmp(self->items[i], key, length) == 0 && self->items[i][length] == '=')
            return self->items[i] + length + 1;
    return NULL;
}

/* ---- what may not change ------------------------------------------------------------------ */

static void compare_numbers(loader_fault *fault, uint32_t reason, const char *format, uint64_t have,
                            uint64_t need)
{
    char have_text[40], need_text[40];
    if (have == need) return;
    snprintf(have_text, sizeof have_text, format[0] == 'x' ? "0x%llx" : "%llu",
             (unsigned long long)have);
    snprintf(need_text, sizeof need_text, format[0] == 'x' ? "0x%llx" : "%llu",
             (unsigned long long)need);
    fault_note(fault, reason, NULL, have_text, need_text, NULL);
}

/* In the order in which one hides another: the mode first, what close leaves behind last. */
static void compare_states(const platform_state *before, const platform_state *after,
                           loader_fault *fault)
{
    compare_numbers(fault, TENON_REASON_PROBE_FP_ENVIRONMENT, "x", after->fp_control,
                    before->fp_control);
    if (after->signals != before->signals)
        fault_note(fault, TENON_REASON_PROBE_SIGNALS, NULL, NULL, NULL, NULL);
    if (strcmp(after->locale, before->locale) != 0)
        fault_note(fault, TENON_REASON_PROBE_LOCALE, NULL, after->locale, before->locale, NULL);
    if (strcmp(after->directory, before->directory) != 0)
        fault_note(fault, TENON_REASON_PROBE_DIRECTORY, NULL, after->directory, before->directory,
                   NULL);
    if (after->threads > before->threads)
        compare_numbers(fault, TENON_REASON_PROBE_THREADS, "u", after->threads, before->threads);
    if (after->descriptors > before->descriptors)
        compare_numbers(fault, TENON_REASON_PROBE_DESCRIPTORS, "u", after->descriptors,
                        before->descriptors);
}

/* Compares once close has had a moment: joined threads leave the system's list a little later. */
static void compare_at_end(const platform_state *before, loader_fault *fault)
{
    platform_state after;
    unsigned tries;
    for (tries = 0; platform_state_read(&after); tries++) {
        if ((after.threads <= before->threads && after.descriptors <= before->descriptors) ||
            tries == 50) {
            compare_states(before, &after, fault);
            return;
        }
        platform_sleep_ms(10);
    }
}

/* ---- the phases --------------------------------------------------------------------------- */

/* Opens the provider and counts its devices. Returns what device 0 claims, 0 when there is none
 * that can be tested. */
static uint32_t look_at_devices(probe_target *target, const tenon_services *services,
                                loader_fault *fault)
{
    char part[2 * 208 + 1], have[40];
    tenon_error error;
    tenon_device_info info;
    uint32_t count = 0, arith = 0, i;
    int32_t status;
    tell("at open\n");
    status = probe_open(target, services, &error);
    tell("open %d %u %llu %llu %s\n", (int)status, status != 0 ? (unsigned)error.reason : 0,
         status != 0 ? (unsigned long long)error.wanted : 0,
         status != 0 ? (unsigned long long)error.available : 0,
         hex_text(status != 0 ? error.text : "", part));
    if (status == TENON_OK && target->provider == NULL)
        fault_note(fault, TENON_REASON_PROBE_REFUSED, "provider_v1.open", "OK and NULL",
                   "a provider", "open answered OK and NULL");
    if (status > 0 || status < TENON_INTERNAL) {
        cut_format(have, sizeof have, "status %d", (int)status);
        fault_note(fault, TENON_REASON_PROBE_REFUSED, "provider_v1.open", have, NULL,
                   "open answered what no call may answer");
    }
    if (status != TENON_OK || fault->reason != TENON_REASON_NONE) return 0;
    tell("at devices\n");
    status = probe_device_count(target, &count, &error);
    if (status != TENON_OK || count > PROBE_MAX_DEVICES) {
        cut_format(have, sizeof have, status != TENON_OK ? "status %d" : "%d devices",
                   status != TENON_OK ? (int)status : (int)(count & 0x7fffffff));
        fault_note(fault, TENON_REASON_PROBE_REFUSED, "provider_v1.device_count", have, NULL,
                   status != TENON_OK ? error.text : "more devices than there can be");
        return 0;
    }
    tell("devices %u %u %s\n", (unsigned)count, count == 0 ? (unsigned)error.reason : 0,
         hex_text(count == 0 ? error.text : "", part));
    for (i = 0; i < count; i++) {
        status = probe_device_info(target, i, &info, &error);
        if (status != TENON_OK) {
            cut_format(have, sizeof have, "status %d", (int)status);
            fault_note(fault, TENON_REASON_PROBE_REFUSED, "provider_v1.device_info", have, NULL,
                       error.text);
            return 0;
        }
        tell_device(&info);
        if (i == 0 && info.unusable == TENON_REASON_NONE) arith = info.arith;
    }
    return arith;
}

/* Everything between the two looks at the state of the process. */
static void probe_file(const char *file, const tenon_services *services,
                       const platform_state *before, loader_fault *fault)
{
    char text[PLATFORM_TEXT_BYTES] = "";
    loader_module module;
    platform_state now;
    bound_symbols bound;
    probe_target target = {.module = &module};
    uint64_t tested = 0;
    uint32_t arith;
    void *library;
    memset(&module, 0, sizeof module);
    tell("at load\n");
    library = platform_library_open(file, text);
    if (library == NULL) {
        load_explain(file, text, TENON_REASON_PROBE_REFUSED, fault);
        return;
    }
    /* A changed mode would also spoil the self-test, and is the better answer. */
    if (platform_state_read(&now))
        compare_numbers(fault, TENON_REASON_PROBE_FP_ENVIRONMENT, "x", now.fp_control,
                        before->fp_control);
    tell("at bind\n");
    bind_library(library, &bound, fault);
    check_descriptors(&bound, &module, fault);
    if (fault->reason != TENON_REASON_NONE) return;
    arith = look_at_devices(&target, services, fault);
    if (platform_state_read(&now))
        compare_numbers(fault, TENON_REASON_PROBE_FP_ENVIRONMENT, "x", now.fp_control,
                        before->fp_control);
    if (arith != 0 && fault->reason == TENON_REASON_NONE) {
        tell("at test\n");
        probe_self_test(&target, arith, services, &tested, fault);
        tell("tested %llu\n", (unsigned long long)tested);
    }
    tell("at close\n");
    probe_close(&target);
    if (fault->reason == TENON_REASON_NONE) compare_at_end(before, fault);
}

int main(int argc, char **argv)
{
    settings set = {calloc((size_t)argc + 1, sizeof *set.items), 0};
    const tenon_services services = {
        TENON_HEAD(tenon_services), &set,          service_log, service_parallel_for,
        service_team_size,          service_config};
    platform_state before;
    loader_fault fault = {0};
    int i;
    if (set.items == NULL) return 64;
    for (i = 1; i + 1 < argc && strcmp(argv[i], "--set") == 0; i += 2)
        set.items[set.count++] = argv[i + 1];
    if (i + 2 != argc || strcmp(argv[i], "--") != 0) {
        fputs("usage: tenon-probe [--set KEY=VALUE]... -- FILE (started by tenon's loader)\n",
              stderr);
        return 64;
    }
    platform_helper_begin();
    tell("%s\n", PROBE_PROTOCOL);
    if (!platform_state_read(&before))
        fault_note(&fault, TENON_REASON_PROBE_HELPER, NULL, NULL, NULL,
                   "the state of the process cannot be read");
    else
        probe_file(argv[i + 1], &services, &before, &fault);
    if (fault.reason != TENON_REASON_NONE) tell_fault(&fault);
    tell("end\n");
    platform_helper_end(0);
    return 0;
}
