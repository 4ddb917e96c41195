/* `tenon list`: every provider that was looked at, its verdict and its devices.
 *
 * Devices are counted in the probe helper, anew each time: no driver is initialised in this
 * process, and a provider that dies while it counts takes nobody along. */
#include "list.h"
#include "command.h"
#include "json.h"
#include "names.h"
#include "opening.h"
#include "terminal.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static const char reference_id[] = "reference";

/* What the helper saw, put into the entry: devices, or why there are none. */
static void take_report(list_entry *entry, const loader_probe_report *report)
{
    const char *text = "";
    if (report->reason != TENON_REASON_NONE) {
        entry->reason = report->reason;
        text = report->detail;
    } else if (report->open_status != TENON_OK) {
        entry->reason = report->open_reason;
        entry->wanted = report->open_wanted;
        entry->available = report->open_available;
        text = report->open_text;
    } else if (report->device_count == 0) {
        entry->reason = report->no_device_reason != TENON_REASON_NONE ? report->no_device_reason
                                                                      : TENON_REASON_NO_DEVICE;
        text = report->no_device_text;
    }
    snprintf(entry->text, sizeof entry->text, "%s", text);
}

static bool copy_devices(list_entry *entry, const tenon_device_info *devices, uint32_t count)
{
    uint32_t i;
    if (count == 0) return true;
    entry->devices = calloc(count, sizeof *entry->devices);
    if (entry->devices == NULL) {
        terminal_error("out of memory");
        return false;
    }
    for (i = 0; i < count; i++) {
        list_device *to = &entry->devices[i];
        const tenon_device_info *from = &devices[i];
        to->kind = from->kind;
        to->arith = from->arith;
        to->unusable = from->unusable;
        to->memory_total = from->memory_total;
        to->memory_free = from->memory_free;
        snprintf(to->name, sizeof to->name, "%.*s", (int)sizeof from->name - 1, from->name);
        snprintf(to->driver, sizeof to->driver, "%.*s", (int)sizeof from->driver - 1, from->driver);
        snprintf(to->detail, sizeof to->detail, "%.*s", (int)sizeof from->detail - 1, from->detail);
    }
    entry->device_count = count;
    return true;
}

/* Counts the devices of a loaded file in the helper. */
static bool probe_devices(list_entry *entry, const options *parsed)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    loader_probe_report report;
    bool good = true;
    memset(&report, 0, sizeof report);
    terminal_progress("counting the devices of %s", entry->id);
    if (loader_probe(entry->file, parsed->host_config.items, parsed->host_config.count, NULL, 0,
                     &report, &error) != TENON_OK) {
        entry->reason = error.reason;
        snprintf(entry->text, sizeof entry->text, "%s", error.text);
    } else {
        take_report(entry, &report);
        good = copy_devices(entry, report.devices, report.device_count);
    }
    loader_probe_report_clear(&report);
    terminal_progress_end();
    return good;
}

/* Devices of a provider that is part of this program: nothing foreign is run by asking it here. */
static bool ask_devices(list_entry *entry, tenon_host *host)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint32_t count = 0, i;
    if (tenon_host_device_count(host, entry->id, &count, &error) != TENON_OK) {
        entry->reason = error.reason;
        snprintf(entry->text, sizeof entry->text, "%s", error.text);
        return true;
    }
    if (count == 0) return true;
    entry->devices = calloc(count, sizeof *entry->devices);
    if (entry->devices == NULL) {
        terminal_error("out of memory");
        return false;
    }
    entry->device_count = count;
    for (i = 0; i < count; i++) {
        tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
        list_device *to = &entry->devices[i];
        if (tenon_host_device(host, entry->id, i, &device, &error) != TENON_OK) {
            to->unusable = error.reason;
            snprintf(to->detail, sizeof to->detail, "%.*s", (int)sizeof to->detail - 1, error.text);
            continue;
        }
        to->kind = device.kind;
        to->arith = device.arith;
        to->unusable = device.unusable;
        to->memory_total = device.memory_total;
        to->memory_free = device.memory_free;
        memcpy(to->name, device.name, sizeof to->name);
        memcpy(to->driver, device.driver, sizeof to->driver);
        memcpy(to->detail, device.detail, sizeof to->detail);
        memcpy(to->uuid, device.uuid, sizeof to->uuid);
        to->name[sizeof to->name - 1] = '\0';
        to->driver[sizeof to->driver - 1] = '\0';
        to->detail[sizeof to->detail - 1] = '\0';
    }
    return true;
}

