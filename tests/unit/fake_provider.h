/* Providers that live inside a test and fail on demand.
 *
 * A fake computes with the reference provider, so its answers have the right bits until it is told
 * to misbehave. There are FAKES of them, fake[0] ...; each counts what is asked of it, so that a
 * test can balance opens with closes and prepares with releases. Set the knobs, fake_register it
 * with a host, and name it in a chain by its id.
 *
 *     fake_reset(0, "acme");
 *     fake[0].run_status = TENON_INTERNAL;
 *     fake_register(host, 0);
 */
#ifndef TENON_TESTS_FAKE_PROVIDER_H
#define TENON_TESTS_FAKE_PROVIDER_H

#include <fenv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/engine.h>
#include <tenon/provider.h>

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;

#define FAKES 4

#define FAKE_EMBED 1u
#define FAKE_RMSNORM 2u
#define FAKE_GATED 4u
#define FAKE_ADD 8u
#define FAKE_ARGMAX 16u
#define FAKE_ATTENTION 32u
#define FAKE_MEMORY 64u
#define FAKE_GRAPH 128u
#define FAKE_NULL 1000
#define FAKE_DEVICES 8

typedef struct fake_device {
    struct fake_state *owner;
    uint32_t index;
    tenon_device *reference;
} fake_device;

/* A prepared weight: the reference's, and how it came about. */
typedef struct fake_prepared {
    tenon_prepared *reference;
    tenon_weight_desc desc;
    uint64_t identity, generation;
    uint64_t rows;
} fake_prepared;

typedef struct fake_state {
    char id[32];
    /* knobs: devices */
    int32_t open_status; /* 0: opens */
    uint32_t open_reason;
    uint64_t open_wanted, open_available;
    bool open_null;
    uint32_t device_count;
    uint32_t no_device_reason;
    const char *no_device_text;
    uint32_t kind[FAKE_DEVICES], unusable[FAKE_DEVICES], arith;
    int32_t device_status[FAKE_DEVICES]; /* what device_open answers */
    uint8_t uuid[FAKE_DEVICES][16];
    uint64_t memory_total, memory_free;
    /* knobs: sizes (0: this header's) */
    uint32_t call_size, desc_size, data_size, support_size, error_size, info_size, services_size;
    /* knobs: weights */
    int32_t supports_status, prepare_status;
    uint32_t answer_reason, answer_scope; /* of every failure and refusal */
    uint64_t prepared_bytes, alignment, support_reserved;
    bool prepare_null;
    uint32_t only_arith; /* supports nothing but this class; 0: what the reference does */
    /* knobs: runs */
    int32_t run_status;      /* 0: runs well */
    uint64_t run_from;       /* misbehaves from this call on, counted from 1 ... */
    uint64_t run_until;      /* ... to this one; 0: for ever */
    uint64_t fail_tokens;    /* misbehaves only for calls of at least so many tokens */
    bool write_half;         /* writes half of y with rubbish before it fails */
    bool decline_groups;     /* declines calls of more than one output */
    bool change_mode;        /* leaves the rounding direction changed */
    bool change_worker_mode; /* does so on the threads of the team */
    void (*during)(void *);  /* called inside every run */
    void *during_context;
    bool no_queue;             /* offers no queue_open */
    int32_t queue_open_status; /* what queue_open answers */
    /* knobs: the other operations */
    uint32_t offers;            /* FAKE_*: none by default */
    uint32_t op_size;           /* of the requests it knows; 0: this header's */
    int32_t op_status;          /* what they answer; 0: they run well */
    uint64_t op_from, op_until; /* as run_from and run_until, over all of them together */
    bool op_half, op_mode;      /* as write_half and change_mode */
    int32_t create_status;      /* what making a cache answers, FAKE_NULL: OK with NULL ... */
    uint64_t create_good;       /* ... after so many good ones */
    uint64_t length_lie;        /* length answers so many more */
    bool evict_null;            /* attention_v1 lacks a function */
    /* knobs: memory */
    int32_t alloc_status; /* what making a buffer answers, FAKE_NULL: OK with NULL ... */
    uint64_t alloc_good;  /* ... after so many good ones */
    int32_t write_status, read_status, copy_status;
    int32_t late_status; /* what reads and fences answer once late_from pieces of work are done */
    uint64_t late_from;
    /* knobs: graphs */
    int32_t begin_status, end_status, launch_status; /* FAKE_NULL for end: OK with NULL */
    unsigned record_decline; /* declines the call of this number in a recording; 0: none */
    bool record_host;        /* records calls over host memory, too */
    struct fake_graph_of_calls *recording;
    /* counted */
    atomic_ullong launches;
    atomic_uint graphs_now;
    atomic_ullong allocs, writes, reads, copies, fences, works, buffer_views;
    atomic_uint buffers_now;
    atomic_ullong op_runs, creates;
    atomic_uint caches_now;
    atomic_uint opens, closes, device_opens, device_closes, queue_opens, queue_closes;
    atomic_uint supports, prepares, prepared_now, releases, runs;
    atomic_uint in_run, in_run_most;            /* runs at once, and the most there were */
    atomic_uint outputs_seen;                   /* of the last run */
    atomic_uintptr_t weights_seen, scales_seen; /* of the last prepare */
    atomic_ullong identity_seen, generation_seen;
    atomic_uint size_seen; /* struct_size of the last call */
    const tenon_services *services;
    tenon_provider *reference;
} fake_state;

