/* `tenon list`: the two ways of showing what was gathered. */
#include "json.h"
#include "list.h"
#include "names.h"
#include "terminal.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

static void put_text(FILE *out, const char *text)
{
    text_print(out, text, strlen(text));
}

/* "8.0 GiB" */
static void put_bytes(FILE *out, uint64_t bytes)
{
    if (bytes >= UINT64_C(1) << 30)
        fprintf(out, "%.1f GiB", (double)bytes / (double)(UINT64_C(1) << 30));
    else
        fprintf(out, "%.1f MiB", (double)bytes / (double)(UINT64_C(1) << 20));
}

/* "driver too old: the words of the provider (wanted 550, available 535)" */
static void put_reason(FILE *out, const list_entry *entry)
{
    const char *reason = tenon_reason_text(entry->reason);
    fputs(reason[0] != '\0' ? reason : "reason not stated", out);
    if (entry->text[0] != '\0' && strcmp(entry->text, reason) != 0) {
        fputs(": ", out);
        put_text(out, entry->text);
    }
    if (entry->wanted != 0 || entry->available != 0)
        fprintf(out, " (wanted %" PRIu64 ", available %" PRIu64 ")", entry->wanted,
                entry->available);
}

static void print_device(FILE *out, const list_entry *entry, uint32_t index)
{
    const list_device *device = &entry->devices[index];
    char label[48];
    snprintf(label, sizeof label, "%s:%lu", entry->id, (unsigned long)index);
    fprintf(out, "    %-14s ", label);
    put_text(out, device->name);
    fprintf(out, ", %s", name_of_device_kind(device->kind));
    if (device->arith & TENON_CLASS_BIT(TENON_CLASS_F32)) fputs(", F32", out);
    if (device->arith & TENON_CLASS_BIT(TENON_CLASS_A8)) fputs(", A8", out);
    if (device->arith & TENON_CLASS_BIT(TENON_CLASS_APPROX)) fputs(", APPROX", out);
    if (device->memory_total != TENON_UNKNOWN && device->memory_total != 0) {
        fputs(", ", out);
        if (device->memory_free != TENON_UNKNOWN) {
            put_bytes(out, device->memory_free);
            fputs(" free of ", out);
        }
        put_bytes(out, device->memory_total);
    }
    if (device->driver[0] != '\0') {
        fputs(", ", out);
        put_text(out, device->driver);
    }
    if (device->detail[0] != '\0') {
        fputs(", ", out);
        put_text(out, device->detail);
    }
    if (device->unusable != TENON_REASON_NONE)
        fprintf(out, "; %sunusable: %s%s", terminal_red(), tenon_reason_text(device->unusable),
                terminal_plain());
    fputc('\n', out);
}

static void print_loaded(FILE *out, const list_entry *entry)
{
    uint32_t i;
    fputs("  ", out);
    put_text(out, entry->id);
    fputc(' ', out);
    put_text(out, entry->version);
    fprintf(out, "  %sloaded%s, %lu device%s%s", terminal_green(), terminal_plain(),
            (unsigned long)entry->device_count, entry->device_count == 1 ? "" : "s",
            entry->device_count == 0 ? ": " : "");
    if (entry->device_count == 0) put_reason(out, entry);
    fprintf(out, "  %s", terminal_dim());
    put_text(out, entry->built_in ? "(built in)" : entry->file);
    fprintf(out, "%s\n", terminal_plain());
    for (i = 0; i < entry->device_count; i++) print_device(out, entry, i);
}

static void print_other(FILE *out, const list_entry *entry, bool why)
{
    bool refused = entry->verdict == TENON_CANDIDATE_REFUSED;
    fputs("  ", out);
    if (entry->id[0] != '\0') {
        put_text(out, entry->id);
        fputs("  ", out);
    }
    fprintf(out, "%s%s%s at %s: %s", refused ? terminal_red() : "", name_of_verdict(entry->verdict),
            terminal_plain(), name_of_stage(entry->stage), tenon_reason_text(entry->reason));
    if (entry->symbol[0] != '\0') {
        fputc(' ', out);
        put_text(out, entry->symbol);
    }
    if (entry->have[0] != '\0' || entry->need[0] != '\0') {
        fputs(" (have ", out);
        put_text(out, entry->have[0] != '\0' ? entry->have : "nothing");
        if (entry->need[0] != '\0') {
            fputs(", need ", out);
            put_text(out, entry->need);
        }
        fputc(')', out);
    }
    if (entry->text[0] != '\0') {
        fputs(": ", out);
        put_text(out, entry->text);
    }
    fprintf(out, "  %s", terminal_dim());
    put_text(out, entry->file);
    fprintf(out, "%s\n", terminal_plain());
    if (why && entry->hint[0] != '\0') {
        fputs("    hint: ", out);
        put_text(out, entry->hint);
        fputc('\n', out);
    }
}

/* A directory that the user named and that cannot be searched is in the list of candidates too. */
static bool place_missing(const list_place *place)
{
    const char *rest = strstr(place->outcome, "-found");
    return rest == NULL && strcmp(place->outcome, "searched-before") != 0;
}

static void print_place(FILE *out, const list_place *place)
{
    fputs("  ", out);
    put_text(out, place->path[0] != '\0' ? place->path : "(empty path)");
    fputs(": ", out);
    put_text(out, place->outcome);
    if (place->text[0] != '\0') {
        fputs(", ", out);
        put_text(out, place->text);
    }
    fprintf(out, "  %s(%s)%s\n", terminal_dim(), place->source, terminal_plain());
}

