/* Class F32 (SPEC.md 2.2) for a tile of TR row groups x TC tokens, from codes that were expanded to
 * floats. Included once for every tile of a level, with TR and TC set. */

#define DECLARE_A(r, c) vf a##r##_##c = vf_zero();
#define DECLARE_T(r, c) vf t##r##_##c = vf_zero();

static void CPU_CAT4(f32_tile_, TR, _, TC)(const cpu_f32_args *args)
{
    const float *x = args->x;
    uint64_t b;
#define POINT(r) const float *q##r = args->q[r];
    ROWS(POINT)
#undef POINT
    GRID(DECLARE_A)

    for (b = 0; b < args->blocks; b++) {
        const float *end = x + (b + 1 < args->blocks ? args->padded : args->last_padded) * TC;
        GRID(DECLARE_T)
        for (; x < end; x += TC) {
#define LOAD(r) const vf v##r = vf_load(q##r);
#define MULTIPLY(r, c) t##r##_##c = vf_fma(v##r, vf_splat(x + c), t##r##_##c);
#define NEXT(r) q##r += 16;
            ROWS(LOAD)
            GRID(MULTIPLY)
            ROWS(NEXT)
#undef LOAD
#undef MULTIPLY
#undef NEXT
        }
        if (args->s[0] == NULL) { /* float formats: one block a segment, a = t */
#define TAKE(r, c) a##r##_##c = t##r##_##c;
            GRID(TAKE)
#undef TAKE
        } else {
#define LOAD(r) const vf scale##r = vf_load(args->s[r] + 16 * b);
            ROWS(LOAD)
#undef LOAD
#define SCALE(r, c) a##r##_##c = vf_fma(scale##r, t##r##_##c, a##r##_##c);
            GRID(SCALE)
#undef SCALE
        }
        if (args->n[0] != NULL) {
            const float *sums = args->sums + b * TC;
#define LOAD(r) const vf minimum##r = vf_load(args->n[r] + 16 * b);
            ROWS(LOAD)
#undef LOAD
#define SUBTRACT(r, c) a##r##_##c = vf_fma(minimum##r, vf_splat(sums + c), a##r##_##c);
            GRID(SUBTRACT)
#undef SUBTRACT
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

#undef DECLARE_A
#undef DECLARE_T
