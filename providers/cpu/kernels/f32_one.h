/* Class F32 for one token, straight from the packed codes, and the expansion of a segment to
 * floats for more tokens. TR row groups at once; f32_one.h is included once a level. */

/* Scale and -minimum of block b of a record at head. Every product is exact (SPEC.md 2.1). */
typedef struct block_scale {
    vf s, n;
} block_scale;
INLINE block_scale block_scale_of(const cpu_plan *plan, const cpu_segment *segment,
                                  const uint8_t *head, uint32_t b)
{
    block_scale out = {vf_zero(), vf_zero()};
    if (plan->subscales) {
        const uint8_t *sub = head + (plan->minima ? 64 : 32);
        out.s = vf_mul(vf_f16(head), vi_to_vf(vi_i8(sub + 16 * b)));
        if (plan->minima)
            out.n = vf_mul(vf_f16(head + 32), vi_to_vf(vi_u8(sub + 16 * (segment->blocks + b))));
    } else if (plan->format->scale == CPU_SCALE_F16) {
        head += (plan->minima ? 64 : 32) * (uint64_t)b;
        out.s = vf_f16(head);
        if (plan->minima) out.n = vf_f16(head + 32);
    } else if (plan->format->scale == CPU_SCALE_F32) {
        out.s = vf_load((const float *)(const void *)(head + 64 * (uint64_t)b));
    }
    return out;
}

#define SIXTEEN(M) \
    M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)

INLINE void f32_one_body(const cpu_f32_one_args *args, const int storage)
{
    const cpu_plan *plan = &args->weight->plan;
    const code_tables tables = code_tables_of(storage, args->weight);
    uint64_t i;
#define DECLARE(r) vf y##r = vf_zero();
    ROWS(DECLARE)
#undef DECLARE

    for (i = 0; i < args->segment_count; i++) {
        const cpu_segment *segment = args->segments + i;
        const float *x = args->x + segment->first;
        uint32_t b;
#define DECLARE(r) \
    const uint8_t *h##r = args->w[r] + (uint64_t)segment->offset * 64, \
                  *p##r = h##r + segment->codes; \
    vf a##r = vf_zero();
        ROWS(DECLARE)
#undef DECLARE
        for (b = 0; b < segment->blocks; b++) {
            const float *end = x + (b + 1u < segment->blocks ? segment->padded
                                                             : segment->last_padded);
#define DECLARE(r) vf t##r = vf_zero();
            ROWS(DECLARE)
#undef DECLARE
            for (; x < end; x += CPU_UNIT) {
#define MULTIPLY(r, k) t##r = vf_fma(code_float(storage, p##r, k, &tables), xk, t##r);
#define INPUT(k) \
    { \
        const vf xk = vf_splat(x + k); \
        CPU_CAT2(CPU_COLUMN_, TR)(MULTIPLY, k) \
    }
                SIXTEEN(INPUT)
#undef INPUT
#undef MULTIPLY
#define NEXT(r) \
    for (uint32_t line = 0; line < unit_bytes(storage); line += 64) \
        VEC_PREFETCH(p##r + 2048 + line); \
    p##r += unit_bytes(storage);
                ROWS(NEXT)
#undef NEXT
            }
            if (plan->format->scale == CPU_SCALE_NONE) {
#define TAKE(r) a##r = t##r;
                ROWS(TAKE)
#undef TAKE
            } else {
#define SCALE(r) \
    { \
        const block_scale scale = block_scale_of(plan, segment, h##r, b); \
        a##r = vf_fma(scale.s, t##r, a##r); \
        if (plan->minima) a##r = vf_fma(scale.n, vf_splat(args->sums + segment->first_block + b), a##r); \
    }
                ROWS(SCALE)
#undef SCALE
            }
        }
#define ADD(r) y##r = vf_add(y##r, a##r);
        ROWS(ADD)
#undef ADD
    }
#define STORE(r) vf_store(args->y + 16 * r, y##r);
    ROWS(STORE)
#undef STORE
}

INLINE void f32_expand_body(const tenon_prepared *weight, const cpu_segment *segment,
                            const uint8_t *group, float *q, float *s, float *n, const int storage)
{
    const cpu_plan *plan = &weight->plan;
    const code_tables tables = code_tables_of(storage, weight);
    const uint8_t *head = group + (uint64_t)segment->offset * 64, *p = head + segment->codes;
    uint32_t b, units = ((segment->blocks - 1u) * segment->padded + segment->last_padded) / CPU_UNIT;

    for (; units > 0; units--) {
#define EXPAND(k) vf_store(q + 16 * k, code_float(storage, p, k, &tables));
        SIXTEEN(EXPAND)
#undef EXPAND
        p += unit_bytes(storage);
        q += 16 * CPU_UNIT;
    }
    if (plan->format->scale == CPU_SCALE_NONE) return;
    for (b = 0; b < segment->blocks; b++) {
        const block_scale scale = block_scale_of(plan, segment, head, b);
        vf_store(s + 16 * b, scale.s);
        vf_store(n + 16 * b, scale.n);
    }
}

#define STORAGE(name) \
    static void f32_one_##name(const cpu_f32_one_args *args) \
    { \
        f32_one_body(args, CPU_##name); \
    } \
    static void f32_expand_##name(const tenon_prepared *weight, const cpu_segment *segment, \
                                  const uint8_t *group, float *q, float *s, float *n) \
    { \
        f32_expand_body(weight, segment, group, q, s, n, CPU_##name); \
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
