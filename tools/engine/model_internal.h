/* Shared by the files of the model reader; not for others. */
#ifndef TENON_TOOLS_ENGINE_MODEL_INTERNAL_H
#define TENON_TOOLS_ENGINE_MODEL_INTERNAL_H

#include "model.h"

/* Finds the family and reads the numbers that all families have. False with *fault. */
bool model_read_numbers(model *self, const model_source *source, engine_fault *fault);

#endif
