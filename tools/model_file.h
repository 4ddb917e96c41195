/* A GGUF file as the engine's source of a model. */
#ifndef TENON_TOOLS_MODEL_FILE_H
#define TENON_TOOLS_MODEL_FILE_H

#include "engine/model.h"
#include "gguf.h"

/* Fills *out with functions over file, which must outlive it. */
void model_file_source(const gguf *file, model_source *out);

/* Looks for the tensor that logits which are not finite may come from: the first whose scales are
 * not. True and *error names it and the block. Reads the whole file. */
bool model_file_find_bad(const gguf *file, gguf_error *error);

#endif
