/* The two halves of `tenon inspect`, by kind of file. Each returns an exit code. */
#ifndef TENON_TOOLS_INSPECT_H
#define TENON_TOOLS_INSPECT_H

#include "options.h"

int inspect_model(const options *parsed, const char *path, bool check_data);
int inspect_provider(const options *parsed, const char *path);

#endif
