/* Which levels this file has, and which of them the processor and the operating system allow. */
#include "kernels/level.h"

#include <string.h>

#if defined(__x86_64__) && !defined(TENON_CPU_EMULATED)
#include <cpuid.h>
#endif

const cpu_level *const cpu_levels[] = {
    &cpu_level_portable,
#if defined(TENON_CPU_AVX2)
    &cpu_level_avx2,
#endif
#if defined(TENON_CPU_AVX512)
    &cpu_level_avx512,
#endif
#if defined(TENON_CPU_AVX512VNNI)
    &cpu_level_avx512vnni,
#endif
    NULL,
};

#if defined(__x86_64__) && !defined(TENON_CPU_EMULATED)

/* Registers of cpuid leaves. */
enum { EAX, EBX, ECX, EDX };

/* One thing a level needs; a bit of a cpuid leaf. */
typedef struct feature {
    const char *name;
    uint32_t leaf, subleaf;
    uint32_t where, bit;
} feature;

static const feature avx2_needs[] = {
    {"avx", 1, 0, ECX, 28}, {"fma", 1, 0, ECX, 12}, {"f16c", 1, 0, ECX, 29},
    {"avx2", 7, 0, EBX, 5}, {NULL, 0, 0, 0, 0},
};
static const feature avx512_needs[] = {
    {"avx512f", 7, 0, EBX, 16},  {"avx512dq", 7, 0, EBX, 17}, {"avx512bw", 7, 0, EBX, 30},
    {"avx512vl", 7, 0, EBX, 31}, {NULL, 0, 0, 0, 0},
};
static const feature vnni_needs[] = {
    {"avx512vnni", 7, 0, ECX, 11},
    {NULL, 0, 0, 0, 0},
};

static const char *first_missing(const feature *needs)
{
    for (; needs->name != NULL; needs++) {
        unsigned int r[4] = {0, 0, 0, 0};
        if (!__get_cpuid_count(needs->leaf, needs->subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) ||
            (r[needs->where] >> needs->bit & 1u) == 0)
            return needs->name;
    }
    return NULL;
}

/* Does the operating system save all the register state in mask (XCR0 bits)? */
static int os_saves(uint32_t mask)
{
    static const feature osxsave[] = {{"osxsave", 1, 0, ECX, 27}, {NULL, 0, 0, 0, 0}};
    uint32_t low, high;
    if (first_missing(osxsave) != NULL) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & mask) == mask;
}

#define XCR0_AVX 0x06u    /* SSE and the upper halves of ymm */
#define XCR0_AVX512 0xe6u /* also mask registers and all of zmm */

int cpu_level_usable(const cpu_level *level, const char **lacks)
{
    *lacks = NULL;
    if (level == &cpu_level_portable) return 1;
    *lacks = first_missing(avx2_needs);
    if (*lacks == NULL && !os_saves(XCR0_AVX)) *lacks = "operating system support for avx";
#if defined(TENON_CPU_AVX2)
    if (level == &cpu_level_avx2) return *lacks == NULL;
#endif
    if (*lacks == NULL) *lacks = first_missing(avx512_needs);
    if (*lacks == NULL && !os_saves(XCR0_AVX512)) *lacks = "operating system support for avx512";
#if defined(TENON_CPU_AVX512VNNI)
    if (*lacks == NULL && level == &cpu_level_avx512vnni) *lacks = first_missing(vnni_needs);
#else
    (void)vnni_needs;
#endif
    return *lacks == NULL;
}

void cpu_brand(char *name, size_t room)
{
    unsigned int words[12] = {0};
    char text[sizeof words + 1] = {0}, *start = text;
    size_t length, i;

    if (__get_cpuid_max(0x80000000u, NULL) >= 0x80000004u)
        for (i = 0; i < 3; i++)
            (void)__get_cpuid(0x80000002u + (unsigned int)i, &words[4 * i], &words[4 * i + 1],
                              &words[4 * i + 2], &words[4 * i + 3]);
    memcpy(text, words, sizeof words);
    while (*start == ' ') start++;
    length = strlen(start);
    while (length > 0 && start[length - 1] == ' ') length--;
    if (length == 0) {
        start = (char[]){"CPU"};
        length = 3;
    }
    if (length >= room) length = room - 1;
    for (i = 0; i < length; i++) name[i] = start[i] >= ' ' && start[i] <= '~' ? start[i] : '?';
    name[length] = '\0';
}

#else

int cpu_level_usable(const cpu_level *level, const char **lacks)
{
    (void)level;
    *lacks = NULL;
    return 1; /* only the portable level is built, or, for tests, all of them emulated */
}

void cpu_brand(char *name, size_t room)
{
    static const char text[] = "CPU";
    size_t length = sizeof text - 1 < room ? sizeof text - 1 : room - 1;
    memcpy(name, text, length);
    name[length] = '\0';
}

#endif
