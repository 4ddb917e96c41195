/* The compute kernels of the Vulkan provider: what each binds, is told and is started with.
 *
 * Kernels are GLSL in kernels/, compiled to SPIR-V at build time and linked in as words
 * (vulkan_kernels). Arithmetic is that of SPEC.md 2; kernels/README.md explains the layouts.
 *
 * Common to all
 * - Entry point "main", descriptor set 0, bindings 0, 1, ... in the order of the comments below, one
 *   push-constant range from offset 0 of the size of the kernel's struct.
 * - Bindings are storage buffers. Those named in vulkan_kernel.texel are uniform texel buffers of
 *   format VK_FORMAT_R32G32B32A32_UINT in the modules of flavour VULKAN_TEXEL. That flavour is for
 *   software devices: lavapipe reads a storage buffer lane by lane, a texel buffer 25 times as fast.
 *   It also takes unpackHalf2x16 to be exact, which the probe must have shown.
 *   Modules of flavour VULKAN_BUFFER have storage buffers only and are for real devices.
 * - "words" are 4 bytes, "vectors" 16 bytes. Offsets count from the start of the bound range, so a
 *   view at any offset is: bind from an aligned offset, push the rest. Ranges of 2^32 bytes or more
 *   are split by the caller.
 * - Specialization constant 0 is the fused multiply-add: VULKAN_FMA_NATIVE or VULKAN_FMA_EMULATED.
 *   Emulated is exact on any device whose + - * round to nearest. The modules of math VULKAN_DOUBLE
 *   need the feature shaderFloat64 and emulate through binary64 (3 times as fast where binary64 is
 *   as on a CPU); constant 0 is ignored there. Those of VULKAN_SINGLE need no feature at all.
 *   Constants 1 to 4 are stated per kernel; one that is not set keeps its default of 0.
 * - Dispatches that read what an earlier one wrote need a barrier between them. No kernel needs
 *   subgroups; workgroup sizes are fixed and at most 256 (VULKAN_LARGEST_GROUP).
 * - Every kernel tolerates more workgroups than needed.
 *
 * tests/vulkan/kernel_*_test.c hold all of this against the reference on lavapipe: every format, class,
 * flavour and math. Not run anywhere yet: VULKAN_FMA_NATIVE on a device that fuses. */
#ifndef TENON_VULKAN_KERNELS_H
#define TENON_VULKAN_KERNELS_H

#include <stdint.h>

#define VULKAN_FMA_NATIVE 0u
#define VULKAN_FMA_EMULATED 1u

enum vulkan_flavour { VULKAN_BUFFER, VULKAN_TEXEL, VULKAN_FLAVOURS };
enum vulkan_math { VULKAN_SINGLE, VULKAN_DOUBLE, VULKAN_MATHS };

enum vulkan_kernel_id {
    VULKAN_PROBE,
    VULKAN_ROUND,   /* x to class A8 */
    VULKAN_STAGE,   /* x for class F32 */
    VULKAN_GEMV_A8, /* 1 token a workgroup */
    VULKAN_GEMM_A8, /* VULKAN_GEMM_TOKENS tokens a workgroup */
    VULKAN_GEMV_F32,
    VULKAN_GEMM_F32,
    VULKAN_GROUPS_A8, /* int4-group with groups that are no multiple of 32 */
    VULKAN_GROUPS_F32,
    VULKAN_EMBED,
    VULKAN_RMSNORM,
    VULKAN_GATED,
    VULKAN_ADD,
    VULKAN_ARGMAX,      /* stretches of rows */
    VULKAN_ARGMAX_LAST, /* the stretches of each row */
    VULKAN_APPEND,
    VULKAN_LENGTH,
    VULKAN_SCORES,
    VULKAN_SEGMENTS,
    VULKAN_COMBINE,
    VULKAN_MOVE,
    VULKAN_KERNEL_COUNT
};

#define VULKAN_LARGEST_GROUP 256u
#define VULKAN_MOST_BINDINGS 7u
#define VULKAN_MOST_CONSTANTS 5u

typedef struct vulkan_kernel {
    const char *name;
    uint32_t bindings;   /* 0 to bindings - 1 */
    uint32_t texel;      /* bit b: binding b is a texel buffer in flavour VULKAN_TEXEL */
    uint32_t push_bytes; /* multiple of 4, at most 128 */
    uint32_t constants;  /* specialization constants 0 to constants - 1, uint32 each */
    struct {
        const uint32_t *words; /* never NULL; equal for flavours that do not differ */
        uint32_t bytes;
    } module[VULKAN_FLAVOURS][VULKAN_MATHS];
} vulkan_kernel;

