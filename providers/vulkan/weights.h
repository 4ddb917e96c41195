/* Weights on the device, in the layout of kernels.h. */
#ifndef TENON_VULKAN_WEIGHTS_H
#define TENON_VULKAN_WEIGHTS_H

#include "device.h"
#include "kernels.h"

/* How a weight is packed: what its format, shape and class decide. */
typedef struct vulkan_plan {
    uint32_t storage, scale_kind; /* enum vulkan_storage, enum vulkan_scale_kind */
    uint32_t minima;              /* 0 or 1 */
    uint32_t block;               /* of the kernels, in units; 0: one a row */
    uint32_t grouped;             /* runs in VULKAN_GROUPS_* */
    uint32_t zero;
    const int8_t *table;        /* of 16 entries, NULL: none */
    const int8_t *packed_table; /* the same, where it is applied when packing */
    uint32_t arith;             /* TENON_CLASS_* */
    uint64_t rows, cols, units, group_size;
    uint64_t scale_inputs;                   /* inputs of a row that share one stored scale */
    uint32_t code_vectors;                   /* of 16 bytes a row and unit */
    uint32_t scale_vectors;                  /* of 16 bytes a row */
    uint64_t tiles, tile_codes, tile_scales; /* tile_*: bytes */
    uint64_t part_tiles;                     /* of every part but the last */
    uint64_t parts;
    uint64_t bytes; /* of device memory */
} vulkan_plan;

/* Tiles that are bound together. */
typedef struct vulkan_part {
    vulkan_memory *codes, *scales;
    uint64_t first_row, rows;
} vulkan_part;

struct tenon_prepared {
    struct tenon_prepared *next; /* of the device */
    tenon_weight_desc desc;
    uint64_t identity, generation;
    uint64_t users; /* prepares not yet released, under the lock of the weights */
    vulkan_plan plan;
    vulkan_part *parts;
};

/* All prepared weights of a device, by (identity, generation). */
int32_t vulkan_weights_make(tenon_device *device, tenon_error *error);
void vulkan_weights_free(tenon_device *device);

/* Plans a weight that tenon_weight_bytes accepts. 0 and *reason where it cannot be held. */
int vulkan_plan_make(const tenon_device *device, const tenon_weight_desc *desc, vulkan_plan *out,
                     uint32_t *reason);
/* Fills the table words of a push struct. */
void vulkan_plan_table(const vulkan_plan *plan, uint32_t table[4]);
/* Specialization constants 1 to 4 of the products. */
void vulkan_plan_options(const vulkan_plan *plan, uint32_t options[VULKAN_MOST_CONSTANTS - 1]);

/* Packs every tile of a weight into its parts. */
int32_t vulkan_pack(tenon_device *device, const tenon_weight_data *data, tenon_prepared *weight,
                    tenon_error *error);

int32_t TENON_CALL vulkan_supports(tenon_device *device, const tenon_weight_desc *desc,
                                   tenon_qmatmul_support *out, tenon_error *error);
int32_t TENON_CALL vulkan_prepare(tenon_device *device, const tenon_weight_desc *desc,
                                  const tenon_weight_data *data, tenon_prepared **out,
                                  tenon_error *error);
void TENON_CALL vulkan_release(tenon_device *device, tenon_prepared *prepared);
int32_t TENON_CALL vulkan_qmatmul_run(tenon_device *device, tenon_device_queue *queue,
                                      const tenon_qmatmul_call *call, tenon_error *error);

#endif
