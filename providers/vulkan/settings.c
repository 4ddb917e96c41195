/* The provider's configuration values (README.md lists them). */
#include <stdio.h>
#include <string.h>

#include "device.h"

#define SECOND UINT64_C(1000000000)
#define TIMEOUT_SECONDS 120u
#define LONGEST_SECONDS (UINT64_MAX / SECOND - 1)

static int32_t unknown(const char *key, const char *value, const char *wanted, tenon_error *error)
{
    char text[208];
    snprintf(text, sizeof text, "%s=%.60s: %s", key, value, wanted);
    return tenon_fail(error, TENON_STATE, TENON_REASON_UNKNOWN_CONFIG, TENON_SCOPE_PROVIDER, text);
}

/* A decimal number of at least 1; without a value *out stays as it is. */
static int32_t read_number(const tenon_services *services, const char *key, uint64_t most,
                           uint64_t *out, tenon_error *error)
{
    const char *text = services->config(services->host, key), *at;
    uint64_t value = 0;

    if (text == NULL) return TENON_OK;
    for (at = text; *at >= '0' && *at <= '9'; at++)
        if (!tenon_mul_u64(value, 10, &value) ||
            !tenon_add_u64(value, (uint64_t)(*at - '0'), &value))
            return unknown(key, text, "the number does not fit 64 bits", error);
    if (*at != '\0' || at == text || value == 0 || value > most)
        return unknown(key, text, "a whole number of at least 1 is needed", error);
    *out = value;
    return TENON_OK;
}

/* An absolute path, or NULL. */
static int32_t read_path(const tenon_services *services, const char *key, const char **out,
                         tenon_error *error)
{
    const char *text = services->config(services->host, key);

    *out = text;
    if (text == NULL || text[0] == '/') return TENON_OK;
#if defined(_WIN32)
    if (text[0] != '\0' && text[1] == ':') return TENON_OK;
#endif
    return unknown(key, text, "an absolute path is needed", error);
}

/* *out: 0 for the usual word and without a value, 1 for the other one. */
static int32_t read_choice(const tenon_services *services, const char *key, const char *usual,
                           const char *other, uint32_t *out, tenon_error *error)
{
    const char *text = services->config(services->host, key);
    char wanted[40];

    if (text == NULL || strcmp(text, usual) == 0) return TENON_OK;
    snprintf(wanted, sizeof wanted, "%s or %s", usual, other);
    if (strcmp(text, other) != 0) return unknown(key, text, wanted, error);
    *out = 1;
    return TENON_OK;
}

static int32_t read_import(const tenon_services *services, uint32_t *out, tenon_error *error)
{
    static const char *const words[] = {[VULKAN_IMPORT_AUTO] = "auto",
                                        [VULKAN_IMPORT_OFF] = "off",
                                        [VULKAN_IMPORT_ALWAYS] = "always"};
    const char *text = services->config(services->host, "vulkan.import");

    if (text == NULL) text = words[VULKAN_IMPORT_AUTO];
    for (*out = VULKAN_IMPORT_AUTO; *out <= VULKAN_IMPORT_ALWAYS; ++*out)
        if (strcmp(text, words[*out]) == 0) return TENON_OK;
    return unknown("vulkan.import", text, "auto, off or always", error);
}

int32_t vulkan_settings_read(const tenon_services *services, vulkan_settings *out,
                             tenon_error *error)
{
    uint64_t seconds = TIMEOUT_SECONDS;
    int32_t status;

    *out = (vulkan_settings){.memory_limit = TENON_UNKNOWN};
    status = read_path(services, "vulkan.library", &out->library, error);
    if (status != TENON_OK) return status;
    status = read_path(services, "vulkan.cache_dir", &out->cache_dir, error);
    if (status != TENON_OK) return status;
    status = read_number(services, "vulkan.memory_limit", UINT64_MAX - 1, &out->memory_limit,
                         error);
    if (status != TENON_OK) return status;
    status = read_number(services, "vulkan.timeout_s", LONGEST_SECONDS, &seconds, error);
    if (status != TENON_OK) return status;
    out->timeout_ns = seconds * SECOND;
    status = read_import(services, &out->import, error);
    if (status != TENON_OK) return status;
    status = read_choice(services, "vulkan.graph", "on", "off", &out->no_graphs, error);
    if (status != TENON_OK) return status;
    return read_choice(services, "vulkan.staging", "auto", "always", &out->staging, error);
}
