/* The objects behind the handles of <tenon/engine.h>, and who owns what.
 *
 *   host ── provider (opened once) ── device (opened once, shared by sessions)
 *     └── session ── link (one per device of its chain, in order)
 *            ├── queue ── seat (what a queue keeps per link)
 *            ├── weight ── slot (what a weight is on each link)
 *            ├── cache  (on one link for its life)
 *            ├── graph  (calls, and what one link recorded of them)
 *            └── buffer ── copy (what a buffer is on each link, and in host memory)
 *
 * Locks, in the order in which they may be taken: session.lock, cache.lock, weight.lock,
 * buffer.lock, graph.lock, host.lock.
 * A product takes none of them while all goes well: it reads weight.home and the state of a link, and
 * drains (release, update) wait until queues have left the calls that could have read the old
 * values. Providers are called under weight.lock (prepare) and host.lock (open), never log. */
#ifndef TENON_HOST_HOST_H
#define TENON_HOST_HOST_H

#include "fork_guard.h"
#include "structs.h"
#include "team.h"

#include <loader/loader.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tenon/engine.h>
#include <tenon/provider.h>

typedef struct host_provider host_provider;
typedef struct host_device host_device;
typedef struct session_link session_link;
typedef struct weight_slot weight_slot;

/* One "key=value" string, split in place. */
typedef struct host_config {
    char *key, *value;
} host_config;

struct tenon_host {
    unsigned fork_mark;
    pthread_mutex_t lock; /* everything below up to the team */
    loader *loader;
    host_provider *providers, **providers_end; /* in the order of loading */
    uint64_t module_count;                     /* modules of the loader that providers mirrors */
    uint64_t session_count;
    tenon_log_function log;
    void *log_context;
    host_config *config;
    uint64_t config_count;
    uint32_t threads_asked; /* 0: the rule of topology.h */
    uint32_t flags;         /* TENON_HOST_* */
    _Atomic(team *) team;   /* made when first needed, under lock */
    char team_why[112];
};

/* States of a provider, guarded by host.lock. */
#define PROVIDER_CLOSED 0u
#define PROVIDER_OPEN 1u
#define PROVIDER_FAILED 2u /* until the next rescan */

struct host_provider {
    tenon_host *host;
    const loader_module *module;
    host_provider *next;
    uint32_t state;      /* PROVIDER_* */
    bool warned;         /* that it cannot be used; host.lock */
    tenon_error failure; /* of open, when FAILED */
    tenon_provider *handle;
    void *services;         /* the provider's tenon_services, in its size; owned */
    uintptr_t ticket;       /* of services.h */
    host_device *devices;   /* opened ones, newest first */
    _Atomic uint32_t fault; /* TENON_REASON_*: broke the contract; 0: none */
    _Atomic uint32_t lost;  /* TENON_REASON_*: failed as a whole; 0: no */
};

struct host_device {
    host_provider *provider;
    host_device *next;
    uint32_t index;
    uint32_t arith; /* TENON_CLASS_BIT of the classes claimed */
    tenon_device *handle;
    pthread_mutex_t run_lock; /* for providers without queues: one call at a time */
    _Atomic uint32_t lost;    /* TENON_REASON_*; 0: no */
};

/* Operations, in the order of the counters. */
#define OPERATION_QMATMUL 0u
#define OPERATION_EMBED 1u
#define OPERATION_RMSNORM 2u
#define OPERATION_GATED 3u
#define OPERATION_ADD 4u
#define OPERATION_ARGMAX 5u
#define OPERATION_ATTENTION 6u
#define OPERATION_MEMORY 7u /* transfers of buffers */
#define OPERATION_GRAPH 8u  /* launches */
#define OPERATIONS 9u

/* What is counted per operation and link, in outputs (tenon_counter). */
#define COUNT_CALLS 0u
#define COUNT_DECLINED 1u
#define COUNT_FAILED 2u
#define COUNT_FALLBACKS 3u
#define COUNTS 4u

