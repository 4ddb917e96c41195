/* The stages open and static over one file (SPEC.md 4). Runs none of its code. */
#ifndef TENON_LOADER_STATIC_H
#define TENON_LOADER_STATIC_H

#include <loader/image.h>

/* Files larger than this are not read. */
#define STATIC_MAX_BYTES (1ull << 30)

/* Opens, reads and judges the file of verdict->file, an absolute path: fills *verdict
 * (verdict_init'ed, file and explicit_ set by the caller) with its identity, id, version, and with
 * a refusal or with verdict LOADED at stage static; *facts as far as they could be read. The line
 * is not rendered. TENON_OK, TENON_NOMEM. */
int32_t static_judge_file(loader_verdict *verdict, loader_image_facts *facts);
/* The stage static alone, over the bytes of a file. Fills *out (free with image_clear) and *fault:
 * what is wrong with it as a provider, reason 0 when nothing is. path: where dependencies are
 * looked for, NULL: nowhere. TENON_OK, TENON_NOMEM. */
int32_t static_judge_bytes(const uint8_t *bytes, uint64_t size, const char *container,
                           const char *machine, const char *path, image *out, loader_fault *fault);
/* Is id [a-z][a-z0-9_]* and not taken by the library itself? */
bool static_id_is_good(const char *id);

#endif
