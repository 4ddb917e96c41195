/* The whole operations of a fake provider: those of the reference, until told to misbehave.
 * Included by fake_provider.h. */
#ifndef TENON_TESTS_FAKE_OPERATIONS_H
#define TENON_TESTS_FAKE_OPERATIONS_H

#ifndef TENON_TESTS_FAKE_PROVIDER_H
#error "include fake_provider.h"
#endif

extern const tenon_embed_v1 tenon_reference_embed_v1;
extern const tenon_rmsnorm_v1 tenon_reference_rmsnorm_v1;
extern const tenon_gated_v1 tenon_reference_gated_v1;
extern const tenon_add_v1 tenon_reference_add_v1;
extern const tenon_argmax_v1 tenon_reference_argmax_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;

static inline tenon_device *fake_reference(tenon_device *handle)
{
    return ((fake_device *)(void *)handle)->reference;
}

/* What a call of an operation answers instead of computing; TENON_OK: it is to be computed. y:
 * where it writes, NULL when nowhere. */
static inline int32_t fake_operate(tenon_device *handle, tenon_device_queue *queue,
                                   const tenon_view *y, uint32_t size, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    uint64_t number = ++self->op_runs;
    unsigned at_once = ++self->in_run, most = self->in_run_most;
    int32_t status = TENON_OK;
    bool misbehave = number >= self->op_from && (self->op_until == 0 || number <= self->op_until);

    while (at_once > most && !atomic_compare_exchange_weak(&self->in_run_most, &most, at_once))
        continue;
    if (self->no_queue != (queue == NULL)) abort(); /* the host's fault */
    self->size_seen = size;
    if (self->during != NULL) self->during(self->during_context);
    if (misbehave && self->op_half && y != NULL)
        memset((unsigned char *)y->host + y->offset, 0x5a, (size_t)y->bytes / 2);
    if (misbehave && self->op_mode) fesetround(FE_UPWARD);
    if (misbehave && self->op_status != 0) status = fake_answer(self, self->op_status, error);
    self->works++;
    self->in_run--;
    return status;
}

/* A provider of a later version sees longer requests; the reference sees its own. */
#define FAKE_SIMPLE(name) \
    static int32_t TENON_CALL fake_##name(tenon_device *handle, tenon_device_queue *queue, \
                                          const tenon_##name##_call *given, tenon_error *error) \
    { \
        tenon_##name##_call call = *given; \
        int32_t status; \
        if (fake_records(handle, FAKE_CALL_##name, given, sizeof *given, &given->y, &status, \
                         error)) \
            return status; \
        FAKE_VIEWS_##name; \
        status = fake_operate(handle, queue, &call.y, given->struct_size, error); \
        if (status != TENON_OK) return status; \
        call.struct_size = sizeof call; \
        FAKE_OBJECT_##name; \
        status = tenon_reference_##name##_v1.run(fake_reference(handle), NULL, &call, error); \
        fake_spoil_late(((fake_device *)(void *)handle)->owner, &call.y); \
        return status; \
    }
#define FAKE_OBJECT_embed call.weight = ((fake_prepared *)call.weight)->reference
#define FAKE_OBJECT_rmsnorm (void)0
#define FAKE_OBJECT_gated (void)0
#define FAKE_OBJECT_add (void)0
#define FAKE_OBJECT_argmax (void)0
#define FAKE_PLACE(view) fake_place(((fake_device *)(void *)handle)->owner, &call.view)
#define FAKE_VIEWS_embed FAKE_PLACE(ids), FAKE_PLACE(y)
#define FAKE_VIEWS_rmsnorm FAKE_PLACE(x), FAKE_PLACE(w), FAKE_PLACE(y)
#define FAKE_VIEWS_gated FAKE_PLACE(gate), FAKE_PLACE(up), FAKE_PLACE(y)
#define FAKE_VIEWS_add FAKE_PLACE(a), FAKE_PLACE(b), FAKE_PLACE(y)
#define FAKE_VIEWS_argmax FAKE_PLACE(x), FAKE_PLACE(y)
FAKE_SIMPLE(embed)
FAKE_SIMPLE(rmsnorm)
FAKE_SIMPLE(gated)
FAKE_SIMPLE(add)
FAKE_SIMPLE(argmax)
#undef FAKE_SIMPLE

/* Caches are the reference's. */
static int32_t TENON_CALL fake_cache_create(tenon_device *handle, const tenon_cache_desc *desc,
                                            tenon_device_cache **out, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    uint64_t number = ++self->creates;
    int32_t status = self->create_status;
    if (status != 0 && number > self->create_good) {
        if (status == FAKE_NULL) {
            *out = NULL;
            return TENON_OK;
        }
        return fake_answer(self, status, error);
    }
    status = tenon_reference_attention_v1.create(fake_reference(handle), desc, out, error);
    if (status == TENON_OK) self->caches_now++;
    return status;
}