/* What a link is for one operation. */
typedef struct link_operation {
    /* only calls of fewer tokens are tried; UINT64_MAX: all, 0: none. Of qmatmul each weight has
     * its own limit, and this one stays open */
    _Atomic uint64_t limit;
    atomic_bool said_failure;
    /* counters outside of calls and of queues that are gone; with last_*, under link.lock */
    uint64_t counts[COUNTS];
    uint32_t last_reason;
    char last_text[96];
} link_operation;

struct session_link {
    host_device *device;
    uint32_t index;            /* in the chain */
    bool final;                /* the reference that ends prefer and auto: never given up */
    _Atomic uint32_t aside;    /* TENON_REASON_*: set aside for this session; 0: no */
    _Atomic uint32_t failures; /* calls that failed with scope call */
    _Atomic uint64_t weights, bytes;
    pthread_mutex_t lock; /* the counters of operations */
    link_operation operations[OPERATIONS];
};

struct tenon_session {
    tenon_host *host;
    unsigned fork_mark;
    uint32_t mode;  /* TENON_MODE_*, never 0 */
    uint32_t arith; /* TENON_CLASS_*, never 0 */
    bool allow_approx;
    atomic_bool said_reference[OPERATIONS]; /* that the reference took over */
    pthread_mutex_t lock;                   /* the five lists */
    tenon_queue *queues;
    tenon_weight *weights;
    tenon_cache *caches;
    tenon_buffer *buffers;
    tenon_graph *graphs;
    tenon_queue *own_queue;
    _Atomic uint64_t weight_epoch; /* grows when a weight moves, changes or goes */
    uint32_t link_count;
    session_link links[]; /* [link_count] */
};

/* What a queue keeps per link. The counters have one writer, the thread in the queue's call. */
typedef struct queue_seat {
    tenon_device_queue *handle; /* opened at the first call that needs it */
    _Atomic uint64_t counts[OPERATIONS][COUNTS];
} queue_seat;

/* A struct in whatever size a provider knows. */
typedef union struct_room {
    uint64_t align;
    unsigned char bytes[STRUCT_ROOM];
} struct_room;

struct tenon_queue {
    tenon_session *session;
    unsigned fork_mark;
    tenon_queue *next;
    _Atomic uint64_t turn; /* odd while a call runs */
    /* what providers are handed, kept so that a call clears nothing */
    struct_room call;      /* all zero past what the last call used */
    uint32_t call_outputs; /* outputs in it */
    struct_room error;     /* all zero past its head */
    tenon_error failure;   /* of the last run that was not OK */
    tenon_error verdict;   /* what a call answers when nobody runs it */
    tenon_graph *capture;  /* what is being recorded; NULL: nothing */
    queue_seat seats[];    /* [session.link_count] */
};

/* What a weight is on one link. prepared, arith and bytes change under weight.lock, and before home
 * is made to point here. */
struct weight_slot {
    session_link *link;
    tenon_prepared *prepared; /* NULL: not (yet) */
    uint32_t arith;           /* the class it was prepared in */
    uint64_t bytes;           /* as the provider told, or TENON_UNKNOWN */
    _Atomic uint64_t
        limit;        /* only calls of fewer tokens are tried here; UINT64_MAX: all, 0: none */
    uint32_t refused; /* TENON_REASON_* why it is not held here; 0: not asked, or held */
};

struct tenon_weight {
    tenon_session *session;
    unsigned fork_mark;
    tenon_weight *next, **back;  /* in session.weights; session.lock */
    tenon_weight_desc desc;      /* arith filled in: the exact class */
    uint64_t y_row_bytes;        /* 4 * rows, checked when it was made */
    uint64_t x_row_bytes;        /* 4 * cols */
    _Atomic(weight_slot *) home; /* the link that holds it; NULL: being updated */
    pthread_mutex_t lock;
    tenon_weight_data data; /* pointers to the engine's memory, or to copy; NULL when not kept */
    void *copy;             /* lifetime COPY: owned, both arrays */
    bool updating;
    weight_slot slots[]; /* [session.link_count] */
};

