/* Loops over registers and over memory. On x86 each function is compiled for its own level and only
 * chosen when the processor and the system have it; nothing here can end in an illegal instruction.
 *
 * The empty asm statements tie the operands to registers in every round, so that the compiler can
 * neither move a product out of the loop nor drop one. */
#include "calibrate_loops.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define KEEP_INT(a) __asm__ volatile("" : "+r"(a))
#define KEEP_FLOAT(a) __asm__ volatile("" : "+x"(a))
#else
#define KEEP_INT(a) __asm__ volatile("" : "+r"(a))
#define KEEP_FLOAT(a) __asm__ volatile("" : "+g"(a))
#endif

/* Eight chains hide the latency of a scalar multiplication and addition. */
#define SCALAR_CHAINS(type, step) \
    type a0 = 1, a1 = 2, a2 = 3, a3 = 4, a4 = 5, a5 = 6, a6 = 7, a7 = 8; \
    uint64_t i; \
    for (i = 0; i < rounds; i++) { \
        step(a0); \
        step(a1); \
        step(a2); \
        step(a3); \
        step(a4); \
        step(a5); \
        step(a6); \
        step(a7); \
    }

static double int8_portable(uint64_t rounds)
{
    int32_t x = 3, y = -5;
#define STEP(a) \
    do { \
        int32_t product_; \
        KEEP_INT(x); \
        product_ = x * y; \
        KEEP_INT(product_); \
        a = (int32_t)((uint32_t)a + (uint32_t)product_); \
        KEEP_INT(a); \
    } while (0)
    SCALAR_CHAINS(int32_t, STEP)
#undef STEP
    return (double)rounds * 8 * 2;
}

static double f32_portable(uint64_t rounds)
{
    float x = 0.999f, y = 1.0001f;
#define STEP(a) \
    do { \
        float product_; \
        KEEP_FLOAT(x); \
        product_ = x * y; \
        KEEP_FLOAT(product_); \
        a = a + product_; \
        KEEP_FLOAT(a); \
    } while (0)
    SCALAR_CHAINS(float, STEP)
#undef STEP
    return (double)rounds * 8 * 2;
}

static uint64_t read_words(const uint8_t *from, uint64_t bytes)
{
    uint64_t sum[4] = {0, 0, 0, 0}, word[4], i, k, quarter = bytes / 4;
    for (i = 0; i < quarter; i += 8) {
        for (k = 0; k < 4; k++) {
            memcpy(&word[k], from + k * quarter + i, 8);
            sum[k] += word[k];
        }
    }
    return sum[0] + sum[1] + sum[2] + sum[3];
}

#if defined(__x86_64__)

/* Twelve chains, as many as a product kernel has accumulators. */
#define VECTOR_CHAINS(type, zero, step) \
    type a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero, a6 = zero, a7 = zero, \
         a8 = zero, a9 = zero, a10 = zero, a11 = zero; \
    uint64_t i; \
    for (i = 0; i < rounds; i++) { \
        step(a0); \
        step(a1); \
        step(a2); \
        step(a3); \
        step(a4); \
        step(a5); \
        step(a6); \
        step(a7); \
        step(a8); \
        step(a9); \
        step(a10); \
        step(a11); \
    }
#define KEEP_VECTOR(a) __asm__ volatile("" : "+v"(a))

__attribute__((target("avx2,fma"))) static double int8_avx2(uint64_t rounds)
{
    __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2);
#define STEP(a) \
    do { \
        __m256i product_; \
        __asm__ volatile("" : "+x"(x)); \
        product_ = _mm256_maddubs_epi16(x, y); \
        a = _mm256_add_epi16(a, product_); \
        __asm__ volatile("" : "+x"(a)); \
    } while (0)
    VECTOR_CHAINS(__m256i, _mm256_setzero_si256(), STEP)
#undef STEP
    return (double)rounds * 12 * 32 * 2;
}

__attribute__((target("avx2,fma"))) static double f32_avx2(uint64_t rounds)
{
    __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-6f);
#define STEP(a) \
    do { \
        a = _mm256_fmadd_ps(x, y, a); \
        __asm__ volatile("" : "+x"(a)); \
    } while (0)
    VECTOR_CHAINS(__m256, _mm256_setzero_ps(), STEP)
#undef STEP
    return (double)rounds * 12 * 8 * 2;
}

__attribute__((target("avx512f,avx512bw"))) static double int8_avx512(uint64_t rounds)
{
    __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
#define STEP(a) \
    do { \
        __m512i product_; \
        KEEP_VECTOR(x); \
        product_ = _mm512_maddubs_epi16(x, y); \
        a = _mm512_add_epi16(a, product_); \
        KEEP_VECTOR(a); \
    } while (0)
    VECTOR_CHAINS(__m512i, _mm512_setzero_si512(), STEP)
#undef STEP
    return (double)rounds * 12 * 64 * 2;
}

__attribute__((target("avx512f,avx512bw"))) static double f32_avx512(uint64_t rounds)
{
    __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-6f);
#define STEP(a) \
    do { \
        a = _mm512_fmadd_ps(x, y, a); \
        KEEP_VECTOR(a); \
    } while (0)
    VECTOR_CHAINS(__m512, _mm512_setzero_ps(), STEP)
#undef STEP
    return (double)rounds * 12 * 16 * 2;
}

