/* The parser of command lines. The configuration file is read in options_file.c, the help is
 * printed in options_help.c. */
#include "options.h"
#include "command.h"
#include "options_internal.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const semantic_names[] = {"none",
                                             "attn-q",
                                             "attn-k",
                                             "attn-v",
                                             "attn-qkv",
                                             "attn-out",
                                             "ffn-gate",
                                             "ffn-up",
                                             "ffn-gate-up",
                                             "ffn-down",
                                             "embed",
                                             "output",
                                             "moe-router",
                                             "moe-expert-gate-up",
                                             "moe-expert-down",
                                             "moe-shared-gate-up",
                                             "moe-shared-down"};
_Static_assert(sizeof semantic_names / sizeof semantic_names[0] == TENON_SEM_LAST + 1u,
               "every semantic tag has a name");

bool option_list_add(option_list *self, const char *text)
{
    if (self->count == self->capacity) {
        size_t wanted = self->capacity == 0 ? 8 : self->capacity * 2;
        const char **more = realloc(self->items, wanted * sizeof *more);
        if (more == NULL) return false;
        self->items = more;
        self->capacity = wanted;
    }
    self->items[self->count++] = text;
    return true;
}

void option_list_free(option_list *self)
{
    free(self->items);
    memset(self, 0, sizeof *self);
}

void options_free(options *self)
{
    size_t i;
    for (i = 0; i < self->owned.count; i++) free((void *)(uintptr_t)self->owned.items[i]);
    option_list_free(&self->owned);
    option_list_free(&self->provider_dirs);
    option_list_free(&self->settings);
    option_list_free(&self->arguments);
    option_list_free(&self->host_config);
    option_list_free(&self->searched);
}

int options_usage_error(const char *command, const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (command != NULL && command[0] != '\0')
        terminal_error("%s: %s (see 'tenon %s --help')", command, text, command);
    else
        terminal_error("%s (see 'tenon --help')", text);
    return EXIT_USAGE;
}

