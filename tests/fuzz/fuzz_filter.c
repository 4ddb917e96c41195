/* Any text as a filter and as a name, as a layout file, as a helper's report, and on one line. */
#include <loader/filter.h>
#include <loader/probe.h>
#include <loader/search.h>
#include <loader/verdict.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void one_filter(const char *list, const char *name)
{
    names known = {NULL, 0, 0, 0};
    const char *token;
    uint64_t length;
    bool any = filter_matches(list, name, strlen(name));
    if (any && filter_is_empty(list)) abort();
    if (names_add_string(&known, name) && filter_unknown(list, &known, &token, &length) &&
        filter_glob(token, length, name, strlen(name)))
        abort();
    names_clear(&known);
}

static void one_report(const char *text)
{
    probe_outcome out;
    memset(&out, 0, sizeof out);
    if (probe_parse(text, &out) == TENON_OK && out.report.device_count > PROBE_MAX_DEVICES) abort();
    probe_outcome_clear(&out);
}

static void one_line(const char *text)
{
    char out[64];
    uint64_t needed = line_escape(text, out, sizeof out);
    char *whole = malloc((size_t)needed + 1);
    if (whole == NULL) return;
    if (line_escape(text, whole, needed + 1) != needed || strlen(whole) != needed) abort();
    if (strpbrk(whole, "\n\r\x1b\x7f") != NULL) abort();
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char protocol[] = PROBE_PROTOCOL "\n";
    names folders = {NULL, 0, 0, 0};
    char *text = malloc(size + 1), *report = malloc(size + sizeof protocol), *probe = NULL;
    if (text != NULL && report != NULL && size < 65536) {
        if (size != 0) memcpy(text, bytes, size);
        text[size] = '\0';
        /* the first line is a filter, the rest a name */
        if (strchr(text, '\n') != NULL) {
            char *name = strchr(text, '\n');
            *name = '\0';
            one_filter(text, name + 1);
            *name = '\n';
        }
        memcpy(report, protocol, sizeof protocol);
        strcat(report, text);
        one_report(report);
        one_report(text);
        one_line(text);
        search_parse_layout(text, "/nonexistent", &folders, &probe);
    }
    names_clear(&folders);
    free(probe);
    free(report);
    free(text);
    return 0;
}
