/* Would these weights fit? Capacity fails open: what is not known is answered UNKNOWN. */
#include "border.h"
#include "host.h"
#include "registry.h"
#include "weight.h"

/* Free bytes of a device, or TENON_UNKNOWN when it does not tell or contradicts itself: more free
 * than there is, or none at all of nothing. */
static int32_t free_bytes(const host_device *device, uint64_t *bytes, tenon_error *error)
{
    tenon_host *host = device->provider->host;
    tenon_device_info info;
    int32_t status;

    pthread_mutex_lock(&host->lock);
    status = registry_device_info(device->provider, device->index, &info, error);
    pthread_mutex_unlock(&host->lock);
    *bytes = TENON_UNKNOWN;
    if (status != TENON_OK) return status;
    if (info.memory_free == TENON_UNKNOWN || info.memory_total == 0) return TENON_OK;
    if (info.memory_total != TENON_UNKNOWN && info.memory_free > info.memory_total) return TENON_OK;
    *bytes = info.memory_free;
    return TENON_OK;
}

int32_t TENON_CALL tenon_fits(tenon_session *session, uint64_t link,
                              const tenon_weight_desc *const *descs, uint64_t count, tenon_fit *out,
                              tenon_error *error)
{
    tenon_fit mine = {
        .struct_size = sizeof mine, .abi_version = TENON_ABI_VERSION, .answer = TENON_FITS_UNKNOWN};
    tenon_error failure = EMPTY_ERROR;
    host_device *device;
    bool known = true;
    uint64_t i;
    int32_t status;

    if (session == NULL || (descs == NULL && count > 0))
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_CALL,
                          "session or descs is NULL");
    if (fork_guard_crossed(session->fork_mark)) return fail_forked(error);
    status = struct_check_out(out, "tenon_fit", error);
    if (status != TENON_OK) return status;
    if (link >= session->link_count)
        return fail_text(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_CALL, link,
                         session->link_count, "the chain has %u links", session->link_count);
    device = session->links[link].device;
    for (i = 0; i < count; i++) {
        tenon_weight_desc desc;
        tenon_qmatmul_support support;
        uint64_t weights, scales;
        status = weight_take_desc(descs[i], &desc, &weights, &scales, error);
        if (status != TENON_OK) return status;
        desc.arith = weight_class(session->arith, desc.format);
        status = (device->arith & TENON_CLASS_BIT(desc.arith)) == 0
                     ? TENON_DECLINED
                     : border_supports(device, &desc, &support, &failure);
        if (status == TENON_DECLINED && session->allow_approx &&
            (device->arith & TENON_CLASS_BIT(TENON_CLASS_APPROX)) != 0) {
            desc.arith = TENON_CLASS_APPROX;
            status = border_supports(device, &desc, &support, &failure);
        }
        if (status == TENON_DECLINED) continue; /* takes no room here */
        if (status != TENON_OK)
            known = false;
        else if (support.prepared_bytes == TENON_UNKNOWN)
            known = false;
        else if (!tenon_add_u64(mine.wanted, support.prepared_bytes, &mine.wanted))
            mine.wanted = TENON_UNKNOWN - 1; /* more than there can be */
    }
    if (!known) mine.wanted = TENON_UNKNOWN;
    if (free_bytes(device, &mine.available, &failure) != TENON_OK) mine.available = TENON_UNKNOWN;
    if (known && mine.available != TENON_UNKNOWN)
        mine.answer = mine.wanted <= mine.available ? TENON_FITS_OK : TENON_FITS_TOO_BIG;
    struct_give(out, &mine, sizeof mine);
    return TENON_OK;
}
