/* One parser of command lines for every subcommand.
 *
 * Long options, as "--rows 64" and "--rows=64"; short ones where a subcommand's table has letters,
 * as "-n 64", and "-v" and "-h" everywhere; "--" ends the options. The word behind an option that
 * takes a value is its value, whatever it looks like. What every subcommand understands (--provider-dir, --set, --json, ...) is parsed
 * here; a subcommand adds a table of its own. A word nobody knows is a usage error that names the
 * nearest one.
 *
 *     uint64_t rows = 0;
 *     const option_entry entries[] = {
 *         {.name = "rows", .kind = OPTION_U64, .target = &rows, .minimum = 1,
 *          .maximum = UINT64_MAX, .argument = "O", .help = "outputs of the weight"},
 *         {0},
 *     };
 *     const option_usage usage = {.command = "bench", .synopsis = "[options]", .help = "...",
 *                                 .entries = entries, .argument_maximum = 0};
 *     options parsed;
 *     int status = options_parse(&parsed, &usage, argc, argv);
 *     if (status != OPTIONS_GO_ON) return status;
 *     ...
 *     options_free(&parsed);
 */
#ifndef TENON_TOOLS_OPTIONS_H
#define TENON_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/engine.h>

typedef enum option_kind {
    OPTION_FLAG,   /* no value; target bool *, set to true */
    OPTION_TEXT,   /* target const char **, not empty; the text stays in argv */
    OPTION_ANY,    /* the same, and may be empty */
    OPTION_U64,    /* target uint64_t *, minimum to maximum; decimal or 0x... */
    OPTION_U32,    /* target uint32_t *, the same */
    OPTION_CHOICE, /* target uint32_t *: the index of the word in choices ("f32|a8": 0 or 1) */
    OPTION_LIST    /* target option_list *; may be given again and again */
} option_kind;

/* Texts in the order given. The array belongs to the list, the texts stay where they are. */
typedef struct option_list {
    const char **items;
    size_t count, capacity;
} option_list;

/* Appends text; returns false when memory is out. [any thread] */
bool option_list_add(option_list *self, const char *text);
/* Frees the array; the list is empty and usable afterwards. */
void option_list_free(option_list *self);

/* One option of a subcommand; a table of them ends with an entry whose name is NULL. */
typedef struct option_entry {
    const char *name; /* without the dashes */
    option_kind kind;
    void *target;
    uint64_t minimum, maximum; /* numbers; both 0: any */
    const char *choices;       /* OPTION_CHOICE: words separated by '|' */
    const char *argument;      /* how the help calls the value: "FILE" */
    const char *help;          /* one line */
    bool *given;               /* may be NULL: set to true when the option occurs */
} option_entry;

/* What a subcommand is called with. */
typedef struct option_usage {
    const char *command;
    const char *synopsis; /* after the name: "[options] FILE" */
    const char *help;     /* what it does, with an example or two; lines end with \n */
    const option_entry *entries;
    size_t argument_minimum, argument_maximum; /* words that are not options */
    const char *letters;                       /* short options, "p:prompt|n:count"; NULL: none */
} option_usage;

/* What was understood. Zero-initialised by options_parse. */
typedef struct options {
    option_list provider_dirs; /* --provider-dir: absolute, in the order given */
    option_list settings;      /* "key=value" of --config and --set, in the order given */
    option_list arguments;     /* words that are not options */
    const char *level;         /* --level, NULL: not given */
    const char *select, *disable;
    uint32_t threads;  /* --threads, 0: the host's rule */
    uint32_t semantic; /* --semantic: TENON_SEM_* */
    bool allow_approx, json, verbose, quiet;
    bool gathers; /* set by a subcommand that shows verdicts and places itself: the host's lines
                     about them are not printed, and "searched" lines are kept here: */
    option_list searched;
    option_list owned;       /* texts made by the parser, freed with it */
    option_list host_config; /* settings and the level, as options_host_desc composed them */
} options;

#define OPTIONS_GO_ON (-1)

/* Parses argv[1..]. OPTIONS_GO_ON when the subcommand should run; else the exit code it returns at
 * once (--help was printed; usage error; a --config file that cannot be read), with nothing left
 * to free. Errors go to stderr, one line. */
int options_parse(options *self, const option_usage *usage, int argc, char **argv);
void options_free(options *self);

/* Fills *out from the options. level_chain says whom --level is meant for: the first provider of a
 * chain ("vulkan:0,cpu" -> vulkan), NULL or "": cpu; a level then becomes the configuration value
 * "<provider>.level". May be called again after self->level was changed; the strings live as long
 * as self. The log function is left NULL. Returns false when memory is out, having said so. */
bool options_host_desc(options *self, const char *level_chain, tenon_host_desc *out);

/* The number of a semantic tag ("attn-q", also "ATTN_Q"), or 0 when there is none of that name. */
uint32_t options_semantic(const char *text);

/* The number of a weight format ("Q4_0", also "q4_0"), TENON_FORMAT_NONE when there is none. */
uint32_t options_format(const char *text);
/* "F32", "A8", "APPROX", or "none". */
const char *options_class_name(uint32_t arith);
/* path made absolute by the current directory, links and dots left alone; owned by self. NULL,
 * having said why, when it cannot be. */
const char *options_absolute(options *self, const char *path);

/* A usage error in one line, "tenon <command>: <text>", and where help is. Returns EXIT_USAGE. */
int options_usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
