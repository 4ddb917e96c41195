/* Class F32: the scale of a block, and the expansion of a segment to floats. Included once a level. */

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

INLINE void f32_expand_body(const tenon_prepared *weight, const cpu_segment *segment,
                            const uint8_t *group, float *q, float *s, float *n, const int storage)
{
    const cpu_plan *plan = &weight->plan;
    const code_tables tables = code_tables_of(storage, weight);
    const uint8_t *head = group + (uint64_t)segment->offset * 64, *p = head + segment->codes;
    uint32_t b,
        units = ((segment->blocks - 1u) * segment->padded + segment->last_padded) / CPU_UNIT;

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
