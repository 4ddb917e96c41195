/* What the cases of the whole operations share: one request on the session under test and on the
 * reference, every word of the answer compared, what lies around it and the inputs included. */
#ifndef TENON_CONFORMANCE_OPERATION_H
#define TENON_CONFORMANCE_OPERATION_H

#include "data.h"
#include "engine_side.h"
#include "memory.h"
#include "save.h"

#define OPERATION_INPUTS 4u

/* Makes one call with its result at y. tested: the session under test, else the reference; a case
 * has its weights and caches of both. */
typedef int32_t (*operation_caller)(void *context, tenon_session *session, bool tested, void *y,
                                    tenon_error *error);

/* A request to compare. */
typedef struct operation_request {
    operation_caller call;
    void *context;
    uint64_t y_bytes;                        /* a multiple of 4, gaps between rows included */
    uint32_t y_offset;                       /* where y lies, as for guarded_make */
    bool indices;                            /* y holds integers: no NaN equals another */
    const guarded *inputs[OPERATION_INPUTS]; /* must be unchanged afterwards */
    uint32_t input_count;
    char what[160]; /* the shape, for messages */
    save_call save; /* how the request is repeated; filled where the case has a save folder */
} operation_request;

/* Makes the request on both and compares. Counts it in result; declined ones are counted, must have
 * left y untouched, and return true. False: a difference or a failure, described in result, and
 * saved where test has a save folder. */
bool operation_compare(const operation_request *request, const conformance_case *test,
                       const engine_side *engine, conformance_result *result);

/* One run of a case's requests over one host. False: a failure stands in result. */
typedef bool (*operation_body)(const conformance_case *test, engine_side *engine,
                               random_state *random, conformance_result *result);

/* Runs body over one thread and then over more, and concludes: a case whose every request was
 * declined is UNSUPPORTED. */
void operation_run(const conformance_case *test, const conformance_target *target,
                   operation_body body, conformance_result *result);

/* count floats of a kind, placed as guarded_make places. False: out of memory, the failure set. */
bool operation_floats(guarded *out, uint64_t count, uint32_t offset, random_state *random,
                      data_kind kind, conformance_result *result);

/* Rows of floats with pad bytes between them: the stride, and the bytes of all. */
uint64_t operation_stride(uint64_t width, uint64_t pad);
uint64_t operation_rows_bytes(uint64_t rows, uint64_t width, uint64_t pad);

#endif