static void TENON_CALL fake_cache_free(tenon_device *handle, tenon_device_cache *cache)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    if (cache != NULL) self->caches_now--;
    tenon_reference_attention_v1.free(fake_reference(handle), cache);
}

static int32_t TENON_CALL fake_append(tenon_device *handle, tenon_device_queue *queue,
                                      const tenon_append_call *given, tenon_error *error)
{
    tenon_append_call call = *given;
    int32_t status;
    if (fake_records(handle, FAKE_CALL_APPEND, given, sizeof *given, &given->k, &status, error))
        return status;
    FAKE_PLACE(k);
    FAKE_PLACE(v);
    status = fake_operate(handle, queue, NULL, given->struct_size, error);
    return status != TENON_OK
               ? status
               : tenon_reference_attention_v1.append(fake_reference(handle), NULL, &call, error);
}

static int32_t TENON_CALL fake_attention(tenon_device *handle, tenon_device_queue *queue,
                                         const tenon_attention_call *given, tenon_error *error)
{
    tenon_attention_call call = *given;
    int32_t status;
    if (fake_records(handle, FAKE_CALL_ATTENTION, given, sizeof *given, &given->y, &status, error))
        return status;
    FAKE_PLACE(q);
    FAKE_PLACE(y);
    status = fake_operate(handle, queue, &call.y, given->struct_size, error);
    if (status == TENON_OK)
        status = tenon_reference_attention_v1.run(fake_reference(handle), NULL, &call, error);
    fake_spoil_late(((fake_device *)(void *)handle)->owner, &call.y);
    return status;
}

static int32_t TENON_CALL fake_length(tenon_device *handle, const tenon_device_cache *cache,
                                      uint64_t *length, tenon_error *error)
{
    const fake_state *self = ((fake_device *)(void *)handle)->owner;
    int32_t status = tenon_reference_attention_v1.length(fake_reference(handle), cache, length,
                                                         error);
    *length += self->length_lie;
    return status;
}

static int32_t TENON_CALL fake_truncate(tenon_device *handle, tenon_device_queue *queue,
                                        tenon_device_cache *cache, uint64_t length,
                                        tenon_error *error)
{
    int32_t status = fake_operate(handle, queue, NULL, 0, error);
    return status != TENON_OK ? status
                              : tenon_reference_attention_v1.truncate(fake_reference(handle), NULL,
                                                                      cache, length, error);
}

static int32_t TENON_CALL fake_evict(tenon_device *handle, tenon_device_queue *queue,
                                     tenon_device_cache *cache, uint64_t first, uint64_t count,
                                     tenon_error *error)
{
    int32_t status = fake_operate(handle, queue, NULL, 0, error);
    return status != TENON_OK ? status
                              : tenon_reference_attention_v1.evict(fake_reference(handle), NULL,
                                                                   cache, first, count, error);
}

static int32_t TENON_CALL fake_clone(tenon_device *handle, tenon_device_queue *queue,
                                     const tenon_device_cache *cache, tenon_device_cache **out,
                                     tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    int32_t status = fake_operate(handle, queue, NULL, 0, error);
    if (status == TENON_OK)
        status = tenon_reference_attention_v1.clone(fake_reference(handle), NULL, cache, out,
                                                    error);
    if (status == TENON_OK) self->caches_now++;
    return status;
}

static int32_t TENON_CALL fake_cache_bytes(tenon_device *handle, const tenon_device_cache *cache,
                                           uint64_t *bytes, tenon_error *error)
{
    return tenon_reference_attention_v1.bytes(fake_reference(handle), cache, bytes, error);
}

/* ---- graphs ---- */

static int32_t TENON_CALL fake_graph_begin(tenon_device *handle, tenon_device_queue *queue,
                                           tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    (void)queue;
    if (self->begin_status != 0) return fake_answer(self, self->begin_status, error);
    if (self->recording != NULL) abort(); /* the host's fault */
    self->recording = calloc(1, sizeof *self->recording);
    if (self->recording == NULL) abort();
    self->recording->owner = self;
    return TENON_OK;
}

static void TENON_CALL fake_graph_abort(tenon_device *handle, tenon_device_queue *queue)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    (void)queue;
    free(self->recording);
    self->recording = NULL;
}

static int32_t TENON_CALL fake_graph_end(tenon_device *handle, tenon_device_queue *queue,
                                         tenon_device_graph **out, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    if (self->recording == NULL) abort();
    if (self->end_status != 0) {
        fake_graph_abort(handle, queue);
        *out = NULL;
        return self->end_status == FAKE_NULL ? TENON_OK
                                             : fake_answer(self, self->end_status, error);
    }
    *out = (tenon_device_graph *)(void *)self->recording;
    self->recording = NULL;
    self->graphs_now++;
    return TENON_OK;
}

