/* SIMDe in place of <immintrin.h>, so that every level of the CPU provider runs on a machine that
 * lacks its instructions (tests only). Built with -mavx2 -mfma -mf16c: without FMA, SIMDe's fused
 * multiply-add would round twice. What SIMDe 0.7.4 does not have is made from 256-bit halves. */
#ifndef TENON_TESTS_SIMDE_SHIM_H
#define TENON_TESTS_SIMDE_SHIM_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

/* One 512-bit result from a 256-bit function of each half of the source. */
#define SHIM_HALVES(type, member, name, source, half0, half1) \
    static inline type name(source v) \
    { \
        type##_private r; \
        r.member[0] = half0; \
        r.member[1] = half1; \
        return type##_from_private(r); \
    }

SHIM_HALVES(simde__m512, m256, shim_cvtph_ps, simde__m256i,
            simde_mm256_cvtph_ps(simde_mm256_castsi256_si128(v)),
            simde_mm256_cvtph_ps(simde_mm256_extracti128_si256(v, 1)))
SHIM_HALVES(simde__m512, m256, shim_cvtepi32_ps, simde__m512i,
            simde_mm256_cvtepi32_ps(simde__m512i_to_private(v).m256i[0]),
            simde_mm256_cvtepi32_ps(simde__m512i_to_private(v).m256i[1]))
SHIM_HALVES(simde__m512i, m256i, shim_cvtepi8_epi32, simde__m128i, simde_mm256_cvtepi8_epi32(v),
            simde_mm256_cvtepi8_epi32(simde_mm_srli_si128(v, 8)))
SHIM_HALVES(simde__m512i, m256i, shim_cvtepu8_epi32, simde__m128i, simde_mm256_cvtepu8_epi32(v),
            simde_mm256_cvtepu8_epi32(simde_mm_srli_si128(v, 8)))
SHIM_HALVES(simde__m512i, m256i, shim_cvtepu16_epi32, simde__m256i,
            simde_mm256_cvtepu16_epi32(simde_mm256_castsi256_si128(v)),
            simde_mm256_cvtepu16_epi32(simde_mm256_extracti128_si256(v, 1)))
static inline simde__m512i shim_srai_epi32(simde__m512i v, int by)
{
    simde__m512i_private a = simde__m512i_to_private(v);
    a.m256i[0] = simde_mm256_sra_epi32(a.m256i[0], simde_mm_cvtsi32_si128(by));
    a.m256i[1] = simde_mm256_sra_epi32(a.m256i[1], simde_mm_cvtsi32_si128(by));
    return simde__m512i_from_private(a);
}

#undef _mm512_cvtph_ps
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_srai_epi32
#undef _mm512_madd_epi16
#define _mm512_cvtph_ps shim_cvtph_ps
#define _mm512_cvtepi32_ps shim_cvtepi32_ps
#define _mm512_cvtepi8_epi32 shim_cvtepi8_epi32
#define _mm512_cvtepu8_epi32 shim_cvtepu8_epi32
#define _mm512_cvtepu16_epi32 shim_cvtepu16_epi32
#define _mm512_srai_epi32 shim_srai_epi32
#define _mm512_madd_epi16 simde_mm512_madd_epi16 /* its alias has the wrong parameters */

#endif
