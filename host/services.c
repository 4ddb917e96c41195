#include "services.h"

#include "border.h"
#include "system.h"
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tickets name an entry of this table and how often the entry had been given out: the lower bits
 * and the upper bits. It is never freed; so a ticket that is over can always be recognised. */
#define ENTRIES 4096u
#define ENTRY_BITS 12u

typedef struct ticket_entry {
    _Atomic uintptr_t ticket; /* the valid one, 0: free */
    uintptr_t uses;           /* [tickets_lock] */
    host_provider *provider;
} ticket_entry;

static ticket_entry entries[ENTRIES];
static pthread_mutex_t tickets_lock = PTHREAD_MUTEX_INITIALIZER;

/* The provider of a ticket, NULL when it is over. */
static host_provider *find(void *ticket)
{
    ticket_entry *entry = &entries[(uintptr_t)ticket % ENTRIES];
    if (ticket == NULL ||
        atomic_load_explicit(&entry->ticket, memory_order_acquire) != (uintptr_t)ticket)
        return NULL;
    return entry->provider;
}

static void TENON_CALL service_log(void *host, uint32_t level, const char *text)
{
    host_provider *provider = find(host);

    if (provider == NULL || text == NULL) return;
    if (level < TENON_LOG_ERROR || level > TENON_LOG_DEBUG) level = TENON_LOG_INFO;
    host_say(provider->host, level, "%s: %s", provider_id(provider), text);
}

static void TENON_CALL service_parallel_for(void *host, uint64_t count, tenon_parallel_body body,
                                            void *context)
{
    host_provider *provider = find(host);
    team *workers = NULL;

    if (body == NULL) return;
    if (provider != NULL)
        workers = atomic_load_explicit(&provider->host->team, memory_order_acquire);
    if (workers == NULL)
        team_run_alone(count, body, context);
    else if (team_run(workers, count, body, context))
        border_broke(provider, "changed the floating point mode of a worker thread");
}

static uint32_t TENON_CALL service_team_size(void *host)
{
    host_provider *provider = find(host);
    team *workers = NULL;

    if (provider != NULL)
        workers = atomic_load_explicit(&provider->host->team, memory_order_acquire);
    return workers == NULL ? 1u : team_threads(workers);
}

static const char *TENON_CALL service_config(void *host, const char *key)
{
    host_provider *provider = find(host);
    uint64_t i;

    if (provider == NULL || key == NULL) return NULL;
    for (i = provider->host->config_count; i > 0; i--) /* the last one given holds */
        if (strcmp(provider->host->config[i - 1].key, key) == 0)
            return provider->host->config[i - 1].value;
    return NULL;
}

int32_t services_begin(host_provider *provider, tenon_error *error)
{
    tenon_services services = {TENON_HEAD(tenon_services), .log = service_log,
                               .parallel_for = service_parallel_for, .team_size = service_team_size,
                               .config = service_config};
    uint32_t i, size = provider->module->provider.services_size;
    uint32_t known = size < sizeof services ? size : (uint32_t)sizeof services;

    if (services_team(provider->host, true, error) == NULL) return TENON_NOMEM;
    provider->services = calloc(1, size);
    if (provider->services == NULL) return fail_memory(error, size, "no memory for services");
    pthread_mutex_lock(&tickets_lock);
    for (i = 0; i < ENTRIES && provider->ticket == 0; i++) {
        if (atomic_load_explicit(&entries[i].ticket, memory_order_relaxed) != 0) continue;
        entries[i].uses++;
        entries[i].provider = provider;
        provider->ticket = entries[i].uses << ENTRY_BITS | i;
        atomic_store_explicit(&entries[i].ticket, provider->ticket, memory_order_release);
    }
    pthread_mutex_unlock(&tickets_lock);
    if (provider->ticket == 0) {
        free(provider->services);
        provider->services = NULL;
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY,
                                 TENON_SCOPE_PROVIDER, ENTRIES + 1u, ENTRIES,
                                 "too many providers are open in this process");
    }
    services.host = (void *)provider->ticket;
    /* services are no request: an older provider is simply not told of the later ones */
    struct_present_empty(provider->services, size);
    memcpy((char *)provider->services + 8, (const char *)&services + 8, known - 8u);
    return TENON_OK;
}

void services_end(host_provider *provider)
{
    if (provider->ticket != 0) {
        ticket_entry *entry = &entries[provider->ticket % ENTRIES];
        pthread_mutex_lock(&tickets_lock);
        atomic_store_explicit(&entry->ticket, 0, memory_order_release);
        pthread_mutex_unlock(&tickets_lock);
        provider->ticket = 0;
    }
    free(provider->services);
    provider->services = NULL;
}

static team *make_team(tenon_host *host, tenon_error *error)
{
    topology machine = {0};
    uint32_t *cpus = NULL, count = 0;
    team_options options = {.log = host_log_line, .log_context = host};
    team *made = NULL;

    if (!system_affinity(&cpus, &count)) count = 0;
    if (!topology_read("", cpus, count, &machine)) goto out;
    options.threads = machine.threads;
    if (options.threads > TEAM_THREADS_MAX) options.threads = TEAM_THREADS_MAX;
    options.processors = machine.processors;
    memcpy(host->team_why, machine.why, sizeof host->team_why);
    if (host->threads_asked != 0) {
        options.threads = host->threads_asked;
        snprintf(host->team_why, sizeof host->team_why, "asked for");
    }
    if ((host->flags & TENON_HOST_PIN_THREADS) != 0) {
        options.placement = machine.placement;
        options.placement_count = machine.placement_count;
    }
    made = team_create(&options);
out:
    if (made == NULL) fail_memory(error, 0, "no memory for the thread team");
    topology_clear(&machine);
    free(cpus);
    return made;
}

team *services_team(tenon_host *host, bool locked, tenon_error *error)
{
    team *found = atomic_load_explicit(&host->team, memory_order_acquire);

    if (found != NULL) return found;
    if (!locked) pthread_mutex_lock(&host->lock);
    found = atomic_load_explicit(&host->team, memory_order_relaxed);
    if (found == NULL) {
        found = make_team(host, error);
        atomic_store_explicit(&host->team, found, memory_order_release);
    }
    if (!locked) pthread_mutex_unlock(&host->lock);
    return found;
}
