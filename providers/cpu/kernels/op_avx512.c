/* The whole operations at the levels avx512 and avx512vnni. */
#include "float_avx512.h"

#include "operation_attention.h"

const cpu_operations cpu_operations_avx512 = OPERATIONS;