/* A key-value cache. */
struct tenon_cache {
    tenon_session *session;
    unsigned fork_mark;
    tenon_cache *next, **back; /* in session.caches; session.lock */
    session_link *link;
    tenon_device_cache *handle;
    tenon_cache_desc desc; /* table NULL: it was the engine's during create only */
    uint64_t kv_row_bytes; /* 4 * kv_heads * head_size, checked when it was made */
    pthread_mutex_t lock;  /* everything below, and one call at a time on the cache */
    uint64_t length;       /* positions held, as the calls on it add up */
    uint64_t recorded;     /* positions that the recording under way appends */
    bool lost;             /* answers TENON_LOST from now on; why says what happened */
    tenon_error why;
};

/* Links of one chain on which a buffer can have a copy; calls on further ones get host views. */
#define BUFFER_LINKS 62u

/* A buffer on one link. */
typedef struct buffer_copy {
    tenon_device_buffer *handle; /* NULL: none (yet) */
    atomic_bool given_up;        /* calls on the link get host views */
} buffer_copy;

struct tenon_buffer {
    tenon_session *session;
    unsigned fork_mark;
    tenon_buffer *next, **back; /* in session.buffers; session.lock */
    uint64_t bytes;
    uint64_t address; /* of its first byte, where no pointer is (buffer.c) */
    /* read by calls without a lock, changed under buffer.lock */
    _Atomic uint64_t valid; /* bit 0: the host copy; bit n + 1: the copy on link n */
    /* what was written since it was made or lost lies in [begin, end); end 0: nothing */
    _Atomic uint64_t begin, end;
    pthread_mutex_t lock; /* everything below */
    void *host;           /* the host copy, when first needed */
    tenon_error why;      /* what happened to the last valid copy, when none is left */
    buffer_copy copies[]; /* [session.link_count] */
};

/* log.c */
/* Says one line, "tenon: " before it, newlines made blanks. [any thread] */
void host_say(tenon_host *host, uint32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A tenon_log_function over a host: the line as it is. */
void TENON_CALL host_log_line(void *host, uint32_t level, const char *text);

/* The id of a provider. */
static inline const char *provider_id(const host_provider *provider)
{
    return provider->module->provider.id;
}

/* Why a link cannot be used now (TENON_REASON_*), 0 when it can. [any thread] */
static inline uint32_t link_out(const session_link *link)
{
    uint32_t reason = atomic_load_explicit(&link->aside, memory_order_relaxed);
    if (reason == 0) reason = atomic_load_explicit(&link->device->lost, memory_order_relaxed);
    if (reason == 0)
        reason = atomic_load_explicit(&link->device->provider->lost, memory_order_relaxed);
    if (reason == 0)
        reason = atomic_load_explicit(&link->device->provider->fault, memory_order_relaxed);
    return reason;
}

/* May a call of so many tokens be tried on the link of a slot? */
static inline bool slot_open(const weight_slot *slot, uint64_t tokens)
{
    return tokens < atomic_load_explicit(&slot->limit, memory_order_relaxed) &&
           link_out(slot->link) == 0;
}

/* An error to fill, as every caller of the border hands one. */
#define EMPTY_ERROR \
    { \
        .struct_size = sizeof(tenon_error), .abi_version = TENON_ABI_VERSION \
    }

/* Answers STATE FORKED. */
static inline int32_t fail_forked(tenon_error *error)
{
    return tenon_fail(error, TENON_STATE, TENON_REASON_FORKED, TENON_SCOPE_PROVIDER,
                      "this process is a child of the one that made the host; make a new host");
}

/* Answers what another error says. */
static inline int32_t fail_again(const tenon_error *answer, tenon_error *error)
{
    return tenon_fail_amount(error, answer->status, answer->reason, answer->scope, answer->wanted,
                             answer->available, answer->text);
}

static inline int32_t fail_memory(tenon_error *error, uint64_t bytes, const char *what)
{
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                             bytes, 0, what);
}

/* Puts "id:index: " before the text of what a link answered. */
void link_name_answer(const session_link *link, tenon_error *error);

/* fail with a printf text; always through a buffer, so that texts of others are never formats. */
int32_t fail_text(tenon_error *error, int32_t status, uint32_t reason, uint32_t scope,
                  uint64_t wanted, uint64_t available, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

#endif
