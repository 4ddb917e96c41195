#include "operation.h"

#include <loader/symbols.h>

/* What the table takes from a descriptor of one function. */
#define TAKE(name) \
    static uint32_t name##_request_size(const loader_module *module) \
    { \
        return module->name.call_size; \
    } \
    static uint32_t name##_error_size(const loader_module *module) \
    { \
        return module->name.error_size; \
    } \
    static int32_t name##_run(const loader_module *module, tenon_device *device, \
                              tenon_device_queue *queue, const void *request, tenon_error *error) \
    { \
        return module->name.run(device, queue, request, error); \
    }
TAKE(embed)
TAKE(rmsnorm)
TAKE(gated)
TAKE(add)
TAKE(argmax)

#define ROW(name) \
    { \
        "tenon_" #name "_call", #name " run", sizeof(tenon_##name##_call), operation_check_##name, \
            name##_request_size, name##_error_size, name##_run \
    }

const operation_row *operation_at(uint32_t index)
{
    static const operation_row table[] = {[OPERATION_EMBED] = ROW(embed),
                                          [OPERATION_RMSNORM] = ROW(rmsnorm),
                                          [OPERATION_GATED] = ROW(gated),
                                          [OPERATION_ADD] = ROW(add),
                                          [OPERATION_ARGMAX] = ROW(argmax)};
    return &table[index];
}

const char *operation_name(uint32_t index)
{
    static const char *const names[OPERATIONS] = {[OPERATION_QMATMUL] = "qmatmul",
                                                  [OPERATION_EMBED] = "embed",
                                                  [OPERATION_RMSNORM] = "rmsnorm",
                                                  [OPERATION_GATED] = "gated",
                                                  [OPERATION_ADD] = "add",
                                                  [OPERATION_ARGMAX] = "argmax",
                                                  [OPERATION_ATTENTION] = "attention",
                                                  [OPERATION_MEMORY] = "memory",
                                                  [OPERATION_GRAPH] = "graph"};
    return names[index];
}

bool operation_offered(const session_link *link, uint32_t index)
{
    static const uint8_t rows[OPERATIONS] = {[OPERATION_QMATMUL] = SYMBOL_qmatmul_v1,
                                             [OPERATION_EMBED] = SYMBOL_embed_v1,
                                             [OPERATION_RMSNORM] = SYMBOL_rmsnorm_v1,
                                             [OPERATION_GATED] = SYMBOL_gated_v1,
                                             [OPERATION_ADD] = SYMBOL_add_v1,
                                             [OPERATION_ARGMAX] = SYMBOL_argmax_v1,
                                             [OPERATION_ATTENTION] = SYMBOL_attention_v1,
                                             [OPERATION_MEMORY] = SYMBOL_memory_v1,
                                             [OPERATION_GRAPH] = SYMBOL_graph_v1};
    return (link->device->provider->module->offered >> rows[index] & 1u) != 0;
}
