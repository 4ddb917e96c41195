/* Tenon operation attention: one layer's key-value cache and attention over it.
 *
 * A cache belongs to one layer and lives on one link; it never migrates. It takes un-rotated q and
 * k and rotates them itself: position = index in the cache, so that evicting positions leaves the
 * cache equal, bit for bit, to one that never saw them. Order of arithmetic: SPEC.md 2.4. */
#ifndef TENON_OP_ATTENTION_H
#define TENON_OP_ATTENTION_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_device;
struct tenon_device_queue;
struct tenon_queue;
struct tenon_session;

#define TENON_CACHE_F32 1u
#define TENON_CACHE_F16 2u

#define TENON_ROPE_NONE 0u     /* nothing is rotated; no table */
#define TENON_ROPE_ADJACENT 1u /* pairs (0, 1), (2, 3), ... */
#define TENON_ROPE_HALVES 2u   /* pairs (i, i + rotary / 2) */

#define TENON_CACHE_EVICTABLE 1u /* keeps what evict needs: un-rotated keys */

/* What a cache is made with. */
typedef struct tenon_cache_desc {
    uint32_t struct_size;
    uint32_t abi_version;
    uint64_t kv_heads;  /* at least 1 */
    uint64_t head_size; /* inputs of one head of q, k and v, at least 1 */
    uint64_t capacity;  /* positions, at least 1 */
    uint64_t window;    /* a row sees its own position and window - 1 before it; 0: all before */
    uint32_t type;      /* TENON_CACHE_* */
    uint32_t pairing;   /* TENON_ROPE_* */
    uint32_t flags;     /* TENON_CACHE_EVICTABLE */
    uint32_t rotary;    /* inputs of a head that are rotated, even, <= head_size; 0 with NONE */
    /* cos and sin of every position and pair, float32 [capacity][rotary / 2][2], made once in
     * binary64 by the engine: tables travel, they are never recomputed. Valid during create only;
     * NULL with TENON_ROPE_NONE. */
    const float *table;
    uint64_t table_bytes;
    uint64_t reserved0[2]; /* zero (R7) */
} tenon_cache_desc;
TENON_STATIC_ASSERT(sizeof(tenon_cache_desc) == 88, "tenon_cache_desc changed size");

/* Appends tokens positions to a cache: their un-rotated keys and values. */
typedef struct tenon_append_call {
    uint32_t struct_size;
    uint32_t abi_version;
    void *cache;           /* engine: tenon_cache *; provider: tenon_device_cache * */
    tenon_view k;          /* float32 [tokens][kv_heads][head_size], 4-byte aligned */
    tenon_view v;          /* the same */
    uint64_t tokens;       /* at least 1 */
    uint64_t k_row_stride; /* bytes from one token to the next, multiple of 4 */
    uint64_t v_row_stride;
    uint64_t reserved0[2]; /* zero (R7) */
} tenon_append_call;
TENON_STATIC_ASSERT(sizeof(tenon_append_call) == 120, "tenon_append_call changed size");

/* Attention of the last tokens positions of a cache over all that each of them sees. Query head h
 * reads key-value head h / (heads / kv_heads). A row that sees nothing gives zeros. */
typedef struct tenon_attention_call {
    uint32_t struct_size;
    uint32_t abi_version;
    void *cache;           /* engine: tenon_cache *; provider: tenon_device_cache * */
    tenon_view q;          /* float32 [tokens][heads][head_size], un-rotated, 4-byte aligned */
    tenon_view y;          /* float32 [tokens][heads][head_size], 4-byte aligned */
    uint64_t tokens;       /* 1 to length of the cache; row s has position length - tokens + s */
    uint64_t heads;        /* a multiple of kv_heads */
    uint64_t q_row_stride; /* bytes from one token to the next, multiple of 4 */
    uint64_t y_row_stride;
    float scale;           /* factor on every score, commonly 1 / sqrt(head_size) */
    uint32_t reserved0;    /* zero (R7) */
    uint64_t reserved1[2]; /* zero (R7) */
} tenon_attention_call;
TENON_STATIC_ASSERT(sizeof(tenon_attention_call) == 136, "tenon_attention_call changed size");

