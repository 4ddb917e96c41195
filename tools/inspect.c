/* `tenon inspect FILE`: what a file holds. Nothing of the file is ever run. */
#include "inspect.h"
#include "command.h"
#include "gguf.h"

#include <string.h>

int command_inspect(int argc, char **argv)
{
    bool check_data = false;
    const option_entry entries[] = {
        {"check-data", OPTION_FLAG, &check_data, 0, 0, NULL, NULL,
         "models: also look for scales that are not finite", NULL},
        {0},
    };
    const option_usage usage = {
        "inspect",
        "[options] FILE",
        "Shows what a provider file or a GGUF model holds. The file is read, never run: this is\n"
        "safe on files of unknown origin.\n\n"
        "  tenon inspect build/providers/tenon-cpu.so   container, exported names, verdict\n"
        "  tenon inspect model.gguf                     keys, and tensors with format and shape\n\n"
        "Exit code 0: the file is good; 2: it is refused, and the reason is named; 1: "
        "--check-data\n"
        "found something.\n",
        entries,
        1,
        1,
        NULL};
    options parsed;
    const char *path, *dot;
    int status = options_parse(&parsed, &usage, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    path = parsed.arguments.items[0];
    dot = strrchr(path, '.');
    /* by its first bytes; the name decides only for a file too short to have any */
    if (gguf_is_model(path) || (dot != NULL && strcmp(dot, ".gguf") == 0)) {
        status = inspect_model(&parsed, path, check_data);
    } else if (check_data) {
        status = options_usage_error("inspect", "--check-data is for GGUF models");
    } else {
        path = options_absolute(&parsed, path);
        status = path != NULL ? inspect_provider(&parsed, path) : EXIT_REFUSED;
    }
    options_free(&parsed);
    return status;
}
