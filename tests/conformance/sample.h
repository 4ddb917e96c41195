/* One small good request of each operation that a provider may offer, called directly, whose views
 * can be placed and whose reserved fields can be set: what stage abi asks of every operation. */
#ifndef TENON_CONFORMANCE_SAMPLE_H
#define TENON_CONFORMANCE_SAMPLE_H

#include "abi_requests.h"
#include "direct_operations.h"

typedef enum sample_kind {
    SAMPLE_QMATMUL,
    SAMPLE_EMBED,
    SAMPLE_RMSNORM,
    SAMPLE_ATTENTION, /* create, append, run, free */
    SAMPLE_GATED,
    SAMPLE_ADD,
    SAMPLE_ARGMAX,
    SAMPLE_KINDS
} sample_kind;

#define SAMPLE_VIEWS 4u
#define SAMPLE_RESERVED 12u

typedef struct sample_view {
    const char *name;
    tenon_view *view; /* in the request */
    guarded memory;   /* what it names at first: input, or room for the result */
    bool written;     /* the result */
} sample_view;

/* A reserved field of one of the request's structs. */
typedef struct sample_field {
    const char *name;
    void *at;
    uint32_t bytes; /* 4 or 8 */
} sample_field;

typedef struct sample {
    sample_kind kind;
    abi_request product; /* qmatmul and embed: the weight, prepared */
    tenon_embed_call embed;
    tenon_rmsnorm_call rmsnorm;
    tenon_gated_call gated;
    tenon_add_call add;
    tenon_argmax_call argmax;
    tenon_cache_desc cache;
    tenon_append_call append;
    tenon_attention_call attention;
    guarded table;
    sample_view views[SAMPLE_VIEWS];
    uint32_t view_count;
    sample_field reserved[SAMPLE_RESERVED];
    uint32_t reserved_count;
} sample;

/* "qmatmul", "embed", ... */
const char *sample_name(sample_kind kind);
bool sample_offered(const direct *self, sample_kind kind);
/* Makes the request over host memory. False: nothing is left to free; UNSUPPORTED where the provider
 * does not offer it, else FAILED. self must stay where it is. */
bool sample_make(sample *self, direct *on, direct_device *device, sample_kind kind,
                 conformance_result *result);
void sample_free(sample *self, direct *on, direct_device *device);

/* Runs it with its views as they are. error may be NULL. */
int32_t sample_run(sample *self, direct *on, direct_device *device, tenon_error *error);

/* The view that gets the result. */
sample_view *sample_result(sample *self);
/* Fills the memory of the result with what no operation gives. */
void sample_poison(sample *self);
/* Is the result's memory still poison throughout? */
bool sample_untouched(const sample *self);
/* Are two results the same? NaN equals NaN where they are numbers (SPEC.md, A7). */
bool sample_same(const sample *self, const void *one, const void *other, uint64_t bytes);

#endif
