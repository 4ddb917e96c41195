/* Class A8 (SPEC.md 2.3) for a tile of TR row groups x TC tokens. Included once for every tile of a
 * level, with TR and TC set; makes one function for every combination of a8_combinations.def.
 *
 * A record of the packed x is one piece of one tile: 8 * VEC_WIDE rows of dwords with its codes,
 * a row with d, and two rows of integers or floats whose meaning depends on the kind:
 *   FOLD, HOLD, PIECES  k0 = -zero * U, k1 = M as a float (U: sum of the piece's codes, M = d * U)
 *   SUB32               k0 = -zero * U, k1 = U
 *   SUB16               with minima k0, k1 = U of each half, else -zero * U of each half */

#define TILE_NAME(name) CPU_CAT4(name, TR, _, TC)

#define K_ROWS(dot) (8 * VEC_WIDE(dot))

/* One unit: four steps of four inputs, added to s. xs: the first dwords of the unit. */
#define LOAD_FIRST(r) const vi wa##r = codes_first(storage, p##r, PAIR, table);
#define LOAD_SECOND(r) const vi wb##r = codes_second(storage, p##r, PAIR, table);
#define STEP_FIRST(r, c) \
    s##r##_##c = dot_step(dot, s##r##_##c, wa##r, xs + 2 * PAIR * VEC_WIDE(dot) * TC + c, TC);
#define STEP_SECOND(r, c) \
    s##r##_##c = dot_step(dot, s##r##_##c, wb##r, xs + (2 * PAIR + 1) * VEC_WIDE(dot) * TC + c, TC);
#define STEP_BOTH(r, c) \
    s##r##_##c = dot_pair(s##r##_##c, wa##r, wb##r, xs + 2 * PAIR * VEC_WIDE(dot) * TC + c, TC);
#define UNIT_PAIR \
    { \
        ROWS(LOAD_FIRST) \
        if (dot == CPU_DOT6) { \
            ROWS(LOAD_SECOND) \
            GRID(STEP_BOTH) \
        } else { \
            GRID(STEP_FIRST) \
            ROWS(LOAD_SECOND) \
            GRID(STEP_SECOND) \
        } \
    }
/* With one token the codes come from memory. Asking for them this little ahead, in several streams,
 * was measured best: the processor's own prefetching does the rest. */
