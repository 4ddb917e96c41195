#include "registry.h"

#include "border.h"
#include "services.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t registry_sync(tenon_host *host, tenon_error *error)
{
    uint64_t count = loader_module_count(host->loader);

    while (host->module_count < count) {
        host_provider *made = calloc(1, sizeof *made);
        if (made == NULL) return fail_memory(error, sizeof *made, "no memory for a provider");
        made->host = host;
        made->module = loader_module_at(host->loader, host->module_count);
        *host->providers_end = made;
        host->providers_end = &made->next;
        host->module_count++;
    }
    return TENON_OK;
}

void registry_forget_failures(tenon_host *host)
{
    host_provider *provider;

    for (provider = host->providers; provider != NULL; provider = provider->next) {
        if (provider->state != PROVIDER_FAILED) continue;
        if (atomic_load(&provider->fault) != 0) continue; /* broke the contract: for good */
        provider->state = PROVIDER_CLOSED;
        provider->warned = false;
    }
}

static void close_provider(host_provider *provider)
{
    while (provider->devices != NULL) {
        host_device *device = provider->devices;
        provider->devices = device->next;
        border_device_close(device);
        pthread_mutex_destroy(&device->run_lock);
        free(device);
    }
    if (provider->state == PROVIDER_OPEN) border_close(provider);
    provider->state = PROVIDER_CLOSED;
    services_end(provider);
}

void registry_put_back(host_provider *provider)
{
    if (provider->state == PROVIDER_OPEN && provider->devices == NULL) close_provider(provider);
}

void registry_close(tenon_host *host)
{
    while (host->providers != NULL) { /* the last one first */
        host_provider **last = &host->providers;
        while ((*last)->next != NULL) last = &(*last)->next;
        close_provider(*last);
        free(*last);
        *last = NULL;
    }
    host->providers_end = &host->providers;
}

/* Does a candidate bear the name: by the id in the file, or by the name of the file? */
static bool bears_name(const loader_verdict *verdict, const char *id)
{
    const char *name, *slash;
    size_t length = strlen(id);

    if (strcmp(verdict->id, id) == 0) return true;
    if (verdict->id[0] != '\0') return false;
    slash = strrchr(verdict->file, '/');
    name = slash == NULL ? verdict->file : slash + 1;
    return strncmp(name, "tenon-", 6) == 0 && strncmp(name + 6, id, length) == 0 &&
           name[6 + length] == '.';
}

host_provider *registry_find(tenon_host *host, const char *id, tenon_error *error)
{
    host_provider *provider;
    const loader_verdict *found = NULL;
    uint64_t i, count = loader_verdict_count(host->loader);
    const char *line;

    for (provider = host->providers; provider != NULL; provider = provider->next)
        if (strcmp(provider_id(provider), id) == 0) return provider;
    for (i = 0; i < count; i++) {
        const loader_verdict *verdict = loader_verdict_at(host->loader, i);
        if (verdict->verdict == TENON_CANDIDATE_LOADED || !bears_name(verdict, id)) continue;
        if (found == NULL || verdict->verdict == TENON_CANDIDATE_REFUSED) found = verdict;
    }
    if (found == NULL) {
        fail_text(error, TENON_ARG, TENON_REASON_NO_SUCH_PROVIDER, TENON_SCOPE_PROVIDER, 0, 0,
                  "%s: no such provider is loaded", id);
        return NULL;
    }
    line = strncmp(found->line, "tenon: ", 7) == 0 ? found->line + 7 : found->line;
    fail_text(error, TENON_ARG, TENON_REASON_NO_SUCH_PROVIDER, TENON_SCOPE_PROVIDER, 0, 0, "%s: %s",
              id, line);
    return NULL;
}

/* Puts the id before the text of a failure, once. */
static void name_failure(const host_provider *provider, tenon_error *error)
{
    char text[sizeof error->text];
    size_t length = strlen(provider_id(provider));

    if (strncmp(error->text, provider_id(provider), length) == 0 && error->text[length] == ':')
        return;
    memcpy(text, error->text, sizeof text);
    snprintf(error->text, sizeof error->text, "%.31s: %.170s", provider_id(provider), text);
}

/* Copies a failure to the caller's error, which may be NULL or shorter. */
static int32_t answer(const tenon_error *failure, tenon_error *error)
{
    tenon_fail_amount(error, failure->status, failure->reason, failure->scope, failure->wanted,
                      failure->available, failure->text);
    return failure->status;
}

int32_t registry_open(host_provider *provider, tenon_error *error)
{
    tenon_error *failure = &provider->failure;
    int32_t status;

    if (provider->state == PROVIDER_OPEN) return TENON_OK;
    if (provider->state == PROVIDER_FAILED) return answer(failure, error);
    *failure = (tenon_error)EMPTY_ERROR;
    status = border_check_sizes(provider, failure);
    if (status == TENON_OK) status = services_begin(provider, failure);
    if (status == TENON_OK) status = border_open(provider, failure);
    if (status == TENON_OK) {
        provider->state = PROVIDER_OPEN;
        return TENON_OK;
    }
    services_end(provider);
    provider->state = PROVIDER_FAILED;
    name_failure(provider, failure);
    return answer(failure, error);
}

int32_t registry_device_info(host_provider *provider, uint32_t index, tenon_device_info *out,
                             tenon_error *error)
{
    tenon_error failure = EMPTY_ERROR;

    if (border_device_info(provider, index, out, &failure) == TENON_OK) return TENON_OK;
    name_failure(provider, &failure);
    return answer(&failure, error);
}

int32_t registry_device(host_provider *provider, uint32_t index, const tenon_device_info *info,
                        host_device **out, tenon_error *error)
{
    tenon_error failure = EMPTY_ERROR;
    host_device *device;
    uint32_t lost;

    *out = NULL;
    if (atomic_load(&provider->fault) != 0)
        return fail_text(error, TENON_STATE, TENON_REASON_QUARANTINED, TENON_SCOPE_PROVIDER, 0, 0,
                         "%s: quarantined: it broke the contract", provider_id(provider));
    for (device = provider->devices; device != NULL; device = device->next) {
        if (device->index != index) continue;
        lost = atomic_load(&device->lost);
        if (lost == 0) lost = atomic_load(&provider->lost);
        if (lost != 0)
            return fail_text(error, TENON_DEVICE_LOST, lost, TENON_SCOPE_DEVICE, 0, 0,
                             "%s:%u: the device was lost", provider_id(provider), index);
        *out = device;
        return TENON_OK;
    }
    device = calloc(1, sizeof *device);
    if (device == NULL) return fail_memory(error, sizeof *device, "no memory for a device");
    device->provider = provider;
    device->index = index;
    device->arith = info->arith;
    if (pthread_mutex_init(&device->run_lock, NULL) != 0) {
        free(device);
        return fail_memory(error, sizeof device->run_lock, "no memory for a lock");
    }
    if (border_device_open(provider, index, &device->handle, &failure) != TENON_OK) {
        pthread_mutex_destroy(&device->run_lock);
        free(device);
        name_failure(provider, &failure);
        return answer(&failure, error);
    }
    device->next = provider->devices;
    provider->devices = device;
    *out = device;
    return TENON_OK;
}
