#include "border_parts.h"

#include <stdio.h>
#include <string.h>

void border_broke(host_provider *provider, const char *how)
{
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&provider->fault, &none, TENON_REASON_QUARANTINED)) return;
    host_say(provider->host, TENON_LOG_ERROR,
             "provider %s broke the contract and is quarantined: %s", provider_id(provider), how);
}

int32_t border_broken(host_provider *provider, tenon_error *error, const char *how)
{
    border_broke(provider, how);
    return fail_text(error, TENON_INTERNAL, TENON_REASON_CONTRACT_BROKEN, TENON_SCOPE_PROVIDER, 0,
                     0, "broke the contract: %s", how);
}

static bool size_good(uint32_t size)
{
    return size >= 8 && size <= STRUCT_ROOM && size % 8 == 0;
}

int32_t border_check_sizes(const host_provider *provider, tenon_error *error)
{
    const loader_module *m = provider->module;
    /* What is not offered is all zero and has no sizes. */
    const struct {
        const char *name;
        bool offered;
        uint32_t size;
    } sizes[] = {
        {"provider_v1.services_size", true, m->provider.services_size},
        {"provider_v1.device_info_size", true, m->provider.device_info_size},
        {"provider_v1.error_size", true, m->provider.error_size},
        {"qmatmul_v1.weight_desc_size", true, m->qmatmul.weight_desc_size},
        {"qmatmul_v1.weight_data_size", true, m->qmatmul.weight_data_size},
        {"qmatmul_v1.call_size", true, m->qmatmul.call_size},
        {"qmatmul_v1.support_size", true, m->qmatmul.support_size},
        {"qmatmul_v1.error_size", true, m->qmatmul.error_size},
#define SIMPLE(op) \
    {#op "_v1.call_size", m->op.run != NULL, m->op.call_size}, \
        {#op "_v1.error_size", m->op.run != NULL, m->op.error_size}
        SIMPLE(embed),
        SIMPLE(rmsnorm),
        SIMPLE(gated),
        SIMPLE(add),
        SIMPLE(argmax),
#undef SIMPLE
        {"memory_v1.info_size", m->memory.alloc != NULL, m->memory.info_size},
        {"memory_v1.error_size", m->memory.alloc != NULL, m->memory.error_size},
        {"graph_v1.error_size", m->graph.launch != NULL, m->graph.error_size},
        {"attention_v1.desc_size", m->attention.run != NULL, m->attention.desc_size},
        {"attention_v1.append_size", m->attention.run != NULL, m->attention.append_size},
        {"attention_v1.call_size", m->attention.run != NULL, m->attention.call_size},
        {"attention_v1.error_size", m->attention.run != NULL, m->attention.error_size},
    };
    size_t i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].offered && !size_good(sizes[i].size))
            return fail_text(error, TENON_ABI, TENON_REASON_CHECK_STRUCT_SIZE, TENON_SCOPE_PROVIDER,
                             STRUCT_ROOM, sizes[i].size,
                             "%s: %s is %u, not a multiple of 8 from 8 to %u", m->provider.id,
                             sizes[i].name, sizes[i].size, STRUCT_ROOM);
    return TENON_OK;
}

/* Reads what a provider wrote to an error of its size. */
static void read_error(const struct_room *room, uint32_t size, int32_t status, uint32_t scope,
                       tenon_error *error)
{
    size_t i;

    struct_read_answer(error, sizeof *error, room->bytes, size);
    error->status = status;
    error->reserved0 = 0;
    if (error->scope < TENON_SCOPE_CALL || error->scope > TENON_SCOPE_PROVIDER)
        error->scope = scope;
    error->text[sizeof error->text - 1] = '\0';
    for (i = 0; error->text[i] != '\0'; i++)
        if ((unsigned char)error->text[i] < 0x20) error->text[i] = ' ';
    if (error->text[0] == '\0') {
        const char *words = tenon_reason_text(error->reason);
        if (words[0] != '\0')
            snprintf(error->text, sizeof error->text, "%s", words);
        else
            snprintf(error->text, sizeof error->text, "status %d, no word more", status);
    }
}

/* Is this a status that a function may answer? DECLINED is one only where a link may decline. */
static bool status_known(int32_t status, bool may_decline)
{
    return status == TENON_OK || (may_decline && status == TENON_DECLINED) ||
           (status < 0 && status >= TENON_INTERNAL);
}