void list_print(const list *self, bool why)
{
    FILE *out = terminal_out();
    bool others = false, places = false;
    uint64_t i;
    fputs("Providers:\n", out);
    for (i = 0; i < self->count; i++) {
        const list_entry *entry = &self->entries[i];
        if (!entry->directory && entry->verdict == TENON_CANDIDATE_LOADED) print_loaded(out, entry);
    }
    for (i = 0; i < self->count; i++) {
        const list_entry *entry = &self->entries[i];
        if (entry->directory || entry->verdict == TENON_CANDIDATE_LOADED) continue;
        /* files of another architecture and filtered ones are no news, unless they were named */
        if (!why && entry->verdict != TENON_CANDIDATE_REFUSED && !entry->named_and_refused)
            continue;
        if (!others) fputs("\nNot loaded:\n", out);
        others = true;
        print_other(out, entry, why);
    }
    for (i = 0; i < self->place_count; i++) {
        const list_place *place = &self->places[i];
        bool built = strcmp(place->source, "built-in") == 0 || strcmp(place->source, "user") == 0 ||
                     strcmp(place->source, "system") == 0;
        /* that a default directory is not there is no news, that a named one is not, is */
        if (!why && (built || !place_missing(place))) continue;
        if (!places) fputs("\nLooked for providers in:\n", out);
        places = true;
        print_place(out, place);
    }
    fprintf(out, "\nThreads: %lu (%s)\n", (unsigned long)self->team.threads, self->team.why);
}

/* As chains and other tools write it: 8-4-4-4-12; null when the device has none. */
static json_t *uuid_json(const uint8_t uuid[16])
{
    static const uint8_t none[16];
    char text[40];
    size_t i, used = 0;
    if (memcmp(uuid, none, sizeof none) == 0) return json_null();
    for (i = 0; i < 16; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%02x",
                                 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    return json_string(text);
}

static json_t *device_json(const list_device *device, uint32_t index)
{
    json_t *entry = json_object(), *arith = json_array();
    uint32_t n;
    for (n = TENON_CLASS_F32; n <= TENON_CLASS_APPROX; n++) {
        static const char *const names[] = {"", "F32", "A8", "APPROX"};
        if (device->arith & TENON_CLASS_BIT(n)) json_push(arith, json_string(names[n]));
    }
    json_put(entry, "index", json_integer(index));
    json_put(entry, "name", json_text(device->name));
    json_put(entry, "kind", json_string(name_of_device_kind(device->kind)));
    json_put(entry, "memory_total", json_quantity(device->memory_total));
    json_put(entry, "memory_free", json_quantity(device->memory_free));
    json_put(entry, "arith", arith);
    json_put(entry, "driver", json_text(device->driver));
    json_put(entry, "detail", json_text(device->detail));
    json_put(entry, "uuid", uuid_json(device->uuid));
    json_put(entry, "reason", json_integer(device->unusable));
    json_put(entry, "text", json_text(tenon_reason_text(device->unusable)));
    return entry;
}

/* One text for a reader who shows only one: the refusal line, or why there are no devices. */
static json_t *entry_text(const list_entry *entry)
{
    const char *reason = tenon_reason_text(entry->reason);
    char text[512];
    if (entry->verdict != TENON_CANDIDATE_LOADED && entry->line[0] != '\0')
        return json_text(entry->line);
    snprintf(text, sizeof text, "%s%s%s", reason,
             reason[0] != '\0' && entry->text[0] != '\0' ? ": " : "", entry->text);
    return json_text(text);
}

bool list_emit(const list *self)
{
    json_t *document = json_document(), *providers = json_array(), *places = json_array();
    json_t *threads = json_object();
    uint64_t i;
    uint32_t d;
    for (i = 0; i < self->count; i++) {
        const list_entry *entry = &self->entries[i];
        json_t *one, *devices;
        if (entry->directory) continue; /* it is among the places */
        one = json_object();
        devices = json_array();
        json_put(one, "id", json_text(entry->id));
        json_put(one, "version", json_text(entry->version));
        json_put(one, "file", json_text(entry->file));
        json_put(one, "status", json_string(name_of_verdict(entry->verdict)));
        json_put(one, "stage", json_string(name_of_stage(entry->stage)));
        json_put(one, "reason", json_integer(entry->reason));
        json_put(one, "text", entry_text(entry));
        for (d = 0; d < entry->device_count; d++)
            json_push(devices, device_json(&entry->devices[d], d));
        json_put(one, "devices", devices);
        json_push(providers, one);
    }
    for (i = 0; i < self->place_count; i++) {
        const list_place *place = &self->places[i];
        json_t *one = json_object();
        json_put(one, "path", json_text(place->path));
        json_put(one, "source", json_text(place->source));
        json_put(one, "outcome", json_text(place->outcome));
        json_put(one, "text", json_text(place->text));
        json_push(places, one);
    }
    json_put(threads, "count", json_integer(self->team.threads));
    json_put(threads, "why", json_text(self->team.why));
    json_put(document, "version", json_string(tenon_version()));
    json_put(document, "providers", providers);
    json_put(document, "searched", places);
    json_put(document, "threads", threads);
    return json_emit(document);
}
