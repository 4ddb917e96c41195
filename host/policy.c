#include "policy.h"

#include "border.h"
#include "registry.h"

#include <stdlib.h>
#include <string.h>

#define NO_INDEX UINT32_MAX

/* One token of a chain: an id and perhaps a device. */
typedef struct token {
    char id[32];
    uint32_t index; /* NO_INDEX: any, or that of the uuid */
    bool has_uuid;
    uint8_t uuid[16];
} token;

/* How early a kind of device stands in mode auto. */
#define RANK_HIGHEST 6u
#define RANK_SOFTWARE 1u /* never unless named */
#define RANK_REFERENCE 0u

static uint32_t rank_of(uint32_t kind)
{
    switch (kind) {
    case TENON_DEVICE_DISCRETE: return RANK_HIGHEST;
    case TENON_DEVICE_INTEGRATED: return 5;
    case TENON_DEVICE_VIRTUAL: return 4;
    case TENON_DEVICE_NPU: return 3;
    case TENON_DEVICE_CPU: return 2;
    default: return RANK_SOFTWARE;
    }
}

int32_t policy_mode(const char *chain, uint32_t asked, uint32_t *mode, tenon_error *error)
{
    bool named = chain != NULL && chain[0] != '\0';

    if (asked > TENON_MODE_PIN)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, 0, 0,
                         "mode %u is not a mode", asked);
    *mode = asked != 0 ? asked : named ? TENON_MODE_PREFER : TENON_MODE_AUTO;
    if (*mode != TENON_MODE_AUTO && !named)
        return tenon_fail(error, TENON_ARG, TENON_REASON_BAD_CHAIN, TENON_SCOPE_CALL,
                          "modes pin and prefer need a chain");
    return TENON_OK;
}

static int32_t bad_chain(const char *at, size_t length, const char *why, tenon_error *error)
{
    if (length > 64) length = 64;
    return fail_text(error, TENON_ARG, TENON_REASON_BAD_CHAIN, TENON_SCOPE_CALL, 0, 0,
                     "chain entry \"%.*s\": %s", (int)length, at, why);
}

/* Reads a UUID: 32 hexadecimal digits, dashes between them. false: it is none. */
static bool read_uuid(const char *at, size_t length, uint8_t uuid[16])
{
    size_t i, digits = 0;

    memset(uuid, 0, 16);
    for (i = 0; i < length; i++) {
        static const char hex[] = "0123456789abcdef";
        const char *found;
        if (at[i] == '-' && digits > 0) continue;
        found = at[i] == '\0' ? NULL
                              : strchr(hex, at[i] >= 'A' && at[i] <= 'F' ? at[i] + 32 : at[i]);
        if (found == NULL || digits == 32) return false;
        uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | (uint8_t)(found - hex));
        digits++;
    }
    return digits == 32;
}

/* Reads "id", "id:index" or "id:uuid", length bytes at at. */
static int32_t read_token(const char *at, size_t length, token *out, tenon_error *error)
{
    const char *colon = memchr(at, ':', length);
    size_t name = colon == NULL ? length : (size_t)(colon - at), i;
    uint64_t index = 0;

    if (name == 0) return bad_chain(at, length, "a provider id is missing", error);
    if (name >= sizeof out->id) return bad_chain(at, length, "longer than an id can be", error);
    for (i = 0; i < name; i++) {
        bool lower = at[i] >= 'a' && at[i] <= 'z';
        bool other = (at[i] >= '0' && at[i] <= '9') || at[i] == '_';
        if (!lower && (i == 0 || !other))
            return bad_chain(at, length, "an id is [a-z][a-z0-9_]*", error);
    }
    memset(out, 0, sizeof *out);
    memcpy(out->id, at, name);
    out->index = NO_INDEX;
    if (colon == NULL) return TENON_OK;
    out->has_uuid = read_uuid(colon + 1, length - name - 1, out->uuid);
    if (out->has_uuid) return TENON_OK;
    if (name + 1 == length || length - name > 10)
        return bad_chain(at, length, "a device is named by its index or its UUID", error);
    for (i = name + 1; i < length; i++) {
        if (at[i] < '0' || at[i] > '9')
            return bad_chain(at, length, "a device is named by its index or its UUID", error);
        index = index * 10 + (uint64_t)(at[i] - '0');
    }
    if (index >= NO_INDEX) return bad_chain(at, length, "no device has such an index", error);
    out->index = (uint32_t)index;
    return TENON_OK;
}

/* Opens the provider and asks for its devices; none is a failure that says why. */
static int32_t count_devices(host_provider *provider, uint32_t *count, tenon_error *error)
{
    tenon_error why = EMPTY_ERROR;
    int32_t status = registry_open(provider, error);

    if (status != TENON_OK) return status;
    status = border_device_count(provider, count, &why);
    if (status == TENON_OK && *count > 0) return TENON_OK;
    return fail_text(error, status == TENON_OK ? TENON_STATE : status, why.reason,
                     TENON_SCOPE_PROVIDER, why.wanted, why.available, "%s: %s",
                     provider_id(provider), why.text);
}