static fake_state fake[FAKES];

static int32_t fake_answer(const fake_state *self, int32_t status, tenon_error *error)
{
    return tenon_fail_amount(error, status, self->answer_reason, self->answer_scope, 0, 0,
                             "told to");
}

static int32_t fake_open(fake_state *self, const tenon_services *services, tenon_provider **out,
                         tenon_error *error)
{
    self->services = services;
    if (self->open_status != 0)
        return tenon_fail_amount(error, self->open_status, self->open_reason, TENON_SCOPE_PROVIDER,
                                 self->open_wanted, self->open_available, "told not to open");
    if (self->open_null) {
        *out = NULL;
        return TENON_OK;
    }
    if (tenon_reference_provider_v1.open(services, &self->reference, error) != TENON_OK)
        return TENON_NOMEM;
    self->opens++;
    *out = (tenon_provider *)(void *)self;
    return TENON_OK;
}

static int32_t TENON_CALL fake_open_0(const tenon_services *s, tenon_provider **o, tenon_error *e)
{
    return fake_open(&fake[0], s, o, e);
}
static int32_t TENON_CALL fake_open_1(const tenon_services *s, tenon_provider **o, tenon_error *e)
{
    return fake_open(&fake[1], s, o, e);
}
static int32_t TENON_CALL fake_open_2(const tenon_services *s, tenon_provider **o, tenon_error *e)
{
    return fake_open(&fake[2], s, o, e);
}
static int32_t TENON_CALL fake_open_3(const tenon_services *s, tenon_provider **o, tenon_error *e)
{
    return fake_open(&fake[3], s, o, e);
}

static void TENON_CALL fake_close(tenon_provider *provider)
{
    fake_state *self = (fake_state *)(void *)provider;
    if (self == NULL) return;
    tenon_reference_provider_v1.close(self->reference);
    self->closes++;
}

static int32_t TENON_CALL fake_device_count(tenon_provider *provider, uint32_t *count,
                                            tenon_error *error)
{
    fake_state *self = (fake_state *)(void *)provider;
    *count = self->device_count;
    if (*count == 0 && self->no_device_reason != 0)
        tenon_fail(error, TENON_OK, self->no_device_reason, 0, self->no_device_text);
    return TENON_OK;
}

static int32_t TENON_CALL fake_device_info(tenon_provider *provider, uint32_t index,
                                           tenon_device_info *out, tenon_error *error)
{
    fake_state *self = (fake_state *)(void *)provider;
    tenon_device_info info = {.struct_size = out->struct_size, .abi_version = TENON_ABI_VERSION};
    uint32_t size = out->struct_size;
    (void)error;
    info.kind = self->kind[index];
    info.arith = self->arith;
    info.unusable = self->unusable[index];
    info.memory_total = self->memory_total;
    info.memory_free = self->memory_free;
    memcpy(info.uuid, self->uuid[index], sizeof info.uuid);
    snprintf(info.name, sizeof info.name, "fake device %u", index);
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
    return TENON_OK;
}

