/* A host's side of the border in its smallest form. */
#include "direct.h"

#include "engine_side.h"

#include <stdio.h>
#include <string.h>

#define MARK 0xa7

void direct_present(direct_struct *out, const void *from, size_t ours, uint32_t stated)
{
    memset(out, 0, stated);
    memset((uint8_t *)out + stated, MARK, sizeof *out - stated);
    memcpy(out, from, ours < stated ? ours : stated);
    out->error.struct_size = stated;
    out->error.abi_version = TENON_ABI_VERSION;
}

bool direct_kept(const direct_struct *presented, uint32_t stated)
{
    const uint8_t *bytes = (const uint8_t *)presented;
    size_t i;
    for (i = stated; i < sizeof *presented; i++)
        if (bytes[i] != MARK) return false;
    return true;
}

static void note_call(direct *self)
{
    if (atomic_load(&self->closed)) atomic_fetch_add(&self->after_close, 1);
}

static void TENON_CALL service_log(void *host, uint32_t level, const char *text)
{
    direct *self = host;
    (void)level;
    (void)text;
    note_call(self);
    atomic_fetch_add(&self->log_lines, 1);
}

static void TENON_CALL service_parallel_for(void *host, uint64_t count, tenon_parallel_body body,
                                            void *context)
{
    direct *self = host;
    uint64_t i;
    note_call(self);
    atomic_fetch_add(&self->loops, 1);
    for (i = 0; i < count; i++) body(context, i, 0);
}

static uint32_t TENON_CALL service_team_size(void *host)
{
    note_call(host);
    return 1;
}

static const char *TENON_CALL service_config(void *host, const char *key)
{
    direct *self = host;
    const conformance_target *target = self->target;
    size_t length = strlen(key);
    char level[64];
    uint64_t i;
    note_call(self);
    atomic_fetch_add(&self->config_reads, 1);
    snprintf(level, sizeof level, "%s.level", target->id);
    if (target->level != NULL && strcmp(key, level) == 0) return target->level;
    for (i = target->config_count; i-- > 0;)
        if (strncmp(target->config[i], key, length) == 0 && target->config[i][length] == '=')
            return target->config[i] + length + 1;
    return NULL;
}

static void TENON_CALL ignore_log(void *context, uint32_t level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
}

/* Are these struct sizes ones that this program can present? */
static bool sizes_plausible(const loader_module *module, conformance_result *result)
{
    const uint32_t sizes[] = {
        module->provider.services_size,   module->provider.device_info_size,
        module->provider.error_size,      module->qmatmul.weight_desc_size,
        module->qmatmul.weight_data_size, module->qmatmul.call_size,
        module->qmatmul.support_size,     module->qmatmul.error_size,
    };
    static const char *const names[] = {
        "services_size",    "device_info_size",        "error_size (provider_v1)",
        "weight_desc_size", "weight_data_size",        "call_size",
        "support_size",     "error_size (qmatmul_v1)",
    };
    size_t i;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i] < 8 || sizes[i] > DIRECT_MAX_STRUCT || sizes[i] % 8 != 0)
            return conformance_fail(result, "R5: %s is %u", names[i], sizes[i]);
    return true;
}

bool direct_load(direct *self, const conformance_target *target, conformance_result *result)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    loader_options options = {.no_search = true, .log = ignore_log};
    const tenon_services services = {TENON_HEAD(tenon_services),
                                     .host = self,
                                     .log = service_log,
                                     .config = service_config,
                                     .parallel_for = service_parallel_for,
                                     .team_size = service_team_size};
    uint64_t i;
    int32_t status;
    memset(self, 0, sizeof *self);
    self->target = target;
    atomic_store(&self->closed, true);
    if (target->file != NULL) {
        options.paths = &target->file;
        options.path_count = 1;
    }
    status = loader_create(&options, &self->found, &error);
    if (status != TENON_OK) {
        self->found = NULL;
        return conformance_fail(result, "loader: status %d, %s", status, error.text);
    }
    if (target->symbols != NULL)
        status = loader_register(self->found, target->symbols, target->symbol_count, &error);
    for (i = 0; i < loader_module_count(self->found); i++)
        if (strcmp(loader_module_at(self->found, i)->provider.id, target->id) == 0)
            self->module = loader_module_at(self->found, i);
    if (self->module == NULL) {
        if (loader_verdict_count(self->found) > 0)
            conformance_fail(result, "not loaded: %s", loader_verdict_at(self->found, 0)->line);
        else
            conformance_fail(result, "not loaded: status %d, %s", status, error.text);
        direct_unload(self);
        return false;
    }
    if (!sizes_plausible(self->module, result)) {
        direct_unload(self);
        return false;
    }
    direct_present(&self->services, &services, sizeof services,
                   self->module->provider.services_size);
    return true;
}

