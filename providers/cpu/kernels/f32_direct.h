/* Class F32 (SPEC.md 2.2) for a tile of TR row groups x TC tokens, straight from the packed codes:
 * for few tokens, where writing the codes out as floats first would cost more. Included once for
 * every such tile of a level, after f32_expand.h. */

#define TILE_NAME(name) CPU_CAT4(name, TR, _, TC)

INLINE void TILE_NAME(f32_direct_tile_)(const cpu_f32_direct_args *args, const int storage)
{
    const cpu_plan *plan = &args->weight->plan;
    const code_tables tables = code_tables_of(storage, args->weight);
    uint32_t i;

    for (i = 0; i < plan->segment_count; i++) {
        const cpu_segment *segment = args->weight->segments + i;
        const float *x = args->x + (uint64_t)segment->first * TC;
        uint32_t b;
#define POINT(r) \
    const uint8_t *h##r = args->w[r] + (uint64_t)segment->offset * 64, \
                  *p##r = h##r + segment->codes;
        ROWS(POINT)
#undef POINT
#define DECLARE_A(r, c) vf a##r##_##c = vf_zero();
        GRID(DECLARE_A)
#undef DECLARE_A
        for (b = 0; b < segment->blocks; b++) {
            const float *end = x +
                               (b + 1u < segment->blocks ? segment->padded : segment->last_padded) *
                                   TC;
#define DECLARE_T(r, c) vf t##r##_##c = vf_zero();
            GRID(DECLARE_T)
#undef DECLARE_T
            for (; x < end; x += CPU_UNIT * TC) {
#define MULTIPLY(r, c) t##r##_##c = vf_fma(q##r, vf_splat(xk + c), t##r##_##c);
#define CODES(r, k) const vf q##r = code_float(storage, p##r, k, &tables);
#define INPUT(k) \
    { \
        const float *xk = x + k * TC; \
        CPU_CAT2(CPU_COLUMN_, TR)(CODES, k) GRID(MULTIPLY) \
    }
                SIXTEEN(INPUT)
#undef INPUT
#undef CODES
#undef MULTIPLY
#define NEXT(r) \
    for (uint32_t line = 0; line < unit_bytes(storage); line += 64) \
        VEC_PREFETCH(p##r + CPU_AHEAD + line); \
    p##r += unit_bytes(storage);
                ROWS(NEXT)
#undef NEXT
            }
            if (plan->format->scale == CPU_SCALE_NONE) { /* one block a segment, a = t */
#define TAKE(r, c) a##r##_##c = t##r##_##c;
                GRID(TAKE)
#undef TAKE
            } else {
                const float *sums = args->sums + (uint64_t)(segment->first_block + b) * TC;
#define LOAD(r) const block_scale scale##r = block_scale_of(plan, segment, h##r, b);
                ROWS(LOAD)
#undef LOAD
#define SCALE(r, c) a##r##_##c = vf_fma(scale##r.s, t##r##_##c, a##r##_##c);
                GRID(SCALE)
#undef SCALE
                if (plan->minima) {
#define SUBTRACT(r, c) a##r##_##c = vf_fma(scale##r.n, vf_splat(sums + c), a##r##_##c);
                    GRID(SUBTRACT)
#undef SUBTRACT
                }
            }
        }
#define ADD_TO_Y(r, c) \
    { \
        float *y = args->y + c * args->y_stride + 16 * r; \
        vf_store(y, vf_add(vf_load(y), a##r##_##c)); \
    }
        GRID(ADD_TO_Y)
#undef ADD_TO_Y
    }
}

#define STORAGE(name) \
    static void CPU_CAT4(f32_direct_##name##_, TR, _, TC)(const cpu_f32_direct_args *args) \
    { \
        TILE_NAME(f32_direct_tile_)(args, CPU_##name); \
    }
STORAGE(NIBBLE)
STORAGE(TABLE)
STORAGE(SIX)
STORAGE(BYTE)
STORAGE(F32)
STORAGE(F16)
STORAGE(BF16)
STORAGE(FP8)
#undef STORAGE
#undef TILE_NAME