int32_t border_judge(host_provider *provider, const char *function, int32_t status,
                     bool mode_broken, bool may_decline, bool has_object, const struct_room *room,
                     uint32_t size, uint32_t scope, tenon_error *error)
{
    char how[160];

    if (!status_known(status, may_decline)) {
        snprintf(how, sizeof how, "%s answered status %d", function, status);
        return border_broken(provider, error, how);
    }
    if (mode_broken) {
        snprintf(how, sizeof how, "%s changed the floating point mode", function);
        return border_broken(provider, error, how);
    }
    if (status == TENON_OK && !has_object) {
        snprintf(how, sizeof how, "%s answered OK with NULL", function);
        return border_broken(provider, error, how);
    }
    if (status != TENON_OK) read_error(room, size, status, scope, error);
    return status;
}

int32_t border_open(host_provider *provider, tenon_error *error)
{
    const tenon_provider_v1 *p = &provider->module->provider;
    struct_room room;
    fp_mode mode;
    int32_t status;
    bool changed;

    provider->handle = NULL;
    struct_present_empty(room.bytes, p->error_size);
    mode = fp_enter();
    status = p->open(provider->services, &provider->handle, (tenon_error *)(void *)room.bytes);
    changed = fp_leave(mode);
    if (status == TENON_OK && provider->handle != NULL && changed) border_close(provider);
    status = border_judge(provider, "open", status, changed, false, provider->handle != NULL, &room,
                          p->error_size, TENON_SCOPE_PROVIDER, error);
    if (status != TENON_OK) provider->handle = NULL;
    return status;
}

void border_close(host_provider *provider)
{
    fp_mode mode = fp_enter();
    provider->module->provider.close(provider->handle);
    fp_leave(mode);
    provider->handle = NULL;
}

int32_t border_device_count(host_provider *provider, uint32_t *count, tenon_error *error)
{
    const tenon_provider_v1 *p = &provider->module->provider;
    struct_room room;
    fp_mode mode;
    int32_t status;
    bool changed;

    *count = 0;
    struct_present_empty(room.bytes, p->error_size);
    mode = fp_enter();
    status = p->device_count(provider->handle, count, (tenon_error *)(void *)room.bytes);
    changed = fp_leave(mode);
    status = border_judge(provider, "device_count", status, changed, false, true, &room,
                          p->error_size, TENON_SCOPE_PROVIDER, error);
    if (status != TENON_OK) *count = 0;
    if (status == TENON_OK && *count == 0) { /* the one answer that explains an OK */
        read_error(&room, p->error_size, TENON_OK, TENON_SCOPE_PROVIDER, error);
        if (error->reason == TENON_REASON_NONE) {
            error->reason = TENON_REASON_NO_DEVICE;
            if (((tenon_error *)(void *)room.bytes)->text[0] == '\0' ||
                p->error_size <= offsetof(tenon_error, text))
                snprintf(error->text, sizeof error->text, "no device");
        }
    }
    return status;
}

int32_t border_device_info(host_provider *provider, uint32_t index, tenon_device_info *out,
                           tenon_error *error)
{
    const tenon_provider_v1 *p = &provider->module->provider;
    struct_room room, answer;
    fp_mode mode;
    int32_t status;
    bool changed;

    struct_present_empty(room.bytes, p->error_size);
    struct_present_empty(answer.bytes, p->device_info_size);
    mode = fp_enter();
    status = p->device_info(provider->handle, index, (tenon_device_info *)(void *)answer.bytes,
                            (tenon_error *)(void *)room.bytes);
    changed = fp_leave(mode);
    status = border_judge(provider, "device_info", status, changed, false, true, &room,
                          p->error_size, TENON_SCOPE_DEVICE, error);
    struct_read_answer(out, sizeof *out, answer.bytes, p->device_info_size);
    out->name[sizeof out->name - 1] = '\0';
    out->driver[sizeof out->driver - 1] = '\0';
    out->detail[sizeof out->detail - 1] = '\0';
    return status;
}

int32_t border_device_open(host_provider *provider, uint32_t index, tenon_device **out,
                           tenon_error *error)
{
    const tenon_provider_v1 *p = &provider->module->provider;
    struct_room room;
    fp_mode mode;
    int32_t status;
    bool changed;

    *out = NULL;
    struct_present_empty(room.bytes, p->error_size);
    mode = fp_enter();
    status = p->device_open(provider->handle, index, out, (tenon_error *)(void *)room.bytes);
    changed = fp_leave(mode);
    if (status == TENON_OK && *out != NULL && changed) {
        p->device_close(*out);
        *out = NULL;
    }
    status = border_judge(provider, "device_open", status, changed, false, *out != NULL, &room,
                          p->error_size, TENON_SCOPE_DEVICE, error);
    if (status != TENON_OK) *out = NULL;
    return status;
}