/* The value of key="..." in a line of the loader, without its escapes; "" when there is none. */
static void quoted_value(const char *line, const char *key, char *out, size_t size)
{
    const char *at = strstr(line, key);
    size_t n = 0;
    out[0] = '\0';
    if (at == NULL) return;
    for (at += strlen(key); *at != '\0' && *at != '"' && n + 1 < size; at++) {
        unsigned byte;
        if (at[0] != '\\') {
            out[n++] = *at;
        } else if (at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1) {
            out[n++] = (char)byte;
            at += 3;
        } else if (at[1] != '\0') {
            at++;
            out[n++] = (char)(*at == 'n' ? '\n' : *at == 'r' ? '\r' : *at == 't' ? '\t' : *at);
        }
    }
    out[n] = '\0';
}

/* The directories that were looked into, from what the loader said about them. */
static bool gather_places(list *self, const options *parsed)
{
    size_t i;
    if (parsed->searched.count == 0) return true;
    self->places = calloc(parsed->searched.count, sizeof *self->places);
    if (self->places == NULL) {
        terminal_error("out of memory");
        return false;
    }
    for (i = 0; i < parsed->searched.count; i++) {
        list_place *place = &self->places[self->place_count++];
        const char *line = parsed->searched.items[i], *word;
        quoted_value(line, "directory=\"", place->path, sizeof place->path);
        quoted_value(line, "text=\"", place->text, sizeof place->text);
        word = strstr(line, "\" source=");
        if (word != NULL) sscanf(word + 9, "%31s", place->source);
        word = strstr(line, " outcome=");
        if (word != NULL) sscanf(word + 9, "%31s", place->outcome);
    }
    return true;
}

/* A directory that could not be searched is a candidate with a verdict, but no provider. A file
 * that is not there has the suffix of one. */
static bool is_directory(const list *self, const tenon_candidate *candidate)
{
    uint64_t i;
    if (candidate->reason != TENON_REASON_NO_SUCH_PATH &&
        candidate->reason != TENON_REASON_OPEN_FAILED)
        return false;
    for (i = 0; i < self->place_count; i++)
        if (strcmp(self->places[i].path, candidate->file) == 0) return true;
    return false;
}

static bool fill_entry(list *self, const options *parsed, const tenon_candidate *candidate)
{
    list_entry *entry = &self->entries[self->count++];
    const char *text = candidate->text[0] != '\0' ? candidate->text : "";
    entry->id = candidate->id;
    entry->version = candidate->version;
    entry->file = candidate->file;
    entry->verdict = candidate->verdict;
    entry->stage = candidate->stage;
    entry->reason = candidate->reason;
    entry->symbol = candidate->symbol;
    entry->have = candidate->have;
    entry->need = candidate->need;
    entry->hint = candidate->hint;
    entry->line = candidate->line;
    entry->directory = is_directory(self, candidate);
    entry->built_in = candidate->file[0] == '\0';
    entry->named_and_refused = opening_refused(parsed, candidate);
    snprintf(entry->text, sizeof entry->text, "%s", text);
    if (entry->verdict != TENON_CANDIDATE_LOADED || entry->directory) return true;
    return entry->built_in ? ask_devices(entry, self->host) : probe_devices(entry, parsed);
}

