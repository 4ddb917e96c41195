/* The CPU provider: what its source files share.
 *
 * A weight is packed once, at prepare, in groups of 16 rows whose codes lie interleaved, so that a
 * vector lane is a row and every row is computed in the order of SPEC.md 2. A group is a sequence
 * of records, one a segment (at most 256 inputs): scales first, then codes on 64 bytes. */
#ifndef TENON_CPU_CPU_H
#define TENON_CPU_CPU_H

#include <tenon/provider.h>

#define CPU_ROWS 16u           /* rows of a group */
#define CPU_UNIT 16u           /* inputs of a unit, the least stretch of codes a kernel takes */
#define CPU_PIECE 32u          /* inputs of an activation block */
#define CPU_SEGMENT 256u       /* inputs of a segment at most */
#define CPU_MAX_COLS 0xffffffu /* offsets inside a group stay far below 32 bits */

/* How the codes of a unit (16 rows x 16 inputs) lie in memory. Dword lane r of a 64-byte chunk
 * belongs to row r; its bytes are four consecutive inputs. */
enum cpu_storage {
    CPU_NIBBLE, /* 2 chunks; of chunk j low nibbles are inputs 8j .., high nibbles 8j + 4 .. */
    CPU_TABLE,  /* the same, nibbles are indices into a table of 16 */
    CPU_SIX,    /* 2 chunks as NIBBLE, then a chunk with the two upper bits of all four steps */
    CPU_BYTE,   /* 4 chunks */
    CPU_F32,    /* 16 x 16 floats, input by input */
    CPU_F16,
    CPU_BF16,
    CPU_FP8,
    CPU_STORAGES
};

/* How wide the codes are that the integer dot product of class A8 sees, which decides how many
 * products an instruction set may add up before it must widen. */
enum cpu_dot {
    CPU_DOT4, /* unsigned, up to 15 */
    CPU_DOT6, /* unsigned, up to 63 */
    CPU_DOT8, /* all of 8 bits, signed, or offset by 128 (cpu_level.byte_bias) */
    CPU_DOTS
};

/* The float steps of class A8 (SPEC.md 2.3). */
enum cpu_kind {
    CPU_FOLD,   /* a block is one piece of 32 */
    CPU_HOLD,   /* a block is several pieces of 32 */
    CPU_SUB32,  /* sub-scales over 32 inputs: the block is the whole segment */
    CPU_SUB16,  /* sub-scales over 16 inputs */
    CPU_PIECES, /* blocks of any size: the pieces stand in a table */
    CPU_KINDS
};

enum cpu_scale { CPU_SCALE_NONE, CPU_SCALE_F16, CPU_SCALE_F32 };

/* What is the same for all weights of a format. */
typedef struct cpu_format {
    uint8_t storage; /* enum cpu_storage */
    uint8_t dot;     /* enum cpu_dot, class A8 */
    uint8_t scale;   /* enum cpu_scale */
    uint8_t zero;    /* stored code - zero = q, in class A8 for all storages, in F32 for nibbles */
    const int8_t *table; /* CPU_TABLE: the 16 values of q */
} cpu_format;

/* Returns NULL for an unknown format. */
const cpu_format *cpu_format_of(uint32_t format);

/* One segment of every group. */
typedef struct cpu_segment {
    uint32_t offset;       /* of its record in the group, in units of 64 bytes */
    uint32_t codes;        /* bytes from the record to its codes */
    uint32_t first;        /* A8: its first piece; F32: its first input in the packed x */
    uint32_t source;       /* its first input in the row */
    uint32_t first_block;  /* its first block in the row */
    uint16_t inputs;       /* inputs of the row, 1 to 256 */
    uint16_t blocks;       /* blocks (sub-blocks with sub-scales) */
    uint16_t block_inputs; /* inputs of each but the last */
    uint16_t pieces;       /* A8 */
    uint16_t padded;       /* F32: inputs of each block but the last in the packed forms */
    uint16_t last_padded;  /* F32: inputs of the last block in the packed forms */
} cpu_segment;

