/* The subcommands of the tool and the exit codes they share.
 *
 * A subcommand is one function: argv[0] is its own name, the rest its arguments; it returns one of
 * the exit codes. It writes its result to terminal_out() (never to stdout, which points to stderr
 * while the tool runs), everything else to stderr. */
#ifndef TENON_TOOLS_COMMAND_H
#define TENON_TOOLS_COMMAND_H

#include <stdbool.h>

#define EXIT_GOOD 0      /* done, all checks passed */
#define EXIT_FAILED 1    /* a check failed, or an unexpected failure */
#define EXIT_REFUSED 2   /* a named thing is missing or refused: provider, device, file */
#define EXIT_NO_DEVICE 3 /* loaded, but without a usable device */
#define EXIT_USAGE 64    /* the command line cannot be understood */

typedef struct command_entry {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* one line for the general help */
    bool hidden;         /* works, but the general help does not list it */
} command_entry;

int command_list(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_op(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_run(int argc, char **argv);
int command_perplexity(int argc, char **argv);
int command_make_model(int argc, char **argv);

#endif
