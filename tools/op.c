/* `tenon op NAME ...`: finds the operation; each has a file of its own. */
#include "op.h"
#include "command.h"
#include "options.h"
#include "terminal.h"
#include "text.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} operations[] = {
    {"qmatmul", op_qmatmul, "y = x . W^T for one quantized weight"},
    {"embed", op_embed, "rows of a quantized weight"},
    {"rmsnorm", op_rmsnorm, "root-mean-square normalisation"},
    {"attention", op_attention, "causal attention over keys and values"},
    {"gated", op_gated, "y = act(gate) * up"},
    {"add", op_add, "y = a + b"},
    {"argmax", op_argmax, "index of the first maximum of each row"},
};
#define OPERATIONS (sizeof operations / sizeof operations[0])

int command_op(int argc, char **argv)
{
    char shown[80];
    size_t i;
    if (argc < 2) return options_usage_error("op", "the name of an operation is missing");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(
            "Usage: tenon op NAME [options]\n\n"
            "Runs one operation on raw little-endian files, on any provider, so that a report of\n"
            "a fault is a few files and a line. Operations:\n",
            terminal_out());
        for (i = 0; i < OPERATIONS; i++)
            fprintf(terminal_out(), "  %-10s %s\n", operations[i].name, operations[i].summary);
        fputs("\n'tenon op NAME --help' tells its options.\n", terminal_out());
        return EXIT_GOOD;
    }
    for (i = 0; i < OPERATIONS; i++)
        if (strcmp(argv[1], operations[i].name) == 0) return operations[i].run(argc - 1, argv + 1);
    return options_usage_error("op", "unknown operation '%s'",
                               text_escape(shown, sizeof shown, argv[1], strlen(argv[1])));
}
