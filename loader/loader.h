/* The loader: finds provider files, judges them before their code runs, loads the good ones.
 *
 * Internal to libtenon and the tools; not part of the ABI. The stages, their names and numbers are
 * those of abi/SPEC.md section 4; every file examined keeps a verdict. Depends on abi/ only. */
#ifndef TENON_LOADER_LOADER_H
#define TENON_LOADER_LOADER_H

#include <stdbool.h>
#include <tenon/engine.h>
#include <tenon/provider.h>

/* What identifies a file: the same numbers mean the same bytes as when they were judged. */
typedef struct loader_identity {
    uint64_t device, inode, size;
    int64_t mtime_ns;
    uint8_t sha256[32];
} loader_identity;

/* What became of one candidate. Strings are never NULL, "" when not stated; owned by the verdict. */
typedef struct loader_verdict {
    uint32_t verdict; /* TENON_CANDIDATE_* */
    uint32_t stage;   /* TENON_STAGE_*, last stage reached */
    uint32_t reason;  /* TENON_REASON_*, 0 when loaded */
    bool explicit_;   /* named by the user rather than found by scanning */
    bool shipped;     /* its hash stands in the build's manifest: no probe */
    char *file, *id, *version, *symbol, *have, *need, *hint, *text;
    char *line; /* SPEC.md 4.2, built from the fields above, escaped to one line */
    loader_identity identity;
} loader_verdict;

/* A published provider. Immovable, read-only after publish, lives as long as its loader. The
 * descriptors are host-owned copies of the v1 size. An optional one that the file does not offer,
 * because it is absent or because a function of it is NULL (R8), is all zero. */
typedef struct loader_module {
    const loader_verdict *verdict;
    uint32_t offered; /* bit n: row n of symbols.def is offered */
    tenon_provider_v1 provider;
    tenon_qmatmul_v1 qmatmul;
    tenon_memory_v1 memory;
    tenon_embed_v1 embed;
    tenon_rmsnorm_v1 rmsnorm;
    tenon_attention_v1 attention;
    tenon_gated_v1 gated;
    tenon_add_v1 add;
    tenon_argmax_v1 argmax;
    tenon_graph_v1 graph;
} loader_module;

typedef struct loader_options {
    const char *const *paths; /* explicit files or directories (search order 1) */
    uint64_t path_count;
    const char *select, *disable; /* comma-separated globs over names, NULL: none */
    bool no_search;               /* only paths: no environment, no directories */
    bool judge_only;              /* stop after stage static: never runs foreign code */
    const char *probe_helper;     /* path of the helper program, NULL: beside the library (4.1) */
    uint32_t probe_timeout_ms;    /* 0: 20000 */
    tenon_log_function log;       /* never NULL */
    void *log_context;
} loader_options;

typedef struct loader loader;

/* Runs all stages over all candidates. Refused providers are no failure. TENON_ARG for an unknown
 * filter token (text lists what exists), TENON_NOMEM. [serial per loader] */
int32_t loader_create(const loader_options *options, loader **out, tenon_error *error);
/* Searches again; files already examined with the same identity keep their verdict and module,
 * but a file that was refused for something outside its own bytes (a missing library, a probe that
 * failed, permissions) is judged anew. [serial per loader] */
int32_t loader_rescan(loader *self, tenon_error *error);
/* Unpublishes everything. Providers must have been closed. NULL is allowed. */
void loader_destroy(loader *self);

uint64_t loader_verdict_count(const loader *self);
const loader_verdict *loader_verdict_at(const loader *self, uint64_t index);
uint64_t loader_module_count(const loader *self);
const loader_module *loader_module_at(const loader *self, uint64_t index);

/* Stages check and publish for a provider linked into the program. */
int32_t loader_register(loader *self, const tenon_static_symbol *symbols, uint64_t count,
                        tenon_error *error);

/* What the stage static read from a file; for `tenon inspect` and for tests. */
typedef struct loader_symbol_facts {
    char name[64];
    bool present, is_data;
    uint32_t struct_size, abi_version; /* read from the file, 0 when absent */
} loader_symbol_facts;

typedef struct loader_image_facts {
    const char *container;           /* "elf", "pe", "macho", "" */
    const char *machine;             /* "x86-64", "aarch64", "i386", ..., "" */
    loader_symbol_facts symbols[16]; /* one per row of symbols.def */
    uint32_t symbol_count;
    char id[32], version[32]; /* from provider_v1, "" when absent */
    uint64_t needs;
    char **exports; /* every exported name, owned, bounded */
    uint64_t export_count;
    char **libraries; /* needed libraries, owned, bounded */
    uint64_t library_count;
    bool text_relocations, executable_stack, static_tls;
} loader_image_facts;

/* Stages open and static over one file; runs none of its code, safe on hostile files. *verdict and
 * *facts are filled whatever the answer; free them with the two functions below. A file that passes
 * has verdict LOADED at stage STATIC, reason 0 (as with judge_only): accepted so far. A file whose
 * owner or path is not trusted is refused for that, and its facts are read all the same. TENON_OK
 * also for a refused file; TENON_NOMEM. [any thread] */
int32_t loader_judge(const char *file, loader_verdict *verdict, loader_image_facts *facts,
                     tenon_error *error);
void loader_verdict_clear(loader_verdict *verdict);
void loader_image_facts_clear(loader_image_facts *facts);

/* What the helper program saw of a provider: loaded, opened and counted in a process of its own. */
typedef struct loader_probe_report {
    uint32_t reason;     /* 0: good; TENON_REASON_PROBE_* or what a later stage would say */
    char detail[208];    /* e.g. "SIGILL", "after 20000 ms", the helper's words */
    int32_t open_status; /* what open answered: TENON_OK or its failure with these: */
    uint32_t open_reason;
    uint64_t open_wanted, open_available;
    char open_text[208];
    uint32_t device_count;
    uint32_t no_device_reason; /* when device_count is 0 */
    char no_device_text[208];
    tenon_device_info *devices; /* device_count of them, owned */
} loader_probe_report;

/* Runs the helper over one file, uncached. config: "key=value" strings handed to the provider.
 * Kills the helper and all it started at the time limit. [any thread] */
int32_t loader_probe(const char *file, const char *const *config, uint64_t config_count,
                     const char *probe_helper, uint32_t timeout_ms, loader_probe_report *report,
                     tenon_error *error);
void loader_probe_report_clear(loader_probe_report *report);

#endif
