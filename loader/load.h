/* The stage load, and bind and check behind it, with rollback (SPEC.md 4). */
#ifndef TENON_LOADER_LOAD_H
#define TENON_LOADER_LOAD_H

#include <loader/bind.h>

/* Loads the judged file of a verdict and fills *module and *library, or notes a fault: then
 * nothing of the file is left in the process. [lock held] */
void load_file(const loader_verdict *judged, loader_module *module, void **library,
               loader_fault *fault);
/* Makes a loaded file permanent and remembers it for the life of the process. On a fault the
 * library is still the caller's to close. [lock held] */
void load_keep(const loader_verdict *judged, void *library, loader_fault *fault);
/* Notes the fault of a text that the system's loader gave for file: a missing dependency by its
 * name, or else reason. */
void load_explain(const char *file, const char *text, uint32_t reason, loader_fault *fault);

#endif