char *options_own(options *self, const char *a, const char *b, const char *c)
{
    size_t la = strlen(a), lb = strlen(b), lc = strlen(c);
    char *text = malloc(la + lb + lc + 1);
    if (text == NULL) return NULL;
    memcpy(text, a, la);
    memcpy(text + la, b, lb);
    memcpy(text + la + lb, c, lc + 1);
    if (!option_list_add(&self->owned, text)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Do the two words differ only in the case of letters? */
static bool same_word(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        char x = *a >= 'A' && *a <= 'Z' ? (char)(*a - 'A' + 'a') : *a;
        char y = *b >= 'A' && *b <= 'Z' ? (char)(*b - 'A' + 'a') : *b;
        if (x != y) return false;
    }
    return *a == *b;
}

uint32_t options_semantic(const char *text)
{
    char word[32];
    size_t n = 0;
    uint32_t i;
    for (; text[n] != '\0' && n + 1 < sizeof word; n++) word[n] = text[n] == '_' ? '-' : text[n];
    if (text[n] != '\0') return 0;
    word[n] = '\0';
    for (i = 1; i <= TENON_SEM_LAST; i++)
        if (same_word(word, semantic_names[i])) return i;
    return 0;
}

uint32_t options_format(const char *text)
{
    uint32_t i, format;
    for (i = 0; (format = tenon_format_at(i)) != TENON_FORMAT_NONE; i++) {
        tenon_format_info info;
        if (tenon_format_find(format, &info) && same_word(info.text, text)) return format;
    }
    return TENON_FORMAT_NONE;
}

const char *options_class_name(uint32_t arith)
{
    switch (arith) {
    case TENON_CLASS_F32: return "F32";
    case TENON_CLASS_A8: return "A8";
    case TENON_CLASS_APPROX: return "APPROX";
    default: return "none";
    }
}

static int out_of_memory(void)
{
    terminal_error("out of memory");
    return EXIT_FAILED;
}

/* A key of a setting: the characters that configuration keys are made of. */
bool options_key_valid(const char *key, size_t length)
{
    size_t i;
    if (length == 0) return false;
    for (i = 0; i < length; i++) {
        char c = key[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

static int parse_number(const option_usage *usage, const option_entry *entry, const char *value,
                        uint64_t *out)
{
    uint64_t maximum = entry->maximum, number = 0;
    const char *at = value;
    unsigned base = 10;
    bool fits = true;
    if (entry->minimum == 0 && maximum == 0) maximum = UINT64_MAX;
    if (entry->kind == OPTION_U32 && maximum > UINT32_MAX) maximum = UINT32_MAX;
    if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
        base = 16;
        at += 2;
    }
    if (*at == '\0') fits = false;
    for (; fits && *at != '\0'; at++) {
        unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
                         : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a') + 10u
                         : *at >= 'A' && *at <= 'F' ? (unsigned)(*at - 'A') + 10u
                                                    : 16u;
        if (digit >= base || !tenon_mul_u64(number, base, &number) ||
            !tenon_add_u64(number, digit, &number))
            fits = false;
    }
    if (!fits || number < entry->minimum || number > maximum) {
        char shown[80];
        text_escape(shown, sizeof shown, value, strlen(value));
        if (maximum == UINT64_MAX)
            return options_usage_error(usage->command,
                                       "--%s: '%s' is not a number of at least %llu", entry->name,
                                       shown, (unsigned long long)entry->minimum);
        return options_usage_error(usage->command, "--%s: '%s' is not a number from %llu to %llu",
                                   entry->name, shown, (unsigned long long)entry->minimum,
                                   (unsigned long long)maximum);
    }
    *out = number;
    return OPTIONS_GO_ON;
}

static int parse_choice(const option_usage *usage, const option_entry *entry, const char *value,
                        uint32_t *out)
{
    const char *at = entry->choices;
    size_t length = strlen(value);
    uint32_t index = 0;
    char shown[80];
    for (; *at != '\0'; index++) {
        size_t n = strcspn(at, "|");
        if (n == length && memcmp(at, value, n) == 0) {
            *out = index;
            return OPTIONS_GO_ON;
        }
        at += n;
        if (*at == '|') at++;
    }
    return options_usage_error(usage->command, "--%s: '%s' is none of %s", entry->name,
                               text_escape(shown, sizeof shown, value, length), entry->choices);
}

static int store(options *self, const option_usage *usage, const option_entry *entry,
                 const char *value)
{
    uint64_t number = 0;
    int status = OPTIONS_GO_ON;
    (void)self;
    switch (entry->kind) {
    case OPTION_FLAG: *(bool *)entry->target = true; break;
    case OPTION_ANY: *(const char **)entry->target = value; break;
    case OPTION_TEXT:
        if (value[0] == '\0')
            return options_usage_error(usage->command, "--%s needs a value that is not empty",
                                       entry->name);
        *(const char **)entry->target = value;
        break;
    case OPTION_U64:
    case OPTION_U32:
        status = parse_number(usage, entry, value, &number);
        if (status != OPTIONS_GO_ON) return status;
        if (entry->kind == OPTION_U64)
            *(uint64_t *)entry->target = number;
        else
            *(uint32_t *)entry->target = (uint32_t)number;
        break;
    case OPTION_CHOICE:
        status = parse_choice(usage, entry, value, entry->target);
        if (status != OPTIONS_GO_ON) return status;
        break;
    case OPTION_LIST:
        if (value[0] == '\0')
            return options_usage_error(usage->command, "--%s needs a value that is not empty",
                                       entry->name);
        if (!option_list_add(entry->target, value)) return out_of_memory();
        break;
    }
    if (entry->given != NULL) *entry->given = true;
    return OPTIONS_GO_ON;
}

/* What the common options fill before it is looked at as a whole. */
typedef struct common {
    option_list directories, sets, files;
    const char *semantic;
    bool help;
} common;

static int unknown_option(const option_usage *usage, const option_entry *entries, const char *name,
                          size_t length)
{
    char word[64], shown[80];
    const char *nearest = NULL;
    size_t best = SIZE_MAX, i;
    text_escape(shown, sizeof shown, name, length);
    if (length < sizeof word) {
        memcpy(word, name, length);
        word[length] = '\0';
        for (i = 0; entries[i].name != NULL; i++) {
            size_t distance = text_distance(word, entries[i].name);
            if (distance < best) {
                best = distance;
                nearest = entries[i].name;
            }
        }
        for (i = 0; usage->entries != NULL && usage->entries[i].name != NULL; i++) {
            size_t distance = text_distance(word, usage->entries[i].name);
            if (distance < best) {
                best = distance;
                nearest = usage->entries[i].name;
            }
        }
    }
    if (nearest != NULL && best <= 2 + length / 4)
        return options_usage_error(usage->command, "unknown option '--%s', perhaps --%s", shown,
                                   nearest);
    return options_usage_error(usage->command, "unknown option '--%s'", shown);
}

static const option_entry *lookup(const option_entry *entries, const char *name, size_t length)
{
    size_t i;
    for (i = 0; entries != NULL && entries[i].name != NULL; i++)
        if (strlen(entries[i].name) == length && memcmp(entries[i].name, name, length) == 0)
            return &entries[i];
    return NULL;
}

bool options_letter(const option_usage *usage, const char *name, char *letter)
{
    const char *at = usage->letters;
    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at + 2, "|");
        if (strlen(name) == length && memcmp(at + 2, name, length) == 0) {
            *letter = at[0];
            return true;
        }
        at += 2 + length;
        if (*at == '|') at++;
    }
    return false;
}

/* The entry of a word such as "-n", NULL when there is none. */
static const option_entry *lookup_letter(const option_usage *usage, const char *word)
{
    const char *at = usage->letters;
    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at + 2, "|");
        if (at[0] == word[1] && word[2] == '\0') return lookup(usage->entries, at + 2, length);
        at += 2 + length;
        if (*at == '|') at++;
    }
    return NULL;
}