/* By enum vulkan_kernel_id. */
extern const vulkan_kernel vulkan_kernels[VULKAN_KERNEL_COUNT];

/* ------------------------------------------------------------------------------- packed weights
 *
 * Rows are cut into tiles of 64 (the last padded with zeros), inputs into units of 32 (the last
 * padded with codes 0), in natural order for every format. Codes and scales are two arrays of
 * vectors; row r of the weight is lane r % 64 of tile r / 64. A weight may be cut between tiles into
 * parts, each bound by itself.
 *
 *   units  = ceil(cols / 32)
 *   codes  [tile][unit][v][64 lanes], v < VULKAN_NIBBLE 1, BYTE 2, FP8 2, F16 4, BF16 4, F32 8
 *   scales [tile][h][64 lanes],       h < scales (vectors of scales a row)
 *
 * One code vector, its words j = 0..3, words little-endian:
 *   NIBBLE  32 inputs: byte k (0..3) of word j holds input 8j + k low and input 8j + 4 + k high
 *   BYTE    16 inputs: byte k of word j is input 4j + k, a signed q
 *   FP8     16 inputs as they are stored; F16, BF16 8 (low half first); F32 4
 * NIBBLE codes are q = nibble - zero, or table[nibble] when constant 1 is VULKAN_TABLE (the table as
 * 16 signed bytes in table[4]; constant 1 VULKAN_NIBBLE ignores it).
 *
 * Scales, by kind:
 *   VULKAN_HALF    binary16 as stored, 8 a vector: block b (32 inputs) is half b % 8 of vector b / 8
 *                  (half 2w is the low half of word w). With minima two vectors take turns:
 *                  2(b / 8) scales, 2(b / 8) + 1 minima m_b (negated where the format stores -m_b).
 *   VULKAN_HALF16  the same for blocks of 16 inputs (NVFP4): half b % 8 of vector b / 8, no minima
 *   VULKAN_FLOAT   binary32, 4 a vector: block b is word b % 4 of vector b / 4
 *   VULKAN_SUB32   two vectors for 256 inputs: word 0 of the first is d (low half) and dmin (high
 *                  half), its other words 0; the second has 8 signed bytes sc_b, then 8 bytes mn_b
 *   VULKAN_SUB16   word 0 as SUB32, word 1 is 0, words 2 and 3 are the nibbles mn_0 .. mn_15 (nibble
 *                  b % 8 of word 2 + b / 8, low first), the second vector 16 signed bytes sc_b
 *   VULKAN_NONE    no scales (F32, F16, BF16): bind anything
 *
 * format          storage        kind    minima  block  zero / table
 * Q4_0            NIBBLE         HALF            1      8
 * Q4_1            NIBBLE         HALF    yes     1      0
 * Q5_0 Q8_0       BYTE           HALF            1
 * Q5_1            BYTE           HALF    yes     1
 * Q2_K            NIBBLE         SUB16   yes     8      0
 * Q3_K            NIBBLE         SUB16           8      4
 * Q4_K            NIBBLE         SUB32   yes     8      0
 * Q5_K            BYTE           SUB32   yes     8
 * Q6_K            BYTE           SUB16           8
 * IQ4_NL          TABLE          HALF            1      IQ4
 * IQ4_XS          TABLE          SUB32           8      IQ4
 * MXFP4           TABLE          FLOAT           1      E2M1 doubled, s = 2^(e - 128)
 * mxfp4-group32   TABLE          FLOAT           1      the same
 * NVFP4           TABLE          HALF16          1      E2M1 doubled, s = E4M3 / 2 (exact in half)
 * TQ1_0 TQ2_0     NIBBLE         FLOAT           8      1
 * int8-row        BYTE           FLOAT           0
 * int4-row        NIBBLE         FLOAT           0      8
 * int2-row        NIBBLE         FLOAT           0      2
 * int3-group64    NIBBLE         FLOAT           2      4
 * int4-group      NIBBLE         FLOAT           *      8
 * fp8-e4m3-b128   FP8            FLOAT           4
 * F32 F16 BF16    F32 F16 BF16   NONE            8
 *
 * Table formats may as well be packed as BYTE with q itself as the code (all else as in their line):
 * twice the bytes, but in flavour VULKAN_TEXEL six times as fast, so do that there.
 *
 * block is in units of 32 inputs; 0: one block a row, cut at 256. int4-group: group_size 32, 64, 128,
 * 256 is block 1, 2, 4, 8; a group_size >= cols is block 0; every other group_size runs in
 * VULKAN_GROUPS_* with the same codes and VULKAN_FLOAT scales. */

