/* Any bytes through the macho reader and the stage static. */
#include "image_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return fuzz_image("macho", "aarch64", bytes, size);
}
