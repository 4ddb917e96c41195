/* supports, prepare and release. */
#include "weights.h"

#include <stdlib.h>
#include <string.h>

typedef struct vulkan_weights {
    vulkan_lock lock;
    tenon_prepared *first;
} vulkan_weights;

int32_t vulkan_weights_make(tenon_device *device, tenon_error *error)
{
    vulkan_weights *self = calloc(1, sizeof *self);

    if (self == NULL || !vulkan_lock_make(&self->lock)) {
        free(self);
        return vulkan_no_memory(sizeof *self, TENON_SCOPE_DEVICE, "no memory for weights", error);
    }
    device->weights = self;
    return TENON_OK;
}

void vulkan_weights_free(tenon_device *device)
{
    if (device->weights == NULL) return;
    vulkan_lock_free(&device->weights->lock);
    free(device->weights);
    device->weights = NULL;
}

/* ---------------------------------------------------------------------------------- supports */

static int head_is(uint32_t struct_size, uint32_t abi_version, size_t wanted)
{
    return struct_size == wanted && abi_version == TENON_ABI_VERSION;
}

static int32_t decline(tenon_error *error, uint32_t reason, const char *text)
{
    return tenon_fail(error, TENON_DECLINED, reason, TENON_SCOPE_WEIGHT, text);
}

/* What the device proved must be enough for the class of this format. */
static int32_t check_class(const tenon_device *device, const tenon_weight_desc *desc,
                           const tenon_format_info *info, const vulkan_plan *plan,
                           tenon_error *error)
{
    const vulkan_arithmetic *can = &device->arithmetic;

    if (desc->arith != TENON_CLASS_F32 && desc->arith != TENON_CLASS_A8)
        return decline(error, TENON_REASON_UNSUPPORTED_CLASS, "only classes F32 and A8");
    if (desc->arith == TENON_CLASS_A8 && (info->traits & TENON_TRAIT_FLOATS) != 0)
        return decline(error, TENON_REASON_UNSUPPORTED_CLASS,
                       "float codes are computed in class F32 only");
    if ((vulkan_classes(can) & TENON_CLASS_BIT(desc->arith)) == 0)
        return decline(error, TENON_REASON_UNSUPPORTED_CLASS,
                       "the probe does not prove this class on the device");
    /* Scales of half precision make no subnormal numbers in class A8 (SPEC.md 2.3: 2^-40). */
    if (desc->arith == TENON_CLASS_A8 && plan->scale_kind == VULKAN_FLOAT && !can->subnormals)
        return decline(error, TENON_REASON_UNSUPPORTED_CLASS,
                       "the device does not keep subnormal numbers");
    return TENON_OK;
}

/* Plans a weight and the bytes that it is made from. TENON_OK or TENON_DECLINED. */
static int32_t measure(const tenon_device *device, const tenon_weight_desc *desc, vulkan_plan *plan,
                       uint64_t *weights_bytes, uint64_t *scales_bytes, tenon_error *error)
{
    tenon_format_info info;
    uint32_t reason;

    if (desc->reserved0[0] != 0 || desc->reserved0[1] != 0)
        return decline(error, TENON_REASON_RESERVED, "tenon_weight_desc.reserved0 is not zero");
    if (tenon_weight_bytes(desc, weights_bytes, scales_bytes, &reason) != TENON_OK)
        return decline(error, reason, tenon_reason_text(reason));
    (void)tenon_format_find(desc->format, &info); /* tenon_weight_bytes knew it */
    if (!vulkan_plan_make(device, desc, plan, &reason))
        return decline(error, reason, "rows of this length cannot be bound");
    return check_class(device, desc, &info, plan, error);
}

int32_t TENON_CALL vulkan_supports(tenon_device *device, const tenon_weight_desc *desc,
                                   tenon_qmatmul_support *out, tenon_error *error)
{
    uint64_t weights_bytes, scales_bytes;
    vulkan_plan plan;
    int32_t status;

    if (device == NULL || desc == NULL || out == NULL)
        return vulkan_null_pointer("supports needs device, desc and out", error);
    if (!head_is(desc->struct_size, desc->abi_version, sizeof *desc) ||
        !head_is(out->struct_size, out->abi_version, sizeof *out))
        return tenon_fail(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                          "desc or out of supports is not of version 1");
    status = measure(device, desc, &plan, &weights_bytes, &scales_bytes, error);
    if (status != TENON_OK) return status;
    out->prepared_bytes = plan.bytes;
    out->alignment = 1;
    out->reserved0[0] = out->reserved0[1] = 0;
    return TENON_OK;
}

/* ----------------------------------------------------------------------------------- prepare */

static int32_t check_data(const tenon_weight_data *data, uint64_t weights_bytes,
                          uint64_t scales_bytes, tenon_error *error)
{
    if (data->weights == NULL || (scales_bytes != 0 && data->scales == NULL))
        return tenon_fail(error, TENON_ARG, TENON_REASON_NULL_POINTER, TENON_SCOPE_WEIGHT,
                          "weights or scales are a null pointer");
    if (data->weights_bytes < weights_bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_WEIGHT,
                                 weights_bytes, data->weights_bytes, "weights are too short");
    if (data->scales_bytes < scales_bytes)
        return tenon_fail_amount(error, TENON_ARG, TENON_REASON_SHORT_BUFFER, TENON_SCOPE_WEIGHT,
                                 scales_bytes, data->scales_bytes, "scales are too short");
    if (data->side != NULL || data->side_bytes != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_VALUE, TENON_SCOPE_WEIGHT,
                          "no format of version 1 has a side table");
    if (data->reserved0 != 0 || data->reserved1[0] != 0 || data->reserved1[1] != 0)
        return tenon_fail(error, TENON_ARG, TENON_REASON_RESERVED, TENON_SCOPE_WEIGHT,
                          "reserved fields of tenon_weight_data are not zero");
    return TENON_OK;
}