#define VULKAN_TILE_ROWS 64u
#define VULKAN_UNIT_INPUTS 32u

/* Specialization constant 1 of the products and of embed. */
enum vulkan_storage {
    VULKAN_NIBBLE,
    VULKAN_TABLE, /* nibbles through a table */
    VULKAN_BYTE,
    VULKAN_FP8, /* class F32 only, as are the following */
    VULKAN_F16,
    VULKAN_BF16,
    VULKAN_F32
};

/* Specialization constant 2 of the products and of embed. */
enum vulkan_scale_kind {
    VULKAN_HALF,
    VULKAN_HALF16,
    VULKAN_FLOAT,
    VULKAN_SUB32,
    VULKAN_SUB16,
    VULKAN_NONE
};

/* -------------------------------------------------------------------------------------- products */

/* x of all outputs of a call is first made ready in a work buffer, one record a unit:
 * VULKAN_ROUND writes records of VULKAN_A8_VECTORS, VULKAN_STAGE of VULKAN_F32_VECTORS vectors;
 * a token has units records, one after the other. Bindings: 0 x (words), 1 work (written). Groups:
 * x = ceil(units / 64), y = tokens. */
#define VULKAN_A8_VECTORS 7u
#define VULKAN_F32_VECTORS 9u

typedef struct vulkan_stage_push {
    uint32_t x;        /* word of x[0][0] */
    uint32_t x_stride; /* words from one token to the next */
    uint32_t cols;
    uint32_t units;
    uint32_t work;        /* vector of the first record of token 0 */
    uint32_t work_stride; /* vectors from one token to the next, >= units * vectors of a record */
} vulkan_stage_push;

/* GEMV_* and GEMM_*. Bindings: 0 codes (texel), 1 scales (texel), 2 work (texel), 3 y (written).
 * Constants: 1 storage, 2 scale kind, 3 minima (0 or 1), 4 block. Groups: x = tiles of all weights,
 * ceil(rows / 64) each; y = tokens (GEMV), ceil(tokens / VULKAN_GEMM_TOKENS) (GEMM). No row of y
 * depends on which of the two ran. GEMV takes any number of tokens too; GEMM pays from 2 tokens on.
 *
 * One dispatch takes up to VULKAN_MOST_WEIGHTS weights (or parts of weights) that are packed alike, have as
 * many inputs and meet the same x; rows of what is not there are 0, and come last. */
#define VULKAN_GEMM_TOKENS 4u
#define VULKAN_MOST_WEIGHTS 4u

typedef struct vulkan_product_push {
    uint32_t units;
    uint32_t tokens;
    uint32_t scales; /* vectors of scales a row */
    uint32_t work;   /* as in vulkan_stage_push */
    uint32_t work_stride;
    uint32_t zero;
    uint32_t cols;  /* GROUPS only */
    uint32_t group; /* GROUPS only: group_size */
    uint32_t table[4];
    uint32_t codes_from[VULKAN_MOST_WEIGHTS];  /* vector of binding 0 where the codes begin */
    uint32_t scales_from[VULKAN_MOST_WEIGHTS]; /* the same of binding 1 */
    uint32_t rows[VULKAN_MOST_WEIGHTS];
    uint32_t y[VULKAN_MOST_WEIGHTS]; /* word of y[0][first row] */
    uint32_t y_stride[VULKAN_MOST_WEIGHTS];
} vulkan_product_push;
/* GROUPS_*: the same bindings and push struct; constants: 0 only. Groups: x as above, y = tokens. */

/* Rows of a packed weight. Bindings: 0 codes, 1 scales, 2 ids (uint32), 3 y (written). Constants as
 * the products. Groups: x = ceil(units / 64), y = tokens. A weight in parts takes one dispatch a
 * part: rows outside of [first_row, first_row + rows) are left alone, but an id that is not below
 * all_rows makes its row of y NaN in every dispatch. */
typedef struct vulkan_embed_push {
    uint32_t first_row, rows, all_rows;
    uint32_t units, cols;
    uint32_t scales; /* vectors of scales a row */
    uint32_t ids;    /* word of ids[0] */
    uint32_t y;      /* word of y[0][0] */
    uint32_t y_stride;
    uint32_t zero;
    uint32_t group; /* int4-group only: group_size; else 0 */
    float scale;    /* exactly 1: not applied */
    uint32_t table[4];
} vulkan_embed_push;

