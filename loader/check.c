/* The stage check: the struct rules of SPEC.md section 1 over descriptors in memory. */
#include <loader/bind.h>
#include <loader/verdict.h>
#include <stdio.h>
#include <string.h>

/* A size that a descriptor states for a struct it knows: at least the first version's (R9), ends
 * on 8 bytes (R2), and not absurd. */
static void check_size(loader_fault *fault, const char *what, uint32_t size, size_t minimum)
{
    if (size < minimum || size % 8 != 0 || size > BIND_MAX_STRUCT)
        fault_note_amounts(fault, TENON_REASON_CHECK_STRUCT_SIZE, what, size, minimum, "");
}

static void check_function(loader_fault *fault, const char *what, bool present)
{
    if (!present)
        fault_note(fault, TENON_REASON_CHECK_NULL_FUNCTION, what, "NULL", "a function", NULL);
}

static bool id_is_good(const char id[32])
{
    unsigned i;
    if (!(id[0] >= 'a' && id[0] <= 'z')) return false;
    for (i = 0; i < 32 && id[i] != '\0'; i++)
        if (!(id[i] >= 'a' && id[i] <= 'z') && !(id[i] >= '0' && id[i] <= '9') && id[i] != '_')
            return false;
    return i < 32;
}

static void check_provider(const tenon_provider_v1 *self, loader_fault *fault)
{
    char text[40];
    if (self->needs != 0) {
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)self->needs);
        fault_note(fault, TENON_REASON_CHECK_UNKNOWN_NEED, "provider_v1", text, "0x0", NULL);
    }
    if (!id_is_good(self->id)) {
        snprintf(text, sizeof text, "%.32s", self->id);
        fault_note(fault, TENON_REASON_CHECK_BAD_ID, "provider_v1", text, "[a-z][a-z0-9_]*", NULL);
    }
    if (memchr(self->version, 0, sizeof self->version) == NULL)
        fault_note(fault, TENON_REASON_CHECK_BAD_ID, "provider_v1", NULL, "a printable version",
                   NULL);
    check_size(fault, "provider_v1.services_size", self->services_size, sizeof(tenon_services));
    check_size(fault, "provider_v1.device_info_size", self->device_info_size,
               sizeof(tenon_device_info));
    check_size(fault, "provider_v1.error_size", self->error_size, sizeof(tenon_error));
    check_function(fault, "provider_v1.open", self->open != NULL);
    check_function(fault, "provider_v1.close", self->close != NULL);
    check_function(fault, "provider_v1.device_count", self->device_count != NULL);
    check_function(fault, "provider_v1.device_info", self->device_info != NULL);
    check_function(fault, "provider_v1.device_open", self->device_open != NULL);
    check_function(fault, "provider_v1.device_close", self->device_close != NULL);
    /* Optional, but only as a pair. */
    check_function(fault, "provider_v1.queue_close",
                   self->queue_open == NULL || self->queue_close != NULL);
    check_function(fault, "provider_v1.queue_open",
                   self->queue_close == NULL || self->queue_open != NULL);
}

static void check_qmatmul(const tenon_qmatmul_v1 *self, loader_fault *fault)
{
    check_size(fault, "qmatmul_v1.weight_desc_size", self->weight_desc_size,
               sizeof(tenon_weight_desc));
    check_size(fault, "qmatmul_v1.weight_data_size", self->weight_data_size,
               sizeof(tenon_weight_data));
    check_size(fault, "qmatmul_v1.call_size", self->call_size, sizeof(tenon_qmatmul_call));
    check_size(fault, "qmatmul_v1.support_size", self->support_size, sizeof(tenon_qmatmul_support));
    check_size(fault, "qmatmul_v1.error_size", self->error_size, sizeof(tenon_error));
    check_function(fault, "qmatmul_v1.supports", self->supports != NULL);
    check_function(fault, "qmatmul_v1.prepare", self->prepare != NULL);
    check_function(fault, "qmatmul_v1.run", self->run != NULL);
    check_function(fault, "qmatmul_v1.release", self->release != NULL);
}

/* Copies one descriptor if it is of a size and version that we know; a longer one is cut, its
 * unknown functions are not called (R6). */
static bool copy_descriptor(const void *from, unsigned row, void *to, uint32_t bytes,
                            loader_fault *fault)
{
    const char *name = symbol_at(row).name;
    uint32_t head[2];
    memcpy(head, from, sizeof head);
    if (head[1] != TENON_ABI_VERSION)
        fault_note_amounts(fault, TENON_REASON_CHECK_ABI, name, head[1], TENON_ABI_VERSION, "");
    if (head[0] < symbol_at(row).minimum)
        fault_note_amounts(fault, TENON_REASON_CHECK_SHORT_DESCRIPTOR, name, head[0],
                           symbol_at(row).minimum, "");
    if (fault->reason != TENON_REASON_NONE) return false;
    memset(to, 0, bytes);
    memcpy(to, from, head[0] < bytes ? head[0] : bytes);
    memcpy(to, &bytes, sizeof bytes); /* struct_size of the copy */
    return true;
}