void border_device_close(host_device *device)
{
    fp_mode mode = fp_enter();
    device->provider->module->provider.device_close(device->handle);
    fp_leave(mode);
}

int32_t border_queue_open(host_device *device, tenon_device_queue **out, tenon_error *error)
{
    const tenon_provider_v1 *p = &device->provider->module->provider;
    struct_room room;
    fp_mode mode;
    int32_t status;
    bool changed;

    *out = NULL;
    struct_present_empty(room.bytes, p->error_size);
    mode = fp_enter();
    status = p->queue_open(device->handle, out, (tenon_error *)(void *)room.bytes);
    changed = fp_leave(mode);
    if (status == TENON_OK && *out != NULL && changed) {
        p->queue_close(*out);
        *out = NULL;
    }
    status = border_judge(device->provider, "queue_open", status, changed, false, *out != NULL,
                          &room, p->error_size, TENON_SCOPE_CALL, error);
    if (status != TENON_OK) *out = NULL;
    return status;
}

void border_queue_close(host_device *device, tenon_device_queue *queue)
{
    fp_mode mode = fp_enter();
    device->provider->module->provider.queue_close(queue);
    fp_leave(mode);
}

int32_t border_cut(const char *name, uint32_t size, uint32_t offset, tenon_error *error)
{
    return fail_text(error, TENON_DECLINED, TENON_REASON_TRUNCATED_REQUEST, TENON_SCOPE_CALL,
                     (uint64_t)offset + 1, size,
                     "the provider knows %u bytes of %s, byte %u is not zero (R5)", size, name,
                     offset);
}

int32_t border_supports(host_device *device, const tenon_weight_desc *desc,
                        tenon_qmatmul_support *out, tenon_error *error)
{
    host_provider *provider = device->provider;
    const tenon_qmatmul_v1 *q = &provider->module->qmatmul;
    struct_room request, answer, room;
    fp_mode mode;
    uint32_t offset = 0;
    int32_t status;
    bool changed;

    *out = (tenon_qmatmul_support){TENON_HEAD(tenon_qmatmul_support),
                                   .prepared_bytes = TENON_UNKNOWN};
    if (!struct_present(request.bytes, q->weight_desc_size, desc, sizeof *desc, &offset))
        return border_cut("tenon_weight_desc", q->weight_desc_size, offset, error);
    struct_present_empty(answer.bytes, q->support_size);
    struct_present_empty(room.bytes, q->error_size);
    mode = fp_enter();
    status = q->supports(device->handle, (const tenon_weight_desc *)(void *)request.bytes,
                         (tenon_qmatmul_support *)(void *)answer.bytes,
                         (tenon_error *)(void *)room.bytes);
    changed = fp_leave(mode);
    status = border_judge(provider, "supports", status, changed, true, true, &room, q->error_size,
                          TENON_SCOPE_WEIGHT, error);
    if (status != TENON_OK) return status;
    struct_read_answer(out, sizeof *out, answer.bytes, q->support_size);
    if (q->support_size < offsetof(tenon_qmatmul_support, alignment))
        out->prepared_bytes = TENON_UNKNOWN;
    if (out->reserved0[0] != 0 || out->reserved0[1] != 0)
        return border_broken(provider, error,
                             "supports answered a reserved field that is not zero (R7)");
    if ((out->alignment & (out->alignment - 1)) != 0 || out->alignment > 1u << 21)
        return border_broken(provider, error,
                             "supports wants an alignment that is no power of two");
    return TENON_OK;
}

