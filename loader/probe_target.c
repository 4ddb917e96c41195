#include <loader/probe_target.h>
#include <string.h>

void probe_present(probe_box *box, const void *from, uint32_t bytes, uint32_t known)
{
    memset(box, 0, sizeof *box);
    memcpy(box, from, bytes < known ? bytes : known);
    memcpy(box, &known, sizeof known);
}

void probe_take(const probe_box *box, uint32_t known, void *to, uint32_t bytes)
{
    memset(to, 0, bytes);
    memcpy(to, box, bytes < known ? bytes : known);
    memcpy(to, &bytes, sizeof bytes);
}

static const tenon_error no_error = {TENON_HEAD(tenon_error), 0, 0, 0, 0, 0, 0, ""};

static void present_error(probe_box *box, uint32_t known)
{
    probe_present(box, &no_error, sizeof no_error, known);
}

static void take_error(const probe_box *box, uint32_t known, tenon_error *error)
{
    probe_take(box, known, error, sizeof *error);
    error->text[sizeof error->text - 1] = '\0';
}

int32_t probe_open(probe_target *self, const tenon_services *services, tenon_error *error)
{
    const tenon_provider_v1 *from = &self->module->provider;
    probe_box error_box;
    int32_t status;
    probe_present(&self->services, services, sizeof *services, from->services_size);
    present_error(&error_box, from->error_size);
    status = from->open(&self->services.as.services, &self->provider, &error_box.as.error);
    take_error(&error_box, from->error_size, error);
    if (status != TENON_OK) self->provider = NULL;
    return status;
}

int32_t probe_device_count(probe_target *self, uint32_t *count, tenon_error *error)
{
    const tenon_provider_v1 *from = &self->module->provider;
    probe_box box;
    int32_t status;
    present_error(&box, from->error_size);
    status = from->device_count(self->provider, count, &box.as.error);
    take_error(&box, from->error_size, error);
    return status;
}

int32_t probe_device_info(probe_target *self, uint32_t index, tenon_device_info *out,
                          tenon_error *error)
{
    const tenon_provider_v1 *from = &self->module->provider;
    const tenon_device_info empty = {.struct_size = sizeof empty, .abi_version = TENON_ABI_VERSION};
    probe_box box, error_box;
    int32_t status;
    probe_present(&box, &empty, sizeof empty, from->device_info_size);
    present_error(&error_box, from->error_size);
    status = from->device_info(self->provider, index, &box.as.device_info, &error_box.as.error);
    probe_take(&box, from->device_info_size, out, sizeof *out);
    take_error(&error_box, from->error_size, error);
    out->name[sizeof out->name - 1] = '\0';
    out->driver[sizeof out->driver - 1] = '\0';
    out->detail[sizeof out->detail - 1] = '\0';
    return status;
}

int32_t probe_device_open(probe_target *self, uint32_t index, tenon_error *error)
{
    const tenon_provider_v1 *from = &self->module->provider;
    probe_box box;
    int32_t status;
    present_error(&box, from->error_size);
    status = from->device_open(self->provider, index, &self->device, &box.as.error);
    if (status != TENON_OK) self->device = NULL;
    if (status == TENON_OK && self->device != NULL && from->queue_open != NULL) {
        status = from->queue_open(self->device, &self->queue, &box.as.error);
        if (status != TENON_OK) self->queue = NULL;
    }
    take_error(&box, from->error_size, error);
    return status;
}

int32_t probe_supports(probe_target *self, const tenon_weight_desc *desc, tenon_error *error)
{
    const tenon_qmatmul_v1 *from = &self->module->qmatmul;
    const tenon_qmatmul_support empty = {.struct_size = sizeof empty,
                                         .abi_version = TENON_ABI_VERSION};
    probe_box desc_box, box, error_box;
    int32_t status;
    probe_present(&desc_box, desc, sizeof *desc, from->weight_desc_size);
    probe_present(&box, &empty, sizeof empty, from->support_size);
    present_error(&error_box, from->error_size);
    status = from->supports(self->device, &desc_box.as.weight_desc, &box.as.support,
                            &error_box.as.error);
    take_error(&error_box, from->error_size, error);
    return status;
}

int32_t probe_prepare(probe_target *self, const tenon_weight_desc *desc,
                      const tenon_weight_data *data, tenon_prepared **out, tenon_error *error)
{
    const tenon_qmatmul_v1 *from = &self->module->qmatmul;
    probe_box desc_box, data_box, error_box;
    int32_t status;
    *out = NULL;
    probe_present(&desc_box, desc, sizeof *desc, from->weight_desc_size);
    probe_present(&data_box, data, sizeof *data, from->weight_data_size);
    present_error(&error_box, from->error_size);
    status = from->prepare(self->device, &desc_box.as.weight_desc, &data_box.as.weight_data, out,
                           &error_box.as.error);
    take_error(&error_box, from->error_size, error);
    return status;
}

int32_t probe_run_call(probe_target *self, const tenon_qmatmul_call *call, tenon_error *error)
{
    const tenon_qmatmul_v1 *from = &self->module->qmatmul;
    probe_box box, error_box;
    int32_t status;
    probe_present(&box, call, sizeof *call, from->call_size);
    present_error(&error_box, from->error_size);
    status = from->run(self->device, self->queue, &box.as.call, &error_box.as.error);
    take_error(&error_box, from->error_size, error);
    return status;
}

void probe_close(probe_target *self)
{
    const tenon_provider_v1 *from = &self->module->provider;
    if (self->queue != NULL) from->queue_close(self->queue);
    if (self->device != NULL) from->device_close(self->device);
    if (self->provider != NULL) from->close(self->provider);
    self->queue = NULL;
    self->device = NULL;
    self->provider = NULL;
}
