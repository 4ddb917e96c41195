/* Reading what the helper wrote: lines of words separated by one space, texts in hexadecimal ("-"
 * for an empty one), so that nothing in them can be taken for anything else.
 *
 *     tenon-probe 1 VERSION                                    must come first
 *     at PHASE
 *     open STATUS REASON WANTED AVAILABLE TEXT
 *     devices COUNT REASON TEXT
 *     device KIND ARITH UNUSABLE TOTAL FREE UUID NAME DRIVER DETAIL
 *     tested CASES
 *     refused REASON SYMBOL HAVE NEED TEXT
 *     end                                                      must come last
 */
#include <loader/probe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct words {
    const char *at, *end; /* the rest of the line */
} words;

static bool next_word(words *self, const char **word, uint64_t *length)
{
    const char *stop;
    if (self->at == self->end) return false;
    stop = memchr(self->at, ' ', (size_t)(self->end - self->at));
    if (stop == NULL) stop = self->end;
    *word = self->at;
    *length = (uint64_t)(stop - self->at);
    self->at = stop == self->end ? stop : stop + 1;
    return *length > 0;
}

static bool take_word(words *self, const char *wanted)
{
    const words before = *self;
    const char *word;
    uint64_t length;
    if (next_word(self, &word, &length) && length == strlen(wanted) &&
        memcmp(word, wanted, (size_t)length) == 0)
        return true;
    *self = before;
    return false;
}

static bool take_number(words *self, uint64_t most, uint64_t *value)
{
    const char *word;
    uint64_t length, i;
    if (!next_word(self, &word, &length) || length > 20) return false;
    *value = 0;
    for (i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)word[i] - '0';
        if (digit > 9 || *value > (UINT64_MAX - digit) / 10) return false;
        *value = *value * 10 + digit;
    }
    return *value <= most;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* Decodes up to capacity bytes, cutting the rest; false when it is not hexadecimal. */
