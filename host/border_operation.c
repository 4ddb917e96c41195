/* The border of the operations that are one function. */
#include "border_parts.h"
#include "operation.h"

int32_t border_enter(border_visit *self, tenon_queue *queue, session_link *link,
                     uint32_t error_size, tenon_error *error)
{
    bool has_queues = link->device->provider->module->provider.queue_open != NULL;
    int32_t status;

    self->device = link->device;
    self->queue = NULL;
    self->error_size = error_size;
    self->locked = queue != NULL && !has_queues;
    if (queue != NULL && has_queues) {
        queue_seat *seat = &queue->seats[link->index];
        if (seat->handle == NULL) {
            status = border_queue_open(link->device, &seat->handle, error);
            if (status != TENON_OK) return status;
        }
        self->queue = seat->handle;
    }
    struct_present_empty(self->error.bytes, error_size);
    if (self->locked) pthread_mutex_lock(&self->device->run_lock);
    self->mode = fp_enter();
    return TENON_OK;
}

int32_t border_leave(border_visit *self, const char *function, int32_t status, bool may_decline,
                     bool has_object, uint32_t scope, tenon_error *error)
{
    host_provider *provider = self->device->provider;
    bool changed = fp_leave(self->mode);

    if (self->locked) pthread_mutex_unlock(&self->device->run_lock);
    if (status == TENON_OK && !changed && has_object) {
        if (atomic_load_explicit(&provider->fault, memory_order_relaxed) == 0) return TENON_OK;
        /* a worker's mode was changed, or another call broke the contract */
        return fail_text(error, TENON_INTERNAL, TENON_REASON_QUARANTINED, TENON_SCOPE_PROVIDER, 0,
                         0, "quarantined during the call");
    }
    return border_judge(provider, function, status, changed, may_decline, has_object, &self->error,
                        self->error_size, scope, error);
}

int32_t border_operate(tenon_queue *queue, session_link *link, uint32_t index,
                       const operation_request *request, tenon_error *error)
{
    const operation_row *row = operation_at(index);
    const loader_module *module = link->device->provider->module;
    uint32_t size = row->request_size_of(module), offset = 0;
    struct_room presented;
    border_visit visit;
    int32_t status;

    if (!struct_present(presented.bytes, size, request, row->request_size, &offset))
        return border_cut(row->type, size, offset, error);
    status = border_enter(&visit, queue, link, row->error_size_of(module), error);
    if (status != TENON_OK) return status;
    status = row->run(module, link->device->handle, visit.queue, presented.bytes,
                      border_error(&visit));
    return border_leave(&visit, row->function, status, true, true, TENON_SCOPE_CALL, error);
}
