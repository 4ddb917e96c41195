/* What the files of the border share: how an answer is judged, and what stands around a call. */
#ifndef TENON_HOST_BORDER_PARTS_H
#define TENON_HOST_BORDER_PARTS_H

#include "border.h"
#include "fpenv.h"

/* What every answer is looked at for. has_object: false when an object was due and is NULL. room
 * and size: the error as the provider filled it. */
int32_t border_judge(host_provider *provider, const char *function, int32_t status,
                     bool mode_changed, bool may_decline, bool has_object, const struct_room *room,
                     uint32_t size, uint32_t scope, tenon_error *error);
/* The answer when a request cannot be presented in the size that the provider knows (R5). */
int32_t border_cut(const char *name, uint32_t size, uint32_t offset, tenon_error *error);
/* The provider answered what it may not: quarantined, INTERNAL CONTRACT_BROKEN. */
int32_t border_broken(host_provider *provider, tenon_error *error, const char *how);

/* One call of an operation on its way through the border. */
typedef struct border_visit {
    host_device *device;
    tenon_device_queue *queue; /* to hand over; NULL when the provider has none */
    struct_room error;         /* for the provider, in its size */
    uint32_t error_size;
    bool locked; /* device->run_lock */
    fp_mode mode;
} border_visit;

/* Before the call: opens the link's queue if need be, takes the device's lock when the provider has
 * no queues, sets the floating point mode. queue NULL: the function takes none and is [any thread].
 * TENON_OK, or what queue_open answered: then nothing has begun. */
int32_t border_enter(border_visit *self, tenon_queue *queue, session_link *link,
                     uint32_t error_size, tenon_error *error);
/* After the call, whose answer is status: undoes border_enter and judges. */
int32_t border_leave(border_visit *self, const char *function, int32_t status, bool may_decline,
                     bool has_object, uint32_t scope, tenon_error *error);

static inline tenon_error *border_error(border_visit *self)
{
    return (tenon_error *)(void *)self->error.bytes;
}

#endif