void direct_unload(direct *self)
{
    loader_destroy(self->found);
    self->found = NULL;
    self->module = NULL;
}

tenon_error *direct_error_give(direct_struct *box, const tenon_error *error, uint32_t stated)
{
    const tenon_error empty = {TENON_HEAD(tenon_error), .status = TENON_OK};
    direct_present(box, &empty, sizeof empty, stated);
    return error != NULL ? &box->error : NULL;
}

void direct_error_take(direct *self, const direct_struct *box, tenon_error *error, uint32_t stated)
{
    if (!direct_kept(box, stated)) atomic_fetch_add(&self->spilled, 1);
    if (error == NULL) return;
    memset(error, 0, sizeof *error);
    memcpy(error, box, stated < sizeof *error ? stated : sizeof *error);
    error->struct_size = sizeof *error;
    error->abi_version = TENON_ABI_VERSION;
    error->text[sizeof error->text - 1] = '\0';
}

int32_t direct_open(direct *self, tenon_provider **out, tenon_error *error)
{
    const uint32_t stated = self->module->provider.error_size;
    direct_struct sized;
    int32_t status;
    *out = NULL;
    atomic_store(&self->closed, false);
    status = self->module->provider.open(&self->services.services, out,
                                         direct_error_give(&sized, error, stated));
    direct_error_take(self, &sized, error, stated);
    return status;
}

void direct_close(direct *self, tenon_provider *provider)
{
    self->module->provider.close(provider);
}

bool direct_device_open(direct *self, direct_device *out, conformance_result *result)
{
    const tenon_provider_v1 *functions = &self->module->provider;
    const tenon_device_info empty = {TENON_HEAD(tenon_device_info), .kind = 0};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    direct_struct sized, info;
    uint32_t count = 0;
    int32_t status;
    memset(out, 0, sizeof *out);
    status = direct_open(self, &out->provider, &error);
    if (status != TENON_OK) {
        if (engine_side_absent(error.reason))
            conformance_set(result, CONFORMANCE_SKIPPED, "%s", error.text);
        else
            conformance_fail(result, "open: status %d, reason %u: %s", status, error.reason,
                             error.text);
        return false;
    }
    status = functions->device_count(out->provider, &count,
                                     direct_error_give(&sized, &error, functions->error_size));
    direct_error_take(self, &sized, &error, functions->error_size);
    if (status != TENON_OK) {
        conformance_fail(result, "device_count: status %d: %s", status, error.text);
        goto fail;
    }
    if (count <= self->target->device) {
        conformance_set(result, CONFORMANCE_SKIPPED, "no device %u (%s)", self->target->device,
                        error.text);
        goto fail;
    }
    direct_present(&info, &empty, sizeof empty, functions->device_info_size);
    status = functions->device_info(out->provider, self->target->device, &info.info, NULL);
    if (!direct_kept(&info, functions->device_info_size)) atomic_fetch_add(&self->spilled, 1);
    memcpy(&out->info, &info,
           functions->device_info_size < sizeof out->info ? functions->device_info_size
                                                          : sizeof out->info);
    if (status != TENON_OK || out->info.unusable != 0) {
        conformance_set(result, CONFORMANCE_SKIPPED, "device %u: %s", self->target->device,
                        tenon_reason_text(out->info.unusable));
        goto fail;
    }
    status = functions->device_open(out->provider, self->target->device, &out->device,
                                    direct_error_give(&sized, &error, functions->error_size));
    direct_error_take(self, &sized, &error, functions->error_size);
    if (status != TENON_OK || out->device == NULL) {
        if (engine_side_absent(error.reason))
            conformance_set(result, CONFORMANCE_SKIPPED, "%s", error.text);
        else
            conformance_fail(result, "device_open: status %d, device %s: %s", status,
                             out->device == NULL ? "NULL" : "made", error.text);
        goto fail;
    }
    if (functions->queue_open != NULL) {
        status = functions->queue_open(out->device, &out->queue,
                                       direct_error_give(&sized, &error, functions->error_size));
        direct_error_take(self, &sized, &error, functions->error_size);
        if (status != TENON_OK || out->queue == NULL) {
            conformance_fail(result, "queue_open: status %d", status);
            goto fail;
        }
    }
    return true;
fail:
    direct_device_close(self, out);
    return false;
}

