/* Any bytes through the elf reader and the stage static. */
#include "image_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return fuzz_image("elf", "x86-64", bytes, size);
}
