/* Level avx512: AVX-512 F, BW, DQ and VL, without VNNI. */
#define LEVEL_SYMBOL cpu_level_avx512
#define LEVEL_NAME "avx512"
#define LEVEL_BIAS 0
#include "avx512_level.h"