/* ---------------------------------------------------------------------------------- whole rows */

/* RMSNORM and GATED can do what the step behind or before them would do (join.h). Their constant 2 set
 * to 1 makes y ready for products of class A8 as ROUND does: work and work_stride are as in
 * vulkan_stage_push, a row has ceil(width / 32) records. */

/* Bindings: 0 x, 1 w, 2 y (written), 3 b, 4 sum (written), 5 work (written). Groups: x = groups,
 * y = tokens. Constant 1 set to 1: x + b is stored as sum first, and sum takes the place of x; sum may
 * be x or b in place. Where constants 1 and 2 are 0 anything may be bound in 3 to 5; they want one
 * group a row. */
typedef struct vulkan_rmsnorm_push {
    uint32_t x, x_stride; /* words, as everywhere */
    uint32_t w;
    uint32_t y, y_stride;
    uint32_t width; /* of one group */
    float count;    /* width as a float */
    float eps;
    uint32_t b, b_stride;
    uint32_t sum, sum_stride;
    uint32_t work, work_stride; /* vectors */
} vulkan_rmsnorm_push;

/* Bindings: 0 gate, 1 up, 2 y (written), 3 work (written; anything where constant 2 is 0). Groups:
 * x = ceil(width / 256), y = tokens. Constant 1 is TENON_ACT_* too; where it is 0 the pushed one counts,
 * which is four times as slow on a software device, since that runs every branch. */
typedef struct vulkan_gated_push {
    uint32_t gate, gate_stride;
    uint32_t up, up_stride;
    uint32_t y, y_stride;
    uint32_t width;
    uint32_t activation; /* TENON_ACT_*, where constant 1 is 0 */
    uint32_t work, work_stride;
} vulkan_gated_push;

/* Bindings: 0 a, 1 b, 2 y (written). Groups as GATED. */
typedef struct vulkan_add_push {
    uint32_t a, a_stride;
    uint32_t b, b_stride;
    uint32_t y, y_stride;
    uint32_t width;
} vulkan_add_push;

/* ARGMAX: 0 x, 1 work (written): for each token `stretches` pairs of words (index, bits of the
 * value), stretches = max(1, ceil(width / VULKAN_ARGMAX_STRETCH)). Groups: x = stretches, y = tokens.
 * ARGMAX_LAST: 0 work, 1 y (uint32, written). Groups: x = tokens. Both take the same struct. */
#define VULKAN_ARGMAX_STRETCH 4096u

typedef struct vulkan_argmax_push {
    uint32_t x, x_stride;
    uint32_t width;
    uint32_t work; /* word of the first pair of token 0 */
    uint32_t stretches;
    uint32_t y; /* word of y[0] */
} vulkan_argmax_push;

/* ----------------------------------------------------------------------------------- attention
 *
 * A cache is three or four arrays of vectors, of E = 4 floats or E = 8 halves, and a state:
 *
 *   heads_v = vulkan_head_vectors(head_size, E)        vectors of a head of one position, zeros past
 *                                                      head_size
 *   k       [kv_head][position / 64][heads_v][64]      rotated; capacity rounded up to 64
 *   plain   the same shape: un-rotated keys, only of caches that are evictable and rotate
 *   v       [kv_head][position][heads_v]               capacity rounded up to 64 likewise
 *   table   float32 [capacity][rotary / 2][2] as it came
 *   state   word 0: positions held. Kernels read the length here, so a recorded step can be replayed
 *           word 1: workgroups of an append that are done, 0 when all are
 *
 * Positions that were never written may hold anything (they are never read into a result).
 * tiles = ceil(capacity / 64). Constants of all: 1: E (4: f32, 8: f16), 2: pairing (TENON_ROPE_*). */

typedef struct vulkan_cache_push {
    uint32_t head_size;
    uint32_t heads_v;
    uint32_t rotary;
    uint32_t kv_heads;
    uint32_t tiles;
} vulkan_cache_push;

/* Stores tokens positions behind those held and advances the length. Bindings: 0 k, 1 plain (bind k where
 * there is none), 2 v (all three written), 3 k and 4 v of the call, 5 table, 6 state (written). Groups:
 * exactly x = ceil(heads_v * kv_heads / 64), y = tokens: they count themselves. */