static void free_weight(tenon_device *device, tenon_prepared *weight)
{
    uint64_t i;

    if (weight == NULL) return;
    for (i = 0; weight->parts != NULL && i < weight->plan.parts; i++) {
        vulkan_memory_abandon(device, weight->parts[i].codes);
        vulkan_memory_abandon(device, weight->parts[i].scales);
    }
    free(weight->parts);
    free(weight);
}

static int32_t make_array(tenon_device *device, uint64_t bytes, vulkan_memory **out,
                          tenon_error *error)
{
    int32_t status;

    if (bytes == 0) return TENON_OK;
    status = vulkan_memory_make(device, VULKAN_MAIN, bytes, TENON_SCOPE_WEIGHT, out, error);
    if (status == TENON_OK && device->flavour == VULKAN_TEXEL)
        status = vulkan_memory_share_view(device, *out, TENON_SCOPE_WEIGHT, error);
    return status;
}

/* The device memory of every part. */
static int32_t make_parts(tenon_device *device, tenon_prepared *weight, tenon_error *error)
{
    const vulkan_plan *plan = &weight->plan;
    int32_t status = TENON_OK;
    uint64_t i;

    weight->parts = calloc((size_t)plan->parts, sizeof *weight->parts);
    if (weight->parts == NULL)
        return vulkan_no_memory(plan->parts * sizeof *weight->parts, TENON_SCOPE_WEIGHT,
                                "no memory for a weight", error);
    for (i = 0; i < plan->parts && status == TENON_OK; i++) {
        vulkan_part *part = &weight->parts[i];
        uint64_t tiles = vulkan_least(plan->part_tiles, plan->tiles - i * plan->part_tiles);
        part->first_row = i * plan->part_tiles * VULKAN_TILE_ROWS;
        part->rows = vulkan_least(tiles * VULKAN_TILE_ROWS, plan->rows - part->first_row);
        status = make_array(device, tiles * plan->tile_codes, &part->codes, error);
        if (status == TENON_OK)
            status = make_array(device, tiles * plan->tile_scales, &part->scales, error);
    }
    return status;
}

/* The same weight, where it is on the device already; one user more. */
static tenon_prepared *find(tenon_device *device, const tenon_weight_desc *desc,
                            const tenon_weight_data *data)
{
    tenon_prepared *at;

    if (data->identity == 0) return NULL; /* not named */
    vulkan_lock_take(&device->weights->lock);
    for (at = device->weights->first; at != NULL; at = at->next)
        if (at->identity == data->identity && at->generation == data->generation &&
            memcmp(&at->desc, desc, sizeof *desc) == 0)
            break;
    if (at != NULL) at->users++;
    vulkan_lock_give(&device->weights->lock);
    return at;
}

int32_t TENON_CALL vulkan_prepare(tenon_device *device, const tenon_weight_desc *desc,
                                  const tenon_weight_data *data, tenon_prepared **out,
                                  tenon_error *error)
{
    uint64_t weights_bytes, scales_bytes;
    tenon_prepared *weight;
    vulkan_plan plan;
    int32_t status;

    if (device == NULL || desc == NULL || data == NULL || out == NULL)
        return vulkan_null_pointer("prepare needs device, desc, data and out", error);
    *out = NULL;
    if (!head_is(desc->struct_size, desc->abi_version, sizeof *desc) ||
        !head_is(data->struct_size, data->abi_version, sizeof *data))
        return tenon_fail(error, TENON_ABI, TENON_REASON_STRUCT_SIZE, TENON_SCOPE_CALL,
                          "desc or data of prepare is not of version 1");
    status = measure(device, desc, &plan, &weights_bytes, &scales_bytes, error);
    if (status == TENON_OK) status = check_data(data, weights_bytes, scales_bytes, error);
    if (status != TENON_OK) return status;
    *out = find(device, desc, data);
    if (*out != NULL) return TENON_OK;
    weight = calloc(1, sizeof *weight);
    if (weight == NULL)
        return vulkan_no_memory(sizeof *weight, TENON_SCOPE_WEIGHT, "no memory for a weight",
                                error);
    weight->desc = *desc;
    weight->identity = data->identity;
    weight->generation = data->generation;
    weight->users = 1;
    weight->plan = plan;
    status = make_parts(device, weight, error);
    if (status == TENON_OK) status = vulkan_pack(device, data, weight, error);
    if (status != TENON_OK) {
        free_weight(device, weight);
        return status;
    }
    vulkan_lock_take(&device->weights->lock);
    weight->next = device->weights->first;
    device->weights->first = weight;
    vulkan_lock_give(&device->weights->lock);
    atomic_fetch_add(&device->objects, 1);
    *out = weight;
    return TENON_OK;
}

void TENON_CALL vulkan_release(tenon_device *device, tenon_prepared *prepared)
{
    tenon_prepared **at;
    int last;

    if (device == NULL || prepared == NULL) return;
    vulkan_lock_take(&device->weights->lock);
    last = --prepared->users == 0;
    for (at = &device->weights->first; last && *at != NULL; at = &(*at)->next)
        if (*at == prepared) {
            *at = prepared->next;
            break;
        }
    vulkan_lock_give(&device->weights->lock);
    if (!last) return;
    free_weight(device, prepared); /* batches in flight keep its memory alive */
    atomic_fetch_sub(&device->objects, 1);
}
