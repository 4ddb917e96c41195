#include "fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool fault_set(engine_fault *fault, fault_kind kind, const char *format, ...)
{
    va_list arguments;
    memset(fault, 0, sizeof *fault);
    fault->kind = kind;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    return false;
}

bool fault_call(engine_fault *fault, const char *doing, const tenon_error *cause)
{
    const char *reason = tenon_reason_text(cause->reason);
    tenon_error kept = *cause;
    char amounts[80] = "";
    if (kept.wanted != 0 || kept.available != 0)
        snprintf(amounts, sizeof amounts, ", wanted %llu, available %llu",
                 (unsigned long long)kept.wanted, (unsigned long long)kept.available);
    fault_set(fault, FAULT_CALL, "%s: %s%s%s (reason %lu%s)", doing, kept.text,
              kept.text[0] != '\0' && reason[0] != '\0' ? ": " : "", reason,
              (unsigned long)kept.reason, amounts);
    fault->cause = kept;
    return false;
}

bool fault_memory(engine_fault *fault, const char *doing)
{
    return fault_set(fault, FAULT_MEMORY, "out of memory for %s", doing);
}
