/* The host: made, searched again, asked what it found, destroyed. */
#include "host.h"

#include "border.h"
#include "registry.h"
#include "services.h"

#include <stdlib.h>
#include <string.h>

/* The built-in last link of every chain (providers/reference). */
extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
extern const tenon_embed_v1 tenon_reference_embed_v1;
extern const tenon_rmsnorm_v1 tenon_reference_rmsnorm_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;
extern const tenon_gated_v1 tenon_reference_gated_v1;
extern const tenon_add_v1 tenon_reference_add_v1;
extern const tenon_argmax_v1 tenon_reference_argmax_v1;

static int32_t check_host(const tenon_host *host, tenon_error *error)
{
    if (host == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "host is NULL");
    return fork_guard_crossed(host->fork_mark) ? fail_forked(error) : TENON_OK;
}

static int32_t check_desc(const tenon_host_desc *desc, tenon_error *error)
{
    uint64_t i;

    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_CALL,
                          "tenon_host_desc.reserved0 is not zero");
    if ((desc->flags & ~(TENON_HOST_NO_SEARCH | TENON_HOST_PIN_THREADS)) != 0)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "tenon_host_desc.flags 0x%x has unknown bits", desc->flags);
    if (desc->threads > TEAM_THREADS_MAX)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL,
                         desc->threads, TEAM_THREADS_MAX, "%u threads, at most %u", desc->threads,
                         TEAM_THREADS_MAX);
    if ((desc->provider_path_count > 0 && desc->provider_paths == NULL) ||
        (desc->config_count > 0 && desc->config == NULL))
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "a list with a count is NULL");
    for (i = 0; i < desc->provider_path_count; i++)
        if (desc->provider_paths[i] == NULL)
            return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                              "a provider path is NULL");
    for (i = 0; i < desc->config_count; i++) {
        const char *entry = desc->config[i];
        if (entry == NULL)
            return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                              "a configuration string is NULL");
        if (entry[0] == '=' || strchr(entry, '=') == NULL)
            return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_CONFIG, TENON_SCOPE_CALL, 0, 0,
                             "configuration \"%.64s\" is not key=value", entry);
    }
    return TENON_OK;
}

static int32_t copy_config(tenon_host *host, const tenon_host_desc *desc, tenon_error *error)
{
    uint64_t i;

    if (desc->config_count == 0) return TENON_OK;
    host->config = calloc(desc->config_count, sizeof *host->config);
    if (host->config == NULL) return fail_memory(error, 0, "no memory for the configuration");
    host->config_count = desc->config_count;
    for (i = 0; i < desc->config_count; i++) {
        char *copy = strdup(desc->config[i]), *equals;
        if (copy == NULL) return fail_memory(error, 0, "no memory for the configuration");
        equals = strchr(copy, '=');
        if (equals == NULL) { /* changed under us */
            free(copy);
            return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_CONFIG, TENON_SCOPE_CALL,
                              "a configuration string is not key=value");
        }
        *equals = '\0';
        host->config[i].key = copy;
        host->config[i].value = equals + 1;
    }
    return TENON_OK;
}

/* Frees a host whose providers are closed. */
static void free_host(tenon_host *host)
{
    uint64_t i;

    team_destroy(atomic_load(&host->team));
    loader_destroy(host->loader);
    for (i = 0; i < host->config_count; i++) free(host->config[i].key);
    free(host->config);
    pthread_mutex_destroy(&host->lock);
    free(host);
}

static int32_t register_reference(tenon_host *host, tenon_error *error)
{
    static const tenon_static_symbol symbols[] = {
        {"provider_v1", &tenon_reference_provider_v1},
        {"qmatmul_v1", &tenon_reference_qmatmul_v1},
        {"embed_v1", &tenon_reference_embed_v1},
        {"rmsnorm_v1", &tenon_reference_rmsnorm_v1},
        {"attention_v1", &tenon_reference_attention_v1},
        {"gated_v1", &tenon_reference_gated_v1},
        {"add_v1", &tenon_reference_add_v1},
        {"argmax_v1", &tenon_reference_argmax_v1},
    };
    return loader_register(host->loader, symbols, sizeof symbols / sizeof symbols[0], error);
}

