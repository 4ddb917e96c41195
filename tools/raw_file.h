/* Raw input files of a size that is known beforehand. */
#ifndef TENON_TOOLS_RAW_FILE_H
#define TENON_TOOLS_RAW_FILE_H

#include <stdint.h>

/* Reads a regular file of exactly wanted bytes into memory that the caller frees. NULL, having said
 * why, when it is missing, of another size (both sizes are named), or memory is out; *status then
 * holds the exit code. what says whose it is: "--weights". */
void *raw_file_read(const char *what, const char *path, uint64_t wanted, int *status);

#endif
