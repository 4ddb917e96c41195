/* Which functions of the whole operations go with which level. */
#include "kernels/operations.h"

const cpu_operations *cpu_operations_of(const cpu_level *level)
{
#if defined(TENON_CPU_AVX2)
    if (level == &cpu_level_avx2) return &cpu_operations_avx2;
#endif
#if defined(TENON_CPU_AVX512)
    if (level == &cpu_level_avx512) return &cpu_operations_avx512;
#endif
#if defined(TENON_CPU_AVX512) && defined(TENON_CPU_AVX512VNNI)
    if (level == &cpu_level_avx512vnni) return &cpu_operations_avx512;
#endif
    (void)level;
    return &cpu_operations_portable;
}
