/* The whole operations at level avx2. */
#include "float_avx2.h"

#include "operation_attention.h"

const cpu_operations cpu_operations_avx2 = OPERATIONS;
