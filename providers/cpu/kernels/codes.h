/* From packed codes to what the arithmetic sees. Included after a vec_*.h. storage is always a
 * constant where these are used, so that only one branch remains. */
#ifndef TENON_CPU_CODES_H
#define TENON_CPU_CODES_H

/* Bytes of a unit: 16 rows x 16 inputs. */
INLINE uint32_t unit_bytes(int storage)
{
    switch (storage) {
    case CPU_NIBBLE:
    case CPU_TABLE: return 128;
    case CPU_SIX: return 192;
    case CPU_F32: return 1024;
    case CPU_F16:
    case CPU_BF16: return 512;
    default: return 256;
    }
}

/* Class A8: the codes of step 2 * pair, inputs 8 * pair to 8 * pair + 3 of the unit at p ... */
INLINE vi codes_first(int storage, const uint8_t *p, int pair, vi table)
{
    vi low;
    if (storage == CPU_BYTE) return vi_load(p + 128 * pair);
    low = vb_low(vi_load(p + 64 * pair));
    if (storage == CPU_TABLE) return vb_lookup(table, low);
    if (storage == CPU_SIX) {
        vi upper = vi_load(p + 128);
        return vb_or(low, pair == 0 ? vb_bits45(upper, 4) : vb_bits45(upper, 0));
    }
    return low;
}
/* ... and of step 2 * pair + 1, the four inputs after them. */
INLINE vi codes_second(int storage, const uint8_t *p, int pair, vi table)
{
    vi high;
    if (storage == CPU_BYTE) return vi_load(p + 128 * pair + 64);
    high = vb_high(vi_load(p + 64 * pair));
    if (storage == CPU_TABLE) return vb_lookup(table, high);
    if (storage == CPU_SIX) {
        vi upper = vi_load(p + 128);
        return vb_or(high, pair == 0 ? vb_bits45(upper, 2) : vb_bits45(upper, -2));
    }
    return high;
}

/* Class F32: the four inputs of a step as signed bytes. */
INLINE vi codes_signed(int storage, const uint8_t *p, int step, vi table)
{
    vi codes = step % 2 == 0
                   ? codes_first(storage == CPU_TABLE ? CPU_NIBBLE : storage, p, step / 2, table)
                   : codes_second(storage == CPU_TABLE ? CPU_NIBBLE : storage, p, step / 2, table);
    if (storage == CPU_NIBBLE || storage == CPU_TABLE) return vb_lookup(table, codes);
    return storage == CPU_SIX ? vb_minus32(codes) : codes;
}

/* The two tables of a weight in registers, whichever its storage needs. */
typedef struct code_tables {
    vi bytes;
    vf floats;
} code_tables;
INLINE code_tables code_tables_of(int storage, const tenon_prepared *weight)
{
    code_tables tables = {vi_zero(), vf_zero()};
    if (storage != CPU_NIBBLE && storage != CPU_TABLE) return tables;
    if (VEC_HAS_NIBBLE_FLOAT)
        tables.floats = vf_load(weight->table_f32);
    else
        tables.bytes = vb_table(weight->table_signed);
    return tables;
}

/* Class F32: input k (a constant) of the unit at p, as floats. */
INLINE vf code_float(int storage, const uint8_t *p, int k, const code_tables *tables)
{
    switch (storage) {
    case CPU_F32: return vf_load((const float *)(const void *)p + 16 * k);
    case CPU_F16: return vf_f16(p + 32 * k);
    case CPU_BF16: return vf_bf16(p + 32 * k);
    case CPU_FP8: return vf_fp8(p + 16 * k);
#if VEC_HAS_NIBBLE_FLOAT
    case CPU_NIBBLE:
    case CPU_TABLE:
        return vf_nibble(vi_load(p + 64 * (k / 8)), 8 * (k % 4) + 4 * (k / 4 % 2), tables->floats);
#endif
    default: return vf_byte(codes_signed(storage, p, k / 4, tables->bytes), k % 4);
    }
}

#endif