/* An option whose value, if it has one, is the next word. */
static int parse_separate(options *self, const option_usage *usage, const option_entry *entry,
                          int argc, char **argv, int *index)
{
    if (entry->kind == OPTION_FLAG) return store(self, usage, entry, NULL);
    if (*index + 1 >= argc)
        return options_usage_error(usage->command, "--%s needs a value: --%s %s", entry->name,
                                   entry->name,
                                   entry->argument != NULL ? entry->argument : "VALUE");
    (*index)++;
    return store(self, usage, entry, argv[*index]);
}

/* One "--name", "--name=value" or "--name value". */
static int parse_long(options *self, const option_usage *usage, const option_entry *shared,
                      int argc, char **argv, int *index)
{
    const char *word = argv[*index] + 2;
    size_t length = strcspn(word, "=");
    const option_entry *entry = lookup(usage->entries, word, length);
    if (entry == NULL) entry = lookup(shared, word, length);
    if (entry == NULL) return unknown_option(usage, shared, word, length);
    if (word[length] != '=') return parse_separate(self, usage, entry, argc, argv, index);
    if (entry->kind == OPTION_FLAG)
        return options_usage_error(usage->command, "--%s takes no value", entry->name);
    return store(self, usage, entry, word + length + 1);
}

static int parse_words(options *self, const option_usage *usage, const option_entry *shared,
                       common *seen, int argc, char **argv)
{
    bool only_words = false;
    int i, status;
    for (i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (only_words || word[0] != '-' || word[1] == '\0') {
            if (self->arguments.count >= usage->argument_maximum) {
                char shown[80];
                return options_usage_error(usage->command, "too many arguments: '%s'",
                                           text_escape(shown, sizeof shown, word, strlen(word)));
            }
            if (word[0] == '\0') return options_usage_error(usage->command, "an argument is empty");
            if (!option_list_add(&self->arguments, word)) return out_of_memory();
        } else if (strcmp(word, "--") == 0) {
            only_words = true;
        } else if (word[1] == '-') {
            status = parse_long(self, usage, shared, argc, argv, &i);
            if (status != OPTIONS_GO_ON) return status;
        } else if (lookup_letter(usage, word) != NULL) {
            status = parse_separate(self, usage, lookup_letter(usage, word), argc, argv, &i);
            if (status != OPTIONS_GO_ON) return status;
        } else if (strcmp(word, "-v") == 0) {
            self->verbose = true;
        } else if (strcmp(word, "-h") == 0) {
            seen->help = true;
        } else {
            char shown[80];
            return options_usage_error(usage->command, "unknown option '%s'",
                                       text_escape(shown, sizeof shown, word, strlen(word)));
        }
    }
    return OPTIONS_GO_ON;
}

const char *options_absolute(options *self, const char *path)
{
    char here[4096];
    const char *absolute;
    if (path[0] == '/') return path;
    if (getcwd(here, sizeof here) == NULL) {
        terminal_error("the current directory is not known: %s", strerror(errno));
        return NULL;
    }
    absolute = options_own(self, here, here[1] == '\0' ? "" : "/", path);
    if (absolute == NULL) out_of_memory();
    return absolute;
}

/* What can only be judged when all options are known. */
static int finish(options *self, const option_usage *usage, const common *seen)
{
    size_t i;
    int status;
    if (self->arguments.count < usage->argument_minimum)
        return options_usage_error(usage->command, "an argument is missing: tenon %s %s",
                                   usage->command, usage->synopsis);
    if (self->verbose && self->quiet)
        return options_usage_error(usage->command, "--verbose and --quiet exclude each other");
    if (seen->semantic != NULL) {
        self->semantic = options_semantic(seen->semantic);
        if (self->semantic == 0) {
            char shown[80];
            return options_usage_error(
                usage->command, "--semantic: '%s' is no tag (attn-q, ffn-gate-up, output, ...)",
                text_escape(shown, sizeof shown, seen->semantic, strlen(seen->semantic)));
        }
    }
    for (i = 0; i < seen->directories.count; i++) {
        /* providers are named by absolute paths; what a user types is relative to where he is */
        const char *path = options_absolute(self, seen->directories.items[i]);
        if (path == NULL) return EXIT_REFUSED;
        if (!option_list_add(&self->provider_dirs, path)) return out_of_memory();
    }
    for (i = 0; i < seen->files.count; i++) {
        status = options_read_file(self, seen->files.items[i]);
        if (status != OPTIONS_GO_ON) return status;
    }
    for (i = 0; i < seen->sets.count; i++) {
        const char *set = seen->sets.items[i], *sign = strchr(set, '=');
        if (sign == NULL || !options_key_valid(set, (size_t)(sign - set)) ||
            strpbrk(set, "\r\n") != NULL) {
            char shown[80];
            return options_usage_error(usage->command, "--set: '%s' is not KEY=VALUE on one line",
                                       text_escape(shown, sizeof shown, set, strlen(set)));
        }
        if (!option_list_add(&self->settings, set)) return out_of_memory();
    }
    return OPTIONS_GO_ON;
}

