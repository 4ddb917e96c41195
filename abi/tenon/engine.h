/* Tenon ABI: what an inference engine includes, and all it needs.
 *
 *     host     finds, judges and loads providers; one per process is enough
 *       session  policy: which links may be tried, in which class; owns weights, buffers, caches
 *         queue    an order of calls; one thread at a time
 *
 * The engine says what to compute. Who computes it is the session's policy; how is the provider's.
 * Needs only <stddef.h> and <stdint.h>; implemented by libtenon.
 *
 * Thread tags: [any thread] at any time on any thread; [serial per queue] one call at a time on a
 * queue; [serial per host] not at the same time as another call tagged so on the same host. After
 * fork() a child may not use a host made before: calls answer TENON_STATE with FORKED. Every
 * struct starts with its size (R1); fields this library does not know must be zero (R5). Returned
 * strings are UTF-8 and live as stated. Closing NULL is allowed everywhere. */
#ifndef TENON_ENGINE_H
#define TENON_ENGINE_H

#include <tenon/base.h>
#include <tenon/format.h>
#include <tenon/op/add.h>
#include <tenon/op/argmax.h>
#include <tenon/op/attention.h>
#include <tenon/op/embed.h>
#include <tenon/op/gated.h>
#include <tenon/op/graph.h>
#include <tenon/op/memory.h>
#include <tenon/op/qmatmul.h>
#include <tenon/op/rmsnorm.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_host tenon_host;
typedef struct tenon_session tenon_session;
typedef struct tenon_queue tenon_queue;
typedef struct tenon_weight tenon_weight;

/* Receives every line the host and its providers say. text is UTF-8, one line without its newline,
 * valid during the call. May be called from any thread, but never after tenon_host_destroy. */
typedef void(TENON_CALL *tenon_log_function)(void *context, uint32_t level, const char *text);

#define TENON_HOST_NO_SEARCH 1u   /* only the paths given here: no environment, no directories */
#define TENON_HOST_PIN_THREADS 2u /* pin workers to processors, one hardware thread a core first */

/* How a host is made. A zeroed struct with its head is a good default. */
typedef struct tenon_host_desc {
    uint32_t struct_size;
    uint32_t abi_version;
    const char *const *provider_paths; /* files or directories, searched first, in this order */
    uint64_t provider_path_count;
    const char *const *config; /* "key=value" strings for providers, copied */
    uint64_t config_count;
    const char *select;     /* comma-separated globs over provider names; NULL: all. A token that */
    const char *disable;    /* matches nothing found is an error that lists what exists */
    tenon_log_function log; /* NULL: warnings and errors go to stderr */
    void *log_context;
    uint32_t threads;      /* threads of the one team, caller included; 0: the host's rule */
    uint32_t flags;        /* TENON_HOST_* */
    uint64_t reserved0[2]; /* zero (R7) */
} tenon_host_desc;
TENON_STATIC_ASSERT(sizeof(tenon_host_desc) == 96, "tenon_host_desc changed size");

/* The version of the library, static storage. Loads nothing. [any thread] */
TENON_HOST_API const char *TENON_CALL tenon_version(void);

/* Makes a host: searches, judges and loads providers (SPEC.md section 4). A refused provider is no
 * failure: its candidate says why. desc may be NULL for the defaults. Fails with TENON_ARG
 * (unknown filter token, unknown flags, non-zero tail) or TENON_NOMEM. [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_host_create(const tenon_host_desc *desc, tenon_host **out,
                                                    tenon_error *error);
/* Closes providers in reverse order and frees the host. TENON_STATE IN_USE while it has sessions:
 * then nothing is closed. [serial per host] */
TENON_HOST_API int32_t TENON_CALL tenon_host_destroy(tenon_host *host, tenon_error *error);
/* Searches again and loads what is new; nothing loaded is touched. [serial per host] */
TENON_HOST_API int32_t TENON_CALL tenon_host_rescan(tenon_host *host, tenon_error *error);

/* The descriptors of a provider linked into the program, by symbol name ("provider_v1", ...). */
typedef struct tenon_static_symbol {
    const char *name;
    const void *descriptor;
} tenon_static_symbol;

/* Registers a provider linked into the program: the stages check and publish, no file. symbols
 * and descriptors must outlive the host. TENON_ABI names what is missing. [serial per host] */
TENON_HOST_API int32_t TENON_CALL tenon_host_register(tenon_host *host,
                                                      const tenon_static_symbol *symbols,
                                                      uint64_t symbol_count, tenon_error *error);

/* Verdicts over candidates. */
#define TENON_CANDIDATE_LOADED 1u
#define TENON_CANDIDATE_REFUSED 2u
#define TENON_CANDIDATE_SKIPPED \
    3u /* information, no fault: foreign architecture, filtered,
                                      a directory that does not exist */

/* Stages of loading, by stable number (SPEC.md section 4). */
#define TENON_STAGE_POLICY 1u
#define TENON_STAGE_OPEN 2u
#define TENON_STAGE_STATIC 3u
#define TENON_STAGE_PROBE 4u
#define TENON_STAGE_LOAD 5u
#define TENON_STAGE_BIND 6u
#define TENON_STAGE_CHECK 7u
#define TENON_STAGE_PUBLISH 8u