/* The reference ends every chain; where the host does not list it among the candidates, we do. */
static bool add_reference(list *self)
{
    list_entry *entry;
    uint64_t i;
    for (i = 0; i < self->count; i++)
        if (strcmp(self->entries[i].id, reference_id) == 0) return true;
    memmove(self->entries + 1, self->entries, (size_t)self->count * sizeof *self->entries);
    self->count++;
    entry = &self->entries[0];
    memset(entry, 0, sizeof *entry);
    entry->id = reference_id;
    entry->version = tenon_version();
    entry->file = entry->symbol = entry->have = entry->need = entry->hint = entry->line = "";
    entry->verdict = TENON_CANDIDATE_LOADED;
    entry->stage = TENON_STAGE_PUBLISH;
    entry->built_in = true;
    return ask_devices(entry, self->host);
}

static int gather(list *self, const options *parsed)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    uint64_t count = 0, i;
    self->team = (tenon_team_info){TENON_HEAD(tenon_team_info), .threads = 0};
    if (tenon_host_team(self->host, &self->team, &error) != TENON_OK)
        return opening_failed("threads", &error);
    if (tenon_host_candidate_count(self->host, &count, &error) != TENON_OK)
        return opening_failed("candidates", &error);
    self->entries = count < UINT32_MAX ? calloc((size_t)count + 1, sizeof *self->entries) : NULL;
    if (self->entries == NULL) {
        terminal_error("out of memory");
        return EXIT_FAILED;
    }
    if (!gather_places(self, parsed)) return EXIT_FAILED;
    for (i = 0; i < count; i++) {
        tenon_candidate candidate = {TENON_HEAD(tenon_candidate), .verdict = 0};
        if (tenon_host_candidate(self->host, i, &candidate, &error) != TENON_OK)
            return opening_failed("candidates", &error);
        if (!fill_entry(self, parsed, &candidate)) return EXIT_FAILED;
    }
    return add_reference(self) ? EXIT_GOOD : EXIT_FAILED;
}

int command_list(int argc, char **argv)
{
    bool why = false;
    const option_entry entries[] = {
        {"why", OPTION_FLAG, &why, 0, 0, NULL, NULL,
         "every candidate, directory and device, with its verdict", NULL},
        {0},
    };
    const option_usage usage = {
        "list",
        "[options]",
        "Shows the providers that were found, what was refused and why, and the devices. Devices\n"
        "are counted anew, in a process of their own.\n\n"
        "  tenon list\n"
        "  tenon list --why                           also what was skipped, and where was looked\n"
        "  tenon list --provider-dir ./tenon-acme.so  a file that is not installed yet\n\n"
        "Exit code 2: a file or directory that was named is missing or refused. Refused files "
        "that\n"
        "were only found by looking through a directory are shown, and are no error.\n",
        entries,
        0,
        0,
        NULL};
    options parsed;
    list self;
    uint64_t i;
    int status = options_parse(&parsed, &usage, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    memset(&self, 0, sizeof self);
    parsed.gathers = true;
    status = opening_host(&parsed, NULL, &self.host);
    if (status == EXIT_GOOD) status = gather(&self, &parsed);
    if (status == EXIT_GOOD) {
        if (!parsed.json)
            list_print(&self, why || parsed.verbose);
        else if (!list_emit(&self))
            status = EXIT_FAILED;
        for (i = 0; i < self.count && status != EXIT_FAILED; i++) {
            const char *line = self.entries[i].line;
            char shown[2048];
            if (!self.entries[i].named_and_refused) continue;
            status = EXIT_REFUSED;
            text_escape(shown, sizeof shown, line, strlen(line));
            terminal_error("%s", strncmp(shown, "tenon: ", 7) == 0 ? shown + 7 : shown);
        }
    }
    for (i = 0; i < self.count; i++) free(self.entries[i].devices);
    free(self.entries);
    free(self.places);
    tenon_host_destroy(self.host, NULL);
    options_free(&parsed);
    return status;
}