#define AHEAD(r) \
    VEC_PREFETCH(p##r + CPU_AHEAD); \
    VEC_PREFETCH(p##r + CPU_AHEAD + 64); \
    if (unit_bytes(storage) > 128) VEC_PREFETCH(p##r + CPU_AHEAD + 128); \
    if (unit_bytes(storage) > 192) VEC_PREFETCH(p##r + CPU_AHEAD + 192);
#define AHEAD_HEAD(r) VEC_PREFETCH(h##r + CPU_AHEAD);
#define AHEAD_SUB(r) VEC_PREFETCH(sub##r + CPU_AHEAD);
#define NEXT_UNIT(r) p##r += unit_bytes(storage);

#define DECLARE_S(r, c) vi s##r##_##c = dot_start(dot, k0 + c);
#define DECLARE_ACC(r, c) vf acc##r##_##c = vf_zero();
#define DECLARE_T(r, c) vf t##r##_##c = vf_zero();
#define ADD_TO_Y(r, c) \
    { \
        float *y = args->y + c * args->y_stride + 16 * r; \
        vf_store(y, vf_add(vf_load(y), acc##r##_##c)); \
    }
/* T += d * float(sum) */
#define ADD_PIECE(r, c) \
    t##r##_##c = vf_add(t##r##_##c, \
                        vf_mul(vf_splat(d + c), vi_to_vf(dot_end(dot, s##r##_##c, k0 + c))));

#define LOAD_SCALE(r) \
    const vf scale##r = args->scale == CPU_SCALE_F16 ? vf_f16(h##r) \
                                                     : vf_load((const float *)(const void *)h##r);
#define LOAD_MINIMUM(r) const vf minimum##r = vf_f16(h##r + scale_bytes);
#define NEXT_HEAD(r) h##r += head_bytes;

INLINE void TILE_NAME(a8_tile_)(const cpu_a8_args *args, const int storage, const int dot,
                                const int kind)
{
    const vi table = storage == CPU_TABLE ? vb_table(args->table) : vi_zero();
    const uint64_t record = (uint64_t)(K_ROWS(dot) + 3) * TC;
    const uint32_t scale_bytes = args->scale == CPU_SCALE_F16 ? 32 : 64;
    const uint32_t head_bytes = scale_bytes + (args->minima ? 32 : 0);
    const uint32_t subscale_at = args->minima ? 64 : 32;
    static const int32_t zeros[TC];
    uint64_t i;

    for (i = 0; i < args->segment_count; i++) {
        const cpu_segment *segment = args->segments + i;
        const int32_t *x = args->x + segment->first * record;
        uint32_t n, pieces = segment->pieces;
#define POINT(r) \
    const uint8_t *h##r = args->w[r] + (uint64_t)segment->offset * 64, \
                  *p##r = h##r + segment->codes; \
    (void)h##r;
        ROWS(POINT)
#undef POINT
        GRID(DECLARE_ACC)

        if (kind == CPU_FOLD) {
            for (n = 0; n < pieces; n++) {
                const int32_t *xs = x, *k0 = x + (K_ROWS(dot) + 1) * TC;
                const float *d = (const float *)(const void *)(x + K_ROWS(dot) * TC);
                GRID(DECLARE_S)
#define PAIR 0
                UNIT_PAIR
#undef PAIR
#define PAIR 1
                UNIT_PAIR
#undef PAIR
                if (TC == 1) {
                    ROWS(AHEAD)
                }
                ROWS(NEXT_UNIT)
                xs += 4 * VEC_WIDE(dot) * TC;
#define PAIR 0
                UNIT_PAIR
#undef PAIR
#define PAIR 1
                UNIT_PAIR
#undef PAIR
                if (TC == 1) {
                    ROWS(AHEAD) ROWS(AHEAD_HEAD)
                }
                ROWS(NEXT_UNIT)
                {
                    ROWS(LOAD_SCALE)
#define FOLD(r, c) \
    acc##r##_##c = vf_add( \
        acc##r##_##c, \
        vf_mul(scale##r, vf_mul(vf_splat(d + c), vi_to_vf(dot_end(dot, s##r##_##c, k0 + c)))));
                    GRID(FOLD)
#undef FOLD
                }
                if (args->minima) {
                    const float *m = (const float *)(const void *)(k0 + TC);
                    ROWS(LOAD_MINIMUM)
#define FOLD_MINIMUM(r, c) acc##r##_##c = vf_add(acc##r##_##c, vf_mul(minimum##r, vf_splat(m + c)));
                    GRID(FOLD_MINIMUM)
#undef FOLD_MINIMUM
                }
                ROWS(NEXT_HEAD)
                x += record;
            }
        }

        if (kind == CPU_HOLD) {
            const uint32_t block_pieces = (segment->block_inputs + CPU_PIECE - 1u) / CPU_PIECE;
            while (pieces > 0) {
                const uint32_t here = pieces < block_pieces ? pieces : block_pieces;
                GRID(DECLARE_T)
                for (n = 0; n < here; n++) {
                    const int32_t *xs = x, *k0 = x + (K_ROWS(dot) + 1) * TC;
                    const float *d = (const float *)(const void *)(x + K_ROWS(dot) * TC);
                    GRID(DECLARE_S)
#define PAIR 0
                    UNIT_PAIR
#undef PAIR
#define PAIR 1
                    UNIT_PAIR
#undef PAIR
                    if (TC == 1) {
                        ROWS(AHEAD)
                    }
                    ROWS(NEXT_UNIT)
                    xs += 4 * VEC_WIDE(dot) * TC;
#define PAIR 0
                    UNIT_PAIR
#undef PAIR
#define PAIR 1
                    UNIT_PAIR
#undef PAIR
                    if (TC == 1) {
                        ROWS(AHEAD)
                    }
                    ROWS(NEXT_UNIT)
                    GRID(ADD_PIECE)
                    x += record;
                }
                {
                    ROWS(LOAD_SCALE)
#define END_BLOCK(r, c) acc##r##_##c = vf_add(acc##r##_##c, vf_mul(scale##r, t##r##_##c));
                    GRID(END_BLOCK)
                }
                ROWS(NEXT_HEAD)
                pieces -= here;
            }
        }

        if (kind == CPU_PIECES) {
            const cpu_piece *piece = args->pieces + segment->first;
            GRID(DECLARE_T)
            for (n = 0; n < pieces; n++, piece++) {
                const int32_t *xs = x, *k0 = x + (K_ROWS(dot) + 1) * TC;
                const float *d = (const float *)(const void *)(x + K_ROWS(dot) * TC);
                uint32_t units;
                GRID(DECLARE_S)
                for (units = piece->units; units > 0; units--) {
#define PAIR 0
                    UNIT_PAIR
#undef PAIR
#define PAIR 1
                    UNIT_PAIR
#undef PAIR
                    ROWS(NEXT_UNIT)
                    xs += 4 * VEC_WIDE(dot) * TC;
                }
                GRID(ADD_PIECE)
                if (piece->ends_block) {
                    ROWS(LOAD_SCALE)
                    GRID(END_BLOCK)
#undef END_BLOCK
#define RESET_T(r, c) t##r##_##c = vf_zero();
                    GRID(RESET_T)
#undef RESET_T
                    ROWS(NEXT_HEAD)
                }
                x += record;
            }
        }

        if (kind == CPU_SUB32 || kind == CPU_SUB16) {
            const int halves = kind == CPU_SUB16 ? 2 : 1;
            const int32_t *x_start = x;
#define POINT(r) const uint8_t *sub##r = h##r + subscale_at;
            ROWS(POINT)
#undef POINT
            if (TC == 1) {
                ROWS(AHEAD_HEAD)
            }
            for (n = 0; n < pieces; n++) {
                const int32_t *xs = x, *k = x + (K_ROWS(dot) + 1) * TC;
                const float *d = (const float *)(const void *)(x + K_ROWS(dot) * TC);
                const int32_t *k0 = args->minima ? zeros : k;
#define DECLARE_SUM(r, c) vi sum##r##_##c;
                GRID(DECLARE_SUM)
#undef DECLARE_SUM
                {
                    GRID(DECLARE_S)
#define PAIR 0
                    UNIT_PAIR
#undef PAIR
#define PAIR 1
                    UNIT_PAIR
#undef PAIR
                    if (TC == 1) {
                        ROWS(AHEAD)
                    }
                    ROWS(NEXT_UNIT)
                    xs += 4 * VEC_WIDE(dot) * TC;
                    if (kind == CPU_SUB32) {
#define PAIR 0
                        UNIT_PAIR
#undef PAIR
#define PAIR 1
                        UNIT_PAIR
#undef PAIR
                        if (TC == 1) {
                            ROWS(AHEAD)
                        }
                        ROWS(NEXT_UNIT)
                    }
#define LOAD_SUB(r) const vi subscale##r = vi_i8(sub##r);
                    ROWS(LOAD_SUB)
#define SCALE_SUM(r, c) sum##r##_##c = vi_mul(subscale##r, dot_end(dot, s##r##_##c, k0 + c));
                    GRID(SCALE_SUM)
#undef SCALE_SUM
                }
                if (kind == CPU_SUB16) {
                    k0 = args->minima ? zeros : k + TC;
                    GRID(DECLARE_S)
#define PAIR 0
                    UNIT_PAIR
#undef PAIR
#define PAIR 1
                    UNIT_PAIR
#undef PAIR
                    if (TC == 1) {
                        ROWS(AHEAD)
                    }
                    ROWS(NEXT_UNIT)
#define LOAD_SUB_SECOND(r) const vi subscale##r = vi_i8(sub##r + 16);
                    ROWS(LOAD_SUB_SECOND)
#undef LOAD_SUB_SECOND
#undef LOAD_SUB
#define SCALE_SUM(r, c) \
    sum##r##_##c = vi_add(sum##r##_##c, vi_mul(subscale##r, dot_end(dot, s##r##_##c, k0 + c)));
                    GRID(SCALE_SUM)
#undef SCALE_SUM
                }
#define ADD_SUM(r, c) \
    acc##r##_##c = vf_add(acc##r##_##c, vf_mul(vf_splat(d + c), vi_to_vf(sum##r##_##c)));
                GRID(ADD_SUM)
#undef ADD_SUM
#define NEXT_SUB(r) sub##r += 16 * halves;
                ROWS(NEXT_SUB)
                if (TC == 1) {
                    ROWS(AHEAD_SUB)
                }
                x += record;
            }
            {
#define LOAD_D(r) const vf scale##r = vf_f16(h##r);
                ROWS(LOAD_D)
#undef LOAD_D
#define SCALE_T(r, c) acc##r##_##c = vf_mul(scale##r, acc##r##_##c);
                GRID(SCALE_T)
#undef SCALE_T
            }
            if (args->minima) { /* here sub points at the minima */
                GRID(DECLARE_T)
                x = x_start;
                for (n = 0; n < pieces; n++) {
                    const int32_t *k = x + (K_ROWS(dot) + 1) * TC;
                    const float *d = (const float *)(const void *)(x + K_ROWS(dot) * TC);
#define LOAD_SUB(r) const vi first##r = vi_u8(sub##r);
                    ROWS(LOAD_SUB)
#undef LOAD_SUB
#define LOAD_SUB(r) const vi second##r = kind == CPU_SUB16 ? vi_u8(sub##r + 16) : vi_zero();
                    ROWS(LOAD_SUB)
#undef LOAD_SUB
#define ADD_MINIMUM(r, c) \
    { \
        vi sum = kind == CPU_SUB16 ? vi_add(vi_mul(first##r, vi_splat(k + c)), \
                                            vi_mul(second##r, vi_splat(k + TC + c))) \
                                   : vi_mul(first##r, vi_splat(k + TC + c)); \
        t##r##_##c = vf_add(t##r##_##c, vf_mul(vf_splat(d + c), vi_to_vf(sum))); \
    }
                    GRID(ADD_MINIMUM)
#undef ADD_MINIMUM
                    ROWS(NEXT_SUB)
                    if (TC == 1) {
                        ROWS(AHEAD_SUB)
                    }
                    x += record;
                }
                {
#define LOAD_D(r) const vf minimum##r = vf_f16(h##r + 32);
                    ROWS(LOAD_D)
#undef LOAD_D
#define SUBTRACT(r, c) acc##r##_##c = vf_add(acc##r##_##c, vf_mul(minimum##r, t##r##_##c));
                    GRID(SUBTRACT)
#undef SUBTRACT
                }
            }
#undef NEXT_SUB
        }

        GRID(ADD_TO_Y)
    }
}

#define COMBINATION(storage, dot, kind) \
    __attribute__((unused)) static void CPU_CAT3(a8_##storage##_##dot##_##kind##_, TR, \
                                                 CPU_CAT2(_, TC))(const cpu_a8_args *args) \
    { \
        TILE_NAME(a8_tile_)(args, CPU_##storage, CPU_##dot, CPU_##kind); \
    }
#include "a8_combinations.def"
#undef COMBINATION

#undef TILE_NAME
#undef K_ROWS
#undef LOAD_FIRST
#undef LOAD_SECOND
#undef STEP_FIRST
#undef STEP_SECOND
#undef STEP_BOTH
#undef UNIT_PAIR
#undef AHEAD
#undef AHEAD_HEAD
#undef AHEAD_SUB
#undef NEXT_UNIT
#undef DECLARE_S
#undef DECLARE_ACC
#undef DECLARE_T
#undef ADD_TO_Y
#undef ADD_PIECE
#undef LOAD_SCALE
#undef LOAD_MINIMUM
#undef NEXT_HEAD
