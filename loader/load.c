#include <loader/load.h>
#include <loader/platform.h>
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

/* Files made permanent in this process. The system's loader knows libraries by path: once a path
 * is mapped it answers with the old file, whatever lies there now. */
typedef struct kept_file {
    struct kept_file *next;
    loader_identity identity;
    char path[];
} kept_file;

static kept_file *kept_files; /* under platform_lock; never freed, like the mappings themselves */

static bool same_file(const loader_identity *a, const loader_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->mtime_ns == b->mtime_ns;
}

/* Is what lies at the path still what was judged, and not hidden behind an older file? */
static bool is_unchanged(const loader_verdict *judged, loader_fault *fault)
{
    char text[PLATFORM_TEXT_BYTES];
    loader_identity now = {0};
    platform_access access;
    const kept_file *kept;
    if (platform_path_facts(judged->file, &now, &access, text) != TENON_REASON_NONE ||
        access.kind != PLATFORM_REGULAR || !same_file(&now, &judged->identity)) {
        fault_note(fault, TENON_REASON_FILE_CHANGED, NULL, NULL, NULL,
                   "the file is not the one that was judged");
        return false;
    }
    for (kept = kept_files; kept != NULL; kept = kept->next)
        if (strcmp(kept->path, judged->file) == 0 && !same_file(&kept->identity, &now)) {
            fault_note(fault, TENON_REASON_FILE_CHANGED, NULL, NULL, NULL,
                       "an earlier file of this path is still loaded");
            return false;
        }
    return true;
}

void load_explain(const char *file, const char *text, uint32_t reason, loader_fault *fault)
{
    char name[64];
    if (platform_library_missing(text, file, name, sizeof name))
        fault_note(fault, TENON_REASON_MISSING_DEPENDENCY, name, NULL, name, text);
    else
        fault_note(fault, reason, NULL, NULL, NULL, text);
}

void load_file(const loader_verdict *judged, loader_module *module, void **library,
               loader_fault *fault)
{
    char text[PLATFORM_TEXT_BYTES] = "";
    bound_symbols bound;
    fenv_t environment;
    bool saved;
    *library = NULL;
    if (!is_unchanged(judged, fault)) return;
    /* Constructors, of dependencies too, may change rounding or flush subnormals to zero, on this
     * thread and on every thread it starts later. */
    saved = fegetenv(&environment) == 0;
    *library = platform_library_open(judged->file, text);
    if (saved) fesetenv(&environment);
    if (*library == NULL) {
        load_explain(judged->file, text, TENON_REASON_SYSTEM_LOADER, fault);
        return;
    }
    bind_library(*library, &bound, fault);
    check_descriptors(&bound, module, fault);
    if (fault->reason == TENON_REASON_NONE && strcmp(module->provider.id, judged->id) != 0)
        fault_note(fault, TENON_REASON_FILE_CHANGED, NULL, module->provider.id, judged->id,
                   "the loaded id is not the one that was judged");
    if (fault->reason != TENON_REASON_NONE) {
        platform_library_close(*library);
        *library = NULL;
    }
}

void load_keep(const loader_verdict *judged, void *library, loader_fault *fault)
{
    size_t bytes = strlen(judged->file) + 1;
    kept_file *kept;
    for (kept = kept_files; kept != NULL; kept = kept->next)
        if (strcmp(kept->path, judged->file) == 0) break;
    if (kept == NULL) {
        kept = malloc(sizeof *kept + bytes);
        if (kept == NULL) {
            fault_note(fault, TENON_REASON_PUBLISH_FAILED, NULL, NULL, NULL, "out of memory");
            return;
        }
        if (!platform_library_keep(library, judged->file)) {
            free(kept);
            fault_note(fault, TENON_REASON_PUBLISH_FAILED, NULL, NULL, NULL,
                       "the file could not be made permanent");
            return;
        }
        kept->identity = judged->identity;
        memcpy(kept->path, judged->file, bytes);
        kept->next = kept_files;
        kept_files = kept;
    }
}
