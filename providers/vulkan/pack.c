/* Weights into the layout of kernels.h: tiles of 64 rows, a lane a row. */
#include <stdlib.h>
#include <string.h>

#include "../common/unpack.h"
#include "commands.h"
#include "weights.h"

#define VECTOR 16u
#define SLAB_BYTES (UINT64_C(8) << 20) /* packed at a time where the host cannot write in place */

/* One row, unpacked; one a worker. */
typedef struct scratch {
    uint8_t *memory;
    unpacked_row row;
} scratch;

typedef struct job {
    tenon_device *device;
    const tenon_weight_data *data;
    const tenon_prepared *weight;
    scratch *workers;
    uint64_t first_tile; /* of the loop */
    const vulkan_part *part;
    uint8_t *codes, *scales; /* of first_tile */
} job;

/* Bytes of the arrays of an unpacked row: codes, scales, minima, sub-scales, their minima. */
static uint64_t measure(const tenon_prepared *weight, uint64_t at[5])
{
    const vulkan_plan *plan = &weight->plan;
    uint64_t codes = plan->scale_kind == VULKAN_NONE ? 0 : plan->cols;
    /* Never more than one scale for 16 inputs but in int4-group. */
    uint64_t scales = plan->cols / vulkan_least(16, plan->scale_inputs) + 16;

    at[0] = codes;
    at[1] = at[0] + scales * 4;
    at[2] = at[1] + scales * 2;
    at[3] = at[2] + scales;
    at[4] = at[3] + scales;
    return at[4];
}

static int make_workers(const tenon_prepared *weight, uint32_t count, scratch *workers)
{
    uint64_t at[5], bytes = measure(weight, at);
    int sub = weight->plan.scale_kind == VULKAN_SUB32 || weight->plan.scale_kind == VULKAN_SUB16;
    int minima = weight->plan.minima != 0;
    uint32_t i;

    for (i = 0; i < count; i++) {
        uint8_t *memory = malloc((size_t)bytes);
        if (memory == NULL) return 0;
        workers[i].memory = memory;
        workers[i].row = (unpacked_row){.code = memory,
                                        .scale = memory + at[0],
                                        .minimum = minima ? memory + at[1] : NULL,
                                        .sub = sub ? memory + at[2] : NULL,
                                        .sub_minimum = sub && minima ? memory + at[3] : NULL};
    }
    return 1;
}

/* ------------------------------------------------------------------------------------- codes */

/* Codes of one unit of a row, count of them; the rest of the unit is 0 already. */
static void pack_unit(const vulkan_plan *plan, const uint8_t *code, uint32_t count, uint8_t *to)
{
    const uint32_t lane_step = VULKAN_TILE_ROWS * VECTOR;
    uint32_t i;

    if (plan->storage == VULKAN_NIBBLE || plan->storage == VULKAN_TABLE) {
        for (i = 0; i < count; i++)
            to[i / 8 * 4 + i % 4] |= (uint8_t)((code[i] & 15u) << (i % 8 >= 4 ? 4 : 0));
        return;
    }
    for (i = 0; i < count; i += VECTOR, to += lane_step)
        memcpy(to, code + i, count - i < VECTOR ? count - i : VECTOR);
}

/* The same for codes that are floats, straight from the stored row. */
static void pack_float_unit(uint32_t size, const uint8_t *from, uint32_t count, uint8_t *to)
{
    const uint32_t lane_step = VULKAN_TILE_ROWS * VECTOR;
    uint32_t bytes = count * size, i;

    for (i = 0; i < bytes; i += VECTOR, to += lane_step)
        memcpy(to, from + i, bytes - i < VECTOR ? bytes - i : VECTOR);
}

static void pack_codes(const job *self, const unpacked_row *row, uint64_t number, uint8_t *to)
{
    const vulkan_plan *plan = &self->weight->plan;
    const uint64_t unit_step = (uint64_t)plan->code_vectors * VULKAN_TILE_ROWS * VECTOR;
    const uint8_t *stored = (const uint8_t *)self->data->weights +
                            number * tenon_row_bytes(self->weight->desc.format, plan->cols);
    uint32_t size = plan->storage == VULKAN_FP8    ? 1
                    : plan->storage == VULKAN_F16  ? 2
                    : plan->storage == VULKAN_BF16 ? 2
                    : plan->storage == VULKAN_F32  ? 4
                                                   : 0;
    uint64_t unit;

    for (unit = 0; unit < plan->units; unit++, to += unit_step) {
        uint64_t first = unit * VULKAN_UNIT_INPUTS;
        uint32_t count = (uint32_t)vulkan_least(plan->cols - first, VULKAN_UNIT_INPUTS);
        if (size == 0)
            pack_unit(plan, row->code + first, count, to);
        else
            pack_float_unit(size, stored + first * size, count, to);
    }
}

