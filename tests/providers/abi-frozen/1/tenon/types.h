/* Tenon ABI: the nouns that cross both borders: weights, views, classes.
 *
 * Pure description and plain memory; no function here calls anybody. */
#ifndef TENON_TYPES_H
#define TENON_TYPES_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Weight formats (SPEC.md section 3): TENON_FORMAT_<NAME>, from the one table formats.def. */
enum {
    TENON_FORMAT_NONE = 0,
#define TENON_FORMAT(name, id, text, gguf, block_inputs, block_bytes, arith_block, traits) \
    TENON_FORMAT_##name = id,
#include <tenon/formats.def>
#undef TENON_FORMAT
    TENON_FORMAT_LAST_ = 1 << 30
};

/* Layout of int4 codes. 0 for every format that has only one layout. */
#define TENON_LAYOUT_NONE 0u
#define TENON_LAYOUT_PAIR 1u /* byte i/2 holds input i: even i in the low nibble */
#define TENON_LAYOUT_PLANAR \
    2u /* per 64 inputs, byte k: input k low, input k+32 high; tail as pair */

/* Exactness classes (SPEC.md section 2). In a session description they state what is wanted, in a
 * weight description what was fixed when the weight was made. */
#define TENON_CLASS_F32 1u
#define TENON_CLASS_A8 2u
#define TENON_CLASS_APPROX 3u

/* What a matrix product means to the model. Qualification binds to it, never to the shape. */
#define TENON_SEM_NONE 0u
#define TENON_SEM_ATTN_Q 1u
#define TENON_SEM_ATTN_K 2u
#define TENON_SEM_ATTN_V 3u
#define TENON_SEM_ATTN_QKV 4u
#define TENON_SEM_ATTN_OUT 5u
#define TENON_SEM_FFN_GATE 6u
#define TENON_SEM_FFN_UP 7u
#define TENON_SEM_FFN_GATE_UP 8u
#define TENON_SEM_FFN_DOWN 9u
#define TENON_SEM_EMBED 10u
#define TENON_SEM_OUTPUT 11u
#define TENON_SEM_MOE_ROUTER 12u
#define TENON_SEM_MOE_EXPERT_GATE_UP 13u
#define TENON_SEM_MOE_EXPERT_DOWN 14u
#define TENON_SEM_MOE_SHARED_GATE_UP 15u
#define TENON_SEM_MOE_SHARED_DOWN 16u
#define TENON_SEM_LAST 16u

/* Lifetime of a weight's memory. */
#define TENON_LIFETIME_STABLE 1u /* valid and unchanged until the weight is destroyed */
#define TENON_LIFETIME_STABLE_FILE \
    2u                         /* the same, and a private or read-only file mapping: the
                                         host may drop its clean pages and read them again */
#define TENON_LIFETIME_COPY 3u /* valid during the call only; the host keeps a copy */

/* A quantity that is not known. 0 is only ever a real count. */
#define TENON_UNKNOWN UINT64_MAX

/* Memory of a request: a host pointer, or a buffer object, never both. Engine views name host
 * objects, provider views name that provider's own buffers, so a device buffer can never be read
 * as a host pointer by mistake. Embedded by value, frozen for ever (R1). */
typedef struct tenon_view {
    void *host;      /* host memory, or NULL */
    void *buffer;    /* buffer object, or NULL */
    uint64_t offset; /* bytes from the start of either */
    uint64_t bytes;  /* bytes that the view covers from offset on */
} tenon_view;
TENON_STATIC_ASSERT(sizeof(tenon_view) == 32, "tenon_view is frozen");

/* What a weight is: a matrix of rows (outputs, O) by cols (inputs, I). No pointers, so it can be
 * hashed, logged and compared. */
typedef struct tenon_weight_desc {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t format;       /* TENON_FORMAT_* */
    uint32_t layout;       /* TENON_LAYOUT_*: int4 formats PAIR or PLANAR, all others 0 */
    uint64_t group_size;   /* inputs per scale for int4-group (any > 0), 0 for all others */
    uint64_t rows;         /* outputs, at least 1 */
    uint64_t cols;         /* inputs, at least 1; a whole number of blocks for GGUF formats */
    uint32_t arith;        /* TENON_CLASS_*; an engine leaves it 0: the session and the format
                              decide (SPEC.md 1.4) and the host fills it in */
    uint32_t semantic;     /* TENON_SEM_*, 0: none */
    uint64_t reserved0[2]; /* zero (R7) */
} tenon_weight_desc;
TENON_STATIC_ASSERT(sizeof(tenon_weight_desc) == 64, "tenon_weight_desc changed size");

/* The bytes of a weight. Any alignment. Byte counts may exceed what the shape needs. */
typedef struct tenon_weight_data {
    uint32_t struct_size;
    uint32_t abi_version;
    const void *weights; /* GGUF blocks row by row, or codes (SPEC.md section 3) */
    uint64_t weights_bytes;
    const void *scales; /* scales of separate-scale formats, else NULL */
    uint64_t scales_bytes;
    const void *side; /* side table; no format of version 1 has one: NULL */
    uint64_t side_bytes;
    uint64_t identity;     /* engine: 0; given by the host, never reused. Providers cache by
                               (identity, generation), never by address */
    uint64_t generation;   /* engine: 0; grows when the bytes change in place */
    uint32_t lifetime;     /* TENON_LIFETIME_* */
    uint32_t reserved0;    /* zero (R7) */
    uint64_t reserved1[2]; /* zero (R7) */
} tenon_weight_data;
TENON_STATIC_ASSERT(sizeof(tenon_weight_data) == 96, "tenon_weight_data changed size");

#ifdef __cplusplus
}
#endif
#endif
