/* The stages bind and check (SPEC.md 4): from a loaded library, or from symbols linked into the
 * program, to a module of host-owned descriptors. */
#ifndef TENON_LOADER_BIND_H
#define TENON_LOADER_BIND_H

#include <loader/fault.h>
#include <loader/loader.h>
#include <loader/symbols.h>

/* The exported descriptors by row, NULL where there is none. */
typedef struct bound_symbols {
    const void *at[SYMBOL_COUNT];
} bound_symbols;

/* Struct sizes that a provider may state beyond what it needs (R5: it is newer); more is absurd. */
#define BIND_MAX_STRUCT 4096u

/* Looks every name up; each must be the library's own, not one of a dependency. */
void bind_library(void *library, bound_symbols *out, loader_fault *fault);
/* The same over a list of the program's own. */
void bind_static(const tenon_static_symbol *symbols, uint64_t count, bound_symbols *out,
                 loader_fault *fault);
/* The struct rules (R1, R5, R6, R8), needs and id; copies the descriptors into *module, cut or
 * zero-extended to this version's size. module->verdict is left alone. */
void check_descriptors(const bound_symbols *bound, loader_module *module, loader_fault *fault);

#endif