typedef struct vulkan_append_push {
    vulkan_cache_push cache;
    uint32_t has_plain; /* 0 or 1 */
    uint32_t k, k_stride;
    uint32_t v, v_stride;
} vulkan_append_push;

/* length = set + add * length. Bindings: 0 state (written). Groups: 1. */
typedef struct vulkan_length_push {
    uint32_t set, add;
} vulkan_length_push;

/* The four steps of attention_v1.run, each after a barrier. Row s of `tokens` stands at position
 * length - back + s: back = tokens of the call, larger where a call is cut into several (back counts
 * from this dispatch's first row to the end). `scores` is a work buffer of floats:
 *   scores [token][head][tiles * 64], then most [token][head][tiles], then
 *   sums   [token][head][segments][head_size + 1]   (o_g, then den_g), segments = ceil(tiles / 4)
 * as words from `work` on: vulkan_attention_words(...) of them.
 *
 * SCORES   0 k (texel), 1 q, 2 table, 3 state, 4 work (written)
 *          Groups: x = any number >= 1, best ceil(length / 64); y = heads, z = tokens
 * SEGMENTS 0 v (texel), 1 work (read and written), 2 state
 *          Groups: x = any number >= 1, best ceil(length / 256); y = heads, z = tokens
 * COMBINE  0 work, 1 state, 2 y (written), 3 A8 work (written; anything where constant 3 is 0)
 *          Groups: x = ceil(heads * head_size / VULKAN_COMBINE_VALUES), y = tokens
 *          Constant 3 set to 1 makes y ready for class A8, as that of GATED does: round, round_stride
 * A number of groups in x smaller than needed is made up for by loops, so a recorded step stays right
 * at any length; a larger one costs little. */
typedef struct vulkan_attention_push {
    vulkan_cache_push cache;
    uint32_t heads;
    uint32_t back;
    uint32_t window; /* 0: all */
    uint32_t q, q_stride;
    uint32_t y, y_stride;
    uint32_t work;
    float scale;
    uint32_t round, round_stride; /* COMBINE: vectors */
} vulkan_attention_push;
#define VULKAN_COMBINE_VALUES 256u

/* Whole sixteens of inputs, as dot16 takes them. */
static inline uint64_t vulkan_head_vectors(uint64_t head_size, uint64_t elements)
{
    return (head_size / 16 + (head_size % 16 != 0)) * (16 / elements);
}

/* Words of the work buffer of one attention dispatch. */
static inline uint64_t vulkan_attention_words(uint64_t tokens, uint64_t heads, uint64_t tiles,
                                              uint64_t head_size)
{
    return tokens * heads * (tiles * 65 + (tiles + 3) / 4 * (head_size + 1));
}

/* Copies `count` positions from one array to another (or to a work buffer), for evict: positions
 * [from, from + count) of `source` go to [to, to + count) of `target`; `rotate` rotates keys for
 * their new position. The two must not be the same array: an eviction copies to a work buffer of the
 * same shape (tiles of its own) and back. Bindings: 0 source, 1 target (written), 2 table.
 * Groups: x = ceil(count / 64), y = heads_v, z = kv_heads. */
#define VULKAN_MOVE_KEYS 0u   /* shape of k and plain */
#define VULKAN_MOVE_VALUES 1u /* shape of v */
typedef struct vulkan_move_push {
    vulkan_cache_push cache; /* tiles: of the source */
    uint32_t target_tiles;
    uint32_t shape;
    uint32_t from, to, count;
    uint32_t rotate; /* 0 or 1 */
} vulkan_move_push;

/* -------------------------------------------------------------------------------------- the probe
 *
 * Bindings: 0 in (words: cases of VULKAN_PROBE_IN floats), 1 out (written: VULKAN_PROBE_OUT words a
 * case). Groups: x = ceil(cases / 64). For a, b, c of a case, as the bits the device computes:
 *   0 fma(a, b, c) by constant 0    1 a * b    2 a + b    3 a - b    4 a / b    5 sqrt(a)
 *   6 1 / a    7 a / 127    8 a + 0x1.8p23 (how the kernels round)    9 float(int bits of a)
 *   10 a < b | (a == b) << 1 | (a != a) << 2    11 (a * b) + c, not fused
 *   12 unpackHalf2x16 of the low half of the bits of a */
#define VULKAN_PROBE_IN 3u
#define VULKAN_PROBE_OUT 13u
typedef struct vulkan_probe_push {
    uint32_t cases;
} vulkan_probe_push;

#endif