/* ------------------------------------------------------------------------------------ scales */

/* binary16 to binary32, exactly. */
static void widen(const uint8_t *half, uint8_t *to)
{
    uint32_t h = half[0] | (uint32_t)half[1] << 8, sign = (h & 0x8000u) << 16;
    uint32_t magnitude = h & 0x7fffu, bits;
    float value;

    if (magnitude >= 0x400u) {
        bits = sign | ((magnitude << 13) + ((magnitude >= 0x7c00u ? 224u : 112u) << 23));
    } else {
        value = (float)magnitude * 0x1p-24f; /* zero and subnormal */
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    }
    memcpy(to, &bits, sizeof bits);
}

/* Element b of size bytes of the vectors of a row, which stand a tile's lanes apart. */
static uint8_t *element(uint8_t *to, uint64_t b, uint32_t size, uint64_t vectors_apart)
{
    uint32_t per = VECTOR / size;
    return to + b / per * vectors_apart * VULKAN_TILE_ROWS * VECTOR + b % per * size;
}

static void pack_halves(const vulkan_plan *plan, const unpacked_row *row, uint64_t blocks,
                        uint8_t *to)
{
    uint32_t apart = plan->minima ? 2 : 1;
    uint64_t b;

    for (b = 0; b < blocks; b++) {
        memcpy(element(to, b, 2, apart), row->scale + 2 * b, 2);
        if (plan->minima) {
            uint8_t *at = element(to + VULKAN_TILE_ROWS * VECTOR, b, 2, 2);
            at[0] = row->minimum[2 * b];
            at[1] = row->minimum[2 * b + 1] ^ 0x80; /* unpacked as -m_b */
        }
    }
}

/* Sub-scales: two vectors for 256 inputs. */
static void pack_subs(const vulkan_plan *plan, const unpacked_row *row, uint8_t *to)
{
    const uint32_t lane_step = VULKAN_TILE_ROWS * VECTOR;
    uint32_t subs = plan->scale_kind == VULKAN_SUB32 ? 8 : 16, i;
    uint64_t block;

    for (block = 0; block < plan->cols / 256; block++, to += 2 * lane_step) {
        const uint8_t *sub = row->sub + block * subs;
        memcpy(to, row->scale + 2 * block, 2);
        if (plan->minima) {
            to[2] = row->minimum[2 * block];
            to[3] = row->minimum[2 * block + 1] ^ 0x80;
        }
        memcpy(to + lane_step, sub, subs);
        if (!plan->minima) continue;
        sub = row->sub_minimum + block * subs;
        if (subs == 8)
            memcpy(to + lane_step + 8, sub, 8);
        else
            for (i = 0; i < 16; i++) to[8 + i / 2] |= (uint8_t)((sub[i] & 15u) << (4 * (i % 2)));
    }
}

static void pack_scales(const job *self, const unpacked_row *row, uint8_t *to)
{
    const vulkan_plan *plan = &self->weight->plan;
    uint64_t count, b;

    switch (plan->scale_kind) {
    case VULKAN_HALF: pack_halves(plan, row, plan->units, to); break;
    case VULKAN_HALF16: pack_halves(plan, row, 2 * plan->units, to); break;
    case VULKAN_SUB32:
    case VULKAN_SUB16: pack_subs(plan, row, to); break;
    case VULKAN_FLOAT:
        count = tenon_ceil_div_u64(plan->cols, plan->scale_inputs);
        for (b = 0; b < count; b++) {
            uint8_t *at = element(to, b, 4, 1);
            if (unpack_scale_bytes(self->weight->desc.format) == 2)
                widen(row->scale + 2 * b, at);
            else
                memcpy(at, row->scale + 4 * b, 4);
        }
        break;
    default: break;
    }
}

/* -------------------------------------------------------------------------------------- tiles */