static int32_t TENON_CALL fake_device_open(tenon_provider *provider, uint32_t index,
                                           tenon_device **out, tenon_error *error)
{
    fake_state *self = (fake_state *)(void *)provider;
    fake_device *device;
    if (self->device_status[index] != 0)
        return fake_answer(self, self->device_status[index], error);
    device = calloc(1, sizeof *device);
    if (device == NULL)
        return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_DEVICE, "");
    device->owner = self;
    device->index = index;
    if (tenon_reference_provider_v1.device_open(self->reference, 0, &device->reference, error) !=
        TENON_OK) {
        free(device);
        return TENON_NOMEM;
    }
    self->device_opens++;
    *out = (tenon_device *)(void *)device;
    return TENON_OK;
}

static void TENON_CALL fake_device_close(tenon_device *handle)
{
    fake_device *device = (fake_device *)(void *)handle;
    if (device == NULL) return;
    device->owner->device_closes++;
    tenon_reference_provider_v1.device_close(device->reference);
    free(device);
}

static int32_t TENON_CALL fake_queue_open(tenon_device *handle, tenon_device_queue **out,
                                          tenon_error *error)
{
    fake_state *self = ((fake_device *)(void *)handle)->owner;
    if (self->queue_open_status != 0)
        return tenon_fail(error, self->queue_open_status, TENON_REASON_OUT_OF_MEMORY, 0,
                          "no queue");
    self->queue_opens++;
    *out = (tenon_device_queue *)(void *)self;
    return TENON_OK;
}

static void TENON_CALL fake_queue_close(tenon_device_queue *queue)
{
    if (queue != NULL) ((fake_state *)(void *)queue)->queue_closes++;
}

static int32_t TENON_CALL fake_supports(tenon_device *handle, const tenon_weight_desc *desc,
                                        tenon_qmatmul_support *out, tenon_error *error)
{
    fake_device *device = (fake_device *)(void *)handle;
    fake_state *self = device->owner;
    tenon_qmatmul_support support = {.struct_size = out->struct_size,
                                     .abi_version = TENON_ABI_VERSION};
    self->supports++;
    if (self->supports_status != 0) return fake_answer(self, self->supports_status, error);
    if (self->only_arith != 0 && desc->arith != self->only_arith)
        return tenon_fail(error, TENON_DECLINED, TENON_REASON_UNSUPPORTED_CLASS, 0, "one class");
    support.prepared_bytes = self->prepared_bytes;
    support.alignment = self->alignment;
    support.reserved0[0] = self->support_reserved;
    memcpy(out, &support, out->struct_size < sizeof support ? out->struct_size : sizeof support);
    return TENON_OK;
}

static int32_t TENON_CALL fake_prepare(tenon_device *handle, const tenon_weight_desc *desc,
                                       const tenon_weight_data *data, tenon_prepared **out,
                                       tenon_error *error)
{
    fake_device *device = (fake_device *)(void *)handle;
    fake_state *self = device->owner;
    tenon_weight_desc full_desc = {.struct_size = sizeof full_desc};
    tenon_weight_data full_data = {.struct_size = sizeof full_data};
    fake_prepared *prepared;
    int32_t status;
    self->prepares++;
    if (self->prepare_status != 0) return fake_answer(self, self->prepare_status, error);
    if (self->prepare_null) {
        *out = NULL;
        return TENON_OK;
    }
    memcpy(&full_desc, desc, desc->struct_size < sizeof full_desc ? desc->struct_size : 64);
    memcpy(&full_data, data, data->struct_size < sizeof full_data ? data->struct_size : 96);
    full_desc.struct_size = sizeof full_desc;
    full_data.struct_size = sizeof full_data;
    self->weights_seen = (uintptr_t)data->weights;
    self->scales_seen = (uintptr_t)data->scales;
    self->identity_seen = full_data.identity;
    self->generation_seen = full_data.generation;
    prepared = calloc(1, sizeof *prepared);
    if (prepared == NULL)
        return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_WEIGHT, "");
    prepared->desc = full_desc;
    prepared->rows = full_desc.rows;
    if (full_desc.arith == TENON_CLASS_APPROX) full_desc.arith = TENON_CLASS_F32;
    status = tenon_reference_qmatmul_v1.prepare(device->reference, &full_desc, &full_data,
                                                &prepared->reference, error);
    if (status != TENON_OK) {
        free(prepared);
        return status;
    }
    self->prepared_now++;
    *out = (tenon_prepared *)(void *)prepared;
    return TENON_OK;
}