void direct_device_close(direct *self, direct_device *device)
{
    const tenon_provider_v1 *functions = &self->module->provider;
    if (device->queue != NULL && functions->queue_close != NULL)
        functions->queue_close(device->queue);
    if (device->device != NULL) functions->device_close(device->device);
    if (device->provider != NULL) {
        direct_close(self, device->provider);
        atomic_store(&self->closed, true);
    }
    memset(device, 0, sizeof *device);
}

int32_t direct_supports(direct *self, tenon_device *device, const tenon_weight_desc *desc,
                        tenon_qmatmul_support *out, tenon_error *error)
{
    const tenon_qmatmul_v1 *functions = &self->module->qmatmul;
    const tenon_qmatmul_support empty = {TENON_HEAD(tenon_qmatmul_support), .prepared_bytes = 0};
    direct_struct sized, shape, answer;
    int32_t status;
    direct_present(&shape, desc, sizeof *desc, functions->weight_desc_size);
    direct_present(&answer, &empty, sizeof empty, functions->support_size);
    status = functions->supports(device, &shape.desc, &answer.support,
                                 direct_error_give(&sized, error, functions->error_size));
    direct_error_take(self, &sized, error, functions->error_size);
    if (!direct_kept(&shape, functions->weight_desc_size) ||
        !direct_kept(&answer, functions->support_size))
        atomic_fetch_add(&self->spilled, 1);
    *out = empty;
    if (status == TENON_OK)
        memcpy(out, &answer,
               functions->support_size < sizeof *out ? functions->support_size : sizeof *out);
    return status;
}

int32_t direct_prepare(direct *self, tenon_device *device, const tenon_weight_desc *desc,
                       const tenon_weight_data *data, tenon_prepared **out, tenon_error *error)
{
    const tenon_qmatmul_v1 *functions = &self->module->qmatmul;
    direct_struct sized, shape, bytes;
    int32_t status;
    direct_present(&shape, desc, sizeof *desc, functions->weight_desc_size);
    direct_present(&bytes, data, sizeof *data, functions->weight_data_size);
    *out = NULL;
    status = functions->prepare(device, &shape.desc, &bytes.data, out,
                                direct_error_give(&sized, error, functions->error_size));
    if (!direct_kept(&shape, functions->weight_desc_size) ||
        !direct_kept(&bytes, functions->weight_data_size))
        atomic_fetch_add(&self->spilled, 1);
    direct_error_take(self, &sized, error, functions->error_size);
    return status;
}

int32_t direct_run(direct *self, const direct_device *on, const tenon_qmatmul_call *call,
                   tenon_error *error)
{
    const tenon_qmatmul_v1 *functions = &self->module->qmatmul;
    direct_struct sized, request;
    int32_t status;
    direct_present(&request, call, sizeof *call, functions->call_size);
    status = functions->run(on->device, on->queue, &request.call,
                            direct_error_give(&sized, error, functions->error_size));
    if (!direct_kept(&request, functions->call_size)) atomic_fetch_add(&self->spilled, 1);
    direct_error_take(self, &sized, error, functions->error_size);
    return status;
}
