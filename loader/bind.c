#include <loader/bind.h>
#include <loader/platform.h>
#include <string.h>

static void check_mandatory(const bound_symbols *bound, loader_fault *fault)
{
    unsigned row;
    for (row = 0; row < SYMBOL_COUNT; row++)
        if (symbol_at(row).mandatory && bound->at[row] == NULL)
            fault_note(fault, TENON_REASON_BIND_MISSING_SYMBOL, symbol_at(row).name, NULL,
                       symbol_at(row).name, NULL);
}

void bind_library(void *library, bound_symbols *out, loader_fault *fault)
{
    unsigned row;
    memset(out, 0, sizeof *out);
    for (row = 0; row < SYMBOL_COUNT; row++) {
        const char *name = symbol_at(row).name;
        const void *found = platform_library_symbol(library, name);
        /* A lookup also finds what dependencies export: half of another provider is none, and what
         * the file itself does not export it does not offer. */
        if (found != NULL && !platform_library_owns(library, found)) {
            if (symbol_at(row).mandatory)
                fault_note(fault, TENON_REASON_FOREIGN_SYMBOL, name, "a dependency's symbol",
                           "the file's own", NULL);
            found = NULL;
        }
        out->at[row] = found;
    }
    check_mandatory(out, fault);
}

void bind_static(const tenon_static_symbol *symbols, uint64_t count, bound_symbols *out,
                 loader_fault *fault)
{
    uint64_t i;
    unsigned row;
    memset(out, 0, sizeof *out);
    for (i = 0; i < count; i++) {
        if (symbols[i].name == NULL) continue;
        for (row = 0; row < SYMBOL_COUNT; row++)
            if (strcmp(symbols[i].name, symbol_at(row).name) == 0)
                out->at[row] = symbols[i].descriptor;
    }
    check_mandatory(out, fault);
}