static void TENON_CALL fake_release(tenon_device *handle, tenon_prepared *opaque)
{
    fake_device *device = (fake_device *)(void *)handle;
    fake_prepared *prepared = (fake_prepared *)(void *)opaque;
    if (prepared == NULL) return;
    device->owner->releases++;
    device->owner->prepared_now--;
    tenon_reference_qmatmul_v1.release(device->reference, prepared->reference);
    free(prepared);
}

static void TENON_CALL fake_spoil_worker(void *context, uint64_t index, uint32_t worker)
{
    atomic_uint *others = context;
    (void)index;
    if (worker != 0) {
        fesetround(FE_UPWARD);
        (*others)++;
    } else { /* wait a little, so that a worker gets its share */
        for (volatile int i = 0; i < 20000 && *others == 0; i++) continue;
    }
}

#include "fake_memory.h"

#include "fake_graph.h"

static int32_t TENON_CALL fake_run(tenon_device *handle, tenon_device_queue *queue,
                                   const tenon_qmatmul_call *given, tenon_error *error)
{
    fake_device *device = (fake_device *)(void *)handle;
    fake_state *self = device->owner;
    tenon_qmatmul_call call = {.struct_size = sizeof call};
    uint64_t number = ++self->runs;
    unsigned at_once = ++self->in_run, most = self->in_run_most;
    int32_t status = TENON_OK;
    uint32_t i;
    bool misbehave;
    (void)queue;
    if (fake_records(handle, FAKE_CALL_QMATMUL, given, sizeof *given, &given->outputs[0].y, &status,
                     error)) {
        self->in_run--;
        return status;
    }
    while (at_once > most && !atomic_compare_exchange_weak(&self->in_run_most, &most, at_once))
        continue;
    memcpy(&call, given, given->struct_size < sizeof call ? given->struct_size : sizeof call);
    call.struct_size = sizeof call;
    self->size_seen = given->struct_size;
    self->outputs_seen = call.output_count;
    if (self->during != NULL) self->during(self->during_context);
    fake_place(self, &call.x);
    for (i = 0; i < call.output_count; i++) fake_place(self, &call.outputs[i].y);
    self->works++;
    misbehave = number >= self->run_from && (self->run_until == 0 || number <= self->run_until) &&
                call.tokens >= self->fail_tokens;
    if (self->decline_groups && call.output_count > 1) {
        self->in_run--;
        return fake_answer(self, TENON_DECLINED, error);
    }
    for (i = 0; misbehave && self->write_half && i < call.output_count; i++) {
        const fake_prepared *prepared = call.outputs[i].weight;
        unsigned char *y = (unsigned char *)call.outputs[i].y.host + call.outputs[i].y.offset;
        memset(y, 0x5a, (size_t)prepared->rows * 4 / 2);
    }
    if (misbehave && self->change_mode) fesetround(FE_UPWARD);
    if (misbehave && self->change_worker_mode) {
        atomic_uint others = 0;
        for (i = 0; i < 1000 && others == 0; i++)
            self->services->parallel_for(self->services->host, 64, fake_spoil_worker, &others);
    }
    if (misbehave && self->run_status != 0) status = fake_answer(self, self->run_status, error);
    if (status == TENON_OK) {
        for (i = 0; i < call.output_count; i++)
            call.outputs[i].weight = ((fake_prepared *)call.outputs[i].weight)->reference;
        status = tenon_reference_qmatmul_v1.run(device->reference, NULL, &call, error);
    }
    for (i = 0; i < call.output_count; i++) fake_spoil_late(self, &call.outputs[i].y);
    self->in_run--;
    return status;
}