/* A cache of a provider. */
typedef struct tenon_device_cache tenon_device_cache;

/* attention_v1, optional: a provider offers all of it or none. Host views only count when complete
 * on return. Failures of append leave the cache as it was. */
typedef struct tenon_attention_v1 {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t desc_size; /* sizeof of every struct this provider knows (R5) */
    uint32_t append_size;
    uint32_t call_size;
    uint32_t error_size;
    /* Makes an empty cache. DECLINED: not this shape here; NOMEM has scope WEIGHT. [any thread] */
    int32_t(TENON_CALL *create)(struct tenon_device *device, const tenon_cache_desc *desc,
                                tenon_device_cache **out, tenon_error *error);
    /* NULL is allowed. [any thread, no call on it running] */
    void(TENON_CALL *free)(struct tenon_device *device, tenon_device_cache *cache);
    /* TENON_ARG with reason CAPACITY when the positions do not fit. [serial per queue] */
    int32_t(TENON_CALL *append)(struct tenon_device *device, struct tenon_device_queue *queue,
                                const tenon_append_call *call, tenon_error *error);
    int32_t(TENON_CALL *run)(struct tenon_device *device, struct tenon_device_queue *queue,
                             const tenon_attention_call *call, tenon_error *error);
    /* Positions held now. */
    int32_t(TENON_CALL *length)(struct tenon_device *device, const tenon_device_cache *cache,
                                uint64_t *length, tenon_error *error);
    /* Keeps the first length positions. */
    int32_t(TENON_CALL *truncate)(struct tenon_device *device, struct tenon_device_queue *queue,
                                  tenon_device_cache *cache, uint64_t length, tenon_error *error);
    /* Removes count positions from first on; those behind move up. TENON_STATE unless EVICTABLE. */
    int32_t(TENON_CALL *evict)(struct tenon_device *device, struct tenon_device_queue *queue,
                               tenon_device_cache *cache, uint64_t first, uint64_t count,
                               tenon_error *error);
    /* A second cache with the same positions. */
    int32_t(TENON_CALL *clone)(struct tenon_device *device, struct tenon_device_queue *queue,
                               const tenon_device_cache *cache, tenon_device_cache **out,
                               tenon_error *error);
    /* Memory the cache takes. */
    int32_t(TENON_CALL *bytes)(struct tenon_device *device, const tenon_device_cache *cache,
                               uint64_t *bytes, tenon_error *error);
} tenon_attention_v1;
TENON_STATIC_ASSERT(sizeof(tenon_attention_v1) == 96, "tenon_attention_v1 changed size");

/* The engine's side. A tenon_cache is made on the first link of the chain that takes it. */
typedef struct tenon_cache tenon_cache;
TENON_HOST_API int32_t TENON_CALL tenon_cache_create(struct tenon_session *session,
                                                     const tenon_cache_desc *desc,
                                                     tenon_cache **out, tenon_error *error);
TENON_HOST_API void TENON_CALL tenon_cache_destroy(tenon_cache *cache);
TENON_HOST_API int32_t TENON_CALL tenon_cache_length(tenon_cache *cache, uint64_t *length,
                                                     tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_cache_bytes(tenon_cache *cache, uint64_t *bytes,
                                                    tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_cache_truncate(struct tenon_queue *queue,
                                                       tenon_cache *cache, uint64_t length,
                                                       tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_cache_evict(struct tenon_queue *queue, tenon_cache *cache,
                                                    uint64_t first, uint64_t count,
                                                    tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_cache_clone(struct tenon_queue *queue, tenon_cache *cache,
                                                    tenon_cache **out, tenon_error *error);
/* Calls; what fails late answers TENON_LOST and the engine replays its history. [serial per queue] */
TENON_HOST_API int32_t TENON_CALL tenon_append(struct tenon_queue *queue,
                                               const tenon_append_call *call, tenon_error *error);
TENON_HOST_API int32_t TENON_CALL tenon_attention(struct tenon_queue *queue,
                                                  const tenon_attention_call *call,
                                                  tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
