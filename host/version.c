/* The version of the library; answered without loading anything. */
#include <tenon/engine.h>

const char *TENON_CALL tenon_version(void)
{
    return TENON_VERSION;
}