int32_t TENON_CALL tenon_host_create(const tenon_host_desc *desc, tenon_host **out,
                                     tenon_error *error)
{
    tenon_host_desc mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    loader_options options = {0};
    tenon_host *host = NULL;
    int32_t status = TENON_OK;

    if (out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "out is NULL");
    *out = NULL;
    if (desc != NULL) status = struct_take(&mine, sizeof mine, desc, "tenon_host_desc", error);
    if (status == TENON_OK) status = check_desc(&mine, error);
    if (status != TENON_OK) return status;
    if (!fork_guard_setup()) return fail_memory(error, 0, "no memory for the fork guard");
    host = calloc(1, sizeof *host);
    if (host == NULL) return fail_memory(error, sizeof *host, "no memory for a host");
    if (pthread_mutex_init(&host->lock, NULL) != 0) {
        free(host);
        return fail_memory(error, sizeof host->lock, "no memory for a lock");
    }
    host->fork_mark = fork_guard_mark();
    host->providers_end = &host->providers;
    host->log = mine.log;
    host->log_context = mine.log_context;
    host->threads_asked = mine.threads;
    host->flags = mine.flags;
    status = copy_config(host, &mine, error);
    if (status != TENON_OK) goto out;
    options.paths = mine.provider_paths;
    options.path_count = mine.provider_path_count;
    options.select = mine.select;
    options.disable = mine.disable;
    options.no_search = (mine.flags & TENON_HOST_NO_SEARCH) != 0;
    options.log = host_log_line;
    options.log_context = host;
    status = loader_create(&options, &host->loader, error);
    if (status == TENON_OK) status = register_reference(host, error);
    if (status == TENON_OK) status = registry_sync(host, error);
    if (status == TENON_OK) *out = host;
out:
    if (status != TENON_OK) {
        registry_close(host);
        free_host(host);
    }
    return status;
}

int32_t TENON_CALL tenon_host_destroy(tenon_host *host, tenon_error *error)
{
    uint64_t sessions;
    int32_t status;

    if (host == NULL) return TENON_OK;
    status = check_host(host, error);
    if (status != TENON_OK) return status;
    pthread_mutex_lock(&host->lock);
    sessions = host->session_count;
    if (sessions == 0) registry_close(host);
    pthread_mutex_unlock(&host->lock);
    if (sessions != 0)
        return fail_text(error, TENON_STATE, TENON_REASON_IN_USE, TENON_SCOPE_PROVIDER, 0, sessions,
                         "the host still has %llu sessions", (unsigned long long)sessions);
    free_host(host);
    return TENON_OK;
}

int32_t TENON_CALL tenon_host_rescan(tenon_host *host, tenon_error *error)
{
    int32_t status = check_host(host, error);

    if (status != TENON_OK) return status;
    pthread_mutex_lock(&host->lock);
    registry_forget_failures(host);
    status = loader_rescan(host->loader, error);
    if (status == TENON_OK) status = registry_sync(host, error);
    pthread_mutex_unlock(&host->lock);
    return status;
}

int32_t TENON_CALL tenon_host_register(tenon_host *host, const tenon_static_symbol *symbols,
                                       uint64_t symbol_count, tenon_error *error)
{
    int32_t status = check_host(host, error);

    if (status != TENON_OK) return status;
    if (symbols == NULL && symbol_count > 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "symbols is NULL");
    pthread_mutex_lock(&host->lock);
    status = loader_register(host->loader, symbols, symbol_count, error);
    if (status == TENON_OK) status = registry_sync(host, error);
    pthread_mutex_unlock(&host->lock);
    return status;
}

int32_t TENON_CALL tenon_host_candidate_count(tenon_host *host, uint64_t *count, tenon_error *error)
{
    int32_t status = check_host(host, error);

    if (status != TENON_OK) return status;
    if (count == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "count is NULL");
    pthread_mutex_lock(&host->lock);
    *count = loader_verdict_count(host->loader);
    pthread_mutex_unlock(&host->lock);
    return TENON_OK;
}