int32_t border_prepare(host_device *device, const tenon_weight_desc *desc,
                       const tenon_weight_data *data, tenon_prepared **out, tenon_error *error)
{
    host_provider *provider = device->provider;
    const tenon_qmatmul_v1 *q = &provider->module->qmatmul;
    struct_room request, bytes, room;
    fp_mode mode;
    uint32_t offset = 0;
    int32_t status;
    bool changed;

    *out = NULL;
    if (!struct_present(request.bytes, q->weight_desc_size, desc, sizeof *desc, &offset))
        return border_cut("tenon_weight_desc", q->weight_desc_size, offset, error);
    if (!struct_present(bytes.bytes, q->weight_data_size, data, sizeof *data, &offset))
        return border_cut("tenon_weight_data", q->weight_data_size, offset, error);
    struct_present_empty(room.bytes, q->error_size);
    mode = fp_enter();
    status = q->prepare(device->handle, (const tenon_weight_desc *)(void *)request.bytes,
                        (const tenon_weight_data *)(void *)bytes.bytes, out,
                        (tenon_error *)(void *)room.bytes);
    changed = fp_leave(mode);
    if (status == TENON_OK && *out != NULL && changed) {
        border_release(device, *out);
        *out = NULL;
    }
    status = border_judge(provider, "prepare", status, changed, true, *out != NULL, &room,
                          q->error_size, TENON_SCOPE_WEIGHT, error);
    if (status != TENON_OK) *out = NULL;
    return status;
}

void border_release(host_device *device, tenon_prepared *prepared)
{
    fp_mode mode = fp_enter();
    device->provider->module->qmatmul.release(device->handle, prepared);
    fp_leave(mode);
}

/* Puts the request of one group into queue->call, all zero past it, as the provider knows it.
 * false: *offset is the first byte that the provider does not know and that is not zero. */
static bool present_call(tenon_queue *queue, uint32_t size, const tenon_qmatmul_call *call,
                         const uint32_t *which, weight_slot *const *slots, uint32_t count,
                         uint32_t *offset)
{
    tenon_qmatmul_call *out = (tenon_qmatmul_call *)(void *)queue->call.bytes;
    uint32_t i;

    out->struct_size = size;
    out->abi_version = TENON_ABI_VERSION;
    out->x = call->x;
    out->tokens = call->tokens;
    out->x_row_stride = call->x_row_stride;
    out->output_count = count;
    for (i = 0; i < count; i++) {
        out->outputs[i] = call->outputs[which[i]];
        out->outputs[i].weight = slots[i]->prepared;
    }
    for (i = count; i < queue->call_outputs; i++) out->outputs[i] = (tenon_output){0};
    queue->call_outputs = count;
    if (size >= sizeof *out) return true;
    for (i = size; i < sizeof *out; i++) {
        if (queue->call.bytes[i] == 0) continue;
        *offset = i;
        return false;
    }
    return true;
}

int32_t border_run(tenon_queue *queue, session_link *link, const tenon_qmatmul_call *call,
                   const uint32_t *which, weight_slot *const *slots, uint32_t count,
                   tenon_error *error)
{
    host_device *device = link->device;
    host_provider *provider = device->provider;
    const tenon_qmatmul_v1 *q = &provider->module->qmatmul;
    queue_seat *seat = &queue->seats[link->index];
    tenon_error *said = (tenon_error *)(void *)queue->error.bytes;
    bool has_queues = provider->module->provider.queue_open != NULL, changed;
    uint32_t offset = 0;
    fp_mode mode;
    int32_t status;

    if (has_queues && seat->handle == NULL) {
        status = border_queue_open(device, &seat->handle, error);
        if (status != TENON_OK) return status;
    }
    if (!present_call(queue, q->call_size, call, which, slots, count, &offset))
        return border_cut("tenon_qmatmul_call", q->call_size, offset, error);
    if (said->status != 0) memset(queue->error.bytes, 0, q->error_size); /* of the last failure */
    said->struct_size = q->error_size;
    said->abi_version = TENON_ABI_VERSION;
    if (!has_queues) pthread_mutex_lock(&device->run_lock);
    mode = fp_enter();
    status = q->run(device->handle, seat->handle,
                    (const tenon_qmatmul_call *)(void *)queue->call.bytes, said);
    changed = fp_leave(mode);
    if (!has_queues) pthread_mutex_unlock(&device->run_lock);
    if (status == TENON_OK && !changed &&
        atomic_load_explicit(&provider->fault, memory_order_relaxed) == 0)
        return TENON_OK;
    if (status == TENON_OK && !changed) /* a worker's mode was changed, or another call broke */
        return fail_text(error, TENON_INTERNAL, TENON_REASON_QUARANTINED, TENON_SCOPE_PROVIDER, 0,
                         0, "quarantined during the call");
    return border_judge(provider, "qmatmul run", status, changed, true, true, &queue->error,
                        q->error_size, TENON_SCOPE_CALL, error);
}
