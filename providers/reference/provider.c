/* The reference provider: the contract's arithmetic as scalar C that reads like SPEC.md 2 and 3.
 *
 * It is the last link of every chain and what every other provider's bits are compared with, so it
 * is written to be read, not to be fast. It needs any C11 compiler that does not contract floating
 * point expressions (-ffp-contract=off) and the default floating point environment. */
#include <stdlib.h>
#include <string.h>

#include "qmatmul.h"

static int32_t TENON_CALL provider_open(const tenon_services *services, tenon_provider **out,
                                        tenon_error *error)
{
    tenon_provider *self;

    if (services == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_PROVIDER,
                          "open needs services and out");
    *out = NULL;
    if (services->struct_size < sizeof *services || services->abi_version != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_PROVIDER,
                                 sizeof *services, services->struct_size,
                                 "tenon_services is not of version 1");
    if (services->parallel_for == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_PROVIDER,
                          "tenon_services.parallel_for");
    self = malloc(sizeof *self);
    if (self == NULL)
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY,
                                 TENON_SCOPE_PROVIDER, sizeof *self, TENON_UNKNOWN,
                                 "no memory for the provider");
    self->services = services;
    *out = self;
    return TENON_OK;
}

static void TENON_CALL provider_close(tenon_provider *provider)
{
    free(provider);
}

static int32_t TENON_CALL device_count(tenon_provider *provider, uint32_t *count,
                                       tenon_error *error)
{
    if (provider == NULL || count == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "device_count needs provider and count");
    *count = 1;
    return TENON_OK;
}

static int32_t no_such_device(uint32_t index, tenon_error *error)
{
    return tenon_fail_amount(error, TENON_ARG, TENON_REASON_NO_SUCH_DEVICE, TENON_SCOPE_CALL, index,
                             0, "the reference has device 0 only");
}

static int32_t TENON_CALL device_info(tenon_provider *provider, uint32_t index,
                                      tenon_device_info *out, tenon_error *error)
{
    static const char name[] = "reference (scalar C)", detail[] = "level=scalar levels=scalar";

    if (provider == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "device_info needs provider and out");
    if (out->struct_size != sizeof *out || out->abi_version != TENON_ABI_VERSION)
        return tenon_fail_amount(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                                 sizeof *out, out->struct_size,
                                 "tenon_device_info is not of version 1");
    if (index != 0) return no_such_device(index, error);
    *out = (tenon_device_info){TENON_HEAD(tenon_device_info), .kind = TENON_DEVICE_CPU,
                               .arith = TENON_CLASS_BIT(TENON_CLASS_F32) |
                                        TENON_CLASS_BIT(TENON_CLASS_A8),
                               .memory_total = TENON_UNKNOWN, .memory_free = TENON_UNKNOWN};
    memcpy(out->name, name, sizeof name);
    memcpy(out->detail, detail, sizeof detail);
    return TENON_OK;
}

static int32_t TENON_CALL device_open(tenon_provider *provider, uint32_t index, tenon_device **out,
                                      tenon_error *error)
{
    tenon_device *self;

    if (provider == NULL || out == NULL)
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_DEVICE,
                          "device_open needs provider and out");
    *out = NULL;
    if (index != 0) return no_such_device(index, error);
    self = malloc(sizeof *self);
    if (self == NULL)
        return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_DEVICE,
                                 sizeof *self, TENON_UNKNOWN, "no memory for the device");
    self->provider = provider;
    *out = self;
    return TENON_OK;
}

static void TENON_CALL device_close(tenon_device *device)
{
    free(device);
}

TENON_PROVIDER_DESCRIPTOR(tenon_provider_v1, provider_v1) = {
    TENON_HEAD(tenon_provider_v1),
    .needs = 0,
    .services_size = sizeof(tenon_services),
    .device_info_size = sizeof(tenon_device_info),
    .error_size = sizeof(tenon_error),
    .id = "reference",
    .version = TENON_VERSION,
    .open = provider_open,
    .close = provider_close,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .queue_open = NULL,
    .queue_close = NULL,
};

TENON_PROVIDER_DESCRIPTOR(tenon_qmatmul_v1, qmatmul_v1) = {
    TENON_HEAD(tenon_qmatmul_v1),
    .weight_desc_size = sizeof(tenon_weight_desc),
    .weight_data_size = sizeof(tenon_weight_data),
    .call_size = sizeof(tenon_qmatmul_call),
    .support_size = sizeof(tenon_qmatmul_support),
    .error_size = sizeof(tenon_error),
    .supports = reference_qmatmul_supports,
    .prepare = reference_qmatmul_prepare,
    .run = reference_qmatmul_run,
    .release = reference_qmatmul_release,
};
