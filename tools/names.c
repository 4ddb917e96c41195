#include "names.h"

#include <tenon/engine.h>
#include <tenon/provider.h>

const char *name_of_stage(uint32_t stage)
{
    static const char *const names[] = {"",     "policy", "open",  "static", "probe",
                                        "load", "bind",   "check", "publish"};
    return stage < sizeof names / sizeof names[0] ? names[stage] : "";
}

const char *name_of_verdict(uint32_t verdict)
{
    switch (verdict) {
    case TENON_CANDIDATE_LOADED: return "loaded";
    case TENON_CANDIDATE_REFUSED: return "refused";
    default: return "skipped";
    }
}

const char *name_of_device_kind(uint32_t kind)
{
    switch (kind) {
    case TENON_DEVICE_CPU: return "cpu";
    case TENON_DEVICE_DISCRETE: return "discrete";
    case TENON_DEVICE_INTEGRATED: return "integrated";
    case TENON_DEVICE_VIRTUAL: return "virtual";
    case TENON_DEVICE_SOFTWARE: return "software";
    case TENON_DEVICE_NPU: return "npu";
    default: return "unknown";
    }
}

const char *name_of_mode(uint32_t mode)
{
    switch (mode) {
    case TENON_MODE_PIN: return "pin";
    case TENON_MODE_PREFER: return "prefer";
    default: return "auto";
    }
}