#include "fake_operations.h"

/* Makes fake[n] a good provider of one discrete device, all counts zero. */
static inline void fake_reset(int n, const char *id)
{
    fake_state *self = &fake[n];
    memset(self, 0, sizeof *self);
    snprintf(self->id, sizeof self->id, "%s", id);
    self->device_count = 1;
    self->kind[0] = TENON_DEVICE_DISCRETE;
    self->arith = TENON_CLASS_BIT(TENON_CLASS_F32) | TENON_CLASS_BIT(TENON_CLASS_A8);
    self->memory_total = self->memory_free = TENON_UNKNOWN;
    self->prepared_bytes = TENON_UNKNOWN;
    self->answer_scope = TENON_SCOPE_CALL;
}

static tenon_provider_v1 fake_descriptor[FAKES];
static tenon_qmatmul_v1 fake_qmatmul[FAKES];

#define FAKE_SYMBOLS 10

/* The descriptors of fake[n] as its knobs say; they live as long as the program. Returns how many. */
static inline uint64_t fake_symbols(int n, tenon_static_symbol symbols[FAKE_SYMBOLS])
{
    const fake_state *self = &fake[n];
    int32_t (*const opens[FAKES])(const tenon_services *, tenon_provider **, tenon_error *) = {
        fake_open_0, fake_open_1, fake_open_2, fake_open_3};
#define FAKE_SIZE(knob, type) (self->knob != 0 ? self->knob : (uint32_t)sizeof(type))
    fake_descriptor[n] = (tenon_provider_v1){
        TENON_HEAD(tenon_provider_v1),
        .needs = 0,
        .services_size = FAKE_SIZE(services_size, tenon_services),
        .device_info_size = FAKE_SIZE(info_size, tenon_device_info),
        .error_size = FAKE_SIZE(error_size, tenon_error),
        .version = "1.0",
        .open = opens[n],
        .close = fake_close,
        .device_count = fake_device_count,
        .device_info = fake_device_info,
        .device_open = fake_device_open,
        .device_close = fake_device_close,
        .queue_open = self->no_queue ? NULL : fake_queue_open,
        .queue_close = self->no_queue ? NULL : fake_queue_close,
    };
    memcpy(fake_descriptor[n].id, self->id, sizeof self->id);
    fake_qmatmul[n] = (tenon_qmatmul_v1){
        TENON_HEAD(tenon_qmatmul_v1),
        .weight_desc_size = FAKE_SIZE(desc_size, tenon_weight_desc),
        .weight_data_size = FAKE_SIZE(data_size, tenon_weight_data),
        .call_size = FAKE_SIZE(call_size, tenon_qmatmul_call),
        .support_size = FAKE_SIZE(support_size, tenon_qmatmul_support),
        .error_size = FAKE_SIZE(error_size, tenon_error),
        .supports = fake_supports,
        .prepare = fake_prepare,
        .run = fake_run,
        .release = fake_release,
    };
#undef FAKE_SIZE
    symbols[0] = (tenon_static_symbol){"provider_v1", &fake_descriptor[n]};
    symbols[1] = (tenon_static_symbol){"qmatmul_v1", &fake_qmatmul[n]};
    return fake_add_operations(n, symbols, 2);
}

/* Registers fake[n]. */
static inline int32_t fake_register(tenon_host *host, int n, tenon_error *error)
{
    tenon_static_symbol symbols[FAKE_SYMBOLS];
    uint64_t count = fake_symbols(n, symbols);
    return tenon_host_register(host, symbols, count, error);
}

/* Did everything that was opened, prepared and queued end? Call it after the host is gone. */
static inline bool fake_balanced(int n)
{
    const fake_state *self = &fake[n];
    return self->opens == self->closes && self->device_opens == self->device_closes &&
           self->queue_opens == self->queue_closes && self->prepared_now == 0 &&
           self->caches_now == 0 && self->buffers_now == 0 && self->graphs_now == 0 &&
           self->recording == NULL;
}

#endif