static bool take_bytes(words *self, void *out, uint64_t capacity, uint64_t *count)
{
    uint8_t *bytes = out;
    const char *word;
    uint64_t length, i;
    *count = 0;
    if (!next_word(self, &word, &length)) return false;
    if (length == 1 && word[0] == '-') return true;
    if (length % 2 != 0) return false;
    for (i = 0; i < length; i += 2) {
        int high = digit_of(word[i]), low = digit_of(word[i + 1]);
        if (high < 0 || low < 0) return false;
        if (*count < capacity) bytes[(*count)++] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* A text of one line in room bytes, NUL-terminated. */
static bool take_text(words *self, char *out, uint64_t room)
{
    uint64_t count, i;
    if (!take_bytes(self, out, room - 1, &count)) return false;
    for (i = 0; i < count; i++)
        if (out[i] == '\0' || out[i] == '\n' || out[i] == '\r') out[i] = ' ';
    out[count] = '\0';
    return true;
}

static bool take_u32(words *self, uint32_t *value)
{
    uint64_t wide;
    if (!take_number(self, UINT32_MAX, &wide)) return false;
    *value = (uint32_t)wide;
    return true;
}

static bool read_open(words *line, loader_probe_report *out)
{
    const char *word;
    uint64_t length, magnitude;
    bool negative = line->at != line->end && *line->at == '-';
    words number = *line;
    if (!next_word(line, &word, &length)) return false;
    number.at += negative ? 1 : 0;
    number.end = word + length;
    if (!take_number(&number, INT32_MAX, &magnitude) || !take_u32(line, &out->open_reason) ||
        !take_number(line, UINT64_MAX, &out->open_wanted) ||
        !take_number(line, UINT64_MAX, &out->open_available))
        return false;
    out->open_status = negative ? -(int32_t)magnitude : (int32_t)magnitude;
    return take_text(line, out->open_text, sizeof out->open_text);
}

static bool read_device(words *line, tenon_device_info *out)
{
    uint64_t count;
    memset(out, 0, sizeof *out);
    out->struct_size = sizeof *out;
    out->abi_version = TENON_ABI_VERSION;
    return take_u32(line, &out->kind) && take_u32(line, &out->arith) &&
           take_u32(line, &out->unusable) && take_number(line, UINT64_MAX, &out->memory_total) &&
           take_number(line, UINT64_MAX, &out->memory_free) &&
           take_bytes(line, out->uuid, sizeof out->uuid, &count) &&
           take_text(line, out->name, sizeof out->name) &&
           take_text(line, out->driver, sizeof out->driver) &&
           take_text(line, out->detail, sizeof out->detail);
}

static bool read_refused(words *line, loader_fault *out)
{
    loader_fault fault = {0};
    if (!take_u32(line, &fault.reason) || fault.reason == TENON_REASON_NONE ||
        fault.reason >= 900 || !take_text(line, fault.symbol, sizeof fault.symbol) ||
        !take_text(line, fault.have, sizeof fault.have) ||
        !take_text(line, fault.need, sizeof fault.need) ||
        !take_text(line, fault.text, sizeof fault.text) || line->at != line->end)
        return false;
    if (out->reason == TENON_REASON_NONE) *out = fault;
    return true;
}

/* One line after the first. *told: devices that have been described so far. */
static bool read_line(words *line, probe_outcome *out, uint32_t *told, bool *memory)
{
    loader_probe_report *report = &out->report;
    const char *word;
    uint64_t length;
    if (take_word(line, "at")) {
        if (!next_word(line, &word, &length) || length >= sizeof out->phase) return false;
        memcpy(out->phase, word, (size_t)length);
        out->phase[length] = '\0';
    } else if (take_word(line, "open")) {
        if (!read_open(line, report)) return false;
    } else if (take_word(line, "devices")) {
        uint64_t count;
        if (report->devices != NULL || !take_number(line, PROBE_MAX_DEVICES, &count) ||
            !take_u32(line, &report->no_device_reason) ||
            !take_text(line, report->no_device_text, sizeof report->no_device_text))
            return false;
        report->devices = calloc((size_t)count + 1, sizeof *report->devices);
        if (report->devices == NULL) *memory = false;
        if (*memory) report->device_count = (uint32_t)count;
    } else if (take_word(line, "device")) {
        if (*told >= report->device_count || !read_device(line, &report->devices[*told]))
            return false;
        ++*told;
    } else if (take_word(line, "tested")) {
        if (!take_number(line, UINT64_MAX, &out->tested)) return false;
    } else if (take_word(line, "refused")) {
        if (!read_refused(line, &out->fault)) return false;
    } else if (take_word(line, "end")) {
        out->ended = true;
    } else {
        return false;
    }
    return line->at == line->end;
}

int32_t probe_parse(const char *text, probe_outcome *out)
{
    const size_t first = sizeof PROBE_PROTOCOL - 1;
    uint32_t told = 0;
    bool memory = true;
    if (strncmp(text, PROBE_PROTOCOL, first) != 0 || text[first] != '\n') {
        if (text[0] != '\0') {
            char have[64];
            snprintf(have, sizeof have, "%.*s", (int)strcspn(text, "\n"), text);
            fault_note(&out->fault, TENON_REASON_PROBE_HELPER, NULL, have, PROBE_PROTOCOL,
                       "the helper is of another version");
        }
        return TENON_OK;
    }
    text += first + 1;
    while (*text != '\0') {
        words line = {text, text + strcspn(text, "\n")};
        const char *next = line.end;
        /* Half a line is what a crash leaves behind; nothing comes after the end. */
        if (*next != '\n') break;
        if (out->ended || !read_line(&line, out, &told, &memory)) {
            out->ended = false;
            fault_note(&out->fault, TENON_REASON_PROBE_REFUSED, NULL, NULL, NULL,
                       "the report of the helper cannot be read");
            break;
        }
        if (!memory) return TENON_NOMEM;
        text = next + 1;
    }
    /* Devices that were counted but not described do not exist for us. */
    if (out->report.device_count > told) out->report.device_count = told;
    return TENON_OK;
}