int32_t TENON_CALL tenon_host_candidate(tenon_host *host, uint64_t index, tenon_candidate *out,
                                        tenon_error *error)
{
    tenon_candidate mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    const loader_verdict *verdict = NULL;
    uint64_t count;
    int32_t status = check_host(host, error);

    if (status == TENON_OK) status = struct_check_out(out, "tenon_candidate", error);
    if (status != TENON_OK) return status;
    pthread_mutex_lock(&host->lock);
    count = loader_verdict_count(host->loader);
    if (index < count) verdict = loader_verdict_at(host->loader, index);
    pthread_mutex_unlock(&host->lock);
    if (verdict == NULL)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, index,
                         count, "there are %llu candidates", (unsigned long long)count);
    mine.verdict = verdict->verdict;
    mine.stage = verdict->stage;
    mine.reason = verdict->reason;
    mine.file = verdict->file;
    mine.id = verdict->id;
    mine.version = verdict->version;
    mine.symbol = verdict->symbol;
    mine.have = verdict->have;
    mine.need = verdict->need;
    mine.hint = verdict->hint;
    mine.text = verdict->text;
    mine.line = verdict->line;
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}

/* Finds and opens a provider and asks for its devices. Takes the lock and keeps it. */
static int32_t lock_and_count(tenon_host *host, const char *id, host_provider **provider,
                              uint32_t *count, tenon_error *error)
{
    tenon_error why = EMPTY_ERROR;
    int32_t status;

    pthread_mutex_lock(&host->lock);
    *provider = registry_find(host, id, error);
    if (*provider == NULL) return TENON_ARG;
    status = registry_open(*provider, error);
    if (status != TENON_OK) return status;
    status = border_device_count(*provider, count, &why);
    if (status != TENON_OK || *count == 0)
        tenon_fail_amount(error, status, why.reason, TENON_SCOPE_PROVIDER, why.wanted,
                          why.available, why.text);
    return status;
}

int32_t TENON_CALL tenon_host_device_count(tenon_host *host, const char *provider, uint32_t *count,
                                           tenon_error *error)
{
    host_provider *found;
    int32_t status = check_host(host, error);

    if (status != TENON_OK) return status;
    if (provider == NULL || count == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "provider or count is NULL");
    status = lock_and_count(host, provider, &found, count, error);
    pthread_mutex_unlock(&host->lock);
    return status;
}

int32_t TENON_CALL tenon_host_device(tenon_host *host, const char *provider, uint32_t index,
                                     tenon_device_description *out, tenon_error *error)
{
    tenon_device_description mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    tenon_device_info info;
    host_provider *found;
    uint32_t count = 0;
    int32_t status = check_host(host, error);

    if (status == TENON_OK) status = struct_check_out(out, "tenon_device_description", error);
    if (status != TENON_OK) return status;
    if (provider == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "provider is NULL");
    status = lock_and_count(host, provider, &found, &count, error);
    if (status == TENON_OK && index >= count)
        status = fail_text(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_DEVICE, index,
                           count, "%s:%u: no such device, there are %u", provider_id(found), index,
                           count);
    else if (status == TENON_OK)
        status = registry_device_info(found, index, &info, error);
    pthread_mutex_unlock(&host->lock);
    if (status != TENON_OK) return status;
    mine.kind = info.kind;
    mine.arith = info.arith;
    mine.unusable = info.unusable;
    mine.memory_total = info.memory_total;
    mine.memory_free = info.memory_free;
    memcpy(mine.name, info.name, sizeof mine.name);
    memcpy(mine.driver, info.driver, sizeof mine.driver);
    memcpy(mine.detail, info.detail, sizeof mine.detail);
    memcpy(mine.uuid, info.uuid, sizeof mine.uuid);
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}

int32_t TENON_CALL tenon_host_team(tenon_host *host, tenon_team_info *out, tenon_error *error)
{
    tenon_team_info mine = {.struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION};
    team *workers;
    int32_t status = check_host(host, error);

    if (status == TENON_OK) status = struct_check_out(out, "tenon_team_info", error);
    if (status != TENON_OK) return status;
    workers = services_team(host, false, error);
    if (workers == NULL) return TENON_NOMEM;
    mine.threads = team_threads(workers);
    memcpy(mine.why, host->team_why, sizeof mine.why);
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}
