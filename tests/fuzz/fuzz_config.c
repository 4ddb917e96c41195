/* Fuzz target: configuration files ("key = value" lines) and the words of the command line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tools/options_internal.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every setting that was accepted is a key of harmless characters, a sign, and a value. */
static void check_settings(const options *parsed)
{
    size_t i;
    for (i = 0; i < parsed->settings.count; i++) {
        const char *text = parsed->settings.items[i], *sign = strchr(text, '=');
        if (sign == NULL || !options_key_valid(text, (size_t)(sign - text))) abort();
        if (strchr(text, '\n') != NULL) abort();
    }
}

static void parse_file(const uint8_t *data, size_t size)
{
    options parsed;
    memset(&parsed, 0, sizeof parsed);
    options_read_text(&parsed, "fuzz", (const char *)data, size);
    check_settings(&parsed);
    options_free(&parsed);
}

/* The bytes, cut at zeros, as the arguments of a subcommand. */
static void parse_line(const uint8_t *data, size_t size)
{
    enum { WORDS = 16 };
    static char name[] = "fuzz";
    char *words[WORDS + 1] = {name}, *copy = malloc(size + 1);
    uint64_t number = 0;
    uint32_t choice = 0;
    const char *text = NULL;
    const option_entry entries[] = {
        {"number", OPTION_U64, &number, 3, 1000, NULL, "N", "", NULL},
        {"choice", OPTION_CHOICE, &choice, 0, 0, "one|two", NULL, "", NULL},
        {"text", OPTION_TEXT, &text, 0, 0, NULL, "T", "", NULL},
        {0},
    };
    const option_usage usage = {"fuzz", "", "", entries, 0, 4, "n:number|t:text"};
    options parsed;
    size_t at = 0;
    int count = 1;
    if (copy == NULL) return;
    memcpy(copy, data, size);
    copy[size] = '\0';
    while (at <= size && count < WORDS) {
        words[count++] = copy + at;
        at += strlen(copy + at) + 1;
    }
    /* --config and --help would read and print; they are tested elsewhere */
    for (at = 1; at < (size_t)count; at++)
        if (strncmp(words[at], "--config", 8) == 0 || strncmp(words[at], "--help", 6) == 0 ||
            strcmp(words[at], "-h") == 0)
            goto out;
    if (options_parse(&parsed, &usage, count, words) == OPTIONS_GO_ON) {
        tenon_host_desc desc;
        if (number != 0 && (number < 3 || number > 1000)) abort();
        if (choice > 1) abort();
        if (!options_host_desc(&parsed, text, &desc)) abort();
        check_settings(&parsed);
        options_free(&parsed);
    }
out:
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] % 2 == 0) {
        parse_file(data + 1, size - 1);
    } else if (size > 0) {
        parse_line(data + 1, size - 1);
    }
    return 0;
}
