/* The help of a subcommand: what it does first, then every option on a line. */
#include "options_internal.h"
#include "terminal.h"

#include <string.h>

static void print_entries(const option_usage *usage, const option_entry *entries)
{
    size_t i;
    for (i = 0; entries != NULL && entries[i].name != NULL; i++) {
        FILE *out = terminal_out();
        const char *value = entries[i].kind == OPTION_FLAG     ? NULL
                            : entries[i].kind == OPTION_CHOICE ? entries[i].choices
                            : entries[i].argument != NULL      ? entries[i].argument
                                                               : "VALUE";
        char letter[] = ", -x";
        bool both = options_letter(usage, entries[i].name, &letter[3]);
        int width = fprintf(out, "  --%s%s%s%s", entries[i].name, both ? letter : "",
                            value != NULL ? " " : "", value != NULL ? value : "");
        if (width > 26) {
            fputc('\n', out);
            width = 0;
        }
        fprintf(out, "%*s%s\n", 28 - width, "", entries[i].help != NULL ? entries[i].help : "");
    }
}

void options_print_help(const option_usage *usage, const option_entry *shared)
{
    FILE *out = terminal_out();
    fprintf(out, "Usage: tenon %s %s\n\n%s", usage->command, usage->synopsis, usage->help);
    if (usage->entries != NULL && usage->entries[0].name != NULL) {
        fprintf(out, "\nOptions of %s:\n", usage->command);
        print_entries(usage, usage->entries);
    }
    fprintf(out, "\nOptions of every command:\n");
    print_entries(usage, shared);
}
