#include "failure.h"

#include "operation.h"

/* Sets *flag to reason unless it is set; true when it was this call that set it. */
static bool set_once(_Atomic uint32_t *flag, uint32_t reason)
{
    uint32_t none = 0;
    return atomic_compare_exchange_strong(flag, &none, reason);
}

static uint32_t reason_or(const tenon_error *why, uint32_t other)
{
    return why->reason != 0 ? why->reason : other;
}

/* A lost device is lost however narrow a scope the provider states. */
static uint32_t scope_of(const tenon_error *why)
{
    bool lost = why->status == TENON_DEVICE_LOST || why->status == TENON_LOST;
    return lost && why->scope < TENON_SCOPE_DEVICE ? TENON_SCOPE_DEVICE : why->scope;
}

/* Failures that reach past one weight. true: it was one. */
static bool wide_failure(session_link *link, const tenon_error *why)
{
    host_device *device = link->device;
    host_provider *provider = device->provider;

    switch (scope_of(why)) {
    case TENON_SCOPE_DEVICE:
        if (set_once(&device->lost, reason_or(why, TENON_REASON_DEVICE_FAILED)))
            host_say(provider->host, TENON_LOG_ERROR, "%s:%u is lost and leaves every chain: %s",
                     provider_id(provider), device->index, why->text);
        return true;
    case TENON_SCOPE_PROVIDER:
        if (atomic_load(&provider->fault) != 0) return true; /* the border has said it */
        if (set_once(&provider->lost, reason_or(why, TENON_REASON_DEVICE_FAILED)))
            host_say(provider->host, TENON_LOG_ERROR,
                     "provider %s failed and leaves every chain: %s", provider_id(provider),
                     why->text);
        return true;
    default: return false;
    }
}

static void lower_limit(_Atomic uint64_t *at, uint64_t tokens)
{
    uint64_t limit = atomic_load_explicit(at, memory_order_relaxed);
    while (tokens < limit)
        if (atomic_compare_exchange_weak_explicit(at, &limit, tokens, memory_order_relaxed,
                                                  memory_order_relaxed))
            return;
}

/* The first failure of an operation on a link is said, later ones are counted. */
static void say_failure(session_link *link, uint32_t operation, uint64_t tokens,
                        const tenon_error *why)
{
    host_provider *provider = link->device->provider;

    if (atomic_exchange(&link->operations[operation].said_failure, true)) return;
    host_say(provider->host, TENON_LOG_WARNING,
             "%s:%u failed a call of %s of %llu tokens (later ones are counted): %s",
             provider_id(provider), link->device->index, operation_name(operation),
             (unsigned long long)tokens, why->text);
}

void failure_in_run(session_link *link, weight_slot *const *slots, uint32_t count, uint64_t tokens,
                    const tenon_error *why)
{
    host_provider *provider = link->device->provider;
    uint32_t i, failures;

    say_failure(link, OPERATION_QMATMUL, tokens, why);
    if (link->final || wide_failure(link, why)) return;
    for (i = 0; i < count; i++)
        lower_limit(&slots[i]->limit, scope_of(why) == TENON_SCOPE_WEIGHT ? 0 : tokens);
    if (scope_of(why) == TENON_SCOPE_WEIGHT) return;
    failures = atomic_fetch_add(&link->failures, 1u) + 1;
    if (failures >= FAILURE_LIMIT && set_once(&link->aside, TENON_REASON_SET_ASIDE))
        host_say(provider->host, TENON_LOG_WARNING,
                 "%s:%u is set aside for this session after %u failed calls, the last: %s",
                 provider_id(provider), link->device->index, failures, why->text);
}

void failure_in_operation(session_link *link, uint32_t operation, uint64_t tokens,
                          const tenon_error *why)
{
    say_failure(link, operation, tokens, why);
    if (link->final || wide_failure(link, why)) return;
    lower_limit(&link->operations[operation].limit, tokens);
}

void failure_in_cache(session_link *link, const tenon_error *why)
{
    host_provider *provider = link->device->provider;

    if (!atomic_exchange(&link->operations[OPERATION_ATTENTION].said_failure, true))
        host_say(provider->host, TENON_LOG_WARNING,
                 "%s:%u lost a cache (later ones are counted): %s", provider_id(provider),
                 link->device->index, why->text);
    if (link->final || wide_failure(link, why)) return;
    lower_limit(&link->operations[OPERATION_ATTENTION].limit, 0);
}

/* An object that a link could not make goes elsewhere. */
static void object_failed(session_link *link, uint32_t operation, const char *what,
                          const tenon_error *why)
{
    const host_provider *provider = link->device->provider;

    if (wide_failure(link, why)) return;
    if (!atomic_exchange(&link->operations[operation].said_failure, true))
        host_say(provider->host, TENON_LOG_WARNING,
                 "%s:%u could not %s (wanted %llu bytes, %llu free; later failures are counted): "
                 "%s",
                 provider_id(provider), link->device->index, what, (unsigned long long)why->wanted,
                 (unsigned long long)why->available, why->text);
}

void failure_in_prepare(session_link *link, const tenon_error *why)
{
    object_failed(link, OPERATION_QMATMUL, "prepare a weight", why);
}

void failure_in_create(session_link *link, const tenon_error *why)
{
    if (!link->final) object_failed(link, OPERATION_ATTENTION, "make a cache", why);
}

void failure_in_transfer(session_link *link, const tenon_error *why)
{
    object_failed(link, OPERATION_MEMORY, "hold a buffer", why);
}

void failure_in_read(session_link *link, const tenon_error *why)
{
    const host_provider *provider = link->device->provider;

    if (wide_failure(link, why)) return;
    if (set_once(&link->aside, TENON_REASON_SET_ASIDE))
        host_say(provider->host, TENON_LOG_WARNING,
                 "%s:%u is set aside for this session, its memory could not be read: %s",
                 provider_id(provider), link->device->index, why->text);
}

void failure_say_reference(tenon_session *session, uint32_t operation, const tenon_error *why)
{
    atomic_bool *said = &session->said_reference[operation];
    /* that nobody before it offers it is no fault; a product everybody offers */
    bool offered = operation == OPERATION_QMATMUL || why->status != TENON_OK;

    if (atomic_load_explicit(said, memory_order_relaxed) || atomic_exchange(said, true)) return;
    host_say(session->host,
             offered && session->mode == TENON_MODE_PREFER ? TENON_LOG_WARNING : TENON_LOG_INFO,
             "the reference takes over where the chain does not run %s (said once): %s",
             operation_name(operation), offered ? why->text : "no link before it offers it");
}

int32_t failure_nobody(const tenon_error *verdict, tenon_error *error)
{
    if (verdict->status == TENON_DECLINED)
        return fail_text(error, TENON_DECLINED, TENON_REASON_CHAIN_DECLINED, TENON_SCOPE_CALL,
                         verdict->wanted, verdict->available, "every link declined: %s",
                         verdict->text);
    return fail_text(error, verdict->status, verdict->reason, verdict->scope, verdict->wanted,
                     verdict->available, "%s", verdict->text);
}