static int32_t only_approx(const host_provider *provider, uint32_t index, tenon_error *error)
{
    return fail_text(error, TENON_ARG, TENON_REASON_UNSUPPORTED_CLASS, TENON_SCOPE_DEVICE, 0, 0,
                     "%s:%u: claims class APPROX only, and the session does not allow it",
                     provider_id(provider), index);
}

/* Opens exactly this device. */
static int32_t open_device(host_provider *provider, uint32_t index, bool allow_approx,
                           host_device **out, tenon_error *error)
{
    tenon_device_info info;
    int32_t status = registry_device_info(provider, index, &info, error);

    if (status != TENON_OK) return status;
    if (info.unusable != 0)
        return fail_text(error, TENON_STATE, info.unusable, TENON_SCOPE_DEVICE, 0, 0,
                         "%s:%u: %s%s%s", provider_id(provider), index,
                         tenon_reason_text(info.unusable), info.detail[0] != '\0' ? ": " : "",
                         info.detail);
    if (info.arith == TENON_CLASS_BIT(TENON_CLASS_APPROX) && !allow_approx)
        return only_approx(provider, index, error);
    return registry_device(provider, index, &info, out, error);
}

/* Opens the best device of a provider: by rank, then by index; software last and only when the
 * provider was named. A device that does not open gives way to the next one. The failure answered
 * is the first. */
static int32_t open_best(host_provider *provider, bool named, bool allow_approx, host_device **out,
                         uint32_t *rank, tenon_error *error)
{
    tenon_error first = EMPTY_ERROR, *said = &first;
    tenon_error later = EMPTY_ERROR;
    uint32_t count = 0, at, want;
    uint32_t lowest = named ? RANK_SOFTWARE : RANK_SOFTWARE + 1;
    int32_t status = count_devices(provider, &count, error);

    if (status != TENON_OK) return status;
    for (want = RANK_HIGHEST; want >= lowest; want--) {
        for (at = 0; at < count; at++) {
            tenon_device_info info;
            if (registry_device_info(provider, at, &info, said) == TENON_OK) {
                if (rank_of(info.kind) != want) continue;
                if (open_device(provider, at, allow_approx, out, said) == TENON_OK) {
                    *rank = want;
                    return TENON_OK;
                }
            }
            if (first.status != 0) said = &later;
        }
    }
    if (first.status == 0)
        return fail_text(error, TENON_STATE, TENON_REASON_NO_DEVICE, TENON_SCOPE_PROVIDER, 0, 0,
                         "%s: %u devices, all of them software: used only when named",
                         provider_id(provider), count);
    return fail_text(error, first.status, first.reason, first.scope, first.wanted, first.available,
                     "%s", first.text);
}

/* The index of the device that a token names by its UUID. */
static int32_t find_uuid(host_provider *provider, token *name, tenon_error *error)
{
    static const uint8_t none[16];
    uint32_t count = 0, at;
    int32_t status = count_devices(provider, &count, error);

    for (at = 0; status == TENON_OK && at < count; at++) {
        tenon_device_info info;
        tenon_error ignored = EMPTY_ERROR;
        if (registry_device_info(provider, at, &info, &ignored) != TENON_OK ||
            memcmp(info.uuid, name->uuid, sizeof info.uuid) != 0 ||
            memcmp(info.uuid, none, sizeof none) == 0)
            continue;
        name->index = at;
        return TENON_OK;
    }
    if (status != TENON_OK) return status;
    return fail_text(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_DEVICE, 0, count,
                     "%s: none of its %u devices has this UUID (tenon list --json says them)",
                     name->id, count);
}

static int32_t append(policy_chain *chain, host_device *device, tenon_error *error)
{
    uint32_t i;

    for (i = 0; i < chain->count; i++)
        if (chain->devices[i] == device)
            return fail_text(error, TENON_ARG, TENON_REASON_BAD_CHAIN, TENON_SCOPE_CALL, 0, 0,
                             "the chain names %s:%u twice", provider_id(device->provider),
                             device->index);
    if (chain->count == POLICY_LINKS_MAX)
        return fail_text(error, TENON_ARG, TENON_REASON_BAD_CHAIN, TENON_SCOPE_CALL,
                         POLICY_LINKS_MAX + 1u, POLICY_LINKS_MAX, "a chain has at most %u links",
                         POLICY_LINKS_MAX);
    chain->devices[chain->count++] = device;
    return TENON_OK;
}

