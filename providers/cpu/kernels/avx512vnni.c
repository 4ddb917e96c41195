/* Level avx512vnni: AVX-512 F, BW, DQ and VL with VNNI, whose dot product takes unsigned codes. */
#define LEVEL_VNNI 1
#define LEVEL_SYMBOL cpu_level_avx512vnni
#define LEVEL_NAME "avx512vnni"
#define LEVEL_BIAS 128
#include "avx512_level.h"
