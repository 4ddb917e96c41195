/* What this machine can do, measured: the limits that results of the benchmark are compared with.
 *
 * Only figures of the same minute mean anything on a machine that is shared, so they are taken in
 * the same run as the results. */
#ifndef TENON_TOOLS_CALIBRATE_H
#define TENON_TOOLS_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct calibration {
    double read_gbps;  /* memory read, best of a few loops, 10^9 bytes per second */
    double int8_gops;  /* int8 products and sums in registers, 10^9 operations per second */
    double f32_gflops; /* float multiply-adds in registers, 10^9 operations per second */
    const char *int8_instruction; /* what int8_gops was measured with, static storage */
    const char *f32_instruction;
    const char *read_loop;
} calibration;

/* Measures for a number of threads at once and an instruction-set level ("avx512vnni", "avx512",
 * "avx2", anything else: portable). A level that this processor lacks is measured as the best it
 * has below it. Takes about half a second; the memory figure of a thread count is measured once.
 * False, having said why, when memory or threads cannot be had. */
bool calibrate(const char *level, uint32_t threads, calibration *out);

/* Bytes of the last-level cache, 32 MiB where the system does not tell. */
uint64_t calibrate_cache_bytes(void);

/* Seconds on a clock that only goes forward. */
double calibrate_seconds(void);

#endif