int options_parse(options *self, const option_usage *usage, int argc, char **argv)
{
    common seen;
    int status;
    const option_entry shared[] = {
        {"provider-dir", OPTION_LIST, &seen.directories, 0, 0, NULL, "DIR",
         "provider file or directory, searched first; repeatable", NULL},
        {"select", OPTION_TEXT, &self->select, 0, 0, NULL, "GLOBS",
         "only providers whose names match one of these globs, e.g. cpu,vul*", NULL},
        {"disable", OPTION_TEXT, &self->disable, 0, 0, NULL, "GLOBS",
         "no providers whose names match; judged before --select", NULL},
        {"level", OPTION_TEXT, &self->level, 0, 0, NULL, "L",
         "instruction-set level of the provider: portable, avx2, avx512, ...", NULL},
        {"threads", OPTION_U32, &self->threads, 1, 4096, NULL, "N",
         "threads, this one included; default: what the process may use", NULL},
        {"set", OPTION_LIST, &seen.sets, 0, 0, NULL, "KEY=VALUE",
         "a configuration value for a provider, e.g. cpu.level=avx2; repeatable", NULL},
        {"config", OPTION_LIST, &seen.files, 0, 0, NULL, "FILE",
         "lines 'key = value', # begins a comment; --set wins over it", NULL},
        {"allow-approx", OPTION_FLAG, &self->allow_approx, 0, 0, NULL, NULL,
         "let providers answer in class APPROX", NULL},
        {"semantic", OPTION_TEXT, &seen.semantic, 0, 0, NULL, "TAG",
         "what the product means to a model: attn-q, ffn-gate-up, output, ...", NULL},
        {"json", OPTION_FLAG, &self->json, 0, 0, NULL, NULL, "one JSON document on stdout", NULL},
        {"verbose", OPTION_FLAG, &self->verbose, 0, 0, NULL, NULL, "say more (also -v)", NULL},
        {"quiet", OPTION_FLAG, &self->quiet, 0, 0, NULL, NULL, "no warnings on stderr", NULL},
        {"help", OPTION_FLAG, &seen.help, 0, 0, NULL, NULL, "this text (also -h)", NULL},
        {0},
    };
    memset(self, 0, sizeof *self);
    memset(&seen, 0, sizeof seen);
    status = parse_words(self, usage, shared, &seen, argc, argv);
    if (self->json && !seen.help) terminal_expect_document();
    if (status == OPTIONS_GO_ON && seen.help) {
        options_print_help(usage, shared);
        status = EXIT_GOOD;
    }
    if (status == OPTIONS_GO_ON) status = finish(self, usage, &seen);
    option_list_free(&seen.directories);
    option_list_free(&seen.sets);
    option_list_free(&seen.files);
    if (status != OPTIONS_GO_ON) options_free(self);
    return status;
}

bool options_host_desc(options *self, const char *level_chain, tenon_host_desc *out)
{
    const char *chain = level_chain != NULL && level_chain[0] != '\0' ? level_chain : "cpu";
    size_t i, length = strcspn(chain, ":,");
    memset(out, 0, sizeof *out);
    out->struct_size = (uint32_t)sizeof *out;
    out->abi_version = TENON_ABI_VERSION;
    self->host_config.count = 0;
    for (i = 0; i < self->settings.count; i++)
        if (!option_list_add(&self->host_config, self->settings.items[i])) goto fail;
    if (self->level != NULL) {
        char *id = options_own(self, chain, "", ""), *setting;
        if (id == NULL) goto fail;
        id[length] = '\0';
        setting = options_own(self, id, ".level=", self->level);
        if (setting == NULL || !option_list_add(&self->host_config, setting)) goto fail;
    }
    out->provider_paths = self->provider_dirs.items;
    out->provider_path_count = self->provider_dirs.count;
    out->config = self->host_config.items;
    out->config_count = self->host_config.count;
    out->select = self->select;
    out->disable = self->disable;
    out->threads = self->threads;
    return true;
fail:
    terminal_error("out of memory");
    return false;
}