__attribute__((target("avx512f,avx512bw,avx512vnni"))) static double int8_vnni(uint64_t rounds)
{
    __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
#define STEP(a) \
    do { \
        a = _mm512_dpbusd_epi32(a, x, y); \
        KEEP_VECTOR(a); \
    } while (0)
    VECTOR_CHAINS(__m512i, _mm512_setzero_si512(), STEP)
#undef STEP
    return (double)rounds * 12 * 64 * 2;
}

#define LOAD_256(at) _mm256_loadu_si256((const __m256i *)(const void *)(at))

__attribute__((target("avx2"))) static uint64_t sum_256(__m256i a, __m256i b)
{
    uint64_t words[4];
    _mm256_storeu_si256((__m256i *)(void *)words, _mm256_xor_si256(a, b));
    return words[0] ^ words[1] ^ words[2] ^ words[3];
}

__attribute__((target("avx2"))) static uint64_t read_one_stream(const uint8_t *from, uint64_t bytes)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    uint64_t i;
    for (i = 0; i < bytes; i += 128) {
        a = _mm256_xor_si256(a, LOAD_256(from + i));
        b = _mm256_xor_si256(b, LOAD_256(from + i + 32));
        c = _mm256_xor_si256(c, LOAD_256(from + i + 64));
        d = _mm256_xor_si256(d, LOAD_256(from + i + 96));
    }
    return sum_256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
}

/* streams cursors through as many parts of the bytes, each read a cache line at a time with a
 * prefetch that many bytes ahead. A macro: the number must be known when it is compiled. */
#define READ_STREAMS(name, streams, ahead) \
    __attribute__((target("avx2"))) static uint64_t name(const uint8_t *from, uint64_t bytes) \
    { \
        __m256i a = _mm256_setzero_si256(), b = a; \
        uint64_t part = bytes / (streams), i, s; \
        for (i = 0; i < part; i += 64) { \
            for (s = 0; s < (streams); s++) { \
                const uint8_t *at = from + s * part + i; \
                _mm_prefetch((const char *)at + (ahead), _MM_HINT_T0); \
                a = _mm256_xor_si256(a, LOAD_256(at)); \
                b = _mm256_xor_si256(b, LOAD_256(at + 32)); \
            } \
        } \
        return sum_256(a, b); \
    }
READ_STREAMS(read_four_streams, 4, 1024)
READ_STREAMS(read_eight_streams, 8, 1024)

#define READ_STREAMS_512(name, streams, ahead) \
    __attribute__((target("avx512f"))) static uint64_t name(const uint8_t *from, uint64_t bytes) \
    { \
        __m512i a = _mm512_setzero_si512(); \
        uint64_t part = bytes / (streams), i, s, words[8]; \
        for (i = 0; i < part; i += 64) { \
            for (s = 0; s < (streams); s++) { \
                const uint8_t *at = from + s * part + i; \
                _mm_prefetch((const char *)at + (ahead), _MM_HINT_T0); \
                a = _mm512_xor_si512(a, _mm512_loadu_si512(at)); \
            } \
        } \
        _mm512_storeu_si512(words, a); \
        return words[0] ^ words[1] ^ words[2] ^ words[3] ^ words[4] ^ words[5] ^ words[6] ^ \
               words[7]; \
    }
READ_STREAMS_512(read_four_streams_512, 4, 1024)
READ_STREAMS_512(read_eight_streams_512, 8, 1024)

#endif

static const compute_loops portable_loops = {"portable", "scalar multiply, add",
                                             "scalar multiply, add", int8_portable, f32_portable};

#if defined(__x86_64__)
static const compute_loops avx2_loops = {"avx2", "vpmaddubsw + vpaddw (ymm)", "vfmadd (ymm)",
                                         int8_avx2, f32_avx2};
static const compute_loops avx512_loops = {"avx512", "vpmaddubsw + vpaddw (zmm)", "vfmadd (zmm)",
                                           int8_avx512, f32_avx512};
static const compute_loops vnni_loops = {"avx512vnni", "vpdpbusd (zmm)", "vfmadd (zmm)", int8_vnni,
                                         f32_avx512};

/* The compiler's own tests ask the processor and the system (XGETBV). */
static int have_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int have_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}
#endif

const compute_loops *calibrate_compute(const char *level)
{
#if defined(__x86_64__)
    if (strcmp(level, "avx512vnni") == 0 && have_avx512() && __builtin_cpu_supports("avx512vnni"))
        return &vnni_loops;
    if (strncmp(level, "avx512", 6) == 0 && have_avx512()) return &avx512_loops;
    if (strncmp(level, "avx", 3) == 0 && have_avx2()) return &avx2_loops;
#endif
    (void)level;
    return &portable_loops;
}

const read_loops *calibrate_read(void)
{
    static const read_loops portable[] = {{"four streams", read_words}, {NULL, NULL}};
#if defined(__x86_64__)
    static const read_loops avx2[] = {{"one stream, 32-byte loads", read_one_stream},
                                      {"four streams, prefetched", read_four_streams},
                                      {"eight streams, prefetched", read_eight_streams},
                                      {NULL, NULL}};
    static const read_loops avx512[] = {
        {"one stream, 32-byte loads", read_one_stream},
        {"four streams, prefetched", read_four_streams},
        {"eight streams, prefetched", read_eight_streams},
        {"four streams, prefetched, 64-byte loads", read_four_streams_512},
        {"eight streams, prefetched, 64-byte loads", read_eight_streams_512},
        {NULL, NULL}};
    if (have_avx512()) return avx512;
    if (have_avx2()) return avx2;
#endif
    return portable;
}
