/* Words for the numbers of the ABI, as people and JSON read them. Static storage. */
#ifndef TENON_TOOLS_NAMES_H
#define TENON_TOOLS_NAMES_H

#include <stdint.h>

/* "policy" to "publish" for TENON_STAGE_*, "" otherwise. */
const char *name_of_stage(uint32_t stage);
/* "loaded", "refused", "skipped" for TENON_CANDIDATE_*. */
const char *name_of_verdict(uint32_t verdict);
/* "cpu", "discrete", "integrated", "virtual", "software", "npu" for TENON_DEVICE_*. */
const char *name_of_device_kind(uint32_t kind);
/* "pin", "prefer", "auto" for TENON_MODE_*. */
const char *name_of_mode(uint32_t mode);

#endif