/* The descriptor of an operation that is one function: {head, call_size, error_size, run}. */
#define SIMPLE_OPERATION(name) \
    static bool check_##name(const tenon_##name##_v1 *self, loader_fault *fault) \
    { \
        check_size(fault, #name "_v1.call_size", self->call_size, sizeof(tenon_##name##_call)); \
        check_size(fault, #name "_v1.error_size", self->error_size, sizeof(tenon_error)); \
        return self->run != NULL; \
    }
SIMPLE_OPERATION(embed)
SIMPLE_OPERATION(rmsnorm)
SIMPLE_OPERATION(gated)
SIMPLE_OPERATION(add)
SIMPLE_OPERATION(argmax)
#undef SIMPLE_OPERATION

/* All of it or none: a cache that cannot be freed or truncated is of no use. */
static bool check_attention(const tenon_attention_v1 *self, loader_fault *fault)
{
    check_size(fault, "attention_v1.desc_size", self->desc_size, sizeof(tenon_cache_desc));
    check_size(fault, "attention_v1.append_size", self->append_size, sizeof(tenon_append_call));
    check_size(fault, "attention_v1.call_size", self->call_size, sizeof(tenon_attention_call));
    check_size(fault, "attention_v1.error_size", self->error_size, sizeof(tenon_error));
    return self->create != NULL && self->free != NULL && self->append != NULL &&
           self->run != NULL && self->length != NULL && self->truncate != NULL &&
           self->evict != NULL && self->clone != NULL && self->bytes != NULL;
}

/* All of it or none: a buffer that cannot be read back or freed is of no use. */
static bool check_memory(const tenon_memory_v1 *self, loader_fault *fault)
{
    check_size(fault, "memory_v1.info_size", self->info_size, sizeof(tenon_memory_info));
    check_size(fault, "memory_v1.error_size", self->error_size, sizeof(tenon_error));
    return self->alloc != NULL && self->free != NULL && self->write != NULL && self->read != NULL &&
           self->copy != NULL && self->fence != NULL && self->info != NULL;
}

/* All of it or none. */
static bool check_graph(const tenon_graph_v1 *self, loader_fault *fault)
{
    check_size(fault, "graph_v1.error_size", self->error_size, sizeof(tenon_error));
    return self->begin != NULL && self->end != NULL && self->abort != NULL &&
           self->launch != NULL && self->release != NULL;
}

void check_descriptors(const bound_symbols *bound, loader_module *module, loader_fault *fault)
{
    if (fault->reason != TENON_REASON_NONE) return;
    module->offered = 1u << SYMBOL_provider_v1 | 1u << SYMBOL_qmatmul_v1;
    if (!copy_descriptor(bound->at[SYMBOL_provider_v1], SYMBOL_provider_v1, &module->provider,
                         sizeof module->provider, fault) ||
        !copy_descriptor(bound->at[SYMBOL_qmatmul_v1], SYMBOL_qmatmul_v1, &module->qmatmul,
                         sizeof module->qmatmul, fault))
        return;
    check_provider(&module->provider, fault);
    check_qmatmul(&module->qmatmul, fault);
#define OPTIONAL_OPERATION(name) \
    memset(&module->name, 0, sizeof module->name); \
    if (bound->at[SYMBOL_##name##_v1] != NULL && \
        copy_descriptor(bound->at[SYMBOL_##name##_v1], SYMBOL_##name##_v1, &module->name, \
                        sizeof module->name, fault)) { \
        if (check_##name(&module->name, fault)) \
            module->offered |= 1u << SYMBOL_##name##_v1; \
        else \
            memset(&module->name, 0, sizeof module->name); \
    }
    OPTIONAL_OPERATION(memory)
    OPTIONAL_OPERATION(embed)
    OPTIONAL_OPERATION(rmsnorm)
    OPTIONAL_OPERATION(attention)
    OPTIONAL_OPERATION(gated)
    OPTIONAL_OPERATION(add)
    OPTIONAL_OPERATION(argmax)
    OPTIONAL_OPERATION(graph)
    /* a graph names buffers only */
    if ((module->offered >> SYMBOL_memory_v1 & 1u) == 0) {
        module->offered &= ~(1u << SYMBOL_graph_v1);
        memset(&module->graph, 0, sizeof module->graph);
    }
#undef OPTIONAL_OPERATION
}
