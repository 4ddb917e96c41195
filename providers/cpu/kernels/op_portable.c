/* The whole operations at level portable. */
#include "float_portable.h"

#include "operation_attention.h"

const cpu_operations cpu_operations_portable = OPERATIONS;