static void TENON_CALL pack_tile(void *context, uint64_t index, uint32_t worker)
{
    const job *self = context;
    const vulkan_plan *plan = &self->weight->plan;
    unpacked_row *row = &self->workers[worker].row;
    uint8_t *codes = self->codes + index * plan->tile_codes;
    uint8_t *scales = self->scales + index * plan->tile_scales;
    uint64_t first = (self->first_tile + index) * VULKAN_TILE_ROWS, number;
    uint32_t lane, i;

    memset(codes, 0, (size_t)plan->tile_codes);
    memset(scales, 0, (size_t)plan->tile_scales); /* of 0 bytes where a format has none */
    for (lane = 0; lane < VULKAN_TILE_ROWS && first + lane < plan->rows; lane++) {
        number = first + lane;
        if (plan->scale_kind != VULKAN_NONE)
            unpack_row(&self->weight->desc, self->data->weights, self->data->scales, number, row);
        if (self->weight->desc.format == TENON_FORMAT_Q6_K) /* unpacked without its offset */
            for (i = 0; i < plan->cols; i++) row->code[i] = (uint8_t)(row->code[i] - 32);
        if (plan->packed_table != NULL)
            for (i = 0; i < plan->cols; i++)
                row->code[i] = (uint8_t)plan->packed_table[row->code[i] & 15];
        pack_codes(self, row, number, codes + lane * VECTOR);
        pack_scales(self, row, scales + lane * VECTOR);
    }
}

static void pack_tiles(job *self, uint64_t count)
{
    const tenon_services *services = self->device->provider->services;
    services->parallel_for(services->host, count, pack_tile, self);
}

/* Packs a part into memory of the host, slab by slab, and sends each. */
static int32_t pack_by_slabs(job *self, uint64_t tiles, tenon_error *error)
{
    const vulkan_plan *plan = &self->weight->plan;
    uint64_t tile = plan->tile_codes + plan->tile_scales, done, count;
    uint64_t most = vulkan_least(SLAB_BYTES / tile + 1, tiles), first = self->first_tile;
    uint8_t *slab = malloc((size_t)(most * tile));
    int32_t status = TENON_OK;

    if (slab == NULL)
        return vulkan_no_memory(most * tile, TENON_SCOPE_WEIGHT, "no memory to pack a weight",
                                error);
    for (done = 0; done < tiles && status == TENON_OK; done += count) {
        count = vulkan_least(most, tiles - done);
        self->first_tile = first + done;
        self->codes = slab;
        self->scales = slab + count * plan->tile_codes;
        pack_tiles(self, count);
        status = vulkan_upload(
            self->device,
            (vulkan_span){self->part->codes, done * plan->tile_codes, count * plan->tile_codes},
            self->codes, error);
        if (status == TENON_OK && plan->tile_scales != 0)
            status = vulkan_upload(self->device,
                                   (vulkan_span){self->part->scales, done * plan->tile_scales,
                                                 count * plan->tile_scales},
                                   self->scales, error);
    }
    free(slab);
    return status;
}

int32_t vulkan_pack(tenon_device *device, const tenon_weight_data *data, tenon_prepared *weight,
                    tenon_error *error)
{
    const tenon_services *services = device->provider->services;
    const vulkan_plan *plan = &weight->plan;
    uint32_t team = services->team_size(services->host), w;
    job self = {.device = device, .data = data, .weight = weight};
    int32_t status = TENON_OK;
    uint64_t i, at[5];

    self.workers = calloc(team, sizeof *self.workers);
    if (self.workers == NULL || !make_workers(weight, team, self.workers)) {
        status = vulkan_no_memory(measure(weight, at) * team, TENON_SCOPE_WEIGHT,
                                  "no memory to pack a weight", error);
        goto out;
    }
    for (i = 0; i < plan->parts && status == TENON_OK; i++) {
        uint64_t tiles = vulkan_least(plan->part_tiles, plan->tiles - i * plan->part_tiles);
        self.part = &weight->parts[i];
        self.first_tile = i * plan->part_tiles;
        if (device->gpu->unified) {
            self.codes = self.part->codes->mapped;
            self.scales = plan->tile_scales != 0 ? self.part->scales->mapped : self.codes;
            pack_tiles(&self, tiles);
        } else {
            status = pack_by_slabs(&self, tiles, error);
        }
    }
out:
    if (self.workers != NULL)
        for (w = 0; w < team; w++) free(self.workers[w].memory);
    free(self.workers);
    return status;
}
