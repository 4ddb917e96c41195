/* What a stage found wrong, before it becomes a verdict. */
#ifndef TENON_LOADER_FAULT_H
#define TENON_LOADER_FAULT_H

#include <loader/cut.h>
#include <stdint.h>
#include <tenon/base.h>

/* reason 0: nothing. Strings are "" when not stated; they may hold any bytes of the file. */
typedef struct loader_fault {
    uint32_t reason; /* TENON_REASON_* */
    char symbol[64];
    char have[160], need[160];
    char text[256]; /* foreign words, to be quoted */
} loader_fault;

/* Notes a fault unless one was noted before. NULL: not stated. Too long is cut. */
static inline void fault_note(loader_fault *fault, uint32_t reason, const char *symbol,
                              const char *have, const char *need, const char *text)
{
    if (fault->reason != TENON_REASON_NONE) return;
    fault->reason = reason;
    cut_copy(fault->symbol, sizeof fault->symbol, symbol);
    cut_copy(fault->have, sizeof fault->have, have);
    cut_copy(fault->need, sizeof fault->need, need);
    cut_copy(fault->text, sizeof fault->text, text);
}

/* The same with two amounts of one unit (which may be ""). */
static inline void fault_note_amounts(loader_fault *fault, uint32_t reason, const char *symbol,
                                      uint64_t have, uint64_t need, const char *unit)
{
    char have_text[64], need_text[64];
    const char *space = unit[0] != '\0' ? " " : "";
    cut_format(have_text, sizeof have_text, "%llu%s%s", (unsigned long long)have, space, unit);
    cut_format(need_text, sizeof need_text, "%llu%s%s", (unsigned long long)need, space, unit);
    fault_note(fault, reason, symbol, have_text, need_text, NULL);
}

#endif
