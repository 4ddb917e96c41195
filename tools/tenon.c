/* The tool: finds the subcommand, and nothing else. */
#include "command.h"
#include "json.h"
#include "options.h"
#include "terminal.h"
#include "text.h"

#include <string.h>

static const command_entry commands[] = {
    {"run", command_run, "generate text with a GGUF model", false},
    {"list", command_list, "which providers and devices are there, and why others are not", false},
    {"inspect", command_inspect, "what a provider file or a GGUF model holds, without running it",
     false},
    {"verify", command_verify, "does a provider return the bits that the contract asks for", false},
    {"bench", command_bench, "how fast is it, and what limits it", false},
    {"op", command_op, "run one operation on raw files", false},
    {"perplexity", command_perplexity, "how well a model foretells a text", false},
    {"tokenize", command_tokenize, "the token ids of a text, by the vocabulary of a model", false},
    {"make-model", command_make_model, "write a small GGUF model with random weights", true},
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(void)
{
    FILE *out = terminal_out();
    size_t i;
    fputs(
        "Usage: tenon COMMAND [options]\n\n"
        "Tenon joins inference engines to accelerators. A provider is a file tenon-<id>.so; it is\n"
        "found, judged before its code runs, loaded, and then multiplies quantized matrices with\n"
        "the same bits as every other provider.\n\nCommands:\n",
        out);
    for (i = 0; i < COMMANDS; i++)
        if (!commands[i].hidden)
            fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs(
        "\nA first walk:\n"
        "  tenon list --why                            what was found, and every verdict\n"
        "  tenon run model.gguf -p 'Once upon a time'  text from a model, on what computes here\n"
        "  tenon inspect model.gguf                    every tensor with format and shape\n"
        "  tenon verify cpu --model model.gguf         are its bits right on these weights\n"
        "  tenon bench --format Q4_0 --rows 4096 --cols 4096 --tokens 1 --arith a8\n"
        "  tenon COMMAND --help                        all options of a command\n"
        "\nProviders are looked for in this order: --provider-dir (files or directories),\n"
        "then TENON_PROVIDERS (a list that replaces everything after it), TENON_PROVIDER_PATH,\n"
        "the directory fixed when Tenon was built, the user's and the system's directory.\n"
        "\nExit codes: 0 good; 1 a check failed; 2 a named provider, device or file is missing or\n"
        "refused; 3 a provider was loaded but has no usable device; 64 wrong usage.\n",
        out);
}

static int unknown_command(const char *name)
{
    char shown[80];
    size_t best = SIZE_MAX, at = 0, i;
    for (i = 0; i < COMMANDS; i++) {
        size_t distance = text_distance(name, commands[i].name);
        if (commands[i].hidden || distance >= best) continue;
        best = distance;
        at = i;
    }
    text_escape(shown, sizeof shown, name, strlen(name));
    if (best <= 2)
        return options_usage_error(NULL, "unknown command '%s', perhaps %s", shown,
                                   commands[at].name);
    return options_usage_error(NULL, "unknown command '%s'", shown);
}

static int run(int argc, char **argv)
{
    const char *name;
    size_t i;
    if (argc < 2) return options_usage_error(NULL, "a command is missing");
    name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        if (argc > 2) {
            /* "tenon help list" is "tenon list --help" */
            static char help[] = "--help";
            char *words[2] = {argv[2], help};
            for (i = 0; i < COMMANDS; i++)
                if (strcmp(argv[2], commands[i].name) == 0) return commands[i].run(2, words);
            return unknown_command(argv[2]);
        }
        print_help();
        return EXIT_GOOD;
    }
    if (strcmp(name, "--version") == 0) {
        /* a constant of the headers: nothing is looked for, nothing is loaded */
        if (argc > 2) return options_usage_error(NULL, "--version takes no arguments");
        fprintf(terminal_out(), "tenon %s (ABI %u)\n", TENON_VERSION, TENON_ABI_VERSION);
        return EXIT_GOOD;
    }
    for (i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    if (name[0] == '-') {
        char shown[80];
        return options_usage_error(NULL, "the command comes first, not '%s'",
                                   text_escape(shown, sizeof shown, name, strlen(name)));
    }
    return unknown_command(name);
}

int main(int argc, char **argv)
{
    int status;
    if (!terminal_begin()) return EXIT_FAILED;
    status = run(argc, argv);
    if (status != EXIT_GOOD && terminal_document_missing()) json_emit_failure(status);
    if (!terminal_end() && status == EXIT_GOOD) status = EXIT_FAILED;
    return status;
}