/* One piece of a weight of CPU_PIECES: the part of a block inside one activation block. */
typedef struct cpu_piece {
    uint32_t source;    /* its first input in the row */
    uint8_t inputs;     /* 1 to 32 */
    uint8_t units;      /* 1 or 2 */
    uint8_t ends_block; /* the scale follows */
    uint8_t reserved;
} cpu_piece;

/* What decides how x must be packed for a weight; weights of one call that agree in all of it
 * share one packing. */
typedef struct cpu_form {
    uint32_t arith, kind, dot, zero, minima;
    uint32_t block;   /* inputs of a block where it matters, else 0 */
    uint32_t columns; /* of the widest tile */
    uint32_t wide;    /* 2: codes of x as 16-bit pairs, even and odd inputs apart; 1: as bytes */
} cpu_form;

/* The shape of a packed weight. */
typedef struct cpu_plan {
    const cpu_format *format;
    uint32_t kind; /* enum cpu_kind, class A8 */
    uint32_t subscales, minima;
    uint64_t rows, cols, groups;
    uint64_t group_bytes;
    uint32_t segment_count, piece_count; /* piece_count: x records in class A8 */
    uint32_t table_pieces; /* entries of the piece table: piece_count for CPU_PIECES, else 0 */
    uint32_t block_count;  /* blocks of a row */
    uint32_t x_inputs;     /* F32: inputs of the packed x */
    uint32_t most_inputs, most_blocks; /* F32: of a segment, padded */
    cpu_form form;
} cpu_plan;

struct tenon_prepared {
    cpu_plan plan;
    const cpu_segment *segments;
    const cpu_piece *pieces;
    uint8_t *memory;         /* groups * group_bytes, 64-byte aligned */
    int8_t table_a8[16];     /* CPU_TABLE: what the dot product sees */
    int8_t table_signed[16]; /* nibbles: q as bytes */
    float table_f32[16];     /* nibbles: q as floats */
};

struct cpu_level;

/* Memory of a run, grown when first needed and kept. */
struct tenon_device_queue {
    uint8_t *memory;
    uint64_t bytes;
};

struct tenon_provider {
    const tenon_services *services; /* the host's, valid until close */
    const struct cpu_level *level;
};

struct tenon_device {
    tenon_provider *provider;
};

/* Finds the shape for a description that tenon_weight_bytes accepts, of class F32 or A8. segments
 * and pieces may both be NULL: then only *plan is filled. Returns 0 when a size does not fit. */
int cpu_plan_make(const struct cpu_level *level, const tenon_weight_desc *desc, cpu_plan *plan,
                  cpu_segment *segments, cpu_piece *pieces);
/* Bytes of scales and minima of one block in a record without sub-scales. */
uint32_t cpu_block_head_bytes(const cpu_plan *plan);
/* Bytes of the codes of one unit. */
uint32_t cpu_unit_bytes(uint32_t storage);

/* Bytes of physical memory, TENON_UNKNOWN when the system does not tell. */
void cpu_memory(uint64_t *total, uint64_t *available);

int32_t TENON_CALL cpu_supports(tenon_device *device, const tenon_weight_desc *desc,
                                tenon_qmatmul_support *out, tenon_error *error);
int32_t TENON_CALL cpu_prepare(tenon_device *device, const tenon_weight_desc *desc,
                               const tenon_weight_data *data, tenon_prepared **out,
                               tenon_error *error);
void TENON_CALL cpu_release(tenon_device *device, tenon_prepared *prepared);
int32_t TENON_CALL cpu_run(tenon_device *device, tenon_device_queue *queue,
                           const tenon_qmatmul_call *call, tenon_error *error);
/* Frees the memory of a queue, not the queue. */
void cpu_queue_clear(tenon_device_queue *queue);

static inline uint64_t cpu_round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

#endif
