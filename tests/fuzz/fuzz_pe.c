/* Any bytes through the pe reader and the stage static. */
#include "image_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return fuzz_image("pe", "x86-64", bytes, size);
}
