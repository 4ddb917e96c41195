/* The rows of abi/symbols.def as the loader needs them, in table order. */
#ifndef TENON_LOADER_SYMBOLS_H
#define TENON_LOADER_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/op/qmatmul.h>
#include <tenon/provider.h>

/* Row numbers: SYMBOL_provider_v1, ... */
enum {
#define TENON_SYMBOL(name, kind, type, header) SYMBOL_##name,
#define TENON_SYMBOL_VIEW(name, direction, field)
#include <symbols.def>
#undef TENON_SYMBOL
#undef TENON_SYMBOL_VIEW
    SYMBOL_COUNT
};
TENON_STATIC_ASSERT(SYMBOL_COUNT <= 16, "loader_image_facts.symbols has 16 rows");

typedef struct symbol_row {
    const char *name;
    bool mandatory;
    uint32_t minimum; /* bytes of the descriptor in its first version (R6) */
} symbol_row;

/* index < SYMBOL_COUNT */
static inline symbol_row symbol_at(unsigned index)
{
    enum { OPTIONAL = 0, MANDATORY = 1 };
    static const symbol_row rows[SYMBOL_COUNT] = {
#define TENON_SYMBOL(name, kind, type, header) {#name, kind == MANDATORY, sizeof(type)},
#define TENON_SYMBOL_VIEW(name, direction, field)
#include <symbols.def>
#undef TENON_SYMBOL
#undef TENON_SYMBOL_VIEW
    };
    return rows[index];
}

#endif
