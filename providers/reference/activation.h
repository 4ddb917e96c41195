/* The activations of gated layers, SPEC.md 2.4. [any thread] */
#ifndef TENON_REFERENCE_ACTIVATION_H
#define TENON_REFERENCE_ACTIVATION_H

#include <stdint.h>

/* activation: TENON_ACT_*. */
float reference_activate(uint32_t activation, float x);

#endif
