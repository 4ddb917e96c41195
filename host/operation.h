/* The whole operations of a step: what the host knows of each, once.
 *
 * qmatmul is grouped by weights (qmatmul.c) and attention stands on caches (cache.c); the others
 * are one call over views and share one path (operation.c), which reads the table here. */
#ifndef TENON_HOST_OPERATION_H
#define TENON_HOST_OPERATION_H

#include "host.h"
#include "views.h"

/* Inputs and outputs of one request; the output is the last. */
#define OPERATION_VIEWS 4u

/* A request of any operation of the table. */
typedef union operation_request {
    struct {
        uint32_t struct_size;
        uint32_t abi_version;
        void *object; /* embed: the weight. Others have a view here */
    } head;
    tenon_embed_call embed;
    tenon_rmsnorm_call rmsnorm;
    tenon_gated_call gated;
    tenon_add_call add;
    tenon_argmax_call argmax;
} operation_request;

/* What operation.c needs of a request. */
typedef struct operation_facts {
    uint64_t tokens;
    tenon_weight *weight; /* embed: the weight read; NULL for all others */
    byte_rows views[OPERATION_VIEWS];
    const char *names[OPERATION_VIEWS];
    tenon_view *at[OPERATION_VIEWS]; /* in the request */
    uint32_t view_count;             /* the last one is the output */
    bool buffers;                    /* some view names a buffer */
} operation_facts;

/* One row of the table. */
typedef struct operation_row {
    const char *type;      /* of the request, for messages */
    const char *function;  /* of the provider, for messages */
    uint32_t request_size; /* that this library knows */
    /* Checks everything about a request and says what it touches. A view that is not touched at
     * all is emptied. TENON_OK or TENON_ARG. */
    int32_t (*check)(const tenon_session *session, operation_request *request,
                     operation_facts *facts, tenon_error *error);
    /* The sizes that a provider which offers the operation states. */
    uint32_t (*request_size_of)(const loader_module *module);
    uint32_t (*error_size_of)(const loader_module *module);
    /* Calls the provider; request is in its size. */
    int32_t (*run)(const loader_module *module, tenon_device *device, tenon_device_queue *queue,
                   const void *request, tenon_error *error);
} operation_row;

/* index: OPERATION_EMBED to OPERATION_ARGMAX. */
const operation_row *operation_at(uint32_t index);

/* The name of any operation, qmatmul and attention included: "rmsnorm". */
const char *operation_name(uint32_t index);

/* Does the provider of a link offer it at all? [any thread] */
bool operation_offered(const session_link *link, uint32_t index);

/* May a call of so many tokens be tried on the link? [any thread] */
static inline bool operation_open(const session_link *link, uint32_t index, uint64_t tokens)
{
    return tokens < atomic_load_explicit(&link->operations[index].limit, memory_order_relaxed) &&
           link_out(link) == 0;
}

/* Checks a request and what its views share, fills *facts. TENON_OK or TENON_ARG. */
int32_t operation_check(const tenon_session *session, uint32_t index, operation_request *request,
                        operation_facts *facts, tenon_error *error);
/* Checks a request and has it computed by the first link that does. Inside a call of the queue. */
int32_t operation_perform(tenon_queue *queue, uint32_t index, operation_request *request,
                          tenon_error *error);

/* operation_check.c: the checks of the table. */
int32_t operation_check_embed(const tenon_session *session, operation_request *request,
                              operation_facts *facts, tenon_error *error);
int32_t operation_check_rmsnorm(const tenon_session *session, operation_request *request,
                                operation_facts *facts, tenon_error *error);
int32_t operation_check_gated(const tenon_session *session, operation_request *request,
                              operation_facts *facts, tenon_error *error);
int32_t operation_check_add(const tenon_session *session, operation_request *request,
                            operation_facts *facts, tenon_error *error);
int32_t operation_check_argmax(const tenon_session *session, operation_request *request,
                               operation_facts *facts, tenon_error *error);

#endif
