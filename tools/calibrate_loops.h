/* The measured loops, one set per instruction-set level. */
#ifndef TENON_TOOLS_CALIBRATE_LOOPS_H
#define TENON_TOOLS_CALIBRATE_LOOPS_H

#include <stdint.h>

/* Runs rounds of a loop over registers and returns the operations done. */
typedef double (*compute_loop)(uint64_t rounds);
/* Reads all bytes (a multiple of 64 KiB) and returns something that depends on them. */
typedef uint64_t (*read_loop)(const uint8_t *from, uint64_t bytes);

typedef struct compute_loops {
    const char *level;
    const char *int8_instruction, *f32_instruction;
    compute_loop int8, f32;
} compute_loops;

typedef struct read_loops {
    const char *name;
    read_loop run;
} read_loops;

/* The set of a level, or of the best one below it that this processor has. */
const compute_loops *calibrate_compute(const char *level);
/* The reading loops that this processor can run, ended by a NULL name. */
const read_loops *calibrate_read(void);

#endif
