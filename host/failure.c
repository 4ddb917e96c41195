#include "failure.h"

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

static void lower_limit(weight_slot *slot, uint64_t tokens)
{
    uint64_t limit = atomic_load_explicit(&slot->limit, memory_order_relaxed);
    while (tokens < limit)
        if (atomic_compare_exchange_weak_explicit(&slot->limit, &limit, tokens,
                                                  memory_order_relaxed, memory_order_relaxed))
            return;
}

void failure_in_run(session_link *link, weight_slot *const *slots, uint32_t count, uint64_t tokens,
                    const tenon_error *why)
{
    host_provider *provider = link->device->provider;
    uint32_t i, failures;

    if (!atomic_exchange(&link->said_failure, true))
        host_say(provider->host, TENON_LOG_WARNING,
                 "%s:%u failed a call of %llu tokens (later ones are counted): %s",
                 provider_id(provider), link->device->index, (unsigned long long)tokens, why->text);
    if (link->final || wide_failure(link, why)) return;
    for (i = 0; i < count; i++)
        lower_limit(slots[i], scope_of(why) == TENON_SCOPE_WEIGHT ? 0 : tokens);
    if (scope_of(why) == TENON_SCOPE_WEIGHT) return;
    failures = atomic_fetch_add(&link->failures, 1u) + 1;
    if (failures >= FAILURE_LIMIT && set_once(&link->aside, TENON_REASON_SET_ASIDE))
        host_say(provider->host, TENON_LOG_WARNING,
                 "%s:%u is set aside for this session after %u failed calls, the last: %s",
                 provider_id(provider), link->device->index, failures, why->text);
}

void failure_in_prepare(session_link *link, const tenon_error *why)
{
    const host_provider *provider = link->device->provider;

    if (wide_failure(link, why)) return;
    if (!atomic_exchange(&link->said_failure, true))
        host_say(provider->host, TENON_LOG_WARNING,
                 "%s:%u could not prepare a weight (wanted %llu bytes, %llu free; later failures "
                 "are counted): %s",
                 provider_id(provider), link->device->index, (unsigned long long)why->wanted,
                 (unsigned long long)why->available, why->text);
}

void failure_say_reference(tenon_session *session, const tenon_error *why)
{
    if (atomic_load_explicit(&session->said_reference, memory_order_relaxed) ||
        atomic_exchange(&session->said_reference, true))
        return;
    host_say(session->host, session->mode == TENON_MODE_PREFER ? TENON_LOG_WARNING : TENON_LOG_INFO,
             "the reference takes over where the chain does not run a product (said once): %s",
             why->text);
}