static int32_t TENON_CALL fake_graph_launch(tenon_device *handle, tenon_device_queue *queue,
                                            tenon_device_graph *opaque, tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    const fake_graph_of_calls *graph = (const fake_graph_of_calls *)(void *)opaque;
    int32_t status = TENON_OK;
    int i;
    if (self->recording != NULL || graph->owner != self) abort();
    if (self->launch_status != 0) return fake_answer(self, self->launch_status, error);
    self->launches++;
    for (i = 0; i < graph->count && status == TENON_OK; i++) {
        switch (graph->kinds[i]) {
        case FAKE_CALL_QMATMUL:
            status = fake_run(handle, queue, &graph->calls[i].qmatmul, error);
            break;
        case FAKE_CALL_embed:
            status = fake_embed(handle, queue, &graph->calls[i].embed, error);
            break;
        case FAKE_CALL_rmsnorm:
            status = fake_rmsnorm(handle, queue, &graph->calls[i].rmsnorm, error);
            break;
        case FAKE_CALL_gated:
            status = fake_gated(handle, queue, &graph->calls[i].gated, error);
            break;
        case FAKE_CALL_add: status = fake_add(handle, queue, &graph->calls[i].add, error); break;
        case FAKE_CALL_argmax:
            status = fake_argmax(handle, queue, &graph->calls[i].argmax, error);
            break;
        case FAKE_CALL_APPEND:
            status = fake_append(handle, queue, &graph->calls[i].append, error);
            break;
        default: status = fake_attention(handle, queue, &graph->calls[i].attention, error); break;
        }
    }
    return status;
}

static void TENON_CALL fake_graph_release(tenon_device *handle, tenon_device_graph *opaque)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    if (opaque == NULL) return;
    self->graphs_now--;
    free(opaque);
}

static const tenon_graph_v1 fake_graph_v1 = {
    TENON_HEAD(tenon_graph_v1),   .error_size = sizeof(tenon_error), .begin = fake_graph_begin,
    .end = fake_graph_end,        .abort = fake_graph_abort,         .launch = fake_graph_launch,
    .release = fake_graph_release};

static tenon_embed_v1 fake_embed_v1[FAKES];
static tenon_rmsnorm_v1 fake_rmsnorm_v1[FAKES];
static tenon_gated_v1 fake_gated_v1[FAKES];
static tenon_add_v1 fake_add_v1[FAKES];
static tenon_argmax_v1 fake_argmax_v1[FAKES];
static tenon_attention_v1 fake_attention_v1[FAKES];

/* Adds the descriptors of what fake[n] offers to a list; returns how many there are now. */
static inline uint64_t fake_add_operations(int n, tenon_static_symbol *symbols, uint64_t count)
{
    const fake_state *self = &fake[n];
#define FAKE_OFFER(name, bit) \
    fake_##name##_v1[n] = (tenon_##name##_v1){ \
        TENON_HEAD(tenon_##name##_v1), \
        self->op_size != 0 ? self->op_size : (uint32_t)sizeof(tenon_##name##_call), \
        sizeof(tenon_error), fake_##name}; \
    if ((self->offers & (bit)) != 0) \
        symbols[count++] = (tenon_static_symbol){#name "_v1", &fake_##name##_v1[n]};
    FAKE_OFFER(embed, FAKE_EMBED)
    FAKE_OFFER(rmsnorm, FAKE_RMSNORM)
    FAKE_OFFER(gated, FAKE_GATED)
    FAKE_OFFER(add, FAKE_ADD)
    FAKE_OFFER(argmax, FAKE_ARGMAX)
#undef FAKE_OFFER
    fake_attention_v1[n] = (tenon_attention_v1){TENON_HEAD(tenon_attention_v1),
                                                .desc_size = sizeof(tenon_cache_desc),
                                                .append_size = sizeof(tenon_append_call),
                                                .call_size = sizeof(tenon_attention_call),
                                                .error_size = sizeof(tenon_error),
                                                .create = fake_cache_create,
                                                .free = fake_cache_free,
                                                .append = fake_append,
                                                .run = fake_attention,
                                                .length = fake_length,
                                                .truncate = fake_truncate,
                                                .evict = self->evict_null ? NULL : fake_evict,
                                                .clone = fake_clone,
                                                .bytes = fake_cache_bytes};
    if ((self->offers & FAKE_ATTENTION) != 0)
        symbols[count++] = (tenon_static_symbol){"attention_v1", &fake_attention_v1[n]};
    if ((self->offers & FAKE_MEMORY) != 0)
        symbols[count++] = (tenon_static_symbol){"memory_v1", &fake_memory_v1};
    if ((self->offers & FAKE_GRAPH) != 0)
        symbols[count++] = (tenon_static_symbol){"graph_v1", &fake_graph_v1};
    return count;
}

#endif