/* What became of one file or directory. Strings are "" when not stated, owned by the host, valid
 * until rescan or destroy. */
typedef struct tenon_candidate {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t verdict; /* TENON_CANDIDATE_* */
    uint32_t stage;   /* TENON_STAGE_*, the last stage reached */
    uint32_t reason;  /* TENON_REASON_*, 0 when loaded */
    uint32_t reserved0;
    const char *file;    /* absolute path; "" for providers linked into the program */
    const char *id;      /* provider id, when the file told it */
    const char *version; /* provider version, when the file told it */
    const char *symbol;  /* the name that is missing or wrong */
    const char *have;    /* what was found */
    const char *need;    /* what was wanted */
    const char *hint;    /* one thing to do about it */
    const char *text;    /* words of the system loader or of the probe, quoted */
    const char *line;    /* all of it as the one line of SPEC.md 4.2, without newline */
    uint64_t reserved1[2];
} tenon_candidate;
TENON_STATIC_ASSERT(sizeof(tenon_candidate) == 112, "tenon_candidate changed size");

/* Number of candidates examined, refused ones included. [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_host_candidate_count(tenon_host *host, uint64_t *count,
                                                             tenon_error *error);
/* Fills *out (its struct_size set by the caller) for index < count. [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_host_candidate(tenon_host *host, uint64_t index,
                                                       tenon_candidate *out, tenon_error *error);

/* A device as a session would see it. */
typedef struct tenon_device_description {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t kind;     /* TENON_DEVICE_* of provider.h: 1 cpu, 2 discrete, 3 integrated, 4 virtual,
                          5 software, 6 npu */
    uint32_t arith;    /* classes claimed for qmatmul: bit n set for class n */
    uint32_t unusable; /* TENON_REASON_*, 0: usable */
    uint32_t reserved0;
    uint64_t memory_total; /* bytes or TENON_UNKNOWN */
    uint64_t memory_free;
    char name[96];
    char driver[64];
    char detail[96];
    uint8_t uuid[16]; /* stable over restarts, all zero: none */
} tenon_device_description;
TENON_STATIC_ASSERT(sizeof(tenon_device_description) == 312, "device description changed size");

/* Opens the provider if need be and counts its devices. TENON_ARG NO_SUCH_PROVIDER when none of
 * that id is loaded; the provider's own failure when it cannot open. *count may be 0 with
 * TENON_OK: then *error says why, if the provider did. [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_host_device_count(tenon_host *host, const char *provider,
                                                          uint32_t *count, tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_host_device(tenon_host *host, const char *provider,
                                                    uint32_t index, tenon_device_description *out,
                                                    tenon_error *error);

/* The thread team of a host. */
typedef struct tenon_team_info {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t threads; /* caller included */
    uint32_t reserved0;
    char why[112]; /* "asked for", "affinity 2", "cgroup quota 150000/100000", ... */
} tenon_team_info;
TENON_STATIC_ASSERT(sizeof(tenon_team_info) == 128, "tenon_team_info changed size");
TENON_HOST_API int32_t TENON_CALL tenon_host_team(tenon_host *host, tenon_team_info *out,
                                                  tenon_error *error);

/* Modes of a session (SPEC.md 1.7). */
#define TENON_MODE_AUTO 1u   /* the host orders the links; the reference is last */
#define TENON_MODE_PREFER 2u /* the chain, then the reference, said once */
#define TENON_MODE_PIN 3u    /* only the chain; what it declines is an error */

#define TENON_SESSION_ALLOW_APPROX 1u /* links may answer in class APPROX */

typedef struct tenon_session_desc {
    uint32_t struct_size;
    uint32_t abi_version;
    const char *chain; /* "vulkan:0,cpu": provider ids, each with the index or the UUID of a device
                          or none (its best one), in order;
                          NULL or "": none named (mode auto). Also "reference" */
    uint32_t mode;     /* TENON_MODE_*; 0: auto without a chain, prefer with one */
    uint32_t arith;    /* TENON_CLASS_F32 or TENON_CLASS_A8; 0: F32 */
    uint32_t flags;    /* TENON_SESSION_* */
    uint32_t reserved0;
    uint64_t reserved1[2];
} tenon_session_desc;
TENON_STATIC_ASSERT(sizeof(tenon_session_desc) == 48, "tenon_session_desc changed size");

/* Opens the devices of the chain. A named provider or device that is missing, refused or cannot
 * open is an error in every mode, and the error says why. [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_session_create(tenon_host *host,
                                                       const tenon_session_desc *desc,
                                                       tenon_session **out, tenon_error *error);
/* Destroys the session with its remaining queues and weights. No call may be running. */
TENON_HOST_API void TENON_CALL tenon_session_destroy(tenon_session *session);