/* Adds the named devices, in the order of the chain; ranks[i] goes with devices[i]. */
static int32_t resolve_named(tenon_host *host, const char *text, bool allow_approx,
                             policy_chain *out, uint32_t *ranks, tenon_error *error)
{
    for (;;) {
        size_t length = strcspn(text, ",");
        host_provider *provider;
        host_device *device = NULL;
        uint32_t count = 0, rank = 0;
        token name;
        int32_t status = read_token(text, length, &name, error);

        if (status != TENON_OK) return status;
        provider = registry_find(host, name.id, error);
        if (provider == NULL) return TENON_ARG;
        if (name.has_uuid) status = find_uuid(provider, &name, error);
        if (status != TENON_OK) return status;
        if (name.index == NO_INDEX) {
            status = open_best(provider, true, allow_approx, &device, &rank, error);
        } else {
            tenon_device_info info;
            status = count_devices(provider, &count, error);
            if (status == TENON_OK && name.index >= count)
                status = fail_text(
                    error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_DEVICE, name.index,
                    count, "%s:%u: no such device, there are %u", name.id, name.index, count);
            if (status == TENON_OK)
                status = open_device(provider, name.index, allow_approx, &device, error);
            if (status == TENON_OK)
                status = registry_device_info(provider, name.index, &info, error);
            if (status == TENON_OK) rank = rank_of(info.kind);
        }
        if (status == TENON_OK) status = append(out, device, error);
        if (status != TENON_OK) return status;
        ranks[out->count - 1] = strcmp(name.id, REFERENCE_ID) == 0 ? RANK_REFERENCE : rank;
        if (text[length] == '\0') return TENON_OK;
        text += length + 1;
    }
}

/* A loaded provider that cannot be used is said once: as a warning when its open failed, as
 * information when it merely found no device. */
static void say_unusable(host_provider *provider, const tenon_error *why)
{
    bool failed = provider->state == PROVIDER_FAILED;

    if (provider->warned) return;
    provider->warned = true;
    if (why->wanted != 0)
        host_say(provider->host, failed ? TENON_LOG_WARNING : TENON_LOG_INFO,
                 "provider not used: %s (wanted %llu, available %llu)", why->text,
                 (unsigned long long)why->wanted, (unsigned long long)why->available);
    else
        host_say(provider->host, failed ? TENON_LOG_WARNING : TENON_LOG_INFO,
                 "provider not used: %s", why->text);
}

/* Adds one device of every loaded provider that has one to offer. */
static int32_t resolve_all(tenon_host *host, bool allow_approx, policy_chain *out, uint32_t *ranks,
                           tenon_error *error)
{
    host_provider *provider;

    for (provider = host->providers; provider != NULL; provider = provider->next) {
        tenon_error why = EMPTY_ERROR;
        host_device *device = NULL;
        uint32_t rank = 0;
        bool was_closed = provider->state == PROVIDER_CLOSED;
        int32_t status;

        if (strcmp(provider_id(provider), REFERENCE_ID) == 0) continue;
        if (open_best(provider, false, allow_approx, &device, &rank, &why) != TENON_OK) {
            say_unusable(provider, &why);
            /* opened for the question alone: a driver that nobody uses takes no memory */
            if (was_closed) registry_put_back(provider);
            continue;
        }
        status = append(out, device, error);
        if (status != TENON_OK) return status;
        ranks[out->count - 1] = rank;
    }
    return TENON_OK;
}

/* Higher ranks first, what is equal stays in order. */
static void sort(policy_chain *chain, uint32_t *ranks)
{
    uint32_t i, j;

    for (i = 1; i < chain->count; i++) {
        host_device *device = chain->devices[i];
        uint32_t rank = ranks[i];
        for (j = i; j > 0 && ranks[j - 1] < rank; j--) {
            chain->devices[j] = chain->devices[j - 1];
            ranks[j] = ranks[j - 1];
        }
        chain->devices[j] = device;
        ranks[j] = rank;
    }
}

/* Puts the reference last, wherever it was named: what follows it would never be asked. */
static int32_t end_in_reference(tenon_host *host, policy_chain *chain, tenon_error *error)
{
    host_provider *reference = registry_find(host, REFERENCE_ID, error);
    host_device *device = NULL;
    uint32_t rank, i;
    int32_t status;

    if (reference == NULL) return TENON_ARG;
    status = open_best(reference, true, true, &device, &rank, error);
    if (status != TENON_OK) return status;
    chain->ends_in_reference = true;
    for (i = 0; i < chain->count; i++)
        if (chain->devices[i] == device) {
            chain->count = i + 1;
            return TENON_OK;
        }
    return append(chain, device, error);
}

int32_t policy_resolve(tenon_host *host, const char *chain, uint32_t mode, bool allow_approx,
                       policy_chain *out, tenon_error *error)
{
    uint32_t ranks[POLICY_LINKS_MAX] = {0};
    int32_t status;

    *out = (policy_chain){0};
    if (chain != NULL && chain[0] != '\0')
        status = resolve_named(host, chain, allow_approx, out, ranks, error);
    else
        status = resolve_all(host, allow_approx, out, ranks, error);
    if (status != TENON_OK) return status;
    if (mode == TENON_MODE_AUTO) sort(out, ranks);
    if (mode == TENON_MODE_PIN) return TENON_OK;
    return end_in_reference(host, out, error);
}