/* One link of a session's chain, in order. */
typedef struct tenon_link_info {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t device; /* index of the provider */
    uint32_t state;  /* TENON_LINK_* */
    uint32_t reason; /* why it is not active */
    uint32_t reserved0;
    uint64_t weights; /* weights it holds now */
    uint64_t bytes;   /* prepared bytes of these, as far as the provider tells */
    char provider[32];
} tenon_link_info;
TENON_STATIC_ASSERT(sizeof(tenon_link_info) == 72, "tenon_link_info changed size");
#define TENON_LINK_ACTIVE 1u
#define TENON_LINK_SET_ASIDE 2u   /* after repeated failures */
#define TENON_LINK_QUARANTINED 3u /* the provider broke the contract */
#define TENON_LINK_LOST 4u        /* its device was lost */

TENON_HOST_API int32_t TENON_CALL tenon_session_link_count(tenon_session *session, uint64_t *count,
                                                           tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_session_link(tenon_session *session, uint64_t index,
                                                     tenon_link_info *out, tenon_error *error);

/* Who ran what, and why others did not: one entry per (operation, link). */
typedef struct tenon_counter {
    uint32_t struct_size;
    uint32_t abi_version;
    char operation[32]; /* "qmatmul" */
    char provider[32];
    uint32_t device;
    uint32_t last_reason; /* of the last call that it did not run */
    uint64_t calls;       /* outputs computed by it */
    uint64_t declined;    /* outputs it declined */
    uint64_t failed;      /* outputs it failed, recomputed elsewhere */
    uint64_t fallbacks;   /* of calls: outputs that a link before it should have run */
    char last_text[96];   /* of the last call that it did not run */
} tenon_counter;
TENON_STATIC_ASSERT(sizeof(tenon_counter) == 208, "tenon_counter changed size");
TENON_HOST_API int32_t TENON_CALL tenon_session_counter_count(tenon_session *session,
                                                              uint64_t *count, tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_session_counter(tenon_session *session, uint64_t index,
                                                        tenon_counter *out, tenon_error *error);

/* The session's own queue, owned by it. [any thread] */
TENON_HOST_API tenon_queue *TENON_CALL tenon_session_queue(tenon_session *session);
/* A further queue, so that calls of two threads can run at once. [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_queue_create(tenon_session *session, tenon_queue **out,
                                                     tenon_error *error);
TENON_HOST_API void TENON_CALL tenon_queue_destroy(tenon_queue *queue);

/* Makes a weight: fixes its class, gives it an identity, prepares it on the first link of the
 * chain that takes it. Leave desc->arith and data->identity and generation 0. Lifetimes STABLE and
 * STABLE_FILE: the memory must stay valid until tenon_weight_destroy returns. TENON_ARG: the shape
 * or the byte counts are wrong; in mode pin, what the named links answer. [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_weight_create(tenon_session *session,
                                                      const tenon_weight_desc *desc,
                                                      const tenon_weight_data *data,
                                                      tenon_weight **out, tenon_error *error);
/* Waits for calls that use the weight, then releases it everywhere. [any thread] */
TENON_HOST_API void TENON_CALL tenon_weight_destroy(tenon_weight *weight);
/* Brackets a change of the bytes in place: begin waits for running calls and makes new ones answer
 * TENON_STATE UPDATING; end raises the generation and prepares anew. Not for lifetime COPY.
 * [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_weight_begin_update(tenon_weight *weight,
                                                            tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_weight_end_update(tenon_weight *weight, tenon_error *error);

typedef struct tenon_weight_information {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t arith;  /* TENON_CLASS_*, fixed when the weight was made */
    uint32_t device; /* device index of its link */
    uint64_t identity;
    uint64_t generation;
    uint64_t prepared_bytes; /* as the provider told, or TENON_UNKNOWN */
    char provider[32];       /* the link that holds it now */
} tenon_weight_information;
TENON_STATIC_ASSERT(sizeof(tenon_weight_information) == 72, "weight information changed size");
TENON_HOST_API int32_t TENON_CALL tenon_weight_info(tenon_weight *weight,
                                                    tenon_weight_information *out,
                                                    tenon_error *error);

#define TENON_FITS_OK 1u
#define TENON_FITS_TOO_BIG 2u
#define TENON_FITS_UNKNOWN 3u
typedef struct tenon_fit {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t answer; /* TENON_FITS_* for the link */
    uint32_t reserved0;
    uint64_t wanted;    /* prepared bytes of all of them, or TENON_UNKNOWN */
    uint64_t available; /* free bytes of the link's device, or TENON_UNKNOWN */
} tenon_fit;
TENON_STATIC_ASSERT(sizeof(tenon_fit) == 32, "tenon_fit changed size");
/* Would these weights (an array of count pointers) fit on link index of the session's chain?
 * Unknown sizes answer UNKNOWN, never a refusal. Weights the link declines count nothing.
 * [any thread] */
TENON_HOST_API int32_t TENON_CALL tenon_fits(tenon_session *session, uint64_t link,
                                             const tenon_weight_desc *const *descs, uint64_t count,
                                             tenon_fit *out, tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
